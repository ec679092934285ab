package keyactor

import (
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

func testWorld(t *testing.T) *world {
	return newWorld(func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format, args...)
	})
}

// wantRuns compares admitted runs with the runs and the order they should have.
func wantRuns(t *testing.T, what string, got []flow.RunID, want ...flow.RunID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: admitted %v, want %v", what, got, want)
	}
}

func (w *world) ends(kind flow.RecordKind, run flow.RunID) {
	w.record(kind, flow.Fields{Run: run, Fence: w.run(run).fence})
}

func TestP3LimitHolds(t *testing.T) {
	w := testWorld(t)
	var runs []flow.RunID
	for range 5 {
		runs = append(runs, w.submit(limited("a", 2)))
	}
	wantRuns(t, "two slots", w.offerAll(keyOf("a")), runs[0], runs[1])
	w.ends(flow.RecFailed, runs[1])
	wantRuns(t, "one freed", w.offerAll(keyOf("a")), runs[2])
}

func TestP8SuspendFreesTheSlotAndKeepsTheToken(t *testing.T) {
	w := testWorld(t)
	stamp := both(limited("a", 1), rated("a", 60*second, 2))
	a, b := w.submit(stamp), w.submit(stamp)
	wantRuns(t, "one slot", w.offerAll(keyOf("a")), a)
	w.ends(flow.RecSuspended, a)
	if v := w.live.key(keyOf("a")).View(w.now); v.Used != 0 || v.Tokens != 1 {
		t.Fatalf("used %d, tokens %d; want 0 and 1", v.Used, v.Tokens)
	}
	wantRuns(t, "the slot is free", w.offerAll(keyOf("a")), b)
}

// TestP52ResumedRunsComeBeforeYoungerOnes: woken and expired runs win their slot
// again, at the place of their submit.
func TestP52ResumedRunsComeBeforeYoungerOnes(t *testing.T) {
	for _, how := range []flow.RecordKind{flow.RecSuspended, flow.RecRetrying, flow.RecExpired} {
		w := testWorld(t)
		a, b, c := w.submit(limited("a", 1)), w.submit(limited("a", 1)), w.submit(limited("a", 1))
		wantRuns(t, "first", w.offerAll(keyOf("a")), a)
		w.ends(how, a)
		if how == flow.RecExpired {
			wantRuns(t, "expired", w.offerAll(keyOf("a")), a)
			continue
		}
		wantRuns(t, "the next", w.offerAll(keyOf("a")), b)
		w.record(flow.RecWoken, flow.Fields{Run: a})
		wantRuns(t, "no slot for a woken run", w.offerAll(keyOf("a")))
		w.ends(flow.RecCompleted, b)
		wantRuns(t, "older first", w.offerAll(keyOf("a")), a)
		w.ends(flow.RecCompleted, a)
		wantRuns(t, "then the younger", w.offerAll(keyOf("a")), c)
	}
}

// TestP58VersionsShareTheCounter: a deploy doubles no limit.
func TestP58VersionsShareTheCounter(t *testing.T) {
	w := testWorld(t)
	v1, v2 := limited("a", 2), limited("a", 2)
	v2.Version = "2"
	a, b, c := w.submit(v1), w.submit(v2), w.submit(v2)
	wantRuns(t, "two of both versions", w.offerAll(keyOf("a")), a, b)
	w.ends(flow.RecCompleted, a)
	wantRuns(t, "one for one", w.offerAll(keyOf("a")), c)
}

// TestP59EachRunTestsItsOwnMax: the same used, judged by each stamp.
func TestP59EachRunTestsItsOwnMax(t *testing.T) {
	w := testWorld(t)
	wide, narrow := limited("a", 3), limited("a", 1)
	a, b, c, d := w.submit(wide), w.submit(wide), w.submit(narrow), w.submit(wide)
	wantRuns(t, "the narrow one holds the queue", w.offerAll(keyOf("a")), a, b)
	if e := w.live.key(keyOf("a")).Explain(w.now, w.run(d).order, d); e.Reason != flow.WaitLimit || e.Used != 2 || e.Max != 1 || e.Position != 2 {
		t.Fatalf("why the run behind waits: %+v", e)
	}
	w.ends(flow.RecCompleted, a)
	wantRuns(t, "still one too many", w.offerAll(keyOf("a")))
	w.ends(flow.RecCompleted, b)
	wantRuns(t, "narrow, then wide beside it", w.offerAll(keyOf("a")), c, d)
}

func TestP86LoweredMaxStopsNothing(t *testing.T) {
	w := testWorld(t)
	var old, later []flow.RunID
	for range 5 {
		old = append(old, w.submit(limited("a", 5)))
	}
	w.offerAll(keyOf("a"))
	for range 3 {
		later = append(later, w.submit(limited("a", 2)))
	}
	for i, id := range old {
		if w.run(id).status != flow.StatusExecuting {
			t.Fatalf("run %d was stopped", i)
		}
		if i < 4 {
			wantRuns(t, "too many execute", w.offerAll(keyOf("a")))
		}
		w.ends(flow.RecCompleted, id)
	}
	wantRuns(t, "below the new max", w.offerAll(keyOf("a")), later[0], later[1])
}

// TestR20TerminatedRunsHoldTheirSlot: used is executing plus holds, until the end
// with the fence.
func TestR20TerminatedRunsHoldTheirSlot(t *testing.T) {
	w := testWorld(t)
	a, b := w.submit(limited("a", 1)), w.submit(limited("a", 1))
	w.offerAll(keyOf("a"))
	fence := w.run(a).fence
	w.ends(flow.RecTerminated, a)
	wantRuns(t, "the slot is held", w.offerAll(keyOf("a")))
	e := w.live.key(keyOf("a")).Explain(w.now, w.run(b).order, b)
	if len(e.Holders) != 1 || e.Holders[0] != (flow.Holder{Run: a, Fence: fence, Terminated: true}) {
		t.Fatalf("holders: %+v", e.Holders)
	}
	w.record(flow.RecHoldFreed, flow.Fields{Run: a, Fence: fence})
	wantRuns(t, "the hold is gone", w.offerAll(keyOf("a")), b)
}

// TestP3FreeingWhatIsNotHeldPanics: each of these would let one run too many start.
func TestP3FreeingWhatIsNotHeldPanics(t *testing.T) {
	for name, rec := range map[string]flow.Record{
		"twice":             {Kind: flow.RecCompleted, Fields: flow.Fields{Fence: 1}},
		"with an old fence": {Kind: flow.RecCompleted},
		"a queued run":      {Kind: flow.RecFailed, Fields: flow.Fields{Fence: 2}},
		"a hold too early":  {Kind: flow.RecHoldFreed, Fields: flow.Fields{Fence: 3}},
		"admitted twice":    {Kind: flow.RecAdmitted, Fields: flow.Fields{Fence: 9}},
		"queued twice":      {Kind: flow.RecSubmitted},
		"no fence":          {Kind: flow.RecCancelled},
		"terminated":        {Kind: flow.RecTerminated, Fields: flow.Fields{Fence: 4}},
		"reserved":          {Kind: flow.RecReserved},
		"unused":            {Kind: flow.RecUnused},
		"asked":             {Kind: flow.RecAsked},
	} {
		t.Run(name, func(t *testing.T) {
			w := testWorld(t)
			ended, held, queued := w.submit(limited("a", 3)), w.submit(limited("a", 3)), w.submit(limited("a", 2))
			w.offer(keyOf("a"))
			w.offer(keyOf("a"))
			w.ends(flow.RecCompleted, ended)
			w.record(flow.RecSubmitted, flow.Fields{Run: flow.RunID{1}, Order: w.now, Workflow: "w", Stamp: limited("a", 3)})
			k := w.live.key(keyOf("a"))
			rec.At, rec.Stamp = w.now, limited("a", 3)
			switch name {
			case "queued twice", "a queued run":
				rec.Run, rec.Order = queued, w.run(queued).order
			case "a hold too early":
				rec.Run, rec.Fence = held, w.run(held).fence
			case "with an old fence":
				rec.Run, rec.Fence = held, w.run(held).fence-1
			case "no fence", "terminated":
				rec.Run = held
			default:
				rec.Run, rec.Order = ended, w.run(ended).order
			}
			defer func() {
				if recover() == nil {
					t.Errorf("%v of %v was applied", rec.Kind, rec.Run)
				}
			}()
			k.Apply(&rec)
		})
	}
}
