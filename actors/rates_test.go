package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// server is a worker that always has a claim waiting and ends what it gets at once. It
// notes the order and the instants of the starts.
type server struct {
	w       *world
	claim   wire.Claim
	waiting *call[[]wire.Grant]
	order   []string
	at      []time.Duration
}

func (w *world) serve(credit int, workflows ...string) *server {
	return &server{w: w, claim: wire.Claim{Workflows: serves(workflows...), Credit: credit, WaitMS: 60_000}}
}

// work serves for a while.
func (s *server) work(d time.Duration) {
	s.w.Helper()
	end := time.After(d)
	for {
		if s.waiting == nil {
			s.waiting = s.w.claimingAs("server", s.claim)
		}
		s.w.commit()
		var again <-chan time.Time
		if s.w.manual { // nothing else commits
			again = time.After(5 * time.Millisecond)
		}
		select {
		case <-again:
		case <-s.waiting.done:
			if s.waiting.err != nil {
				s.w.Fatal(s.waiting.err)
			}
			for _, g := range s.waiting.value {
				s.order, s.at = append(s.order, g.RunID), append(s.at, s.w.now())
				s.w.complete(g)
			}
			s.waiting = nil
		case <-end:
			return
		}
	}
}

// inOrder fails unless the runs started in this order and no others did.
func (s *server) inOrder(ids []flow.RunID) {
	s.w.Helper()
	if len(s.order) != len(ids) {
		s.w.Fatalf("%d of %d runs started", len(s.order), len(ids))
	}
	for i := range ids {
		if s.order[i] != ids[i].String() {
			s.w.Fatalf("start %d is of %s, want %s", i, s.order[i], ids[i])
		}
	}
}

// within fails if more than burst + rate x t of the starts lie in any interval t.
func within(w *world, at []time.Duration, perSecond, burst float64) {
	w.Helper()
	for i := range at {
		for j := i; j < len(at); j++ {
			if most := burst + perSecond*(at[j]-at[i]).Seconds(); float64(j-i+1) > most+1e-9 {
				w.Fatalf("%d starts in %s, want at most %.3f", j-i+1, at[j]-at[i], most)
			}
		}
	}
}

// TestP4P6ThousandSubmitsOnOneKey fails when starts exceed burst + rate x t in any
// interval, or a run is lost, or stays after its token has come.
func TestD5_2_P4P6P55S36S52ThousandSubmitsOnOneKey(t *testing.T) {
	for _, c := range []struct {
		runs          int
		rate, burst   float64
		declared      string
		first, lastBy time.Duration
	}{
		{1000, 5, 10, `"per_second":5,"burst":10`, 0, 199 * time.Second},
		{40, 0.5, 1, `"per_second":0.5`, 0, 79 * time.Second},
		{30, 10, 10, `"per_second":10`, 0, 2100 * time.Millisecond},
	} {
		play(t, func(w *world) {
			w.declare("sync", `{"version":"1","rate":{"key":"k",`+c.declared+`}}`)
			ids := w.submitAll(c.runs, "sync", `{"k":"a"}`)
			begin := w.now()
			s := w.serve(100, "sync")
			s.work(c.lastBy + time.Second)
			s.inOrder(ids)
			within(w, s.at, c.rate, c.burst)
			if last := s.at[len(s.at)-1] - begin; last > c.lastBy {
				w.Errorf("%d runs at %.1f a second: the last started after %s, want %s", c.runs, c.rate, last, c.lastBy)
			}
		})
	}
}

// TestS54OverTheRateIsStillThere fails when a run over the rate is lost, unlisted,
// without a reason, or out of order.
func TestS54P6OverTheRateIsStillThere(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","rate":{"key":"k","per_second":0.004,"burst":2}}`)
		ids := w.submitAll(100, "sync", `{"k":"a"}`)
		s := w.serve(100, "sync")
		s.work(time.Second)
		s.inOrder(ids[:2])
		queued := w.list(wire.ListQuery{Workflow: "sync", Status: "queued"})
		if len(queued) != 98 || w.key("sync", "a").Queued != 98 {
			w.Fatalf("%d runs are listed, %d counted", len(queued), w.key("sync", "a").Queued)
		}
		for _, r := range queued {
			if r.Wait == nil || r.Wait.Reason != "rate" || r.Wait.OpensAt == nil {
				w.Fatalf("run %s waits for %+v", r.RunID, r.Wait)
			}
		}
		s.work(250 * time.Second)
		s.inOrder(ids[:3])
		s.work(24_500 * time.Second)
		s.inOrder(ids)
	})
}

// TestS57StartedOneByOne fails when runs start at other instants than the bucket says,
// or when a waiting run's journal grows while it waits.
func TestS57P64StartedOneByOne(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", fmt.Sprintf(`{"version":"1","rate":{"key":"k","per_second":%.15f,"burst":2}}`, 1.0/60))
		s := w.serve(1, "sync")
		begin := w.now()
		var ids []flow.RunID
		for range 5 {
			ids = append(ids, w.submit("sync", `{"k":"a"}`))
			s.work(time.Second)
		}
		s.work(195 * time.Second)
		s.inOrder(ids)
		for i, want := range []time.Duration{0, time.Second, time.Minute, 2 * time.Minute, 3 * time.Minute} {
			if got := s.at[i] - begin; got < want || got > want+5*time.Millisecond {
				w.Errorf("start %d after %s, want %s", i, got, want)
			}
		}
		events := await(w, w.journal(ids[4]))
		if len(events.Events) != 3 { // init, claimed, completed: a refused claim leaves nothing
			w.Errorf("the journal of a run that waited holds %+v", events.Events)
		}
	})
}

// TestS39LookingDoesNotMoveTheTime fails when reads change an opening, or leave a
// record.
func TestS39LookingDoesNotMoveTheTime(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","rate":{"key":"k","per_second":0.1,"burst":1}}`)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		begin := w.now()
		w.complete(w.claimRun("sync", "1", ids[0]))
		s := w.serve(1, "sync")
		s.work(0)
		before, _ := w.entries(w.shardOf("sync", "a"))
		opens := *w.status(ids[1]).Wait.OpensAt
		for range 90 {
			s.work(100 * time.Millisecond)
			if a, b, c := *w.status(ids[1]).Wait.OpensAt, *w.why(ids[1]).Wait.OpensAt, *w.key("sync", "a").Rate.OpensAt; a != opens || b != opens || c != opens {
				w.Fatalf("opens at %d, %d, %d; at first %d", a, b, c, opens)
			}
		}
		if after, _ := w.entries(w.shardOf("sync", "a")); len(after) != len(before) {
			w.Errorf("reading left %d entries", len(after)-len(before))
		}
		s.work(2 * time.Second)
		s.inOrder(ids[1:])
		if took := s.at[0] - begin; took < 10*time.Second || took > 10*time.Second+5*time.Millisecond {
			w.Errorf("started after %s, want 10 s", took)
		}
	})
}

// TestS40PartlyUsedBucketIsNotForgotten fails when a key that is passivated, or a
// restart, gives tokens back.
func TestS40PartlyUsedBucketIsNotForgotten(t *testing.T) {
	for _, restart := range []bool{false, true} {
		play(t, func(w *world) {
			w.declare("sync", `{"version":"1","rate":{"key":"k","per_second":0.2,"burst":10}}`)
			for _, g := range w.claimAll("sync", w.submitAll(5, "sync", `{"k":"a"}`)) {
				w.complete(g)
			}
			w.pass(5 * time.Second)
			if restart {
				w.restart()
			}
			w.pass(time.Second)
			w.submitAll(10, "sync", `{"k":"a"}`)
			if g := w.claim("sync", "1", 10); len(g) != 6 {
				w.Errorf("restart %t: %d runs start at 6 s, want 6", restart, len(g))
			}
			w.pass(4 * time.Second)
			if g := w.claim("sync", "1", 10); len(g) != 1 {
				w.Errorf("restart %t: %d runs start at 10 s, want 1", restart, len(g))
			}
		})
	}
}

// TestP5BothGates fails when a run starts that only one of its gates admits.
func TestP5P2BothGates(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":2},"rate":{"key":"k","per_second":1,"burst":3}}`)
		w.submitAll(8, "sync", `{"k":"a"}`)
		g := w.claim("sync", "1", 8)
		if len(g) != 2 {
			w.Fatalf("%d start at max 2", len(g))
		}
		w.complete(g[0])
		w.complete(g[1])
		if g = w.claim("sync", "1", 8); len(g) != 1 {
			w.Fatalf("%d start with one token left", len(g))
		}
		w.complete(g[0])
		w.pass(time.Second)
		if g = w.claim("sync", "1", 8); len(g) != 1 {
			w.Fatalf("%d start a second later", len(g))
		}
	})
}

// TestP53OneTokenForARun fails when a run that starts again takes another token, or
// waits for one.
func TestP53P65OneTokenForARun(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.0001,"burst":2},
			"lease_seconds":10,"max_attempts":9,"retry_backoff_seconds":0}`)
		id := w.submit("sync", `{"k":"a"}`)
		again := map[string]func(g wire.Grant){
			"retry":   func(g wire.Grant) { await(w, w.failing(g, true)) },
			"resume":  func(g wire.Grant) { await(w, w.suspending(g, w.clock.Wall())); w.pass(time.Millisecond) },
			"expiry":  func(wire.Grant) { w.pass(expiry + 10*time.Millisecond) },
			"restart": func(wire.Grant) { w.restart(); w.pass(expiry + 10*time.Millisecond) },
		}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for k := range again {
				if !yield(k) {
					return
				}
			}
		}) {
			again[name](w.claimRun("sync", "1", id))
			if n := w.key("sync", "a").Rate.Tokens; n != 1 {
				w.Fatalf("after a %s %d tokens are left, want 1", name, n)
			}
		}
		w.claimRun("sync", "1", id)
	})
}

// TestP8P52S34SuspendedRunFreesItsSlotAndKeepsItsPlace fails when a suspended run holds
// its slot, or comes back behind a younger one.
func TestP8P52P54S34SuspendedRunKeepsItsPlace(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(3, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		claim := w.claiming("sync", "1", 1, time.Minute)
		if s := await(w, w.suspending(g, w.clock.Wall().Add(flow.Minute))); s != "suspended" {
			w.Fatal(s)
		}
		b := await(w, claim)
		if b[0].RunID != ids[1].String() {
			w.Fatalf("granted %s", names(b))
		}
		for range 6 { // over a minute, B at work
			w.pass(10 * time.Second)
			w.beat(b[0])
		}
		w.pass(10 * time.Millisecond)
		w.is(ids[0], "queued")
		w.used("sync", "a", 1)
		w.complete(b[0])
		again := w.claimRun("sync", "1", ids[0])
		if again.Attempt != 1 {
			w.Errorf("a resumed run is attempt %d", again.Attempt)
		}
		w.complete(again)
		w.claimRun("sync", "1", ids[2])
	})
}
