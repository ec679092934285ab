package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// TestClosedNodeLeavesNoGoroutine fails when something of a node outlives it: in real
// time, with claims and readers that wait while it closes.
func TestClosedNodeLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	mem := enginetest.NewMem(enginetest.MemConfig{})
	n, err := actors.Open(actors.Config{Engine: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	var d wire.Declaration
	if err := json.Unmarshal([]byte(one), &d); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Declare(t.Context(), "sync", d); err != nil {
		t.Fatal(err)
	}
	out, errs := n.Submit(t.Context(), []wire.Submit{submitOf("sync", `{"k":"a"}`), submitOf("sync", `{"k":"a"}`)})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Claim(t.Context(), wire.Claim{Worker: "w", Workflows: serves("sync"), Credit: 2}); err != nil || len(got.Runs) != 1 {
		t.Fatalf("granted %+v, %v", got, err)
	}
	claim := begin(func() (wire.Claimed, error) {
		return n.Claim(t.Context(), wire.Claim{Worker: "w", Workflows: serves("sync"), Credit: 1, WaitMS: 60_000})
	})
	ctx, cancel := context.WithCancel(t.Context())
	watch := begin(func() (wire.Run, error) { return n.Run(ctx, (&world{T: t}).id(out[0].RunID), time.Minute) })
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := mem.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	<-claim.done
	<-watch.done
	goleak.VerifyNone(t, before)
}
