package actors

import (
	"fmt"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// Bounds of hand-ons.
const (
	// maxHandOns bounds the runs that one turn hands on (R16); the rest follows in the
	// next ones.
	maxHandOns = 64
	// resolveFor is how long a run is left alone while a worker computes its key; then it
	// is offered again, maxAsked times in all. A run whose key nobody computes stays under
	// its stamp: workers of its own version must not wait for one that doesn't answer.
	resolveFor = 5 * flow.Second
	maxAsked   = 3
	// maxWarned bounds what a shard remembers that it has warned of.
	maxWarned = 1000
	// sweepKeys bounds the keys that one message looks at for a new declaration.
	sweepKeys = 1024
)

// announceMsg says that a live worker serves a declaration, and until when that is so
// unless it is said again (R16).
type announceMsg struct {
	def   *flow.Definition
	until flow.Span // monotonic
}

// sweepMsg looks at the keys of a workflow, from a seat on, whose head may have to be
// handed on since a declaration was announced.
type sweepMsg struct {
	epoch    engine.Epoch
	workflow string
	seat     int
}

// resolvedMsg brings the keys of a candidate: stamp is its stamp under def, nil when the
// worker could not compute it.
type resolvedMsg struct {
	run   flow.RunID
	def   *flow.Definition
	stamp *flow.Stamp
	ask   askID
	item  int
}

// Candidate is a run that waits for a worker to compute its key under a declaration.
type Candidate struct {
	Run    flow.RunID
	Def    *flow.Definition
	Params []byte
}

// announced are the declarations that live workers serve, by workflow. They are hints of
// this moment: nothing of them is durable.
type announced map[string][]announceMsg

// best is the newest of the declarations that are served, or nil.
func (a announced) best(workflow string, now flow.Span) *flow.Definition {
	return a.bestOf(workflow, now, func(*flow.Definition) bool { return true })
}

// bestOf is best among those that f chooses.
func (a announced) bestOf(workflow string, now flow.Span, f func(*flow.Definition) bool) *flow.Definition {
	var best *flow.Definition
	for _, m := range a[workflow] {
		if m.until < now || !f(m.def) {
			continue
		}
		if best == nil {
			best = m.def
			continue
		}
		if c := flow.CompareVersions(m.def, best); c > 0 || (c == 0 && m.def.At > best.At) {
			best = m.def
		}
	}
	return best
}

// hear takes an announcement; it says whether the declaration wasn't served before.
func (a announced) hear(m announceMsg, now flow.Span) bool {
	list := a[m.def.Workflow]
	kept := list[:0]
	known := false
	for _, old := range list {
		switch {
		case old.def == m.def:
			known = old.until >= now
		case old.until >= now:
			kept = append(kept, old)
		}
	}
	if m.until < now { // nobody serves it any more
		a[m.def.Workflow] = kept
		return false
	}
	a[m.def.Workflow] = append(kept, m)
	return !known
}

func (s *shard) announce(m announceMsg) {
	if s.announced == nil {
		s.announced = make(announced)
	}
	if s.announced.hear(m, s.time.mono) {
		s.sweep(sweepMsg{epoch: s.epoch, workflow: m.def.Workflow})
	}
	if len(s.due[m.def.Workflow]) > 0 {
		s.fireDue(fireMsg{workflow: m.def.Workflow})
	}
}

// sweep marks the keys of a workflow whose head is to be handed on, some at a time.
func (s *shard) sweep(m sweepMsg) {
	if m.epoch != s.epoch {
		return
	}
	best := s.announced.best(m.workflow, s.time.mono)
	if best == nil {
		return
	}
	seats := s.st.keySlab.seats
	for end := min(m.seat+sweepKeys, len(seats)); m.seat < end; m.seat++ {
		if slot := seats[m.seat]; slot != nil && slot.id.Workflow == m.workflow && s.outOfDate(slot, occasion{def: best}) {
			s.mark(slot)
		}
	}
	if m.seat < len(seats) {
		s.box.tell(m) // others have their turn before it
	}
}

// outOfDate says whether something of a key is to be handed on.
func (s *shard) outOfDate(slot *keySlot, o occasion) bool {
	if s.judgeHead(slot, o) != keepHead {
		return true
	}
	id, stamp, ok := slot.key.Asked()
	return ok && !slot.judgedAsked.spares(o, id, stamp) && s.judge(&slot.judgedAsked, o, id, stamp) == handHeadOn
}

// fate is what is to become of the head of a key's queue.
type fate uint8

const (
	keepHead    fate = iota // it stays under its stamp
	handHeadOn              // a successor takes its place
	resolveHead             // only the workflow's code can say: its key is a function
)

// occasion is why hand-ons are thought of.
type occasion struct {
	def *flow.Definition
	// claimed says that a worker of def asks for work. Else def is only known to be
	// served: then of two declarations of one rank the later one counts.
	claimed bool
}

// judgeHead is judge for the head of a key's queue.
func (s *shard) judgeHead(slot *keySlot, o occasion) fate {
	id, stamp, ok := slot.key.Head()
	if !ok || slot.judged.spares(o, id, stamp) {
		return keepHead
	}
	return s.judge(&slot.judged, o, id, stamp)
}

// judge says whether a waiting run goes on under the gates of a declaration (P27 to P31,
// P77, P78). It changes nothing but what spares it the same question again.
func (s *shard) judge(known *judgement, o occasion, id flow.RunID, stamp *flow.Stamp) fate {
	def, run := o.def, s.st.runs[id]
	if run == nil {
		return keepHead // its record is on its way in this very turn
	}
	agrees := def.Agrees(run.run.Stamp())
	if agrees == flow.GatesEqual {
		*known = judgement{occasion: occasion{def, true}, stamp: stamp}
		return keepHead
	}
	if !s.mayMove(run.run, o) {
		*known = judgement{occasion: o, run: id}
		return keepHead
	}
	if agrees == flow.GatesUnsure || def.NeedsCode() {
		return resolveHead
	}
	return handHeadOn
}

// judgement remembers what needs no second look: a stamp that agrees with a declaration,
// or a run that stays under its own.
type judgement struct {
	occasion
	stamp *flow.Stamp
	run   flow.RunID
}

// spares says whether the answer for a head is known: it stays.
func (j *judgement) spares(o occasion, id flow.RunID, stamp *flow.Stamp) bool {
	if j.def != o.def || (o.claimed && !j.claimed) {
		return false
	}
	return j.run == id || (j.stamp == stamp && stamp != nil)
}

// mayMove says whether a run may go on under a declaration: forward only, and for a
// successor strictly forward.
func (s *shard) mayMove(run *runactor.Run, o occasion) bool {
	if !run.MayHandOn() {
		return false
	}
	def := o.def
	stamp := run.Stamp()
	seen := int64(0)
	list := s.node.registry.list(run.Workflow())
	if old := lastOf(list, stamp.Version); old != nil {
		seen = old.Seen
	}
	switch c := def.CompareStamp(stamp, seen); {
	case c < 0:
		return false
	case c > 0 && run.IsSuccessor() && def.Seen <= seen && slices.ContainsFunc(list, unnumbered):
		// Numbers and names together have no order of their own: a successor that went by
		// one and then by the other could go round for ever.
		return false
	case c == 0 && run.IsSuccessor():
		s.warnEqual(run, def)
		return false
	case c == 0 && !o.claimed:
		last := lastOf(list, def.Version)
		return last != nil && last.GatesHash == def.GatesHash
	}
	return true
}

func unnumbered(d *flow.Definition) bool { return !d.Numbered() }

// warnEqual tells the operator, once for each pair of gates, that two declarations of
// equal rank differ: runs that were handed on once stay where they are (P78).
func (s *shard) warnEqual(run *runactor.Run, def *flow.Definition) {
	have := gatesText(run.Stamp())
	if !s.warns(run.Workflow() + "\x00" + have + "\x00" + def.GatesHash) {
		return
	}
	s.node.cfg.Logger.Warn("two declarations of equal rank have different gates: runs that were handed on once stay under theirs",
		"workflow", run.Workflow(), "run_id", run.ID().String(), "version", run.Stamp().Version, "gates", have,
		"other_version", def.Version, "other_gates", rulesText(def))
}

// warnKeyless tells the operator, once for each declaration, that a run has no key under it.
func (s *shard) warnKeyless(def *flow.Definition, id flow.RunID, err error) {
	if !s.warns(def.Workflow + "\x00" + def.Version + "\x00" + def.GatesHash) {
		return
	}
	s.node.cfg.Logger.Warn("a run has no key under newer gates: it, and others like it, stay under their own",
		"run_id", id.String(), "workflow", def.Workflow, "version", def.Version, "err", err)
}

// warns says whether something is to be warned of: once, within a bound.
func (s *shard) warns(of string) bool {
	if s.warned[of] || len(s.warned) >= maxWarned {
		return false
	}
	if s.warned == nil {
		s.warned = make(map[string]bool)
	}
	s.warned[of] = true
	return true
}

// handOnHeads hands on what stands at the head of a key's queue and doesn't agree with
// def, within the bounds of a turn. It says whether the head may be admitted to a worker
// of def: not while its key is being computed, or its turn to be handed on hasn't come.
func (s *shard) handOnHeads(slot *keySlot, o occasion) bool {
	if !s.handOnAsked(slot, o) {
		return false
	}
	for {
		switch s.judgeHead(slot, o) {
		case keepHead:
			return true
		case resolveHead:
			s.askForKey(slot, o.def)
			return false
		case handHeadOn:
		}
		id, _, _ := slot.key.Head()
		if !s.handOnOne(slot, &slot.judged, o.def, id) {
			return false
		}
	}
}

// handOnAsked is handOnHeads for the runs whose tokens are asked for at another key: they
// have left the queue, and a newer rate counts for them too. One whose key only code can
// compute goes on as it is.
func (s *shard) handOnAsked(slot *keySlot, o occasion) bool {
	for {
		id, stamp, ok := slot.key.Asked()
		if !ok || slot.judgedAsked.spares(o, id, stamp) || s.judge(&slot.judgedAsked, o, id, stamp) != handHeadOn {
			return true
		}
		if !s.handOnOne(slot, &slot.judgedAsked, o.def, id) {
			return false
		}
	}
}

// handOnOne hands one run on; it says false when its turn comes later.
func (s *shard) handOnOne(slot *keySlot, known *judgement, def *flow.Definition, id flow.RunID) bool {
	run := s.st.runs[id]
	if s.handed >= maxHandOns || (s.records > 0 && s.entry.Len()+len(run.run.Params()) > maxTurnBytes) {
		s.timers.armKey(slot, s.now) // goes on in another turn
		return false
	}
	stamp, err := def.Stamp(run.run.Params(), flow.Keys{Eval: s.node.evaluate})
	if err != nil {
		*known = judgement{occasion: occasion{def, true}, run: id} // its key under def is none: it stays as it is
		s.warnKeyless(def, id, err)
		return true
	}
	s.handOn(run, stamp)
	return true
}

// handOn ends a queued run and puts its successor in its place, in one entry (P76).
func (s *shard) handOn(slot *runSlot, stamp *flow.Stamp) {
	s.handed++
	run := slot.run
	s.leaveQueue(slot, flow.InHandOn)
	e := s.node.cfg.Entropy()
	partition := run.ID().Partition() // without a key the successor stays in the shard
	if home := stamp.Home(run.Workflow()); home.Kind == flow.KeyOfValue {
		partition = home.Partition()
	}
	in := flow.Input{Kind: flow.InHandOn, Fields: flow.Fields{
		Run: run.ID(), Other: flow.NewRunID(s.node.cfg.Clock.Wall(), partition, e), Stamp: stamp,
	}}
	s.at = flow.Fields{Run: run.ID()}
	s.out.Reset()
	run.Step(s.now, &in, &s.out)
	s.take()
	s.deliverLocals()
}

// askForKey sends the head of a key's queue to a worker of def, which computes its key.
func (s *shard) askForKey(slot *keySlot, def *flow.Definition) {
	id, _, _ := slot.key.Head()
	r := &slot.resolving
	if r.run != id || r.def != def {
		*r = resolving{run: id, def: def}
	}
	if r.until > s.now {
		return
	}
	if r.asked == maxAsked {
		slot.judged = judgement{occasion: occasion{def, true}, run: id}
		s.mark(slot)
		s.node.cfg.Logger.Warn("no worker computes the key of a run under newer gates: it stays under its own",
			"run_id", id.String(), "workflow", def.Workflow, "version", def.Version)
		return
	}
	r.asked++
	r.until = s.now.Add(resolveFor)
	s.timers.armKey(slot, slot.resolving.until)
	c := Candidate{Run: id, Def: def, Params: s.st.runs[id].run.Params()}
	s.effects = append(s.effects, effect{kind: effectCandidate, candidate: c})
}

// resolving is a run whose key a worker was asked for: until then it isn't admitted.
type resolving struct {
	run   flow.RunID
	def   *flow.Definition
	asked int
	until flow.Instant
}

// held says whether the head of the key waits for its key to be computed.
func (k *keySlot) held(now flow.Instant) bool {
	if k.resolving.until <= now {
		return false
	}
	id, _, ok := k.key.Head()
	return ok && id == k.resolving.run
}

// resolved takes the stamp of a candidate. One that has started, ended or moved meanwhile
// is left alone.
func (s *shard) resolved(m *resolvedMsg) {
	a := answer{ask: m.ask, item: m.item, run: m.run}
	run := s.st.runs[m.run]
	if run == nil {
		a.err = fmt.Errorf("run %s: %w", m.run, flow.ErrUnknownRun)
		s.answer(a)
		return
	}
	key := s.st.keys[run.run.Stamp().Home(run.run.Workflow())]
	if key != nil && key.resolving.run == m.run {
		key.resolving = resolving{}
		s.mark(key)
	}
	switch {
	case m.stamp == nil || sameGates(m.stamp, run.run.Stamp()):
		if key != nil {
			key.judged = judgement{occasion: occasion{m.def, true}, run: m.run}
		}
	case s.mayMove(run.run, occasion{m.def, true}) && m.def.Agrees(run.run.Stamp()) != flow.GatesEqual:
		s.handOn(run, m.stamp)
		a.flags = flow.FlagOK
	}
	s.answer(a)
}

// outdated says whether a run under way to another key is to be handed on before a worker
// of def may have it.
func (s *shard) outdated(run *runactor.Run, def *flow.Definition) bool {
	return def.Agrees(run.Stamp()) == flow.GatesDiffer && s.mayMove(run, occasion{def, true})
}

// handOnBest hands on the head of a key to the newest declaration that is served, blocked
// or not (R16).
func (s *shard) handOnBest(slot *keySlot) {
	if len(s.announced) == 0 {
		return
	}
	if best := s.announced.best(slot.id.Workflow, s.time.mono); best != nil {
		s.handOnHeads(slot, occasion{def: best})
	}
}
