package flow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func stamped(version, key string) Record {
	return Record{Kind: RecSubmitted, Fields: Fields{Run: RunID{1}, Workflow: "sync", Stamp: &Stamp{
		Version: version, VersionRank: 1, Gates: []Gate{{Kind: GateLimit, KeyName: "tenant", Key: key, Max: 2}},
	}}}
}

// stampsOf are the stamps of all records of a body, read by r.
func stampsOf(t *testing.T, r *Reader, body []byte) (all []*Stamp) {
	t.Helper()
	if err := r.Reset(body); err != nil {
		t.Fatal(err)
	}
	for r.More() {
		var rec Record
		if err := r.Record(&rec); err != nil {
			t.Fatal(err)
		}
		all = append(all, rec.Stamp)
	}
	return all
}

// Fails when a stamp that comes again is another one, a stamp that differs isn't, or
// a remembered one changes with the body it came from.
func TestR23EqualStampsOfAReaderAreOne(t *testing.T) {
	a, b := stamped("1", "acme"), stamped("1", "bcme")
	body := encoded(a, b, a)
	r := NewReader()
	got := stampsOf(t, r, body)
	clear(body)
	again := stampsOf(t, r, encoded(b, a))
	if got[0] != got[2] || again[1] != got[0] || again[0] != got[1] {
		t.Error("equal stamps are two")
	}
	if got[0] == got[1] || !got[0].Equal(a.Stamp) || !got[1].Equal(b.Stamp) {
		t.Errorf("stamps are mixed up: %+v, %+v", got[0], got[1])
	}
}

// Fails when a Reader that remembers more stamps than it has room for reads one as
// another.
func TestManyStampsAreToldApart(t *testing.T) {
	const n = 3 * stampSlots
	r := NewReader()
	for range 2 {
		for i := range n {
			want := stamped("1", fmt.Sprint("key", i))
			if got := stampsOf(t, r, encoded(want)); !got[0].Equal(want.Stamp) {
				t.Fatalf("read %+v, want %+v", got[0], want.Stamp)
			}
		}
	}
}

// Fails when a stamp that was refused is taken the second time, or a long one is kept.
func TestOnlyGoodAndShortStampsAreRemembered(t *testing.T) {
	body := encoded(Record{Kind: RecSubmitted, Fields: Fields{Run: RunID{1}, Stamp: &Stamp{Version: strings.Repeat("v", maxNameText+1)}}})
	r := NewReader()
	for range 2 {
		if err := r.Reset(body); err != nil {
			t.Fatal(err)
		}
		var rec Record
		if err := r.Record(&rec); err == nil {
			t.Fatalf("taken: %+v", rec.Stamp)
		}
	}
	long := stamped("1", strings.Repeat("k", maxStampRaw))
	if got := stampsOf(t, r, encoded(long, long)); got[0] == got[1] || !cmp.Equal(got[0], got[1]) {
		t.Error("a long stamp is kept, or differs")
	}
}
