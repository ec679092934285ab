package actors_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestWatchersAreToldOnceAtTheEnd fails when a reader that waits for a run's end is told
// early, late or never, for every way to end.
func TestWatchersAreToldOnceAtTheEnd(t *testing.T) {
	ends := map[string]func(w *world, id flow.RunID, g wire.Grant){
		"completed":  func(w *world, _ flow.RunID, g wire.Grant) { w.complete(g) },
		"failed":     func(w *world, _ flow.RunID, g wire.Grant) { await(w, w.failing(g, false)) },
		"terminated": func(w *world, id flow.RunID, _ wire.Grant) { w.terminate(id) },
		"cancelled": func(w *world, id flow.RunID, g wire.Grant) {
			w.cancel(id)
			w.complete(g)
		},
	}
	for status, end := range ends {
		t.Run(status, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"max_attempts":2,"retry_backoff_seconds":1}`)
				id := w.submit("sync", `{"k":"a"}`)
				var all []*call[wire.Run]
				for range 20 {
					all = append(all, w.waitingFor(id, time.Hour))
				}
				g := w.claimRun("sync", "1", id)
				await(w, w.failing(g, true)) // suspended, woken, claimed again: no end yet
				w.pass(1100 * time.Millisecond)
				g = w.claimRun("sync", "1", id)
				for _, c := range all {
					if c.over() {
						w.Fatal("told before the end")
					}
				}
				at := w.now()
				end(w, id, g)
				w.settle()
				for _, c := range all {
					if !c.over() || c.err != nil || c.value.Status != status {
						w.Fatalf("over %t with %q, %v", c.over(), c.value.Status, c.err)
					}
				}
				if again := await(w, w.waitingFor(id, time.Hour)); again.Status != status || w.now() != at {
					w.Errorf("a run that has ended is told after %s as %s", w.now()-at, again.Status)
				}
			})
		})
	}
}

// TestWatchEndsWithItsTime fails when a reader whose time is over, or who has gone, is
// held or remembered.
func TestWatchEndsWithItsTime(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		id := w.submit("sync", `{"k":"a"}`)
		at := w.now()
		got := await(w, w.waitingFor(id, 3*time.Second))
		if took := w.now() - at; got.Status != "queued" || took < 3*time.Second || took > 3100*time.Millisecond {
			w.Errorf("%s after %s, want queued after 3 s", got.Status, took)
		}
		ctx, cancel := context.WithCancel(w.Context())
		gone := begin(func() (wire.Run, error) { return w.Node.Run(ctx, id, time.Hour) })
		w.settle()
		cancel()
		w.settle()
		if !gone.over() || !errors.Is(gone.err, context.Canceled) {
			w.Errorf("a reader who has gone: over %t, %v", gone.over(), gone.err)
		}
		if n := actors.Watchers(w.Node); n != 0 {
			w.Errorf("%d readers are remembered", n)
		}
		refused(w, w.waitingFor(w.id("run_00000000000000000000000001"), time.Hour), flow.ErrUnknownRun)
	})
}

// TestWatchersAreBounded fails when readers of one run are taken without end.
func TestWatchersAreBounded(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		id := w.submit("sync", `{"k":"a"}`)
		var all []*call[wire.Run]
		for range 1024 {
			all = append(all, w.waitingFor(id, time.Minute))
		}
		w.settle()
		refused(w, w.waitingFor(id, time.Minute), flow.ErrOverloaded)
		w.cancel(id)
		w.settle()
		for _, c := range all {
			if !c.over() || c.value.Status != "cancelled" {
				w.Fatalf("over %t with %q", c.over(), c.value.Status)
			}
		}
	})
}

// TestWatchOfALostShardIsTold fails when a reader waits on for a shard that has lost
// what it knew.
func TestWatchOfALostShardIsTold(t *testing.T) {
	setup{shards: 1, chaos: new(uint64(1))}.play(t, func(w *world) {
		w.declare("sync", one)
		id := w.submit("sync", `{"k":"a"}`)
		watch := w.waitingFor(id, time.Hour)
		w.settle()
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		w.settle()
		if !watch.over() || !errors.Is(watch.err, flow.ErrNotReady) {
			w.Errorf("over %t with %v", watch.over(), watch.err)
		}
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		w.is(id, "queued")
	})
}

// TestR11OfferOfAnOldEpochIsVoid fails when credit that was lent to a shard in an epoch
// that is over admits a run: the dispatcher has taken it back already.
func TestR11OfferOfAnOldEpochIsVoid(t *testing.T) {
	setup{shards: 1, chaos: new(uint64(1))}.play(t, func(w *world) {
		w.declare("sync", leased)
		ids := w.submitAll(3, "sync", `{"k":"a"}`)
		busy, free := make(chan struct{}), make(chan struct{})
		w.clock.trap(func() {
			close(busy)
			<-free
		})
		read := w.reading(ids[0]) // a turn that doesn't end
		<-busy
		claim := w.claiming("sync", "1", 1, time.Hour)
		w.settle() // the offer lies in the mailbox, and behind it
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		must(w, w.chaos.Settle(w.Context()))
		close(free)
		w.commit()
		if !claim.over() || len(claim.value) != 1 {
			w.Fatalf("over %t with %s", claim.over(), names(claim.value))
		}
		admitted := 0
		for _, id := range ids {
			admitted += w.count(id, flow.EventClaimed)
		}
		if admitted != 1 {
			w.Errorf("%d runs were admitted for one unit of credit", admitted)
		}
		<-read.done
	})
}

// TestP22P27P77UnknownGatesAreHandedOnToTheFirstWorker fails when a run that was submitted
// before any declaration passes a worker's limit unseen, or is never served; and when a
// worker without gates, which agrees with it, hands it on.
func TestP22P27P77UnknownGatesAreHandedOnToTheFirstWorker(t *testing.T) {
	play(t, func(w *world) {
		id := w.submit("sync", `{"k":"a"}`)
		if r := w.status(id); r.Wait == nil || r.Wait.Reason != "no_worker" || !r.GatesUnknown {
			w.Errorf("nobody has declared it: %+v", r.Wait)
		}
		w.declare("sync", one)
		w.pass(time.Millisecond)           // instants of two shards tell who is younger
		b := w.submit("sync", `{"k":"a"}`) // younger, and of known gates
		w.keptAlive("sync", "1")
		w.pass(20 * time.Millisecond)
		g := w.claimBy("sync", "1", 5)
		r := w.status(id)
		if len(g) != 1 || g[0].RunID != r.RunID || r.GatesUnknown || len(r.Gates) != 1 || r.Gates[0].Key != "a" || r.StampedVersion != "1" {
			w.Fatalf("granted %s; behind the claim of a worker with a limit it is %+v", names(g), r)
		}
		w.handedOn(id, w.id(r.RunID))
		w.is(b, "queued")
		w.complete(g[0])
		w.claimRun("sync", "1", b)
		w.is(id, "completed")
	})
	play(t, func(w *world) {
		id := w.submit("sync", `{"k":"a"}`)
		w.declare("sync", `{"version":"2"}`)
		w.complete(w.claimRun("sync", "2", id))
		if n := w.countAll(flow.RecContinued); n != 0 {
			w.Errorf("%d hand-ons to a worker without gates", n)
		}
	})
}

// TestP31P77ExemptRunsOfUnknownGatesPassNone fails when a run that somebody else made and
// waits for is handed on, or held by gates that it doesn't have.
func TestP31P77ExemptRunsOfUnknownGatesPassNone(t *testing.T) {
	for _, trigger := range []string{"case", "replay", "eval"} {
		play(t, func(w *world) {
			s := submitOf("sync", `{"k":"a"}`)
			s.Trigger = trigger
			ids := []string{await(w, w.submitting(s)).RunID, await(w, w.submitting(s)).RunID}
			w.declare("sync", one)
			gated := w.submitAll(2, "sync", `{"k":"a"}`)
			var g []wire.Grant
			for range 3 {
				g = append(g, w.claimBy("sync", "1", 5)...)
			}
			if len(g) != 3 {
				w.Fatalf("%s: granted %s, want %s and %s", trigger, names(g), ids, gated[0])
			}
			for _, grant := range g {
				if grant.RunID == gated[0].String() {
					continue
				}
				if r := w.status(w.id(grant.RunID)); !r.GatesUnknown || r.Provenance.Source.Trigger != trigger || grant.Key != "" {
					w.Errorf("%s: %+v", trigger, r)
				}
				w.complete(grant)
			}
			w.used("sync", "a", 1)
			if n := w.countAll(flow.RecContinued); n != 0 {
				w.Errorf("%s: %d hand-ons", trigger, n)
			}
		})
	}
}
