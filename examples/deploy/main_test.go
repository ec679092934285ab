package main

import (
	"context"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
)

// TestP28P32DeployTightensALimit fails when a run starts under the looser gate on the new
// worker, or an id of before the deploy doesn't give its result.
func TestP28P32DeployTightensALimit(t *testing.T) {
	n, err := node.Start(t.Context(), node.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYRULA_ADDR", n.Addr())
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "version 2 let at most 1 run at once") || strings.Contains(out.String(), " 0 of 12") {
		t.Errorf("it says:\n%s", out.String())
	}
	if err := n.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
