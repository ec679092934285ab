package pyrula

import (
	"errors"
	"fmt"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Sentinels for what a node refuses, one for each code of a problem document.
// Match them with errors.Is; the document itself is in *[APIError].
var (
	// ErrConfiguration says that a declaration, a policy or a key is wrong: refused by
	// the node, or found before anything was sent (P57, P60). A retry fails again.
	ErrConfiguration = errors.New("configuration error")
	// ErrInvalid says that an argument is wrong. A retry fails again.
	ErrInvalid = errors.New("invalid argument")
	// ErrUnknownField says that the node doesn't know a field: it is older than this SDK.
	ErrUnknownField = errors.New("unknown field")
	// ErrMalformed says that a body isn't JSON of the right shape.
	ErrMalformed = errors.New("malformed body")
	// ErrTooLarge says that a body is over its bound.
	ErrTooLarge = errors.New("body too large")
	// ErrUnknownRun says that no run has the id.
	ErrUnknownRun = errors.New("unknown run")
	// ErrUnknownWorkflow says that no workflow of the name was ever declared.
	ErrUnknownWorkflow = errors.New("unknown workflow")
	// ErrNotFound says that the node serves no such path: it is another server, or
	// older than this SDK.
	ErrNotFound = errors.New("not found")
	// ErrMethod says that the path doesn't take the method.
	ErrMethod = errors.New("method not allowed")
	// ErrNotDeclared says that a worker claims with a version that was never declared.
	ErrNotDeclared = errors.New("this version was never declared")
	// ErrStaleFence says that the sender doesn't hold the run any more (P51).
	ErrStaleFence = errors.New("stale fence")
	// ErrRunEnded says that the run has ended and takes no such message any more.
	ErrRunEnded = errors.New("run has ended")
	// ErrBufferFull says that the open batch of an event's key has no room for it (P70).
	// Nothing happened. [APIError.RetryAfter] is the time until the batch fires; of one that
	// is due and waits for a worker, when to look again.
	ErrBufferFull = errors.New("event buffer is full")
	// ErrOverloaded says that the node refuses new work for now. Nothing happened.
	ErrOverloaded = errors.New("overloaded")
	// ErrRunNotEnded says that the run goes on, and only an ended one can be retried.
	ErrRunNotEnded = errors.New("run has not ended")
	// ErrStepConflict says that the same call of the body has recorded something else
	// before.
	ErrStepConflict = errors.New("step is recorded otherwise")
	// ErrHistoryTooLarge says that the run keeps as much as a run may keep.
	ErrHistoryTooLarge = errors.New("history is too large")
	// ErrUnknownSchedule says that no schedule has the name.
	ErrUnknownSchedule = errors.New("unknown schedule")
	// ErrArchiveBehind says that too many ended runs wait for the node's disk, so that
	// it takes no new ones for now. Nothing happened.
	ErrArchiveBehind = errors.New("archive is behind")
	// ErrNotReady says that the node hasn't replayed its log yet. Nothing happened.
	ErrNotReady = errors.New("not ready")
	// ErrOutcomeUnknown says that the node can't tell whether the request happened.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnsupported says that the node knows what is asked and doesn't serve it.
	ErrUnsupported = errors.New("not supported")
	// ErrMediaType says that the node doesn't read the body's media type.
	ErrMediaType = errors.New("unsupported media type")
	// ErrServerBusy says that the node serves too many requests at once. Nothing happened.
	ErrServerBusy = errors.New("server busy")
	// ErrCrossOrigin says that the node takes the request for one of a web page.
	ErrCrossOrigin = errors.New("cross-origin request")
	// ErrHost says that the node doesn't answer to the host name in its address.
	ErrHost = errors.New("misdirected request")
	// ErrInternal says that the node has met a fault of its own.
	ErrInternal = errors.New("internal error")
)

// Sentinels that this package makes itself.
var (
	// ErrUnreachable says that no answer came: nobody listens, the connection broke, or
	// the request took too long. The request may have happened; this package makes
	// repeats safe.
	ErrUnreachable = errors.New("node unreachable")
	// ErrBadAnswer says that an answer isn't what the API promises.
	ErrBadAnswer = errors.New("unreadable answer")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("client is closed")
	// ErrRunCancelled says that the awaited run ended cancelled: it has no result.
	ErrRunCancelled = errors.New("run was cancelled")
	// ErrRunTerminated says that the awaited run was terminated: it has no result.
	ErrRunTerminated = errors.New("run was terminated")
	// ErrSignalTimeout says that no signal came in the time that a body waits for one.
	ErrSignalTimeout = errors.New("no signal came in time")
	// ErrNondeterministic says that a body doesn't do again what it has recorded, so that
	// the run can't go on: it fails, and no attempt is tried again. The error's text names
	// the step.
	ErrNondeterministic = errors.New("the body doesn't match its history")
	// ErrDrainTimeout says that bodies ignored their ended context when a worker
	// drained. Their runs go to other workers when their leases have run out.
	ErrDrainTimeout = errors.New("drain timed out")
)

// Causes of an ended [Run] context, as context.Cause tells them.
var (
	// ErrCancelRequested says that somebody asked for the run's end. What the body
	// returns is reported, and the node decides what the run ended as (P63).
	ErrCancelRequested = errors.New("cancel requested")
	// ErrLeaseLost says that the worker doesn't hold the run any more, or can't be sure
	// that it does. What the body returns is not reported; another worker may already
	// have the run.
	ErrLeaseLost = errors.New("lease lost")
	// ErrSuspended says that the body's goroutine ends for a durable wait. What it still
	// returns is dropped; it is run again when the wait is over.
	ErrSuspended = errors.New("suspended")
	// ErrDraining says that the worker stops and its drain timeout is over. An error
	// that the body then returns hands the run back and uses no attempt.
	ErrDraining = errors.New("worker is draining")
)

// APIError is a request that the node refused. It unwraps to the sentinel of its
// code, so errors.Is(err, ErrStaleFence) works; the problem document has the facts.
type APIError struct {
	Problem wire.Problem // RFC 9457; Status is the HTTP status
}

// Error is "stale_fence: detail".
func (e *APIError) Error() string {
	p := &e.Problem
	switch {
	case p.Code == "":
		return fmt.Sprintf("HTTP status %d without a problem document", p.Status)
	case p.Detail == "":
		return p.Code
	}
	return p.Error()
}

// Unwrap is the sentinel of the problem's code; nil for a code that this SDK is too
// old to know.
func (e *APIError) Unwrap() error {
	if e.Problem.Code != "" {
		return sentinelOf(e.Problem.Code)
	}
	return sentinelOfStatus(e.Problem.Status)
}

// RetryAfter is how long the node asks to wait before a repeat; zero when it
// doesn't say.
func (e *APIError) RetryAfter() time.Duration {
	return time.Duration(e.Problem.RetryAfterMS) * time.Millisecond
}

// sentinelOf pairs every code of package wire with a sentinel of this package.
func sentinelOf(code string) error {
	switch code {
	case wire.CodeConfiguration:
		return ErrConfiguration
	case wire.CodeInvalid:
		return ErrInvalid
	case wire.CodeUnknownField:
		return ErrUnknownField
	case wire.CodeMalformed:
		return ErrMalformed
	case wire.CodeTooLarge:
		return ErrTooLarge
	case wire.CodeUnknownRun:
		return ErrUnknownRun
	case wire.CodeUnknownWorkflow:
		return ErrUnknownWorkflow
	case wire.CodeNotFound:
		return ErrNotFound
	case wire.CodeMethod:
		return ErrMethod
	case wire.CodeNotDeclared:
		return ErrNotDeclared
	case wire.CodeStaleFence:
		return ErrStaleFence
	case wire.CodeRunEnded:
		return ErrRunEnded
	case wire.CodeRunNotEnded:
		return ErrRunNotEnded
	case wire.CodeStepConflict:
		return ErrStepConflict
	case wire.CodeHistoryTooLarge:
		return ErrHistoryTooLarge
	case wire.CodeUnknownSchedule:
		return ErrUnknownSchedule
	case wire.CodeBufferFull:
		return ErrBufferFull
	case wire.CodeOverloaded:
		return ErrOverloaded
	case wire.CodeArchiveBehind:
		return ErrArchiveBehind
	case wire.CodeNotReady:
		return ErrNotReady
	case wire.CodeOutcomeUnknown:
		return ErrOutcomeUnknown
	case wire.CodeNotSupported:
		return ErrUnsupported
	case wire.CodeMediaType:
		return ErrMediaType
	case wire.CodeServerBusy:
		return ErrServerBusy
	case wire.CodeCrossOrigin:
		return ErrCrossOrigin
	case wire.CodeHost:
		return ErrHost
	case wire.CodeInternal:
		return ErrInternal
	}
	return nil
}

// sentinelOfStatus reads an answer without a problem document: it comes from
// something between here and the node.
func sentinelOfStatus(status int) error {
	switch status {
	case 404:
		return ErrNotFound
	case 413:
		return ErrTooLarge
	case 429:
		return ErrOverloaded
	case 503:
		return ErrNotReady
	case 502, 504:
		return ErrUnreachable
	}
	return nil
}

// ConfigurationError is a wrong declaration or key that was found before anything
// was sent. It unwraps to [ErrConfiguration].
type ConfigurationError struct {
	Workflow string // as it was defined; may be what is wrong
	Field    string // as the wire names it: "limit.max"
	Want     string // what would be right
}

// Error is `configuration error: workflow "charge": limit.max must be ...`.
func (e *ConfigurationError) Error() string {
	return fmt.Sprintf("%v: workflow %q: %s %s", ErrConfiguration, e.Workflow, e.Field, e.Want)
}

// Unwrap is [ErrConfiguration].
func (e *ConfigurationError) Unwrap() error { return ErrConfiguration }

// misconfigured turns the error of a check in package flow into one of this
// package.
func misconfigured(workflow string, err error) error {
	if f, ok := errors.AsType[*flow.FieldError](err); ok {
		return &ConfigurationError{Workflow: workflow, Field: f.Field, Want: f.Want}
	}
	return err
}

// RunFailed is the end of a run whose body failed for good. Waiting for a result
// returns one. A body may return one to choose the type that its run fails with.
type RunFailed struct {
	RunID   string // empty in one that a body returns
	Type    string // at most 256 bytes: "error", "panic", or what the body chose
	Message string
}

// Error is "run run_... failed: type: message".
func (e *RunFailed) Error() string {
	if e.RunID == "" {
		return fmt.Sprintf("%s: %s", e.Type, e.Message)
	}
	return fmt.Sprintf("run %s failed: %s: %s", e.RunID, e.Type, e.Message)
}

// Permanent marks an error of a body: another attempt would fail too, so the run
// fails at once whatever attempts it has left. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ err error }

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }
