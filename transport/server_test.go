package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
	"github.com/pyrula/pyrula-node/transport/apitest"
)

// served is an api with a listener on a loopback address.
type served struct {
	*api
	url    string
	addr   string
	client *http.Client
	done   chan error // Serve's answer
}

func serve(t *testing.T, cfg transport.Config) *served {
	t.Helper()
	a := newAPIWith(t, cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ck, err := checker()
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	s := &served{
		api: a, url: "http://" + l.Addr().String(), addr: l.Addr().String(), done: make(chan error, 1),
		client: &http.Client{Transport: ck.Transport(base, apitest.Report(func(err error) { t.Error(err) }))},
	}
	go func() { s.done <- a.server.Serve(l) }()
	t.Cleanup(func() {
		base.CloseIdleConnections()
		if err := a.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// do sends a request over the connection and reads the answer.
func (s *served) do(r *http.Request) (int, string) {
	s.t.Helper()
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (s *served) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// waitBody is a claim that waits for longer than any test.
var waitBody = strings.Replace(claimBody("w", 1), `"credit":1`, `"credit":1,"wait_ms":30000`, 1)

// A body over the bound is refused whole, however its length is told, and the
// client gets to read the refusal.
func TestBodyTooLarge(t *testing.T) {
	s := serve(t, transport.Config{})
	for _, size := range []int{wire.MaxBodyBytes + 1, 3 * wire.MaxBodyBytes} {
		body := `{"params":{"p":"` + strings.Repeat("x", size-len(`{"params":{"p":""}}`)) + `"}}`
		for _, path := range []string{"/v1/workflows/w/runs", "/w", "/v1/claims", "/v1/runs:batch"} {
			status, got := s.do(s.request(t.Context(), "POST", path, strings.NewReader(body)))
			if status != 413 || !strings.Contains(got, wire.CodeTooLarge) {
				t.Errorf("%d bytes to %s answer %d %s", size, path, status, got)
			}
			// A reader of no known kind is sent in chunks, without a length.
			status, got = s.do(s.request(t.Context(), "POST", path, io.MultiReader(strings.NewReader(body))))
			if status != 413 || !strings.Contains(got, wire.CodeTooLarge) {
				t.Errorf("%d bytes in chunks to %s answer %d %s", size, path, status, got)
			}
		}
	}
	if len(s.node.order) != 0 {
		t.Errorf("%d runs were made", len(s.node.order))
	}
	status, _ := s.do(s.request(t.Context(), "POST", "/w", io.MultiReader(strings.NewReader(`{"p":"`+strings.Repeat("x", 1_000_000)+`"}`))))
	if status != 202 {
		t.Errorf("1000000 bytes in chunks answer %d, want 202", status)
	}
}

// A length that can't be true is refused before room is made for it.
func TestLyingLength(t *testing.T) {
	a := newAPI(t)
	a.send("POST", "/w", `{}`, func(r *http.Request) { r.ContentLength = 1 << 40 }).refused(wire.CodeTooLarge, "")
}

// raw sends bytes and reads one answer.
func (s *served) raw(text string) *http.Response {
	s.t.Helper()
	return s.answerTo(s.dial(text))
}

func (s *served) dial(text string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.t.Error(err)
		}
	})
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func (s *served) answerTo(conn net.Conn) *http.Response {
	s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// A body that ends before its length starts nothing.
func TestShortBody(t *testing.T) {
	s := serve(t, transport.Config{})
	conn := s.dial("POST /w HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{}")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if resp := s.answerTo(conn); resp.StatusCode < 400 || len(s.node.order) != 0 {
		t.Errorf("a short body answers %d and makes %d runs", resp.StatusCode, len(s.node.order))
	}
}

// S99 over a socket: net/http itself must not clean the path either.
func TestS99RawPaths(t *testing.T) {
	s := serve(t, transport.Config{})
	for raw, key := range map[string]string{"": "", "..": "..", "%2E%2e": "..", "a%2Fb": "a/b", "%252F": "%2F", "%00": "\x00", "*": "*", "a:b": "a:b"} {
		resp := s.raw("GET /v1/keys/wf/" + raw + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		body, err := io.ReadAll(resp.Body)
		if want := fmt.Sprintf(`"key":%q,`, key); err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), strings.ReplaceAll(want, `\x00`, `\u0000`)) {
			t.Errorf("key %q as %s answers %d %s, %v", key, raw, resp.StatusCode, body, err)
		}
	}
}

func TestHosts(t *testing.T) {
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:7477": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "10.1.2.3": 200, "pyrula.localhost": 200, "localhost.": 200,
		"evil.test": 421, "evil.test:7477": 421, "localhost.evil.test": 421, "127.0.0.1.evil.test": 421,
	} {
		s := serve(t, transport.Config{})
		resp := s.raw("GET /v1/node HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		if resp.StatusCode != want {
			t.Errorf("host %s answers %d, want %d", host, resp.StatusCode, want)
		}
	}
	s := serve(t, transport.Config{Hosts: []string{"Node1.internal"}})
	for host, want := range map[string]int{"node1.internal:7477": 200, "node2.internal": 421, "localhost": 200} {
		if resp := s.raw("GET /v1/node HTTP/1.1\r\nHost: " + host + "\r\n\r\n"); resp.StatusCode != want {
			t.Errorf("with names configured, host %s answers %d, want %d", host, resp.StatusCode, want)
		}
	}
	if resp := s.raw("GET /livez HTTP/1.0\r\n\r\n"); resp.StatusCode != 200 {
		t.Errorf("HTTP/1.0 without a host answers %d", resp.StatusCode)
	}
}

// A claim ends when its client goes away: the node sees the context end.
func TestClaimEndsWithItsClient(t *testing.T) {
	s := serve(t, transport.Config{})
	s.node.entered = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := s.client.Do(s.request(ctx, "POST", "/v1/claims", strings.NewReader(waitBody)))
		failed <- err
	}()
	<-s.node.entered
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the client saw %v", err)
	}
	// Shutdown waits for requests under way, so it would not end with this one.
	if err := s.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-s.done; err != nil {
		t.Errorf("Serve answers %v after Shutdown", err)
	}
}

// Drain ends long polls at once, with what there is, and claims after it are
// refused; endings are not.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		g := a.hold("other")
		begin := time.Now()
		claimed, waited := make(chan answer), make(chan answer)
		go func() { claimed <- a.send("POST", "/v1/claims", waitBody) }()
		go func() { waited <- a.send("GET", "/v1/runs/"+g.RunID+"/result?wait_ms=30000", "") }()
		synctest.Wait()
		a.server.Drain()
		if got := <-claimed; got.Code != 200 || got.Body.String() != `{"runs":[]}` {
			t.Errorf("a waiting claim answers %d %s", got.Code, got.Body)
		}
		if got := <-waited; got.Code != 202 || !strings.Contains(got.Body.String(), g.RunID) {
			t.Errorf("a waiting result answers %d %s", got.Code, got.Body)
		}
		a.send("POST", "/v1/claims", waitBody).refused(wire.CodeNotReady, "")
		a.send("POST", "/v1/claims", claimBody("w", 1)).refused(wire.CodeNotReady, "")
		a.send("GET", "/v1/runs/"+g.RunID+"?wait_ms=30000", "").ok(200, nil)
		a.send("POST", "/v1/runs/"+g.RunID+"/complete", fmt.Sprintf(`{"fence":%d}`, g.Fence)).ok(200, nil)
		if took := time.Since(begin); took != 0 {
			t.Errorf("draining took %v, want no wait at all", took)
		}
	})
}

// Shutdown gives up with its context, and cuts what is left.
func TestShutdownGivesUp(t *testing.T) {
	stuck := &stuckNode{fakeNode: newFakeNode(), entered: make(chan struct{}), free: make(chan struct{})}
	s := serve(t, configOf(stuck))
	done := make(chan error)
	go func() {
		_, err := s.client.Do(s.request(t.Context(), "GET", "/v1/node", nil))
		done <- err
	}()
	<-stuck.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown answers %v, want its context's error", err)
	}
	if err := <-done; err == nil {
		t.Error("the client of a cut request sees no error")
	}
	close(stuck.free)
}

// R7: what ends work gets through when new work no longer does.
func TestR7InFlight(t *testing.T) {
	stuck := &stuckNode{fakeNode: newFakeNode(), entered: make(chan struct{}), free: make(chan struct{})}
	a := newAPIWith(t, transport.Config{Node: stuck, MaxInFlight: 8}) // one of them reserved
	done := make(chan answer)
	for range 7 {
		go func() { done <- a.send("GET", "/v1/node", "") }()
		<-stuck.entered
	}
	w := a.send("POST", "/w", `{}`)
	if p := w.refused(wire.CodeServerBusy, ""); p.Status != 503 || w.Header().Get("Retry-After") != "1" || !p.Retryable {
		t.Errorf("a submit beyond the bound answers %+v", p)
	}
	beat := `{"worker":"w","runs":[{"run_id":"run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6","fence":1}]}`
	a.send("POST", "/v1/heartbeats", beat).ok(200, nil)
	a.send("GET", "/livez", "").ok(200, nil)
	for _, c := range []struct{ method, path, body string }{ // what a body needs to go on, and to come to its end
		{"POST", "/steps", `{"fence":1,"state":{}}`}, {"GET", "/steps", ""}, {"POST", "/children", `{"fence":1,"runs":[{"workflow":"x"}]}`},
		{"POST", "/suspend", `{"fence":1,"until":{"signal":"go"}}`}, {"POST", "/signals/go", ""},
	} {
		a.send(c.method, "/v1/runs/run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"+c.path, c.body).refused(wire.CodeUnknownRun, "")
	}
	a.send("POST", "/v1/resolutions", `{"worker":"w","runs":[{"run_id":"run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6","gates_hash":"h","keys":{}}]}`).refused(wire.CodeUnknownRun, "")
	a.send("POST", "/v1/runs/run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6/retry", "").refused(wire.CodeServerBusy, "")
	a.send("PUT", "/v1/schedules/s", `{"workflow":"w","at_ms":1}`).refused(wire.CodeServerBusy, "")
	close(stuck.free)
	for range 7 {
		(<-done).ok(200, nil)
	}
	a.send("POST", "/w", `{}`).ok(202, nil)
}

// At the very bound all is refused, but what probes ask.
func TestProbesGetThrough(t *testing.T) {
	stuck := &stuckNode{fakeNode: newFakeNode(), entered: make(chan struct{}), free: make(chan struct{})}
	a := newAPIWith(t, transport.Config{Node: stuck, MaxInFlight: 1})
	done := make(chan answer)
	go func() { done <- a.send("GET", "/v1/node", "") }()
	<-stuck.entered
	a.send("POST", "/v1/heartbeats", `{}`).refused(wire.CodeServerBusy, "")
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/openapi.json"} {
		if w := a.send("GET", path, ""); w.Code != 200 {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
	close(stuck.free)
	(<-done).ok(200, nil)
}

// stuckNode describes itself only once it is freed.
type stuckNode struct {
	*fakeNode
	entered, free chan struct{}
}

func (n *stuckNode) Describe(ctx context.Context) (wire.Node, error) {
	select {
	case n.entered <- struct{}{}:
	case <-n.free:
	}
	<-n.free
	return n.fakeNode.Describe(ctx)
}

// An unforeseen error is logged once, and the client learns nothing of it.
func TestInternalErrorsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	a := newAPIWith(t, transport.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	id := a.submit("w")
	a.node.fail(errors.New("open /secret: permission denied"))
	w := a.send("GET", "/v1/runs/"+id+"/why", "")
	if p := w.refused(wire.CodeInternal, ""); p.Detail != "" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the client learns %s", w.Body)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "/secret") || !strings.Contains(text, id) {
		t.Errorf("the log has %q, want one line with run and error", text)
	}
	log.Reset()
	a.node.fail(fmt.Errorf("x: %w", context.DeadlineExceeded))
	a.send("GET", "/v1/runs", "").refused(wire.CodeOutcomeUnknown, "")
	if log.Len() != 0 {
		t.Errorf("an error of the table is logged: %s", log.String())
	}
}

func TestServeError(t *testing.T) {
	a := newAPI(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.server.Serve(l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("serving a closed listener answers %v", err)
	}
	if err := a.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
