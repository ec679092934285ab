package actors_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestR12P72KeysDoNotSpinWhileTheNodeRefuses fails when each of many keys whose time has come is
// looked at again and again because the node takes no new runs: with a worker alive or not.
func TestR12P72KeysDoNotSpinWhileTheNodeRefuses(t *testing.T) {
	const keys, seconds = 1000, 20
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprint("a worker is alive ", alive), func(t *testing.T) {
			var refusing atomic.Bool
			var looks atomic.Int64
			how := setup{shards: 1, refuse: func() error {
				if looks.Add(1); refusing.Load() {
					return errors.New("the disk is full")
				}
				return nil
			}}
			how.play(t, func(w *world) {
				w.declare("sync", collect3)
				events := make([]wire.TriggerEvent, keys)
				for i := range events {
					events[i] = numbered(fmt.Sprint("k", i), i)
				}
				w.trigger("sync", events...)
				if alive {
					w.keptAlive("sync", "1")
				}
				refusing.Store(true)
				w.pass(6 * time.Second)
				looks.Store(0)
				w.pass(seconds * time.Second)
				if n, timers := looks.Load(), actors.TimerEntries(w.Node); n > 20*seconds || timers > 10 {
					t.Errorf("%d looks in %d s at %d keys for which nothing can be done, %d timers", n, seconds, keys, timers)
				}
				refusing.Store(false)
				w.keptAlive("sync", "1")
				w.pass(1100 * time.Millisecond)
				if n := len(w.cuts("sync")); n != keys {
					t.Errorf("%d of %d keys have fired when there is room again", n, keys)
				}
			})
		})
	}
}

// TestR12R14KeysDoNotSpinWithoutTheArchive is the same for a node that serves nothing, since its
// archive is lost.
func TestR12R14KeysDoNotSpinWithoutTheArchive(t *testing.T) {
	setup{shards: 1, recentFor: flow.Second}.play(t, func(w *world) {
		w.declare("sync", collect3)
		w.complete(w.claimRun("sync", "1", w.id(w.trigger("sync", burst("a", 0, 3)...)[2])))
		w.pass(10 * time.Second)
		const keys = 500
		events := make([]wire.TriggerEvent, keys)
		for i := range events {
			events[i] = numbered(fmt.Sprint("k", i), i)
		}
		w.trigger("sync", events...)
		w.pass(time.Second)
		w.fall(0)
		w.archive.Lose()
		w.open()
		w.commit()
		if err := w.WaitReady(w.Context()); !errors.Is(err, actors.ErrArchiveLost) {
			t.Fatalf("the node serves: %v", err)
		}
		w.pass(10 * time.Second)
		if n := actors.TimerEntries(w.Node); n > 10 {
			t.Errorf("%d timers of %d keys for which nothing can be done", n, keys)
		}
		w.fall(0)
		w.acceptLoss = true
		w.open()
		w.serves()
		w.keptAlive("sync", "1")
		w.pass(time.Second)
		if n := len(w.cuts("sync")); n != keys+1 {
			t.Errorf("%d of %d keys have fired in the end", n-1, keys)
		}
	})
}

// TestR12R23EarlierDeadlinesLeaveNothing fails when a key that is often woken before the end of its
// window gathers entries for that end.
func TestR12R23EarlierDeadlinesLeaveNothing(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","rate":{"key":"key","per_second":10,"burst":1},"trigger":{"collect":{"key":"k","max_events":10000,"window_seconds":86400}}}`)
		w.trigger("sync", numbered("a", 1))
		const runs = 1500
		w.submitAll(runs, "sync", `{"key":"a"}`)
		for done := 0; done < runs; {
			g := w.claimFor("sync", "1", 1, time.Second)
			for i := range g {
				w.complete(g[i])
				done++
			}
			if len(g) == 0 {
				t.Fatalf("%d of %d runs have started", done, runs)
			}
		}
		w.pass(time.Minute) // leases of runs that have ended
		if n := actors.TimerEntries(w.Node); n > 300 {
			t.Errorf("%d timers of one key that was woken %d times", n, runs)
		}
	})
}

// TestP72BusyWorkerOverARestart fails when a batch doesn't fire at its deadline because the node
// was restarted and the only worker, which is busy, has sent nothing but heartbeats since.
func TestP72P38R12BusyWorkerOverARestart(t *testing.T) {
	setup{shards: 4}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","lease_seconds":60,"trigger":{"collect":{"key":"k","max_events":3,"window_seconds":15}}}`)
		g := w.claimRun("sync", "1", w.id(w.trigger("sync", burst("busy", 0, 3)...)[2]))
		for i := range 8 { // in every shard
			w.trigger("sync", numbered(fmt.Sprint("k", i), i))
		}
		from := w.wall()
		w.pass(5 * time.Second)
		w.restart()
		w.beat(g)
		w.pass(20 * time.Second)
		for _, c := range w.cuts("sync") {
			if at := c.at.Sub(from); c.key != "busy" && (at < 15*time.Second || at > 15*time.Second+50*time.Millisecond) {
				t.Errorf("key %s fired at %s", c.key, at)
			}
		}
		if n := len(w.cuts("sync")); n != 9 {
			t.Errorf("%d of 8 keys have fired", n-1)
		}
	})
}

// TestP71NewOwnerFiresForWhoIsAlive fails when a batch that is due fires late because its shard
// has a new owner, while a worker is alive all the time.
func TestP71P72NewOwnerFiresForWhoIsAlive(t *testing.T) {
	for _, away := range []time.Duration{0, 3 * time.Second} { // before the deadline, and over it
		setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
			w.declare("sync", collect3)
			w.keptAlive("sync", "1")
			from := w.wall()
			for s := range 2 {
				w.trigger("sync", numbered(w.keyIn(shardID(s), "sync", "k"), s))
			}
			w.pass(3 * time.Second)
			for s := range 2 {
				must(w, w.chaos.Demote(w.Context(), shardID(s), 0))
			}
			<-time.After(away)
			must(w, w.chaos.Settle(w.Context()))
			w.commit()
			back := w.wall().Sub(from)
			w.pass(10 * time.Second)
			all := w.cuts("sync")
			for _, c := range all {
				if at := c.at.Sub(from); at < 5*time.Second || at > max(5*time.Second, back)+50*time.Millisecond {
					t.Errorf("the owner is back at %s, and key %s fires at %s", back, c.key, at)
				}
			}
			if len(all) != 2 {
				t.Errorf("%d runs", len(all))
			}
		})
	}
}
