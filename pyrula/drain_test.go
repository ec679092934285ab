package pyrula_test

import (
	"context"
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

// TestDrainLetsBodiesFinish: a worker that is told to stop claims no more, keeps the
// leases of its bodies, reports them, and ends without an error.
func TestDrainLetsBodiesFinish(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, 20*time.Second)
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		start(w, wf, order{})
		start(w, wf, order{})
		synctest.Wait()
		k.stop()
		began := time.Now()
		if err := <-k.done; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		if a := <-calls; a.cause != nil || time.Since(began) != 20*time.Second {
			t.Errorf("the body ended by %v after %v, want its own end", a.cause, time.Since(began))
		}
		if first, second := w.node.run(0), w.node.run(1); first.status.String() != "completed" || second.attempt != 0 {
			t.Errorf("the first run is %s, the second was granted %d times", first.status, second.attempt)
		}
	})
}

// TestDrainIdle: a worker without work ends at once.
func TestDrainIdle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, _ := watched(w, 0)
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		pass(time.Second)
		began := time.Now()
		k.end()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestDrainUsesNoAttempt: what is undone when the drain timeout is over is handed
// back: queued again, with no failure, and the next worker runs it. A body that ends
// well is reported, one whose error is permanent fails.
func TestDrainUsesNoAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		causes := make(chan error, 10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			if r.Attempt != 1 {
				return receipt{}, errors.New("the drain used an attempt")
			}
			if r.Fence > 3 { // three runs were granted before the drain
				return receipt{Charge: "second"}, nil
			}
			<-r.Done()
			causes <- context.Cause(r)
			switch o.ID {
			case "undone":
				return receipt{}, fmt.Errorf("stopped: %w", r.Err())
			case "permanent":
				return receipt{}, pyrula.Permanent(errors.New("no"))
			}
			return receipt{Charge: "first"}, nil
		}, pyrula.MaxAttempts(1))
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", DrainTimeout: 5 * time.Second}, wf)
		undone := start(w, wf, order{ID: "undone"})
		start(w, wf, order{ID: "permanent"})
		done := start(w, wf, order{ID: "done"})
		synctest.Wait()
		began := time.Now()
		k.end()
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the drain took %v, want its timeout", took)
		}
		for range 3 {
			if err := <-causes; !errors.Is(err, pyrula.ErrDraining) {
				t.Errorf("cause %v, want the drain", err)
			}
		}
		if got := w.node.run(0); got.failures != 0 || got.status.String() != "queued" || !slices.Equal(got.log, []string{"granted to w1", "handed back"}) {
			t.Errorf("the undone run is %s after %q with %d failures", got.status, got.log, got.failures)
		}
		if got := w.node.run(1); got.failure == nil || got.failure.Message != "no" {
			t.Errorf("the permanent failure is %+v", got.failure)
		}
		if first, err := done.Result(t.Context()); err != nil || first.Charge != "first" {
			t.Errorf("the body that ended well: %+v, %v", first, err)
		}
		k = w.work(w.client, pyrula.WorkerConfig{}, wf)
		if second, err := undone.Result(t.Context()); err != nil || second.Charge != "second" {
			t.Errorf("the run that was handed back: %+v, %v", second, err)
		}
		k.end()
	})
}

// TestDrainOfAStubbornBody: a body that ignores its context can't be handed back
// while it works, for two would work at once. The worker ends with an error, the
// lease runs out, and nothing the body says later is sent.
func TestDrainOfAStubbornBody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ended := make(chan struct{})
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			defer close(ended)
			<-time.After(10 * time.Minute)
			return receipt{}, nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", DrainTimeout: -1}, wf)
		h := start(w, wf, order{})
		synctest.Wait()
		k.stop()
		began := time.Now()
		err := <-k.done
		if !errors.Is(err, pyrula.ErrDrainTimeout) || !strings.Contains(err.Error(), h.ID) || time.Since(began) > 5*time.Second {
			t.Errorf("the worker ended with %v after %v, want a drain timeout that names the run", err, time.Since(began))
		}
		pass(time.Minute)
		if got := w.node.run(0); !slices.Equal(got.log, []string{"granted to w1", "expired"}) {
			t.Errorf("life %q, want the end of the lease and nothing else", got.log)
		}
		<-ended
		synctest.Wait()
		if got := w.net.to(wire.PathCompletion); len(got) != 0 {
			t.Errorf("%d reports after the worker's end", len(got))
		}
	})
}

// TestDrainHandsUnstartedRunsBack: a grant that is read while the worker drains
// starts no body.
func TestDrainHandsUnstartedRunsBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf, calls := watched(w, 0)
		start(w, wf, order{})
		w.net.setFault(func(c call) fault {
			switch {
			case c.path == wire.PathClaims && c.nth == 1:
				return fault{delay: 4 * time.Second} // older than a third of its lease: needs a heartbeat
			case c.path == wire.PathHeartbeats:
				return fault{delay: 2 * time.Second}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1"}, wf)
		pass(5 * time.Second)
		k.end()
		if got := w.node.run(0); !slices.Equal(got.log, []string{"granted to w1", "handed back"}) || got.attempt != 1 || len(calls) != 0 {
			t.Errorf("life %q, %d bodies; want the grant handed back", got.log, len(calls))
		}
	})
}
