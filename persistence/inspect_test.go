package persistence

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestInspectShowsTheJournal fails when Inspect shows other items than were written,
// overlooks a torn tail, changes the directory, or looks at that of a running node.
func TestInspectShowsTheJournal(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 2)
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	write(t, l, ledgers[1], 1, "a", "b", "c")
	if _, err := Inspect(t.Context(), cfg.Dir, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("inspect of a running engine: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(cfg.Dir, journalDir, segmentName(1))
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, 1, 2, 3)
	if err := os.WriteFile(name, data, 0o640); err != nil {
		t.Fatal(err)
	}
	var shown []string
	rep, err := Inspect(t.Context(), cfg.Dir, func(f FrameInfo) error {
		for _, it := range f.Items {
			shown = append(shown, fmt.Sprintf("%s %d %d", it.Kind, it.Shard, it.Seq))
			if it.Kind == "entry" {
				shown[len(shown)-1] += " " + string(it.Body)
			}
		}
		return nil
	})
	if err != nil || rep.Torn != 3 || rep.Boot != 1 || rep.Items != 5 || rep.Segments != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
	want := []string{"boot 0 0", "recovered 0 0", "entry 1 1 a", "entry 1 2 b", "entry 1 3 c"}
	if !slices.Equal(shown, want) {
		t.Errorf("shown %v, want %v", shown, want)
	}
	if after, err := os.ReadFile(name); err != nil || !slices.Equal(after, data) {
		t.Errorf("inspect has changed the journal, %v", err)
	}
	if _, err := Inspect(t.Context(), cfg.Dir, func(FrameInfo) error { return errDisk }); !errors.Is(err, errDisk) {
		t.Errorf("error of the visitor: %v", err)
	}
}

// TestInspectFindsWhatNoChecksumShows fails when an entry that is missing between whole
// frames, or a snapshot of a journal that reaches further than this one, isn't found.
func TestInspectFindsWhatNoChecksumShows(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 2)
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	write(t, l, ledgers[1], 1, "a", "b")
	barrier(t, l, ledgers[1], 1)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(change func(*Inspector)) error {
		in, err := OpenInspector(cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := in.Close(); err != nil {
				t.Error(err)
			}
		}()
		change(in)
		_, err = in.ReadJournal(t.Context(), nil)
		return err
	}
	if err := check(func(*Inspector) {}); err != nil {
		t.Error(err)
	}
	err := check(func(in *Inspector) { in.man.Snapshots = []snapshotRef{{Shard: 1, Epoch: 1, Seq: 2, Index: 99}} })
	if damage := new(DamageError); !errors.As(err, &damage) || !strings.Contains(damage.Expected, "up to frame 99") {
		t.Errorf("a journal that ends before its snapshot: %v", err)
	}
	if err := os.Rename(filepath.Join(cfg.Dir, journalDir), filepath.Join(cfg.Dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if damage := new(DamageError); !errors.As(check(func(*Inspector) {}), &damage) || damage.Found != "nothing" {
		t.Errorf("a journal that is gone: %+v", damage)
	}
	if err := check(func(in *Inspector) { in.man.Durable = 0 }); err != nil {
		t.Errorf("a directory whose first start was ended early: %v", err)
	}
	in := &Inspector{man: &manifest{Shards: 2, Snapshots: []snapshotRef{{Shard: 1, Epoch: 3, Seq: 5}}}}
	for _, c := range []struct {
		shard, epoch, seq int
		whole             bool
	}{
		{0, 1, 1, true}, {0, 4, 1, true}, {0, 1, 2, false}, {2, 1, 1, false},
		{1, 2, 9, true}, {1, 3, 5, true}, {1, 3, 6, true}, {1, 3, 7, false}, {1, 4, 1, true}, {1, 4, 2, false},
	} {
		w := &frameWalk{in: in, ends: make([]tip, 2)}
		it := item{kind: kindEntry, shard: engine.ShardID(c.shard), epoch: engine.Epoch(c.epoch), seq: engine.Seq(c.seq)}
		if err := w.item(it); (err == nil) != c.whole {
			t.Errorf("%+v as the first: %v", c, err)
		}
		if it.seq++; c.whole && w.item(it) != nil {
			t.Errorf("%+v: its successor is refused", c)
		}
		if it.seq += 2; c.whole && w.item(it) == nil {
			t.Errorf("%+v: a gap is overlooked", c)
		}
	}
}

// TestInspectPlacesFrames fails when a frame isn't said to stand where it stands, or a
// snapshot isn't handed out as it was written.
func TestInspectPlacesFrames(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 2)
	cfg.OnClose = CloseWithSnapshots
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	for i := range 3 {
		write(t, l, ledgers[1], 1, strings.Repeat("x", 3000), fmt.Sprint(i))
		barrier(t, l, ledgers[1], 1)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	in, err := OpenInspector(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := in.ReadJournal(t.Context(), func(f FrameInfo) error {
		data, err := os.ReadFile(f.File)
		if err != nil {
			return err
		}
		there, _, err := cutFrame(data[f.Offset:])
		if err == nil && there.index != f.Index {
			t.Errorf("frame %d is said to stand where frame %d does", f.Index, there.index)
		}
		return err
	})
	if err != nil || rep.Segments < 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	for _, s := range in.Snapshots() {
		err := in.ReadSnapshot(s, func(r io.Reader) error {
			lines, err := io.ReadAll(r)
			if s.Shard == 1 && !strings.Contains(string(lines), "xxx") {
				t.Errorf("the snapshot holds %d bytes", len(lines))
			}
			return err
		})
		if info, serr := os.Stat(s.Path); err != nil || serr != nil || info.Size() != s.Bytes {
			t.Errorf("%+v: %v, %v", s, err, serr)
		}
	}
	if len(in.Snapshots()) != 1 { // the other shard has no entry
		t.Errorf("snapshots: %+v", in.Snapshots())
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}
