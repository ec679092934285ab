package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// story is all that readers are told of some runs.
func (w *world) story(ids []flow.RunID) string {
	w.Helper()
	var out string
	for _, id := range ids {
		events := await(w, begin(func() (wire.Events, error) { return w.Events(w.life, id) }))
		why := await(w, begin(func() (wire.Why, error) { return w.Why(w.life, id) }))
		for _, v := range []any{w.status(id), events, why} {
			b, err := json.Marshal(v)
			if err != nil {
				w.Fatal(err)
			}
			out += string(b) + "\n"
		}
	}
	return out + fmt.Sprint(w.pages(wire.ListQuery{}))
}

// endings makes a run of every way to end, and returns their ids.
func (w *world) endings() []flow.RunID {
	w.Helper()
	w.declare("sync", `{"version":"1","limit":{"key":"k","max":5},"retry":{"max_attempts":1}}`)
	var ids []flow.RunID
	for range 4 {
		ids = append(ids, w.submit("sync", `{"k":"a"}`))
	}
	grants := w.claim("sync", "1", 2)
	w.complete(grants[0])
	await(w, w.failing(grants[1], false))
	w.cancel(ids[2])
	w.terminate(ids[3])
	return ids
}

// TestR14EndedRunsLeaveMemoryAndReadTheSame fails when a run is still in memory
// after its time, or when any reader is told something else than before.
func TestR14EndedRunsLeaveMemoryAndReadTheSame(t *testing.T) {
	play(t, func(w *world) {
		ids := w.endings()
		before := w.story(ids)
		w.pass(actorsRecent - time.Second)
		if runs, archived := w.whereabouts(); runs != len(ids) || archived != 0 {
			w.Fatalf("%d runs in memory and %d in the archive before their time", runs, archived)
		}
		w.pass(3 * time.Second)
		for _, when := range []string{"after the move", "after a restart", "after a restart from snapshots"} {
			if runs, archived := w.whereabouts(); runs != 0 || archived != len(ids) {
				w.Fatalf("%s: %d runs in memory and %d in the archive", when, runs, archived)
			}
			if diff := cmp.Diff(before, w.story(ids)); diff != "" {
				w.Errorf("%s readers are told otherwise (-before +after):\n%s", when, diff)
			}
			if when == "after a restart" {
				w.snapshots()
			}
			w.restart()
		}
	})
}

const actorsRecent = time.Duration(actors.DefaultRecentFor)

// snapshots takes one of every shard.
func (w *world) snapshots() {
	w.Helper()
	for _, log := range w.spy.logs {
		must(w, log.Snapshot(w.Context()))
	}
}

// whereabouts is where the runs are: so many in memory, so many in the archive.
func (w *world) whereabouts() (memory, archive int) {
	w.Helper()
	memory, err := actors.RunsInMemory(w.Context(), w.Node)
	if err != nil {
		w.Fatal(err)
	}
	archive, _ = w.archive.Len()
	return memory, archive
}

// TestR14ArchiveThatLacksSomethingIsNoticed fails when a node serves although its archive
// is gone, or when it refuses one that only lacks what retention took; with a snapshot
// between, too.
func TestR14ArchiveThatLacksSomethingIsNoticed(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		play(t, func(w *world) {
			ids := w.endings()
			w.id(await(w, w.submitting(keyedSubmit("sync", `{"k":"b"}`, "o1"))).RunID)
			w.pass(actorsRecent + 3*time.Second)
			if _, archived := w.whereabouts(); archived != len(ids) {
				w.Fatalf("%d runs in the archive", archived)
			}
			if snapshot {
				w.snapshots()
			}
			w.archive.Expire()
			w.restart()

			w.archive.Lose()
			w.fall(0)
			w.open()
			w.commit()
			err := w.WaitReady(w.Context())
			if !errors.Is(err, actors.ErrArchiveLost) || !strings.Contains(err.Error(), "0 idempotency keys, and 1 were moved") {
				w.Errorf("ready with %v", err)
			}
			if _, errs := w.Submit(w.life, []wire.Submit{submitOf("sync", `{}`)}); !errors.Is(errs[0], flow.ErrNotReady) || !errors.Is(errs[0], actors.ErrArchiveLost) {
				w.Errorf("a submit is answered %v", errs[0])
			}
			w.acceptLoss = true
			w.restart()
			w.submit("sync", `{"k":"c"}`)
		})
	}
}

// TestR14ArchiveIsNeverAheadOfTheJournal fails when something is put into the archive
// before the journal is on disk, or when it is put although the journal couldn't be.
func TestR14ArchiveIsNeverAheadOfTheJournal(t *testing.T) {
	play(t, func(w *world) {
		w.fall(0)
		disk, puts := errors.New("no disk"), 0
		synced := false
		w.syncs = func(context.Context) error {
			synced = true
			return disk
		}
		w.archive.Putting = func([]engine.Archived, []engine.ArchivedKey) error {
			if puts++; !synced {
				w.Error("a put before the journal was synced")
			}
			synced = false
			return nil
		}
		w.open()
		w.serves()
		ids := w.endings()
		w.pass(actorsRecent + 3*time.Second)
		if last := w.died(); len(last) != 1 || !errors.Is(last[0], disk) || puts != 0 {
			w.Fatalf("a journal that couldn't be synced: %v, %d puts", last, puts)
		}
		disk = nil
		w.restart()
		w.pass(3 * time.Second)
		if _, archived := w.whereabouts(); archived != len(ids) || puts == 0 {
			w.Errorf("%d runs in the archive after %d puts", archived, puts)
		}
	})
}

// TestR18FencesOfALostLifeAreNotGivenAgain fails when an owner begins with a fence that was
// given before, or that the life began with which a backup has lost: it began at another
// time. Fences fit into a JSON number.
func TestR18FencesOfALostLifeAreNotGivenAgain(t *testing.T) {
	now := flow.Instant(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	for _, last := range []uint64{0, 1, 1 << 24, 1<<24 + 5, 1 << 52} {
		first := actors.NextFence(last, now)
		if first <= last || first != actors.NextFence(last, now) {
			t.Errorf("after fence %d comes %d", last, first)
		}
		if later := actors.NextFence(last, now.Add(20*flow.Second)); last < 1<<50 && later <= first+1<<24-1 {
			t.Errorf("behind fence %d lives begin with %d and, 20 s later, with %d", last, first, later)
		}
	}
	if f := actors.NextFence(0, flow.Instant(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())); f >= 1<<53 {
		t.Errorf("fence %d", f)
	}
}

// TestR14RunsBeyondTheCountLeave fails when more ended runs than allowed stay in
// memory, or when the youngest go first.
func TestR14RunsBeyondTheCountLeave(t *testing.T) {
	setup{shards: 1, recentRuns: 10}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1"}`)
		var ids []string
		for range 50 {
			id := w.submit("sync", `{}`)
			w.cancel(id)
			ids = append(ids, id.String())
			w.pass(time.Millisecond)
		}
		w.pass(3 * time.Second)
		if runs, archived := w.whereabouts(); runs != 10 || archived != 40 {
			w.Errorf("%d runs in memory and %d in the archive", runs, archived)
		}
		slices.Reverse(ids)
		for limit := range 7 {
			if got := w.pages(wire.ListQuery{Limit: limit * 9}); !slices.Equal(got, ids) {
				w.Errorf("pages of %d hold %v, want %v", limit*9, got, ids)
			}
		}
	})
}
