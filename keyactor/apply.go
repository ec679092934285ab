package keyactor

import "github.com/pyrula/pyrula-node/flow"

// Apply makes a fact part of the state. It is the only mutation and never
// fails; a record that contradicts the state is a programmer's error and panics.
// For the records of a run its caller has filled in Order, Stamp and FlagStarted.
// Records that don't concern a key change nothing.
func (k *Key) Apply(rec *flow.Record) {
	k.forget(rec.At)
	switch rec.Kind {
	case flow.RecSubmitted, flow.RecWoken:
		k.enqueue(waiter{
			place: place{order: rec.Order, run: rec.Run}, stamp: rec.Stamp,
			started: rec.Flags.Has(flow.FlagStarted),
		})
	case flow.RecAdmitted:
		k.applyAdmitted(rec)
	case flow.RecCompleted, flow.RecRetrying, flow.RecSuspended:
		k.free(rec.Run, rec.Fence)
	case flow.RecExpired:
		// Freed and queued again by one record: there is no instant between (P50).
		k.enqueue(k.free(rec.Run, rec.Fence).waiter)
	case flow.RecCancelled, flow.RecFailed, flow.RecContinued:
		k.applyEnded(rec)
	case flow.RecTerminated:
		if rec.Fence != 0 {
			k.terminate(rec.Run, rec.Fence)
		} else {
			k.applyEnded(rec)
		}
	case flow.RecHoldFreed:
		if h := k.free(rec.Run, rec.Fence); !h.terminated {
			k.broken("a hold was freed whose run hasn't ended", rec.Run, rec.Fence)
		}
	default:
		k.applyOwn(rec)
	}
}

// applyOwn applies the records of a key alone.
func (k *Key) applyOwn(rec *flow.Record) {
	switch rec.Kind {
	case flow.RecAsked:
		k.applyAsked(rec)
	case flow.RecUnused:
		k.applyUnused(rec)
	case flow.RecReserved:
		k.applyReserved(rec)
	case flow.RecWanted:
		k.setWant(wantOf(rec, true))
	case flow.RecUnwanted:
		k.dropWant(rec.Run)
	case flow.RecTokenGiven:
		k.dropWant(rec.Run)
		k.tat = rec.After
	case flow.RecTokenBack:
		if !rec.Flags.Has(flow.FlagForfeited) {
			k.tat = rec.Before
		}
		if rec.Flags.Has(flow.FlagDropped) {
			k.dropWant(rec.Run)
		} else if k.wants.of(rec.Run) == nil {
			k.setWant(wantOf(rec, false))
		}
	case flow.RecBatchOpened, flow.RecEvent, flow.RecBatchDue, flow.RecBatchCut:
		k.applyBatch(rec)
	default: // the rest are facts of a run that its key needn't know
	}
}

// forget brings the key to its canonical form for the instant: the same whether
// or not it was dropped from memory while it was idle.
func (k *Key) forget(at flow.Instant) {
	k.tat = settled(k.tat, at)
	if k.asks.len() == 0 {
		k.asks = nil
	}
	if k.wants.len() == 0 {
		k.wants = nil
	}
	if k.tat == 0 && k.empty() {
		k.shown = shown{}
	}
}

func (k *Key) applyAdmitted(rec *flow.Record) {
	p := place{order: rec.Order, run: rec.Run}
	w, waits := k.waiting.remove(waiter{place: p})
	if a := k.asks.of(rec.Run); a != nil {
		k.asks.unfile(a)
		if a.reserved {
			k.used-- // the slot set aside becomes the slot taken
		}
		w, waits = a.waiter, true
	}
	if !waits {
		k.broken("admitted without waiting", rec.Run, rec.Fence)
	}
	if rec.Flags.Has(flow.FlagToken) && rec.After != 0 {
		k.tat = rec.After
	}
	k.hold(w, rec.Fence)
}

func (k *Key) applyEnded(rec *flow.Record) {
	if rec.Fence != 0 {
		k.free(rec.Run, rec.Fence)
		return
	}
	if h, held := k.holds(rec.Run); held {
		k.broken("ended as if nobody held it", rec.Run, h.fence)
	}
	k.leave(place{order: rec.Order, run: rec.Run})
}

func (k *Key) applyAsked(rec *flow.Record) {
	w, waits := k.waiting.remove(waiter{place: place{order: rec.Order, run: rec.Run}})
	if !waits {
		k.broken("asked without waiting", rec.Run, 0)
	}
	a := k.asks.of(rec.Run)
	if a == nil {
		a = &ask{waiter: w}
	} else {
		k.asks.unfile(a)
	}
	a.awake = true
	k.addAsk(a)
}

func (k *Key) applyUnused(rec *flow.Record) {
	a := k.asks.of(rec.Run)
	if a == nil {
		k.broken("unused without having asked", rec.Run, 0)
	}
	k.asks.unfile(a)
	a.awake, a.since = false, rec.Until
	k.asks.file(a)
	k.waiting.put(a.waiter)
}

func (k *Key) applyReserved(rec *flow.Record) {
	a := k.asks.of(rec.Run)
	if a == nil || a.reserved {
		k.broken("a slot set aside twice, or for nobody", rec.Run, 0)
	}
	k.asks.unfile(a)
	a.reserved = true
	k.asks.file(a)
	k.used++
}

func wantOf(rec *flow.Record, awake bool) *want {
	return &want{
		place: place{order: rec.Order, run: rec.Run}, peer: rec.Peer,
		rate: rate{interval: rec.Interval, burst: rec.Burst}, awake: awake,
	}
}
