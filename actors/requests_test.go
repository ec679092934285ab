package actors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// requested is a submit with a request id.
func requested(workflow, params, request string) wire.Submit {
	s := submitOf(workflow, params)
	s.RequestID = request
	return s
}

// TestR10RequestIDNamesTheRunForTenMinutes fails when the repeat of a submit makes a
// second run within ten minutes, also after a restart, or when it is refused or
// answered with the old run long after.
func TestR10RequestIDNamesTheRunForTenMinutes(t *testing.T) {
	for name, declaration := range map[string]string{
		"limit":   one,
		"rate":    `{"version":"1","rate":{"key":"k","per_second":1}}`,
		"ungated": `{"version":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", declaration)
				first := await(w, w.submitting(requested("sync", `{"k":"a"}`, "r1")))
				if !first.Created {
					w.Fatalf("the first submit: %+v", first)
				}
				again := func(want bool) {
					w.Helper()
					got := await(w, w.submitting(requested("sync", `{"k":"a"}`, "r1")))
					if same := got.RunID == first.RunID; same != want || got.Created == want {
						w.Fatalf("after %s: %+v, the first was %s", w.now(), got, first.RunID)
					}
				}
				again(true)
				w.restart()
				again(true)
				w.pass(9 * time.Minute)
				again(true)
				w.restart()
				again(true)
				w.pass(2 * time.Minute)
				again(false)
			})
		})
	}
}

// TestR10OutcomeUnknownIsSafeToRepeat fails when the repeat of a submit whose answer
// was lost with the node makes two runs, or none.
func TestR10OutcomeUnknownIsSafeToRepeat(t *testing.T) {
	for keep := range 2 {
		setup{manual: true}.play(t, func(w *world) {
			w.declare("sync", one)
			lost := w.submitting(requested("sync", `{"k":"a"}`, "r1"))
			w.settle()
			w.crash(keep)
			w.serves()
			if !lost.over() || lost.err == nil {
				w.Error("a submit was answered by a node that had died")
			}
			got := await(w, w.submitting(requested("sync", `{"k":"a"}`, "r1")))
			if got.Created == (keep == 1) {
				w.Errorf("%d entries kept: %+v", keep, got)
			}
			if n := len(w.list(wire.ListQuery{Workflow: "sync"})); n != 1 {
				w.Errorf("%d entries kept: there are %d runs", keep, n)
			}
		})
	}
}

// keyedSubmit is a submit under an idempotency key.
func keyedSubmit(workflow, params, key string) wire.Submit {
	s := submitOf(workflow, params)
	s.IdempotencyKey = &key
	return s
}

// TestQ6Q10FiftySubmitsOfOneKeyUnderTwoNames fails when one idempotency key names
// two runs, whoever is first and in whichever shards the key and the runs live.
func TestQ6Q10FiftySubmitsOfOneKeyUnderTwoNames(t *testing.T) {
	for _, key := range []string{"order-1", "order-2", "order-3", "order-4"} {
		play(t, func(w *world) {
			w.declare("a", one)
			w.declare("b", leased)
			calls := make([]*call[wire.Submitted], 50)
			for i := range calls {
				calls[i] = w.submitting(keyedSubmit([]string{"a", "b"}[i%2], fmt.Sprintf(`{"k":"%d"}`, i%7), key))
			}
			ids, created := map[string]int{}, 0
			for _, c := range calls {
				got := await(w, c)
				ids[got.RunID]++
				if got.Created {
					created++
				}
			}
			if len(ids) != 1 || created != 1 {
				w.Fatalf("one key named %v, %d of them were created", ids, created)
			}
			w.restart()
			for range 3 {
				if got := await(w, w.submitting(keyedSubmit("b", `{"k":"z"}`, "  "+key+" "))); ids[got.RunID] == 0 || got.Created {
					w.Fatalf("after a restart: %+v", got)
				}
			}
			if n := len(w.list(wire.ListQuery{})); n != 1 {
				w.Errorf("there are %d runs", n)
			}
		})
	}
}

// TestQ6S101KilledBetweenKeyAndRun fails when a crash at any point between the
// record of an idempotency key and the creation of its run loses the run or makes
// two: the repeat answers the same id, and it runs.
func TestQ6S101KilledBetweenKeyAndRun(t *testing.T) {
	for commits := range 6 {
		for keep := range 4 {
			setup{shards: 2, manual: true}.play(t, func(w *world) {
				w.declare("sync", one)
				key := w.textIn(keep/2, "order") // in another shard than the run, and in its own
				params := `{"k":"` + w.keyIn(1, "sync", "k") + `"}`
				first := w.submitting(keyedSubmit("sync", params, key))
				w.settle()
				for range commits {
					w.mem.CommitNext()
					w.settle()
				}
				answered := first.over()
				if answered {
					w.durable(1, first.value.RunID)
				}
				w.crash(keep % 2)
				w.serves()
				got := await(w, w.submitting(keyedSubmit("sync", params, key)))
				if answered && (got.RunID != first.value.RunID || got.Created) {
					w.Errorf("%d commits, %d kept: %+v was acknowledged, then %+v", commits, keep, first.value, got)
				}
				w.complete(w.claimRun("sync", "1", w.id(got.RunID)))
				if n := len(w.list(wire.ListQuery{})); n != 1 {
					w.Errorf("%d commits, %d kept: there are %d runs", commits, keep, n)
				}
			})
		}
	}
}

// durable fails unless the entry that makes a run is durable in its shard.
func (w *world) durable(s engine.ShardID, run string) {
	w.Helper()
	all, durable := w.entries(s)
	for i := range all[:durable] {
		if slices.Contains(all[i].kinds(w.id(run)), flow.RecSubmitted) {
			return
		}
	}
	w.Errorf("run %s was acknowledged before it was durable", run)
}

// TestQ9S75S103KeyOutlivesItsRun fails when an idempotency key forgets its run once the
// run has ended in whichever way.
func TestQ9S75S103KeyOutlivesItsRun(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", leased)
		end := map[string]func(flow.RunID){
			"completed":  func(id flow.RunID) { w.complete(w.claimRun("sync", "1", id)) },
			"failed":     func(id flow.RunID) { await(w, w.failing(w.claimRun("sync", "1", id), false)) },
			"cancelled":  func(id flow.RunID) { w.cancel(id) },
			"terminated": func(id flow.RunID) { w.terminate(id) },
		}
		first := map[string]flow.RunID{}
		for status, f := range end {
			first[status] = w.id(await(w, w.submitting(keyedSubmit("sync", `{"k":"a"}`, status))).RunID)
			f(first[status])
			w.is(first[status], status)
		}
		for range 2 {
			for status, id := range first {
				got := await(w, w.submitting(keyedSubmit("sync", `{"k":"other"}`, status)))
				if got.RunID != id.String() || got.Created || got.Status != status {
					w.Errorf("the key of a %s run: %+v, want %s", status, got, id)
				}
			}
			w.pass(25 * time.Hour)
			w.restart()
		}
	})
}

// TestQ7KeysAreTrimmedAndBounded fails when a bad idempotency key is taken, or a
// refused submit leaves something behind.
func TestQ7KeysAreTrimmedAndBounded(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		for _, key := range []string{"", "   ", string(make([]byte, flow.MaxIdempotencyKeyBytes+1))} {
			c := w.submitting(keyedSubmit("sync", `{"k":"a"}`, key))
			if <-c.done; !errors.Is(c.err, flow.ErrInvalid) {
				w.Errorf("key %q: %v", key, c.err)
			}
		}
		if n := len(w.list(wire.ListQuery{})); n != 0 {
			w.Errorf("there are %d runs of refused submits", n)
		}
	})
}

// list is one page of runs.
func (w *world) list(q wire.ListQuery) []wire.Run {
	w.Helper()
	return await(w, begin(func() (wire.RunList, error) { return w.List(w.life, q) })).Runs
}

// textIn is a text whose own actor lives in the shard.
func (w *world) textIn(s int, prefix string) string {
	for i := 0; ; i++ {
		if v := fmt.Sprintf("%s%d", prefix, i); int(flow.TextPartition(v))%w.shards == s {
			return v
		}
	}
}

// TestP12P13P16P17P22StampIsTakenAtSubmit fails when the gates of a run are not those of
// the declaration at its submit, or a key is resolved otherwise than P12 says.
func TestP12P13P16P17P22StampIsTakenAtSubmit(t *testing.T) {
	play(t, func(w *world) {
		unknown := w.submit("sync", `{"k":"a"}`)
		w.declare("sync", one)
		v1 := w.submit("sync", `{}`)
		w.declare("sync", `{"version":"2","rate":{"key":"k","per_second":5}}`)
		v2 := w.submit("sync", `{"k":[1,{"b":2,"a":1}]}`)
		if got := w.status(unknown); !got.GatesUnknown || len(got.Gates) != 0 {
			w.Errorf("before any declaration: %+v", got.Gates)
		}
		if got := w.status(v1); len(got.Gates) != 1 || got.Gates[0].Kind != "limit" || got.Gates[0].Key != "" || got.StampedVersion != "1" {
			w.Errorf("under version 1: %+v", got.Gates)
		}
		if got := w.status(v2); len(got.Gates) != 1 || got.Gates[0].Kind != "rate" || got.Gates[0].Key != `[1,{"a":1,"b":2}]` || got.Gates[0].Burst != 5 {
			w.Errorf("under version 2: %+v", got.Gates)
		}
		var init wire.Event
		for _, e := range await(w, begin(func() (wire.Events, error) { return w.Events(w.life, v1) })).Events {
			if e.Type == flow.EventInit {
				init = e
			}
		}
		if init.Gates == nil || len(*init.Gates) != 1 { // P23
			w.Errorf("run:init names the gates %v", init.Gates)
		}
		stamped := submitOf("sync", `{"k":"a"}`)
		stamped.Stamp = &wire.Stamp{Version: "1"}
		old := await(w, w.submitting(stamped))
		if got := w.status(w.id(old.RunID)); got.StampedVersion != "1" || len(got.Gates) != 1 || got.Gates[0].Kind != "limit" {
			w.Errorf("stamped by hand: %+v", got.Gates)
		}
		stamped.Stamp = &wire.Stamp{Version: "3"}
		if c := w.submitting(stamped); true {
			if <-c.done; !errors.Is(c.err, flow.ErrNotDeclared) {
				w.Errorf("an unknown version: %v", c.err)
			}
		}
	})
}

// TestP20FunctionKeyMustBeGiven fails when a key that only code can compute is
// guessed.
func TestP20FunctionKeyMustBeGiven(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":{"function":"f"},"max":1}}`)
		c := w.submitting(submitOf("sync", `{"k":"a"}`))
		if <-c.done; !errors.Is(c.err, flow.ErrConfiguration) {
			w.Errorf("without the key: %v", c.err)
		}
		s := wire.Submit{Workflow: "sync", Params: json.RawMessage(`{}`), Stamp: &wire.Stamp{Version: "1", Keys: &wire.StampKeys{Limit: new("x")}}}
		a := w.id(await(w, w.submitting(s)).RunID)
		w.claimRun("sync", "1", a)
		w.used("sync", "x", 1)
	})
}
