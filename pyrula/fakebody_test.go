package pyrula_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// fakeBook is what a fakeRun keeps for its body: the history, and what it waits for.
type fakeBook struct { //nolint:recvcheck // those that only count are asked of copies
	seq     int64
	history wire.History
	kept    []wire.Signal    // no wait has got them
	got     *wire.Signal     // what ended the last wait, until a step is recorded
	sent    map[string]int64 // numbers of signals by request id
	number  int64
	until   *wire.Suspend // of a wait that will stand in the history
}

// never is the end of a wait that has none.
func never() time.Time { return time.Now().Add(1000 * 24 * time.Hour) }

// entries is how many there are.
func (b fakeBook) entries() int {
	return len(b.history.Steps) + len(b.history.Waits) + len(b.history.Children)
}

// names are the entries in their order, as "step charge/1".
func (b fakeBook) names() []string {
	list := make([]string, b.seq)
	put := func(seq int64, kind, name string, visit int64) {
		list[seq-1] = fmt.Sprintf("%s %s/%d", kind, name, visit)
	}
	for _, s := range b.history.Steps {
		put(s.Seq, "step", s.Name, s.Visit)
	}
	for _, w := range b.history.Waits {
		put(w.Seq, w.Kind, w.Name, w.Visit)
	}
	for _, g := range b.history.Children {
		put(g.Seq, "children", g.Step, g.Visit)
	}
	return list
}

// page is the history behind an entry, at most so many; 0 means all.
func (b *fakeBook) page(after, most int64) wire.History {
	if most == 0 {
		most = b.seq + 1
	}
	in := func(seq int64) bool { return seq > after && seq <= after+most }
	h := wire.History{Steps: []wire.Step{}, Waits: []wire.WaitEnd{}, Children: []wire.ChildGroup{}}
	for _, s := range b.history.Steps {
		if in(s.Seq) {
			h.Steps = append(h.Steps, s)
		}
	}
	for _, w := range b.history.Waits {
		if in(w.Seq) {
			h.Waits = append(h.Waits, w)
		}
	}
	for _, g := range b.history.Children {
		if in(g.Seq) {
			h.Children = append(h.Children, g)
		}
	}
	if b.seq > after+most {
		h.Next = new(after + most)
	}
	return h
}

// clone is the book for a test to read.
func (b *fakeBook) clone() fakeBook {
	c := *b
	c.history = b.page(0, 0)
	c.kept = slices.Clone(b.kept)
	return c
}

// signals are what a grant shows of them.
func (b *fakeBook) signals() []wire.Signal {
	list := []wire.Signal{}
	if b.got != nil {
		list = append(list, *b.got)
	}
	return append(list, b.kept...)
}

func (b *fakeBook) waitEnded(w wire.WaitEnd) wire.WaitEnd {
	b.seq++
	w.Seq = b.seq
	b.history.Waits = append(b.history.Waits, w)
	return w
}

// visits is how many waits of a kind and name have ended.
func (b *fakeBook) visits(kind, name string) int64 {
	n := int64(0)
	for _, w := range b.history.Waits {
		if w.Kind == kind && w.Name == name {
			n++
		}
	}
	return n
}

// take is the oldest signal of a name that no wait has got.
func (b *fakeBook) take(name string) *wire.Signal {
	i := slices.IndexFunc(b.kept, func(s wire.Signal) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	s := b.kept[i]
	b.kept = slices.Delete(b.kept, i, i+1)
	return &s
}

// kindOf is the kind and the name under which a wait stands in a history.
func kindOf(s *wire.Suspend) (kind, name string) {
	switch {
	case s.Until.Signal != "":
		return wire.WaitSignal, s.Until.Signal
	case s.Until.Runs != nil:
		return wire.WaitRuns, s.Step
	case s.Step != "":
		return wire.WaitMoment, s.Step
	}
	return "", ""
}

// over ends a run's wait if what it waits for has come. The lock is held.
func (n *fakeNode) over(r *fakeRun) bool {
	due := !time.Now().Before(r.wake)
	if r.until == nil {
		return due
	}
	kind, name := kindOf(r.until)
	end := wire.WaitEnd{Kind: kind, Name: name, Visit: cmp.Or(r.until.Visit, r.visits(kind, name)+1)}
	switch kind {
	case wire.WaitSignal:
		s := r.take(name)
		switch {
		case s != nil:
			end.Payload = s.Payload
			s.Delivered = true
			r.got = s
		case due:
			end.TimedOut = true
		default:
			return false
		}
	case wire.WaitRuns:
		for _, id := range r.until.Until.Runs {
			o := n.outcome(id)
			if o == nil {
				return false
			}
			end.Outcomes = append(end.Outcomes, *o)
		}
	default:
		if !due {
			return false
		}
	}
	r.waitEnded(end)
	r.until = nil
	return true
}

// outcome is how a run has ended, nil when it hasn't.
func (n *fakeNode) outcome(id string) *wire.Outcome {
	r, err := n.find(id)
	switch {
	case err != nil:
		return &wire.Outcome{RunID: id, Status: "unknown"}
	case !r.status.Ended():
		return nil
	}
	o := &wire.Outcome{RunID: id, Status: r.status.String(), Result: r.result}
	if r.status == flow.StatusFailed {
		o.Error = r.failure
	}
	return o
}

func (n *fakeNode) Suspend(_ context.Context, id flow.RunID, s wire.Suspend) (wire.Ended, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	if err := n.refused("suspend"); err != nil {
		return wire.Ended{}, err
	}
	kind, name := kindOf(&s)
	if r, err := n.find(id.String()); err == nil && r.held && r.fence == s.Fence && kind != "" {
		if next := r.visits(kind, name) + 1; s.Visit != 0 && s.Visit != next {
			return wire.Ended{}, flow.Invalid("visit", fmt.Sprintf("must be %d", next))
		}
	}
	r, err := n.ending(id.String(), "suspend", s.Fence, func(r *fakeRun) {
		r.status, r.wake, r.resumed, r.got = flow.StatusSuspended, never(), true, nil
		if s.Until.AtMS != nil {
			r.wake = time.UnixMilli(*s.Until.AtMS)
		}
		if s.Until.TimeoutSeconds != nil {
			r.wake = time.Now().Add(time.Duration(*s.Until.TimeoutSeconds * float64(time.Second)))
		}
		if kind == "" {
			r.log = append(r.log, "handed back")
			return
		}
		r.until = &s
		r.log = append(r.log, fmt.Sprintf("suspended for %s %s/%d", kind, name, s.Visit))
	})
	if err != nil {
		return wire.Ended{}, err
	}
	return wire.Ended{RunID: r.id, Status: r.status.String()}, nil
}

// holding is a run whose holder records something. The lock is held.
func (n *fakeNode) holding(id flow.RunID, fence uint64) (*fakeRun, error) {
	n.sweep()
	r, err := n.find(id.String())
	switch {
	case err != nil:
		return nil, err
	case r.status.Ended():
		return nil, flow.ErrRunEnded
	case !r.held || r.fence != fence:
		r.log = append(r.log, "record refused")
		return nil, flow.ErrStaleFence
	}
	return r, nil
}

func (n *fakeNode) Steps(_ context.Context, id flow.RunID, s wire.Steps) (wire.Recorded, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.holding(id, s.Fence)
	if err == nil {
		err = n.refused("steps")
	}
	if err != nil {
		return wire.Recorded{}, err
	}
	got := wire.Recorded{RunID: r.id, Status: r.status.String(), Waits: []wire.WaitEnd{}}
	for _, step := range s.Steps {
		fresh, err := r.recordStep(step)
		if err != nil {
			return wire.Recorded{}, err
		}
		if fresh && n.room > 0 && r.entries() > n.room {
			r.failure, r.held = &wire.RunError{Type: "history_too_large"}, false
			r.end(flow.StatusFailed)
			got.Status = r.status.String()
			return got, nil
		}
	}
	for _, t := range s.Signals {
		w, err := r.takeFor(t)
		if err != nil {
			return wire.Recorded{}, err
		}
		if w != nil {
			got.Waits = append(got.Waits, *w)
		}
	}
	return got, nil
}

func (b *fakeBook) recordStep(step wire.Step) (fresh bool, err error) {
	step.Visit = max(step.Visit, 1)
	for _, old := range b.history.Steps {
		if old.Name != step.Name || old.Visit != step.Visit {
			continue
		}
		if bytes.Equal(old.Result, step.Result) && (old.Error == nil) == (step.Error == nil) {
			return false, nil
		}
		return false, fmt.Errorf("step %s: %w", step.Name, flow.ErrStepConflict)
	}
	b.seq++
	step.Seq = b.seq
	b.history.Steps = append(b.history.Steps, step)
	b.got = nil
	return true, nil
}

// takeFor gives a wait a signal that is kept, or the one that it got before.
func (b *fakeBook) takeFor(t wire.SignalTake) (*wire.WaitEnd, error) {
	for _, w := range b.history.Waits {
		if w.Kind == wire.WaitSignal && w.Name == t.Name && w.Visit == t.Visit {
			return &w, nil
		}
	}
	if next := b.visits(wire.WaitSignal, t.Name) + 1; t.Visit != next {
		return nil, flow.Invalid("signals.visit", fmt.Sprintf("must be %d", next))
	}
	s := b.take(t.Name)
	if s == nil {
		return nil, nil
	}
	return new(b.waitEnded(wire.WaitEnd{Kind: wire.WaitSignal, Name: t.Name, Visit: t.Visit, Payload: s.Payload})), nil
}

func (n *fakeNode) Children(_ context.Context, id flow.RunID, c wire.Children) (wire.ChildrenStarted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.holding(id, c.Fence)
	if err == nil {
		err = n.refused("children")
	}
	if err != nil {
		return wire.ChildrenStarted{}, err
	}
	g := wire.ChildGroup{Step: cmp.Or(c.Step, c.Runs[0].Workflow), Visit: max(c.Visit, 1), Kind: cmp.Or(c.Kind, wire.ChildKind)}
	for _, old := range r.history.Children {
		if old.Step == g.Step && old.Visit == g.Visit {
			return wire.ChildrenStarted{RunID: r.id, RunIDs: old.Runs}, nil
		}
	}
	for i, child := range c.Runs {
		sub := wire.Submit{
			Workflow: child.Workflow, Params: child.Params, IdempotencyKey: child.IdempotencyKey, Stamp: child.Stamp,
			RequestID: fmt.Sprint(r.id, g.Step, g.Visit, i),
		}
		if len(sub.Params) == 0 {
			sub.Params = json.RawMessage("{}")
		}
		made, err := n.submit(sub)
		if err != nil {
			return wire.ChildrenStarted{}, err
		}
		g.Runs = append(g.Runs, made.RunID)
	}
	r.seq++
	g.Seq = r.seq
	r.history.Children = append(r.history.Children, g)
	n.touch()
	return wire.ChildrenStarted{RunID: r.id, RunIDs: g.Runs, Created: true}, nil
}

func (n *fakeNode) History(_ context.Context, id flow.RunID, after int64) (wire.History, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.find(id.String())
	if err == nil {
		err = n.refused("history")
	}
	if err != nil {
		return wire.History{}, err
	}
	return r.page(after, n.pageOf), nil
}

// offer asks the next claim about a run.
func (n *fakeNode) offer(c wire.Candidate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.candidates = append(n.candidates, c)
	n.touch()
}

func (n *fakeNode) Resolve(_ context.Context, v wire.Resolve) (wire.Resolved, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out wire.Resolved
	for _, r := range v.Runs {
		out.Runs = append(out.Runs, wire.ResolvedRun{RunID: r.RunID, HandedOn: r.Keys != nil})
	}
	n.resolved = append(n.resolved, v)
	return out, nil
}
