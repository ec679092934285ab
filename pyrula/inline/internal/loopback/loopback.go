// Package loopback carries HTTP requests to a handler of the same process, without a
// socket: what a client sends and a server answers are the same bytes as over a
// network, in one goroutine and no time.
package loopback

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// ErrClosed says that the transport takes no more requests.
var ErrClosed = errors.New("the runner is closed")

// Transport is an http.RoundTripper that calls a handler. The handler runs in the
// caller's goroutine and sees the caller's context, so it ends soon after that does. An
// answer is whole before the caller sees it: nothing is streamed. Methods are safe for
// any goroutine.
type Transport struct {
	handler http.Handler

	mu       sync.Mutex // guards closed, and Add against Wait
	closed   bool
	underWay sync.WaitGroup
}

// New makes a transport to a handler.
func New(handler http.Handler) *Transport { return &Transport{handler: handler} }

// Client is an HTTP client whose every request goes to the handler, whatever address it
// names.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// Close refuses further requests with ErrClosed, and returns when none is under way.
// It may be called twice.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.underWay.Wait()
}

func (t *Transport) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.underWay.Add(1)
	}
	return !t.closed
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if !t.begin() {
		return nil, ErrClosed
	}
	defer t.underWay.Done()
	a := &answer{header: http.Header{}}
	t.handler.ServeHTTP(a, received(r))
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}

// received is a request as a server sees it; the client's own stays as it is.
func received(r *http.Request) *http.Request {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in
}

// answer is a response as the handler writes it.
type answer struct {
	header http.Header // the handler's
	sent   http.Header // as it stood when the status was written
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter; only the first call counts.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
