package actors_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// twoKeys is a workflow with a Limit and a Rate on keys of their own.
const twoKeys = `{"version":"1","limit":{"key":"l","max":2},"rate":{"key":"r","per_second":1,"burst":1},"lease_seconds":10}`

// params2 are params for twoKeys.
func params2(limit, rate string) string { return `{"l":"` + limit + `","r":"` + rate + `"}` }

// TestLaw1R6NoLetterOfAPromotionLeavesBeforeItsEntry fails when a token that a
// promotion gives reaches the other shard before the entry that gave it is durable.
func TestLaw1R6NoLetterOfAPromotionLeavesBeforeItsEntry(t *testing.T) {
	setup{shards: 2, manual: true}.play(t, func(w *world) {
		w.declare("pair", twoKeys)
		home, rate := w.keyIn(0, "pair", "l"), w.keyIn(1, "pair", "r")
		w.submitAll(2, "pair", params2(home, rate))
		if g := w.claimFor("pair", "1", 2, 100*time.Millisecond); len(g) != 1 {
			w.Fatalf("%d grants with one token", len(g))
		}
		before, _ := w.entries(0)
		if n := countKind(before, flow.RecAsked); n != 2 {
			w.Fatalf("%d wants were sent, want 2", n)
		}
		w.fall(0)
		w.pass(2 * time.Second) // the bucket opens while the node is down
		w.open()
		<-time.After(time.Millisecond) // what came due meanwhile is done in turns after the first
		w.settle()
		gave, _ := w.entries(1)
		if n := countKind(gave, flow.RecTokenGiven); n != 2 {
			w.Fatalf("the promotion gave %d tokens in all, want 2", n)
		}
		after, _ := w.entries(0)
		if a, b := countKind(before, flow.RecReceived), countKind(after, flow.RecReceived); a != b {
			w.Errorf("shard 0 received %d letters of an entry that isn't durable", b-a)
		}
		w.commit()
	})
}

func countKind(all []entry, k flow.RecordKind) int {
	n := 0
	for i := range all {
		for _, have := range all[i].kinds(flow.RunID{}) {
			if have == k {
				n++
			}
		}
	}
	return n
}

// TestLaw3DemotedWhileItIsPromoted fails when a shard that loses its ownership
// while it takes it up ends the process, or never serves again.
func TestLaw3DemotedWhileItIsPromoted(t *testing.T) {
	for _, s := range []engine.ShardID{0, 1} {
		setup{shards: 2, chaos: new(uint64(7))}.play(t, func(w *world) {
			ctx := w.Context()
			w.declare("sync", one)
			a := w.submit("sync", `{"k":"`+w.keyIn(s, "sync", "k")+`"}`)
			must(w, w.chaos.Demote(ctx, s, 0))
			w.settle()
			w.clock.trap(func() { must(w, w.chaos.Demote(ctx, s, 0)) })
			must(w, w.chaos.Settle(ctx))
			w.settle()
			must(w, w.chaos.Settle(ctx))
			w.commit()
			w.is(a, "queued")
			w.complete(w.claimRun("sync", "1", a))
		})
	}
}

func must(w *world, err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// TestR18FencesJumpAtEveryPromotion fails when a fence that was given in a lost
// entry may be given again: the counter stands at a multiple of 2^24 after each
// promotion, and is journaled.
func TestR18FencesJumpAtEveryPromotion(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		s := w.shardOf("sync", "a")
		var given []uint64
		for range 4 {
			w.claiming("sync", "1", 1, time.Second)
			w.settle() // admitted, and not durable
			all, durable := w.entries(s)
			last := all[len(all)-1]
			if durable == len(all) || !slices.Contains(last.kinds(a), flow.RecAdmitted) {
				w.Fatalf("the admission is not the entry in flight: %v", last.kinds(a))
			}
			given = append(given, last.records[0].Fence)
			w.crash(0)
			w.serves()
			all, _ = w.entries(s)
			if p := all[len(all)-1].records[0]; p.Kind != flow.RecPromoted || p.Fence%(1<<24) != 0 || p.Fence < given[len(given)-1] {
				w.Fatalf("%v with fence %d after fence %d", p.Kind, p.Fence, given[len(given)-1])
			}
		}
		if g := w.claimRun("sync", "1", a); g.Fence >= 1<<53 {
			w.Errorf("fence %d doesn't fit a double", g.Fence)
		} else {
			given = append(given, g.Fence)
		}
		for i := 1; i < len(given); i++ {
			if given[i] <= given[i-1] {
				w.Errorf("fences %v don't rise", given)
			}
		}
	})
}

// TestR17NothingIsStampedBeforeTheDeclarationsAreKnown fails when a run is taken
// after a restart, before the declarations are, and so passes its limit unseen.
func TestR17NothingIsStampedBeforeTheDeclarationsAreKnown(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		w.crash(0)
		w.settle() // every shard is promoted, and nothing of it is durable
		submit := w.submitting(submitOf("sync", `{"k":"a"}`))
		short, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		ready := w.WaitReady(short)
		w.settle()
		if ready == nil {
			w.Error("ready before the declarations are known")
		}
		w.serves()
		if <-submit.done; submit.err == nil {
			if got := w.status(w.id(submit.value.RunID)); got.GatesUnknown || len(got.Gates) != 1 {
				w.Errorf("the run has gates %+v (unknown %t)", got.Gates, got.GatesUnknown)
			}
		}
	})
}
