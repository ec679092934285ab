package inline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// single is the declaration of most scenarios of slots: one at a time by k.
const single = `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":10}`

// TestS01DeadBetweenGrantAndStart fails when a run whose worker dies before its first
// word keeps its slot, or loses its place.
func TestS01DeadBetweenGrantAndStart(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		ab := s.sendAll(2, "sync", `{"k":"a"}`)
		s.complete(s.grant(ab[0]))
		s.grant(ab[1]) // and its worker dies
		c := s.send("sync", `{"k":"a"}`)
		s.until(expiry - time.Millisecond)
		s.used("sync", "a", 1)
		s.granted(s.claim(asks{credit: 5}))
		s.until(expiry)
		s.used("sync", "a", 0)
		s.complete(s.grant(ab[1]))
		s.complete(s.grant(c))
		s.used("sync", "a", 0)
	})
}

// TestS02EndedInTheTurnOfItsAdmission fails when a run that is claimed and cancelled in
// one instant ends twice, keeps its slot, or ends as a success.
func TestS02EndedInTheTurnOfItsAdmission(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		for _, cancelFirst := range []bool{true, false} {
			a := s.send("sync", `{"k":"a"}`)
			var claim *answer[wire.Claimed]
			if !cancelFirst {
				claim = s.claiming(asks{credit: 1})
			}
			cancel := ask(func() (struct{}, error) { return struct{}{}, s.client.Cancel(s.Context(), a, "enough") })
			if cancelFirst {
				claim = s.claiming(asks{credit: 1})
			}
			cancel.get(s)
			for _, g := range claim.get(s).Runs {
				if got := s.completing(g).get(s); got.Status != "cancelled" {
					s.Errorf("after its cancel it is %s", got.Status)
				}
			}
			s.is(a, "cancelled")
			s.used("sync", "a", 0)
			if n := s.count(a, flow.EventCancelled); n != 1 {
				s.Errorf("it ended %d times", n)
			}
			s.complete(s.grant(s.send("sync", `{"k":"a"}`)))
		}
	})
}

// TestS05WorkerThoughtDeadComesBack fails when the reports of a former holder change
// anything.
func TestS05WorkerThoughtDeadComesBack(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		runs := s.sendAll(3, "sync", `{"k":"a"}`)
		first := s.grant(runs[0])
		s.until(expiry)
		second := s.grant(runs[0])
		if second.Fence <= first.Fence {
			s.Fatalf("fence %d after %d", second.Fence, first.Fence)
		}
		s.until(14 * time.Second)
		for range 10 {
			s.completing(first).refused(s, wire.CodeStaleFence)
			s.failing(first).refused(s, wire.CodeStaleFence)
			s.suspending(first).refused(s, wire.CodeStaleFence)
			if s.beat(first).OK {
				s.Error("a former holder's heartbeat was taken")
			}
			s.is(runs[0], "executing")
			s.used("sync", "a", 1)
			s.granted(s.claim(asks{credit: 1}))
		}
		s.complete(second)
		s.complete(s.grant(runs[1]))
		s.complete(s.grant(runs[2]))
		if n := s.count(runs[0], flow.EventClaimed); n != 2 {
			s.Errorf("its body was granted %d times", n)
		}
	})
}

// TestS06StartRacesEnd fails when a waiter is left beside a free slot and a claim that
// waits, in whatever order an end, a submit and the claim come, together or apart.
func TestS06StartRacesEnd(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			for _, apart := range []bool{true, false} {
				g := s.grant(s.send("sync", `{"k":"a"}`))
				var end *answer[wire.Ended]
				var submit *answer[string]
				var claim *answer[wire.Claimed]
				for _, event := range order {
					switch event {
					case 0:
						end = s.completing(g)
					case 1:
						submit = ask(func() (string, error) {
							done, err := s.client.Submit(s.Context(), "sync", map[string]string{"k": "a"})
							return done.RunID, err
						})
					case 2:
						claim = s.claiming(asks{worker: "w2", credit: 1, wait: 20 * time.Second})
					}
					if apart {
						s.settle()
					}
				}
				now := s.at()
				end.get(s)
				got := claim.get(s).Runs
				s.granted(got, submit.get(s))
				if s.at() != now {
					s.Errorf("order %v, apart %t: it started %v later", order, apart, s.at()-now)
				}
				s.complete(got[0])
			}
		}
	})
}

// TestS11FreeingNeedsNoLookUp fails when the slot to free is looked up in a declaration
// that has changed, not in the run's own stamp.
func TestS11FreeingNeedsNoLookUp(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", `{"version":"1","limit":{"key":"tenant","max":1}}`)
		runs := s.sendAll(2, "sync", `{"tenant":"a","region":"r"}`)
		a := s.grant(runs[0])
		s.declare("sync", `{"version":"2","limit":{"key":"region","max":5}}`)
		s.used("sync", "a", 1)
		s.declare("sync", `{"version":"3"}`)
		s.used("sync", "a", 1)
		s.used("sync", "r", 0)
		s.complete(a)
		s.used("sync", "a", 0)
		b := s.grant(runs[1])
		s.used("sync", "a", 1)
		s.used("sync", "r", 0)
		s.complete(b)
		for _, key := range []string{"a", "r", ""} {
			s.used("sync", key, 0)
		}
	})
}

// TestS13FiveSilentWorkers fails when leases that end together free slots without
// requeueing, or mix the order up.
func TestS13FiveSilentWorkers(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", `{"version":"1","limit":{"key":"k","max":5},"lease_seconds":10}`)
		runs := s.sendAll(6, "sync", `{"k":"a"}`)
		var old []wire.Grant
		for i := range 5 {
			old = append(old, s.grant(runs[i]))
		}
		s.until(expiry - time.Millisecond)
		s.granted(s.claim(asks{credit: 5}))
		s.until(expiry)
		s.used("sync", "a", 0)
		for i := range 5 {
			s.grant(runs[i])
		}
		s.granted(s.claim(asks{credit: 5}))
		for _, g := range old {
			s.completing(g).refused(s, wire.CodeStaleFence)
		}
		s.used("sync", "a", 5)
	})
}

// TestS14OwnFormerHold fails when a run waits for a hold that it had itself, or behind a
// younger one.
func TestS14OwnFormerHold(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		runs := s.sendAll(2, "sync", `{"k":"a"}`)
		for range 3 {
			s.grant(runs[0])
			s.used("sync", "a", 1)
			s.pass(expiry)
			s.used("sync", "a", 0)
		}
		s.complete(s.grant(runs[0]))
		s.grant(runs[1])
		if k := s.key("sync", "a"); k.Used != 1 || k.Holders[0].RunID != runs[1] {
			s.Errorf("the key: %+v", k)
		}
	})
}

// TestS17HeartbeatAfterTheEnd fails when a heartbeat that comes after the end is taken,
// or changes something.
func TestS17HeartbeatAfterTheEnd(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		a := s.send("sync", `{"k":"a"}`)
		g := s.grant(a)
		s.until(5 * time.Second)
		s.complete(g)
		before := s.status(a)
		for _, at := range []time.Duration{5001 * time.Millisecond, 20 * time.Second} {
			s.until(at)
			if s.beat(g).OK {
				s.Errorf("a heartbeat at %v was taken", at)
			}
		}
		s.until(time.Minute)
		if after := s.status(a); after.Status != "completed" || string(after.Result) != `"done"` || *after.EndedAt != *before.EndedAt {
			s.Errorf("the run: %+v", after)
		}
		if n := s.count(a, flow.EventLeaseExpired); n != 0 {
			s.Errorf("a lease expired %d times after the end", n)
		}
	})
}

// TestS19EndAfterHeartbeats fails when an end after heartbeats isn't taken, or when its
// copy counts again.
func TestS19EndAfterHeartbeats(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":10,"max_attempts":3,"retry_backoff_seconds":1}`)
		for _, fails := range []bool{false, true} {
			a := s.send("sync", `{"k":"a"}`)
			g := s.grant(a)
			for range 3 {
				s.pass(3 * time.Second)
				if !s.beat(g).OK {
					s.Fatal("the lease is gone")
				}
			}
			s.pass(time.Second)
			if !fails {
				s.complete(g)
				s.complete(g)
				if n := s.count(a, flow.EventCompleted); n != 1 {
					s.Errorf("completed %d times", n)
				}
				continue
			}
			s.failing(g).get(s)
			s.failing(g).get(s)
			s.used("sync", "a", 0)
			s.pass(time.Second)
			again := s.grant(a)
			s.failing(g).get(s) // the copy comes once more, late
			s.is(a, "executing")
			if n := s.count(a, flow.EventRetrying); n != 1 || again.Attempt != 2 {
				s.Errorf("requeued %d times, attempt %d", n, again.Attempt)
			}
			s.complete(again)
		}
	})
}

// TestS20SameInstant fails when a heartbeat and an end, or an end and an expiry, of one
// instant have two outcomes, or leave the slot taken.
func TestS20SameInstant(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		for trial := range 100 {
			runs := s.sendAll(2, "sync", `{"k":"a"}`)
			g := s.grant(runs[0])
			var beat *answer[wire.BeatResult]
			if trial%2 == 0 {
				beat = s.beating(g)
			}
			end := s.completing(g)
			if beat == nil {
				beat = s.beating(g)
			}
			if trial%4 > 1 {
				s.settle()
			}
			beat.get(s)
			end.get(s)
			s.used("sync", "a", 0)
			s.complete(s.grant(runs[1]))
		}
		for range 20 {
			runs := s.sendAll(2, "sync", `{"k":"a"}`)
			g := s.grant(runs[0])
			<-time.After(expiry) // and nothing settles: the expiry and the end come together
			end := s.completing(g)
			<-end.done
			switch p := problemOf(end.err); {
			case end.err == nil:
				s.is(runs[0], "completed")
			case p != nil && p.Code == wire.CodeStaleFence:
				s.is(runs[0], "queued")
				s.complete(s.grant(runs[0]))
			default:
				s.Fatalf("answered %+v, %v", end.value, end.err)
			}
			s.complete(s.grant(runs[1]))
			s.used("sync", "a", 0)
		}
	})
}

// TestS32TwoClaimsAtOnce fails when two claims of one instant share a slot.
func TestS32TwoClaimsAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		for _, apart := range []bool{false, true} {
			runs := s.sendAll(4, "sync", `{"k":"a"}`)
			first := s.claiming(asks{worker: "w1", credit: 4})
			if apart {
				s.settle()
			}
			second := s.claiming(asks{worker: "w2", credit: 4})
			got := slices.Concat(first.get(s).Runs, second.get(s).Runs)
			s.granted(got, runs[0])
			listed, err := s.client.List(s.Context(), pyrula.ListQuery{Workflow: "sync", Status: "queued"})
			s.must(err)
			if len(listed.Runs) != 3 {
				s.Errorf("%d are listed as queued, want 3", len(listed.Runs))
			}
			s.complete(got[0])
			for _, run := range runs[1:] {
				s.complete(s.grant(run))
			}
		}
	})
}

// TestS35BodyThatIgnoresTheStop fails when a terminated run's holder keeps its slot by
// heartbeats, when the slot is free while the lease lasts, or when a late result is
// kept.
func TestS35BodyThatIgnoresTheStop(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", single)
		runs := s.sendAll(2, "sync", `{"k":"a"}`)
		g := s.grant(runs[0])
		s.must(s.client.Terminate(s.Context(), runs[0], "enough"))
		s.is(runs[0], "terminated")
		for range 4 {
			s.pass(3 * time.Second)
			if b := s.beat(g); b.OK || !b.CancelRequested {
				s.Errorf("a heartbeat after the terminate: %+v", b)
			}
			s.used("sync", "a", 1)
			s.granted(s.claim(asks{credit: 1}))
		}
		s.until(expiry)
		s.used("sync", "a", 0)
		b := s.grant(runs[1])
		for s.at() < time.Minute {
			s.pass(3 * time.Second)
			s.beat(b)
		}
		s.completing(g).refused(s, wire.CodeRunEnded)
		if st := s.status(runs[0]); st.Status != "terminated" || string(st.Result) != "null" {
			s.Errorf("the run: %+v", st)
		}
		s.used("sync", "a", 1)
	})
}
