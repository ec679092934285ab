package actors_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// pending is a call whose value doesn't matter.
type pending = call[struct{}]

func blind[T any](c *call[T]) *pending {
	return begin(func() (struct{}, error) {
		<-c.done
		return struct{}{}, c.err
	})
}

// TestLaw1NothingLeavesBeforeItsEntry fails when an answer leaves before the entry
// that it depends on is durable: whatever changes something, and whatever was read
// after an uncommitted change.
func TestLaw1NothingLeavesBeforeItsEntry(t *testing.T) {
	type scene struct {
		w *world
		g wire.Grant // of an executing run
		a flow.RunID // that run
		b flow.RunID // a queued one, of the same key
	}
	changes := map[string]func(s *scene) *pending{
		"submit":    func(s *scene) *pending { return blind(s.w.submitting(submitOf("sync", `{"k":"a"}`))) },
		"keyed":     func(s *scene) *pending { return blind(s.w.submitting(keyedSubmit("sync", `{"k":"a"}`, "o1"))) },
		"declare":   func(s *scene) *pending { return blind(s.w.declaring("other", one)) },
		"complete":  func(s *scene) *pending { return blind(s.w.completing(s.g)) },
		"fail":      func(s *scene) *pending { return blind(s.w.failing(s.g, true)) },
		"suspend":   func(s *scene) *pending { return blind(s.w.suspending(s.g, s.w.clock.Wall().Add(flow.Hour))) },
		"cancel":    func(s *scene) *pending { return blind(s.w.cancelling(s.a)) },
		"cancel b":  func(s *scene) *pending { return blind(s.w.cancelling(s.b)) },
		"terminate": func(s *scene) *pending { return blind(s.w.terminating(s.a)) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			setup{manual: true}.play(t, func(w *world) {
				w.declare("sync", one)
				s := &scene{w: w, a: w.submit("sync", `{"k":"a"}`), b: w.submit("sync", `{"k":"a"}`)}
				s.g = w.claimRun("sync", "1", s.a)
				c := change(s)
				w.settle()
				if w.mem.Queued() == 0 {
					w.Fatal("nothing was appended")
				}
				if c.over() {
					w.Error("it was answered before its entry was durable")
				}
				w.pass20ms()
				if c.over() {
					w.Error("it was answered before its entry was durable, a moment later")
				}
				w.commit()
				if !c.over() || c.err != nil {
					w.Errorf("after the commit: over %t, %v", c.over(), c.err)
				}
			})
		})
	}
}

// pass20ms lets time pass without committing.
func (w *world) pass20ms() {
	<-time.After(20 * time.Millisecond)
	w.settle()
}

// TestLaw1ReadsWaitForWhatTheySaw fails when a read shows a change that may yet be
// lost.
func TestLaw1ReadsWaitForWhatTheySaw(t *testing.T) {
	reads := map[string]func(w *world, a, b flow.RunID, g wire.Grant) *pending{
		"run": func(w *world, a, _ flow.RunID, _ wire.Grant) *pending { return blind(w.reading(a)) },
		"why": func(w *world, _, b flow.RunID, _ wire.Grant) *pending {
			return blind(begin(func() (wire.Why, error) { return w.Why(w.life, b) }))
		},
		"events": func(w *world, a, _ flow.RunID, _ wire.Grant) *pending {
			return blind(begin(func() (wire.Events, error) { return w.Events(w.life, a) }))
		},
		"list": func(w *world, _, _ flow.RunID, _ wire.Grant) *pending {
			return blind(begin(func() (wire.RunList, error) { return w.List(w.life, wire.ListQuery{}) }))
		},
		"key": func(w *world, _, _ flow.RunID, _ wire.Grant) *pending {
			return blind(begin(func() (wire.KeyView, error) { return w.Key(w.life, "sync", "a") }))
		},
		"stats": func(w *world, _, _ flow.RunID, _ wire.Grant) *pending {
			return blind(begin(func() (actorsStats, error) { return w.Stats(w.life) }))
		},
		"heartbeat":    func(w *world, _, _ flow.RunID, g wire.Grant) *pending { return blind(w.beating(g)) },
		"end":          func(w *world, a, _ flow.RunID, _ wire.Grant) *pending { return blind(w.waitingFor(a, time.Hour)) },
		"stale":        func(w *world, _, _ flow.RunID, g wire.Grant) *pending { return blind(w.failing(g, true)) },
		"cancel again": func(w *world, a, _ flow.RunID, _ wire.Grant) *pending { return blind(w.cancelling(a)) },
		"repeated submit": func(w *world, _, _ flow.RunID, _ wire.Grant) *pending {
			return blind(w.submitting(requested("sync", `{"k":"a"}`, "r1")))
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			setup{manual: true}.play(t, func(w *world) {
				w.declare("sync", one)
				a, b := w.submit("sync", `{"k":"a"}`), w.submit("sync", `{"k":"a"}`)
				g := w.claimRun("sync", "1", a)
				w.completing(g)
				w.submitting(requested("sync", `{"k":"a"}`, "r1"))
				w.settle()
				c := read(w, a, b, g)
				w.settle()
				if c.over() {
					w.Error("it was answered before what it saw was durable")
				}
				w.commit()
				if !c.over() {
					w.Error("it was not answered after the commit")
				}
			})
		})
	}
}

// TestLaw1GrantsWaitForTheirEntry fails when a grant leaves before its admission is
// durable, or before another entry that it doesn't depend on.
func TestLaw1GrantsWaitForTheirEntry(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", leased)
		w.submitAll(3, "sync", `{"k":"a"}`)
		claim := w.claiming("sync", "1", 3, time.Minute)
		w.pass20ms()
		if claim.over() {
			w.Fatal("granted before the admission was durable")
		}
		n := w.mem.Queued()
		w.submitting(submitOf("sync", `{"k":"other"}`))
		w.settle()
		for range n {
			w.mem.CommitNext()
			w.settle()
		}
		if !claim.over() || len(claim.value) != 3 {
			w.Errorf("the admissions are durable: over %t, %d runs", claim.over(), len(claim.value))
		}
		if w.mem.Queued() == 0 {
			w.Error("nothing else was in flight")
		}
	})
}

// TestLaw1ExpiryAndClaimBehindIt fails when a requeued run is granted to the next
// worker before its expiry is durable.
func TestLaw1ExpiryAndClaimBehindIt(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		first := w.claimRun("sync", "1", a)
		claim := w.claiming("sync", "1", 1, time.Minute)
		<-time.After(expiry + 10*time.Millisecond)
		w.settle()
		if claim.over() {
			w.Fatal("granted before the former holder's expiry was durable")
		}
		for w.mem.CommitNext() {
			w.settle()
		}
		if !claim.over() || claim.value[0].RunID != a.String() || claim.value[0].Fence <= first.Fence {
			w.Errorf("after the commit: %+v", claim.value)
		}
	})
}

// TestLaw2P50ExpirySlotAndRequeueAreOneEntry fails when a lease's expiry, its slot and
// the run's place are written apart: in between, a run would be nowhere.
func TestLaw2P50ExpirySlotAndRequeueAreOneEntry(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		w.claimRun("sync", "1", ids[0])
		s := w.shardOf("sync", "a")
		before, _ := w.entries(s)
		w.pass(expiry + 10*time.Millisecond)
		all, _ := w.entries(s)
		var with []int
		for i := len(before); i < len(all); i++ {
			if slices.Contains(all[i].kinds(ids[0]), flow.RecExpired) {
				with = append(with, i)
			}
		}
		if len(with) != 1 {
			w.Fatalf("the expiry stands in entries %v", with)
		}
		at := with[0]
		replayed := func(n int) string {
			raw, _ := w.mem.Entries(s)
			text, err := replayAt(w, raw[:n])
			if err != nil {
				w.Fatal(err)
			}
			return text
		}
		if text := replayed(at); !strings.Contains(text, "used 1") {
			w.Error("before the entry the slot is not taken")
		}
		if text := replayed(at + 1); !strings.Contains(text, "used 0") || !strings.Contains(text, "waits") {
			w.Error("after the entry the slot is not free, or nobody waits")
		}
	})
}

// TestLaw2OneBatchIsOneEntry fails when what a batch brings together is written apart.
func TestLaw2OneBatchIsOneEntry(t *testing.T) {
	setup{manual: true, window: 1, shards: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		grants := w.claimAll("sync", w.submitAll(5, "sync", `{"k":"a"}`))
		w.submitting(submitOf("sync", `{"k":"first"}`)) // fills the window
		w.settle()
		for _, g := range grants {
			w.completing(g)
		}
		w.submitting(submitOf("sync", `{"k":"b"}`))
		w.settle()
		before, _ := w.entries(0)
		w.mem.CommitNext()
		w.settle()
		all, _ := w.entries(0)
		if len(all) != len(before)+1 || len(all[len(all)-1].records) != 6 {
			w.Errorf("a batch of 6 messages is %d entries, the last of %d records", len(all)-len(before), len(all[len(all)-1].records))
		}
	})
}

// TestLaw3BrokenInvariantEndsTheProcess fails when a shard goes on after a broken
// invariant, or its last words don't say where.
func TestLaw3BrokenInvariantEndsTheProcess(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"acme"}`)
		g := w.claimRun("sync", "1", a)
		breakSlots(w, a, g.Fence)
		w.completing(g)
		w.settle()
		died := w.died()
		if len(died) != 1 {
			w.Fatalf("the process ended %d times", len(died))
		}
		for _, want := range []string{a.String(), fmt.Sprint("shard ", w.shardOf("sync", "acme")), "epoch 1", "entry ", `sync key "acme"`} {
			if !strings.Contains(died[0].Error(), want) {
				w.Errorf("the last words don't name %q: %v", want, died[0])
			}
		}
		w.dead = true
	})
}

// TestLaw3S16FailedWriteEndsTheProcess fails when a shard goes on after an append
// that was refused for another reason than ownership, or when it acknowledges what
// was refused; after a restart the run is where it was.
func TestLaw3S16FailedWriteEndsTheProcess(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		w.mem.Fail(errors.New("disk"))
		c := w.completing(g)
		claim := w.claiming("sync", "1", 1, time.Second)
		w.settle()
		died := w.died()
		if len(died) == 0 || !errors.Is(died[0], engine.ErrStopped) && !strings.Contains(died[0].Error(), "stopped") {
			w.Fatalf("last words: %v", died)
		}
		if c.over() || claim.over() && len(claim.value) > 0 {
			w.Error("something was acknowledged after a failed write")
		}
		w.dead = true
		w.restart()
		w.used("sync", "a", 1)
		w.is(ids[0], "executing")
		w.complete(g)
		w.claimRun("sync", "1", ids[1])
	})
}

// TestLaw1WatcherWaitsForTheEnd fails when a reader that waits for a run's end is told
// of one that may yet be lost.
func TestLaw1WatcherWaitsForTheEnd(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", a)
		watch := w.waitingFor(a, time.Hour)
		w.settle()
		end := w.completing(g)
		w.pass20ms()
		if watch.over() || end.over() {
			w.Fatal("told before the end was durable")
		}
		w.commit()
		if !watch.over() || watch.value.Status != "completed" {
			w.Errorf("after the commit: over %t, %q", watch.over(), watch.value.Status)
		}
	})
}
