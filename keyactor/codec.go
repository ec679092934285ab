package keyactor

import (
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/pack"
)

// A key in a snapshot is what can't be read from its runs:
//
//	[ version, workflow, value, kind,
//	  bucket, shown interval, shown burst, shown max,
//	  [ [run, order, since, marks], ... ],                           wants of this home
//	  [ [run, order, peer value, interval, burst, marks], ... ],     wants at this key
//	  nil or [run, opened, deadline, due, count, events, [id, ...]] ]  the open batch
//
// The queue and the holders follow from the runs; see Adopt.
const (
	snapshotVersion = 2
	snapshotFields  = 11
	fieldsOf1       = 10 // version 1 knows no batch
	askFields       = 4
	wantFields      = 6
	batchFields     = 7

	markAwake    = 1
	markReserved = 2
	marksKnown   = markAwake | markReserved
)

// MaxMarks bounds the wants of one key in a snapshot, of each side.
const MaxMarks = 1 << 24

// ErrSnapshot says that bytes are no key that this build can read: damage, or a
// newer format.
var ErrSnapshot = errors.New("keyactor: can't decode a key")

// EncodeMsgpack writes the key's part of a snapshot; it implements
// msgpack.CustomEncoder. Error: the writer's.
func (k *Key) EncodeMsgpack(e *msgpack.Encoder) error {
	w := pack.NewWriter(e)
	w.Array(snapshotFields)
	w.Number(snapshotVersion)
	w.Text(k.id.Workflow)
	w.Text(k.id.Value)
	w.Number(int64(k.id.Kind))
	w.Number(int64(k.tat))
	w.Number(int64(k.shown.rate.interval))
	w.Number(k.shown.rate.burst)
	w.Number(k.shown.max)
	w.Array(k.asks.len())
	k.asks.each(func(a *ask) bool {
		w.Array(askFields)
		flow.WriteRunID(&w, &a.run)
		w.Number(int64(a.order))
		w.Number(int64(a.since))
		w.Number(marks(a.awake, a.reserved))
		return true
	})
	w.Array(k.wants.len())
	k.wants.each(func(v *want) bool {
		w.Array(wantFields)
		flow.WriteRunID(&w, &v.run)
		w.Number(int64(v.order))
		w.Text(v.peer.Value)
		w.Number(int64(v.rate.interval))
		w.Number(v.rate.burst)
		w.Number(marks(v.awake, false))
		return true
	})
	k.batch.encode(&w)
	return w.Err()
}

func (b *batch) encode(w *pack.Writer) {
	if b == nil {
		w.Nil()
		return
	}
	w.Array(batchFields)
	flow.WriteRunID(w, &b.run)
	w.Number(int64(b.opened))
	w.Number(int64(b.deadline))
	w.Flag(b.due)
	w.Number(b.count)
	w.Bytes(b.events)
	w.Array(len(b.ids))
	for _, id := range b.ids {
		w.Text(id)
	}
}

func decodeBatch(r *pack.Reader) *batch {
	if _, there := r.Optional(batchFields, batchFields); !there || r.Failed() {
		return nil
	}
	b := new(batch)
	flow.ReadRunID(r, &b.run)
	b.opened = flow.Instant(r.Between(1, int64(flow.MaxInstant)))
	b.deadline = flow.Instant(r.Between(1, int64(flow.MaxInstant)))
	b.due = r.Flag()
	b.count = r.Between(1, flow.MaxBatchEvents)
	b.events = r.Bytes(nil, flow.MaxBatchBytes+flow.MaxBatchEvents)
	b.size = int64(len(b.events)) - (b.count - 1)
	for n := r.Array(0, int(b.count)); n > 0 && !r.Failed(); n-- {
		id := r.Text(flow.MaxEventIDBytes)
		if id == "" || b.has(id) {
			r.Failf("an event's id is empty or stands twice in the batch of run %v", b.run)
		}
		b.know(id)
	}
	if least := b.count * int64(len("{}")); b.size < least || b.size+b.idBytes > flow.MaxBatchBytes {
		r.Failf("the batch of run %v has %d events in %d bytes", b.run, b.count, b.size)
	}
	return b
}

// DecodeMsgpack makes k the key that was written, without its runs: the caller
// gives them to Adopt next. It implements msgpack.CustomDecoder. Error:
// ErrSnapshot; then k is not to be used.
func (k *Key) DecodeMsgpack(d *msgpack.Decoder) error {
	r := pack.NewReader(d, nil)
	*k = Key{}
	fields, version := r.Array(fieldsOf1, snapshotFields), r.Number()
	if known := version == snapshotVersion && fields == snapshotFields || version == 1 && fields == fieldsOf1; !r.Failed() && !known {
		return fmt.Errorf("%w: format %d, this build knows %d", ErrSnapshot, version, snapshotVersion)
	}
	k.id.Workflow = r.Text(flow.MaxKeyBytes)
	k.id.Value = r.Text(flow.MaxKeyBytes)
	k.id.Kind = flow.KeyKind(r.Between(0, int64(flow.KeyUnknown)))
	k.tat = flow.Instant(r.Between(0, int64(flow.MaxInstant)))
	k.shown.rate.interval = flow.Span(r.Between(0, int64(flow.MaxInterval)))
	k.shown.rate.burst = r.Between(0, flow.MaxBurst)
	k.shown.max = r.Between(0, flow.MaxLimit)
	for n := r.Array(0, MaxMarks); n > 0 && !r.Failed(); n-- {
		k.decodeAsk(&r)
	}
	for n := r.Array(0, MaxMarks); n > 0 && !r.Failed(); n-- {
		k.decodeWant(&r)
	}
	if version != 1 {
		k.batch = decodeBatch(&r)
	}
	if r.Failed() {
		return fmt.Errorf("%w: %w", ErrSnapshot, r.Err())
	}
	return nil
}

func (k *Key) decodeAsk(r *pack.Reader) {
	r.Array(askFields, askFields)
	a := new(ask)
	flow.ReadRunID(r, &a.run)
	a.order = flow.Instant(r.Number())
	a.since = flow.Instant(r.Between(0, int64(flow.MaxInstant)))
	m := r.Between(0, marksKnown)
	a.awake, a.reserved = m&markAwake != 0, m&markReserved != 0
	if r.Failed() {
		return
	}
	if k.asks.of(a.run) != nil {
		r.Failf("two wants of run %v", a.run)
		return
	}
	if a.reserved {
		k.used++
	}
	k.addAsk(a)
}

func (k *Key) decodeWant(r *pack.Reader) {
	r.Array(wantFields, wantFields)
	w := new(want)
	flow.ReadRunID(r, &w.run)
	w.order = flow.Instant(r.Number())
	w.peer = flow.KeyID{Workflow: k.id.Workflow, Value: r.Text(flow.MaxKeyBytes)}
	w.rate.interval = flow.Span(r.Between(1, int64(flow.MaxInterval)))
	w.rate.burst = r.Between(1, flow.MaxBurst)
	w.awake = r.Between(0, markAwake) != 0
	if r.Failed() {
		return
	}
	if k.wants.of(w.run) != nil {
		r.Failf("two wants of run %v", w.run)
		return
	}
	shown := k.shown
	k.setWant(w)
	k.shown = shown
}

// Adopted is a run that belongs to the key, as the run itself remembers it.
type Adopted struct {
	Run     flow.RunID
	Order   flow.Instant
	Stamp   *flow.Stamp
	Started bool        // it was admitted earlier in its life
	Fence   uint64      // of its holder, for the last two statuses
	Status  flow.Status // StatusQueued, StatusExecuting, or StatusTerminated for a hold that isn't freed yet
}

// Adopt gives a decoded key one of its runs back. Each run is adopted once, in any
// order, and Check holds once all are. A run of another status isn't here.
func (k *Key) Adopt(a Adopted) {
	shown := k.shown
	w := waiter{place: place{order: a.Order, run: a.Run}, stamp: a.Stamp, started: a.Started}
	switch a.Status {
	case flow.StatusQueued:
		if mark := k.asks.of(a.Run); mark != nil {
			mark.stamp = a.Stamp
			k.asks.filePeer(mark)
			if mark.awake {
				break
			}
		}
		k.enqueue(w)
	case flow.StatusExecuting:
		k.hold(w, a.Fence)
	case flow.StatusTerminated:
		k.hold(w, a.Fence)
		k.terminate(a.Run, a.Fence)
	default: // nothing of such a run is here
	}
	k.shown = shown
}

func marks(awake, reserved bool) int64 {
	m := int64(0)
	if awake {
		m |= markAwake
	}
	if reserved {
		m |= markReserved
	}
	return m
}
