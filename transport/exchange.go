package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

const (
	// maxKeptBuffer bounds the buffers that wait for the next request.
	maxKeptBuffer = 64 << 10
	// maxDrained bounds how much of a body that is too large is read and dropped, so
	// that a client which is still sending sees the refusal and not a broken
	// connection.
	maxDrained = 8 << 20
	// firstRead is what is allocated for a body on the word of its length alone.
	firstRead = 32 << 10
	// bodyTimeout bounds the arrival of a body that didn't come with its head.
	bodyTimeout = 30 * time.Second
	// drainTimeout bounds how long what is too large is dropped.
	drainTimeout = 5 * time.Second
	// statusGone is counted, never sent, for a client that went away.
	statusGone = 499
)

// exchange is one request and its one response. It is used by one goroutine, and
// again by other requests: nothing of it may be kept after serve returns.
type exchange struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	route  *route
	vars   [maxSegments]string // texts of the path's wildcards
	run    string              // the run that the path names
	query  url.Values          // the address's parameters, checked
	status int                 // that was sent; 0 before
	in     []byte              // the body
	out    []byte              // the response
	reader reader
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func newExchange(s *Server, w http.ResponseWriter, r *http.Request) *exchange {
	x := exchanges.Get().(*exchange)
	x.s, x.w, x.r = s, w, r
	return x
}

func (x *exchange) release() {
	in, out, rd := x.in, x.out, x.reader
	if cap(in) > maxKeptBuffer {
		in = nil
	}
	if cap(out) > maxKeptBuffer {
		out = nil
	}
	rd.forget()
	*x = exchange{in: in[:0], out: out[:0], reader: rd}
	exchanges.Put(x)
}

// runID is the run that the path names. A text that can't be an id is an unknown
// run like any other.
func (x *exchange) runID() (flow.RunID, error) {
	id, err := flow.ParseRunID(x.vars[0])
	if err != nil {
		return id, err
	}
	x.run = id.String()
	return id, nil
}

// workflow is the workflow that the path names first. No workflow has a name that
// is refused at its declaration.
func (x *exchange) workflow() (string, error) {
	name := x.vars[0]
	if f, ok := errors.AsType[*flow.FieldError](flow.CheckWorkflowName(name)); ok {
		p := fieldProblem(wire.CodeUnknownWorkflow, "name", f.Want)
		p.Detail = "no workflow has this name: it " + f.Want
		return "", p
	}
	return name, nil
}

// readQuery reads the address's parameters. One that the route doesn't take is
// refused as an unknown field is, and one that stands twice too. Probes may ask
// with whatever their tools add.
func (x *exchange) readQuery() error {
	if x.r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(x.r.URL.RawQuery)
	if x.query = q; x.route.class == classProbe {
		return nil
	}
	if err != nil {
		return problem(wire.CodeInvalid, "the query of the address: "+err.Error())
	}
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(x.route.query, name) {
			return fieldProblem(wire.CodeUnknownField, shown([]byte(name)), "is not a query parameter of this path")
		}
		if len(q[name]) > 1 {
			return flow.Invalid(name, "must not stand twice")
		}
	}
	return nil
}

// wait is the query parameter wait_ms.
func (x *exchange) wait() (time.Duration, error) {
	if !x.query.Has("wait_ms") {
		return 0, nil
	}
	ms, err := strconv.ParseInt(x.query.Get("wait_ms"), 10, 64)
	if err != nil {
		ms = -1
	}
	return time.Duration(ms) * time.Millisecond, wire.CheckWait("wait_ms", ms)
}

// readBody reads the whole body, which must be JSON by its type. It may be empty.
func (x *exchange) readBody() error {
	if err := x.checkMediaType(); err != nil {
		return err
	}
	return x.receive()
}

// receive is readBody for whoever has looked at the type.
func (x *exchange) receive() error {
	if x.r.ContentLength > wire.MaxBodyBytes {
		return x.tooLarge()
	}
	if n := min(int(x.r.ContentLength)+1, firstRead); cap(x.in) < n {
		x.in = make([]byte, 0, n) // and a byte that shows the end at once
	}
	for reads := 0; ; reads++ {
		if reads == 1 {
			// Most bodies come with their head. One that doesn't has a time of its own, so
			// that half a request doesn't hold its place for long.
			defer x.deadline(bodyTimeout)()
		}
		if len(x.in) == cap(x.in) {
			x.in = slices.Grow(x.in, max(512, len(x.in)))
		}
		n, err := x.r.Body.Read(x.in[len(x.in):cap(x.in)])
		x.in = x.in[:len(x.in)+n]
		switch {
		case len(x.in) > wire.MaxBodyBytes:
			return x.tooLarge()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return malformed(len(x.in), "the body ends too early")
		}
	}
}

// deadline bounds the reads of the request from now on, until what it answers is
// called. A connection that can't have one keeps the server's.
func (x *exchange) deadline(d time.Duration) (lift func()) {
	conn := http.NewResponseController(x.w)
	if err := conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return func() {}
	}
	return func() {
		if err := conn.SetReadDeadline(time.Time{}); err != nil {
			x.w.Header().Set("Connection", "close")
		}
	}
}

func (x *exchange) tooLarge() error {
	// A client reads the answer only when it has sent its body, so what is on its way
	// is dropped for a while.
	defer x.deadline(drainTimeout)()
	if _, err := io.CopyN(io.Discard, x.r.Body, maxDrained); err == nil {
		x.w.Header().Set("Connection", "close")
	}
	return problem(wire.CodeTooLarge, fmt.Sprintf("the body must be at most %d bytes", wire.MaxBodyBytes))
}

// decode reads the body as one shape. An empty body isn't an empty object: a
// client that loses its body must not start anything.
func decode[T any](x *exchange, read func(*reader) T) (v T, err error) {
	if err := x.readBody(); err != nil {
		return v, err
	}
	if len(x.in) == 0 {
		return v, noBody()
	}
	x.reader.reset(x.in)
	v = read(&x.reader)
	return v, x.reader.end()
}

func noBody() error { return malformed(0, "a JSON body is required") }

// checked is decode and the shape's own check.
func checked[T any, P interface {
	*T
	Check() error
}](x *exchange, read func(*reader) T) (*T, error) {
	v, err := decode(x, read)
	if err != nil {
		return nil, err
	}
	return &v, P(&v).Check()
}

// optional is checked for a body that may be empty: then it says nothing.
func optional[T any, P interface {
	*T
	Check() error
}](x *exchange, read func(*reader) T) (*T, error) {
	v := new(T)
	if err := x.readBody(); err != nil {
		return nil, err
	}
	if len(x.in) > 0 {
		x.reader.reset(x.in)
		*v = read(&x.reader)
		if err := x.reader.end(); err != nil {
			return nil, err
		}
	}
	return v, P(v).Check()
}

// header values that are set for nearly every response; never changed.
var (
	jsonType    = []string{wire.ContentJSON}
	problemType = []string{wire.ContentProblem}
	linesType   = []string{wire.ContentNDJSON}
)

// send writes x.out, whole, as the response.
func (x *exchange) send(status int) error {
	x.sendAs(status, jsonType)
	return nil
}

func (x *exchange) sendAs(status int, contentType []string) {
	h := x.w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(x.out))}
	x.status = status
	x.w.WriteHeader(status)
	if _, err := x.w.Write(x.out); err != nil {
		x.status = statusGone // there is nobody left to tell
	}
}

// json answers any shape.
func (x *exchange) json(status int, v any) error {
	if err := x.encode(v); err != nil {
		return err
	}
	return x.send(status)
}

func (x *exchange) encode(v any) error {
	buf := bytes.NewBuffer(x.out[:0])
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode a response: %w", err)
	}
	x.out = buf.Bytes()
	return nil
}

// problemFor is the document of an error. This is where an unforeseen error is
// logged; nobody above or below does it too.
func (x *exchange) problemFor(err error) *wire.Problem {
	p := *ProblemOf(err)
	if p.RunID == "" {
		p.RunID = x.run
	}
	if p.Code == wire.CodeInternal {
		x.s.log.LogAttrs(x.r.Context(), slog.LevelError, "request failed",
			slog.String("route", x.route.label), slog.String("run_id", p.RunID), slog.Any("err", err))
	}
	return &p
}

// refuse answers an error. A client that has gone is answered too: silence would
// read as 200 to one that has only closed its sending side.
func (x *exchange) refuse(err error) {
	p := x.problemFor(err)
	if p.RetryAfterMS > 0 {
		x.w.Header().Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+999)/1000, 10))
	}
	x.out = appendProblem(x.out[:0], p)
	x.sendAs(p.Status, problemType)
	if x.r.Context().Err() != nil {
		x.status = statusGone
	}
}

// isForm says whether a media type is what curl -d sends on its own.
func isForm(mediaType string) bool {
	return strings.EqualFold(mediaType, "application/x-www-form-urlencoded")
}
