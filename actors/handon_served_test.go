package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestR16BlockedHeadsAreHandedOnWithoutCredit fails when the head of a full or an empty key
// stays under old gates while a worker of newer ones lives, when that costs credit, or
// when anything but the head is handed on.
func TestR16BlockedHeadsAreHandedOnWithoutCredit(t *testing.T) {
	for name, gate := range map[string]string{
		"limit": `"limit":{"key":"k","max":1},"lease_seconds":600,"max_attempts":%d`,
		"rate":  `"rate":{"key":"k","per_second":0.001,"burst":1},"lease_seconds":600,"max_attempts":%d`,
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				other := map[string]string{"limit": `"limit":{"key":"k","max":2}`, "rate": `"rate":{"key":"k","per_second":0.002,"burst":1}`}[name]
				w.deployed(fmt.Sprintf(gate, 1), other)
				ids := w.stampedBy("1", 4, w.placed(0))
				w.claimAs("sync", "1", 1)
				if r := w.status(ids[1]); r.Wait.Reason != name {
					w.Fatalf("the next one waits for %+v", r.Wait)
				}
				before := w.now()
				w.keptAlive("sync", "2")
				w.handedOn(ids[1], w.last(ids[1]))
				if w.now()-before > 50*time.Millisecond {
					w.Errorf("it took %s", w.now()-before)
				}
				w.stays(ids[0])
				if name == "rate" { // with the limit of 2 the next head is admitted below
					w.stays(ids[2])
					w.stays(ids[3])
				}
				if lent := lentUnits(w); lent != 0 {
					w.Errorf("%d units of credit are lent", lent)
				}
			})
		})
	}
}

// TestR16AnnouncedGatesReachEveryKey fails when a key that nobody touches keeps its head
// under old gates after a worker of newer ones was first heard of.
func TestR16AnnouncedGatesReachEveryKey(t *testing.T) {
	const keys = 3000 // more than one look over the keys takes
	setup{shards: 2}.play(t, func(w *world) {
		w.limited("1", 1)
		w.submitMany(2*keys, func(i int) wire.Submit { return submitOf("sync", fmt.Sprintf(`{"k":"k%d"}`, i/2)) })
		w.submitMany(100, func(i int) wire.Submit { return submitOf("idle", fmt.Sprintf(`{"k":"k%d"}`, i)) })
		for n := 0; n < keys; {
			g := w.claimBy("sync", "1", keys)
			if n += len(g); len(g) == 0 {
				w.Fatalf("%d of %d keys have a holder", n, keys)
			}
		}
		w.limited("2", 1) // the same gates: nothing is to be done
		w.keptAlive("sync", "2")
		if n := w.countAll(flow.RecContinued); n != 0 {
			w.Errorf("%d hand-ons to equal gates", n)
		}
		w.limited("3", 2)
		if w.pass(time.Second); w.countAll(flow.RecContinued) != 0 {
			w.Error("handed on to gates that no worker serves")
		}
		w.keptAlive("sync", "3")
		w.pass(time.Second)
		if n := w.countAll(flow.RecContinued); n != keys {
			w.Errorf("%d of %d heads were handed on", n, keys)
		}
		for s := range w.shards {
			w.handOnsInATurn(shardID(s), 64)
		}
		w.bounded()
		w.check()
	})
}

// handOnsInATurn fails if any entry of a shard holds more hand-ons, or no entry holds so
// many: then the bound wasn't reached.
func (w *world) handOnsInATurn(s engine.ShardID, most int) {
	w.Helper()
	all, _ := w.entries(s)
	greatest := 0
	for i := range all {
		greatest = max(greatest, countKind(all[i:i+1], flow.RecContinued))
	}
	if greatest != most {
		w.Errorf("the entry of shard %d with the most hand-ons has %d of them, want %d", s, greatest, most)
	}
}

// TestR16HandOnsOfATurnAreBounded fails when one key, or one claim, makes an entry with more
// than 64 hand-ons, or the rest waits for another message to come.
func TestR16R5HandOnsOfATurnAreBounded(t *testing.T) {
	for name, now := range map[string]string{
		"a claim of one key":     `"limit":{"key":"r","max":1000}`, // each leaves its key, and the next is the head
		"gates that nobody has":  `"max_attempts":1`,
		"blocked behind another": `"limit":{"key":"r","max":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				w.deployed(`"limit":{"key":"k","max":1},"rate":{"key":"r","per_second":0.001}`, now)
				const runs = 500
				params := w.placed(1)
				w.submitMany(runs, func(int) wire.Submit {
					s := submitOf("sync", params)
					s.Stamp = &wire.Stamp{Version: "1"}
					return s
				})
				w.keptAlive("sync", "2")
				w.pass(100 * time.Millisecond)
				if n := w.lawfulChains(); n != runs {
					w.Errorf("%d of %d runs were handed on", n, runs)
				}
				w.handOnsInATurn(0, 64)
				w.bounded()
				w.sameAsReplay(w.moment())
			})
		})
	}
}

// TestR16R5HandOnsOfLargeRunsAreBoundedInBytes fails when the successors of large runs, with
// all the signals that such a run may keep, make an entry that the engine refuses.
func TestR16R5HandOnsOfLargeRunsAreBoundedInBytes(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			w.deployed(`"limit":{"key":"k","max":1}`, `"limit":{"key":"r","max":9}`)
			k, r := w.keyIn(0, "sync", "k"), w.keyIn(shardID(shard), "sync", "r")
			filler := func(n int) string { return string(fill(n)) }
			params := fmt.Sprintf(`{"k":%q,"r":%q,"x":%q}`, k, r, filler(flow.MaxPayloadBytes-100))
			ids := w.stampedBy("1", 3, params)
			small := w.stampedBy("1", 6, fmt.Sprintf(`{"k":%q,"r":%q}`, k, r))
			for _, id := range append(ids, small...) {
				w.signal(id, "x", quote(filler(500<<10)))
			}
			w.keptAlive("sync", "2")
			w.pass(100 * time.Millisecond)
			if n := w.lawfulChains(); n != len(ids)+len(small) {
				w.Errorf("%d hand-ons", n)
			}
			w.bounded()
			for range len(ids) + len(small) {
				g := w.claimOne("sync", "2")
				if len(g.Signals) != 1 || len(g.Signals[0].Payload) != 500<<10+2 {
					w.Errorf("run %s has %d signals", g.RunID, len(g.Signals))
				}
				w.complete(g)
			}
		})
	}
}

func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// TestR16LivenessEnds30sAfterTheLastWord fails when heads are handed on to the gates of a
// worker that was last heard of more than 30 s ago, or are not within that time.
func TestR16LivenessEnds30sAfterTheLastWord(t *testing.T) {
	for name, word := range map[string]func(w *world, g wire.Grant){
		"claim": func(w *world, _ wire.Grant) { w.keptAlive("sync", "2") },
		"heartbeat": func(w *world, g wire.Grant) {
			h := wire.Heartbeat{Worker: "worker of 2", Runs: []wire.Beat{{RunID: g.RunID, Fence: g.Fence}}}
			await(w, begin(func() (wire.HeartbeatResult, error) { return w.Heartbeat(w.life, h) }))
		},
	} {
		// The word comes so long after the worker's first one.
		for _, since := range []time.Duration{0, 9 * time.Second, 15 * time.Second, 29 * time.Second} {
			t.Run(fmt.Sprint(name, " after ", since), func(t *testing.T) {
				play(t, func(w *world) {
					w.limited("1", 1)
					w.limited("2", 2)
					w.declare("other", leased)
					mine := w.claimRun("other", "1", w.submit("other", `{"k":"a"}`))
					w.keptAlive("sync", "2")
					w.pass(since)
					word(w, mine)
					w.pass(aliveFor - time.Second)
					id := w.stampedBy("1", 1, `{"k":"a"}`)[0]
					if w.settle(); w.last(id) == id {
						w.Errorf("29 s after its last word a worker isn't alive")
					}
					w.pass(2 * time.Second)
					id = w.stampedBy("1", 1, `{"k":"b"}`)[0]
					if w.settle(); w.last(id) != id {
						w.Errorf("31 s after its last word a worker is alive")
					}
				})
			})
		}
	}
}

// TestR16NewOwnerHearsWhoIsServed fails when a shard that has changed its owner doesn't know
// what live workers serve.
func TestR16NewOwnerHearsWhoIsServed(t *testing.T) {
	setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
		w.limited("1", 1)
		w.limited("2", 2)
		w.keptAlive("sync", "2")
		for s := range 2 {
			must(w, w.chaos.Demote(w.Context(), shardID(s), 0))
			must(w, w.chaos.Settle(w.Context()))
			w.commit()
		}
		for s := range 2 {
			id := w.stampedBy("1", 1, fmt.Sprintf(`{"k":%q}`, w.keyIn(shardID(s), "sync", "k")))[0]
			w.pass(20 * time.Millisecond)
			w.handedOn(id, w.last(id))
		}
	})
}

// TestR16S55RunsUnderWayAreHandedOnToo fails when a run whose token was asked for under an
// old rate waits for that token while a worker of a newer rate lives.
func TestR16S55RunsUnderWayAreHandedOnToo(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			w.deployed(`"limit":{"key":"k","max":100},"rate":{"key":"r","per_second":0.001,"burst":1}`,
				`"limit":{"key":"k","max":100},"rate":{"key":"r","per_second":50,"burst":60000}`) // so many that the older rate's debt counts for little
			ids := w.stampedBy("1", 20, w.placed(shard))
			w.claimAs("sync", "1", 1)
			w.claimBy("sync", "1", 20) // the others ask for their tokens, which come in 1,000 s and later
			started, before := 1, w.now()
			for w.now()-before < 2*time.Second {
				started += len(w.claimBy("sync", "2", 100))
			}
			if started != len(ids) {
				w.Errorf("shard %d: with 50 starts a second %d of %d runs start within two seconds: %s", shard, started, len(ids), w.whyText(ids[len(ids)-1]))
			}
		})
	}
}
