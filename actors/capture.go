package actors

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// A snapshot of a shard is a stream of tagged parts:
//
//	1 record   what rebuilds the shard's own state: fence, post, declarations
//	2 run      one run, whole
//	3 key      what a key doesn't rebuild from its runs: bucket, wants, tokens asked for
//	4 request  a request id that is still remembered: Run, RequestID, Order (when)
//	5 keyed    an idempotency key: its record, with Order (when)
//	6 event    an event with an id whose batch was cut: Payload (a digest of key and id), Run
//	           if it filled the batch, Order (when)
//	0          the end
const (
	snapshotVersion = 1

	partEnd     = 0
	partRecord  = 1
	partRun     = 2
	partKey     = 3
	partRequest = 4
	partKeyed   = 5
	partEvent   = 6
)

// capture is a snapshot under way (R9). It is begun at a boundary in a time that
// doesn't depend on how much there is, and then walks all there is in slices between
// batches. Who is about to change, or go, before the walk has passed is written down
// first, as it was; who is born after the boundary is left out.
//
// Methods on a nil capture do nothing, so that callers needn't ask.
type capture struct {
	number   uint64 // tells this capture's marks from those of earlier ones
	epoch    engine.Epoch
	seq      engine.Seq
	buf      bytes.Buffer
	enc      *msgpack.Encoder
	walks    []walk // those that aren't over
	finished bool
	dead     bool // the shard was demoted: what was walked is no state of anybody
}

// walk writes the next thing down; false when nothing is left. Who was written down
// or left out before is passed over, and counts.
type walk func() bool

// begin marks a boundary behind everything applied so far.
func (st *state) begin(number uint64, ep engine.Epoch, seq engine.Seq) *capture {
	c := &capture{number: number, epoch: ep, seq: seq}
	c.enc = msgpack.NewEncoder(&c.buf)
	c.enc.UseCompactInts(true)
	c.must(c.enc.EncodeInt(snapshotVersion))
	st.counterRecords(func(rec *flow.Record) { c.record(partRecord, rec) })
	c.walks = []walk{
		seats(&st.defs.slab, func(slot *definedSlot) { c.beforeDefined(st, slot) }),
		c.walkLetters(st),
		c.walkRequests(st),
		c.walkCutEvents(st),
		seats(&st.keyed.slab, c.beforeKeyed),
		seats(&st.schedules.slab, c.beforeSchedule),
		seats(&st.keySlab, c.beforeKey),
		seats(&st.runSlab, c.beforeRun),
	}
	st.capture = c
	return c
}

// seats walks the seats that there were at the boundary. Who took one of them since
// is a newborn and bears the capture's mark; who left one was written down before.
func seats[T comparable](s *slab[T], put func(T)) walk {
	next, end := 0, len(s.seats)
	var none T
	return func() bool {
		if next == end {
			return false
		}
		if v := s.seats[next]; v != none {
			put(v)
		}
		next++
		return true
	}
}

// listed walks a list that nobody changes below the length it has now.
func listed[T any](items []T, put func(int, T)) walk {
	next := 0
	return func() bool {
		if next == len(items) {
			return false
		}
		put(next, items[next])
		next++
		return true
	}
}

// must keeps the encoder honest: it writes to memory, which grows or panics.
func (c *capture) must(err error) {
	if err != nil {
		panic("actors: a buffer refused bytes: " + err.Error())
	}
}

func (c *capture) record(part int64, rec *flow.Record) {
	c.must(c.enc.EncodeInt(part))
	c.must(rec.EncodeMsgpack(c.enc))
}

// newborn is the mark of an entity that is made now: a capture under way is to
// leave it out.
func (c *capture) newborn() uint64 {
	if c == nil {
		return 0
	}
	return c.number
}

// lacks says whether an entity with the mark is still to be written down, and marks it.
func (c *capture) lacks(mark *uint64) bool {
	if c == nil || *mark == c.number {
		return false
	}
	*mark = c.number
	return true
}

// beforeRun writes a run down as it is, unless the capture has it already.
func (c *capture) beforeRun(slot *runSlot) {
	if !c.lacks(&slot.saved) {
		return
	}
	c.must(c.enc.EncodeInt(partRun))
	c.must(slot.run.EncodeMsgpack(c.enc))
}

// beforeKey writes a key down as it is, unless the capture has it already.
func (c *capture) beforeKey(slot *keySlot) {
	if !c.lacks(&slot.saved) {
		return
	}
	c.must(c.enc.EncodeInt(partKey))
	c.must(slot.key.EncodeMsgpack(c.enc))
}

// beforeKeyed writes an idempotency key down, unless the capture has it already.
func (c *capture) beforeKeyed(k *keyedRun) {
	if !c.lacks(&k.saved) {
		return
	}
	c.record(partKeyed, &flow.Record{Kind: flow.RecKeyed, Fields: flow.Fields{
		IdempotencyKey: k.text, Run: k.run, Shard: uint16(k.shard), Number: k.letter, Order: k.at,
	}})
}

// beforeDefined writes the declarations of a workflow down, unless the capture has them
// already.
func (c *capture) beforeDefined(st *state, slot *definedSlot) {
	if !c.lacks(&slot.saved) {
		return
	}
	w := flow.NewWriter()
	for _, def := range st.defs.byWorkflow[slot.workflow] {
		w.Reset()
		w.Definition(def)
		c.record(partRecord, &flow.Record{Kind: flow.RecDeclared, Fields: flow.Fields{
			Workflow: def.Workflow, Version: def.Version, Payload: w.Bytes(),
		}})
	}
}

// Bounds of one slice of the walk: about a millisecond of work (R9).
const (
	sliceEntities = 256
	sliceBytes    = 128 << 10
)

// slice walks on within the bounds and returns everything that was written down
// since the last call, also by those who changed meanwhile. more is false when the
// walk is over and the bytes are the last.
func (c *capture) slice() (b []byte, more bool) {
	for n := 0; n < sliceEntities && c.buf.Len() < sliceBytes && len(c.walks) > 0; n++ {
		if !c.walks[0]() {
			c.walks = c.walks[1:]
		}
	}
	more = len(c.walks) > 0
	if !more && !c.finished {
		c.finished = true
		c.must(c.enc.EncodeInt(partEnd))
	}
	b = c.buf.Bytes()
	c.buf = bytes.Buffer{} // the array goes with b: a copy of it would be a pause
	return b, more
}

// counterRecords yields what a shard counts: fences, order keys, letters, what it has
// archived. See
// restoreShard for how they are read.
func (st *state) counterRecords(yield func(*flow.Record)) {
	put := func(k flow.RecordKind, f flow.Fields) { yield(&flow.Record{Kind: k, Fields: f}) }
	put(flow.RecPromoted, flow.Fields{Fence: st.fence, Order: st.lastSent})
	for i := range st.mail.out {
		put(flow.RecDelivered, flow.Fields{Shard: uint16(i), Number: st.mail.out[i].done})
		put(flow.RecReceived, flow.Fields{Shard: uint16(i), Number: st.mail.in[i]})
	}
	st.archived.records(yield)
	st.seeking.records(yield)
}

// walkLetters walks the letters that are on their way, pair by pair and in order.
func (c *capture) walkLetters(st *state) walk {
	var pairs []walk
	for i := range st.mail.out {
		o := st.mail.out[i]
		pairs = append(pairs, listed(o.letters, func(j int, letter []byte) {
			c.record(partRecord, &flow.Record{Kind: flow.RecSent, Fields: flow.Fields{
				Shard: uint16(i), Number: o.done + uint64(j) + 1, Payload: letter,
			}})
		}))
	}
	return func() bool {
		for len(pairs) > 0 {
			if pairs[0]() {
				return true
			}
			pairs = pairs[1:]
		}
		return false
	}
}

// walkRequests walks the request ids that are remembered, oldest first.
func (c *capture) walkRequests(st *state) walk {
	fifo := &st.requests.fifo
	return listed(fifo.items[fifo.head:], func(_ int, r remembered[string]) {
		c.record(partRequest, &flow.Record{Kind: flow.RecSubmitted, Fields: flow.Fields{
			RequestID: r.id, Run: r.run, Order: r.at,
		}})
	})
}

// walkCutEvents walks the ids of events that are remembered, oldest first.
func (c *capture) walkCutEvents(st *state) walk {
	fifo := &st.cutEvents.fifo
	return listed(fifo.items[fifo.head:], func(_ int, r remembered[eventID]) {
		c.record(partEvent, &flow.Record{Kind: flow.RecEvent, Fields: flow.Fields{
			Payload: r.id[:], Run: r.run, Order: r.at,
		}})
	})
}
