package keyactor

import "github.com/pyrula/pyrula-node/flow"

// rate is the Rate of one stamp, as far as arithmetic needs it. All runs of a key
// share the bucket and each tests it with its own rate (P59). Bounds of the two
// numbers (flow.MaxBucket) keep every product far from wrapping.
type rate struct {
	interval flow.Span // the time in which one token comes back
	burst    int64     // tokens of a full bucket
}

// depth is how far the bucket may be ahead of now with one token left to take.
func (r rate) depth() flow.Span { return flow.Span(r.burst-1) * r.interval }

// opensAt is the first instant at which a token can be taken; often it is past.
func (r rate) opensAt(tat flow.Instant) flow.Instant { return tat.Add(-r.depth()) }

// open says whether a token can be taken now.
func (r rate) open(tat, now flow.Instant) bool { return debt(tat, now) <= r.depth() }

// take is the bucket after a token was taken. It moves by one interval from now
// at the latest: time that passed while the bucket was full isn't saved up (P55).
func (r rate) take(tat, now flow.Instant) flow.Instant { return max(tat, now).Add(r.interval) }

// tokens is how many tokens the bucket shows to this rate: never below zero and
// never above its burst, whatever other rates did to the bucket.
func (r rate) tokens(tat, now flow.Instant) int64 {
	if r.interval <= 0 {
		return 0
	}
	left := flow.Span(r.burst)*r.interval - debt(tat, now)
	return min(max(int64(left/r.interval), 0), r.burst)
}

// debt is how far the bucket is from full.
func debt(tat, now flow.Instant) flow.Span { return max(tat, now).Sub(now) }

// settled is the canonical bucket: one that is full is zero.
func settled(tat, now flow.Instant) flow.Instant {
	if tat <= now {
		return 0
	}
	return tat
}
