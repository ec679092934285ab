package pyrula

import (
	"sync"
	"time"
)

// trust is what a worker may believe of its lease.
type trust uint8

const (
	trustFresh trust = iota + 1 // at most a third has passed: a body may start
	trustStale                  // still held; before a body starts, a heartbeat must be confirmed
	trustOver                   // lost, passed or ended: for good
)

// startShare is the share of a lease, one third, after which a grant that was read
// late must be confirmed before its body starts, and in which heartbeats follow each
// other (R1).
const startShare = 3

// lease is the worker's side of a lease. It is counted from the SENDING of the last
// request that the node confirmed, because the node can't have counted from any
// earlier moment, and on the monotonic clock, because a wall clock may be set. The
// node waits longer than the worker trusts, so their clocks needn't agree: see the
// package's comment.
//
// A lease that is over stays over, whatever answers still come.
type lease struct {
	span time.Duration
	now  func() time.Time
	lose func() // stops the body; called at most once, without the lock

	mu      sync.Mutex
	from    time.Time   // sending of the last confirmed request
	timer   *time.Timer // calls expire; nil when over
	over    bool
	refused bool // the node said that the run isn't ours

	// changed has a token after each change. The one that waits for a fresh lease
	// reads it.
	changed chan struct{}
}

// newLease is a lease from the sending of the claim that it was granted by.
func newLease(span time.Duration, sent time.Time, now func() time.Time, lose func()) *lease {
	l := &lease{span: span, now: now, lose: lose, from: sent, changed: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.left(), l.expire)
	return l
}

// left is the time that is left to trust. The lock is held.
func (l *lease) left() time.Duration { return l.from.Add(l.span).Sub(l.now()) }

// trust says what may be believed now. It reads the clock itself: a process that was
// stopped finds its timers late, and must not believe the last thing it knew.
func (l *lease) trust() trust {
	t, passed := l.look()
	if passed {
		l.lose()
	}
	return t
}

// look is trust, and whether the lease has passed just now.
func (l *lease) look() (t trust, passed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch left := l.left(); {
	case l.over:
		return trustOver, false
	case left <= 0:
		l.end()
		return trustOver, true
	case left >= l.span-l.span/startShare:
		return trustFresh, false
	}
	return trustStale, false
}

// held says that the worker still holds the run, as far as it can know.
func (l *lease) held() bool { return l.trust() != trustOver }

// confirm extends the lease by a heartbeat that was sent then and is now confirmed.
// A confirmation that comes when the lease has passed changes nothing.
func (l *lease) confirm(sent time.Time) {
	if l.trust() == trustOver {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !sent.After(l.from) {
		return
	}
	l.from = sent
	l.timer.Reset(l.left())
	l.signal()
}

// refuse ends a lease that the node says isn't ours.
func (l *lease) refuse() {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.refused = true
	l.end()
	l.mu.Unlock()
	l.lose()
}

// wasRefused says that the node said so.
func (l *lease) wasRefused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// close ends a lease that is needed no more, without stopping anything.
func (l *lease) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// expire is the timer's call. It looks at the clock again: the lease may have been
// confirmed meanwhile.
func (l *lease) expire() {
	if l.trust() == trustOver {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.timer.Reset(l.left())
	}
}

// end marks the lease as over. The lock is held.
func (l *lease) end() {
	l.over = true
	l.timer.Stop()
	l.signal()
}

// signal leaves a token for the one that waits. The lock is held.
func (l *lease) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}
