package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// names lists a directory.
func names(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	infos, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range infos {
		out = append(out, i.Name)
	}
	return out
}

// TestTornTailIsCutCountedAndKept fails when a torn tail isn't cut, counted and
// copied, or when more than the newest few copies stay.
func TestTornTailIsCutCountedAndKept(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 1)
	var dropped []string
	for life := range droppedKeep + 3 {
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		lines, _ := ledger.Lines()
		if len(lines) != life*2 {
			t.Fatalf("life %d: %d lines", life, len(lines))
		}
		want := int64(0)
		if life > 0 {
			want = int64(20 + life)
		}
		if got := l.Recovery(); got.Dropped != want || got.Boot != uint64(life+1) || got.Entries != int64(2*life) {
			t.Fatalf("life %d: %+v, want %d bytes dropped", life, got, want)
		}
		for i := range 2 {
			write(t, l, ledger, 0, fmt.Sprintf("life %d line %d", life, i))
			barrier(t, l, ledger, 0)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		segments, err := filepath.Glob(filepath.Join(cfg.Dir, journalDir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		last := slices.Max(segments)
		tail := slices.Repeat([]byte{0x33}, 21+life)
		data, err := os.ReadFile(last)
		if err != nil {
			t.Fatal(err)
		}
		dropped = append(dropped, fmt.Sprintf("%s-%010d%s", filepath.Base(last), len(data), droppedSuffix))
		if err := os.WriteFile(last, append(data, tail...), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	dropped = dropped[:len(dropped)-1] // the last tail was not looked at
	got := names(t, vfs.OS{}, filepath.Join(cfg.Dir, droppedDir))
	if want := dropped[len(dropped)-droppedKeep:]; !slices.Equal(got, want) {
		t.Errorf("copies kept: %v, want the newest %v", got, want)
	}
	data, err := os.ReadFile(filepath.Join(cfg.Dir, droppedDir, got[len(got)-1]))
	if err != nil || string(data) != string(slices.Repeat([]byte{0x33}, 20+droppedKeep+2)) {
		t.Errorf("newest copy has %d bytes, %v", len(data), err)
	}
}

// TestRepairCanBeInterruptedAnywhere fails when a start that breaks off at any
// operation leaves a journal from which the next start reads something else.
func TestRepairCanBeInterruptedAnywhere(t *testing.T) {
	s := newSample(0)
	whole := len(s.bodies) - sampleItems
	torn := s.segments[lastSegment][:len(s.segments[lastSegment])-3]
	for i := 0; ; i++ {
		disk := s.disk(lastSegment, torn)
		hit := false
		fs := vfs.NewFault(disk, func(op vfs.Op) error {
			if op.Index == i {
				hit = true
				return errDisk
			}
			return nil
		})
		fd, _, err := scanDisk(fs)
		var uncopied error // a copy that can't be kept stops nothing
		if err == nil {
			uncopied, err = repair(fs, "/", sampleDir, fd)
		}
		if hit != (errors.Join(uncopied, err) != nil) {
			t.Fatalf("operation %d: failed %v, errors %v, %v", i, hit, uncopied, err)
		}
		for _, clone := range []*vfs.Mem{disk, disk.CrashClone(nil)} {
			s.prefix(t, fmt.Sprintf("operation %d failed", i), clone, whole)
		}
		if !hit {
			break
		}
	}
}

// TestUnfinishedTruncations fails when a journal in which the library has truncated
// without coming to an end is read, or changed, or when its unfinished files stay.
func TestUnfinishedTruncations(t *testing.T) {
	s := newSample(0)
	second := segmentName(1 + sampleFrames)
	inside := segmentName(3 + sampleFrames) // third frame of the second segment
	rest := s.segments[1][s.starts[1][2]:]
	for _, c := range []struct {
		what, file string
		data       []byte
		refused    bool
	}{
		{"TEMP of a START", inside + startSuffix + tempSuffix, rest[:9], false},
		{"TEMP of an END", second + endSuffix + tempSuffix, rest, false},
		{"whole START", inside + startSuffix, rest, true},
		{"short START", second + startSuffix, rest[:s.starts[1][1]], true},
		{"torn START", inside + startSuffix, rest[:len(rest)-1], true},
		{"empty START", second + startSuffix, nil, true},
		{"END", second + endSuffix, s.segments[1], true},
	} {
		fs := s.disk(-1, nil)
		putFile(fs, filepath.Join(sampleDir, c.file), c.data)
		if err := refuseTruncation(fs, sampleDir); isDamage(err) != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.refused {
			continue
		}
		s.prefix(t, c.what, fs, len(s.bodies))
		if err := removeUnfinished(fs, sampleDir); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if list, err := listJournal(fs, sampleDir); err != nil || len(list.temps) != 0 || len(list.segments) != 3 {
			t.Errorf("%s: left over: %+v, %v", c.what, list, err)
		}
	}
}

// TestLeftoverSegmentsAreRemoved fails when segments below what is needed, as an
// interrupted deletion leaves them, stay for ever or stop the start.
func TestLeftoverSegmentsAreRemoved(t *testing.T) {
	s := newSample(0)
	fs := s.disk(-1, nil)
	if err := fs.Remove(filepath.Join(sampleDir, segmentName(1+sampleFrames))); err != nil {
		t.Fatal(err)
	}
	sc := scanner{fs: fs, dir: sampleDir, bounds: scanBounds{need: 1 + 2*sampleFrames, epoch: 1}}
	fd, err := sc.run()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repair(fs, "/", sampleDir, fd); err != nil {
		t.Fatal(err)
	}
	if got := names(t, fs, sampleDir); !slices.Equal(got, []string{segmentName(1 + 2*sampleFrames)}) {
		t.Errorf("left: %v", got)
	}
}
