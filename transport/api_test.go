package transport_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
	"github.com/pyrula/pyrula-node/transport/apitest"
)

// checker is compiled once: it takes longer than most tests.
var checker = sync.OnceValues(apitest.New)

// metrics are shared by the servers of tests that don't look at them.
var metrics = sync.OnceValue(func() *transport.Metrics { return transport.NewMetrics(transport.Build{}) })

// api is a server over a fakeNode. Every answer is held against the document.
type api struct {
	t       testing.TB
	node    *fakeNode
	server  *transport.Server
	handler http.Handler
}

func newAPI(t testing.TB) *api { return newAPIWith(t, transport.Config{}) }

func newAPIWith(t testing.TB, cfg transport.Config) *api {
	t.Helper()
	ck, err := checker()
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t, node: newFakeNode()}
	if cfg.Node == nil {
		cfg.Node = a.node
	}
	if cfg.Metrics == nil {
		cfg.Metrics = metrics()
	}
	a.server = transport.NewServer(cfg)
	a.handler = ck.Handler(a.server, func(err error) { t.Error(err) })
	return a
}

// answer is a response, read.
type answer struct {
	*httptest.ResponseRecorder
	t testing.TB
}

// send sends a request; change may alter it first.
func (a *api) send(method, target, body string, change ...func(*http.Request)) answer {
	a.t.Helper()
	r := httptest.NewRequestWithContext(a.t.Context(), method, target, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for _, c := range change {
		c(r)
	}
	w := answer{httptest.NewRecorder(), a.t}
	a.handler.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// ok fails the test unless the answer has the status, and reads its body into v.
func (w answer) ok(status int, v any) {
	w.t.Helper()
	if w.Code != status {
		w.t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		w.t.Fatalf("%s: %v", w.Body, err)
	}
}

// refused fails the test unless the answer is the problem.
func (w answer) refused(code, field string) wire.Problem {
	w.t.Helper()
	var p wire.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		w.t.Fatalf("status %d, %q is no problem: %v", w.Code, w.Body, err)
	}
	if p.Code != code || p.Field != field {
		w.t.Fatalf("problem %q of field %q, want %q of %q: %s", p.Code, p.Field, code, field, w.Body)
	}
	return p
}

// submit makes one run of the workflow.
func (a *api) submit(workflow string) string {
	a.t.Helper()
	var got wire.Submitted
	a.send("POST", "/v1/workflows/"+workflow+"/runs", `{}`).ok(202, &got)
	return got.RunID
}

// claimBody asks for credit runs of the workflow.
func claimBody(workflow string, credit int) string {
	return fmt.Sprintf(`{"worker":"w1","workflows":[{"name":%q}],"credit":%d}`, workflow, credit)
}

// hold submits and claims one run.
func (a *api) hold(workflow string) wire.Grant {
	a.t.Helper()
	a.submit(workflow)
	var got wire.Claimed
	a.send("POST", "/v1/claims", claimBody(workflow, 1)).ok(200, &got)
	if len(got.Runs) != 1 {
		a.t.Fatalf("claimed %d runs, want 1", len(got.Runs))
	}
	return got.Runs[0]
}
