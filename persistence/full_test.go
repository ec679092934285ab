package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// fullFor is a disk that has no room for files that ours says: they can't be made, or
// not be written, as kind says.
func fullFor(disk vfs.FS, kind vfs.Kind, ours func(name string) bool) *vfs.Fault {
	return vfs.NewFault(disk, func(op vfs.Op) error {
		if op.Kind == kind && ours(op.Name) {
			return unix.ENOSPC
		}
		return nil
	})
}

func copies(name string) bool {
	return strings.HasSuffix(name, tempSuffix) && filepath.Base(name) != ManifestName+tempSuffix
}

// tornDir makes a data directory whose last segment holds 20 lines and a torn tail.
func tornDir(t *testing.T) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	cfg := onDisk(disk, 1)
	cfg.SegmentBytes = 64 << 10
	l := openLocal(t, cfg)
	ledger := startAll(t, l)[0]
	for i := range 20 {
		write(t, l, ledger, 0, fmt.Sprintf("%0500d", i))
		barrier(t, l, ledger, 0)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(cfg.Dir, journalDir, segmentName(1))
	change(t, disk, name, func(d []byte) []byte { return append(d, slices.Repeat([]byte{0x33}, 700)...) })
	return disk
}

// TestFullDiskDoesNotKeepANodeFromStarting fails when a torn tail can't be repaired on
// a disk without room for a copy of the last segment or of the tail, when that leaves
// half a copy behind, or costs a line.
func TestFullDiskDoesNotKeepANodeFromStarting(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync} {
		disk := tornDir(t)
		l := openLocal(t, onDisk(fullFor(disk, kind, copies), 1))
		ledger := startAll(t, l)[0]
		if lines, _ := ledger.Lines(); len(lines) != 20 || l.Recovery().Dropped != 700 {
			t.Errorf("%s: %d lines, %+v", kind, len(lines), l.Recovery())
		}
		for _, dir := range []string{journalDir, droppedDir} {
			for _, name := range names(t, disk, filepath.Join("/data", dir)) {
				if strings.HasSuffix(name, tempSuffix) {
					t.Errorf("%s: %s/%s was left behind", kind, dir, name)
				}
			}
		}
		write(t, l, ledger, 0, "behind")
		barrier(t, l, ledger, 0)
		again := openLocal(t, onDisk(disk.CrashClone(nil), 1))
		if lines, _ := startAll(t, again)[0].Lines(); len(lines) != 21 {
			t.Errorf("%s: %d lines after a power cut, want 21", kind, len(lines))
		}
	}
}

// TestCopyOfTheTailLeavesRoom fails when the copy of a torn tail takes the last space
// of a disk, which the start needs.
func TestCopyOfTheTailLeavesRoom(t *testing.T) {
	for free, want := range map[uint64]int{700 + droppedRoom - 1: 0, 700 + droppedRoom: 1} {
		disk := tornDir(t)
		disk.SetFree(free)
		startAll(t, openLocal(t, onDisk(disk, 1)))
		infos, err := disk.ReadDir(filepath.Join("/data", droppedDir))
		if len(infos) != want {
			t.Errorf("%d bytes free: %d copies, want %d, %v", free, len(infos), want, err)
		}
	}
}

// TestRenewalInPlaceDoesNotTrustThePageCache fails when, on a full disk, a frame that
// only the page cache has is acknowledged by a new life and lost by a power cut.
func TestRenewalInPlaceDoesNotTrustThePageCache(t *testing.T) {
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 1))
	ledger := startAll(t, l)[0]
	write(t, l, ledger, 0, "before")
	barrier(t, l, ledger, 0)
	// The next frame is written, its fsync fails, and the process is killed.
	name := filepath.Join("/data", journalDir, segmentName(1))
	f, err := disk.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	next := cachedFrame(t, l)
	if _, err := f.Write(next); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(disk.LoseWrites(name), f.Close()); err != nil {
		t.Fatal(err)
	}
	shown, err := readFile(disk, name, 1<<20)
	if err != nil || !bytes.HasSuffix(shown, next) {
		t.Fatalf("the page cache doesn't show the frame: %v", err)
	}
	cfg := onDisk(fullFor(disk, vfs.OpCreate, copies), 1)
	cfg.FS = unlocked{cfg.FS}
	l = openLocal(t, cfg)
	ledger = startAll(t, l)[0]
	if lines, _ := ledger.Lines(); len(lines) != 2 {
		t.Fatalf("%d lines from the page cache, want 2", len(lines))
	}
	write(t, l, ledger, 0, "behind")
	barrier(t, l, ledger, 0)
	again := openLocal(t, onDisk(disk.CrashClone(nil), 1))
	if lines, _ := startAll(t, again)[0].Lines(); len(lines) != 3 || lines[1].Body != "cached" {
		t.Errorf("after a power cut: %v", lines)
	}
}

// unlocked is a file system whose locks were lost with the process that took them.
type unlocked struct{ vfs.FS }

func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// cachedFrame is the frame that an engine of one shard would write next.
func cachedFrame(t *testing.T, l *Local) []byte {
	t.Helper()
	data := encodeFrame(t, frame{epoch: 1, index: l.journal.durable.Load() + 1, first: l.journal.next, flags: flagSynced},
		[]item{{kind: kindEntry, epoch: 1, seq: 2, wall: 6, body: []byte("cached")}})
	return append(binary.AppendUvarint(nil, uint64(len(data))), data...)
}

// TestR9PowerCutDuringARenewalInPlace cuts the power in front of every operation of a
// start on a full disk. It fails when a line that was acknowledged before is missing
// afterwards, or when the next start is refused.
func TestR9PowerCutDuringARenewalInPlace(t *testing.T) {
	base := tornDir(t)
	for number := range uint64(crashRuns) {
		rng := rand.New(rand.NewPCG(number, 6))
		disk := base.CrashClone(nil)
		var cuts []*vfs.Mem
		full := fullFor(disk, vfs.OpCreate, copies)
		cfg := onDisk(vfs.NewFault(full, func(vfs.Op) error {
			cuts = append(cuts, disk.CrashClone(rng))
			return nil
		}), 1)
		l := openLocal(t, cfg)
		startAll(t, l)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, cut := range cuts {
			ledgers := startAll(t, openLocal(t, onDisk(cut, 1)))
			if lines, _ := ledgers[0].Lines(); len(lines) != 20 {
				t.Fatalf("run %d, cut before operation %d: %d lines, want 20", number, i, len(lines))
			}
		}
	}
}

// smallDisk mounts a disk of a few pages, or skips the test.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a small disk can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk has no room left.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; size /= 2 {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !isFull(err) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStartOnAFullDisk starts on a real disk that another file has filled to the last
// byte. It fails when a torn tail that is large enough to make room for the new life
// keeps the node from starting, when a small one loses a line or hides why it can't
// start, or when the node doesn't start once there is room.
func TestStartOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		torn  int
		works bool
	}{{40_000, true}, {3, false}} {
		root := smallDisk(t, 1<<20)
		cfg := testConfig(filepath.Join(root, "data"), 1)
		cfg.SegmentBytes = 256 << 10
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		for i := range 100 {
			write(t, l, ledger, 0, fmt.Sprintf("%01000d", i))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		name, ballast := filepath.Join(cfg.Dir, journalDir, segmentName(1)), filepath.Join(root, "ballast")
		change(t, vfs.OS{}, name, func(d []byte) []byte { return append(d, make([]byte, c.torn)...) })
		fill(t, ballast)
		l = openLocal(t, cfg)
		ledgers := openAll(t, l)
		err := l.Start(t.Context())
		if (err == nil) != c.works || err != nil && !isFull(err) {
			t.Errorf("torn tail of %d bytes on a full disk: %v", c.torn, err)
		}
		if err == nil {
			if lines, _ := ledgers[0].Lines(); len(lines) != 100 {
				t.Errorf("torn tail of %d bytes: %d lines", c.torn, len(lines))
			}
		}
		if err := errors.Join(l.Close(t.Context()), os.Remove(ballast)); err != nil {
			t.Fatal(err)
		}
		l = openLocal(t, cfg)
		if lines, _ := startAll(t, l)[0].Lines(); len(lines) != 100 {
			t.Errorf("torn tail of %d bytes, room again: %d lines", c.torn, len(lines))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
