package actors_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// between is what may happen to a node between two requests.
var between = map[string]func(w *world){
	"nothing":  func(*world) {},
	"restart":  func(w *world) { w.restart() },
	"snapshot": func(w *world) { w.snapshotAll(); w.restart() },
}

// snapshotAll takes a snapshot of every shard.
func (w *world) snapshotAll() {
	w.Helper()
	for s := range w.shards {
		await(w, begin(func() (any, error) { return nil, w.spy.logs[s].Snapshot(w.life) }))
	}
}

// TestS76RepeatBeforeTheCut plays S76: a repeat is acknowledged, adds nothing and moves nothing.
func TestS76R8RepeatBeforeTheCut(t *testing.T) {
	for name, meanwhile := range between {
		for kind, declaration := range map[string]string{"collect": collectMany, "debounce": debounce5} {
			t.Run(name+" "+kind, func(t *testing.T) {
				setup{shards: 2}.play(t, func(w *world) {
					w.declare("sync", declaration)
					from := w.wall()
					w.trigger("sync", named("a", 1, "7"))
					w.pass(time.Second)
					meanwhile(w)
					if r := w.trigger("sync", named("a", 1, "7"), named("a", 1, "7")); r[0]+r[1] != "" {
						t.Errorf("the repeats are answered %q", r)
					}
					w.lives("sync", "1", 20*time.Second)
					all := w.cutAt("sync", from, 5*time.Second)
					w.madeOf(all[0].run.String(), "a", 1)
					w.sameAsReplay(w.moment())
				})
			})
		}
	}
}

// TestS76RepeatBehindTheCut fails when the repeat of an event whose batch is a run isn't
// answered like the first for 10 minutes, or is a repeat for longer.
func TestS76R8P37RepeatBehindTheCut(t *testing.T) {
	for name, meanwhile := range between {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				w.declare("sync", collect3)
				full := w.trigger("sync", named("a", 1, "x"), named("a", 2, "y"), named("a", 3, "z"))[2]
				w.trigger("sync", named("b", 4, "x")) // an id counts within its key
				w.lives("sync", "1", 6*time.Second)
				if n := len(w.cuts("sync")); n != 2 {
					t.Fatalf("%d runs", n)
				}
				repeat := func() []string {
					return w.trigger("sync", named("a", 1, "x"), named("a", 2, "y"), named("a", 3, "z"), named("b", 4, "x"))
				}
				want := []string{"", "", full, ""}
				meanwhile(w)
				if got := repeat(); !slices.Equal(got, want) {
					t.Errorf("the repeats are answered %q, want %q", got, want)
				}
				for _, g := range w.claim("sync", "1", 9) { // the run may be over, and archived
					w.complete(g)
				}
				w.pass(10*time.Minute - 10*time.Second)
				meanwhile(w)
				if got := repeat(); !slices.Equal(got, want) {
					t.Errorf("10 minutes less 4 s behind the cut the repeats are answered %q, want %q", got, want)
				}
				if n := len(w.openBatches()); n != 0 {
					t.Errorf("the repeats have opened %d batches", n)
				}
				w.pass(20 * time.Second)
				meanwhile(w)
				got := repeat()
				if got[2] == "" || got[2] == full || got[0]+got[1]+got[3] != "" {
					t.Errorf("more than 10 minutes behind the cut they are answered %q", got)
				}
				w.madeOf(got[2], "a", 1, 2, 3)
				w.sameAsReplay(w.moment())
			})
		})
	}
}

// TestS76IdsAreOfTheirKey fails when an id that two keys or two workflows use is taken for one
// event.
func TestS76IdsAreOfTheirKey(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", collect3)
		w.declare("other", collect3)
		w.trigger("sync", named("a", 1, "7"), named("b", 2, "7"), named("a", 3, "7"), named("a", 4, "8"), numbered("a", 5))
		w.trigger("other", named("a", 6, "7"))
		if got := w.batchOf("sync", "b"); !slices.Equal(got, []int{2}) {
			t.Errorf("key b has %v", got)
		}
		if got := w.batchOf("other", "a"); !slices.Equal(got, []int{6}) {
			t.Errorf("the other workflow has %v", got)
		}
		w.madeOf(w.cuts("sync")[0].run.String(), "a", 1, 4, 5)
	})
}

// TestS76BoundOfRememberedIds fails when a shard remembers more ids behind their batches than
// its bound, or forgets another than the oldest.
func TestS76R8BoundOfRememberedIds(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":1000,"window_seconds":5}}}`)
		const batches = actors.MaxCutEvents/1000 + 2
		of := func(i int) []wire.TriggerEvent {
			out := make([]wire.TriggerEvent, 1000)
			for j := range out {
				out[j] = named(fmt.Sprint("k", i), j, fmt.Sprint(j))
			}
			return out
		}
		for i := range batches {
			w.trigger("sync", of(i)...)
		}
		for _, meanwhile := range []func(*world){between["nothing"], between["snapshot"]} {
			meanwhile(w)
			if n := await(w, begin(func() (int, error) { return actors.RememberedEvents(w.life, w.Node) })); n != actors.MaxCutEvents {
				t.Errorf("%d ids are remembered", n)
			}
			w.trigger("sync", of(batches - 1)[0])
			if n := len(w.openBatches()); n != 0 {
				t.Error("the repeat of the newest opens a batch")
			}
		}
		w.trigger("sync", of(0)[0])
		if n := len(w.openBatches()); n != 1 {
			t.Errorf("the repeat of the oldest opens %d batches", n)
		}
	})
}

// TestLaw1S76RepeatIsAnsweredAsLate fails when the repeat of an event is acknowledged before
// the event is durable, or when one that was lost with its entry is.
func TestLaw1S76RepeatIsAnsweredAsLate(t *testing.T) {
	setup{shards: 1, chaos: new(uint64(1))}.play(t, func(w *world) {
		w.declare("sync", collect3)
		first := w.triggering("sync", named("a", 1, "7"))
		w.settle()
		again := w.triggering("sync", named("a", 1, "7"))
		w.settle()
		if first.over() || again.over() {
			t.Error("acknowledged before it is durable")
		}
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		w.settle()
		for _, c := range []*call[reply]{first, again} {
			if !c.over() || !errors.Is(c.value.errs[0], flow.ErrOutcomeUnknown) {
				t.Errorf("over %t with %v, want %v", c.over(), c.value.errs, flow.ErrOutcomeUnknown)
			}
		}
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		if n := len(w.openBatches()); n != 0 {
			t.Errorf("%d batches are left of what was lost", n)
		}
		w.trigger("sync", named("a", 1, "7"))
		if got := w.batchOf("sync", "a"); !slices.Equal(got, []int{1}) {
			t.Errorf("sent once more it is in %v", got)
		}
	})
}
