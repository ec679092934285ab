package actors_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// told is an answer as text: what a client can see of it.
func told(v any, err error) string {
	b, bad := json.Marshal(v)
	if bad != nil {
		panic(bad)
	}
	return fmt.Sprintf("%s, error %v, retry %t", b, err, errors.Is(err, flow.ErrOutcomeUnknown) || errors.Is(err, flow.ErrNotReady))
}

// askedAll is the answer to every input and every reader of one run, and to the repeat of
// its submit.
func (w *world) askedAll(id flow.RunID, fence uint64, repeat wire.Submit) map[string]string {
	w.Helper()
	out := map[string]string{}
	ask := func(name string, f func() (any, error)) {
		c := begin(func() (string, error) { return told(f()), nil })
		out[name] = await(w, c)
	}
	for i, fence := range []uint64{fence, fence + 1, 0} {
		n := fmt.Sprint(" by fence ", i, ": ")
		ask("complete"+n, func() (any, error) {
			a, errs := w.Complete(w.life, []wire.Completion{{RunID: id.String(), Fence: fence, Result: json.RawMessage(`"done"`)}})
			return a, errs[0]
		})
		for _, retry := range []bool{true, false} {
			ask(fmt.Sprint("fail, retryable ", retry, n), func() (any, error) {
				return w.Fail(w.life, id, wire.Fail{Fence: fence, Error: wire.RunError{Type: "boom"}, Retryable: retry})
			})
		}
		ask("suspend"+n, func() (any, error) {
			return w.Suspend(w.life, id, wire.Suspend{Fence: fence, Until: wire.Until{AtMS: new(w.clock.Wall().Millis() + 1000)}})
		})
		ask("heartbeat"+n, func() (any, error) {
			return w.Heartbeat(w.life, wire.Heartbeat{Worker: "w1", Runs: []wire.Beat{{RunID: id.String(), Fence: fence}}})
		})
	}
	ask("cancel", func() (any, error) { return w.Cancel(w.life, id, "again") })
	ask("terminate", func() (any, error) { return w.Terminate(w.life, id, "again") })
	ask("cancel for a long reason", func() (any, error) {
		return w.Cancel(w.life, id, string(make([]byte, flow.MaxReasonBytes+1)))
	})
	ask("status", func() (any, error) { return w.Node.Run(w.life, id, 0) })
	at := w.now()
	ask("status behind the end", func() (any, error) { return w.Node.Run(w.life, id, time.Minute) })
	if w.now()-at > time.Second {
		w.Errorf("a wait for run %s, which has ended, took %s", id, w.now()-at)
	}
	ask("events", func() (any, error) { return w.Events(w.life, id) })
	ask("why", func() (any, error) { return w.Why(w.life, id) })
	for _, q := range []wire.ListQuery{
		{}, {Workflow: "sync"}, {Key: new("a")}, {Workflow: "sync", Key: new("b")}, {Limit: 1}, {Cursor: id.String(), Limit: 2},
		{Status: "completed"}, {Status: "failed"}, {Status: "cancelled"}, {Status: "terminated"}, {Status: "queued"},
		{Workflow: "other"}, {Workflow: "sync", Status: "cancelled", Key: new("a"), Limit: 1},
	} {
		ask("list "+told(q, nil), func() (any, error) { return w.List(w.life, q) })
	}
	ask("submit again", func() (any, error) {
		a, errs := w.Submit(w.life, []wire.Submit{repeat})
		return a, errs[0]
	})
	return out
}

// ends are all ways in which a run comes to its end; each is given a run that waits, and
// returns the last fence.
var ends = map[string]func(w *world, id flow.RunID) uint64{
	"completed": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.complete(g)
		return g.Fence
	},
	"completed after a suspension": func(w *world, id flow.RunID) uint64 {
		await(w, w.suspending(w.claimRun("sync", "1", id), w.clock.Wall().Add(flow.Second)))
		w.pass(2 * time.Second)
		g := w.claimRun("sync", "1", id)
		w.complete(g)
		return g.Fence
	},
	"failed": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		await(w, w.failing(g, false))
		return g.Fence
	},
	"failed for the second time": func(w *world, id flow.RunID) uint64 {
		await(w, w.failing(w.claimRun("sync", "1", id), true))
		w.pass(2 * time.Second)
		g := w.claimRun("sync", "1", id)
		await(w, w.failing(g, true))
		return g.Fence
	},
	"cancelled in the queue": func(w *world, id flow.RunID) uint64 {
		w.cancel(id)
		return 0
	},
	"cancelled at work, completed": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.cancel(id)
		w.complete(g)
		return g.Fence
	},
	"cancelled at work, failed": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.cancel(id)
		await(w, w.failing(g, true))
		return g.Fence
	},
	"cancelled at work, expired": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.cancel(id)
		w.pass(expiry + time.Second)
		return g.Fence
	},
	"terminated in the queue": func(w *world, id flow.RunID) uint64 {
		w.terminate(id)
		return 0
	},
	"terminated at work, freed": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.terminate(id)
		w.complete(g)
		return g.Fence
	},
	"terminated at work, suspended": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.terminate(id)
		await(w, w.suspending(g, w.clock.Wall().Add(flow.Minute)))
		return g.Fence
	},
	"terminated at work, expired": func(w *world, id flow.RunID) uint64 {
		g := w.claimRun("sync", "1", id)
		w.terminate(id)
		w.pass(expiry + time.Second)
		return g.Fence
	},
}

// TestR14R15R10S35AnswersAfterTheEndAreTheSameFromTheArchive fails when any input to an
// ended run, any reader, or the repeat of its submit is answered otherwise by the archive
// than by memory, or when such an input changes what follows.
func TestR14R15R10S35AnswersAfterTheEndAreTheSameFromTheArchive(t *testing.T) {
	setup{shards: 2, recentFor: 2 * flow.Minute}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":1000},"lease_seconds":10,"max_attempts":2,"retry_backoff_seconds":1}`)
		type asked struct {
			id     flow.RunID
			fence  uint64
			repeat wire.Submit
		}
		all := map[string]asked{}
		for name, end := range ends {
			for how, s := range map[string]wire.Submit{
				", by key":     keyedSubmit("sync", `{"k":"a"}`, "key "+name),
				", by request": requested("sync", `{"k":"b"}`, "r "+name),
			} {
				id := w.id(await(w, w.submitting(s)).RunID)
				all[name+how] = asked{id, end(w, id), s}
			}
		}
		if runs, archived := w.whereabouts(); runs+archived != len(all) {
			w.Fatalf("%d runs in memory and %d in the archive, want %d", runs, archived, len(all))
		}
		collect := func() map[string]map[string]string {
			out := map[string]map[string]string{}
			for name, a := range all {
				out[name] = w.askedAll(a.id, a.fence, a.repeat)
			}
			return out
		}
		before := collect()
		if diff := cmp.Diff(before, collect()); diff != "" {
			w.Fatalf("memory itself answers otherwise the second time:\n%s", diff)
		}
		for _, a := range all {
			if a.fence == 0 {
				continue
			}
			run := w.status(a.id)
			stopped := run.Status == "terminated" || run.CancelRequested
			if got := w.beat(wire.Grant{RunID: a.id.String(), Fence: a.fence}); got.OK || got.CancelRequested != stopped {
				w.Errorf("a beat for run %s, which is %s: %+v", a.id, run.Status, got)
			}
		}
		w.pass(3 * time.Minute)
		for _, when := range []string{"from the archive", "after a restart"} {
			if runs, archived := w.whereabouts(); runs != 0 || archived != len(all) {
				w.Fatalf("%d runs in memory and %d in the archive, want %d", runs, archived, len(all))
			}
			if diff := cmp.Diff(before, collect()); diff != "" {
				w.Errorf("%s the answers differ (-memory +archive):\n%s", when, diff)
			}
			w.snapshots()
			w.restart()
		}
	})
}

// TestR14R20HeldRunStaysUntilItsHoldIsOver fails when a terminated run leaves memory
// while its slot is held, or doesn't leave afterwards, or its slot is counted otherwise
// than held and then free.
func TestR14R20HeldRunStaysUntilItsHoldIsOver(t *testing.T) {
	for name, free := range map[string]func(*world, wire.Grant){
		"freed":   func(w *world, g wire.Grant) { w.complete(g) },
		"expired": func(w *world, _ wire.Grant) { w.pass(5 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 2, recentFor: 2 * flow.Second}.play(t, func(w *world) {
				w.declare("sync", one)
				ids := w.submitAll(2, "sync", `{"k":"a"}`)
				grant := w.claimRun("sync", "1", ids[0])
				w.terminate(ids[0])
				w.cancel(w.submit("sync", `{"k":"b"}`)) // ended later, and leaves before
				for range 2 {
					w.pass(4 * time.Second)
					if runs, archived := w.whereabouts(); runs != 2 || archived != 1 {
						w.Fatalf("while it is held %d runs are in memory and %d in the archive", runs, archived)
					}
					w.used("sync", "a", 1)
					if g := w.claim("sync", "1", 1); len(g) != 0 {
						w.Fatalf("granted %s beside a hold", names(g))
					}
				}
				free(w, grant)
				w.used("sync", "a", 0)
				w.pass(4 * time.Second)
				if runs, archived := w.whereabouts(); runs != 1 || archived != 2 {
					w.Fatalf("after its hold %d runs are in memory and %d in the archive", runs, archived)
				}
				w.is(ids[0], "terminated")
				w.used("sync", "a", 0)
				w.restart()
				w.used("sync", "a", 0)
				w.complete(w.claimRun("sync", "1", ids[1]))
			})
		})
	}
}

// TestR14R20S35HoldOverARestart fails when a held terminated run leaves memory because its
// node came back: its holder gets a full lease from then.
func TestR14R20S35HoldOverARestart(t *testing.T) {
	setup{shards: 2, recentFor: 2 * flow.Second}.play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		grant := w.claimRun("sync", "1", ids[0])
		w.terminate(ids[0])
		for range 3 {
			w.snapshots()
			w.restart()
			w.pass(8 * time.Second)
			if runs, archived := w.whereabouts(); runs != 2 || archived != 0 {
				w.Fatalf("while it is held %d runs are in memory and %d in the archive", runs, archived)
			}
			if b := w.beat(grant); b.OK || !b.CancelRequested {
				w.Fatalf("a beat of its holder: %+v", b)
			}
			w.used("sync", "a", 1)
		}
		w.pass(10 * time.Second)
		if runs, archived := w.whereabouts(); runs != 1 || archived != 1 {
			w.Fatalf("after its expiry %d runs are in memory and %d in the archive", runs, archived)
		}
		w.used("sync", "a", 0)
		w.claimRun("sync", "1", ids[1])
	})
}

// TestR14PagesOfAKeyFindItBehindManyOthers fails when a list by key looks at all of the
// archive for one page, or when it ends before it has.
func TestR14PagesOfAKeyFindItBehindManyOthers(t *testing.T) {
	setup{shards: 2, recentFor: flow.Second}.play(t, func(w *world) {
		w.declare("sync", leased)
		var other engine.Archived
		w.archive.Putting = func(items []engine.Archived, _ []engine.ArchivedKey) error {
			other = items[0]
			return nil
		}
		wanted := w.submit("sync", `{"k":"a"}`)
		w.cancel(wanted)
		w.pass(3 * time.Second)
		w.cancel(w.submit("sync", `{"k":"b"}`))
		w.pass(3 * time.Second)
		w.archive.Putting = nil
		many := make([]engine.Archived, 10_500)
		for i := range many {
			many[i] = other
			binary.BigEndian.PutUint16(many[i].ID[14:], uint16(i))
		}
		if err := w.archive.Put(w.Context(), many, nil); err != nil {
			w.Fatal(err)
		}
		q := wire.ListQuery{Key: new("a"), Limit: 5}
		if p := w.page(q); len(p.Runs) != 0 || p.NextCursor == nil {
			w.Errorf("the first page has %d runs and the cursor %v: it has looked too far", len(p.Runs), p.NextCursor)
		}
		if got := w.pages(q); !slices.Equal(got, []string{wanted.String()}) {
			w.Errorf("the pages hold %v, want %s", got, wanted)
		}
	})
}
