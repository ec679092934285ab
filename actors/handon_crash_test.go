package actors_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP28P76CrashAtEveryPrefix fails when a crash at any commit between a claim of newer
// gates and the end of the runs leaves a run with no successor or two, loses a signal that
// was acknowledged, or leaves a slot taken.
func TestP28P76P24CrashAtEveryPrefix(t *testing.T) {
	for shard := range 2 {
		steps, whole := 0, false
		for ; !whole; steps++ {
			setup{shards: 2, manual: true}.play(t, func(w *world) {
				w.deployed(`"limit":{"key":"k","max":2},"lease_seconds":1`, `"limit":{"key":"r","max":1},"lease_seconds":1`)
				ids := w.stampedBy("1", 3, w.placed(shard))
				for _, id := range ids {
					w.signal(id, "x", `"before"`)
				}
				w.claimingAs(claimOf("sync", "2", 5, time.Second))
				w.settle()
				after := w.signalling(ids[1], "x", `"after"`, "")
				for range steps {
					if whole = !w.mem.CommitNext(); whole {
						break
					}
					w.settle()
				}
				acked := after.over() && after.err == nil
				w.crash(steps % 3)
				w.serves()
				<-after.done
				got := map[string][]string{}
				for range 40 {
					for _, g := range w.claimBy("sync", "2", 5) {
						got[g.RunID] = payloads(g.Signals)
						w.complete(g)
					}
					w.pass(200 * time.Millisecond)
				}
				w.lawfulChains()
				for i, id := range ids {
					r := w.status(id)
					if r.Status != "completed" {
						w.Fatalf("shard %d, %d commits: %s", shard, steps, w.whyText(id))
					}
					signals := got[r.RunID]
					if len(signals) == 0 || signals[0] != `"before"` || len(signals) > 2 || i == 1 && acked && len(signals) != 2 {
						w.Errorf("shard %d, %d commits, acknowledged %t: run %d started with %v", shard, steps, acked, i, signals)
					}
				}
				w.used("sync", w.keyIn(0, "sync", "k"), 0)
				w.used("sync", w.keyIn(shardID(shard), "sync", "r"), 0)
				w.sameAsReplay(w.moment())
			})
			if steps > 100 {
				t.Fatal("the story has no end")
			}
		}
		if steps < 4 {
			t.Errorf("only %d prefixes were tried", steps)
		}
	}
}

// deployer is traffic of one workflow whose gates change all the time, with signals and
// stops to the first ids of chains.
type deployer struct {
	w        *world
	rng      *rand.Rand
	number   uint64
	version  int
	runs     []flow.RunID
	sent     map[flow.RunID][]string // acknowledged payloads
	stopped  map[flow.RunID]bool
	granted  map[string][]string // payloads with which a run started
	draining bool                // no worker dies any more
}

// gates are what the versions of a deployer declare in turn.
var gates = []string{
	`"limit":{"key":"k","max":2}`, `"limit":{"key":"r","max":1}`, `"rate":{"key":"k","per_second":50}`, `"max_attempts":1`,
	`"limit":{"key":"k","max":1},"rate":{"key":"r","per_second":50}`, `"limit":{"key":"r","max":3},"rate":{"key":"k","per_second":20,"burst":3}`,
}

func (d *deployer) deploy() {
	d.version++
	text := fmt.Sprintf(`{"version":"%d",%s,"lease_seconds":1}`, d.version, gates[d.rng.IntN(len(gates))])
	d.insist(func() (any, error) { return d.w.Declare(d.w.life, "sync", d.w.declaration(text)) })
}

func (d *deployer) step() {
	w := d.w
	var id flow.RunID
	if len(d.runs) > 0 {
		id = d.runs[d.rng.IntN(len(d.runs))]
	}
	switch n := d.rng.IntN(20); {
	case n < 5 || id.IsZero():
		s := submitOf("sync", fmt.Sprintf(`{"k":"k%d","r":"r%d"}`, d.rng.IntN(2), d.rng.IntN(2)))
		s.Stamp = &wire.Stamp{Version: fmt.Sprint(1 + d.rng.IntN(d.version))}
		s.RequestID = fmt.Sprint("s", d.rng.Uint64())
		out, ok := d.insist(func() (any, error) {
			out, errs := w.Submit(w.life, []wire.Submit{s})
			return out[0], errs[0]
		})
		if ok {
			d.runs = append(d.runs, w.id(out.(wire.Submitted).RunID))
		}
	case n < 8:
		payload := fmt.Sprintf("%q", fmt.Sprint("p", d.rng.Uint64()))
		r := wire.SignalRequest{Name: "x", Payload: []byte(payload), RequestID: payload}
		if _, ok := d.insist(func() (any, error) { return w.Signal(w.life, id, r) }); ok {
			d.sent[id] = append(d.sent[id], payload)
		}
	case n < 9:
		out, ok := d.insist(func() (any, error) { return w.Cancel(w.life, id, "enough") })
		d.stopped[id] = d.stopped[id] || ok && out.(wire.Stopped).Status == "cancelled"
	case n < 10:
		d.deploy()
	case n < 13:
		d.work(w.claimingAs(claimOf("sync", fmt.Sprint(max(1, d.version-d.rng.IntN(3))), d.rng.IntN(3), time.Duration(d.rng.IntN(2))*10*time.Millisecond)))
	case n < 15:
		must(w, w.chaos.Step(w.Context()))
		w.settle()
	default:
		w.pass(time.Duration(d.rng.IntN(60)) * time.Millisecond)
	}
}

// insist asks until it is answered for sure, while owners come back and entries commit.
func (d *deployer) insist(f func() (any, error)) (v any, ok bool) {
	d.w.Helper()
	for {
		c := begin(f)
		for d.w.settle(); !c.over(); d.w.settle() {
			d.w.mem.CommitNext()
			select {
			case <-c.done:
			case <-time.After(5 * time.Millisecond):
			}
		}
		if passes(c.err) {
			must(d.w, d.w.chaos.Settle(d.w.Context()))
			continue
		}
		return c.value, c.err == nil
	}
}

// work ends what a claim is granted, or lets it expire.
func (d *deployer) work(c *call[[]wire.Grant]) {
	for d.w.settle(); !c.over(); d.w.settle() {
		d.w.mem.CommitNext()
		select {
		case <-c.done:
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, g := range c.value {
		d.granted[g.RunID] = payloads(g.Signals)
		if d.rng.IntN(5) == 0 && !d.draining {
			continue // its worker dies
		}
		d.insist(func() (any, error) {
			_, errs := d.w.Complete(d.w.life, []wire.Completion{{RunID: g.RunID, Fence: g.Fence}})
			return nil, errs[0]
		})
	}
}

// TestP28P76P78HandOnsOverChangingOwners fails when, while versions are deployed and owners
// change at random, a run has not exactly one successor at each hand-on, starts under its
// old gates after that, loses an acknowledged signal or gets one twice, or when a stop that
// was acknowledged doesn't hold.
func TestP28P76P78P80HandOnsOverChangingOwners(t *testing.T) {
	for number := range uint64(deployTrials) {
		setup{shards: 2, chaos: &number}.play(t, func(w *world) {
			d := &deployer{
				w: w, number: number, rng: rand.New(rand.NewPCG(number, 76)), sent: map[flow.RunID][]string{},
				stopped: map[flow.RunID]bool{}, granted: map[string][]string{},
			}
			d.deploy()
			for range 250 {
				d.step()
			}
			must(w, w.chaos.Settle(w.Context()))
			w.commit()
			d.deploy()
			d.draining = true
			for range 400 {
				must(w, w.chaos.Settle(w.Context()))
				d.work(w.claimingAs(claimOf("sync", fmt.Sprint(d.version), 20, 20*time.Millisecond)))
				if w.pass(50 * time.Millisecond); len(w.list(wire.ListQuery{Status: "queued"}))+len(w.list(wire.ListQuery{Status: "executing"})) == 0 {
					break
				}
			}
			w.pass(5 * time.Second)
			if n := w.lawfulChains(); n < 20 {
				w.Errorf("number %d: only %d hand-ons", number, n)
			}
			for _, id := range d.runs {
				d.ended(id)
			}
			d.signals()
			w.lawfulLog()
			w.sameAsReplay(w.moment())
		})
	}
}

// ended fails unless a run's chain has come to the end that was promised, and no body got a
// signal twice.
func (d *deployer) ended(id flow.RunID) {
	d.w.Helper()
	r := d.w.status(id)
	want := "completed"
	if d.stopped[id] {
		want = "cancelled"
	}
	if r.Status != want && (want == "cancelled" || r.Status != "cancelled") {
		d.w.Errorf("number %d: run %s is %s, want %s: %s", d.number, id, r.Status, want, d.w.whyText(id))
	}
	got := d.granted[r.RunID]
	for i, payload := range got {
		if slices.Contains(got[:i], payload) {
			d.w.Errorf("run %s got signal %s twice", id, payload)
		}
	}
}

// signals fails unless each signal that was acknowledged stands in the logs once.
func (d *deployer) signals() {
	d.w.Helper()
	times := map[string]int{}
	for s := range d.w.shards {
		all, _ := d.w.entries(shardID(s))
		for i := range all {
			for _, rec := range all[i].records {
				if rec.Kind == flow.RecSignalled {
					times[rec.RequestID]++
				}
			}
		}
	}
	for id, list := range d.sent {
		for _, request := range list {
			if times[request] != 1 {
				d.w.Errorf("signal %s to run %s was acknowledged and kept %d times", request, id, times[request])
			}
		}
	}
	if len(times) == 0 {
		d.w.Error("no signal was kept")
	}
}
