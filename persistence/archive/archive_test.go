package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// noon is the time of most tests: the middle of a day.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time      { return time.Unix(0, c.at.Load()) }
func (c *clock) set(t time.Time)     { c.at.Store(t.UnixNano()) }
func clockAt(t time.Time) (c *clock) { c = new(clock); c.set(t); return c }

func quiet(dir string) Config {
	return Config{Dir: dir, Now: clockAt(noon).now, Logger: slog.New(slog.DiscardHandler)}
}

func mustOpen(tb testing.TB, cfg Config) *Archive {
	tb.Helper()
	a, err := Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { mustClose(tb, a) })
	return a
}

func mustClose(tb testing.TB, a *Archive) {
	tb.Helper()
	if err := a.Close(); err != nil {
		tb.Fatal(err)
	}
}

func mustPut(tb testing.TB, a *Archive, items []engine.Archived, keys ...engine.ArchivedKey) {
	tb.Helper()
	if err := a.Put(context.Background(), items, keys); err != nil {
		tb.Fatal(err)
	}
}

// idOf is the id of item n. Ids grow with n.
func idOf(n int) (id engine.ArchiveID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)+1)
	return id
}

// itemOf is item n: its body says its number and is n%200 bytes longer than that.
func itemOf(n int, ended time.Time) engine.Archived {
	return engine.Archived{
		ID: idOf(n), Ended: ended.UnixNano(), Group: fmt.Sprint("group ", n%3), Kind: uint8(1 + n%2),
		Body: fmt.Appendf(nil, "%d:%s", n, strings.Repeat("x", n%200)),
	}
}

func itemsOf(from, upto int, ended time.Time) []engine.Archived {
	var all []engine.Archived
	for n := from; n < upto; n++ {
		all = append(all, itemOf(n, ended))
	}
	return all
}

// wantGet checks that an archive has exactly this item under its id.
func wantGet(tb testing.TB, a *Archive, it engine.Archived) {
	tb.Helper()
	body, err := a.Get(it.ID)
	if err != nil || !bytes.Equal(body, it.Body) {
		tb.Fatalf("item %x: %q, %v, want %q", it.ID, body, err, it.Body)
	}
}

func wantGone(tb testing.TB, a *Archive, id engine.ArchiveID) {
	tb.Helper()
	if body, err := a.Get(id); !errors.Is(err, engine.ErrNotArchived) {
		tb.Fatalf("item %x: %q, %v, want none", id, body, err)
	}
}

// scanIDs are the ids that a scan visits, at most n.
func scanIDs(tb testing.TB, a *Archive, q engine.ArchiveQuery, n int) []engine.ArchiveID {
	tb.Helper()
	var ids []engine.ArchiveID
	err := a.Scan(q, func(id engine.ArchiveID, _ []byte) bool {
		ids = append(ids, id)
		return len(ids) < n
	})
	if err != nil {
		tb.Fatal(err)
	}
	return ids
}

func wantSound(tb testing.TB, dir string) Report {
	tb.Helper()
	rep, err := Inspect(context.Background(), dir)
	if err != nil {
		tb.Fatal(err)
	}
	return rep
}

// TestR14PutIsOnDisk fails when something that Put has acknowledged is missing or
// changed, at once or after the files were opened again.
func TestR14PutIsOnDisk(t *testing.T) {
	cfg := quiet(filepath.Join(t.TempDir(), "data", "archive"))
	a := mustOpen(t, cfg)
	items := slices.Concat(itemsOf(0, 300, noon), itemsOf(300, 500, noon.Add(-3*day)), itemsOf(500, 501, noon.Add(time.Hour)))
	items[7].Body, items[8].Body = nil, bytes.Repeat([]byte("long "), 50_000)
	keys := []engine.ArchivedKey{{Text: "a", Value: []byte("1")}, {Text: strings.Repeat("k", engine.MaxArchiveKey)}}
	mustPut(t, a, items, keys...)
	for range 2 {
		for _, it := range items {
			wantGet(t, a, it)
		}
		for _, k := range keys {
			if v, err := a.Key(k.Text); err != nil || !bytes.Equal(v, k.Value) {
				t.Fatalf("key %.5s: %q, %v", k.Text, v, err)
			}
		}
		wantGone(t, a, idOf(501))
		for _, text := range []string{"", "b", strings.Repeat("k", engine.MaxArchiveKey-1)} {
			if v, err := a.Key(text); !errors.Is(err, engine.ErrNotArchived) {
				t.Fatalf("key %q: %q, %v, want none", text, v, err)
			}
		}
		if s := a.Stats(); s.Days != 2 || s.Runs != 501 || s.Keys != 2 || s.Bytes < 400_000 {
			t.Fatalf("stats = %+v", s)
		}
		mustClose(t, a)
		a = mustOpen(t, cfg)
	}
	mustClose(t, a)
	rep := wantSound(t, cfg.Dir)
	if len(rep.Files) != 3 || rep.Files[0].Name != "2026-11-28.db" || rep.Files[0].Items != 200 || rep.Files[1].Items != 301 || rep.Files[2].Items != 2 {
		t.Errorf("report = %+v", rep)
	}
}

// TestR14RetentionRemovesWholeDays fails when an item goes before its retention is
// over or stays after its day's is.
func TestR14RetentionRemovesWholeDays(t *testing.T) {
	now := clockAt(noon)
	cfg := quiet(t.TempDir())
	cfg.Now, cfg.Retention = now.now, 36*time.Hour
	a := mustOpen(t, cfg)
	if _, ok := a.NextExpiry(); ok {
		t.Error("an empty archive has an expiry")
	}
	midnight := noon.Truncate(day).Add(day)
	first, last, next := itemOf(1, noon.Truncate(day)), itemOf(2, midnight.Add(-1)), itemOf(3, midnight)
	mustPut(t, a, []engine.Archived{first, last, next}, engine.ArchivedKey{Text: "k"})
	over := midnight.Add(36 * time.Hour)
	if at, ok := a.NextExpiry(); !ok || !at.Equal(over) {
		t.Fatalf("next expiry %s, want %s", at, over)
	}
	now.set(over.Add(-1))
	if n, err := a.Expire(); n != 0 || err != nil {
		t.Fatalf("removed %d, %v before the time", n, err)
	}
	wantGet(t, a, first)
	now.set(over)
	if n, err := a.Expire(); n != 1 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	wantGone(t, a, first.ID)
	wantGone(t, a, last.ID)
	wantGet(t, a, next)
	if _, err := a.Key("k"); err != nil {
		t.Errorf("a key went with a day: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "2026-12-01.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of an expired day: %v", err)
	}
	// A run that is moved late is kept until the next removal, and then gone for good.
	late := itemOf(2, midnight.Add(-1))
	mustPut(t, a, []engine.Archived{late})
	wantGet(t, a, late)
	if n, err := a.Expire(); n != 1 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	wantGone(t, a, late.ID)
	// The newest day stays, whatever the clock says: it may be the clock that is wrong. A
	// start removes nothing.
	mustClose(t, a)
	now.set(over.Add(1000 * day))
	a = mustOpen(t, cfg)
	if n, err := a.Expire(); n != 0 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	wantGet(t, a, next)
	if h := a.Holds(); h.Oldest != midnight.UnixNano() || h.Days[midnight.UnixNano()] != 1 || h.Keys != 1 {
		t.Errorf("it holds %+v", h)
	}
	// A file that only has the name of an old day is refused.
	mustClose(t, a)
	if err := os.Rename(filepath.Join(cfg.Dir, "2026-12-02.db"), filepath.Join(cfg.Dir, "2020-01-01.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) {
		t.Errorf("a renamed day: %v", err)
	}
}

// TestR14RepeatReplaces fails when an item that is put again is there twice, keeps
// what it was, or stays in a list that it has left.
func TestR14RepeatReplaces(t *testing.T) {
	cfg := quiet(t.TempDir())
	a := mustOpen(t, cfg)
	mustPut(t, a, itemsOf(0, 50, noon), engine.ArchivedKey{Text: "k", Value: []byte("old")})
	mustPut(t, a, itemsOf(0, 50, noon), engine.ArchivedKey{Text: "k", Value: []byte("new")})
	if v, err := a.Key("k"); string(v) != "new" || err != nil {
		t.Errorf("key = %q, %v", v, err)
	}
	other := itemOf(12, noon)
	other.Group, other.Kind, other.Body = "elsewhere", 9, []byte("other")
	twice := other
	twice.Body = []byte("first of two")
	mustPut(t, a, []engine.Archived{twice, other})
	wantGet(t, a, other)
	if got := scanIDs(t, a, engine.ArchiveQuery{}, 1000); len(got) != 50 {
		t.Errorf("%d items, want 50", len(got))
	}
	if got := scanIDs(t, a, engine.ArchiveQuery{Group: itemOf(12, noon).Group}, 1000); slices.Contains(got, other.ID) {
		t.Error("an item is in the list of its old group")
	}
	if got := scanIDs(t, a, engine.ArchiveQuery{Kind: 9}, 1000); !slices.Equal(got, []engine.ArchiveID{other.ID}) {
		t.Errorf("the new kind has %x", got)
	}
	if s := a.Stats(); s.Runs != 50 || s.Keys != 1 || s.Days != 1 {
		t.Errorf("stats = %+v", s)
	}
	mustClose(t, a)
	wantSound(t, cfg.Dir)
}

// TestR14ATransactionEndsInTime fails when a transaction has more than its bounds,
// or nobody else gets at the disk between two of them.
func TestR14ATransactionEndsInTime(t *testing.T) {
	cfg := quiet(t.TempDir())
	yields := 0
	cfg.Yield = func() { yields++ }
	a := mustOpen(t, cfg)
	mustPut(t, a, itemsOf(0, 5000, noon))
	if yields != 0 {
		t.Errorf("%d yields for one transaction", yields)
	}
	mustPut(t, a, itemsOf(0, 5001, noon), engine.ArchivedKey{Text: "k"})
	if yields != 2 {
		t.Errorf("%d yields, want 2", yields)
	}
	yields = 0
	large := itemsOf(0, 3, noon)
	for i := range large {
		large[i].Body = make([]byte, txBytes/2)
	}
	mustPut(t, a, large)
	if yields != 2 {
		t.Errorf("%d yields between large items, want 2", yields)
	}
	// The end of the context comes between two transactions; the first is kept.
	ctx, cancel := context.WithCancel(t.Context())
	a.cfg.Yield = cancel
	err := a.Put(ctx, []engine.Archived{itemOf(9000, noon), itemOf(9001, noon.Add(day))}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("put = %v", err)
	}
	wantGet(t, a, itemOf(9000, noon))
	wantGone(t, a, idOf(9001))
}

func TestBoundsAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	a := mustOpen(t, quiet(t.TempDir()))
	good := itemOf(1, noon)
	change := func(f func(it *engine.Archived)) []engine.Archived {
		it := itemOf(2, noon)
		f(&it)
		return []engine.Archived{good, it}
	}
	for what, put := range map[string]struct {
		items []engine.Archived
		keys  []engine.ArchivedKey
	}{
		"id":             {items: change(func(it *engine.Archived) { it.ID = engine.ArchiveID{} })},
		"group":          {items: change(func(it *engine.Archived) { it.Group = strings.Repeat("g", engine.MaxArchiveGroup+1) })},
		"kind":           {items: change(func(it *engine.Archived) { it.Kind = 0 })},
		"body":           {items: change(func(it *engine.Archived) { it.Body = make([]byte, MaxBody+1) })},
		"key":            {items: change(func(*engine.Archived) {}), keys: []engine.ArchivedKey{{Text: "k"}, {}}},
		"value of a key": {keys: []engine.ArchivedKey{{Text: "k"}, {Text: "v", Value: make([]byte, MaxKeyValue+1)}}},
	} {
		err := a.Put(t.Context(), put.items, put.keys)
		bound, ok := errors.AsType[*BoundError](err)
		if !ok || bound.What != what || bound.Index != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
	long := engine.ArchivedKey{Text: strings.Repeat("k", engine.MaxArchiveKey+1)}
	if err := a.Put(t.Context(), nil, []engine.ArchivedKey{long}); err == nil {
		t.Error("a key beyond the bound is taken")
	}
	if s := a.Stats(); s.Runs != 0 || s.Keys != 0 || s.Days != 0 {
		t.Errorf("stats = %+v", s)
	}
	edge := engine.Archived{ID: idOf(1), Ended: noon.UnixNano(), Kind: 255, Group: strings.Repeat("g", engine.MaxArchiveGroup)}
	mustPut(t, a, []engine.Archived{edge})
	if got := scanIDs(t, a, engine.ArchiveQuery{Group: edge.Group, Kind: 255}, 9); len(got) != 1 {
		t.Error("an item at the bounds isn't in its list")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{
		{}, {Dir: t.TempDir(), Retention: time.Hour - 1}, {Dir: t.TempDir(), Retention: MaxRetention + 1}, {Dir: t.TempDir(), Retention: -1},
	} {
		if a, err := Open(cfg); err == nil {
			mustClose(t, a)
			t.Errorf("%+v is taken", cfg)
		}
	}
}

func TestSecondOpenerIsRefused(t *testing.T) {
	cfg := quiet(t.TempDir())
	a := mustOpen(t, cfg)
	if _, err := Open(cfg); !errors.Is(err, ErrLocked) {
		t.Errorf("open = %v", err)
	}
	if _, err := Inspect(t.Context(), cfg.Dir); !errors.Is(err, ErrLocked) {
		t.Errorf("inspect = %v", err)
	}
	mustClose(t, a)
	wantSound(t, cfg.Dir)
	mustOpen(t, cfg)
}

func TestClosedArchive(t *testing.T) {
	a := mustOpen(t, quiet(t.TempDir()))
	mustClose(t, a)
	mustClose(t, a)
	_, getErr := a.Get(idOf(1))
	_, keyErr := a.Key("k")
	_, expireErr := a.Expire()
	for what, err := range map[string]error{
		"get": getErr, "key": keyErr, "expire": expireErr,
		"put":  a.Put(t.Context(), itemsOf(0, 1, noon), nil),
		"scan": a.Scan(engine.ArchiveQuery{}, func(engine.ArchiveID, []byte) bool { return true }),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s = %v", what, err)
		}
	}
	if s := a.Stats(); s != (Stats{}) {
		t.Errorf("stats = %+v", s)
	}
}

// TestForeignFiles fails when a file that isn't the archive's own is touched, or one
// that it didn't finish stays.
func TestForeignFiles(t *testing.T) {
	cfg := quiet(t.TempDir())
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	foreign := []string{"notes.txt", "2026-13-01.db", "2026-1-1.db", "x.TEMP"}
	for _, name := range append(foreign, "2026-12-01.db.TEMP", "keys.db.TEMP") {
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := mustOpen(t, cfg)
	mustPut(t, a, itemsOf(0, 3, noon))
	for _, name := range foreign {
		if text, err := os.ReadFile(filepath.Join(cfg.Dir, name)); string(text) != "text" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if temps, err := filepath.Glob(filepath.Join(cfg.Dir, "*.db.TEMP")); len(temps) > 0 || err != nil {
		t.Errorf("left over: %q, %v", temps, err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "notes.txt") {
		t.Errorf("log = %q, want one line", &log)
	}
	mustClose(t, a)
	if rep := wantSound(t, cfg.Dir); !slices.Equal(rep.Strange, []string{"2026-1-1.db", "2026-13-01.db", "notes.txt", "x.TEMP"}) {
		t.Errorf("strange = %q", rep.Strange)
	}
}

// TestLostKeysAreTold fails when an archive starts without its keys and says nothing.
func TestLostKeysAreTold(t *testing.T) {
	cfg := quiet(t.TempDir())
	a := mustOpen(t, cfg)
	mustPut(t, a, itemsOf(0, 3, noon), engine.ArchivedKey{Text: "k"})
	mustClose(t, a)
	if err := os.Remove(filepath.Join(cfg.Dir, KeysName)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	mustOpen(t, cfg)
	if !strings.Contains(log.String(), "keys are forgotten") {
		t.Errorf("log = %q", &log)
	}
}

// editFile changes the meta bucket of a closed file.
func editFile(t *testing.T, path string, key, value []byte) {
	t.Helper()
	db, err := bbolt.Open(path, fileMode, boltOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(key, value) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	for _, name := range []string{"2026-12-01.db", KeysName} {
		cfg := quiet(t.TempDir())
		a := mustOpen(t, cfg)
		mustPut(t, a, itemsOf(0, 3, noon))
		mustClose(t, a)
		editFile(t, filepath.Join(cfg.Dir, name), formatKey, []byte{0, 0, 0, 2})
		_, err := Open(cfg)
		if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("open = %v", err)
		}
		if _, err := Inspect(t.Context(), cfg.Dir); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("inspect = %v", err)
		}
	}
}

// TestSwappedFilesAreRefused fails when the file of one day passes as another's.
func TestSwappedFilesAreRefused(t *testing.T) {
	cfg := quiet(t.TempDir())
	a := mustOpen(t, cfg)
	mustPut(t, a, itemsOf(0, 3, noon))
	mustClose(t, a)
	if err := os.Rename(filepath.Join(cfg.Dir, "2026-12-01.db"), filepath.Join(cfg.Dir, "2026-11-30.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "2026-11-30.db") {
		t.Errorf("open = %v", err)
	}
}
