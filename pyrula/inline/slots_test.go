package inline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
)

// lease is that of the scenarios; a holder that is silent is lost after expiry.
const (
	lease  = 10 * time.Second
	expiry = 13 * time.Second
)

// TestS04EndingAWaiter fails when the cancel of a waiter starts somebody, counts as a
// start, or holds the queue up.
func TestS04EndingAWaiter(t *testing.T) {
	scenario(t, func(s *stage) {
		c := newCrew("sync", one)
		s.open(0, c.wf)
		runs := s.submitAll(c, 3, "a")
		s.started(c, runs[0])
		s.must(s.client.Cancel(s.Context(), runs[1], "enough"))
		s.is(runs[1], "cancelled")
		s.used("sync", "a", 1)
		if w := s.status(runs[2]).Wait; w == nil || w.Position == nil || *w.Position != 1 {
			s.Errorf("the next one waits for %+v, want position 1", w)
		}
		s.started(c)
		s.pass(time.Minute)
		s.end(c, runs[0])
		s.started(c, runs[2])
		if n := s.count(runs[1], flow.EventClaimed); n != 0 {
			s.Errorf("the cancelled run was claimed %d times", n)
		}
	})
}

// TestS07LiveLease fails when a run that heartbeats is cut off, however long it works.
func TestS07LiveLease(t *testing.T) {
	scenario(t, func(s *stage) {
		c := newCrew("sync", one, pyrula.Lease(lease))
		s.open(0, c.wf)
		runs := s.submitAll(c, 2, "a")
		s.started(c, runs[0])
		s.until(time.Minute)
		s.started(c)
		s.is(runs[0], "executing")
		s.end(c, runs[0])
		s.started(c, runs[1])
		s.is(runs[0], "completed")
		if n := s.count(runs[0], flow.EventLeaseExpired); n != 0 {
			s.Errorf("its lease expired %d times", n)
		}
	})
}

// TestS12EndedRunsAreNotCounted fails when runs that have ended and are still listed
// take a slot.
func TestS12EndedRunsAreNotCounted(t *testing.T) {
	const most = 2048
	scenario(t, func(s *stage) {
		c := quick("sync", pyrula.Limit{Key: "k", Max: most})
		s.open(0, c.wf)
		s.submitAll(c, most, "a")
		if got := len(s.begun(c)); got != most {
			s.Fatalf("%d of %d have started", got, most)
		}
		listed, err := s.client.List(s.Context(), pyrula.ListQuery{Workflow: "sync", Status: "completed", Limit: 500})
		s.must(err)
		if len(listed.Runs) != 500 || listed.NextCursor == nil {
			s.Errorf("%d are listed, next %v", len(listed.Runs), listed.NextCursor)
		}
		s.used("sync", "a", 0)
		c.auto.Store(false)
		last := s.submit(c, "a")
		s.started(c, last)
		s.used("sync", "a", 1)
	})
}

// TestS15WaiterThatGivesUp fails when a run whose waiter gives up stays in the queue:
// at its gate timeout, by a client's cancel, or because its caller has gone.
func TestS15WaiterThatGivesUp(t *testing.T) {
	for name, giveUp := range map[string]func(s *stage, c *crew) (b string){
		"timeout": func(s *stage, c *crew) string {
			_, err := inline.Run(s.Context(), s.inline.WithGateTimeout(time.Second), c.wf, item{Key: "a"})
			gated := gatedError(s, err)
			if gated.Waited != time.Second || gated.Gate != "limit" || gated.Key != "a" {
				s.Errorf("gated: %+v", gated)
			}
			return gated.RunID
		},
		"cancel": func(s *stage, c *crew) string {
			b := s.submit(c, "a")
			s.until(time.Second)
			s.must(s.client.Cancel(s.Context(), b, "enough"))
			return b
		},
		"caller": func(s *stage, c *crew) string {
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			defer cancel()
			_, err := inline.Run(ctx, s.inline, c.wf, item{Key: "a"})
			if err == nil || ctx.Err() == nil {
				s.Fatalf("gave %v before its context ended", err)
			}
			_, id, _ := strings.Cut(err.Error(), "run ")
			b, _, _ := strings.Cut(id, ":")
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				if s.kind == "node" && name != "cancel" {
					s.Skip("only an inline run has a caller that waits in the process")
				}
				c := newCrew("sync", one)
				s.open(0, c.wf)
				a := s.submit(c, "a")
				s.started(c, a)
				b := giveUp(s, c)
				s.is(b, "cancelled")
				s.until(2 * time.Second)
				third := s.submit(c, "a")
				s.until(3 * time.Second)
				s.end(c, a)
				s.started(c, third)
				if k := s.key("sync", "a"); k.Queued != 0 || k.Used != 1 {
					s.Errorf("the key: %+v", k)
				}
				if n := s.count(b, flow.EventClaimed); n != 0 {
					s.Errorf("who gave up was claimed %d times", n)
				}
			})
		})
	}
}

// TestS81StartOnAnIdleNode fails when a run on an idle node waits for time to pass, for
// a second message or for another run, also on a key that was forgotten meanwhile.
func TestS81StartOnAnIdleNode(t *testing.T) {
	scenario(t, func(s *stage) {
		c := newCrew("sync", one, pyrula.Rate{Key: "k", PerSecond: 1})
		s.open(0, c.wf)
		for range 3 {
			s.pass(time.Hour) // the key has nothing left to remember
			now := s.at()
			run := s.submit(c, "a")
			s.started(c, run)
			if s.at() != now {
				s.Errorf("it started %v after its submit", s.at()-now)
			}
			s.end(c, run)
			s.is(run, "completed")
		}
	})
	t.Run("claim after submit", func(t *testing.T) {
		scenario(t, func(s *stage) {
			s.open(0)
			s.declare("sync", `{"version":"1","limit":{"key":"k","max":1}}`)
			run := s.send("sync", `{"k":"a"}`)
			s.settle()
			s.grant(run)
			if s.at() != 0 {
				s.Errorf("it was granted after %v", s.at())
			}
		})
	})
}

// TestS99OddKeyValues fails when a key's value means anything but itself.
func TestS99OddKeyValues(t *testing.T) {
	values := []string{"a", "*", "b", "", ":", "/", "a/b", "..", "%2F", "ключ", "a\x00b", strings.Repeat("x", flow.MaxKeyBytes)}
	scenario(t, func(s *stage) {
		c := newCrew("sync", one)
		s.open(0, c.wf)
		runs := make([]string, len(values))
		for i, v := range values {
			runs[i] = s.submit(c, v)
			s.submit(c, v)
		}
		log := s.begun(c)
		if len(log) != len(values) {
			s.Fatalf("%d of %d keys have a run at work", len(log), len(values))
		}
		for _, b := range log {
			if i := slices.Index(values, b.key); i < 0 || runs[i] != b.run {
				s.Errorf("run %s works under key %q", b.run, b.key)
			}
		}
		for i, v := range values {
			k := s.key("sync", v)
			if k.Key != v || k.Used != 1 || len(k.Holders) != 1 || k.Holders[0].RunID != runs[i] || k.Queued != 1 {
				s.Errorf("key %q: %+v", v, k)
			}
		}
		for i, v := range values {
			s.end(c, runs[i])
			next := s.begun(c)
			if len(next) != 1 || next[0].key != v {
				s.Errorf("the end of key %q started %+v", v, next)
			}
		}
	})
}
