package pyrula_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// TestR13HistoryOfManyPages: what the grant has no room for is read page by page before
// the body starts; the body is given all of it.
func TestR13HistoryOfManyPages(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		large := strings.Repeat("x", 300<<10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (int, error) {
			size := 0
			for i := range 6 {
				got, err := pyrula.Step(r, "large", c.handler(fmt.Sprint(i, large)))
				if err != nil {
					return 0, err
				}
				if !strings.HasPrefix(got, fmt.Sprint(i)) {
					t.Errorf("step %d gives what %.1s gave", i, got)
				}
				size += len(got)
			}
			if err := r.Sleep(time.Second); err != nil {
				return 0, err
			}
			_, err := c.step(r, "last")
			return size, err
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		if got, err := h.Result(t.Context()); err != nil || got != 6*(300<<10+1) {
			t.Errorf("result %d, %v", got, err)
		}
		if c.of("handler") != 6 || c.of("last") != 1 {
			t.Errorf("calls %v", c.calls)
		}
		if pages := len(w.sent(h.ID, "steps")) - 7; pages < 2 {
			t.Errorf("%d pages were read, want some", pages)
		}
		k.end()
	})
}

// paged is a run at a node whose pages hold two entries: five steps, a sleep, and a step
// behind them. The history is four pages in all, the first in the grant.
func paged(w *world, c *tally) *pyrula.Workflow[order, string] {
	w.node.pageOf = 2
	return pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
		for i := range 5 {
			if _, err := c.step(r, fmt.Sprint("step ", i)); err != nil {
				return "", err
			}
		}
		if err := r.Sleep(time.Second); err != nil {
			return "", err
		}
		return c.step(r, "last")
	}, pyrula.MaxAttempts(2), pyrula.RetryBackoff(time.Second))
}

// pages are the cursors of the pages that were read.
func pages(w *world) []string {
	var list []string
	for _, c := range w.net.to(endPath(w, "steps")) {
		if c.method == "GET" {
			list = append(list, c.query)
		}
	}
	return list
}

// TestR13PagesInOrder: pages are asked for one after another, each once, and again when
// their answer is lost.
func TestR13PagesInOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := paged(w, &c)
		cutOnce := true
		w.net.setFault(func(c call) fault {
			if c.method == "GET" && c.query == "after=4" && cutOnce {
				cutOnce = false
				return fault{cut: true}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); err != nil || got != "last" {
			t.Errorf("result %q, %v", got, err)
		}
		for i := range 5 {
			if got := c.of(fmt.Sprint("step ", i)); got != 1 {
				t.Errorf("step %d was run %d times", i, got)
			}
		}
		if got := pages(w); !slices.Equal(got, []string{"after=2", "after=4", "after=4"}) {
			t.Errorf("pages %q", got)
		}
		k.end()
	})
}

// TestR13PageIsRefused: a history that the node refuses fails the attempt; the body isn't
// started without it.
func TestR13PageIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := paged(w, &c)
		w.node.refuse = []refusal{{kind: "history", request: 0, err: errors.New("a fault")}}
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); err != nil || got != "last" {
			t.Errorf("result %q, %v", got, err)
		}
		if run := w.node.run(0); run.failures != 1 || run.attempt != 2 || c.of("step 0") != 1 || c.of("last") != 1 {
			t.Errorf("%d failures, %d attempts, calls %v", run.failures, run.attempt, c.calls)
		}
		k.end()
	})
}

// TestR13CancelWhileReading: a run that is to end while its history is read has a body that
// isn't started, and ends.
func TestR13CancelWhileReading(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := paged(w, &c)
		w.net.setFault(func(c call) fault { return fault{lost: c.method == "GET" && c.query == "after=4"} })
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		pass(5 * time.Second)
		if err := h.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); !errors.Is(err, pyrula.ErrRunCancelled) {
			t.Errorf("result %v", err)
		}
		if c.of("last") != 0 {
			t.Error("the body went on without its history")
		}
		k.end()
	})
}

// TestR13HistoryTooLargeAtANode: a body that records more than a run may keep fails its run
// with that type, and is told.
func TestR13HistoryTooLargeAtANode(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		told := make(chan error, 1)
		large := strings.Repeat("x", 900<<10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (int, error) {
			for n := 0; ; n++ {
				_, err := pyrula.Step(r, "large", func(context.Context) (string, error) { return large, nil })
				if err != nil {
					told <- err
					return n, err
				}
			}
		}, pyrula.MaxAttempts(3))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		wantFailed(t, h, "history_too_large")
		if err := <-told; !errors.Is(err, pyrula.ErrHistoryTooLarge) || w.status(h.ID).Attempt != 1 {
			t.Errorf("told %v in attempt %d", err, w.status(h.ID).Attempt)
		}
		k.end()
	})
}
