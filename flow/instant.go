package flow

import "math"

// Instant is a moment in Unix nanoseconds, as a shard counts it. The zero value
// means "not set". Instants are data: nothing in this package reads a clock.
type Instant int64

// Span is a length of time in nanoseconds.
type Span int64

// Spans by their usual names.
const (
	Microsecond Span = 1_000
	Millisecond      = 1_000 * Microsecond
	Second           = 1_000 * Millisecond
	Minute           = 60 * Second
	Hour             = 60 * Minute
	Day              = 24 * Hour
)

// MaxInstant is the last moment that can be named (in the year 2262). Sums that
// would pass it stay there, so a far deadline never wraps into the past (S84).
const MaxInstant Instant = math.MaxInt64

// Add returns the moment s after i; it stays at MaxInstant instead of wrapping.
func (i Instant) Add(s Span) Instant {
	sum := i + Instant(s)
	switch {
	case s > 0 && sum < i:
		return MaxInstant
	case s < 0 && sum > i:
		return math.MinInt64
	}
	return sum
}

// Sub returns the span from o to i; it stays at the largest span instead of
// wrapping.
func (i Instant) Sub(o Instant) Span {
	d := i - o
	switch {
	case i > o && d < 0:
		return math.MaxInt64
	case i < o && d > 0:
		return math.MinInt64
	}
	return Span(d)
}

// Millis returns i in Unix milliseconds, as the wire carries it.
func (i Instant) Millis() int64 { return int64(i) / int64(Millisecond) }

// InstantOfMillis is the moment ms milliseconds after the Unix epoch; it stays at
// MaxInstant instead of wrapping.
func InstantOfMillis(ms int64) Instant {
	if ms > math.MaxInt64/int64(Millisecond) {
		return MaxInstant
	}
	if ms < math.MinInt64/int64(Millisecond) {
		return math.MinInt64
	}
	return Instant(ms * int64(Millisecond))
}

// Millis returns s in whole milliseconds, rounded up: a wait told to somebody is
// never shorter than the wait that is meant.
func (s Span) Millis() int64 {
	if s <= 0 {
		return 0
	}
	return int64((s-1)/Millisecond) + 1
}
