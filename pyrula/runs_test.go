package pyrula_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestResult: a handle waits, over as many requests as that takes, and then has the
// typed result, or an error that says how the run ended.
func TestResult(t *testing.T) {
	declined := errors.New("card declined")
	wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
		switch o.ID {
		case "fails":
			return receipt{}, pyrula.Permanent(declined)
		case "chooses":
			return receipt{}, pyrula.Permanent(&pyrula.RunFailed{Type: "card", Message: "declined"})
		case "waits":
			<-r.Done()
			return receipt{}, r.Err()
		}
		<-time.After(70 * time.Second)
		return receipt{Charge: "ch_" + o.ID}, nil
	})
	inWorld(t, func(t *testing.T, w *world) {
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		done, err := wf.Run(t.Context(), w.client, order{ID: "1"})
		if err != nil || done.Charge != "ch_1" {
			t.Errorf("result %+v, %v", done, err)
		}
		asked := w.net.to("/v1/runs/" + w.node.run(0).id + "/result")
		if len(asked) < 3 || asked[0].query != "wait_ms=20000" {
			t.Errorf("%d polls, first %q; 70 s take at least three of 20 s each", len(asked), asked[0].query)
		}

		_, err = wf.Run(t.Context(), w.client, order{ID: "fails"})
		if f, ok := errors.AsType[*pyrula.RunFailed](err); !ok || f.Type != "error" || f.Message != "card declined" || f.RunID != w.node.run(1).id {
			t.Errorf("a failed run: %v", err)
		}
		_, err = wf.Run(t.Context(), w.client, order{ID: "chooses"})
		if f, ok := errors.AsType[*pyrula.RunFailed](err); !ok || f.Type != "card" || f.Message != "declined" {
			t.Errorf("a run that fails with a type of its own: %v", err)
		}

		for verb, want := range map[string]error{"cancel": pyrula.ErrRunCancelled, "terminate": pyrula.ErrRunTerminated} {
			h := start(w, wf, order{ID: "waits"})
			synctest.Wait()
			stop := h.Cancel
			if verb == "terminate" {
				stop = h.Terminate
			}
			if err := stop(t.Context(), "enough"); err != nil {
				t.Error(err)
			}
			if _, err := h.Result(t.Context()); !errors.Is(err, want) || !strings.Contains(err.Error(), h.ID) {
				t.Errorf("%s: %v, want %v", verb, err, want)
			}
			if err := stop(t.Context(), "again"); err != nil {
				t.Errorf("%s of a run that has ended: %v", verb, err)
			}
			if status, err := h.Wait(t.Context()); err != nil || !strings.HasPrefix(status.Status, verb) {
				t.Errorf("%s: status %+v, %v", verb, status, err)
			}
		}
		k.end()
	})
}

// TestResultOfAnotherType: a result that doesn't fit Out is an error, not a zero
// value.
func TestResultOfAnotherType(t *testing.T) {
	wf := pyrula.Define("charge", func(*pyrula.Run, order) (string, error) { return "text", nil })
	other := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		if text, err := h.Result(t.Context()); err != nil || text != "text" {
			t.Errorf("result %q, %v", text, err)
		}
		if _, err := other.Handle(w.client, h.ID).Result(t.Context()); !errors.Is(err, pyrula.ErrBadAnswer) {
			t.Errorf("as another type: %v", err)
		}
		k.end()
	})
}

// TestS99KeysArePathSegments: any text reaches the node as the one key it is.
func TestS99KeysArePathSegments(t *testing.T) {
	keys := []string{"a", "*", "b", "", ":", "/", "a/b", ".", "..", "%2F", "ключ", "a\x00b", "a?b=c#d", strings.Repeat("k", 1024)}
	inWorld(t, func(t *testing.T, w *world) {
		for _, key := range keys {
			view, err := w.client.Key(t.Context(), "..", key)
			if err != nil || view.Key != key || view.Workflow != ".." {
				t.Errorf("key %q comes back as %+v, %v", key, view, err)
			}
		}
		// A path cleaner on the way must not take them for directories.
		if got := len(w.net.to("/v1/keys/%2E%2E/%2E")) + len(w.net.to("/v1/keys/%2E%2E/%2E%2E")); got != 2 {
			t.Errorf("%d of the keys . and .. were encoded", got)
		}
		page, err := w.client.List(t.Context(), pyrula.ListQuery{Workflow: "a&b", Key: new(""), Status: "queued", Limit: 7, Cursor: "c="})
		if err != nil || len(page.Runs) != 0 {
			t.Error(page, err)
		}
		asked, err := url.ParseQuery(w.net.to(wire.PathRuns)[0].query)
		if err != nil || asked.Get("workflow") != "a&b" || !asked.Has("key") || asked.Get("status") != "queued" || asked.Get("limit") != "7" || asked.Get("cursor") != "c=" {
			t.Errorf("asked %v, %v", asked, err)
		}
	})
}

// TestReads: each read reaches its path and decodes what comes back.
func TestReads(t *testing.T) {
	wf := pyrula.Define("charge", charge, pyrula.Limit{Key: "tenant", Max: 3})
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Declare(t.Context(), wf); err != nil {
			t.Fatal(err)
		}
		h := start(w, wf, order{Tenant: "acme"})
		if run, err := h.Status(t.Context()); err != nil || run.Status != "queued" || run.RunID != h.ID {
			t.Errorf("status %+v, %v", run, err)
		}
		if why, err := h.Why(t.Context()); err != nil || why.RunID != h.ID {
			t.Errorf("why %+v, %v", why, err)
		}
		if page, err := w.client.List(t.Context(), pyrula.ListQuery{}); err != nil || len(page.Runs) != 1 {
			t.Errorf("list %+v, %v", page, err)
		}
		if err := h.Cancel(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if events, err := h.Events(t.Context()); err != nil || len(events) != 1 || events[0].Type != "cancelled" {
			t.Errorf("events %+v, %v", events, err)
		}
		if all, err := w.client.Workflows(t.Context()); err != nil || len(all) != 1 || all[0].Name != "charge" {
			t.Errorf("workflows %+v, %v", all, err)
		}
		if one, err := w.client.Workflow(t.Context(), "charge"); err != nil || one.Versions[0].Limit.Max != 3 {
			t.Errorf("workflow %+v, %v", one, err)
		}
		if _, err := w.client.Workflow(t.Context(), "other"); !errors.Is(err, pyrula.ErrUnknownWorkflow) {
			t.Errorf("another workflow: %v", err)
		}
		if info, err := w.client.Node(t.Context()); err != nil || info.NodeID != "fake" {
			t.Errorf("node %+v, %v", info, err)
		}
	})
}
