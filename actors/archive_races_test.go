package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// TestR14R10ReadersBesideTheArchiver fails when, with real goroutines, a reader misses a run
// while it moves, a page shows one twice or not at all, or a key names a second run. The
// clients run until the time is over; nothing here depends on how fast they are.
func TestR14R10ReadersBesideTheArchiver(t *testing.T) {
	mem, archive := enginetest.NewMem(enginetest.MemConfig{Shards: 4}), enginetest.NewArchive()
	n, err := actors.Open(actors.Config{Engine: mem, Archive: archive, RecentRuns: 5, RecentFor: flow.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Node: n, life: t.Context(), archive: archive}
	if _, err := n.Declare(t.Context(), "sync", w.declaration(leased)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), archiveRace)
	defer cancel()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { (&racer{w: w, name: fmt.Sprint("c", i)}).race(ctx) })
	}
	all.Go(func() {
		for ctx.Err() == nil {
			w.noneTwice()
		}
	})
	all.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for memory, _ := w.whereabouts(); memory > 0 && time.Now().Before(deadline); memory, _ = w.whereabouts() {
		<-time.After(10 * time.Millisecond)
	}
	if memory, moved := w.whereabouts(); memory > 0 || moved == 0 {
		t.Errorf("%d runs stay in memory, %d are in the archive", memory, moved)
	}
	if err := actors.Check(t.Context(), n); err != nil {
		t.Error(err)
	}
	if err := errors.Join(n.Close(), mem.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// racer makes runs, ends them and asks for all that it has made.
type racer struct {
	w    *world
	name string
	ids  []flow.RunID
	keys []string
}

func (r *racer) race(ctx context.Context) {
	w := r.w
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprint(r.name, "-", i)
		out, errs := w.Submit(w.life, []wire.Submit{keyedSubmit("sync", fmt.Sprintf(`{"k":"%d"}`, i%7), key)})
		if errs[0] != nil {
			w.Errorf("submit: %v", errs[0])
			return
		}
		r.ids, r.keys = append(r.ids, w.id(out[0].RunID)), append(r.keys, key)
		r.end(i)
		for j := len(r.ids) - 1; j >= 0 && j > len(r.ids)-12; j -= 3 {
			r.ask(j)
		}
	}
}

// end ends the youngest run, or some run by a claim.
func (r *racer) end(i int) {
	w := r.w
	if i%2 == 0 {
		if _, err := w.Cancel(w.life, r.ids[i], "enough"); err != nil {
			w.Errorf("cancel: %v", err)
		}
		return
	}
	got, err := w.Claim(w.life, wire.Claim{Worker: r.name, Workflows: serves("sync"), Credit: 4})
	if err != nil {
		w.Errorf("claim: %v", err)
	}
	for _, g := range got.Runs {
		done := []wire.Completion{{RunID: g.RunID, Fence: g.Fence, Result: json.RawMessage(`1`)}}
		for range 2 { // the repeat may find it anywhere
			if _, errs := w.Complete(w.life, done); errs[0] != nil && !errors.Is(errs[0], flow.ErrRunEnded) && !errors.Is(errs[0], flow.ErrStaleFence) {
				w.Errorf("complete: %v", errs[0])
			}
		}
	}
}

// ask reads a run in every way, and submits under its key again.
func (r *racer) ask(j int) {
	w, id := r.w, r.ids[j]
	if _, err := w.Node.Run(w.life, id, 0); err != nil {
		w.Errorf("status of a run that was made: %v", err)
	}
	if e, err := w.Events(w.life, id); err != nil || len(e.Events) == 0 {
		w.Errorf("events of a run that was made: %v, %v", e, err)
	}
	page, err := w.List(w.life, wire.ListQuery{Limit: 1, Cursor: above(id).String()})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].RunID != id.String() {
		w.Errorf("the page that begins with %s: %+v, %v", id, page, err)
	}
	out, errs := w.Submit(w.life, []wire.Submit{keyedSubmit("sync", `{"k":"0"}`, r.keys[j])})
	if errs[0] != nil || out[0].Created || out[0].RunID != id.String() {
		w.Errorf("the key %s of run %s: %+v, %v", r.keys[j], id, out[0], errs[0])
	}
}

// above is the next larger id.
func above(id flow.RunID) flow.RunID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// noneTwice walks all pages.
func (w *world) noneTwice() {
	seen := map[string]bool{}
	q := wire.ListQuery{Limit: 50}
	for {
		page, err := w.List(w.life, q)
		if err != nil {
			w.Errorf("list: %v", err)
			return
		}
		for _, r := range page.Runs {
			if seen[r.RunID] {
				w.Errorf("run %s stands on two pages", r.RunID)
			}
			seen[r.RunID] = true
		}
		if page.NextCursor == nil {
			return
		}
		q.Cursor = *page.NextCursor
	}
}
