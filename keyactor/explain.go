package keyactor

import "github.com/pyrula/pyrula-node/flow"

// MaxHolders is the most holders that Explain and View name.
const MaxHolders = 16

// Explain says why the run waits here, from the same verdict that decides; order
// is its submit instant. The reason is flow.WaitWorkerBusy when no gate holds it
// and only credit is missing: whether there is a worker at all is known outside.
// OpensAt is when a token comes for this run if those before it take one each, and
// zero for a token of another key: only that key knows, and Explain there answers
// for the run too. A run that doesn't wait here gets the zero Wait.
func (k *Key) Explain(now, order flow.Instant, run flow.RunID) flow.Wait {
	if a := k.asks.of(run); a != nil && a.awake {
		return k.refusal(verdict{answer: byWants}, &a.waiter, &a.waiter, now)
	}
	if w, ok := k.waiting.get(waiter{place: place{order: order, run: run}}); ok {
		return k.explainWaiting(&w, now)
	}
	if w := k.wants.of(run); w != nil {
		return k.explainWant(w, now)
	}
	return flow.Wait{}
}

// explainWaiting names the run's own gate, else the gate of the run that holds it
// back: one that was passed over too long, or the head.
func (k *Key) explainWaiting(w *waiter, now flow.Instant) flow.Wait {
	if v := k.check(w, now); v.refuses() {
		if r, local := k.localRate(w); local {
			v.opensAt = v.opensAt.Add(flow.Span(k.ahead(w)) * r.interval)
		}
		return k.refusal(v, w, w, now)
	}
	late := k.asks.overdue(now)
	if late != nil && late.run != w.run && !k.slotFree(&late.waiter) {
		return k.refusal(verdict{answer: byLimit}, &late.waiter, w, now)
	}
	if head, ok := k.head(); ok && head.run != w.run {
		if v := k.check(&head, now); v.refuses() {
			return k.refusal(v, &head, w, now)
		}
	}
	e := k.facts(w, w, now)
	e.Reason = flow.WaitWorkerBusy
	return e
}

// ahead is how many tokens of this bucket go to others before w gets one, the one
// that check has counted already left out.
func (k *Key) ahead(w *waiter) int {
	n := k.waiting.rank(*w)
	if k.wants != nil {
		n += max(0, k.wants.awake.rank(wantByPlace{&want{place: w.place}})-1)
	}
	return n
}

// refusal says that the gate of by, the run itself or one before it, holds w.
func (k *Key) refusal(v verdict, by, w *waiter, now flow.Instant) flow.Wait {
	e := k.facts(by, w, now)
	switch v.answer {
	case byLimit:
		e.Reason, e.Gate, e.Key = flow.WaitLimit, flow.GateLimit, by.stamp.Limit().Key
	case byRate, byWants:
		g := by.stamp.Rate()
		e.Reason, e.Gate, e.Key, e.Burst = flow.WaitRate, flow.GateRate, g.Key, g.Burst
		e.OpensAt = v.opensAt
	case admitted, mustAsk:
	}
	return e
}

// facts are the numbers as the gates of by count them, and the place of w.
func (k *Key) facts(by, w *waiter, now flow.Instant) flow.Wait {
	e := flow.Wait{Position: int64(k.waiting.rank(*w)) + 1}
	if k.asks != nil {
		e.Position += int64(k.asks.awake.rank(askByPlace{&ask{waiter: *w}}))
	}
	if limit, ok := by.limit(); ok {
		e.Used, e.Max, e.Holders = k.used, limit, k.holderList()
	}
	if r, needs := k.localRate(by); needs {
		e.Tokens, e.Burst = r.tokens(k.tat, now), r.burst
	}
	return e
}

// explainWant is what the Rate's key knows about a run of another home.
func (k *Key) explainWant(w *want, now flow.Instant) flow.Wait {
	e := flow.Wait{
		Reason: flow.WaitRate, Gate: flow.GateRate, Key: k.id.Value,
		Tokens: w.rate.tokens(k.tat, now), Burst: w.rate.burst,
		Position: int64(k.waiting.rank(waiter{place: w.place})) + 1,
	}
	if w.awake {
		before := int64(k.wants.awake.rank(wantByPlace{w}))
		e.Position += before
		e.OpensAt = k.turnAt().Add(flow.Span(before) * w.rate.interval)
	}
	return e
}

// holderList names the first holders by id, then the runs with a slot set aside.
func (k *Key) holderList() []flow.Holder {
	list := make([]flow.Holder, 0, min(int64(MaxHolders), k.used+int64(k.holders.len())))
	k.holders.each(func(h holder) bool {
		if h.slot {
			list = append(list, flow.Holder{Run: h.run, Fence: h.fence, Terminated: h.terminated})
		}
		return len(list) < MaxHolders
	})
	k.asks.each(func(a *ask) bool {
		if a.reserved && len(list) < MaxHolders {
			list = append(list, flow.Holder{Run: a.run, Reserved: true})
		}
		return len(list) < MaxHolders
	})
	return list
}

// View is a key as it is shown.
type View struct {
	ID       flow.KeyID
	Used     int64 // slots taken or set aside
	Max      int64 // of the Limit that was seen last; zero when none was
	Holders  []flow.Holder
	Tokens   int64        // as the Rate that was seen last counts them; zero without one
	Burst    int64        // of that Rate; zero without one
	Interval flow.Span    // of that Rate; zero without one
	OpensAt  flow.Instant // when that Rate next gives a token; often past
	Queue    int64        // waiting runs of this home, those under way included
	Oldest   flow.Instant
	Wants    int64 // runs of other homes that stand here for a token
}

// View is the key at now, for people. It changes nothing.
func (k *Key) View(now flow.Instant) View {
	v := View{
		ID: k.id, Used: k.used, Max: k.shown.max, Holders: k.holderList(),
		Tokens: k.shown.rate.tokens(k.tat, now), Burst: k.shown.rate.burst,
		Interval: k.shown.rate.interval, OpensAt: k.shown.rate.opensAt(k.tat),
		Queue: int64(k.waiting.len()) + k.asks.underWay(), Wants: int64(k.wants.len()),
	}
	if head, ok := k.head(); ok {
		v.Oldest = head.order
	}
	if a := k.asks.oldestAwake(); a != nil && (v.Oldest == 0 || a.order < v.Oldest) {
		v.Oldest = a.order
	}
	return v
}
