package actors_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// move is the way of ended runs and idempotency keys into the archive, step by step.
type move struct {
	*world
	ids    []flow.RunID
	keys   map[string]string // idempotency key -> run
	before string            // the story of the runs in memory
	put    chan struct{}     // receives when Put is called
	free   chan struct{}     // closed: Put goes on
}

// errCut is that of a Put that is cut off in the middle.
var errCut = errors.New("cut off in the middle of a Put")

// stored says how much a Put that is cut off has stored.
type stored int

const (
	storedNothing stored = iota
	storedHalf
	storedAll
)

// newMove ends runs in all ways and under idempotency keys, and stops in the Put that is
// to take them.
func newMove(w *world, s stored) *move {
	m := &move{world: w, keys: map[string]string{}, put: make(chan struct{}, 1), free: make(chan struct{})}
	storing := false
	w.archive.Putting = func(items []engine.Archived, keys []engine.ArchivedKey) error {
		select {
		case <-m.free:
			return nil
		default:
		}
		if storing {
			return nil
		}
		if s != storedNothing {
			storing = true
			must(w, w.archive.Put(w.Context(), items[:len(items)*int(s)/2], keys[:len(keys)*int(s)/2]))
			storing = false
		}
		m.put <- struct{}{}
		select {
		case <-m.free:
			return nil
		case <-time.After(5 * time.Second): // by then the node is dead
			return errCut
		}
	}
	m.ids = w.endings()
	for i := range 6 {
		k := w.textIn(i%w.shards, fmt.Sprint("order", i, "-"))
		params := `{"k":"` + w.keyIn(engine.ShardID(i/2%w.shards), "sync", "k") + `"}`
		m.keys[k] = await(w, w.submitting(keyedSubmit("sync", params, k))).RunID
		m.ids = append(m.ids, w.id(m.keys[k]))
		w.pass(time.Millisecond)
		w.cancel(w.id(m.keys[k]))
	}
	m.before = w.story(m.ids)
	return m
}

// reach waits until Put is called.
func (m *move) reach() {
	m.Helper()
	<-m.put
	m.settle()
}

// goOn lets the Put, and all after it, do its work.
func (m *move) goOn() {
	close(m.free)
	m.settle()
}

// whole fails unless everything is told as before, and nothing is gone or there twice.
func (m *move) whole(when string) {
	m.Helper()
	if diff := cmp.Diff(m.before, m.story(m.ids)); diff != "" {
		m.Errorf("%s readers are told otherwise (-before +after):\n%s", when, diff)
	}
	for k, run := range m.keys {
		got := await(m.world, m.submitting(keyedSubmit("sync", `{"k":"other"}`, k)))
		if got.RunID != run || got.Created {
			m.Errorf("%s key %s names %+v, want %s", when, k, got, run)
		}
	}
	if n := len(m.list(wire.ListQuery{})); n != len(m.ids) {
		m.Errorf("%s there are %d runs, want %d", when, n, len(m.ids))
	}
}

// arrives fails unless in the end everything is in the archive and told as before.
func (m *move) arrives(when string) {
	m.Helper()
	m.pass(10 * time.Second)
	runs, archived := m.whereabouts()
	if _, keys := m.archive.Len(); runs != 0 || archived != len(m.ids) || keys != len(m.keys) {
		m.Errorf("%s in the end %d runs are in memory, %d runs and %d keys in the archive", when, runs, archived, keys)
	}
	m.whole(when + ", in the end")
	m.sameAsReplay(m.moment())
}

// moves are the points at which a move can be cut off: how much Put had stored, whether
// it had returned, and how many entries behind it were durable.
var moves = []struct {
	stored  stored
	goesOn  bool
	commits int
}{
	{storedNothing, false, 0},
	{storedHalf, false, 0},
	{storedAll, false, 0},
	{storedNothing, true, 0},
	{storedNothing, true, 1},
	{storedNothing, true, 99},
}

// TestR14CrashAtEveryStepOfTheMove fails when a crash at any step of the way into the
// archive, with any part of the entries that weren't durable kept, and with snapshots
// before, between or behind, loses a run or a key, shows one twice or otherwise than
// before, or keeps one from leaving.
func TestR14CrashAtEveryStepOfTheMove(t *testing.T) {
	for i, at := range moves {
		for j, keep := range []int{0, 1, 99} {
			for snapshots := range 4 {
				if (i+j+snapshots)%crashShare != 0 {
					continue
				}
				when := fmt.Sprintf("at %+v, %d kept, snapshots %d:", at, keep, snapshots)
				setup{shards: 2, manual: true, recentFor: 5 * flow.Second}.play(t, func(w *world) {
					m := newMove(w, at.stored)
					moments := []moment{m.moment()}
					if snapshots == 1 {
						w.snapshots()
					}
					m.reach()
					moments = append(moments, m.moment())
					if snapshots == 2 {
						w.snapshots()
					}
					if at.goesOn {
						m.goOn()
						for range at.commits {
							w.mem.CommitNext()
							w.settle()
						}
					}
					if at.commits == 99 {
						moments = append(moments, m.moment())
						if snapshots == 3 {
							w.snapshots()
						}
					}
					for _, moment := range moments {
						m.sameAsReplay(moment)
					}
					w.fall(keep)
					w.archive.Putting = nil
					w.open()
					w.serves()
					m.whole(when)
					m.arrives(when)
					w.restart()
					m.whole(when + " after another restart")
				})
			}
		}
	}
}

// TestR14OwnersChangeAtEveryStepOfTheMove is the same for shards that lose their owner
// while the archiver lives on: what it has under way belongs to a state that is gone.
func TestR14OwnersChangeAtEveryStepOfTheMove(t *testing.T) {
	for i, at := range moves[3:] {
		for j, keep := range []int{0, 1, 99} {
			for first := range 2 {
				if (i+j+first)%min(crashShare, 2) != 0 {
					continue
				}
				when := fmt.Sprintf("at %+v, %d kept, demoted first %d:", at, keep, first)
				setup{shards: 2, chaos: new(uint64(1)), recentFor: 5 * flow.Second}.play(t, func(w *world) {
					shake := func() {
						must(w, w.chaos.Demote(w.Context(), engine.ShardID(first), keep))
						w.settle()
						must(w, w.chaos.Settle(w.Context()))
						w.settle()
					}
					m := newMove(w, at.stored)
					w.snapshots()
					m.reach()
					if first == 0 {
						shake() // in the middle of a Put
					}
					m.goOn()
					for range at.commits {
						w.mem.CommitNext()
						w.settle()
					}
					shake()
					w.commit()
					m.whole(when)
					m.arrives(when)
				})
			}
		}
	}
}

// TestR14NothingLeavesBeforeItsEndIsDurable fails when a run is given to the archive
// whose end, or a key whose run, may still be lost.
func TestR14NothingLeavesBeforeItsEndIsDurable(t *testing.T) {
	setup{shards: 2, manual: true, recentRuns: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		a, b := w.submit("sync", `{"k":"a"}`), w.submit("sync", `{"k":"b"}`)
		c := w.submit("sync", `{"k":"c"}`)
		puts := 0
		w.archive.Putting = func([]engine.Archived, []engine.ArchivedKey) error { puts++; return nil }
		for _, id := range []flow.RunID{a, b, c} {
			w.cancelling(id)
		}
		for i := range 4 {
			w.submitting(keyedSubmit("sync", `{"k":"a"}`, fmt.Sprint(i)))
		}
		<-time.After(3 * time.Second)
		if w.settle(); puts != 0 {
			w.Fatalf("Put was called %d times, and nothing that ended is durable", puts)
		}
		w.crash(0)
		w.serves()
		for _, id := range []flow.RunID{a, b, c} {
			w.is(id, "queued")
		}
	})
}

// TestR14S16FailedPutEndsTheNode fails when a node goes on after its archive has failed,
// or has let go of something by then.
func TestR14S16FailedPutEndsTheNode(t *testing.T) {
	setup{shards: 2, recentFor: 5 * flow.Second}.play(t, func(w *world) {
		m := newMove(w, storedNothing)
		m.reach()
		m.pass(6 * time.Second) // the Put fails of its own
		fatals := w.died()
		if len(fatals) != 1 || !errors.Is(fatals[0], errCut) {
			w.Fatalf("last words: %v", fatals)
		}
		if runs, archived := w.whereabouts(); runs != len(m.ids) || archived != 0 {
			w.Errorf("%d runs in memory and %d in the archive", runs, archived)
		}
		if n := w.countAll(flow.RecArchived) + w.countAll(flow.RecKeyArchived); n != 0 {
			w.Errorf("%d records say that something is archived", n)
		}
		w.archive.Putting = nil
		w.restart()
		m.whole("after a restart")
		m.arrives("after a restart")
	})
}

// TestR14ClosingDuringAPutLosesNothing fails when a node that closes while it archives
// reports a failure, or forgets something.
func TestR14ClosingDuringAPutLosesNothing(t *testing.T) {
	setup{shards: 2, recentFor: 5 * flow.Second}.play(t, func(w *world) {
		m := newMove(w, storedHalf)
		m.reach()
		closed := begin(func() (struct{}, error) { return struct{}{}, w.Quiesce() })
		w.settle()
		if closed.over() {
			w.Error("the node is closed while it writes")
		}
		<-closed.done
		must(w, closed.err)
		w.archive.Putting = nil
		w.restart()
		m.whole("after a restart")
		m.arrives("after a restart")
	})
}
