package pack

import (
	"bufio"
	"errors"
	"io"
)

// Body is bytes in memory that a decoder reads and that a Reader of that decoder sees
// as a whole. It is owned by one goroutine. The zero value is empty.
type Body struct {
	bytes []byte
	at    int
}

// errNothingRead is what a Body answers when no byte can be given back.
var errNothingRead = errors.New("pack: no byte was read")

// Reset starts over at the first of b, which must not change while it is read.
func (b *Body) Reset(body []byte) { b.bytes, b.at = body, 0 }

// Len is the number of bytes that remain.
func (b *Body) Len() int { return len(b.bytes) - b.at }

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if b.Len() == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, b.bytes[b.at:])
	b.at += n
	return n, nil
}

// ReadByte implements io.ByteScanner.
func (b *Body) ReadByte() (byte, error) {
	if b.Len() == 0 {
		return 0, io.EOF
	}
	b.at++
	return b.bytes[b.at-1], nil
}

// UnreadByte implements io.ByteScanner.
func (b *Body) UnreadByte() error {
	if b.at == 0 {
		return errNothingRead
	}
	b.at--
	return nil
}

// Ahead is what lies in memory of the bytes to come, maybe nothing: it never reads on.
// It is valid until the next call and must not be changed.
func (r *Reader) Ahead() []byte {
	switch {
	case r.body != nil:
		return r.body.bytes[r.body.at:]
	case r.buffer != nil:
		b, _ := r.buffer.Peek(r.buffer.Buffered()) // what is buffered is there
		return b
	}
	return nil
}

// Pass goes over the first n bytes of Ahead.
func (r *Reader) Pass(n int) {
	if r.body != nil {
		r.body.at += n
		return
	}
	_, err := r.buffer.Discard(n)
	r.keep(err)
}

// look finds out whether what dec reads lies in memory.
func (r *Reader) look() {
	switch src := r.dec.Buffered().(type) {
	case *Body:
		r.body = src
	case *bufio.Reader:
		r.buffer = src
	}
}
