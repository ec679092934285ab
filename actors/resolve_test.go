package actors_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// byRegion is a limit whose key only the workflow's code can compute.
const byRegion = `"limit":{"key":{"function":"region"},"max":1},"lease_seconds":600`

// claimedBy is the whole answer to a claim of the worker of a version.
func (w *world) claimedBy(version string, credit int) wire.Claimed {
	w.Helper()
	worker, c := claimOf("sync", version, credit, 20*time.Millisecond)
	c.Worker = worker
	return await(w, begin(func() (wire.Claimed, error) { return w.Claim(w.life, c) }))
}

// candidate claims and fails unless just the one run is to be resolved.
func (w *world) candidate(version string, want flow.RunID) wire.Candidate {
	w.Helper()
	out := w.claimedBy(version, 5)
	if len(out.Resolve) != 1 || out.Resolve[0].RunID != want.String() || len(out.Runs) != 0 {
		w.Fatalf("claimed %s and %+v, want %s to resolve: %s", names(out.Runs), out.Resolve, want, w.whyText(want))
	}
	return out.Resolve[0]
}

// resolving answers candidates and doesn't wait.
func (w *world) resolving(list ...wire.Resolution) *call[wire.Resolved] {
	return begin(func() (wire.Resolved, error) {
		return w.Resolve(w.life, wire.Resolve{Worker: "worker of 2", Runs: list})
	})
}

// answerOf is a resolution of a candidate by the key of its limit.
func answerOf(c wire.Candidate, key string) wire.Resolution {
	return wire.Resolution{RunID: c.RunID, Version: c.Version, GatesHash: c.GatesHash, Keys: &wire.StampKeys{Limit: &key}}
}

// resolve answers a candidate and says whether the run was handed on.
func (w *world) resolve(r wire.Resolution) bool {
	w.Helper()
	out := await(w, w.resolving(r))
	if len(out.Runs) != 1 || out.Runs[0].RunID != r.RunID {
		w.Fatalf("resolved %+v, want run %s", out, r.RunID)
	}
	return out.Runs[0].HandedOn
}

// TestP82P20P27FunctionKeysAreResolvedByAWorker fails when a run goes on under newer gates by
// function without the key that the function gives, or starts under older ones while a
// worker computes it; with the successor in the same shard and in another.
func TestP82P20P27FunctionKeysAreResolvedByAWorker(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			def := func() wire.Declared {
				w.declare("sync", `{"version":"1","limit":{"key":"k","max":5}}`)
				return w.declare("sync", `{"version":"2",`+byRegion+`}`)
			}()
			params := w.placed(0)
			ids := w.stampedBy("1", 3, params)
			region := w.keyIn(shardID(shard), "sync", "region")
			for i, id := range ids {
				c := w.candidate("2", id)
				if c.Version != "2" || c.GatesHash != def.GatesHash || c.Workflow != "sync" || string(c.Params) != params {
					w.Fatalf("to resolve %+v", c)
				}
				if i == 0 { // then nothing else waits
					if g := w.claimBy("sync", "1", 5); len(g) != 0 {
						w.Fatalf("an older worker is granted %s meanwhile", names(g))
					}
				}
				if !w.resolve(answerOf(c, region)) {
					w.Fatal("not handed on")
				}
				w.handedOn(id, w.last(id))
				if w.resolve(answerOf(c, "other")) {
					w.Error("handed on twice")
				}
			}
			for _, id := range ids {
				g := w.claimOne("sync", "2")
				if g.RunID != w.last(id).String() || g.Key != region {
					w.Errorf("granted %s of %s, want %s of %s", g.RunID, g.Key, w.last(id), region)
				}
				w.used("sync", region, 1)
				w.complete(g)
			}
			w.used("sync", w.keyIn(0, "sync", "k"), 0)
			w.lawfulChains()
			w.sameAsReplay(w.moment())
		})
	}
}

// TestP82FunctionsAreComparedByLabelAndKey fails when a run whose function gives the same key
// under a newer version is handed on, or one whose key has changed isn't; or when a worker
// is asked again for what it has answered.
func TestP82P77FunctionsAreComparedByLabelAndKey(t *testing.T) {
	for key, differs := range map[string]bool{"eu": false, "us": true} {
		play(t, func(w *world) {
			w.deployed(byRegion, byRegion)
			s := submitOf("sync", `{"k":"a"}`)
			s.Stamp = &wire.Stamp{Version: "1", Keys: &wire.StampKeys{Limit: new("eu")}}
			id := w.id(await(w, w.submitting(s)).RunID)
			if got := w.resolve(answerOf(w.candidate("2", id), key)); got != differs {
				w.Errorf("by key %s it was handed on: %t", key, got)
			}
			w.pass(20 * time.Millisecond)
			out := w.claimedBy("2", 1)
			if len(out.Resolve) != 0 || len(out.Runs) != 1 || out.Runs[0].Key != key {
				w.Fatalf("claimed %+v and %+v", out.Runs, out.Resolve)
			}
			if got := w.last(id) != id; got != differs {
				w.Errorf("by key %s it is run %s", key, out.Runs[0].RunID)
			}
		})
	}
}

// TestP82ProblemLeavesTheRunUnderItsStamp fails when a run whose key can't be computed is
// lost, handed on, or asked for again and again; or when the operator isn't told why.
func TestP82P6ProblemLeavesTheRunUnderItsStamp(t *testing.T) {
	var log bytes.Buffer
	how := setup{shards: 2, logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, version := range []string{"1", "2"} {
		how.play(t, func(w *world) {
			w.deployed(`"limit":{"key":"k","max":1}`, byRegion)
			ids := w.stampedBy("1", 2, `{"k":"a"}`)
			for _, id := range ids {
				c := w.candidate("2", id)
				if w.resolve(wire.Resolution{RunID: c.RunID, Version: c.Version, GatesHash: c.GatesHash, Problem: "division by zero"}) {
					w.Error("handed on without a key")
				}
				out := w.claimedBy(version, 1)
				if len(out.Resolve) != 0 || len(out.Runs) != 1 || out.Runs[0].RunID != id.String() {
					w.Fatalf("a worker of %s is granted %s, and is to resolve %+v", version, names(out.Runs), out.Resolve)
				}
				w.used("sync", "a", 1)
				w.complete(out.Runs[0])
			}
		})
	}
	if n := strings.Count(log.String(), "division by zero"); n != 4 {
		t.Errorf("the operator is told %d times of 4 problems:\n%s", n, log.String())
	}
}

// TestP82WrongAnswersChangeNothing fails when an answer for a run, a version or a key that
// isn't right hands a run on, or is an error for those beside it.
func TestP82WrongAnswersChangeNothing(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.deployed(`"limit":{"key":"k","max":5}`, byRegion)
		w.declare("named", one)
		ended := w.stampedBy("1", 1, `{"k":"b"}`)[0]
		c := w.candidate("2", ended)
		w.cancel(ended)
		id := w.stampedBy("1", 1, `{"k":"a"}`)[0]
		good := answerOf(w.candidate("2", id), "eu")
		wrong := map[string]func(r *wire.Resolution){
			"no id":               func(r *wire.Resolution) { r.RunID = "run_nonsense" },
			"an unknown run":      func(r *wire.Resolution) { r.RunID = "run_00000000000000000000000001" },
			"an ended run":        func(r *wire.Resolution) { r.RunID = c.RunID },
			"an unknown version":  func(r *wire.Resolution) { r.Version = "9" },
			"unknown gates":       func(r *wire.Resolution) { r.GatesHash = "9" },
			"an older version":    func(r *wire.Resolution) { r.Version, r.GatesHash = "1", "" },
			"no key of the limit": func(r *wire.Resolution) { r.Keys = &wire.StampKeys{Rate: new("eu")} },
			"a key too long":      func(r *wire.Resolution) { r.Keys = &wire.StampKeys{Limit: new(string(fill(flow.MaxKeyBytes + 1)))} },
		}
		for name, change := range wrong {
			r := good
			change(&r)
			if w.resolve(r) {
				w.Errorf("%s: handed on", name)
			}
			w.stays(id)
		}
		bad := good
		bad.RunID = "run_nonsense"
		out := await(w, w.resolving(bad, good, bad))
		if out.Runs[0].HandedOn || !out.Runs[1].HandedOn || out.Runs[2].HandedOn {
			w.Errorf("one right answer of three: %+v", out.Runs)
		}
		w.handedOn(id, w.last(id))
		if n := w.lawfulChains(); n != 1 {
			w.Errorf("%d hand-ons", n)
		}
	})
}

// TestP82LateAnswers fails when an answer that comes after its run has started, ended or
// moved changes anything, or one that comes late is no answer while nothing has changed.
func TestP82P29LateAnswers(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world, id flow.RunID) (handsOn bool){
		"nothing happened":  func(*world, flow.RunID) bool { return true },
		"a minute passed":   func(w *world, _ flow.RunID) bool { w.pass(time.Minute); return true },
		"it was cancelled":  func(w *world, id flow.RunID) bool { w.cancel(id); return false },
		"it was terminated": func(w *world, id flow.RunID) bool { w.terminate(id); return false },
		"it has started": func(w *world, id flow.RunID) bool {
			w.pass(time.Minute) // the worker of version 2 is gone
			w.claimRun("sync", "1", id)
			return false
		},
		"it was handed on by name": func(w *world, id flow.RunID) bool {
			w.declare("sync", `{"version":"3","limit":{"key":"k","max":2}}`)
			w.keptAlive("sync", "3")
			w.handedOn(id, w.last(id))
			return false
		},
		"its owner has changed": func(w *world, _ flow.RunID) bool {
			for s := range 2 {
				must(w, w.chaos.Demote(w.Context(), shardID(s), 0))
				must(w, w.chaos.Settle(w.Context()))
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
				w.deployed(`"limit":{"key":"k","max":1}`, byRegion)
				id := w.stampedBy("1", 1, `{"k":"a"}`)[0]
				c := w.candidate("2", id)
				want := meanwhile(w, id)
				before := w.last(id)
				if got := w.resolve(answerOf(c, "eu")); got != want {
					w.Errorf("handed on: %t, want %t", got, want)
				}
				if after := w.last(id); (after != before) != want {
					w.Errorf("it was run %s before the answer, and is %s", before, after)
				}
				w.lawfulChains()
			})
		})
	}
}

// TestP82P6WorkerThatNeverAnswers fails when a worker that computes no keys keeps a run from
// older workers for ever, be it alive or gone, be there a rate or not.
func TestP82P6P30WorkerThatNeverAnswers(t *testing.T) {
	for name, gates := range map[string]string{
		"limit":          `"limit":{"key":"k","max":1}`,
		"limit and rate": `"limit":{"key":"k","max":5},"rate":{"key":"k","per_second":0.5,"burst":1}`,
	} {
		for _, alive := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", alive ", alive), func(t *testing.T) {
				play(t, func(w *world) {
					w.deployed(gates, byRegion)
					ids := w.stampedBy("1", 2, `{"k":"a"}`)
					if name != "limit" { // an empty bucket has its timer
						w.complete(w.claimRun("sync", "1", ids[0]))
						ids = ids[1:]
					}
					w.candidate("2", ids[0])
					if g := w.claimBy("sync", "1", 1); len(g) != 0 {
						w.Fatalf("granted %s at once", names(g))
					}
					older := w.claimingAs(claimOf("sync", "1", 1, 10*time.Minute))
					for range 60 {
						if w.pass(time.Second); alive {
							w.claimedBy("2", 1) // and it ignores what it is to resolve
						}
					}
					if !older.over() || len(older.value) != 1 || older.value[0].RunID != ids[0].String() {
						w.Errorf("after a minute the older worker has %t %s: %s", older.over(), names(older.value), w.whyText(ids[0]))
					}
				})
			})
		}
	}
}

// TestP82EveryRunIsAskedForOnce fails when a worker is asked for more runs than one answer
// may hold, for one run twice in the time that an answer has, or never for some.
func TestP82EveryRunIsAskedForOnce(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.deployed(`"limit":{"key":"k","max":1}`, byRegion)
		const runs = 100
		all := w.submitMany(runs, func(i int) wire.Submit {
			s := submitOf("sync", fmt.Sprintf(`{"k":"k%d"}`, i))
			s.Stamp = &wire.Stamp{Version: "1"}
			return s
		})
		asked := map[string]int{}
		for range 30 {
			out := w.claimedBy("2", 100)
			if len(out.Resolve) > 16 {
				w.Errorf("%d runs in one answer", len(out.Resolve))
			}
			for _, c := range out.Resolve {
				asked[c.RunID]++
			}
		}
		for _, id := range all {
			if n := asked[id.String()]; n != 1 {
				w.Errorf("run %s was asked for %d times", id, n)
			}
		}
	})
}

// TestP82CandidatesAreNoGrants fails when candidates come in the answer to a claim that has
// no room for them, use credit, or hold back a run of another key.
func TestP82R11CandidatesAreNoGrants(t *testing.T) {
	play(t, func(w *world) {
		w.deployed(`"limit":{"key":"k","max":1}`, byRegion)
		id := w.stampedBy("1", 1, `{"k":"a"}`)[0]
		worker, c := claimOf("sync", "2", 1, 20*time.Millisecond)
		c.Worker, c.Plain = worker, true
		out := await(w, begin(func() (wire.Claimed, error) { return w.Claim(w.life, c) }))
		if len(out.Resolve) != 0 || len(out.Runs) != 0 {
			w.Errorf("a claim inside an ending is answered %+v", out)
		}
		s := submitOf("sync", `{"k":"b"}`)
		s.Stamp = &wire.Stamp{Version: "2", Keys: &wire.StampKeys{Limit: new("us")}}
		mine := await(w, w.submitting(s)).RunID
		found := 0
		for range 3 {
			out := w.claimedBy("2", 1)
			for _, g := range out.Runs {
				if found++; g.RunID != mine {
					w.Errorf("granted %s", g.RunID)
				}
			}
		}
		if found != 1 {
			w.Errorf("its own run was granted %d times", found)
		}
		w.is(id, "queued")
		if lent := lentUnits(w); lent != 0 {
			w.Errorf("%d units of credit are lent", lent)
		}
		must(w, actors.Check(w.Context(), w.Node))
	})
}
