package pyrula

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// Workflow is a named function with its policies. In is what a run takes, and must
// encode as a JSON object; Out is what it gives, any JSON. A Workflow is made by
// [Define] and never changes; it may be used by many goroutines and many clients.
type Workflow[In, Out any] struct {
	d    *definition
	keys resolver[In]
}

// Define declares a workflow in this program: its name (at most 128 bytes), the body
// that a worker runs, and its policies, each at most once.
//
// The body may run more than once for one run: after a lost worker, or after an
// error while attempts are left. It should stop when its *Run, which is a context,
// is done.
//
// Define never fails, so that workflows can be package variables. A wrong
// declaration is returned by everything that uses the workflow, [Client.Work],
// [Client.Declare], [Workflow.Start] and [Workflow.Err], as an error that matches
// [ErrConfiguration] (P57).
func Define[In, Out any](name string, body func(*Run, In) (Out, error), policies ...Policy) *Workflow[In, Out] {
	d := &definition{name: name, lease: time.Duration(flow.DefaultLease), input: reflect.TypeFor[In]()}
	w := &Workflow[In, Out]{d: d}
	d.err = d.apply(policies)
	if d.err == nil && body == nil {
		d.err = d.wrong("body", "must be a function")
	}
	if d.err != nil {
		return w
	}
	w.keys = resolver[In]{limit: keyOf[In](d.limitKey), rate: keyOf[In](d.rateKey)}
	d.keys = keysOf(d, w.keys)
	d.prepare = func(params json.RawMessage) (call, error) {
		var in In
		if err := json.Unmarshal(params, &in); err != nil {
			return nil, fmt.Errorf("decode params into %v: %w", d.input, err)
		}
		return func(r *Run) (json.RawMessage, error) {
			out, err := body(r, in)
			if err != nil {
				return nil, err
			}
			return encodeResult(out)
		}, nil
	}
	return w
}

func (w *Workflow[In, Out]) definition() *definition { return w.d }

// Name is the workflow's name.
func (w *Workflow[In, Out]) Name() string { return w.d.name }

// Err is the first fault of the declaration, or nil. It matches [ErrConfiguration].
func (w *Workflow[In, Out]) Err() error { return w.d.err }

// Start submits a run and returns as soon as the node has it durably; the run starts
// when its gates let it. A run that waits is never an error.
//
// The first Start of a workflow through a client asks whether the node knows it, and
// declares it if not: otherwise a program that is quicker than its workers would make
// runs without gates (P16, P22). A declaration that the node has is left alone.
//
// Errors match: [ErrConfiguration] when the declaration or a key function is wrong,
// [ErrInvalid] when in isn't a JSON object, and what the node refuses.
func (w *Workflow[In, Out]) Start(ctx context.Context, c *Client, in In, opts ...StartOption) (*Handle[Out], error) {
	sub, err := w.Submission(in, opts...)
	if err != nil {
		return nil, err
	}
	done, err := c.submit(ctx, sub)
	if err != nil {
		return nil, err
	}
	h := w.Handle(c, done.RunID)
	h.Created = done.Created
	return h, nil
}

// Run submits a run and waits for its result: [Workflow.Start], then
// [Handle.Result]. When ctx ends first, the run goes on without a listener.
func (w *Workflow[In, Out]) Run(ctx context.Context, c *Client, in In, opts ...StartOption) (Out, error) {
	h, err := w.Start(ctx, c, in, opts...)
	if err != nil {
		var none Out
		return none, err
	}
	return h.Result(ctx)
}

// Submission is one run for [Client.SubmitBatch], with its function keys resolved.
// Errors as of [Workflow.Start].
func (w *Workflow[In, Out]) Submission(in In, opts ...StartOption) (Submission, error) {
	if w.d.err != nil {
		return Submission{}, w.d.err
	}
	params, err := encodeParams(in)
	if err != nil {
		return Submission{}, fmt.Errorf("encode params of workflow %q: %w", w.d.name, err)
	}
	stamp, err := w.keys.stamp(w.d, in)
	if err != nil {
		return Submission{}, err
	}
	return Submission{Workflow: w.d.name, Params: params, Options: opts, d: w.d, stamp: stamp}, nil
}

// Handle names an existing run of this workflow, say by an id that was kept. It asks
// nobody whether the run exists.
func (w *Workflow[In, Out]) Handle(c *Client, runID string) *Handle[Out] {
	return &Handle[Out]{ID: runID, client: c}
}
