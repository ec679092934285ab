package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// batches notes what Put is given.
type batches struct {
	mu   sync.Mutex // guards all
	all  []putBatch
	hook func() // called by Put, if there is one
}

type putBatch struct {
	runs, keys, bytes int
	at                time.Duration
	ids               []engine.ArchiveID
}

func (w *world) noteBatches() *batches {
	b := &batches{}
	w.archive.Putting = func(items []engine.Archived, keys []engine.ArchivedKey) error {
		p := putBatch{runs: len(items), keys: len(keys), at: w.now()}
		for i := range items {
			p.bytes += len(items[i].Body)
			p.ids = append(p.ids, items[i].ID)
		}
		b.mu.Lock()
		b.all = append(b.all, p)
		hook := b.hook
		b.mu.Unlock()
		if hook != nil {
			hook()
		}
		return nil
	}
	return b
}

func (b *batches) seen() []putBatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// endAll ends runs that wait, all in one instant.
func (w *world) endAll(ids []flow.RunID) {
	w.Helper()
	calls := make([]*call[string], len(ids))
	for i, id := range ids {
		calls[i] = w.cancelling(id)
	}
	for _, c := range calls {
		await(w, c)
	}
}

// TestR14R7BehindRefusesNewRunsOnly fails when new runs are taken while too many ended ones
// wait for the archive, when anything else is refused meanwhile, or when the node doesn't
// recover.
func TestR14R7BehindRefusesNewRunsOnly(t *testing.T) {
	setup{shards: 2, recentRuns: 2}.play(t, func(w *world) {
		w.declare("sync", leased)
		actors.SetArchiveBehind(w.Node, 5)
		free := w.blocked()
		ids := w.submitAll(12, "sync", `{"k":"a"}`)
		grants := w.claimAll("sync", ids[:3])
		first := w.keyed(`{"k":"a"}`, "order")
		submits := map[string][]wire.Submit{
			"plain": {submitOf("sync", `{"k":"b"}`)},
			"keyed": {keyedSubmit("sync", `{"k":"b"}`, "another")},
			"batch": {submitOf("sync", `{"k":"b"}`), requested("sync", `{"k":"b"}`, "r1"), keyedSubmit("sync", `{"k":"b"}`, "third")},
		}
		w.endAll(ids[3:9]) // one less than too many: two are recent, and four wait
		await(w, w.submitting(submitOf("sync", `{"k":"b"}`)))
		w.endAll(ids[9:10])
		made := w.countAll(flow.RecSubmitted)
		for name, s := range submits {
			_, errs := w.Submit(w.life, s)
			for i, err := range errs {
				if !errors.Is(err, flow.ErrArchiveBehind) {
					w.Errorf("%s submit %d: %v", name, i, err)
				}
			}
		}
		if n := w.countAll(flow.RecSubmitted); n != made {
			w.Errorf("%d runs were made", n-made)
		}
		if s := w.complete(grants[0]); s != "completed" {
			w.Errorf("a completion answers %s", s)
		}
		if !w.beat(grants[1]).OK {
			w.Error("a heartbeat was refused")
		}
		w.is(ids[2], "executing")
		await(w, w.failing(grants[1], false))
		await(w, w.suspending(grants[2], w.clock.Wall().Add(flow.Second)))
		w.cancel(ids[10])
		w.terminate(ids[11])
		w.declare("new", leased)
		w.pass(2 * time.Second)
		if g := w.claim("sync", "1", 9); len(g) != 3 {
			w.Errorf("%d grants, want the suspended run and the last two submits", len(g))
		}
		if n := len(w.list(wire.ListQuery{})); n != 14 {
			w.Errorf("%d runs are listed", n)
		}
		free()
		w.pass(3 * time.Second)
		for name, s := range submits {
			_, errs := w.Submit(w.life, s)
			if err := errors.Join(errs...); err != nil {
				w.Errorf("%s submit when the archive has caught up: %v", name, err)
			}
		}
		if again := w.keyed(`{"k":"a"}`, "order"); again.RunID != first.RunID {
			w.Errorf("%+v, want %s", again, first.RunID)
		}
	})
}

// TestR14ArchiverAtRestDoesNothing fails when the archiver asks, writes or wakes while
// nothing has ended, or more often than once for each run while what has ended is recent.
func TestR14ArchiverAtRestDoesNothing(t *testing.T) {
	play(t, func(w *world) {
		b := w.noteBatches()
		w.declare("sync", `{"version":"1"}`)
		ids := w.submitAll(3, "sync", `{}`)
		quiet := func(when string, d time.Duration, most int64) {
			w.Helper()
			turns := w.countTurns()
			w.pass(d)
			if n := turns(); n > most {
				w.Errorf("%s: %d turns of the shards in %s, want at most %d", when, n, d, most)
			}
		}
		quiet("nothing has ended", 24*time.Hour, 0)
		w.cancel(ids[0])
		w.settle()
		quiet("what has ended is recent", actorsRecent-time.Second, 0)
		if n := len(b.seen()); n != 0 {
			w.Errorf("%d batches before anything was due", n)
		}
		w.pass(3 * time.Second)
		if _, archived := w.whereabouts(); archived != 1 || len(b.seen()) != 1 {
			w.Errorf("%d runs in the archive by %d batches", archived, len(b.seen()))
		}
		quiet("all that ended has left", 24*time.Hour, 0)
		w.cancel(ids[1])
		w.pass(time.Minute)
		w.cancel(ids[2])
		quiet("twice recent", 11*time.Minute, 200)
		if _, archived := w.whereabouts(); archived != 3 || len(b.seen()) != 3 {
			w.Errorf("%d runs in the archive by %d batches", archived, len(b.seen()))
		}
	})
}

// TestR14RunsLeaveInBatches fails when each run is written by itself, under a steady load
// of ends, by age and by count.
func TestR14RunsLeaveInBatches(t *testing.T) {
	for name, s := range map[string]setup{
		"by age":   {shards: 4, recentFor: 2 * flow.Second},
		"by count": {shards: 4, recentRuns: 20},
	} {
		s.play(t, func(w *world) {
			b := w.noteBatches()
			w.declare("sync", `{"version":"1"}`)
			ids := w.submitAll(600, "sync", `{}`)
			for i, id := range ids { // 100 a second
				w.cancelling(id)
				if i%5 == 4 {
					w.pass(50 * time.Millisecond)
				}
			}
			w.pass(4 * time.Second)
			runs, archived := w.whereabouts()
			if want := int(w.recentRuns); runs > want || runs+archived != len(ids) {
				w.Errorf("%s: %d runs in memory, want %d, and %d in the archive", name, runs, want, archived)
			}
			all := b.seen()
			if len(all) > 12 || len(all) < 4 {
				w.Errorf("%s: %d batches for %d runs in ten seconds", name, len(all), archived)
			}
			for i := 1; i < len(all); i++ {
				if gap := all[i].at - all[i-1].at; gap < 990*time.Millisecond {
					w.Errorf("%s: batches %d and %d are %s apart", name, i-1, i, gap)
				}
			}
		})
	}
}

// TestR14BatchesAreBounded fails when much that is due at once doesn't all leave without
// pauses, in batches of at most 5,000 runs, each run once; or when a batch of large runs
// takes more than 4 MiB and one such run of each shard that was asked at once.
func TestR14BatchesAreBounded(t *testing.T) {
	const runs, large = bulkRuns, 24
	setup{shards: 16, recentFor: flow.Minute}.play(t, func(w *world) {
		b := w.noteBatches()
		w.declare("sync", `{"version":"1"}`)
		w.endAll(w.submitAll(large, "sync", `{"blob":"`+strings.Repeat("x", 512<<10)+`"}`))
		w.pass(time.Second)
		w.submitAll(runs, "sync", `{}`)
		for ended := 0; ended < runs; {
			grants := w.claim("sync", "1", 1000)
			done := make([]wire.Completion, len(grants))
			for i, g := range grants {
				done[i] = wire.Completion{RunID: g.RunID, Fence: g.Fence, Result: json.RawMessage(`1`)}
			}
			await(w, begin(func() (any, error) {
				_, errs := w.Complete(w.life, done)
				return nil, errors.Join(errs...)
			}))
			ended += len(grants)
		}
		w.pass(58 * time.Second)
		if n := len(b.seen()); n != 0 {
			w.Fatalf("%d batches before their time", n)
		}
		at := w.now()
		w.pass(6 * time.Second)
		if left, archived := w.whereabouts(); left != 0 || archived != runs+large {
			w.Fatalf("%d runs in memory and %d in the archive", left, archived)
		}
		times := map[engine.ArchiveID]int{}
		for i, p := range b.seen() {
			if p.runs+p.keys > 5_000 {
				w.Errorf("batch %d has %d runs", i, p.runs)
			}
			if p.bytes > 4<<20+256<<10+512<<10+100 {
				w.Errorf("batch %d has %d bytes", i, p.bytes)
			}
			for _, id := range p.ids {
				times[id]++
			}
		}
		for id, n := range times {
			if n != 1 {
				w.Errorf("run %x left %d times", id, n)
			}
		}
		if last := b.seen()[len(b.seen())-1].at - at; last > 4*time.Second {
			w.Errorf("the last batch came %s after the first run was due", last)
		}
	})
}

// TestR14HotShardDoesNotHoldOthersBack fails when the runs of a shard wait until a busier
// one has nothing left.
func TestR14HotShardDoesNotHoldOthersBack(t *testing.T) {
	setup{shards: 2, recentRuns: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		few := w.submitAll(3, "sync", `{"k":"`+w.keyIn(1, "sync", "k")+`"}`)
		many := w.submitAll(900, "sync", `{"k":"`+w.keyIn(0, "sync", "k")+`"}`)
		b, gate := w.noteBatches(), make(chan struct{})
		b.hook = func() { <-gate }
		w.endAll(many[:2])
		w.pass(2 * time.Second) // a first batch is under way
		w.endAll(many[2:])
		w.endAll(few)
		close(gate)
		w.pass(2 * time.Second)
		batch, found := b.seen()[1], 0
		for _, id := range batch.ids {
			if slices.Contains(few, flow.RunID(id)) {
				found++
			}
		}
		if found < 2 || batch.runs < 500 {
			w.Errorf("%d of %d runs of the quiet shard are in the first batch of %d", found, len(few), batch.runs)
		}
	})
}

// TestR14ShareOfEachShard fails when a shard gives more than its share of what is beyond
// RecentRuns, so that far fewer runs than allowed stay.
func TestR14ShareOfEachShard(t *testing.T) {
	setup{shards: 4, recentRuns: 40}.play(t, func(w *world) {
		w.declare("sync", leased)
		for s := range 4 {
			w.endAll(w.submitAll(40*(s+1), "sync", `{"k":"`+w.keyIn(engine.ShardID(s), "sync", "k")+`"}`))
		}
		w.pass(5 * time.Second)
		if runs, archived := w.whereabouts(); runs > 40 || runs < 40-4 || runs+archived != 400 {
			w.Errorf("%d runs in memory and %d in the archive, want about 40 and 360", runs, archived)
		}
	})
}

// TestR14KeysLeaveByAgeAndCount fails when keys stay in memory while their runs don't end,
// or when those leave that may stay.
func TestR14R10KeysLeaveByAgeAndCount(t *testing.T) {
	setup{shards: 2, recentFor: flow.Minute, recentRuns: 10}.play(t, func(w *world) {
		w.declare("sync", leased)
		submit := func(from, to int) {
			for i := from; i < to; i++ {
				w.keyed(fmt.Sprintf(`{"k":"%d"}`, i), fmt.Sprint("order", i))
			}
		}
		submit(0, 6)
		w.pass(2 * time.Second)
		if keys, _ := w.remembered(); keys != 6 {
			w.Errorf("%d keys in memory, want all 6", keys)
		}
		w.pass(30 * time.Second)
		submit(6, 40)
		w.pass(3 * time.Second)
		if keys, _ := w.remembered(); keys > 10 || keys < 9 {
			w.Errorf("%d keys in memory, want about 10", keys)
		}
		w.pass(58 * time.Second)
		if keys, _ := w.remembered(); keys != 0 {
			w.Errorf("%d keys in memory after their time", keys)
		}
		if _, keys := w.archive.Len(); keys != 40 {
			w.Errorf("%d keys in the archive", keys)
		}
		if runs, _ := w.whereabouts(); runs != 40 {
			w.Errorf("%d runs in memory, and none has ended", runs)
		}
		submit(0, 40)
		if runs, _ := w.whereabouts(); runs != 40 {
			w.Errorf("repeats made runs: there are %d", runs)
		}
	})
}

// TestR7R14EndedRunsMakeRoom fails when runs that have left memory still count as in it.
func TestR7R14EndedRunsMakeRoom(t *testing.T) {
	setup{maxRuns: 3, recentFor: flow.Second}.play(t, func(w *world) {
		w.declare("sync", leased)
		for range 4 {
			w.endAll(w.submitAll(3, "sync", `{"k":"a"}`))
			if _, errs := w.Submit(context.WithoutCancel(w.life), []wire.Submit{submitOf("sync", `{"k":"b"}`)}); !errors.Is(errs[0], flow.ErrOverloaded) {
				w.Fatalf("a fourth run: %v", errs[0])
			}
			w.pass(4 * time.Second)
		}
		w.restart()
		w.submitAll(3, "sync", `{"k":"a"}`)
	})
}
