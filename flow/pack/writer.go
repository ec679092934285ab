package pack

import "github.com/vmihailenco/msgpack/v5"

// Writer chains encoder calls and keeps the first error. It is owned by one
// goroutine.
type Writer struct {
	enc *msgpack.Encoder
	err error
}

// NewWriter writes to enc.
func NewWriter(enc *msgpack.Encoder) Writer { return Writer{enc: enc} }

// Err is the first error, the encoder's own.
func (w *Writer) Err() error { return w.err }

// Array begins an array of n parts.
func (w *Writer) Array(n int) {
	if w.err == nil {
		w.err = w.enc.EncodeArrayLen(n)
	}
}

// Nil stands for something that is absent.
func (w *Writer) Nil() {
	if w.err == nil {
		w.err = w.enc.EncodeNil()
	}
}

// Number writes an integer in the fewest bytes if the encoder is set so.
func (w *Writer) Number(v int64) {
	if w.err == nil {
		w.err = w.enc.EncodeInt(v)
	}
}

// Flag writes a yes or no.
func (w *Writer) Flag(yes bool) {
	if w.err == nil {
		w.err = w.enc.EncodeBool(yes)
	}
}

// Text writes a string.
func (w *Writer) Text(s string) {
	if w.err == nil {
		w.err = w.enc.EncodeString(s)
	}
}

// Bytes writes bytes; nil and empty are one.
func (w *Writer) Bytes(b []byte) {
	if b == nil {
		b = []byte{}
	}
	if w.err == nil {
		w.err = w.enc.EncodeBytes(b)
	}
}
