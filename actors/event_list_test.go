package actors_test

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP36RunsOfABatchHaveItsKey fails when a run that was made of a batch isn't found by the
// batch's key, or is granted without it, because its workflow has no gate.
func TestP36RunsOfABatchHaveItsKey(t *testing.T) {
	for name, gate := range map[string]string{"no gate": "", "limit": `"limit":{"key":"key","max":9},`} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1",`+gate+`"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":5}}}`)
				for _, key := range []string{"a", "b", ""} {
					w.trigger("sync", numbered(key, 1))
					list := w.list(wire.ListQuery{Workflow: "sync", Key: &key})
					if len(list) != 1 {
						t.Fatalf("key %q has %d runs", key, len(list))
					}
					if g := w.claimRun("sync", "1", w.id(list[0].RunID)); g.Key != key {
						t.Errorf("key %q is granted as %q", key, g.Key)
					}
				}
			})
		})
	}
}
