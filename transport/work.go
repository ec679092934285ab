package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// claims serves POST /v1/claims, a long poll.
func (x *exchange) claims() error {
	c, err := checked(x, (*reader).claim)
	if err != nil {
		return err
	}
	got, err := x.s.claim(x.r.Context(), *c)
	if err != nil {
		return err
	}
	x.out = appendClaimed(x.out[:0], &got)
	return x.send(http.StatusOK)
}

// errDraining is a refusal that a retry elsewhere, or soon, heals.
var errDraining = fmt.Errorf("%s: %w", shuttingDown, flow.ErrNotReady)

// claim waits for runs until they come, the wait is over, the client has gone or
// the server drains.
func (s *Server) claim(ctx context.Context, c wire.Claim) (wire.Claimed, error) {
	if s.polls.over() {
		return wire.Claimed{}, errDraining
	}
	if c.WaitMS == 0 {
		got, err := s.node.Claim(ctx, c)
		return got, s.undeclared(ctx, c, err)
	}
	waiting, done := s.polls.begin(ctx)
	defer done()
	got, err := s.node.Claim(waiting, c)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return wire.Claimed{}, nil // the wait is over, early
	}
	return got, s.undeclared(ctx, c, err)
}

// undeclared says which of a claim's workflows was never declared: a wrong name is
// mended otherwise than a wrong version. Other errors pass unchanged.
func (s *Server) undeclared(ctx context.Context, c wire.Claim, err error) error {
	if !errors.Is(err, flow.ErrNotDeclared) {
		return err
	}
	for i, w := range c.Workflows {
		known, asked := s.node.Workflow(ctx, w.Name)
		place := fmt.Sprintf("workflows[%d].", i)
		switch {
		case errors.Is(asked, flow.ErrUnknownWorkflow):
			return notDeclared(place+"name", fmt.Sprintf("no workflow %q is declared, declare it first", w.Name))
		case asked != nil:
			return err
		case !slices.ContainsFunc(known.Versions, func(v wire.WorkflowVersion) bool { return v.Version == w.Version }):
			return notDeclared(place+"version", fmt.Sprintf("workflow %q has no version %q, declare it first", w.Name, w.Version))
		case w.GatesHash != "" && !slices.ContainsFunc(known.Versions, func(v wire.WorkflowVersion) bool {
			return v.Version == w.Version && v.GatesHash == w.GatesHash
		}):
			return notDeclared(place+"gates_hash", fmt.Sprintf("version %q of workflow %q was never declared with these gates", w.Version, w.Name))
		}
	}
	return err
}

// notDeclared is the problem of something that was never declared, and its field.
func notDeclared(field, what string) *wire.Problem {
	p := problem(wire.CodeNotDeclared, field+": "+what)
	p.Field = field
	return p
}

// unheld tells the sender of a stale fence what to do. Other errors pass unchanged.
func unheld(err error, fence uint64) error {
	if !errors.Is(err, flow.ErrStaleFence) {
		return err
	}
	return problem(wire.CodeStaleFence, fmt.Sprintf("fence %d does not hold the run: stop the body and drop its result", fence))
}

// claimAfter serves the claim inside a message that ended work. What that message
// did is durable by now, so a claim that fails is told beside it.
func (x *exchange) claimAfter(c *wire.Claim) (*[]wire.Grant, *wire.Problem) {
	if c == nil {
		return nil, nil
	}
	c.Plain = true
	got, err := x.s.claim(x.r.Context(), *c)
	if err != nil {
		p := x.problemFor(err)
		if p.Code == wire.CodeNotDeclared && p.Field != "" {
			p.Field, p.Detail = "claim."+p.Field, "claim."+p.Detail
		}
		return &[]wire.Grant{}, p
	}
	return &got.Runs, nil
}

// heartbeats serves POST /v1/heartbeats.
func (x *exchange) heartbeats() error {
	h, err := checked(x, (*reader).heartbeat)
	if err != nil {
		return err
	}
	got, err := x.s.node.Heartbeat(x.r.Context(), *h)
	if err != nil {
		return err
	}
	x.out = appendHeartbeatResult(x.out[:0], got.Runs)
	return x.send(http.StatusOK)
}

// completeOne serves POST /v1/runs/{id}/complete.
func (x *exchange) completeOne() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	c, err := checked(x, (*reader).complete)
	if err != nil {
		return err
	}
	end := wire.Completion{RunID: id.String(), Fence: c.Fence, Result: c.Result}
	got, errs := x.s.node.Complete(x.r.Context(), []wire.Completion{end})
	if len(got) != 1 || len(errs) != 1 {
		return shortAnswer("complete", 1, len(got), len(errs))
	}
	if errs[0] != nil {
		return unheld(errs[0], c.Fence)
	}
	return x.ended(wire.Ended{RunID: got[0].RunID, Status: got[0].Status}, c.Claim)
}

// failOne serves POST /v1/runs/{id}/fail.
func (x *exchange) failOne() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	f, err := checked(x, (*reader).fail)
	if err != nil {
		return err
	}
	got, err := x.s.node.Fail(x.r.Context(), id, *f)
	if err != nil {
		return unheld(err, f.Fence)
	}
	return x.ended(got, f.Claim)
}

// suspendOne serves POST /v1/runs/{id}/suspend.
func (x *exchange) suspendOne() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	s, err := checked(x, (*reader).suspend)
	if err != nil {
		return err
	}
	got, err := x.s.node.Suspend(x.r.Context(), id, *s)
	if err != nil {
		return unheld(err, s.Fence)
	}
	return x.ended(got, s.Claim)
}

func (x *exchange) ended(e wire.Ended, c *wire.Claim) error {
	e.Runs, e.ClaimProblem = x.claimAfter(c)
	x.out = appendEnded(x.out[:0], &e)
	return x.send(http.StatusOK)
}

// completeBatch serves POST /v1/runs:complete, as submitBatch does for submits.
func (x *exchange) completeBatch() error {
	batch, err := checked(x, (*reader).completeBatch)
	if err != nil {
		return err
	}
	got, errs := x.s.node.Complete(x.r.Context(), batch.Runs)
	if n := len(batch.Runs); len(got) != n || len(errs) != n {
		return shortAnswer("complete", n, len(got), len(errs))
	}
	for i, err := range errs {
		if err != nil {
			got[i] = wire.CompleteResult{RunID: batch.Runs[i].RunID, Problem: x.problemFor(unheld(err, batch.Runs[i].Fence))}
		}
	}
	answer := wire.CompleteBatchResult{Results: got}
	answer.Runs, answer.ClaimProblem = x.claimAfter(batch.Claim)
	x.out = appendCompleteBatchResult(x.out[:0], &answer)
	return x.send(http.StatusOK)
}
