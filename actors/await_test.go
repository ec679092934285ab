package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// endings bring the child of a waiting parent to its end, before or after the wait begins.
var endings = map[string]struct {
	before, after func(w *world, child flow.RunID)
	want          string
}{
	"completed before": {before: finishChild, want: `completed"done";`},
	"completed after":  {after: finishChild, want: `completed"done";`},
	"cancelled after":  {after: func(w *world, c flow.RunID) { w.cancel(c) }, want: "cancelled;"},
	"archived before": {before: func(w *world, c flow.RunID) {
		finishChild(w, c)
		w.pass(5 * time.Second)
	}, want: `completed"done";`},
	"handed on after": {after: func(w *world, c flow.RunID) {
		w.keptAlive("sync", "2")
		w.pass(20 * time.Millisecond)
		w.handedOn(c, w.last(c))
		finishChild(w, w.last(c))
	}, want: `completed"done";`},
	"handed on and archived before": {before: func(w *world, c flow.RunID) {
		w.keptAlive("sync", "2")
		w.pass(20 * time.Millisecond)
		finishChild(w, w.last(c))
		w.pass(5 * time.Second)
	}, want: `completed"done";`},
	"a restart between": {after: func(w *world, c flow.RunID) {
		w.snapshots()
		w.restart()
		finishChild(w, c)
	}, want: `completed"done";`},
}

func finishChild(w *world, c flow.RunID) {
	w.Helper()
	w.complete(w.claimOneOf("sync", "1", c, 1))
}

// TestS96P54R15EveryEndWakesTheParentOnce fails when a parent that waits for a run isn't woken,
// is woken twice, or hears of another outcome, whatever way and whenever that run has ended.
func TestS96P54R15P32EveryEndWakesTheParentOnce(t *testing.T) {
	for name, e := range endings {
		for shard := range 2 {
			t.Run(fmt.Sprint(name, " in shard ", shard), func(t *testing.T) {
				setup{shards: 2, recentFor: 2 * flow.Second}.play(t, func(w *world) {
					w.declare("parent", `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":600}`)
					w.deployed(`"limit":{"key":"k","max":3},"lease_seconds":600`, `"limit":{"key":"r","max":2},"lease_seconds":600`)
					parent := w.submit("parent", fmt.Sprintf(`{"k":%q}`, w.keyIn(0, "parent", "p")))
					g := w.claimRun("parent", "1", parent)
					child := w.stampedBy("1", 1, fmt.Sprintf(`{"k":%q,"r":%q}`, w.keyIn(shardID(shard), "sync", "k"), w.keyIn(0, "sync", "r")))[0]
					if e.before != nil {
						e.before(w, child)
					}
					w.untilRuns(g, child.String())
					if e.after != nil {
						w.is(parent, "suspended")
						e.after(w, child)
					}
					w.pass(50 * time.Millisecond)
					g = w.claimRun("parent", "1", parent)
					if got := outcomes(g); got != e.want || g.Waits[0].Outcomes[0].RunID != child.String() {
						w.Errorf("the parent hears %s of %s", got, g.Waits[0].Outcomes[0].RunID)
					}
					w.complete(g)
					if n := w.count(parent, flow.EventResumed); n != 1 {
						w.Errorf("it woke %d times", n)
					}
				})
			})
		}
	}
}

// TestS96R15UnknownRun fails when a wait for a run that nobody knows never ends.
func TestS96R15UnknownRun(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", byOne)
		parent := w.submit("sync", `{"k":"p"}`)
		w.untilRuns(w.claimRun("sync", "1", parent), "run_00000000000000000000000001")
		w.pass(50 * time.Millisecond)
		if got := outcomes(w.claimRun("sync", "1", parent)); got != "unknown;" {
			w.Errorf("the parent hears %s", got)
		}
	})
}

// TestS91S92S95SignalsFindTheirWait fails when a signal that comes before its wait, or in
// place of one that timed out, is lost, or when an older wait's signal ends a newer wait.
func TestS91S92S95SignalsFindTheirWait(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", byOne)
		id := w.submit("sync", `{"k":"p"}`)
		w.signal(id, "first", `1`) // before the claim
		w.restart()
		g := w.claimRun("sync", "1", id)
		w.untilSignal(g, "first", 0)
		g = w.claimRun("sync", "1", id)
		if len(g.Waits) != 1 || string(g.Waits[0].Payload) != "1" {
			w.Fatalf("the kept signal's wait: %+v", g.Waits)
		}
		w.untilSignal(g, "x", time.Second)
		w.pass(2 * time.Second)
		g = w.claimRun("sync", "1", id)
		if n := len(g.Waits); n != 2 || !g.Waits[1].TimedOut {
			w.Fatalf("after the timeout: %+v", g.Waits)
		}
		w.untilSignal(g, "y", 0)
		w.signal(id, "x", `2`) // of a wait that is over
		w.pass(time.Minute)
		w.is(id, "suspended")
		w.signal(id, "y", `3`)
		g = w.claimRun("sync", "1", id)
		w.untilSignal(g, "x", time.Second)
		g = w.claimRun("sync", "1", id)
		if last := g.Waits[len(g.Waits)-1]; last.Name != "x" || string(last.Payload) != "2" || last.Visit != 2 {
			w.Errorf("the second wait for x got %+v", last)
		}
		w.complete(g)
	})
}

// TestS21StepsOutliveAKill fails when a run that is claimed again after a kill lacks a step
// that was recorded, or its worker can't go on with its fence.
func TestS21R15StepsOutliveAKill(t *testing.T) {
	for _, lives := range []bool{true, false} {
		play(t, func(w *world) {
			w.declare("sync", one)
			ids := w.submitAll(2, "sync", `{"k":"a"}`)
			g := w.claimRun("sync", "1", ids[0])
			w.record(g, "one", `1`)
			w.record(g, "two", `2`)
			w.restart()
			if !lives {
				w.pass(expiry + time.Second)
				old := g
				g = w.claimRun("sync", "1", ids[0])
				if len(g.Steps) != 2 || g.Steps[0].Name != "one" || string(g.Steps[1].Result) != "2" {
					w.Errorf("the next worker gets %+v", g.Steps)
				}
				refused(w, w.recording(old, wire.Steps{Steps: []wire.Step{{Name: "three"}}}), flow.ErrStaleFence)
			}
			w.record(g, "two", `2`) // again: the same
			refused(w, w.recording(g, wire.Steps{Steps: []wire.Step{{Name: "two", Result: []byte(`9`)}}}), flow.ErrStepConflict)
			w.record(g, "three", `3`)
			w.complete(g)
			w.claimRun("sync", "1", ids[1])
		})
	}
}
