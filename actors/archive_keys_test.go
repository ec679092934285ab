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
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// remembered is the number of idempotency keys and of request ids in memory.
func (w *world) remembered() (keys, requests int) {
	w.Helper()
	keys, requests, err := actors.Remembered(w.Context(), w.Node)
	if err != nil {
		w.Fatal(err)
	}
	return keys, requests
}

// keyed submits under an idempotency key and waits.
func (w *world) keyed(params, key string) wire.Submitted {
	w.Helper()
	return await(w, w.submitting(keyedSubmit("sync", params, key)))
}

// TestR10R14RequestOutlivesItsRun fails when the repeat of a submit makes a second run
// because the first has left memory; over snapshots and restarts, and until ten minutes are
// over; or when the request is remembered for longer.
func TestR10R14RequestOutlivesItsRun(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		setup{shards: 2, recentRuns: 1}.play(t, func(w *world) {
			w.declare("sync", leased)
			first := map[string]wire.Submitted{}
			for i := range 8 {
				name := fmt.Sprint("r", i)
				first[name] = await(w, w.submitting(requested("sync", fmt.Sprintf(`{"k":"%d"}`, i), name)))
				w.cancel(w.id(first[name].RunID))
			}
			again := func(want bool) {
				w.Helper()
				for name, f := range first {
					got := await(w, w.submitting(requested("sync", `{"k":"`+name[1:]+`"}`, name)))
					if (got.RunID == f.RunID) != want || got.Created == want || want && got.Status != "cancelled" {
						w.Fatalf("request %s after %s: %+v, the first was %s", name, w.now(), got, f.RunID)
					}
				}
			}
			w.pass(3 * time.Second)
			if runs, _ := w.whereabouts(); runs > 1 {
				w.Fatalf("%d runs in memory", runs)
			}
			for range 3 {
				again(true)
				if snapshots {
					w.snapshots()
				}
				w.restart()
				again(true)
				w.pass(3*time.Minute + 10*time.Second)
			}
			again(true)
			w.pass(time.Minute)
			again(false)
			if _, requests := w.remembered(); requests != len(first) {
				w.Errorf("%d request ids are remembered, want %d", requests, len(first))
			}
		})
	}
}

// TestR10R14S75S103S104KeysAreForEver fails when a key that has left memory names another
// run, makes one, or isn't known any more: also when its run has outlived its retention.
func TestR10R14S75S103S104KeysAreForEver(t *testing.T) {
	setup{shards: 2, recentFor: 5 * flow.Second}.play(t, func(w *world) {
		m := newMove(w, storedNothing)
		m.goOn()
		w.pass(time.Minute)
		if keys, _ := w.remembered(); keys != 0 {
			w.Fatalf("%d keys in memory", keys)
		}
		m.whole("from the archive")
		alive := w.keyed(`{"k":"a"}`, "alive")
		w.pass(time.Minute) // the key leaves, its run does not
		w.restart()
		if got := w.keyed(`{"k":"b"}`, " alive "); got.RunID != alive.RunID || got.Created || got.Status != "queued" {
			w.Errorf("the key of a run that waits: %+v", got)
		}
		w.cancel(w.id(alive.RunID))
		m.keys["alive"] = alive.RunID
		w.pass(time.Minute)
		w.archive.Expire()
		for range 2 {
			for k, run := range m.keys {
				if got := w.keyed(`{"k":"b"}`, k); got.RunID != run || got.Created || got.Status != "" {
					w.Errorf("the key of an expired run: %+v, want %s without a status", got, run)
				}
				c := w.reading(w.id(run))
				if <-c.done; !errors.Is(c.err, flow.ErrUnknownRun) {
					w.Errorf("an expired run: %+v, %v", c.value, c.err)
				}
			}
			if n := len(w.list(wire.ListQuery{})); n != 0 {
				w.Errorf("%d runs are listed, and all have expired", n)
			}
			w.restart()
		}
	})
}

// TestR10R14FiftyRepeatsJoinOneLook fails when repeats that come while a reader looks for
// their key make more than one run, look again each, or are answered with different runs;
// for a key that is new and one that is in the archive, in one shard with its run and
// in another.
func TestR10R14FiftyRepeatsJoinOneLook(t *testing.T) {
	for _, archived := range []bool{false, true} {
		for shard := range 2 {
			setup{shards: 2, recentFor: 2 * flow.Second}.play(t, func(w *world) {
				w.declare("sync", leased)
				key, params := w.textIn(shard, "order"), `{"k":"`+w.keyIn(1, "sync", "k")+`"}`
				want := ""
				if archived {
					want = w.keyed(params, key).RunID
					w.pass(5 * time.Second)
				}
				looks, gate := 0, make(chan struct{})
				w.archive.Reading = func() error {
					looks++
					<-gate
					return nil
				}
				calls := make([]*call[wire.Submitted], 50)
				for i := range calls {
					calls[i] = w.submitting(keyedSubmit("sync", params, key))
					if i%10 == 0 {
						w.settle()
					}
				}
				w.settle()
				for _, c := range calls {
					if c.over() {
						w.Fatalf("answered %+v, %v before anybody has looked", c.value, c.err)
					}
				}
				if looks != 1 {
					w.Errorf("%d looks for one key", looks)
				}
				close(gate)
				created := 0
				for _, c := range calls {
					got := await(w, c)
					if want == "" {
						want = got.RunID
					}
					if got.RunID != want {
						w.Errorf("%+v, want %s", got, want)
					}
					if got.Created {
						created++
					}
				}
				if archived == (created == 1) || created > 1 {
					w.Errorf("%d of them were created", created)
				}
				if n := len(w.list(wire.ListQuery{})); n != 1 {
					w.Errorf("there are %d runs", n)
				}
			})
		}
	}
}

// TestR10S101LostWhileParked fails when a submit that waits for the archive is lost with
// its owner and makes a run nevertheless, isn't answered, or its repeat doesn't make
// exactly one.
func TestR10S101LostWhileParked(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
			w.declare("sync", leased)
			key, params := w.textIn(0, "order"), `{"k":"`+w.keyIn(engine.ShardID(shard), "sync", "k")+`"}`
			gates := []chan error{make(chan error, 1), make(chan error, 1)}
			looks := 0
			w.archive.Reading = func() error {
				if looks++; looks > len(gates) {
					return nil
				}
				return <-gates[looks-1]
			}
			parked := w.submitting(keyedSubmit("sync", params, key))
			w.settle()
			must(w, w.chaos.Demote(w.Context(), 0, 0))
			w.settle()
			if !parked.over() || !errors.Is(parked.err, flow.ErrNotReady) {
				w.Fatalf("a parked submit of a lost shard: over %t, %v", parked.over(), parked.err)
			}
			must(w, w.chaos.Settle(w.Context()))
			w.commit()
			repeat := w.submitting(keyedSubmit("sync", params, key))
			w.settle()
			gates[0] <- errCut // what the first reader brings is of a time that is over
			w.commit()
			if repeat.over() {
				w.Fatalf("the repeat was answered %+v, %v by an older reader", repeat.value, repeat.err)
			}
			gates[1] <- nil
			got := await(w, repeat)
			if !got.Created {
				w.Errorf("the repeat: %+v", got)
			}
			if again := w.keyed(params, key); again.RunID != got.RunID || again.Created {
				w.Errorf("the second repeat: %+v", again)
			}
			if n := len(w.list(wire.ListQuery{})); n != 1 {
				w.Errorf("there are %d runs", n)
			}
		})
	}
}

// TestR10S101CrashAtEveryStepOfAKeyedSubmit fails when a crash between the look into the
// archive and the answer, with any of what wasn't durable kept, makes the key name two
// runs; with the key on its way into the archive at once.
func TestR10S101CrashAtEveryStepOfAKeyedSubmit(t *testing.T) {
	for commits := range 8 {
		for keep := range 3 {
			for shard := range 2 {
				setup{shards: 2, manual: true, recentRuns: 1}.play(t, func(w *world) {
					w.declare("sync", leased)
					key, params := w.textIn(0, "order"), `{"k":"`+w.keyIn(engine.ShardID(shard), "sync", "k")+`"}`
					free := make(chan struct{})
					w.archive.Reading = func() error { <-free; return nil }
					first := w.submitting(keyedSubmit("sync", params, key))
					w.settle()
					close(free)
					for range commits {
						w.settle()
						w.mem.CommitNext()
					}
					w.settle()
					answered := first.over() && first.err == nil
					if answered && !first.value.Created {
						w.Errorf("the first: %+v", first.value)
					}
					w.crash(keep)
					w.serves()
					w.archive.Reading = nil
					got := w.keyed(params, key)
					if answered && (got.RunID != first.value.RunID || got.Created) {
						w.Errorf("%d commits, %d kept: %+v was acknowledged, then %+v", commits, keep, first.value, got)
					}
					w.pass(5 * time.Second) // the key leaves
					w.restart()
					if again := w.keyed(params, key); again.RunID != got.RunID || again.Created {
						w.Errorf("%d commits, %d kept: from the archive %+v, want %s", commits, keep, again, got.RunID)
					}
					if n := len(w.list(wire.ListQuery{})); n != 1 {
						w.Errorf("%d commits, %d kept: there are %d runs", commits, keep, n)
					}
				})
			}
		}
	}
}

// TestR10ArchiveThatCantBeRead fails when a submit whose key can't be looked for is taken or
// leaves something behind, or when its repeat later doesn't make exactly one run.
func TestR10ArchiveThatCantBeRead(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("sync", leased)
		w.archive.Reading = func() error { return errCut }
		for range 3 {
			c := w.submitting(keyedSubmit("sync", `{"k":"a"}`, "order"))
			if <-c.done; !errors.Is(c.err, errCut) {
				w.Fatalf("a submit: %+v, %v", c.value, c.err)
			}
		}
		if n := w.countAll(flow.RecKeyed) + w.countAll(flow.RecSubmitted); n != 0 {
			w.Errorf("%d records of refused submits", n)
		}
		w.archive.Reading = nil
		first := w.keyed(`{"k":"a"}`, "order")
		if again := w.keyed(`{"k":"a"}`, "order"); !first.Created || again.Created || again.RunID != first.RunID {
			w.Errorf("%+v, then %+v", first, again)
		}
	})
}

// TestR7R10SubmitsThatWaitForTheArchiveAreBounded fails when more submits than there may be
// wait for a look into the archive, or one of those that may is lost.
func TestR7R10SubmitsThatWaitForTheArchiveAreBounded(t *testing.T) {
	const most, keys = 4096, 64
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1"}`)
		gate := make(chan struct{})
		w.archive.Reading = func() error { <-gate; return nil }
		all := make([]wire.Submit, most+10)
		for i := range all {
			all[i] = keyedSubmit("sync", `{}`, fmt.Sprint("order", i%keys))
		}
		refused := 0
		c := begin(func() ([]wire.Submitted, error) {
			out, errs := w.Submit(w.life, all)
			for i := range errs {
				switch {
				case errors.Is(errs[i], flow.ErrOverloaded) && i >= most:
					refused++
				case errs[i] != nil:
					return out, fmt.Errorf("submit %d: %w", i, errs[i])
				}
			}
			return out, nil
		})
		w.settle()
		close(gate)
		runs := map[string]int{}
		for i, out := range await(w, c)[:most] {
			if runs[out.RunID]++; out.RunID == "" {
				w.Fatalf("submit %d has no run", i)
			}
		}
		if len(runs) != keys || refused != 10 {
			w.Errorf("%d keys named %d runs, and %d submits were refused", keys, len(runs), refused)
		}
		if got := w.keyed(`{}`, "another"); !got.Created { // their places are free again
			w.Errorf("afterwards: %+v", got)
		}
	})
}

// TestR10R14KeyStaysUntilItsRunIsMade fails when a key leaves memory while the letter that
// makes its run is on its way: its repeats would be answered before the run is durable;
// or when the archiver does anything but wait meanwhile.
func TestR10R14KeyStaysUntilItsRunIsMade(t *testing.T) {
	setup{shards: 2, recentRuns: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		params := `{"k":"` + w.keyIn(1, "sync", "k") + `"}`
		turns := w.countTurns()
		var arrive atomic.Bool
		actors.CountLetters(w.Node, 1, func(uint64) bool { return !arrive.Load() })
		var calls []*call[wire.Submitted]
		for i := range 4 {
			calls = append(calls, w.submitting(keyedSubmit("sync", params, w.textIn(0, fmt.Sprint("order", i, "-")))))
		}
		w.pass(10 * time.Second)
		if n := turns(); n > 500 {
			w.Errorf("%d turns of the shards while nothing can be done", n)
		}
		if _, keys := w.archive.Len(); keys != 0 {
			w.Errorf("%d keys are in the archive, and their runs aren't made", keys)
		}
		for _, c := range calls {
			if c.over() {
				w.Errorf("answered %+v, %v: its run isn't made", c.value, c.err)
			}
		}
		arrive.Store(true)
		w.pass(10 * time.Second)
		for _, c := range calls {
			await(w, c)
		}
		if keys, _ := w.remembered(); keys > 1 {
			w.Errorf("%d keys are in memory, want at most 1", keys)
		}
	})
}

// countTurns counts the turns of the shards from now on, and slows down whoever spins.
func (w *world) countTurns() func() int64 {
	var turns atomic.Int64
	var count func()
	count = func() {
		if turns.Add(1) > 5_000 {
			<-time.After(time.Second) // else virtual time would stand still for ever
		}
		w.clock.trap(count)
	}
	w.clock.trap(count)
	return turns.Load
}
