package inline

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// door is the node as its API sees it. Every grant passes through here on its way to a
// worker, and one of a run that is about to leave its queue waits for the decision:
//
//	Run      mark ─► look: queued ─► cancel ─► left          look: executing ─► stays
//	                                    │                                         │
//	Claim    a grant of a marked run ── waits ──► goes back           ... goes to the worker
//
// A grant that passed before the mark is seen by the look, since it is durable by then.
// So a run that left never reaches its body, and one whose body starts doesn't leave.
type door struct {
	*actors.Node
	log *slog.Logger

	mu      sync.Mutex // guards leaving
	leaving map[string]*exit
}

var _ transport.Node = (*door)(nil)

// exit is a run that may be about to leave. left is set before decided is closed.
type exit struct {
	decided chan struct{}
	left    bool
}

func newDoor(n *actors.Node, log *slog.Logger) *door {
	return &door{Node: n, log: log, leaving: map[string]*exit{}}
}

// mark holds grants of a run back until it is decided. False says that another call is
// at it: the run leaves by that one's decision, if it leaves.
func (d *door) mark(run string) (*exit, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaving[run] != nil {
		return nil, false
	}
	x := &exit{decided: make(chan struct{})}
	d.leaving[run] = x
	return x, true
}

// decide lets the grants that wait go on, or back.
func (x *exit) decide(left bool) {
	x.left = left
	close(x.decided)
}

// unmark forgets a run. One that left must have ended: then no grant of it is under way.
func (d *door) unmark(run string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.leaving, run)
}

// Claim implements transport.Worker. One that only brought runs which left is asked
// again, for the rest of its wait.
func (d *door) Claim(ctx context.Context, c wire.Claim) (wire.Claimed, error) {
	began, wait := time.Now(), c.WaitMS
	for {
		out, err := d.Node.Claim(ctx, c)
		brought := len(out.Runs)
		out.Runs = d.staying(ctx, out.Runs)
		if err != nil || len(out.Runs) > 0 || len(out.Resolve) > 0 || brought == 0 {
			return out, err
		}
		c.WaitMS = max(0, wait-time.Since(began).Milliseconds())
	}
}

// staying waits for the decisions about grants, hands back those of runs that left, and
// returns the others.
func (d *door) staying(ctx context.Context, grants []wire.Grant) []wire.Grant {
	kept := grants[:0]
	for i := range grants {
		if d.stays(grants[i].RunID) {
			kept = append(kept, grants[i])
			continue
		}
		if err := d.handBack(ctx, &grants[i]); err != nil {
			d.log.Warn("a run that left goes when its lease is over", "run_id", grants[i].RunID, "err", err)
		}
	}
	return kept
}

func (d *door) stays(run string) bool {
	d.mu.Lock()
	x := d.leaving[run]
	d.mu.Unlock()
	if x == nil {
		return true
	}
	<-x.decided
	return !x.left
}

// handBack ends the hold of a run whose cancel is acknowledged, and that ends the run.
func (d *door) handBack(ctx context.Context, g *wire.Grant) error {
	id, err := flow.ParseRunID(g.RunID)
	if err != nil {
		return err
	}
	_, err = d.Suspend(context.WithoutCancel(ctx), id, wire.Suspend{Fence: g.Fence, Until: wire.Until{AtMS: new(int64(0))}})
	return err
}

// Describe implements transport.Reporter.
func (d *door) Describe(ctx context.Context) (wire.Node, error) {
	out, err := d.Node.Describe(ctx)
	out.NodeID, out.Version, out.Fsync = nodeName, nodeName, "never"
	return out, err
}
