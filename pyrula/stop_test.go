package pyrula_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestLeaseLostBeforeTheRecord: when the lease is lost while a step's function runs,
// nothing is recorded and the operation says so. The next holder runs the step again.
func TestLeaseLostBeforeTheRecord(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		seen := make(chan error, 3)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := c.step(r, "a"); err != nil {
				return "", err
			}
			got, err := pyrula.Step(r, "slow", func(context.Context) (string, error) {
				if c.add("slow") == 1 {
					<-time.After(time.Minute) // the network is gone, and the lease with it
				}
				return fmt.Sprint("fence ", r.Fence), nil
			})
			if err != nil {
				seen <- err
				_, err = c.step(r, "behind")
				seen <- err
				seen <- r.Sleep(time.Second)
			}
			return got, err
		}, pyrula.Lease(tenLease))
		k1 := w.work(w.client, pyrula.WorkerConfig{Name: "w1"}, wf)
		h := start(w, wf, order{})
		synctest.Wait()
		w.net.setFault(func(c call) fault { return fault{lost: c.path != wire.PathRuns} })
		_, c2 := w.another()
		k2 := w.work(c2, pyrula.WorkerConfig{Name: "w2"}, wf)
		if got, err := h.Result(t.Context()); err == nil {
			t.Fatalf("%q: w1 can't be reached, so neither can the handle", got)
		}
		pass(2 * time.Minute)
		w.net.setFault(nil)
		if got, err := h.Result(t.Context()); err != nil || got != "fence 2" {
			t.Errorf("result %q, %v", got, err)
		}
		for range 3 {
			if err := <-seen; !errors.Is(err, pyrula.ErrLeaseLost) {
				t.Errorf("an operation of a lost run gives %v", err)
			}
		}
		run := w.node.run(0)
		if !slices.Equal(run.names(), []string{"step a/1", "step slow/1"}) || c.of("a") != 1 || c.of("slow") != 2 || c.of("behind") != 0 {
			t.Errorf("history %q, calls %v", run.names(), c.calls)
		}
		if want := []string{"granted to w1", "expired", "granted to w2", "completed"}; !slices.Equal(run.log, want) {
			t.Errorf("life %q, want %q", run.log, want)
		}
		k1.end()
		k2.end()
	})
}

// TestP51RecordUnderAnOldFence: a node that says that the run is another's ends the lease:
// the body is told, and nothing of it is reported.
func TestP51RecordUnderAnOldFence(t *testing.T) {
	for _, code := range []string{wire.CodeStaleFence, wire.CodeRunEnded} {
		t.Run(code, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				causes := make(chan error, 2)
				wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
					_, err := pyrula.Step(r, "s", func(context.Context) (string, error) { return "", nil })
					causes <- err
					causes <- context.Cause(r)
					return "", err
				})
				w.net.setFault(func(c call) fault {
					if strings.HasSuffix(c.path, "/steps") {
						return fault{problem: &wire.Problem{Status: 409, Code: code}}
					}
					return fault{}
				})
				k := w.work(w.client, pyrula.WorkerConfig{}, wf)
				start(w, wf, order{})
				for range 2 {
					if err := <-causes; !errors.Is(err, pyrula.ErrLeaseLost) {
						t.Errorf("got %v", err)
					}
				}
				synctest.Wait()
				if ends := len(w.net.to(endPath(w, "fail"))) + len(w.net.to(endPath(w, "suspend"))) + len(w.net.to(wire.PathCompletion)); ends != 0 {
					t.Errorf("%d ends were reported", ends)
				}
				k.stop()
				<-k.done
			})
		})
	}
}

// TestR13HistoryTooLarge: a run that keeps too much has ended, and its body is stopped.
func TestR13HistoryTooLarge(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		seen := make(chan error, 1)
		w.node.room = 3
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			for {
				if _, err := c.step(r, "s"); err != nil {
					if r.Err() == nil {
						t.Error("the run's context goes on")
					}
					seen <- err
					return "", err
				}
			}
		}, pyrula.MaxAttempts(3))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		wantFailed(t, start(w, wf, order{}), "history_too_large")
		if err := <-seen; !errors.Is(err, pyrula.ErrHistoryTooLarge) {
			t.Errorf("the body was told %v", err)
		}
		synctest.Wait()
		if c.of("s") != 4 || len(w.net.to(endPath(w, "fail"))) != 0 {
			t.Errorf("%d steps, and %d failures were reported", c.of("s"), len(w.net.to(endPath(w, "fail"))))
		}
		k.end()
	})
}

// TestP63CancelStopsTheOperations: once somebody has asked for the end, operations do
// nothing any more and say why: also those that are recorded, in a run that is granted
// when it is to end.
func TestP63CancelStopsTheOperations(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := c.step(r, "a"); err != nil {
				return "", err
			}
			<-r.Done()
			for what, err := range map[string]error{
				"step":  func() error { _, err := c.step(r, "late"); return err }(),
				"sleep": r.Sleep(time.Hour),
				"wait":  func() error { _, err := r.WaitSignal("x", 0); return err }(),
				"child": func() error { _, err := r.RunChild("other", nil); return err }(),
			} {
				if !errors.Is(err, pyrula.ErrCancelRequested) {
					t.Errorf("%s: %v", what, err)
				}
			}
			return "", context.Cause(r)
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		synctest.Wait()
		if err := h.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); !errors.Is(err, pyrula.ErrRunCancelled) {
			t.Errorf("result %v", err)
		}
		if got := w.node.run(0); c.of("late") != 0 || !slices.Equal(got.names(), []string{"step a/1"}) {
			t.Errorf("calls %v, history %q", c.calls, got.names())
		}
		k.end()
	})
}

// TestDrainInTheMiddle: a worker that drains in the middle of a body hands the run back
// with what is recorded, without an entry of its own, and the next worker goes on from
// there.
func TestDrainInTheMiddle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := c.step(r, "a"); err != nil {
				return "", err
			}
			if c.add("body") == 1 {
				<-r.Done()
			}
			if _, err := c.step(r, "b"); err != nil {
				if !errors.Is(err, pyrula.ErrDraining) {
					t.Errorf("the step was told %v", err)
				}
				return "", err
			}
			return fmt.Sprint("attempt ", r.Attempt), r.Sleep(time.Minute)
		}, pyrula.MaxAttempts(1))
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", DrainTimeout: time.Second}, wf)
		h := start(w, wf, order{})
		synctest.Wait()
		k.end()
		if got := w.node.run(0); got.status.String() != "queued" || !slices.Equal(got.log, []string{"granted to w1", "handed back"}) {
			t.Errorf("the run is %s after %q", got.status, got.log)
		}
		var sent wire.Suspend
		if err := json.Unmarshal(w.net.to(endPath(w, "suspend"))[0].body, &sent); err != nil || sent.Step != "" || sent.Claim != nil {
			t.Errorf("handed back by %+v, %v", sent, err)
		}
		k = w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := h.Result(t.Context()); got != "attempt 1" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		if got := w.node.run(0).names(); c.of("a") != 1 || c.of("b") != 1 || !slices.Equal(got, []string{"step a/1", "step b/1", "moment sleep/1"}) {
			t.Errorf("calls %v, history %q", c.calls, got)
		}
		k.end()
	})
}

// TestDrainBetweenFunctionAndRecord: a step's function that ends when its worker drains is
// recorded all the same, also over a bad network, so the next worker doesn't run it again.
func TestDrainBetweenFunctionAndRecord(t *testing.T) {
	for name, bad := range map[string]fault{"a good network": {}, "a lost request": {lost: true}, "a lost answer": {cut: true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var c tally
				wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
					got, err := pyrula.Step(r, "s", func(ctx context.Context) (string, error) {
						<-ctx.Done()
						return fmt.Sprint("call ", c.add("s")), nil
					})
					if err != nil {
						return "", err
					}
					return got, r.Sleep(time.Second)
				}, pyrula.MaxAttempts(1))
				w.net.setFault(func(c call) fault {
					if strings.HasSuffix(c.path, "/steps") && c.nth == 1 {
						return bad
					}
					return fault{}
				})
				k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", DrainTimeout: time.Second}, wf)
				h := start(w, wf, order{})
				synctest.Wait()
				k.end()
				if got := w.node.run(0); !slices.Equal(got.names(), []string{"step s/1"}) || got.status.String() != "queued" {
					t.Errorf("the run is %s with the history %q", got.status, got.names())
				}
				k = w.work(w.client, pyrula.WorkerConfig{Name: "w2", DrainTimeout: time.Second}, wf)
				pass(time.Minute)
				k.end()
				if got := w.node.run(0); got.status.String() != "completed" || string(got.result) != `"call 1"` {
					t.Errorf("run %s is %s with the result %s", h.ID, got.status, got.result)
				}
			})
		})
	}
}

// TestDrainBetweenRecordAndSuspension: a body whose worker has drained doesn't begin a
// wait; the next worker does.
func TestDrainBetweenRecordAndSuspension(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := c.step(r, "s"); err != nil {
				return "", err
			}
			if c.add("body") == 1 {
				<-r.Done()
				if err := r.Sleep(time.Hour); !errors.Is(err, pyrula.ErrDraining) {
					t.Errorf("the sleep gives %v", err)
				}
				return "", context.Cause(r)
			}
			return fmt.Sprint("attempt ", r.Attempt), r.Sleep(time.Minute)
		}, pyrula.MaxAttempts(1))
		k := w.work(w.client, pyrula.WorkerConfig{DrainTimeout: time.Second}, wf)
		h := start(w, wf, order{})
		pass(time.Second)
		k.end()
		pass(time.Second)
		w.wantStatus("queued", h.ID)
		k = w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := h.Result(t.Context()); err != nil || got != "attempt 1" || c.of("s") != 1 {
			t.Errorf("result %q, %v, calls %v", got, err, c.calls)
		}
		k.end()
	})
}

// TestP63CancelBetweenFunctionAndRecord: what a step did before its run was to end stands
// in the history for who looks.
func TestP63CancelBetweenFunctionAndRecord(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			_, err := pyrula.Step(r, "s", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "done", nil
			})
			return "", errors.Join(err, context.Cause(r))
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		pass(time.Second)
		if err := h.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); !errors.Is(err, pyrula.ErrRunCancelled) {
			t.Errorf("result %v", err)
		}
		if got := w.history(h.ID); !slices.Equal(got, []string{"step s/1"}) {
			t.Errorf("history %q", got)
		}
		k.end()
	})
}

// TestP51LeaseLostBetweenRecordAndSuspension: a body that suspends when its run is in other
// hands changes nothing there.
func TestP51LeaseLostBetweenRecordAndSuspension(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		var late error
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := c.step(r, "s"); err != nil {
				return "", err
			}
			if c.add("body") == 1 {
				<-time.After(time.Minute) // it ignores its context
				late = r.Sleep(time.Hour)
				return "", late
			}
			return fmt.Sprint("fence ", r.Fence > 1), r.Sleep(2 * time.Minute)
		}, pyrula.Lease(tenLease))
		k1 := w.work(w.client, pyrula.WorkerConfig{Name: "w1"}, wf)
		start(w, pyrula.Define("other", charge), order{}) // so that fences differ
		h := start(w, wf, order{})
		pass(time.Second)
		w.net.setFault(func(c call) fault { return fault{lost: c.path != wire.PathRuns} })
		net2, c2 := w.another()
		k2 := w.work(c2, pyrula.WorkerConfig{Name: "w2"}, wf)
		pass(90 * time.Second)
		w.net.setFault(nil)
		if !errors.Is(late, pyrula.ErrLeaseLost) {
			t.Errorf("the late sleep gives %v", late)
		}
		if got, err := h.Result(t.Context()); err != nil || got != "fence true" || c.of("s") != 1 {
			t.Errorf("result %q, %v, calls %v", got, err, c.calls)
		}
		if n := len(w.sent(h.ID, "suspend")); n != 0 || len(net2.to(wire.PathRuns+"/"+h.ID+"/suspend")) != 1 {
			t.Errorf("w1 sent %d suspensions, want none", n)
		}
		k1.end()
		k2.end()
	})
}
