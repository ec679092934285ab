package actors

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/keyactor"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// state is all that a shard remembers: pure, built by apply alone, the same for
// the live path, for replay and for a follower. Whatever else a shard has (asks,
// parked credit, watchers, timers) is thrown away with its ownership.
type state struct {
	runs      map[flow.RunID]*runSlot
	keys      map[flow.KeyID]*keySlot
	runSlab   slab[*runSlot]
	keySlab   slab[*keySlot]
	fence     uint64       // the last fence given (R18)
	lastSent  flow.Instant // the last submit instant given: order keys strictly rise
	mail      mailboxes
	keyed     keyedMemory
	archived  archivedCounts
	requests  requestMemory
	cutEvents eventMemory
	seeking   seekingRuns
	ended     byAge[flow.RunID] // runs that have ended and nobody holds
	defs      definitions       // shard 0 only
	schedules scheduleMemory
	listed    bool // index and ended are kept in step
	index     runIndex
	capture   *capture // the snapshot under way, if any
}

// runSlot is a run and what the shard keeps beside it. Fields after run are
// volatile.
type runSlot struct {
	run      *runactor.Run
	seat     int
	saved    uint64 // the capture that has the run
	armed    armed
	watchers []watcher
}

// over says whether there is a run to which nothing more can happen: only such a one
// leaves memory (R14, R20).
func (s *runSlot) over() bool { return s != nil && s.run.Over() }

// keySlot is a key and what the shard keeps beside it. Fields after key are
// volatile.
type keySlot struct {
	id          flow.KeyID
	key         *keyactor.Key
	seat        int
	saved       uint64
	armed       armed
	dirty       bool        // to be looked at before the turn ends
	stamp       *flow.Stamp // the last one seen: runs of one stamp share it
	reported    int64       // what the dispatcher was last told
	consumed    int64       // offers handled since then
	parked      []parked    // credit that waits for a token on its way
	awaits      bool        // it stands in the list of batches that wait for a worker
	judged      judgement   // what of its head needs no second look
	judgedAsked judgement   // the same of the oldest run under way to another key
	resolving   resolving   // its head, while a worker computes its key
}

func newState(shards int) *state {
	return &state{
		runs:  make(map[flow.RunID]*runSlot),
		keys:  make(map[flow.KeyID]*keySlot),
		mail:  newMailboxes(shards),
		keyed: newKeyedMemory(),
		ended: newByAge(flow.RunID.Compare),
		index: newRunIndex(),
	}
}

// touched is what one record changed.
type touched struct {
	run   *runSlot
	key   *keySlot
	ended bool // the run is over since this record

	batches int64 // more that are open
	bytes   int64 // more that they hold
}

// apply takes one fact: the only way a state changes. It fills rec in from the run
// before the key sees it, so a record that is to be written is written first. A
// record that can't be applied panics: the log and the state disagree.
func (st *state) apply(rec *flow.Record) touched {
	switch {
	case rec.Kind < flow.RecAsked || rec.Kind >= flow.RecVolatile:
		return st.applyRun(rec)
	case rec.Kind >= flow.RecBatchOpened && rec.Kind <= flow.RecBatchCut:
		return st.applyBatch(rec)
	case rec.Kind < flow.RecPromoted:
		k := st.touchKey(rec.Key)
		k.key.Apply(rec)
		return touched{key: k}
	}
	st.applyShard(rec)
	return touched{}
}

func (st *state) applyRun(rec *flow.Record) touched {
	slot := st.runs[rec.Run]
	if rec.Kind == flow.RecArchived {
		st.forget(rec.Run)
		return touched{}
	}
	if slot == nil {
		if rec.Kind != flow.RecSubmitted {
			panic(fmt.Sprintf("record %s for run %s, which doesn't exist", rec.Kind, rec.Run))
		}
		st.share(rec)
		slot = st.addRun(runactor.New(rec.Run))
	}
	st.capture.beforeRun(slot)
	was, wasOver := slot.run.Status(), slot.over()
	t := touched{run: slot}
	if concernsKey(rec.Kind) {
		t.key = st.fillIn(slot.run, rec)
	}
	slot.run.Apply(rec)
	if t.key != nil {
		t.key.key.Apply(rec)
	}
	st.note(slot, was, rec)
	t.ended = slot.run.Status().Ended() && !was.Ended()
	if st.listed && !wasOver && slot.over() {
		st.ended.add(slot.run.Ended(), rec.Run)
	}
	return t
}

// list builds what is derived from the runs and only an owner needs: the index, and the
// order of ends. From then on apply keeps it in step; replay, which would build most of
// it for runs that go on changing, is spared it.
func (st *state) list() {
	if st.listed {
		return
	}
	st.listed = true
	var ended []aged[flow.RunID]
	ids := make(map[indexKey][]flow.RunID)
	for slot := range st.runSlab.all() {
		run := slot.run
		k := indexKey{run.Workflow(), run.Status()}
		ids[k] = append(ids[k], run.ID())
		if slot.over() {
			ended = append(ended, aged[flow.RunID]{run.Ended(), run.ID()})
		}
	}
	st.index.load(ids)
	st.ended.load(ended)
}

// forget lets go of a run that the archive has (R14).
func (st *state) forget(id flow.RunID) {
	slot := st.runs[id]
	if !slot.over() {
		panic(fmt.Sprintf("run %s is archived, and it hasn't ended here or is held", id))
	}
	st.capture.beforeRun(slot)
	st.archived.run(slot.run.Ended())
	if st.listed {
		st.index.remove(slot.run)
		st.ended.remove(slot.run.Ended(), id)
	}
	st.runSlab.remove(slot.seat)
	delete(st.runs, id)
	slot.armed = armed{} // its timer is void
}

// share has runs of one key with one stamp keep one copy of it.
func (st *state) share(rec *flow.Record) {
	key := st.touchKey(rec.Stamp.Home(rec.Workflow))
	if key.stamp != nil && key.stamp.Equal(rec.Stamp) {
		rec.Stamp = key.stamp
	} else {
		key.stamp = rec.Stamp
	}
	rec.Workflow = key.id.Workflow
}

// concernsKey says whether a record of a run also goes to its home key.
func concernsKey(k flow.RecordKind) bool {
	switch k {
	case flow.RecCancelAsked, flow.RecRenewed, flow.RecStep, flow.RecSignalled, flow.RecTaken, flow.RecState,
		flow.RecStarted, flow.RecWatched, flow.RecOutcome, flow.RecTold, flow.RecChainOver:
		return false
	default:
		return true
	}
}

// fillIn completes a record for the run's home key, and finds the key.
func (st *state) fillIn(run *runactor.Run, rec *flow.Record) *keySlot {
	if rec.Kind == flow.RecSubmitted {
		rec.Key = rec.Stamp.Home(rec.Workflow)
		return st.touchKey(rec.Key)
	}
	rec.Key = run.Stamp().Home(run.Workflow())
	rec.Order, rec.Stamp = run.Order(), run.Stamp()
	if run.Started() {
		rec.Flags |= flow.FlagStarted
	}
	return st.touchKey(rec.Key)
}

// note keeps what is derived from runs in step.
func (st *state) note(slot *runSlot, was flow.Status, rec *flow.Record) {
	run := slot.run
	switch rec.Kind {
	case flow.RecSubmitted:
		st.lastSent = max(st.lastSent, rec.Order)
		st.requests.remember(rec.RequestID, rec.Run, rec.Order)
	case flow.RecAdmitted:
		st.fence = max(st.fence, rec.Fence)
	default:
	}
	if now := run.Status(); st.listed && now != was {
		st.index.move(run, was, now)
	}
}

func (st *state) addRun(run *runactor.Run) *runSlot {
	slot := &runSlot{run: run, saved: st.capture.newborn()}
	slot.seat = st.runSlab.add(slot)
	st.runs[run.ID()] = slot
	return slot
}

// touchKey finds a key actor or wakes it, and lets a snapshot under way keep its
// old self.
func (st *state) touchKey(id flow.KeyID) *keySlot {
	slot := st.keys[id]
	if slot == nil {
		slot = &keySlot{id: id, key: keyactor.New(id), saved: st.capture.newborn()}
		slot.seat = st.keySlab.add(slot)
		st.keys[id] = slot
		return slot
	}
	st.capture.beforeKey(slot)
	return slot
}

// dropKey passivates a key that has nothing to remember.
func (st *state) dropKey(slot *keySlot) {
	st.capture.beforeKey(slot)
	st.keySlab.remove(slot.seat)
	delete(st.keys, slot.id)
}

func (st *state) applyShard(rec *flow.Record) {
	switch rec.Kind {
	case flow.RecPromoted:
		st.fence = rec.Fence
		st.lastSent = max(st.lastSent, rec.Order)
	case flow.RecSent:
		st.mail.sent(engine.ShardID(rec.Shard), rec.Number, rec.Payload)
	case flow.RecReceived:
		st.mail.received(engine.ShardID(rec.Shard), rec.Number)
	case flow.RecDelivered:
		st.mail.delivered(engine.ShardID(rec.Shard), rec.Number)
	case flow.RecDeclared:
		st.capture.beforeDefined(st, st.defs.slot(rec.Workflow, st.capture.newborn()))
		st.defs.declare(rec)
	case flow.RecKeyed:
		st.keyed.add(&keyedRun{
			text: rec.IdempotencyKey, run: rec.Run, shard: engine.ShardID(rec.Shard), letter: rec.Number,
			at: rec.At, saved: st.capture.newborn(),
		})
	case flow.RecSeeking:
		st.seeking.add(seekOf(rec))
	case flow.RecFound:
		st.seeking.remove(seekOf(rec))
	case flow.RecKeyArchived:
		st.capture.beforeKeyed(st.keyed.named[rec.IdempotencyKey])
		st.keyed.forget(rec.IdempotencyKey)
		st.archived.keys++
	case flow.RecScheduled, flow.RecScheduleFired, flow.RecScheduleDropped:
		st.applySchedule(rec)
	default:
		panic(fmt.Sprintf("record %s is not a shard's", rec.Kind))
	}
}

// check reports the first broken invariant of any machine.
func (st *state) check() error {
	for slot := range st.keySlab.all() {
		if err := slot.key.Check(); err != nil {
			return fmt.Errorf("%s: %w", slot.id, err)
		}
	}
	for slot := range st.runSlab.all() {
		if err := slot.run.Check(); err != nil {
			return fmt.Errorf("run %s: %w", slot.run.ID(), err)
		}
	}
	return st.schedules.check()
}
