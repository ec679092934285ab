package actors_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// letters checks that a receiver has applied the letters of every sender once and in
// order, and returns how many.
func (w *world) letters() int {
	w.Helper()
	total := 0
	for to := range engine.ShardID(w.shards) {
		all, _ := w.entries(to)
		last := map[uint16]uint64{}
		for i := range all {
			for j := range all[i].records {
				r := &all[i].records[j]
				if r.Kind != flow.RecReceived {
					continue
				}
				if r.Number != last[r.Shard]+1 {
					w.Errorf("shard %d applied letter %d of shard %d after %d", to, r.Number, r.Shard, last[r.Shard])
				}
				last[r.Shard] = r.Number
				total++
			}
		}
	}
	return total
}

// TestR6LettersSurviveDemotions fails when a letter is lost, applied twice or out of
// order while senders and receivers lose their ownership and the ends of their logs.
func TestR6LettersSurviveDemotions(t *testing.T) {
	for number := range uint64(letterTrials) {
		setup{shards: 2, chaos: &number}.play(t, func(w *world) {
			rng := rand.New(rand.NewPCG(number, 3))
			ctx := w.Context()
			w.declare("sync", leased)
			far := w.keyIn(1, "sync", "k")
			keys := map[string]string{}
			var order []string
			for i := range 60 {
				key := w.textIn(0, fmt.Sprint("order", i, "-"))
				c := w.submitting(keyedSubmit("sync", `{"k":"`+far+`"}`, key))
				w.settle()
				for range rng.IntN(3) {
					w.mem.CommitNext()
					w.settle()
				}
				if rng.IntN(4) == 0 {
					must(w, w.chaos.Demote(ctx, engine.ShardID(rng.IntN(2)), rng.IntN(3)))
					w.settle()
					must(w, w.chaos.Settle(ctx))
				}
				w.commit()
				if c.over() && c.err == nil {
					keys[key], order = c.value.RunID, append(order, key)
				}
			}
			must(w, w.chaos.Settle(ctx))
			w.pass(3 * time.Second)
			for _, key := range order {
				if got := await(w, w.submitting(keyedSubmit("sync", `{"k":"x"}`, key))); got.RunID != keys[key] || got.Created {
					w.Fatalf("key %s: %+v, acknowledged was %s", key, got, keys[key])
				}
				w.is(w.id(keys[key]), "queued")
			}
			if n := w.letters(); n < len(keys) {
				w.Errorf("%d letters for %d runs", n, len(keys))
			}
			if n := actors.Undelivered(w.Node); n != 0 {
				w.Errorf("%d letters are still on their way", n)
			}
		})
	}
}

// TestR6ManyLettersToOneShard fails when letters beyond the 256 that may be on their
// way are lost, or are on their way all the same.
func TestR6ManyLettersToOneShard(t *testing.T) {
	for _, absent := range []bool{false, true} {
		setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
			ctx := w.Context()
			w.declare("sync", leased)
			far := w.keyIn(1, "sync", "k")
			const n = 1000
			all := make([]wire.Submit, n)
			for i := range all {
				all[i] = keyedSubmit("sync", `{"k":"`+far+`"}`, w.textIn(0, fmt.Sprint("order", i, "-")))
			}
			submit := begin(func() ([]error, error) {
				_, errs := w.Submit(w.life, all)
				return errs, nil
			})
			w.settle()
			if absent { // the receiver is away, then comes back
				must(w, w.chaos.Demote(ctx, 1, 0))
				w.commit()
				w.pass(3 * time.Second)
				if n := actors.Undelivered(w.Node); n != len(all) {
					w.Errorf("%d letters wait, want %d", n, len(all))
				}
				must(w, w.chaos.Settle(ctx))
				w.settle()
			}
			for {
				w.settle()
				if flying := actors.Flying(w.Node, 0, 1); flying > 256 {
					w.Fatalf("%d letters are on their way", flying)
				}
				if w.mem.CommitAll() == 0 {
					break
				}
			}
			w.pass(2 * time.Second)
			for i, err := range await(w, submit) {
				if err != nil {
					w.Fatalf("submit %d: %v", i, err)
				}
			}
			if got := w.letters(); got != n {
				w.Errorf("%d letters were applied, want %d", got, n)
			}
			if v := w.key("sync", far); v.Queued != n {
				w.Errorf("%d runs are queued, want %d", v.Queued, n)
			}
			if left := actors.Undelivered(w.Node); left != 0 {
				w.Errorf("%d letters are still on their way", left)
			}
		})
	}
}

// TestR6RepeatedAndReorderedLetters fails when a letter that comes twice, late or before
// its turn is applied so.
func TestR6RepeatedAndReorderedLetters(t *testing.T) {
	for number := range uint64(letterTrials) {
		setup{shards: 2}.play(t, func(w *world) {
			rng := rand.New(rand.NewPCG(number, 4))
			w.declare("sync", leased)
			far := w.keyIn(1, "sync", "k")
			actors.Shuffle(w.Node, 1, func(n int) (order []int) {
				for i := range n { // each at least once, some twice, in any order
					order = append(order, i)
					if rng.IntN(2) == 0 {
						order = append(order, i)
					}
				}
				rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
				return order[:max(len(order)-rng.IntN(2), 0)] // and one is lost now and then
			})
			const n = 40
			all := make([]wire.Submit, n)
			for i := range all {
				all[i] = keyedSubmit("sync", `{"k":"`+far+`"}`, w.textIn(0, fmt.Sprint("order", i, "-")))
			}
			submit := begin(func() ([]error, error) {
				_, errs := w.Submit(w.life, all)
				return errs, nil
			})
			w.pass(25 * time.Second)
			for i, err := range await(w, submit) {
				if err != nil {
					w.Fatalf("submit %d: %v", i, err)
				}
			}
			if got := w.letters(); got != n {
				w.Errorf("%d letters were applied, want %d", got, n)
			}
			if v := w.key("sync", far); v.Queued != n {
				w.Errorf("%d runs are queued, want %d", v.Queued, n)
			}
		})
	}
}

// TestR6GapDoesNotCauseAStorm fails when every letter behind a gap has all of them sent
// again.
func TestR6GapDoesNotCauseAStorm(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("sync", leased)
		far := w.keyIn(1, "sync", "k")
		dropped := false
		count := actors.CountLetters(w.Node, 1, func(number uint64) bool {
			drop := number == 1 && !dropped
			dropped = dropped || drop
			return drop
		})
		const n = 256
		all := make([]wire.Submit, n)
		for i := range all {
			all[i] = keyedSubmit("sync", `{"k":"`+far+`"}`, w.textIn(0, fmt.Sprint("order", i, "-")))
		}
		at := w.now()
		_, errs := w.Submit(w.Context(), all)
		for i, err := range errs {
			if err != nil {
				w.Fatalf("submit %d: %v", i, err)
			}
		}
		if took := w.now() - at; took >= time.Second {
			w.Errorf("the gap was closed after %s: nobody asked for what was missing", took)
		}
		w.pass(5 * time.Second)
		if got := count(); got > 10*n {
			w.Errorf("%d letters were delivered to bring %d over a gap of one", got, n)
		}
	})
}
