package actors_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// moment is what the shards were when their logs had so many entries.
type moment struct {
	entries []int
	states  []actors.Fingerprint
}

// moment is the present one; nothing moves.
func (w *world) moment() moment {
	w.Helper()
	w.commit()
	states := await(w, begin(func() ([]actors.Fingerprint, error) { return actors.Fingerprints(w.Context(), w.Node) }))
	m := moment{states: states}
	for s := range engine.ShardID(w.shards) {
		all, _ := w.mem.Entries(s)
		m.entries = append(m.entries, len(all))
	}
	return m
}

// differ is the first line in which two states differ.
func differ(got, want string) string {
	g, x := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(x)) {
		if g[i] != x[i] {
			return "got  " + g[i] + "\nwant " + x[i]
		}
	}
	return "one has more lines"
}

// sameAsReplay fails unless the entries of each shard make what the shard was.
func (w *world) sameAsReplay(m moment) {
	w.Helper()
	for s := range engine.ShardID(w.shards) {
		all, _ := w.mem.Entries(s)
		got, err := actors.Replay(w.shards, nil, all[:m.entries[s]], m.states[s].At)
		if err != nil {
			w.Fatalf("shard %d: %v", s, err)
		}
		if want := m.states[s].Text; got != want {
			w.Fatalf("shard %d: %d entries replayed make another state:\n%s", s, m.entries[s], differ(got, want))
		}
	}
}

// TestReplayOfEveryPrefixMakesWhatWas fails when the entries of a shard, up to any point, don't
// make what the shard was there; over random traffic with restarts. Every prefix of
// the log is a state without a broken invariant.
func TestReplayOfEveryPrefixMakesWhatWas(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 2}.play(t, func(w *world) {
			f := newTraffic(w, number)
			var moments []moment
			for i := range 200 {
				f.step()
				if i%10 == 9 {
					moments = append(moments, w.moment())
				}
				if i%70 == 69 {
					w.restart()
				}
			}
			for _, m := range moments {
				w.sameAsReplay(m)
			}
		})
	}
}

// TestR9SnapshotIsTheStateAtItsBoundary fails when a snapshot holds something of what
// happened while it was walked, or lacks something of what was before; or when it and
// the entries after it make another state than all entries.
func TestR9SnapshotIsTheStateAtItsBoundary(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 2}.play(t, func(w *world) {
			f := newTraffic(w, number)
			for range 6 {
				for range 25 {
					f.step()
				}
				s := engine.ShardID(f.rng.IntN(2))
				w.settle()
				snap, err := w.spy.machines[s].Capture()
				if err != nil {
					w.Fatal(err)
				}
				ep, seq := snap.Boundary()
				taken := w.clock.Wall()
				for range f.rng.IntN(15) {
					f.step()
				}
				var data bytes.Buffer
				if _, err := snap.WriteTo(&data); err != nil {
					w.Fatal(err)
				}
				snap.Release()
				w.sameAsSnapshot(s, boundary{ep, seq, taken}, data.Bytes())
			}
		})
	}
}

// boundary is where a snapshot stands.
type boundary struct {
	epoch engine.Epoch
	seq   engine.Seq
	taken flow.Instant
}

// sameAsSnapshot fails unless a snapshot is what the entries up to its boundary make, and
// with those after it what all make.
func (w *world) sameAsSnapshot(s engine.ShardID, b boundary, data []byte) {
	w.Helper()
	now := w.moment()
	all, _ := w.mem.Entries(s)
	at := 0
	for i := range all {
		if all[i].Epoch < b.epoch || all[i].Epoch == b.epoch && all[i].Seq <= b.seq {
			at = i + 1
		}
	}
	for end, when := range map[int]flow.Instant{at: b.taken, len(all): now.states[s].At} {
		want, err := actors.Replay(w.shards, nil, all[:end], when)
		if err != nil {
			w.Fatal(err)
		}
		got, err := actors.Replay(w.shards, bytes.NewReader(data), all[at:end], when)
		if err != nil {
			w.Fatalf("the snapshot at entry %d and %d entries: %v", at, end-at, err)
		}
		if got != want {
			w.Fatalf("the snapshot at entry %d and %d entries make another state:\n%s", at, end-at, differ(got, want))
		}
	}
}

// interrupted is a writer that does something before each slice.
type interrupted struct {
	bytes.Buffer
	slices int
	f      func()
}

func (i *interrupted) Write(b []byte) (int, error) {
	i.slices++
	i.f()
	return i.Buffer.Write(b)
}

// TestR9ChangesBetweenTheSlicesOfAWalk is the same with many slices, and with runs and
// keys that change, are born and go while the walk is under way.
func TestR9ChangesBetweenTheSlicesOfAWalk(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		f := newTraffic(w, 9)
		w.declare("wide", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":1000},"lease_seconds":1}`)
		for i := range 30 {
			w.submitAll(50, "lim", `{"l":"`+string(rune('a'+i))+`"}`)
		}
		wide := make([]wire.Submit, 1500) // keys that go: their only run ends, their bucket fills
		for i := range wide {
			wide[i] = submitOf("wide", `{"k":"`+time.Duration(i).String()+`"}`)
		}
		if _, errs := w.Submit(w.Context(), wide); errors.Join(errs...) != nil {
			w.Fatal(errors.Join(errs...))
		}
		w.declare("slow", `{"version":"1","rate":{"key":"k","per_second":2,"burst":1}}`)
		slow := make([]wire.Submit, 200) // keys that go by time alone: their bucket fills during the walk
		for i := range slow {
			slow[i] = submitOf("slow", `{"k":"`+time.Duration(i).String()+`"}`)
		}
		if _, errs := w.Submit(w.Context(), slow); errors.Join(errs...) != nil {
			w.Fatal(errors.Join(errs...))
		}
		for _, g := range w.claim("slow", "1", 200) {
			w.complete(g)
		}
		snap, err := w.spy.machines[0].Capture()
		if err != nil {
			w.Fatal(err)
		}
		ep, seq := snap.Boundary()
		taken := w.clock.Wall()
		data := &interrupted{f: func() {
			for range 20 {
				f.step()
			}
			for _, g := range w.claim("wide", "1", 60) {
				w.complete(g)
			}
			w.pass(500 * time.Millisecond)
		}}
		if _, err := snap.WriteTo(data); err != nil {
			w.Fatal(err)
		}
		snap.Release()
		if data.slices < 3 {
			w.Fatalf("the walk had %d slices", data.slices)
		}
		w.sameAsSnapshot(0, boundary{ep, seq, taken}, data.Bytes())
	})
}

// TestR9CaptureOfALostShardIsNoState fails when a snapshot that was begun before a
// demotion is finished as if nothing had happened, or when the next one can't begin.
func TestR9CaptureOfALostShardIsNoState(t *testing.T) {
	setup{shards: 1, chaos: new(uint64(3))}.play(t, func(w *world) {
		w.declare("sync", leased)
		w.submitAll(10, "sync", `{"k":"a"}`)
		snap, err := w.spy.machines[0].Capture()
		if err != nil {
			w.Fatal(err)
		}
		if _, err := w.spy.machines[0].Capture(); err == nil {
			w.Error("two snapshots of one shard at once")
		}
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		w.settle()
		if _, err := w.spy.machines[0].Capture(); err == nil {
			w.Error("a snapshot of a shard without an owner")
		}
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		var data bytes.Buffer
		if _, err := snap.WriteTo(&data); err == nil {
			w.Error("a snapshot of an ownership that is over was written")
		}
		snap.Release()
		snap, err = w.spy.machines[0].Capture()
		if err != nil {
			w.Fatal(err)
		}
		ep, seq := snap.Boundary()
		taken := w.clock.Wall()
		if _, err := snap.WriteTo(&data); err != nil {
			w.Fatal(err)
		}
		snap.Release()
		w.sameAsSnapshot(0, boundary{ep, seq, taken}, data.Bytes())
	})
}
