package archive

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

const (
	benchBatch = 5000
	benchBody  = 600 // bytes
	benchDays  = 8
)

// benchItems are items like those of a busy node: ids in the order of time but for
// their last bytes, ten groups, bodies that don't compress.
func benchItems(from, n int, ended time.Time) []engine.Archived {
	rng := rand.New(rand.NewPCG(uint64(from), 1))
	all := make([]engine.Archived, n)
	for i := range all {
		all[i] = engine.Archived{
			ID: idOf(from + i), Ended: ended.UnixNano(), Group: fmt.Sprint("workflow-", rng.IntN(10)), Kind: uint8(1 + rng.IntN(10)/9),
			Body: bytes.Repeat([]byte{byte(rng.Uint32())}, benchBody),
		}
		all[i].ID[14], all[i].ID[15] = byte(rng.Uint32()), byte(rng.Uint32())
	}
	return all
}

// BenchmarkPut puts 5,000 items of 600 bytes into one day, while there are seven
// others.
func BenchmarkPut(b *testing.B) {
	a := benchArchive(b, 100)
	before := a.Stats()
	n := 0
	for b.Loop() {
		b.StopTimer()
		items := benchItems(1_000_000+n*benchBatch, benchBatch, noon)
		b.StartTimer()
		mustPut(b, a, items)
		n++
	}
	after := a.Stats()
	runs := float64(after.Runs - before.Runs)
	b.ReportMetric(runs/b.Elapsed().Seconds(), "runs/s")
	b.ReportMetric(float64(after.Bytes-before.Bytes)/runs, "bytes/run")
}

// benchArchive has some batches in each of eight days.
func benchArchive(b *testing.B, items int) *Archive {
	b.Helper()
	a := mustOpen(b, quiet(b.TempDir()))
	for d := range benchDays {
		mustPut(b, a, benchItems(d*items, items, noon.Add(time.Duration(d-benchDays+1)*day)))
	}
	return a
}

const readItems = 40_000 // in each of eight days

// BenchmarkGet looks up items of eight days, and ids that nobody has.
func BenchmarkGet(b *testing.B) {
	a := benchArchive(b, readItems)
	items := benchItems(0, readItems, noon)
	b.Run("oldest", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := a.Get(items[i*7919%readItems].ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	newest := benchItems((benchDays-1)*readItems, readItems, noon)
	b.Run("newest", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := a.Get(newest[i*7919%readItems].ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unknown", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			id := items[i*7919%readItems].ID
			id[13] ^= 0xFF
			wantGone(b, a, id)
		}
	})
}

// BenchmarkScan reads a page of 100 out of the middle.
func BenchmarkScan(b *testing.B) {
	a := benchArchive(b, readItems)
	for name, q := range map[string]engine.ArchiveQuery{
		"all": {}, "group": {Group: "workflow-3"}, "kind": {Kind: 2}, "both": {Group: "workflow-3", Kind: 2},
	} {
		q.Before = idOf(benchDays / 2 * readItems)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				if err := a.Scan(q, func(engine.ArchiveID, []byte) bool { n++; return n < 100 }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen opens eight days.
func BenchmarkOpen(b *testing.B) {
	a := benchArchive(b, readItems)
	mustClose(b, a)
	for b.Loop() {
		a, err := Open(a.cfg)
		if err != nil {
			b.Fatal(err)
		}
		mustClose(b, a)
	}
}

// BenchmarkInspect reads all of eight days.
func BenchmarkInspect(b *testing.B) {
	a := benchArchive(b, readItems)
	b.SetBytes(a.Stats().Bytes)
	mustClose(b, a)
	for b.Loop() {
		if _, err := Inspect(context.Background(), a.cfg.Dir); err != nil {
			b.Fatal(err)
		}
	}
}
