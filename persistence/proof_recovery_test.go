package persistence

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// wrecks are directories as crashes leave them, each with something for a recovery to do:
// a torn tail to cut, segments and snapshots to remove, unfinished files. What is
// acknowledged in them is known.
func wrecks(t *testing.T) map[string]lived {
	t.Helper()
	out := make(map[string]lived)
	for name, w := range shapes(t) {
		segments := w.img.segments()
		last := segments[len(segments)-1]
		data := w.img[last]
		starts := frameStarts(t, data)
		end := starts[len(starts)-1]
		out[name+", whole"] = w
		torn := lived{img: w.img.with(last, data[:end+(len(data)-end)/2]), known: slices.Clone(w.known), lastOf: w.lastOf}
		torn.known[w.lastOf].acked--
		out[name+", torn"] = torn
		zeros := lived{img: w.img.with(last, append(slices.Clone(data), make([]byte, 700)...)), known: w.known}
		out[name+", zeros behind"] = zeros
		mess := lived{known: w.known, img: w.img.
			with(segments[0]+tempSuffix, data[:9]).with(last+tempSuffix, data).
			with(filepath.Join(imageDir, ManifestName+tempSuffix), []byte("{")).
			with(filepath.Join(imageDir, snapshotDir, "shard-00001-epoch-1-pos-3-at-3.snap"), data).
			with(filepath.Join(imageDir, snapshotDir, "shard-00001-epoch-1-pos-3-at-3.snap.TEMP"), data)}
		out[name+", unfinished files"] = mess
	}
	return out
}

// modes are the two ways to sync.
func modes() map[string]Fsync {
	return map[string]Fsync{"always": FsyncAlways, "every": FsyncEvery(FsyncEveryMax)}
}

// TestR9PowerCutDuringRecovery cuts the power in front of each operation of a recovery
// and of the first appends behind it. It fails when one of the disks that are left then
// doesn't recover everything that was acknowledged, or when a power cut in that second
// recovery loses something.
func TestR9PowerCutDuringRecovery(t *testing.T) {
	loss := rand.New(rand.NewPCG(17, 1))
	wrecked := wrecks(t)
	for _, name := range slices.Sorted(maps.Keys(wrecked)) {
		if !allWrecks && !strings.HasSuffix(name, "torn") {
			continue
		}
		for mode, fsync := range modes() {
			what := name + ", fsync " + mode
			cuts := cutsOfRecovery(t, what, wrecked[name], recoveryPlan{fsync: fsync, loss: loss, step: powerStep})
			if len(cuts) < 20/powerStep {
				t.Fatalf("%s: %d cuts", what, len(cuts))
			}
			for i, c := range cuts {
				if i%nestStep == 0 {
					nested(t, c, loss)
				}
				startOn(t, c.disk).holds(t, c.what, c.known)
			}
		}
	}
}

// nested cuts the power once more, at one place of the recovery of c.
func nested(t *testing.T, c cut, loss *rand.Rand) {
	t.Helper()
	w := lived{img: takeImage(t, c.disk), known: c.known}
	plan := recoveryPlan{fsync: FsyncAlways, loss: loss, step: 1 + loss.IntN(20)}
	for _, second := range cutsOfRecovery(t, c.what+", again", w, plan) {
		startOn(t, second.disk).holds(t, second.what, second.known)
	}
}

// recoveryPlan says how a recovery runs and where the power is cut.
type recoveryPlan struct {
	fsync Fsync
	loss  *rand.Rand
	step  int // operations from one cut to the next
}

// cutsOfRecovery starts on a wreck, appends, closes, and returns the disks that power
// cuts on the way would leave.
func cutsOfRecovery(t *testing.T, what string, w lived, plan recoveryPlan) []cut {
	t.Helper()
	disk := w.img.disk()
	known := slices.Clone(w.known)
	var ledgers []*enginetest.Ledger
	var cuts []cut
	fs := vfs.NewFault(disk, func(op vfs.Op) error {
		if op.Index%plan.step != 0 {
			return nil
		}
		now := known
		if ledgers != nil {
			now = witnesses(ledgers)
			for s := range now {
				if plan.fsync.lazy() {
					now[s].acked = known[s].acked // acknowledged before it is on disk
				}
			}
		}
		what := fmt.Sprintf("%s: power cut before operation %d, %s %s", what, op.Index, op.Kind, op.Name)
		cuts = append(cuts, cut{disk.CrashClone(nil), now, what}, cut{disk.CrashClone(plan.loss), now, what + ", some of it kept"})
		return nil
	})
	cfg := onDisk(fs, imageShards)
	cfg.Fsync = plan.fsync
	cfg.OnFatal = func(err error) { t.Errorf("%s: journal stopped: %v", what, err) }
	l, err := Open(cfg) // closed below: a clean-up at the end of the test would keep each disk until then
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	opened := openAll(t, l)
	if err := l.Start(t.Context()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for s, ledger := range opened {
		lines, _ := ledger.Lines()
		if len(lines) < known[s].acked {
			t.Fatalf("%s: shard %d has %d lines, want %d", what, s, len(lines), known[s].acked)
		}
	}
	ledgers = opened
	for i := range 3 {
		write(t, l, ledgers[i%imageShards], i%imageShards, fmt.Sprintf("behind the recovery %d", i))
		barrier(t, l, ledgers[i%imageShards], i%imageShards)
	}
	beside(t, l, ledgers[0])
	if err := l.Close(t.Context()); err != nil {
		t.Fatalf("%s: close: %v", what, err)
	}
	lawful(t, opened)
	return cuts
}

// beside lets shard 0 go on while shard 1 comes to rest. At the end the snapshots of shard 1
// are confirmed and let go of segments, with a frame that isn't on disk yet in a lazy life.
func beside(t *testing.T, l *Local, ledger *enginetest.Ledger) {
	t.Helper()
	snapshot := func(shard int) {
		if err := l.shards[shard].Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		write(t, l, ledger, 0, fmt.Sprintf("alone %0*d", segmentBytesMin, i))
		barrier(t, l, ledger, 0)
		snapshot(0)
		if i < 2 {
			snapshot(1)
		}
	}
	write(t, l, ledger, 0, "small")
	barrier(t, l, ledger, 0)
	snapshot(1)
}

// TestR9FailedRecoveryLosesNothing lets operation i of a recovery fail, for every i, like a
// broken disk and like a full one. It fails when the next start doesn't give everything
// that was acknowledged, from the disk as it is and as a power cut leaves it; or when a
// start goes on although a name in its journal may not be on disk.
func TestR9FailedRecoveryLosesNothing(t *testing.T) {
	for name, w := range wrecks(t) {
		for _, cause := range []error{errDisk, unix.ENOSPC} {
			for i, kind := range operations(t, w) {
				if kind == vfs.OpSyncDir || i%(powerStep/3+1) == 0 {
					failedRecovery(t, fmt.Sprintf("%s: operation %d: %v", name, i, cause), w, failure{i, cause})
				}
			}
		}
	}
}

// operations lists what a start on a wreck does.
func operations(t *testing.T, w lived) []vfs.Kind {
	t.Helper()
	var kinds []vfs.Kind
	startOn(t, vfs.NewFault(w.img.disk(), func(op vfs.Op) error {
		kinds = append(kinds, op.Kind)
		return nil
	}))
	return kinds
}

// failure is an operation that fails.
type failure struct {
	index int
	cause error
}

// failedRecovery starts on a wreck while one operation fails, and then without that.
func failedRecovery(t *testing.T, what string, w lived, f failure) {
	t.Helper()
	disk := w.img.disk()
	var failed vfs.Op
	fs := vfs.NewFault(disk, func(op vfs.Op) error {
		if op.Index == f.index {
			failed = op
			return f.cause
		}
		return nil
	})
	cfg := onDisk(fs, imageShards)
	cfg.OnFatal = func(error) {}
	// The close may say what failed.
	v, err := startWith(t, cfg)
	if v.refused == nil {
		v.holds(t, what, w.known)
	}
	if failed.Kind == vfs.OpSyncDir && failed.Name == filepath.Join(imageDir, journalDir) && v.refused == nil && err == nil {
		t.Errorf("%s: the start went on", what)
	}
	crashed := disk.CrashClone(nil)
	startOn(t, disk).holds(t, what+", then a start", w.known)
	startOn(t, crashed).holds(t, what+", then a power cut", w.known)
}

// TestR9RecoveryTwiceIsTheSame fails when a second recovery gives another state than the
// first, or changes a byte that the first has left: it only adds its own life.
func TestR9RecoveryTwiceIsTheSame(t *testing.T) {
	for name, w := range wrecks(t) {
		first := w.img.start(t)
		first.holds(t, name, w.known)
		second := first.after.start(t)
		second.holds(t, name+", again", w.known)
		for s := range first.lines {
			if !slices.Equal(first.lines[s], second.lines[s]) {
				t.Errorf("%s: shard %d has %d lines, then %d", name, s, len(first.lines[s]), len(second.lines[s]))
			}
		}
		for _, path := range first.after.differs(second.after) {
			before, after := first.after[path], second.after[path]
			switch filepath.Base(filepath.Dir(path)) {
			case journalDir:
				if !bytes.HasPrefix(after, before) {
					t.Errorf("%s: the second recovery has changed %s", name, path)
				}
			default:
				if filepath.Base(path) != ManifestName {
					t.Errorf("%s: the second recovery has changed %s", name, path)
				}
			}
		}
	}
}

// TestR9InspectChangesNoByte fails when looking at a wreck changes it, or shows another
// number of entries than a start gives.
func TestR9InspectChangesNoByte(t *testing.T) {
	for name, w := range wrecks(t) {
		dir := filepath.Join(t.TempDir(), "data")
		w.img.export(t, dir)
		var entries int64
		before := filesOf(t, dir)
		_, err := Inspect(t.Context(), dir, func(f FrameInfo) error {
			for _, it := range f.Items {
				if it.Kind == kindEntry.String() {
					entries++
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := filesOf(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: inspect has changed the directory", name)
		}
		cfg := testConfig(dir, imageShards)
		l := openLocal(t, cfg)
		startAll(t, l)
		if got := l.Recovery().Entries; got > entries {
			t.Errorf("%s: %d entries shown, %d replayed", name, entries, got)
		}
	}
}

// export writes an image to the system's files.
func (img image) export(t *testing.T, dir string) {
	t.Helper()
	for path, data := range img {
		to := filepath.Join(dir, strings.TrimPrefix(path, imageDir))
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// filesOf reads every file below a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
