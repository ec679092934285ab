package actors_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// world is a node over an engine in memory, inside a synctest bubble: time is
// virtual, and settle waits until nobody has anything to do.
type world struct {
	*testing.T
	*actors.Node
	mem *enginetest.Mem
}

// play runs f against a fresh node in virtual time.
func play(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		mem := enginetest.NewMem(enginetest.MemConfig{Shards: 16})
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
		f(&world{T: t, Node: n, mem: mem})
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := mem.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// declare declares a workflow from its JSON.
func (w *world) declare(name, declaration string) wire.Declared {
	w.Helper()
	var d wire.Declaration
	if err := json.Unmarshal([]byte(declaration), &d); err != nil {
		w.Fatal(err)
	}
	out, err := w.Declare(w.Context(), name, d)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// submit makes one run and returns its id.
func (w *world) submit(workflow, params string) flow.RunID {
	w.Helper()
	out, errs := w.Submit(w.Context(), []wire.Submit{{Workflow: workflow, Params: json.RawMessage(params)}})
	if errs[0] != nil {
		w.Fatal(errs[0])
	}
	id, err := flow.ParseRunID(out[0].RunID)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// claim claims without waiting.
func (w *world) claim(workflow, version string, credit int) []wire.Grant {
	w.Helper()
	return w.claimFor(workflow, version, credit, 0)
}

// claimFor claims and waits.
func (w *world) claimFor(workflow, version string, credit int, wait time.Duration) []wire.Grant {
	w.Helper()
	out, err := w.Claim(w.Context(), wire.Claim{
		Worker: "w1", Workflows: []wire.ClaimWorkflow{{Name: workflow, Version: version}},
		Credit: credit, WaitMS: wait.Milliseconds(),
	})
	if err != nil {
		w.Fatal(err)
	}
	return out.Runs
}

// complete ends a grant and returns the status.
func (w *world) complete(g wire.Grant) string {
	w.Helper()
	out, errs := w.Complete(w.Context(), []wire.Completion{{RunID: g.RunID, Fence: g.Fence, Result: json.RawMessage(`"done"`)}})
	if errs[0] != nil {
		w.Fatal(errs[0])
	}
	return out[0].Status
}

// status is the run's status object.
func (w *world) status(id flow.RunID) wire.Run {
	w.Helper()
	out, err := w.Node.Run(w.Context(), id, 0)
	if err != nil {
		w.Fatal(err)
	}
	return out
}
