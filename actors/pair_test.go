package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// places are where the two keys of a run live: in one shard, and in two.
var places = []struct{ home, rate engine.ShardID }{{0, 0}, {0, 1}}

// pairKeys is a Limit's key and a Rate's key at a place.
func (w *world) pairKeys(at struct{ home, rate engine.ShardID }) (limit, rate string) {
	return w.keyIn(at.home, "pair", "l"), w.keyIn(at.rate, "pair", "r")
}

// TestR4BothGatesHoldOverTwoKeys fails when runs with a Limit and a Rate on two keys
// exceed either, start out of order, or stay behind.
func TestR4P5P62BothGatesHoldOverTwoKeys(t *testing.T) {
	for _, at := range places {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("pair", `{"version":"1","limit":{"key":"l","max":2},"rate":{"key":"r","per_second":10,"burst":3}}`)
			l, r := w.pairKeys(at)
			ids := w.submitAll(40, "pair", params2(l, r))
			s := w.serve(2, "pair")
			s.work(6 * time.Second)
			if len(s.order) != len(ids) {
				w.Fatalf("%d of %d runs started", len(s.order), len(ids))
			}
			within(w, w.starts(), 10, 3)
			if took := s.at[39] - s.at[0]; took > 4500*time.Millisecond {
				w.Errorf("37 runs beyond the burst took %s at 10 a second", took)
			}
		})
	}
}

// TestR4RateIsSharedByManyLimits fails when the runs of many homes get more tokens than
// their one Rate has, or one of them gets none.
func TestR4P61RateIsSharedByManyLimits(t *testing.T) {
	setup{shards: 4}.play(t, func(w *world) {
		w.declare("pair", `{"version":"1","limit":{"key":"l","max":1},"rate":{"key":"r","per_second":20,"burst":1}}`)
		var ids []flow.RunID
		for i := range 60 {
			ids = append(ids, w.submit("pair", params2(fmt.Sprint("l", i%12), "one")))
		}
		s := w.serve(20, "pair")
		s.work(10 * time.Second)
		if len(s.order) != len(ids) {
			w.Fatalf("%d of %d runs started", len(s.order), len(ids))
		}
		within(w, w.starts(), 20, 1)
	})
}

// TestR4WorkerThatComesLate fails when a token that finds no credit is lost, or the run
// that it was for.
func TestR4R3TokenThatFindsNoCreditIsReturned(t *testing.T) {
	for _, at := range places {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("pair", twoKeys)
			l, r := w.pairKeys(at)
			ids := w.submitAll(3, "pair", params2(l, r))
			w.claimFor("pair", "1", 3, time.Millisecond) // the first; the wants of the others are under way
			w.pass(10 * time.Second)                     // tokens come, and nobody wants to work
			if v := w.key("pair", r); v.Rate == nil || v.Rate.Tokens != 1 {
				w.Errorf("the bucket after ten seconds at one a second: %+v", v.Rate)
			}
			w.is(ids[1], "queued")
			w.claimForOne("pair", ids[1])
		})
	}
}

// claimForOne claims one run that needs a letter to come.
func (w *world) claimForOne(workflow string, want flow.RunID) wire.Grant {
	w.Helper()
	g := w.claimFor(workflow, "1", 1, time.Second)
	if len(g) != 1 || g[0].RunID != want.String() {
		w.Fatalf("granted %s, want %s: %s", names(g), want, w.whyText(want))
	}
	return g[0]
}

// TestR4CrashAtEveryPrefix fails when a crash at any point between the reservation of a
// slot and the end of the runs leads over max or over the rate, loses a run, or leaves
// a slot taken for ever.
func TestR4P62CrashAtEveryPrefix(t *testing.T) {
	for _, at := range places {
		steps, whole := 0, false
		for ; !whole; steps++ { // until nothing is left to commit before the crash
			setup{shards: 2, manual: true}.play(t, func(w *world) {
				w.declare("pair", `{"version":"1","limit":{"key":"l","max":1},"rate":{"key":"r","per_second":2,"burst":1},"lease_seconds":1}`)
				l, r := w.pairKeys(at)
				ids := w.submitAll(2, "pair", params2(l, r))
				first := w.claiming("pair", "1", 2, time.Second)
				w.settle()
				for range steps {
					if whole = !w.mem.CommitNext(); whole {
						break
					}
					w.settle()
				}
				granted := 0
				if first.over() {
					granted = len(first.value)
				}
				w.crash(steps % 2)
				w.serves()
				if v := w.key("pair", l); v.Used > 1 || v.Used < int64(granted) {
					w.Fatalf("after %d commits: used %d with %d grants", steps, v.Used, granted)
				}
				s := w.serve(1, "pair")
				s.work(10 * time.Second)
				for _, id := range ids {
					if got := w.status(id); got.Status != "completed" {
						w.Fatalf("place %v, %d commits: %s", at, steps, w.whyText(id))
					}
				}
				within(w, w.starts(), 2, 1)
				w.used("pair", l, 0)
			})
			if steps > 200 {
				t.Fatal("the story has no end")
			}
		}
		if steps < 2 {
			t.Errorf("only %d prefixes were tried", steps)
		}
	}
}

// TestS27HoldWhoseRunIsGone fails when a run that is cancelled while its token is under
// way leaves a slot taken or a token lost, starts, or costs more and more messages.
func TestS27R4HoldWhoseRunIsGone(t *testing.T) {
	setup{shards: 2, manual: true}.play(t, func(w *world) {
		w.declare("pair", `{"version":"1","limit":{"key":"l","max":1},"rate":{"key":"r","per_second":1000,"burst":5}}`)
		l, r := w.pairKeys(places[1])
		count := func() int {
			n := 0
			for s := range engine.ShardID(2) {
				all, _ := w.mem.Entries(s)
				for i := range all {
					n += len(all[i].Body)
				}
			}
			return n
		}
		const rounds = 1000
		var bytes [2]int
		for round := range rounds {
			a := w.submit("pair", params2(l, r))
			claim := w.claiming("pair", "1", 1, 0)
			w.settle() // the want is in flight
			for range round % 4 {
				w.mem.CommitNext()
				w.settle()
			}
			cancel := w.cancelling(a)
			await(w, cancel)
			for _, g := range await(w, claim) {
				w.complete(g)
			}
			w.is(a, "cancelled")
			b := w.submit("pair", params2(l, r))
			w.complete(w.claimForOne("pair", b))
			if v := w.key("pair", l); v.Used != 0 || v.Queued != 0 {
				w.Fatalf("round %d: %+v", round, v)
			}
			w.pass(10 * time.Millisecond)
			if v := w.key("pair", r); v.Queued != 0 || v.Rate.Tokens != 5 {
				w.Fatalf("round %d: %+v %+v", round, v, v.Rate)
			}
			bytes[round*2/rounds] = count()
		}
		first, second := bytes[0], bytes[1]-bytes[0]
		if second > first+first/10 {
			w.Errorf("the second half wrote %d bytes, the first %d", second, first)
		}
	})
}

// TestD5KilledBetweenReservationAndToken fails when a crash between the set-aside slot
// of a run that was passed over and its token loses the slot or exceeds max.
func TestD5_6_R4KilledBetweenReservationAndToken(t *testing.T) {
	setup{shards: 2, manual: true}.play(t, func(w *world) {
		w.declare("pair", `{"version":"1","limit":{"key":"l","max":1},"rate":{"key":"r","per_second":1,"burst":1},"lease_seconds":600}`)
		l, r := w.pairKeys(places[1])
		holder := w.claimForOne("pair", w.submit("pair", params2(l, w.keyIn(0, "pair", "x"))))
		w.complete(holder)
		ids := w.submitAll(2, "pair", params2(l, r))
		w.complete(w.claimForOne("pair", ids[0])) // the bucket of r is empty
		w.claim("pair", "1", 1)                   // the second asks, and nobody is there when its token comes
		w.pass(3 * time.Second)
		other := w.submit("pair", params2(l, w.keyIn(1, "pair", "y")))
		w.pass(time.Minute)
		claim := w.claiming("pair", "1", 1, time.Second)
		w.settle()
		w.mem.CommitNext()
		w.settle()
		w.crash(0)
		w.serves()
		if v := w.key("pair", l); v.Used > 1 {
			w.Fatalf("used %d", v.Used)
		}
		<-claim.done
		s := w.serve(1, "pair")
		s.work(15 * time.Minute)
		w.is(ids[1], "completed")
		w.is(other, "completed")
		w.used("pair", l, 0)
	})
}

// TestR4P61RunsOfTheSameTwoKeysStartInOrder fails when a run starts before an older one
// of the very same gates and keys.
func TestR4P61RunsOfTheSameTwoKeysStartInOrder(t *testing.T) {
	for _, at := range places {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("pair", `{"version":"1","limit":{"key":"l","max":2},"rate":{"key":"r","per_second":10,"burst":3}}`)
			l, r := w.pairKeys(at)
			ids := w.submitAll(40, "pair", params2(l, r))
			s := w.serve(2, "pair")
			s.work(10 * time.Second)
			s.inOrder(ids)
		})
	}
}

// TestR4TokensAreNotPassedRound fails when a token goes to one home after another that
// has no credit for it: what a start costs then grows with the number of homes.
func TestR4TokensAreNotPassedRound(t *testing.T) {
	for _, credit := range []int{1, 4, 20} {
		setup{shards: 4}.play(t, func(w *world) {
			w.declare("pair", `{"version":"1","limit":{"key":"l","max":1},"rate":{"key":"r","per_second":2,"burst":1}}`)
			for i := range 100 {
				w.submitAll(2, "pair", params2(fmt.Sprint("l", i), "one"))
			}
			s := w.serve(credit, "pair")
			s.work(30 * time.Second)
			given := 0
			for sh := range engine.ShardID(4) {
				all, _ := w.entries(sh)
				given += countKind(all, flow.RecTokenGiven)
			}
			if most := 10 * len(s.order); given > most {
				w.Errorf("credit %d: %d tokens were given for %d starts, want at most %d", credit, given, len(s.order), most)
			}
		})
	}
}

// TestS27S15CancelTakesTheWantBack fails when a cancelled run's want stays in the queue
// of a Rate that has no token for it: a ghost that others wait behind.
func TestS27S15CancelTakesTheWantBack(t *testing.T) {
	for _, at := range places {
		for _, stop := range []string{"cancel", "terminate"} {
			setup{shards: 2}.play(t, func(w *world) {
				w.declare("pair", twoKeys)
				l, r := w.pairKeys(at)
				ids := w.submitAll(2, "pair", params2(l, r))
				w.complete(w.claimForOne("pair", ids[0]))
				w.claim("pair", "1", 1) // the second asks in vain
				if v := w.key("pair", r); v.Queued != 1 {
					w.Fatalf("%+v", v)
				}
				if stop == "cancel" {
					w.cancel(ids[1])
				} else {
					w.terminate(ids[1])
				}
				if v := w.key("pair", r); v.Queued != 0 {
					w.Errorf("after the %s: %+v", stop, v)
				}
				w.pass(2 * time.Second)
				if v := w.key("pair", r); v.Rate.Tokens != 1 || w.countAll(flow.RecTokenGiven) != 1 {
					w.Errorf("a token was given for a run that is gone: %+v", v.Rate)
				}
			})
		}
	}
}

// TestR4ParkedCreditOutlivesItsRun fails when credit that waits beside a token is lost
// with the run that it waited for, or with its key.
func TestR4ParkedCreditOutlivesItsRun(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("pair", twoKeys)
		l, r := w.pairKeys(places[1])
		w.complete(w.claimForOne("pair", w.submit("pair", params2(w.keyIn(1, "pair", "other"), r)))) // the bucket is empty
		a := w.submit("pair", params2(l, r))
		claim := w.claiming("pair", "1", 1, time.Minute)
		w.settle()
		w.cancel(a) // its key has nothing to remember now
		at := w.now()
		b := w.submit("pair", params2(w.keyIn(0, "pair", "b"), w.keyIn(1, "pair", "s")))
		g := await(w, claim)
		if took := w.now() - at; len(g) != 1 || g[0].RunID != b.String() || took > 100*time.Millisecond {
			w.Errorf("granted %s after %s, want %s", names(g), took, b)
		}
		for i := range 10 {
			w.submit("pair", params2(w.keyIn(0, "pair", fmt.Sprint("n", i, "-")), r))
		}
		w.check()
	})
}

// TestR11OlderClaimComesBackBeforeYounger fails when a claim whose credit came back
// waits behind one that came later.
func TestR11OlderClaimComesBackBeforeYounger(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("pair", `{"version":"1","limit":{"key":"l","max":2},"rate":{"key":"r","per_second":0.01,"burst":1}}`)
		l, r := w.pairKeys(places[1])
		w.complete(w.claimForOne("pair", w.submit("pair", params2(l, r))))
		w.submit("pair", params2(l, r)) // no token for it for a long time
		older := w.claiming("pair", "1", 1, time.Minute)
		w.settle() // its credit is parked beside the token that was asked for
		younger, youngest := w.claiming("pair", "1", 1, time.Minute), w.claiming("pair", "1", 1, time.Minute)
		w.settle()
		free := func(n int) flow.RunID {
			return w.submit("pair", params2(w.keyIn(0, "pair", fmt.Sprint("b", n)), w.keyIn(1, "pair", fmt.Sprint("s", n))))
		}
		b := free(1)
		w.pass(60 * time.Millisecond) // one of the younger has it, and the older has its credit back
		if lent := lentUnits(w); lent != 0 || older.over() || younger.over() == youngest.over() {
			w.Fatalf("%d units are lent, answered %t, %t, %t", lent, older.over(), younger.over(), youngest.over())
		}
		c := free(2)
		w.pass(10 * time.Millisecond)
		if !older.over() || older.value[0].RunID != c.String() || younger.over() && youngest.over() {
			w.Errorf("after %s and %s: older over %t, the others %t and %t", b, c, older.over(), younger.over(), youngest.over())
		}
	})
}
