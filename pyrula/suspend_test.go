package pyrula_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// tally counts what bodies do, over all their runs.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *tally) add(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[what]++
	return c.calls[what]
}

func (c *tally) sub(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[what]--
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[what]
}

// step is a step of a test: it counts its calls and gives its own name back.
func (c *tally) step(r *pyrula.Run, name string) (string, error) {
	return pyrula.Step(r, name, func(context.Context) (string, error) {
		c.add(name)
		return name, nil
	})
}

// handler is a step's function that counts its calls and gives a value back.
func (c *tally) handler(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		c.add("handler")
		return value, nil
	}
}

// wantFailed wants a run that ended failed, and gives back how.
func wantFailed[Out any](t *testing.T, h *pyrula.Handle[Out], kind string, words ...string) {
	t.Helper()
	_, err := h.Result(t.Context())
	failed, ok := errors.AsType[*pyrula.RunFailed](err)
	if !ok || failed.Type != kind {
		t.Errorf("result %v, want a failure of type %q", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(failed.Message, word) {
			t.Errorf("the message %q doesn't say %q", failed.Message, word)
		}
	}
}

// TestP54_P8SleepSuspends: a body that sleeps ends; its slot and its worker's place are
// free meanwhile, and a run of the same key works in them; when the time is over the body
// is run again from its start, in the same attempt, and its step isn't.
func TestP54_P8SleepSuspends(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		ends := make(chan string, 10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			c.add("body of " + o.ID)
			defer func() { ends <- o.ID }()
			if o.ID == "short" {
				return "short", nil
			}
			got, err := c.step(r, "prepare")
			if err != nil {
				return "", err
			}
			began := time.Now()
			if err := r.Sleep(time.Hour + 300*time.Microsecond); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s in attempt %d after %v", got, r.Attempt, time.Since(began)), nil
		}, pyrula.Limit{Key: "tenant", Max: 1})
		k := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 1}, wf)
		long := start(w, wf, order{Tenant: "acme", ID: "long"})
		synctest.Wait()
		start(w, wf, order{Tenant: "acme", ID: "short"})
		synctest.Wait()
		if a, b := <-ends, <-ends; a != "long" || b != "short" {
			t.Errorf("bodies ended %s, %s", a, b)
		}
		if a, b := w.node.run(0).status.String(), w.node.run(1).status.String(); a != "suspended" || b != "completed" {
			t.Errorf("the sleeping run is %s and the other %s, want its slot and place free", a, b)
		}
		pass(time.Hour)
		if got := w.node.run(0).status.String(); got != "suspended" {
			t.Errorf("the run is %s before its time", got)
		}
		if got, err := long.Result(t.Context()); err != nil || got != "prepare in attempt 1 after 0s" {
			t.Errorf("result %q, %v", got, err)
		}
		if c.of("prepare") != 1 || c.of("body of long") != 2 {
			t.Errorf("calls %v, want two bodies and one step", c.calls)
		}
		want := []string{"step prepare/1", "moment sleep/1"}
		if got := w.node.run(0); !slices.Equal(got.names(), want) || got.failures != 0 {
			t.Errorf("history %q with %d failures, want %q", got.names(), got.failures, want)
		}
		k.end()
	})
}

// TestP54SuspensionEndsTheBody: the body's goroutine ends where it suspends. Its deferred
// calls run, in order and before the node is told; recover has nothing to swallow; what
// comes behind is never reached; and goroutines of the body see the run's context end.
func TestP54SuspensionEndsTheBody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log []string
		told := func() bool { return len(w.net.to(endPath(w, "suspend"))) > 0 }
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if len(log) > 0 {
				return "again", r.Sleep(time.Minute)
			}
			beside := make(chan error)
			go func() {
				<-r.Done()
				beside <- context.Cause(r)
			}()
			defer func() {
				<-time.After(3 * time.Second)
				log = append(log, fmt.Sprint("outer ", told()))
			}()
			defer func() { log = append(log, fmt.Sprint("beside it: ", <-beside)) }()
			defer func() { log = append(log, fmt.Sprint("recovered ", recover())) }()
			func() {
				defer func() {
					if recover() == nil {
						log = append(log, "nothing to recover")
					}
				}()
				err := r.Sleep(time.Minute)
				log = append(log, fmt.Sprint("behind ", err))
			}()
			return "swallowed", nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); got != "again" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		want := []string{"nothing to recover", "recovered <nil>", "beside it: suspended", "outer false"}
		if !slices.Equal(log, want) {
			t.Errorf("the body's end was %q, want %q", log, want)
		}
		k.end()
	})
}

// TestP54PanicWhileSuspending: a deferred call that panics while its body suspends
// changes nothing.
func TestP54PanicWhileSuspending(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if c.add("body") == 1 {
				defer panic("in a deferred call")
			}
			return "done", r.Sleep(time.Minute)
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); got != "done" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		if got := w.node.run(0); got.failures != 0 || c.of("body") != 2 {
			t.Errorf("%d failures and %d bodies, want a suspension", got.failures, c.of("body"))
		}
		k.end()
	})
}

// TestP54SuspendFromAnotherGoroutine: an operation that another goroutine calls ends that
// goroutine and the run's context; the suspension happens when the body has returned, and
// what it returned is dropped.
func TestP54SuspendFromAnotherGoroutine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			c.add("body")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if err := r.Sleep(time.Minute); err != nil {
					t.Error(err)
				}
				c.add("behind")
			}()
			<-ended
			if cause := context.Cause(r); cause != nil && !errors.Is(cause, pyrula.ErrSuspended) {
				t.Errorf("cause %v", cause)
			}
			if r.Err() != nil {
				<-time.After(time.Second)
				if err := r.Sleep(time.Hour); !errors.Is(err, pyrula.ErrSuspended) {
					t.Errorf("an operation of a run that suspends gives %v", err)
				}
				return "", errors.New("to be dropped")
			}
			return "done", nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); got != "done" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		if got := w.node.run(0); got.failures != 0 || c.of("body") != 2 || c.of("behind") != 1 {
			t.Errorf("%d failures, calls %v", got.failures, c.calls)
		}
		k.end()
	})
}

// TestP54PlaceIsFreeAtOnce: the request that suspends a run claims the next one, so a
// worker of one place goes on without waiting.
func TestP54PlaceIsFreeAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			return o.ID, r.Sleep(time.Minute)
		})
		for i := range 6 {
			start(w, wf, order{ID: fmt.Sprint(i)})
		}
		w.net.setFault(func(c call) fault { return fault{delay: time.Millisecond} })
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		pass(time.Second)
		for i := range 6 {
			if got := w.node.run(i).status.String(); got != "suspended" {
				t.Errorf("run %d is %s", i, got)
			}
		}
		carried := 0
		for i := range 6 {
			for _, c := range w.net.to(wire.PathRuns + "/" + w.node.run(i).id + "/suspend") {
				var s wire.Suspend
				if err := json.Unmarshal(c.body, &s); err != nil {
					t.Fatal(err)
				}
				if s.Claim != nil {
					carried += s.Claim.Credit
				}
			}
		}
		if carried < 5 {
			t.Errorf("%d runs were asked for beside suspensions, want those after the first", carried)
		}
		pass(2 * time.Minute)
		for i := range 6 {
			if got := w.node.run(i).status.String(); got != "completed" {
				t.Errorf("run %d is %s", i, got)
			}
		}
		k.end()
	})
}

// TestSleepIsAlwaysAnOperation: whether a sleep is over depends on the clock, and a
// history must not: a sleep of nothing, and until a moment that has passed, stand in it
// too, and a body that sleeps until a moment by the clock isn't led astray when it is run
// again behind that moment.
func TestSleepIsAlwaysAnOperation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		at := time.Now().Add(time.Minute)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			for _, sleep := range []func() error{
				func() error { return r.Sleep(0) },
				func() error { return r.Sleep(time.Until(at)) }, // negative when it is run again
				func() error { return r.SleepUntil(at.Add(-time.Hour)) },
				func() error { return r.SleepUntil(time.Time{}) },
				func() error { return r.Sleep(-time.Hour) },
			} {
				if err := sleep(); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); got != "done" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		if got := w.node.run(0); got.entries() != 5 || time.Until(at) > 0 {
			t.Errorf("history %q, want five sleeps", got.names())
		}
		k.end()
	})
}

// TestRunWithoutAWorker: a Run that no worker holds has no node to record anything at.
func TestRunWithoutAWorker(t *testing.T) {
	var r pyrula.Run
	if err := r.Sleep(time.Second); !errors.Is(err, pyrula.ErrInvalid) {
		t.Errorf("sleep: %v", err)
	}
	if _, err := r.WaitSignal("go", 0); !errors.Is(err, pyrula.ErrInvalid) {
		t.Errorf("wait: %v", err)
	}
	if _, err := r.RunChild("charge", nil); !errors.Is(err, pyrula.ErrInvalid) {
		t.Errorf("child: %v", err)
	}
	if _, err := pyrula.Step(&r, "s", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, pyrula.ErrInvalid) {
		t.Errorf("step: %v", err)
	}
}
