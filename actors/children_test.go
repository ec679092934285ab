package actors_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// byOne is a limit of one by k, with a long lease.
const byOne = `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":600,"max_attempts":5,"retry_backoff_seconds":1}`

// outcomes are how the runs of the last wait of a grant have ended, in text.
func outcomes(g wire.Grant) string {
	if len(g.Waits) == 0 {
		return "no wait is over"
	}
	text := ""
	for _, o := range g.Waits[len(g.Waits)-1].Outcomes {
		text += o.Status + string(o.Result)
		if o.Error != nil {
			text += o.Error.Type + o.Error.Message
		}
		text += ";"
	}
	return text
}

// TestP54ParentAndChildOfOneKey fails when a parent that waits for its child keeps the slot
// that the child needs, or starts before the child's end, with both in one shard and in two.
func TestP54S34ParentAndChildOfOneKey(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("sync", byOne)
			k, other := w.keyIn(0, "sync", "k"), w.keyIn(shardID(shard), "sync", "c")
			params := fmt.Sprintf(`{"k":%q}`, k)
			parent := w.submit("sync", params)
			younger := w.submit("sync", params)
			g := w.claimRun("sync", "1", parent)
			kids := w.children(g, "sync", params, fmt.Sprintf(`{"k":%q}`, other))
			if s := w.untilRuns(g, kids...); s != "suspended" {
				w.Fatalf("the parent is %s", s)
			}
			if y := w.status(parent); y.Wait.Reason != "child" || !slices.Equal(y.Wait.Runs, kids) {
				w.Errorf("the parent waits for %+v", y.Wait)
			}
			w.used("sync", k, 0)
			w.complete(w.claimOneOf("sync", "1", younger, 2)) // an older run of the key than the child
			for i, kid := range kids {
				c := w.claimOneOf("sync", "1", w.id(kid), 2)
				if src := w.status(w.id(kid)).Provenance.Source; src.Parent == nil || *src.Parent != parent.String() || src.Trigger != "child" {
					w.Errorf("child %d comes from %+v", i, src)
				}
				w.is(parent, "suspended")
				w.complete(c)
				w.pass(20 * time.Millisecond)
			}
			g = w.claimRun("sync", "1", parent)
			if got := outcomes(g); got != `completed"done";completed"done";` || g.Attempt != 1 {
				w.Errorf("the parent goes on with attempt %d and %s", g.Attempt, got)
			}
			if len(g.Children) != 1 || g.Children[0].Kind != "child" || g.Children[0].Step != "sync" || !slices.Equal(g.Children[0].Runs, kids) {
				w.Errorf("its children are %+v", g.Children)
			}
			w.complete(g)
			w.used("sync", k, 0)
			if n := w.count(parent, flow.EventResumed); n != 1 {
				w.Errorf("it woke %d times", n)
			}
			w.sameAsReplay(w.moment())
		})
	}
}

// TestR15S101ChildrenTwice fails when the same call of a body starts runs twice, answers other
// ids, or when another call is taken for it; with keys and without, at once and over a crash.
func TestR15S101Q6ChildrenTwice(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("sync", leased)
		parent := w.submit("sync", `{"k":"p"}`)
		g := w.claimRun("sync", "1", parent)
		known := await(w, w.submitting(keyedSubmit("sync", `{"k":"x"}`, "known"))).RunID
		c := wire.Children{Step: "fan out", Runs: []wire.ChildRun{
			{Workflow: "sync", Params: json.RawMessage(`{"k":"a"}`)},
			{Workflow: "sync", Params: json.RawMessage(`{"k":"b"}`), IdempotencyKey: new("new")},
			{Workflow: "sync", Params: json.RawMessage(`{"k":"b"}`), IdempotencyKey: new("known")},
			{Workflow: "sync", Params: json.RawMessage(`{"k":"b"}`), IdempotencyKey: new("new")},
		}}
		both := []*call[wire.ChildrenStarted]{w.starting(g, c), w.starting(g, c)}
		ids := await(w, both[0]).RunIDs
		if again := await(w, both[1]); !slices.Equal(again.RunIDs, ids) || both[0].value.Created == again.Created {
			w.Errorf("twice at once: %+v and %+v", both[0].value, again)
		}
		if len(ids) != 4 || ids[2] != known || ids[1] != ids[3] || ids[0] == ids[1] {
			w.Errorf("started %v, and the key was known of %s", ids, known)
		}
		w.restart()
		again := await(w, w.starting(g, c))
		if !slices.Equal(again.RunIDs, ids) || again.Created {
			w.Errorf("after a restart: %+v", again)
		}
		for name, change := range map[string]func(c *wire.Children){
			"fewer runs":   func(c *wire.Children) { c.Runs = c.Runs[:3] },
			"another kind": func(c *wire.Children) { c.Kind = wire.WorkflowKind },
		} {
			other := c
			change(&other)
			call := w.starting(g, other)
			if refused(w, call, flow.ErrStepConflict); w.Failed() {
				w.Fatal(name)
			}
		}
		if all := w.list(wire.ListQuery{}); len(all) != 4 { // parent, known, and two new
			w.Errorf("there are %d runs", len(all))
		}
		next := c
		next.Visit = 2
		second := await(w, w.starting(g, next))
		if !second.Created || second.RunIDs[0] == ids[0] || second.RunIDs[1] != ids[1] {
			w.Errorf("the second visit: %+v", second)
		}
		if s := w.untilRuns(g, ids[0], ids[1]); s != "suspended" {
			w.Fatal(s)
		}
		for range 2 {
			for _, g := range w.claimBy("sync", "1", 9) {
				w.complete(g)
			}
			w.pass(20 * time.Millisecond)
		}
		if n := w.count(parent, flow.EventResumed); n != 1 {
			w.Errorf("the parent woke %d times", n)
		}
	})
}

// TestR15P51StaleFenceStartsNothing fails when one who doesn't hold a run starts others for
// it, with keys or without, also after its end and from the archive.
func TestR15P51StaleFenceStartsNothing(t *testing.T) {
	setup{shards: 2, recentFor: 2 * flow.Second}.play(t, func(w *world) {
		w.declare("sync", one)
		parent := w.submit("sync", `{"k":"p"}`)
		old := w.claimRun("sync", "1", parent)
		w.pass(expiry + time.Second)
		c := wire.Children{Runs: []wire.ChildRun{
			{Workflow: "sync", Params: json.RawMessage(`{"k":"a"}`)}, {Workflow: "sync", IdempotencyKey: new("key")},
		}}
		refused(w, w.starting(old, c), flow.ErrStaleFence) // nobody holds it
		g := w.claimRun("sync", "1", parent)
		refused(w, w.starting(old, c), flow.ErrStaleFence)
		refused(w, w.starting(wire.Grant{RunID: "run_00000000000000000000000001", Fence: 5}, c), flow.ErrUnknownRun)
		bad := c
		bad.Runs = append(slices.Clone(c.Runs), wire.ChildRun{Workflow: "metrics"})
		refused(w, w.starting(g, bad), flow.ErrConfiguration)
		w.declare("byregion", `{"version":"1",`+byRegion+`}`)
		bad.Runs[2].Workflow = "byregion" // only code can stamp it
		refused(w, w.starting(g, bad), flow.ErrConfiguration)
		w.complete(g)
		refused(w, w.starting(g, c), flow.ErrRunEnded)
		w.pass(5 * time.Second)
		if runs, archived := w.whereabouts(); runs != 0 || archived != 1 {
			w.Fatalf("%d runs in memory, %d in the archive", runs, archived)
		}
		refused(w, w.starting(g, c), flow.ErrRunEnded)
		keyed := await(w, w.submitting(keyedSubmit("sync", `{"k":"a"}`, "key")))
		if all := w.list(wire.ListQuery{}); len(all) != 2 || !keyed.Created {
			w.Errorf("there are %d runs, and the key was new: %t", len(all), keyed.Created)
		}
	})
}

// TestP16ChildrenAreStampedLikeASubmit fails when a child is stamped with anything but what a
// submit would be, or stays behind when its gates change.
func TestP16P31ChildrenAreStampedLikeASubmit(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.declare("parent", leased)
		w.deployed(`"limit":{"key":"k","max":3}`, `"limit":{"key":"r","max":2}`)
		g := w.claimRun("parent", "1", w.submit("parent", `{"k":"p"}`))
		params := json.RawMessage(w.placed(1))
		c := wire.Children{Runs: []wire.ChildRun{
			{Workflow: "sync", Params: params}, {Workflow: "sync", Params: params, Stamp: &wire.Stamp{Version: "1"}}, {Workflow: "nobody", Params: params},
		}}
		ids := await(w, w.starting(g, c)).RunIDs
		newest, older, unknown := w.status(w.id(ids[0])), w.status(w.id(ids[1])), w.status(w.id(ids[2]))
		if newest.StampedVersion != "2" || newest.Gates[0].Key != w.keyIn(1, "sync", "r") || older.StampedVersion != "1" || !unknown.GatesUnknown {
			w.Errorf("stamped by %q, %q, and unknown %t", newest.StampedVersion, older.StampedVersion, unknown.GatesUnknown)
		}
		w.untilRuns(g, ids[1])
		w.keptAlive("sync", "2")
		w.pass(20 * time.Millisecond)
		last := w.last(w.id(ids[1]))
		w.handedOn(w.id(ids[1]), last)
		if src := w.status(last).Provenance.Source; src.Parent == nil || *src.Parent != g.RunID {
			w.Errorf("the successor's parent is %v", src.Parent)
		}
		w.complete(w.claimOneOf("sync", "2", last, 2))
		w.pass(20 * time.Millisecond)
		g = w.claimOne("parent", "1")
		if got := g.Waits[0].Outcomes[0]; got.RunID != ids[1] || got.Status != "completed" {
			w.Errorf("the parent hears of %+v", got)
		}
	})
}

// TestR15ChildrenCrashAtEveryCommit fails when a crash between a call for children and the
// parent's next start makes a child twice or not at all, or leaves the parent waiting.
func TestR15S101P54ChildrenCrashAtEveryCommit(t *testing.T) {
	for shard := range 2 {
		steps, whole := 0, false
		for ; !whole; steps++ {
			setup{shards: 2, manual: true}.play(t, func(w *world) {
				w.declare("sync", byOne)
				k, other := w.keyIn(0, "sync", "k"), w.keyIn(shardID(shard), "sync", "c")
				parent := w.submit("sync", fmt.Sprintf(`{"k":%q}`, k))
				g := w.claimRun("sync", "1", parent)
				c := wire.Children{Runs: []wire.ChildRun{
					{Workflow: "sync", Params: json.RawMessage(fmt.Sprintf(`{"k":%q}`, other))},
					{Workflow: "sync", Params: json.RawMessage(fmt.Sprintf(`{"k":%q}`, k)), IdempotencyKey: new(w.textIn(1, "key"))},
				}}
				lost := begin(func() (struct{}, error) { // the parent's body, until the node is gone
					started, err := w.Children(w.life, parent, wire.Children{Fence: g.Fence, Runs: c.Runs})
					if err == nil {
						_, err = w.Suspend(w.life, parent, wire.Suspend{Fence: g.Fence, Until: wire.Until{Runs: started.RunIDs}})
					}
					return struct{}{}, err
				})
				w.settle()
				for range steps {
					if whole = !w.mem.CommitNext(); whole {
						break
					}
					w.settle()
				}
				w.crash(steps % 3)
				w.serves()
				<-lost.done
				// The worker goes on with its fence: it asks again for what it has had no answer to.
				ids := w.goOn(g, parent, c)
				for range 20 {
					for _, g := range w.claimBy("sync", "1", 5) {
						if got := outcomes(g); g.RunID == parent.String() && got != `completed"done";completed"done";` {
							w.Errorf("%d commits: the parent goes on with %s", steps, got)
						}
						w.complete(g)
					}
					w.pass(100 * time.Millisecond)
				}
				all := w.list(wire.ListQuery{Status: "completed"})
				if len(all) != 3 || len(w.list(wire.ListQuery{})) != 3 || len(ids) != 2 {
					w.Errorf("shard %d, %d commits: %d runs are completed of %d", shard, steps, len(all), len(w.list(wire.ListQuery{})))
				}
				w.sameAsReplay(w.moment())
			})
			if steps > 100 {
				t.Fatal("the story has no end")
			}
		}
		if steps < 5 {
			t.Errorf("only %d prefixes were tried", steps)
		}
	}
}

// goOn starts the children and waits for them, unless that was done before the crash.
func (w *world) goOn(g wire.Grant, parent flow.RunID, c wire.Children) []string {
	w.Helper()
	if w.status(parent).Status == "suspended" {
		all := w.events(parent)
		for _, e := range all {
			if e.Type == flow.EventChildrenStarted {
				return e.Runs
			}
		}
	}
	ids := await(w, w.starting(g, c)).RunIDs
	w.untilRuns(g, ids...)
	return ids
}
