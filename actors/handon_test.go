package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// deploys are pairs of declarations of one workflow: those who wait under the first, and
// what a worker of the second makes of them.
var deploys = map[string]struct {
	old, now string // the gates
	differ   bool
}{
	"a lower limit":            {`"limit":{"key":"k","max":5}`, `"limit":{"key":"k","max":1}`, true},
	"a higher limit":           {`"limit":{"key":"k","max":1}`, `"limit":{"key":"k","max":5}`, true},
	"another rate":             {`"rate":{"key":"k","per_second":100,"burst":5}`, `"rate":{"key":"k","per_second":200,"burst":5}`, true},
	"another burst":            {`"rate":{"key":"k","per_second":100,"burst":5}`, `"rate":{"key":"k","per_second":100,"burst":6}`, true},
	"another key":              {`"limit":{"key":"k","max":2}`, `"limit":{"key":"r","max":2}`, true},
	"a rate by another key":    {`"rate":{"key":"k","per_second":100}`, `"rate":{"key":"r","per_second":100}`, true},
	"a first limit":            {`"max_attempts":3`, `"limit":{"key":"k","max":2}`, true},
	"a first rate":             {`"max_attempts":3`, `"rate":{"key":"r","per_second":100}`, true},
	"a limit removed":          {`"limit":{"key":"k","max":1}`, `"max_attempts":3`, true},
	"a rate removed":           {`"rate":{"key":"r","per_second":100}`, `"max_attempts":3`, true},
	"a rate beside the limit":  {`"limit":{"key":"k","max":2}`, `"limit":{"key":"k","max":2},"rate":{"key":"r","per_second":100}`, true},
	"a rate less":              {`"limit":{"key":"k","max":2},"rate":{"key":"r","per_second":100}`, `"limit":{"key":"k","max":2}`, true},
	"both keys turned round":   {`"limit":{"key":"k","max":2},"rate":{"key":"r","per_second":100}`, `"limit":{"key":"r","max":2},"rate":{"key":"k","per_second":100}`, true},
	"the same gates":           {`"limit":{"key":"k","max":2},"rate":{"key":"r","per_second":100}`, `"limit":{"key":"k","max":2},"rate":{"key":"r","per_second":100}`, false},
	"the same in other words":  {`"rate":{"key":"k","per_second":100}`, `"rate":{"key":"k","per_second":100,"burst":100}`, false},
	"the same and what else":   {`"limit":{"key":"k","max":2},"max_attempts":1`, `"limit":{"key":"k","max":2},"max_attempts":7,"lease_seconds":99`, false},
	"no gates and none either": {`"max_attempts":1`, `"max_attempts":2`, false},
}

// deployed declares the two versions.
func (w *world) deployed(old, now string) {
	w.Helper()
	w.declare("sync", `{"version":"1",`+old+`}`)
	w.declare("sync", `{"version":"2",`+now+`}`)
}

// placed are params whose k lives in shard 0 and whose r in another or the same.
func (w *world) placed(r int) string {
	return fmt.Sprintf(`{"k":%q,"r":%q}`, w.keyIn(0, "sync", "k"), w.keyIn(shardID(r), "sync", "r"))
}

// stampedBy makes n runs under the gates of a version of "sync", which needn't be the last.
func (w *world) stampedBy(version string, n int, params string) []flow.RunID {
	w.Helper()
	ids := make([]flow.RunID, n)
	for i := range ids {
		s := submitOf("sync", params)
		s.Stamp = &wire.Stamp{Version: version}
		ids[i] = w.id(await(w, w.submitting(s)).RunID)
		w.pass(time.Millisecond) // runs without gates live in different shards
	}
	return ids
}

// TestP27P28P24P25P23P26P77HandOn fails when a worker of a newer version with other gates
// runs what waits under the old ones, or one with equal gates hands it on; when a run gets
// no successor, two, or one that lacks something; or when the order is lost.
func TestP27P28P24P25P23P26P77HandOn(t *testing.T) {
	for name, d := range deploys {
		for shard := range 2 {
			t.Run(fmt.Sprint(name, " in shard ", shard), func(t *testing.T) {
				setup{shards: 2}.play(t, func(w *world) {
					w.deployed(d.old, d.now)
					ids := w.stampedBy("1", 5, w.placed(shard))
					like := w.stampedBy("2", 1, w.placed(shard))[0] // gates as they will be
					w.keptAlive("sync", "2")
					w.pass(20 * time.Millisecond) // successors reach their shards
					var order []string
					for len(order) <= len(ids) {
						g := w.claimOne("sync", "2")
						order = append(order, g.RunID)
						w.complete(g)
					}
					want, gates := []string{}, w.status(like).Gates
					for _, id := range ids {
						last := w.last(id)
						want = append(want, last.String())
						if !d.differ {
							w.stays(id)
							continue
						}
						w.handedOn(id, last)
						if r := w.status(id); r.StampedVersion != "2" || cmp.Diff(gates, r.Gates) != "" {
							w.Errorf("it ran under %s %+v, want %+v", r.StampedVersion, r.Gates, gates)
						}
					}
					if gated := len(w.status(ids[0]).Gates) > 0; gated { // runs without a key have no order
						if diff := cmp.Diff(append(want, like.String()), order); diff != "" {
							w.Errorf("the order of the starts (-want +got):\n%s", diff)
						}
					}
					if n := w.lawfulChains(); n != map[bool]int{true: len(ids)}[d.differ] {
						w.Errorf("%d hand-ons", n)
					}
					w.sameAsReplay(w.moment())
				})
			})
		}
	}
}

// TestP30P17OlderWorkerRunsUnderTheStamp fails when a worker of an older version hands a
// run on, or lets it pass gates that its own version doesn't have.
func TestP30P17OlderWorkerRunsUnderTheStamp(t *testing.T) {
	for name, d := range deploys {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				w.deployed(d.old, d.now)
				ids := w.stampedBy("2", 3, w.placed(1))
				gates := w.status(ids[0]).Gates
				for range ids {
					g := w.claimOne("sync", "1")
					if r := w.status(w.id(g.RunID)); r.StampedVersion != "2" || cmp.Diff(gates, r.Gates) != "" || g.Version != "1" {
						w.Errorf("a worker of %s runs it under %s %+v", g.Version, r.StampedVersion, r.Gates)
					}
					w.complete(g)
				}
				for _, id := range ids {
					w.stays(id)
					w.is(id, "completed")
				}
			})
		})
	}
	play(t, func(w *world) { // the newer limit holds at the older worker
		w.limited("1", 100)
		w.limited("2", 1)
		ids := w.submitAll(3, "sync", `{"k":"a"}`)
		if g := w.claimBy("sync", "1", 3); len(g) != 1 || g[0].RunID != ids[0].String() {
			w.Errorf("an older worker is granted %s", names(g))
		}
		w.used("sync", "a", 1)
	})
}

// TestD5_3OldAndNewWorkerOverTightenedGates fails when, while workers of both versions
// claim, more bodies are at work than the newer limit, or a run goes to and fro.
func TestD5_3OldAndNewWorkerOverTightenedGates(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.limited("1", 3)
		ids := w.submitAll(40, "sync", w.placed(0))
		w.limited("2", 1)
		w.keptAlive("sync", "2")
		var held []wire.Grant
		for i := 0; i < 200 && w.countAll(flow.RecCompleted) < len(ids); i++ {
			for _, v := range []string{"1", "2"} {
				g := w.claimBy("sync", v, 2)
				if held = append(held, g...); len(held) > 1 {
					w.Fatalf("%d bodies are at work after a claim of version %s", len(held), v)
				}
			}
			if len(held) > 0 {
				w.complete(held[0])
				held = held[1:]
			}
		}
		for _, id := range ids {
			if c := w.chainOf(id); len(c) != 2 {
				w.Errorf("run %s has %d successors", id, len(c)-1)
			}
			w.is(id, "completed")
		}
		w.lawfulChains()
	})
}

// TestP31P65NeverHandedOn fails when a run that was made to run under just its stamp is
// handed on, however many newer workers come.
func TestP31P65NeverHandedOn(t *testing.T) {
	play(t, func(w *world) {
		w.limited("1", 1)
		var ids []string
		for _, trigger := range []string{"case", "replay", "eval"} {
			s := submitOf("sync", `{"k":"a"}`)
			s.Trigger = trigger
			ids = append(ids, await(w, w.submitting(s)).RunID)
		}
		failed := w.submit("sync", `{"k":"b"}`)
		await(w, w.failing(w.claimOneOf("sync", "1", failed, 4), false))
		retry := w.retry(failed)
		ids = append(ids, retry.RunID)
		if src := w.status(w.id(retry.RunID)).Provenance.Source; src.Trigger != "retry_by_name" || src.RetryOf == nil || *src.RetryOf != failed.String() {
			w.Errorf("the retry comes from %+v", src)
		}
		w.limited("2", 7)
		w.limited("3", 9)
		for len(ids) > 0 {
			g := w.claimBy("sync", []string{"2", "3"}[len(ids)%2], 9)
			if len(g) == 0 {
				w.Fatalf("%s are never granted", ids)
			}
			for _, g := range g {
				w.stays(w.id(g.RunID))
				if r := w.status(w.id(g.RunID)); r.Gates[0].Max != 1 || r.StampedVersion != "1" {
					w.Errorf("run %s of %s has %+v", g.RunID, r.Provenance.Source.Trigger, r.Gates)
				}
				w.used("sync", g.Key, 1) // one at a time, under the stamp
				w.complete(g)
				ids = without(ids, g.RunID)
			}
		}
		if n := w.countAll(flow.RecContinued); n != 0 {
			w.Errorf("%d hand-ons", n)
		}
	})
}

// TestP29StartedRunsKeepTheirGates fails when a run whose body has started is handed on
// while it is queued again, whatever brought it back.
func TestP29StartedRunsKeepTheirGates(t *testing.T) {
	for name, back := range map[string]func(w *world, g wire.Grant){
		"suspended": func(w *world, g wire.Grant) {
			await(w, w.suspending(g, w.clock.Wall().Add(flow.Second)))
			w.pass(2 * time.Second)
		},
		"handed back":     func(w *world, g wire.Grant) { w.giveBack(g) },
		"expired":         func(w *world, _ wire.Grant) { w.pass(expiry + time.Second) },
		"tried again":     func(w *world, g wire.Grant) { await(w, w.failing(g, true)); w.pass(2 * time.Second) },
		"woken by signal": func(w *world, g wire.Grant) { w.untilSignal(g, "x", 0); w.signal(w.id(g.RunID), "x", `1`) },
		"restarted": func(w *world, g wire.Grant) {
			w.giveBack(g)
			w.snapshots()
			w.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":10,"max_attempts":3}`)
				id := w.submit("sync", `{"k":"a"}`)
				g := w.claimOne("sync", "1")
				w.limited("2", 5)
				w.keptAlive("sync", "2")
				back(w, g)
				w.keptAlive("sync", "2")
				w.is(id, "queued")
				w.stays(id)
				g = w.claimOne("sync", "2")
				if r := w.status(id); g.RunID != id.String() || r.StampedVersion != "1" || r.Gates[0].Max != 1 {
					w.Errorf("granted %s under %s %+v", g.RunID, r.StampedVersion, r.Gates)
				}
				w.complete(g)
				w.used("sync", "a", 0)
			})
		})
	}
}

// without is a list without a text.
func without(list []string, text string) []string {
	out := []string{}
	for _, s := range list {
		if s != text {
			out = append(out, s)
		}
	}
	return out
}

// claimOneOf claims until a run is granted, and hands the others back.
func (w *world) claimOneOf(workflow, version string, want flow.RunID, credit int) (found wire.Grant) {
	w.Helper()
	for _, g := range w.claimBy(workflow, version, credit) {
		if g.RunID == want.String() {
			found = g
			continue
		}
		w.giveBack(g)
	}
	if found.RunID == "" {
		w.Fatalf("run %s is not granted: %s", want, w.whyText(want))
	}
	return found
}

// giveBack has a worker drain: the run takes its old place.
func (w *world) giveBack(g wire.Grant) {
	w.Helper()
	await(w, w.suspending(g, 1))
	w.pass(time.Millisecond)
}

// retry retries a run by hand.
func (w *world) retry(id flow.RunID) wire.Submitted {
	w.Helper()
	return await(w, begin(func() (wire.Submitted, error) { return w.Retry(w.life, id, wire.Retry{}) }))
}
