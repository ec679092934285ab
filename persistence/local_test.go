package persistence

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// testConfig is a small engine in a directory.
func testConfig(dir string, shards int) Config {
	return Config{
		Dir: dir, Shards: shards, SegmentBytes: segmentBytesMin,
		Logger: slog.New(slog.DiscardHandler), SnapshotAfter: NoSnapshots,
	}
}

// openLocal opens an engine that fails the test if the journal stops.
func openLocal(t *testing.T, cfg Config) *Local {
	t.Helper()
	if cfg.OnFatal == nil {
		cfg.OnFatal = func(err error) { t.Errorf("journal stopped: %v", err) }
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Most tests have closed it before; a second call does nothing. A journal that
		// was stopped on purpose says so again.
		if err := l.Close(context.Background()); err != nil && !errors.Is(err, engine.ErrStopped) {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// startAll opens all shards with ledgers and starts.
func startAll(t *testing.T, l *Local) []*enginetest.Ledger {
	t.Helper()
	ledgers := openAll(t, l)
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ledgers
}

func openAll(t *testing.T, l *Local) []*enginetest.Ledger {
	t.Helper()
	var ledgers []*enginetest.Ledger
	for i := range l.Shards() {
		ledger := enginetest.NewLedger()
		log, err := l.Open(engine.ShardID(i), ledger)
		if err != nil {
			t.Fatal(err)
		}
		ledger.Use(log)
		ledgers = append(ledgers, ledger)
	}
	return ledgers
}

// lawful fails the test if a ledger saw a broken law.
func lawful(t *testing.T, ledgers []*enginetest.Ledger) {
	t.Helper()
	for i, l := range ledgers {
		for _, b := range l.Broken() {
			t.Errorf("shard %d: %s", i, b)
		}
	}
}

// barrier waits until everything of a shard is durable.
func barrier(t *testing.T, l *Local, ledger *enginetest.Ledger, shard int) {
	t.Helper()
	if err := l.shards[shard].ReadBarrier(t.Context(), ledger.Epoch(), true); err != nil {
		t.Fatal(err)
	}
}

// write appends lines, waiting for room.
func write(t *testing.T, l *Local, ledger *enginetest.Ledger, shard int, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if l.shards[shard].Room() == 0 {
			barrier(t, l, ledger, shard)
		}
		if _, err := ledger.Append(int64(len(line)), line); err != nil {
			t.Fatal(err)
		}
	}
}

// copyDir copies a data directory as a kill at this moment would leave it. Appends
// may be under way; a snapshot may not, since the files aren't copied in one moment.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(filepath.Join(to, "data"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(to, "data")
}

// localStand puts a Local on the stand of the conformance suite.
func localStand(t *testing.T, cfg Config) *enginetest.Stand {
	return &enginetest.Stand{
		Engine: openLocal(t, cfg),
		Crash: func() *enginetest.Stand {
			next := cfg
			next.Dir = copyDir(t, cfg.Dir)
			return localStand(t, next)
		},
	}
}

// TestLocalConforms fails when Local breaks a law of package engine.
func TestLocalConforms(t *testing.T) {
	for name, fsync := range map[string]Fsync{"always": FsyncAlways, "every": FsyncEvery(FsyncEveryMin)} {
		t.Run(name, func(t *testing.T) {
			enginetest.Conform(t, func(t *testing.T) *enginetest.Stand {
				cfg := testConfig(filepath.Join(t.TempDir(), "data"), 3)
				cfg.Fsync = fsync
				return localStand(t, cfg)
			})
		})
	}
}

// TestSecondOpenerIsRefused fails when two engines can be open on one directory,
// or when the refusal doesn't name it.
func TestSecondOpenerIsRefused(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 1)
	first := openLocal(t, cfg)
	if _, err := Open(cfg); !errors.Is(err, ErrLocked) {
		t.Fatalf("second open: %v, want ErrLocked", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	openLocal(t, cfg)
}

// TestYieldLetsACommitGoFirst fails when Yield returns while a commit is under way,
// or waits when there is none: before the start, on an idle journal, on a closed one.
func TestYieldLetsACommitGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(disk, 1)
		cfg.open = gate.open(disk)
		l := openLocal(t, cfg)
		l.Yield()
		ledger := startAll(t, l)[0]
		l.Yield()
		hold := make(chan struct{})
		gate.hold.Store(&hold)
		write(t, l, ledger, 0, "under way")
		synctest.Wait()
		passed := make(chan struct{})
		go func() { l.Yield(); close(passed) }()
		synctest.Wait()
		select {
		case <-passed:
			t.Error("Yield has returned before the commit")
		default:
		}
		close(hold)
		<-passed
		if _, acked := ledger.Lines(); acked != 1 {
			t.Errorf("%d lines acknowledged when Yield returned, want 1", acked)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Yield()
	})
}
