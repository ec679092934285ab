package inline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
)

// TestP10P84GateOpensWhileARunLeaves fails when a grant reaches its body although the
// run has left, or doesn't although it stays.
func TestP10P84GateOpensWhileARunLeaves(t *testing.T) {
	for _, left := range []bool{true, false} {
		t.Run(fmt.Sprintf("left %t", left), func(t *testing.T) {
			scenario(t, func(s *stage) {
				if s.kind == "node" {
					s.Skip("a node has no gate timeout")
				}
				c := newCrew("sync", one)
				s.open(0, c.wf)
				runs := s.submitAll(c, 3, "a")
				s.started(c, runs[0])
				decide, forget := inline.Mark(s.inline, runs[1])
				s.end(c, runs[0])
				s.started(c) // its grant is on the way, and waits
				s.is(runs[1], "executing")
				if left {
					s.must(s.client.Cancel(s.Context(), runs[1], "enough"))
				}
				decide(left)
				s.settle()
				forget()
				if left {
					s.is(runs[1], "cancelled")
					s.started(c, runs[2])
					return
				}
				s.started(c, runs[1])
				s.end(c, runs[1])
				s.is(runs[1], "completed")
			})
		})
	}
}

// TestP84OnlyAQueuedRunLeaves fails when a run whose body works is cancelled by a gate
// timeout that came too late.
func TestP84OnlyAQueuedRunLeaves(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one)
		w.serve(inline.Config{}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		b, err := h.wf.Start(w.Context(), w.Client(), item{"a", 2})
		if err != nil {
			w.Fatal(err)
		}
		list, err := w.Client().List(w.Context(), pyrula.ListQuery{Workflow: "sync"})
		if err != nil || len(list.Runs) != 2 {
			w.Fatalf("%+v, %v", list, err)
		}
		for _, run := range list.Runs {
			if left, err := inline.Leave(w.Context(), w.Runner, run.RunID); left != (run.RunID == b.ID) || err != nil {
				w.Errorf("a run that is %s left: %t, %v", run.Status, left, err)
			}
		}
		w.until(time.Minute)
		h.finish <- nil
		a.is(w, "a1", time.Minute)
		if _, err := b.Result(w.Context()); !errors.Is(err, pyrula.ErrRunCancelled) {
			w.Errorf("the run that left: %v", err)
		}
	})
}

// TestP10P84RaceOfTimeoutAndStart fails when a run whose gate opens in the very instant
// of its timeout both starts and is given up, or neither, or when who comes behind it
// waits on.
func TestP10P84RaceOfTimeoutAndStart(t *testing.T) {
	const pairs = 200
	play(t, func(w *world) {
		h := newCrew("sync", one)
		w.serve(inline.Config{GateTimeout: new(time.Second)}, h.wf)
		s := &stage{T: w.T, kind: "inline", began: w.began, inline: w.Runner, client: w.Client()}
		waits := make([]*outcome, pairs)
		first := make([]string, pairs)
		for i := range pairs {
			first[i] = s.submit(h, fmt.Sprint(i))
			waits[i] = w.goRun(w.Context(), w.Runner, h.wf, item{Key: fmt.Sprint(i)})
		}
		s.begun(h)
		h.auto.Store(true)
		<-time.After(time.Second)
		for _, run := range first { // and nothing settles in between
			h.mu.Lock()
			h.held[run] <- nil
			h.mu.Unlock()
		}
		gated := 0
		for _, o := range waits {
			if <-o.done; o.err == nil {
				continue
			}
			gated++
			s.is(gatedError(w, o.err).RunID, "cancelled")
		}
		s.settle()
		log := s.begun(h)
		if len(log) != pairs-gated {
			w.Errorf("%d bodies have started, and %d of %d were given up", len(log), gated, pairs)
		}
		for i := range pairs {
			if k := s.key("sync", fmt.Sprint(i)); k.Used != 0 || k.Queued != 0 {
				w.Errorf("key %d: %+v", i, k)
			}
		}
		if n := inline.Marked(w.Runner); n != 0 {
			w.Errorf("%d runs are about to leave for ever", n)
		}
		w.Logf("%d of %d were given up", gated, pairs)
	})
}

// TestP10LaterWaitBeginsAnew fails when the time of a wait is counted from the submit
// although the run has been out of the queue since, or when it isn't told of again.
func TestP10P11LaterWaitBeginsAnew(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one, pyrula.MaxAttempts(3), pyrula.RetryBackoff(10*time.Minute))
		w.serve(inline.Config{GateTimeout: new(20 * time.Second)}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		b := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 2})
		w.until(15 * time.Second) // b is told of
		h.finish <- nil
		a.is(w, "a1", 15*time.Second)
		w.until(16 * time.Second)
		h.finish <- errors.New("no luck") // b goes into its back-off
		c := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 3})
		w.until(16*time.Second + 10*time.Minute)
		if got := w.lines.with("gated"); len(got) != 1 {
			w.Fatalf("lines %q, want one of the first wait", got)
		}
		b.gated(w, 36*time.Second+10*time.Minute, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: 20 * time.Second})
		if got := w.lines.with("gated"); len(got) != 2 {
			w.Errorf("lines %q, want one of each wait", got)
		}
		h.finish <- nil
		c.is(w, "a3", w.at())
	})
}

// TestP10P11WaitThatBeginsUnseen fails when a wait that begins at any instant, by a signal
// that nobody foresaw, is told of or given up later than it should.
func TestP10P11WaitThatBeginsUnseen(t *testing.T) {
	for _, timeout := range []time.Duration{25 * time.Second, 1700 * time.Millisecond} {
		play(t, func(w *world) {
			release := make(chan struct{})
			wf := pyrula.Define("sync", func(r *pyrula.Run, in item) (string, error) {
				if in.N == 0 {
					if _, err := r.WaitSignal("go", 0); err != nil {
						return "", err
					}
				}
				<-release
				return "done", nil
			}, one)
			w.serve(inline.Config{GateTimeout: &timeout}, wf)
			unseenWaits(w, wf, timeout)
			close(release)
			synctest.Wait()
		})
	}
}

// unseenWaits has runs of several keys wait for a signal, then for a slot.
func unseenWaits(w *world, wf *pyrula.Workflow[item, string], timeout time.Duration) {
	w.Helper()
	const keys = 10
	var waits []*outcome
	for k := range keys {
		waits = append(waits, w.goRun(w.Context(), w.Runner, wf, item{fmt.Sprint(k), 0}))
		if _, err := wf.Start(w.Context(), w.Client(), item{fmt.Sprint(k), 1}); err != nil {
			w.Fatal(err)
		}
	}
	suspended, err := w.Client().List(w.Context(), pyrula.ListQuery{Workflow: "sync", Status: "suspended"})
	if err != nil || len(suspended.Runs) != keys {
		w.Fatalf("%d runs wait for a signal, %v", len(suspended.Runs), err)
	}
	var begun []time.Duration
	for k := range keys { // 133.3 s, 136.6 s, ...: at no look
		w.until(130*time.Second + time.Duration(k+1)*3300*time.Millisecond)
		begun = append(begun, w.at())
		run := suspended.Runs[slices.IndexFunc(suspended.Runs, func(r pyrula.RunStatus) bool { return r.Gates[0].Key == fmt.Sprint(k) })]
		if _, err := w.Client().Signal(w.Context(), run.RunID, "go", nil); err != nil {
			w.Fatal(err)
		}
	}
	for k, o := range waits {
		o.gated(w, begun[k]+timeout, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: fmt.Sprint(k), Waited: timeout})
		lines := w.lines.with(fmt.Sprintf("key=%d ", k))
		if timeout < 10*time.Second && len(lines) == 0 {
			continue
		}
		at := "time=" + w.began.Add(begun[k]+10*time.Second).Format("2006-01-02T15:04:05.000Z07:00")
		if len(lines) != 1 || !strings.HasPrefix(lines[0], at) {
			w.Errorf("timeout %v: lines %q, want one at %s", timeout, lines, at)
		}
	}
}

// TestP84OpenRateInAnotherShard fails when the message to a Rate that is open counts as a
// wait at it.
func TestP84OpenRateInAnotherShard(t *testing.T) {
	type pair struct {
		X string `json:"x"`
		Y string `json:"y"`
	}
	play(t, func(w *world) {
		wf := pyrula.Define("pair", func(*pyrula.Run, pair) (string, error) { return "done", nil },
			pyrula.Limit{Key: "x", Max: 1000}, pyrula.Rate{Key: "y", PerSecond: 1000})
		w.serve(inline.Config{GateTimeout: new(time.Duration(0))}, wf)
		keys := apart("pair", 2)
		for range 300 {
			if got, err := inline.Run(w.Context(), w.Runner, wf, pair{keys[0], keys[1]}); got != "done" || err != nil {
				w.Fatalf("gave %q, %v", got, err)
			}
		}
	})
}

// TestCallerThatGoes fails when the end of a call's context leaves its body working, or
// is answered with anything but its cause.
func TestCallerThatGoes(t *testing.T) {
	play(t, func(w *world) {
		stopped := make(chan error, 1)
		wf := pyrula.Define("sync", func(r *pyrula.Run, _ item) (string, error) {
			<-r.Done()
			stopped <- context.Cause(r)
			return "", r.Err()
		})
		w.serve(inline.Config{}, wf)
		gone := errors.New("nobody is interested")
		ctx, stop := context.WithCancelCause(w.Context())
		o := w.goRun(ctx, w.Runner, wf, item{})
		stop(gone)
		if <-o.done; !errors.Is(o.err, gone) || o.at != 0 {
			w.Errorf("gave %v at %v", o.err, o.at)
		}
		if err := <-stopped; !errors.Is(err, pyrula.ErrCancelRequested) {
			w.Errorf("the body was stopped by %v", err)
		}
		if o := w.goRun(ctx, w.Runner, wf, item{}); !errors.Is(o.err, gone) {
			w.Errorf("a call without time gave %v", o.err)
		}
	})
}

// TestRunOfAnEarlierCall fails when a call gives up a run that another call has made
// under the same idempotency key.
func TestRunOfAnEarlierCall(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one)
		w.serve(inline.Config{}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		b := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 2}, pyrula.OnceKey("b"))
		w.until(100 * time.Second)
		again := w.goRun(w.Context(), w.WithGateTimeout(time.Second), h.wf, item{"a", 2}, pyrula.OnceKey("b"))
		id := again.gated(w, 101*time.Second, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: time.Second}).RunID
		ctx, stop := context.WithTimeout(w.Context(), time.Second)
		defer stop()
		o := w.goRun(ctx, w.Runner, h.wf, item{"a", 2}, pyrula.OnceKey("b"))
		if <-o.done; !errors.Is(o.err, context.DeadlineExceeded) || !strings.Contains(o.err.Error(), id) {
			w.Errorf("gave %v, want the end of the context and run %s", o.err, id)
		}
		h.finish <- nil
		a.is(w, "a1", 102*time.Second)
		synctest.Wait()
		h.finish <- nil
		b.is(w, "a2", 102*time.Second)
	})
}

// TestClose fails when a close leaves a call or a body waiting, or says other than what
// happened.
func TestClose(t *testing.T) {
	play(t, func(w *world) {
		causes := make(chan error, 1)
		wf := pyrula.Define("sync", func(r *pyrula.Run, _ item) (string, error) {
			<-r.Done()
			causes <- context.Cause(r)
			return "", r.Err()
		}, one)
		w.serve(inline.Config{}, wf)
		executing := w.goRun(w.Context(), w.Runner, wf, item{})
		gated := w.goRun(w.Context(), w.Runner, wf, item{})
		if err := w.Close(); err != nil {
			w.Error(err)
		}
		for _, o := range []*outcome{executing, gated, w.goRun(w.Context(), w.Runner, wf, item{})} {
			if <-o.done; !errors.Is(o.err, pyrula.ErrClosed) || o.at != 0 {
				w.Errorf("gave %v at %v", o.err, o.at)
			}
		}
		if err := <-causes; !errors.Is(err, pyrula.ErrDraining) {
			w.Errorf("the body was stopped by %v", err)
		}
		if _, err := w.Client().Node(w.Context()); !errors.Is(err, pyrula.ErrClosed) {
			w.Errorf("the client says %v", err)
		}
	})
}

// TestCloseOverAStubbornBody fails when a body that ignores the end of its context keeps
// a close for ever, or isn't named by it.
func TestCloseOverAStubbornBody(t *testing.T) {
	play(t, func(w *world) {
		release := make(chan struct{})
		wf := pyrula.Define("sync", func(*pyrula.Run, item) (string, error) {
			<-release
			return "", nil
		})
		r, err := inline.New(inline.Config{Logger: slog.New(slog.DiscardHandler)}, wf)
		if err != nil {
			w.Fatal(err)
		}
		h, err := wf.Start(w.Context(), r.Client(), item{})
		if err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		for range 2 {
			if err := r.Close(); !errors.Is(err, pyrula.ErrDrainTimeout) || !strings.Contains(err.Error(), h.ID) {
				w.Errorf("close says %v", err)
			}
		}
		close(release)
	})
}

// TestWrongConfiguration fails when what can't work isn't refused where it is given.
func TestWrongConfiguration(t *testing.T) {
	ok := pyrula.Define("sync", func(*pyrula.Run, item) (string, error) { return "", nil })
	bad := pyrula.Define("bad", func(*pyrula.Run, item) (string, error) { return "", nil }, pyrula.Limit{Key: "k"})
	for name, c := range map[string]struct {
		cfg       inline.Config
		workflows []pyrula.Definition
	}{
		"a wrong declaration":   {workflows: []pyrula.Definition{ok, bad}},
		"one name twice":        {workflows: []pyrula.Definition{ok, ok}},
		"a concurrency below 1": {cfg: inline.Config{Concurrency: -1}, workflows: []pyrula.Definition{ok}},
	} {
		if r, err := inline.New(c.cfg, c.workflows...); !errors.Is(err, pyrula.ErrConfiguration) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				t.Error(r.Close())
			}
		}
	}
	play(t, func(w *world) {
		w.serve(inline.Config{}, ok)
		other := pyrula.Define("other", func(*pyrula.Run, item) (string, error) { return "", nil })
		if err := w.Serve(); !errors.Is(err, pyrula.ErrConfiguration) {
			w.Errorf("serving nothing: %v", err)
		}
		for _, wf := range []*pyrula.Workflow[item, string]{other, bad} {
			if o := w.goRun(w.Context(), w.Runner, wf, item{}); !errors.Is(o.err, pyrula.ErrConfiguration) {
				w.Errorf("%s: %v", wf.Name(), o.err)
			}
		}
	})
}

// TestServe fails when a workflow that is added to a runner isn't served as the others
// are, or when one is taken after the close.
func TestServe(t *testing.T) {
	play(t, func(w *world) {
		w.serve(inline.Config{})
		first, second := newHeld("first", one), newHeld("second", one)
		for _, h := range []*held{first, second} {
			if err := w.Serve(h.wf); err != nil {
				w.Fatal(err)
			}
			o := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
			w.goRun(w.Context(), w.WithGateTimeout(0), h.wf, item{"a", 2}).gated(w, 0, inline.RunGatedError{Workflow: h.wf.Name(), Gate: "limit", Key: "a"})
			h.finish <- nil
			o.is(w, "a1", 0)
		}
		if err := w.Close(); err != nil {
			w.Error(err)
		}
		if err := w.Serve(first.wf); !errors.Is(err, pyrula.ErrClosed) {
			w.Errorf("serving after the close: %v", err)
		}
	})
}

// TestFailureAndNode fails when a body's failure doesn't come through, or the node inside
// isn't told apart from a server.
func TestFailureAndNode(t *testing.T) {
	play(t, func(w *world) {
		wf := pyrula.Define("sync", func(*pyrula.Run, item) (string, error) {
			return "", pyrula.Permanent(&pyrula.RunFailed{Type: "declined", Message: "no funds"})
		})
		w.serve(inline.Config{}, wf)
		o := w.goRun(w.Context(), w.Runner, wf, item{})
		if failed, ok := errors.AsType[*pyrula.RunFailed](o.err); !ok || failed.Type != "declined" || failed.Message != "no funds" {
			w.Errorf("gave %v", o.err)
		}
		if n, err := w.Client().Node(w.Context()); err != nil || n.NodeID != "inline" || n.DataDir != "" || n.Fsync != "never" {
			w.Errorf("%+v, %v", n, err)
		}
	})
}
