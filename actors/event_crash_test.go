package actors_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// errDisk is what ends a node whose disk fails.
var errDisk = errors.New("disk")

// story is one life of a batch in a manual world, of which only so many commits happen.
type story struct {
	w      *world
	budget int  // commits that are left
	whole  bool // the story came to its end
	calls  []*call[reply]
	grant  *wire.Grant
	failed *call[string]
}

// commit makes what is appended durable, one entry after the other, as far as the budget goes;
// it says whether that was enough for over.
func (s *story) commit(over func() bool) bool {
	for s.w.settle(); !over(); s.w.settle() {
		if s.w.mem.Queued() == 0 {
			<-time.After(time.Millisecond)
			continue
		}
		if s.budget == 0 {
			return false
		}
		s.budget--
		s.w.mem.CommitNext()
	}
	return true
}

// play sends three events with a window between, has the batch fire, and its run started and
// failed for good. It stops where the budget ends.
func (s *story) play() {
	w := s.w
	for n := range 3 {
		s.calls = append(s.calls, w.triggering("sync", named("a", n, fmt.Sprint("id", n))))
		if !s.commit(s.calls[n].over) {
			return
		}
		if n == 2 {
			break
		}
		<-time.After(1500 * time.Millisecond)
	}
	<-time.After(3 * time.Second) // the deadline is over
	claim := w.claimingAs(claimOf("sync", "1", 1, 100*time.Millisecond))
	if !s.commit(claim.over) || len(claim.value) == 0 {
		return
	}
	s.grant = &claim.value[0]
	s.failed = w.failing(*s.grant, false)
	s.whole = s.commit(s.failed.over)
}

// TestS77S80CrashAtEveryPrefix fails when a kill, or a write that fails, at any point of a
// batch's life loses an acknowledged event, leaves events without a deadline, makes two runs,
// or one that fires early, or late by more than the node was away.
func TestS77S80P71P67CrashAtEveryPrefix(t *testing.T) {
	for name, declaration := range map[string]string{"collect": collectMany, "debounce": `{"version":"1","trigger":{"debounce":{"key":"k","window_seconds":2}},"lease_seconds":1}`} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, disk fails %t", name, fails), func(t *testing.T) {
				prefixes := 0
				for whole := false; !whole; prefixes++ {
					for keep := range 3 {
						setup{shards: 1, manual: true}.play(t, func(w *world) { whole = killed(w, declaration, prefixes, keep, fails) })
					}
				}
				if prefixes < 7 {
					t.Errorf("only %d prefixes", prefixes)
				}
			})
		}
	}
}

// killed plays a story, kills the node after so many commits, and looks at what is left. It
// says whether the story was whole by then.
func killed(w *world, declaration string, commits, keep int, fails bool) bool {
	w.Helper()
	w.declare("sync", declaration)
	w.keptAlive("sync", "1")
	s := &story{w: w, budget: commits}
	s.play()
	if fails {
		w.mem.Fail(errDisk)
		w.triggering("sync", named("a", 9, "id9")) // its write fails
		w.settle()
		if len(w.died()) == 0 {
			w.Error("the node goes on after a write that failed")
		}
		w.dead = true
	}
	w.crash(keep)
	w.serves()
	back := w.clock.Wall()
	for n, c := range s.calls { // who got no answer sends again
		<-c.done
		if c.value.errs[0] != nil {
			w.trigger("sync", named("a", n, fmt.Sprint("id", n)))
		}
	}
	for range 10 {
		w.keptAlive("sync", "1")
		w.pass(time.Second)
	}
	w.firedWhole(len(s.calls), back)
	for range 8 { // a run whose grant was lost comes back with its lease
		for _, g := range w.claimBy("sync", "1", 10) {
			await(w, w.failing(g, false))
		}
		w.pass(2 * time.Second)
	}
	for _, c := range w.cuts("sync") {
		w.is(c.run, "failed")
		again := await(w, begin(func() (wire.Submitted, error) { return w.Retry(w.life, c.run, wire.Retry{}) }))
		if got, want := w.params(w.id(again.RunID)), w.params(c.run); got != want {
			w.Errorf("retried whole it has %s, it had %s", got, want)
		}
	}
	w.sameAsReplay(w.moment())
	return s.whole
}

// firedWhole fails unless the runs that there are hold the first events, each once and in
// order, and each was made at its deadline, or as soon as the node was back.
func (w *world) firedWhole(events int, back flow.Instant) {
	w.Helper()
	h := w.batchHistory()
	k := h.keys[flow.KeyID{Workflow: "sync", Value: "a"}]
	if events == 0 {
		return
	}
	var all []int
	for i, run := range k.runs {
		_, list := w.numbers(w.params(run))
		if !slices.Equal(list, k.sets[i]) {
			w.Errorf("run %s has %v, its key took %v for it", run, list, k.sets[i])
		}
		all = append(all, list...)
	}
	all = slices.DeleteFunc(all, func(n int) bool { return n == 9 }) // its sender gave up
	want := make([]int, events)
	for i := range want {
		want[i] = i
	}
	if k.open != nil || !slices.Equal(all, want) {
		w.Errorf("the runs have the events %v, want %v; open: %+v", all, want, k.open)
	}
	for i, late := range k.late {
		if at := k.cutAt[i]; late > flow.Millisecond && at.Sub(back) > 20*flow.Millisecond {
			w.Errorf("a batch was cut %s late, %s after the node was back", time.Duration(late), time.Duration(at.Sub(back)))
		}
	}
}

// TestP71OverdueBatchFiresOnce fails when a batch whose time came while the node was down
// doesn't fire at once and once, when one whose time has not come fires early, or when the
// window starts anew.
func TestP71P72OverdueBatchFiresOnce(t *testing.T) {
	for name, declaration := range map[string]string{"collect": collect3, "debounce": debounce5} {
		for _, down := range []time.Duration{time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, " down for ", down), func(t *testing.T) {
				setup{shards: 4}.play(t, func(w *world) {
					w.declare("sync", declaration)
					from := w.wall()
					for i := range 12 {
						w.trigger("sync", numbered(fmt.Sprint("k", i), i))
					}
					w.pass(2 * time.Second)
					w.fall(0)
					<-time.After(down)
					w.open()
					w.serves()
					w.keptAlive("sync", "1")
					want := max(5*time.Second, w.wall().Sub(from))
					w.lives("sync", "1", 20*time.Second)
					all := w.cuts("sync")
					for _, c := range all {
						if at := c.at.Sub(from); at < want || at > want+50*time.Millisecond {
							t.Errorf("key %s fired at %s, want %s", c.key, at, want)
						}
					}
					if len(all) != 12 {
						t.Errorf("%d runs", len(all))
					}
					w.restart()
					w.lives("sync", "1", 20*time.Second)
					if n := len(w.cuts("sync")); n != 12 {
						t.Errorf("%d runs after another start", n)
					}
				})
			})
		}
	}
}

// TestP71RestartsKeepTheDeadline fails when restarts put a deadline off, or a batch that is
// marked as due is lost or made due again by one.
func TestP71RestartsKeepTheDeadline(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", collectMany)
		from := w.wall()
		for i := range 9 {
			w.trigger("sync", numbered("a", i))
			w.pass(500 * time.Millisecond)
			if i%2 == 0 {
				w.snapshotAll()
			}
			w.restart()
			w.keptAlive("sync", "1")
		}
		w.pass(time.Second)
		w.cutAt("sync", from, 5*time.Second)
		w.pass(2 * aliveFor)
		w.trigger("sync", numbered("a", 9))
		w.pass(awaitDue)
		for i := range 4 {
			if i%2 == 0 {
				w.snapshotAll()
			}
			w.restart()
			w.pass(time.Second)
		}
		if n := w.countAll(flow.RecBatchDue); n != 1 {
			t.Errorf("the batch was made due %d times", n)
		}
		if n := actors.TimerEntries(w.Node); n != 0 {
			t.Errorf("%d timers", n)
		}
		w.keptAlive("sync", "1")
		w.settle()
		if n := len(w.cuts("sync")); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestR9SnapshotAmongEvents fails when a snapshot with open batches and remembered ids isn't
// the state at its boundary, whatever comes while it is walked.
func TestR9S77SnapshotAmongEvents(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 2}.play(t, func(w *world) {
			s := newSender(w, number)
			for range 6 {
				for range 20 {
					s.step()
				}
				at := s.rng.IntN(2)
				w.settle()
				snap, err := w.spy.machines[at].Capture()
				if err != nil {
					w.Fatal(err)
				}
				ep, seq := snap.Boundary()
				taken := w.clock.Wall()
				data := &interrupted{f: func() {
					for range s.rng.IntN(6) {
						s.step()
					}
				}}
				for range s.rng.IntN(10) {
					s.step()
				}
				if _, err := snap.WriteTo(data); err != nil {
					w.Fatal(err)
				}
				snap.Release()
				w.sameAsSnapshot(shardID(at), boundary{ep, seq, taken}, data.Bytes())
			}
		})
	}
}

// TestR9SnapshotOfManyBatches is the same with many slices: batches are filled, fired, opened
// and forgotten while the walk is under way, and ids are remembered and forgotten.
func TestR9S76SnapshotOfManyBatches(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", collect3)
		send := func(from, count, n int) {
			var events []wire.TriggerEvent
			for i := range count {
				events = append(events, named(fmt.Sprint("k", from+i), n, fmt.Sprint("id", n)))
			}
			w.trigger("sync", events...)
		}
		send(0, 1500, 0)
		send(0, 1500, 1)
		send(1000, 500, 2)
		w.keptAlive("sync", "1")
		snap, err := w.spy.machines[0].Capture()
		if err != nil {
			w.Fatal(err)
		}
		ep, seq := snap.Boundary()
		taken := w.clock.Wall()
		next := 0
		data := &interrupted{f: func() {
			send(next, 100, 2)
			send(5000+next, 100, 0)
			next += 100
			for _, g := range w.claim("sync", "1", 60) {
				w.complete(g)
			}
			w.pass(700 * time.Millisecond)
			if next == 800 {
				w.pass(11 * time.Minute) // the ids of the boundary are forgotten
			}
		}}
		if _, err := snap.WriteTo(data); err != nil {
			w.Fatal(err)
		}
		snap.Release()
		if data.slices < 9 {
			t.Fatalf("the walk had %d slices", data.slices)
		}
		w.sameAsSnapshot(0, boundary{ep, seq, taken}, bytes.Clone(data.Bytes()))
	})
}
