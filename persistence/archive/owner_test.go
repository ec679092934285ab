package archive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestR14ForeignAndMovedFiles fails when a file of another data directory is taken for
// one's own, or when something is acknowledged that stands in a file which nobody will
// find again.
func TestR14ForeignAndMovedFiles(t *testing.T) {
	cfg := quiet(t.TempDir())
	cfg.Owner = "mine"
	a := mustOpen(t, cfg)
	mustPut(t, a, itemsOf(0, 5, noon), engine.ArchivedKey{Text: "k"})
	mustClose(t, a)
	other := cfg
	other.Owner = "yours"
	if _, err := Open(other); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "of the data directory mine, not of yours") {
		t.Errorf("a foreign archive: %v", err)
	}
	for _, name := range []string{"2026-12-01.db", KeysName} {
		for what, away := range map[string]func(string) error{
			"removed": os.Remove,
			"replaced": func(path string) error {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return errors.Join(os.Remove(path), os.WriteFile(path, data, 0o600))
			},
		} {
			own := quiet(t.TempDir())
			a := mustOpen(t, own)
			mustPut(t, a, itemsOf(0, 5, noon), engine.ArchivedKey{Text: "k"})
			if err := away(filepath.Join(own.Dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := a.Put(t.Context(), itemsOf(5, 6, noon), []engine.ArchivedKey{{Text: "l"}}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("a put when %s is %s: %v", name, what, err)
			}
			mustClose(t, a)
		}
	}
}

// TestR14LinkIsNoFile fails when a link in the place of a file is passed over, so that what
// stands behind it is unknown.
func TestR14LinkIsNoFile(t *testing.T) {
	for _, name := range []string{"2026-12-01.db", KeysName} {
		cfg := quiet(t.TempDir())
		a := mustOpen(t, cfg)
		mustPut(t, a, itemsOf(0, 5, noon), engine.ArchivedKey{Text: "k"})
		mustClose(t, a)
		path, away := filepath.Join(cfg.Dir, name), filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.Rename(path, away), os.Symlink(away, path)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "isn't a regular file") {
			t.Errorf("%s as a link: %v", name, err)
		}
		if _, err := Inspect(t.Context(), cfg.Dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("inspect %s as a link: %v", name, err)
		}
	}
}
