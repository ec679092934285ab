package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// stream is a snapshot of bytes.
type stream struct {
	data  []byte
	piece int // bytes of one Write
}

func (s stream) Boundary() (engine.Epoch, engine.Seq) { return 6, 5 }

func (s stream) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for rest := s.data; len(rest) > 0; {
		n, err := w.Write(rest[:min(s.piece, len(rest))])
		total += int64(n)
		if err != nil {
			return total, err
		}
		rest = rest[n:]
	}
	return total, nil
}

func (s stream) Release() {}

func sampleRef() snapshotRef {
	return snapshotRef{Shard: 3, Epoch: 6, Seq: 5, Pos: 400, Wall: 9, Index: 700}
}

// snapshotBytes writes a snapshot file and returns its bytes, and how often the
// writer has let commits go first.
func snapshotBytes(t *testing.T, data []byte, piece int) (file []byte, yields int) {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/s"); err != nil {
		t.Fatal(err)
	}
	put := &capture{state: stream{data, piece}, yield: func() error { yields++; return nil }}
	temp, done, err := writeSnapshotFile(fs, "/s", sampleRef(), put)
	if err != nil {
		t.Fatal(err)
	}
	file, err = readFile(fs, temp, 1<<30)
	if err != nil || int64(len(file)) != done.Bytes || sumText(crc32.Checksum(file, castagnoli)) != done.Sum {
		t.Fatalf("%d bytes, the writer says %+v: %v", len(file), done, err)
	}
	return file, yields
}

func readState(file []byte) ([]byte, error) {
	r, err := newSnapshotReader("file", bytes.NewReader(file), sampleRef())
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func noise(n int) []byte {
	out := make([]byte, n)
	if _, err := rand.NewChaCha8([32]byte{byte(n)}).Read(out); err != nil {
		panic(err)
	}
	return out
}

// TestSnapshotFileRoundTrip fails when a state doesn't come back as it was, for
// sizes around those of chunks; or when the writer doesn't sync and yield every
// few MiB.
func TestSnapshotFileRoundTrip(t *testing.T) {
	small, _ := snapshotBytes(t, []byte("state"), 5)
	golden(t, "snapshot_v1.txt", small)
	for _, n := range []int{0, 1, snapshotChunkBytes - 1, snapshotChunkBytes, snapshotChunkBytes + 1, 2*snapshotSyncBytes + 7} {
		for _, piece := range []int{9973, 1 << 20} {
			data := noise(n)
			file, yields := snapshotBytes(t, data, piece)
			got, err := readState(file)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes in pieces of %d: %d came back: %v", n, piece, len(got), err)
			}
			if want := n/snapshotSyncBytes + 1; yields != want {
				t.Errorf("%d bytes: %d yields, want %d", n, yields, want)
			}
		}
	}
}

// TestR9SnapshotReaderFindsEveryFlippedBit fails when a wrong bit, a missing or a
// further byte of a snapshot is handed out or not noticed.
func TestR9SnapshotReaderFindsEveryFlippedBit(t *testing.T) {
	state := noise(100)
	file, _ := snapshotBytes(t, state, 100)
	check := func(what string, bad []byte) {
		got, err := readState(bad)
		if !isDamage(err) && !errors.Is(err, ErrNewerFormat) {
			t.Errorf("%s: %v", what, err)
		}
		if !bytes.HasPrefix(state, got) {
			t.Errorf("%s: wrong bytes were handed out", what)
		}
	}
	flip(file, 0, len(file), func(bit int, bad []byte) { check(fmt.Sprintf("bit %d", bit), bad) })
	for n := range file {
		check(fmt.Sprintf("cut at byte %d", n), file[:n])
	}
	check("one byte more", append(slices.Clone(file), 0))
}

// TestR9SnapshotChunksKeepTheirPlace fails when chunks that are whole in themselves
// are taken in another order, twice, or from another snapshot.
func TestR9SnapshotChunksKeepTheirPlace(t *testing.T) {
	const chunk = chunkHeadBytes + snapshotChunkBytes
	file, _ := snapshotBytes(t, noise(3*snapshotChunkBytes), 1<<20)
	at := func(i int) []byte { return file[snapshotHeadBytes+i*chunk : snapshotHeadBytes+(i+1)*chunk] }
	head, foot := file[:snapshotHeadBytes], file[snapshotHeadBytes+3*chunk:]
	for what, bad := range map[string][]byte{
		"swapped": slices.Concat(head, at(1), at(0), at(2), foot),
		"twice":   slices.Concat(head, at(0), at(0), at(2), foot),
		"missing": slices.Concat(head, at(0), at(1), foot),
	} {
		if _, err := readState(bad); !isDamage(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := sampleRef()
	other.Index++
	if _, err := newSnapshotReader("file", bytes.NewReader(file), other); !isDamage(err) {
		t.Errorf("file of another boundary: %v", err)
	}
	// Another node's snapshot at the same boundary is whole in itself.
	for sum, want := range map[string]bool{"": false, sumText(crc32.Checksum(file, castagnoli)): false, "00000001": true} {
		ref := sampleRef()
		ref.Sum = sum
		r, err := newSnapshotReader("file", bytes.NewReader(file), ref)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); isDamage(err) != want || (err != nil) != want {
			t.Errorf("the manifest says %q: %v behind %d bytes", sum, err, n)
		}
	}
}

// snapped makes a data directory on a disk whose shard 0 has snapshots behind 3 and
// 6 of 8 lines, and shard 1 none or two as well.
func snapped(t *testing.T, both bool) (*vfs.Mem, []snapshotRef) {
	t.Helper()
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 2))
	ledgers := startAll(t, l)
	for i := range 8 {
		write(t, l, ledgers[0], 0, fmt.Sprintf("%02000d", i))
		barrier(t, l, ledgers[0], 0)
		if i != 2 && i != 5 {
			continue
		}
		for s := range 2 {
			if s == 1 && !both {
				continue
			}
			if err := l.shards[s].Snapshot(t.Context()); err != nil {
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

// spoil flips a bit in the middle of a snapshot.
func spoil(t *testing.T, fs vfs.FS, ref snapshotRef) {
	t.Helper()
	path := filepath.Join("/data", snapshotDir, ref.fileName())
	data, err := readFile(fs, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	putFile(fs, path, data)
}

// TestR9DamagedSnapshotFallsBack fails when a damaged newest snapshot is used,
// stops the start although the one before it is whole, or loses entries; and when
// a start without any whole snapshot goes on although the journal was cut.
func TestR9DamagedSnapshotFallsBack(t *testing.T) {
	for _, c := range []struct {
		both     bool // both shards have snapshots: the journal is cut
		damaged  int  // of the two snapshots of shard 0, the newest first
		entries  int64
		restores int
		refused  bool
	}{
		{both: true, damaged: 0, entries: 2, restores: 1},
		{both: true, damaged: 1, entries: 5, restores: 1},
		{both: true, damaged: 2, refused: true},
		{both: false, damaged: 2, entries: 8, restores: 0},
	} {
		what := fmt.Sprintf("%+v", c)
		disk, refs := snapped(t, c.both)
		if len(refs) != snapshotsKept {
			t.Fatalf("%s: %d snapshots", what, len(refs))
		}
		for _, ref := range refs[:c.damaged] {
			spoil(t, disk, ref)
		}
		l := openLocal(t, onDisk(disk, 2))
		ledgers := openAll(t, l)
		err := l.Start(t.Context())
		if c.refused {
			if !isDamage(err) {
				t.Errorf("%s: %v, want a DamageError", what, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		lines, _ := ledgers[0].Lines()
		if len(lines) != 8 || ledgers[0].Restores() != c.restores || l.Recovery().Entries != c.entries {
			t.Errorf("%s: %d lines, %d restores, %d entries replayed",
				what, len(lines), ledgers[0].Restores(), l.Recovery().Entries)
		}
		lawful(t, ledgers)
	}
}

// TestR9SnapshotsCutTheJournal fails when segments that no snapshot needs stay,
// when more than two snapshots of a shard stay, or are written of one at rest, or when
// a segment goes that the older snapshot of some shard needs.
func TestR9SnapshotsCutTheJournal(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, 2)
	var taken [2]int
	cfg.Metrics.Snapshot = func(s SnapshotStat) { taken[s.Shard]++ }
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	journal, snapshots := filepath.Join(cfg.Dir, journalDir), filepath.Join(cfg.Dir, snapshotDir)
	for round := range 6 {
		for i := range 6 {
			write(t, l, ledgers[0], 0, fmt.Sprintf("%d/%01500d", round, i))
			barrier(t, l, ledgers[0], 0)
		}
		for s := range 2 { // shard 1 is at rest, and must not hold the journal up
			if err := l.shards[s].Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := names(t, disk, snapshots); len(got) != 2*snapshotsKept {
		t.Errorf("snapshots: %v", got)
	}
	if taken != [2]int{6, snapshotsKept} {
		t.Errorf("%v snapshots were written, want 6 and, of the shard at rest, %d", taken, snapshotsKept)
	}
	man := l.man.Load()
	list, err := listJournal(disk, journal)
	if err != nil {
		t.Fatal(err)
	}
	if man.MinIndex <= 1 || list.segments[0].first > man.MinIndex || list.segments[1].first <= man.MinIndex {
		t.Errorf("lowest needed frame %d, segments begin with %d and %d",
			man.MinIndex, list.segments[0].first, list.segments[1].first)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := openLocal(t, cfg)
	after := startAll(t, again)
	if lines, _ := after[0].Lines(); len(lines) != 36 || again.Recovery().FromSnapshot != 2 {
		t.Errorf("%d lines, %+v", len(lines), again.Recovery())
	}
	lawful(t, after)
}
