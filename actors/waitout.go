package actors

import (
	"context"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/runactor"
)

// waitOut keeps claims waiting after a start that may have lost acknowledged entries
// (R18): a worker may hold a run under a grant that nobody remembers, and while its
// lease can last, nobody else may be admitted in its place. Zero value: no wait.
type waitOut struct {
	mu     sync.Mutex // guards what follows
	begun  bool
	serves bool      // the node has begun to serve
	since  flow.Span // when it did, monotonic
	done   func()    // called once when the wait is over; nil afterwards
}

// WaitOut has claims wait from now until every lease that was granted before this
// start is over: 1.2 times the longest declared lease, and a second. Everything else
// is served. It is called before the node serves; done is called once, from some
// goroutine, when the wait is over.
func (n *Node) WaitOut(done func()) {
	w := &n.waitOut
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.done = true, done
}

// oldLeases is how long leases may last that nobody remembers; zero when none can.
func (n *Node) oldLeases() flow.Span {
	w := &n.waitOut
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		return 0
	}
	now := n.cfg.Clock.Mono()
	since := now
	if w.serves {
		since = w.since
	}
	left := runactor.Expiry(flow.Instant(since), n.registry.longestLease()).Sub(flow.Instant(now))
	w.begun = left > 0
	return max(left, 0)
}

// serveAfterOldLeases starts the wait's clock when the node is ready.
func (n *Node) serveAfterOldLeases() {
	w := &n.waitOut
	w.mu.Lock()
	begun := w.begun
	w.serves, w.since = true, n.cfg.Clock.Mono()
	w.mu.Unlock()
	if begun {
		n.cfg.Logger.Warn("acknowledged changes may have been lost with the machine: claims wait until old leases are over",
			"for", time.Duration(n.oldLeases()))
		n.watchOldLeases()
	}
}

// watchOldLeases calls done when the wait is over. A lease that is declared meanwhile
// can make it longer.
func (n *Node) watchOldLeases() {
	if left := n.oldLeases(); left > 0 {
		n.cfg.Clock.After(left, n.watchOldLeases)
		return
	}
	n.waitOut.mu.Lock()
	done := n.waitOut.done
	n.waitOut.done = nil
	n.waitOut.mu.Unlock()
	if done != nil && !n.closing.Load() {
		done()
	}
}

// waitForOldLeases waits at most as long as a claim does, and returns what is left of
// that; over is false when old leases last longer than the claim waits.
func (n *Node) waitForOldLeases(ctx context.Context, wait flow.Span) (left flow.Span, over bool, err error) {
	for wait >= 0 {
		old := n.oldLeases()
		if old == 0 {
			return wait, true, nil
		}
		pause := min(old, wait)
		if pause == 0 {
			return 0, false, nil
		}
		if err := sleep(ctx, n.cfg.Clock, pause); err != nil {
			return 0, false, err
		}
		wait -= pause
	}
	return 0, false, nil
}

// longestLease is the longest lease of any declaration.
func (r *registry) longestLease() flow.Span {
	longest := flow.Span(0)
	m := r.byWorkflow.Load()
	if m == nil {
		return longest
	}
	for _, list := range *m { //tidy:ordered a maximum
		for _, d := range list {
			longest = max(longest, d.Lease)
		}
	}
	return longest
}
