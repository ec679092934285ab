package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

var update = flag.Bool("update", false, "write the golden files of the present format")

// goldenNames are files of format 1, which this and every later build reads.
var goldenNames = []string{"2026-12-01.db", KeysName}

func goldenContent() (items []engine.Archived, keys []engine.ArchivedKey) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for n := range 60 {
		it := engine.Archived{Ended: at.Add(time.Duration(n) * time.Minute).UnixNano(), Group: "orders", Kind: 1}
		it.ID = engine.ArchiveID{1, 2, 3, byte(n), 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
		if n%4 == 0 {
			it.Group, it.Kind = "ünïcode", 200
		}
		it.Body = bytes.Repeat(fmt.Appendf(nil, "body %d ", n), n)
		items = append(items, it)
		keys = append(keys, engine.ArchivedKey{Text: fmt.Sprint("key ", n), Value: fmt.Appendf(nil, "value %d", n)})
	}
	items[30].Body = bytes.Repeat([]byte("longer than a page "), 500)
	items[31].Group = "" // in no list that can be asked for by group
	return items, keys
}

func goldenPath(name string) string { return filepath.Join("testdata", "v1_"+name+".gz") }

func writeGolden(t *testing.T) {
	t.Helper()
	cfg := quiet(t.TempDir())
	a := mustOpen(t, cfg)
	items, keys := goldenContent()
	mustPut(t, a, items, keys...)
	mustClose(t, a)
	for _, f := range wantSound(t, cfg.Dir).Files {
		data, err := os.ReadFile(filepath.Join(cfg.Dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		zip := gzip.NewWriter(&buf)
		_, err = zip.Write(data[:f.Pages*uint64(f.PageSize)])
		if err = errors.Join(err, zip.Close(), os.WriteFile(goldenPath(f.Name), buf.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func unpackGolden(t *testing.T, dir, name string) {
	t.Helper()
	packed, err := os.ReadFile(goldenPath(name))
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zip)
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestR14GoldenFiles fails when a file that an earlier build has written can't be
// read, or can't be written on.
func TestR14GoldenFiles(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	cfg := quiet(t.TempDir())
	for _, name := range goldenNames {
		unpackGolden(t, cfg.Dir, name)
	}
	wantSound(t, cfg.Dir)
	a := mustOpen(t, cfg)
	items, keys := goldenContent()
	for range 2 {
		for _, it := range items {
			wantGet(t, a, it)
		}
		for _, k := range keys {
			if v, err := a.Key(k.Text); err != nil || !bytes.Equal(v, k.Value) {
				t.Errorf("key %s = %q, %v", k.Text, v, err)
			}
		}
		if got := scanIDs(t, a, engine.ArchiveQuery{Group: "ünïcode", Kind: 200}, 99); len(got) != 15 || got[0] != items[56].ID {
			t.Errorf("list = %x", got)
		}
		if s := a.Stats(); s.Runs != 60 || s.Keys != 60 {
			t.Errorf("stats = %+v", s)
		}
		mustPut(t, a, items, keys...)
	}
	mustClose(t, a)
	wantSound(t, cfg.Dir)
}
