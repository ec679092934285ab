package flow

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"
)

// Reader reads what a Writer collected. It is owned by one goroutine and reused:
// Reset it for each body. Every length is checked against the bytes that remain
// before anything is allocated.
type Reader struct {
	src    bytes.Reader
	dec    *msgpack.Decoder
	cap    int // what may remain when the bytes aren't in src; zero when they are
	intern map[string]string
	err    error
}

// MaxRecordBytes bounds one encoded record or input: its payload and some text.
const MaxRecordBytes = 1 << 20

// maxInterned bounds the texts that one Reader shares; beyond it texts are
// copied, which costs memory and nothing else.
const maxInterned = 1 << 16

// NewReader makes a Reader over nothing.
func NewReader() *Reader {
	r := &Reader{intern: make(map[string]string)}
	r.dec = msgpack.NewDecoder(&r.src)
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
	r.dec.ResetReader(&r.src)
	r.err = nil
	return nil
}

// DecodeMsgpack reads the record from a foreign decoder; it implements
// msgpack.CustomDecoder. What it allocates is bounded by MaxRecordBytes. Error:
// ErrCodec.
func (r *Record) DecodeMsgpack(d *msgpack.Decoder) error {
	return (&Reader{dec: d, cap: MaxRecordBytes}).Record(r)
}

// DecodeMsgpack reads the input from a foreign decoder; it implements
// msgpack.CustomDecoder. Error: ErrCodec.
func (in *Input) DecodeMsgpack(d *msgpack.Decoder) error {
	return (&Reader{dec: d, cap: MaxRecordBytes}).Input(in)
}

func (r *Reader) left() int {
	if r.cap > 0 {
		return r.cap
	}
	return r.src.Len()
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
	n := r.array(3 + bitStamp + 1)
	k, version, mask := r.number(), r.number(), r.number()
	switch {
	case r.err != nil:
		return 0, r.err
	case k < 0 || k > 0xFF:
		return 0, undecodable("kind %d is out of range", k)
	case version != codecVersion:
		return 0, undecodable("kind %d has version %d, this build knows %d", k, version, codecVersion)
	case mask&^bitsKnown != 0:
		return 0, undecodable("kind %d has fields that this build doesn't know (mask %#x)", k, mask)
	}
	left := n - 3
	take := func(bit int) bool {
		if r.err != nil || mask&(1<<bit) == 0 {
			return false
		}
		left--
		return true
	}
	if take(bitRun) {
		r.id(&f.Run)
	}
	if take(bitKey) {
		r.key(&f.Key)
	}
	if take(bitPeer) {
		r.key(&f.Peer)
	}
	for i := range numberCount {
		if take(bitNumbers + i) {
			if err := f.setNumber(i, r.number()); err != nil {
				r.fail(err)
			}
		}
	}
	for i, s := range f.texts() {
		if take(bitTexts + i) {
			*s = r.text(i < internTexts)
		}
	}
	if take(bitPayload) {
		f.Payload = r.bytes()
	}
	if take(bitStamp) {
		f.Stamp = r.stamp()
	}
	if r.err == nil && left != 0 {
		r.fail(undecodable("kind %d has %d fields too many", k, left))
	}
	return uint8(k), r.err
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// check keeps the first error of the decoder as an ErrCodec.
func (r *Reader) check(err error) {
	if err != nil {
		r.fail(undecodable("%v", err))
	}
}

func (r *Reader) array(limit int) int {
	if r.err != nil {
		return 0
	}
	n, err := r.dec.DecodeArrayLen()
	r.check(err)
	if r.err == nil && (n < 0 || n > limit || n > r.left()) {
		r.fail(undecodable("an array of %d is out of range", n))
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *Reader) number() int64 {
	if r.err != nil {
		return 0
	}
	v, err := r.dec.DecodeInt64()
	r.check(err)
	return v
}

func (r *Reader) flag() bool {
	if r.err != nil {
		return false
	}
	v, err := r.dec.DecodeBool()
	r.check(err)
	return v
}

// raw reads a length that fits what remains, then that many bytes.
func (r *Reader) raw(buf []byte) []byte {
	if r.err != nil {
		return nil
	}
	n, err := r.dec.DecodeBytesLen()
	r.check(err)
	if r.err == nil && (n < 0 || n > r.left()) {
		r.fail(undecodable("%d bytes are announced, %d may remain", n, r.left()))
	}
	if r.err != nil {
		return nil
	}
	if n > cap(buf) {
		buf = make([]byte, n)
	}
	r.check(r.dec.ReadFull(buf[:n]))
	return buf[:n]
}

func (r *Reader) bytes() []byte { return r.raw(nil) }

func (r *Reader) text(shared bool) string {
	var buf [64]byte
	b := r.raw(buf[:0])
	if s, ok := r.intern[string(b)]; ok {
		return s
	}
	s := string(b)
	if shared && r.intern != nil && len(r.intern) < maxInterned {
		r.intern[s] = s
	}
	return s
}

func (r *Reader) id(id *RunID) {
	if b := r.raw(id[:0]); r.err == nil && len(b) != len(id) {
		r.fail(undecodable("a run id has %d bytes", len(b)))
	}
}

func (r *Reader) key(k *KeyID) {
	if n := r.array(3); r.err == nil && n != 3 {
		r.fail(undecodable("a key has %d parts", n))
	}
	k.Workflow = r.text(true)
	k.Value = r.text(false)
	k.Kind = KeyKind(r.number())
}

func (r *Reader) stamp() *Stamp {
	if n := r.array(4); r.err == nil && n != 4 {
		r.fail(undecodable("a stamp has %d parts", n))
	}
	s := &Stamp{Version: r.text(true), VersionRank: r.number(), Unknown: r.flag()}
	n := r.array(2)
	if n == 0 || r.err != nil {
		return s
	}
	s.Gates = make([]Gate, n)
	for i := range s.Gates {
		g := &s.Gates[i]
		if n := r.array(6); r.err == nil && n != 6 {
			r.fail(undecodable("a gate has %d parts", n))
		}
		g.Kind, g.KeyName, g.Key = GateKind(r.number()), r.text(true), r.text(false)
		g.Max, g.Interval, g.Burst = r.number(), Span(r.number()), r.number()
	}
	if n == 2 && s.Gates[0].Key == s.Gates[1].Key {
		s.Gates[1].Key = s.Gates[0].Key // the usual case: one text for both
	}
	return s
}
