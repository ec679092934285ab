package transport

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// row is one code of the table of problems.
type row struct {
	code     string
	status   int
	title    string
	sentinel error // what a Node answers for it; nil when only this package refuses so
	retryMS  int64 // when the same request may be sent again; 0 when it mustn't be
	meaning  string
}

// table is THE list of problems: the only place that pairs codes, statuses and
// errors. Rows are only ever added. Where an error matches several sentinels the
// first row counts.
var table = []row{
	{
		code: wire.CodeStaleFence, status: 409, title: "Stale fence", sentinel: flow.ErrStaleFence,
		meaning: "The message speaks for a former holder of the run. Nothing changed. Stop the body of the run.",
	}, {
		code: wire.CodeRunEnded, status: 409, title: "Run has ended", sentinel: flow.ErrRunEnded,
		meaning: "The run has ended and takes no such message any more. Nothing changed.",
	}, {
		code: wire.CodeRunNotEnded, status: 409, title: "Run has not ended", sentinel: flow.ErrRunNotEnded,
		meaning: "Only a run that has ended can be retried by hand. Wait for its end, or cancel or terminate it first. Nothing changed.",
	}, {
		code: wire.CodeStepConflict, status: 409, title: "Step is recorded otherwise", sentinel: flow.ErrStepConflict,
		meaning: "The same call of the body, by name and visit, has recorded or started something else before. " +
			"Give each call of a name its own visit, and let a body that is run again do the same as before. Nothing changed.",
	}, {
		code: wire.CodeHistoryTooLarge, status: 409, title: "History is too large", sentinel: flow.ErrHistoryTooLarge,
		meaning: "The run keeps as much as a run may keep, so it takes no more signals until its body has handled some. " +
			"Find out with runs why what the body waits for. Nothing changed.",
	}, {
		code: wire.CodeUnknownSchedule, status: 404, title: "Unknown schedule", sentinel: flow.ErrUnknownSchedule,
		meaning: "No schedule has the name; GET /v1/schedules lists all.",
	}, {
		code: wire.CodeUnknownRun, status: 404, title: "Unknown run", sentinel: flow.ErrUnknownRun,
		meaning: "No run has the id.",
	}, {
		code: wire.CodeUnknownWorkflow, status: 404, title: "Unknown workflow", sentinel: flow.ErrUnknownWorkflow,
		meaning: "No workflow of the name was ever declared.",
	}, {
		code: wire.CodeNotDeclared, status: 409, title: "Version not declared", sentinel: flow.ErrNotDeclared,
		meaning: "A worker claims with a version, or with gates, that were never declared. Declare the workflow first.",
	}, {
		code: wire.CodeBufferFull, status: 429, title: "Event buffer is full", sentinel: flow.ErrBufferFull, retryMS: 1000,
		meaning: "The open batch of the event's key has no room for it: a batch holds at most 10000 events of 786432 bytes together. " +
			"Nothing happened, and the batch is as it was. Send the event again after retry_after_ms, when the batch's time has come.",
	}, {
		code: wire.CodeOverloaded, status: 429, title: "Overloaded", sentinel: flow.ErrOverloaded, retryMS: 1000,
		meaning: "A bound is reached and new work is refused. Nothing happened. Send the request again after retry_after_ms.",
	}, {
		code: wire.CodeArchiveBehind, status: 429, title: "Archive is behind", sentinel: flow.ErrArchiveBehind, retryMS: 1000,
		meaning: "Too many runs that have ended wait in memory for the disk, so no new ones are taken. Nothing happened. " +
			"Send the request again after retry_after_ms.",
	}, {
		code: wire.CodeNotReady, status: 503, title: "Not ready", sentinel: flow.ErrNotReady, retryMS: 1000,
		meaning: "The node reads its journal back, has lost it, or is shutting down. Nothing happened.",
	}, {
		code: wire.CodeOutcomeUnknown, status: 503, title: "Outcome unknown", sentinel: flow.ErrOutcomeUnknown, retryMS: 200,
		meaning: "The request was interrupted: it may or may not have happened. Sending it again is safe with the same " +
			"idempotency_key or request_id, and always for messages that carry a fence.",
	}, {
		code: wire.CodeNotSupported, status: 501, title: "Not supported", sentinel: flow.ErrUnsupported,
		meaning: "The API has this and this version doesn't serve it. Nothing happened.",
	}, {
		code: wire.CodeConfiguration, status: 400, title: "Configuration error", sentinel: flow.ErrConfiguration,
		meaning: "A declaration or a key can't be right as it stands: field says where, detail what would be right.",
	}, {
		code: wire.CodeInvalid, status: 422, title: "Invalid argument", sentinel: flow.ErrInvalid,
		meaning: "A value of the request is refused: field says which, detail what would be right. Nothing happened.",
	}, {
		code: wire.CodeUnknownField, status: 422, title: "Unknown field",
		meaning: "The request has a field that the API doesn't know. Nothing is ever ignored. Nothing happened.",
	}, {
		code: wire.CodeMalformed, status: 400, title: "Malformed body",
		meaning: "The body is missing, is not JSON or not UTF-8: detail says at which byte. Nothing happened.",
	}, {
		code: wire.CodeTooLarge, status: 413, title: "Body too large",
		meaning: "A body is at most 1048576 bytes. Nothing happened.",
	}, {
		code: wire.CodeMediaType, status: 415, title: "Unsupported media type",
		meaning: "Bodies are application/json without a content encoding; events may also be CloudEvents as JSON, or NDJSON. Nothing happened.",
	}, {
		code: wire.CodeNotFound, status: 404, title: "Not found",
		meaning: "The API has no such path; GET /openapi.json lists all.",
	}, {
		code: wire.CodeMethod, status: 405, title: "Method not allowed",
		meaning: "The path is known and takes other methods: the header Allow lists them.",
	}, {
		code: wire.CodeServerBusy, status: 503, title: "Server busy", retryMS: 1000,
		meaning: "Too many requests are under way at once. Nothing happened.",
	}, {
		code: wire.CodeCrossOrigin, status: 403, title: "Cross-origin request",
		meaning: "A browser sent the request for a page of another origin. Nothing happened.",
	}, {
		code: wire.CodeHost, status: 421, title: "Misdirected request",
		meaning: "The header Host names another machine, as when a web page rebinds its name to this address. " +
			"Use localhost or an IP address, or configure the name. Nothing happened.",
	}, {
		code: wire.CodeInternal, status: 500, title: "Internal error",
		meaning: "Something unforeseen went wrong; the node's log says what. It may or may not have happened.",
	},
}

func rowOf(code string) *row {
	i := slices.IndexFunc(table, func(r row) bool { return r.code == code })
	if i < 0 {
		return nil
	}
	return &table[i]
}

// problem makes the document of a code. A code that isn't in the table is a
// programmer's error.
func problem(code, detail string) *wire.Problem {
	r := rowOf(code)
	return &wire.Problem{
		Type: wire.PathProblems + "/" + r.code, Title: r.title, Status: r.status, Detail: detail,
		Code: r.code, Retryable: r.retryMS > 0, RetryAfterMS: r.retryMS,
	}
}

// fieldProblem is a problem about one field.
func fieldProblem(code, field, want string) *wire.Problem {
	p := problem(code, field+" "+want)
	p.Field = field
	return p
}

// ProblemOf is the document of an error: that of a *wire.Problem, which needs no
// more than its code, else the first
// row of the table whose sentinel the error is, else "internal" with no detail.
// Log an internal one: it is the only trace of the error. A nil error has no
// problem.
func ProblemOf(err error) *wire.Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		return completed(p)
	}
	if f, ok := errors.AsType[*flow.FieldError](err); ok {
		return problemOfField(f)
	}
	if full, ok := errors.AsType[*flow.BufferFull](err); ok {
		return problemOfFull(full)
	}
	if errors.Is(err, flow.ErrBadRunID) {
		// Without the package's name: a person reads it.
		what := strings.TrimPrefix(flow.ErrBadRunID.Error(), "flow: ")
		return problem(wire.CodeUnknownRun, strings.TrimSuffix(err.Error(), flow.ErrBadRunID.Error())+what)
	}
	for _, r := range table {
		if r.sentinel != nil && errors.Is(err, r.sentinel) {
			return problem(r.code, err.Error())
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problem(wire.CodeOutcomeUnknown, "the request was interrupted")
	}
	return problem(wire.CodeInternal, "")
}

// completed fills in what the table knows of a problem that a Node made. A code
// that isn't in the table says nothing to a client.
func completed(p *wire.Problem) *wire.Problem {
	if rowOf(p.Code) == nil {
		return problem(wire.CodeInternal, "")
	}
	full := *p
	row := problem(p.Code, p.Detail)
	full.Type, full.Title, full.Status, full.Retryable = row.Type, row.Title, row.Status, row.Retryable
	full.RetryAfterMS = cmp.Or(p.RetryAfterMS, row.RetryAfterMS)
	return &full
}

// problemOfField keeps the field apart. A field that a declaration may not use yet
// is configuration like any other.
func problemOfField(f *flow.FieldError) *wire.Problem {
	if errors.Is(f.Kind, flow.ErrInvalid) {
		return fieldProblem(wire.CodeInvalid, f.Field, f.Want)
	}
	return fieldProblem(wire.CodeConfiguration, f.Field, f.Want)
}

// minRetryMS is the least that the sender of a refused event is told to wait.
const minRetryMS = 100

// problemOfFull says when the batch's time comes. Where it has passed the batch waits for
// a worker, and the table says when to look again.
func problemOfFull(full *flow.BufferFull) *wire.Problem {
	p := problem(wire.CodeBufferFull, full.Error())
	p.Key = full.Key.Value
	if full.Room > 0 {
		p.RetryAfterMS = max(full.Room.Millis(), minRetryMS)
	}
	return p
}

// Codes lists the codes of all problems, in the order of the table.
func Codes() []string {
	codes := make([]string, len(table))
	for i, r := range table {
		codes[i] = r.code
	}
	return codes
}

// Describe says what a code means. It is false for a code that doesn't exist.
func Describe(code string) (wire.ProblemType, bool) {
	r := rowOf(code)
	if r == nil {
		return wire.ProblemType{}, false
	}
	return wire.ProblemType{
		Code: r.code, Title: r.title, Status: r.status, Retryable: r.retryMS > 0, Meaning: r.meaning,
	}, true
}

// Sentinel is the error that a code stands for, so that a client of the HTTP API
// branches with errors.Is as the node does; nil for a code without one.
func Sentinel(code string) error {
	if r := rowOf(code); r != nil {
		return r.sentinel
	}
	return nil
}
