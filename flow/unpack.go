package flow

import (
	"math/bits"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow/pack"
)

// Reader reads what a Writer collected. It is owned by one goroutine and reused:
// Reset it for each body. Names and stamps that it read are remembered within bounds
// and shared by what it reads next; nothing else of a body is kept.
type Reader struct {
	src    pack.Body
	dec    *msgpack.Decoder
	pack   pack.Reader
	shared *Shared // nil: everything is a copy
}

// MaxRecordBytes bounds one encoded record or input: its payload, what a successor takes
// over, and some text.
const MaxRecordBytes = 2 << 20

// NewReader makes a Reader over nothing.
func NewReader() *Reader {
	r := &Reader{shared: new(Shared)}
	r.dec = msgpack.NewDecoder(&r.src)
	r.pack = pack.NewReader(r.dec, r.src.Len)
	return r
}

// Reset starts over at the body of one entry. Error: ErrCodec for a body of
// another format.
func (r *Reader) Reset(body []byte) error {
	if len(body) == 0 {
		return undecodable("the body is empty")
	}
	if body[0] != entryVersion {
		return undecodable("the body has format %d, this build knows %d", body[0], entryVersion)
	}
	r.src.Reset(body[1:])
	r.pack.Reset()
	return nil
}

// DecodeMsgpack reads the record from a foreign decoder; it implements
// msgpack.CustomDecoder. What it allocates is bounded by MaxRecordBytes. Error:
// ErrCodec.
func (r *Record) DecodeMsgpack(d *msgpack.Decoder) error {
	return (&Reader{pack: pack.NewReader(d, nil)}).Record(r)
}

// DecodeMsgpack reads the input from a foreign decoder; it implements
// msgpack.CustomDecoder. Error: ErrCodec.
func (in *Input) DecodeMsgpack(d *msgpack.Decoder) error {
	return (&Reader{pack: pack.NewReader(d, nil)}).Input(in)
}

// More says whether anything remains.
func (r *Reader) More() bool { return r.src.Len() > 0 }

// Record reads the next record. Error: ErrCodec.
func (r *Reader) Record(rec *Record) error {
	*rec = Record{}
	kind, err := r.fields(&rec.Fields)
	if err != nil {
		return err
	}
	rec.Kind = RecordKind(kind)
	if !rec.Kind.Known() || rec.Kind >= RecVolatile {
		return undecodable("record kind %d is unknown to this build", kind)
	}
	return nil
}

// Input reads the next input. Error: ErrCodec.
func (r *Reader) Input(in *Input) error {
	*in = Input{}
	kind, err := r.fields(&in.Fields)
	if err != nil {
		return err
	}
	in.Kind = InputKind(kind)
	if inputNames[int(in.Kind)] == "" {
		return undecodable("input kind %d is unknown to this build", kind)
	}
	return nil
}

// fields reads one array of [kind, version, mask, field...].
func (r *Reader) fields(f *Fields) (kind uint8, err error) {
	p := &r.pack
	n := p.Array(3, 3+bitExtra+1)
	k, version, mask := p.Between(0, 0xFF), p.Number(), p.Number()
	switch {
	case p.Failed():
		return 0, r.failure()
	case version != codecVersion:
		return 0, undecodable("kind %d has version %d, this build knows %d", k, version, codecVersion)
	case mask&^bitsKnown != 0:
		return 0, undecodable("kind %d has fields that this build doesn't know (mask %#x)", k, mask)
	}
	left := n - 3
	take := func(bit int) bool {
		if p.Failed() || mask&(1<<bit) == 0 {
			return false
		}
		left--
		return true
	}
	if take(bitRun) {
		ReadRunID(p, &f.Run)
	}
	if take(bitKey) {
		r.key(&f.Key)
	}
	if take(bitPeer) {
		r.key(&f.Peer)
	}
	// Few of the fields are there: their bits are found without asking for each.
	for m := mask >> bitNumbers & (1<<numberCount - 1); m != 0 && !p.Failed(); m &= m - 1 {
		left--
		f.setNumber(bits.TrailingZeros64(uint64(m)), p)
	}
	texts := f.texts()
	for m := mask >> bitTexts & (1<<textCount - 1); m != 0 && !p.Failed(); m &= m - 1 {
		left--
		i := bits.TrailingZeros64(uint64(m))
		*texts[i] = r.text(i)
	}
	if take(bitPayload) {
		f.Payload = p.Bytes(nil, MaxRecordBytes)
	}
	if take(bitStamp) {
		f.Stamp = ReadStamp(p, r.shared)
	}
	if mask&bitsLate != 0 {
		r.late(f, take)
	}
	if left != 0 {
		p.Failf("kind %d has %d fields too many", k, left)
	}
	return uint8(k), r.failure()
}

// late reads the fields that few records have.
func (r *Reader) late(f *Fields, take func(bit int) bool) {
	p := &r.pack
	for bit, id := range [...]*RunID{&f.Other, &f.Root, &f.Parent} {
		if take(bitOther + bit) {
			ReadRunID(p, id)
		}
	}
	if take(bitVisit) {
		f.Visit = p.Number()
	}
	if take(bitCost) {
		f.Cost = p.Number()
	}
	if take(bitStatus) {
		f.Status = Status(p.Between(0, int64(StatusContinued)))
	}
	if take(bitName) {
		f.Name = r.name()
	}
	if take(bitOrigin) {
		f.Origin = r.name()
	}
	if take(bitExtra) {
		f.Extra = p.Bytes(nil, MaxRecordBytes)
	}
}

// failure is the first error as an ErrCodec.
func (r *Reader) failure() error {
	if !r.pack.Failed() {
		return nil
	}
	return undecodable("%v", r.pack.Err())
}

func (r *Reader) text(i int) string {
	if i < internTexts {
		return r.name()
	}
	return r.pack.Text(MaxErrorMessageBytes) // the longest of the texts
}

// name reads a text that few values fill, so that one copy serves all.
func (r *Reader) name() string { return r.shared.Name(&r.pack, maxNameText) }

func (r *Reader) key(k *KeyID) {
	r.pack.Array(keyParts, keyParts)
	k.Workflow = r.name()
	k.Value = r.pack.Text(MaxKeyBytes)
	k.Kind = KeyKind(r.pack.Between(0, int64(KeyUnknown)))
}
