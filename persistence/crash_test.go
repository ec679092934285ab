package persistence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// onDisk is testConfig on a file system of memory.
func onDisk(fs vfs.FS, shards int) Config {
	cfg := testConfig("/data", shards)
	cfg.FS, cfg.open = fs, onFS(fs)
	return cfg
}

// witness is what an outsider knows of a run: every line that was appended, in
// order, and how many of them were acknowledged.
type witness struct {
	lines []enginetest.Line
	acked int
}

func witnesses(ledgers []*enginetest.Ledger) []witness {
	out := make([]witness, len(ledgers))
	for i, l := range ledgers {
		out[i].lines, out[i].acked = l.Lines()
	}
	return out
}

// check fails the test unless the ledgers hold what was acknowledged, whole and in
// order, and nothing that was never appended.
func (w witness) check(t *testing.T, what string, l *enginetest.Ledger) {
	t.Helper()
	got, _ := l.Lines()
	if len(got) < w.acked || len(got) > len(w.lines) {
		t.Fatalf("%s: %d lines came back, %d acknowledged, %d appended", what, len(got), w.acked, len(w.lines))
	}
	for i, line := range got {
		if line != w.lines[i] {
			t.Fatalf("%s: line %d is %v, was %v", what, i, line, w.lines[i])
		}
	}
}

// crashPlan is a workload and the disks that power cuts during it would leave.
type crashPlan struct {
	t      *testing.T
	fsync  Fsync
	disk   *vfs.Mem
	number uint64 // of the run: all choices come from it
	// every is the number of operations between two cuts.
	every int
	cuts  []cut
}

// cut is a disk after a power cut, and what was known before it.
type cut struct {
	disk  *vfs.Mem
	known []witness
	what  string
}

// run plays a workload of appends and snapshots on a disk, and cuts the power in
// front of every operation on a file.
func (p *crashPlan) run() {
	work, loss := rand.New(rand.NewPCG(p.number, 1)), rand.New(rand.NewPCG(p.number, 2))
	var ledgers []*enginetest.Ledger
	fs := vfs.NewFault(p.disk, func(op vfs.Op) error {
		if op.Index%p.every != 0 {
			return nil
		}
		// What is known is read before the disk is cloned: what is acknowledged by
		// now must be on it.
		known := witnesses(ledgers)
		what := fmt.Sprintf("cut before operation %d, %s %s", op.Index, op.Kind, op.Name)
		p.cuts = append(p.cuts, cut{p.disk.CrashClone(loss), known, what}, cut{p.disk.CrashClone(nil), known, what})
		return nil
	})
	cfg := onDisk(fs, 2)
	cfg.Fsync = p.fsync
	l := openLocal(p.t, cfg)
	opened := openAll(p.t, l)
	ledgers = opened
	if err := l.Start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	for round := range 6 {
		for i := range 5 {
			size := 1 + work.IntN(900)
			line := fmt.Sprintf("%d/%d/%0*d", round, i, size, i)
			shard := work.IntN(2)
			write(p.t, l, ledgers[shard], shard, line)
			if p.fsync.lazy() {
				barrier(p.t, l, ledgers[shard], shard) // a frame each, none of them synced
			}
		}
		shard := round % 2
		barrier(p.t, l, ledgers[shard], shard)
		if err := l.shards[shard].Snapshot(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
	// Shard 1 rests from here on: its snapshots reach further without being written.
	for round := range 4 {
		write(p.t, l, ledgers[0], 0, fmt.Sprintf("%d/%02000d", round, work.IntN(9)))
		barrier(p.t, l, ledgers[0], 0)
		if !l.round(p.t.Context()) {
			p.t.Fatal("a round has failed")
		}
	}
	if low := l.man.Load().MinIndex; low == 1 {
		p.t.Fatal("the journal was never cut")
	}
	if err := l.Close(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	lawful(p.t, ledgers)
}

// TestR9PowerCutAnywhereKeepsTheAcknowledged fails when, for some moment of a
// workload and some choice of what an unsynced disk keeps, a start is refused, or an
// acknowledged line is missing, or two starts in a row differ.
func TestR9PowerCutAnywhereKeepsTheAcknowledged(t *testing.T) {
	for number := range uint64(crashRuns) {
		// A test of its own for each run: what it opened goes with it.
		t.Run(fmt.Sprint("run ", number), func(t *testing.T) {
			p := &crashPlan{t: t, disk: vfs.NewMem(), number: number, every: crashEvery}
			p.run()
			for _, c := range p.cuts {
				first := recoverCut(t, c.what, c)
				second := recoverCut(t, c.what+", again", cut{disk: first.disk, known: first.known, what: c.what})
				for i := range first.known {
					if len(first.known[i].lines) != len(second.known[i].lines) {
						t.Fatalf("%s: shard %d has %d lines, then %d", c.what, i, len(first.known[i].lines), len(second.known[i].lines))
					}
				}
			}
		})
	}
}

// TestPowerCutInALazyLifeKeepsAPrefix fails when, with FsyncEvery, a start is refused
// after a power cut, or what comes back isn't a prefix of what was appended.
func TestPowerCutInALazyLifeKeepsAPrefix(t *testing.T) {
	for number := range uint64(crashRuns) {
		t.Run(fmt.Sprint("run ", number), func(t *testing.T) {
			p := &crashPlan{t: t, disk: vfs.NewMem(), number: number, every: crashEvery, fsync: FsyncEvery(FsyncEveryMax)}
			p.run()
			for _, c := range p.cuts {
				for i := range c.known {
					c.known[i].acked = 0 // acknowledged before it was on disk
				}
				recoverCut(t, c.what, c)
			}
		})
	}
}

// recoverCut starts an engine on a disk after a power cut, appends to it, and cuts
// the power again as soon as that is acknowledged. It returns the second disk.
func recoverCut(t *testing.T, what string, c cut) cut {
	t.Helper()
	l, err := Open(onDisk(c.disk, 2))
	if err != nil {
		t.Fatalf("%s: open: %v", what, err)
	}
	ledgers := openAll(t, l)
	if err := l.Start(t.Context()); err != nil {
		t.Fatalf("%s: start: %v", what, err)
	}
	for i, w := range c.known {
		w.check(t, what, ledgers[i])
	}
	known := witnesses(ledgers)
	out := cut{disk: c.disk.CrashClone(nil), known: known, what: what}
	if err := l.Close(t.Context()); err != nil {
		t.Fatalf("%s: close: %v", what, err)
	}
	lawful(t, ledgers)
	return out
}

// TestR9AppendAfterRepairSurvivesTheNextCrash fails when what is appended behind a
// cut tail is lost by the next power cut.
func TestR9AppendAfterRepairSurvivesTheNextCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	disk := vfs.NewMem()
	var known []witness
	for life := range 12 {
		l := openLocal(t, onDisk(disk, 2))
		ledgers := startAll(t, l)
		for i, w := range known {
			w.check(t, fmt.Sprintf("life %d", life), ledgers[i])
		}
		for i := range 4 {
			write(t, l, ledgers[i%2], i%2, fmt.Sprintf("life %d line %0*d", life, 1+rng.IntN(600), i))
		}
		barrier(t, l, ledgers[0], 0)
		next := disk.CrashClone(rng)
		known = witnesses(ledgers)
		// The acknowledgements above came before the clone, or their entries are only
		// perhaps on it: count what was surely acknowledged before.
		known[1].acked = 0
		disk = next
		lawful(t, ledgers)
	}
}

// TestRecoveryDoesNotTrustThePageCache fails when a frame that a failed fsync has
// left in the page cache only is acknowledged by a new life, and then lost by a
// power cut.
func TestRecoveryDoesNotTrustThePageCache(t *testing.T) {
	disk := vfs.NewMem()
	arm := make(chan struct{}, 1)
	fs := vfs.NewFault(disk, func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.Contains(op.Name, journalDir) || len(arm) == 0 {
			return nil
		}
		<-arm
		if err := disk.LoseWrites(op.Name); err != nil {
			return err
		}
		return errDisk
	})
	stopped := make(chan struct{})
	cfg := onDisk(fs, 1)
	cfg.OnFatal = func(error) { close(stopped) }
	l := openLocal(t, cfg)
	ledger := startAll(t, l)[0]
	write(t, l, ledger, 0, "before")
	barrier(t, l, ledger, 0)
	arm <- struct{}{}
	write(t, l, ledger, 0, "in the cache only")
	<-stopped
	if err := l.Close(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("close: %v", err)
	}
	// The process starts again, the system goes on: the cache still shows the frame.
	l = openLocal(t, onDisk(disk, 1))
	ledger = startAll(t, l)[0]
	write(t, l, ledger, 0, "behind")
	barrier(t, l, ledger, 0)
	known := witnesses([]*enginetest.Ledger{ledger})
	l = openLocal(t, onDisk(disk.CrashClone(nil), 1))
	known[0].check(t, "power cut behind the second start", startAll(t, l)[0])
}

// TestS16EveryFailedOperationStopsTheJournal lets operation i of a workload fail,
// for every i. It fails when an acknowledged line is missing afterwards, or when
// anything is acknowledged after the journal has stopped.
func TestS16EveryFailedOperationStopsTheJournal(t *testing.T) {
	failed := 0
	for i := 0; ; i += faultStep {
		if !failOne(t, i, &failed) {
			break
		}
	}
	if failed == 0 {
		t.Error("no operation failed in a way that stopped the journal")
	}
}

// failOne plays a workload in which operation i fails, and then recovers. It
// reports whether there was such an operation.
func failOne(t *testing.T, i int, stops *int) bool {
	t.Helper()
	disk := vfs.NewMem()
	hit := false
	var stop error
	stopped := make(chan struct{})
	fs := vfs.NewFault(disk, func(op vfs.Op) error {
		if op.Index == i {
			hit = true
			return fmt.Errorf("operation %d: %w", i, errDisk)
		}
		return nil
	})
	cfg := onDisk(fs, 2)
	cfg.OnFatal = func(err error) { stop = err; close(stopped) }
	ledgers := failedWorkload(t, cfg)
	known := witnesses(ledgers)
	select {
	case <-stopped:
		*stops++
		if stop == nil {
			t.Errorf("operation %d: stopped without a reason", i)
		}
		for s, l := range ledgers {
			if _, err := l.Append(1, "late"); err == nil {
				t.Errorf("operation %d: shard %d takes an entry after the stop", i, s)
			}
		}
	default:
	}
	after := disk.CrashClone(nil)
	for s, l := range ledgers {
		if _, acked := l.Lines(); acked != known[s].acked {
			t.Errorf("operation %d: shard %d was told of a commit after the stop", i, s)
		}
	}
	recoverCut(t, fmt.Sprintf("operation %d failed", i), cut{disk: after, known: known})
	lawful(t, ledgers)
	return hit
}

// failedWorkload appends, takes snapshots and closes, and takes every error as the
// end of it. Nil ledgers mean that the engine didn't come up.
func failedWorkload(t *testing.T, cfg Config) []*enginetest.Ledger {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		return nil
	}
	ctx := context.Background()
	defer func() {
		// Its error is the failure that was asked for.
		if err := l.Close(ctx); err != nil {
			return
		}
	}()
	ledgers := openAll(t, l)
	if err := l.Start(ctx); err != nil {
		return nil
	}
	for round := range 5 {
		for i := range 6 {
			_, err := ledgers[i%2].Append(int64(i), fmt.Sprintf("%d/%0500d", round, i))
			if err != nil {
				return ledgers
			}
		}
		for s := range ledgers {
			err := l.shards[s].ReadBarrier(ctx, ledgers[s].Epoch(), true)
			if err != nil {
				return ledgers
			}
		}
		// A snapshot may fail without stopping the journal.
		if err := l.shards[round%2].Snapshot(ctx); err != nil {
			continue
		}
	}
	return ledgers
}

var _ engine.Engine = (*Local)(nil)
