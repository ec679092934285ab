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
// back. What is returned is what is recorded, in the first run of the body too: a field
// that JSON leaves out is zero from the start.
//
// When fn fails, its error is returned and nothing is recorded: the next attempt of the
// run tries the step again. But when the body goes on to another durable operation, the
// failure is what the step came to, and is recorded: later runs of the body are given a
// *[StepError], with the same text. A panic of fn is a panic of the body.
//
// Durable operations are called one after another, from the goroutine that the worker
// called the body in, and none in fn. What a body does between them must depend on nothing
// but its parameters and what they returned; otherwise the run fails with the type
// "nondeterministic", and the message names the step.
//
// Errors beside those of fn: the context's cause when the body should stop, and
// [ErrHistoryTooLarge] when the run keeps too much and has failed for it.
func Step[T any](r *Run, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if !flow.ValidName(name) {
		return none, Permanent(fmt.Errorf("%w: a step's name must be %s", ErrInvalid, flow.NameRule))
	}
	call := func() (json.RawMessage, error) {
		out, err := fn(r)
		if err != nil {
			return nil, err
		}
		return encodeStep(out)
	}
	raw, err := r.step(name, call)
	if err != nil {
		return none, err
	}
	var out T
	if err := json.Unmarshal(raw, &out); err != nil {
		return none, Permanent(fmt.Errorf("decode the recorded result of step %q into %T: %w", name, out, err))
	}
	return out, nil
}

// encodeStep encodes a step's result. What doesn't read back would fail every later run
// of the body, so it is refused before it is recorded.
func encodeStep[T any](out T) (json.RawMessage, error) {
	raw, err := encodeResult(out)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, new(T)); err != nil {
		return nil, fmt.Errorf("%w: it doesn't read back: %w", errResult, err)
	}
	return raw, nil
}

// step is Step with the result's type taken off.
func (r *Run) step(name string, call func() (json.RawMessage, error)) (json.RawMessage, error) {
	o := r.ops
	id, known, err := o.begin(opStep, name)
	if err != nil {
		return nil, err
	}
	defer o.end()
	if known != nil {
		if e := known.step.Error; e != nil {
			return nil, &StepError{Name: name, Type: e.Type, Message: e.Message}
		}
		return known.step.Result, nil
	}
	raw, err := o.guard(id, call)
	if errors.Is(err, errResult) {
		err = Permanent(fmt.Errorf("%s: %w", id, err))
	}
	if err != nil {
		o.fail(id, err)
		return nil, err
	}
	if _, err := o.record(wire.Steps{Steps: []wire.Step{{Name: name, Visit: id.visit, Result: raw}}}); err != nil {
		return nil, fmt.Errorf("record %s: %w", id, err)
	}
	return raw, nil
}

// guard calls a step's function. One that panics is called again by the next attempt, so
// this one can't go on, whatever the body recovers from.
func (o *operations) guard(id opID, call func() (json.RawMessage, error)) (json.RawMessage, error) {
	returned := false
	defer func() {
		if !returned {
			o.bar(fmt.Errorf("the function of %s has panicked", id))
		}
	}()
	raw, err := call()
	returned = true
	return raw, err
}

// StepError is the recorded failure of a step, or of a start of children, behind which
// the body went on in an earlier run of it. Whether it was [Permanent] isn't kept: a body
// that returns one later is tried again while attempts are left.
type StepError struct {
	Name    string
	Type    string // "error", or what a *[RunFailed] chose
	Message string
}

// Error is the text of the error that the body was given then.
func (e *StepError) Error() string { return e.Message }

// Unwrap is a *[RunFailed] where the error was one, or wrapped one.
func (e *StepError) Unwrap() error {
	if e.Type == typeError {
		return nil
	}
	return &RunFailed{Type: e.Type, Message: e.Message}
}

// fail remembers a failure; it is recorded when the body goes on.
func (o *operations) fail(id opID, err error) {
	e := failureOf(err)
	e.Message = cut(err.Error(), flow.MaxErrorMessageBytes)
	o.failed = &wire.Step{Name: id.failureName(), Visit: id.visit, Error: e}
}

func failureOf(err error) *wire.RunError {
	e := &wire.RunError{Type: typeError, Message: err.Error()}
	chosen, ok := errors.AsType[*RunFailed](err)
	switch {
	case ok && chosen.Type != "":
		e.Type, e.Message = chosen.Type, chosen.Message
	case errors.Is(err, errResult):
		e.Type = typeResult
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
	const mark = " (start of a child)"
	return cut(id.name, flow.MaxNameBytes-len(mark)) + mark
}

// isFailureOf says whether the entry is the failure of an operation that isn't a step.
func (r *recorded) isFailureOf(id opID) bool {
	return id.kind == opChildren && r.step != nil && r.step.Error != nil &&
		r.name == id.failureName() && r.visit == id.visit
}
