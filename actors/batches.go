package actors

import (
	"maps"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/runactor"
)

// maxFires bounds the batches that one message to a shard fires (R5); the rest follows in
// the next one.
const maxFires = 64

// Cause says why a batch became a run.
type Cause uint8

// The causes.
const (
	CauseFull Cause = iota + 1 // it had as many events or bytes as were declared
	CauseTime                  // its deadline had passed
)

// EventCount is what became of some events.
type EventCount struct{ Taken, Repeated, Refused int }

// fireMsg fires the batches of a workflow that waited for a worker.
type fireMsg struct{ workflow string }

// dueBatches are the keys whose batch is due and waits, for a worker or for a node that
// takes new runs, by workflow. They are found again when ownership is taken.
type dueBatches map[string][]*keySlot

// tendBatch fires the open batch of a key if its deadline has come and a worker is alive
// for it (P38, P72, R12). Until then the key costs one entry of the shard's timer heap;
// while it waits beyond that, not even that.
func (s *shard) tendBatch(slot *keySlot) {
	at, due, open := slot.key.BatchDeadline()
	if !open || (at > s.now && !due) {
		return // its timer follows
	}
	in := flow.Input{Kind: flow.InBatchTick, Fields: flow.Fields{Key: slot.id}}
	if def := s.announced.firing(slot.id.Workflow, s.time.mono); def == nil {
		s.await(slot)
	} else if wait := s.refusesBatches(); wait != 0 {
		s.await(slot) // it isn't lost: it will be late
		s.fireLater(wait)
		return
	} else {
		in.Stamp, in.Order = batchStamp(def, slot.id.Value), s.nextOrder()
	}
	s.mark(slot)
	s.out.Reset()
	slot.key.Step(s.now, &in, &s.out)
	s.tellFired(slot, CauseTime)
	s.take()
}

// refusesRuns says for how long what has come waits with becoming a run because the node
// takes none now; zero when it does. room says whether there is room for it.
func (s *shard) refusesRuns(room error) flow.Span {
	switch {
	case s.node.serving() != nil:
		return startingRetry
	case s.node.takesNewWork() != nil || room != nil:
		return refusedRetry
	}
	return 0
}

// refusesBatches is refusesRuns for batches. One is counted as a run already, so the number
// of runs doesn't matter.
func (s *shard) refusesBatches() flow.Span { return s.refusesRuns(s.node.archiver.behind()) }

// firing is the declaration in whose name a batch of the workflow is fired: the newest
// that a live worker serves and that has a trigger, else the newest that is served.
func (a announced) firing(workflow string, now flow.Span) *flow.Definition {
	triggered := func(d *flow.Definition) bool { return d.Trigger != nil }
	if def := a.bestOf(workflow, now, triggered); def != nil {
		return def
	}
	return a.best(workflow, now)
}

// batchStamp is the stamp of a batch that is fired for a worker (P73). A declaration that
// takes no events may have gates that aren't keyed on the batch's key: then the run has
// unknown gates, and is handed on to those when it is claimed.
func batchStamp(def *flow.Definition, key string) *flow.Stamp {
	if flow.CheckTriggered(def.Rules) != nil {
		return &flow.Stamp{Unknown: true}
	}
	return def.StampBatch(key)
}

// await notes a key whose batch is due and waits, once.
func (s *shard) await(slot *keySlot) {
	if slot.awaits {
		return
	}
	slot.awaits = true
	if s.due == nil {
		s.due = make(dueBatches)
	}
	s.due[slot.id.Workflow] = append(s.due[slot.id.Workflow], slot)
}

// fireDue fires batches that waited, some at a time.
func (s *shard) fireDue(m fireMsg) {
	list := s.due[m.workflow]
	if len(list) == 0 || s.announced.firing(m.workflow, s.time.mono) == nil {
		return
	}
	if wait := s.refusesBatches(); wait != 0 {
		s.fireLater(wait)
		return
	}
	n := min(len(list), maxFires)
	s.due[m.workflow] = list[n:]
	for _, slot := range list[:n] {
		slot.awaits = false
		if s.st.keys[slot.id] == slot {
			s.tendBatch(slot)
		}
	}
	if len(s.due[m.workflow]) == 0 {
		delete(s.due, m.workflow)
		return
	}
	s.box.tell(m)
}

// fireLater has all that waits looked at again: one timer for the shard.
func (s *shard) fireLater(wait flow.Span) {
	if at := s.now.Add(wait); s.fireAt == 0 || at < s.fireAt {
		s.fireAt = at
	}
}

// fireAgain looks at all that waits, if it is time.
func (s *shard) fireAgain() {
	if s.fireAt == 0 || s.fireAt > s.now {
		return
	}
	s.fireAt = 0
	for _, workflow := range slices.Sorted(maps.Keys(s.due)) {
		s.box.tell(fireMsg{workflow})
	}
}

// resumeBatch finds a batch again that was due before, for a new owner.
func (s *shard) resumeBatch(slot *keySlot) {
	slot.awaits = false
	if _, due, _ := slot.key.BatchDeadline(); due {
		s.await(slot)
	}
	if b := slot.key.ViewBatch(); b.Events > 0 {
		s.node.batches.Add(1)
		s.node.buffered.Add(b.Bytes)
	}
}

// leaveBatches takes the open batches of a shard that is lost out of the node's counts.
func (s *shard) leaveBatches() {
	for slot := range s.st.keySlab.all() {
		if b := slot.key.ViewBatch(); b.Events > 0 {
			s.node.batches.Add(-1)
			s.node.buffered.Add(-b.Bytes)
		}
	}
}

// tellFired tells the Observer of the batches that a step has cut, before they are gone.
func (s *shard) tellFired(slot *keySlot, cause Cause) {
	if s.node.cfg.Observer == nil {
		return
	}
	deadline, _, _ := slot.key.BatchDeadline()
	for i := range s.out.Records {
		r := &s.out.Records[i]
		if r.Kind != flow.RecBatchCut {
			continue
		}
		fired := BatchFired{Workflow: slot.id.Workflow, Cause: cause, Events: int64(r.Number)}
		if cause == CauseTime {
			fired.Late = s.now.Sub(deadline)
		}
		s.node.cfg.Observer.BatchFired(fired)
	}
}

// BatchFired is a batch that became a run.
type BatchFired struct {
	Workflow string
	Cause    Cause
	Events   int64
	Late     flow.Span // since the deadline, for a fire that came from time
}

// applyBatch takes a fact about a batch.
func (st *state) applyBatch(rec *flow.Record) touched {
	slot := st.touchKey(rec.Key)
	was := slot.key.ViewBatch()
	var t touched
	if rec.Kind == flow.RecBatchCut {
		t = st.applyCut(slot, rec)
	} else {
		slot.key.Apply(rec)
		t = touched{key: slot}
	}
	t.bytes = slot.key.ViewBatch().Bytes - was.Bytes
	switch rec.Kind {
	case flow.RecBatchOpened:
		t.batches = 1
	case flow.RecBatchCut:
		t.batches = -1
	default:
	}
	return t
}

// applyCut makes the run of a batch that is cut: its parameters are the buffer (P67).
func (st *state) applyCut(slot *keySlot, rec *flow.Record) touched {
	params, ids, open := slot.key.Batch()
	if !open {
		panic("a batch is cut that isn't open: " + rec.Key.String())
	}
	for _, id := range ids {
		run := flow.RunID{}
		if id == rec.IdempotencyKey {
			run = rec.Run
		}
		st.cutEvents.remember(eventIDOf(slot.id, id), run, rec.At)
	}
	for len(st.cutEvents.runs) > maxCutEvents {
		st.cutEvents.drop()
	}
	slot.key.Apply(rec)
	return st.applyRun(&flow.Record{Kind: flow.RecSubmitted, At: rec.At, Fields: flow.Fields{
		Run: rec.Run, Order: rec.Order, Workflow: slot.id.Workflow, Payload: params, Stamp: rec.Stamp,
		Trigger: runactor.TriggerEvents,
	}})
}
