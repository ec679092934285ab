package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// largeLine makes a snapshot of a few lines longer than one chunk.
var largeLine = strings.Repeat("x", snapshotChunkBytes*2/5)

// twoSnapshots makes a data directory of one shard with a snapshot behind 3 lines,
// one behind 4, and a fifth line in the journal only. The references are the newest
// first.
func twoSnapshots(t *testing.T) (*vfs.Mem, []snapshotRef) {
	t.Helper()
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 1))
	ledger := startAll(t, l)[0]
	for i := range 5 {
		write(t, l, ledger, 0, fmt.Sprint(i)+largeLine)
		barrier(t, l, ledger, 0)
		if i == 2 || i == 3 {
			if err := l.shards[0].Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	refs := l.man.Load().of(0)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return disk, refs
}

func snapshotPath(ref snapshotRef) string { return filepath.Join("/data", snapshotDir, ref.fileName()) }

// change rewrites a file.
func change(t *testing.T, fs vfs.FS, path string, how func([]byte) []byte) {
	t.Helper()
	data, err := readFile(fs, path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	putFile(fs, path, how(data))
}

// damages are ways of spoiling a snapshot, by the place that notices.
var damages = map[string]func([]byte) []byte{
	"head":             func(d []byte) []byte { d[9] ^= 1; return d },
	"first chunk":      func(d []byte) []byte { d[100] ^= 1; return d },
	"last chunk":       func(d []byte) []byte { d[len(d)-40] ^= 1; return d },
	"foot":             func(d []byte) []byte { d[len(d)-1] ^= 1; return d },
	"one byte more":    func(d []byte) []byte { return append(d, 0) },
	"cut in the foot":  func(d []byte) []byte { return d[:len(d)-3] },
	"cut in a chunk":   func(d []byte) []byte { return d[:len(d)/2] },
	"nothing is there": func([]byte) []byte { return nil },
}

// TestR9RestoreGoesBackOverEveryDamage spoils the newest snapshot in its head, its
// chunks and behind them. It fails when the start doesn't go back to the one before, or
// a line is missing or wrong, or when the machine has taken any of the damaged one.
func TestR9RestoreGoesBackOverEveryDamage(t *testing.T) {
	for what, spoil := range damages {
		disk, refs := twoSnapshots(t)
		change(t, disk, snapshotPath(refs[0]), spoil)
		l := openLocal(t, onDisk(disk, 1))
		ledgers := startAll(t, l)
		lines, _ := ledgers[0].Lines()
		if len(lines) != 5 || l.Recovery().Entries != 2 || ledgers[0].Restores() != 1 {
			t.Errorf("%s: %d lines, %d entries replayed, %d restores", what, len(lines), l.Recovery().Entries, ledgers[0].Restores())
		}
		for i, line := range lines {
			if line.Body != fmt.Sprint(i)+largeLine {
				t.Errorf("%s: line %d is wrong", what, i)
			}
		}
		lawful(t, ledgers)
	}
}

// TestR9MissingSnapshotGoesBack fails when a newest snapshot that is gone, or can't be
// read, stops a start that has the one before; or when the loss of both isn't told as
// damage of a file.
func TestR9MissingSnapshotGoesBack(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpRemove, vfs.OpOpen, vfs.OpRead} {
		disk, refs := twoSnapshots(t)
		if kind == vfs.OpRemove {
			if err := disk.Remove(snapshotPath(refs[0])); err != nil {
				t.Fatal(err)
			}
		}
		l := openLocal(t, onDisk(vfs.NewFault(disk, func(op vfs.Op) error {
			if op.Kind == kind && op.Name == snapshotPath(refs[0]) {
				return errDisk
			}
			return nil
		}), 1))
		lines, _ := startAll(t, l)[0].Lines()
		if len(lines) != 5 || l.Recovery().Entries != 2 {
			t.Errorf("%s: %d lines, %d replayed", kind, len(lines), l.Recovery().Entries)
		}
	}
	disk, refs := twoSnapshots(t)
	for _, ref := range refs {
		if err := disk.Remove(snapshotPath(ref)); err != nil {
			t.Fatal(err)
		}
	}
	l := openLocal(t, onDisk(disk, 1))
	openAll(t, l)
	err := l.Start(t.Context())
	if damage, ok := errors.AsType[*DamageError](err); !ok || damage.File != snapshotPath(refs[1]) {
		t.Errorf("both are gone: %v", err)
	}
}

// picky is a machine with a Restore of its own.
type picky struct {
	*enginetest.Ledger
	restore func(r io.Reader, at engine.Pos) error
}

func (p *picky) Restore(r io.Reader, at engine.Pos) error { return p.restore(r, at) }

// startPicky starts an engine of one shard over a disk.
func startPicky(t *testing.T, disk vfs.FS, restore func(io.Reader, engine.Pos) error) error {
	t.Helper()
	l := openLocal(t, onDisk(disk, 1))
	m := &picky{Ledger: enginetest.NewLedger(), restore: restore}
	log, err := l.Open(0, m)
	if err != nil {
		t.Fatal(err)
	}
	m.Use(log)
	return errors.Join(l.Start(t.Context()), l.Close(t.Context()))
}

// TestR9WholeSnapshotThatCanNotBeDecodedIsRefused fails when a machine's error about a
// whole file is passed over: going back would hide a wrong build.
func TestR9WholeSnapshotThatCanNotBeDecodedIsRefused(t *testing.T) {
	disk, refs := twoSnapshots(t)
	for _, read := range []int64{0, 1, 1 << 30} {
		tries := 0
		err := startPicky(t, disk, func(r io.Reader, _ engine.Pos) error {
			tries++
			if _, err := io.Copy(io.Discard, io.LimitReader(r, read)); err != nil {
				return err
			}
			return errDisk
		})
		if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), refs[0].fileName()) || tries != 1 {
			t.Errorf("behind %d bytes: %v, %d tries", read, err, tries)
		}
	}
}

// TestR9MachineCanNotHideDamage fails when damage behind what a machine has read is
// overlooked because the machine is content, or when a machine that has taken a damaged
// snapshot, and can't be given another, is started.
func TestR9MachineCanNotHideDamage(t *testing.T) {
	content := func(at *[]engine.Pos) func(io.Reader, engine.Pos) error {
		return func(r io.Reader, pos engine.Pos) error {
			*at = append(*at, pos)
			_, err := io.ReadFull(r, make([]byte, 10))
			return err
		}
	}
	for _, place := range []string{"last chunk", "foot", "one byte more"} {
		disk, refs := twoSnapshots(t)
		change(t, disk, snapshotPath(refs[0]), damages[place])
		both := disk.CrashClone(nil)
		change(t, both, snapshotPath(refs[1]), damages[place])
		var at []engine.Pos
		if err := startPicky(t, disk, content(&at)); err != nil || fmt.Sprint(at) != "[4 3]" {
			t.Errorf("%s: %v, restored at %v", place, err, at)
		}
		at = nil
		if err := startPicky(t, both, content(&at)); !isDamage(err) || fmt.Sprint(at) != "[4 3]" {
			t.Errorf("%s of both: %v, restored at %v", place, err, at)
		}
	}
	// The one and only snapshot: the journal has everything, but the machine is spoiled.
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 1))
	ledger := startAll(t, l)[0]
	write(t, l, ledger, 0, largeLine, largeLine, largeLine)
	barrier(t, l, ledger, 0)
	if err := l.shards[0].Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := l.newest(0)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	change(t, disk, snapshotPath(ref), damages["foot"])
	var at []engine.Pos
	if err := startPicky(t, disk, content(&at)); !isDamage(err) || len(at) != 1 {
		t.Errorf("content with a damaged snapshot: %v, restored at %v", err, at)
	}
	if lines, _ := startAll(t, openLocal(t, onDisk(disk, 1)))[0].Lines(); len(lines) != 3 {
		t.Errorf("a machine that reads to the end: %d lines from the journal, want 3", len(lines))
	}
}

// TestR9NewerSnapshotIsRefused fails when a whole snapshot of a newer format is passed
// over.
func TestR9NewerSnapshotIsRefused(t *testing.T) {
	disk, refs := twoSnapshots(t)
	change(t, disk, snapshotPath(refs[0]), func(d []byte) []byte {
		binary.LittleEndian.PutUint16(d[4:], snapshotVersion+1)
		sum := crc32.Checksum(d[:snapshotHeadBytes-4], castagnoli)
		binary.LittleEndian.PutUint32(d[snapshotHeadBytes-4:], sum)
		return d
	})
	l := openLocal(t, onDisk(disk, 1))
	openAll(t, l)
	err := l.Start(t.Context())
	if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), refs[0].fileName()) {
		t.Errorf("start: %v", err)
	}
}

// TestSnapshotsAreReadOnce fails when a start reads a snapshot more than once, or one
// that it doesn't use, or the journal before the snapshots are restored.
func TestSnapshotsAreReadOnce(t *testing.T) {
	disk, refs := twoSnapshots(t)
	opened := make(map[string]int)
	journal := false
	l := openLocal(t, onDisk(vfs.NewFault(disk, func(op vfs.Op) error {
		snap := strings.HasSuffix(op.Name, snapshotSuffix)
		if op.Kind == vfs.OpOpen && snap {
			opened[op.Name]++
		}
		journal = journal || op.Kind == vfs.OpRead && filepath.Base(filepath.Dir(op.Name)) == journalDir
		if snap && journal {
			t.Errorf("%s %s behind the first read of the journal", op.Kind, op.Name)
		}
		return nil
	}), 1))
	startAll(t, l)
	if len(opened) != 1 || opened[snapshotPath(refs[0])] != 1 {
		t.Errorf("snapshots opened: %v", opened)
	}
}

// TestProgressOfALongRestore fails when a restore of many seconds says nothing, or
// leaves out what it read of a damaged snapshot.
func TestProgressOfALongRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, refs := twoSnapshots(t)
		change(t, disk, snapshotPath(refs[0]), damages["foot"])
		cfg := onDisk(disk, 1)
		var mu sync.Mutex
		var told []Progress
		cfg.Progress = func(p Progress) { mu.Lock(); told = append(told, p); mu.Unlock() }
		l := openLocal(t, cfg)
		ledger := enginetest.NewLedger()
		slow := func(r io.Reader, at engine.Pos) error { return ledger.Restore(slowReader{r}, at) }
		log, err := l.Open(0, &picky{Ledger: ledger, restore: slow})
		if err != nil {
			t.Fatal(err)
		}
		ledger.Use(log)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(told) < 3 {
			t.Fatalf("told: %+v", told)
		}
		first, last := told[0], told[len(told)-1]
		if first.Restored == 0 || first.OfRestored != refs[0].Bytes || first.OfSegments != 0 {
			t.Errorf("first: %+v", first)
		}
		if last.OfRestored != refs[0].Bytes+refs[1].Bytes || last.Restored <= refs[1].Bytes || last.Restored > last.OfRestored {
			t.Errorf("last: %+v", last)
		}
	})
}

// slowReader takes virtual time for each read.
type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	after(500 * time.Millisecond)
	return s.r.Read(p)
}
