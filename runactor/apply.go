package runactor

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Apply makes a fact part of the run: the only mutation, on the live path and in
// replay. It panics when the record can't follow from the run's state: that is a
// fault of the program, and going on would spread it.
func (r *Run) Apply(rec *flow.Record) {
	r.mustFollow(rec)
	switch rec.Kind {
	case flow.RecSubmitted:
		r.applySubmitted(rec)
	case flow.RecAdmitted:
		r.applyAdmitted(rec)
	case flow.RecRenewed:
		r.past.expiry = rec.Until
	case flow.RecCancelAsked:
		r.marks |= markCancel
		r.past.reason = rec.Reason
	case flow.RecCompleted:
		r.end(rec, flow.StatusCompleted)
		r.past.result = rec.Payload
	case flow.RecFailed:
		r.end(rec, flow.StatusFailed)
		r.past.failures++
		r.past.errType, r.past.errText = rec.ErrType, rec.ErrText
	case flow.RecRetrying:
		r.suspend(rec, markBackoff)
		r.past.failures++
	case flow.RecSuspended:
		r.suspend(rec, suspendMarks(rec.Flags))
	case flow.RecWoken, flow.RecExpired:
		r.requeue(rec)
	case flow.RecCancelled:
		r.end(rec, flow.StatusCancelled)
		r.past.reason = rec.Reason
	case flow.RecTerminated:
		r.terminate(rec)
	case flow.RecHoldFreed:
		r.leave(rec)
	default:
		r.applyRecorded(rec)
	}
	r.note(rec)
}

// applyRecorded takes what a body has recorded, and what came from other runs.
func (r *Run) applyRecorded(rec *flow.Record) {
	b := r.noted()
	switch rec.Kind {
	case flow.RecContinued:
		r.end(rec, flow.StatusContinued)
		b.successor = rec.Other
		b.signals, b.waiters, b.bytes = nil, nil, 0 // the successor has them
	case flow.RecStep:
		b.fresh = 0
		b.add(*itemOf(rec))
	case flow.RecSignalled:
		b.keep(flow.Signal{Number: rec.Number, Name: rec.Name, Payload: rec.Payload, RequestID: rec.RequestID, At: rec.At})
	case flow.RecTaken:
		b.hand(rec.Number, rec.Name, rec.Visit)
	case flow.RecState:
		b.fresh = 0
		b.bytes += len(rec.Payload) - len(b.state)
		b.state = rec.Payload
	case flow.RecStarted:
		b.fresh = 0
		b.add(*startedItem(rec))
	case flow.RecWatched:
		b.waiters = append(b.waiters, flow.Waiter{Waits: rec.Other, Asked: rec.Root, Number: rec.Number})
	case flow.RecTold:
		b.told(flow.Waiter{Waits: rec.Other, Asked: rec.Root, Number: rec.Number})
	case flow.RecOutcome:
		r.learn(rec)
	case flow.RecChainOver:
		b.chain = rec.At
	default: // a key's own facts: no state takes one, so mustFollow has panicked
	}
}

func (r *Run) applySubmitted(rec *flow.Record) {
	r.status = flow.StatusQueued
	r.order = rec.Order
	r.workflow = rec.Workflow
	r.params = rec.Payload
	r.stamp = rec.Stamp
	r.trigger = rec.Trigger
	r.idempotencyKey = rec.IdempotencyKey
	r.requestID = rec.RequestID
	if (lineage{rec.Other, rec.Root, rec.Parent, rec.Origin}) != (lineage{}) {
		r.from = &lineage{rec.Other, rec.Root, rec.Parent, rec.Origin}
	}
	r.unpack(rec.Extra)
	if r.stamp == nil {
		r.stamp = new(flow.Stamp) // no gates and no version needn't be written
	}
}

func (r *Run) applyAdmitted(rec *flow.Record) {
	p := r.touched()
	if p.fence == 0 {
		p.started = rec.At
	}
	if !r.marks.has(markSuspended) {
		p.attempt++
	}
	r.status = flow.StatusExecuting
	r.marks = markHeld
	p.fence = rec.Fence
	p.worker, p.version = rec.Worker, rec.Version
	p.lease, p.backoff, p.attempts = rec.Lease, rec.Backoff, rec.Attempts
	p.expiry = Expiry(rec.At, rec.Lease)
}

// leave ends a hold, if there is one, and remembers the request that did it.
func (r *Run) leave(rec *flow.Record) {
	p := r.touched()
	r.marks &^= markHeld
	p.expiry = 0
	if e, ok := endingOf(rec); ok {
		p.last = e
	}
}

// unpack takes over what a predecessor left (P76).
func (r *Run) unpack(luggage []byte) {
	l, err := flow.DecodeLuggage(luggage)
	if err != nil {
		panic(fmt.Sprintf("runactor: run %v: %v", r.id, err))
	}
	if l.Empty() {
		return
	}
	b := r.noted()
	for _, s := range l.Signals {
		b.keep(s)
	}
	b.last, b.waiters = l.Last, l.Waiters
}

func (r *Run) suspend(rec *flow.Record, m marks) {
	r.leave(rec)
	r.status = flow.StatusSuspended
	r.marks |= m
	p := r.past
	p.until, p.since = rec.Until, rec.At
	if k := waitOf(rec.Flags); k != waitNone {
		b := r.noted()
		b.fresh = 0
		b.wait = wait{kind: k, name: rec.Name, visit: rec.Visit, number: r.nextPlace()}
		if k == waitRuns {
			b.wait.awaited = flow.DecodeRunIDs(rec.Extra)
			b.wait.known = make([]Outcome, len(b.wait.awaited))
			b.wait.ended = make([]bool, len(b.wait.awaited))
		}
		b.bytes += b.wait.bytes()
	}
}

func suspendMarks(f flow.Flags) marks {
	if f.Has(flow.FlagAbsolute) {
		return markSuspended | markAbsolute
	}
	return markSuspended
}

// requeue keeps the order key: the run goes back to its old place (P52).
func (r *Run) requeue(rec *flow.Record) {
	r.leave(rec)
	r.status = flow.StatusQueued
	r.marks &^= suspendedMarks
	p := r.past
	if rec.Kind == flow.RecWoken {
		r.closeWait(rec)
	}
	p.until, p.since = 0, rec.At
}

// closeWait writes the wait that is over into the history.
func (r *Run) closeWait(rec *flow.Record) {
	b := r.past.book
	if b == nil {
		return
	}
	w := b.wait
	b.bytes -= w.bytes()
	b.wait = wait{}
	it := Item{Name: w.name, Visit: w.visit}
	switch w.kind {
	case waitNone:
		return
	case waitMoment:
		it.Kind = ItemMoment
	case waitSignal:
		if rec.Number != 0 {
			b.hand(rec.Number, w.name, w.visit)
			return
		}
		it.Kind = ItemTimeout
	case waitRuns:
		it.Kind, it.Runs, it.Outcomes = ItemRuns, w.awaited, w.known
	}
	b.add(it)
}

// end makes the run's end. An end out of a suspension leaves no deadline behind.
func (r *Run) end(rec *flow.Record, s flow.Status) {
	r.leave(rec)
	r.status = s
	r.marks &= markCancel
	if b := r.past.book; b != nil {
		b.bytes -= b.wait.bytes()
		b.wait = wait{}
	}
	r.past.until = 0
	r.past.ended = rec.At
}

// terminate ends the run but leaves its holder, if it has one, in place.
func (r *Run) terminate(rec *flow.Record) {
	held, expiry := r.marks&markHeld, r.touched().expiry
	r.end(rec, flow.StatusTerminated)
	r.marks |= held
	r.past.expiry = expiry
	r.past.reason = rec.Reason
}

// statuses is a set of statuses; bit 0 is "not submitted yet".
type statuses uint16

func set(all ...flow.Status) statuses {
	var s statuses
	for _, one := range all {
		s |= 1 << one
	}
	return s
}

// from says in which statuses a record may find its run.
func from(k flow.RecordKind) statuses {
	switch k {
	case flow.RecSubmitted:
		return set(0)
	case flow.RecAdmitted:
		return set(flow.StatusQueued)
	case flow.RecWoken:
		return set(flow.StatusSuspended)
	case flow.RecFailed:
		return set(flow.StatusExecuting, flow.StatusSuspended)
	case flow.RecCompleted, flow.RecRetrying, flow.RecSuspended,
		flow.RecExpired, flow.RecCancelAsked:
		return set(flow.StatusExecuting)
	case flow.RecCancelled, flow.RecTerminated:
		return set(flow.StatusQueued, flow.StatusExecuting, flow.StatusSuspended)
	case flow.RecRenewed:
		return set(flow.StatusExecuting, flow.StatusTerminated)
	case flow.RecHoldFreed:
		return set(flow.StatusTerminated)
	case flow.RecContinued:
		return set(flow.StatusQueued)
	case flow.RecStep, flow.RecTaken, flow.RecState, flow.RecStarted:
		return set(flow.StatusExecuting)
	case flow.RecSignalled, flow.RecWatched:
		return set(flow.StatusQueued, flow.StatusExecuting, flow.StatusSuspended)
	case flow.RecOutcome:
		return set(flow.StatusSuspended)
	case flow.RecChainOver:
		return set(flow.StatusContinued)
	case flow.RecTold:
		return set(flow.StatusCompleted, flow.StatusFailed, flow.StatusCancelled, flow.StatusTerminated)
	default: // a key's own facts find no run
		return 0
	}
}

// mustFollow panics unless rec may follow from the run's state.
func (r *Run) mustFollow(rec *flow.Record) {
	ok := rec.Run == r.id && from(rec.Kind)&(1<<r.status) != 0
	switch rec.Kind {
	case flow.RecSubmitted, flow.RecSignalled, flow.RecWatched, flow.RecTold:
	case flow.RecWoken:
		ok = ok && (rec.Number == 0 || r.peek().wait.kind == waitSignal && r.keeps(rec.Number))
	case flow.RecTaken:
		ok = ok && r.holds(rec.Fence) && r.keeps(rec.Number)
	case flow.RecStep, flow.RecState, flow.RecStarted:
		ok = ok && r.holds(rec.Fence)
	case flow.RecOutcome:
		ok = ok && r.peek().wait.open(rec.Root) >= 0
	case flow.RecContinued:
		ok = ok && !r.Started() && !rec.Other.IsZero()
	case flow.RecChainOver:
		ok = ok && r.peek().chain == 0
	case flow.RecAdmitted:
		ok = ok && rec.Fence > r.Fence()
	case flow.RecCancelAsked:
		ok = ok && !r.CancelAsked()
	case flow.RecFailed:
		// Out of a suspension nobody holds the run; else its holder fails it.
		ok = ok && !r.CancelAsked() && (r.holds(rec.Fence) || (r.status == flow.StatusSuspended && rec.Fence == 0))
	case flow.RecCancelled, flow.RecTerminated:
		// A fence stands there exactly when somebody holds the run.
		ok = ok && (r.holds(rec.Fence) || (!r.Held() && rec.Fence == 0))
	case flow.RecRenewed, flow.RecHoldFreed:
		ok = ok && r.holds(rec.Fence)
	default:
		ok = ok && r.holds(rec.Fence) && !r.CancelAsked() // S62: a run that was asked to stop goes nowhere else
	}
	if !ok {
		panic(fmt.Sprintf("runactor: run %v (%v, fence %d, held %t) can't take %v of run %v with fence %d",
			r.id, r.status, r.Fence(), r.Held(), rec.Kind, rec.Run, rec.Fence))
	}
}
