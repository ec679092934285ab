package main

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence"
	"github.com/pyrula/pyrula-node/pyrula"
)

// The exit codes of all commands (P65). Scripts rely on them: they are only added
// to.
const (
	exitOK          = 0
	exitOther       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitFailed      = 5
	exitCancelled   = 6
	exitTimedOut    = 7
	exitUnreachable = 9
	exitInterrupted = 130
)

// errTimedOut says that the time is over for which a command was to wait.
var errTimedOut = errors.New("timed out waiting")

// exit is one row of the table.
type exit struct {
	code    int
	word    string // the code of a problem document that the program makes itself
	meaning string
	means   func(error) bool
}

// exits is THE table of exit codes. The first row that knows an error counts.
var exits = []exit{
	{exitOK, "ok", "ok", func(err error) bool { return err == nil }},
	{exitInterrupted, "interrupted", "interrupted by a signal", anyOf(errInterrupted, context.Canceled)},
	{exitFailed, "run_failed", "the run failed", isType[*pyrula.RunFailed]},
	{exitCancelled, "run_cancelled", "the run was cancelled or terminated", anyOf(pyrula.ErrRunCancelled, pyrula.ErrRunTerminated)},
	{exitTimedOut, "timed_out", "timed out waiting", anyOf(errTimedOut, context.DeadlineExceeded)},
	{exitNotFound, "not_found", "not found", anyOf(pyrula.ErrUnknownRun, pyrula.ErrUnknownWorkflow, pyrula.ErrUnknownSchedule, pyrula.ErrNotFound)},
	{exitConflict, "conflict", "conflict: what is there doesn't allow it", anyOf(
		pyrula.ErrStaleFence, pyrula.ErrRunEnded, pyrula.ErrRunNotEnded, pyrula.ErrNotDeclared, pyrula.ErrStepConflict, pyrula.ErrHistoryTooLarge)},
	{exitUsage, "usage_error", "configuration or usage error", func(err error) bool {
		return isType[*usageError](err) || isType[*persistence.MismatchError](err) ||
			anyOf(pyrula.ErrConfiguration, pyrula.ErrInvalid, pyrula.ErrTooLarge)(err)
	}},
	{exitUnreachable, "unreachable", "no server, or it can't take this now; the same command again is safe", anyOf(
		pyrula.ErrUnreachable, pyrula.ErrNotReady, pyrula.ErrServerBusy, pyrula.ErrOverloaded, pyrula.ErrArchiveBehind, pyrula.ErrBufferFull,
		pyrula.ErrOutcomeUnknown)},
	{exitOther, "failure", "any other failure", func(error) bool { return true }},
}

func anyOf(sentinels ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(err, s) })
	}
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// exitOf is the row of an error; the last row knows every error.
func exitOf(err error) exit {
	return exits[slices.IndexFunc(exits, func(e exit) bool { return e.means(err) })]
}

// exitCode is the exit code of an error; 0 for nil.
func exitCode(err error) int { return exitOf(err).code }

// problemOf is an error as a problem document: the node's own, or one that says the
// same about an error that no node has answered.
func problemOf(err error) wire.Problem {
	if refused, ok := errors.AsType[*pyrula.APIError](err); ok && refused.Problem.Code != "" {
		return refused.Problem
	}
	e := exitOf(err)
	out := wire.Problem{
		Type: "about:blank", Title: e.meaning, Code: e.word, Detail: plain(err.Error()),
		Retryable: e.code == exitUnreachable,
	}
	if refused, ok := errors.AsType[*pyrula.APIError](err); ok {
		out.Status, out.Title = refused.Problem.Status, http.StatusText(refused.Problem.Status)
	}
	return out
}
