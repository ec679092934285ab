package keyactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// startsOver plays a key in steps of a fixed length and answers how many were
// admitted in each; what executes ends before the next step if ends is set.
func (w *world) startsOver(key flow.KeyID, step flow.Span, steps int, ends flow.RecordKind) []int {
	var counts []int
	for range steps {
		runs := w.offerAll(key)
		counts = append(counts, len(runs))
		for _, id := range runs {
			if ends != 0 {
				w.ends(ends, id)
			}
		}
		w.advance(w.now.Add(step))
	}
	return counts
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestP5BothGates: two at once and five starts a second in bursts of ten.
func TestP5BothGates(t *testing.T) {
	w := testWorld(t)
	w.light = true
	for range 60 {
		w.submit(both(limited("a", 2), rated("a", 200*milli, 10)))
	}
	counts := w.startsOver(keyOf("a"), 50*milli, 80, flow.RecCompleted)
	for i, n := range counts {
		if n > 2 {
			t.Fatalf("step %d: %d starts beside each other under a max of 2", i, n)
		}
	}
	// The Limit spreads the burst over 250 ms and loses no token of it: in [0, 3.95 s]
	// there are 10 and one for each 200 ms.
	if got := sum(counts); got != 10+19 {
		t.Fatalf("%d starts in 3.95 s, want 29", got)
	}
}

// TestP4RateSpacesStarts: the burst at once, then one each interval, to the
// nanosecond.
func TestP4RateSpacesStarts(t *testing.T) {
	w := testWorld(t)
	for range 6 {
		w.submit(rated("a", second, 3))
	}
	if n := len(w.offerAll(keyOf("a"))); n != 3 {
		t.Fatalf("a burst of %d, want 3", n)
	}
	for i := 1; i <= 3; i++ {
		due, ok := w.due()
		if want := start.Add(flow.Span(i) * second); !ok || due != want {
			t.Fatalf("due at %d, want %d", due, want)
		}
		w.advance(due - 1)
		if w.live.key(keyOf("a")).Ready(w.now) != 0 {
			t.Fatal("ready a nanosecond early")
		}
		w.advance(due)
		if n := len(w.offerAll(keyOf("a"))); n != 1 {
			t.Fatalf("%d starts when a token is back, want 1", n)
		}
	}
}

// TestP53OneTokenForLife: a run takes its token at its first start only.
func TestP53OneTokenForLife(t *testing.T) {
	w := testWorld(t)
	a := w.submit(rated("a", 60*second, 1))
	b := w.submit(rated("a", 60*second, 1))
	for i, how := range []flow.RecordKind{flow.RecSuspended, flow.RecRetrying, flow.RecExpired, flow.RecCompleted} {
		wantRuns(t, "a starts again beside an empty bucket", w.offerAll(keyOf("a")), a)
		rec := w.log[len(w.log)-1]
		if rec.Flags.Has(flow.FlagToken) != (i == 0) || (rec.After != 0) != (i == 0) {
			t.Fatalf("start %d: flags %b, bucket %d to %d", i, rec.Flags, rec.Before, rec.After)
		}
		w.ends(how, a)
		if how == flow.RecSuspended || how == flow.RecRetrying {
			w.record(flow.RecWoken, flow.Fields{Run: a})
		}
	}
	wantRuns(t, "b waits for its own", w.offerAll(keyOf("a")))
	w.advance(start.Add(60 * second))
	wantRuns(t, "b", w.offerAll(keyOf("a")), b)
}

// TestP55FractionOfASecond: 0.5/s has a burst of one and starts one run each 2 s.
func TestP55FractionOfASecond(t *testing.T) {
	rule := flow.RuleOfRate(flow.Rate{Key: flow.KeySource{Name: "k"}, PerSecond: 0.5})
	if rule.Burst != 1 || rule.Interval != 2*second {
		t.Fatalf("0.5/s is %d each %d", rule.Burst, rule.Interval)
	}
	w := testWorld(t)
	for range 5 {
		w.submit(rated("a", rule.Interval, rule.Burst))
	}
	for i, n := range w.startsOver(keyOf("a"), second, 9, flow.RecCompleted) {
		if want := 1 - i%2; n != want {
			t.Fatalf("at %d s: %d starts, want %d", i, n, want)
		}
	}
}

// TestP56TimeThatStandsOrFallsGrantsNothing: a key knows no time but the one it is
// told. Told the same or an earlier one it neither grants nor gives back.
func TestP56TimeThatStandsOrFallsGrantsNothing(t *testing.T) {
	w := testWorld(t)
	for range 4 {
		w.submit(rated("a", second, 2))
	}
	w.offerAll(keyOf("a"))
	k := w.live.key(keyOf("a"))
	before := string(k.Fingerprint())
	for _, now := range []flow.Instant{w.now, w.now - 1, w.now.Add(-100 * second), 1} {
		var out flow.Out
		k.Step(now, &flow.Input{Kind: flow.InOffer, Fields: flow.Fields{Key: k.ID(), Fence: 99}}, &out)
		if len(out.Records) != 0 || k.Ready(now) != 0 {
			t.Fatalf("told %d: %d records", now, len(out.Records))
		}
		if v := k.View(now); v.Tokens != 0 {
			t.Fatalf("told %d: %d tokens shown", now, v.Tokens)
		}
	}
	if string(k.Fingerprint()) != before {
		t.Fatal("looking moved the bucket")
	}
}

// TestP59EachRunTestsItsOwnRate: one bucket, judged by each stamp; an older run with
// a small burst is not passed by a younger one with a big burst.
func TestP59EachRunTestsItsOwnRate(t *testing.T) {
	w := testWorld(t)
	small, big := rated("a", second, 1), rated("a", second, 3)
	a, b, c, d := w.submit(big), w.submit(big), w.submit(small), w.submit(big)
	wantRuns(t, "two of three tokens", w.offerAll(keyOf("a")), a, b)
	if got := w.live.key(keyOf("a")).Explain(w.now, w.run(d).order, d); got.Reason != flow.WaitRate || got.Burst != 1 || got.OpensAt != start.Add(2*second) {
		t.Fatalf("d waits behind c: %+v", got)
	}
	w.advance(start.Add(2 * second))
	wantRuns(t, "full for the small one, then room for the big one", w.offerAll(keyOf("a")), c, d)
}

// TestP4IdleKeysAreForgottenOnlyWhenFull: dropping a bucket that isn't full would
// give its tokens twice.
func TestP4IdleKeysAreForgottenOnlyWhenFull(t *testing.T) {
	w := testWorld(t)
	a := w.submit(rated("a", second, 5))
	w.offerAll(keyOf("a"))
	w.ends(flow.RecCompleted, a)
	k := w.live.key(keyOf("a"))
	due, ok := k.Due(w.now)
	if !ok || due.At != start.Add(second) || k.Idle(due.At-1) || !k.Idle(due.At) {
		t.Fatalf("due at %d (%t), idle before %t, then %t", due.At, ok, k.Idle(due.At-1), k.Idle(due.At))
	}
}
