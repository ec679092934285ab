package main

import (
	"context"
	"testing"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
)

// TestQuickstart fails when the program of the README doesn't end well on a node.
func TestQuickstart(t *testing.T) {
	n, err := node.Start(t.Context(), node.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYRULA_ADDR", n.Addr())
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
