package archive

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// model is an archive as a map.
type model struct {
	cfg   Config
	now   *clock
	a     *Archive
	items map[engine.ArchiveID]engine.Archived
	keys  map[string]string
	days  []time.Time // that have a file, oldest first
	// oldest is the day behind the last that was removed.
	oldest int64
}

func (m *model) put(t *rapid.T) {
	drawn := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) engine.Archived {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		it := engine.Archived{ID: idOf(n), Group: rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "group")}
		it.Kind = rapid.SampledFrom([]uint8{1, 2, 255}).Draw(t, "kind")
		back := rapid.IntRange(-30, 90).Draw(t, "hours back")
		it.Ended = m.now.now().Add(-time.Duration(back) * time.Hour).UnixNano()
		size := rapid.SampledFrom([]int{0, 1, 50, 900, 6000}).Draw(t, "size")
		it.Body = bytes.Repeat([]byte{byte(rapid.IntRange(0, 255).Draw(t, "byte"))}, size)
		return it
	}), 0, 40).Draw(t, "items")
	var keys []engine.ArchivedKey
	for _, text := range rapid.SliceOfN(rapid.StringMatching(`[a-c]{1,3}`), 0, 10).Draw(t, "keys") {
		keys = append(keys, engine.ArchivedKey{Text: text, Value: []byte(rapid.String().Draw(t, "value"))})
	}
	m.fixEnds(drawn)
	if err := m.a.Put(context.Background(), drawn, keys); err != nil {
		t.Fatal(err)
	}
	for _, it := range drawn {
		m.items[it.ID] = it
		if at, ok := slices.BinarySearchFunc(m.days, dayOf(it.Ended), time.Time.Compare); !ok {
			m.days = slices.Insert(m.days, at, dayOf(it.Ended))
		}
	}
	for _, k := range keys {
		m.keys[k.Text] = string(k.Value)
	}
}

// fixEnds lets an item that is there, or twice among those that are put, end only once.
func (m *model) fixEnds(items []engine.Archived) {
	ends := map[engine.ArchiveID]int64{}
	for i, it := range items {
		if old, ok := m.items[it.ID]; ok {
			ends[it.ID] = old.Ended
		}
		if end, ok := ends[it.ID]; ok {
			items[i].Ended = end
		}
		ends[it.ID] = items[i].Ended
	}
}

func (m *model) expire(t *rapid.T) {
	m.now.set(m.now.now().Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "hours")) * time.Hour))
	want := 0
	for len(m.days) > 1 && !m.now.now().Before(m.days[0].Add(day+m.cfg.Retention)) {
		for id, it := range m.items {
			if dayOf(it.Ended).Equal(m.days[0]) {
				delete(m.items, id)
			}
		}
		m.oldest = max(m.oldest, m.days[0].Add(day).UnixNano())
		m.days = m.days[1:]
		want++
	}
	if n, err := m.a.Expire(); err != nil || n != want {
		t.Fatalf("removed %d days, %v, want %d", n, err, want)
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(context.Background(), m.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	m.open(t)
}

func (m *model) open(t *rapid.T) {
	var err error
	if m.a, err = Open(m.cfg); err != nil {
		t.Fatal(err)
	}
	h := m.a.Holds()
	sum := uint64(0)
	for _, n := range h.Days {
		sum += n
	}
	if h.Keys != uint64(len(m.keys)) || sum != uint64(len(m.items)) || len(h.Days) != len(m.days) || h.Oldest != m.oldest {
		t.Fatalf("it holds %+v, want %d keys and %d items of %v", h, len(m.keys), len(m.items), m.days)
	}
}

// scan compares one query, cut short or not.
func (m *model) scan(t *rapid.T) {
	q := engine.ArchiveQuery{
		Group: rapid.SampledFrom([]string{"", "a", "ab", "b", "c"}).Draw(t, "group"), Kind: rapid.SampledFrom([]uint8{0, 1, 2, 3, 255}).Draw(t, "kind"),
	}
	if n := rapid.IntRange(-1, 61).Draw(t, "before"); n >= 0 {
		q.Before = idOf(n)
	}
	m.compare(t, q, rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "limit"))
}

func (m *model) compare(t *rapid.T, q engine.ArchiveQuery, limit int) {
	var want, got []engine.ArchiveID
	for id, it := range m.items {
		before := q.Before == engine.ArchiveID{} || bytes.Compare(id[:], q.Before[:]) < 0
		if before && (q.Group == "" || q.Group == it.Group) && (q.Kind == 0 || q.Kind == it.Kind) {
			want = append(want, id)
		}
	}
	slices.SortFunc(want, func(x, y engine.ArchiveID) int { return bytes.Compare(y[:], x[:]) })
	want = want[:min(limit, len(want))]
	err := m.a.Scan(q, func(id engine.ArchiveID, body []byte) bool {
		if !bytes.Equal(body, m.items[id].Body) {
			t.Fatalf("%x has another body", id)
		}
		got = append(got, id)
		return len(got) < limit
	})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%+v: %x, %v, want %x", q, got, err, want)
	}
}

func (m *model) check(t *rapid.T) {
	m.compare(t, engine.ArchiveQuery{}, 1000)
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 61), 1, 5).Draw(t, "gets") {
		body, err := m.a.Get(idOf(n))
		it, ok := m.items[idOf(n)]
		if ok && (err != nil || !bytes.Equal(body, it.Body)) || !ok && !errors.Is(err, engine.ErrNotArchived) {
			t.Fatalf("item %d: %d bytes, %v, want %v, %d bytes", n, len(body), err, ok, len(it.Body))
		}
	}
	for text, value := range m.keys {
		if v, err := m.a.Key(text); err != nil || string(v) != value {
			t.Fatalf("key %s = %q, %v, want %q", text, v, err, value)
		}
	}
	if s := m.a.Stats(); s.Runs != uint64(len(m.items)) || s.Keys != uint64(len(m.keys)) {
		t.Fatalf("stats = %+v, want %d runs and %d keys", s, len(m.items), len(m.keys))
	}
}

// few bounds the number of histories, unless the command line says how many.
func few(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	set := func(text string) {
		if err := checks.Value.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(n))
	t.Cleanup(func() { set(checks.DefValue) })
}

// TestR14ArchiveIsAMap puts, repeats, expires, scans and reopens at random, and
// fails when the archive differs from a map.
func TestR14ArchiveIsAMap(t *testing.T) {
	tempDir := t.TempDir
	few(t, modelRuns)
	rapid.Check(t, func(t *rapid.T) {
		dir := tempDir()
		m := &model{cfg: quiet(dir), now: clockAt(noon), items: map[engine.ArchiveID]engine.Archived{}, keys: map[string]string{}}
		m.cfg.Now, m.cfg.Retention = m.now.now, 24*time.Hour
		m.open(t)
		defer func() {
			if err := errors.Join(m.a.Close(), os.RemoveAll(dir)); err != nil {
				t.Fatal(err)
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"put": m.put, "put more": m.put, "expire": m.expire, "reopen": m.reopen, "scan": m.scan, "": m.check,
		})
	})
}

// TestScanReadsWhatItShows fails when a page of a list costs more than to go there
// and read it, however much there is before it.
func TestScanReadsWhatItShows(t *testing.T) {
	a := mustOpen(t, quiet(t.TempDir()))
	var items []engine.Archived
	for n := range 6000 {
		it := itemOf(n, noon)
		it.Group = fmt.Sprint("group ", n%5)
		items = append(items, it)
	}
	mustPut(t, a, items)
	for name, q := range map[string]engine.ArchiveQuery{
		"all": {Before: idOf(3000)}, "newest": {}, "group": {Before: idOf(3000), Group: "group 3"},
		"kind": {Before: idOf(3000), Kind: 2}, "both": {Before: idOf(3000), Group: "group 3", Kind: 1},
	} {
		v, err := a.days[0].view()
		if err != nil {
			t.Fatal(err)
		}
		r := &countingReader{r: v.pages.r}
		v.pages.r = r
		var m merge
		if err := m.open(q, v); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := m[0].body(); err != nil {
				t.Fatal(err)
			}
			if err := m.forward(); err != nil {
				t.Fatal(err)
			}
		}
		v.release()
		// 50 items lie on at most 50 pages; ten lists are found in ten steps of three.
		if r.reads > 50+10*3*3 {
			t.Errorf("%s: %d pages read for 50 items", name, r.reads)
		}
	}
}

// countingReader counts reads.
type countingReader struct {
	r interface {
		ReadAt(p []byte, off int64) (int, error)
	}
	reads int
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	return c.r.ReadAt(p, off)
}

// TestScanReadsOn fails when a scan that is longer than what it reads at a time, or
// whose bodies are, skips or repeats an item.
func TestScanReadsOn(t *testing.T) {
	a := mustOpen(t, quiet(t.TempDir()))
	items := slices.Concat(itemsOf(0, 1000, noon), itemsOf(1000, 2000, noon.Add(-day)))
	for i := range items[:10] {
		items[i].Body = make([]byte, scanBytes/3)
	}
	mustPut(t, a, items)
	got := scanIDs(t, a, engine.ArchiveQuery{}, 5000)
	if len(got) != 2000 || got[0] != idOf(1999) || got[1999] != idOf(0) {
		t.Errorf("%d items", len(got))
	}
	// f may call the archive: nothing is held.
	err := a.Scan(engine.ArchiveQuery{}, func(engine.ArchiveID, []byte) bool {
		mustPut(t, a, itemsOf(3000, 3001, noon.Add(-2*day)))
		return false
	})
	if err != nil {
		t.Error(err)
	}
}
