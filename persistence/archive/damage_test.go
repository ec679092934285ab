package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// specimen is a small archive on disk whose one file gets damaged again and again.
type specimen struct {
	cfg   Config
	path  string
	whole []byte // the file, as far as it is used
	size  int64  // with what is allocated ahead
	items []engine.Archived
	keys  []engine.ArchivedKey
	puts  int
}

func newSpecimen(t *testing.T, name string) *specimen {
	t.Helper()
	cfg := quiet(t.TempDir())
	a := mustOpen(t, cfg)
	s := &specimen{cfg: cfg, path: filepath.Join(cfg.Dir, name), items: itemsOf(0, 140, noon)}
	s.items[20].Body = bytes.Repeat([]byte("overflow "), 1500)
	for n := range 150 {
		text := fmt.Sprintf("key %03d %s", n, strings.Repeat("k", n%90))
		s.keys = append(s.keys, engine.ArchivedKey{Text: text, Value: []byte(strings.Repeat("v", n%40))})
	}
	// Several transactions, so that there are free pages.
	mustPut(t, a, s.items[60:], s.keys[:50]...)
	mustPut(t, a, s.items[:60], s.keys[50:]...)
	mustClose(t, a)
	var used int64
	for _, f := range wantSound(t, cfg.Dir).Files {
		if f.Name == name {
			used = int64(f.Pages) * int64(f.PageSize)
			if f.Free == 0 {
				t.Error("the specimen has no free pages")
			}
		}
	}
	info, err := os.Stat(s.path)
	if err == nil {
		s.whole, err = os.ReadFile(s.path)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.whole, s.size = s.whole[:used], info.Size()
	return s
}

// write puts a damaged file in place; size is its length.
func (s *specimen) write(t *testing.T, data []byte, size int64) {
	t.Helper()
	if err := errors.Join(os.WriteFile(s.path, data, 0o600), os.Truncate(s.path, size)); err != nil {
		t.Fatal(err)
	}
}

// examine reads a damaged file in every way and then writes to it. Whatever comes
// back is right or an error of the right kind, and what is missing without an error
// is an error of Inspect.
func (s *specimen) examine(t *testing.T, what string) (found error) {
	t.Helper()
	_, found = Inspect(context.Background(), s.cfg.Dir)
	s.wantNamed(t, what+": inspect", found)
	if found == nil {
		s.secondOpinion(t, what)
	}
	a, err := Open(s.cfg)
	if err != nil {
		s.wantNamed(t, what+": open", err)
		if found == nil {
			t.Errorf("%s: inspect finds nothing and open fails: %v", what, err)
		}
		return found
	}
	defer func() {
		if err := a.Close(); err != nil {
			s.wantNamed(t, what+": close", err)
		}
	}()
	s.read(t, a, what, found)
	if s.puts++; s.puts%putEvery == 0 {
		s.wantNamed(t, what+": put", s.putMore(a))
	}
	return found
}

// putMore repeats all that is in the damaged file and adds to it.
func (s *specimen) putMore(a *Archive) error {
	if filepath.Base(s.path) == KeysName {
		return a.Put(context.Background(), nil, append(slices.Clone(s.keys), engine.ArchivedKey{Text: "key 100 more"}))
	}
	return a.Put(context.Background(), itemsOf(0, 145, noon), nil)
}

// wantNamed checks that an error is damage and names the file.
func (s *specimen) wantNamed(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, ErrNewerFormat) {
		return
	}
	damage, ok := errors.AsType[*DamageError](err)
	if !ok || damage.File != s.path || !strings.Contains(err.Error(), "moving the file away") {
		t.Errorf("%s: %v", what, err)
	}
}

func (s *specimen) read(t *testing.T, a *Archive, what string, found error) {
	t.Helper()
	judge := func(what string, have, want []byte, err error) {
		switch {
		case err == nil && !bytes.Equal(have, want):
			t.Errorf("%s: wrong bytes", what)
		case errors.Is(err, engine.ErrNotArchived) && found == nil:
			t.Errorf("%s: missing, and inspect finds nothing", what)
		case errors.Is(err, engine.ErrNotArchived) || err == nil:
		default:
			s.wantNamed(t, what, err)
			if found == nil {
				t.Errorf("%s: %v, and inspect finds nothing", what, err)
			}
		}
	}
	for _, it := range s.items {
		body, err := a.Get(it.ID)
		judge(what+": get", body, it.Body, err)
	}
	for _, k := range s.keys {
		value, err := a.Key(k.Text)
		judge(what+": key", value, k.Value, err)
	}
	for _, q := range []engine.ArchiveQuery{{}, {Group: "group 1"}, {Kind: 2}, {Before: idOf(40), Group: "group 2", Kind: 1}} {
		want := s.matching(q)
		n := 0
		err := a.Scan(q, func(id engine.ArchiveID, body []byte) bool {
			for n < len(want) && want[n].ID != id {
				n++
				judge(what+": scan", nil, nil, engine.ErrNotArchived)
			}
			if n == len(want) || !bytes.Equal(want[n].Body, body) {
				t.Errorf("%s: scan shows an item that there isn't", what)
				return false
			}
			n++
			return true
		})
		if err == nil && n < len(want) {
			err = engine.ErrNotArchived
		}
		judge(what+": scan", nil, nil, err)
	}
}

func (s *specimen) matching(q engine.ArchiveQuery) []engine.Archived {
	var want []engine.Archived
	for _, it := range slices.Backward(s.items) {
		before := q.Before == engine.ArchiveID{} || bytes.Compare(it.ID[:], q.Before[:]) < 0
		if before && (q.Group == "" || q.Group == it.Group) && (q.Kind == 0 || q.Kind == it.Kind) {
			want = append(want, it)
		}
	}
	return want
}

// secondOpinion asks bbolt's own check about a file that Inspect finds sound.
func (s *specimen) secondOpinion(t *testing.T, what string) {
	t.Helper()
	options := boltOptions(nil)
	options.ReadOnly = true
	db, err := bbolt.Open(s.path, fileMode, options)
	if err != nil {
		t.Errorf("%s: bbolt can't open what inspect finds sound: %v", what, err)
		return
	}
	err = db.View(func(tx *bbolt.Tx) error {
		var all error
		for err := range tx.Check() {
			all = errors.Join(all, err)
		}
		return all
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Errorf("%s: bbolt finds what inspect doesn't: %v", what, err)
	}
}

// places are where to damage n bytes: all, or some in every page.
func places(n int, rng *rand.Rand) []int {
	var at []int
	for i := range n {
		// The heads of pages are where most depends on few bytes.
		if chance := 1 + n/damageRuns; rng.IntN(chance) == 0 || i%pageBytes < 48 && rng.IntN(1+chance/32) == 0 {
			at = append(at, i)
		}
	}
	return at
}

// TestR14DamageIsFound flips bits all over a file. It fails when a read gives wrong
// bytes, when something is missing and Inspect finds nothing, and, of course, when
// the process panics or hangs.
func TestR14DamageIsFound(t *testing.T) {
	for _, name := range []string{"2026-12-01.db", KeysName} {
		s := newSpecimen(t, name)
		rng := rand.New(rand.NewPCG(14, 1))
		if err := s.examine(t, "sound"); err != nil {
			t.Fatal(err)
		}
		cases, unseen := 0, 0
		for _, at := range places(len(s.whole), rng) {
			flip := byte(1) << rng.IntN(8)
			if rng.IntN(4) == 0 {
				flip = 0xFF
			}
			data := bytes.Clone(s.whole)
			data[at] ^= flip
			s.write(t, data, s.size)
			cases++
			if s.examine(t, fmt.Sprintf("%s: byte %d ^ %#x", name, at, flip)) == nil {
				unseen++
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		t.Logf("%s: %d flips, %d of them where nothing is", name, cases, unseen)
	}
}

// TestR14CutFilesAreFound does the same with files that are too short.
func TestR14CutFilesAreFound(t *testing.T) {
	for _, name := range []string{"2026-12-01.db", KeysName} {
		s := newSpecimen(t, name)
		for _, n := range append(places(len(s.whole)/16, rand.New(rand.NewPCG(14, 2))), 0, 1, 4095, 4096, 8192, 16384, len(s.whole)-1) {
			s.write(t, s.whole[:n], int64(n))
			if s.examine(t, fmt.Sprintf("%s: %d bytes", name, n)) == nil {
				t.Errorf("%s: nobody sees that %d bytes are left of %d", name, n, len(s.whole))
			}
			if a, err := Open(s.cfg); err == nil {
				mustClose(t, a)
				t.Errorf("%s: a start goes on with %d bytes of %d", name, n, len(s.whole))
			}
		}
		text := []byte(strings.Repeat("not a database\n", 2000))
		s.write(t, text, int64(len(text)))
		if s.examine(t, "text") == nil {
			t.Error("text passes as an archive")
		}
		// What was allocated ahead may go.
		s.write(t, s.whole, int64(len(s.whole)))
		if err := s.examine(t, "just as long as used"); err != nil {
			t.Error(err)
		}
	}
}

// TestR14PagesThatPointBack makes branches point to every page there is, which is
// how a tree gets a ring.
func TestR14PagesThatPointBack(t *testing.T) {
	s := newSpecimen(t, "2026-12-01.db")
	branches := 0
	for at := 2 * pageBytes; at < len(s.whole); at += pageBytes {
		p, wrong := parsePage(native.Uint64(s.whole[at:]), s.whole[at:at+pageBytes])
		if wrong != "" || p.kind != branchPage {
			continue
		}
		branches++
		for i := range p.count {
			for to := range len(s.whole) / pageBytes {
				if (i*7+to)%9 != 0 && to != at/pageBytes && damageRuns < 1<<30 || uint64(to) == p.child(i) {
					continue
				}
				data := bytes.Clone(s.whole)
				native.PutUint64(data[at+pageHead+i*elemBytes+8:], uint64(to))
				s.write(t, data, s.size)
				s.puts = putEvery - 1 // the ring must not catch bbolt either
				// A page that is free itself may point where it likes.
				s.examine(t, fmt.Sprintf("child %d of the branch at %d is %d", i, at, to))
			}
		}
	}
	if branches == 0 {
		t.Error("the specimen has no branch")
	}
}

// TestR14WrongEntryInAList turns an entry of a list into one of an item that is there
// and doesn't belong into it. It fails when the list shows that item.
func TestR14WrongEntryInAList(t *testing.T) {
	s := newSpecimen(t, "2026-12-01.db")
	l := list{group: "group 1", kind: 2}
	own, foreign := idOf(7), idOf(8)
	data := bytes.ReplaceAll(s.whole, l.key(own[:]), l.key(foreign[:]))
	if bytes.Equal(data, s.whole) {
		t.Fatal("the specimen has no such entry")
	}
	s.write(t, data, s.size)
	if s.examine(t, "wrong entry") == nil {
		t.Error("inspect finds nothing")
	}
}

// TestR14FileIsCutUnderAnOpenArchive fails when a file that loses its end while it is
// open takes the process down, or keeps the archive from closing.
func TestR14FileIsCutUnderAnOpenArchive(t *testing.T) {
	for _, left := range []int64{0, 4096, 9 * 4096} {
		s := newSpecimen(t, "2026-12-01.db")
		a := mustOpen(t, s.cfg)
		other := itemOf(500, noon.Add(-day))
		mustPut(t, a, []engine.Archived{other})
		if err := os.Truncate(s.path, left); err != nil {
			t.Fatal(err)
		}
		s.read(t, a, fmt.Sprint("cut to ", left), ErrDamaged)
		wantGet(t, a, other)
		err := s.putMore(a)
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("put = %v", err)
		}
		if v, err := a.Key(s.keys[0].Text); err != nil || !bytes.Equal(v, s.keys[0].Value) {
			t.Errorf("key = %q, %v", v, err)
		}
		mustClose(t, a)
		s.write(t, s.whole, s.size) // the lock was given back
		mustClose(t, mustOpen(t, s.cfg))
	}
}

// TestR14DamagedDayDoesNotStopTheOthers fails when a page of an old day that can't be
// read keeps new items out.
func TestR14DamagedDayDoesNotStopTheOthers(t *testing.T) {
	s := newSpecimen(t, "2026-12-01.db")
	data := bytes.Clone(s.whole)
	for at := 4 * pageBytes; at < len(data); at += pageBytes {
		if native.Uint16(data[at+8:]) == leafPage && bytes.Contains(data[at:at+pageBytes], []byte("xxxx")) {
			data[at] ^= 0x40
		}
	}
	s.write(t, data, s.size)
	a := mustOpen(t, s.cfg)
	fresh := itemOf(1000, noon.Add(day))
	mustPut(t, a, []engine.Archived{fresh})
	wantGet(t, a, fresh)
	// An id that may be in the damaged day isn't called unknown.
	if _, err := a.Get(s.items[0].ID); !errors.Is(err, ErrDamaged) {
		t.Errorf("get = %v", err)
	}
}
