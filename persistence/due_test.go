package persistence

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// written collects the shards of the snapshots that were taken.
type written struct {
	mu     sync.Mutex
	shards []uint16
}

func (w *written) note(s SnapshotStat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shards = append(w.shards, s.Shard)
}

// since lists the shards since the call before.
func (w *written) since() []uint16 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.shards
	w.shards = nil
	return out
}

// aged is an engine whose snapshots are due by age, and the shards that were written.
func aged(fs vfs.FS, shards int) (Config, *written) {
	cfg, taken := onDisk(fs, shards), new(written)
	cfg.SnapshotAfter, cfg.SnapshotEvery, cfg.Metrics.Snapshot = 0, time.Hour, taken.note
	return cfg, taken
}

// pause waits d of virtual time, and until all that is due then is done.
func pause(d time.Duration) {
	after(d)
	synctest.Wait()
}

// TestR9SnapshotsAreTakenByAge fails when a journal that has grown a little has no
// snapshots after their age, when there are any before, when an idle node does anything
// with its files, or when a shard at rest is written more than twice.
func TestR9SnapshotsAreTakenByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewFault(vfs.NewMem(), func(vfs.Op) error { return nil })
		cfg, taken := aged(fs, 2)
		l := openLocal(t, cfg)
		ledgers := startAll(t, l)
		step := func(what string, d time.Duration, want ...uint16) {
			t.Helper()
			pause(d)
			if got := taken.since(); !slices.Equal(got, want) {
				t.Errorf("%s: snapshots of %v, want %v", what, got, want)
			}
		}
		put := func() {
			write(t, l, ledgers[1], 1, "x")
			barrier(t, l, ledgers[1], 1)
		}
		step("nothing was appended", 10*time.Hour+time.Minute)
		put()
		step("too early", 58*time.Minute)
		step("the first of each shard", 2*time.Minute, 0, 1)
		put()
		step("the second of each shard", time.Hour, 0, 1)
		count := fs.Count()
		step("idle days", 48*time.Hour)
		if fs.Count() != count {
			t.Errorf("%d operations on files in idle days", fs.Count()-count)
		}
		put()
		step("shard 0 rests", time.Hour, 1)
		put()
		step("shard 0 rests on", time.Hour, 1)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		lawful(t, ledgers)
	})
}

// TestR9RoundBySizeSetsTheAgeBack fails when a round by size is followed by one by age
// before that age has passed; or when one by age comes although there shall be none.
func TestR9RoundBySizeSetsTheAgeBack(t *testing.T) {
	for every, want := range map[time.Duration]int{time.Hour: 1, NoSnapshotsByAge: 0} {
		synctest.Test(t, func(t *testing.T) {
			cfg, taken := aged(vfs.NewMem(), 1)
			cfg.SnapshotAfter, cfg.SnapshotEvery = 10_000, every
			l := openLocal(t, cfg)
			ledger := startAll(t, l)[0]
			after(50 * time.Minute)
			for range 12 {
				write(t, l, ledger, 0, strings.Repeat("x", 1000))
				barrier(t, l, ledger, 0)
			}
			synctest.Wait()
			write(t, l, ledger, 0, "y")
			pause(59 * time.Minute)
			if got := taken.since(); len(got) != 1 {
				t.Errorf("every %s: %d rounds, want the one by size", every, len(got))
			}
			pause(2 * time.Minute)
			if got := taken.since(); len(got) != want {
				t.Errorf("every %s: then %d rounds, want %d", every, len(got), want)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestR9ReplayedEntriesAreDueByAge fails when entries that only the journal has are
// replayed by every start of a node without work, or when such a node takes snapshots
// although there are none.
func TestR9ReplayedEntriesAreDueByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		for life, want := range []int{0, 1, 0} {
			cfg, taken := aged(disk, 1)
			l := openLocal(t, cfg)
			ledger := startAll(t, l)[0]
			if life == 0 {
				write(t, l, ledger, 0, "x")
			} else {
				pause(25 * time.Hour)
			}
			if got := taken.since(); len(got) != want {
				t.Errorf("life %d: snapshots of %v, want %d", life, got, want)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestR9FailedRoundIsTriedAgain fails when a node that could not take a snapshot, and
// then has no work, doesn't try again.
func TestR9FailedRoundIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		cfg, taken := aged(vfs.NewFault(vfs.NewMem(), func(op vfs.Op) error {
			if full.Load() && op.Kind == vfs.OpCreate && strings.Contains(op.Name, snapshotDir) {
				return errDisk
			}
			return nil
		}), 1)
		l := openLocal(t, cfg)
		write(t, l, startAll(t, l)[0], 0, "x")
		pause(90 * time.Minute)
		if len(taken.since()) != 0 {
			t.Fatal("a snapshot on a full disk")
		}
		full.Store(false)
		pause(time.Hour)
		if got := taken.since(); len(got) != 1 {
			t.Errorf("%d snapshots when there is room again, want 1", len(got))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// rested makes a data directory of two shards and several rounds, in which shard 1
// rests behind its third line.
func rested(t *testing.T) (disk *vfs.Mem, refs []snapshotRef, low []uint64) {
	t.Helper()
	disk = vfs.NewMem()
	cfg := onDisk(disk, 2)
	written := 0
	cfg.Metrics.Snapshot = func(s SnapshotStat) { written += int(s.Shard) }
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	write(t, l, ledgers[1], 1, "a", "b", "c")
	for round := range 6 {
		for i := range 4 {
			write(t, l, ledgers[0], 0, fmt.Sprintf("%d/%01500d", round, i))
			barrier(t, l, ledgers[0], 0)
		}
		if !l.round(t.Context()) {
			t.Fatal("a round has failed")
		}
		low = append(low, l.man.Load().MinIndex)
	}
	if written != snapshotsKept {
		t.Errorf("shard 1 was written %d times while it rested, want %d", written, snapshotsKept)
	}
	refs = l.man.Load().of(1)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lawful(t, ledgers)
	return disk, refs, low
}

// TestR9ShardAtRestHoldsNothingUp fails when a shard without news is written in every
// round, or keeps the journal from being cut.
func TestR9ShardAtRestHoldsNothingUp(t *testing.T) {
	disk, refs, low := rested(t)
	for i := 2; i < len(low); i++ {
		if low[i] <= low[i-1] {
			t.Errorf("lowest frame needed behind each round: %v", low)
			break
		}
	}
	list, err := listJournal(disk, filepath.Join("/data", journalDir))
	if err != nil || list.segments[0].first == 1 || list.segments[1].first <= low[len(low)-1] {
		t.Errorf("segments %v, needed from %d on, %v", list.segments, low[len(low)-1], err)
	}
	if len(refs) != snapshotsKept || refs[0].Pos != 3 || refs[1].Pos != 3 || refs[0].Index == refs[1].Index {
		t.Errorf("snapshots of the shard at rest: %+v", refs)
	}
}

// TestR9ShardAtRestFallsBack fails when one of the two snapshots of a shard at rest is
// not as good as the other, long after the journal has forgotten both; or when a shard
// that has worked again since comes back wrongly, or has no second snapshot because a
// damaged one stands in its place.
func TestR9ShardAtRestFallsBack(t *testing.T) {
	for damaged := range 3 {
		disk, refs, _ := rested(t)
		for _, ref := range refs[:damaged] {
			spoil(t, disk, ref)
		}
		l := openLocal(t, onDisk(disk, 2))
		ledgers := openAll(t, l)
		err := l.Start(t.Context())
		if damaged == snapshotsKept {
			if !isDamage(err) {
				t.Errorf("both damaged: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, l, ledgers[1], 1, "d")
		barrier(t, l, ledgers[1], 1)
		if !l.round(t.Context()) {
			t.Error("a round has failed")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The newest one holds "d"; the one before it holds three lines, and the journal
		// the fourth.
		for _, spoiled := range []bool{false, true} {
			again := disk.CrashClone(nil)
			if spoiled {
				spoil(t, again, l.newest(1))
			}
			next := startAll(t, openLocal(t, onDisk(again, 2)))
			if lines, _ := next[1].Lines(); len(lines) != 4 || lines[3].Body != "d" {
				t.Errorf("%d damaged, then %v: lines %v", damaged, spoiled, lines)
			}
			lawful(t, next)
		}
	}
}

// TestR9LazyRestIsOnDiskFirst fails when a manifest says that snapshots are good up to
// frames that a power cut can take away.
func TestR9LazyRestIsOnDiskFirst(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, 2)
	cfg.Fsync = FsyncEvery(FsyncEveryMax)
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	for range 3 {
		if !l.round(t.Context()) {
			t.Fatal("a round has failed")
		}
		write(t, l, ledgers[0], 0, "x")
		barrier(t, l, ledgers[0], 0)
	}
	if err := l.advanceAll(t.Context()); err != nil { // shard 1 alone
		t.Fatal(err)
	}
	after := openLocal(t, onDisk(disk.CrashClone(nil), 2))
	if lines, _ := startAll(t, after)[0].Lines(); len(lines) != 3 {
		t.Errorf("%d lines, want 3", len(lines))
	}
}

// TestR9FailedAdvanceLeavesTheJournal lets operation i of an advance fail, for every i.
// It fails when a line or a snapshot is lost then, or when the journal goes on although
// nobody knows which manifest is on disk.
func TestR9FailedAdvanceLeavesTheJournal(t *testing.T) {
	base, _, _ := rested(t)
	for i := 0; ; i++ {
		disk := base.CrashClone(nil)
		from, hit, unsure := -1, false, false
		cfg := onDisk(vfs.NewFault(disk, func(op vfs.Op) error {
			if from < 0 || op.Index != from+i {
				return nil
			}
			hit = true
			unsure = op.Kind == vfs.OpSyncDir || op.Kind == vfs.OpRemove // a name may be gone
			return errDisk
		}), 2)
		cfg.OnFatal = func(error) {}
		l := openLocal(t, cfg)
		ledgers := startAll(t, l)
		for n := range 8 {
			write(t, l, ledgers[0], 0, fmt.Sprintf("new %01500d", n))
			barrier(t, l, ledgers[0], 0)
		}
		for range snapshotsKept {
			write(t, l, ledgers[0], 0, "new")
			if err := l.shards[0].Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		from = l.cfg.FS.(*vfs.Fault).Count()
		err := l.advanceAll(t.Context())
		from = -1
		if hit != (err != nil) || hit && !errors.Is(err, errDisk) {
			t.Errorf("operation %d: failed %v, error %v", i, hit, err)
		}
		if stopped := l.journal.err() != nil; stopped != unsure {
			t.Errorf("operation %d: stopped %v, want %v (%v)", i, stopped, unsure, err)
		}
		for _, left := range []*vfs.Mem{disk.CrashClone(nil), keptCache(t, disk)} {
			after := startAll(t, openLocal(t, onDisk(left, 2)))
			for s, want := range []int{34, 3} {
				if lines, _ := after[s].Lines(); len(lines) != want {
					t.Errorf("operation %d: shard %d has %d lines, want %d", i, s, len(lines), want)
				}
			}
		}
		if !hit {
			list, err := listJournal(disk, filepath.Join("/data", journalDir))
			if low := l.man.Load().MinIndex; err != nil || len(list.segments) > 1 && list.segments[1].first <= low {
				t.Errorf("frame %d is the lowest that is needed, segments %v are there, %v", low, list.segments, err)
			}
			break
		}
	}
}
