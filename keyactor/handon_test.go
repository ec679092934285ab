package keyactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// handOn is what a host does: the original leaves, and a successor is queued at its place.
func (w *world) handOn(run flow.RunID, stamp *flow.Stamp) flow.RunID {
	w.leave(run, flow.RecContinued)
	return w.submitAt(stamp, w.run(run).order)
}

// TestP76SuccessorTakesTheOldPlace: at the same key and at another, ahead of all that
// came later, and nobody is there twice.
func TestP76SuccessorTakesTheOldPlace(t *testing.T) {
	for name, stamp := range map[string]*flow.Stamp{"the same key": limited("a", 2), "another key": limited("b", 1)} {
		t.Run(name, func(t *testing.T) {
			w := testWorld(t)
			home := stamp.Home("w")
			first, older := w.submit(limited("a", 1)), w.submit(limited("a", 1))
			wantRuns(t, "the first", w.offerAll(keyOf("a")), first)
			younger := w.submit(stamp)
			w.now = w.now.Add(second)
			next := w.handOn(older, stamp)
			if run, s, ok := w.live.key(home).Head(); !ok || run != next || s != stamp {
				t.Fatalf("the head is %v, %+v, %t", run, s, ok)
			}
			w.ends(flow.RecCompleted, first)
			got := w.offerAll(home)
			if len(got) == 0 || got[0] != next {
				t.Fatalf("admitted %v, the successor is %v", got, next)
			}
			w.ends(flow.RecCompleted, next)
			if len(got) == 1 {
				got = append(got, w.offerAll(home)...)
			}
			wantRuns(t, "the successor, then the younger one", got, next, younger)
			if v := w.live.key(keyOf("a")).View(w.now); v.Queue != 0 {
				t.Fatalf("%d runs are left at the old key", v.Queue)
			}
		})
	}
}

// TestP76R3HandOnLeavesNoWantAndNoToken: whatever was asked for in the original's name is
// taken back, before its token is given, on its way, or after it was passed over for long.
func TestP76R3HandOnLeavesNoWantAndNoToken(t *testing.T) {
	for name, before := range map[string]func(*world){
		"not asked":             func(*world) {},
		"the want is under way": func(w *world) { w.offer(keyX) },
		"the want waits":        func(w *world) { w.offer(keyX); w.deliver(toY, 0) },
		"the token came unused": func(w *world) { w.offer(keyX); w.deliverAll(0) },
		"a slot is set aside": func(w *world) {
			w.offer(keyX)
			w.deliverAll(0)
			w.advance(w.now.Add(PassedOver))
			w.offer(keyX)
			w.deliverAll(0)
			w.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := testWorld(t)
			a := w.submit(apart(1, flow.Hour, 1))
			before(w)
			next := w.handOn(a, limited("x", 1))
			w.deliverAll(flow.FlagCredit)
			wantRuns(t, "the successor", w.offerAll(keyX), next)
			if v := w.live.key(keyX).View(w.now); v.Used != 1 || v.Queue != 0 {
				t.Fatalf("used %d, queue %d", v.Used, v.Queue)
			}
			if v := w.live.key(keyY).View(w.now); v.Wants != 0 || v.Tokens != v.Burst {
				t.Fatalf("%d wants, %d tokens of %d", v.Wants, v.Tokens, v.Burst)
			}
		})
	}
}

// TestP3HeldRunsAreNotHandedOn: a run that holds a slot, and one that isn't here, can't
// end as if nobody held it.
func TestP3HeldRunsAreNotHandedOn(t *testing.T) {
	for _, kind := range []flow.RecordKind{flow.RecContinued, flow.RecFailed, flow.RecCancelled, flow.RecTerminated} {
		w := testWorld(t)
		a := w.submit(limited("a", 1))
		w.offerAll(keyOf("a"))
		panicked := false
		func() {
			defer func() { panicked = recover() != nil }()
			w.live.apply(flow.Record{Kind: kind, At: w.now, Fields: flow.Fields{Run: a}})
		}()
		if !panicked {
			t.Errorf("a held run ends %v without its fence", kind)
		}
	}
}

// TestR13SuspendedRunThatFailsFreesNothing: its slot was freed when it was suspended.
func TestR13SuspendedRunThatFailsFreesNothing(t *testing.T) {
	w := testWorld(t)
	a, b, c := w.submit(limited("a", 1)), w.submit(limited("a", 1)), w.submit(limited("a", 1))
	wantRuns(t, "a", w.offerAll(keyOf("a")), a)
	w.ends(flow.RecSuspended, a)
	wantRuns(t, "b", w.offerAll(keyOf("a")), b)
	w.record(flow.RecFailed, flow.Fields{Run: a})
	if v := w.live.key(keyOf("a")).View(w.now); v.Used != 1 || len(w.offerAll(keyOf("a"))) > 0 {
		t.Fatalf("used %d after a suspended run failed", v.Used)
	}
	w.ends(flow.RecCompleted, b)
	wantRuns(t, "c", w.offerAll(keyOf("a")), c)
}

// TestHeadIsTheOldestThatWaits: not one that has asked another key, and none of an empty
// queue.
func TestHeadIsTheOldestThatWaits(t *testing.T) {
	w := testWorld(t)
	if _, _, ok := w.live.key(keyX).Head(); ok {
		t.Fatal("an empty queue has a head")
	}
	a, b := w.submit(apart(2, second, 1)), w.submit(limited("x", 2))
	if run, _, ok := w.live.key(keyX).Head(); !ok || run != a {
		t.Fatalf("the head is %v", run)
	}
	w.step(flow.Input{Kind: flow.InOffer, Fields: flow.Fields{Key: keyX, Fence: 99}})
	if run, stamp, ok := w.live.key(keyX).Head(); !ok || run != b || stamp.Rate() != nil {
		t.Fatalf("while a asks the head is %v", run)
	}
}
