package flow

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow/pack"
)

// Records and inputs are msgpack arrays written by hand:
//
//	[ kind, version, mask, field, field, ... ]
//
// mask has one bit for each field of Fields that isn't zero, and those fields
// follow in the order of their bits. A field costs nothing where it isn't used,
// and a new one takes the next free bit.
//
//	bit  0      run           16 bytes
//	bit  1, 2   key, peer     [workflow, value, kind]
//	bit  3..15  numbers       order fence until before after interval burst lease
//	                          backoff attempts shard number flags
//	bit 16..24  texts         workflow version worker trigger idempotency-key
//	                          request-id reason error-type error-text
//	bit 25      payload       bytes
//	bit 26      stamp         [version, rank, unknown, [gate, ...]]
//	                          gate: [kind, key name, key, max, interval, burst]
//	bit 27..29  runs          other root parent, 16 bytes each
//	bit 30..32  numbers       visit cost status
//	bit 33, 34  texts         name origin
//	bit 35      extra         bytes
//
// Fields.Claim is never written.
const (
	codecVersion = 1

	bitRun     = 0
	bitKey     = 1
	bitPeer    = 2
	bitNumbers = 3
	bitTexts   = 16
	bitPayload = 25
	bitStamp   = 26
	bitOther   = 27
	bitRoot    = 28
	bitParent  = 29
	bitVisit   = 30
	bitCost    = 31
	bitStatus  = 32
	bitName    = 33
	bitOrigin  = 34
	bitExtra   = 35
	bitsKnown  = 1<<(bitExtra+1) - 1
	// bitsLate are those of fields that few records have.
	bitsLate = bitsKnown &^ (1<<bitOther - 1)

	numberCount = bitTexts - bitNumbers
	textCount   = bitPayload - bitTexts
)

// ErrCodec is the family of everything that can't be decoded: damage, or a
// format that is newer than this build.
var ErrCodec = errors.New("flow: can't decode")

func undecodable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCodec, fmt.Sprintf(format, args...))
}

func (f *Fields) numbers() [numberCount]int64 {
	return [numberCount]int64{
		int64(f.Order), int64(f.Fence), int64(f.Until), int64(f.Before), int64(f.After),
		int64(f.Interval), f.Burst, int64(f.Lease), int64(f.Backoff), f.Attempts,
		int64(f.Shard), int64(f.Number), int64(f.Flags),
	}
}

func (f *Fields) setNumber(i int, p *pack.Reader) {
	switch i {
	case 0:
		f.Order = Instant(p.Number())
	case 1:
		f.Fence = uint64(p.Number())
	case 2:
		f.Until = Instant(p.Number())
	case 3:
		f.Before = Instant(p.Number())
	case 4:
		f.After = Instant(p.Number())
	case 5:
		f.Interval = Span(p.Number())
	case 6:
		f.Burst = p.Number()
	case 7:
		f.Lease = Span(p.Number())
	case 8:
		f.Backoff = Span(p.Number())
	case 9:
		f.Attempts = p.Number()
	case 10:
		f.Shard = uint16(p.Between(0, math.MaxUint16))
	case 11:
		f.Number = uint64(p.Number())
	case 12:
		f.Flags = Flags(p.Between(0, math.MaxUint32))
	}
}

func (f *Fields) texts() [textCount]*string {
	return [textCount]*string{
		&f.Workflow, &f.Version, &f.Worker, &f.Trigger, &f.IdempotencyKey,
		&f.RequestID, &f.Reason, &f.ErrType, &f.ErrText,
	}
}

// internTexts are the texts that few values fill, so that one copy serves all.
const internTexts = 4 // workflow, version, worker, trigger

func (f *Fields) mask(nums *[numberCount]int64, texts *[textCount]*string) (mask uint64, n int) {
	set := func(bit int, yes bool) {
		if yes {
			mask |= 1 << bit
			n++
		}
	}
	set(bitRun, !f.Run.IsZero())
	set(bitKey, f.Key != KeyID{})
	set(bitPeer, f.Peer != KeyID{})
	for i, v := range nums {
		set(bitNumbers+i, v != 0)
	}
	for i, s := range texts {
		set(bitTexts+i, *s != "")
	}
	set(bitPayload, len(f.Payload) > 0)
	set(bitStamp, f.Stamp != nil)
	set(bitOther, !f.Other.IsZero())
	set(bitRoot, !f.Root.IsZero())
	set(bitParent, !f.Parent.IsZero())
	set(bitVisit, f.Visit != 0)
	set(bitCost, f.Cost != 0)
	set(bitStatus, f.Status != 0)
	set(bitName, f.Name != "")
	set(bitOrigin, f.Origin != "")
	set(bitExtra, len(f.Extra) > 0)
	return mask, n
}

// encodeFields writes the array of a kind and its fields.
func encodeFields(e *msgpack.Encoder, kind uint8, f *Fields) error {
	nums, texts := f.numbers(), f.texts()
	mask, n := f.mask(&nums, &texts)
	w := pack.NewWriter(e)
	w.Array(3 + n)
	w.Number(int64(kind))
	w.Number(codecVersion)
	w.Number(int64(mask))
	if mask&(1<<bitRun) != 0 {
		WriteRunID(&w, &f.Run)
	}
	if mask&(1<<bitKey) != 0 {
		writeKey(&w, &f.Key)
	}
	if mask&(1<<bitPeer) != 0 {
		writeKey(&w, &f.Peer)
	}
	for _, v := range nums {
		if v != 0 {
			w.Number(v)
		}
	}
	for _, s := range texts {
		if *s != "" {
			w.Text(*s)
		}
	}
	if len(f.Payload) > 0 {
		w.Bytes(f.Payload)
	}
	if f.Stamp != nil {
		WriteStamp(&w, f.Stamp)
	}
	if mask&bitsLate != 0 {
		writeLate(&w, mask, f)
	}
	return w.Err()
}

// writeLate writes the fields that few records have.
func writeLate(w *pack.Writer, mask uint64, f *Fields) {
	for bit, id := range [...]*RunID{&f.Other, &f.Root, &f.Parent} {
		if mask&(1<<(bitOther+bit)) != 0 {
			WriteRunID(w, id)
		}
	}
	for _, v := range [...]int64{f.Visit, f.Cost, int64(f.Status)} {
		if v != 0 {
			w.Number(v)
		}
	}
	for _, s := range [...]string{f.Name, f.Origin} {
		if s != "" {
			w.Text(s)
		}
	}
	if len(f.Extra) > 0 {
		w.Bytes(f.Extra)
	}
}

// EncodeMsgpack writes the record; it implements msgpack.CustomEncoder and is
// called directly on an owned encoder, which allocates nothing.
func (r *Record) EncodeMsgpack(e *msgpack.Encoder) error {
	return encodeFields(e, uint8(r.Kind), &r.Fields)
}

// EncodeMsgpack writes the input; it implements msgpack.CustomEncoder.
func (in *Input) EncodeMsgpack(e *msgpack.Encoder) error {
	return encodeFields(e, uint8(in.Kind), &in.Fields)
}

// Writer collects records as the body of one entry. It is reused: Reset it
// before each entry. The zero value is not usable; see NewWriter.
type Writer struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

// NewWriter makes an empty Writer for one goroutine.
func NewWriter() *Writer {
	w := new(Writer)
	w.enc = msgpack.NewEncoder(&w.buf)
	w.enc.UseCompactInts(true)
	w.Reset()
	return w
}

// entryVersion is the first byte of an entry's body.
const entryVersion = 1

// Reset forgets what was collected.
func (w *Writer) Reset() {
	w.buf.Reset()
	w.buf.WriteByte(entryVersion)
}

// Record appends one record.
func (w *Writer) Record(r *Record) {
	must(r.EncodeMsgpack(w.enc))
}

// Input appends one input; a body of inputs is read with Reader.Input.
func (w *Writer) Input(in *Input) {
	must(in.EncodeMsgpack(w.enc))
}

// must keeps an encoder honest that writes to memory, which grows or panics.
func must(err error) {
	if err != nil {
		panic("flow: a buffer refused bytes: " + err.Error())
	}
}

// Len is the size of the body so far, in bytes.
func (w *Writer) Len() int { return w.buf.Len() }

// Bytes is a copy of the body, for its new owner.
func (w *Writer) Bytes() []byte { return bytes.Clone(w.buf.Bytes()) }

// Truncate cuts the body back to an earlier Len.
func (w *Writer) Truncate(n int) { w.buf.Truncate(n) }
