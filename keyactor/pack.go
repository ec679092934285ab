package keyactor

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// writer chains encoder calls and keeps the first error.
type writer struct {
	e   *msgpack.Encoder
	err error
}

func (w *writer) array(n int) {
	if w.err == nil {
		w.err = w.e.EncodeArrayLen(n)
	}
}

func (w *writer) number(v int64) {
	if w.err == nil {
		w.err = w.e.EncodeInt(v)
	}
}

func (w *writer) text(s string) {
	if w.err == nil {
		w.err = w.e.EncodeString(s)
	}
}

func (w *writer) run(id flow.RunID) {
	if w.err == nil {
		w.err = w.e.EncodeBytes(id[:])
	}
}

// reader chains decoder calls, keeps the first error and trusts no length.
type reader struct {
	d   *msgpack.Decoder
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// array reads the length of an array within bounds.
func (r *reader) array(low, high int) int {
	if r.err != nil {
		return 0
	}
	n, err := r.d.DecodeArrayLen()
	r.err = err
	if err == nil && (n < low || n > high) {
		r.fail("an array of %d where %d to %d is legal", n, low, high)
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) number() int64 {
	if r.err != nil {
		return 0
	}
	v, err := r.d.DecodeInt64()
	r.err = err
	return v
}

func (r *reader) between(low, high int64) int64 {
	v := r.number()
	if r.err == nil && (v < low || v > high) {
		r.fail("%d where %d to %d is legal", v, low, high)
		return low
	}
	return v
}

// text reads a name or a key value; both have the longer one's bound.
func (r *reader) text() string {
	return string(r.raw(flow.MaxKeyBytes))
}

func (r *reader) run() (id flow.RunID) {
	if b := r.raw(len(id)); r.err == nil && copy(id[:], b) != len(id) {
		r.fail("a run id of %d bytes", len(b))
	}
	return id
}

// raw reads a string or bytes of at most limit bytes. The length is checked before
// anything is allocated.
func (r *reader) raw(limit int) []byte {
	if r.err != nil {
		return nil
	}
	n, err := r.d.DecodeBytesLen()
	if err != nil || n <= 0 {
		r.err = err
		return nil
	}
	if n > limit {
		r.fail("%d bytes where %d are legal", n, limit)
		return nil
	}
	b := make([]byte, n)
	r.err = r.d.ReadFull(b)
	return b
}
