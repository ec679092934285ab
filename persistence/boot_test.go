package persistence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// bootedAs is a machine's boot id.
func bootedAs(id string) func() string { return func() string { return id } }

// ended is how a life ends.
type ended uint8

const (
	closed ended = iota
	killed
	torn // killed in the middle of a write
)

// endLife plays a life that appends one line and ends, and returns the disk.
func endLife(t *testing.T, cfg Config, disk *vfs.Mem, end ended) *vfs.Mem {
	t.Helper()
	l := openLocal(t, cfg)
	ledger := startAll(t, l)[0]
	write(t, l, ledger, 0, "x")
	barrier(t, l, ledger, 0)
	left := keptCache(t, disk)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end == closed {
		return disk
	}
	if end == torn {
		name := filepath.Join(cfg.Dir, journalDir, segmentName(1))
		data, err := readFile(left, name, segmentFileBytesMax)
		if err != nil {
			t.Fatal(err)
		}
		putFile(left, name, append(data, 3, 3, 3))
	}
	return left
}

// keptCache is a copy of all files of a data directory as programs see them now: what
// a kill of the process leaves, whatever happens to the machine.
func keptCache(t *testing.T, from *vfs.Mem) *vfs.Mem {
	t.Helper()
	to := vfs.NewMem()
	for _, dir := range []string{"/data", "/data/" + journalDir, "/data/" + snapshotDir} {
		if err := to.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range names(t, from, dir) {
			data, err := readFile(from, filepath.Join(dir, name), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			putFile(to, filepath.Join(dir, name), data)
		}
	}
	return to
}

// TestR18LossIsToldOf goes through every way of acknowledging, of ending and of
// starting again. It fails when a start doesn't say that acknowledged entries may be
// missing, or says so although none can be.
func TestR18LossIsToldOf(t *testing.T) {
	every := FsyncEvery(FsyncEveryMax)
	for _, c := range []struct {
		fsync         Fsync
		end           ended
		before, after string // boot ids
		lost          bool
	}{
		{every, killed, "a", "b", true},
		{every, killed, "a", "a", false},
		{every, killed, "", "", true},
		{every, killed, "a", "", true},
		{every, killed, "", "b", true},
		{every, torn, "a", "a", true},
		{every, torn, "a", "b", true},
		{every, closed, "a", "b", false},
		{every, closed, "", "", false},
		{FsyncAlways, killed, "a", "b", false},
		{FsyncAlways, killed, "", "", false},
		{FsyncAlways, torn, "a", "b", false},
		{FsyncAlways, closed, "a", "b", false},
	} {
		for next, fsync := range map[string]Fsync{"always": FsyncAlways, "every": every} {
			what := fmt.Sprintf("%+v, then %s", c, next)
			disk := vfs.NewMem()
			cfg := onDisk(disk, 1)
			cfg.Fsync, cfg.BootID = c.fsync, bootedAs(c.before)
			disk = endLife(t, cfg, disk, c.end)
			cfg = onDisk(disk, 1)
			cfg.Fsync, cfg.BootID = fsync, bootedAs(c.after)
			l := openLocal(t, cfg)
			startAll(t, l)
			if got := l.Recovery().MayHaveLost; got != c.lost {
				t.Errorf("%s: may have lost %v, want %v", what, got, c.lost)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestR18LossIsToldUntilItIsSettled fails when a start behind a loss, that was killed
// or closed before the loss was settled, lets the next start forget it; or when a
// settled one comes back.
func TestR18LossIsToldUntilItIsSettled(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, 1)
	cfg.Fsync, cfg.BootID = FsyncEvery(FsyncEveryMax), bootedAs("a")
	disk = endLife(t, cfg, disk, killed)
	for life, settle := range []bool{false, false, true, false} {
		want := life <= 2
		next := onDisk(disk, 1)
		next.BootID = bootedAs("b")
		l := openLocal(t, next)
		if err := l.SettleLoss(t.Context()); err == nil {
			t.Error("settled before the start")
		}
		startAll(t, l)
		if got := l.Recovery().MayHaveLost; got != want {
			t.Errorf("life %d: may have lost %v, want %v", life, got, want)
		}
		if settle {
			if err := l.SettleLoss(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if life == 0 {
			disk = disk.CrashClone(nil)
			continue
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.SettleLoss(t.Context()); !errors.Is(err, engine.ErrStopped) {
			t.Errorf("settled behind the close: %v", err)
		}
	}
}

// TestR18LossSurvivesADeathDuringRecovery cuts the power in front of every operation of
// a start behind a loss. It fails when the next start doesn't tell of it: the torn tail
// that shows it is cut by then.
func TestR18LossSurvivesADeathDuringRecovery(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, 1)
	cfg.Fsync, cfg.BootID = FsyncEvery(FsyncEveryMax), bootedAs("a")
	disk = endLife(t, cfg, disk, torn)
	rng := rand.New(rand.NewPCG(18, 1))
	var cuts []*vfs.Mem
	next := onDisk(vfs.NewFault(disk, func(vfs.Op) error {
		cuts = append(cuts, disk.CrashClone(rng), keptCache(t, disk))
		return nil
	}), 1)
	next.BootID = bootedAs("a")
	startAll(t, openLocal(t, next))
	for i, left := range cuts {
		again := onDisk(left, 1)
		again.BootID = bootedAs("a")
		l := openLocal(t, again)
		startAll(t, l)
		if !l.Recovery().MayHaveLost {
			t.Errorf("before operation %d: the loss is forgotten", i/2)
		}
	}
}

// TestR18OldManifestAsksTheJournal fails when a directory of a build that didn't
// remember boot ids counts as whole although its life acknowledged before fsync, or as
// one with a loss although it didn't.
func TestR18OldManifestAsksTheJournal(t *testing.T) {
	for _, fsync := range []Fsync{FsyncAlways, FsyncEvery(FsyncEveryMax)} {
		disk := vfs.NewMem()
		cfg := onDisk(disk, 1)
		cfg.Fsync, cfg.BootID = fsync, bootedAs("a")
		disk = endLife(t, cfg, disk, closed)
		man, err := readManifest(disk, cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		man.BootID, man.Acked = "", ""
		if err := man.write(disk, cfg.Dir); err != nil {
			t.Fatal(err)
		}
		cfg = onDisk(disk, 1)
		cfg.BootID = bootedAs("a")
		l := openLocal(t, cfg)
		startAll(t, l)
		if got := l.Recovery().MayHaveLost; got != fsync.lazy() {
			t.Errorf("%s: may have lost %v", fsync, got)
		}
	}
}

// TestR18UnsettledLossSurvivesAFailure fails when a settling that couldn't be written
// down is taken for done, or when one stops the journal that has changed nothing.
func TestR18UnsettledLossSurvivesAFailure(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, 1)
	cfg.Fsync, cfg.BootID = FsyncEvery(FsyncEveryMax), bootedAs("a")
	disk = endLife(t, cfg, disk, killed)
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir} {
		armed := false
		fs := vfs.NewFault(disk.CrashClone(nil), func(op vfs.Op) error {
			if armed && op.Kind == kind {
				armed = false
				return errDisk
			}
			return nil
		})
		next := onDisk(fs, 1)
		next.BootID, next.OnFatal = bootedAs("b"), func(error) {}
		l := openLocal(t, next)
		startAll(t, l)
		armed = true
		if err := l.SettleLoss(t.Context()); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", kind, err)
		}
		unsure := kind == vfs.OpSyncDir // the new manifest may be on disk
		if stopped := l.journal.err() != nil; stopped != unsure {
			t.Errorf("%s: journal stopped %v, want %v", kind, stopped, unsure)
		}
		if unsure {
			continue
		}
		if err := l.SettleLoss(t.Context()); err != nil {
			t.Errorf("%s: again: %v", kind, err)
		}
	}
}

// TestR18BootIDOfThisMachine fails when the boot id of Linux isn't read, or changes
// while the machine runs.
func TestR18BootIDOfThisMachine(t *testing.T) {
	id := Config{Dir: "x"}.withDefaults().BootID
	if a, b := id(), id(); a != b {
		t.Errorf("boot id %q, then %q", a, b)
	}
	fs := vfs.OS{}
	if _, err := fs.Stat(bootIDFile); err != nil {
		t.Skipf("no boot id on this system: %v", err)
	}
	if len(id()) != 36 {
		t.Errorf("boot id %q", id())
	}
}
