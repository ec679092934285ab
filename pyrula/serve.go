package pyrula

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// The types of failures that the worker itself reports.
const (
	typeError  = "error"        // the body returned an error that isn't a *RunFailed
	typePanic  = "panic"        // the body panicked, or ended its goroutine
	typeParams = "params_error" // the params don't decode into the workflow's In
	typeResult = "result_error" // the result doesn't encode, or is over its bound
	// typeNondeterministic is the failure of a body that doesn't do again what it has
	// recorded.
	typeNondeterministic = "nondeterministic"
)

// outcome is what came of a hold: a result, an error, or a body that never started.
type outcome struct {
	result     json.RawMessage
	err        error
	failure    string // type of the failure, when err's own is not to be looked for
	notStarted bool
}

// serve works on one hold. Its deferred call also runs when the body ends its
// goroutine, so no hold is left behind.
func (s *shift) serve(h *hold) {
	out := outcome{err: errors.New("the body ended its goroutine"), failure: typePanic}
	defer func() { s.finish(h, out) }()
	out = s.execute(h)
}

// execute decodes the parameters, makes sure of the lease, and runs the body. A
// panic is an error of the body: it is the user's code, not our state, and the next
// attempt may fare better.
func (s *shift) execute(h *hold) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = outcome{err: fmt.Errorf("%v", p), failure: typePanic}
			h.run.Log.Error("the body panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	body, err := h.def.prepare(h.params)
	if err != nil {
		return outcome{err: Permanent(err), failure: typeParams}
	}
	if err := h.run.ops.fetch(h.rest); err != nil {
		return outcome{err: err, notStarted: h.run.Err() != nil}
	}
	if !s.mayStart(h) {
		return outcome{notStarted: true}
	}
	result, err := body(h.run)
	if err == nil {
		if left := h.run.ops.unfinished(); left != nil {
			return outcome{err: Permanent(left), failure: typeNondeterministic}
		}
	}
	if errors.Is(err, errResult) {
		return outcome{err: Permanent(err), failure: typeResult}
	}
	return outcome{result: result, err: err}
}

// mayStart is the last thing before a body: it looks at the clock, and when more
// than a third of the lease has passed it waits for a confirmed heartbeat, which is
// due by then (R1). A process that was stopped with a grant in its socket wakes up
// here.
func (s *shift) mayStart(h *hold) bool {
	for !s.draining.Load() {
		switch h.lease.trust() {
		case trustFresh:
			return true
		case trustOver:
			return false
		case trustStale:
			<-h.lease.changed
		}
	}
	return false
}

// finish tells the node what came of a hold, and lets it go.
func (s *shift) finish(h *hold, out outcome) {
	suspension, broken := h.run.ops.close()
	switch {
	case out.notStarted:
		s.handBack(h)
	case !h.lease.held():
		h.run.Log.Warn("the lease was lost, so the body's end is not reported", "fence", h.run.Fence, "err", out.err)
	case broken != nil:
		s.fail(h, outcome{err: Permanent(broken), failure: typeNondeterministic})
	case suspension != nil:
		s.suspend(h, *suspension)
	case out.err == nil:
		s.reports.add(&report{h: h, result: out.result})
		return // the report lets go
	case errors.Is(context.Cause(h.run), ErrDraining) && !isPermanent(out.err):
		s.handBack(h)
	default:
		s.fail(h, out)
	}
	s.letGo(h)
	s.slots.give(1)
}

func isPermanent(err error) bool {
	_, ok := errors.AsType[*permanent](err)
	return ok
}

// fail reports a failed attempt.
func (s *shift) fail(h *hold, out outcome) {
	failure := failureOf(out.err)
	if out.failure != "" {
		failure.Type = out.failure
	}
	body := wire.Fail{Fence: h.run.Fence, Error: *failure, Retryable: !isPermanent(out.err)}
	s.tell(h, "fail", body)
}

// handBack returns a run that this worker doesn't finish. It is queued again at its
// old place and uses no attempt.
func (s *shift) handBack(h *hold) {
	if h.mayHandBack() {
		s.tell(h, "suspend", wire.Suspend{Fence: h.run.Fence, Until: wire.Until{AtMS: new(int64(0))}})
	}
}

// suspend tells the node what the run waits for. While there is work at hand the request
// also claims a run for the place that is free now; a repeat claims nothing, since the
// claim may be why the node couldn't take it.
func (s *shift) suspend(h *hold, body wire.Suspend) {
	at := path(wire.PathRuns, h.run.ID, "suspend")
	if s.mayCarry() {
		body.Claim = s.claimOf(1, 0)
	}
	sent := s.w.now() // before the request leaves: leases of the granted runs count from here (R1)
	var out wire.Ended
	err := s.send(s.base, at, body, &out)
	if retryable(err) && pause(s.base, max(backoff(0, backoffMax), retryAfter(err))) == nil {
		body.Claim = nil
		err = s.insist(s.base, h, &request{method: http.MethodPost, path: at, body: body}, &out)
	}
	switch {
	case err == nil && out.Runs != nil:
		s.dry.Store(len(*out.Runs) == 0)
		s.slots.give(-s.adopt(*out.Runs, sent))
	case err == nil:
	case errors.Is(err, ErrInvalid) || errors.Is(err, ErrStepConflict):
		// The node counts other operations than the body.
		s.fail(h, outcome{err: Permanent(err), failure: typeNondeterministic})
	case isRefusal(err) && h.lease.held():
		s.fail(h, outcome{err: fmt.Errorf("suspend: %w", err)})
	default:
		h.run.Log.Warn("the node didn't take the run's suspension", "fence", h.run.Fence, "err", err)
	}
}

// isRefusal says whether an error is a node's answer that a repeat won't change.
func isRefusal(err error) bool {
	_, answered := errors.AsType[*APIError](err)
	return answered && !retryable(err) && !errors.Is(err, ErrStaleFence) && !errors.Is(err, ErrRunEnded) && !errors.Is(err, ErrUnknownRun)
}

// tell sends the end of a hold and repeats it until it is taken, refused, or the
// lease is over. The fence makes repeats harmless.
func (s *shift) tell(h *hold, verb string, body any) {
	for n := 0; ; n++ {
		err := s.send(s.base, path(wire.PathRuns, h.run.ID, verb), body, nil)
		switch {
		case err == nil:
			return
		case !retryable(err) || !h.lease.held():
			h.run.Log.Warn("the node didn't take the run's end", "end", verb, "fence", h.run.Fence, "err", err)
			return
		case pause(s.base, max(backoff(n, backoffMax), retryAfter(err))) != nil:
			return
		}
	}
}

// cut is text as UTF-8, at most most bytes of it.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
