package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestR18ClaimsWaitUntilOldLeasesAreOver fails when, after a start that may have lost
// acknowledged entries, a claim is granted while a lease of before may last, when
// anything else is refused meanwhile, or when claims wait for longer than that.
func TestR18ClaimsWaitUntilOldLeasesAreOver(t *testing.T) {
	play(t, func(w *world) {
		w.declare("short", `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":5}`)
		w.declare("long", `{"version":"1","lease_seconds":20}`)
		lost := w.submit("short", `{"k":"a"}`)
		settled := 0
		w.fall(0)
		w.hold = func() { settled++ }
		w.open()
		w.serves()
		began := w.now()
		const old = 25 * time.Second // 1.2 times the longest lease, and a second

		w.is(lost, "queued")
		w.submit("short", `{"k":"b"}`)
		w.cancel(w.submit("long", `{}`))
		if got := w.claimFor("short", "1", 5, 10*time.Second); len(got) != 0 {
			w.Fatalf("%d runs were granted after %s", len(got), w.now()-began)
		}
		if waited := w.now() - began; waited != 10*time.Second {
			w.Errorf("a claim with a wait of 10 s was answered after %s", waited)
		}
		if got := w.claimFor("short", "1", 5, time.Minute); len(got) != 2 {
			w.Errorf("%d runs were granted in the end, want 2", len(got))
		}
		if waited := w.now() - began; waited != old {
			w.Errorf("claims were granted after %s, want %s", waited, old)
		}
		if settled != 1 {
			w.Errorf("the end of the wait was told %d times", settled)
		}
		w.hold = nil
		w.restart()
		w.submit("short", `{"k":"c"}`)
		if got := w.claimFor("short", "1", 5, time.Second); len(got) != 1 {
			w.Errorf("%d runs were granted by a start that has lost nothing", len(got))
		}
	})
}

// TestR18ClaimThatLeavesWhileOldLeasesLast fails when a claim whose asker has gone
// still waits, or is granted something later.
func TestR18ClaimThatLeavesWhileOldLeasesLast(t *testing.T) {
	play(t, func(w *world) {
		w.declare("short", `{"version":"1","lease_seconds":5}`)
		run := w.submit("short", `{}`)
		w.fall(0)
		w.hold = func() {}
		w.open()
		w.serves()
		ctx, leave := context.WithCancel(w.Context())
		left := begin(func() (wire.Claimed, error) {
			return w.Claim(ctx, wire.Claim{
				Worker: "w", Credit: 1, WaitMS: 60_000, Workflows: []wire.ClaimWorkflow{{Name: "short", Version: "1"}},
			})
		})
		w.pass(time.Second)
		leave()
		w.settle()
		if !left.over() || left.err == nil {
			w.Error("a claim goes on after its asker has left")
		}
		w.pass(time.Minute)
		w.is(run, "queued")
	})
}
