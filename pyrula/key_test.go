package pyrula_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// stampOf is the stamp in a submit that left the client.
func stampOf(t *testing.T, c call) *wire.Stamp {
	t.Helper()
	var sub wire.Submit
	if err := json.Unmarshal(c.body, &sub); err != nil {
		t.Fatal(err)
	}
	return sub.Stamp
}

// TestP12FunctionKeys: a function key is resolved where the run is submitted and
// travels in the stamp, for its own gate and with the version it belongs to. A key
// that is a parameter name is the node's to resolve.
func TestP12FunctionKeys(t *testing.T) {
	byTenant := func(o order) string { return o.Tenant + ":eu" }
	both := pyrula.Define("both", charge, pyrula.Version("7"), pyrula.Limit{Key: byTenant, Max: 1},
		pyrula.Rate{Key: func(o order) (string, error) { return o.ID, nil }, PerSecond: 1})
	named := pyrula.Define("named", charge, pyrula.Limit{Key: orderKey(byTenant), Max: 1}, pyrula.Rate{Key: "id", PerSecond: 1})
	names := pyrula.Define("names", charge, pyrula.Limit{Key: "tenant", Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Declare(w.Context(), both, named, names); err != nil {
			t.Fatal(err)
		}
		in := order{Tenant: "acme", ID: "o-1"}
		start(w, both, in)
		start(w, named, in)
		start(w, names, in)

		s := stampOf(t, w.net.to("/v1/workflows/both/runs")[0])
		if s == nil || s.Version != "7" || *s.Keys.Limit != "acme:eu" || *s.Keys.Rate != "o-1" {
			t.Errorf("stamp of two functions: %+v", s)
		}
		s = stampOf(t, w.net.to("/v1/workflows/named/runs")[0])
		if s == nil || *s.Keys.Limit != "acme:eu" || s.Keys.Rate != nil {
			t.Errorf("stamp of one function: %+v", s)
		}
		if s = stampOf(t, w.net.to("/v1/workflows/names/runs")[0]); s != nil {
			t.Errorf("stamp without a function: %+v", s)
		}
		for i, want := range []string{"acme:eu", "acme:eu", "acme"} {
			if got := w.node.run(i).key; got != want {
				t.Errorf("run %d has the key %q, want %q", i, got, want)
			}
		}
	})
}

// TestP13MissingParameter: a parameter that is missing gives the empty key, from a
// name and from a function alike, and all such runs share it.
func TestP13MissingParameter(t *testing.T) {
	byName := pyrula.Define("name", charge, pyrula.Limit{Key: "tenant", Max: 1})
	byFunction := pyrula.Define("function", charge, pyrula.Limit{Key: func(o order) string { return o.Tenant }, Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Declare(w.Context(), byName, byFunction); err != nil {
			t.Fatal(err)
		}
		start(w, byName, order{ID: "1"})
		start(w, byName, order{ID: "2"})
		start(w, byFunction, order{ID: "3"})
		for i := range 3 {
			if got := w.node.run(i).key; got != "" {
				t.Errorf("run %d has the key %q, want the empty one", i, got)
			}
		}
		s := stampOf(t, w.net.to("/v1/workflows/function/runs")[0])
		if s == nil || s.Keys == nil || s.Keys.Limit == nil {
			t.Errorf("stamp %+v: an empty key must be said, or the node takes it for unresolved", s)
		}
	})
}

// TestP60KeyFunctionFails: a key function that panics, fails, or gives no text that
// can be a key is a configuration error at submit, and no run is made.
func TestP60KeyFunctionFails(t *testing.T) {
	cause := errors.New("no region")
	inWorld(t, func(t *testing.T, w *world) {
		for name, key := range map[string]any{
			"panicked":         func(o order) string { panic("oh no") },
			"no region":        func(o order) (string, error) { return "eu", cause },
			"at most 1024":     func(o order) string { return strings.Repeat("k", 1025) },
			"must be UTF-8":    func(o order) string { return "a\xff" },
			"the named panics": orderKey(func(o order) string { panic("the named panics") }),
		} {
			wf := pyrula.Define("charge", charge, pyrula.Limit{Key: key, Max: 1})
			_, err := wf.Start(w.Context(), w.client, order{})
			if !errors.Is(err, pyrula.ErrConfiguration) || !strings.Contains(err.Error(), "limit.key") || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want a configuration error of limit.key that says %q", err, name)
			}
		}
		// At the bound it is legal.
		wf := pyrula.Define("charge", charge, pyrula.Limit{Key: func(order) string { return strings.Repeat("k", 1024) }, Max: 1})
		start(w, wf, order{})
		if got := w.node.count(); got != 1 {
			t.Errorf("the node has %d runs, want only the last one", got)
		}
	})
}

// TestP20SubmitByName: by name, the node refuses a workflow whose key is a function;
// before it was declared, and for a named parameter, it takes the run (P22, P18).
func TestP20SubmitByName(t *testing.T) {
	wf := pyrula.Define("charge", charge, pyrula.Limit{Key: func(o order) string { return o.Tenant }, Max: 1})
	plain := pyrula.Define("plain", charge, pyrula.Limit{Key: "tenant", Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Submit(w.Context(), "charge", order{}); err != nil {
			t.Errorf("before the declaration: %v", err)
		}
		if _, err := w.client.Declare(w.Context(), wf, plain); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Submit(w.Context(), "charge", order{}); !errors.Is(err, pyrula.ErrConfiguration) {
			t.Errorf("by name: %v, want a configuration error", err)
		}
		if _, err := w.client.Submit(w.Context(), "plain", map[string]string{"tenant": "acme"}); err != nil {
			t.Errorf("by name with a named key: %v", err)
		}
		if got := w.node.count(); got != 2 {
			t.Errorf("the node has %d runs, want 2", got)
		}
	})
}

// TestP16FirstStartDeclares: a program that is quicker than its workers declares what
// the node has never heard of, once; a declaration that is there is left alone, unless
// keys are resolved for a version that is not.
func TestP16FirstStartDeclares(t *testing.T) {
	named := pyrula.Define("named", charge, pyrula.Version("1"), pyrula.Limit{Key: "tenant", Max: 1})
	newer := pyrula.Define("named", charge, pyrula.Version("2"), pyrula.Limit{Key: "tenant", Max: 9})
	function := pyrula.Define("named", charge, pyrula.Version("3"), pyrula.Limit{Key: func(o order) string { return o.ID }, Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		sent := func() (puts int) {
			for _, c := range w.net.to("/v1/workflows/named") {
				if c.method == "PUT" {
					puts++
				}
			}
			return puts
		}
		start(w, named, order{Tenant: "acme"})
		start(w, named, order{Tenant: "acme"})
		if got := len(w.net.to("/v1/workflows/named")); sent() != 1 || got != 2 || w.node.run(0).key != "acme" {
			t.Errorf("%d declarations and %d requests, key %q; want one, one question before it, and the gate's key", sent(), got, w.node.run(0).key)
		}
		start(w, newer, order{Tenant: "acme"})
		if got := w.node.declared["named"].Version; sent() != 1 || got != "1" {
			t.Errorf("%d declarations, version %q; want the node's own left alone", sent(), got)
		}
		sub, err := function.Submission(order{ID: "o-1"})
		if err != nil {
			t.Fatal(err)
		}
		done, err := w.client.SubmitBatch(t.Context(), []pyrula.Submission{sub, sub})
		if err != nil || done[1].Err != nil || sent() != 2 || w.node.run(3).key != "o-1" {
			t.Errorf("%v, %+v after %d declarations; want the version of the function", err, done, sent())
		}
	})
}

// TestNodeForgetsAWorkflow: a node that lost its declarations is told again by the
// program that submits to it.
func TestNodeForgetsAWorkflow(t *testing.T) {
	wf := pyrula.Define("charge", charge, pyrula.Limit{Key: func(o order) string { return o.ID }, Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		start(w, wf, order{ID: "1"})
		w.node.mu.Lock()
		clear(w.node.declared)
		w.node.mu.Unlock()
		start(w, wf, order{ID: "2"})
		if got := w.node.run(1).key; got != "2" {
			t.Errorf("key %q", got)
		}
	})
}
