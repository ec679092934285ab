package keyactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// Two keys: the Limit's is x, where the runs are at home, the Rate's is y.
var (
	keyX, keyY = keyOf("x"), keyOf("y")
	toY, toX   = channel{from: keyX, to: keyY}, channel{from: keyY, to: keyX}
)

func apart(limit int64, interval flow.Span, burst int64) *flow.Stamp {
	return both(limited("x", limit), rated("y", interval, burst))
}

// kinds are the kinds of the records since a place in the log, in order.
func (w *world) kinds(from int) []flow.RecordKind {
	var kinds []flow.RecordKind
	for _, rec := range w.log[from:] {
		kinds = append(kinds, rec.Kind)
	}
	return kinds
}

func wantKinds(t *testing.T, what string, got []flow.RecordKind, want ...flow.RecordKind) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: records %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: records %v, want %v", what, got, want)
		}
	}
}

func TestR4OneWantForEachFreeSlot(t *testing.T) {
	w := testWorld(t)
	var runs []flow.RunID
	for range 6 {
		runs = append(runs, w.submit(apart(3, second, 10)))
	}
	w.offerAll(keyX)
	if n := len(w.mail[toY]); n != 3 {
		t.Fatalf("%d wants for 3 free slots", n)
	}
	w.deliver(toY, 0)
	w.deliver(toX, flow.FlagCredit)
	if w.run(runs[0]).status != flow.StatusExecuting {
		t.Fatal("the token didn't start the run")
	}
	if w.offerAll(keyX); len(w.mail[toY]) != 2 {
		t.Fatalf("%d wants for 2 free slots, both asked for", len(w.mail[toY]))
	}
	w.ends(flow.RecCompleted, runs[0])
	if w.offerAll(keyX); len(w.mail[toY]) != 3 {
		t.Fatalf("%d wants for 3 free slots", len(w.mail[toY]))
	}
}

// TestP62YoungerPassesOneHeldByItsOtherGate: no slot is held while a token is asked
// for; the token goes back and nothing of it is lost.
func TestP62YoungerPassesOneHeldByItsOtherGate(t *testing.T) {
	w := testWorld(t)
	a, b := w.submit(apart(1, second, 1)), w.submit(limited("x", 1))
	wantRuns(t, "a asks, b takes the slot", w.offerAll(keyX), b)
	from := len(w.log)
	w.deliver(toY, 0)
	w.deliver(toX, flow.FlagCredit)
	w.deliver(toY, 0)
	wantKinds(t, "there and back", w.kinds(from), flow.RecWanted, flow.RecTokenGiven, flow.RecUnused, flow.RecTokenBack)
	if v := w.live.key(keyY).View(w.now); v.Tokens != 1 || v.Wants != 1 {
		t.Fatalf("%d tokens and %d wants after the return", v.Tokens, v.Wants)
	}
	w.ends(flow.RecCompleted, b)
	w.offerAll(keyX)
	w.deliverAll(flow.FlagCredit)
	if r := w.run(a); r.status != flow.StatusExecuting || r.tokens != 1 {
		t.Fatalf("a is %v with %d tokens", r.status, r.tokens)
	}
	if w.live.key(keyY).View(w.now).Wants != 0 {
		t.Fatal("a want is left")
	}
}

// TestP62OlderRunKeepsItsSlot: a token doesn't let its run pass an older one that
// only waits for credit.
func TestP62OlderRunKeepsItsSlot(t *testing.T) {
	for _, c := range []struct {
		limit  int64
		passes bool // there is a slot for both
	}{{1, false}, {2, true}} {
		w := testWorld(t)
		old := w.submit(limited("x", c.limit))
		w.offer(keyX)
		w.ends(flow.RecSuspended, old)
		young := w.submit(apart(c.limit, second, 1))
		w.offer(keyX)
		w.record(flow.RecWoken, flow.Fields{Run: old})
		w.deliver(toY, 0)
		w.deliver(toX, flow.FlagCredit)
		if got := w.run(young).status == flow.StatusExecuting; got != c.passes {
			t.Fatalf("max %d: the younger one started: %t", c.limit, got)
		}
		wantRuns(t, "the older one", w.offerAll(keyX), old)
	}
}

// TestR4RestingWantGetsNothing: no ping-pong. A want whose token came back is only
// answered after home asks again.
func TestR4RestingWantGetsNothing(t *testing.T) {
	w := testWorld(t)
	w.submit(apart(1, second, 1))
	w.offer(keyX)
	w.deliverAll(0)
	from := len(w.log)
	for range 100 {
		w.advance(w.now.Add(second))
	}
	if len(w.log) != from || len(w.pairs) != 0 {
		t.Fatalf("%d records and %d letters while nothing happens", len(w.log)-from, len(w.pairs))
	}
	if w.live.key(keyX).Ready(w.now) == 0 {
		t.Fatal("home doesn't ask again")
	}
}

// TestR4PassedOverRunGetsASlot: 60 s after its first unused token a run gets the next
// free slot, whoever else wants it.
func TestR4PassedOverRunGetsASlot(t *testing.T) {
	w := testWorld(t)
	a := w.submit(apart(1, second, 1))
	w.offer(keyX) // a's want is on its way
	passes, holds := 0, w.submit(limited("x", 1))
	wantRuns(t, "passed", w.offerAll(keyX), holds)
	first := w.now
	for ; w.run(a).status == flow.StatusQueued && w.now < first.Add(10*flow.Minute); passes++ {
		w.deliverAll(flow.FlagCredit) // the token of a finds the slot taken
		next := w.submit(limited("x", 1))
		w.advance(w.now.Add(7 * second))
		w.ends(flow.RecCompleted, holds)
		w.offer(keyX) // asks for a again
		if holds = next; w.run(a).status == flow.StatusQueued {
			w.offerAll(keyX)
		}
		if w.run(holds).status != flow.StatusExecuting {
			w.deliverAll(flow.FlagCredit)
		}
	}
	if w.run(a).status != flow.StatusExecuting {
		t.Fatal("passed over for ever")
	}
	if waited := w.now.Sub(first); waited < PassedOver || waited > PassedOver+7*second {
		t.Fatalf("got its slot after %d ns, passed over %d times", waited, passes)
	}
	kinds := map[flow.RecordKind]int{}
	for _, rec := range w.log {
		kinds[rec.Kind]++
	}
	if kinds[flow.RecReserved] != 1 {
		t.Fatalf("a slot was set aside %d times", kinds[flow.RecReserved])
	}
}

// TestR4ReservationIsTakenOnce: a slot set aside counts as used, for one run, and is
// free again when that run leaves.
func TestR4ReservationIsTakenOnce(t *testing.T) {
	w := testWorld(t)
	a := w.submit(apart(1, second, 1))
	w.offer(keyX)
	w.deliverAll(0) // the token finds no credit
	w.advance(w.now.Add(PassedOver))
	b := w.submit(limited("x", 1))
	wantRuns(t, "a slot is set aside and b waits", w.offerAll(keyX))
	e := w.live.key(keyX).Explain(w.now, w.run(b).order, b)
	if e.Reason != flow.WaitLimit || e.Used != 1 || len(e.Holders) != 1 || e.Holders[0] != (flow.Holder{Run: a, Reserved: true}) {
		t.Fatalf("why b waits: %+v", e)
	}
	w.leave(a, flow.RecCancelled)
	wantRuns(t, "b has the slot", w.offerAll(keyX), b)
	w.deliverAll(flow.FlagCredit)
	if n := w.live.key(keyY).View(w.now).Wants; n != 0 {
		t.Fatalf("%d wants are left", n)
	}
}

// TestR3TokenReturnsOnlyToAnUntouchedBucket.
func TestR3TokenReturnsOnlyToAnUntouchedBucket(t *testing.T) {
	for _, touched := range []bool{false, true} {
		w := testWorld(t)
		w.submit(apart(1, 10*second, 3))
		local := w.submit(rated("y", 10*second, 3))
		w.offer(keyX)
		w.deliver(toY, 0)
		before := w.live.key(keyY).tat
		if touched {
			wantRuns(t, "another start", w.offerAll(keyY), local)
		}
		w.deliver(toX, 0) // no credit
		w.deliver(toY, 0)
		rec := w.log[len(w.log)-1]
		want := flow.Instant(0)
		if touched {
			want = before.Add(10 * second)
		}
		if got := w.live.key(keyY).tat; got != want || rec.Flags.Has(flow.FlagForfeited) != touched {
			t.Fatalf("touched %t: bucket at %d, want %d, flags %b", touched, got, want, rec.Flags)
		}
	}
}

// TestR4WantsAndLocalRunsAreOneQueue: tokens go by the submit instant, wherever the
// runs are at home.
func TestR4WantsAndLocalRunsAreOneQueue(t *testing.T) {
	w := testWorld(t)
	far, near := apart(9, second, 1), rated("y", second, 1)
	other := both(limited("z", 9), rated("y", second, 1))
	runs := []flow.RunID{w.submit(near), w.submit(far), w.submit(other), w.submit(near), w.submit(far), w.submit(near)}
	w.offerAll(keyX)
	w.offerAll(keyOf("z"))
	for len(w.mail[toY]) > 0 { // all wants are there before any token is
		w.deliver(toY, 0)
	}
	var order []flow.RunID
	for range 60 {
		from := len(w.log)
		w.offerAll(keyY)
		w.deliverAll(flow.FlagCredit)
		for _, rec := range w.log[from:] {
			if rec.Kind == flow.RecAdmitted {
				order = append(order, rec.Run)
			}
		}
		if due, ok := w.due(); ok {
			w.advance(due)
		}
	}
	wantRuns(t, "one queue", order, runs...)
}

// TestP62LimitHeldRunIsNotPassed: an older run that its own, smaller max holds is not
// passed by one whose token has come.
func TestP62LimitHeldRunIsNotPassed(t *testing.T) {
	w := testWorld(t)
	w.submit(limited("x", 1))
	wantRuns(t, "one executes", w.offerAll(keyX), w.log[0].Run)
	young := w.submit(apart(3, second, 1))
	w.offer(keyX)
	old := w.submitAt(limited("x", 1), start-1) // comes late, at an older place
	w.deliver(toY, 0)
	w.deliver(toX, flow.FlagCredit)
	if r := w.run(young); r.status != flow.StatusQueued {
		t.Fatalf("the younger one is %v", r.status)
	}
	w.ends(flow.RecCompleted, w.log[0].Run)
	wantRuns(t, "the older one", w.offerAll(keyX), old)
}

// TestR4LateRunWithASmallMaxGetsItsSlot: runs with a bigger max don't keep the key too
// full for one that was passed over.
func TestR4LateRunWithASmallMaxGetsItsSlot(t *testing.T) {
	w := testWorld(t)
	late := w.submit(apart(1, flow.Hour, 1))
	w.offer(keyX)
	w.deliverAll(0) // no credit: passed over from now on
	w.submit(rated("y", flow.Hour, 1))
	w.offerAll(keyY) // its token is gone
	w.offer(keyX)    // it asks again, and is out of the queue
	w.deliverAll(0)
	var wide []flow.RunID
	for range 6 {
		wide = append(wide, w.submit(limited("x", 3)))
	}
	wantRuns(t, "passed by three", w.offerAll(keyX), wide[:3]...)
	w.advance(w.now.Add(PassedOver))
	for _, id := range wide[:2] {
		w.ends(flow.RecCompleted, id)
		wantRuns(t, "nobody starts before the late one has its slot", w.offerAll(keyX))
	}
	w.ends(flow.RecCompleted, wide[2])
	wantRuns(t, "it has; the others go on beside it", w.offerAll(keyX), wide[3], wide[4])
	w.advance(start.Add(flow.Hour))
	w.deliverAll(flow.FlagCredit)
	if w.run(late).status != flow.StatusExecuting {
		t.Fatal("the late one has no slot")
	}
}

// TestR4LateRunKeepsItsSlotFromTokens: the token of another run doesn't take the slot
// that is due to a late one, but may take one beside it.
func TestR4LateRunKeepsItsSlotFromTokens(t *testing.T) {
	for _, c := range []struct {
		limit int64
		want  flow.Status
	}{{2, flow.StatusQueued}, {3, flow.StatusExecuting}} {
		w := testWorld(t)
		late := w.submit(both(limited("x", c.limit), rated("l", flow.Hour, 1)))
		other := w.submit(both(limited("x", c.limit), rated("y", second, 1)))
		w.offer(keyX)
		w.deliverAll(0) // no credit: passed over from now on
		w.submit(rated("l", flow.Hour, 1))
		w.offerAll(keyOf("l")) // the token of the late one is gone
		w.offer(keyX)
		w.offer(keyX) // both ask
		w.submitAt(limited("x", c.limit), start-1)
		w.offer(keyX) // an older one takes a slot
		for len(w.pairs) > 0 && w.pairs[0] != toX {
			w.deliver(w.pairs[0], 0)
		}
		w.advance(w.now.Add(PassedOver))
		w.deliver(toX, flow.FlagCredit)
		if w.run(late).status != flow.StatusQueued || w.run(other).status != c.want {
			t.Fatalf("max %d: the other one is %v, want %v", c.limit, w.run(other).status, c.want)
		}
	}
}

// TestR4SlotIsSetAsideOnTime: time alone makes home set a slot aside, for a run whose
// want stands at an empty bucket.
func TestR4SlotIsSetAsideOnTime(t *testing.T) {
	w := testWorld(t)
	a := w.submit(apart(1, flow.Hour, 1))
	w.offer(keyX)
	w.deliverAll(0) // no credit
	other := w.submit(rated("y", flow.Hour, 1))
	wantRuns(t, "the token is gone", w.offerAll(keyY), other)
	w.offer(keyX)
	w.deliverAll(0)
	if k := w.live.key(keyX); k.Ready(w.now) != 0 {
		t.Fatal("ready before its time")
	}
	due, ok := w.live.key(keyX).Due(w.now)
	if want := start.Add(PassedOver); !ok || due.At != want {
		t.Fatalf("due at %d, want %d", due.At, want)
	}
	w.advance(due.At)
	w.offer(keyX)
	if b := w.submit(limited("x", 1)); len(w.offerAll(keyX)) != 0 || w.run(b).status != flow.StatusQueued {
		t.Fatal("the slot was given away")
	}
	w.advance(start.Add(flow.Hour))
	w.deliverAll(flow.FlagCredit)
	if w.run(a).status != flow.StatusExecuting {
		t.Fatal("a didn't start")
	}
}
