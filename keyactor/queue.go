package keyactor

import "github.com/pyrula/pyrula-node/flow"

// place is where a run stands in every queue, for life (P7, P52).
type place struct {
	order flow.Instant
	run   flow.RunID
}

func (p place) before(o place) bool {
	if p.order != o.order {
		return p.order < o.order
	}
	return p.run.Compare(o.run) < 0
}

// waiter is a run that wants to be admitted. Nothing of its stamp is copied: a
// queue of a million runs holds a million of these.
type waiter struct {
	place
	stamp   *flow.Stamp // shared with the run, never changed
	started bool        // its token was taken earlier in its life (P53)
}

func (w waiter) before(o waiter) bool { return w.place.before(o.place) }

// limit is the run's max and whether it has a Limit at all.
func (w *waiter) limit() (int64, bool) {
	if w.stamp == nil {
		return 0, false
	}
	if g := w.stamp.Limit(); g != nil {
		return g.Max, true
	}
	return 0, false
}

// rate is the run's Rate, and whether it still has to take a token for it.
func (w *waiter) rate() (rate, bool) {
	if w.stamp == nil || w.started {
		return rate{}, false
	}
	if g := w.stamp.Rate(); g != nil {
		return rate{interval: g.Interval, burst: g.Burst}, true
	}
	return rate{}, false
}

// remote is the key of a Rate that is decided elsewhere (R4), while the run still
// needs its token.
func (w *waiter) remote(workflow string) (flow.KeyID, bool) {
	if w.stamp == nil || w.started {
		return flow.KeyID{}, false
	}
	return w.stamp.Remote(workflow)
}

// localRate is the run's Rate if its token is taken from this key's bucket.
func (k *Key) localRate(w *waiter) (rate, bool) {
	if _, elsewhere := w.remote(k.id.Workflow); elsewhere {
		return rate{}, false
	}
	return w.rate()
}

// Head is the oldest run that waits here and isn't under way to another key, with its
// stamp; ok is false when there is none.
func (k *Key) Head() (run flow.RunID, stamp *flow.Stamp, ok bool) {
	w, ok := k.head()
	return w.run, w.stamp, ok
}

// Asked is the oldest run whose token is asked for at another key, as Head.
func (k *Key) Asked() (run flow.RunID, stamp *flow.Stamp, ok bool) {
	if a := k.asks.oldestAwake(); a != nil {
		return a.run, a.stamp, true
	}
	return run, nil, false
}

// head is the oldest waiting run.
func (k *Key) head() (waiter, bool) { return k.waiting.first() }

// enqueue puts a run at its place. A run that is here already is a programmer's
// error: two admissions of one run would follow.
func (k *Key) enqueue(w waiter) {
	k.show(w.stamp)
	if !k.waiting.put(w) {
		k.broken("queued twice", w.run, 0)
	}
}

// leave takes a run that holds nothing out of the queue, with everything that was
// set aside for it. A suspended run isn't here, and that is fine.
func (k *Key) leave(p place) {
	k.waiting.remove(waiter{place: p})
	if a := k.asks.of(p.run); a != nil {
		if a.reserved {
			k.used--
		}
		k.asks.unfile(a)
	}
}
