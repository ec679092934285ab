package pyrula_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// picky is the In of a workflow whose parameters can break the program that reads them.
type picky struct {
	Tenant fragile `json:"tenant"`
}

type fragile string

func (f *fragile) UnmarshalJSON(raw []byte) error {
	if strings.Contains(string(raw), "breaks") {
		panic("in UnmarshalJSON")
	}
	*f = fragile(strings.Trim(string(raw), `"`))
	return nil
}

// TestP82CandidatesAreAnswered: a worker computes the function keys of the queued runs that
// the node asks for, holding none of them. What can't be computed is a problem of that run
// alone, whatever the user's code does.
func TestP82CandidatesAreAnswered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(*pyrula.Run, picky) (int, error) { return 0, nil }, pyrula.Version("2"),
			pyrula.Limit{Max: 1, Key: func(in picky) (string, error) {
				switch in.Tenant {
				case "fails":
					return "", errors.New("no such tenant")
				case "panics":
					panic("in the key function")
				case "too long":
					return strings.Repeat("x", 2000), nil
				}
				return "of " + string(in.Tenant), nil
			}},
			pyrula.Rate{PerSecond: 1, Key: "tenant"})
		var list []wire.Candidate
		for _, tenant := range []string{`"acme"`, `"fails"`, `"panics"`, `"breaks"`, `"too long"`, `""`} {
			list = append(list, candidate(len(list), "charge", `{"tenant":`+tenant+`}`))
		}
		list = append(list, candidate(6, "another", `{}`), candidate(7, "charge", `{"tenant":7}`))
		w.node.candidates = list
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1"}, wf)
		pass(time.Second)
		if len(w.node.resolved) != 1 || w.node.resolved[0].Worker != "w1" {
			t.Fatalf("answers %+v, want one of w1", w.node.resolved)
		}
		var said []string
		for _, r := range w.node.resolved[0].Runs {
			if r.Version != "2" || r.GatesHash != "newer" {
				t.Errorf("answered for version %q and gates %q, want those that were asked for", r.Version, r.GatesHash)
			}
			one := r.RunID[len(r.RunID)-1:] + " "
			if r.Keys != nil {
				if r.Keys.Rate != nil {
					t.Error("the key of the Rate is a parameter, and not this worker's to compute")
				}
				one += *r.Keys.Limit
			}
			said = append(said, one+r.Problem)
		}
		for i, want := range []string{"0 of acme", "1 ", "2 ", "3 ", "4 ", "5 of ", "7 of 7"} {
			if i >= len(said) || !strings.HasPrefix(said[i], want) {
				t.Fatalf("answers %q, want one for each run of the workflow", said)
			}
		}
		for i, word := range map[int]string{1: "no such tenant", 2: "in the key function", 3: "in UnmarshalJSON", 4: "limit.key"} {
			if !strings.Contains(said[i], word) {
				t.Errorf("the problem of run %d is %q, want it to say %q", i, said[i], word)
			}
		}
		k.end()
	})
}

// candidate is a run that the node asks about.
func candidate(i int, workflow, params string) wire.Candidate {
	return wire.Candidate{
		RunID: fmt.Sprint("run_00VHNCZB00E0QSXWAKC8YQVF1", i), Workflow: workflow, Version: "2", GatesHash: "newer", Params: []byte(params),
	}
}

// TestP82SlowKeyFunction: a key function that never returns holds no claim back, and what
// the node asks meanwhile takes no memory without bound.
func TestP82SlowKeyFunction(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var called atomic.Int32
		release := make(chan struct{})
		wf := pyrula.Define("charge", charge, pyrula.Limit{Max: 5, Key: func(o order) string {
			if o.ID == "slow" {
				called.Add(1)
				<-release
			}
			return o.Tenant
		}})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for range 100 {
			w.node.offer(candidate(0, "charge", `{"id":"slow"}`))
			pass(time.Second)
		}
		if got := called.Load(); got != 1 {
			t.Errorf("%d calls at once, want one after another", got)
		}
		if _, err := start(w, wf, order{Tenant: "acme", ID: "o-1"}).Result(t.Context()); err != nil {
			t.Error(err)
		}
		close(release)
		pass(time.Minute)
		if got := called.Load(); got > 20 {
			t.Errorf("%d of 100 questions were kept, want a few", got)
		}
		k.end()
	})
}

// TestP82AnswerIsLost: an answer that doesn't arrive is sent again, and one that is refused
// harms nothing: the node asks again.
func TestP82AnswerIsLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", charge, pyrula.Limit{Max: 1, Key: func(o order) string { return o.Tenant }})
		w.net.setFault(func(c call) fault {
			switch {
			case c.path == wire.PathResolve && c.nth == 1:
				return fault{lost: true}
			case c.path == wire.PathResolve && c.nth == 3:
				return fault{problem: &wire.Problem{Status: 400, Code: wire.CodeInvalid}}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for range 3 {
			w.node.offer(candidate(0, "charge", `{"tenant":"acme"}`))
			pass(time.Minute)
		}
		if got := len(w.node.resolved); got != 2 {
			t.Errorf("%d answers were taken, want the first and the last", got)
		}
		k.end()
	})
}

// TestP27P82FunctionKeyIsTightened: a deploy whose Limit has a function key moves the runs
// that wait to it, under the keys that the new code computes, and no more of one key than
// it says are at work at once; runs that have started stay. A run whose key can't be
// computed keeps its stamp and runs.
func TestP27P82FunctionKeyIsTightened(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		byRegion := func(o order) (string, error) {
			if o.Tenant == "" {
				return "", errors.New("no tenant")
			}
			return o.Tenant[:2], nil
		}
		var now, most atomic.Int32
		body := func(newer bool) func(*pyrula.Run, order) (string, error) {
			return func(r *pyrula.Run, o order) (string, error) {
				if newer && o.Tenant != "" {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
				}
				<-time.After(5 * time.Second)
				return r.Version + " " + r.Key, nil
			}
		}
		old := pyrula.Define("charge", body(false), pyrula.Version("1"), pyrula.Limit{Key: "tenant", Max: 2})
		tight := pyrula.Define("charge", body(true), pyrula.Version("2"), pyrula.Limit{Key: byRegion, Max: 1})
		k1 := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 2}, old)
		var all []*pyrula.Handle[string]
		for i := range 10 {
			all = append(all, start(w, old, order{Tenant: fmt.Sprint("eu-", i%2)}))
		}
		all = append(all, start(w, old, order{}))
		synctest.Wait()
		k1.end() // the first two end here
		k2 := w.work(w.client, pyrula.WorkerConfig{Name: "w2", Concurrency: 10}, tight)
		var ends []string
		for _, h := range all {
			got, err := h.Result(t.Context())
			if err != nil {
				t.Errorf("run %s: %v", h.ID, err)
			}
			ends = append(ends, got)
		}
		slices.Sort(ends)
		want := []string{"1 eu-0", "1 eu-1", "2 ", "2 eu", "2 eu", "2 eu", "2 eu", "2 eu", "2 eu", "2 eu", "2 eu"}
		if !slices.Equal(ends, want) || most.Load() != 1 {
			t.Errorf("runs ended as %q with %d at once, want %q, one at once", ends, most.Load(), want)
		}
		if run := w.status(all[9].ID); run.RequestedRunID != all[9].ID || run.RunID == all[9].ID {
			t.Errorf("the last run's status is of %s, want of a successor", run.RunID)
		}
		k2.end()
	})
}
