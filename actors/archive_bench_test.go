package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// forgetful is an engine whose entries are durable at once and gone.
type forgetful struct {
	engine.Engine
	shards   int
	machines []engine.Machine
}

// Shards implements engine.Engine.
func (f *forgetful) Shards() int { return f.shards }

// Open implements engine.Engine.
func (f *forgetful) Open(_ engine.ShardID, m engine.Machine) (engine.Log, error) {
	f.machines = append(f.machines, m)
	return &forgetfulLog{machine: m}, nil
}

type forgetfulLog struct {
	engine.Log
	machine engine.Machine
	last    engine.Seq
}

// Room implements engine.Log.
func (l *forgetfulLog) Room() int { return 8 }

// Append implements engine.Log.
func (l *forgetfulLog) Append(ep engine.Epoch, _ int64, _ []byte) (engine.Seq, error) {
	l.last++
	l.machine.Committed(ep, l.last)
	return l.last, nil
}

// sinkArchive keeps nothing.
type sinkArchive struct{ runs atomic.Int64 }

// Holds implements engine.Archive.
func (a *sinkArchive) Holds() engine.ArchiveHoldings { return engine.ArchiveHoldings{} }

// Put implements engine.Archive.
func (a *sinkArchive) Put(_ context.Context, items []engine.Archived, _ []engine.ArchivedKey) error {
	a.runs.Add(int64(len(items)))
	return nil
}

// Get implements engine.Archive.
func (*sinkArchive) Get(engine.ArchiveID) ([]byte, error) { return nil, engine.ErrNotArchived }

// Key implements engine.Archive.
func (*sinkArchive) Key(string) ([]byte, error) { return nil, engine.ErrNotArchived }

// Scan implements engine.Archive.
func (*sinkArchive) Scan(engine.ArchiveQuery, func(engine.ArchiveID, []byte) bool) error { return nil }

// benchNode is a node over a forgetful engine, that serves.
func benchNode(b *testing.B, shards int, cfg actors.Config) *world {
	b.Helper()
	f := &forgetful{shards: shards}
	cfg.Engine = f
	n, err := actors.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range f.machines {
		m.Promote(1, 0, int64(actors.NewSystemClock().Wall()))
	}
	if err := n.WaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	})
	w := &world{Node: n, life: b.Context()}
	if _, err := n.Declare(b.Context(), "sync", w.declaration(leased)); err != nil {
		b.Fatal(err)
	}
	return w
}

// benchRuns makes runs from a number on, each with a key of its own, and returns their ids.
func (w *world) benchRuns(b *testing.B, from, count int) []string {
	b.Helper()
	ids := make([]string, 0, count)
	for len(ids) < count {
		all := make([]wire.Submit, min(1000, count-len(ids)))
		for i := range all {
			all[i] = submitOf("sync", fmt.Sprintf(`{"k":"key-%d"}`, from+len(ids)+i))
		}
		out, errs := w.Submit(w.life, all)
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
		for i := range out {
			ids = append(ids, out[i].RunID)
		}
	}
	return ids
}

// benchEnds cancels runs, many at once.
func (w *world) benchEnds(b *testing.B, ids []string) {
	b.Helper()
	var all sync.WaitGroup
	for part := range slices.Chunk(ids, len(ids)/64+1) {
		all.Go(func() {
			for _, text := range part {
				id, err := flow.ParseRunID(text)
				if err == nil {
					_, err = w.Cancel(w.life, id, "")
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkR9SnapshotPause walks snapshots of a million runs with a key each, in one shard
// and in sixteen, alone and under a load of submits and cancels. An operation is a
// snapshot of one shard. The metrics are the longest and the 99th percentile of what keeps
// the shard's goroutine; -short has a hundredth of the runs.
func BenchmarkR9SnapshotPause(b *testing.B) {
	runs := 1_000_000
	if testing.Short() {
		runs /= 100
	}
	for _, shards := range []int{1, 16} {
		b.Run(fmt.Sprint("shards=", shards), func(b *testing.B) {
			w := benchNode(b, shards, actors.Config{})
			w.benchRuns(b, 0, runs)
			runtime.GC()
			for _, load := range []string{"alone", "load"} {
				b.Run(load, func(b *testing.B) { w.pauses(b, shards, load == "load") })
			}
		})
	}
}

func (w *world) pauses(b *testing.B, shards int, loaded bool) {
	stop := make(chan struct{})
	var load sync.WaitGroup
	if loaded {
		for i := range 4 {
			load.Go(func() {
				for from := i * 10_000; ; from += 50 {
					select {
					case <-stop:
						return
					default:
						w.benchEnds(b, w.benchRuns(b, from, 50))
					}
				}
			})
		}
	}
	var begins, all []time.Duration
	for i := 0; b.Loop(); i++ {
		begin, parts, err := actors.SnapshotPauses(w.life, w.Node, engine.ShardID(i%shards))
		if err != nil {
			b.Fatal(err)
		}
		begins, all = append(begins, begin), append(all, parts...)
	}
	close(stop)
	load.Wait()
	slices.Sort(all)
	b.ReportMetric(float64(slices.Max(begins)), "begin-ns")
	b.ReportMetric(float64(all[len(all)-1]), "slice-max-ns")
	b.ReportMetric(float64(all[len(all)*99/100]), "slice-p99-ns")
	b.ReportMetric(float64(len(all))/float64(len(begins)), "slices/op")
}

// BenchmarkR14Leaving is the way of a run out of memory: encoded, put into an archive in
// memory, recorded and forgotten. An operation is a run.
func BenchmarkR14Leaving(b *testing.B) {
	archive, gate := enginetest.NewArchive(), make(chan struct{})
	archive.Putting = func([]engine.Archived, []engine.ArchivedKey) error {
		<-gate
		return nil
	}
	w := benchNode(b, 16, actors.Config{Archive: archive, RecentRuns: 1, MaxRuns: 1 << 40})
	w.benchEnds(b, w.benchRuns(b, 0, b.N))
	b.ReportAllocs()
	b.ResetTimer()
	close(gate)
	for left := b.N; left > 16; {
		<-time.After(time.Millisecond)
		var err error
		if left, err = actors.RunsInMemory(w.life, w.Node); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkR23ArchivedHeap is what a run that has ended and left memory leaves behind there:
// the heap after 200,000 of them, less the heap before, by run. The runs end at once, with
// keys of their own, so the bound of RecentRuns moves them.
func BenchmarkR23ArchivedHeap(b *testing.B) {
	const runs = 200_000
	archive := &sinkArchive{}
	w := benchNode(b, 16, actors.Config{Archive: archive, RecentRuns: 1})
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for b.Loop() {
		before := live()
		for from := 0; from < runs; from += 10_000 {
			w.benchEnds(b, w.benchRuns(b, from, 10_000))
		}
		for left := runs; left > 16; {
			<-time.After(10 * time.Millisecond)
			var err error
			if left, err = actors.RunsInMemory(w.life, w.Node); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(live()-before)/runs, "B/run")
	}
}
