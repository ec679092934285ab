package pyrula_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// word is a claim as a network saw it: alone, or beside what ended work.
type word struct {
	at    time.Duration
	claim wire.Claim
}

// words are all claims of a network, oldest first.
func words(t *testing.T, net *network) []word {
	t.Helper()
	var list []word
	for i, c := range net.to(wire.PathClaims) {
		list = append(list, word{c.at, claims(t, net)[i]})
	}
	for _, c := range net.to(wire.PathCompletion) {
		var batch wire.CompleteBatch
		if err := json.Unmarshal(c.body, &batch); err != nil {
			t.Fatal(err)
		}
		if batch.Claim != nil {
			list = append(list, word{c.at, *batch.Claim})
		}
	}
	slices.SortStableFunc(list, func(a, b word) int { return int(a.at - b.at) })
	return list
}

// lengthy is a workflow whose bodies work for that long, under leases that outlast the test.
func lengthy(span time.Duration) *pyrula.Workflow[order, receipt] {
	return pyrula.Define("charge", func(*pyrula.Run, order) (receipt, error) {
		<-time.After(span)
		return receipt{}, nil
	}, pyrula.Version("2"), pyrula.Lease(10*time.Minute))
}

// nothings counts the claims that ask for nothing, and fails for one that waits.
func nothings(t *testing.T, list []word) (n int) {
	t.Helper()
	for _, w := range list {
		if w.claim.Credit == 0 {
			if n++; w.claim.WaitMS != 0 {
				t.Errorf("a claim for nothing waits %d ms", w.claim.WaitMS)
			}
		}
	}
	return n
}

// TestR16BusyWorkerSaysThatItLives: a worker whose places are all taken claims nothing at
// least every 10 s, with what it serves: its heartbeats may be as rare as its leases are
// long. It takes up what is free at once, and while a claim waits it sends no other.
func TestR16BusyWorkerSaysThatItLives(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := lengthy(time.Minute)
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 1}, wf)
		pass(15 * time.Second) // a claim waits
		start(w, wf, order{})
		granted := time.Since(w.net.begin)
		start(w, wf, order{})
		pass(61 * time.Second)
		if r := w.node.run(1); r.status.String() != "executing" {
			t.Errorf("the second run is %s when the first has ended", r.status)
		}
		pass(2 * time.Minute)
		all := words(t, w.net)
		for i, one := range all[1:] {
			last := max(all[i].at, granted) // the first claim was answered then
			if one.at < granted+2*time.Minute && one.at-last > 10*time.Second {
				t.Errorf("nothing was said between %v and %v", last, one.at)
			}
			if one.claim.Worker != "w1" || len(one.claim.Workflows) != 1 || one.claim.Workflows[0].Version != "2" || one.claim.Workflows[0].GatesHash == "" {
				t.Errorf("the claim names %+v", one.claim)
			}
			if one.claim.Credit == 0 && (one.at < granted || one.at > granted+2*time.Minute) {
				t.Errorf("a claim for nothing at %v, when a place was free", one.at)
			}
		}
		if n := nothings(t, all); n < 10 || n > 12 { // two may fall on the moment at which a body ends
			t.Errorf("%d claims for nothing in two bodies of a minute", n)
		}
		k.end()
	})
}

// TestR16CarriedClaimsSayItToo: while claims travel with completions, no other is sent for
// the sake of liveness.
func TestR16CarriedClaimsSayItToo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := lengthy(6 * time.Second)
		for range 20 {
			start(w, wf, order{})
		}
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		pass(90 * time.Second)
		all := words(t, w.net)
		if n := nothings(t, all); n != 0 || len(all) < 14 {
			t.Errorf("%d claims for nothing among %d", n, len(all))
		}
		k.stop()
		<-k.done
	})
}

// TestR16NobodyWaitsForAWordThatIsLost: a word that hangs or is refused is followed by the
// next, and holds back neither the next run nor the worker's end.
func TestR16NobodyWaitsForAWordThatIsLost(t *testing.T) {
	for name, f := range map[string]fault{
		"hangs":        {hang: true},
		"breaks":       {lost: true},
		"not declared": {problem: &wire.Problem{Status: 409, Code: wire.CodeNotDeclared}},
		"refused":      {problem: &wire.Problem{Status: 422, Code: wire.CodeUnknownField}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				wf := lengthy(45 * time.Second)
				w.net.setFault(func(c call) fault {
					if c.path == wire.PathClaims && strings.Contains(string(c.body), `"credit":0`) {
						return f
					}
					return fault{}
				})
				k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1, DrainTimeout: time.Minute}, wf)
				first := start(w, wf, order{})
				pass(44 * time.Second)
				if n := nothings(t, words(t, w.net)); n != 4 {
					t.Errorf("%d claims for nothing in 44 s", n)
				}
				if _, err := first.Result(t.Context()); err != nil {
					t.Error(err)
				}
				second := start(w, wf, order{})
				pass(time.Second)
				if r := w.node.run(1); r.status.String() != "executing" {
					t.Errorf("the second run is %s", r.status)
				}
				k.stop()
				pass(time.Second)
				draining := len(w.net.to(wire.PathClaims))
				if _, err := second.Result(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-k.done; err != nil {
					t.Errorf("the worker ended with %v", err)
				}
				if got := len(w.net.to(wire.PathClaims)); got != draining {
					t.Errorf("%d claims by a worker that drains", got-draining)
				}
				if f.hang || strings.Count(w.logs.String(), "that the worker lives") >= 4 {
					return
				}
				t.Errorf("the log says nothing of it: %s", w.logs)
			})
		})
	}
}
