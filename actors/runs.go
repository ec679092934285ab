package actors

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/runactor"
)

// command steps a run, or makes a new one.
func (s *shard) command(c *command) {
	if c.counted {
		s.newWork.Add(-1)
	}
	s.at = flow.Fields{Run: c.in.Run}
	switch {
	case c.in.Kind == flow.InSubmit && c.in.IdempotencyKey != "":
		s.keyedSubmit(c)
	case c.in.Kind == flow.InSubmit:
		s.answer(s.submit(c))
	default:
		s.runInput(c)
	}
	s.deliverLocals()
}

// submit makes the run, unless the same request made it before (R10).
func (s *shard) submit(c *command) answer {
	a := answer{ask: c.ask, item: c.item, run: c.in.Run}
	s.st.requests.forget(s.now)
	if first, ok := s.st.requests.run(c.in.RequestID); ok && c.in.RequestID != "" {
		a.run, a.flags = first, flow.FlagRepeat
		return a
	}
	if c.in.RequestID != "" && s.st.requests.full() {
		a.err = fmt.Errorf("more than %d request ids in %d minutes: %w", maxRequests, requestWindow/flow.Minute, flow.ErrOverloaded)
		return a
	}
	a.err = s.create(&c.in)
	return a
}

// create makes a run at the next place of the order; a run that exists already is
// left as it is.
func (s *shard) create(in *flow.Input) error {
	if s.st.runs[in.Run] != nil {
		return nil
	}
	in.Kind = flow.InSubmit
	if in.Order == 0 { // a successor brings its predecessor's (P76)
		in.Order = s.nextOrder()
	}
	s.out.Reset()
	runactor.New(in.Run).Step(s.now, in, &s.out)
	if s.out.Err != nil {
		return s.out.Err
	}
	s.take()
	return nil
}

// runInput steps a run that exists and answers with what became of it.
func (s *shard) runInput(c *command) {
	a := answer{ask: c.ask, item: c.item, run: c.in.Run}
	slot := s.lastOf(c.in.Run, c.in.Kind)
	if slot == nil {
		a.err = fmt.Errorf("run %s: %w", c.in.Run, flow.ErrUnknownRun)
		s.answer(a)
		return
	}
	if next := slot.run.Successor(); !next.IsZero() && followsChain(c.in.Kind) {
		a.next, a.value = next, flow.StatusContinued
		s.answer(a)
		return
	}
	c.in.Run = slot.run.ID()
	a.run = c.in.Run
	s.leaveQueue(slot, c.in.Kind)
	s.out.Reset()
	slot.run.Step(s.now, &c.in, &s.out)
	s.take()
	a.outcome(slot.run, &s.out)
	if a.err == nil && c.in.Kind == flow.InSteps {
		a.entries = taken(slot.run, &c.in)
	}
	if c.in.Kind == flow.InHeartbeat {
		a.value = heldUnder{slot.run.Workflow(), slot.run.Version()}
	}
	s.answer(a)
}

// outcome fills in what became of an input to a run.
func (a *answer) outcome(run *runactor.Run, out *flow.Out) {
	if a.err = out.Err; a.err != nil {
		a.err = fmt.Errorf("run %s: %w", run.ID(), a.err)
	}
	for i := range out.Effects {
		if e := &out.Effects[i]; e.Kind == flow.EffAnswer {
			a.flags, a.number, a.extra = e.Flags, e.Number, e.Extra
		}
	}
	a.value = run.Status()
}

// followsChain says whether a request to a run that was handed on is meant for the last
// of its successors (P32).
func followsChain(k flow.InputKind) bool {
	return k == flow.InSignal || k == flow.InCancel || k == flow.InTerminate
}

// lastOf is the run of an id, or for what follows its chain the last successor that this
// shard has.
func (s *shard) lastOf(id flow.RunID, kind flow.InputKind) *runSlot {
	slot := s.st.runs[id]
	for slot != nil && followsChain(kind) {
		next := s.st.runs[slot.run.Successor()]
		if next == nil {
			break
		}
		slot = next
	}
	return slot
}

// runLetter steps a run with what came from another run. One that was handed on passes
// the letter to its successor, behind the letter that made it; one that has left memory
// has ended, so only who waits for its end is told (R15).
func (s *shard) runLetter(in *flow.Input) {
	s.at = flow.Fields{Run: in.Run}
	slot := s.st.runs[in.Run]
	if slot == nil {
		if in.Kind == flow.InWatch {
			s.seek(in)
		}
		return
	}
	if next := slot.run.Successor(); !next.IsZero() && in.Kind != flow.InChainOver {
		in.Run = next
		s.send(*in)
		return
	}
	s.leaveQueue(slot, in.Kind)
	s.out.Reset()
	slot.run.Step(s.now, in, &s.out)
	if s.out.Err != nil {
		panic("a run refused the letter " + in.Kind.String() + ": " + s.out.Err.Error())
	}
	s.take()
}

// leaveQueue lets the home key take back what it asked for in the name of a run
// that is about to end in the queue.
func (s *shard) leaveQueue(slot *runSlot, kind flow.InputKind) {
	leaves := kind == flow.InCancel || kind == flow.InTerminate || kind == flow.InHandOn
	if slot.run.Status() != flow.StatusQueued || !leaves {
		return
	}
	home := slot.run.Stamp().Home(slot.run.Workflow())
	s.keyInput(&flow.Input{Kind: flow.InLeave, Fields: flow.Fields{Key: home, Run: slot.run.ID()}})
}

// watch tells when the run has ended, at once if it has.
func (s *shard) watch(m watchMsg) {
	slot := s.st.runs[m.run]
	switch {
	case slot == nil:
		s.answer(answer{ask: m.ask, run: m.run, err: fmt.Errorf("run %s: %w", m.run, flow.ErrUnknownRun)})
	case slot.run.Status().Ended():
		s.answer(answer{ask: m.ask, run: m.run})
	case len(slot.watchers) >= maxWatchers:
		s.answer(answer{ask: m.ask, run: m.run, err: fmt.Errorf("run %s has %d waiting readers: %w", m.run, maxWatchers, flow.ErrOverloaded)})
	default:
		slot.watchers = append(slot.watchers, watcher{m.ask})
	}
}

// maxWatchers bounds the readers that wait for one run's end.
const maxWatchers = 1024

func (s *shard) unwatch(m unwatchMsg) {
	slot := s.st.runs[m.run]
	if slot == nil {
		return
	}
	for i, w := range slot.watchers {
		if w.ask == m.ask {
			slot.watchers = append(slot.watchers[:i], slot.watchers[i+1:]...)
			return
		}
	}
}

// declare takes a declaration; only shard 0 is asked (R17).
func (s *shard) declare(m *declareMsg) {
	def, changed, err := s.st.defs.decide(m.def, s.now)
	if err == nil && changed {
		w := flow.NewWriter()
		w.Definition(def)
		s.write(flow.RecDeclared, flow.Fields{Workflow: def.Workflow, Version: def.Version, Payload: w.Bytes()})
		s.publishDefinitions() // before the answer: who hears it finds it in the cache
	}
	s.answer(answer{ask: m.ask, err: err, value: declared{def, changed}})
}

type declared struct {
	def     *flow.Definition
	changed bool
}

// tick acts on the deadlines that have come, within the bounds of one input (R5). What is
// left is due at once, and a message to itself goes on with it.
func (s *shard) tick() {
	s.ticking = false
	begin := s.records
	for items := 0; items < maxTickItems && s.records-begin < maxInputRecords/2 && s.entry.Len() < maxTurnBytes; items++ {
		of, ok := s.timers.due(s.now)
		if !ok {
			break
		}
		switch of := of.(type) {
		case *runSlot:
			s.tickRun(of)
		case *scheduleSlot:
			s.tickSchedule(of)
		case *keySlot:
			s.lookAgain(of)
		}
		s.deliverLocals()
	}
	s.unpark()
	s.retryMail()
	s.fireAgain()
	if at, ok := s.timers.next(); ok && at <= s.now {
		s.ticking = true // others have their turn before it
		s.box.tell(tickMsg{})
	}
}

func (s *shard) tickRun(slot *runSlot) {
	due, ok := slot.run.Due()
	switch {
	case !ok:
		return
	case due.At > s.now: // it moved; its timer follows
	case due.Absolute && due.At > s.node.cfg.Clock.Wall():
		// Shard time has reached the date and the wall has not (R2).
		s.timers.armRun(slot, s.now.Add(s.time.until(due)))
		return
	default:
		s.at = flow.Fields{Run: slot.run.ID()}
		s.out.Reset()
		slot.run.Step(s.now, &flow.Input{Kind: flow.InRunTick, Fields: flow.Fields{Run: slot.run.ID()}}, &s.out)
		s.take()
		if due, ok = slot.run.Due(); !ok {
			return
		}
	}
	s.timers.armRun(slot, due.At)
}

// setTimer asks the clock for a tick at the earliest of the shard's deadlines.
func (s *shard) setTimer() {
	if s.ticking {
		return
	}
	at, ok := s.timers.next()
	for _, more := range [...]flow.Instant{s.parked.next(), s.retryAt, s.fireAt} {
		if more != 0 && (!ok || more < at) {
			at, ok = more, true
		}
	}
	switch {
	case !ok:
		s.clearTimer()
	case s.stopTimer == nil || at != s.timerAt:
		s.clearTimer()
		s.timerAt = at
		s.stopTimer = s.node.cfg.Clock.After(max(at.Sub(s.time.read()), minTimer), func() { s.box.tell(tickMsg{}) })
	}
}

// minTimer keeps a deadline that shard time reaches a moment later than the timer
// from spinning.
const minTimer = 100 * flow.Microsecond

func (s *shard) clearTimer() {
	if s.stopTimer != nil {
		s.stopTimer()
		s.stopTimer = nil
	}
}
