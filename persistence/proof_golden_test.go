package persistence

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// goldenDirs holds data directories as earlier builds have written them. Every later build
// must read them. They are never written anew: a change of the bytes, if only by a field
// that is added, needs a set of its own beside them.
const goldenDirs = "testdata/golden"

// goldenSets are the sets, the newest last; the number before the dot is the format.
//
//	1    a manifest without anything that may be absent
//	1.1  with all of it: boot id, mark, the snapshots' checksums
var goldenSets = []string{"1", "1.1"}

// goldenLine is one line of the golden directories.
func goldenLine(shard, n int) string {
	text := []string{"first", strings.Repeat("long ", 300), "", "zero \x00 and \xff", "ü 日本", strings.Repeat("x", 1300)}[n%6]
	return fmt.Sprintf("%d/%d %s", shard, n, text)
}

// goldenWant is what a golden directory holds: the lines of each shard, and what a start
// finds on its way to them.
type goldenWant struct {
	lines     [imageShards]int
	boot      uint64 // of the life that reads it
	entries   int64  // replayed
	snapshots int    // used
	dropped   int64  // bytes of a torn tail
	segments  int
	minIndex  uint64
	indexes   [2]uint64 // first and last frame that Inspect shows
}

// goldenWants are those of format 1.
//
//	whole  two lives, closed; two snapshots of shard 0, none of shard 1
//	torn   the same, killed in a write of which 40 bytes came to the disk
//	cut    two snapshots of each shard, and the journal cut behind the older ones
//	lazy   a life with fsync every=1m; of its last frame one byte came to the disk
var goldenWants = map[string]goldenWant{
	"whole": {lines: [2]int{9, 9}, boot: 3, entries: 10, snapshots: 1, segments: 3, minIndex: 1, indexes: [2]uint64{1, 20}},
	"torn":  {lines: [2]int{9, 9}, boot: 3, entries: 10, snapshots: 1, dropped: 40, segments: 3, minIndex: 1, indexes: [2]uint64{1, 20}},
	"cut":   {lines: [2]int{9, 9}, boot: 3, entries: 2, snapshots: 2, segments: 2, minIndex: 16, indexes: [2]uint64{14, 20}},
	"lazy":  {lines: [2]int{3, 2}, boot: 2, entries: 5, dropped: 1, segments: 1, minIndex: 1, indexes: [2]uint64{1, 6}},
}

// TestR9GoldenDirectoriesStayReadable fails when a data directory that an earlier build
// has written isn't read as it was meant, by a start or by Inspect.
func TestR9GoldenDirectoriesStayReadable(t *testing.T) {
	if *update {
		makeGoldenDirs(t)
	}
	seen := 0
	for _, set := range goldenSets {
		for name, want := range goldenWants {
			readGolden(t, filepath.Join(set, name), want)
			seen++
		}
	}
	found, err := filepath.Glob(filepath.Join(goldenDirs, "*", "*"))
	if err != nil || len(found) != seen {
		t.Errorf("%d golden directories, %d of them read, %v", len(found), seen, err)
	}
}

// readGolden reads one golden directory.
func readGolden(t *testing.T, name string, want goldenWant) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goldenDirs, name))); err != nil {
		t.Fatal(err)
	}
	rep, err := Inspect(t.Context(), dir, nil)
	if err != nil {
		t.Errorf("%s: inspect: %v", name, err)
	}
	if rep.Segments != want.segments || [2]uint64{rep.First, rep.Last} != want.indexes || rep.Torn != want.dropped {
		t.Errorf("%s: inspect shows %+v", name, rep)
	}
	man, err := readManifest(vfs.OS{}, dir)
	if err != nil || man.MinIndex != want.minIndex {
		t.Errorf("%s: manifest %+v, %v", name, man, err)
	}
	l := openLocal(t, testConfig(dir, imageShards))
	ledgers := startAll(t, l)
	for s, ledger := range ledgers {
		lines, _ := ledger.Lines()
		if len(lines) != want.lines[s] {
			t.Errorf("%s: shard %d has %d lines, want %d", name, s, len(lines), want.lines[s])
		}
		for n, line := range lines {
			if line != (enginetest.Line{Pos: engine.Pos(n + 1), Wall: int64(1000 + n), Body: goldenLine(s, n)}) {
				t.Errorf("%s: shard %d line %d is %v", name, s, n, line)
			}
		}
	}
	rec := l.Recovery()
	if rec.Boot != want.boot || rec.Entries != want.entries || rec.FromSnapshot != want.snapshots || rec.Dropped != want.dropped {
		t.Errorf("%s: recovery %+v", name, rec)
	}
	lawful(t, ledgers)
}

// makeGoldenDirs writes the newest set, unless it exists.
func makeGoldenDirs(t *testing.T) {
	t.Helper()
	newest := goldenSets[len(goldenSets)-1]
	if format, _, _ := strings.Cut(newest, "."); format != strconv.Itoa(manifestFormat) {
		t.Fatalf("this build writes format %d, the newest set is %s: name another one", manifestFormat, newest)
	}
	base := filepath.Join(goldenDirs, newest)
	if _, err := os.Stat(base); !errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s exists and is never written anew", base)
		return
	}
	for name, img := range map[string]image{
		"whole": goldenLives(t, 1, 0), "torn": goldenLives(t, 1, 40), "cut": goldenLives(t, 2, 0), "lazy": goldenLazy(t),
	} {
		img.with(filepath.Join(imageDir, lockName), nil).export(t, filepath.Join(base, name))
	}
}

// goldenAppend appends the next line of a shard in a frame of its own.
func goldenAppend(t *testing.T, l *Local, ledger *enginetest.Ledger, shard int) {
	t.Helper()
	lines, _ := ledger.Lines()
	if _, err := ledger.Append(int64(1000+len(lines)), goldenLine(shard, len(lines))); err != nil {
		t.Fatal(err)
	}
	barrier(t, l, ledger, shard)
}

// goldenLives are two lives with two snapshots of the first shards. torn bytes of a write
// stand behind the second, which is closed else.
func goldenLives(t *testing.T, snapped, torn int) image {
	t.Helper()
	disk := vfs.NewMem()
	for life := range 2 {
		l := openLocal(t, onDisk(disk, imageShards))
		ledgers := startAll(t, l)
		for n := range 8 + 2*life {
			goldenAppend(t, l, ledgers[n%imageShards], n%imageShards)
			if life == 1 && (n == 4 || n == 7) || life == 0 && n == 5 {
				for s := range snapped {
					if err := l.shards[s].Snapshot(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if life == 1 && torn > 0 {
			img := takeImage(t, disk)
			segments := img.segments()
			last := segments[len(segments)-1]
			return img.with(last, slices.Concat(img[last], img[last][:torn]))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return takeImage(t, disk)
}

// goldenLazy is a lazy life whose last frame was lost but for a byte.
func goldenLazy(t *testing.T) image {
	t.Helper()
	disk := vfs.NewMem()
	cfg := onDisk(disk, imageShards)
	cfg.Fsync = FsyncEvery(FsyncEveryMax)
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	for n := range 5 {
		goldenAppend(t, l, ledgers[n%imageShards], n%imageShards)
	}
	img := takeImage(t, disk)
	path := img.segments()[0]
	goldenAppend(t, l, ledgers[1], 1)
	return img.with(path, append(slices.Clone(img[path]), 0x7f))
}

// goldenImage reads a golden directory.
func goldenImage(t *testing.T, name string) image {
	t.Helper()
	img := make(image)
	base := filepath.Join(goldenDirs, "1", name)
	for path, data := range filesOf(t, base) {
		img[imageDir+strings.TrimPrefix(path, base)] = []byte(data)
	}
	return img
}

// TestNewerFormatsStopAStart fails when a frame, item, snapshot or manifest that is whole
// but of a later version is read, cut, passed over or called damaged; when the message
// doesn't name its file; or when the refused start changes the directory.
func TestNewerFormatsStopAStart(t *testing.T) {
	img := goldenImage(t, "cut")
	segments, snapshots := img.segments(), img.under(snapshotDir)
	last := segments[len(segments)-1]
	newest := snapshots[0]
	for _, path := range snapshots {
		if strings.Contains(path, "shard-00001") && path > newest {
			newest = path
		}
	}
	manifest := filepath.Join(imageDir, ManifestName)
	frame := func(change func(frame []byte)) []byte {
		data := slices.Clone(img[last])
		starts := frameStarts(t, data)
		at := starts[len(starts)-2]
		n, k := binary.Uvarint(data[at:])
		f := data[at+k : at+k+int(n)]
		change(f)
		binary.LittleEndian.PutUint32(f[offSum:], frameSum(f[:offSum], f[frameHeadBytes:]))
		return data
	}
	item := frameHeadBytes + itemLengthBytes // of the first item: array head, kind, version
	for _, c := range []struct {
		what, path string
		data       []byte
	}{
		{"frame version", last, frame(func(f []byte) { f[offVersion]++ })},
		{"frame flag", last, frame(func(f []byte) { f[offFlags] |= 0x40 })},
		{"item version", last, frame(func(f []byte) { f[item+2]++ })},
		{"item kind", last, frame(func(f []byte) { f[item+1] = 9 })},
		{"snapshot version", newest, newerSnapshot(img[newest])},
		{"manifest format", manifest, newerManifest(t, img[manifest])},
	} {
		bad := img.with(c.path, c.data)
		v := bad.start(t)
		if !errors.Is(v.refused, ErrNewerFormat) {
			t.Errorf("%s: %v, want ErrNewerFormat", c.what, v.refused)
			continue
		}
		if !strings.Contains(v.refused.Error(), c.path) {
			t.Errorf("%s: the message doesn't name %s: %v", c.what, c.path, v.refused)
		}
		for _, path := range bad.differs(v.after) {
			if filepath.Base(path) != lockName {
				t.Errorf("%s: the refused start has changed %s", c.what, path)
			}
		}
	}
}

func newerSnapshot(data []byte) []byte {
	out := slices.Clone(data)
	binary.LittleEndian.PutUint16(out[4:], snapshotVersion+1)
	binary.LittleEndian.PutUint32(out[snapshotHeadBytes-4:], crc32.Checksum(out[:snapshotHeadBytes-4], castagnoli))
	return out
}

func newerManifest(t *testing.T, data []byte) []byte {
	t.Helper()
	m, err := decodeManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	m.Format++
	out, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestManifestSkipsFieldsOfLaterBuilds fails when a manifest of this format with a field
// that this build doesn't know isn't read.
func TestManifestSkipsFieldsOfLaterBuilds(t *testing.T) {
	path := filepath.Join(imageDir, ManifestName)
	img := goldenImage(t, "cut")
	var outer manifestFile
	if err := json.Unmarshal(img[path], &outer); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(outer.Manifest, &fields); err != nil {
		t.Fatal(err)
	}
	fields["of_a_later_build"] = []any{"x", map[string]any{"y": 1}}
	inner, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(manifestFile{Sum: fmt.Sprintf("%08x", crc32.Checksum(inner, castagnoli)), Manifest: inner})
	if err != nil {
		t.Fatal(err)
	}
	v := img.with(path, data).start(t)
	if v.refused != nil || len(v.lines[0]) != goldenWants["cut"].lines[0] {
		t.Errorf("refused: %v, %d lines", v.refused, len(v.lines))
	}
}
