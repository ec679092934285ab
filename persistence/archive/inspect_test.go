package archive

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestR14InspectCounts fails when a file may lie about how much it holds.
func TestR14InspectCounts(t *testing.T) {
	for _, name := range []string{"2026-12-01.db", KeysName} {
		s := newSpecimen(t, name)
		editFile(t, filepath.Join(s.cfg.Dir, name), countersKey, counters{items: 89, bytes: 1}.encode())
		if _, err := Inspect(t.Context(), s.cfg.Dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: inspect = %v", name, err)
		}
	}
}

// TestR14InspectKnowsEveryPage fails when a page may be lost, or free and used.
func TestR14InspectKnowsEveryPage(t *testing.T) {
	s := newSpecimen(t, "2026-12-01.db")
	m, err := readMetas(s.path, bytes.NewReader(s.whole))
	if err != nil {
		t.Fatal(err)
	}
	p := pages{file: s.path, r: bytes.NewReader(s.whole), size: m.pageSize, limit: m.pages}
	free, err := freeList(&p, m.free)
	if err != nil {
		t.Fatal(err)
	}
	used := uint64(2)
	for slices.Contains(free, used) || used == m.free {
		used++
	}
	at := int(m.free) * m.pageSize
	for what, ids := range map[string][]uint64{
		"lost": free[1:], "free and used": slices.Sorted(slices.Values(append(slices.Clone(free), used))),
	} {
		data := bytes.Clone(s.whole)
		native.PutUint16(data[at+10:], uint16(len(ids)))
		for i, id := range ids {
			native.PutUint64(data[at+pageHead+i*8:], id)
		}
		s.write(t, data, s.size)
		if _, err := Inspect(t.Context(), s.cfg.Dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("a page is %s: inspect = %v", what, err)
		}
	}
}

// TestR14ViewHoldsStill fails when what a reader looks at changes under it.
func TestR14ViewHoldsStill(t *testing.T) {
	a := mustOpen(t, quiet(t.TempDir()))
	items := itemsOf(0, 50, noon)
	mustPut(t, a, items)
	v, err := a.days[0].view()
	if err != nil {
		t.Fatal(err)
	}
	changed := itemsOf(0, 50, noon)
	for n := range 6 {
		for i := range changed {
			changed[i].Body = bytes.Repeat([]byte{byte(n)}, 150)
		}
		mustPut(t, a, changed)
	}
	c := v.cursor(v.data)
	for _, it := range items {
		have, ok, err := v.item(c, it.ID[:])
		if err != nil || !ok || !bytes.Equal(have.body, it.Body) {
			t.Fatalf("%x: %q, %v, %v", it.ID, have.body, ok, err)
		}
	}
	v.release()
	for _, it := range changed {
		wantGet(t, a, engine.Archived{ID: it.ID, Body: it.Body})
	}
}
