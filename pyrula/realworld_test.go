package pyrula_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// inRealWorld is inWorld with a real node over an engine in memory instead of the fake
// one, so what a body is answered is what a node answers.
func inRealWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		net := &network{server: g.server, begin: time.Now()}
		w := &world{T: t, net: net, logs: &logbook{}}
		w.client = w.dial(net)
		test(t, w)
		for _, problem := range g.end() {
			t.Error(problem)
		}
	})
}

// status is a run as the node has it.
func (w *world) status(id string) *pyrula.RunStatus {
	w.Helper()
	run, err := w.client.Status(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return run
}

// wantStatus wants runs to stand so.
func (w *world) wantStatus(want string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		if got := w.status(id).Status; got != want {
			w.Errorf("run %s is %s, want it %s", id, got, want)
		}
	}
}

// history is what a run has recorded, as "step charge/1", in its order.
func (w *world) history(id string) []string {
	w.Helper()
	var list []string
	for after := int64(0); ; {
		page := readHistory(w, id, after)
		names := make([]string, len(page.Steps)+len(page.Waits)+len(page.Children))
		put := func(seq int64, kind, name string, visit int64) {
			names[seq-1-int64(len(list))] = fmt.Sprintf("%s %s/%d", kind, name, visit)
		}
		for _, s := range page.Steps {
			put(s.Seq, "step", s.Name, s.Visit)
		}
		for _, e := range page.Waits {
			put(e.Seq, e.Kind, e.Name, e.Visit)
		}
		for _, g := range page.Children {
			put(g.Seq, "children", g.Step, g.Visit)
		}
		list = append(list, names...)
		if page.Next == nil {
			return list
		}
		after = *page.Next
	}
}

// mustSignal sends a signal.
func (w *world) mustSignal(id, name string, payload any) {
	w.Helper()
	if _, err := w.client.Signal(w.Context(), id, name, payload); err != nil {
		w.Fatal(err)
	}
}

// sent are the requests of one verb for a run.
func (w *world) sent(id, verb string) []call { return w.net.to(wire.PathRuns + "/" + id + "/" + verb) }

// readHistory is one page of a run's history, as the API has it.
func readHistory(w *world, id string, after int64) *wire.History {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet,
		fmt.Sprintf("http://node.test%s/%s/steps?after=%d", wire.PathRuns, id, after), http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	out := httptest.NewRecorder()
	w.net.server.ServeHTTP(out, r)
	page := new(wire.History)
	if err := json.Unmarshal(out.Body.Bytes(), page); err != nil || out.Code != http.StatusOK {
		w.Fatalf("history: status %d, %v", out.Code, err)
	}
	return page
}

// keyUsed is how many slots of a key are taken.
func (w *world) keyUsed(workflow, key string) int64 {
	w.Helper()
	view, err := w.client.Key(w.Context(), workflow, key)
	if err != nil {
		w.Fatal(err)
	}
	return view.Used
}

// nobodyLike is the id of a run that doesn't exist, beside one that does.
func nobodyLike(id string) string {
	at := len(id) - 5
	for _, digit := range []string{"A", "B"} {
		if other := id[:at] + digit + id[at+1:]; other != id {
			return other
		}
	}
	return ""
}
