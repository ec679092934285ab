package transport_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

func TestSubmit(t *testing.T) {
	a := newAPI(t)
	var got wire.Submitted
	a.send("POST", "/v1/workflows/charge/runs", `{"params": {"tenant": "acme", "n": [1, {"fence": 2}]}, "trigger": "replay"}`).ok(202, &got)
	if !got.Created || got.Status != "queued" {
		t.Errorf("answer %+v, want a queued run that was created", got)
	}
	r := a.node.held(t, got.RunID)
	if want := `{"tenant": "acme", "n": [1, {"fence": 2}]}`; string(r.params) != want {
		t.Errorf("params %s, want them as they were sent: %s", r.params, want)
	}
	if r.Workflow != "charge" || r.Provenance.Source.Trigger != "replay" {
		t.Errorf("run %+v, want workflow and trigger of the request", r)
	}
}

// Params own their bytes: the next body is read into the same buffer.
func TestSubmitParamsAreKept(t *testing.T) {
	a := newAPI(t)
	var first wire.Submitted
	a.send("POST", "/charge", `{"a":"11111111"}`).ok(202, &first)
	for range 20 {
		a.send("POST", "/charge", `{"b":"22222222"}`).ok(202, nil)
	}
	if got := string(a.node.held(t, first.RunID).params); got != `{"a":"11111111"}` {
		t.Errorf("params are %s after later requests", got)
	}
}

func TestSubmitWithoutParams(t *testing.T) {
	for _, body := range []string{`{}`, `{"params":null}`, " {\n} ", `{"workflow":"charge"}`, `{"stamp":null,"trigger":"","budget":null}`} {
		a := newAPI(t)
		var got wire.Submitted
		a.send("POST", "/v1/workflows/charge/runs", body).ok(202, &got)
		if params := string(a.node.held(t, got.RunID).params); params != "{}" {
			t.Errorf("%s gives params %s, want {}", body, params)
		}
	}
}

// P87: the body is the params, the answer has the id and nothing else.
func TestP87ShortForm(t *testing.T) {
	a := newAPI(t)
	w := a.send("POST", "/charge", `{"tenant":"acme"}`)
	w.ok(202, nil)
	var got map[string]any
	w.ok(202, &got)
	if len(got) != 1 || got["run_id"] == nil {
		t.Errorf("answer %v, want run_id alone", got)
	}
	if _, err := flow.ParseRunID(got["run_id"].(string)); err != nil {
		t.Error(err)
	}
	a.send("POST", "/charge", `[1]`).refused(wire.CodeInvalid, "body")
	a.send("POST", "/charge", ``).refused(wire.CodeMalformed, "")
	for _, reserved := range []string{"v1", "metrics", "livez", "readyz", "healthz", "openapi.json"} {
		w := a.send("POST", "/"+reserved, `{}`)
		if w.Code != 404 && w.Code != 405 {
			t.Errorf("POST /%s answers %d, want no run", reserved, w.Code)
		}
	}
	a.send("POST", "/v1/events", `{}`).refused(wire.CodeNotFound, "")
	if n := len(a.node.order); n != 1 {
		t.Errorf("%d runs, want the first one alone", n)
	}
}

// P87: a workflow may have any name that is one, also a path's.
func TestP87OddWorkflowNames(t *testing.T) {
	for _, path := range []string{"a%2Fb", "..", "%2E%2E", ".", "runs:batch", "ключ", "%D0%BA", "problems", "a%25b", "a%20b", "a+b"} {
		a := newAPI(t)
		a.send("POST", "/"+path, `{}`).ok(202, nil)
		want := a.node.runs[a.node.order[0]].Workflow
		a.send("POST", "/v1/workflows/"+path+"/runs", `{}`).ok(202, nil)
		if got := a.node.runs[a.node.order[1]].Workflow; got != want || strings.Contains(got, "%2") {
			t.Errorf("%s is workflow %q in one path and %q in the other", path, want, got)
		}
	}
}

func TestIdempotencyKeyHeader(t *testing.T) {
	a := newAPI(t)
	var first, again wire.Submitted
	a.send("POST", "/v1/workflows/w/runs", `{"idempotency_key":"o-1"}`).ok(202, &first)
	for _, value := range []string{"o-1", `"o-1"`, ` "o-1" `, "o-1 "} {
		a.send("POST", "/v1/workflows/w/runs", `{}`, header("Idempotency-Key", value)).ok(202, &again)
		if again.Created || again.RunID != first.RunID {
			t.Errorf("header %q answers %+v, want the first run %s", value, again, first.RunID)
		}
	}
	both := header("Idempotency-Key", `"o-1"`)
	a.send("POST", "/v1/workflows/w/runs", `{"idempotency_key":"o-1"}`, both, both).ok(202, &again)
	if again.RunID != first.RunID {
		t.Errorf("header and field that agree answer %+v, want the first run", again)
	}
	var short wire.ShortSubmitted
	a.send("POST", "/w", `{}`, both).ok(202, &short)
	if short.RunID != first.RunID {
		t.Errorf("the short form answers %s, want the first run", short.RunID)
	}
	a.send("POST", "/v1/workflows/w/runs", `{}`, header("Idempotency-Key", `"a\"\\b"`)).ok(202, &again)
	if got := a.node.held(t, again.RunID).IdempotencyKey; got == nil || *got != `a"\b` {
		t.Errorf("escapes of a quoted header give %v", got)
	}
}

func TestIdempotencyKeyRefused(t *testing.T) {
	a := newAPI(t)
	for _, value := range []string{`"o-2`, `"o"-2"`, `"o\x"`, `"é"`, `"a";b`, "\xff", `"`, "\"a\x7f\""} {
		a.send("POST", "/v1/workflows/w/runs", `{}`, header("Idempotency-Key", value)).refused(wire.CodeInvalid, "Idempotency-Key")
	}
	for _, value := range []string{"", `""`, strings.Repeat("k", 257)} {
		a.send("POST", "/v1/workflows/w/runs", `{}`, header("Idempotency-Key", value)).refused(wire.CodeInvalid, "idempotency_key")
	}
	a.send("POST", "/v1/workflows/w/runs", `{"idempotency_key":"o-1"}`, header("Idempotency-Key", "o-2")).
		refused(wire.CodeInvalid, "Idempotency-Key")
	a.send("POST", "/v1/workflows/w/runs", `{}`, header("Idempotency-Key", "o-1"), header("Idempotency-Key", "o-2")).
		refused(wire.CodeInvalid, "Idempotency-Key")
	a.send("POST", "/v1/runs:batch", `{"runs":[{"workflow":"w"}]}`, header("Idempotency-Key", "o-1")).
		refused(wire.CodeInvalid, "Idempotency-Key")
	if len(a.node.order) != 0 {
		t.Errorf("%d runs were made by refused requests", len(a.node.order))
	}
}

func TestBatch(t *testing.T) {
	a := newAPI(t)
	var got wire.BatchResult
	a.send("POST", "/v1/runs:batch", `{"runs":[
		{"workflow":"a","params":{"n":1}}, {"workflow":"refused"}, {"workflow":"b","idempotency_key":"k"}, {"workflow":"c","idempotency_key":"k"}]}`).ok(202, &got)
	if len(got.Runs) != 4 {
		t.Fatalf("%d results, want 4", len(got.Runs))
	}
	if p := got.Runs[1].Problem; p == nil || p.Code != wire.CodeConfiguration || p.Field != "stamp.keys.limit" || got.Runs[1].RunID != "" {
		t.Errorf("the refused entry answers %+v", got.Runs[1])
	}
	if !got.Runs[0].Created || !got.Runs[2].Created || got.Runs[3].Created || got.Runs[3].RunID != got.Runs[2].RunID {
		t.Errorf("results %+v, want created, refused, created, known", got.Runs)
	}
	if r := a.node.held(t, got.Runs[2].RunID); r.Workflow != "b" || string(r.params) != "{}" {
		t.Errorf("the third result is a run of %q with params %q, want b and {}", r.Workflow, r.params)
	}
}

// One bad entry, wherever it stands, and nothing is sent.
func TestBatchIsCheckedWhole(t *testing.T) {
	entries := make([]string, wire.MaxBatch)
	for i := range entries {
		entries[i] = `{"workflow":"w"}`
	}
	full := "{\"runs\":[" + strings.Join(entries, ",") + "]}"
	for _, c := range []struct{ entry, code, field string }{
		{`{"workflow":"w","params":[]}`, wire.CodeInvalid, "params"},
		{`{"workflow":"w","parms":{}}`, wire.CodeUnknownField, "parms"},
		{`{"workflow":"w","stamp":{"keys":{"limits":"x"}}}`, wire.CodeUnknownField, "stamp.keys.limits"},
		{`{}`, wire.CodeInvalid, "workflow"},
		{`{"workflow":"v1"}`, wire.CodeInvalid, "workflow"},
		{`{"workflow":"w","budget":{}}`, wire.CodeInvalid, "budget"},
	} {
		for _, at := range []int{0, 3, wire.MaxBatch - 1} {
			a := newAPI(t)
			bad := append([]string{}, entries...)
			bad[at] = c.entry
			a.send("POST", "/v1/runs:batch", "{\"runs\":["+strings.Join(bad, ",")+"]}").
				refused(c.code, fmt.Sprintf("runs[%d].%s", at, c.field))
			if len(a.node.order) != 0 {
				t.Errorf("%d runs were made beside the bad entry %s", len(a.node.order), c.entry)
			}
		}
	}
	a := newAPI(t)
	a.send("POST", "/v1/runs:batch", full).ok(202, nil)
	a.send("POST", "/v1/runs:batch", strings.Replace(full, "[", `[{"workflow":"w"},`, 1)).refused(wire.CodeInvalid, "runs")
	a.send("POST", "/v1/runs:batch", `{"runs":[]}`).refused(wire.CodeInvalid, "runs")
	a.send("POST", "/v1/runs:batch", `{}`).refused(wire.CodeInvalid, "runs")
	if len(a.node.order) != wire.MaxBatch {
		t.Errorf("%d runs, want those of the full batch", len(a.node.order))
	}
}

// A node that breaks its promise of one answer for each entry is not believed.
func TestShortAnswerIsInternal(t *testing.T) {
	a := newAPI(t)
	h := newAPIWith(t, configOf(lossyNode{a.node})).handler
	a.handler = h
	a.send("POST", "/v1/runs:batch", `{"runs":[{"workflow":"a"},{"workflow":"b"}]}`).refused(wire.CodeInternal, "")
	a.send("POST", "/w", `{}`).refused(wire.CodeInternal, "")
	a.send("POST", "/w/events", `{}`).refused(wire.CodeInternal, "")
	a.send("POST", "/w/events", "{}\n{}", asLines).refused(wire.CodeInternal, "")
}

func TestSubmitNodeErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{flow.ErrOverloaded, 429, wire.CodeOverloaded},
		{fmt.Errorf("shard 3: %w", flow.ErrNotReady), 503, wire.CodeNotReady},
		{flow.ErrOutcomeUnknown, 503, wire.CodeOutcomeUnknown},
		{flow.ErrUnknownWorkflow, 404, wire.CodeUnknownWorkflow},
		{flow.ErrConfiguration, 400, wire.CodeConfiguration},
	} {
		a := newAPI(t)
		a.node.fail(c.err)
		w := a.send("POST", "/w", `{}`)
		p := w.refused(c.code, "")
		if w.Code != c.status {
			t.Errorf("%v answers %d, want %d", c.err, w.Code, c.status)
		}
		wait := w.Header().Get("Retry-After")
		if busy := c.status == 429 || c.status == 503; busy != (wait != "") || busy != p.Retryable {
			t.Errorf("%v answers Retry-After %q and retryable %v", c.err, wait, p.Retryable)
		}
		var got wire.BatchResult
		a.send("POST", "/v1/runs:batch", `{"runs":[{"workflow":"w"}]}`).ok(202, &got)
		if got.Runs[0].Problem == nil || got.Runs[0].Problem.Code != c.code {
			t.Errorf("%v in a batch answers %+v", c.err, got.Runs[0])
		}
	}
}

// A bare curl -d is JSON, but only from this machine: a browser can send the same.
func TestMediaTypes(t *testing.T) {
	from := func(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
	form := "application/x-www-form-urlencoded"
	for _, c := range []struct {
		contentType, remote string
		taken               bool
	}{
		{"", "192.0.2.1:9", true},
		{"application/json", "192.0.2.1:9", true},
		{"Application/JSON; charset=utf-8", "192.0.2.1:9", true},
		{form, "127.0.0.1:9", true},
		{form, "[::1]:9", true},
		{form, "[::ffff:127.0.0.1]:9", true},
		{form + "; charset=utf-8", "127.8.0.1:9", true},
		{form, "192.0.2.1:9", false},
		{form, "@", false},
		{"text/plain", "127.0.0.1:9", false},
		{"application/jsonp", "127.0.0.1:9", false},
		{"multipart/form-data; boundary=x", "127.0.0.1:9", false},
		{"nonsense;;", "127.0.0.1:9", false},
	} {
		a := newAPI(t)
		w := a.send("POST", "/w", `{}`, header("Content-Type", c.contentType), from(c.remote))
		if c.taken {
			w.ok(202, nil)
		} else {
			w.refused(wire.CodeMediaType, "")
		}
	}
	a := newAPI(t)
	a.send("POST", "/w", `{}`, header("Content-Encoding", "gzip")).refused(wire.CodeMediaType, "")
	a.send("POST", "/w", `{}`, header("Content-Encoding", "identity")).ok(202, nil)
}

func TestResponseHasItsLength(t *testing.T) {
	a := newAPI(t)
	w := a.send("POST", "/w", `{}`)
	if got := w.Header().Get("Content-Length"); got != fmt.Sprint(w.Body.Len()) {
		t.Errorf("Content-Length %q of a body of %d bytes", got, w.Body.Len())
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Errorf("%s is not JSON", w.Body)
	}
}
