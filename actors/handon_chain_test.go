package actors_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP78EqualWorkersDontPassARunToAndFro fails when two workers whose declarations of one
// version differ hand a run on more than once.
func TestP78EqualWorkersDontPassARunToAndFro(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		hashes := []string{w.limited("1", 2).GatesHash, w.limited("1", 3).GatesHash}
		ids := w.stampedBy("1", 7, w.placed(0))
		for i := range 20 {
			c := wire.Claim{Workflows: []wire.ClaimWorkflow{{Name: "sync", Version: "1", GatesHash: hashes[i%2]}}, Credit: 5}
			await(w, w.claimingAs(fmt.Sprint("equal ", i%2), c))
			w.pass(time.Second)
			await(w, w.beatingAll())
		}
		if v := w.key("sync", w.keyIn(0, "sync", "k")); v.Used > 3 {
			w.Errorf("%d slots are used", v.Used)
		}
		for _, id := range ids {
			if c := w.chainOf(id); len(c) > 2 {
				w.Errorf("run %s went on to %v", id, c[1:])
			}
		}
		w.lawfulChains()
	})
}

// TestP78WarnsOfTheRunThatStays fails when the operator isn't told, once, of both sets of
// gates when a successor meets other gates of its own rank.
func TestP78WarnsOfTheRunThatStays(t *testing.T) {
	var log bytes.Buffer
	how := setup{shards: 2, logger: slog.New(slog.NewTextHandler(&log, nil))}
	how.play(t, func(w *world) {
		old, now := w.limited("1", 1), w.limited("1", 2)
		claim := func(d wire.Declared, worker string) []wire.Grant {
			w.Helper()
			c := wire.Claim{Workflows: []wire.ClaimWorkflow{{Name: "sync", Version: "1", GatesHash: d.GatesHash}}, Credit: 1, WaitMS: 20}
			return await(w, w.claimingAs(worker, c))
		}
		ids := w.stampedBy("1", 2, w.placed(0)) // the later gates
		if g := claim(now, "b"); len(g) != 1 {
			w.Fatalf("the later gates are granted %s", names(g))
		}
		if g := claim(old, "a"); len(g) != 0 {
			w.Fatalf("the older gates are granted %s", names(g))
		}
		moved := w.last(ids[1])
		w.handedOn(ids[1], moved)
		for range 5 {
			claim(now, "b")
			claim(old, "a")
			await(w, w.beatingAll())
			w.pass(time.Second)
		}
		if got := w.last(ids[1]); got != moved {
			w.Errorf("a successor went on to %s under equal rank", got)
		}
	})
	n := strings.Count(log.String(), "equal rank")
	if n != 1 || !strings.Contains(log.String(), "limit 1 by k") || !strings.Contains(log.String(), "limit 2 by k") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%d warnings of one pair of gates:\n%s", n, log.String())
	}
}

// beatingAll renews the leases of all runs that execute.
func (w *world) beatingAll() *call[[]wire.BeatResult] {
	w.Helper()
	var held []wire.Grant
	for _, r := range w.list(wire.ListQuery{Status: "executing", Limit: 500}) {
		id := w.id(r.RunID)
		all := w.events(id)
		for _, e := range slices.Backward(all) {
			if e.Type == flow.EventClaimed {
				held = append(held, wire.Grant{RunID: r.RunID, Fence: e.Fence})
				break
			}
		}
	}
	return w.beating(held...)
}

// TestP78P79SuccessorsMoveStrictlyForward fails when a successor goes on to a version that
// isn't newer than the one that stamped it, when it doesn't go on to one that is, or when
// the ids of a chain don't lead to its end.
func TestP78P79P32SuccessorsMoveStrictlyForward(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			for v := 1; v <= 5; v++ {
				key := []string{"k", "r"}[v%2]
				w.declare("sync", fmt.Sprintf(`{"version":"%d","limit":{"key":%q,"max":%d},"lease_seconds":600}`, v, key, v))
			}
			id := w.stampedBy("2", 1, w.placed(shard))[0]
			w.signal(id, "first", `1`)
			at := func(version string, runs int) {
				w.Helper()
				w.keptAlive("sync", version)
				w.pass(2 * aliveFor) // nobody else is alive by then
				if c := w.chainOf(id); len(c) != runs {
					w.Fatalf("after a worker of %s the chain is %v", version, c)
				}
			}
			at("1", 1)
			at("2", 1)
			at("4", 2)
			at("3", 2)
			at("4", 2)
			at("2", 2)
			at("5", 3)
			at("4", 3)
			chain := w.chainOf(id)
			w.handedOnVia(chain[0], chain[1], chain[2])
			g := w.claimOne("sync", "1")
			if g.RunID != chain[2].String() || fmt.Sprint(payloads(g.Signals)) != "[1]" {
				w.Errorf("granted %s with %v, want %s", g.RunID, payloads(g.Signals), chain[2])
			}
			w.complete(g)
			for _, c := range chain {
				r := w.status(c)
				if r.RunID != chain[2].String() || r.Status != "completed" || string(r.Result) != `"done"` {
					w.Errorf("asked for %s: %s is %s with %s", c, r.RunID, r.Status, r.Result)
				}
			}
			w.lawfulChains()
		})
	}
}

// aliveFor is how long a worker counts as alive after it was last heard of.
const aliveFor = 30 * time.Second

// TestP83P78VersionsWithoutAnOrderEndSomewhere fails when a run goes round for ever among
// versions of which each seems newer than another: numbers and names have no order together.
func TestP83P78VersionsWithoutAnOrderEndSomewhere(t *testing.T) {
	play(t, func(w *world) {
		for i, v := range []string{"2", "beta", "1"} {
			w.limited(v, i+1)
		}
		w.submitAll(1, "sync", `{"k":"a"}`)
		w.claimAs("sync", "1", 1) // a slot is taken for good
		ids := w.stampedBy("2", 3, `{"k":"a"}`)
		for i := range 60 {
			w.keptAlive("sync", []string{"2", "beta", "1"}[i%3])
			w.pass(2 * aliveFor)
		}
		for _, id := range ids {
			if c := w.chainOf(id); len(c) > 3 {
				w.Errorf("run %s went on %d times among three versions", id, len(c)-1)
			}
		}
	})
}

// claimAs claims as the worker of a version and fails unless it is granted so many runs.
func (w *world) claimAs(workflow, version string, n int) []wire.Grant {
	w.Helper()
	g := w.claimBy(workflow, version, n)
	if len(g) != n {
		w.Fatalf("a worker of %s is granted %s, want %d runs", version, names(g), n)
	}
	return g
}

// TestP76P7PlaceIsKept fails when a successor starts behind runs that were submitted after
// the original: those of its old key, and those of its new one that never moved.
func TestP76P7PlaceIsKept(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			w.deployed(`"limit":{"key":"k","max":1},"lease_seconds":600`, `"limit":{"key":"r","max":1},"lease_seconds":600`)
			params := w.placed(shard)
			var order []string // what is to start, in order
			for i := range 12 {
				id := w.stampedBy([]string{"1", "2"}[i%2], 1, params)[0]
				order = append(order, id.String())
			}
			w.keptAlive("sync", "2")
			w.pass(20 * time.Millisecond)
			for i, want := range order {
				g := w.claimOne("sync", "2")
				if last := w.last(w.id(want)); g.RunID != last.String() {
					w.Fatalf("start %d is of %s, want %s, the successor of %s", i, g.RunID, last, want)
				}
				w.complete(g)
			}
			if n := w.lawfulChains(); n != 6 {
				w.Errorf("%d hand-ons", n)
			}
		})
	}
}

// TestP76R3TokenOfATwoKeyRunIsReturned fails when a run whose token is asked for, on its way,
// or there, is handed on and the token is lost with it, or a want of it stays behind; for
// every moment of the way.
func TestP76R3TokenOfATwoKeyRunIsReturned(t *testing.T) {
	const gates = `"limit":{"key":"k","max":%d},"rate":{"key":"r","per_second":1,"burst":2},"lease_seconds":600`
	for cut := range 10 {
		setup{shards: 2, manual: true}.play(t, func(w *world) {
			w.deployed(fmt.Sprintf(gates, 5), fmt.Sprintf(gates, 4))
			ids := w.stampedBy("1", 4, w.placed(1))
			claim := w.claimingAs(claimOf("sync", "1", 4, 10*time.Millisecond))
			w.settle()
			for range cut {
				w.mem.CommitNext()
				w.settle()
			}
			second := w.claimingAs(claimOf("sync", "2", 4, 10*time.Second))
			w.settle()
			started := len(await(w, claim)) + len(await(w, second))
			for range 30 {
				started += len(w.claimBy("sync", "2", 4))
				w.pass(200 * time.Millisecond)
			}
			if started != len(ids) {
				w.Errorf("cut %d: %d of %d runs have started", cut, started, len(ids))
			}
			within(w, w.starts(), 1, 2)
			w.pass(3 * time.Second)
			if v := w.key("sync", w.keyIn(1, "sync", "r")); v.Queued != 0 || v.Rate.Tokens != 2 {
				w.Errorf("cut %d: the rate's key is left with %d wants and %d tokens", cut, v.Queued, v.Rate.Tokens)
			}
			w.lawfulChains()
		})
	}
}
