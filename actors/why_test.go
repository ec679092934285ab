package actors_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// reasons are all that a waiting run may wait for in this version.
var reasons = []string{"limit", "rate", "schedule", "retry_backoff", "worker_busy", "no_worker", "cluster"}

// TestWaitIsNeverEmpty fails when a waiting run has no reason, a run that doesn't wait
// has one, or the list, the status and the question why disagree; over random traffic.
func TestWaitIsNeverEmpty(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 2}.play(t, func(w *world) {
			f := newTraffic(w, number)
			for i := range 150 {
				f.step()
				if i%15 != 14 {
					continue
				}
				for _, r := range w.list(wire.ListQuery{Limit: 500}) {
					waits := r.Status == "queued" || r.Status == "suspended"
					if waits != (r.Wait != nil) {
						w.Fatalf("run %s is %s and waits for %+v", r.RunID, r.Status, r.Wait)
					}
					if !waits {
						continue
					}
					y := w.why(w.id(r.RunID))
					if !slices.Contains(reasons, r.Wait.Reason) || y.Wait == nil || y.Wait.Reason != r.Wait.Reason || len(y.Text) < 20 {
						w.Fatalf("run %s is %s and waits for %+v; why: %+v %q", r.RunID, r.Status, r.Wait, y.Wait, y.Text)
					}
					f.explained(r, y)
				}
			}
		})
	}
}

// explained fails when the facts of a reason don't bear it out.
func (f *traffic) explained(r wire.Run, y wire.Why) {
	w := f.w
	w.Helper()
	switch x := y.Wait; x.Reason {
	case "limit":
		if x.Used == nil || x.Max == nil || *x.Used < *x.Max || x.Position == nil || *x.Position < 1 || len(y.Holders) == 0 {
			w.Fatalf("run %s waits for a slot: %+v, holders %+v", r.RunID, x, y.Holders)
		}
	case "rate":
		if x.Gate == nil || *x.Gate != "rate" || x.Key == nil {
			w.Fatalf("run %s waits for a token: %+v", r.RunID, x)
		}
	case "schedule", "retry_backoff":
		if x.OpensAt == nil || r.Status != "suspended" {
			w.Fatalf("run %s is %s and waits for a time: %+v", r.RunID, r.Status, x)
		}
	}
	if len(y.Gates) != len(r.Gates) {
		w.Fatalf("run %s has %d gates, of which %d are explained", r.RunID, len(r.Gates), len(y.Gates))
	}
	for _, g := range y.Gates {
		if blamed := y.Wait.Gate != nil && *y.Wait.Gate == g.Kind; blamed == g.Open {
			w.Fatalf("run %s: gate %s is open %t, and it waits for %+v", r.RunID, g.Kind, g.Open, y.Wait)
		}
	}
}

// TestWhyNamesWhatWouldHelp fails when the reason isn't the one that decides, or its
// sentence doesn't name it.
func TestWhyNamesWhatWouldHelp(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.1,"burst":1},"max_attempts":2,"retry_backoff_seconds":60}`)
		ids := w.submitAll(3, "sync", `{"k":"acme"}`)
		says := func(id flow.RunID, reason string, parts ...string) wire.Why {
			w.Helper()
			y := w.why(id)
			if y.Wait == nil || y.Wait.Reason != reason {
				w.Fatalf("waits for %+v, want %s", y.Wait, reason)
			}
			for _, p := range parts {
				if !strings.Contains(y.Text, p) {
					w.Errorf("%q doesn't say %q", y.Text, p)
				}
			}
			return y
		}
		says(ids[0], "no_worker", `"sync"`)
		g := w.claimRun("sync", "1", ids[0])
		y := says(ids[2], "limit", `"acme"`, "1 of 1", "number 2")
		if len(y.Holders) != 1 || y.Holders[0].RunID != g.RunID || y.Holders[0].Fence != g.Fence || y.Holders[0].State != "executing" {
			w.Errorf("holders %+v", y.Holders)
		}
		await(w, w.failing(g, true))
		says(ids[0], "retry_backoff", "Attempt 1")
		y = says(ids[1], "rate", `"acme"`)
		opens := w.clock.Wall().Add(10 * flow.Second).Millis()
		if y.Wait.OpensAt == nil || *y.Wait.OpensAt != opens {
			w.Errorf("opens at %v, want %d", y.Wait.OpensAt, opens)
		}
		w.pass(10 * time.Second)
		says(ids[1], "worker_busy")
		w.pass(time.Minute)
		says(ids[1], "no_worker") // none was heard of for 30 s
		w.cancel(ids[1])
		if y := w.why(ids[1]); y.Wait != nil || !strings.Contains(y.Text, "cancelled") {
			w.Errorf("%+v", y)
		}
		refused(w, begin(func() (wire.Why, error) { return w.Why(w.life, flow.RunID{1}) }), flow.ErrUnknownRun)
	})
}

// TestS99KeyViewOfAnyKey fails when a key that nobody has used isn't an idle key, or the
// numbers of one in use are wrong.
func TestS99KeyViewOfAnyKey(t *testing.T) {
	play(t, func(w *world) {
		refused(w, begin(func() (wire.KeyView, error) { return w.Key(w.life, "sync", "a") }), flow.ErrUnknownWorkflow)
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":3},"rate":{"key":"k","per_second":2,"burst":5}}`)
		idle := w.key("sync", "never seen")
		if idle.Used != 0 || idle.Max == nil || *idle.Max != 3 || idle.Rate == nil || idle.Rate.Tokens != 5 || idle.Rate.OpensAt != nil || idle.Holders == nil || idle.OldestWaitMS != nil {
			w.Errorf("an idle key: %+v %+v", idle, idle.Rate)
		}
		ids := w.submitAll(7, "sync", `{"k":"a"}`)
		w.pass(3 * time.Second)
		w.claimAll("sync", ids[:3])
		v := w.key("sync", "a")
		if v.Used != 3 || v.Queued != 4 || len(v.Holders) != 3 || v.Rate.Tokens != 2 || v.Rate.PerSecond != 2 || v.OldestWaitMS == nil || *v.OldestWaitMS != 3000 {
			w.Errorf("a key in use: %+v %+v", v, v.Rate)
		}
		_, err := w.Key(w.Context(), "sync", strings.Repeat("x", flow.MaxKeyBytes+1))
		if !errors.Is(err, flow.ErrInvalid) {
			w.Errorf("a key that is too long: %v", err)
		}
	})
}

// TestStatsCountEveryRunOnce fails when the counts aren't those of the lists, or the
// waiting, the slots or the credit are miscounted.
func TestStatsCountEveryRunOnce(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":2}}`)
		w.declare("free", `{"version":"1"}`)
		for _, key := range []string{"a", "b", "c"} {
			w.submitAll(4, "sync", `{"k":"`+key+`"}`)
		}
		w.submitAll(3, "free", `{}`)
		g := w.claim("sync", "1", 5)
		w.complete(g[0])
		w.cancel(w.id(g[1].RunID))
		w.pass(2 * time.Second)
		stats := await(w, begin(func() (actorsStats, error) { return w.Stats(w.life) }))
		for _, name := range []string{"sync", "free"} {
			for status := flow.StatusQueued; status <= flow.StatusContinued; status++ {
				want := len(w.list(wire.ListQuery{Workflow: name, Status: status.String()}))
				if got := stats[name].Runs[status]; got != int64(want) {
					w.Errorf("%d runs of %s are %s, listed are %d", got, name, status, want)
				}
			}
		}
		s, full := stats["sync"], int64(0)
		for _, key := range []string{"a", "b", "c"} {
			if w.key("sync", key).Used == 2 {
				full++
			}
		}
		if s.Used != 4 || s.Slots != 6 || s.Full != full || s.Idle != 3-full || s.Limit != "k" || s.Oldest < 1999*flow.Millisecond || s.Oldest > 2*flow.Second {
			w.Errorf("%+v", s)
		}
		waiting := int64(0)
		for _, n := range s.Waiting {
			waiting += n
		}
		if waiting != s.Runs[flow.StatusQueued] {
			w.Errorf("%d runs are queued, %d are counted by what they wait for: %v", s.Runs[flow.StatusQueued], waiting, s.Waiting)
		}
		if stats.TotalRuns() != 15 {
			w.Errorf("%d runs in all", stats.TotalRuns())
		}
		w.claimFor("free", "1", 3, time.Second)
		claim := w.claiming("free", "1", 7, time.Minute)
		w.settle()
		stats = await(w, begin(func() (actorsStats, error) { return w.Stats(w.life) }))
		if stats["free"].Credit != 7 {
			w.Errorf("credit for %d runs waits, want 7", stats["free"].Credit)
		}
		w.submitAll(1, "free", `{}`)
		await(w, claim)
	})
}
