package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
	"github.com/pyrula/pyrula-node/schedule"
)

// shownTimes is how many of its next times a schedule shows.
const shownTimes = 5

// PutSchedule keeps a schedule and answers when it is durable. The same definition twice
// changes nothing; another one counts from now. Errors: flow.ErrInvalid for what can't be
// right, flow.ErrConfiguration for a workflow whose key is a function (P20) and for one
// schedule too many.
func (n *Node) PutSchedule(ctx context.Context, w wire.Schedule) (wire.ScheduleView, error) {
	def, err := definitionOf(&w)
	if err != nil {
		return wire.ScheduleView{}, err
	}
	if err := n.takesNewWork(); err != nil {
		return wire.ScheduleView{}, err
	}
	if _, err := schedule.Parse(def.Spec, n.cfg.Clock.Wall(), n.schedules.zones.find); err != nil {
		return wire.ScheduleView{}, err
	}
	if _, err := n.runOfSchedule(w.Name, def); err != nil {
		return wire.ScheduleView{}, err
	}
	look, err := n.askSchedule(ctx, &scheduleMsg{name: w.Name, def: def})
	if err != nil {
		return wire.ScheduleView{}, err
	}
	return look.view(), nil
}

// Schedules lists all schedules by name, without their params.
func (n *Node) Schedules(ctx context.Context) (wire.ScheduleList, error) {
	out := wire.ScheduleList{Schedules: []wire.ScheduleView{}}
	if err := n.serving(); err != nil {
		return out, err
	}
	q := n.asks.open(len(n.shards))
	for i, s := range n.shards {
		s.box.tell(queryMsg{ask: q.id, item: i, read: func(s *shard) (any, error) { return s.st.schedules.looks(), nil }})
	}
	for _, a := range n.await(ctx, q) {
		if a.err != nil {
			return out, a.err
		}
		for _, look := range a.value.([]scheduleLook) {
			v := look.view()
			v.Params = nil
			out.Schedules = append(out.Schedules, v)
		}
	}
	slices.SortFunc(out.Schedules, func(a, b wire.ScheduleView) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Schedule is one schedule. Error: flow.ErrUnknownSchedule.
func (n *Node) Schedule(ctx context.Context, name string) (wire.ScheduleView, error) {
	v, err := n.read(ctx, n.scheduleShard(name), func(s *shard) (any, error) {
		slot := s.st.schedules.named[name]
		if slot == nil {
			return nil, unknownSchedule(name)
		}
		return slot.look(), nil
	})
	if err != nil {
		return wire.ScheduleView{}, err
	}
	look := v.(scheduleLook)
	return look.view(), nil
}

// DeleteSchedule forgets a schedule; its runs go on. Error: flow.ErrUnknownSchedule.
func (n *Node) DeleteSchedule(ctx context.Context, name string) (wire.ScheduleDeleted, error) {
	if err := n.serving(); err != nil {
		return wire.ScheduleDeleted{}, err
	}
	_, err := n.askSchedule(ctx, &scheduleMsg{name: name})
	return wire.ScheduleDeleted{Name: name}, err
}

func unknownSchedule(name string) error {
	return fmt.Errorf("schedule %q: %w", name, flow.ErrUnknownSchedule)
}

func (n *Node) scheduleShard(name string) engine.ShardID { return n.shardOf(flow.TextPartition(name)) }

// askSchedule has a schedule's shard change it.
func (n *Node) askSchedule(ctx context.Context, m *scheduleMsg) (scheduleLook, error) {
	q := n.asks.open(1)
	m.ask = q.id
	n.shards[n.scheduleShard(m.name)].box.tell(m)
	a := n.await(ctx, q)[0]
	look, _ := a.value.(scheduleLook) // none with an error, and none of one that is gone
	return look, a.err
}

// definitionOf checks what can be seen in a schedule alone, and turns it into integers.
// Error: *flow.FieldError.
func definitionOf(w *wire.Schedule) (*schedule.Definition, error) {
	if !flow.ValidName(w.Name) {
		return nil, flow.Invalid("name", "must be "+flow.NameRule)
	}
	if f, ok := errors.AsType[*flow.FieldError](flow.CheckWorkflowName(w.Workflow)); ok {
		return nil, flow.Invalid("workflow", f.Want)
	}
	params, err := paramsOf(w.Params)
	if err != nil {
		return nil, err
	}
	policy, err := schedule.ParseCatchUp(w.CatchUp)
	if err != nil {
		return nil, err
	}
	d := &schedule.Definition{
		Workflow: w.Workflow, Params: params, CatchUp: policy, Paused: w.Paused,
		Spec: schedule.Spec{Cron: w.Cron, Zone: w.TimeZone, Start: momentOf(w.StartMS), At: momentOf(w.AtMS)},
	}
	if s := w.EverySeconds; s != nil {
		d.Spec.Every = -1 // what is no span of time is refused like one that is too short
		if ns := math.Round(*s * float64(flow.Second)); ns >= 1 && ns <= float64(schedule.MaxEvery) {
			d.Spec.Every = flow.Span(ns)
		}
	}
	d.Spec = d.Spec.Normal()
	return d, nil
}

// paramsOf are the params of a schedule, without what means nothing.
func paramsOf(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("{}"), nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil || b.Bytes()[0] != '{' {
		return nil, flow.Invalid("params", "must be a JSON object")
	}
	if b.Len() > schedule.MaxParamsBytes {
		return nil, flow.Invalid("params", fmt.Sprintf("must be at most %d bytes for a schedule", schedule.MaxParamsBytes))
	}
	return b.Bytes(), nil
}

// momentOf is a moment in milliseconds that may be left out. An instant of zero isn't set,
// so the first of 1970 is a nanosecond later.
func momentOf(ms *int64) flow.Instant {
	if ms == nil {
		return 0
	}
	if at := flow.InstantOfMillis(*ms); at != 0 {
		return at
	}
	return 1
}

// runOfSchedule is the input that makes a run of a schedule now: stamped by name with what
// is declared (P16, P18), or with nothing (P22). Error: flow.ErrConfiguration for a function
// key (P20), and what a submit by name is refused for.
func (n *Node) runOfSchedule(name string, d *schedule.Definition) (flow.Input, error) {
	if def := currentOf(n.registry.list(d.Workflow)); def != nil {
		for _, r := range def.Rules {
			if r.Key.IsFunction() {
				return flow.Input{}, &flow.FieldError{
					Kind: flow.ErrConfiguration, Field: "workflow",
					Want: fmt.Sprintf("must have no key that only its code can compute: the key of its %s is the function %q", r.Kind, r.Key.Function),
				}
			}
		}
	}
	in, err := n.newRun(&wire.Submit{Workflow: d.Workflow, Params: d.Params})
	in.Trigger, in.Origin = runactor.TriggerSchedule, name
	return in, err
}
