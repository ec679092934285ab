package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestS79EveryAttemptSeesTheSameEvents plays S79: an automatic retry, one by hand, and one by
// hand after the run was archived and the node restarted have the same events.
func TestS79S80EveryAttemptSeesTheSameEvents(t *testing.T) {
	for name, snapshot := range map[string]bool{"by the log": false, "by a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2, recentFor: 5 * flow.Second}.play(t, func(w *world) {
				w.declare("sync", `{"version":"1","max_attempts":2,"retry_backoff_seconds":1,"limit":{"key":"key","max":1},`+
					`"trigger":{"collect":{"key":"k","max_events":7,"window_seconds":5}}}`)
				w.trigger("sync", burst("other", 100, 3)...) // stays in its buffer meanwhile
				w.pass(time.Second)
				run := w.id(w.trigger("sync", burst("a", 0, 7)...)[6])
				attempt := func(id flow.RunID, number int64) {
					w.attempted(id, number, []int{0, 1, 2, 3, 4, 5, 6})
				}
				attempt(run, 1)
				w.pass(1100 * time.Millisecond)
				attempt(run, 2)
				w.is(run, "failed")
				byHand := w.retried(run)
				attempt(byHand, 1)
				w.pass(1100 * time.Millisecond)
				attempt(byHand, 2)
				w.pass(time.Minute)
				if memory, archived := w.whereabouts(); memory > 1 || archived < 2 {
					t.Fatalf("%d runs are in memory, %d archived", memory, archived)
				}
				if snapshot {
					w.snapshotAll()
				}
				w.restart()
				for range 2 { // of the first run, and of one that was retried itself
					late := w.retried(run)
					attempt(late, 1)
					w.pass(1100 * time.Millisecond)
					attempt(late, 2)
					run = late
				}
				w.declare("sync", `{"version":"2","limit":{"key":"key","max":3}}`) // its events count for a version without a trigger, too
				late := w.retried(run)
				if r := w.status(late); r.StampedVersion != "2" || len(r.Gates) != 1 || r.Gates[0].Key != "a" {
					t.Errorf("retried under another version it is %+v", r)
				}
				w.madeOf(late.String(), "a", 0, 1, 2, 3, 4, 5, 6)
				w.sameAsReplay(w.moment())
			})
		})
	}
}

// attempted claims one attempt of a run, which must have these events of key a, and has it fail.
func (w *world) attempted(id flow.RunID, attempt int64, want []int) {
	w.Helper()
	for _, g := range w.claim("sync", "1", 5) {
		key, list := w.numbers(string(g.Params))
		switch {
		case key == "a" && (g.RunID != id.String() || g.Attempt != attempt || !slices.Equal(list, want)):
			w.Fatalf("attempt %d of run %s has %v, want attempt %d of %s with %v", g.Attempt, g.RunID, list, attempt, id, want)
		case key == "a":
			await(w, w.failing(g, true))
			return
		default:
			w.complete(g)
		}
	}
	w.Fatalf("attempt %d of run %s isn't granted: %s", attempt, id, w.whyText(id))
}

// retried retries a run by hand.
func (w *world) retried(id flow.RunID) flow.RunID {
	w.Helper()
	return w.id(await(w, begin(func() (wire.Submitted, error) { return w.Retry(w.life, id, wire.Retry{}) })).RunID)
}

// TestS71EventDuringTheRunOfItsPredecessors plays S71: a batch that comes while its predecessor
// executes, or waits, leaves that as it is and waits behind it.
func TestS71P67EventDuringTheRunOfItsPredecessors(t *testing.T) {
	for _, executing := range []bool{true, false} {
		play(t, func(w *world) {
			w.declare("sync", `{"version":"1","limit":{"key":"key","max":1},"lease_seconds":60,"trigger":{"collect":{"key":"k","max_events":10,"window_seconds":5}}}`)
			w.keptAlive("sync", "1")
			from := w.wall()
			w.trigger("sync", burst("a", 1, 2)...)
			w.pass(5 * time.Second)
			w.settle()
			first := w.cuts("sync")[0].run
			var g wire.Grant
			if executing {
				g = w.claimRun("sync", "1", first)
			}
			w.pass(time.Second)
			w.trigger("sync", numbered("a", 3))
			if w.madeOf(first.String(), "a", 1, 2); !slices.Equal(w.batchOf("sync", "a"), []int{3}) {
				t.Errorf("the open batch has %v", w.batchOf("sync", "a"))
			}
			w.pass(5 * time.Second)
			all := w.cutAt("sync", from, 5*time.Second, 11*time.Second)
			w.is(all[1].run, "queued")
			w.lives("sync", "1", 19*time.Second)
			if !executing {
				g = w.claimRun("sync", "1", first)
			} else {
				w.beat(g)
			}
			w.madeOf(first.String(), "a", 1, 2)
			if w.is(all[1].run, "queued"); w.complete(g) != "completed" {
				t.Error("the first run doesn't end")
			}
			w.complete(w.claimRun("sync", "1", all[1].run))
			w.madeOf(all[1].run.String(), "a", 3)
		})
	}
}

// TestP61BatchesOfAKeyStartInOrder fails when runs of one key start in another order than
// their batches were cut, or one key makes another wait.
func TestP61P67BatchesOfAKeyStartInOrder(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"key","max":1},"trigger":{"collect":{"key":"k","max_events":2,"window_seconds":1}}}`)
		w.keptAlive("sync", "1")
		n := map[string]int{}
		for range 40 {
			for _, key := range []string{"a", "b"} {
				w.trigger("sync", burst(key, n[key], 3)...) // filled, by time, and in one instant
				n[key] += 3
			}
			w.pass(300 * time.Millisecond)
			w.keptAlive("sync", "1")
		}
		w.pass(2 * time.Second)
		next := map[string]int{}
		for done := 0; done < n["a"]+n["b"]; {
			grants := w.claim("sync", "1", 10)
			if len(grants) == 0 {
				t.Fatalf("%d of %d events are in runs", done, n["a"]+n["b"])
			}
			for _, g := range grants {
				key, list := w.numbers(string(g.Params))
				for _, i := range list {
					if i != next[key] {
						t.Fatalf("key %s: event %d comes when %d is next", key, i, next[key])
					}
					next[key]++
					done++
				}
				w.complete(g)
			}
		}
	})
}

// TestWhatReadersSeeOfABatch fails when a key, the statistics or the Observer don't show what
// is buffered, and what became of it.
func TestR12P72WhatReadersSeeOfABatch(t *testing.T) {
	seen := &tally{finished: map[flow.Status]int{}}
	setup{shards: 2, observe: seen}.play(t, func(w *world) {
		w.declare("sync", collect3)
		stats := func(events, batches, due int64) {
			w.Helper()
			all, err := w.Stats(w.life)
			must(w, err)
			got := all["sync"]
			if got == nil {
				got = &actors.WorkflowStats{}
			}
			if got.Events != events || got.Batches != batches || got.Due != due {
				w.Errorf("%d events in %d batches of which %d are due, want %d, %d and %d", got.Events, got.Batches, got.Due, events, batches, due)
			}
		}
		if v := w.key("sync", "a"); v.Batch != nil || v.BufferedEvents != 0 {
			t.Errorf("a key without a batch: %+v", v)
		}
		stats(0, 0, 0)
		opened := w.clock.Wall()
		w.trigger("sync", named("a", 1, "7"), named("a", 1, "7"), numbered("b", 2))
		w.pass(time.Second)
		w.trigger("sync", numbered("a", 3))
		v := w.key("sync", "a")
		want := wire.OpenBatch{
			RunID: v.Batch.RunID, Events: 2, Bytes: int64(2*len(numbered("a", 1).Body) + len("7")), OpenedAt: opened.Millis(), FiresAt: opened.Add(5 * flow.Second).Millis(),
		}
		if *v.Batch != want || v.BufferedEvents != 2 || v.Queued != 0 {
			t.Errorf("the key shows %+v, want %+v", *v.Batch, want)
		}
		stats(3, 2, 0)
		w.pass(10 * time.Second)
		if v := w.key("sync", "a"); !v.Batch.Due || v.Batch.RunID != want.RunID || v.Batch.FiresAt != want.FiresAt {
			t.Errorf("past its deadline the key shows %+v", *v.Batch)
		}
		stats(3, 2, 2)
		w.restart()
		stats(3, 2, 2)
		large := event(fmt.Sprintf(`{"k":"a","x":%q}`, fill(flow.MaxEventBytes-20)))
		large.ID = string(fill(flow.MaxEventIDBytes))
		w.untriggered("sync", nil, large, flow.ErrBufferFull)
		w.keptAlive("sync", "1")
		w.settle()
		if v := w.key("sync", "a"); v.Batch != nil || v.BufferedEvents != 0 {
			t.Errorf("fired it shows %+v", v)
		}
		if r := w.status(w.id(want.RunID)); r.Status != "queued" || r.RunID != want.RunID {
			t.Errorf("the run that it would be is %+v", r)
		}
		stats(0, 0, 0)
		w.trigger("sync", burst("a", 10, 3)...)
	})
	if got := (actors.EventCount{Taken: 6, Repeated: 1, Refused: 1}); seen.events != got {
		t.Errorf("the Observer heard of %+v, want %+v", seen.events, got)
	}
	times, full := 0, 0
	for _, b := range seen.fired {
		switch {
		case b.Workflow != "sync":
			t.Errorf("the Observer heard of %+v", b)
		case b.Cause == actors.CauseFull && b.Events == 3 && b.Late == 0:
			full++
		case b.Cause == actors.CauseTime && b.Events <= 2 && b.Late > 5*flow.Second && b.Late < 8*flow.Second:
			times++
		default:
			t.Errorf("the Observer heard of %+v", b)
		}
	}
	if times != 2 || full != 1 {
		t.Errorf("the Observer heard of %d batches by time and %d full ones", times, full)
	}
}
