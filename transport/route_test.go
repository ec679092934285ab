package transport_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

func TestUnknownPaths(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{
		"/", "//", "/v1", "/v1/", "/v2/runs", "/v1/runs:cancel", "/v1/workflows/w/runs/", "/v1/runs/x/y", "/v1/runs/x/signals", "/v1/a/b/c/d/e",
		"/w/x", "/w/events/", "//v1/runs", "/v1//runs", "/v1/../v1/node", "/./livez", "/v1/keys/a/b/c", "/metrics/events", "/livez/",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			w := a.send(method, path, "")
			if p := w.refused(wire.CodeNotFound, ""); p.Status != 404 || w.Code != 404 {
				t.Errorf("%s %s answers %d, want 404", method, path, w.Code)
			}
			if to := w.Header().Get("Location"); to != "" {
				t.Errorf("%s %s is sent on to %s", method, path, to)
			}
		}
	}
}

func TestMethods(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	for _, c := range []struct{ path, allow string }{
		{"/v1/workflows", "GET, HEAD"},
		{"/v1/workflows/w", "GET, HEAD, PUT"},
		{"/v1/workflows/w/runs", "POST"},
		{"/v1/runs", "GET, HEAD"},
		{"/v1/runs:batch", "POST"},
		{"/v1/claims", "POST"},
		{"/v1/runs/" + id, "GET, HEAD"},
		{"/v1/runs/" + id + "/cancel", "POST"},
		{"/v1/runs/" + id + "/steps", "GET, HEAD, POST"},
		{"/v1/runs/" + id + "/children", "POST"},
		{"/v1/runs/" + id + "/signals/go", "POST"},
		{"/v1/runs/" + id + "/retry", "POST"},
		{"/v1/resolutions", "POST"},
		{"/v1/keys/w/k", "GET, HEAD"},
		{"/livez", "GET, HEAD"},
		{"/metrics", "GET, HEAD"},
		{"/w", "POST"},
		{"/w/events", "POST"},
	} {
		for _, method := range []string{"DELETE", "PATCH", "OPTIONS", "get", "TRACE"} {
			w := a.send(method, c.path, "")
			if p := w.refused(wire.CodeMethod, ""); p.Status != 405 || w.Header().Get("Allow") != c.allow {
				t.Errorf("%s %s answers %d, Allow %q; want 405, %q", method, c.path, p.Status, w.Header().Get("Allow"), c.allow)
			}
		}
	}
	a.send("GET", "/w", "").refused(wire.CodeMethod, "")
	for path, allow := range map[string]string{"/v1/schedules": "GET, HEAD, POST", "/v1/schedules/s": "GET, HEAD, PUT, DELETE"} {
		w := a.send("PATCH", path, "")
		if w.refused(wire.CodeMethod, ""); w.Header().Get("Allow") != allow {
			t.Errorf("PATCH %s answers Allow %q, want %q", path, w.Header().Get("Allow"), allow)
		}
	}
}

// HEAD is served where GET is, with the same head.
func TestHead(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	for _, path := range []string{"/v1/workflows", "/v1/runs", "/v1/runs/" + id, "/v1/runs/" + id + "/why", "/v1/runs/" + id + "/steps", "/v1/schedules", "/v1/keys/w/k", "/v1/node", "/livez", "/readyz", "/healthz", "/openapi.json"} {
		get, head := a.send("GET", path, ""), a.send("HEAD", path, "")
		if head.Code != get.Code || head.Header().Get("Content-Length") != get.Header().Get("Content-Length") || head.Header().Get("Content-Type") != get.Header().Get("Content-Type") {
			t.Errorf("HEAD %s answers %d %v, GET %d %v", path, head.Code, head.Header(), get.Code, get.Header())
		}
	}
}

func TestNodeViews(t *testing.T) {
	a := newAPI(t)
	var node wire.Node
	a.send("GET", "/v1/node", "").ok(200, &node)
	if node.NodeID != "n1" || len(node.Shards) != 1 {
		t.Errorf("node %+v", node)
	}
	for _, path := range []string{"/livez", "/healthz", "/livez?verbose", "/healthz?x=1&x=2"} {
		var live wire.Live
		a.send("GET", path, "").ok(200, &live)
		if !live.Live {
			t.Errorf("%s says the node is dead", path)
		}
	}
	a.send("GET", "/v1/node?x=1", "").refused(wire.CodeUnknownField, "x")
}

func TestReady(t *testing.T) {
	a := newAPI(t)
	var r wire.Ready
	w := a.send("GET", "/readyz", "")
	if w.ok(200, &r); !r.Ready || strings.Contains(w.Body.String(), "checks") {
		t.Errorf("a ready node answers %s", w.Body)
	}
	a.send("GET", "/readyz?verbose", "").ok(200, &r)
	if len(r.Checks) != 2 || r.Checks[0].Name != "journal" || r.Checks[1].Name != "http" || !r.Checks[1].OK {
		t.Errorf("checks %+v, want the node's and the server's", r.Checks)
	}
	a.node.notReady = "reading the journal"
	a.send("GET", "/readyz", "").ok(503, &r)
	if r.Ready || r.Reason != "reading the journal" {
		t.Errorf("a node that isn't ready answers %+v", r)
	}
	a.node.notReady = ""
	a.server.Drain()
	a.send("GET", "/readyz?verbose=1", "").ok(503, &r)
	if r.Ready || r.Reason == "" || r.Checks[1].OK || r.Checks[1].Reason == "" {
		t.Errorf("a draining server answers %+v", r)
	}
	a.send("GET", "/livez", "").ok(200, nil)
}

func TestCrossOrigin(t *testing.T) {
	for _, c := range []struct {
		name, value string
		taken       bool
	}{
		{"Sec-Fetch-Site", "cross-site", false},
		{"Sec-Fetch-Site", "same-site", false},
		{"Sec-Fetch-Site", "same-origin", true},
		{"Sec-Fetch-Site", "none", true},
		{"Origin", "https://evil.test", false},
		{"Origin", "http://example.com", true}, // the test's own host
		{"X-Other", "x", true},
	} {
		a := newAPI(t)
		w := a.send("POST", "/w", `{}`, header(c.name, c.value))
		if c.taken {
			w.ok(202, nil)
			continue
		}
		if p := w.refused(wire.CodeCrossOrigin, ""); p.Status != 403 || len(a.node.order) != 0 {
			t.Errorf("%s: %s answers %d and makes %d runs", c.name, c.value, p.Status, len(a.node.order))
		}
		a.send("GET", "/v1/runs", "", header(c.name, c.value)).ok(200, nil) // nothing changes, nothing is readable
	}
}

func TestProblemPages(t *testing.T) {
	a := newAPI(t)
	p := a.send("GET", "/nothing/here", "").refused(wire.CodeNotFound, "")
	var page wire.ProblemType
	a.send("GET", p.Type, "").ok(200, &page)
	if page.Code != wire.CodeNotFound || page.Status != 404 || page.Meaning == "" {
		t.Errorf("the page of not_found is %+v", page)
	}
	a.send("GET", "/v1/problems/other", "").refused(wire.CodeNotFound, "")
}

// A client that has gone is told no success, and its request counts as 499.
func TestClientGone(t *testing.T) {
	a := newAPIWith(t, transport.Config{Metrics: transport.NewMetrics(transport.Build{})})
	a.node.entered = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-a.node.entered
		cancel()
	}()
	w := a.send("POST", "/v1/claims", strings.Replace(claimBody("w", 1), "}]", `}],"wait_ms":30000`, 1), func(req *http.Request) { *req = *req.WithContext(ctx) })
	w.refused(wire.CodeOutcomeUnknown, "")
	metrics := a.send("GET", "/metrics", "").Body.String()
	if want := `pyrula_http_requests_total{code="499",route="POST /v1/claims"} 1`; !strings.Contains(metrics, want) {
		t.Errorf("metrics have no line %s", want)
	}
}

// Whatever a Node answers is passed on, on every path that asks it.
func TestEveryRouteTellsTheNodesError(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	a.node.fail(flow.ErrNotReady)
	run := "/v1/runs/" + g.RunID
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/workflows", ""}, {"GET", "/v1/workflows/w", ""}, {"PUT", "/v1/workflows/w", `{}`}, {"POST", "/v1/workflows/w/runs", `{}`},
		{"POST", "/w", `{}`}, {"POST", "/v1/claims", claimBody("w", 1)}, {"GET", "/v1/runs", ""}, {"GET", run, ""}, {"GET", run + "/result", ""},
		{"GET", run + "/result?wait_ms=10", ""}, {"GET", run + "/events", ""}, {"GET", run + "/why", ""}, {"POST", run + "/complete", `{"fence":1}`},
		{"POST", run + "/fail", `{"fence":1,"error":{"type":"T"}}`}, {"POST", run + "/suspend", `{"fence":1,"until":{"at_ms":1}}`},
		{"POST", run + "/cancel", ""}, {"POST", run + "/terminate", ""}, {"GET", "/v1/keys/w/k", ""}, {"GET", "/v1/node", ""},
		{"POST", "/v1/heartbeats", `{"worker":"w","runs":[{"run_id":"` + g.RunID + `","fence":1}]}`},
		{"GET", run + "/steps", ""}, {"POST", run + "/steps", `{"fence":1,"state":{}}`}, {"POST", run + "/children", `{"fence":1,"runs":[{"workflow":"x"}]}`},
		{"POST", run + "/signals/go", ""}, {"POST", run + "/retry", ""}, {"POST", "/v1/resolutions", `{"worker":"w","runs":[{"run_id":"` + g.RunID + `","gates_hash":"h","keys":{}}]}`},
		{"GET", "/v1/schedules", ""}, {"POST", "/v1/schedules", `{"name":"s","workflow":"w","at_ms":1}`}, {"GET", "/v1/schedules/s", ""},
		{"PUT", "/v1/schedules/s", `{"workflow":"w","at_ms":1}`}, {"DELETE", "/v1/schedules/s", ""},
	} {
		w := a.send(c.method, c.path, c.body)
		if p := w.refused(wire.CodeNotReady, ""); p.Status != 503 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s %s answers %+v, Retry-After %q", c.method, c.path, p, w.Header().Get("Retry-After"))
		}
	}
}
