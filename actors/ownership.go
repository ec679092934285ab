package actors

import (
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

func isNotOwner(err error) bool { return errors.Is(err, engine.ErrNotOwner) }

// promote makes the shard owner of a rebuilt state: fences jump, every holder gets
// a full lease, every deadline and letter is picked up again, and the dispatcher
// learns the whole ready set.
func (s *shard) promote(m promoteMsg) {
	s.st, s.epoch = m.st, m.epoch
	s.st.list()
	s.time = startShardTime(s.node.cfg.Clock, m.wall)
	s.now = s.time.read()
	s.appended, s.committed, s.news = 0, 0, 0
	s.window, s.timers, s.parked = window{}, timers{}, parkingLot{}
	s.dirty, s.locals, s.ready, s.back = nil, nil, nil, nil
	s.following = make(map[engine.ShardID]uint64)
	s.gaps = make(map[engine.ShardID]uint64)
	s.keyAsks = make(map[letterID][]answer)
	s.retryAt, s.ticking, s.handed, s.announced, s.due, s.fireAt = 0, false, 0, nil, nil, 0
	s.owner.Store(true)
	s.node.promoted(s)

	s.resumeMail() // first: what this promotion writes leaves with its own entry
	s.beginTurn()
	s.write(flow.RecPromoted, flow.Fields{Fence: nextFence(s.st.fence, s.now), Order: s.st.lastSent})
	for slot := range s.st.runSlab.all() {
		slot.armed = armed{}
		s.out.Reset()
		slot.run.Resume(s.now, &s.out)
		s.take()
		if due, ok := slot.run.Due(); ok {
			s.timers.armRun(slot, due.At)
		}
	}
	for slot := range s.st.keySlab.all() {
		slot.armed, slot.dirty, slot.reported, slot.consumed, slot.parked = armed{}, false, 0, 0, nil
		slot.judged, slot.judgedAsked, slot.resolving = judgement{}, judgement{}, resolving{}
		s.resumeBatch(slot)
		s.out.Reset()
		slot.key.Resume(s.now, &s.out)
		s.take()
		// What came due while nobody owned the shard is done in turns of the usual size.
		s.timers.armKey(slot, s.now)
	}
	if s.id == 0 {
		s.publishDefinitions()
	}
	s.resumeSeeking()
	s.resumeSchedules()
	s.endTurn()
	if s.owner.Load() { // else it was lost again with its first entry
		s.reportAll()
	}
}

// nextFence is where the fences of a new owner begin (R18): a step behind all that were
// given, and never where they began at another time. So a directory that was put back from
// a backup doesn't give the fences of the life it lost.
func nextFence(last uint64, now flow.Instant) uint64 {
	clock := uint64(max(now, 0)) / uint64(flow.Second) << fencesPerSecond
	return (max(last, clock)/fenceStep + 1) * fenceStep
}

// publishDefinitions renews the node's cache once what it shows is durable (R17).
func (s *shard) publishDefinitions() {
	copied := definitions{byWorkflow: s.st.defs.clone()}
	s.effects = append(s.effects, effect{kind: effectDeclared, defs: &copied})
}

func (s *shard) commit(m committedMsg) {
	if m.epoch != s.epoch || !s.owner.Load() {
		return // of a life that is over
	}
	s.committed = m.upto
	s.window.release(m.upto, s.emit)
}

// demote throws everything away: the outcome of what isn't committed is unknown.
func (s *shard) demote(m demoteMsg) {
	if m.epoch != s.epoch || !s.owner.Load() {
		return
	}
	s.owner.Store(false)
	s.window.fail(s.node.asks.answer)
	s.lookups.fail(s.node.asks.answer)
	for _, waiting := range s.keyAsks { //tidy:ordered every asker hears the same
		for _, a := range waiting {
			a.err = flow.ErrOutcomeUnknown
			s.node.asks.answer(a)
		}
	}
	for slot := range s.st.runSlab.all() {
		for _, w := range slot.watchers {
			s.node.asks.answer(answer{ask: w.ask, err: flow.ErrNotReady})
		}
	}
	if s.st.capture != nil {
		s.st.capture.dead = true
	}
	s.node.demoted(s, m.reason)
	s.leaveBatches()
	s.node.schedules.count.Add(-int64(len(s.st.schedules.named)))
	s.st = nil
	s.noteLeaving()
	s.clearTimer()
	s.node.dispatcher.box.tell(goneMsg{s.id})
}

func (s *shard) beginCapture(m captureMsg) {
	if !s.owner.Load() {
		m.reply <- captureReply{err: engine.ErrNotOwner}
		return
	}
	if s.st.capture != nil {
		m.reply <- captureReply{err: errors.New("actors: a snapshot of this shard is under way")}
		return
	}
	s.captures++
	m.reply <- captureReply{cap: s.st.begin(s.captures, s.epoch, s.appended)}
}

func (s *shard) slice(m sliceMsg) {
	if m.cap.dead || s.st == nil || s.st.capture != m.cap {
		m.reply <- sliceReply{err: fmt.Errorf("the snapshot's shard was demoted: %w", engine.ErrNotOwner)}
		return
	}
	b, more := m.cap.slice()
	m.reply <- sliceReply{bytes: b, more: more}
}

func (s *shard) release(m releaseMsg) {
	if s.st != nil && s.st.capture == m.cap {
		s.st.capture = nil
	}
}

// machine is the shard as its engine sees it. The engine rebuilds a state beside
// the shard and hands it over at the promotion; everything that concerns a living
// shard becomes a message (R5).
type machine struct {
	shard  *shard
	st     *state
	reader *flow.Reader
}

var _ engine.Machine = (*machine)(nil)

func (m *machine) state() *state {
	if m.st == nil {
		m.st = newState(len(m.shard.node.shards))
	}
	return m.st
}

// Apply implements engine.Machine.
func (m *machine) Apply(e engine.Entry) error {
	st := m.state()
	if err := m.reader.Reset(e.Body); err != nil {
		return fmt.Errorf("shard %d entry %d: %w", m.shard.id, e.Pos, err)
	}
	var rec flow.Record
	for m.reader.More() {
		if err := m.reader.Record(&rec); err != nil {
			return fmt.Errorf("shard %d entry %d: %w", m.shard.id, e.Pos, err)
		}
		if err := legible(&rec); err != nil {
			return fmt.Errorf("shard %d entry %d: %w", m.shard.id, e.Pos, err)
		}
		rec.At = flow.Instant(e.Wall)
		st.apply(&rec)
		m.shard.node.replayed.Add(1)
	}
	return nil
}

// Promote implements engine.Machine.
func (m *machine) Promote(ep engine.Epoch, _ engine.Pos, wall int64) {
	st := m.state()
	st.schedules.compute(m.shard.node.schedules.zones.find)
	m.shard.box.tell(promoteMsg{epoch: ep, wall: flow.Instant(wall), st: st})
	m.st = nil
}

// Committed implements engine.Machine.
func (m *machine) Committed(ep engine.Epoch, upto engine.Seq) {
	m.shard.box.tell(committedMsg{ep, upto})
}

// Demote implements engine.Machine.
func (m *machine) Demote(ep engine.Epoch, reason error) {
	m.st = nil
	m.shard.box.tell(demoteMsg{ep, reason})
}

// Capture implements engine.Machine.
func (m *machine) Capture() (engine.Snapshot, error) {
	reply := make(chan captureReply, 1)
	m.shard.box.tell(captureMsg{reply})
	select {
	case r := <-reply:
		if r.err != nil {
			return nil, fmt.Errorf("capture shard %d: %w", m.shard.id, r.err)
		}
		return &snapshot{shard: m.shard, cap: r.cap}, nil
	case <-m.shard.box.stopped:
		return nil, engine.ErrStopped
	}
}
