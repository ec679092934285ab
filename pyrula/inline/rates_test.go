package inline_test

import (
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// within fails if more than burst + rate x t of the starts lie in any interval t.
func within(s *stage, log []begun, perSecond, burst float64) {
	s.Helper()
	for i := range log {
		for j := i; j < len(log); j++ {
			span := log[j].at.Sub(log[i].at)
			if most := burst + perSecond*span.Seconds(); float64(j-i+1) > most+1e-6 {
				s.Fatalf("%d starts in %v, want at most %.3f", j-i+1, span, most)
			}
		}
	}
}

// shown is how late a timer of a shard may be: it looks at the time once more.
const shown = time.Millisecond

// startsAt fails unless the starts were at these instants, in seconds.
func startsAt(s *stage, log []begun, seconds ...float64) {
	s.Helper()
	if len(log) != len(seconds) {
		s.Fatalf("%d starts by %v, want %d", len(log), s.at(), len(seconds))
	}
	for i, b := range log {
		at, want := b.at.Sub(s.began), time.Duration(seconds[i]*float64(time.Second))
		if at < want || at > want+shown {
			s.Errorf("start %d was at %v, want %v", i, at, want)
		}
	}
}

// TestS36NeverRefilledAtOnce fails when a bucket fills up other than bit by bit, also
// while it is read, forgotten, or read back from the log.
func TestS36NeverRefilledAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ reads, restarts bool }{"plain": {}, "read": {reads: true}, "restarted": {restarts: true}} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				if c.restarts && !s.outlives() {
					s.Skip("nothing outlives an inline runner")
				}
				w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 3, Burst: 3})
				s.open(0, w.wf)
				runs := s.submitAll(w, 200, "a")
				begin := s.at()
				last := int64(0)
				for tick := 1; tick <= 100; tick++ {
					s.until(begin + time.Duration(tick)*100*time.Millisecond)
					if c.reads {
						tokens := s.key("sync", "a").Rate.Tokens
						if tokens > last+1 {
							s.Errorf("%d tokens after %d", tokens, last)
						}
						last = tokens
					}
					if c.restarts && tick%10 == 0 && tick < 100 {
						s.restart()
					}
				}
				log := s.begun(w)
				within(s, log, 3, 3)
				if n := len(log); n < 32 || n > 33 {
					s.Errorf("%d of %d have started by 10 s, want 32 or 33", n, len(runs))
				}
				for i, b := range log {
					if b.run != runs[i] {
						s.Errorf("start %d is of %s, want %s", i, b.run, runs[i])
					}
				}
			})
		})
	}
}

// TestS37FractionsSurvive fails when asking each second costs the fractions of a token.
func TestS37FractionsSurvive(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 1.0 / 3, Burst: 10})
		s.open(0, w.wf)
		s.submitAll(w, 10, "a")
		if n := len(s.begun(w)); n != 10 {
			s.Fatalf("%d of a full bucket of 10 have started", n)
		}
		for range 30 {
			s.submit(w, "a")
			s.pass(time.Second)
			s.key("sync", "a")
		}
		log := s.begun(w)
		if n := len(log); n < 9 || n > 10 {
			s.Errorf("%d have started in 30 s, want one each 3 s", n)
		}
		within(s, log, 1.0/3, 1)
	})
}

// TestS38ChangedBurst fails when a burst that was raised or lowered doesn't count from
// then on, or when tokens are shown that there can't be.
func TestS38ChangedBurst(t *testing.T) {
	for name, c := range map[string]struct {
		burst  int
		runs   int
		starts []float64
	}{
		"raised":  {burst: 20, runs: 20, starts: []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"lowered": {burst: 5, runs: 3, starts: []float64{6, 7, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.open(0)
				s.declare("sync", `{"version":"1","rate":{"key":"k","per_second":1,"burst":10}}`)
				s.sendAll(10, "sync", `{"k":"a"}`)
				got := s.claim(asks{credit: 20})
				if len(got) != 10 {
					s.Fatalf("%d of a full bucket of 10 have started", len(got))
				}
				for _, g := range got {
					s.complete(g)
				}
				s.tokens("sync", "a", 0)
				w := quick("sync", pyrula.Version("2"), pyrula.Rate{Key: "k", PerSecond: 1, Burst: c.burst})
				s.work(pyrula.WorkerConfig{}, w.wf)
				s.submitAll(w, c.runs, "a")
				for tick := range 110 {
					s.until(time.Duration(tick) * 100 * time.Millisecond)
					if r := s.key("sync", "a").Rate; r.Tokens < 0 || r.Tokens > int64(c.burst) || r.Burst != int64(c.burst) {
						s.Fatalf("shown at %v: %+v", s.at(), *r)
					}
				}
				startsAt(s, s.begun(w), c.starts...)
			})
		})
	}
}

// TestS39LookingMovesNothing fails when reads change an opening, or leave a record.
func TestS39LookingMovesNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 0.1, Burst: 1})
		s.open(0, w.wf)
		runs := s.submitAll(w, 2, "a")
		s.started(w, runs[0])
		opens, before := s.status(runs[1]).Wait.OpensAt, s.entries()
		if opens == nil || *opens != s.began.Add(10*time.Second).UnixMilli() {
			s.Fatalf("opens at %v", opens)
		}
		for tick := range 100 {
			s.until(time.Duration(tick) * 100 * time.Millisecond)
			var reads []*answer[int64]
			for range 3 {
				reads = append(reads,
					ask(func() (int64, error) { return *s.key("sync", "a").Rate.OpensAt, nil }),
					ask(func() (int64, error) { return *s.status(runs[1]).Wait.OpensAt, nil }),
					ask(func() (int64, error) {
						why, err := s.client.Why(s.Context(), runs[1])
						return *why.Wait.OpensAt, err
					}))
			}
			for _, r := range reads {
				if got := r.get(s); got != *opens {
					s.Fatalf("opens at %d, and at first at %d", got, *opens)
				}
			}
		}
		if after := s.entries(); after != before {
			s.Errorf("reading left %d entries", after-before)
		}
		s.until(11 * time.Second)
		startsAt(s, s.begun(w), 10)
	})
}

// TestS40PartlyUsedBucket fails when a bucket that isn't full is forgotten, by a key
// that has nothing else to remember or over a restart.
func TestS40PartlyUsedBucket(t *testing.T) {
	for name, restart := range map[string]bool{"plain": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				if restart && !s.outlives() {
					s.Skip("nothing outlives an inline runner")
				}
				w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 0.2, Burst: 10})
				s.open(0, w.wf)
				s.submitAll(w, 5, "a")
				if n := len(s.begun(w)); n != 5 {
					s.Fatalf("%d of 5 have started", n)
				}
				s.until(5 * time.Second)
				if restart {
					s.restart()
				}
				s.until(6 * time.Second)
				s.submitAll(w, 10, "a")
				s.until(20 * time.Second)
				startsAt(s, s.begun(w), 6, 6, 6, 6, 6, 6, 10, 15, 20)
			})
		})
	}
}

// TestS42S56ThrottledHead fails when a key without tokens, or a workflow whose keys all
// are, holds others up at the same worker, or when a claim that waits isn't woken at the
// earliest opening. The openings are no instants at which a worker claims anew.
func TestS42S56ThrottledHead(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 1.0 / 63})
		other := quick("other")
		s.open(1, w.wf, other.wf)
		s.submitAll(w, 101, "k1") // the first takes the only token
		if n := len(s.begun(w)); n != 1 {
			s.Fatalf("%d have started", n)
		}
		k2 := s.submit(w, "k2")
		s.started(w, k2)
		s.started(other, s.submit(other, "k1"))
		s.until(20 * time.Second)
		s.started(w, s.submit(w, "k3"))
		s.submit(w, "k3") // the last thing that is looked at opens last
		s.until(62 * time.Second)
		s.started(w)
		s.until(64 * time.Second)
		startsAt(s, s.begun(w), 63)
		s.until(84 * time.Second)
		startsAt(s, s.begun(w), 83)
	})
}

// TestS43BucketsOfTwoKeys fails when two keys share a token.
func TestS43BucketsOfTwoKeys(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 1.0 / 30, Burst: 2})
		s.open(0, w.wf)
		s.submitAll(w, 2, "a")
		s.submit(w, "b")
		startsAt(s, s.begun(w), 0, 0, 0)
		s.tokens("sync", "a", 0)
		s.tokens("sync", "b", 1)
		third := s.submit(w, "a")
		s.started(w, s.submit(w, "b"))
		s.is(third, "queued")
		s.until(31 * time.Second)
		startsAt(s, s.begun(w), 30)
	})
}

// TestS47FreedSlotInTheSameTurn fails when a run that was told "full" many times isn't
// let in at the very end of the one before it.
func TestS47FreedSlotInTheSameTurn(t *testing.T) {
	scenario(t, func(s *stage) {
		w := newCrew("sync", one)
		s.open(0, w.wf)
		runs := s.submitAll(w, 2, "a")
		s.started(w, runs[0])
		for range 100 {
			s.pass(10 * time.Millisecond)
			if why, err := s.client.Why(s.Context(), runs[1]); err != nil || why.Wait == nil || why.Wait.Reason != "limit" {
				s.Fatalf("%+v, %v", why, err)
			}
		}
		now := s.at()
		s.end(w, runs[0])
		s.started(w, runs[1])
		if s.at() != now {
			s.Errorf("it started %v after the end", s.at()-now)
		}
	})
}

// TestS48VerdictsArePerKey fails when "full" or "empty" of one key is said of another.
func TestS48VerdictsArePerKey(t *testing.T) {
	for name, gate := range map[string]pyrula.Policy{"limit": one, "rate": pyrula.Rate{Key: "k", PerSecond: 0.01}} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				w := newCrew("sync", gate)
				s.open(0, w.wf)
				runs := s.submitAll(w, 101, "a")
				s.started(w, runs[0])
				if why, err := s.client.Why(s.Context(), runs[100]); err != nil || why.Wait.Reason != name || *why.Wait.Key != "a" {
					s.Fatalf("%+v, %v", why, err)
				}
				b := s.submit(w, "b")
				s.started(w, b)
				waits := s.submit(w, "b")
				why, err := s.client.Why(s.Context(), waits)
				if s.must(err); *why.Wait.Key != "b" {
					s.Errorf("a run of key b waits for key %q", *why.Wait.Key)
				}
			})
		})
	}
}

// TestS52ASecondIsASecond fails when a rate without a burst starts other than its second's
// worth at once and then one after the other.
func TestS52ASecondIsASecond(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 10})
		fast := quick("fast", pyrula.Rate{Key: "k", PerSecond: 600})
		s.open(0, w.wf, fast.wf)
		s.submitAll(w, 30, "a")
		s.submitAll(fast, 600, "a")
		if log := s.begun(fast); len(log) != 600 || !log[599].at.Equal(s.began) {
			s.Errorf("%d of 600 have started at once", len(log))
		}
		s.until(3 * time.Second)
		want := make([]float64, 30)
		for i := range want {
			want[i] = float64(max(0, i-9)) / 10
		}
		startsAt(s, s.begun(w), want...)
	})
}

// TestS54OverTheRateIsStillThere fails when a run over the rate is lost, unlisted,
// without a reason or an instant, or out of order.
func TestS54OverTheRateIsStillThere(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 0.004, Burst: 2})
		s.open(0, w.wf)
		runs := s.submitAll(w, 100, "a")
		s.started(w, runs[:2]...)
		listed, err := s.client.List(s.Context(), pyrula.ListQuery{Workflow: "sync", Status: "queued", Limit: 200})
		s.must(err)
		if n := s.key("sync", "a").Queued; n != 98 || len(listed.Runs) != 98 {
			s.Errorf("%d are counted and %d listed, want 98", n, len(listed.Runs))
		}
		for _, r := range listed.Runs {
			if r.Wait == nil || r.Wait.Reason != "rate" || r.Wait.OpensAt == nil {
				s.Fatalf("run %s waits for %+v", r.RunID, r.Wait)
			}
		}
		s.until(251 * time.Second)
		s.started(w, runs[2])
		s.until(24_501 * time.Second)
		s.started(w, runs[3:]...)
	})
}

// TestS57OneByOne fails when starts don't come one by one as tokens do, or when a run
// that waits is scheduled again in between.
func TestS57OneByOne(t *testing.T) {
	scenario(t, func(s *stage) {
		w := quick("sync", pyrula.Rate{Key: "k", PerSecond: 1.0 / 60, Burst: 2})
		s.open(0, w.wf)
		var runs []string
		for n := range 5 {
			s.until(time.Duration(n) * time.Second)
			runs = append(runs, s.submit(w, "a"))
		}
		s.until(200 * time.Second)
		startsAt(s, s.begun(w), 0, 1, 60, 120, 180)
		for _, run := range runs {
			all, err := s.client.Events(s.Context(), run)
			s.must(err)
			if len(all) != 3 { // init, claimed, completed
				s.Errorf("its journal: %+v", all)
			}
		}
	})
}

// TestS51NoTokenWithoutAStart fails when a claim that is refused, or brings no credit,
// spends a token.
func TestS51NoTokenWithoutAStart(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.01666666666666667,"burst":10}}`)
		runs := s.sendAll(2, "sync", `{"k":"a"}`)
		a := s.grant(runs[0])
		s.tokens("sync", "a", 9)
		for range 10 {
			s.granted(s.claim(asks{credit: 5}))
			s.granted(s.claim(asks{credit: 0}))
			s.pass(50 * time.Millisecond)
		}
		s.tokens("sync", "a", 9)
		s.complete(a)
		s.tokens("sync", "a", 9)
		s.granted(s.claim(asks{credit: 0}))
		s.tokens("sync", "a", 9)
		s.grant(runs[1])
		s.tokens("sync", "a", 8)
		s.completing(wire.Grant{RunID: runs[1], Fence: a.Fence}).refused(s, wire.CodeStaleFence)
		s.tokens("sync", "a", 8)
	})
}
