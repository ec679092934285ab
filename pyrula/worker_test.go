package pyrula_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// claims are the bodies of claims that left a worker.
func claims(t *testing.T, net *network) []wire.Claim {
	t.Helper()
	var list []wire.Claim
	for _, c := range net.to(wire.PathClaims) {
		var claim wire.Claim
		if err := json.Unmarshal(c.body, &claim); err != nil {
			t.Fatal(err)
		}
		list = append(list, claim)
	}
	return list
}

// TestWorkerDeclaresAndClaims: a worker declares what it serves before it claims,
// claims as many runs as it has free places, and doesn't wait for longer than a third
// of the shortest lease.
func TestWorkerDeclaresAndClaims(t *testing.T) {
	hold := make(chan struct{})
	slow := pyrula.Define("slow", func(*pyrula.Run, order) (receipt, error) {
		<-hold
		return receipt{}, nil
	}, pyrula.Version("3"), pyrula.Lease(12*time.Second))
	fast := pyrula.Define("fast", charge)
	inWorld(t, func(t *testing.T, w *world) {
		hold = make(chan struct{}) // of this bubble
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 3}, slow, fast)
		first := claims(t, w.net)[0]
		if first.Worker != "w1" || first.Credit != 3 || first.WaitMS != 4000 || w.node.changes != 2 {
			t.Errorf("first claim %+v after %d declarations, want credit 3 and a wait of 4 s", first, w.node.changes)
		}
		want := []wire.ClaimWorkflow{
			{Name: "slow", Version: "3", GatesHash: "hash-of-slow"}, {Name: "fast", GatesHash: "hash-of-fast"},
		}
		if !slices.Equal(first.Workflows, want) {
			t.Errorf("the claim announces %+v, want %+v", first.Workflows, want)
		}
		for range 5 {
			start(w, slow, order{})
		}
		pass(time.Minute)
		if a, b := w.node.run(2).status.String(), w.node.run(3).status.String(); a != "executing" || b != "queued" {
			t.Errorf("the third run is %s and the fourth %s, want three at once and no more", a, b)
		}
		close(hold)
		pass(time.Second)
		if got := w.node.run(4).status.String(); got != "completed" {
			t.Errorf("the last run is %s", got)
		}
		k.end()
	})
}

// TestClaimTravelsWithCompletions: a worker whose places are all taken asks for the
// next runs in the request that reports the last ones, so a busy worker needs one
// request for each round.
func TestClaimTravelsWithCompletions(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		var subs []pyrula.Submission
		for range 20 {
			sub, err := wf.Submission(order{})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		if _, err := w.client.SubmitBatch(t.Context(), subs); err != nil {
			t.Fatal(err)
		}
		w.net.setFault(func(c call) fault { return fault{delay: time.Millisecond} })
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 4}, wf)
		pass(time.Second)
		for i := range 20 {
			if r := w.node.run(i); r.status.String() != "completed" || r.attempt != 1 {
				t.Errorf("run %d is %s after %d attempts", i, r.status, r.attempt)
			}
		}
		carried := 0
		for _, c := range w.net.to(wire.PathCompletion) {
			var batch wire.CompleteBatch
			if err := json.Unmarshal(c.body, &batch); err != nil {
				t.Fatal(err)
			}
			if batch.Claim != nil {
				carried += batch.Claim.Credit
			}
		}
		if carried < 16 {
			t.Errorf("%d runs were asked for beside completions, want those after the first four", carried)
		}
		k.end()
	})
}

// TestP63CancelReachesTheBody: a cancel shows in the run's context with the next
// heartbeat, and what the body returns is reported; the node decides.
func TestP63CancelReachesTheBody(t *testing.T) {
	causes := make(chan error, 1)
	wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
		<-r.Done()
		causes <- context.Cause(r)
		return receipt{Charge: "too late"}, nil
	})
	inWorld(t, func(t *testing.T, w *world) {
		causes = make(chan error, 1)
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		synctest.Wait()
		if err := h.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if err := <-causes; !errors.Is(err, pyrula.ErrCancelRequested) {
			t.Errorf("cause %v, want the request to cancel", err)
		}
		if _, err := h.Result(t.Context()); !errors.Is(err, pyrula.ErrRunCancelled) {
			t.Errorf("result %v, want a cancelled run", err)
		}
		if got := len(w.net.to(wire.PathCompletion)); got != 1 {
			t.Errorf("%d reports, want what the body returned", got)
		}
		k.end()
	})
}

// TestGrantOfACancelledRun: a run that somebody wants ended when it is granted starts
// with a context that has ended.
func TestGrantOfACancelledRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			return receipt{}, context.Cause(r)
		})
		h := start(w, wf, order{})
		w.node.runs[0].cancelled = true
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if _, err := h.Result(t.Context()); !errors.Is(err, pyrula.ErrRunCancelled) {
			t.Errorf("result %v, want a cancelled run", err)
		}
		var sent wire.Fail
		if err := json.Unmarshal(w.net.to(endPath(w, "fail"))[0].body, &sent); err != nil || sent.Error.Message != pyrula.ErrCancelRequested.Error() {
			t.Errorf("reported %+v, %v; want what the body saw", sent, err)
		}
		k.end()
	})
}

// TestFailures: an error is tried again while attempts are left, a permanent one
// isn't; a panic and the end of the goroutine are failed attempts, and the worker
// goes on.
func TestFailures(t *testing.T) {
	var calls atomic.Int64
	wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (any, error) {
		calls.Add(1)
		switch o.ID {
		case "second time":
			if r.Attempt == 1 {
				return nil, errors.New("not yet")
			}
		case "never":
			return nil, errors.New("never " + strings.Repeat("é", 10_000))
		case "permanent":
			return nil, pyrula.Permanent(errors.New("no"))
		case "panics":
			panic("oh no")
		case "exits":
			runtime.Goexit()
		case "no json":
			return func() {}, nil
		case "too large":
			return strings.Repeat("x", 1<<20), nil
		}
		return nil, nil
	}, pyrula.MaxAttempts(2))
	inWorld(t, func(t *testing.T, w *world) {
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		for _, c := range []struct {
			id, status, kind, message string
			calls                     int64
		}{
			{"fine", "completed", "", "", 1},
			{"second time", "completed", "error", "not yet", 2},
			{"never", "failed", "error", "never é", 2},
			{"permanent", "failed", "error", "no", 1},
			{"panics", "failed", "panic", "oh no", 2},
			{"exits", "failed", "panic", "ended its goroutine", 2},
			{"no json", "failed", "result_error", "unsupported type", 1},
			{"too large", "failed", "result_error", "bytes", 1},
		} {
			calls.Store(0)
			n := w.node.count()
			h := start(w, wf, order{ID: c.id})
			if status, err := h.Wait(t.Context()); err != nil || status.Status != c.status || calls.Load() != c.calls {
				t.Errorf("%s: %s after %d calls, %v; want %s after %d", c.id, status.Status, calls.Load(), err, c.status, c.calls)
			}
			f := w.node.run(n).failure
			if f == nil {
				f = &wire.RunError{}
			}
			if f.Type != c.kind || !strings.Contains(f.Message, c.message) || len(f.Message) > 16<<10 {
				t.Errorf("%s: failure %.60q of type %q, want %q of type %q", c.id, f.Message, f.Type, c.message, c.kind)
			}
		}
		if !strings.Contains(w.logs.String(), "worker_test.go") {
			t.Error("the log has no stack of the panic")
		}
		k.end()
	})
}

// TestParamsThatDoNotDecode: a run whose params don't fit In fails without a body.
func TestParamsThatDoNotDecode(t *testing.T) {
	wf := pyrula.Define("charge", func(*pyrula.Run, order) (receipt, error) {
		panic("the body must not start")
	}, pyrula.MaxAttempts(5))
	inWorld(t, func(t *testing.T, w *world) {
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		done, err := w.client.Submit(t.Context(), "charge", map[string]int{"tenant": 7})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.client.Result(t.Context(), done.RunID)
		if f, ok := errors.AsType[*pyrula.RunFailed](err); !ok || f.Type != "params_error" {
			t.Errorf("result %v, want a failure of the params", err)
		}
		k.end()
	})
}

// TestRunIsAContext: a body sees its run, the values of the worker's context, and a
// log that says whose it is.
func TestRunIsAContext(t *testing.T) {
	type key struct{}
	seen := make(chan pyrula.Run, 1)
	wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
		r.Log.Info("charging")
		if _, has := r.Deadline(); has || r.Err() != nil || r.Value(key{}) != "of the worker" || context.Context(r).Done() == nil {
			return receipt{}, errors.New("the context is wrong")
		}
		seen <- *r
		return receipt{}, nil
	}, pyrula.Version("2"), pyrula.Limit{Key: "tenant", Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		seen = make(chan pyrula.Run, 1)
		cfg := pyrula.WorkerConfig{Name: "w1", Logger: slog.New(slog.NewTextHandler(w.logs, nil))}
		worker, err := w.client.NewWorker(cfg, wf)
		if err != nil {
			t.Fatal(err)
		}
		k := w.run(context.WithValue(t.Context(), key{}, "of the worker"), worker)
		h := start(w, wf, order{Tenant: "acme"})
		if _, err := h.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := <-seen
		if r.ID != h.ID || r.Workflow != "charge" || r.Version != "2" || r.Key != "acme" || r.Attempt != 1 || r.Fence != w.node.run(0).fence {
			t.Errorf("run %+v", r)
		}
		want := "msg=charging worker=w1 run_id=" + h.ID + " workflow=charge key=acme attempt=1"
		if !strings.Contains(w.logs.String(), want) {
			t.Errorf("log %s, want %s", w.logs, want)
		}
		k.end()
	})
}

// TestWorkerOutlivesTheNode: a worker asks for as long as its context lives, with
// growing waits, and declares again when the node has forgotten.
func TestWorkerOutlivesTheNode(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		w.net.setFault(func(call) fault { return fault{lost: true} })
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		pass(10 * time.Minute)
		w.net.setFault(nil)
		pass(time.Minute)
		if got := len(w.net.to(wire.PathClaims)); got == 0 {
			t.Fatal("the worker doesn't claim from the node that is back")
		}
		w.net.setFault(func(call) fault { return fault{lost: true} })
		before := len(w.net.to(wire.PathClaims))
		pass(10 * time.Minute)
		if got := len(w.net.to(wire.PathClaims)) - before; got < 15 || got > 60 {
			t.Errorf("%d claims in ten minutes without a node, want some, with waits between them", got)
		}
		w.net.setFault(nil)
		pass(time.Minute)
		w.node.mu.Lock()
		w.node.declared, w.node.changes, w.node.forget = map[string]wire.Declaration{}, 0, true
		w.node.mu.Unlock()
		pass(time.Minute)
		h := start(w, wf, order{})
		if _, err := h.Result(t.Context()); err != nil || w.node.changes != 1 {
			t.Errorf("%v after %d declarations, want a run of a workflow declared again", err, w.node.changes)
		}
		k.end()
	})
}

// TestHastyNode: a node that answers long polls at once, say because it shuts down, is
// not asked in a tight loop.
func TestHastyNode(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		w.node.hasty = true
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		pass(time.Minute)
		k.end()
		if got := len(w.net.to(wire.PathClaims)); got < 20 || got > 100 {
			t.Errorf("%d claims in a minute, want some, with waits between them", got)
		}
		h := start(w, wf, order{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := h.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("result %v, want the end of the context", err)
		}
		if got := len(w.net.to("/v1/runs/" + h.ID + "/result")); got < 20 || got > 1300 {
			t.Errorf("%d polls in a minute, want some, with waits between them", got)
		}
	})
}

// TestWorkerIsRefused: what no repeat can heal ends the worker with the reason.
func TestWorkerIsRefused(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		w.net.setFault(func(c call) fault {
			if c.path == "/v1/workflows/charge" {
				return fault{problem: &wire.Problem{Status: 400, Code: wire.CodeConfiguration, Detail: "no"}}
			}
			return fault{}
		})
		if err := w.client.Work(t.Context(), wf); !errors.Is(err, pyrula.ErrConfiguration) {
			t.Errorf("a refused declaration: %v", err)
		}
		w.net.setFault(func(c call) fault {
			if c.path == wire.PathClaims {
				return fault{problem: &wire.Problem{Status: 422, Code: wire.CodeUnknownField, Detail: "no"}}
			}
			return fault{}
		})
		if err := w.client.Work(t.Context(), wf); !errors.Is(err, pyrula.ErrUnknownField) {
			t.Errorf("a refused claim: %v", err)
		}
	})
}
