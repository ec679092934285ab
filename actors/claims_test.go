package actors_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestWithdrawnClaimReturnsAtOnce fails when a claim whose asker has gone holds its
// caller, or keeps what it was granted.
func TestWithdrawnClaimReturnsAtOnce(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ctx, cancel := context.WithCancel(w.Context())
		claim := begin(func() (wire.Claimed, error) {
			return w.Claim(ctx, wire.Claim{
				Worker: "w2", Credit: 1, WaitMS: 60_000,
				Workflows: []wire.ClaimWorkflow{{Name: "sync", Version: "1"}},
			})
		})
		w.settle()
		at := w.now()
		cancel()
		<-claim.done
		if took := w.now() - at; took > time.Second || !errors.Is(claim.err, context.Canceled) {
			w.Errorf("a withdrawn claim returned after %s with %v", took, claim.err)
		}
		a := w.submit("sync", `{"k":"a"}`)
		w.claimRun("sync", "1", a) // its credit is gone with it
	})
}

// TestCloseEndsTheClaimsThatWait fails when a claim outlives the node that it waits
// for.
func TestCloseEndsTheClaimsThatWait(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		claim := begin(func() (wire.Claimed, error) {
			return w.Claim(ctx, wire.Claim{
				Worker: "w2", Credit: 1, WaitMS: 60_000,
				Workflows: []wire.ClaimWorkflow{{Name: "sync", Version: "1"}},
			})
		})
		w.settle()
		w.close()
		select {
		case <-claim.done:
		case <-time.After(2 * time.Minute):
			w.Error("the claim still waits two minutes after its node was closed")
		}
	})
}

// TestWithdrawnClaimHandsItsGrantBack fails when a run that was granted to a claim whose
// asker had gone waits for its lease's end, loses its place or uses an attempt.
func TestWithdrawnClaimHandsItsGrantBack(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		ctx, cancel := context.WithCancel(w.Context())
		claim := begin(func() (wire.Claimed, error) {
			return w.Claim(ctx, wire.Claim{Worker: "w2", Credit: 1, WaitMS: 60_000, Workflows: serves("sync")})
		})
		w.settle() // admitted, and not durable
		cancel()
		w.settle()
		at := w.now()
		w.commit()
		if !claim.over() || !errors.Is(claim.err, context.Canceled) {
			w.Errorf("the withdrawn claim: over %t, %v", claim.over(), claim.err)
		}
		w.used("sync", "a", 0)
		if g := w.claimRun("sync", "1", ids[0]); w.now() != at || g.Attempt != 1 {
			w.Errorf("granted again after %s as attempt %d", w.now()-at, g.Attempt)
		}
		if lent := lentUnits(w); lent != 0 {
			w.Errorf("%d units are still lent", lent)
		}
	})
}

// TestR7WaitingClaimsAreBounded fails when claims that wait are taken without end, or
// when those that wait lose by the one that is refused.
func TestR7WaitingClaimsAreBounded(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", one)
		const bound = 16_384
		for range bound {
			w.claiming("sync", "1", 1, time.Minute)
		}
		w.settle()
		refused(w, w.claiming("sync", "1", 1, time.Minute), flow.ErrOverloaded)
		a := w.submit("sync", `{"k":"a"}`)
		w.settle()
		w.is(a, "executing")
		w.settle()
		claim := w.claiming("sync", "1", 1, time.Minute) // one place is free again
		w.settle()
		if claim.over() {
			w.Errorf("refused: %v", claim.err)
		}
		w.pass(time.Minute)
		if !claim.over() || claim.err != nil {
			w.Errorf("over %t, %v", claim.over(), claim.err)
		}
	})
}
