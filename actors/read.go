package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/runactor"
)

// look is one run as a reader sees it: the run, and why it waits if it does.
type look struct {
	runactor.View
	wait  flow.Wait
	asked flow.RunID // the id that was asked for, when the run is its last successor
	old   bool       // it has left memory: nothing of its chain is on its way any more
}

// lookAt reads a run in its shard. For a run that waits for a token of another
// shard the home key says so.
func lookAt(id flow.RunID) func(*shard) (any, error) {
	return func(s *shard) (any, error) {
		slot := s.st.runs[id]
		if slot == nil {
			return nil, fmt.Errorf("run %s: %w", id, flow.ErrUnknownRun)
		}
		for { // the successors that are here needn't be asked for one by one
			next := s.st.runs[slot.run.Successor()]
			if next == nil {
				return s.look(slot), nil
			}
			slot = next
		}
	}
}

func (s *shard) look(slot *runSlot) look {
	l := look{View: slot.run.View()}
	switch l.Status {
	case flow.StatusSuspended:
		l.wait, _ = slot.run.Explain()
	case flow.StatusQueued:
		if key := s.st.keys[l.Stamp.Home(l.Workflow)]; key != nil {
			l.wait = key.key.Explain(s.now, l.Submitted, id(slot))
			if key.resolving.run == id(slot) && key.held(s.now) {
				l.wait = flow.Wait{Reason: flow.WaitCluster, Position: l.wait.Position}
			}
		}
	default:
	}
	return l
}

func id(slot *runSlot) flow.RunID { return slot.run.ID() }

// viewOne is a run as it stands, or the last of its successors that its shard has.
func (n *Node) viewOne(ctx context.Context, id flow.RunID) (look, error) {
	v, err := n.read(ctx, n.shardOf(id.Partition()), lookAt(id))
	if errors.Is(err, flow.ErrUnknownRun) {
		run, err := n.archived(id)
		if err != nil {
			return look{}, err
		}
		return look{View: run.View(), old: true}, nil
	}
	if err != nil {
		return look{}, err
	}
	l := v.(look)
	return l, n.knowWorkers(ctx, &l)
}

// knowWorkers refines a wait that no gate causes: whether workers are busy or
// there is none is known to the dispatcher.
func (n *Node) knowWorkers(ctx context.Context, l *look) error {
	if l.wait.Reason != flow.WaitWorkerBusy {
		return nil
	}
	q := n.asks.open(1)
	n.dispatcher.box.tell(servedMsg{workflow: l.Workflow, ask: q.id})
	a := n.await(ctx, q)[0]
	if a.err != nil {
		return a.err
	}
	if served, ok := a.value.(bool); ok && !served {
		l.wait.Reason = flow.WaitNoWorker
	}
	return nil
}

// Run is the status of a run, after its end or after the wait, whichever is first.
func (n *Node) Run(ctx context.Context, id flow.RunID, wait time.Duration) (wire.Run, error) {
	if wait > 0 {
		if err := n.waitEnd(ctx, id, wait); err != nil {
			return wire.Run{}, err
		}
	}
	l, err := n.view(ctx, id)
	if err != nil {
		return wire.Run{}, err
	}
	return n.runOf(&l), nil
}

// waitEnd returns when the run has ended or the time is over.
func (n *Node) waitEnd(ctx context.Context, id flow.RunID, wait time.Duration) error {
	if err := n.serving(); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		l, err := n.view(timed, id)
		switch {
		case timed.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case l.Status.Ended():
			return nil
		}
		if err := n.watchEnd(ctx, timed, l.ID); err != nil || timed.Err() != nil {
			return err
		}
		id = l.ID // it may have been handed on: then its successor is waited for
	}
}

// watchEnd returns when one run has ended, was handed on, or timed is over.
func (n *Node) watchEnd(ctx, timed context.Context, id flow.RunID) error {
	q := n.asks.open(1)
	s := n.shards[n.shardOf(id.Partition())]
	s.box.tell(watchMsg{run: id, ask: q.id})
	a := q.wait(timed)[0]
	if errors.Is(a.err, flow.ErrOutcomeUnknown) && timed.Err() != nil {
		s.box.tell(unwatchMsg{run: id, ask: q.id})
		return ctx.Err()
	}
	if errors.Is(a.err, flow.ErrUnknownRun) {
		return nil // it has left memory meanwhile
	}
	return a.err
}

// Events is the run's own journal (P26).
func (n *Node) Events(ctx context.Context, id flow.RunID) (wire.Events, error) {
	v, err := n.readRun(ctx, id, func(run *runactor.Run) any { return eventsOf(run) })
	if err != nil {
		return wire.Events{}, err
	}
	return wire.Events{Events: v.([]wire.Event)}, nil
}

// readRun is f of a run itself, whatever became of it, in its shard or in the archive.
// Error: flow.ErrUnknownRun.
func (n *Node) readRun(ctx context.Context, id flow.RunID, f func(*runactor.Run) any) (any, error) {
	v, err := n.read(ctx, n.shardOf(id.Partition()), func(s *shard) (any, error) {
		slot := s.st.runs[id]
		if slot == nil {
			return nil, fmt.Errorf("run %s: %w", id, flow.ErrUnknownRun)
		}
		return f(slot.run), nil
	})
	if !errors.Is(err, flow.ErrUnknownRun) {
		return v, err
	}
	run, err := n.archived(id)
	if err != nil {
		return nil, err
	}
	return f(run), nil
}

func eventsOf(run *runactor.Run) []wire.Event {
	list := run.Events()
	out := make([]wire.Event, 0, len(list))
	for _, e := range list {
		w := wire.Event{
			Seq: e.Seq, Type: e.Type, At: e.At.Millis(), Attempt: e.Attempt, Fence: e.Fence,
			Worker: e.Worker, Reason: e.Reason, Until: e.Until.Millis(),
		}
		switch e.Type {
		case flow.EventInit:
			stamp := run.Stamp()
			gates := wire.GatesOf(stamp)
			w.Gates, w.Unknown, w.Version = &gates, &stamp.Unknown, &stamp.Version
		case flow.EventClaimed, flow.EventContinued:
			w.Version = &e.Version
		}
		w.Name, w.Visit = e.Name, e.Visit
		if len(e.Runs) > 0 {
			w.Runs = idsOf(e.Runs)
		}
		if e.ErrType != "" || e.ErrText != "" {
			w.Error = &wire.RunError{Type: e.ErrType, Message: e.ErrText}
		}
		out = append(out, w)
	}
	return out
}

// keyLook is a key as a reader sees it.
func (n *Node) keyLook(s *shard, k flow.KeyID) wire.KeyView {
	out := wire.KeyView{Workflow: k.Workflow, Key: k.Value, Holders: []wire.Holder{}}
	if def := currentOf(n.registry.list(k.Workflow)); def != nil {
		for _, r := range def.Rules {
			switch r.Kind {
			case flow.GateLimit:
				out.Max = new(r.Max)
			case flow.GateRate: // a key that nobody remembers has a full bucket
				out.Rate = &wire.RateState{Tokens: r.Burst, Burst: r.Burst, PerSecond: flow.PerSecond(r.Interval)}
			}
		}
	}
	slot := s.st.keys[k]
	if slot == nil {
		return out
	}
	if b := slot.key.ViewBatch(); b.Events > 0 {
		out.BufferedEvents = b.Events
		out.Batch = &wire.OpenBatch{
			RunID: b.Run.String(), Events: b.Events, Bytes: b.Bytes,
			OpenedAt: b.Opened.Millis(), FiresAt: b.Deadline.Millis(), Due: b.Due || b.Deadline <= s.now,
		}
	}
	v := slot.key.View(s.now)
	out.Used, out.Queued, out.Holders = v.Used, v.Queue+v.Wants, holdersOf(v.Holders)
	if out.Max == nil && v.Max > 0 {
		out.Max = &v.Max
	}
	if v.Interval > 0 {
		out.Rate = &wire.RateState{Tokens: v.Tokens, Burst: v.Burst, PerSecond: flow.PerSecond(v.Interval)}
		if v.Tokens == 0 {
			out.Rate.OpensAt = new(v.OpensAt.Millis())
		}
	}
	if v.Oldest != 0 {
		out.OldestWaitMS = new(s.now.Sub(v.Oldest).Millis())
	}
	return out
}

// Key is a key as it stands. A key that nobody has used is an idle key, not an
// error: any text is a key (S99).
func (n *Node) Key(ctx context.Context, workflow, key string) (wire.KeyView, error) {
	if err := n.serving(); err != nil {
		return wire.KeyView{}, err
	}
	if len(n.registry.list(workflow)) == 0 {
		return wire.KeyView{}, fmt.Errorf("workflow %q: %w", workflow, flow.ErrUnknownWorkflow)
	}
	if err := flow.CheckKey("key", key); err != nil {
		return wire.KeyView{}, err
	}
	k := flow.KeyID{Workflow: workflow, Value: key}
	v, err := n.read(ctx, n.shardOf(k.Partition()), func(s *shard) (any, error) { return n.keyLook(s, k), nil })
	if err != nil {
		return wire.KeyView{}, err
	}
	return v.(wire.KeyView), nil
}

func holdersOf(list []flow.Holder) []wire.Holder {
	out := make([]wire.Holder, 0, len(list))
	for _, h := range list {
		w := wire.Holder{RunID: h.Run.String(), Fence: h.Fence, State: "executing"}
		switch {
		case h.Terminated:
			w.State = "terminated"
		case h.Reserved:
			w.State = "reserved"
		}
		out = append(out, w)
	}
	return out
}
