package pyrula_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/transport"
)

// call is one request as it left the client.
type call struct {
	method string
	path   string // percent-encoded
	query  string
	body   []byte
	header http.Header
	at     time.Duration // since the world began
	nth    int           // of this path, counted from 1
}

// fault is what the network does to one request. The zero value is nothing.
type fault struct {
	lost    bool          // it never arrives, and the connection breaks
	hang    bool          // it never arrives, and nobody says so
	delay   time.Duration // the answer comes that much later
	cut     bool          // it arrives, and the answer is lost
	problem *wire.Problem // the node answers this instead
	after   string        // of the problem: header Retry-After
	answer  *string       // the node answers this instead, and takes it all
}

// network carries requests to the real HTTP API before a fake node, without a
// socket, so that it works in virtual time; and it loses what it is told to lose.
type network struct {
	server *transport.Server
	begin  time.Time

	mu    sync.Mutex
	calls []call
	fault func(call) fault // nil: a perfect network
}

var errBroken = errors.New("the connection broke")

// worldEnd bounds a test in virtual time: who waits for what never comes would go on
// asking for ever.
const worldEnd = 48 * time.Hour

var errForever = errors.New("the test goes on for ever")

func (w *network) RoundTrip(r *http.Request) (*http.Response, error) {
	c, f, err := w.note(r)
	switch {
	case err != nil:
		return nil, err
	case f.lost:
		return nil, errBroken
	case f.hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case f.problem != nil:
		return refuse(f), nil //nolint:nilerr // a refusal is an answer
	case f.answer != nil:
		out := httptest.NewRecorder()
		out.WriteHeader(http.StatusAccepted)
		out.WriteString(*f.answer)
		return out.Result(), nil
	}
	in := r.Clone(r.Context())
	in.Body = io.NopCloser(bytes.NewReader(c.body))
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1"
	out := httptest.NewRecorder()
	w.server.ServeHTTP(out, in)
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-r.Context().Done():
		}
	}
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case f.cut:
		return nil, errBroken
	}
	return out.Result(), nil
}

func (w *network) note(r *http.Request) (call, fault, error) {
	c := call{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, header: r.Header.Clone(), at: time.Since(w.begin), nth: 1}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return c, fault{}, err
		}
		c.body = body
	}
	if c.at > worldEnd {
		return c, fault{}, errForever
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, before := range w.calls {
		if before.path == c.path {
			c.nth++
		}
	}
	w.calls = append(w.calls, c)
	if w.fault == nil {
		return c, fault{}, nil
	}
	return c, w.fault(c), nil
}

func refuse(f fault) *http.Response {
	out := httptest.NewRecorder()
	if f.after != "" {
		out.Header().Set("Retry-After", f.after)
	}
	if f.problem.Code != "" {
		out.Header().Set("Content-Type", wire.ContentProblem)
	}
	out.WriteHeader(f.problem.Status)
	if f.problem.Code != "" {
		raw, err := json.Marshal(f.problem)
		if err != nil {
			panic(err)
		}
		out.Body.Write(raw)
	}
	return out.Result()
}

// to are the requests to a path, oldest first.
func (w *network) to(path string) []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []call
	for _, c := range w.calls {
		if c.path == path {
			list = append(list, c)
		}
	}
	return list
}

func (w *network) setFault(f func(call) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// world is a node, a network and a client in one bubble of virtual time.
type world struct {
	*testing.T
	node   *fakeNode
	net    *network
	client *pyrula.Client
	logs   *logbook
}

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		node := newFakeNode()
		net := &network{server: transport.NewServer(transport.Config{Node: node}), begin: time.Now()}
		w := &world{T: t, node: node, net: net, logs: &logbook{}}
		w.client = w.dial(net)
		test(t, w)
	})
}

func (w *world) dial(net *network) *pyrula.Client {
	w.Helper()
	c, err := pyrula.Dial(w.Context(), pyrula.WithAddr("node.test:7477"), pyrula.WithHTTPClient(&http.Client{Transport: net}))
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// another is a second network to the same node, for a second worker.
func (w *world) another() (*network, *pyrula.Client) {
	w.Helper()
	net := &network{server: w.net.server, begin: w.net.begin}
	return net, w.dial(net)
}

// working is a worker under way.
type working struct {
	w    *world
	stop context.CancelFunc
	done chan error
}

// work starts a worker and waits until it has declared and claimed.
func (w *world) work(c *pyrula.Client, cfg pyrula.WorkerConfig, workflows ...pyrula.Definition) *working {
	w.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	worker, err := c.NewWorker(cfg, workflows...)
	if err != nil {
		w.Fatal(err)
	}
	return w.run(w.Context(), worker)
}

// run starts a worker in a context.
func (w *world) run(ctx context.Context, worker *pyrula.Worker) *working {
	ctx, stop := context.WithCancel(ctx)
	k := &working{w: w, stop: stop, done: make(chan error, 1)}
	go func() { k.done <- worker.Run(ctx) }()
	synctest.Wait()
	return k
}

// end stops the worker and wants a clean end.
func (k *working) end() {
	k.w.Helper()
	k.stop()
	if err := <-k.done; err != nil {
		k.w.Errorf("the worker ended with %v", err)
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// logbook keeps what is logged.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// order is the In of most tests, receipt the Out.
type order struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id,omitempty"`
}

type receipt struct {
	Charge string `json:"charge"`
}

// start submits a run and fails the test when that fails.
func start[In, Out any](w *world, wf *pyrula.Workflow[In, Out], in In, opts ...pyrula.StartOption) *pyrula.Handle[Out] {
	w.Helper()
	h, err := wf.Start(w.Context(), w.client, in, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return h
}
