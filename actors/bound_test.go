package actors_test

import (
	"errors"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestR7RunsInMemoryAreBounded fails when more runs are taken than may be in memory,
// or when anything but new work is refused then, or when the count is lost with a
// restart.
func TestR7RunsInMemoryAreBounded(t *testing.T) {
	setup{maxRuns: 3}.play(t, func(w *world) {
		w.declare("sync", leased)
		w.submitAll(3, "sync", `{"k":"a"}`)
		full := func() {
			w.Helper()
			if _, errs := w.Submit(w.Context(), []wire.Submit{submitOf("sync", `{"k":"b"}`)}); !errors.Is(errs[0], flow.ErrOverloaded) {
				w.Fatalf("a fourth run: %v", errs[0])
			}
		}
		full()
		if s := w.complete(w.claim("sync", "1", 1)[0]); s != "completed" {
			w.Fatalf("a completion answers %s", s)
		}
		w.restart()
		full()
	})
}
