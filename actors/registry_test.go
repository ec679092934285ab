package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// current is the version that submits by name are stamped with.
func (w *world) current(name string) string {
	w.Helper()
	out, err := w.Workflow(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	for _, v := range out.Versions {
		if v.Current {
			return v.Version
		}
	}
	return ""
}

// TestP83NewestVersionIsCurrent fails when a submit by name is stamped with another
// version than the newest: by dotted numbers, else by the order in which they were seen;
// also after a restart from the log and from a snapshot.
func TestP83P18NewestVersionIsCurrent(t *testing.T) {
	for _, c := range []struct {
		declared []string
		want     string
	}{
		{[]string{"1.9", "1.10", "1.2"}, "1.10"},
		{[]string{"2", "10", "9"}, "10"},
		{[]string{"blue", "green", "amber"}, "amber"},
		{[]string{"blue", "green", "blue"}, "green"},
	} {
		play(t, func(w *world) {
			for i, version := range c.declared {
				w.declare("sync", fmt.Sprintf(`{"version":%q,"limit":{"key":"k","max":%d}}`, version, i+1))
			}
			for _, how := range []string{"at first", "from the log", "from a snapshot"} {
				if got := w.current("sync"); got != c.want {
					w.Errorf("%v: %s is current %s, want %s", c.declared, got, how, c.want)
				}
				if got := w.status(w.submit("sync", `{"k":"a"}`)).StampedVersion; got != c.want {
					w.Errorf("%v: stamped with %s %s, want %s", c.declared, got, how, c.want)
				}
				if how == "from the log" {
					must(w, w.spy.logs[0].Snapshot(w.Context()))
				}
				w.restart()
			}
		})
	}
}

// TestR17DeclaredIsKnownWhenAnswered fails when a submit after the answer of a declare
// is stamped with what was before, or the same declaration again changes something.
func TestR17P18DeclaredIsKnownWhenAnswered(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		for version := range 5 {
			d := fmt.Sprintf(`{"version":"%d","limit":{"key":"k","max":%d}}`, version, version+1)
			declare := w.declaring("sync", d)
			w.settle()
			for w.mem.CommitNext() && !declare.over() {
				w.settle()
			}
			submit := w.submitting(submitOf("sync", `{"k":"a"}`))
			w.commit()
			if got := w.status(w.id(submit.value.RunID)); got.StampedVersion != fmt.Sprint(version) || got.Gates[0].Max != int64(version+1) {
				w.Errorf("after the answer for version %d: %s %+v", version, got.StampedVersion, got.Gates)
			}
			before := w.countAll(flow.RecDeclared)
			if again := w.declare("sync", d); again.Changed || w.countAll(flow.RecDeclared) != before {
				w.Errorf("the same again changes something: %+v", again)
			}
		}
	})
}

// TestP82P28ClaimByGatesHash fails when two declarations of one version aren't told apart,
// or one that was never made is taken.
func TestP82P28ClaimByGatesHash(t *testing.T) {
	play(t, func(w *world) {
		old := w.declare("sync", one)
		now := w.declare("sync", leased)
		if old.GatesHash == now.GatesHash || old.VersionRank != now.VersionRank {
			w.Errorf("%+v and %+v", old, now)
		}
		for i, d := range []wire.Declared{old, now} {
			id := w.submit("sync", fmt.Sprintf(`{"k":"k%d"}`, i))
			c := wire.Claim{Workflows: []wire.ClaimWorkflow{{Name: "sync", Version: "1", GatesHash: d.GatesHash}}, Credit: 1}
			if g := await(w, w.claimingAs(fmt.Sprint("w", i), c)); len(g) != 1 {
				w.Fatalf("gates %s: %d grants", d.GatesHash, len(g))
			}
			// It was stamped with the later gates; a worker of the earlier ones hands it on.
			r := w.status(id)
			if most, want := r.Gates[0].Max, []int64{1, 1000}[i]; most != want || (r.RunID == id.String()) != (i == 1) {
				w.Errorf("a worker of limit %d runs %s under %d", want, r.RunID, most)
			}
		}
		for _, c := range []wire.ClaimWorkflow{{Name: "sync", Version: "2"}, {Name: "sync", Version: "1", GatesHash: "x"}, {Name: "nobody", Version: "1"}} {
			refused(w, w.claimingAs("w", wire.Claim{Workflows: []wire.ClaimWorkflow{c}, Credit: 1}), flow.ErrNotDeclared)
		}
	})
}

// TestP14RunsOfAKeyLiveInItsShard fails when a run's id routes to another shard than
// its key.
func TestP14RunsOfAKeyLiveInItsShard(t *testing.T) {
	play(t, func(w *world) {
		w.declare("lim", one)
		w.declare("rate", `{"version":"1","rate":{"key":"k","per_second":1}}`)
		for i := range 50 {
			for _, name := range []string{"lim", "rate"} {
				value := fmt.Sprint("v", i)
				id := w.submit(name, `{"k":"`+value+`"}`)
				if want := (flow.KeyID{Workflow: name, Value: value}).Partition(); id.Partition() != want {
					w.Errorf("run %s of key %q has partition %d, its key %d", id, value, id.Partition(), want)
				}
			}
		}
	})
}

// TestUnknownRunIsSaidEverywhere fails when a run that doesn't exist is anything else.
func TestUnknownRunIsSaidEverywhere(t *testing.T) {
	play(t, func(w *world) {
		id := w.id("run_00000000000000000000000001")
		g := wire.Grant{RunID: id.String(), Fence: 7}
		refused(w, w.reading(id), flow.ErrUnknownRun)
		refused(w, w.journal(id), flow.ErrUnknownRun)
		refused(w, w.completing(g), flow.ErrUnknownRun)
		refused(w, w.failing(g, true), flow.ErrUnknownRun)
		refused(w, w.suspending(g, w.clock.Wall()), flow.ErrUnknownRun)
		refused(w, w.cancelling(id), flow.ErrUnknownRun)
		refused(w, w.terminating(id), flow.ErrUnknownRun)
		refused(w, w.completing(wire.Grant{RunID: "nonsense"}), flow.ErrUnknownRun)
		if b := w.beat(g); b.OK || b.CancelRequested {
			w.Errorf("%+v", b)
		}
		if b := w.beat(wire.Grant{RunID: "nonsense"}); b.OK {
			w.Errorf("%+v", b)
		}
	})
}

// TestR11DispatcherForgetsKeysWithoutWork fails when the dispatcher remembers every key
// that ever had a run while nobody claims.
func TestR11DispatcherForgetsKeysWithoutWork(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		for i := range 2000 {
			w.cancel(w.submit("sync", fmt.Sprintf(`{"k":"%d"}`, i)))
		}
		w.pass(time.Minute)
		if n := actors.ReadyKeys(w.Node); n > 1000 {
			w.Errorf("%d keys without any run are remembered", n)
		}
	})
}

// TestR9QuietNodeCanBeCaptured fails when a node that is about to close writes on, or
// can't be captured.
func TestR9QuietNodeCanBeCaptured(t *testing.T) {
	setup{shards: 1, manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		w.claimRun("sync", "1", w.submit("sync", `{"k":"a"}`))
		must(w, w.Quiesce())
		before, _ := w.mem.Entries(0)
		refused(w, w.submitting(submitOf("sync", `{"k":"a"}`)), flow.ErrNotReady)
		<-time.After(2 * expiry) // a lease would have ended
		w.settle()
		if after, _ := w.mem.Entries(0); len(after) != len(before) {
			w.Errorf("a quiet node has written %d entries", len(after)-len(before))
		}
		must(w, w.spy.logs[0].Snapshot(w.Context()))
		w.restart()
		w.used("sync", "a", 1)
	})
}
