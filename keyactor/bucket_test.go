package keyactor

import (
	"fmt"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// dumb is a bucket as a child would build it: what it lacks drains away by one
// nanosecond each nanosecond, and a token may be taken if the bucket of that size
// can lack one interval more.
type dumb struct {
	at   flow.Instant
	lack flow.Span
}

func (d *dumb) wait(to flow.Instant) {
	for ; d.at < to; d.at++ {
		d.lack = max(0, d.lack-1)
	}
}

func (d *dumb) may(r rate) bool { return d.lack+r.interval <= flow.Span(r.burst)*r.interval }

// shown counts tokens by taking them one by one.
func (d *dumb) shown(r rate) int64 {
	n, c := int64(0), *d
	for ; c.may(r); n++ {
		c.lack += r.interval
	}
	return n
}

// TestP55_P59BucketEnumerated compares the one integer with the dumb bucket in every
// history of six instants in which two rates try in any order.
func TestP55_P59BucketEnumerated(t *testing.T) {
	var rates []rate
	for interval := flow.Span(1); interval <= 3; interval++ {
		for burst := int64(1); burst <= 3; burst++ {
			rates = append(rates, rate{interval: interval, burst: burst})
		}
	}
	const instants, choices = 6, 4 // nobody, a, b, a then b
	histories := 1
	for range instants {
		histories *= choices
	}
	for _, a := range rates {
		for _, b := range rates {
			for h := range histories {
				if err := compareBuckets([2]rate{a, b}, h, instants); err != nil {
					t.Fatalf("rates %v and %v, history %d: %v", a, b, h, err)
				}
			}
		}
	}
}

func compareBuckets(rates [2]rate, history, instants int) error {
	d, tat := dumb{at: 1}, flow.Instant(0)
	for now := flow.Instant(1); now <= flow.Instant(instants); now++ {
		d.wait(now)
		who := history % 4
		history /= 4
		for i, r := range rates {
			if got, want := r.tokens(tat, now), d.shown(r); got != want {
				return fmt.Errorf("at %d: %d tokens shown to %v, want %d", now, got, r, want)
			}
			if got, want := r.open(tat, now), d.may(r); got != want || got != (r.opensAt(tat) <= now) {
				return fmt.Errorf("at %d: open to %v is %t, want %t; opens at %d", now, r, got, want, r.opensAt(tat))
			}
			if who&(1<<i) != 0 && d.may(r) {
				d.lack += r.interval
				tat = r.take(tat, now)
			}
		}
		if debt(tat, now) != d.lack || (settled(tat, now) == 0) != (d.lack == 0) {
			return fmt.Errorf("at %d: lacks %d, want %d", now, debt(tat, now), d.lack)
		}
	}
	return nil
}

// TestP4Table holds the corners that a reader looks for.
func TestP4Table(t *testing.T) {
	const s = flow.Instant(second)
	for _, c := range []struct {
		name   string
		rate   rate
		tat    flow.Instant
		now    flow.Instant
		tokens int64
		opens  flow.Instant
	}{
		{"a new bucket is full", rate{second, 3}, 0, 100 * s, 3, -2 * s},
		{"a full one has no more", rate{second, 3}, 100 * s, 900 * s, 3, 98 * s},
		{"one token short", rate{second, 3}, 101 * s, 100 * s, 2, 99 * s},
		{"empty to the nanosecond", rate{second, 3}, 102*s + 1, 100 * s, 0, 100*s + 1},
		{"one token to the nanosecond", rate{second, 3}, 102 * s, 100 * s, 1, 100 * s},
		{"burst of one", rate{2 * second, 1}, 102 * s, 100 * s, 0, 102 * s},
		{"overdrawn by a bigger burst", rate{second, 5}, 120 * s, 100 * s, 0, 116 * s},
		{"a nanosecond's interval", rate{1, flow.MaxBurst}, 0, 1, flow.MaxBurst, 1 - flow.MaxBurst},
		{"a hundred years", rate{flow.MaxInterval, 99}, 0, 1, 99, flow.Instant(-98 * flow.MaxInterval)},
		{"no rate", rate{}, 0, 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.rate.tokens(c.tat, c.now); got != c.tokens {
				t.Errorf("tokens: got %d, want %d", got, c.tokens)
			}
			if got := c.rate.opensAt(c.tat); got != c.opens {
				t.Errorf("opens at: got %d, want %d", got, c.opens)
			}
		})
	}
}

// TestP55NoTimeIsSaved: a bucket that was full for a year gives its burst and no
// token more.
func TestP55NoTimeIsSaved(t *testing.T) {
	r, tat, n := rate{interval: second, burst: 3}, flow.Instant(0), 0
	now := start.Add(365 * flow.Day)
	for ; r.open(tat, now); n++ {
		tat = r.take(tat, now)
	}
	if n != 3 {
		t.Errorf("took %d tokens, want 3", n)
	}
}
