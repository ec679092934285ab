package pyrula_test

import (
	"context"
	"maps"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

func (n *fakeNode) Signal(_ context.Context, id flow.RunID, s wire.SignalRequest) (wire.Signalled, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	r, err := n.find(id.String())
	switch {
	case err != nil:
		return wire.Signalled{}, err
	case r.status.Ended():
		return wire.Signalled{}, flow.ErrRunEnded
	}
	out := wire.Signalled{RunID: r.id, Status: r.status.String()}
	if number, known := r.sent[s.RequestID]; known {
		out.Number = number
		return out, nil
	}
	r.number++
	r.kept = append(r.kept, wire.Signal{Name: s.Name, Payload: s.Payload, Number: r.number})
	if s.RequestID != "" {
		if r.sent == nil {
			r.sent = map[string]int64{}
		}
		r.sent[s.RequestID] = r.number
	}
	out.Number, out.Created = r.number, true
	n.touch()
	return out, nil
}

func (n *fakeNode) Retry(_ context.Context, id flow.RunID, t wire.Retry) (wire.Submitted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	r, err := n.find(id.String())
	switch {
	case err != nil:
		return wire.Submitted{}, err
	case !r.status.Ended():
		return wire.Submitted{}, flow.ErrRunNotEnded
	}
	defer n.touch()
	return n.submit(wire.Submit{Workflow: r.sub.Workflow, Params: r.sub.Params, RequestID: "retry " + t.RequestID})
}

func (n *fakeNode) PutSchedule(_ context.Context, s wire.Schedule) (wire.ScheduleView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old, known := n.schedules[s.Name]
	v := wire.ScheduleView{Schedule: s, Next: []int64{1}, Changed: !known || old.Cron != s.Cron}
	n.schedules[s.Name] = v
	return v, nil
}

func (n *fakeNode) Schedules(context.Context) (wire.ScheduleList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var l wire.ScheduleList
	for _, name := range slices.Sorted(maps.Keys(n.schedules)) {
		l.Schedules = append(l.Schedules, n.schedules[name])
	}
	return l, nil
}

func (n *fakeNode) Schedule(_ context.Context, name string) (wire.ScheduleView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, known := n.schedules[name]
	if !known {
		return v, flow.ErrUnknownSchedule
	}
	return v, nil
}

func (n *fakeNode) DeleteSchedule(_ context.Context, name string) (wire.ScheduleDeleted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.schedules[name]; !known {
		return wire.ScheduleDeleted{}, flow.ErrUnknownSchedule
	}
	delete(n.schedules, name)
	return wire.ScheduleDeleted{Name: name}, nil
}
