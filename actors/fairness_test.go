package actors_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// serves names workflows of version 1 for a claim.
func serves(workflows ...string) []wire.ClaimWorkflow {
	out := make([]wire.ClaimWorkflow, len(workflows))
	for i, name := range workflows {
		out[i] = wire.ClaimWorkflow{Name: name, Version: "1"}
	}
	return out
}

// TestP61ClaimsRotateOverKeys fails when a key with many runs makes others wait: of
// any k grants in a row, each of k keys that have work gets one.
func TestP61ClaimsRotateOverKeys(t *testing.T) {
	for _, credit := range []int{1, 3, 10} {
		play(t, func(w *world) {
			w.declare("sync", leased)
			w.submitAll(500, "sync", `{"k":"storm"}`)
			const keys = 20
			for i := range keys {
				w.submitAll(5, "sync", fmt.Sprintf(`{"k":"%d"}`, i))
			}
			granted := 0
			for granted < 2*(keys+1) {
				granted += len(w.claim("sync", "1", credit))
			}
			for i := range keys {
				if v := w.key("sync", fmt.Sprint(i)); v.Used == 0 {
					w.Errorf("credit %d: after %d grants key %d has none", credit, granted, i)
				}
			}
		})
	}
}

// TestP61ClaimsRotateOverWorkflows fails when a workflow that always has work keeps
// another from being served, whatever other claims come between.
func TestP61ClaimsRotateOverWorkflows(t *testing.T) {
	play(t, func(w *world) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.declare(name, leased)
			w.submitAll(40, name, `{"k":"x"}`)
		}
		got := map[string]int{}
		for range 20 {
			for _, pair := range [][]string{{"a", "b"}, {"c", "d"}} {
				c := wire.Claim{Workflows: serves(pair...), Credit: 1}
				for _, g := range await(w, w.claimingAs(pair[0], c)) {
					got[g.Workflow]++
				}
			}
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if got[name] < 5 {
				w.Errorf("40 grants to claims of two workflows each: %v", got)
			}
		}
	})
}

// TestS42S56ThrottledHeadHoldsNobodyElse fails when runs of a key without a token, or
// of a workflow without one, use credit up or hold others back; or when a waiting
// claim isn't woken at the earliest opening.
func TestS42S56ThrottledHeadHoldsNobodyElse(t *testing.T) {
	play(t, func(w *world) {
		const slow = `{"version":"1","rate":{"key":"k","per_second":%s,"burst":1}}`
		w.declare("sync", fmt.Sprintf(slow, "0.0166"))
		w.declare("b", fmt.Sprintf(slow, "0.05"))
		w.submitAll(101, "sync", `{"k":"k1"}`)
		w.claim("sync", "1", 1) // k1 has no token for a minute
		k2 := w.submit("sync", `{"k":"k2"}`)
		w.claimRun("sync", "1", k2)
		w.submitAll(2, "b", `{"k":"x"}`)
		both := wire.Claim{Workflows: serves("sync", "b"), Credit: 1}
		if g := await(w, w.claimingAs("w1", both)); len(g) != 1 || g[0].Workflow != "b" {
			w.Fatalf("granted %+v", g)
		}
		w.submitAll(5, "sync", `{"k":"k2"}`)
		begin := w.now()
		both.WaitMS = 60_000
		g := await(w, w.claimingAs("w1", both))
		if took := w.now() - begin; len(g) != 1 || g[0].Workflow != "b" || took < 19*time.Second || took > 21*time.Second {
			w.Errorf("after %s %+v was granted, want a run of b after 20 s", took, g)
		}
	})
}

// TestS81StartOnAnIdleNode fails when a run starts only with a second message or a
// tick: claim first, run first, and after the key was passivated.
func TestS81StartOnAnIdleNode(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		for range 3 {
			claim := w.claiming("sync", "1", 1, time.Minute)
			w.settle()
			at := w.now()
			a := w.submit("sync", `{"k":"a"}`)
			w.commit()
			if !claim.over() || w.now() != at || claim.value[0].RunID != a.String() {
				w.Fatalf("claim first: over %t after %s", claim.over(), w.now()-at)
			}
			w.complete(claim.value[0])
			b := w.submit("sync", `{"k":"a"}`)
			w.complete(w.claimRun("sync", "1", b))
			w.pass(time.Hour)
			if k := await(w, begin(func() (actorsStats, error) { return w.Stats(w.life) })).Keys(); k != 0 {
				w.Fatalf("%d keys are awake on an idle node", k)
			}
		}
	})
}

// TestS32TwoWorkersInOneInstant fails when two claims of one instant get more than the
// limit, or a run is granted twice or out of order.
func TestS32TwoWorkersInOneInstant(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(4, "sync", `{"k":"a"}`)
		for i := range ids {
			c := wire.Claim{Workflows: serves("sync"), Credit: 4}
			x, y := w.claimingAs("x", c), w.claimingAs("y", c)
			g := append(await(w, x), await(w, y)...)
			if len(g) != 1 || g[0].RunID != ids[i].String() {
				w.Fatalf("granted %s, want %s alone", names(g), ids[i])
			}
			if n := len(w.list(wire.ListQuery{Status: "queued"})); n != len(ids)-i-1 {
				w.Fatalf("%d runs are queued", n)
			}
			w.complete(g[0])
		}
	})
}

// TestR11ClaimNeverGetsMoreThanItsCredit fails when a claim gets more runs than it has
// credit for, a run twice, or none when there is one; over random traffic of claims
// that wait, don't wait and are withdrawn.
func TestR11ClaimNeverGetsMoreThanItsCredit(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 4}.play(t, func(w *world) {
			rng := rand.New(rand.NewPCG(number, 1))
			w.declare("sync", `{"version":"1","limit":{"key":"k","max":3}}`)
			w.declare("free", `{"version":"1"}`)
			type flying struct {
				call   *call[[]wire.Grant]
				credit int
			}
			var claims []flying
			submitted, seen := 0, map[string]bool{}
			collect := func() {
				open := claims[:0]
				for _, f := range claims {
					if !f.call.over() {
						open = append(open, f)
						continue
					}
					if f.call.err != nil || len(f.call.value) > f.credit {
						w.Fatalf("credit %d got %d runs: %v", f.credit, len(f.call.value), f.call.err)
					}
					for _, g := range f.call.value {
						if seen[g.RunID] {
							w.Fatalf("run %s was granted twice", g.RunID)
						}
						seen[g.RunID] = true
						w.complete(g)
					}
				}
				claims = open
			}
			for range 150 {
				switch rng.IntN(4) {
				case 0:
					n := 1 + rng.IntN(6)
					submitted += n
					w.submitAll(n, "sync", fmt.Sprintf(`{"k":"%d"}`, rng.IntN(4)))
				case 1:
					submitted++
					w.submit("free", `{}`)
				case 2:
					credit := 1 + rng.IntN(4)
					c := wire.Claim{Workflows: serves("sync", "free"), Credit: credit, WaitMS: int64(rng.IntN(3) * 50)}
					claims = append(claims, flying{w.claimingAs(fmt.Sprint("w", rng.IntN(3)), c), credit})
				default:
					w.pass(time.Duration(rng.IntN(30)) * time.Millisecond)
				}
				collect()
			}
			for i := 0; len(seen) < submitted; i++ {
				c := wire.Claim{Workflows: serves("sync", "free"), Credit: 5}
				claims = append(claims, flying{w.claimingAs("w0", c), 5})
				w.settle()
				collect()
				if i > submitted {
					w.Fatalf("%d of %d runs were granted, and no claim gets the rest", len(seen), submitted)
				}
			}
			w.settle()
			if lent := lentUnits(w); lent != 0 {
				w.Errorf("%d units of credit never came back", lent)
			}
		})
	}
}
