package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/runactor"
)

// Steps records what a body has done: steps' outcomes, signals that it takes without
// suspending, and its state. All of it is recorded, or nothing. Errors: flow.ErrStaleFence,
// flow.ErrRunEnded, flow.ErrUnknownRun, flow.ErrStepConflict, *flow.FieldError.
func (n *Node) Steps(ctx context.Context, id flow.RunID, s wire.Steps) (wire.Recorded, error) {
	in := flow.Input{Kind: flow.InSteps, Fields: flow.Fields{Run: id, Fence: s.Fence}}
	for i := range s.Steps {
		in.Parts = append(in.Parts, stepPart(&s.Steps[i]))
	}
	for _, t := range s.Signals {
		in.Parts = append(in.Parts, flow.Input{Kind: flow.InTake, Fields: flow.Fields{Name: t.Name, Visit: max(t.Visit, 1)}})
	}
	if len(s.State) > 0 && string(s.State) != "null" {
		in.Parts = append(in.Parts, flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: s.State}})
	}
	a, err := n.askRun(ctx, in)
	if err != nil {
		return wire.Recorded{}, err
	}
	out := wire.Recorded{RunID: id.String(), Status: statusOf(a), Waits: []wire.WaitEnd{}}
	for _, e := range a.entries {
		out.Waits = append(out.Waits, waitEndOf(e.seq, &e.item))
	}
	return out, nil
}

func stepPart(s *wire.Step) flow.Input {
	f := flow.Fields{Name: s.Name, Visit: max(s.Visit, 1), Payload: s.Result, Cost: s.CostUnits}
	if s.Error != nil {
		f.Payload, f.ErrType, f.ErrText = nil, s.Error.Type, s.Error.Message
	}
	return flow.Input{Kind: flow.InStep, Fields: f}
}

// taken are the entries of the signals that an InSteps asked for.
func taken(run *runactor.Run, in *flow.Input) []entry {
	var list []entry
	for i := range in.Parts {
		part := &in.Parts[i]
		if part.Kind != flow.InTake {
			continue
		}
		if it, seq, ok := run.Entry(runactor.ItemSignal, part.Name, part.Visit); ok {
			list = append(list, entry{seq, it})
		}
	}
	return list
}

// entry is an item of a history with its number.
type entry struct {
	seq  int64
	item runactor.Item
}

// Children starts runs for a body, once for each call of it (R15). Runs with an
// idempotency key are made first, each for itself, and are those that the key names if it
// is known. Errors: those of Steps, of a submit, and flow.ErrStepConflict.
func (n *Node) Children(ctx context.Context, id flow.RunID, c wire.Children) (wire.ChildrenStarted, error) {
	out := wire.ChildrenStarted{RunID: id.String()}
	step, visit := c.Step, max(c.Visit, 1)
	if step == "" {
		step = c.Runs[0].Workflow
	}
	started, err := n.startedBefore(ctx, id, c.Fence, entryName{step, visit})
	if err != nil {
		return out, err
	}
	in := flow.Input{Kind: flow.InStart, Fields: flow.Fields{Run: id, Fence: c.Fence, Name: step, Visit: visit}}
	if c.Kind != wire.WorkflowKind {
		in.Flags |= flow.FlagChild
	}
	if started {
		in.Parts = make([]flow.Input, len(c.Runs)) // the answer names those of the first time
	} else if in.Parts, err = n.childParts(ctx, id, c.Runs); err != nil {
		return out, err
	}
	a, err := n.askRun(ctx, in)
	if err != nil {
		return out, err
	}
	if s, _ := a.value.(flow.Status); s.Ended() {
		return out, fmt.Errorf("run %s: %w", id, flow.ErrRunEnded)
	}
	out.Created = !a.flags.Has(flow.FlagRepeat)
	for _, child := range flow.DecodeRunIDs(a.extra) {
		out.RunIDs = append(out.RunIDs, child.String())
	}
	return out, nil
}

// entryName names a call of a body.
type entryName struct {
	name  string
	visit int64
}

// startedBefore says whether a call has started its runs before. A caller that doesn't
// hold the run is refused here, so that no run is made for it.
func (n *Node) startedBefore(ctx context.Context, id flow.RunID, fence uint64, call entryName) (bool, error) {
	v, err := n.read(ctx, n.shardOf(id.Partition()), func(s *shard) (any, error) {
		slot := s.st.runs[id]
		switch {
		case slot == nil:
			return false, fmt.Errorf("run %s: %w", id, flow.ErrUnknownRun)
		case slot.run.Status().Ended():
			return false, fmt.Errorf("run %s: %w", id, flow.ErrRunEnded)
		case !slot.run.Held() || slot.run.Fence() != fence:
			return false, fmt.Errorf("run %s: %w", id, flow.ErrStaleFence)
		}
		_, _, ok := slot.run.Entry(runactor.ItemChildren, call.name, call.visit)
		return ok, nil
	})
	if errors.Is(err, flow.ErrUnknownRun) {
		if _, archived := n.archived(id); archived == nil {
			err = fmt.Errorf("run %s: %w", id, flow.ErrRunEnded)
		}
	}
	if err != nil {
		return false, err
	}
	return v.(bool), nil
}

// childParts are the runs to make: stamped like every submit (P16).
func (n *Node) childParts(ctx context.Context, parent flow.RunID, runs []wire.ChildRun) ([]flow.Input, error) {
	if err := n.takesNewWork(); err != nil {
		return nil, err
	}
	if err := n.roomForRuns(len(runs)); err != nil {
		return nil, err
	}
	parts := make([]flow.Input, len(runs))
	for i := range runs {
		in, err := n.newRun(&wire.Submit{
			Workflow: runs[i].Workflow, Params: runs[i].Params, IdempotencyKey: runs[i].IdempotencyKey, Stamp: runs[i].Stamp,
		})
		if err != nil {
			return nil, flow.At(fmt.Sprintf("runs[%d].", i), err)
		}
		in.Kind, in.Trigger, in.Parent = flow.InCreate, runactor.TriggerChild, parent
		parts[i] = in
	}
	for i := range parts {
		if parts[i].IdempotencyKey == "" {
			continue
		}
		in := parts[i]
		in.Kind = flow.InSubmit
		a, err := n.submitRun(ctx, in)
		if err != nil {
			return nil, flow.At(fmt.Sprintf("runs[%d].", i), err)
		}
		parts[i] = flow.Input{Kind: flow.InSubmit, Fields: flow.Fields{Run: a.run}} // it exists
	}
	return parts, nil
}

// History is the page of a run's history behind the entry of number after. Error:
// flow.ErrUnknownRun.
func (n *Node) History(ctx context.Context, id flow.RunID, after int64) (wire.History, error) {
	v, err := n.readRun(ctx, id, func(run *runactor.Run) any { return pageOf(run, after) })
	if err != nil {
		return wire.History{}, err
	}
	return historyOf(v.(page)), nil
}

// Resolve takes the keys of candidates: who still waits under older gates is handed on.
// Error: flow.ErrNotReady; what can't be stamped stays as it is.
func (n *Node) Resolve(ctx context.Context, r wire.Resolve) (wire.Resolved, error) {
	out := wire.Resolved{Runs: make([]wire.ResolvedRun, len(r.Runs))}
	if err := n.serving(); err != nil {
		return out, err
	}
	q := n.asks.open(len(r.Runs))
	for i := range r.Runs {
		out.Runs[i].RunID = r.Runs[i].RunID
		m, err := n.resolution(ctx, &r.Runs[i])
		if err != nil {
			q.put(answer{item: i, err: err})
			continue
		}
		m.ask, m.item = q.id, i
		n.shards[n.shardOf(m.run.Partition())].box.tell(m)
	}
	n.dispatcher.box.tell(seenMsg{r.Worker})
	for i, a := range n.await(ctx, q) {
		out.Runs[i].HandedOn = a.err == nil && a.flags.Has(flow.FlagOK)
		if errors.Is(a.err, flow.ErrNotReady) || errors.Is(a.err, flow.ErrOutcomeUnknown) {
			return out, a.err
		}
	}
	return out, nil
}

// resolution stamps a candidate with the keys that a worker has computed.
func (n *Node) resolution(ctx context.Context, r *wire.Resolution) (*resolvedMsg, error) {
	id, err := flow.ParseRunID(r.RunID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", flow.ErrUnknownRun, err)
	}
	run, err := n.viewOne(ctx, id)
	if err != nil {
		return nil, err
	}
	def, err := n.registry.find(run.Workflow, r.Version, r.GatesHash)
	if err != nil {
		return nil, err
	}
	m := &resolvedMsg{run: id, def: def}
	if r.Keys == nil {
		n.cfg.Logger.Warn("a worker can't compute the key of a run under newer gates: it stays under its own",
			"run_id", r.RunID, "workflow", run.Workflow, "version", r.Version, "problem", r.Problem)
		return m, nil
	}
	if m.stamp, err = def.Stamp(run.Params, flow.Keys{Limit: r.Keys.Limit, Rate: r.Keys.Rate, Eval: n.evaluate}); err != nil {
		return nil, err
	}
	return m, nil
}

// page is a part of a history.
type page struct {
	after int64
	items []runactor.Item
	more  bool
}

// size is about what the page takes in an answer.
func (p *page) size() int {
	n := 0
	for i := range p.items {
		n += p.items[i].Size()
	}
	return n
}

func pageOf(run *runactor.Run, after int64) page {
	items, more := run.History(after, wire.MaxHistoryBytes)
	return page{after, items, more}
}

// historyOf is a page on the wire. Lists are never null.
func historyOf(p page) wire.History {
	h := wire.History{Steps: []wire.Step{}, Waits: []wire.WaitEnd{}, Children: []wire.ChildGroup{}}
	for i := range p.items {
		it, seq := &p.items[i], p.after+int64(i)+1
		switch it.Kind {
		case runactor.ItemStep, runactor.ItemStepError:
			h.Steps = append(h.Steps, stepOf(seq, it))
		case runactor.ItemChildren, runactor.ItemWorkflows:
			h.Children = append(h.Children, groupOf(seq, it))
		default:
			h.Waits = append(h.Waits, waitEndOf(seq, it))
		}
	}
	if p.more {
		h.Next = new(p.after + int64(len(p.items)))
	}
	return h
}

func stepOf(seq int64, it *runactor.Item) wire.Step {
	s := wire.Step{Seq: seq, Name: it.Name, Visit: it.Visit, Result: it.Payload, CostUnits: it.Cost}
	if it.Kind == runactor.ItemStepError {
		s.Error = &wire.RunError{Type: it.ErrType, Message: it.ErrText}
	}
	return s
}

func groupOf(seq int64, it *runactor.Item) wire.ChildGroup {
	g := wire.ChildGroup{Seq: seq, Step: it.Name, Visit: it.Visit, Kind: wire.ChildKind, Runs: idsOf(it.Runs)}
	if it.Kind == runactor.ItemWorkflows {
		g.Kind = wire.WorkflowKind
	}
	return g
}

func idsOf(ids []flow.RunID) []string {
	out := make([]string, len(ids))
	for i := range ids {
		out[i] = ids[i].String()
	}
	return out
}

func waitEndOf(seq int64, it *runactor.Item) wire.WaitEnd {
	w := wire.WaitEnd{Seq: seq, Kind: wire.WaitMoment, Name: it.Name, Visit: it.Visit}
	switch it.Kind {
	case runactor.ItemSignal:
		w.Kind, w.Payload = wire.WaitSignal, it.Payload
	case runactor.ItemTimeout:
		w.Kind, w.TimedOut = wire.WaitSignal, true
	case runactor.ItemRuns:
		w.Kind = wire.WaitRuns
		for i := range it.Outcomes {
			w.Outcomes = append(w.Outcomes, outcomeOf(it.Runs[i], &it.Outcomes[i]))
		}
	default:
	}
	return w
}

// statusUnknown is the status of an awaited run that nobody knows.
const statusUnknown = "unknown"

func outcomeOf(id flow.RunID, o *runactor.Outcome) wire.Outcome {
	w := wire.Outcome{RunID: id.String(), Status: statusUnknown, Result: o.Payload}
	if o.Status != 0 {
		w.Status = o.Status.String()
	}
	if o.ErrType != "" || o.ErrText != "" {
		w.Error = &wire.RunError{Type: o.ErrType, Message: o.ErrText}
	}
	return w
}

func signalsOf(kept []runactor.KeptSignal) []wire.Signal {
	out := make([]wire.Signal, 0, len(kept))
	for _, s := range kept {
		payload := s.Payload
		if len(payload) == 0 {
			payload = []byte("null")
		}
		out = append(out, wire.Signal{
			Name: s.Name, Payload: payload, Number: int64(s.Number), At: s.At.Millis(), Delivered: s.Delivered,
		})
	}
	return out
}
