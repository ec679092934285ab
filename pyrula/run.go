package pyrula

import (
	"context"
	"log/slog"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Run is one attempt of a run, as its body sees it. It is a context: it is done when
// the body should stop, and context.Cause tells why ([ErrCancelRequested],
// [ErrLeaseLost], [ErrDraining]). Values come from the context that the worker was
// started with. A Run is good until its body returns.
type Run struct {
	ID       string // "run_..."
	Workflow string
	Version  string // of the definition that runs it
	Key      string // of the run's Limit, else of its Rate; "" without gates
	Attempt  int64  // 1 is the first; a failure or a lost lease begins the next, a hand-back doesn't
	// Fence is larger for each new holder of a run. Where a body writes to a store of
	// its own, let the store refuse a smaller fence than it has seen: then a worker that
	// was stopped for long can't overwrite what its successor did.
	Fence uint64
	Log   *slog.Logger // the worker's logger with the run's id, workflow, key and attempt

	ops *operations     // nil for a run that no worker holds
	ctx context.Context //nolint:containedctx // a Run is a context, so it has one
}

var _ context.Context = (*Run)(nil)

func newRun(ctx context.Context, log *slog.Logger, g *wire.Grant) *Run {
	return &Run{
		ID: g.RunID, Workflow: g.Workflow, Version: g.Version, Key: g.Key, Attempt: g.Attempt, Fence: g.Fence,
		Log: log.With("run_id", g.RunID, "workflow", g.Workflow, "key", g.Key, "attempt", g.Attempt),
		ctx: ctx,
	}
}

// Deadline says that there is none: a lease is renewed for as long as the body
// works, so no moment is known at which the run must stop.
func (r *Run) Deadline() (time.Time, bool) { return r.ctx.Deadline() }

// Done is closed when the body should stop.
func (r *Run) Done() <-chan struct{} { return r.ctx.Done() }

// Err is nil until Done is closed, then context.Canceled. See context.Cause.
func (r *Run) Err() error { return r.ctx.Err() }

// Value is the value of the context that the worker was started with.
func (r *Run) Value(key any) any { return r.ctx.Value(key) }
