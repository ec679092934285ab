package keyactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// TestP2SubmitNeverWaits: a submit to a full key only queues, and nothing starts
// without an offer.
func TestP2SubmitNeverWaits(t *testing.T) {
	w := testWorld(t)
	for range 10 {
		w.submit(both(limited("a", 1), rated("a", 60*second, 1)))
		w.advance(w.now.Add(90 * second))
	}
	if v := w.live.key(keyOf("a")).View(w.now); v.Queue != 10 || v.Used != 0 || v.Tokens != 1 {
		t.Fatalf("view: %+v", v)
	}
	for _, rec := range w.log {
		if rec.Kind != flow.RecSubmitted {
			t.Fatalf("a %v without an offer", rec.Kind)
		}
	}
}

// TestP6GatesDropNothing: runs over the gates are all still there after a day of
// refusals, and all start.
func TestP6GatesDropNothing(t *testing.T) {
	w := testWorld(t)
	stamp := both(limited("a", 1), rated("a", flow.Hour, 1))
	var runs []flow.RunID
	for range 20 {
		runs = append(runs, w.submit(stamp))
	}
	for i := range runs {
		for range 10 {
			if _, ok := w.offer(keyOf("a")); ok && i > 0 && w.now < start.Add(flow.Span(i)*flow.Hour) {
				t.Fatal("started too early")
			}
		}
		if r := w.run(runs[i]); r.status != flow.StatusExecuting {
			t.Fatalf("run %d is %v", i, r.status)
		}
		w.ends(flow.RecCompleted, runs[i])
		w.advance(w.now.Add(flow.Hour))
	}
}

// TestP7PlaceIsKept: whoever leaves the queue moves nobody but those behind him up,
// and nobody loses his place by waiting.
func TestP7PlaceIsKept(t *testing.T) {
	w := testWorld(t)
	w.light = true
	w.submit(limited("a", 1))
	w.offerAll(keyOf("a"))
	var runs []flow.RunID
	for range 300 {
		runs = append(runs, w.submit(limited("a", 1)))
		w.now++
	}
	k := w.live.key(keyOf("a"))
	position := func(i int) int64 { return k.Explain(w.now, w.run(runs[i]).order, runs[i]).Position }
	if position(0) != 1 || position(299) != 300 {
		t.Fatalf("positions %d and %d", position(0), position(299))
	}
	for i := 100; i < 200; i++ {
		w.leave(runs[i], flow.RecCancelled)
	}
	if position(99) != 100 || position(200) != 101 || position(299) != 200 {
		t.Fatalf("positions %d, %d and %d", position(99), position(200), position(299))
	}
	if got := k.Explain(w.now, w.run(runs[100]).order, runs[100]); got.Reason != "" || got.Position != 0 {
		t.Fatalf("a cancelled run waits: %+v", got)
	}
}

// TestP13EmptyKeyIsAKey: the runs without the parameter share one key, and it is
// not the key of the runs without gates.
func TestP13EmptyKeyIsAKey(t *testing.T) {
	w := testWorld(t)
	a, b := w.submit(limited("", 1)), w.submit(limited("", 1))
	free, other := w.submit(&flow.Stamp{}), w.submit(limited("x", 1))
	wantRuns(t, "the empty key", w.offerAll(keyOf("")), a)
	wantRuns(t, "no gate", w.offerAll(flow.KeyID{Workflow: "w", Kind: flow.KeyUngated}), free)
	wantRuns(t, "another key", w.offerAll(keyOf("x")), other)
	w.ends(flow.RecCompleted, a)
	wantRuns(t, "the empty key again", w.offerAll(keyOf("")), b)
}

// TestP61OldestFirst: the order is the submit instant, and the id only where that is
// the same, however late a run comes here.
func TestP61OldestFirst(t *testing.T) {
	w := testWorld(t)
	w.now = start.Add(second)
	c := w.submitAt(limited("a", 1), start.Add(3))
	a := w.submitAt(limited("a", 1), start.Add(1))
	b1, b2 := w.submitAt(limited("a", 1), start.Add(2)), w.submitAt(limited("a", 1), start.Add(2))
	for _, id := range []flow.RunID{a, b1, b2, c} {
		wantRuns(t, "the oldest", w.offerAll(keyOf("a")), id)
		w.ends(flow.RecCompleted, id)
	}
}

// TestP64RefusedOfferLeavesNoTrace: neither a record nor an effect nor a change.
func TestP64RefusedOfferLeavesNoTrace(t *testing.T) {
	for name, stamp := range map[string]*flow.Stamp{
		"limit": limited("a", 1), "rate": rated("a", flow.Hour, 1), "both": both(limited("a", 1), rated("a", flow.Hour, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			w := testWorld(t)
			w.submit(stamp)
			b := w.submit(stamp)
			w.offerAll(keyOf("a"))
			log, before := len(w.log), string(w.live.key(keyOf("a")).Fingerprint())
			for range 100 {
				w.offer(keyOf("a"))
				w.live.key(keyOf("a")).Explain(w.now, w.run(b).order, b)
			}
			if len(w.log) != log || string(w.live.key(keyOf("a")).Fingerprint()) != before {
				t.Fatal("a refused offer left something")
			}
		})
	}
}

// TestP61SetsAgree plays an ordered set through its growth and its shrinking against
// a sorted slice.
func TestP61SetsAgree(t *testing.T) {
	var s ordered[wantByPlace]
	var model []wantByPlace
	at := func(i int) wantByPlace { return wantByPlace{&want{place: place{order: flow.Instant(i)}}} }
	check := func() {
		if s.len() != len(model) {
			t.Fatalf("%d items, want %d", s.len(), len(model))
		}
		first, ok := s.first()
		if ok != (len(model) > 0) || ok && first.order != model[0].order {
			t.Fatal("the first differs")
		}
		i := 0
		s.each(func(v wantByPlace) bool {
			if got, ok := s.get(v); v.order != model[i].order || s.rank(v) != i || !ok || got != v {
				t.Fatalf("item %d differs", i)
			}
			i++
			return true
		})
		if i != len(model) {
			t.Fatalf("%d items were visited of %d", i, len(model))
		}
	}
	for i := range 200 {
		v := at(i * 7 % 200)
		if !s.put(v) || s.put(v) {
			t.Fatal("new and known differ")
		}
		j, _ := (&ordered[wantByPlace]{small: model}).find(v)
		model = append(model[:j], append([]wantByPlace{v}, model[j:]...)...)
		check()
	}
	for i := range 200 {
		v := at(i * 11 % 200)
		if _, ok := s.remove(v); !ok {
			t.Fatal("an item is missing")
		}
		if _, ok := s.remove(v); ok {
			t.Fatal("an item was there twice")
		}
		j, _ := (&ordered[wantByPlace]{small: model}).find(v)
		model = append(model[:j], model[j+1:]...)
		check()
	}
}
