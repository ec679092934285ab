package pyrula

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Child is a run that a body has started.
type Child[Out any] struct {
	ID string // "run_..."
}

// StartChild starts a run of the workflow as a child of the run whose body calls it, once:
// a later run of the body is given the same child (R15). The child is stamped like every
// submit (P16), with function keys resolved here, and goes on whatever becomes of its
// parent, except that a cancel of a parent that waits for it reaches it too.
//
// Errors: those of [Workflow.Start], and the context's cause when the body should stop.
func (w *Workflow[In, Out]) StartChild(r *Run, in In, opts ...StartOption) (*Child[Out], error) {
	sub, err := w.Submission(in, opts...)
	if err != nil {
		return nil, err
	}
	id, err := r.start(sub)
	if err != nil {
		return nil, err
	}
	return &Child[Out]{ID: id}, nil
}

// RunChild starts a run of the workflow as a child and waits for its result, suspended:
// so a parent and its child may have one key with a Limit of 1 (P54). Errors as of
// [Workflow.StartChild] and [Child.Result].
func (w *Workflow[In, Out]) RunChild(r *Run, in In, opts ...StartOption) (Out, error) {
	c, err := w.StartChild(r, in, opts...)
	if err != nil {
		var none Out
		return none, err
	}
	return c.Result(r)
}

// Result waits for the child's end and decodes its result; the run is suspended meanwhile,
// see [Run.Sleep]. A child that failed gives *[RunFailed], a cancelled one
// [ErrRunCancelled], a terminated one [ErrRunTerminated]. It may be asked for again.
func (c *Child[Out]) Result(r *Run) (Out, error) {
	var out Out
	raw, err := r.await(c.ID)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, Permanent(fmt.Errorf("decode the result of run %s into %T: %w", c.ID, out, err))
	}
	return out, nil
}

// RunChild is [Workflow.RunChild] by name, without the child's code: its result is JSON.
// A workflow whose key is a function is refused with [ErrConfiguration] (P20).
func (r *Run) RunChild(workflow string, params any, opts ...StartOption) (json.RawMessage, error) {
	id, err := r.start(Submission{Workflow: workflow, Params: params, Options: opts})
	if err != nil {
		return nil, err
	}
	return r.await(id)
}

// Outcome is how a run ended that a body waited for. Status is "unknown" when there is no
// such run.
type Outcome = wire.Outcome

// WaitRuns waits until all of the runs have ended, at most 128 different ones, suspended;
// see [Run.Sleep]. They may be children or any others. After it, [Child.Result] of each
// answers at once. Errors: [ErrInvalid] for ids that can't be waited for, and the
// context's cause when the body should stop.
func (r *Run) WaitRuns(ids ...string) ([]Outcome, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if err := checkAwaited(ids); err != nil {
		return nil, Permanent(fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	id, known, err := r.ops.begin(opRuns, ids[0])
	if err != nil {
		return nil, err
	}
	defer r.ops.end()
	if known == nil {
		r.ops.suspend(wire.Suspend{Until: wire.Until{Runs: slices.Clone(ids)}, Step: ids[0], Visit: id.visit})
	}
	all := known.wait.Outcomes
	if !slices.EqualFunc(all, ids, func(o Outcome, id string) bool { return o.RunID == id }) {
		r.ops.mismatch(fmt.Errorf("%w: the body waits for runs %q where the outcomes of others are recorded for %s",
			ErrNondeterministic, ids, known.opID))
	}
	r.ops.remember(all)
	return slices.Clone(all), nil
}

// checkAwaited refuses what a node would refuse when the body has ended already.
func checkAwaited(ids []string) error {
	if len(ids) > wire.MaxAwaited {
		return fmt.Errorf("a wait is for at most %d runs, not %d", wire.MaxAwaited, len(ids))
	}
	for i, id := range ids {
		if run, err := flow.ParseRunID(id); err != nil || run.String() != id || slices.Contains(ids[:i], id) {
			return fmt.Errorf("run %q: it must be a run id that stands once", id)
		}
	}
	return nil
}

// await is the result of one run, suspended until it has ended.
func (r *Run) await(runID string) (json.RawMessage, error) {
	if done := r.ops.outcome(runID); done != nil {
		return resultOfOutcome(done)
	}
	all, err := r.WaitRuns(runID)
	if err != nil {
		return nil, err
	}
	return resultOfOutcome(&all[0])
}

// remember keeps outcomes that the body has been given, for those who ask again.
func (o *operations) remember(all []wire.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.outcomes == nil {
		o.outcomes = map[string]*wire.Outcome{}
	}
	for i := range all {
		o.outcomes[all[i].RunID] = &all[i]
	}
}

// outcome is how a run ended, if the body has been given that before.
func (o *operations) outcome(runID string) *wire.Outcome {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outcomes[runID]
}

func resultOfOutcome(o *wire.Outcome) (json.RawMessage, error) {
	if _, known := flow.ParseStatus(o.Status); !known {
		if o.Error != nil {
			return nil, &RunFailed{RunID: o.RunID, Type: o.Error.Type, Message: o.Error.Message}
		}
		return nil, fmt.Errorf("run %s: %w", o.RunID, ErrUnknownRun)
	}
	return resultOf(o.RunID, &wire.Result{Status: o.Status, Result: o.Result, Error: o.Error})
}

// start starts one child.
func (r *Run) start(sub Submission) (string, error) {
	body, err := sub.encode()
	if err != nil {
		return "", err
	}
	if body.Trigger != "" {
		return "", Permanent(fmt.Errorf("%w: a child has no trigger of its own, and %q is given", ErrInvalid, body.Trigger))
	}
	o := r.ops
	id, known, err := o.begin(opChildren, sub.Workflow)
	if err != nil {
		return "", err
	}
	defer o.end()
	switch {
	case known == nil:
	case known.step != nil:
		return "", &StepError{Name: known.name, Type: known.step.Error.Type, Message: known.step.Error.Message}
	default:
		return known.group.Runs[0], nil
	}
	run, err := o.startOne(id, sub.d, &body)
	if err != nil {
		err = fmt.Errorf("start a child of workflow %q: %w", sub.Workflow, err)
		o.fail(id, err)
	}
	return run, err
}

func (o *operations) startOne(id opID, d *definition, body *wire.Submit) (string, error) {
	c := o.s.w.client
	if err := c.introduce(o.h.run, d); err != nil {
		return "", err
	}
	req := request{
		method: http.MethodPost, path: path(wire.PathRuns, o.h.run.ID, "children"),
		body: wire.Children{
			Fence: o.h.run.Fence, Kind: wire.ChildKind, Step: id.name, Visit: id.visit,
			Runs: []wire.ChildRun{{
				Workflow: body.Workflow, Params: body.Params, IdempotencyKey: body.IdempotencyKey, Stamp: body.Stamp,
			}},
		},
	}
	var out wire.ChildrenStarted
	err := o.s.insist(o.h.run, o.h, &req, &out)
	if d != nil && errors.Is(err, ErrNotDeclared) {
		// The node has lost what it knew, say a trial node that began anew.
		c.known.Delete(d)
		if err = c.introduce(o.h.run, d); err == nil {
			err = o.s.insist(o.h.run, o.h, &req, &out)
		}
	}
	if err != nil {
		return "", err
	}
	if len(out.RunIDs) != 1 {
		return "", fmt.Errorf("%w: %d runs for one child", ErrBadAnswer, len(out.RunIDs))
	}
	return out.RunIDs[0], nil
}
