package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Bounds of a turn (R5). An entry is closed at a message boundary once it holds
// maxTurnRecords or maxTurnBytes; no message makes more than maxInputRecords.
const (
	maxTurnRecords  = 512
	maxTurnBytes    = 512 << 10
	maxInputRecords = 256
	maxTickItems    = 1024
)

// maxNewWork bounds the new work that waits for one shard; beyond it submits are
// refused with flow.ErrOverloaded (R7).
const maxNewWork = 16_384

// fenceStep is what a promotion rounds the fence counter up to (R18): a fence
// given in a lost turn is never given again.
const fenceStep = 1 << 24

// fencesPerSecond is the binary logarithm of the fences that a second of the clock is
// worth: more than a shard admits in it, and until the year 2242 a fence stays below 2^53.
const fencesPerSecond = 20

// shard owns 64 partitions: the one goroutine that steps their keys and runs,
// and the one writer of their log.
type shard struct {
	id   engine.ShardID
	node *Node
	box  *mailbox
	log  engine.Log

	newWork atomic.Int64 // counted commands that are not handled yet
	owner   atomic.Bool

	endedSeen atomic.Int64 // what the archiver was told of: ended runs in memory
	keysSeen  int64        // and idempotency keys
	recovered bool         // what it had at its first promotion is counted
	counted   bool         // what it has archived was compared with what is there

	st        *state
	epoch     engine.Epoch
	time      shardTime
	now       flow.Instant // of the turn
	appended  engine.Seq
	committed engine.Seq
	quiet     bool // no more turns: the node is closing
	window    window
	pending   ring
	captures  uint64

	// Of the turn that is being built.
	out     flow.Out
	entry   *flow.Writer
	records int
	effects []effect
	dirty   []*keySlot
	locals  []flow.Input // letters to keys of this same shard
	ready   []readiness
	back    []uint64
	at      flow.Fields // what is being handled, for last words

	handed    int             // runs that this turn has handed on
	announced announced       // what live workers serve
	warned    map[string]bool // what the log was told of once
	due       dueBatches
	fireAt    flow.Instant // when those are looked at again although nobody was announced; zero for never
	news      uint64
	timers    timers
	parked    parkingLot
	stopTimer func()
	timerAt   flow.Instant
	ticking   bool                      // a tick waits for its turn: no timer meanwhile
	retryAt   flow.Instant              // when undelivered letters are sent again; zero for never
	following map[engine.ShardID]uint64 // highest letter handed to each shard's mailbox
	gaps      map[engine.ShardID]uint64 // the letter that each shard was last asked to send again
	keyAsks   map[letterID][]answer     // submits that wait for a letter to arrive
	lookups   lookups                   // submits that wait for a look into the archive
}

// stopped implements handler.
func (s *shard) stopped() { s.clearTimer() }

func newShard(n *Node, id engine.ShardID) *shard {
	s := &shard{id: id, node: n, entry: flow.NewWriter()}
	s.box = &mailbox{handler: s, fatal: n.cfg.Fatal}
	return s
}

// position names what is being handled.
func (s *shard) position() string {
	return fmt.Sprintf("shard %d epoch %d entry %d run %s %s", s.id, s.epoch, s.appended+1, s.at.Run, s.at.Key)
}

// receive implements handler: it sorts the messages and takes turns while there is
// something to do and room for its outcome.
func (s *shard) receive(msgs []any) {
	for _, m := range msgs {
		switch m := m.(type) {
		case promoteMsg:
			s.promote(m)
		case committedMsg:
			s.commit(m)
		case demoteMsg:
			s.demote(m)
		case captureMsg:
			s.beginCapture(m)
		case sliceMsg:
			s.slice(m)
		case releaseMsg:
			s.release(m)
		case offerMsg: // one by one, so that the entry can be closed between them
			for i := range m.offers {
				s.pending.push(lentMsg{m.epoch, &m.offers[i]})
			}
		case quietMsg:
			s.quiet = true
			close(m.done)
		case tickMsg:
			s.stopTimer, s.ticking = nil, true // it has fired, so the next one is set in any case
			s.pending.push(m)
		default:
			s.pending.push(m)
		}
	}
	for s.pending.len() > 0 && s.works() && s.log.Room() > 0 {
		s.turn()
	}
	if !s.works() {
		for s.pending.len() > 0 {
			s.refuse(s.pending.pop())
		}
		return
	}
	s.setTimer()
}

// works says whether the shard takes turns.
func (s *shard) works() bool { return s.owner.Load() && !s.quiet }

// turn handles messages into one entry, appends it and holds its effects.
func (s *shard) turn() {
	s.now = s.time.read()
	s.beginTurn()
	for s.pending.len() > 0 && s.records < maxTurnRecords && s.entry.Len() < maxTurnBytes {
		if s.records > 0 && s.entry.Len()+sizeOf(s.pending.front()) > maxTurnBytes {
			break // a large record travels alone
		}
		s.handle(s.pending.pop())
	}
	s.endTurn()
}

// sizeOf is about what a message adds to an entry beside some fields.
func sizeOf(m any) int {
	switch m := m.(type) {
	case *command:
		size := len(m.in.Payload) + len(m.in.Extra)
		for i := range m.in.Parts {
			size += len(m.in.Parts[i].Payload)
		}
		return size
	case letterMsg:
		return len(m.body)
	case *eventsMsg:
		return m.bytes
	}
	return 0
}

func (s *shard) beginTurn() {
	s.entry.Reset()
	s.records, s.handed = 0, 0
}

// endTurn makes one entry of the turn's records (law 2) and holds its effects
// until that entry is durable (law 1).
func (s *shard) endTurn() {
	s.settleDirty()
	if s.records > 0 {
		seq, err := s.log.Append(s.epoch, int64(s.now), s.entry.Bytes())
		if err != nil {
			s.lost(err)
			return
		}
		s.appended = seq
	}
	for i := range s.effects {
		s.window.hold(s.appended, s.effects[i])
	}
	clear(s.effects)
	s.effects = s.effects[:0]
	s.window.release(s.committed, s.emit)
	s.tellNews()
	s.noteLeaving()
}

// lost handles an append that was refused. Losing ownership between Room and
// Append is ordinary: a demotion is on its way, and the turn is thrown away with
// the state. Anything else is a bug or a failed disk: fail-stop.
func (s *shard) lost(err error) {
	if !isNotOwner(err) {
		panic(fmt.Sprintf("append: %v", err))
	}
	for i := range s.effects {
		s.window.hold(s.appended+1, s.effects[i])
	}
	clear(s.effects)
	s.effects = s.effects[:0]
	s.demote(demoteMsg{epoch: s.epoch, reason: err})
}

// handle dispatches one message that takes part in a turn.
func (s *shard) handle(m any) {
	switch m := m.(type) {
	case *command:
		s.command(m)
	case *declareMsg:
		s.declare(m)
	case *scheduleMsg:
		s.schedule(m)
	case *eventsMsg:
		s.takeEvents(m)
	case fireMsg:
		s.fireDue(m)
	case lentMsg:
		if m.epoch == s.epoch {
			s.offer(m.offer)
		}
	case letterMsg:
		s.letter(m)
	case ackMsg:
		s.acked(m)
	case foundMsg:
		s.found(m)
	case soughtMsg:
		s.sought(m)
	case archivedMsg:
		s.archived(m)
	case queryMsg:
		v, err := m.read(s)
		s.answer(answer{ask: m.ask, item: m.item, value: v, err: err})
	case watchMsg:
		s.watch(m)
	case unwatchMsg:
		s.unwatch(m)
	case announceMsg:
		s.announce(m)
	case sweepMsg:
		s.sweep(m)
	case *resolvedMsg:
		s.resolved(m)
	case fetchMsg:
		s.reportAll()
	case tickMsg:
		s.tick()
	default:
		panic(fmt.Sprintf("message %T is not a shard's", m))
	}
	s.at = flow.Fields{}
}

// refuse answers a message that came while the shard has no owner's state: nothing
// happened.
func (s *shard) refuse(m any) {
	no := func(ask askID, item int) {
		s.node.asks.answer(answer{ask: ask, item: item, err: flow.ErrNotReady})
	}
	switch m := m.(type) {
	case *command:
		if m.counted {
			s.newWork.Add(-1)
		}
		no(m.ask, m.item)
	case *declareMsg:
		no(m.ask, 0)
	case *scheduleMsg:
		no(m.ask, 0)
	case *eventsMsg:
		s.newWork.Add(-int64(len(m.events)))
		no(m.ask, m.item)
	case queryMsg:
		no(m.ask, m.item)
	case watchMsg:
		no(m.ask, 0)
	case *resolvedMsg:
		no(m.ask, m.item)
	case archivedMsg:
		no(m.ask, m.item)
	case foundMsg:
		s.lookups.fail(s.node.asks.answer)
	default: // offers come back with goneMsg; letters and acks are sent again
	}
}

// take writes down, applies and passes on what a Step decided. The records go into
// the entry before apply completes them for the key.
func (s *shard) take() {
	for i := range s.out.Records {
		rec := &s.out.Records[i]
		if rec.Kind < flow.RecVolatile {
			s.entry.Record(rec)
			s.records++
		}
		s.follow(s.st.apply(rec), rec)
	}
	for i := range s.out.Effects {
		if e := &s.out.Effects[i]; e.Kind == flow.EffSend {
			s.send(e.Letter())
		}
	}
}

// write is take for one record of the shard's own.
func (s *shard) write(kind flow.RecordKind, f flow.Fields) {
	rec := flow.Record{Kind: kind, At: s.now, Fields: f}
	s.entry.Record(&rec)
	s.records++
	s.follow(s.st.apply(&rec), &rec)
}

// follow does what a change asks of the host: deadlines, watchers, a second look
// at the key.
func (s *shard) follow(t touched, rec *flow.Record) {
	if t.batches != 0 {
		s.node.batches.Add(t.batches)
	}
	if t.bytes != 0 {
		s.node.buffered.Add(t.bytes)
	}
	if t.key != nil && !t.key.dirty {
		t.key.dirty = true
		s.dirty = append(s.dirty, t.key)
	}
	if t.run == nil {
		return
	}
	if rec.Kind == flow.RecSubmitted || rec.Kind == flow.RecBatchCut {
		s.node.runs.Add(1)
	}
	if due, ok := t.run.run.Due(); ok {
		s.timers.armRun(t.run, due.At)
	}
	if t.ended {
		for _, w := range t.run.watchers {
			s.answer(answer{ask: w.ask, run: rec.Run})
		}
		t.run.watchers = nil
	}
	s.node.observe(t, rec)
}

func (s *shard) answer(a answer) {
	if a.ask != 0 {
		s.effects = append(s.effects, effect{kind: effectAnswer, answer: a})
	}
}

// emit lets one effect out; everything it depends on is durable.
func (s *shard) emit(e *effect) {
	switch e.kind {
	case effectAnswer:
		s.node.asks.answer(e.answer)
	case effectGrant:
		s.node.dispatcher.box.tell(e.grant)
	case effectLetter:
		s.mail(e.shard, e.number)
	case effectAck:
		s.node.shards[e.shard].box.tell(ackMsg{from: s.id, upto: e.number, again: e.again})
	case effectCandidate:
		s.node.dispatcher.box.tell(e.candidate)
	case effectDeclared:
		s.node.registry.publish(e.defs)
		s.node.noteReady()
	}
}
