package persistence

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// TestReplayRefusesGaps fails when an entry that doesn't follow the one before it,
// or the snapshot, is dealt out; or when one inside the snapshot is.
func TestReplayRefusesGaps(t *testing.T) {
	at := func(epoch engine.Epoch, seq engine.Seq) item {
		return item{kind: kindEntry, epoch: epoch, seq: seq}
	}
	snap := snapshotRef{Epoch: 3, Seq: 5, Pos: 40}
	for _, c := range []struct {
		what  string
		ref   *snapshotRef
		items []item
		dealt string // positions
		bad   bool
	}{
		{"from the beginning", nil, []item{at(1, 1), at(1, 2), at(4, 1)}, "[1 2 3]", false},
		{"first missing", nil, []item{at(1, 2)}, "[]", true},
		{"one missing", nil, []item{at(1, 1), at(1, 3)}, "[1]", true},
		{"one twice", nil, []item{at(1, 1), at(1, 1)}, "[1]", true},
		{"first of an epoch missing", nil, []item{at(1, 1), at(2, 2)}, "[1]", true},
		{"epoch falls", nil, []item{at(2, 1), at(1, 1)}, "[1]", true},
		{"behind the snapshot", &snap, []item{at(2, 9), at(3, 4), at(3, 5), at(3, 6), at(4, 1)}, "[41 42]", false},
		{"new epoch behind the snapshot", &snap, []item{at(4, 1)}, "[41]", false},
		{"gap behind the snapshot", &snap, []item{at(3, 5), at(3, 7)}, "[]", true},
		{"inside again", &snap, []item{at(3, 6), at(3, 5)}, "[41]", true},
		{"unknown shard", nil, []item{{kind: kindEntry, shard: 1, epoch: 1, seq: 1}}, "[]", true},
		{"control", nil, []item{{kind: kindBoot, epoch: 9}, {kind: kindRecovered, seq: 9}, at(1, 1)}, "[1]", false},
	} {
		l := &Local{shards: []*shard{{}}}
		refs := make(map[engine.ShardID]snapshotRef)
		if c.ref != nil {
			refs[0] = *c.ref
		}
		rp := newReplay(l, restored{refs: refs}, new(progress))
		var err error
		for _, it := range c.items {
			if err = rp.item(it); err != nil {
				break
			}
		}
		dealt := []engine.Pos{}
		for _, e := range rp.shards[0].batch {
			dealt = append(dealt, e.Pos)
		}
		if errors.Is(err, errItem) != c.bad || fmt.Sprint(dealt) != c.dealt {
			t.Errorf("%s: dealt %v, want %s; %v", c.what, dealt, c.dealt, err)
		}
	}
}

// TestStraySnapshotsAreRemoved fails when files of interrupted snapshots stay, or
// when a file of somebody else goes.
func TestStraySnapshotsAreRemoved(t *testing.T) {
	disk, _ := snapped(t, true)
	dir := filepath.Join("/data", snapshotDir)
	before := names(t, disk, dir)
	stray := snapshotRef{Shard: 1, Epoch: 9, Pos: 9, Index: 9}.fileName()
	for _, name := range []string{stray, stray + tempSuffix, "notes.txt"} {
		putFile(disk, filepath.Join(dir, name), []byte("x"))
	}
	startAll(t, openLocal(t, onDisk(disk, 2)))
	if got, want := names(t, disk, dir), append([]string{"notes.txt"}, before...); !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
}

// lateCapture is a ledger whose Capture returns when more has become durable than it
// holds.
type lateCapture struct {
	*enginetest.Ledger
	more func()
}

func (m *lateCapture) Capture() (engine.Snapshot, error) {
	state, err := m.Ledger.Capture()
	m.more()
	return state, err
}

// TestR9SnapshotClaimsNoLaterFrame fails when a snapshot is said to hold frames that
// were written behind its boundary: they would be cut off the journal.
func TestR9SnapshotClaimsNoLaterFrame(t *testing.T) {
	l := openLocal(t, onDisk(vfs.NewMem(), 1))
	m := &lateCapture{Ledger: enginetest.NewLedger()}
	var before uint64
	m.more = func() {
		before = l.journal.durable.Load()
		if _, err := m.Append(1, "behind the boundary"); err != nil {
			t.Error(err)
		}
		// Room comes back when the entry is durable; the machine hears of it later.
		err := l.shards[0].await(t.Context(), m.Epoch(), func() bool { return l.shards[0].acked == l.shards[0].appended })
		if err != nil {
			t.Error(err)
		}
	}
	log, err := l.Open(0, m)
	if err != nil {
		t.Fatal(err)
	}
	m.Use(log)
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, l, m.Ledger, 0, "inside")
	barrier(t, l, m.Ledger, 0)
	if err := l.shards[0].Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := l.newest(0)
	if ref.Pos != 1 || ref.Index > before || l.journal.durable.Load() == before {
		t.Errorf("snapshot %+v; frame %d was the last before the capture, %d is now", ref, before, l.journal.durable.Load())
	}
	lawful(t, []*enginetest.Ledger{m.Ledger})
}
