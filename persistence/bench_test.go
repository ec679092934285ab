package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// recordBytes is the size of a usual record.
const recordBytes = 164

// sink is a machine that only counts, and wakes whoever waits for commits.
type sink struct {
	log     engine.Log
	epoch   atomic.Uint64
	applied int64
	bytes   int64
	acked   chan engine.Seq
}

func (s *sink) Restore(r io.Reader, _ engine.Pos) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func (s *sink) Apply(e engine.Entry) error {
	s.applied++
	s.bytes += int64(len(e.Body))
	return nil
}

func (s *sink) Promote(ep engine.Epoch, _ engine.Pos, _ int64) { s.epoch.Store(uint64(ep)) }

func (s *sink) Committed(_ engine.Epoch, upto engine.Seq) { s.acked <- upto }

func (s *sink) Demote(engine.Epoch, error) {}

func (s *sink) Capture() (engine.Snapshot, error) { return nil, engine.ErrNotOwner }

func benchLocal(b *testing.B, cfg Config) (*Local, []*sink) {
	b.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	l, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	sinks := make([]*sink, l.Shards())
	for i := range sinks {
		sinks[i] = &sink{acked: make(chan engine.Seq, 1024)}
		if sinks[i].log, err = l.Open(engine.ShardID(i), sinks[i]); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	return l, sinks
}

// benchAppend lets every shard keep window entries of records records each in
// flight.
func benchAppend(b *testing.B, cfg Config, records int) {
	cfg.Dir = filepath.Join(b.TempDir(), "data")
	cfg.SnapshotAfter = NoSnapshots
	l, sinks := benchLocal(b, cfg)
	body := make([]byte, records*recordBytes)
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, len(sinks))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	b.ResetTimer()
	for _, s := range sinks {
		go func() { done <- s.pump(body, &left) }()
	}
	for range sinks {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)*float64(records)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(b.N)/float64(l.journal.durable.Load()), "entries/fsync")
	reportOverhead(b, l, int64(b.N), len(body))
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// reportOverhead says what the journal adds to the bodies: for each entry, and the part
// of that which a frame's head and its length are.
func reportOverhead(b *testing.B, l *Local, entries int64, bodyBytes int) {
	b.Helper()
	added := l.journal.written.Load() - entries*int64(bodyBytes)
	b.ReportMetric(float64(added)/float64(entries), "overhead-B/entry")
	b.ReportMetric(float64(l.journal.durable.Load()*frameHeadBytes)/float64(entries), "frame-B/entry")
}

// pump appends while there is room and something left, and waits for its commits.
func (s *sink) pump(body []byte, left *atomic.Int64) error {
	var last, acked engine.Seq
	for {
		for s.log.Room() > 0 && left.Add(-1) >= 0 {
			seq, err := s.log.Append(engine.Epoch(s.epoch.Load()), 1, body)
			if err != nil {
				return err
			}
			last = seq
		}
		if acked == last {
			return nil
		}
		acked = <-s.acked
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, shards := range []int{1, 16} {
		for _, records := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("shards=%d/records=%d", shards, records), func(b *testing.B) {
				benchAppend(b, Config{Shards: shards}, records)
			})
		}
	}
}

func BenchmarkAppendAlone(b *testing.B) { benchAppend(b, Config{Shards: 1, Window: 1}, 1) }

func BenchmarkAppendEvery(b *testing.B) {
	benchAppend(b, Config{Shards: 16, Fsync: FsyncEvery(FsyncEveryMin)}, 16)
}

// BenchmarkReplay starts over a journal of a million records: one record an entry,
// and 64 of them.
func BenchmarkReplay(b *testing.B) {
	const total = 1_000_000
	for _, records := range []int{1, 64} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			cfg := Config{Dir: filepath.Join(b.TempDir(), "data"), Fsync: FsyncEvery(FsyncEveryMax), SnapshotAfter: NoSnapshots}
			l, sinks := benchLocal(b, cfg)
			var left atomic.Int64
			left.Store(total / int64(records))
			done := make(chan error, len(sinks))
			for _, s := range sinks {
				go func() { done <- s.pump(make([]byte, records*recordBytes), &left) }()
			}
			for range sinks {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			written := l.journal.written.Load()
			b.SetBytes(written)
			b.ReportAllocs()
			for b.Loop() {
				l, _ := benchLocal(b, cfg)
				if got := l.Recovery().Entries; got != total/int64(records) {
					b.Fatalf("%d entries", got)
				}
				b.StopTimer()
				if err := l.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(total)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(written)/total, "B/record")
		})
	}
}

// benchSnapshotBytes is the size of the snapshot that is written and restored.
const benchSnapshotBytes = 64 << 20

// bulk is a sink with a state of some size.
type bulk struct {
	sink
	state []byte
}

func (m *bulk) Capture() (engine.Snapshot, error) { return &bulkSnapshot{m}, nil }

// bulkSnapshot writes the state in pieces of the size of a host's slices.
type bulkSnapshot struct{ m *bulk }

func (s *bulkSnapshot) Boundary() (engine.Epoch, engine.Seq) {
	return engine.Epoch(s.m.epoch.Load()), 0
}

func (s *bulkSnapshot) WriteTo(w io.Writer) (int64, error) {
	return stream{s.m.state, 64 << 10}.WriteTo(w)
}

func (s *bulkSnapshot) Release() {}

func benchBulk(b *testing.B, cfg Config, state []byte) *Local {
	b.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	l, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.Open(0, &bulk{state: state}); err != nil {
		b.Fatal(err)
	}
	if err := l.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkSnapshot writes, syncs, reads again and publishes a snapshot.
func BenchmarkSnapshot(b *testing.B) {
	cfg := Config{Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SnapshotAfter: NoSnapshots}
	l := benchBulk(b, cfg, noise(benchSnapshotBytes))
	b.SetBytes(benchSnapshotBytes)
	for n := uint64(0); b.Loop(); n++ {
		// A boundary of its own each time: else the shard rests, and nothing is written.
		s := l.shards[0]
		s.mu.Lock()
		s.base = engine.Pos(n + 1)
		s.mu.Unlock()
		if err := s.Snapshot(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRestore starts over a snapshot.
func BenchmarkRestore(b *testing.B) {
	cfg := Config{Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SnapshotAfter: NoSnapshots}
	l := benchBulk(b, cfg, noise(benchSnapshotBytes))
	if err := errors.Join(l.shards[0].Snapshot(context.Background()), l.Close(context.Background())); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchSnapshotBytes)
	for b.Loop() {
		l := benchBulk(b, cfg, nil)
		b.StopTimer()
		if l.Recovery().FromSnapshot != 1 {
			b.Fatal("not restored")
		}
		if err := l.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkScan reads frames and items and hands them to nobody.
func BenchmarkScan(b *testing.B) {
	s := newSample(0)
	fs := s.disk(-1, nil)
	b.SetBytes(int64(len(s.segments[0]) * len(s.segments)))
	for b.Loop() {
		if _, _, err := scanDisk(fs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeItem(b *testing.B) {
	var w frameWriter
	it := item{kind: kindEntry, shard: 3, epoch: 9, seq: 1 << 33, wall: 1 << 60, body: make([]byte, recordBytes)}
	b.ReportAllocs()
	for b.Loop() {
		w.reset()
		if err := w.add(&it); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeItem(b *testing.B) {
	it := item{kind: kindEntry, shard: 3, epoch: 9, seq: 1 << 33, wall: 1 << 60, body: make([]byte, recordBytes)}
	data := encodeFrame(b, frame{epoch: 9, index: 1, first: 1}, []item{it})
	var dec itemDecoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dec.decode(data[frameHeadBytes+itemLengthBytes:]); err != nil {
			b.Fatal(err)
		}
	}
}
