package pyrula

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Step runs fn once and records its result with the run: when the body is run again,
// after a suspension, a lost worker or a failed attempt, Step returns what is recorded
// and fn isn't called. fn may run again only if its worker was lost before the result was
// on disk; from then on it never does.
//
// A step is known by its name (at most 128 bytes) and by how often the body has called
// that name before, so a loop may call it again and again. T must encode as JSON and read
// back; what doesn't encode is an error of the attempt.
//
// When fn fails, its error is returned and nothing is recorded: the next attempt of the
// run tries the step again. But when the body goes on to another durable operation, the
// failure is what the step came to, and is recorded: later runs of the body are given a
// *[StepError].
//
// Durable operations are called one after another, from the goroutine that the worker
// called the body in. What a body does between them must depend on nothing but its
// parameters and what they returned; otherwise the run fails with the type
// "nondeterministic", and the message names the step. Errors beside those of fn: the
// context's cause when the body should stop.
func Step[T any](r *Run, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if !flow.ValidName(name) {
		return none, Permanent(fmt.Errorf("%w: a step's name must be %s", ErrInvalid, flow.NameRule))
	}
	id, known, err := r.ops.begin(opStep, name)
	if err != nil {
		return none, err
	}
	if known != nil {
		return stepResult[T](known)
	}
	out, err := fn(r)
	if err != nil {
		r.ops.fail(id, err)
		return out, err
	}
	raw, err := encodeResult(out)
	if err != nil {
		return none, Permanent(fmt.Errorf("%s: %w", id, err))
	}
	if _, err := r.ops.record(wire.Steps{Steps: []wire.Step{{Name: name, Visit: id.visit, Result: raw}}}); err != nil {
		return none, fmt.Errorf("record %s: %w", id, err)
	}
	return out, nil
}

func stepResult[T any](known *recorded) (T, error) {
	var out T
	if e := known.step.Error; e != nil {
		return out, &StepError{Name: known.name, Type: e.Type, Message: e.Message}
	}
	if err := json.Unmarshal(known.step.Result, &out); err != nil {
		return out, Permanent(fmt.Errorf("decode the recorded result of %s into %T: %w", known.opID, out, err))
	}
	return out, nil
}

// StepError is the recorded failure of a step, or of a start of children, behind which
// the body went on in an earlier run of it.
type StepError struct {
	Name    string
	Type    string // "error", or what a *[RunFailed] chose
	Message string
}

// Error is what the step's error was.
func (e *StepError) Error() string { return e.Message }

// fail remembers a failure; it is recorded when the body goes on.
func (o *operations) fail(id opID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = &wire.Step{Name: id.failureName(), Visit: id.visit, Error: failureOf(err)}
}

func failureOf(err error) *wire.RunError {
	e := &wire.RunError{Type: typeError, Message: err.Error()}
	if chosen, ok := errors.AsType[*RunFailed](err); ok && chosen.Type != "" {
		e.Type, e.Message = chosen.Type, chosen.Message
	}
	e.Type, e.Message = cut(e.Type, flow.MaxErrorTypeBytes), cut(e.Message, flow.MaxErrorMessageBytes)
	return e
}

// failureName is the name under which the failure of an operation is recorded: of a step
// its own, of a start of children one that says so.
func (id opID) failureName() string {
	if id.kind == opStep {
		return id.name
	}
	return cut("start of "+id.name, flow.MaxNameBytes)
}

// isFailureOf says whether the entry is the failure of an operation that isn't a step.
func (r *recorded) isFailureOf(id opID) bool {
	return id.kind == opChildren && r.step != nil && r.step.Error != nil &&
		r.name == id.failureName() && r.visit == id.visit
}
