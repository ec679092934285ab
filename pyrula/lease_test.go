package pyrula_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// Leases of these tests are 9 s: heartbeats each 3 s, claims that wait for 3 s, and
// the owner ends a lease 11.8 s after its last message.
const shortLease = 9 * time.Second

// attempt is one call of a body.
type attempt struct {
	fence uint64
	at    time.Duration // since the world began
	beats int           // heartbeats that had left until then
	cause error         // why its context ended, for a body that waits for that
}

// watched is a workflow whose body notes its call, and waits for wait or for the end
// of its context, whichever comes first.
func watched(w *world, wait time.Duration, policies ...pyrula.Policy) (*pyrula.Workflow[order, receipt], chan attempt) {
	calls := make(chan attempt, 1000)
	body := func(r *pyrula.Run, _ order) (receipt, error) {
		a := attempt{fence: r.Fence, at: time.Since(w.net.begin), beats: len(w.net.to(wire.PathHeartbeats))}
		select {
		case <-time.After(wait):
		case <-r.Done():
			a.cause = context.Cause(r)
		}
		calls <- a
		return receipt{Charge: "ch"}, a.cause
	}
	return pyrula.Define("charge", body, append(policies, pyrula.Lease(shortLease))...), calls
}

// slowClaim delays the answer to the first claim that grants something.
func slowClaim(w *world, delay time.Duration) {
	w.net.setFault(func(c call) fault {
		if c.path == wire.PathClaims && c.nth == 1 {
			return fault{delay: delay}
		}
		return fault{}
	})
}

// TestR1StoppedWorkerDoesNotStart: a grant that lay in the socket for longer than its
// lease starts no body. It is handed back, which uses no attempt, and the body starts
// under the next grant.
func TestR1StoppedWorkerDoesNotStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, 0)
		start(w, wf, order{})
		slowClaim(w, 10*time.Second)
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		pass(time.Minute)
		want := []string{"granted to ", "handed back", "granted to ", "completed"}
		if got := w.node.run(0).log; len(got) != len(want) || !strings.HasPrefix(got[1], want[1]) || got[3] != want[3] {
			t.Errorf("the run's life: %q, want %q", got, want)
		}
		if len(calls) != 1 || (<-calls).fence != w.node.run(0).fence {
			t.Error("the body started under the grant that was too old")
		}
		k.end()
	})
}

// TestR1ClaimBesideAReport: a grant that comes with the answer to a report counts its
// lease from the sending of that report.
func TestR1ClaimBesideAReport(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, 0)
		start(w, wf, order{})
		start(w, wf, order{})
		w.net.setFault(func(c call) fault {
			if c.path == wire.PathCompletion && c.nth == 1 {
				return fault{delay: shortLease + time.Millisecond}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 1}, wf)
		pass(time.Minute)
		want := []string{"granted to w1", "handed back", "granted to w1", "completed"}
		if got := w.node.run(1); !slices.Equal(got.log, want) || len(calls) != 2 {
			t.Errorf("the second run's life: %q with %d bodies in all, want %q", got.log, len(calls), want)
		}
		k.end()
	})
}

// TestR1ForeignRunIsNotStarted: when the owner has ended the lease meanwhile and
// another worker has the run, the late grant starts nothing, and handing it back
// changes nothing.
func TestR1ForeignRunIsNotStarted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, 8*time.Second, pyrula.Limit{Key: "tenant", Max: 1})
		start(w, wf, order{})
		slowClaim(w, 12500*time.Millisecond)
		k1 := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 1}, wf)
		_, c2 := w.another()
		k2 := w.work(c2, pyrula.WorkerConfig{Name: "w2"}, wf)
		pass(time.Minute)
		want := []string{"granted to w1", "expired", "granted to w2", "suspend refused", "completed"}
		if got := w.node.run(0).log; !slices.Equal(got, want) {
			t.Errorf("the run's life: %q, want %q", got, want)
		}
		if len(calls) != 1 || (<-calls).fence != w.node.run(0).fence {
			t.Error("the body started under the grant that was too old")
		}
		k1.end()
		k2.end()
	})
}

// TestR1HeartbeatBeforeTheBody: when more than a third of the lease has passed since
// the claim was sent, a heartbeat is confirmed before the body starts; when less has,
// the body starts at once.
func TestR1HeartbeatBeforeTheBody(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
		lost  int // heartbeats that are lost first
		beats int // that have left when the body starts
	}{
		{"fresh", 2999 * time.Millisecond, 0, 0},
		{"late", 3*time.Second + 1, 0, 1},
		{"late, the heartbeat is lost", 4 * time.Second, 1, 2},
		{"late, two are lost", 4 * time.Second, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				wf, calls := watched(w, 0)
				start(w, wf, order{})
				w.net.setFault(func(got call) fault {
					switch {
					case got.path == wire.PathClaims && got.nth == 1:
						return fault{delay: c.delay}
					case got.path == wire.PathHeartbeats && got.nth <= c.lost:
						return fault{lost: true}
					}
					return fault{}
				})
				k := w.work(w.client, pyrula.WorkerConfig{}, wf)
				a := <-calls
				if a.beats != c.beats || a.fence != w.node.run(0).fence || w.node.run(0).attempt != 1 {
					t.Errorf("call %+v, want the first grant's after %d heartbeats", a, c.beats)
				}
				k.end()
			})
		})
	}
}

// TestR1UnconfirmedGrantIsNotStarted: when no heartbeat is confirmed before the lease
// has passed, or the node says that the run isn't ours, the body never starts.
func TestR1UnconfirmedGrantIsNotStarted(t *testing.T) {
	for name, beats := range map[string]fault{
		"no answer": {hang: true},
		"refused":   {}, // the node has ended the lease, and nobody else took the run yet
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				wf, calls := watched(w, 0)
				h := start(w, wf, order{})
				w.net.setFault(func(c call) fault {
					switch {
					case c.path == wire.PathClaims && c.nth == 1:
						return fault{delay: 4 * time.Second}
					case c.path == wire.PathClaims:
						return fault{lost: true}
					case c.path == wire.PathHeartbeats:
						return beats
					}
					return fault{}
				})
				k := w.work(w.client, pyrula.WorkerConfig{}, wf)
				if name == "refused" {
					w.node.lapse(h.ID)
				}
				pass(20 * time.Second)
				if len(calls) != 0 {
					t.Errorf("the body started: %+v", <-calls)
				}
				w.net.setFault(nil)
				pass(time.Minute)
				if got := w.node.run(0); len(calls) != 1 || (<-calls).fence != got.fence || got.grants() != 2 {
					t.Errorf("the run isn't started by its second grant: %q", got.log)
				}
				k.end()
			})
		})
	}
}

// TestR1ClockBeforeTheBody: a process that is stopped after it has read the grant and
// before it calls the body finds its timers late; the clock tells.
func TestR1ClockBeforeTheBody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var stopped atomic.Int64 // nanoseconds that the process has slept through
		sleeps.Store(&stopped)
		defer sleeps.Store(nil)
		calls := make(chan uint64, 10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, _ sleeper) (receipt, error) {
			calls <- r.Fence
			return receipt{}, nil
		}, pyrula.Lease(shortLease))
		worker, err := w.client.NewWorker(pyrula.WorkerConfig{Concurrency: 1}, wf)
		if err != nil {
			t.Fatal(err)
		}
		worker.SetClock(func() time.Time { return time.Now().Add(time.Duration(stopped.Load())) })
		start(w, wf, sleeper{})
		k := w.run(t.Context(), worker)
		pass(time.Minute)
		if got := w.node.run(0); len(calls) != 1 || <-calls != got.fence || got.grants() != 2 || got.log[1] != "handed back" {
			t.Errorf("%d more calls after a life of %q, want one call, by the second grant", len(calls), got.log)
		}
		k.end()
	})
}

// sleeps is what sleeper moves on: the first decoding takes longer than the lease.
var sleeps atomic.Pointer[atomic.Int64]

type sleeper struct{ Empty string }

func (s *sleeper) UnmarshalJSON([]byte) error {
	if clock := sleeps.Load(); clock != nil && clock.Load() == 0 {
		clock.Store(int64(10 * time.Second))
	}
	return nil
}

// TestR1LeaseLostStopsTheBody: a body stops when no heartbeat was confirmed for the
// lease, counted from the sending of the last confirmed one; what it returns is not
// reported, also when the node can be reached again.
func TestR1LeaseLostStopsTheBody(t *testing.T) {
	for name, broken := range map[string]fault{
		"lost": {lost: true}, "hanging": {hang: true}, "the answer is lost": {cut: true},
		"not ready": {problem: &wire.Problem{Status: 503, Code: wire.CodeNotReady}, after: "3600"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				wf, calls := watched(w, time.Hour)
				w.net.setFault(func(c call) fault {
					switch {
					case c.path == wire.PathHeartbeats && c.nth == 2:
						return fault{delay: 2 * time.Second} // sent at 6 s, confirmed at 8 s
					case c.path == wire.PathHeartbeats && c.nth > 2:
						return broken
					}
					return fault{}
				})
				k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
				granted := time.Since(w.net.begin)
				start(w, wf, order{})
				a := <-calls
				if got := time.Since(w.net.begin) - granted; got != 15*time.Second || !errors.Is(a.cause, pyrula.ErrLeaseLost) {
					t.Errorf("the body stopped after %v because of %v, want 6 s + 9 s and a lost lease", got, a.cause)
				}
				synctest.Wait()
				if got := len(w.net.to(wire.PathCompletion)) + len(w.net.to(endPath(w, "fail"))) + len(w.net.to(endPath(w, "suspend"))); got != 0 {
					t.Errorf("%d ends were reported of a run that was lost", got)
				}
				w.net.setFault(nil)
				k.end()
			})
		})
	}
}

func endPath(w *world, verb string) string { return "/v1/runs/" + w.node.run(0).id + "/" + verb }

// TestP51RefusedHeartbeatStopsTheBody: a worker that is told that it doesn't hold the
// run any more stops the body at once and reports nothing.
func TestP51RefusedHeartbeatStopsTheBody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, time.Hour)
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		h := start(w, wf, order{})
		pass(time.Second)
		w.node.lapse(h.ID)
		a := <-calls
		if !errors.Is(a.cause, pyrula.ErrLeaseLost) || time.Since(w.net.begin) > 4*time.Second {
			t.Errorf("stopped at %v because of %v, want the first heartbeat's answer", time.Since(w.net.begin), a.cause)
		}
		synctest.Wait()
		if got := len(w.net.to(wire.PathCompletion)) + len(w.net.to(endPath(w, "fail"))); got != 0 {
			t.Errorf("%d reports of a run that was lost", got)
		}
		k.stop()
		<-calls // the second grant's, which drains
		<-k.done
	})
}

// lapse ends a lease in the node as if its time had passed.
func (n *fakeNode) lapse(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.find(id)
	if err != nil {
		panic(err)
	}
	r.expiry = time.Now()
	n.sweep()
}

// TestS07HeartbeatsKeepALease: a body that works for six leases keeps its run; the
// next one of the key starts when it ends and not before.
func TestS07HeartbeatsKeepALease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, time.Minute, pyrula.Limit{Key: "tenant", Max: 1})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		start(w, wf, order{Tenant: "acme", ID: "a"})
		start(w, wf, order{Tenant: "acme", ID: "b"})
		a := <-calls
		pass(time.Second)
		b := w.node.run(1)
		if first := w.node.run(0); first.attempt != 1 || first.status.String() != "completed" || a.cause != nil {
			t.Errorf("the long run's life is %q, its body ended by %v", first.log, a.cause)
		}
		if b.attempt != 1 || w.node.most("charge", "acme") != 1 {
			t.Errorf("the second run was granted %d times, at most %d slots were taken", b.attempt, w.node.most("charge", "acme"))
		}
		beats := w.net.to(wire.PathHeartbeats)
		for i := 1; i < len(beats); i++ {
			if gap := beats[i].at - beats[i-1].at; gap > 3*time.Second {
				t.Errorf("%v between two heartbeats, want at most a third of the lease", gap)
			}
		}
		if len(beats) < 19 || len(beats) > 25 {
			t.Errorf("%d heartbeats in a minute, want one each 3 s", len(beats))
		}
		<-calls
		k.end()
	})
}

// TestHeartbeatsShareRequests: the holds of a worker send their heartbeats together,
// at most 256 in one request.
func TestHeartbeatsShareRequests(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, 10*time.Second)
		var subs []pyrula.Submission
		for range 150 {
			sub, err := wf.Submission(order{})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 400}, wf)
		for range 2 {
			if _, err := w.client.SubmitBatch(t.Context(), subs); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		pass(8 * time.Second)
		beats, sizes := w.net.to(wire.PathHeartbeats), map[int]int{}
		for _, c := range beats {
			var beat wire.Heartbeat
			if err := json.Unmarshal(c.body, &beat); err != nil {
				t.Fatal(err)
			}
			sizes[len(beat.Runs)]++
		}
		if sizes[256] == 0 || sizes[44] != sizes[256] || len(beats) > 8 {
			t.Errorf("requests by their number of heartbeats: %v, want 256 and 44 in each round", sizes)
		}
		pass(10 * time.Second)
		if len(calls) != 300 {
			t.Errorf("%d bodies ended, want 300", len(calls))
		}
		for range 300 {
			if a := <-calls; a.cause != nil {
				t.Fatalf("a body ended by %v", a.cause)
			}
		}
		k.end()
	})
}
