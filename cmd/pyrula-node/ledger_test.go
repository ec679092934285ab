package main

import (
	"fmt"
	"sync"
)

// ledger is the outside witness of the kill loop: what was acknowledged, and what
// the bodies saw. It lives in the test's process and outlives every node.
type ledger struct {
	mu    sync.Mutex    // guards everything below
	moved chan struct{} // closed and replaced at each acknowledgement

	acks      int               // acknowledgements of any kind
	ids       map[string]string // idempotency key -> run id, of acknowledged submits
	completed map[string]uint64 // run id -> fence, of acknowledged completions
	cancelled map[string]bool   // run ids whose cancel was acknowledged as having changed something
	ended     map[string]bool   // run ids that are known to have ended
	bodies    map[string]int    // run id -> bodies
	now       map[string]int    // workflow and tenant -> bodies that execute
	most      int               // of now, ever
	faults    []string
}

func newLedger() *ledger {
	return &ledger{
		moved: make(chan struct{}), ids: map[string]string{}, completed: map[string]uint64{}, cancelled: map[string]bool{},
		ended: map[string]bool{}, bodies: map[string]int{}, now: map[string]int{},
	}
}

// note changes the ledger and wakes who waits for it.
func (l *ledger) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.moved)
	l.moved = make(chan struct{})
}

// faultf writes down that a promise was broken.
func (l *ledger) faultf(format string, args ...any) {
	l.note(func() { l.faults = append(l.faults, fmt.Sprintf(format, args...)) })
}

func (l *ledger) submitted(key, id string) {
	l.note(func() {
		if first, known := l.ids[key]; known && first != id {
			l.faults = append(l.faults, fmt.Sprintf("key %s named run %s and then %s", key, first, id))
		}
		l.ids[key] = id
		l.acks++
	})
}

// ending takes an acknowledged completion, which ends a run that somebody has
// cancelled as cancelled.
func (l *ledger) ending(id, status string, fence uint64) {
	l.note(func() {
		l.acks++
		l.ended[id] = true
		if status != "completed" {
			return
		}
		if first, known := l.completed[id]; known && first != fence {
			l.faults = append(l.faults, fmt.Sprintf("run %s was completed with fence %d and with %d", id, first, fence))
		}
		l.completed[id] = fence
	})
}

func (l *ledger) cancelling(id, status string) {
	l.note(func() {
		l.acks++
		l.cancelled[id] = true
		if status == "cancelled" {
			l.ended[id] = true
		}
	})
}

// enter is a body's beginning: the count that must never be above the Limit.
func (l *ledger) enter(key, id string) {
	l.note(func() {
		l.bodies[id]++
		l.now[key]++
		l.most = max(l.most, l.now[key])
		if l.now[key] > slots {
			l.faults = append(l.faults, fmt.Sprintf("%d bodies of %s at once, the last of run %s", l.now[key], key, id))
		}
	})
}

func (l *ledger) leave(key string) { l.note(func() { l.now[key]-- }) }

// until waits for a state of the ledger; ended stops the wait and makes it false.
func (l *ledger) until(ended <-chan struct{}, ready func() bool) bool {
	for {
		l.mu.Lock()
		ok, moved := ready(), l.moved
		l.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-moved:
		case <-ended:
			return false
		}
	}
}
