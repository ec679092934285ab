package transport_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// fakeBody is what a fakeRun's body has recorded, and what was asked of it.
type fakeBody struct {
	steps     []wire.Step
	signals   []wire.Signal
	waits     []wire.WaitEnd
	groups    []wire.ChildGroup
	state     []byte
	suspended []wire.Suspend
	seq       int64
	requests  map[string]int64 // of signals, by request id
	resolved  []wire.Resolution
	children  []wire.Children
}

// last is the end of a run's chain, nil when there is no such run.
func (n *fakeNode) last(id flow.RunID) *fakeRun {
	r := n.runs[id]
	for r != nil && r.ContinuedTo != nil {
		next, err := flow.ParseRunID(*r.ContinuedTo)
		if err != nil {
			return nil
		}
		r = n.runs[next]
	}
	return r
}

// handOn makes one run the successor of another.
func (a *api) handOn(id, successor string) {
	a.t.Helper()
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	from, err := flow.ParseRunID(id)
	if err != nil {
		a.t.Fatal(err)
	}
	a.node.runs[from].Status, a.node.runs[from].ContinuedTo = "continued", &successor
}

func (n *fakeNode) holding(id flow.RunID, fence uint64) (*fakeRun, error) {
	r, err := n.known(id)
	switch {
	case err != nil:
		return nil, err
	case r.fence != fence:
		return nil, fmt.Errorf("fence %d: %w", fence, flow.ErrStaleFence)
	}
	return r, nil
}

func (n *fakeNode) Steps(_ context.Context, id flow.RunID, s wire.Steps) (wire.Recorded, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.holding(id, s.Fence)
	if err != nil {
		return wire.Recorded{}, err
	}
	for _, step := range s.Steps {
		step.Visit = max(step.Visit, 1)
		i := slices.IndexFunc(r.steps, func(o wire.Step) bool { return o.Name == step.Name && o.Visit == step.Visit })
		switch {
		case i < 0:
			r.seq++
			step.Seq = r.seq
			r.steps = append(r.steps, step)
		case string(r.steps[i].Result) != string(step.Result):
			return wire.Recorded{}, fmt.Errorf("step %q, visit %d: %w", step.Name, step.Visit, flow.ErrStepConflict)
		}
	}
	got := wire.Recorded{RunID: r.RunID, Status: r.Status}
	for _, take := range s.Signals {
		i := slices.IndexFunc(r.signals, func(o wire.Signal) bool { return o.Name == take.Name })
		if i < 0 {
			continue
		}
		r.seq++
		w := wire.WaitEnd{Seq: r.seq, Kind: wire.WaitSignal, Name: take.Name, Visit: max(take.Visit, 1), Payload: r.signals[i].Payload}
		r.waits, r.signals = append(r.waits, w), slices.Delete(r.signals, i, i+1)
		got.Waits = append(got.Waits, w)
	}
	if s.State != nil {
		r.state = s.State
	}
	return got, nil
}

func (n *fakeNode) Children(_ context.Context, id flow.RunID, c wire.Children) (wire.ChildrenStarted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.holding(id, c.Fence)
	if err != nil {
		return wire.ChildrenStarted{}, err
	}
	r.children = append(r.children, c)
	step, visit := cmp.Or(c.Step, c.Runs[0].Workflow), max(c.Visit, 1)
	i := slices.IndexFunc(r.groups, func(g wire.ChildGroup) bool { return g.Step == step && g.Visit == visit })
	if i >= 0 {
		return wire.ChildrenStarted{RunID: r.RunID, RunIDs: r.groups[i].Runs}, nil
	}
	r.seq++
	g := wire.ChildGroup{Seq: r.seq, Step: step, Visit: visit, Kind: cmp.Or(c.Kind, wire.ChildKind)}
	for _, child := range c.Runs {
		made := n.submit(wire.Submit{Workflow: child.Workflow, Params: child.Params, IdempotencyKey: child.IdempotencyKey})
		g.Runs = append(g.Runs, made.RunID)
	}
	r.groups = append(r.groups, g)
	n.change()
	return wire.ChildrenStarted{RunID: r.RunID, RunIDs: g.Runs, Created: true}, nil
}

// History answers one step a page, then the rest.
func (n *fakeNode) History(_ context.Context, id flow.RunID, after int64) (wire.History, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var h wire.History
	r, err := n.known(id)
	if err != nil {
		return h, err
	}
	for _, s := range r.steps {
		if s.Seq > after {
			h.Steps, h.Next = append(h.Steps, s), &s.Seq
			return h, nil
		}
	}
	h.Waits, h.Children = r.waits, r.groups
	return h, nil
}

func (n *fakeNode) Resolve(_ context.Context, v wire.Resolve) (wire.Resolved, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var got wire.Resolved
	for _, one := range v.Runs {
		id, err := flow.ParseRunID(one.RunID)
		if err != nil {
			return got, err
		}
		r, err := n.known(id)
		if err != nil {
			return got, err
		}
		r.resolved = append(r.resolved, one)
		got.Runs = append(got.Runs, wire.ResolvedRun{RunID: one.RunID, HandedOn: one.Keys != nil})
	}
	return got, nil
}

func (n *fakeNode) Signal(_ context.Context, id flow.RunID, s wire.SignalRequest) (wire.Signalled, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.last(id)
	switch {
	case n.err != nil:
		return wire.Signalled{}, n.err
	case r == nil:
		return wire.Signalled{}, flow.ErrUnknownRun
	case r.ended():
		return wire.Signalled{}, flow.ErrRunEnded
	}
	if number, known := r.requests[s.RequestID]; known {
		return wire.Signalled{RunID: r.RunID, Status: r.Status, Number: number}, nil
	}
	number := int64(len(r.signals) + 1)
	r.signals = append(r.signals, wire.Signal{Name: s.Name, Payload: s.Payload, Number: number, At: 1_796_000_000_000})
	if s.RequestID != "" {
		if r.requests == nil {
			r.requests = map[string]int64{}
		}
		r.requests[s.RequestID] = number
	}
	return wire.Signalled{RunID: r.RunID, Status: r.Status, Number: number, Created: true}, nil
}

func (r *fakeRun) ended() bool {
	s, _ := flow.ParseStatus(r.Status)
	return s.Ended()
}

func (n *fakeNode) Retry(_ context.Context, id flow.RunID, t wire.Retry) (wire.Submitted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.last(id)
	switch {
	case n.err != nil:
		return wire.Submitted{}, n.err
	case r == nil:
		return wire.Submitted{}, flow.ErrUnknownRun
	case !r.ended():
		return wire.Submitted{}, flow.ErrRunNotEnded
	case r.Workflow == "keyed":
		return wire.Submitted{}, fmt.Errorf("workflow %q: %w", r.Workflow, &flow.FieldError{
			Kind: flow.ErrConfiguration, Field: "limit.key", Want: "is the function \"label\": only the workflow's code can compute it",
		})
	}
	key := "retry " + t.RequestID
	if t.RequestID == "" {
		key += fmt.Sprint(len(n.order))
	}
	got := n.submit(wire.Submit{Workflow: r.Workflow, Params: r.params, IdempotencyKey: &key})
	n.change()
	return got, nil
}

func (n *fakeNode) PutSchedule(_ context.Context, s wire.Schedule) (wire.ScheduleView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.TimeZone == "Mars/Base" {
		return wire.ScheduleView{}, flow.Invalid("time_zone", "must be an IANA name, as Europe/Paris")
	}
	_, known := n.schedules[s.Name]
	v := wire.ScheduleView{Schedule: s, CreatedAt: 1_796_000_000_000, Changed: !known}
	n.schedules[s.Name] = v
	return v, n.err
}

func (n *fakeNode) Schedules(context.Context) (wire.ScheduleList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var l wire.ScheduleList
	for _, name := range slices.Sorted(maps.Keys(n.schedules)) {
		v := n.schedules[name]
		v.Changed = false
		l.Schedules = append(l.Schedules, v)
	}
	return l, n.err
}

func (n *fakeNode) Schedule(_ context.Context, name string) (wire.ScheduleView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.schedules[name]
	if !ok {
		return v, cmp.Or(n.err, fmt.Errorf("%q: %w", name, flow.ErrUnknownSchedule))
	}
	v.Changed = false
	return v, n.err
}

func (n *fakeNode) DeleteSchedule(_ context.Context, name string) (wire.ScheduleDeleted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.schedules[name]; !ok {
		return wire.ScheduleDeleted{}, cmp.Or(n.err, fmt.Errorf("%q: %w", name, flow.ErrUnknownSchedule))
	}
	delete(n.schedules, name)
	return wire.ScheduleDeleted{Name: name}, n.err
}
