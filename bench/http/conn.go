package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Bounds of an answer.
const (
	maxHeaders   = 64
	maxBodyBytes = 64 << 20
	dialTimeout  = 10 * time.Second
	// answerTimeout is more than any wait that is asked for.
	answerTimeout = 60 * time.Second
)

// errAnswer is the base of what can be wrong with an answer as HTTP.
var errAnswer = errors.New("not an HTTP/1.1 answer that this client reads")

// conn is one kept-alive connection that sends one request at a time. It is as lean
// as HTTP/1.1 allows, since the client's CPU time is the server's too on a small
// machine: one write, no goroutine, no allocation once its buffers have grown.
//
// It is for one goroutine. After an error it isn't used again.
type conn struct {
	kind string // media type of what is sent
	net  net.Conn
	in   *bufio.Reader
	host string
	out  []byte
	body []byte
}

// dial connects to host:port.
func dial(host string) (*conn, error) {
	c, err := net.DialTimeout("tcp", host, dialTimeout)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return newConn(c, host), nil
}

func newConn(c net.Conn, host string) *conn {
	return &conn{kind: wire.ContentJSON, net: c, in: bufio.NewReaderSize(c, 32<<10), host: host}
}

// Close closes the connection.
func (c *conn) Close() error { return c.net.Close() }

// statusError is an answer that isn't 2xx.
type statusError struct {
	status int
	body   string
}

// Error says what the server said.
func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// do sends a request with a body of the connection's media type and returns the answer's body, which is valid
// until the next call. An answer that isn't 2xx is a *statusError; the connection is
// good after one.
func (c *conn) do(method, path string, body []byte) ([]byte, error) {
	if err := c.net.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, fmt.Errorf("set a deadline: %w", err)
	}
	if err := c.send(method, path, body); err != nil {
		return nil, err
	}
	return c.receive()
}

// send writes a request; receive reads its answer.
func (c *conn) send(method, path string, body []byte) error {
	b := c.out[:0]
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.host...)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, c.kind...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	b = append(b, body...)
	c.out = b
	if _, err := c.net.Write(c.out); err != nil {
		return fmt.Errorf("send %s %s: %w", method, path, err)
	}
	return nil
}

func (c *conn) receive() ([]byte, error) {
	status, err := c.statusLine()
	if err != nil {
		return nil, err
	}
	length, err := c.headers()
	if err != nil {
		return nil, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length+length/4)
	}
	c.body = c.body[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return nil, fmt.Errorf("read an answer of %d bytes: %w", length, err)
	}
	if status < 200 || status > 299 {
		return nil, &statusError{status, string(c.body)}
	}
	return c.body, nil
}

func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read an answer's head: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// statusLine reads "HTTP/1.1 200 OK".
func (c *conn) statusLine() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0, fmt.Errorf("%w: %q", errAnswer, line)
	}
	status, ok := number(rest[:3])
	if !ok {
		return 0, fmt.Errorf("%w: %q", errAnswer, line)
	}
	return status, nil
}

var (
	contentLength    = []byte("Content-Length")
	transferEncoding = []byte("Transfer-Encoding")
)

// headers reads up to the empty line and returns the body's length. A chunked body
// is refused: the API never sends one.
func (c *conn) headers() (int, error) {
	length := -1
	for range maxHeaders {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			if length < 0 {
				return 0, fmt.Errorf("%w: it has no length", errAnswer)
			}
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, contentLength):
			n, ok := number(bytes.TrimSpace(value))
			if !ok || n > maxBodyBytes {
				return 0, fmt.Errorf("%w: length %q", errAnswer, value)
			}
			length = n
		case bytes.EqualFold(name, transferEncoding):
			return 0, fmt.Errorf("%w: transfer encoding %q", errAnswer, value)
		}
	}
	return 0, fmt.Errorf("%w: more than %d headers", errAnswer, maxHeaders)
}

// number reads decimal digits.
func number(b []byte) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > maxBodyBytes {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(b) > 0
}
