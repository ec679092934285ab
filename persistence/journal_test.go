package persistence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// gatedAppender lets a test hold writes and count what is done.
type gatedAppender struct {
	appender
	// hold, when set, makes each Append wait for a value.
	hold    atomic.Pointer[chan struct{}]
	appends atomic.Int64
	syncs   atomic.Int64
}

func (g *gatedAppender) Append(index uint64, frame []byte) error {
	if hold := g.hold.Load(); hold != nil {
		<-*hold
	}
	g.appends.Add(1)
	return g.appender.Append(index, frame)
}

func (g *gatedAppender) Sync() error {
	g.syncs.Add(1)
	return g.appender.Sync()
}

// gated opens stand-ins behind g.
func (g *gatedAppender) open(fs vfs.FS) openAppender {
	return func(cfg appenderConfig) (appender, error) {
		inner, err := onFS(fs)(cfg)
		g.appender = inner
		return g, err
	}
}

// after waits d of virtual time.
func after(d time.Duration) { <-time.After(d) }

// TestS16FailedWriteAcknowledgesNothing fails when, after a write that failed in
// one of the ways that disks know, somebody is told of a commit, an entry is taken,
// anything is written again, or OnFatal doesn't run exactly once. After a new start
// the entry is whole or not there.
func TestS16FailedWriteAcknowledgesNothing(t *testing.T) {
	for what, kind := range map[string]vfs.Kind{"short write": vfs.OpWrite, "error on fsync": vfs.OpSync} {
		t.Run(what, func(t *testing.T) {
			disk := vfs.NewMem()
			var armed atomic.Bool
			fs := vfs.NewFault(disk, func(op vfs.Op) error {
				if op.Kind == kind && strings.Contains(op.Name, journalDir) && armed.Swap(false) {
					return errDisk
				}
				return nil
			})
			fatal := make(chan error, 2)
			cfg := onDisk(fs, 2)
			cfg.OnFatal = func(err error) { fatal <- err }
			l := openLocal(t, cfg)
			ledgers := startAll(t, l)
			write(t, l, ledgers[0], 0, "before")
			barrier(t, l, ledgers[0], 0)
			armed.Store(true)
			write(t, l, ledgers[0], 0, "lost?")
			if err := <-fatal; !errors.Is(err, errDisk) {
				t.Errorf("fatal: %v", err)
			}
			if _, acked := ledgers[0].Lines(); acked != 1 {
				t.Errorf("%d lines acknowledged, want the one before", acked)
			}
			for s, ledger := range ledgers {
				if _, err := ledger.Append(1, "late"); !errors.Is(err, engine.ErrStopped) {
					t.Errorf("shard %d: append after the stop: %v", s, err)
				}
			}
			err := l.shards[0].ReadBarrier(t.Context(), ledgers[0].Epoch(), true)
			if !errors.Is(err, engine.ErrStopped) || !errors.Is(err, errDisk) {
				t.Errorf("barrier after the stop: %v", err)
			}
			if err := l.Health().Err(); !errors.Is(err, errDisk) {
				t.Errorf("health after the stop: %v", err)
			}
			count := fs.Count()
			if err := l.Close(t.Context()); !errors.Is(err, errDisk) {
				t.Errorf("close: %v", err)
			}
			if fs.Count() != count {
				t.Errorf("%d operations on files while a stopped engine closes", fs.Count()-count)
			}
			if len(fatal) != 0 {
				t.Error("OnFatal ran twice")
			}
			after := openLocal(t, onDisk(disk.CrashClone(nil), 2))
			lines, _ := startAll(t, after)[0].Lines()
			if len(lines) < 1 || len(lines) > 2 || lines[len(lines)-1].Body != []string{"before", "lost?"}[len(lines)-1] {
				t.Errorf("after the new start: %v", lines)
			}
		})
	}
}

// TestFatalPanicsByDefault fails when a failed write is ignored by a configuration
// that says nothing about it.
func TestFatalPanicsByDefault(t *testing.T) {
	cfg := Config{Dir: "x"}.withDefaults()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	cfg.OnFatal(errDisk)
}

// TestR19HungWriteIsToldAndThenFatal fails when a write that hangs isn't seen after
// a second, or doesn't stop the journal after thirty, or is acknowledged when it
// ends after that.
func TestR19HungWriteIsToldAndThenFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(fs, 1)
		cfg.open = gate.open(fs)
		fatal := make(chan error, 1)
		cfg.OnFatal = func(err error) { fatal <- err }
		var stalls []time.Duration
		var mu sync.Mutex
		cfg.Metrics.Stall = func(age time.Duration) { mu.Lock(); stalls = append(stalls, age); mu.Unlock() }
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		hold := make(chan struct{})
		gate.hold.Store(&hold)
		write(t, l, ledger, 0, "hangs")
		after(999 * time.Millisecond)
		if err := l.Health().Err(); err != nil {
			t.Errorf("after 0.999 s: %v", err)
		}
		after(2 * time.Millisecond)
		if h := l.Health(); h.Stalled < time.Second || h.Err() == nil {
			t.Errorf("after 1.001 s: %+v", h)
		}
		after(28 * time.Second)
		select {
		case err := <-fatal:
			t.Fatalf("fatal after 29 s: %v", err)
		default:
		}
		after(time.Second)
		<-fatal
		close(hold)
		synctest.Wait()
		if _, acked := ledger.Lines(); acked != 0 {
			t.Error("acknowledged after the stop")
		}
		mu.Lock()
		defer mu.Unlock()
		if len(stalls) < 20 || stalls[len(stalls)-1] != 0 {
			t.Errorf("stall gauge: %v, want one value a second and 0 at the end", stalls)
		}
		if err := l.Close(t.Context()); !errors.Is(err, engine.ErrStopped) {
			t.Errorf("close: %v", err)
		}
	})
}

// TestIdleJournalTouchesNoFile fails when an engine without work syncs, or does
// anything else with its files. With FsyncEvery one sync is still owed.
func TestIdleJournalTouchesNoFile(t *testing.T) {
	for _, fsync := range []Fsync{FsyncAlways, FsyncEvery(time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewFault(vfs.NewMem(), func(vfs.Op) error { return nil })
			cfg := onDisk(fs, 2)
			cfg.Fsync = fsync
			l := openLocal(t, cfg)
			ledgers := startAll(t, l)
			write(t, l, ledgers[0], 0, "a")
			barrier(t, l, ledgers[0], 0)
			after(2 * time.Second)
			count := fs.Count()
			after(24 * time.Hour)
			if fs.Count() != count {
				t.Errorf("%s: %d operations in an idle day", fsync, fs.Count()-count)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFsyncEverySyncsInTime fails when an entry is on disk later than the period
// after its write, or when each entry is synced by itself.
func TestFsyncEverySyncsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(disk, 1)
		cfg.open, cfg.Fsync = gate.open(disk), FsyncEvery(time.Second)
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		before := gate.syncs.Load()
		for i := range 50 {
			write(t, l, ledger, 0, fmt.Sprint(i))
			barrier(t, l, ledger, 0)
			after(100 * time.Millisecond)
		}
		if n := gate.syncs.Load() - before; n < 4 || n > 6 {
			t.Errorf("%d syncs in 5 s with a period of 1 s", n)
		}
		write(t, l, ledger, 0, "last")
		barrier(t, l, ledger, 0)
		after(1001 * time.Millisecond)
		lines, _ := startAll(t, openLocal(t, onDisk(disk.CrashClone(nil), 1)))[0].Lines()
		if len(lines) != 51 {
			t.Errorf("%d lines on disk a period after the last, want 51", len(lines))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFsyncEverySyncsUnderLoad fails when a queue that never gets empty puts the
// fsync off.
func TestFsyncEverySyncsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(fs, 1)
		cfg.open, cfg.Fsync, cfg.Window = gate.open(fs), FsyncEvery(time.Second), 8
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		before := gate.syncs.Load()
		hold := make(chan struct{})
		gate.hold.Store(&hold)
		// Entries that fill a frame each: while one is written the next ones wait.
		large := strings.Repeat("x", commitBytesMax)
		for range 50 {
			for l.shards[0].Room() > 0 {
				if _, err := ledger.Append(1, large); err != nil {
					t.Fatal(err)
				}
			}
			after(100 * time.Millisecond)
			hold <- struct{}{}
			synctest.Wait()
		}
		if n := gate.syncs.Load() - before; n < 4 || n > 6 {
			t.Errorf("%d syncs in 5 s of load with a period of 1 s", n)
		}
		close(hold)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGroupCommitTakesWhatWaits fails when entries that waited for a commit get a
// frame each, or when a large entry doesn't travel alone.
func TestGroupCommitTakesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(fs, 1)
		cfg.open, cfg.Window = gate.open(fs), 64
		var commits []CommitStat
		cfg.Metrics.Commit = func(c CommitStat) { commits = append(commits, c) }
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		hold := make(chan struct{})
		gate.hold.Store(&hold)
		write(t, l, ledger, 0, "first")
		synctest.Wait()
		for range 10 {
			write(t, l, ledger, 0, "small")
		}
		large := strings.Repeat("x", commitBytesMax+1)
		write(t, l, ledger, 0, large, "behind", "behind")
		close(hold)
		barrier(t, l, ledger, 0)
		var items []int
		for _, c := range commits {
			items = append(items, c.Items)
		}
		if fmt.Sprint(items) != "[1 10 1 2]" {
			t.Errorf("entries of the commits: %v, want 1, then the 10 that waited, the large one, the 2 behind it", items)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLargestEntrySurvives fails when an entry of the largest size is refused, or
// doesn't come back.
func TestLargestEntrySurvives(t *testing.T) {
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 1))
	ledger := startAll(t, l)[0]
	largest := strings.Repeat("x", engine.MaxEntryBytes)
	write(t, l, ledger, 0, "before", largest, "behind")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines, _ := startAll(t, openLocal(t, onDisk(disk.CrashClone(nil), 1)))[0].Lines()
	if len(lines) != 3 || lines[1].Body != largest || lines[2].Body != "behind" {
		t.Fatalf("%d lines came back", len(lines))
	}
}

// TestCloseIsBoundedByItsContext fails when Close waits for a disk that hangs.
func TestCloseIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(fs, 1)
		cfg.open = gate.open(fs)
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		hold := make(chan struct{})
		gate.hold.Store(&hold)
		write(t, l, ledger, 0, "hangs")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		close(hold)
	})
}

// TestParseFsync fails when a spelling of --fsync is read wrongly.
func TestParseFsync(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"always": 0, "every=10ms": 10 * time.Millisecond, "every=1s": time.Second, "every=1m": time.Minute,
	} {
		f, err := ParseFsync(text)
		if err != nil || f.Every() != want {
			t.Errorf("%s: %v, %v", text, f.Every(), err)
		}
		if again, err := ParseFsync(f.String()); err != nil || again != f {
			t.Errorf("%s: comes back as %v, %v", text, again, err)
		}
	}
	for _, text := range []string{"", "never", "every", "every=", "every=0s", "every=9ms", "every=61s", "every=-1s"} {
		if f, err := ParseFsync(text); err == nil {
			t.Errorf("%q: accepted as %v", text, f)
		}
	}
}
