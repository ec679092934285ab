package keyactor

import "github.com/pyrula/pyrula-node/flow"

// MaxReady is the most that Ready answers: enough to spread credit, and cheap.
const MaxReady = 64

// Ready says how many runs offers could move now: admit, or ask for their token.
// It is exact about zero, when an offer would change nothing, and a hint above
// that.
func (k *Key) Ready(now flow.Instant) int64 {
	m := k.next(now)
	if m.action == nothing {
		return 0
	}
	n := min(int64(k.waiting.len()), MaxReady)
	if limit, ok := m.w.limit(); ok && m.action == admit {
		n = min(n, limit-k.used)
	}
	if limit, ok := m.w.limit(); ok && m.action == askFor {
		n = min(n, limit-k.used-k.asks.unslotted())
	}
	if m.rate.interval > 0 {
		n = min(n, m.rate.tokens(k.tat, now))
	}
	return max(n, 1)
}

// Due is the first instant after now at which time alone changes something here:
// Ready may rise from zero, InKeyTick may give a token, the open batch is to be fired, or
// the key becomes Idle. It is never absolute. A key that only waits for a slot, for credit
// or for a worker has none: it costs no timer.
func (k *Key) Due(now flow.Instant) (flow.Deadline, bool) {
	at := flow.MaxInstant
	soon := func(i flow.Instant) {
		if i > now && i < at {
			at = i
		}
	}
	if k.wants.first() != nil {
		soon(k.turnAt())
	}
	if a := k.asks.nextPassed(); a != nil {
		soon(a.since.Add(PassedOver))
	}
	if head, waits := k.head(); waits {
		if v := k.check(&head, now); v.answer == byRate {
			soon(v.opensAt)
		}
	}
	if b := k.batch; b != nil && !b.due {
		soon(b.deadline)
	}
	if k.empty() {
		soon(k.tat)
	}
	return flow.Deadline{At: at}, at != flow.MaxInstant
}
