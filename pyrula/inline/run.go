package inline

import (
	"context"
	"fmt"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

const (
	// logAfter is when a gated run is told of in the log (P11).
	logAfter = 10 * time.Second
	// lookLeast bounds how often a call looks at its run when the gate timeout is shorter.
	lookLeast = 100 * time.Millisecond
	// remoteGrace is how long the question to a Rate of another shard may be under way
	// before the Rate counts as what the run waits for.
	remoteGrace = 100 * time.Millisecond
)

// Reasons of cancels, as the journal of a run shows them.
const (
	reasonGated = "the gate timeout is over"
	reasonGone  = "its caller has gone"
)

// Run submits a run of a workflow that the runner serves, and waits for its result. Options
// are those of [pyrula.Workflow.Start].
//
// Errors: *[RunGatedError] when the run is still gated after the gate timeout; those of
// Start; those of [pyrula.Handle.Result], so *[pyrula.RunFailed] for a body that failed;
// [pyrula.ErrConfiguration] for a workflow that the runner doesn't serve;
// [pyrula.ErrClosed]; and the cause of ctx's end, which cancels the run.
func Run[In, Out any](
	ctx context.Context, r *Runner, workflow *pyrula.Workflow[In, Out], in In, opts ...pyrula.StartOption,
) (Out, error) {
	var none Out
	if !r.begin() {
		return none, fmt.Errorf("run workflow %q: %w", workflow.Name(), pyrula.ErrClosed)
	}
	defer r.end()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.closing, func() { stop(context.Cause(r.closing)) })()
	if err := workflow.Err(); err != nil {
		return none, err
	}
	if !r.serves(workflow.Name()) {
		return none, fmt.Errorf("run workflow %q: %w: the runner doesn't serve it: give it to New or Serve", workflow.Name(), pyrula.ErrConfiguration)
	}
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	began := time.Now()
	// A submit whose answer nobody reads would leave a run that nobody waits for.
	h, err := workflow.Start(context.WithoutCancel(ctx), r.client, in, opts...)
	if err != nil {
		return none, err
	}
	id, err := flow.ParseRunID(h.ID)
	if err != nil {
		return none, fmt.Errorf("run workflow %q: %w", workflow.Name(), err)
	}
	c := &call{Runner: r, id: id, ours: h.Created, began: began, logged: -1}
	if err := c.untilEnd(ctx); err != nil {
		return none, err
	}
	return h.Result(ctx)
}

// call is one Run that waits for its run's end.
type call struct {
	*Runner
	id     flow.RunID
	ours   bool      // no earlier call made the run
	began  time.Time // before the submit
	logged int64     // since of the last wait that was logged; -1 for none
}

// untilEnd returns when the run has ended, or with the reason not to wait any longer.
func (c *call) untilEnd(ctx context.Context) error {
	for wait := time.Duration(0); ; {
		st, err := c.node.Run(ctx, c.id, wait)
		switch {
		case ctx.Err() != nil:
			return c.withdraw(ctx)
		case err != nil:
			return fmt.Errorf("wait for run %s: %w", c.id, err)
		case ended(&st):
			return nil
		}
		wake, err := c.look(ctx, &st)
		if err != nil {
			return err
		}
		wait = max(time.Until(wake), 1) // zero would only read
	}
}

// look acts on how the run stands, and says when to look again if it hasn't ended
// before.
func (c *call) look(ctx context.Context, st *wire.Run) (time.Time, error) {
	now := time.Now()
	wake := c.nextLook(now, st)
	w, gated := c.gated(now, st)
	if !gated {
		return wake, nil
	}
	if c.logged != w.since {
		if due := w.began.Add(logAfter); now.Before(due) {
			wake = earlier(wake, due)
		} else {
			c.logged = w.since
			c.log.InfoContext(ctx, "the run is gated", "run_id", c.id, "workflow", st.Workflow, "gate", w.gate, "key", w.key, "waited", now.Sub(w.began))
		}
	}
	if c.gateTimeout < 0 {
		return wake, nil
	}
	if due := w.began.Add(max(c.gateTimeout, w.grace)); now.Before(due) {
		return earlier(wake, due), nil
	}
	return wake, c.giveUp(ctx, st, w)
}

// nextLook is the earliest instant at which a wait that begins from now on is due. No
// such wait begins before the end of a suspension.
func (c *call) nextLook(now time.Time, st *wire.Run) time.Time {
	soon := logAfter
	if c.gateTimeout >= 0 {
		soon = min(soon, max(c.gateTimeout, lookLeast))
	}
	if st.Status == flow.StatusSuspended.String() && st.Wait != nil && st.Wait.OpensAt != nil {
		soon += max(0, time.Until(time.UnixMilli(*st.Wait.OpensAt)))
	}
	return now.Add(soon)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func ended(st *wire.Run) bool {
	s, known := flow.ParseStatus(st.Status)
	return known && s.Ended()
}

// gateWait is the wait of a gated run.
type gateWait struct {
	gate, key string
	since     int64 // Unix milliseconds; 0 for the one that began with the submit
	began     time.Time
	grace     time.Duration // how long it may last before it counts
}

// gated says whether a run is gated, and since when: since it was queued for the last
// time, or since this call where that is later.
func (c *call) gated(now time.Time, st *wire.Run) (gateWait, bool) {
	w := st.Wait
	if st.Status != flow.StatusQueued.String() || w == nil || w.Gate == nil {
		return gateWait{}, false
	}
	g := gateWait{gate: *w.Gate, began: c.began}
	if w.Key != nil {
		g.key = *w.Key
	}
	if w.Since != nil && *w.Since > st.SubmittedAt {
		g.since = *w.Since
		// The wall clock tells how long ago; the rest is counted on the monotonic one.
		if queued := now.Add(-now.Sub(time.UnixMilli(g.since))); queued.After(c.began) {
			g.began = queued
		}
	}
	if g.gate == flow.GateRate.String() && w.OpensAt == nil {
		g.grace = remoteGrace
	}
	return g, true
}

// giveUp cancels a run that is gated for too long. It returns nil when the run isn't
// queued any more, so that the call goes on.
func (c *call) giveUp(ctx context.Context, st *wire.Run, w gateWait) error {
	gated := &RunGatedError{RunID: c.id.String(), Workflow: st.Workflow, Gate: w.gate, Key: w.key, Waited: time.Since(w.began)}
	if !c.ours {
		return gated
	}
	left, err := c.leave(ctx, st.RunID)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", gated, err)
	case left:
		return gated
	}
	return nil
}

// leave cancels a run if it is queued, and says whether it was. When it returns true the
// run has ended; no body of it has started since it was queued, and none will.
func (c *call) leave(ctx context.Context, run string) (bool, error) {
	ctx = context.WithoutCancel(ctx) // half a leave would be worse than a late one
	exit, ok := c.door.mark(run)
	if !ok {
		return false, nil // another call decides; this one sees the outcome
	}
	defer c.door.unmark(run)
	left := false
	st, err := c.client.Status(ctx, run) // again: the gate may have opened before the mark
	if err == nil && st.Status == flow.StatusQueued.String() && st.RunID == run {
		err = c.client.Cancel(ctx, run, reasonGated)
		left = err == nil
	}
	exit.decide(left)
	if !left {
		return false, err
	}
	// A grant that was on its way comes back first. Of a run that was handed on in between
	// the cancel has reached the successor, which was not marked and may have started.
	st, err = c.client.Wait(ctx, run)
	return err == nil && st.RunID == run, err
}

// withdraw cancels the run of a caller that has gone, and answers the cause.
func (c *call) withdraw(ctx context.Context) error {
	gone := fmt.Errorf("run %s: %w", c.id, context.Cause(ctx))
	if c.closing.Err() != nil || !c.ours {
		return gone // what is left of the runner's runs is forgotten
	}
	if err := c.client.Cancel(context.WithoutCancel(ctx), c.id.String(), reasonGone); err != nil {
		return fmt.Errorf("%w: %w", gone, err)
	}
	return gone
}
