package keyactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// TestR4HeadWithoutAWorkerStarvesNobody: the token is left to an older head for its
// grace, and a want takes it after that, or at once if there are two.
func TestR4HeadWithoutAWorkerStarvesNobody(t *testing.T) {
	for _, c := range []struct {
		name     string
		interval flow.Span
		burst    int64
		given    flow.Span // when the want gets its token
	}{
		{"one token", 5 * second, 1, headGraceMax},
		{"a fast rate", 50 * milli, 1, 50 * milli},
		{"a very fast rate", milli, 1, headGraceMin},
		{"two tokens", 5 * second, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testWorld(t)
			w.submit(rated("y", c.interval, c.burst))
			far := w.submit(apart(1, c.interval, c.burst))
			w.offer(keyX)
			w.deliver(toY, 0)
			if c.given > 0 {
				due, ok := w.due()
				if len(w.mail[toX]) != 0 || !ok || due != start.Add(c.given) {
					t.Fatalf("%d tokens at once, due at %d", len(w.mail[toX]), due-start)
				}
				w.advance(due)
			}
			w.deliver(toX, flow.FlagCredit)
			if w.run(far).status != flow.StatusExecuting {
				t.Fatal("the want got no token")
			}
		})
	}
}

// TestR4HeadWithAWorkerGetsItsToken: younger wants that are always awake don't take
// the head's token away from an offer that comes soon after the bucket opens.
func TestR4HeadWithAWorkerGetsItsToken(t *testing.T) {
	w := testWorld(t)
	w.submit(rated("y", second, 1))
	w.offerAll(keyY)
	old := w.submit(rated("y", second, 1))
	for range 3 {
		w.submit(apart(3, second, 1))
	}
	w.offerAll(keyX)
	for len(w.mail[toY]) > 0 {
		w.deliver(toY, 0)
	}
	w.advance(start.Add(second))
	if len(w.mail[toX]) != 0 {
		t.Fatal("a younger want got the token")
	}
	w.advance(start.Add(second + 5*milli))
	wantRuns(t, "the head", w.offerAll(keyY), old)
}

// TestR4HeadHeldByItsLimitHoldsNoWant: a head whose Limit refuses leaves the tokens to
// the wants behind it.
func TestR4HeadHeldByItsLimitHoldsNoWant(t *testing.T) {
	w := testWorld(t)
	stamp := both(limited("y", 1), rated("y", second, 1))
	w.submit(stamp)
	w.offerAll(keyY)
	w.submit(stamp)
	far := w.submit(apart(1, second, 1))
	w.offer(keyX)
	w.deliver(toY, 0)
	w.advance(start.Add(second))
	w.deliverAll(flow.FlagCredit)
	if w.run(far).status != flow.StatusExecuting {
		t.Fatal("the want waits behind a Limit that isn't its own")
	}
}

// TestP61SmallBurstIsNotPassed: an older want that the bucket isn't open for yet is
// not passed by a younger run of the key itself that it is open for.
func TestP61SmallBurstIsNotPassed(t *testing.T) {
	w := testWorld(t)
	w.submit(rated("y", second, 3))
	w.offerAll(keyY) // two tokens are left for a burst of three, none for one of one
	far := w.submit(apart(1, second, 1))
	w.offer(keyX)
	w.deliver(toY, 0)
	near := w.submit(rated("y", second, 3))
	wantRuns(t, "the older want is first", w.offerAll(keyY))
	e := w.live.key(keyY).Explain(w.now, w.run(near).order, near)
	if e.Reason != flow.WaitRate || e.OpensAt != start.Add(second) {
		t.Fatalf("why the younger one waits: %+v", e)
	}
	if e := w.live.key(keyY).Explain(w.now, w.run(far).order, far); e.OpensAt != start.Add(second) || e.Position != 1 {
		t.Fatalf("why the want waits: %+v", e)
	}
	w.advance(start.Add(second))
	w.deliverAll(flow.FlagCredit)
	if w.run(far).status != flow.StatusExecuting {
		t.Fatal("the want got no token")
	}
	wantRuns(t, "then the younger one", w.offerAll(keyY), near)
}
