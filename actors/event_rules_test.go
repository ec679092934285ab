package actors_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP33P36P37CollectFillsOrPasses fails when a batch isn't cut by the event that fills it
// or at the end of its window, when the window slides, when another event than the last is
// answered with the run, or when the params aren't those that the rules say, byte for byte.
func TestP33P36P37P66CollectFillsOrPasses(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", collect3)
		w.keptAlive("sync", "1")
		from := w.wall()
		if r := w.trigger("sync", numbered("a", 1), numbered("b", 2), numbered("a", 3)); !slices.Equal(r, []string{"", "", ""}) {
			t.Errorf("events that fill nothing are answered %q", r)
		}
		w.pass(2 * time.Second)
		r := w.trigger("sync", wire.TriggerEvent{Body: []byte(`{ "k": "a", "n":4, "x":{"é":[1, 2.50]} }`)}, numbered("a", 5))
		if r[0] == "" || r[1] != "" {
			t.Fatalf("the event that fills the batch and the next one are answered %q", r)
		}
		want := `{"key":"a","events":[{"k":"a","n":1},{"k":"a","n":3},{ "k": "a", "n":4, "x":{"é":[1, 2.50]} }],"count":3}`
		if got := w.params(w.id(r[0])); got != want {
			t.Errorf("the params are %s, want %s", got, want)
		}
		w.pass(2 * time.Second)
		w.trigger("sync", numbered("a", 6)) // at 4 s into the window of 5, which it doesn't move
		w.lives("sync", "1", 20*time.Second)
		all := w.cutAt("sync", from, 2*time.Second, 5*time.Second, 7*time.Second)
		w.madeOf(all[1].run.String(), "b", 2)
		w.madeOf(all[2].run.String(), "a", 5, 6)
		if n := len(w.openBatches()); n != 0 {
			t.Errorf("%d batches are open at the end", n)
		}
	})
}

// TestP68EveryEventFills fails when a batch size of 1 doesn't make a run of each event.
func TestP68EveryEventFills(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":1,"window_seconds":5}}}`)
		for i, run := range w.trigger("sync", burst("a", 0, 5)...) {
			w.madeOf(run, "a", i)
		}
	})
}

// TestP34P37DebounceWaitsForQuiet fails when a batch fires before its key was quiet for the
// window or later, or when an event is answered with a run.
func TestP34P37P70DebounceWaitsForQuiet(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", debounce5)
		from := w.wall()
		for i := range 20 { // without a longest wait it goes on for as long as events come
			if r := w.trigger("sync", numbered("a", i)); r[0] != "" {
				t.Errorf("event %d is answered %q", i, r[0])
			}
			w.lives("sync", "1", 4*time.Second)
		}
		w.lives("sync", "1", 10*time.Second)
		all := w.cutAt("sync", from, 81*time.Second)
		if all[0].count != 20 {
			t.Errorf("the run has %d events", all[0].count)
		}
	})
}

// TestS68LongestWait plays S68: the longest wait holds, however late the last event before it.
func TestS68P70LongestWait(t *testing.T) {
	for name, c := range map[string]struct {
		most string
		at   []time.Duration
		sets [][]int
	}{
		"10 s":    {`,"max_wait_seconds":10`, []time.Duration{10 * time.Second, 15500 * time.Millisecond}, [][]int{{0, 1, 2, 3, 4, 5}, {6}}},
		"default": {"", []time.Duration{15500 * time.Millisecond}, [][]int{{0, 1, 2, 3, 4, 5, 6}}},
		"zero":    {`,"max_wait_seconds":0`, []time.Duration{15500 * time.Millisecond}, [][]int{{0, 1, 2, 3, 4, 5, 6}}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1","trigger":{"debounce":{"key":"k","window_seconds":5`+c.most+`}}}`)
				w.keptAlive("sync", "1")
				from, at := w.wall(), time.Duration(0)
				for i, next := range []int{0, 2000, 4000, 6000, 8000, 9500, 10500} {
					w.pass(time.Duration(next)*time.Millisecond - at)
					at = time.Duration(next) * time.Millisecond
					w.trigger("sync", numbered("a", i))
				}
				w.lives("sync", "1", 20*time.Second)
				for i, got := range w.cutAt("sync", from, c.at...) {
					w.madeOf(got.run.String(), "a", c.sets[i]...)
				}
			})
		})
	}
}

// TestP69FilledRunIsNamedThoughItWaits fails when the event that fills a batch isn't answered
// with the run because that waits at a gate.
func TestP69P37FilledRunIsNamedThoughItWaits(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"key","max":1},"trigger":{"collect":{"key":"k","max_events":2,"window_seconds":5}}}`)
		first := w.trigger("sync", burst("a", 0, 2)...)[1]
		w.claimRun("sync", "1", w.id(first))
		second := w.trigger("sync", burst("a", 2, 2)...)[1]
		r := w.status(w.id(second))
		if r.Status != "queued" || r.Wait == nil || r.Wait.Reason != "limit" || r.RunID != second {
			t.Errorf("the run that the event was answered is %+v", r)
		}
		w.madeOf(second, "a", 2, 3)
	})
}

// TestP39P74GatesOfABatch fails when the gates of a triggered workflow aren't those of the
// batch's key, or when a gate by anything else is taken.
func TestP39P74R8GatesOfABatch(t *testing.T) {
	play(t, func(w *world) {
		const trigger = `"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":5}}`
		w.declare("sync", `{"version":"1","limit":{"key":"key","max":2},"rate":{"key":"key","per_second":1,"burst":3},`+trigger+`}`)
		w.trigger("sync", slices.Concat(burst("a", 0, 6), burst("b", 10, 6))...)
		held := map[string][]wire.Grant{}
		for range 3 {
			for _, g := range w.claim("sync", "1", 20) {
				held[g.Key] = append(held[g.Key], g)
			}
		}
		if len(held["a"]) != 2 || len(held["b"]) != 2 {
			t.Fatalf("%d and %d runs of two keys with a limit of 2 each", len(held["a"]), len(held["b"]))
		}
		w.complete(held["a"][0])
		w.complete(held["a"][1])
		if g := w.claim("sync", "1", 20); len(g) != 1 || g[0].Key != "a" {
			t.Errorf("with one token left %s", names(g))
		}
		w.pass(1100 * time.Millisecond)
		if g := w.claim("sync", "1", 20); len(g) != 1 || g[0].Key != "a" {
			t.Errorf("one second later %s", names(g))
		}
		for _, key := range []string{`"k"`, `"events"`, `"count"`, `"cel:key"`, `{"function":"tenant"}`} {
			for gate, rest := range map[string]string{"limit": `,"max":1`, "rate": `,"per_second":1`} {
				c := w.declaring("sync", `{"version":"2","`+gate+`":{"key":`+key+rest+`},`+trigger+`}`)
				if refused(w, c, flow.ErrConfiguration); key != `"cel:key"` && fieldOf(c.err) != gate+".key" {
					t.Errorf("a %s by %s: %v", gate, key, c.err)
				}
			}
		}
	})
}

// TestP73WhoStamps fails when a full batch isn't stamped with the current declaration, or
// one that time fires not with the newest that a live worker serves.
func TestP73P16P38WhoStamps(t *testing.T) {
	version := func(v, most string) string {
		return `{"version":"` + v + `","limit":{"key":"key","max":` + most + `},"trigger":{"collect":{"key":"k","max_events":2,"window_seconds":5}}}`
	}
	play(t, func(w *world) {
		w.declare("sync", version("1", "1"))
		w.declare("sync", version("2", "2"))
		w.declare("sync", version("3", "3"))
		fired := func(want string) {
			w.Helper()
			before := len(w.cuts("sync"))
			w.trigger("sync", numbered("a", 1))
			w.pass(5 * time.Second)
			w.settle()
			all := w.cuts("sync")
			if len(all) != before+1 || all[before].version != want {
				w.Fatalf("of %d cuts the last is %+v, want one under version %s", len(all), all[len(all)-1], want)
			}
		}
		full := w.trigger("sync", burst("a", 0, 2)...)[1]
		init := w.events(w.id(full))[0]
		if init.Type != flow.EventInit || *init.Version != "3" || *init.Unknown || len(*init.Gates) != 1 || (*init.Gates)[0].Max != 3 || (*init.Gates)[0].Key != "a" {
			t.Errorf("the first event of %s is %s", full, told(init, nil))
		}
		if src := w.status(w.id(full)).Provenance.Source; src.Trigger != "trigger" {
			t.Errorf("run %s comes from %+v", full, src)
		}
		if all := w.cuts("sync"); all[0].version != "3" || all[0].run.String() != full {
			t.Errorf("the full batch is %+v", all[0])
		}
		w.keptAlive("sync", "1")
		fired("1")
		w.keptAlive("sync", "2")
		fired("2")
		w.keptAlive("sync", "1") // an older worker's word doesn't make its version the newest
		fired("2")
		w.pass(22 * time.Second)
		w.keptAlive("sync", "1")
		w.pass(time.Second) // version 2 was last heard of more than 30 s ago
		fired("1")
		w.keptAlive("sync", "3")
		fired("3")
	})
}

// TestP75WhatTakesNoEvents fails when an event of a workflow without a trigger, without a
// declaration, or of none is taken, or refused for the wrong reason.
func TestP75WhatTakesNoEvents(t *testing.T) {
	play(t, func(w *world) {
		e := numbered("a", 1)
		w.untriggered("nobody", nil, e, flow.ErrUnknownWorkflow)
		w.untriggered("", nil, e, flow.ErrUnknownWorkflow)
		w.submit("byname", `{}`)
		if err := w.untriggered("byname", nil, e, flow.ErrConfiguration); fieldOf(err) != "trigger" {
			t.Errorf("submitted by name: %v", err)
		}
		w.declare("plain", leased)
		if err := w.untriggered("plain", nil, e, flow.ErrConfiguration); fieldOf(err) != "trigger" {
			t.Errorf("without a trigger: %v", err)
		}
		w.declare("sync", collect3)
		w.trigger("sync", e)
		w.declare("sync", `{"version":"2"}`)
		w.untriggered("sync", nil, e, flow.ErrConfiguration)
		w.declare("byname", collect3)
		w.trigger("byname", e)
		if got := w.batchOf("sync", "a"); !slices.Equal(got, []int{1}) {
			t.Errorf("the batch that was open holds %v", got)
		}
	})
}

// TestR22EachEventHasItsResult fails when an event that can't be taken keeps others of its
// request from being taken, or isn't told why.
func TestR22P35EachEventHasItsResult(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", collect3)
		long := wire.TriggerEvent{Body: []byte(`{"k":"` + string(fill(flow.MaxKeyBytes+1)) + `"}`)}
		events := []wire.TriggerEvent{
			numbered("a", 1), {Body: []byte(`[1]`)}, numbered("a", 2), {Body: []byte(`"k"`)}, long, {}, named("a", 3, string(fill(flow.MaxEventIDBytes+1))),
			named("a", 4, string(fill(flow.MaxEventIDBytes))), {Body: []byte(`{"k":"b","x":"` + string(fill(flow.MaxEventBytes)) + `"}`)},
		}
		r := await(w, w.triggering("sync", events...))
		for i, err := range r.errs {
			fine := slices.Contains([]int{0, 2, 7}, i)
			if fine != (err == nil) || (!fine && !errors.Is(err, flow.ErrInvalid)) || (i == 7) != (r.runs[i] != "") {
				t.Errorf("event %d is answered %q and %v", i, r.runs[i], err)
			}
		}
		w.madeOf(r.runs[7], "a", 1, 2, 4)
		if r := await(w, w.triggering("sync")); len(r.runs)+len(r.errs) != 0 {
			t.Errorf("no events are answered %+v", r)
		}
		r = await(w, w.triggering("sync", events[1]))
		if !errors.Is(r.errs[0], flow.ErrInvalid) {
			t.Errorf("a request that can't be sent at all: %+v", r)
		}
	})
}
