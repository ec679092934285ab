package keyactor

import "github.com/pyrula/pyrula-node/flow"

// sendWant asks the Rate's key for the run's token.
func (k *Key) sendWant(now flow.Instant, w *waiter, out *flow.Out) {
	peer, elsewhere := w.remote(k.id.Workflow)
	r, needs := w.rate()
	if !elsewhere || !needs {
		k.broken("asks for a token that it doesn't need", w.run, 0)
	}
	rec := out.Record(flow.RecAsked, now)
	rec.Key, rec.Peer, rec.Run, rec.Order = k.id, peer, w.run, w.order
	e := out.Send(flow.InWant)
	e.Key, e.Peer, e.Run, e.Order = peer, k.id, w.run, w.order
	e.Interval, e.Burst = r.interval, r.burst
}

// token uses a token that came from the Rate's key, or sends it back: a token is
// never kept, because the time it would be kept for has no bound (R3).
func (k *Key) token(now flow.Instant, in *flow.Input, out *flow.Out) {
	a := k.asks.of(in.Run)
	if a == nil { // the run has left meanwhile (S27)
		k.sendBack(in, out, flow.FlagDropped)
		return
	}
	if in.Flags.Has(flow.FlagCredit) && k.mayUse(a, now) {
		k.grant(now, in.Run, in, out).Flags |= flow.FlagToken
		return
	}
	r := out.Record(flow.RecUnused, now)
	r.Key, r.Run, r.Until = k.id, in.Run, now
	if a.since != 0 {
		r.Until = a.since
	}
	k.sendBack(in, out, 0)
}

// mayUse says whether a run whose token has come may start. It passes older runs
// only as far as they are held by another gate than the Limit (P62); those that
// could start with the next credit keep a slot for each.
func (k *Key) mayUse(a *ask, now flow.Instant) bool {
	if a.reserved {
		return true
	}
	// A token that comes out of turn isn't used before an older run's that asked the
	// same key: that one's was sent back, and it has asked again or will (P61).
	if k.asks.firstOf(a) != a || !k.slotFree(&a.waiter) {
		return false
	}
	if late := k.asks.overdue(now); late != nil && late != a {
		if limit, _ := late.limit(); k.used+1 >= limit {
			return false
		}
	}
	head, waits := k.head()
	if !waits || !head.place.before(a.place) {
		return true
	}
	switch k.check(&head, now).answer {
	case byLimit:
		return false
	case admitted:
		limit, _ := a.limit()
		return k.used+int64(k.waiting.rank(a.waiter)) < limit
	default: // the head still needs its token, so it can't use the slot
		return true
	}
}

// sendBack returns a token to the Rate's key.
func (k *Key) sendBack(in *flow.Input, out *flow.Out, flags flow.Flags) {
	e := out.Send(flow.InUnused)
	e.Key, e.Peer, e.Run, e.Order = in.Peer, k.id, in.Run, in.Order
	e.Interval, e.Burst, e.Before, e.After = in.Interval, in.Burst, in.Before, in.After
	e.Flags = flags
}

// unask takes the want of a run back that is about to leave the queue by another
// way than admission. The record of its leaving does the rest.
func (k *Key) unask(in *flow.Input, out *flow.Out) {
	a := k.asks.of(in.Run)
	if a == nil {
		return
	}
	peer, _ := a.remote(k.id.Workflow)
	e := out.Send(flow.InUnwant)
	e.Key, e.Peer, e.Run = peer, k.id, in.Run
}
