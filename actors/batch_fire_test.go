package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// awaitDue is the time after which batches that nobody fires are due.
const awaitDue = 10 * time.Second

// TestP72R12NothingFiresWithoutAWorker fails when time makes a run while no worker is alive,
// when a key costs a timer meanwhile, or when the first claim afterwards doesn't fire at once
// and once what is due: one batch for a key, not one for each window.
func TestP72P38R12NothingFiresWithoutAWorker(t *testing.T) {
	for name, trigger := range map[string]string{
		"collect":  `"trigger":{"collect":{"key":"k","max_events":100,"window_seconds":5}}`,
		"debounce": `"trigger":{"debounce":{"key":"k","window_seconds":5}}`,
		"longest":  `"trigger":{"debounce":{"key":"k","window_seconds":5,"max_wait_seconds":6}}`,
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				w.declare("sync", `{"version":"1",`+trigger+`}`)
				w.declare("other", leased)
				w.trigger("sync", numbered("a", 0), numbered("b", 100))
				for i := range 5 {
					w.pass(awaitDue)
					w.keptAlive("other", "1") // the worker of another workflow is none
					if n := actors.TimerEntries(w.Node); n != 0 {
						t.Errorf("%d timers for keys that wait for a worker", n)
					}
					w.trigger("sync", numbered("a", i+1))
				}
				w.pass(awaitDue)
				if n, armed := actors.TimerEntries(w.Node), actors.ArmedTimers(w.Node); n+armed != 0 {
					t.Errorf("%d timers for keys that wait for a worker, %d armed", n, armed)
				}
				entries, _ := w.mem.Entries(0)
				w.pass(time.Hour)
				if after, _ := w.mem.Entries(0); len(after) != len(entries) {
					t.Errorf("%d entries came of nothing", len(after)-len(entries))
				}
				if all := w.cuts("sync"); len(all) != 0 {
					t.Fatalf("without a worker there are the runs %+v", all)
				}
				from := w.wall()
				w.keptAlive("sync", "1")
				w.settle()
				all := w.cutAt("sync", from, 0, 0)
				slices.SortFunc(all, func(a, b cut) int { return a.count - b.count })
				w.madeOf(all[0].run.String(), "b", 100)
				w.madeOf(all[1].run.String(), "a", 0, 1, 2, 3, 4, 5)
				if v, err := w.Stats(w.life); err != nil || v["sync"].Batches+v["sync"].Due+v["sync"].Events != 0 {
					t.Errorf("at the end %+v, %v", v["sync"], err)
				}
				w.sameAsReplay(w.moment())
			})
		})
	}
}

// TestP38P72FiresAtItsDeadline fails when a batch fires before its deadline or later than a
// millisecond after it while a worker is alive: one that has just claimed, one that waits for
// work, and one that is busy and only sends heartbeats.
func TestP38P72R12FiresAtItsDeadline(t *testing.T) {
	for name, prepare := range map[string]func(w *world) (each func()){
		"claims": func(w *world) func() {
			return func() { w.keptAlive("sync", "1") }
		},
		"waits for work": func(w *world) func() {
			var c *call[[]wire.Grant]
			return func() {
				if c == nil || c.over() {
					c = w.claimingAs("waits", wire.Claim{Workflows: serves("sync"), Credit: 1, WaitMS: 30_000})
				}
			}
		},
		"is busy": func(w *world) func() {
			g := w.claimRun("sync", "1", w.id(w.trigger("sync", burst("busy", 0, 3)...)[2]))
			return func() { w.beat(g) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":3,"window_seconds":7}},"lease_seconds":60}`)
				each := prepare(w)
				from := w.wall()
				var want []time.Duration
				for i := range 5 {
					each()
					w.trigger("sync", numbered(fmt.Sprint("k", i), i))
					want = append(want, w.wall().Sub(from)+7*time.Second)
					w.pass(10 * time.Second)
				}
				all := slices.DeleteFunc(w.cuts("sync"), func(c cut) bool { return c.key == "busy" })
				slices.SortFunc(all, func(a, b cut) int { return a.at.Compare(b.at) })
				var got []time.Duration
				for i := range all {
					got = append(got, all[i].at.Sub(from).Truncate(time.Millisecond))
				}
				if !slices.Equal(got, want) {
					t.Errorf("of batches with deadlines at %s there are runs at %s", want, got)
				}
			})
		})
	}
}

// TestP72LivenessEnds30sAfterTheLastWord fails when a batch fires for a worker that was last
// heard of more than 30 s ago, or doesn't within that time.
func TestP72R12LivenessEnds30sAfterTheLastWord(t *testing.T) {
	for _, since := range []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 9 * time.Second, 29 * time.Second} {
		play(t, func(w *world) {
			w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":3,"window_seconds":1}}}`)
			w.keptAlive("sync", "1")
			w.pass(since)
			w.keptAlive("sync", "1")
			w.pass(aliveFor - 2*time.Second)
			w.trigger("sync", numbered("a", 1)) // is due 29 s after the last word
			w.pass(1500 * time.Millisecond)
			if n := len(w.cuts("sync")); n != 1 {
				t.Errorf("since %s: 29 s after the last word of a worker %d runs", since, n)
			}
			w.trigger("sync", numbered("b", 2)) // 30.5 s
			w.pass(awaitDue)
			if n := len(w.cuts("sync")); n != 1 {
				t.Errorf("since %s: 30.5 s after the last word of a worker %d runs", since, n)
			}
		})
	}
}

// TestR2P72WindowsGoByShardTime fails when a window's length depends on steps of the wall by
// more than the 5 % by which shard time follows it.
func TestR2P72WindowsGoByShardTime(t *testing.T) {
	for name, c := range map[string]struct {
		step        flow.Span
		least, most time.Duration
	}{
		"none":        {0, 5 * time.Second, 5*time.Second + time.Millisecond},
		"wall behind": {-flow.Hour, 5 * time.Second, 5*time.Second*100/95 + 50*time.Millisecond},
		"wall ahead":  {flow.Hour, 5 * time.Second * 100 / 105, 5*time.Second + 50*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for _, declaration := range []string{collect3, debounce5} {
				play(t, func(w *world) {
					w.declare("sync", declaration)
					w.trigger("sync", numbered("a", 1))
					begin := w.now()
					w.clock.step(c.step)
					w.keptAlive("sync", "1")
					for len(w.cuts("sync")) == 0 && w.now()-begin < time.Minute {
						w.keptAlive("sync", "1")
						w.pass(25 * time.Millisecond)
					}
					if took := w.now() - begin; took < c.least || took > c.most+25*time.Millisecond {
						t.Errorf("it took %s, want %s to %s", took, c.least, c.most)
					}
				})
			}
		})
	}
}

// TestR2P72WallThatStepsBackInsideATurn fails when a batch is forgotten because the wall steps
// back between two readings of one look at it.
func TestR2P72WallThatStepsBackInsideATurn(t *testing.T) {
	for reading := range 6 {
		play(t, func(w *world) {
			w.declare("sync", collect3)
			w.trigger("sync", numbered("a", 1))
			w.keptAlive("sync", "1")
			w.pass(4900 * time.Millisecond)
			var trap func(n int) func()
			trap = func(n int) func() {
				return func() {
					if n == 0 {
						w.clock.step(-flow.Second)
						return
					}
					w.clock.trap(trap(n - 1))
				}
			}
			w.clock.trap(trap(reading))
			w.pass(10 * time.Second)
			if all := w.cuts("sync"); len(all) != 1 {
				t.Errorf("reading %d: the batch %v makes %d runs", reading, w.batchOf("sync", "a"), len(all))
			}
		})
	}
}

// TestR12ManyKeysFireWithTheFirstClaim fails when of many keys that waited for a worker one
// doesn't fire with the first claim, or more fire in one message than an entry has room for.
func TestR12R5P72ManyKeysFireWithTheFirstClaim(t *testing.T) {
	const keys = 1000
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"key","max":1},"trigger":{"collect":{"key":"k","max_events":9,"window_seconds":5}}}`)
		var events []wire.TriggerEvent
		for i := range keys {
			events = append(events, numbered(fmt.Sprint("k", i), i))
		}
		w.trigger("sync", events...)
		w.pass(awaitDue)
		if n := w.countAll(flow.RecBatchDue); n != keys || actors.TimerEntries(w.Node) != 0 {
			t.Errorf("%d of %d keys are due, %d timers", n, keys, actors.TimerEntries(w.Node))
		}
		w.restart()
		w.pass(time.Second)
		if n := w.countAll(flow.RecBatchDue); n != keys || actors.TimerEntries(w.Node) != 0 {
			t.Errorf("after a restart %d keys were made due, %d timers", n, actors.TimerEntries(w.Node))
		}
		from := w.wall()
		granted := w.claimFor("sync", "1", 100, time.Second)
		w.settle()
		if all := w.cutAt("sync", from, make([]time.Duration, keys)...); len(granted) == 0 || all[0].count != 1 {
			t.Errorf("the claim is granted %d runs", len(granted))
		}
		if n := w.countAll(flow.RecBatchCut); n != keys || actors.AwaitedKeys(w.Node) != 0 {
			t.Errorf("%d runs of %d keys, %d keys still wait", n, keys, actors.AwaitedKeys(w.Node))
		}
		if most := w.bounded(); most > 512+256 {
			t.Errorf("an entry has %d records", most)
		}
		w.sameAsReplay(w.moment())
	})
}

// TestP38WorkerWithoutATrigger fails when events that are buffered reach no run because the
// only live worker, or the newest version, knows nothing of a trigger.
func TestP38P73WorkerWithoutATrigger(t *testing.T) {
	for name, c := range map[string]struct {
		plain, newer string // the gates of the version without a trigger, and which of the two is declared last
		alive        string
	}{
		"an older one is alive":   {`"max_attempts":2`, "1", "0"},
		"the newest has none":     {`"limit":{"key":"key","max":1}`, "2", "2"},
		"gates by another key":    {`"limit":{"key":"tenant","max":1}`, "2", "2"},
		"the older worker's only": {`"limit":{"key":"tenant","max":1}`, "2", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				other := "0"
				if c.newer == "2" {
					other = "2"
				}
				triggered := `{"version":"1","limit":{"key":"key","max":5},"trigger":{"collect":{"key":"k","max_events":100,"window_seconds":5}}}`
				w.declare("sync", triggered)
				w.trigger("sync", numbered("a", 1), numbered("a", 2))
				w.declare("sync", `{"version":"`+other+`",`+c.plain+`}`)
				w.keptAlive("sync", c.alive)
				w.pass(5 * time.Second)
				w.settle()
				if n := len(w.cuts("sync")); n != 1 {
					t.Fatalf("%d runs", n)
				}
				g := w.claimBy("sync", c.alive, 1)
				if len(g) != 1 {
					t.Fatalf("a worker of %s is granted %s", c.alive, names(g))
				}
				if key, list := w.numbers(string(g[0].Params)); key != "a" || !slices.Equal(list, []int{1, 2}) {
					t.Errorf("its run has %q %v", key, list)
				}
				if gates := w.status(w.id(g[0].RunID)).Gates; c.alive == "2" && (len(gates) != 1 || gates[0].KeyName == "tenant" && gates[0].Key != "") {
					t.Errorf("it runs under %+v", gates) // its params have no tenant
				}
				if w.complete(g[0]) != "completed" {
					t.Error("it doesn't end")
				}
				w.lawfulChains()
			})
		})
	}
}

// TestP66P68EventAndTimerOfOneInstant fails when an event that is handled before the timer of
// its instant isn't in the closing batch, or one that comes behind it is.
func TestP66P68S80EventAndTimerOfOneInstant(t *testing.T) {
	for _, before := range []bool{true, false} {
		setup{shards: 1, window: 1, manual: true}.play(t, func(w *world) {
			w.declare("sync", collectMany)
			w.trigger("sync", numbered("a", 1))
			w.pass(4 * time.Second)
			w.keptAlive("sync", "1")
			w.commit()
			w.submitting(submitOf("other", `{}`)) // takes all the room there is
			w.settle()
			var late *call[reply]
			if before {
				late = w.triggering("sync", numbered("a", 2))
				w.settle()
			}
			<-time.After(1100 * time.Millisecond) // the timer's message waits for room
			w.settle()
			if !before {
				late = w.triggering("sync", numbered("a", 2))
				w.settle()
			}
			if late.over() {
				t.Fatal("the event was answered without room")
			}
			w.commit()
			await(w, late)
			all := w.cuts("sync")
			want, left := []int{1, 2}, []int(nil)
			if !before {
				want, left = []int{1}, []int{2}
			}
			if len(all) != 1 {
				t.Fatalf("%d runs", len(all))
			}
			w.madeOf(all[0].run.String(), "a", want...)
			if got := w.batchOf("sync", "a"); !slices.Equal(got, left) {
				t.Errorf("event before the timer %t: %v are left", before, got)
			}
			w.lives("sync", "1", 6*time.Second)
			if n := len(w.cuts("sync")); n != 1+len(left) {
				t.Errorf("event before the timer %t: %d runs in the end", before, n)
			}
		})
	}
}

// TestP66TimerOfAnOlderBatch fails when the timer of a batch that was filled cuts the next one.
func TestP66S86TimerOfAnOlderBatch(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", collect3)
		w.keptAlive("sync", "1")
		from := w.wall()
		w.trigger("sync", numbered("a", 1))
		w.pass(4 * time.Second)
		w.trigger("sync", burst("a", 2, 3)...)
		w.lives("sync", "1", 20*time.Second)
		all := w.cutAt("sync", from, 4*time.Second, 9*time.Second)
		w.madeOf(all[1].run.String(), "a", 4)
	})
}

// TestR12BatchesThatAreOverLeaveNothing fails when keys whose batches were filled, and whose
// runs are over, go on costing memory until the windows would have ended.
func TestR12BatchesThatAreOverLeaveNothing(t *testing.T) {
	setup{shards: 2, recentRuns: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":2,"window_seconds":86400}}}`)
		const keys = 2000
		for i := 0; i < keys; i += 250 {
			for n := range 2 {
				var events []wire.TriggerEvent
				for j := range 250 {
					events = append(events, numbered(fmt.Sprint("order", i+j), n))
				}
				w.trigger("sync", events...)
			}
			for _, g := range w.claim("sync", "1", 250) {
				w.complete(g)
			}
		}
		w.pass(time.Minute)
		have := await(w, begin(func() (int, error) { return actors.KeysInMemory(w.life, w.Node) }))
		if n := actors.TimerEntries(w.Node); n > 2*have+100 {
			t.Errorf("%d timers hold keys of which %d are left", n, have)
		}
	})
}
