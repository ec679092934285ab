package keyactor

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
)

// batch is the open batch of a key: events that will be one run. There is none without
// an event and none without a deadline (S77).
type batch struct {
	run      flow.RunID // what the batch will be; tells it from earlier ones (R8)
	opened   flow.Instant
	deadline flow.Instant
	due      bool // the deadline has passed, and no worker was alive
	count    int64
	size     int64  // bytes of the events alone
	events   []byte // with commas between
	idBytes  int64
	ids      []string
	known    map[string]struct{} // ids; never iterated
}

func (b *batch) has(id string) bool {
	if b == nil || id == "" {
		return false
	}
	_, ok := b.known[id]
	return ok
}

// fits says what becomes of the open batch before an event is taken: it has room, or it is
// full as declared and is cut first, or neither, and then the event is refused (P70).
func (b *batch) fits(in *flow.Input) (room, full bool) {
	if b.count < flow.MaxBatchEvents && b.size+b.idBytes+int64(len(in.Payload)+len(in.IdempotencyKey)) <= flow.MaxBatchBytes {
		return true, false
	}
	return false, !in.Flags.Has(flow.FlagDebounce) && (in.Number != 0 || b.count >= in.Burst)
}

// Gathered says whether the open batch has an event with that id, so that another one with it
// changes nothing.
func (k *Key) Gathered(id string) bool { return k.batch.has(id) }

// Opens says whether an event would open a batch, so that it must bring the id of a run.
func (k *Key) Opens(in *flow.Input) bool {
	if k.batch == nil {
		return true
	}
	_, full := k.batch.fits(in)
	return full
}

// event takes an event into the open batch, or opens one; what it fills is cut in the
// same step (P67).
func (k *Key) event(now flow.Instant, in *flow.Input, out *flow.Out) {
	if len(in.Payload) > flow.MaxEventBytes || len(in.IdempotencyKey) > flow.MaxEventIDBytes {
		// A batch over its bounds could not be read back: its caller has checked, and so is this.
		out.Err = flow.Invalid("event", "must be at most "+strconv.Itoa(flow.MaxEventBytes)+" bytes, and its id at most "+strconv.Itoa(flow.MaxEventIDBytes))
		return
	}
	if k.batch.has(in.IdempotencyKey) {
		e := out.Effect(flow.EffAnswer)
		e.Flags = flow.FlagRepeat
		return
	}
	b, cuts := k.batch, flow.Instant(0)
	cut := func(run flow.RunID, count int64) *flow.Record {
		r := out.Record(flow.RecBatchCut, now)
		r.Key, r.Run, r.Order, r.Stamp, r.Number = k.id, run, in.Order+cuts, in.Stamp, uint64(count)
		cuts++
		return r
	}
	if b != nil {
		room, full := b.fits(in)
		if !room && !full {
			out.Err = &flow.BufferFull{Key: k.id, Events: b.count, Bytes: b.size + b.idBytes, Room: max(b.deadline.Sub(now), 0)}
			return
		}
		if full {
			cut(b.run, b.count)
			b = nil
		}
	}
	run, count, size := in.Run, int64(1), int64(len(in.Payload))
	if b == nil {
		if run.IsZero() {
			k.broken("a batch is opened without an id", run, 0)
		}
		r := out.Record(flow.RecBatchOpened, now)
		r.Key, r.Run, r.Until = k.id, run, firstDeadline(now, in)
	} else {
		run, count, size = b.run, b.count+1, b.size+size
	}
	r := out.Record(flow.RecEvent, now)
	r.Key, r.Payload, r.IdempotencyKey = k.id, in.Payload, in.IdempotencyKey
	if b != nil && in.Flags.Has(flow.FlagDebounce) {
		r.Until = b.moved(now, in)
	}
	e := out.Effect(flow.EffAnswer)
	e.Flags = flow.FlagOK
	if most := int64(in.Number); !in.Flags.Has(flow.FlagDebounce) && (count >= in.Burst || most != 0 && size >= most) {
		e.Run = run
		cut(run, count).IdempotencyKey = in.IdempotencyKey
	}
}

func firstDeadline(now flow.Instant, in *flow.Input) flow.Instant {
	if in.Flags.Has(flow.FlagDebounce) {
		return quietUntil(now, now, in)
	}
	return now.Add(in.Interval)
}

// moved is the deadline after another event, zero if it stays. It never moves into the
// past, where nothing would look for it: a longest wait that is over since the policy has
// changed ends now, and a deadline that has come isn't put off by it.
func (b *batch) moved(now flow.Instant, in *flow.Input) flow.Instant {
	at := quietUntil(now, b.opened, in)
	if at <= now && b.deadline > now {
		at = now + 1
	}
	if at <= now || at == b.deadline {
		return 0
	}
	return at
}

// quietUntil is when a key has been quiet for long enough, or its first event has waited
// for the longest (P70, S68).
func quietUntil(now, opened flow.Instant, in *flow.Input) flow.Instant {
	at := now.Add(in.Interval)
	if in.Backoff != 0 {
		at = min(at, opened.Add(in.Backoff))
	}
	return at
}

// batchTick fires the open batch if its deadline has come. Without a stamp to fire it under
// it is only marked as due.
func (k *Key) batchTick(now flow.Instant, in *flow.Input, out *flow.Out) {
	b := k.batch
	if b == nil || (!b.due && b.deadline > now) {
		return // a timer of an earlier batch, or of an earlier deadline (P66)
	}
	kind := flow.RecBatchCut
	if in.Stamp == nil {
		if b.due {
			return
		}
		kind = flow.RecBatchDue
	}
	r := out.Record(kind, now)
	r.Key, r.Run = k.id, b.run
	if kind == flow.RecBatchCut {
		r.Order, r.Stamp, r.Number = in.Order, in.Stamp, uint64(b.count)
	}
}

// applyBatch applies the records of a batch.
func (k *Key) applyBatch(rec *flow.Record) {
	b := k.batch
	if (b == nil) != (rec.Kind == flow.RecBatchOpened) {
		k.broken("a batch is opened twice, or wasn't", rec.Run, 0)
	}
	switch rec.Kind {
	case flow.RecBatchOpened:
		k.batch = &batch{run: rec.Run, opened: rec.At, deadline: rec.Until}
	case flow.RecEvent:
		b.add(rec.Payload, rec.IdempotencyKey)
		if rec.Until != 0 {
			b.deadline, b.due = rec.Until, false
		}
	case flow.RecBatchDue:
		b.due = true
	case flow.RecBatchCut:
		if b.run != rec.Run || uint64(b.count) != rec.Number {
			k.broken("another batch is cut than the open one", rec.Run, 0)
		}
		k.batch = nil
	default:
	}
}

func (b *batch) add(event []byte, id string) {
	if b.count > 0 {
		b.events = append(b.events, ',')
	}
	b.events = append(b.events, event...)
	b.size += int64(len(event))
	b.count++
	if id != "" {
		b.know(id)
	}
}

func (b *batch) know(id string) {
	if b.known == nil {
		b.known = make(map[string]struct{})
	}
	b.known[id] = struct{}{}
	b.ids = append(b.ids, id)
	b.idBytes += int64(len(id))
}

// Batch is the open batch as its run will see it, and the ids of its events; ok is false
// when there is none. The slices are shared: read them before the next Apply.
func (k *Key) Batch() (params []byte, ids []string, ok bool) {
	if k.batch == nil {
		return nil, nil, false
	}
	return flow.BatchParams(k.id.Value, k.batch.events, k.batch.count), k.batch.ids, true
}

// BatchDeadline is when the open batch is to be fired. due says that it has passed, so that
// only a worker is missing; ok is false when there is no batch.
func (k *Key) BatchDeadline() (at flow.Instant, due, ok bool) {
	if k.batch == nil {
		return 0, false, false
	}
	return k.batch.deadline, k.batch.due, true
}

// BatchView is an open batch as a reader sees it.
type BatchView struct {
	Run      flow.RunID // the run that it will be
	Events   int64
	Bytes    int64 // of the events and their ids
	Opened   flow.Instant
	Deadline flow.Instant
	Due      bool // the deadline has passed, and no worker is alive
}

// ViewBatch is the open batch, the zero value when there is none.
func (k *Key) ViewBatch() BatchView {
	b := k.batch
	if b == nil {
		return BatchView{}
	}
	return BatchView{Run: b.run, Events: b.count, Bytes: b.size + b.idBytes, Opened: b.opened, Deadline: b.deadline, Due: b.due}
}

// checkBatch: what is buffered has a deadline and a run to come, stays within its bounds,
// and is what its counters say.
func (k *Key) checkBatch() error {
	b := k.batch
	if b == nil {
		return nil
	}
	count, ids := int64(0), int64(0)
	gjson.Parse("[" + string(b.events) + "]").ForEach(func(_, event gjson.Result) bool {
		if event.IsObject() {
			count++
		}
		return true
	})
	for _, id := range b.ids {
		ids += int64(len(id))
	}
	size := int64(len(b.events)) - max(b.count-1, 0)
	switch {
	case b.run.IsZero() || b.deadline <= 0 || b.opened <= 0:
		return fmt.Errorf("the batch of run %v has no run, no beginning or no deadline", b.run)
	case count != b.count || b.count < 1 || b.count > flow.MaxBatchEvents:
		return fmt.Errorf("the batch of run %v has %d events and counts %d", b.run, count, b.count)
	case size != b.size || ids != b.idBytes || size+ids > flow.MaxBatchBytes:
		return fmt.Errorf("the batch of run %v has %d and %d bytes and counts %d and %d", b.run, size, ids, b.size, b.idBytes)
	case len(b.ids) != len(b.known) || int64(len(b.ids)) > b.count:
		return fmt.Errorf("the batch of run %v lists %d ids and knows %d", b.run, len(b.ids), len(b.known))
	case slices.ContainsFunc(b.ids, func(id string) bool { return !b.has(id) }):
		return fmt.Errorf("the batch of run %v lists an id that it doesn't know", b.run)
	}
	return nil
}
