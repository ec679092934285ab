package actors

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for machines that have no time zones installed

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/schedule"
)

// maxScheduleError bounds the text of why a time made no run, in bytes.
const maxScheduleError = 1 << 10

// refusedRetry is how long a time that has come waits when the node takes no new work, and
// startingRetry when it doesn't serve yet.
const (
	refusedRetry  = 1 * flow.Second
	startingRetry = 10 * flow.Millisecond
)

// scheduler is what the shards of a node share about schedules. Zero value: usable.
type scheduler struct {
	zones zones
	count atomic.Int64 // schedules of the shards that this node owns
	most  int64        // flow.MaxScheduleNames if zero; tests lower it
}

// reserve takes a place for one more schedule. Error: flow.ErrConfiguration.
func (s *scheduler) reserve() error {
	most := s.most
	if most == 0 {
		most = flow.MaxScheduleNames
	}
	if s.count.Add(1) > most {
		s.count.Add(-1)
		return &flow.FieldError{
			Kind: flow.ErrConfiguration, Field: "name",
			Want: fmt.Sprintf("must be the name of a schedule that exists: there are %d, the most there may be", most),
		}
	}
	return nil
}

// zones keeps the time zones that are in use, so that each is read once.
type zones struct {
	mu    sync.Mutex // guards known
	known map[string]*time.Location
}

// find implements schedule.Zones.
func (z *zones) find(name string) (*time.Location, error) {
	z.mu.Lock()
	loc := z.known[name]
	z.mu.Unlock()
	if loc != nil {
		return loc, nil
	}
	loc, err := time.LoadLocation(name) // it may read a file, so nobody waits for it
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.known == nil {
		z.known = make(map[string]*time.Location)
	}
	z.known[name] = loc
	return loc, nil
}

// scheduleMsg keeps a schedule, or without a definition forgets it.
type scheduleMsg struct {
	name string
	def  *schedule.Definition
	ask  askID
}

func (s *shard) schedule(m *scheduleMsg) {
	a := answer{ask: m.ask}
	if m.def == nil {
		a.err = s.dropSchedule(m.name)
	} else {
		a.value, a.err = s.putSchedule(m)
	}
	s.answer(a)
}

func (s *shard) dropSchedule(name string) error {
	if s.st.schedules.named[name] == nil {
		return unknownSchedule(name)
	}
	s.timers.void(&s.st.schedules.named[name].armed)
	s.write(flow.RecScheduleDropped, flow.Fields{Origin: name})
	s.node.schedules.count.Add(-1)
	return nil
}

// putSchedule keeps a definition that was checked. A change counts from now: nothing of
// before is missed.
func (s *shard) putSchedule(m *scheduleMsg) (any, error) {
	slot := s.st.schedules.named[m.name]
	if slot != nil && slot.def.Same(m.def) {
		return slot.look(), nil
	}
	f := flow.Fields{Origin: m.name, Payload: m.def.Encode()}
	if !m.def.Paused {
		first, err := s.firstTime(&m.def.Spec)
		if err != nil {
			return nil, err
		}
		f.Until = first
	}
	if slot == nil {
		if err := s.node.schedules.reserve(); err != nil {
			return nil, err
		}
	}
	s.write(flow.RecScheduled, f)
	slot = s.st.schedules.named[m.name]
	slot.compute(s.node.schedules.zones.find)
	s.armSchedule(slot)
	look := slot.look()
	look.isNew = true
	return look, nil
}

// firstTime is what a schedule that is declared now waits for. A single time that has just
// passed still counts. Error: *flow.FieldError.
func (s *shard) firstTime(spec *schedule.Spec) (flow.Instant, error) {
	times, err := schedule.Parse(*spec, s.now, s.node.schedules.zones.find)
	if err != nil {
		return 0, err
	}
	after, field := s.now, "cron"
	if spec.At != 0 {
		after, field = s.now.Add(-schedule.Grace), "at_ms"
	}
	first, ok := times.Next(after)
	if !ok {
		return 0, flow.Invalid(field, "must name a moment that is to come")
	}
	return first, nil
}

// armSchedule enters the next time of a schedule, if there is one.
func (s *shard) armSchedule(slot *scheduleSlot) {
	if slot.next != 0 {
		s.timers.armSchedule(slot, slot.next)
	}
}

// resumeSchedules arms every schedule anew, for a new owner.
func (s *shard) resumeSchedules() {
	for slot := range s.st.schedules.slab.all() {
		slot.armed = armed{}
		s.armSchedule(slot)
	}
	s.node.schedules.count.Add(int64(len(s.st.schedules.named)))
}

// tickSchedule fires a schedule whose next time has come: by shard time and by the wall
// (R2). It makes at most one run, so that a tick has its bounds (R5).
func (s *shard) tickSchedule(slot *scheduleSlot) {
	if slot.next == 0 {
		return
	}
	if wait := s.time.until(flow.Deadline{At: slot.next, Absolute: true}); wait > 0 {
		s.timers.armSchedule(slot, s.now.Add(wait))
		return
	}
	if wait := s.refusesRuns(s.node.roomForRuns(1)); wait != 0 {
		s.timers.armSchedule(slot, s.now.Add(wait)) // it isn't lost: it will be late
		return
	}
	s.fire(slot)
	s.armSchedule(slot)
}

// fire makes the run of the time that has come, and says so in the same entry: the run is
// made here, or by a letter of that entry. So there is one run for a time, whatever dies.
func (s *shard) fire(slot *scheduleSlot) {
	fact := flow.Fields{Origin: slot.name}
	if slot.times == nil {
		fact.ErrText = fmt.Sprintf("this node doesn't know the time zone %q", slot.def.Spec.Zone)
		s.write(flow.RecScheduleFired, fact)
		return
	}
	due := slot.times.Due(slot.def.CatchUp, slot.next, min(s.now, s.node.cfg.Clock.Wall()))
	fact.Until, fact.Number = due.Next, uint64(due.Left)
	if due.At == 0 {
		s.write(flow.RecScheduleFired, fact)
		return
	}
	in, err := s.node.runOfSchedule(slot.name, slot.def)
	if err != nil {
		fact.ErrText = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxScheduleError)], "")
		s.write(flow.RecScheduleFired, fact)
		return
	}
	fact.Order, fact.Run = due.At, in.Run
	s.write(flow.RecScheduleFired, fact)
	in.Kind = flow.InCreate
	s.send(in)
}
