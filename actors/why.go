package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Why says in full why a run waits: its gates in the order in which they are
// asked, who holds its slots, its place, and what would let it go.
func (n *Node) Why(ctx context.Context, id flow.RunID) (wire.Why, error) {
	l, err := n.view(ctx, id)
	if err != nil {
		return wire.Why{}, err
	}
	w := wire.Why{RunID: l.ID.String(), Status: l.Status.String(), Wait: waitOf(&l), Gates: []wire.WhyGate{}, Holders: []wire.Holder{}}
	if !l.waits() {
		w.Text = fmt.Sprintf("The run is %s and waits for nothing.", l.Status)
		if l.Status == flow.StatusExecuting {
			w.Text = fmt.Sprintf("The run is executing and waits for nothing: worker %s holds it, by a lease of %g s that its heartbeats renew.",
				l.Worker, wire.Seconds(l.Lease))
		}
		return w, nil
	}
	if err := n.askRemote(ctx, &l); err != nil {
		return wire.Why{}, err
	}
	w.Wait, w.Holders = waitOf(&l), holdersOf(l.wait.Holders)
	for i, g := range wire.GatesOf(l.Stamp) {
		w.Gates = append(w.Gates, gateNow(g, l.Stamp.Gates[i].Kind, &l.wait))
	}
	w.Text = sentence(&l)
	return w, nil
}

// askRemote completes the wait for a token of another key: only that key knows
// when it comes.
func (n *Node) askRemote(ctx context.Context, l *look) error {
	remote, ok := l.Stamp.Remote(l.Workflow)
	if !ok || l.wait.Reason != flow.WaitRate {
		return nil
	}
	v, err := n.read(ctx, n.shardOf(remote.Partition()), func(s *shard) (any, error) {
		if slot := s.st.keys[remote]; slot != nil {
			return slot.key.Explain(s.now, l.Submitted, l.ID), nil
		}
		return flow.Wait{}, nil
	})
	if err != nil {
		return err
	}
	if w := v.(flow.Wait); w.Reason != "" {
		l.wait.Tokens, l.wait.Burst, l.wait.OpensAt = w.Tokens, w.Burst, w.OpensAt
	}
	return nil
}

// gateNow is one gate as the wait found it.
func gateNow(g wire.Gate, kind flow.GateKind, w *flow.Wait) wire.WhyGate {
	out := wire.WhyGate{Gate: g, Open: w.Gate != kind}
	switch kind {
	case flow.GateLimit:
		if w.Max > 0 {
			out.Used = new(w.Used)
			out.Open = w.Used < g.Max // its own limit may be another than that of the run before it
		}
	case flow.GateRate:
		if w.Burst > 0 {
			out.Tokens = new(w.Tokens)
		}
		if !out.Open {
			out.OpensAt = millisOrNull(w.OpensAt)
		}
	}
	return out
}

// sentence says it to a person.
func sentence(l *look) string {
	w := &l.wait
	switch w.Reason {
	case flow.WaitLimit:
		return waitsForSlot(l)
	case flow.WaitRate:
		if w.OpensAt == 0 {
			return fmt.Sprintf("It waits for a token of rate key %q, which was asked for it.", w.Key)
		}
		return fmt.Sprintf("It waits for a token of rate key %q: the next one for it comes at %s, and it is number %d in the queue.", w.Key, clockTime(w.OpensAt), w.Position)
	case flow.WaitSchedule:
		return fmt.Sprintf("It is suspended until %s.", clockTime(w.OpensAt))
	case flow.WaitRetryBackoff:
		return fmt.Sprintf("Attempt %d failed; the next one may start at %s.", l.Attempt, clockTime(w.OpensAt))
	case flow.WaitNoWorker:
		if l.Stamp.Unknown {
			return fmt.Sprintf("It was submitted before workflow %q was declared, and no live worker serves that: the first that does runs it under its own gates.", l.Workflow)
		}
		return fmt.Sprintf("No gate holds it: no live worker serves workflow %q.", l.Workflow)
	case flow.WaitSignal:
		if w.OpensAt != 0 {
			return fmt.Sprintf("It is suspended until signal %q comes, or until %s.", w.Signal, clockTime(w.OpensAt))
		}
		return fmt.Sprintf("It is suspended until signal %q comes.", w.Signal)
	case flow.WaitChild:
		if len(w.Runs) == 1 {
			return fmt.Sprintf("It is suspended until run %s has ended.", w.Runs[0])
		}
		return fmt.Sprintf("It is suspended until %d other runs have ended, the first of them %s.", len(w.Runs), w.Runs[0])
	case flow.WaitCluster:
		return "A message about it is on its way: between shards, or to a worker that computes its key under newer gates."
	default:
		return "No gate holds it: it starts as soon as a worker has credit."
	}
}

// waitsForSlot names the run's own limit, or the older one of a run before it.
func waitsForSlot(l *look) string {
	w := &l.wait
	taken := fmt.Sprintf("%d of %d of limit key %q are taken, and it is number %d in the queue.", w.Used, w.Max, w.Key, w.Position)
	if own := l.Stamp.Limit(); own == nil || own.Max == w.Max {
		return "It waits for a slot: " + taken
	}
	return fmt.Sprintf("It waits behind a run that was submitted under a limit of %d: %s", w.Max, taken)
}

// clockTime is an instant for a person.
func clockTime(i flow.Instant) string {
	return time.Unix(0, int64(i)).UTC().Format("2006-01-02T15:04:05.000Z")
}
