package pack

import (
	"bufio"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// chunk is the most that is allocated on the word of a length alone, when it isn't
// known how many bytes remain.
const chunk = 64 << 10

// Reader chains decoder calls and keeps the first error. It is owned by one
// goroutine.
//
// What the decoder reads may lie in memory: then the Reader takes the usual forms from
// there, which is several times faster, and leaves all others to the decoder. Bounds
// and errors are the same either way.
type Reader struct {
	dec    *msgpack.Decoder
	room   func() int // bytes that remain; nil when nobody knows
	err    error
	body   *Body         // what dec reads, if it is one
	buffer *bufio.Reader // likewise
}

// NewReader reads from dec, which is to stay with what it reads. room says how many
// bytes remain, so that a length that can't be true is refused at once; nil when that
// isn't known. A dec over a Body or a bufio.Reader is read fastest.
func NewReader(dec *msgpack.Decoder, room func() int) Reader {
	r := Reader{dec: dec, room: room}
	r.look()
	return r
}

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Failed says whether there was an error.
func (r *Reader) Failed() bool { return r.err != nil }

// Reset forgets the error, for a new body on the same decoder.
func (r *Reader) Reset() { r.err = nil }

// Failf refuses what was read, unless something was refused before.
func (r *Reader) Failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *Reader) keep(err error) bool {
	if err != nil {
		r.Failf("%w", err)
	}
	return r.err == nil
}

// Array reads the length of an array of low to high parts.
func (r *Reader) Array(low, high int) int {
	n, ok := r.Optional(low, high)
	if !ok {
		r.Failf("nothing where an array of %d to %d parts is legal", low, high)
		return 0
	}
	return n
}

// Optional is Array for something that may be absent: then ok is false.
func (r *Reader) Optional(low, high int) (n int, ok bool) {
	if r.err != nil {
		return 0, true
	}
	n, near := array(r.Ahead())
	if near {
		r.Pass(1)
	} else {
		var err error
		if n, err = r.dec.DecodeArrayLen(); !r.keep(err) {
			return 0, true
		}
	}
	if n == -1 {
		return 0, false
	}
	if n < low || n > high || (r.room != nil && n > r.room()) {
		r.Failf("an array of %d parts where %d to %d are legal", n, low, high)
		return 0, true
	}
	return n, true
}

// Number reads an integer.
func (r *Reader) Number() int64 {
	if r.err != nil {
		return 0
	}
	if v, n := number(r.Ahead()); n > 0 {
		r.Pass(n)
		return v
	}
	v, err := r.dec.DecodeInt64()
	r.keep(err)
	return v
}

// Between reads an integer from low to high; it answers low for any other.
func (r *Reader) Between(low, high int64) int64 {
	v := r.Number()
	if r.err == nil && (v < low || v > high) {
		r.Failf("%d where %d to %d is legal", v, low, high)
	}
	if r.err != nil {
		return low
	}
	return v
}

// Flag reads a yes or no.
func (r *Reader) Flag() bool {
	if r.err != nil {
		return false
	}
	if b := r.Ahead(); len(b) > 0 && (b[0] == msgpcode.True || b[0] == msgpcode.False) {
		v := b[0] == msgpcode.True
		r.Pass(1)
		return v
	}
	v, err := r.dec.DecodeBool()
	r.keep(err)
	return v
}

// Text reads a string of at most limit bytes.
func (r *Reader) Text(limit int) string {
	if r.err == nil {
		if b, n := text(r.Ahead()); n > 0 && len(b) <= limit {
			s := string(b)
			r.Pass(n)
			return s
		}
	}
	return string(r.Bytes(nil, limit))
}

// Exactly fills b with bytes of just its length.
func (r *Reader) Exactly(b []byte) {
	if n := len(r.Bytes(b[:0], len(b))); r.err == nil && n != len(b) {
		r.Failf("%d bytes where %d are legal", n, len(b))
	}
}

// Bytes reads at most limit bytes of a string or of bytes, into buf if they fit its
// capacity.
func (r *Reader) Bytes(buf []byte, limit int) []byte {
	if r.err != nil {
		return nil
	}
	if b, n := text(r.Ahead()); n > 0 && len(b) <= limit {
		buf = append(buf[:0], b...)
		r.Pass(n)
		return buf
	}
	n, err := r.dec.DecodeBytesLen()
	if !r.keep(err) {
		return nil
	}
	if r.room != nil {
		limit = min(limit, r.room())
	}
	if n < 0 || n > limit {
		r.Failf("%d bytes are announced where at most %d may come", n, limit)
		return nil
	}
	if r.room != nil && cap(buf) < n {
		buf = make([]byte, 0, n)
	}
	for buf = buf[:0]; len(buf) < n && r.err == nil; {
		at, step := len(buf), min(n-len(buf), chunk)
		if cap(buf)-at >= n-at {
			step = n - at
		} else {
			buf = append(buf, make([]byte, step)...)[:at]
		}
		buf = buf[:at+step]
		r.keep(r.dec.ReadFull(buf[at:]))
	}
	if r.err != nil {
		return nil
	}
	return buf
}
