package persistence

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// TestR17FirstShardServesBeforeTheOthers fails when another shard is promoted
// before AfterFirst has ended, or when shard 0 can't append and be acknowledged
// meanwhile.
func TestR17FirstShardServesBeforeTheOthers(t *testing.T) {
	cfg := onDisk(vfs.NewMem(), 3)
	var l *Local
	var ledgers []*enginetest.Ledger
	cfg.AfterFirst = func(ctx context.Context) error {
		if ledgers[0].Epoch() == 0 || ledgers[1].Epoch() != 0 || ledgers[2].Epoch() != 0 {
			t.Errorf("epochs %d %d %d", ledgers[0].Epoch(), ledgers[1].Epoch(), ledgers[2].Epoch())
		}
		if _, err := ledgers[1].Append(1, "early"); !errors.Is(err, engine.ErrNotOwner) {
			t.Errorf("append to shard 1: %v", err)
		}
		write(t, l, ledgers[0], 0, "registry")
		barrier(t, l, ledgers[0], 0)
		return nil
	}
	l = openLocal(t, cfg)
	ledgers = openAll(t, l)
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, ledger := range ledgers {
		if ledger.Epoch() != 1 {
			t.Errorf("shard %d: epoch %d after the start", i, ledger.Epoch())
		}
	}
}

// TestStartEndsWithTheErrorOfAfterFirst fails when a failure between the promotions
// is passed over.
func TestStartEndsWithTheErrorOfAfterFirst(t *testing.T) {
	cfg := onDisk(vfs.NewMem(), 2)
	cfg.AfterFirst = func(context.Context) error { return errDisk }
	l := openLocal(t, cfg)
	ledgers := openAll(t, l)
	if err := l.Start(t.Context()); !errors.Is(err, errDisk) || ledgers[1].Epoch() != 0 {
		t.Errorf("start: %v, shard 1 has epoch %d", err, ledgers[1].Epoch())
	}
}

// TestOpenAndStartAreChecked fails when a shard can be opened twice, late or beyond
// the end, or an engine started with a shard missing or twice.
func TestOpenAndStartAreChecked(t *testing.T) {
	l := openLocal(t, onDisk(vfs.NewMem(), 2))
	if _, err := l.Open(2, enginetest.NewLedger()); err == nil {
		t.Error("shard 2 of 2 opened")
	}
	if _, err := l.Open(0, enginetest.NewLedger()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(0, enginetest.NewLedger()); err == nil {
		t.Error("shard 0 opened twice")
	}
	if err := l.Start(t.Context()); err == nil {
		t.Error("started without shard 1")
	}
	if _, err := l.Open(1, enginetest.NewLedger()); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context()); err == nil {
		t.Error("started twice")
	}
}

// slowCapture is a ledger whose Capture waits, as that of a host waits for the
// shard's goroutine.
type slowCapture struct {
	*enginetest.Ledger
	inside chan struct{} // closed when Capture has begun
	hold   chan struct{} // Capture goes on when it is closed
}

func (s *slowCapture) Capture() (engine.Snapshot, error) {
	close(s.inside)
	<-s.hold
	return s.Ledger.Capture()
}

// TestR9CommitsGoOnWhileCaptureWaits fails when a machine that takes its time for a
// Capture holds up commits, its own or others', or when its Committed is lost or
// comes during the Capture.
func TestR9CommitsGoOnWhileCaptureWaits(t *testing.T) {
	l := openLocal(t, onDisk(vfs.NewMem(), 2))
	slow := &slowCapture{Ledger: enginetest.NewLedger(), inside: make(chan struct{}), hold: make(chan struct{})}
	other := enginetest.NewLedger()
	for i, m := range []engine.Machine{slow, other} {
		log, err := l.Open(engine.ShardID(i), m)
		if err != nil {
			t.Fatal(err)
		}
		[]*enginetest.Ledger{slow.Ledger, other}[i].Use(log)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() { taken <- l.shards[0].Snapshot(t.Context()) }()
	<-slow.inside
	room := l.shards[0].Room()
	if _, err := slow.Append(1, "during the capture"); err != nil {
		t.Fatal(err)
	}
	write(t, l, other, 1, "other shard")
	barrier(t, l, other, 1) // the frame holds both, or comes after it
	if _, acked := slow.Lines(); acked != 0 {
		t.Error("committed while Capture runs")
	}
	if got := l.shards[0].Room(); got != room {
		t.Errorf("room %d, want %d: the entry is durable", got, room)
	}
	close(slow.hold)
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	barrier(t, l, slow.Ledger, 0)
	if _, acked := slow.Lines(); acked != 1 {
		t.Error("the Committed that came during Capture is lost")
	}
	lawful(t, []*enginetest.Ledger{slow.Ledger, other})
}

// TestCaptureIsBoundedByItsContext fails when a machine that never answers holds a
// snapshot for ever, or when its late answer isn't released.
func TestCaptureIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLocal(t, onDisk(vfs.NewMem(), 1))
		slow := &slowCapture{Ledger: enginetest.NewLedger(), inside: make(chan struct{}), hold: make(chan struct{})}
		log, err := l.Open(0, slow)
		if err != nil {
			t.Fatal(err)
		}
		slow.Use(log)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.shards[0].Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("snapshot: %v", err)
		}
		close(slow.hold)
		synctest.Wait()
		lawful(t, []*enginetest.Ledger{slow.Ledger})
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestR9SnapshotsAreTakenWhenDue fails when the growth of the journal doesn't make
// snapshots of all shards, one after the other.
func TestR9SnapshotsAreTakenWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onDisk(vfs.NewMem(), 3)
		cfg.SnapshotAfter = 20_000
		taken := make(chan SnapshotStat, 100)
		cfg.Metrics.Snapshot = func(s SnapshotStat) { taken <- s }
		l := openLocal(t, cfg)
		ledgers := startAll(t, l)
		var order []uint16
		for range 2 {
			for i := range 25 {
				write(t, l, ledgers[1], 1, fmt.Sprintf("%0900d", i))
				barrier(t, l, ledgers[1], 1)
			}
			for range 3 {
				order = append(order, (<-taken).Shard)
			}
		}
		if !slices.Equal(order, []uint16{0, 1, 2, 0, 1, 2}) {
			t.Errorf("snapshots of the shards %v", order)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l.man.Load().MinIndex == 1 {
			t.Error("two snapshots of each shard, and the journal isn't cut")
		}
		lawful(t, ledgers)
	})
}

// TestR9GrowthDuringSnapshotsCounts fails when the journal grows beyond the next
// threshold while snapshots are taken, and no snapshots follow because nothing is
// appended afterwards.
func TestR9GrowthDuringSnapshotsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onDisk(vfs.NewMem(), 1)
		cfg.SnapshotAfter = 10_000
		var l *Local
		var ledger *enginetest.Ledger
		grow := func() {
			for i := range 40 {
				write(t, l, ledger, 0, fmt.Sprintf("%0900d", i))
				barrier(t, l, ledger, 0)
			}
		}
		rounds := 0
		cfg.Metrics.Snapshot = func(SnapshotStat) {
			if rounds++; rounds == 1 {
				grow() // the round isn't over: it ends when this returns
			}
		}
		l = openLocal(t, cfg)
		ledger = startAll(t, l)[0]
		grow()
		synctest.Wait()
		if rounds < 2 {
			t.Errorf("%d rounds of snapshots, want one more for what was written during the first", rounds)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		lawful(t, []*enginetest.Ledger{ledger})
	})
}

// TestR9LongReplayMakesSnapshotsDue fails when a node that starts over a long journal
// and then has no work takes no snapshots.
func TestR9LongReplayMakesSnapshotsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onDisk(vfs.NewMem(), 1)
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		for i := range 40 {
			write(t, l, ledger, 0, fmt.Sprintf("%0900d", i))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		taken := 0
		cfg.SnapshotAfter, cfg.Metrics.Snapshot = 10_000, func(SnapshotStat) { taken++ }
		l = openLocal(t, cfg)
		startAll(t, l)
		synctest.Wait()
		if taken != 1 {
			t.Errorf("%d snapshots behind a replay of four times the threshold, want 1", taken)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCloseWithSnapshotsLeavesNothingToReplay fails when entries are replayed after
// a close with snapshots, or when shards without news are written again.
func TestCloseWithSnapshotsLeavesNothingToReplay(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, 2)
	cfg.OnClose = CloseWithSnapshots
	for life := range 3 {
		taken := 0
		cfg.Metrics.Snapshot = func(SnapshotStat) { taken++ }
		l := openLocal(t, cfg)
		ledgers := startAll(t, l)
		if got := l.Recovery(); got.Entries != 0 || got.FromSnapshot != min(life, 1) {
			t.Errorf("life %d: %+v", life, got)
		}
		if lines, _ := ledgers[0].Lines(); len(lines) != min(life, 1) {
			t.Errorf("life %d: %d lines", life, len(lines))
		}
		if life == 0 {
			write(t, l, ledgers[0], 0, "x")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := 1 - min(life, 1); taken != want {
			t.Errorf("life %d: %d snapshots, want %d", life, taken, want)
		}
		lawful(t, ledgers)
	}
}

// TestFailedSnapshotLeavesTheJournal lets operation i of a snapshot fail, for every
// i. It fails when an entry or the snapshot before is lost then.
func TestFailedSnapshotLeavesTheJournal(t *testing.T) {
	for i := 0; ; i++ {
		disk := vfs.NewMem()
		from, hit, unsure := -1, false, false
		fs := vfs.NewFault(disk, func(op vfs.Op) error {
			if from < 0 || op.Index != from+i {
				return nil
			}
			hit = true
			unsure = op.Kind == vfs.OpSyncDir && op.Name == "/data" // which manifest is on disk?
			return errDisk
		})
		cfg := onDisk(fs, 1)
		cfg.OnFatal = func(error) {}
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		for n := range 3 {
			write(t, l, ledger, 0, fmt.Sprintf("%01500d", n))
			barrier(t, l, ledger, 0)
			if n == 1 {
				from = fs.Count()
			}
			err := l.shards[0].Snapshot(t.Context())
			if n == 1 {
				from = -1
			}
			if err != nil && !hit {
				t.Fatalf("operation %d: snapshot %d: %v", i, n, err)
			}
			if l.journal.err() != nil {
				break
			}
		}
		if unsure && l.journal.err() == nil {
			t.Errorf("operation %d: the journal goes on, although nobody knows which manifest is on disk", i)
		}
		all, acked := ledger.Lines()
		after := openLocal(t, onDisk(disk.CrashClone(nil), 1))
		lines, _ := startAll(t, after)[0].Lines()
		if len(lines) < acked || !slices.Equal(lines, all[:len(lines)]) {
			t.Errorf("operation %d: %d lines, %d acknowledged", i, len(lines), acked)
		}
		lawful(t, []*enginetest.Ledger{ledger})
		if !hit {
			break
		}
	}
}

// TestHealthKnowsTheReserve fails when a disk without room for two segments, a
// snapshot and what others need counts as healthy.
func TestHealthKnowsTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		cfg := onDisk(disk, 1)
		cfg.Reserve = 5000
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		if err := l.Health().Err(); err != nil {
			t.Errorf("healthy disk: %v", err)
		}
		disk.SetFree(2*segmentBytesMin + 5000 - 1)
		after(2 * spaceKeep)
		if h := l.Health(); h.Err() == nil || h.Reserve != 2*segmentBytesMin+5000 {
			t.Errorf("full disk: %+v", h)
		}
		write(t, l, ledger, 0, strings.Repeat("x", 10_000))
		if err := l.shards[0].Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := l.Health(); h.Reserve <= 2*segmentBytesMin+5000+10_000 {
			t.Errorf("reserve %d leaves the snapshot out", h.Reserve)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// slowApply is a ledger that takes virtual time for each entry.
type slowApply struct{ *enginetest.Ledger }

func (s slowApply) Apply(e engine.Entry) error {
	after(100 * time.Millisecond)
	return s.Ledger.Apply(e)
}

// TestProgressOfALongRecovery fails when a recovery of many seconds says nothing, or
// a short one does.
func TestProgressOfALongRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		cfg := onDisk(disk, 1)
		cfg.Progress = func(Progress) { t.Error("progress of a recovery of nothing") }
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		for i := range 60 {
			write(t, l, ledger, 0, fmt.Sprintf("%01200d", i))
			barrier(t, l, ledger, 0)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var told []Progress
		cfg.Progress = func(p Progress) { told = append(told, p) }
		l = openLocal(t, cfg)
		log, err := l.Open(0, slowApply{enginetest.NewLedger()})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(told) < 2 || told[0].Elapsed < time.Second || told[0].OfSegments < 10 || told[0].Entries == 0 {
			t.Errorf("told: %+v", told)
		}
		if s := l.Recovery().Seconds; s < 6 || s > 7 {
			t.Errorf("recovery of 60 entries at 0.1 s: %v s", s)
		}
		if _, ep, ok := log.Owner(); !ok || ep != 2 {
			t.Errorf("owner epoch %d %v", ep, ok)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// refusing is a machine that can't read its entries.
type refusing struct{ *enginetest.Ledger }

func (refusing) Apply(engine.Entry) error { return errDisk }

// TestStartEndsWithTheErrorOfAMachine fails when a machine's error is passed over,
// hidden behind another, or makes the start hang.
func TestStartEndsWithTheErrorOfAMachine(t *testing.T) {
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 2))
	ledgers := startAll(t, l)
	for i := range 2000 {
		write(t, l, ledgers[i%2], i%2, "x")
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = openLocal(t, onDisk(disk, 2))
	for i, m := range []engine.Machine{enginetest.NewLedger(), refusing{enginetest.NewLedger()}} {
		if _, err := l.Open(engine.ShardID(i), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Start(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("start: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(filepath.Join("/data", ManifestName)); err != nil {
		t.Error(err)
	}
}
