package inline_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
)

// slow is a Rate that gives nothing back while a scenario lasts.
var slow = pyrula.Rate{Key: "k", PerSecond: 1.0 / (24 * 3600), Burst: 10}

// TestS34WaitingFreesTheSlot fails when a run that waits for a signal holds its slot,
// comes back behind a younger one, or takes a second token.
func TestS34WaitingFreesTheSlot(t *testing.T) {
	scenario(t, func(s *stage) {
		c := newCrew("sync", one, slow)
		c.first = func(r *pyrula.Run, in item) error {
			if in.N != 1 {
				return nil
			}
			_, err := r.WaitSignal("s", 10*time.Minute)
			return err
		}
		s.open(0, c.wf)
		a, b, third := s.submitItem(c, item{"a", 1}), s.submitItem(c, item{"a", 2}), s.submitItem(c, item{"a", 3})
		s.started(c, a, b)
		if s.at() != 0 {
			s.Errorf("the second one started %v after the suspension", s.at())
		}
		s.is(a, "suspended")
		s.used("sync", "a", 1)
		s.tokens("sync", "a", 8)
		s.until(time.Minute)
		_, err := s.client.Signal(s.Context(), a, "s", nil)
		s.must(err)
		s.settle()
		s.is(a, "queued")
		s.used("sync", "a", 1)
		s.started(c)
		s.end(c, b)
		s.started(c, a)
		s.used("sync", "a", 1)
		s.tokens("sync", "a", 8)
		s.is(third, "queued")
		s.end(c, a)
		s.started(c, third)
		s.tokens("sync", "a", 7)
		s.is(a, "completed")
	})
}

// TestS30RetryByHand fails when a run that is retried by hand passes those who wait, or
// takes no token of its own.
func TestS30RetryByHand(t *testing.T) {
	scenario(t, func(s *stage) {
		c := newCrew("sync", one, slow)
		s.open(0, c.wf)
		a := s.submit(c, "a")
		s.started(c, a)
		s.fail(c, a, pyrula.Permanent(errors.New("no luck")))
		s.is(a, "failed")
		b, third := s.submit(c, "a"), s.submit(c, "a")
		s.started(c, b)
		retry, err := s.client.Retry(s.Context(), a)
		s.must(err)
		again := retry.RunID
		if again == a {
			s.Fatal("the retry is the same run")
		}
		s.is(again, "queued")
		s.is(a, "failed")
		s.used("sync", "a", 1)
		s.tokens("sync", "a", 8)
		s.end(c, b)
		s.started(c, third)
		s.tokens("sync", "a", 7)
		s.end(c, third)
		s.started(c, again)
		s.tokens("sync", "a", 6)
		s.end(c, again)
		s.is(again, "completed")
	})
}

// TestP54ParentAndChildOnOneKey fails when a parent that waits for its child keeps the
// slot that the child needs.
func TestP54ParentAndChildOnOneKey(t *testing.T) {
	scenario(t, func(s *stage) {
		var tree *pyrula.Workflow[item, int]
		tree = pyrula.Define("tree", func(r *pyrula.Run, in item) (int, error) {
			if in.N == 0 {
				return 1, nil
			}
			below, err := tree.RunChild(r, item{in.Key, in.N - 1})
			return below + 1, err
		}, one)
		s.open(0, tree)
		var got int
		var err error
		if s.inline != nil {
			got, err = inline.Run(s.Context(), s.inline.WithGateTimeout(time.Second), tree, item{"a", 3})
		} else {
			got, err = tree.Run(s.Context(), s.client, item{"a", 3})
		}
		if got != 4 || err != nil {
			s.Errorf("gave %d, %v; want 4", got, err)
		}
		s.used("tree", "a", 0)
	})
}

// TestS51TokenOverAHandOn fails when a run that is handed on while it waits takes a
// token, or its successor takes one before it starts.
func TestS51TokenOverAHandOn(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		const rate = `"rate":{"key":"k","per_second":0.00001,"burst":10}`
		s.declare("sync", `{"version":"1","limit":{"key":"k","max":2},`+rate+`}`)
		runs := s.sendAll(3, "sync", `{"k":"a"}`)
		first, second := s.grant(runs[0]), s.grant(runs[1])
		s.tokens("sync", "a", 8)
		s.declare("sync", `{"version":"2","limit":{"key":"k","max":1},`+rate+`}`)
		newer := asks{worker: "w2", version: "2", credit: 5}
		s.granted(s.claim(newer))
		s.settle()
		st := s.status(runs[2])
		successor := st.RunID
		if st.RequestedRunID != runs[2] || successor == runs[2] || st.Status != "queued" {
			s.Fatalf("the third run: %+v", st)
		}
		s.tokens("sync", "a", 8)
		s.complete(first)
		s.granted(s.claim(newer))
		s.complete(second)
		s.tokens("sync", "a", 8)
		s.granted(s.claim(newer), successor)
		s.tokens("sync", "a", 7)
		if n := s.count(runs[2], flow.EventClaimed); n != 0 {
			s.Errorf("the run that was handed on was claimed %d times", n)
		}
	})
}

// TestS55NewRateReachesThoseWhoWait fails when a raised rate doesn't count for runs that
// wait under the old one, once a worker has it; when they start in another order; or when
// a worker without it starts them faster.
func TestS55NewRateReachesThoseWhoWait(t *testing.T) {
	const waiting = 100
	for _, version := range []string{"1", "2"} {
		t.Run("worker of version "+version, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.open(0)
				s.declare("sync", `{"version":"1","rate":{"key":"k","per_second":1,"burst":1}}`)
				runs := s.sendAll(waiting, "sync", `{"k":"a"}`)
				s.declare("sync", `{"version":"2","rate":{"key":"k","per_second":50,"burst":50}}`)
				rate := pyrula.Rate{Key: "k", PerSecond: 1, Burst: 1}
				if version == "2" {
					rate = pyrula.Rate{Key: "k", PerSecond: 50, Burst: 50}
				}
				c := quick("sync", pyrula.Version(version), rate)
				s.work(pyrula.WorkerConfig{Concurrency: waiting, DrainTimeout: -1}, c.wf)
				want := make([]float64, waiting)
				for i := range want {
					want[i] = float64(i)
					if version == "2" {
						want[i] = float64(max(0, i-49)) / 50
					}
				}
				s.until(time.Duration(want[waiting-1]*float64(time.Second)) + time.Second)
				log := s.begun(c)
				startsAt(s, log, want...)
				for i, run := range runs {
					if st := s.status(run); st.RunID != log[i].run || (st.RunID != run) != (version == "2") {
						s.Fatalf("start %d is of %s; run %d is %s, handed on from %q", i, log[i].run, i, st.RunID, st.RequestedRunID)
					}
				}
			})
		})
	}
}

// TestP9StepsOverSuspensions fails when a body that sleeps and waits inline isn't run
// again from its recorded steps.
func TestP9StepsOverSuspensions(t *testing.T) {
	scenario(t, func(s *stage) {
		var calls []string
		wf := pyrula.Define("sync", func(r *pyrula.Run, in item) ([]string, error) {
			step := func(name string) (string, error) {
				return pyrula.Step(r, name, func(context.Context) (string, error) {
					calls = append(calls, name)
					return name + " " + in.Key, nil
				})
			}
			first, err := step("first")
			if err != nil {
				return nil, err
			}
			if err := r.Sleep(2 * time.Hour); err != nil {
				return nil, err
			}
			word, err := pyrula.WaitSignal[string](r, "word", 0)
			if err != nil {
				return nil, err
			}
			last, err := step("last")
			return []string{first, word, last}, err
		}, one)
		s.open(0, wf)
		h, err := wf.Start(s.Context(), s.client, item{Key: "a"})
		s.must(err)
		s.until(time.Hour)
		s.is(h.ID, "suspended")
		s.until(3 * time.Hour)
		s.is(h.ID, "suspended")
		_, err = h.Signal(s.Context(), "word", "go")
		s.must(err)
		got, err := h.Result(s.Context())
		if want := []string{"first a", "go", "last a"}; err != nil || !slices.Equal(got, want) {
			s.Errorf("gave %q, %v; want %q", got, err, want)
		}
		if want := []string{"first", "last"}; !slices.Equal(calls, want) {
			s.Errorf("steps were called as %q, want %q", calls, want)
		}
	})
}

// TestP9P10HandOnWhileACallWaits fails when a call doesn't follow its run to the successor
// that a newer version has made of it: to its result, or to its gate.
func TestP9P10HandOnWhileACallWaits(t *testing.T) {
	play(t, func(w *world) {
		old, newer := newHeld("sync", one, pyrula.Version("1")), newHeld("sync", pyrula.Limit{Key: "k", Max: 2}, pyrula.Version("2"))
		w.serve(inline.Config{}, old.wf)
		first := w.goRun(w.Context(), w.Runner, old.wf, item{"a", 1})
		second := w.goRun(w.Context(), w.Runner, old.wf, item{"a", 2})
		third := w.goRun(w.Context(), w.Runner, old.wf, item{"a", 3})
		w.until(time.Minute)
		if err := w.Serve(newer.wf); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		// Either version may have it: an older worker runs it under its stamp (P30).
		if got := append(old.ran(), newer.ran()...); !slices.Equal(got, []int{1, 2}) {
			w.Fatalf("%v have started", got)
		}
		err := third.gated(w, inline.DefaultGateTimeout, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: inline.DefaultGateTimeout})
		st, failed := w.Client().Status(w.Context(), err.RunID)
		if failed != nil || st.Status != "cancelled" || st.RequestedRunID != err.RunID {
			w.Errorf("the run that was given up: %+v, %v", st, failed)
		}
		for range 2 {
			select {
			case old.finish <- nil:
			case newer.finish <- nil:
			}
		}
		first.is(w, "a1", inline.DefaultGateTimeout)
		second.is(w, "a2", inline.DefaultGateTimeout)
	})
}
