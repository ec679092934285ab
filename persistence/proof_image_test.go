package persistence

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

const (
	imageDir    = "/data"
	imageShards = 2
)

// image is a whole data directory as bytes: path to content.
type image map[string][]byte

// imageDirs are the directories of a data directory that hold files.
func imageDirs() []string {
	return []string{
		imageDir, filepath.Join(imageDir, journalDir),
		filepath.Join(imageDir, snapshotDir), filepath.Join(imageDir, droppedDir),
	}
}

// takeImage reads all files below the data directory.
func takeImage(t *testing.T, fs vfs.FS) image {
	t.Helper()
	img := make(image)
	for _, dir := range imageDirs() {
		infos, err := fs.ReadDir(dir)
		if err != nil {
			continue // nothing was dropped yet
		}
		for _, info := range infos {
			path := filepath.Join(dir, info.Name)
			data, err := readFile(fs, path, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			img[path] = data
		}
	}
	return img
}

// disk puts an image on a file system, all of it synced.
func (img image) disk() *vfs.Mem {
	fs := vfs.NewMem()
	for _, dir := range imageDirs() {
		if err := fs.MkdirAll(dir); err != nil {
			panic(err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(img)) {
		putFile(fs, path, img[path])
	}
	return fs
}

// with is the image with other bytes in one file; nil bytes take the file away.
func (img image) with(path string, data []byte) image {
	out := maps.Clone(img)
	if data == nil {
		delete(out, path)
	} else {
		out[path] = data
	}
	return out
}

// under lists the paths of the files of one directory, ascending.
func (img image) under(dir string) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(img)) {
		if filepath.Dir(path) == filepath.Join(imageDir, dir) {
			out = append(out, path)
		}
	}
	return out
}

// segments lists the journal's files that hold something, ascending.
func (img image) segments() []string {
	return slices.DeleteFunc(img.under(journalDir), func(path string) bool { return len(img[path]) == 0 })
}

// differs says which paths have other bytes in the two images.
func (img image) differs(other image) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(img)) {
		if data, ok := other[path]; !ok || string(data) != string(img[path]) {
			out = append(out, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(other)) {
		if _, ok := img[path]; !ok {
			out = append(out, path)
		}
	}
	return out
}

// lived is a data directory as a kill left it, and what was acknowledged in it.
type lived struct {
	img   image
	known []witness
	// lastOf is the shard whose line stands alone in the last frame.
	lastOf int
}

// live makes a directory with a journal of several segments, without snapshots, or with
// two for each shard and a journal that was cut behind them. Every line has a frame of
// its own.
func live(t *testing.T, lines int, snapshots bool) lived {
	t.Helper()
	return liveOf(t, lifePlan{lines: lines, snapshots: snapshots, filler: "x"})
}

// lifePlan says what a directory is made of.
type lifePlan struct {
	lines     int
	snapshots bool
	before    int    // lives before, without lines
	filler    string // one letter, of the lines
}

// liveOf is live by a plan.
func liveOf(t *testing.T, plan lifePlan) lived {
	t.Helper()
	disk := vfs.NewMem()
	for range plan.before {
		if v := startOn(t, disk); v.refused != nil {
			t.Fatal(v.refused)
		}
	}
	l := openLocal(t, onDisk(disk, imageShards))
	ledgers := startAll(t, l)
	out := lived{}
	for i := range plan.lines {
		if plan.snapshots && i > 0 && i%(plan.lines/4+1) == 0 {
			for s := range imageShards {
				if err := l.shards[s].Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		shard := i % imageShards
		write(t, l, ledgers[shard], shard, fmt.Sprintf("line %d %s", i, strings.Repeat(plan.filler, i*37%700)))
		barrier(t, l, ledgers[shard], shard)
		out.lastOf = shard
	}
	out.known = witnesses(ledgers)
	out.img = takeImage(t, disk.CrashClone(nil))
	lawful(t, ledgers)
	return out
}

// verdict is what a start says about an image.
type verdict struct {
	refused error // nil: started
	lines   [][]enginetest.Line
	// after is the directory behind the start, or behind the refusal.
	after image
}

// start starts an engine over an image and closes it at once.
func (img image) start(t *testing.T) verdict {
	t.Helper()
	disk := img.disk()
	v := startOn(t, disk)
	v.after = takeImage(t, disk)
	return v
}

// startOn starts an engine on a disk and lets go of it.
func startOn(t *testing.T, disk vfs.FS) verdict {
	t.Helper()
	cfg := onDisk(disk, imageShards)
	cfg.OnFatal = func(err error) { t.Errorf("journal stopped: %v", err) }
	v, err := startWith(t, cfg)
	if err != nil {
		t.Errorf("close: %v", err)
	}
	return v
}

// startWith starts an engine and closes it; err is what the close said.
func startWith(t *testing.T, cfg Config) (v verdict, err error) {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		return verdict{refused: err}, nil //nolint:nilerr // a refusal is an answer
	}
	ledgers := openAll(t, l)
	if v.refused = l.Start(t.Context()); v.refused == nil {
		for _, ledger := range ledgers {
			lines, _ := ledger.Lines()
			v.lines = append(v.lines, lines)
		}
		lawful(t, ledgers)
	}
	return v, l.Close(t.Context())
}

// holds fails the test unless a start gave what was acknowledged, whole and in order,
// and nothing that was never appended.
func (v verdict) holds(t *testing.T, what string, known []witness) {
	t.Helper()
	if v.refused != nil {
		t.Fatalf("%s: refused: %v", what, v.refused)
	}
	for s, w := range known {
		got := v.lines[s]
		if len(got) < w.acked || len(got) > len(w.lines) || !slices.Equal(got, w.lines[:len(got)]) {
			t.Fatalf("%s: shard %d has %d lines, %d acknowledged, %d appended", what, s, len(got), w.acked, len(w.lines))
		}
	}
}

// allowed says what may become of a damaged directory.
type allowed uint8

const (
	allBack     allowed = iota // everything comes back
	orRefused                  // everything comes back, or the start is refused
	mustRefuse                 // the start is refused
	lastMayMiss                // everything comes back, but perhaps the last frame
	orLastMiss                 // lastMayMiss, or refused
)

// judge fails the test unless a start over the image of w ends as it may.
func (w lived) judge(t *testing.T, what string, img image, may allowed) verdict {
	t.Helper()
	v := img.start(t)
	if v.refused != nil {
		if may == allBack || may == lastMayMiss {
			t.Fatalf("%s: refused: %v", what, v.refused)
		}
		if err := explained(v.refused); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
	if may == mustRefuse {
		t.Fatalf("%s: started with %d and %d lines", what, len(v.lines[0]), len(v.lines[1]))
	}
	for s, got := range v.lines {
		want := w.known[s].lines
		miss := 0
		if s == w.lastOf && (may == lastMayMiss || may == orLastMiss) {
			miss = 1
		}
		if len(got) > len(want) || len(got) < len(want)-miss {
			t.Fatalf("%s: shard %d has %d lines, want %d", what, s, len(got), len(want))
		}
		if !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("%s: shard %d has other lines than were acknowledged", what, s)
		}
	}
	return v
}

// explained is nil when a refusal says what is wrong where: file, offset, what was
// expected and what was found; or it is one of the other refusals that have a name.
func explained(err error) error {
	damage, ok := errors.AsType[*DamageError](err)
	switch _, mismatch := errors.AsType[*MismatchError](err); {
	case ok && (damage.File == "" || damage.Expected == "" || damage.Found == "" || damage.Offset < 0):
		return fmt.Errorf("a refusal without its place: %w", err)
	case ok && !strings.Contains(err.Error(), fmt.Sprintf("%s is damaged at offset %d", damage.File, damage.Offset)):
		return fmt.Errorf("the message doesn't say where: %w", err)
	case ok, mismatch, errors.Is(err, ErrNoManifest), errors.Is(err, ErrNewerFormat):
		return nil
	case errors.Is(err, iofs.ErrNotExist) && strings.Contains(err.Error(), snapshotSuffix):
		return nil // a snapshot that the manifest names isn't there; the system says which
	}
	return fmt.Errorf("a refusal of another kind: %w", err)
}
