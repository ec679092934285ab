package actors

import (
	"github.com/pyrula/pyrula-node/flow"
)

// parkTime is how long a unit of credit waits in a shard for a token that was
// asked for in its name. A token that comes later finds its key ready again.
const parkTime = 50 * flow.Millisecond

// maxSteps bounds what one offer, or one key's turn, may do before it goes on in a
// message to itself.
const maxSteps = 64

// parked is a unit of credit that waits for a token.
type parked struct {
	offer offer
	until flow.Instant
}

// parkingLot finds the parked units whose time is over: the time is the same for
// all, so the first in is the first out.
type parkingLot struct{ fifo []parkedAt }

type parkedAt struct {
	until flow.Instant
	key   *keySlot
}

func (p *parkingLot) next() flow.Instant {
	if len(p.fifo) == 0 {
		return 0
	}
	return p.fifo[0].until
}

// offer lends one unit of credit to a key: it becomes a grant, is parked beside a
// token that was asked for, or goes back.
func (s *shard) offer(o *offer) {
	s.at = flow.Fields{Key: o.key}
	slot := s.st.keys[o.key]
	if slot == nil {
		s.back = append(s.back, o.claim)
		s.ready = append(s.ready, readiness{key: o.key, consumed: 1})
		return
	}
	slot.consumed++
	s.mark(slot)
	s.tickKey(slot) // an older want of another key goes first
	asked := false
	for range maxSteps {
		if !s.handOnHeads(slot, occasion{o.def, true}) || slot.held(s.now) {
			break
		}
		in := flow.Input{Kind: flow.InOffer, Fields: s.creditFields(o)}
		if !s.stepKey(slot, &in) {
			break
		}
		if s.granted(o) {
			s.deliverLocals()
			return
		}
		asked = true
	}
	if asked {
		until := s.now.Add(parkTime)
		slot.parked = append(slot.parked, parked{*o, until})
		s.parked.fifo = append(s.parked.fifo, parkedAt{until, slot})
	} else {
		s.back = append(s.back, o.claim)
	}
	s.deliverLocals()
}

func (s *shard) creditFields(o *offer) flow.Fields {
	return flow.Fields{
		Key: o.key, Claim: o.claim, Worker: o.worker, Version: o.def.Version, Fence: s.st.fence + 1,
		Lease: o.def.Lease, Attempts: o.def.Attempts, Backoff: o.def.Backoff,
	}
}

// stepKey steps a key and takes what it decided; it says whether that was anything.
func (s *shard) stepKey(slot *keySlot, in *flow.Input) bool {
	s.out.Reset()
	slot.key.Step(s.now, in, &s.out)
	if s.out.Err != nil {
		panic("a key refused " + in.Kind.String() + ": " + s.out.Err.Error()) // its inputs are ours alone
	}
	did := len(s.out.Records)+len(s.out.Effects) > 0
	s.take()
	return did
}

// granted looks for the grant in what was just decided, and holds it.
func (s *shard) granted(o *offer) bool {
	for i := range s.out.Effects {
		e := &s.out.Effects[i]
		if e.Kind != flow.EffGrant {
			continue
		}
		run := s.st.runs[e.Run].run
		key, _ := keyOf(run)
		g := &Grant{
			Run: e.Run, Workflow: run.Workflow(), Version: o.def.Version, Key: key,
			Params: run.Params(), Attempt: run.Attempt(), Fence: e.Fence, Lease: e.Lease, Cancelled: run.CancelAsked(),
			History: pageOf(run, 0), Signals: run.Signals(), State: run.State(),
		}
		s.effects = append(s.effects, effect{kind: effectGrant, grant: grantedMsg{shard: s.id, claim: o.claim, grant: g}})
		return true
	}
	return false
}

// keyInput steps a key with something other than an offer, waking it if need be.
func (s *shard) keyInput(in *flow.Input) {
	s.at = flow.Fields{Key: in.Key, Run: in.Run}
	slot := s.st.touchKey(in.Key)
	s.mark(slot)
	if in.Kind == flow.InToken {
		s.token(slot, in)
		return
	}
	s.stepKey(slot, in)
	s.tickKey(slot)
}

// token brings a token to a key that asked for one, together with a unit of
// parked credit if one is there. A unit that isn't used stays parked.
func (s *shard) token(slot *keySlot, in *flow.Input) {
	if len(slot.parked) == 0 {
		in.Flags &^= flow.FlagCredit
		s.stepKey(slot, in)
		return
	}
	p := slot.parked[0]
	if run := s.st.runs[in.Run]; run != nil && s.outdated(run.run, p.offer.def) {
		// Its worker has newer gates: it is handed on first, so it can't use the token.
		in.Flags &^= flow.FlagCredit
		s.stepKey(slot, in)
		s.deliverLocals()
		s.handOnHeads(slot, occasion{p.offer.def, true})
		return
	}
	credit := s.creditFields(&p.offer)
	in.Flags |= flow.FlagCredit
	in.Claim, in.Worker, in.Version, in.Fence = credit.Claim, credit.Worker, credit.Version, credit.Fence
	in.Lease, in.Attempts, in.Backoff = credit.Lease, credit.Attempts, credit.Backoff
	s.stepKey(slot, in)
	if s.granted(&p.offer) {
		slot.parked = slot.parked[1:]
	}
}

// unpark gives back the units whose time is over.
func (s *shard) unpark() {
	for len(s.parked.fifo) > 0 && s.parked.fifo[0].until <= s.now {
		slot := s.parked.fifo[0].key
		s.parked.fifo = s.parked.fifo[1:]
		for len(slot.parked) > 0 && slot.parked[0].until <= s.now {
			s.back = append(s.back, slot.parked[0].offer.claim)
			slot.parked = slot.parked[1:]
			s.mark(slot)
		}
	}
}

// mark has a key looked at before the turn ends.
func (s *shard) mark(slot *keySlot) {
	if !slot.dirty {
		slot.dirty = true
		s.dirty = append(s.dirty, slot)
	}
}

// tickKey lets a key give the tokens that others wait for.
func (s *shard) tickKey(slot *keySlot) {
	in := flow.Input{Kind: flow.InKeyTick, Fields: flow.Fields{Key: slot.id}}
	for begin := s.records; s.records-begin < maxSteps && s.records < maxTurnRecords+maxInputRecords && s.entry.Len() < 2*maxTurnBytes; {
		if !s.stepKey(slot, &in) {
			return
		}
	}
	s.timers.armKey(slot, s.now) // the timer is due at once, and goes on in another turn
}

// lookAgain has a key act on the time and be looked at.
func (s *shard) lookAgain(slot *keySlot) {
	if s.st.keys[slot.id] != slot {
		return // passivated since its timer was set
	}
	s.at = flow.Fields{Key: slot.id}
	s.tickKey(slot)
	s.tendBatch(slot)
	s.mark(slot)
}

// settleDirty looks at every key that the turn touched: what others wait for from
// it, whether it has work, when it next wants to be called, whether it may go.
func (s *shard) settleDirty() {
	for i := 0; i < len(s.dirty); i++ { //nolint:intrange // ticking may touch further keys
		slot := s.dirty[i]
		s.tickKey(slot)
		s.deliverLocals()
		s.handOnBest(slot)
	}
	for _, slot := range s.dirty {
		slot.dirty = false
		count := s.readyNow(slot)
		if count != slot.reported || slot.consumed != 0 {
			s.ready = append(s.ready, readiness{key: slot.id, count: count, consumed: slot.consumed})
			slot.reported, slot.consumed = count, 0
		}
		if slot.held(s.now) {
			s.timers.armKey(slot, slot.resolving.until)
		}
		if slot.key.Idle(s.now) && count == 0 && len(slot.parked) == 0 {
			s.timers.void(&slot.armed)
			s.st.dropKey(slot)
		} else if due, ok := slot.key.Due(s.now); ok {
			s.timers.armKey(slot, due.At)
		}
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
}

// readyNow is how many runs of a key offers could move now: none while its head waits for
// its key to be computed.
func (s *shard) readyNow(slot *keySlot) int64 {
	if slot.held(s.now) {
		return 0
	}
	return slot.key.Ready(s.now)
}

// tellNews tells the dispatcher what the turn means for it. It does not wait for
// the log: a hint lends credit sooner, and the grant is what waits (law 1).
func (s *shard) tellNews() {
	if len(s.ready)+len(s.back) == 0 {
		return
	}
	s.news++
	s.node.dispatcher.box.tell(newsMsg{shard: s.id, epoch: s.epoch, number: s.news, ready: s.ready, back: s.back})
	s.ready, s.back = nil, nil
}

// reportAll tells the dispatcher the whole ready set.
func (s *shard) reportAll() {
	s.tellNews()
	all := newsMsg{shard: s.id, epoch: s.epoch, whole: true}
	for slot := range s.st.keySlab.all() {
		slot.reported = s.readyNow(slot)
		if slot.reported > 0 || slot.consumed > 0 {
			all.ready = append(all.ready, readiness{key: slot.id, count: slot.reported, consumed: slot.consumed})
			slot.consumed = 0
		}
	}
	s.news++
	all.number = s.news
	s.node.dispatcher.box.tell(all)
}
