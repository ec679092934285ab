package flow

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// clamp is what arithmetic without bounds gives, brought into 64 bits.
func clamp(x *big.Int) int64 {
	switch {
	case x.IsInt64():
		return x.Int64()
	case x.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

// edgy draws 64-bit numbers, and the ends of their range often.
var edgy = rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{
	math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64,
}))

// Fails when a sum or difference of instants wraps instead of staying at the end
// of time: a deadline 300 years away must not lie in the past.
func TestS84InstantsSaturate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := edgy.Draw(t, "a"), edgy.Draw(t, "b")
		x, y := big.NewInt(a), big.NewInt(b)
		if got, want := Instant(a).Add(Span(b)), clamp(new(big.Int).Add(x, y)); int64(got) != want {
			t.Fatalf("%d + %d is %d, want %d", a, b, got, want)
		}
		if got, want := Instant(a).Sub(Instant(b)), clamp(new(big.Int).Sub(x, y)); int64(got) != want {
			t.Fatalf("%d - %d is %d, want %d", a, b, got, want)
		}
	})
}

// Fails when milliseconds from outside wrap, or don't come back.
func TestS84MillisecondsSaturate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := edgy.Draw(t, "ms")
		exact := new(big.Int).Mul(big.NewInt(ms), big.NewInt(int64(Millisecond)))
		got := InstantOfMillis(ms)
		if want := clamp(exact); int64(got) != want {
			t.Fatalf("%d ms is %d, want %d", ms, got, want)
		}
		if exact.IsInt64() && got.Millis() != ms {
			t.Fatalf("%d ms came back as %d", ms, got.Millis())
		}
	})
	const last = math.MaxInt64 / int64(Millisecond) // the last whole millisecond that can be named
	for ms, want := range map[int64]Instant{
		last: Instant(last * int64(Millisecond)), last + 1: MaxInstant,
		-last: -Instant(last * int64(Millisecond)), -last - 1: math.MinInt64,
	} {
		if got := InstantOfMillis(ms); got != want {
			t.Errorf("%d ms is %d, want %d", ms, got, want)
		}
	}
}

// Fails when a span that is told to somebody is shorter than the one that is meant,
// or longer by a millisecond or more.
func TestSpanMillisRoundsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := edgy.Draw(t, "span")
		ms := Span(s).Millis()
		if s <= 0 {
			if ms != 0 {
				t.Fatalf("%d is %d ms", s, ms)
			}
			return
		}
		told := new(big.Int).Mul(big.NewInt(ms), big.NewInt(int64(Millisecond)))
		over := told.Sub(told, big.NewInt(s))
		if over.Sign() < 0 || over.Cmp(big.NewInt(int64(Millisecond))) >= 0 {
			t.Fatalf("%d is %d ms", s, ms)
		}
	})
	for s, want := range map[Span]int64{0: 0, 1: 1, Millisecond - 1: 1, Millisecond: 1, Millisecond + 1: 2, Second: 1000} {
		if got := s.Millis(); got != want {
			t.Errorf("%d is %d ms, want %d", s, got, want)
		}
	}
}
