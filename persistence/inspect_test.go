package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
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
