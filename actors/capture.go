package actors

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// A snapshot of a shard is a stream of tagged parts:
//
//	1 record   what rebuilds the shard's own state: fence, post, declarations, keys
//	2 run      one run, whole
//	3 key      what a key doesn't rebuild from its runs: bucket, wants, tokens asked for
//	0          the end
const (
	snapshotVersion = 1

	partEnd    = 0
	partRecord = 1
	partRun    = 2
	partKey    = 3
)

// capture is a snapshot under way (R9). It is begun in one step at a boundary, and
// then walks the slabs in slices between batches. Whoever is about to change, or
// go, before the walk has passed is written down first, as it was; whoever is
// born after the boundary is left out.
//
// Methods on a nil capture do nothing, so that callers needn't ask.
type capture struct {
	number   uint64 // tells this capture's marks from those of earlier ones
	epoch    engine.Epoch
	seq      engine.Seq
	buf      bytes.Buffer
	enc      *msgpack.Encoder
	runs     []*runSlot // the slabs as they were at the boundary
	keys     []*keySlot
	nextRun  int
	nextKey  int
	finished bool
	dead     bool // the shard was demoted: what was walked is no state of anybody
}

// begin marks a boundary behind everything applied so far.
func (st *state) begin(number uint64, ep engine.Epoch, seq engine.Seq) *capture {
	c := &capture{number: number, epoch: ep, seq: seq}
	c.enc = msgpack.NewEncoder(&c.buf)
	c.enc.UseCompactInts(true)
	c.must(c.enc.EncodeInt(snapshotVersion))
	st.shardRecords(func(rec *flow.Record) {
		c.must(c.enc.EncodeInt(partRecord))
		c.must(rec.EncodeMsgpack(c.enc))
	})
	// Seats are reused, so the walk goes over copies of the seat lists: pointers
	// only, microseconds for each ten thousand.
	c.runs = append(c.runs, st.runSlab.seats...)
	c.keys = append(c.keys, st.keySlab.seats...)
	st.capture = c
	return c
}

// must keeps the encoder honest: it writes to memory, which grows or panics.
func (c *capture) must(err error) {
	if err != nil {
		panic("actors: a buffer refused bytes: " + err.Error())
	}
}

// newborn is the mark of an entity that is made now: a capture under way is to
// leave it out.
func (c *capture) newborn() uint64 {
	if c == nil {
		return 0
	}
	return c.number
}

// beforeRun writes a run down as it is, unless the capture has it already.
func (c *capture) beforeRun(slot *runSlot) {
	if c == nil || slot.saved == c.number {
		return
	}
	slot.saved = c.number
	c.must(c.enc.EncodeInt(partRun))
	c.must(slot.run.EncodeMsgpack(c.enc))
}

// beforeKey writes a key down as it is, unless the capture has it already.
func (c *capture) beforeKey(slot *keySlot) {
	if c == nil || slot.saved == c.number {
		return
	}
	slot.saved = c.number
	c.must(c.enc.EncodeInt(partKey))
	c.must(slot.key.EncodeMsgpack(c.enc))
}

// sliceEntities bounds one slice of the walk: about a millisecond of work.
const sliceEntities = 1024

// slice walks on by at most sliceEntities and returns everything that was written
// down since the last call, also by those who changed meanwhile. more is false
// when the walk is over and the bytes are the last.
func (c *capture) slice() (b []byte, more bool) {
	for n := 0; n < sliceEntities && c.nextKey < len(c.keys); n++ {
		if slot := c.keys[c.nextKey]; slot != nil {
			c.beforeKey(slot)
		}
		c.nextKey++
	}
	for n := 0; n < sliceEntities && c.nextKey == len(c.keys) && c.nextRun < len(c.runs); n++ {
		c.beforeRun(c.runs[c.nextRun])
		c.nextRun++
	}
	more = c.nextKey < len(c.keys) || c.nextRun < len(c.runs)
	if !more && !c.finished {
		c.finished = true
		c.must(c.enc.EncodeInt(partEnd))
	}
	b = bytes.Clone(c.buf.Bytes())
	c.buf.Reset()
	return b, more
}

// shardRecords yields records that say what the shard's own state is; see
// restoreShard for how they are read.
func (st *state) shardRecords(yield func(*flow.Record)) {
	put := func(k flow.RecordKind, f flow.Fields) { yield(&flow.Record{Kind: k, Fields: f}) }
	put(flow.RecPromoted, flow.Fields{Fence: st.fence, Order: st.lastSent})
	for i := range st.mail.out {
		o := &st.mail.out[i]
		put(flow.RecDelivered, flow.Fields{Shard: uint16(i), Number: o.done})
		for j, letter := range o.letters {
			put(flow.RecSent, flow.Fields{Shard: uint16(i), Number: o.done + uint64(j) + 1, Payload: letter})
		}
		put(flow.RecReceived, flow.Fields{Shard: uint16(i), Number: st.mail.in[i]})
	}
	w := flow.NewWriter()
	for _, list := range st.defs.byWorkflow { //tidy:ordered a list rebuilds its own workflow only
		for _, def := range list {
			w.Reset()
			w.Definition(def)
			put(flow.RecDeclared, flow.Fields{Workflow: def.Workflow, Version: def.Version, Payload: w.Bytes()})
		}
	}
	for key, k := range st.keyed { //tidy:ordered a key stands for itself
		put(flow.RecKeyed, flow.Fields{IdempotencyKey: key, Run: k.run, Shard: uint16(k.shard), Number: k.letter})
	}
}
