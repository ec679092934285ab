package actors

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/schedule"
)

// scheduleMemory is what a shard knows of the schedules whose names lie in its partitions.
// Zero value: none.
type scheduleMemory struct {
	named map[string]*scheduleSlot
	slab  slab[*scheduleSlot]
}

// scheduleSlot is one schedule. Its times are computed when it is declared and when it
// fires, never by apply: a record says which time comes next.
type scheduleSlot struct {
	name    string
	def     *schedule.Definition
	changed flow.Instant // when def was declared: an interval may count from it
	created flow.Instant
	next    flow.Instant // the time that it waits for; zero when it is over or paused
	runs    int64
	left    int64 // times that got no run
	lastAt  flow.Instant
	lastRun flow.RunID
	lastErr string // why the last time made no run
	seat    int
	saved   uint64 // the capture that has it

	// Volatile.
	armed armed
	times *schedule.Times // nil when this machine can't compute them
}

// applySchedule takes a fact about a schedule.
func (st *state) applySchedule(rec *flow.Record) {
	slot := st.schedules.named[rec.Origin]
	if rec.Kind == flow.RecScheduled {
		def, err := schedule.Decode(rec.Payload)
		if err != nil {
			panic(fmt.Sprintf("schedule %q: %v", rec.Origin, err))
		}
		if slot == nil {
			slot = st.addSchedule(rec.Origin)
			slot.created = rec.At
		}
		st.capture.beforeSchedule(slot)
		slot.def, slot.changed, slot.next = def, rec.At, rec.Until
		slot.lastErr, slot.times = "", nil
		return
	}
	if slot == nil {
		panic(fmt.Sprintf("record %s for schedule %q, which doesn't exist", rec.Kind, rec.Origin))
	}
	st.capture.beforeSchedule(slot)
	if rec.Kind == flow.RecScheduleDropped {
		st.schedules.slab.remove(slot.seat)
		delete(st.schedules.named, slot.name)
		slot.armed = armed{} // its timer is void
		return
	}
	slot.next = rec.Until
	slot.left += int64(rec.Number)
	switch {
	case !rec.Run.IsZero():
		slot.runs++
		slot.lastAt, slot.lastRun, slot.lastErr = rec.Order, rec.Run, ""
	case rec.ErrText != "":
		slot.lastErr = rec.ErrText
	}
}

func (st *state) addSchedule(name string) *scheduleSlot {
	m := &st.schedules
	slot := &scheduleSlot{name: name, saved: st.capture.newborn()}
	slot.seat = m.slab.add(slot)
	if m.named == nil {
		m.named = make(map[string]*scheduleSlot)
	}
	m.named[name] = slot
	return slot
}

// beforeSchedule writes a schedule down as it is, unless the capture has it already.
func (c *capture) beforeSchedule(slot *scheduleSlot) {
	if !c.lacks(&slot.saved) {
		return
	}
	c.record(partRecord, &flow.Record{Kind: flow.RecScheduled, Fields: flow.Fields{
		Origin: slot.name, Payload: slot.def.Encode(), Before: slot.created, After: slot.changed, Until: slot.next,
		Attempts: slot.runs, Number: uint64(slot.left), Order: slot.lastAt, Run: slot.lastRun, ErrText: slot.lastErr,
	}})
}

// restoreSchedule reads what beforeSchedule wrote.
func (st *state) restoreSchedule(rec *flow.Record) error {
	if st.schedules.named[rec.Origin] != nil {
		return fmt.Errorf("schedule %q stands twice", rec.Origin)
	}
	def, err := schedule.Decode(rec.Payload)
	if err != nil {
		return fmt.Errorf("schedule %q: %w", rec.Origin, err)
	}
	slot := st.addSchedule(rec.Origin)
	slot.def, slot.created, slot.changed, slot.next = def, rec.Before, rec.After, rec.Until
	slot.runs, slot.left = rec.Attempts, int64(rec.Number)
	slot.lastAt, slot.lastRun, slot.lastErr = rec.Order, rec.Run, rec.ErrText
	return nil
}

// compute makes the times of every schedule. The shard doesn't have to, so that it doesn't
// read a zone from disk.
func (m *scheduleMemory) compute(zones schedule.Zones) {
	for slot := range m.slab.all() {
		slot.compute(zones)
	}
}

// compute makes the times of a schedule as it stands. A machine that lacks the time zone
// can't; the schedule then says so when its next time has come.
func (s *scheduleSlot) compute(zones schedule.Zones) {
	times, err := schedule.Parse(s.def.Spec, s.changed, zones)
	if err != nil {
		times = nil
	}
	s.times = times
}

// check reports the first broken invariant.
func (m *scheduleMemory) check() error {
	seated := 0
	for slot := range m.slab.all() {
		seated++
		switch {
		case m.named[slot.name] != slot || m.slab.seats[slot.seat] != slot:
			return fmt.Errorf("schedule %q doesn't sit on its seat", slot.name)
		case slot.def.Paused && slot.next != 0:
			return fmt.Errorf("schedule %q is paused and waits for %d", slot.name, slot.next)
		}
	}
	if seated != len(m.named) {
		return fmt.Errorf("%d seats for %d schedules", seated, len(m.named))
	}
	return nil
}

// scheduleLook is one schedule as a reader sees it. Nothing in it changes.
type scheduleLook struct {
	scheduleSlot
	isNew bool // the question has changed it
}

func (s *scheduleSlot) look() scheduleLook { return scheduleLook{scheduleSlot: *s} }

// looks are all schedules, in no order.
func (m *scheduleMemory) looks() []scheduleLook {
	all := make([]scheduleLook, 0, len(m.named))
	for slot := range m.slab.all() {
		all = append(all, slot.look())
	}
	return all
}

// view is a schedule as the wire carries it.
func (l *scheduleLook) view() wire.ScheduleView {
	spec := l.def.Spec
	v := wire.ScheduleView{
		Schedule: wire.Schedule{
			Name: l.name, Workflow: l.def.Workflow, Params: l.def.Params, Cron: spec.Cron, TimeZone: spec.Zone,
			StartMS: millisOf(spec.Start), AtMS: millisOf(spec.At), CatchUp: l.def.CatchUp.String(), Paused: l.def.Paused,
		},
		Next: []int64{}, Runs: l.runs, Missed: l.left, LastAt: millisOf(l.lastAt),
		CreatedAt: l.created.Millis(), Changed: l.isNew,
	}
	if spec.Every != 0 {
		v.EverySeconds = new(wire.Seconds(spec.Every))
	}
	if !l.lastRun.IsZero() {
		v.LastRunID = new(l.lastRun.String())
	}
	if l.lastErr != "" {
		v.LastError = &l.lastErr
	}
	if l.next == 0 {
		return v
	}
	v.Next = append(v.Next, l.next.Millis())
	if l.times != nil {
		for _, at := range l.times.NextN(l.next, shownTimes-1) {
			v.Next = append(v.Next, at.Millis())
		}
	}
	return v
}

func millisOf(at flow.Instant) *int64 {
	if at == 0 {
		return nil
	}
	return new(at.Millis())
}
