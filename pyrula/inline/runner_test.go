package inline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
)

// TestMain fails when a closed runner leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type item struct {
	Key string `json:"k"`
	N   int    `json:"n"`
}

// world is an inline runner in virtual time.
type world struct {
	*testing.T
	*inline.Runner
	began time.Time
	lines *lines
}

// play runs f in a bubble. What f waits for is made in there too, or the bubble's time
// wouldn't pass while it waits.
func play(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&world{T: t, began: time.Now(), lines: &lines{}})
	})
}

// serve makes the world's runner; it is closed with the test.
func (w *world) serve(cfg inline.Config, workflows ...pyrula.Definition) {
	w.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(w.lines, nil))
	var err error
	if w.Runner, err = inline.New(cfg, workflows...); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := w.Close(); err != nil {
			w.Error(err)
		}
	})
}

// at is the time since the world began.
func (w *world) at() time.Duration { return time.Since(w.began) }

// until lets time pass until then.
func (w *world) until(at time.Duration) {
	<-time.After(at - w.at())
	synctest.Wait()
}

// outcome is what a Run that was started in the background ended with, and when.
type outcome struct {
	done chan struct{}
	out  string
	err  error
	at   time.Duration
}

// goRun runs a workflow in the background and waits until nothing moves.
func (w *world) goRun(ctx context.Context, r *inline.Runner, wf *pyrula.Workflow[item, string], in item, opts ...pyrula.StartOption) *outcome {
	o := &outcome{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.out, o.err = inline.Run(ctx, r, wf, in, opts...)
		o.at = w.at()
	}()
	synctest.Wait()
	return o
}

// is fails unless the run has given this at that instant.
func (o *outcome) is(w *world, out string, at time.Duration) {
	w.Helper()
	<-o.done
	if o.err != nil || o.out != out || o.at != at {
		w.Errorf("gave %q, %v at %v; want %q at %v", o.out, o.err, o.at, out, at)
	}
}

// gated fails unless the run was given up at the gate at that instant, and is the
// error.
func (o *outcome) gated(w *world, at time.Duration, want inline.RunGatedError) *inline.RunGatedError {
	w.Helper()
	<-o.done
	gated, ok := errors.AsType[*inline.RunGatedError](o.err)
	if !ok || !errors.Is(o.err, inline.ErrRunGated) {
		w.Fatalf("gave %q, %v; want a gated error", o.out, o.err)
	}
	want.RunID = gated.RunID
	if *gated != want || o.at != at {
		w.Errorf("gated error %+v at %v; want %+v at %v", *gated, o.at, want, at)
	}
	return gated
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(p)))
	return len(p), nil
}

// with are the lines that hold a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// held is a workflow whose bodies tell their start and wait for a word.
type held struct {
	wf      *pyrula.Workflow[item, string]
	started chan item
	finish  chan error
}

func newHeld(name string, policies ...pyrula.Policy) *held {
	h := &held{started: make(chan item, 1000), finish: make(chan error)}
	h.wf = pyrula.Define(name, func(r *pyrula.Run, in item) (string, error) {
		h.started <- in
		select {
		case err := <-h.finish:
			return fmt.Sprint(in.Key, in.N), err
		case <-r.Done():
			return "", context.Cause(r)
		}
	}, policies...)
	return h
}

// ran are the numbers of the runs whose bodies have started, in their order.
func (h *held) ran() (numbers []int) {
	for len(h.started) > 0 {
		numbers = append(numbers, (<-h.started).N)
	}
	return numbers
}

var one = pyrula.Limit{Key: "k", Max: 1}

// TestP9LimitHoldsInline fails when more runs of a key than its Limit execute at once,
// when a key holds another one up, or when somebody who waits isn't let in.
func TestP9LimitHoldsInline(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", pyrula.Limit{Key: "k", Max: 2})
		w.serve(inline.Config{}, h.wf)
		var all []*outcome
		for n := range 5 {
			all = append(all, w.goRun(w.Context(), w.Runner, h.wf, item{"a", n}))
		}
		all = append(all, w.goRun(w.Context(), w.Runner, h.wf, item{"b", 5}))
		if got := h.ran(); !slices.Equal(got, []int{0, 1, 5}) {
			w.Fatalf("started %v", got)
		}
		for _, next := range [][]int{{2}, {3}, {4}} {
			w.until(w.at() + time.Second)
			h.finish <- nil
			synctest.Wait()
			if got := h.ran(); len(got) > 1 || len(got) == 1 && got[0] != next[0] {
				w.Errorf("started %v, want %v or none for key b", got, next)
			}
		}
		for range 3 {
			h.finish <- nil
		}
		for _, o := range all {
			if <-o.done; o.err != nil {
				w.Error(o.err)
			}
		}
	})
}

// TestP9RateHoldsInline fails when runs start at other instants than the bucket says.
func TestP9RateHoldsInline(t *testing.T) {
	play(t, func(w *world) {
		wf := pyrula.Define("sync", func(_ *pyrula.Run, in item) (string, error) { return in.Key, nil },
			pyrula.Rate{Key: "k", PerSecond: 2, Burst: 3})
		w.serve(inline.Config{}, wf)
		var all []*outcome
		for n := range 6 {
			all = append(all, w.goRun(w.Context(), w.Runner, wf, item{"a", n}))
		}
		for n, o := range all {
			o.is(w, "a", max(0, time.Duration(n-2)*500*time.Millisecond))
		}
	})
}

// TestP10GateTimeout fails when a gated run isn't given up at the very instant, when one
// that isn't gated is, or when a later wait inherits the time of an earlier one.
func TestP10GateTimeout(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one)
		w.serve(inline.Config{}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		w.until(7 * time.Second)
		b := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 2})
		c := w.goRun(w.Context(), w.WithGateTimeout(1500*time.Millisecond), h.wf, item{"a", 3})
		forever := w.goRun(w.Context(), w.WithGateTimeout(inline.NoGateTimeout), h.wf, item{"a", 4})
		w.until(8499 * time.Millisecond)
		select {
		case <-c.done:
			w.Errorf("given up at %v", c.at)
		default:
		}
		c.gated(w, 8500*time.Millisecond, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: 1500 * time.Millisecond})
		err := b.gated(w, 307*time.Second, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: inline.DefaultGateTimeout})
		if want := "run is gated: run " + err.RunID + ` of workflow "sync" waited 300 s at its limit, key "a"`; err.Error() != want {
			w.Errorf("says %q, want %q", err, want)
		}
		w.until(time.Hour) // a runs on, and is nobody's to give up
		h.finish <- nil
		a.is(w, "a1", time.Hour)
		w.until(time.Hour + time.Second)
		h.finish <- nil
		forever.is(w, "a4", time.Hour+time.Second)
		if got := h.ran(); !slices.Equal(got, []int{1, 4}) {
			w.Errorf("started %v, want none of those that were given up", got)
		}
	})
}

// TestP10P84TimeoutOfZero fails when a run that would have to wait isn't given up at
// once, or when one that needn't is.
func TestP10P84TimeoutOfZero(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one, pyrula.Rate{Key: "k", PerSecond: 0.1})
		w.serve(inline.Config{GateTimeout: new(time.Duration(0))}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		w.goRun(w.Context(), w.Runner, h.wf, item{"a", 2}).gated(w, 0, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a"})
		h.finish <- nil
		a.is(w, "a1", 0)
		w.goRun(w.Context(), w.Runner, h.wf, item{"a", 3}).gated(w, 0, inline.RunGatedError{Workflow: "sync", Gate: "rate", Key: "a"})
		w.until(10 * time.Second)
		b := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 4})
		h.finish <- nil
		b.is(w, "a4", 10*time.Second)
		if got := h.ran(); !slices.Equal(got, []int{1, 4}) {
			w.Errorf("started %v", got)
		}
	})
}

// TestP84GivenUpHoldsNoPlace fails when a run that was given up keeps a place, a slot or
// a token, or isn't cancelled.
func TestP84GivenUpHoldsNoPlace(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one)
		w.serve(inline.Config{GateTimeout: new(time.Second)}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		gated := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 2}).gated(w, time.Second, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: time.Second})
		st, err := w.Client().Status(w.Context(), gated.RunID)
		if err != nil || st.Status != "cancelled" || st.StartedAt != nil {
			w.Errorf("the run that was given up: %+v, %v", st, err)
		}
		k, err := w.Client().Key(w.Context(), "sync", "a")
		if err != nil || k.Queued != 0 || k.Used != 1 {
			w.Errorf("the key: %+v, %v", k, err)
		}
		h.finish <- nil
		a.is(w, "a1", time.Second)
	})
}

// TestP11OneLineNamesTheGate fails when a wait at a gate causes no line after 10 s, more
// than one, or one that doesn't say what waits where; and when a shorter timeout causes
// any.
func TestP11OneLineNamesTheGate(t *testing.T) {
	play(t, func(w *world) {
		h := newHeld("sync", one)
		w.serve(inline.Config{}, h.wf)
		a := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 1})
		w.until(3 * time.Second)
		b := w.goRun(w.Context(), w.Runner, h.wf, item{"a", 2})
		short := w.goRun(w.Context(), w.WithGateTimeout(9999*time.Millisecond), h.wf, item{"a", 3})
		exact := w.goRun(w.Context(), w.WithGateTimeout(10*time.Second), h.wf, item{"a", 4})
		w.until(13*time.Second - 1)
		if got := w.lines.with("gated"); len(got) != 0 {
			w.Fatalf("before 10 s: %q", got)
		}
		w.until(13 * time.Second)
		<-short.done
		id := exact.gated(w, 13*time.Second, inline.RunGatedError{Workflow: "sync", Gate: "limit", Key: "a", Waited: 10 * time.Second}).RunID
		w.until(100 * time.Second)
		h.finish <- nil
		a.is(w, "a1", 100*time.Second)
		got := w.lines.with("gated")
		if len(got) != 2 || len(w.lines.with(id)) != 1 {
			w.Fatalf("lines %q, want one for each of two runs", got)
		}
		for _, want := range []string{"level=INFO", "run_id=run_", "workflow=sync", "gate=limit", "key=a", "waited=10s"} {
			if !strings.Contains(got[0], want) || !strings.Contains(got[1], want) {
				w.Errorf("%q has no %s", got, want)
			}
		}
		h.finish <- nil
		b.is(w, "a2", 100*time.Second)
	})
}

// gatedError is the gated error in err; without one the test ends.
func gatedError(t testing.TB, err error) *inline.RunGatedError {
	t.Helper()
	gated, ok := errors.AsType[*inline.RunGatedError](err)
	if !ok || !errors.Is(err, inline.ErrRunGated) {
		t.Fatalf("gave %v, want a gated error", err)
	}
	return gated
}
