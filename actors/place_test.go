package actors_test

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestS105S107OnePlaceHoweverOftenItIsTold plays a letter that queues a run and is
// delivered again after a crash at every commit of its way, with snapshots and shards
// that are rebuilt in between. It fails when a run has two places in the queue or none:
// then it starts twice, or what is behind it doesn't start.
func TestS105S107OnePlaceHoweverOftenItIsTold(t *testing.T) {
	for cut := range 12 {
		setup{shards: 2, manual: true}.play(t, func(w *world) {
			w.declare("g", `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":600}`)
			params := `{"k":"` + w.keyIn(1, "g", "k") + `"}`
			submit := func(name string) flow.RunID {
				w.Helper()
				return w.id(await(w, w.submitting(keyedSubmit("g", params, w.textIn(0, name)))).RunID)
			}
			a := submit("a")
			holder := w.claimRun("g", "1", a)
			w.submitting(keyedSubmit("g", params, w.textIn(0, "b")))
			w.settle()
			for range cut {
				w.mem.CommitNext()
				w.settle()
			}
			w.crash(cut % 2) // the letter is sent again unless its delivery was on disk
			w.serves()
			b := submit("b")
			if cut%3 == 0 {
				w.snapshots()
			}
			w.restart() // and again, from what the letter made
			c := submit("c")

			ends := []flow.RunID{a, b, c}
			for i, id := range ends {
				if i > 0 {
					holder = w.claimRun("g", "1", id)
				}
				w.complete(holder)
				w.is(id, "completed")
				if n := w.count(id, "run:claimed"); n != 1 {
					w.Errorf("cut %d: run %d started %d times", cut, i, n)
				}
			}
			if n := len(w.list(wire.ListQuery{})); n != len(ends) {
				w.Errorf("cut %d: there are %d runs", cut, n)
			}
			if k := w.key("g", w.keyIn(1, "g", "k")); k.Used != 0 || k.Queued != 0 {
				w.Errorf("cut %d: the key is left with %d used and %d queued", cut, k.Used, k.Queued)
			}
		})
	}
}
