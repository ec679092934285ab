package actors_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// refused fails unless a call was refused with the error.
func refused[T any](w *world, c *call[T], want error) {
	w.Helper()
	if w.commit(); !c.over() || !errors.Is(c.err, want) {
		w.Errorf("over %t with %v, want %v", c.over(), c.err, want)
	}
}

// TestS01P50DeadBetweenGrantAndStart fails when a run whose worker dies before its
// first word keeps its slot, or loses its place.
func TestS01P50DeadBetweenGrantAndStart(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ab := w.submitAll(2, "sync", `{"k":"a"}`)
		w.complete(w.claimRun("sync", "1", ab[0]))
		w.claimRun("sync", "1", ab[1]) // and its worker dies
		c := w.submit("sync", `{"k":"a"}`)
		w.pass(expiry - 50*time.Millisecond)
		w.used("sync", "a", 1)
		if g := w.claim("sync", "1", 5); len(g) != 0 {
			w.Fatalf("granted %s beside a living lease", names(g))
		}
		w.pass(100 * time.Millisecond)
		w.used("sync", "a", 0)
		w.complete(w.claimRun("sync", "1", ab[1]))
		w.complete(w.claimRun("sync", "1", c))
		w.used("sync", "a", 0)
	})
}

// TestS02CancelInTheTurnOfTheClaim fails when a run whose cancel lies in the batch of
// its admission, before it or after it, keeps the slot or ends twice.
func TestS02CancelInTheTurnOfTheClaim(t *testing.T) {
	for _, cancelFirst := range []bool{true, false} {
		setup{manual: true, window: 1}.play(t, func(w *world) {
			w.declare("sync", one)
			a := w.submit("sync", `{"k":"a"}`)
			w.fillWindow("sync", "a")
			var cancel *call[string]
			var claim *call[[]wire.Grant]
			if cancelFirst {
				cancel = w.cancelling(a)
				w.settle()
			}
			claim = w.claiming("sync", "1", 1, 0)
			w.settle()
			if !cancelFirst {
				cancel = w.cancelling(a)
				w.settle()
			}
			await(w, cancel)
			for _, g := range await(w, claim) {
				if cancelFirst {
					w.Fatalf("granted %s after its cancel", g.RunID)
				}
				if !w.beat(g).CancelRequested {
					w.Error("the holder isn't told of the cancel")
				}
				if s := w.complete(g); s != "cancelled" { // S62
					w.Errorf("after an acknowledged cancel it ended %s", s)
				}
			}
			w.is(a, "cancelled")
			w.used("sync", "a", 0)
			b := w.submit("sync", `{"k":"a"}`)
			w.complete(w.claimRun("sync", "1", b))
			if n := w.count(a, flow.EventCancelled); n != 1 {
				w.Errorf("it ended %d times", n)
			}
		})
	}
}

// fillWindow leaves a shard without room in its log, so that what comes next is one
// batch. The window is one entry.
func (w *world) fillWindow(workflow, key string) {
	w.Helper()
	w.declare("filler", leased)
	s := w.shardOf(workflow, key)
	w.submitting(submitOf("filler", `{"k":"`+w.keyIn(s, "filler", "f")+`"}`))
	w.settle()
	if all, durable := w.mem.Entries(s); len(all) != durable+1 {
		w.Fatalf("%d entries are in flight, want 1", len(all)-durable)
	}
}

// TestS05P51WorkerThoughtDeadComesBack fails when a former holder's report changes
// something.
func TestS05P51WorkerThoughtDeadComesBack(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(3, "sync", `{"k":"a"}`)
		g1 := w.claimRun("sync", "1", ids[0])
		w.pass(expiry + 10*time.Millisecond)
		g2 := w.claimRun("sync", "1", ids[0])
		if g2.Fence <= g1.Fence {
			w.Fatalf("fence %d after %d", g2.Fence, g1.Fence)
		}
		w.pass(time.Second)
		for range 10 {
			refused(w, w.completing(g1), flow.ErrStaleFence)
			refused(w, w.failing(g1, true), flow.ErrStaleFence)
			refused(w, w.suspending(g1, w.clock.Wall()), flow.ErrStaleFence)
			if w.beat(g1).OK {
				w.Error("a former holder's heartbeat was taken")
			}
			w.is(ids[0], "executing")
			w.used("sync", "a", 1)
		}
		w.complete(g2)
		w.complete(w.claimRun("sync", "1", ids[1]))
		w.complete(w.claimRun("sync", "1", ids[2]))
		if n := w.count(ids[0], flow.EventClaimed); n != 2 {
			w.Errorf("the body was granted %d times", n)
		}
	})
}

// TestS07LiveLeaseIsNotCut fails when a lease that is renewed in time ends.
func TestS07LiveLeaseIsNotCut(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		for range 19 {
			w.pass(3 * time.Second)
			if !w.beat(g).OK {
				w.Fatalf("the lease ended at %s", w.now())
			}
			if other := w.claim("sync", "1", 1); len(other) != 0 {
				w.Fatalf("granted %s at %s", names(other), w.now())
			}
		}
		w.pass(expiry - 10*time.Millisecond)
		w.complete(g)
		w.claimRun("sync", "1", ids[1])
		if n := w.count(ids[0], flow.EventLeaseExpired); n != 0 {
			w.Errorf("the lease expired %d times", n)
		}
	})
}

// TestS13FiveSilentWorkers fails when leases that end together free slots without
// requeueing, or mix the order up.
func TestS13P7P52FiveSilentWorkers(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":5},"lease_seconds":10}`)
		ids := w.submitAll(6, "sync", `{"k":"a"}`)
		old := w.claimAll("sync", ids[:5])
		s := w.shardOf("sync", "a")
		w.pass(expiry + 10*time.Millisecond)
		w.used("sync", "a", 0)
		all, _ := w.entries(s)
		expired := 0
		for i := range all {
			for _, k := range all[i].kinds(flow.RunID{}) {
				if k == flow.RecExpired {
					expired = max(expired, countKind(all[i:i+1], k))
				}
			}
		}
		if expired != 5 {
			w.Errorf("the entry that requeues holds %d of 5 expiries", expired)
		}
		for i := range 5 {
			w.claimRun("sync", "1", ids[i])
		}
		if g := w.claim("sync", "1", 1); len(g) != 0 {
			w.Errorf("a sixth run was granted: %s", names(g))
		}
		for _, g := range old {
			refused(w, w.completing(g), flow.ErrStaleFence)
		}
	})
}

// TestS14NotBlockedByItsOwnFormerHold fails when a requeued run waits for itself, or
// for a younger one.
func TestS14NotBlockedByItsOwnFormerHold(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		for range 3 {
			w.claimRun("sync", "1", ids[0])
			w.pass(expiry + 10*time.Millisecond)
		}
		w.complete(w.claimRun("sync", "1", ids[0]))
		w.claimRun("sync", "1", ids[1])
		if got := w.status(ids[0]); got.Attempt != 4 {
			w.Errorf("attempt %d, want 4", got.Attempt)
		}
	})
}

// TestS17S19EndsAndBeatsAfterTheEnd fails when a message after the end changes
// something, or the same end again is refused.
func TestS17S19EndsAndBeatsAfterTheEnd(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":2},"lease_seconds":10,"max_attempts":3,"retry_backoff_seconds":1}`)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		g := w.claimAll("sync", ids)
		for range 3 {
			w.pass(3 * time.Second)
			await(w, w.beating(g...))
		}
		for range 2 {
			w.complete(g[0])
			await(w, w.failing(g[1], true))
		}
		for _, wait := range []time.Duration{time.Millisecond, 15 * time.Second} {
			w.pass(wait)
			if w.beat(g[0]).OK || w.beat(g[1]).OK {
				w.Error("a heartbeat after the end was taken")
			}
		}
		if got := w.status(ids[0]); got.Status != "completed" || string(got.Result) != `"done"` {
			w.Errorf("%+v", got)
		}
		if n := w.count(ids[0], flow.EventCompleted); n != 1 {
			w.Errorf("completed %d times", n)
		}
		if n := w.count(ids[1], flow.EventRetrying); n != 1 {
			w.Errorf("retried %d times", n)
		}
		w.used("sync", "a", 0)
		if got := w.claimRun("sync", "1", ids[1]); got.Attempt != 2 {
			w.Errorf("attempt %d, want 2", got.Attempt)
		}
		refused(w, w.failing(g[0], true), flow.ErrRunEnded)
		refused(w, w.suspending(g[0], w.clock.Wall()), flow.ErrRunEnded)
	})
}

// TestS35R20BodyThatIgnoresTheStop fails when a terminated run's holder keeps the slot
// by heartbeats, or frees it early, or has its late result kept.
func TestS35R20BodyThatIgnoresTheStop(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		w.pass(2 * time.Second)
		if !w.beat(g).OK {
			w.Fatal("the lease is gone")
		}
		if s := w.terminate(ids[0]); s != "terminated" {
			w.Fatal(s)
		}
		for range 4 {
			w.pass(3 * time.Second)
			if b := w.beat(g); b.OK || !b.CancelRequested {
				w.Errorf("a heartbeat after the terminate: %+v", b)
			}
			w.used("sync", "a", 1)
			if v := w.key("sync", "a"); v.Holders[0].State != "terminated" {
				w.Errorf("the holder is %s", v.Holders[0].State)
			}
			if other := w.claim("sync", "1", 1); len(other) != 0 {
				w.Fatalf("granted %s beside a hold", names(other))
			}
		}
		w.pass(time.Second + 10*time.Millisecond) // 13 s after the last beat before the terminate
		w.used("sync", "a", 0)
		w.claimRun("sync", "1", ids[1])
		w.pass(47 * time.Second)
		refused(w, w.completing(g), flow.ErrRunEnded)
		if got := w.status(ids[0]); got.Status != "terminated" || string(got.Result) != "null" {
			w.Errorf("%+v", got)
		}
	})
}

// TestR20TerminatedRunIsFreedByItsHolder fails when a terminated run's slot stays
// taken after its holder has said that it stopped.
func TestR20P63TerminatedRunIsFreedByItsHolder(t *testing.T) {
	for name, end := range map[string]func(w *world, g wire.Grant){
		"complete": func(w *world, g wire.Grant) { w.complete(g) },
		"fail":     func(w *world, g wire.Grant) { await(w, w.failing(g, true)) },
		"suspend":  func(w *world, g wire.Grant) { await(w, w.suspending(g, w.clock.Wall())) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", one)
				ids := w.submitAll(2, "sync", `{"k":"a"}`)
				g := w.claimRun("sync", "1", ids[0])
				w.terminate(ids[0])
				w.restart()
				w.used("sync", "a", 1)
				end(w, g)
				w.used("sync", "a", 0)
				w.is(ids[0], "terminated")
				w.claimRun("sync", "1", ids[1])
				end(w, g) // again
				w.used("sync", "a", 1)
			})
		})
	}
}

// TestP63CancelOfAQueuedRun fails when a queued run's cancel waits for somebody, takes
// something, or holds the queue up.
func TestP63P7CancelOfAQueuedRun(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":1,"burst":2}}`)
		ids := w.submitAll(4, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		if s := w.cancel(ids[1]); s != "cancelled" {
			w.Fatal(s)
		}
		if y := w.why(ids[2]); *y.Wait.Position != 1 {
			w.Errorf("position %d", *y.Wait.Position)
		}
		if v := w.key("sync", "a"); v.Used != 1 || v.Rate.Tokens != 1 || v.Queued != 2 {
			w.Errorf("%+v %+v", v, v.Rate)
		}
		w.complete(g)
		w.claimRun("sync", "1", ids[2])
		if n := w.count(ids[1], flow.EventClaimed); n != 0 {
			w.Errorf("a cancelled run was claimed %d times", n)
		}
	})
}

// TestP86LoweredMaxStopsNobody fails when a lower max ends an executing run, or lets
// one start before the count has fallen under it.
func TestP86P17P59LoweredMaxStopsNobody(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":3}}`)
		old := w.claimAll("sync", w.submitAll(3, "sync", `{"k":"a"}`))
		w.declare("sync", `{"version":"2","limit":{"key":"k","max":1}}`)
		b := w.submit("sync", `{"k":"a"}`)
		for _, g := range old {
			if got := w.claim("sync", "2", 1); len(got) != 0 {
				w.Fatalf("granted %s over its own max", names(got))
			}
			w.complete(g)
		}
		w.claimRun("sync", "2", b)
	})
}

// TestS99OddKeyValuesAreOnlyValues fails when a key value means something else than
// itself.
func TestS99OddKeyValuesAreOnlyValues(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		long := make([]byte, flow.MaxKeyBytes)
		for i := range long {
			long[i] = 'x'
		}
		values := []string{"a", "*", "b", "", ":", "/", "a/b", "..", "%2F", "ключ", "a\x00b", string(long), " a", "a "}
		grants := make([]wire.Grant, len(values))
		for i, v := range values {
			id := w.submit("sync", fmt.Sprintf(`{"k":%s}`, quote(v)))
			w.submit("sync", fmt.Sprintf(`{"k":%s}`, quote(v)))
			grants[i] = w.claimRun("sync", "1", id)
			if grants[i].Key != v {
				w.Errorf("key %q was granted as %q", v, grants[i].Key)
			}
		}
		for i, v := range values {
			k := w.key("sync", v)
			if k.Used != 1 || len(k.Holders) != 1 || k.Holders[0].RunID != grants[i].RunID || k.Queued != 1 {
				w.Errorf("key %q: %+v", v, k)
			}
		}
		for i, v := range values {
			w.complete(grants[i])
			for j, other := range values {
				if want := int64(0); w.key("sync", other).Used != want && j <= i {
					w.Errorf("key %q is still used after its end", other)
				}
			}
			w.used("sync", v, 0)
			if i+1 < len(values) {
				w.used("sync", values[i+1], 1)
			}
		}
	})
}
