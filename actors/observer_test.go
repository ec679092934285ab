package actors_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
)

// tally counts what an Observer is told.
type tally struct {
	mu       sync.Mutex // guards the fields below
	started  int
	failed   int
	expired  int
	waited   flow.Span
	finished map[flow.Status]int
	took     flow.Span
	events   actors.EventCount
	fired    []actors.BatchFired
}

// RunStarted implements actors.Observer.
func (t *tally) RunStarted(_ string, waited flow.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started++
	t.waited = max(t.waited, waited)
}

// AttemptFailed implements actors.Observer.
func (t *tally) AttemptFailed(string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed++
}

// LeaseExpired implements actors.Observer.
func (t *tally) LeaseExpired(string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expired++
}

// Events implements actors.Observer.
func (t *tally) Events(_ string, n actors.EventCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events.Taken += n.Taken
	t.events.Repeated += n.Repeated
	t.events.Refused += n.Refused
}

// BatchFired implements actors.Observer.
func (t *tally) BatchFired(b actors.BatchFired) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fired = append(t.fired, b)
}

// RunFinished implements actors.Observer.
func (t *tally) RunFinished(_ string, status flow.Status, took flow.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished[status]++
	t.took = max(t.took, took)
}

// TestObserverHearsOfEachRunOnce fails when a start is counted again for a retry, an
// expiry or a restart, or an end is counted twice or not at all.
func TestObserverHearsOfEachRunOnce(t *testing.T) {
	seen := &tally{finished: map[flow.Status]int{}}
	setup{observe: seen}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":9},"lease_seconds":10,"max_attempts":2,"retry_backoff_seconds":0}`)
		ids := w.submitAll(4, "sync", `{"k":"a"}`)
		w.pass(2 * time.Second)
		g := w.claimAll("sync", ids)
		w.pass(3 * time.Second)
		w.complete(g[0])
		w.complete(g[0])
		await(w, w.failing(g[1], true))
		await(w, w.failing(w.claimRun("sync", "1", ids[1]), true))
		w.cancel(ids[2])
		w.complete(g[2])
		w.restart()
		w.pass(expiry + 10*time.Millisecond)
		w.claimRun("sync", "1", ids[3])
		w.terminate(ids[3])
		w.cancel(w.submit("sync", `{"k":"a"}`))
	})
	if seen.started != 4 || seen.waited < 1999*flow.Millisecond || seen.waited > 2*flow.Second {
		t.Errorf("%d starts, the longest wait %d", seen.started, seen.waited)
	}
	if seen.failed != 1 || seen.expired != 1 {
		t.Errorf("%d attempts failed and are tried again, %d leases expired; want 1 of each", seen.failed, seen.expired)
	}
	want := map[flow.Status]int{flow.StatusCompleted: 1, flow.StatusFailed: 1, flow.StatusCancelled: 2, flow.StatusTerminated: 1}
	for status, n := range want {
		if seen.finished[status] != n {
			t.Errorf("%d runs finished %s, want %d", seen.finished[status], status, n)
		}
	}
}
