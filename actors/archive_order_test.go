package actors_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// blocked makes Put wait until the returned function is called, once.
func (w *world) blocked() (free func()) {
	gate := make(chan struct{})
	w.archive.Putting = func([]engine.Archived, []engine.ArchivedKey) error {
		<-gate
		return nil
	}
	return func() { close(gate) }
}

// TestR14OrderOfOneInstantOverASnapshot fails when the runs that ended in one instant
// leave memory in another order than the one in which a snapshot brings them back, and
// the node that comes back trips over it or counts runs that it doesn't have.
func TestR14OrderOfOneInstantOverASnapshot(t *testing.T) {
	setup{shards: 1, recentRuns: 2}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1"}`)
		ids := w.submitAll(6, "sync", `{}`)
		slices.SortFunc(ids, func(a, b flow.RunID) int { return b.Compare(a) })
		free := w.blocked()
		for _, id := range ids {
			w.cancel(id)
		}
		w.snapshots()
		free()
		w.pass(3 * time.Second)
		if runs, _ := w.whereabouts(); runs != 2 {
			w.Fatalf("%d runs in memory, want 2", runs)
		}
		w.restart()
		w.pass(3 * time.Second)
		if runs, archived := w.whereabouts(); runs != 2 || archived != 4 {
			w.Errorf("after a restart %d runs in memory and %d in the archive, want 2 and 4", runs, archived)
		}
		if n := len(w.list(wire.ListQuery{})); n != 6 {
			w.Errorf("%d runs are listed", n)
		}
	})
}

// TestR14R20FreedHoldOverASnapshot is the same for a run that ended before others and was
// held longer than they: it leaves behind them, and a snapshot brings it back before
// them.
func TestR14R20FreedHoldOverASnapshot(t *testing.T) {
	setup{shards: 1, recentFor: 60 * flow.Second}.play(t, func(w *world) {
		w.declare("sync", leased)
		held := w.submit("sync", `{"k":"a"}`)
		grant := w.claimRun("sync", "1", held)
		w.terminate(held)
		w.pass(time.Second)
		w.cancel(w.submit("sync", `{"k":"b"}`))
		w.pass(5 * time.Second)
		w.cancel(w.submit("sync", `{"k":"c"}`))
		w.complete(grant)
		w.snapshots()
		w.pass(57 * time.Second) // the second run's time has passed, the third's has not
		if runs, archived := w.whereabouts(); archived == 0 || runs == 0 {
			w.Fatalf("%d runs in memory and %d in the archive", runs, archived)
		}
		w.restart()
		w.pass(20 * time.Second)
		if runs, archived := w.whereabouts(); runs != 0 || archived != 3 {
			w.Errorf("after a restart %d runs in memory and %d in the archive", runs, archived)
		}
	})
}

// TestR10R14KeysOfOneInstantOverASnapshot is the same for idempotency keys.
func TestR10R14KeysOfOneInstantOverASnapshot(t *testing.T) {
	setup{shards: 1, recentRuns: 2}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1"}`)
		free := w.blocked()
		names := []string{"f", "e", "d", "c", "b", "a"}
		first := map[string]string{}
		for _, k := range names {
			first[k] = await(w, w.submitting(keyedSubmit("sync", `{}`, k))).RunID
		}
		w.snapshots()
		free()
		w.pass(3 * time.Second)
		if _, keys := w.archive.Len(); keys != 4 {
			w.Fatalf("%d keys in the archive, want 4", keys)
		}
		w.restart()
		w.pass(3 * time.Second)
		if _, keys := w.archive.Len(); keys != 4 {
			w.Errorf("after a restart %d keys are in the archive, want 4", keys)
		}
		for _, k := range names {
			if got := await(w, w.submitting(keyedSubmit("sync", `{}`, k))); got.RunID != first[k] || got.Created {
				w.Errorf("key %s: %+v, want %s", k, got, first[k])
			}
		}
	})
}
