package actors_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestS08P50NoGrantBeforeReplayIsDone fails when a grant leaves before the log is
// replayed, when a holder loses its slot with the node, or when two execute.
func TestS08P50P85NoGrantBeforeReplayIsDone(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(3, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		w.pass(12 * time.Second)
		w.crash(0)
		w.settle()
		c := w.claiming("sync", "1", 3, 0)
		if <-c.done; c.err == nil || !errors.Is(c.err, flow.ErrNotReady) {
			w.Errorf("a claim while the node starts: %v, %v", c.value, c.err)
		}
		if w.Ready(w.Context()).Ready {
			w.Error("ready before the log is known")
		}
		w.serves()
		if got := w.claim("sync", "1", 3); len(got) != 0 {
			w.Fatalf("granted %s beside a holder that was replayed", names(got))
		}
		w.pass(12 * time.Second) // a full expiry from the moment the node is ready
		if !w.beat(g).OK {
			w.Fatal("the holder lost its lease with the node")
		}
		w.pass(expiry + 10*time.Millisecond)
		w.claimRun("sync", "1", ids[0])
	})
}

// TestS09EveryHolderIsRestored fails when a holder is lost between a snapshot and the
// log, or a waiter starts beside it.
func TestS09R9EveryHolderIsRestored(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("sync", one)
		var grants []wire.Grant
		snapshot := func() {
			for s := range w.spy.logs {
				must(w, w.spy.logs[s].Snapshot(w.Context()))
			}
		}
		for i := range 3 {
			params := fmt.Sprintf(`{"k":"%d"}`, i)
			ids := w.submitAll(2, "sync", params)
			grants = append(grants, w.claimRun("sync", "1", ids[0]))
			if i == 1 {
				snapshot()
			}
		}
		for range 2 {
			w.restart()
			for i, g := range grants {
				v := w.key("sync", fmt.Sprint(i))
				if v.Used != 1 || len(v.Holders) != 1 || v.Holders[0].RunID != g.RunID || v.Holders[0].Fence != g.Fence || v.Queued != 1 {
					w.Errorf("key %d: %+v", i, v)
				}
			}
			if g := w.claim("sync", "1", 9); len(g) != 0 {
				w.Fatalf("granted %s beside the holders", names(g))
			}
			snapshot()
		}
		for _, g := range grants {
			w.complete(g)
		}
		if g := w.claim("sync", "1", 9); len(g) != 3 {
			w.Errorf("%d waiters start after their holders' end", len(g))
		}
	})
}

// TestS23LimitAndOrderAfterACrash fails when a restart raises the limit or forgets the
// order.
func TestS23LimitAndOrderAfterACrash(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":2},"lease_seconds":10}`)
		ids := w.submitAll(4, "sync", `{"k":"a"}`)
		w.claimAll("sync", ids[:2])
		w.restart()
		w.used("sync", "a", 2)
		s := w.serve(1, "sync")
		s.work(expiry - 10*time.Millisecond)
		s.inOrder(nil)
		s.work(time.Second)
		s.inOrder(ids)
	})
}

// TestS24KeysComeBackWithTheRuns fails when a restart loses a key, mixes keys up or
// lets more start than the limit.
func TestS24KeysComeBackWithTheRuns(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":100}}`)
		first := w.submitAll(500, "sync", `{"k":"k"}`)
		held := w.claimAll("sync", first[:100])
		w.submitAll(10, "sync", `{"k":"j"}`)
		w.restart()
		ended := 0
		grants := w.claim("sync", "1", 1000)
		if len(grants) != 10 || grants[0].Key != "j" {
			w.Fatalf("%d runs start at once, the first of key %q", len(grants), grants[0].Key)
		}
		for _, g := range append(held, grants...) {
			w.complete(g)
			ended++
		}
		for ended < 510 {
			grants := w.claim("sync", "1", 1000)
			if v := w.key("sync", "k"); len(grants) == 0 || v.Used > 100 {
				w.Fatalf("%d ended, %d granted, %d used", ended, len(grants), v.Used)
			}
			for _, g := range grants {
				w.complete(g)
				ended++
			}
		}
		if v := w.key("sync", ""); v.Queued != 0 || v.Used != 0 {
			w.Errorf("the empty key: %+v", v)
		}
	})
}

// TestS29CancelOfARunWhoseWorkerIsGone fails when a cancelled run whose worker and node
// were killed is started again, or never ends.
func TestS29CancelOfARunWhoseWorkerIsGone(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		w.claimRun("sync", "1", ids[0])
		w.restart()
		if s := w.cancel(ids[0]); s != "executing" {
			w.Fatalf("cancel of an executing run: %s", s)
		}
		w.restart()
		w.pass(expiry - 10*time.Millisecond)
		w.is(ids[0], "executing")
		w.pass(20 * time.Millisecond)
		w.is(ids[0], "cancelled")
		w.claimRun("sync", "1", ids[1])
		if n := w.count(ids[0], flow.EventClaimed); n != 1 {
			w.Errorf("it was claimed %d times", n)
		}
	})
}

// TestS67CancelledWhileWaitingToRetry fails when a run starts after its cancel was
// acknowledged.
func TestS67S86CancelledWhileWaitingToRetry(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":2000},"max_attempts":3,"retry_backoff_seconds":60}`)
		ids := w.submitAll(600, "sync", `{"k":"a"}`)
		for _, g := range w.claimAll("sync", ids) {
			await(w, w.failing(g, true))
		}
		for _, id := range ids[:500] {
			if s := w.cancel(id); s != "cancelled" {
				w.Fatal(s)
			}
		}
		w.restart()
		w.pass(2 * time.Minute)
		w.claimAll("sync", ids[500:])
		if g := w.claim("sync", "1", 100); len(g) != 0 {
			w.Errorf("%d cancelled runs were granted", len(g))
		}
	})
}

// TestR11NoClaimIsAnsweredBeforeEveryShardHasReported fails when a claim gets a run
// while a shard is unknown: its runs may be older, or count against a budget.
func TestR11NoClaimIsAnsweredBeforeEveryShardHasReported(t *testing.T) {
	setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
		w.declare("sync", one)
		k := w.keyIn(1, "sync", "k")
		a := w.submit("sync", `{"k":"`+k+`"}`)
		await(w, w.suspending(w.claimRun("sync", "1", a), w.clock.Wall().Add(flow.Second)))
		claim := w.claiming("sync", "1", 1, time.Hour)
		w.settle()
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		w.pass(2 * time.Second)
		if claim.over() {
			w.Fatalf("answered with %v while shard 0 has no owner", claim.value)
		}
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		if !claim.over() || len(claim.value) != 1 {
			w.Errorf("after shard 0 has reported: over %t, %v", claim.over(), claim.value)
		}
	})
}

// TestR11LentCreditComesBackFromALostShard fails when a claim's credit is lost with the
// shard that it was lent to.
func TestR11LentCreditComesBackFromALostShard(t *testing.T) {
	setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
		w.declare("sync", leased)
		lost, kept := w.keyIn(0, "sync", "k"), w.keyIn(1, "sync", "k")
		ids := append(w.submitAll(2, "sync", `{"k":"`+lost+`"}`), w.submitAll(1, "sync", `{"k":"`+kept+`"}`)...)
		claim := w.claiming("sync", "1", 3, time.Hour)
		w.settle() // all three are admitted, and nothing is durable
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		w.commit()
		if !claim.over() || len(claim.value) != 1 || claim.value[0].RunID != ids[2].String() {
			w.Fatalf("over %t with %s, want %s", claim.over(), names(claim.value), ids[2])
		}
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		w.is(ids[0], "queued")
		w.claimRun("sync", "1", ids[0])
		w.claimRun("sync", "1", ids[1])
		if lent := lentUnits(w); lent != 0 {
			w.Errorf("%d units never came back", lent)
		}
	})
}

// TestR11ReadyNodeKnowsWhatIsReady fails when a node is ready, and answers a claim that
// doesn't wait, before every shard has said what is ready.
func TestR11ReadyNodeKnowsWhatIsReady(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"`+w.keyIn(0, "sync", "k")+`"}`)
		w.fall(0)
		free := make(chan struct{})
		w.onAppend = func(s engine.ShardID) { // shard 1 is held up in its promotion
			if s == 1 {
				<-free
			}
		}
		w.open()
		w.settle()
		claim := w.claiming("sync", "1", 1, 0)
		w.settle()
		if claim.over() && claim.err == nil && len(claim.value) == 0 {
			w.Errorf("run %s waits, and a claim was answered with nothing", a)
		}
		close(free)
		w.serves()
		if <-claim.done; claim.err != nil || len(claim.value) == 0 {
			w.claimRun("sync", "1", a)
		}
	})
}
