package transport_test

import (
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

func TestReadRun(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	var got wire.Run
	w := a.send("GET", "/v1/runs/"+strings.ToLower(id), "")
	if w.ok(200, &got); got.RunID != id || got.Status != "queued" {
		t.Errorf("run %+v, want %s queued", got, id)
	}
	if !strings.Contains(w.Body.String(), `"gates":[]`) {
		t.Errorf("%s: gates must be a list", w.Body)
	}
	for _, path := range []string{"/events", "/why"} {
		a.send("GET", "/v1/runs/"+id+path, "").ok(200, nil)
	}
}

// P81: asked for a run that was handed on, both views are the successor's.
func TestP81Successor(t *testing.T) {
	a := newAPI(t)
	id, successor := a.submit("w"), a.submit("w")
	a.handOn(id, successor)
	var run wire.Run
	a.send("GET", "/v1/runs/"+id, "").ok(200, &run)
	var result wire.Result
	a.send("GET", "/v1/runs/"+id+"/result", "").ok(202, &result)
	if run.RunID != successor || run.RequestedRunID != id || result.RunID != successor || result.RequestedRunID != id {
		t.Errorf("status %+v and result %+v, want %s with requested_run_id", run, result, successor)
	}
}

func TestResult(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	path := "/v1/runs/" + g.RunID + "/result"
	w := a.send("GET", path, "")
	if w.ok(202, nil); !strings.Contains(w.Body.String(), `"result":null,"error":null`) {
		t.Errorf("a run that executes has the result %s", w.Body)
	}
	for status, want := range map[string]int{
		"queued": 202, "executing": 202, "suspended": 202, "completed": 200, "failed": 200, "cancelled": 200, "terminated": 200, "continued": 200,
	} {
		a.node.held(t, g.RunID).Status = status
		a.send("GET", path, "").ok(want, nil)
	}
}

func TestWaitForResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		g := a.hold("w")
		path := "/v1/runs/" + g.RunID + "/result?wait_ms=2000"
		begin := time.Now()
		a.send("GET", path, "").ok(202, nil)
		if waited := time.Since(begin); waited != 2*time.Second {
			t.Errorf("waited %v, want 2s", waited)
		}
		done := make(chan wire.Result)
		go func() {
			var got wire.Result
			a.send("GET", path, "").ok(200, &got)
			done <- got
		}()
		synctest.Wait()
		a.send("POST", "/v1/runs/"+g.RunID+"/complete", `{"fence":1,"result":7}`).ok(200, nil)
		if got := <-done; string(got.Result) != "7" {
			t.Errorf("result %s, want 7", got.Result)
		}
	})
}

// S99: a key is only a value, whatever its text, and reaches the node untouched.
func TestS99OddKeysInPaths(t *testing.T) {
	a := newAPI(t)
	for _, key := range []string{
		"a", "*", "b", "", ":", "/", "a/b", "..", ".", "%2F", "ключ", "a\x00b", strings.Repeat("k", 1024), strings.Repeat("\x01", 1024),
		"//", "../..", "?", "#", "a b", "a+b", "%", "\\", "\u2028", ";", "runs:batch", "{key}", "%00", "a%b",
	} {
		var got wire.KeyView
		a.send("GET", "/v1/keys/wf/"+url.PathEscape(key), "").ok(200, &got)
		if got.Key != key || got.Workflow != "wf" {
			t.Errorf("key %q arrives as %q of workflow %q", key, got.Key, got.Workflow)
		}
		// Every byte escaped must mean the same.
		all := ""
		for _, b := range []byte(key) {
			all += "%" + string("0123456789ABCDEF"[b>>4]) + string("0123456789abcdef"[b&15])
		}
		a.send("GET", "/v1/keys/%77f/"+all, "").ok(200, &got)
		if got.Key != key {
			t.Errorf("key %q, each byte escaped, arrives as %q", key, got.Key)
		}
	}
	for raw, key := range map[string]string{"..": "..", ".": ".", "a:b": "a:b", "*": "*", "a;b=c": "a;b=c"} {
		var got wire.KeyView
		a.send("GET", "/v1/keys/wf/"+raw, "").ok(200, &got)
		if got.Key != key {
			t.Errorf("the raw segment %q arrives as %q", raw, got.Key)
		}
	}
	a.send("GET", "/v1/keys/wf/"+strings.Repeat("k", 1025), "").refused(wire.CodeInvalid, "key")
	a.send("GET", "/v1/keys/wf/%FF", "").refused(wire.CodeInvalid, "key")
	a.send("GET", "/v1/keys/wf", "").refused(wire.CodeNotFound, "")
	a.send("GET", "/v1/keys/wf/a/b", "").refused(wire.CodeNotFound, "")
	a.send("GET", "/v1/keys//a", "").refused(wire.CodeUnknownWorkflow, "name")
}

// S99: the same key in a list's filter; the empty one isn't "no filter".
func TestS99OddKeysInQueries(t *testing.T) {
	spy := &listSpy{fakeNode: newFakeNode()}
	a := newAPIWith(t, configOf(spy))
	for _, key := range []string{"", "*", "a/b", "%2F", "a\x00b", "a&b=c", "+", " "} {
		a.send("GET", "/v1/runs?key="+url.QueryEscape(key), "").ok(200, nil)
		if spy.last.Key == nil || *spy.last.Key != key {
			t.Errorf("key %q arrives as %v", key, spy.last.Key)
		}
	}
	a.send("GET", "/v1/runs", "").ok(200, nil)
	if spy.last.Key != nil {
		t.Errorf("no key arrives as %q", *spy.last.Key)
	}
}

func TestList(t *testing.T) {
	spy := &listSpy{fakeNode: newFakeNode()}
	a := newAPIWith(t, configOf(spy))
	w := a.send("GET", "/v1/runs", "")
	if w.ok(200, nil); strings.TrimSpace(w.Body.String()) != `{"runs":[],"next_cursor":null}` {
		t.Errorf("an empty list is %s", w.Body)
	}
	first, second := a.submit("w"), a.submit("v")
	var got wire.RunList
	a.send("GET", "/v1/runs", "").ok(200, &got)
	if len(got.Runs) != 2 || got.Runs[0].RunID != second || got.Runs[1].RunID != first {
		t.Errorf("list %+v, want both, newest first", got.Runs)
	}
	a.send("GET", "/v1/runs?workflow=w&status=queued&limit=500&cursor=abc", "").ok(200, &got)
	want := wire.ListQuery{Workflow: "w", Status: "queued", Limit: 500, Cursor: "abc"}
	if spy.last != want || len(got.Runs) != 1 {
		t.Errorf("query %+v answers %d runs, want %+v and 1", spy.last, len(got.Runs), want)
	}
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=501": "limit", "limit=x": "limit", "limit=-1": "limit", "limit=": "limit", "status=done": "status",
		"workflow=v1": "workflow", "key=%FF": "key", "key=" + strings.Repeat("k", 1025): "key", "cursor=" + strings.Repeat("c", 4097): "cursor",
		"key=a&key=b": "key", "limit=99999999999999999999": "limit",
	} {
		a.send("GET", "/v1/runs?"+query, "").refused(wire.CodeInvalid, field)
	}
	a.send("GET", "/v1/runs?state=queued", "").refused(wire.CodeUnknownField, "state")
	a.send("GET", "/v1/runs?a=%zz", "").refused(wire.CodeInvalid, "")
}

func TestWaitBounds(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	for _, path := range []string{"/v1/runs/" + id, "/v1/runs/" + id + "/result"} {
		for _, ms := range []string{"-1", "30001", "x", "", "1.5", "99999999999999999999"} {
			a.send("GET", path+"?wait_ms="+ms, "").refused(wire.CodeInvalid, "wait_ms")
		}
		a.send("GET", path+"?wait=1", "").refused(wire.CodeUnknownField, "wait")
	}
	a.node.held(t, id).Status = "completed"
	a.send("GET", "/v1/runs/"+id+"?wait_ms=30000", "").ok(200, nil)
}

func TestWorkflows(t *testing.T) {
	a := newAPI(t)
	w := a.send("GET", "/v1/workflows", "")
	if w.ok(200, nil); strings.TrimSpace(w.Body.String()) != `{"workflows":[]}` {
		t.Errorf("no workflows are %s", w.Body)
	}
	body := `{"version":"2","limit":{"key":"tenant","max":2},"rate":{"key":{"function":"label"},"per_second":0.5},"max_attempts":3,"lease_seconds":1.5}`
	var got wire.Declared
	a.send("PUT", "/v1/workflows/charge", body).ok(200, &got)
	if !got.Changed || got.Version != "2" {
		t.Errorf("declared %+v", got)
	}
	a.send("PUT", "/v1/workflows/charge", body).ok(200, &got)
	if got.Changed {
		t.Error("the same declaration again is a change")
	}
	var read wire.Workflow
	a.send("GET", "/v1/workflows/charge", "").ok(200, &read)
	v := read.Versions[0]
	if v.Limit == nil || v.Limit.Key.Name != "tenant" || v.Limit.Max != 2 || v.Rate == nil || v.Rate.Key.Function != "label" || v.Rate.PerSecond != 0.5 {
		t.Errorf("read back %+v, want limit and rate as declared", v)
	}
	a.send("GET", "/v1/workflows", "").ok(200, nil)
	a.send("GET", "/v1/workflows/other", "").refused(wire.CodeUnknownWorkflow, "")
	a.send("GET", "/v1/workflows/", "").refused(wire.CodeUnknownWorkflow, "name")
	a.send("PUT", "/v1/workflows/", `{}`).refused(wire.CodeConfiguration, "name")
	a.send("PUT", "/v1/workflows/metrics", `{}`).refused(wire.CodeConfiguration, "name")
}
