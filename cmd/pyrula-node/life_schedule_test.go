package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// TestS86SchedulesOverKills fails when, while the node is killed and started again, a
// time of a schedule gets two runs or none: those that got no run of their own must be
// counted as missed, and with catch_up all there are none of these.
func TestS86SchedulesOverKills(t *testing.T) {
	s := newStanding(t)
	rng := rand.New(rand.NewPCG(scheduleKills, 3))
	policies := []string{"one", "none", "all"}
	for _, policy := range policies {
		s.must(200, http.MethodPut, "/v1/schedules/"+policy, fmt.Sprintf(
			`{"workflow":"by-%s","every_seconds":0.1,"catch_up":%q}`, policy, policy))
	}
	for n := range scheduleKills {
		passes(time.Duration(rng.IntN(400)) * time.Millisecond)
		s.node.kill()
		passes(time.Duration(rng.IntN(300)) * time.Millisecond)
		s.begin()
		if n%5 == 4 {
			s.cleanly()
		}
	}
	for _, policy := range policies {
		s.scheduleAddsUp(policy)
	}
}

// scheduleAddsUp pauses a schedule and compares its runs with its times.
func (s *standing) scheduleAddsUp(name string) {
	s.t.Helper()
	before := s.must(200, http.MethodGet, "/v1/schedules/"+name, "")
	s.eventually("a time comes while the node runs", func() bool {
		return s.must(200, http.MethodGet, "/v1/schedules/"+name, "").Get("last_at").Int() > before.Get("last_at").Int()
	})
	s.must(200, http.MethodPut, "/v1/schedules/"+name, fmt.Sprintf(
		`{"workflow":"by-%s","every_seconds":0.1,"catch_up":%q,"paused":true}`, name, name))
	s.kill9()
	view := s.must(200, http.MethodGet, "/v1/schedules/"+name, "")
	runs, missed := view.Get("runs").Int(), view.Get("missed").Int()
	// The first time is one interval behind the declaration.
	times := (view.Get("last_at").Int() - view.Get("created_at").Int()) / 100
	listed := int64(len(s.every("by-" + name)))
	if runs != listed || runs+missed != times {
		s.t.Errorf("schedule %s had %d times and made %d runs; it lists %d and counts %d as missed", name, times, listed, runs, missed)
	}
	if (name == "all") != (missed == 0) {
		s.t.Errorf("catch_up %s missed %d times of %d", name, missed, times)
	}
	s.t.Logf("catch_up %s: %d times, %d runs, %d missed", name, times, runs, missed)
}
