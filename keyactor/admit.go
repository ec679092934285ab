package keyactor

import "github.com/pyrula/pyrula-node/flow"

// answer is what the gates say about a waiting run.
type answer uint8

const (
	admitted answer = iota // every gate lets it start now
	mustAsk                // it may start but for a token that is elsewhere: ask for it
	byLimit                // no slot under its own max
	byRate                 // no token for it in this key's bucket
	byWants                // its token is elsewhere, and each free slot has a want under way
)

// verdict is an answer with its facts. Step, Ready, Due and Explain all read the
// verdict of one function, so the reason shown is the reason used.
type verdict struct {
	answer  answer
	rate    rate         // of the token that an admission takes from this key's bucket; zero if none
	opensAt flow.Instant // for byRate: when the bucket opens for this run
}

// refuses says that a gate holds the run; otherwise only credit is missing.
func (v *verdict) refuses() bool { return v.answer != admitted && v.answer != mustAsk }

// check asks every gate of a waiting run and takes nothing. Whether an older run
// stands before it is not its question; see next.
func (k *Key) check(w *waiter, now flow.Instant) verdict {
	if !k.slotFree(w) {
		return verdict{answer: byLimit}
	}
	if _, elsewhere := w.remote(k.id.Workflow); elsewhere {
		if limit, ok := w.limit(); ok && k.used+k.asks.unslotted() >= limit {
			return verdict{answer: byWants}
		}
		return verdict{answer: mustAsk}
	}
	r, needs := w.rate()
	if !needs {
		return verdict{answer: admitted}
	}
	// A want of an older run takes its token first, and the host gives it as soon as
	// the bucket opens for it.
	if older := k.wants.first(); older != nil && older.before(w.place) {
		turn := k.turnAt()
		return verdict{answer: byRate, opensAt: max(turn, r.opensAt(older.rate.take(k.tat, turn)))}
	}
	if !r.open(k.tat, now) {
		return verdict{answer: byRate, opensAt: r.opensAt(k.tat)}
	}
	return verdict{answer: admitted, rate: r}
}

// action is what one unit of credit can do.
type action uint8

const (
	nothing action = iota
	admit          // the run is admitted
	askFor         // its token is asked for
	reserve        // a slot is set aside for it, and if it rests its token is asked for
)

// move is what an offer would do now.
type move struct {
	action action
	w      waiter
	ask    *ask // the run's want, if it has one
	rate   rate // of the token that is taken, for admit
}

// next is the one move that an offer makes now. Only the head of the queue is
// looked at: a head that its gates refuse holds everyone behind it (P61). Runs
// whose want is under way have left the queue, which is how a younger run passes
// an older one that is held by its other gate (P62). One that was passed over for
// too long gets the next free slot: nobody else starts before it is set aside.
func (k *Key) next(now flow.Instant) move {
	if a := k.asks.nextOwed(); a != nil {
		return move{action: askFor, w: a.waiter, ask: a}
	}
	if late := k.asks.overdue(now); late != nil {
		if k.slotFree(&late.waiter) {
			return move{action: reserve, w: late.waiter, ask: late}
		}
		return move{}
	}
	head, waits := k.head()
	if !waits {
		return move{}
	}
	switch v := k.check(&head, now); v.answer {
	case admitted:
		return move{action: admit, w: head, rate: v.rate}
	case mustAsk:
		return move{action: askFor, w: head, ask: k.asks.of(head.run)}
	default:
		return move{}
	}
}

// offer spends one unit of credit, if anything can use it.
func (k *Key) offer(now flow.Instant, in *flow.Input, out *flow.Out) {
	m := k.next(now)
	switch m.action {
	case admit:
		r := k.grant(now, m.w.run, in, out)
		if m.rate.interval > 0 {
			r.Flags |= flow.FlagToken
			r.Before, r.After = settled(k.tat, now), m.rate.take(k.tat, now)
		}
	case reserve:
		r := out.Record(flow.RecReserved, now)
		r.Key, r.Run = k.id, m.w.run
		if !m.ask.awake {
			k.sendWant(now, &m.w, out)
		}
	case askFor:
		k.sendWant(now, &m.w, out)
	case nothing:
	}
}

// grant appends the admission of the run to the worker whose credit in carries,
// and returns its record.
func (k *Key) grant(now flow.Instant, run flow.RunID, in *flow.Input, out *flow.Out) *flow.Record {
	r := out.Record(flow.RecAdmitted, now)
	r.Run, r.Fence, r.Worker, r.Version = run, in.Fence, in.Worker, in.Version
	r.Lease, r.Attempts, r.Backoff = in.Lease, in.Attempts, in.Backoff
	e := out.Effect(flow.EffGrant)
	e.Run, e.Fence, e.Claim, e.Lease = run, in.Fence, in.Claim, in.Lease
	return r
}
