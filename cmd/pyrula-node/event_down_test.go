package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestP71P72S77WindowsPassWhileTheNodeIsDown fails when a batch whose window passed while the
// node was down fires without a worker, more than once or not at all, or when an event that comes
// later misses the batch that is due.
func TestP71P72S77WindowsPassWhileTheNodeIsDown(t *testing.T) {
	const window = 300 * time.Millisecond
	s := newStanding(t)
	s.declare("late", `{"trigger":{"collect":{"key":"k","max_events":100,"window_seconds":0.3}}}`)
	s.declare("calm", `{"trigger":{"debounce":{"key":"k","window_seconds":0.3}}}`)
	names, keys := []string{"late", "calm"}, []string{"a", "b", "c"}
	send := func(n int) {
		for _, name := range names {
			for _, key := range keys {
				s.must(http.StatusAccepted, http.MethodPost, "/v1/workflows/"+name+"/events", fmt.Sprintf(`{"k":%q,"n":%d}`, key, n))
			}
		}
	}
	down := func() {
		s.node.kill()
		passes(window)
		s.begin()
	}
	// fired claims until there is a run of each key, and looks whether more comes.
	fired := func(want string) {
		t.Helper()
		var runs []string
		for len(runs) < len(names)*len(keys) {
			got := s.claim(10, 30_000, names...)
			if len(got) == 0 {
				t.Fatalf("only %q fire", runs)
			}
			for _, grant := range got {
				runs = append(runs, grant.Get("run_id").String())
				if numbers := grant.Get("params.events.#.n").Raw; numbers != want {
					t.Errorf("a run of %s has the events %s, want %s", grant.Get("workflow"), numbers, want)
				}
				s.complete(grant)
			}
		}
		if more := s.claim(10, 2*window.Milliseconds(), names...); len(more) != 0 {
			t.Errorf("and then %s", more)
		}
		s.runs = append(s.runs, runs...)
	}
	due := func(events int64) {
		t.Helper()
		for _, name := range names {
			for _, key := range keys {
				s.eventually("the batch of key "+key+" of "+name+" is due", func() bool { return s.key(name, key).Get("batch.due").Bool() })
				if view := s.key(name, key); view.Get("buffered_events").Int() != events {
					t.Errorf("key %s of %s is %s, want %d events", key, name, view, events)
				}
			}
			if runs := s.every(name); len(runs) != len(s.runs)/len(names) {
				t.Errorf("without a worker %v are there", runs)
			}
		}
	}

	send(1)
	send(2)
	down()
	due(2)
	send(3) // to late, whose batch stays due; that of calm has a new deadline
	down()
	due(3)
	fired(`[1,2,3]`)
	s.kill9()
	early := len(s.runs)
	send(4)
	down()
	fired(`[4]`)
	down()
	for _, name := range names {
		if runs := s.every(name); len(runs) != len(s.runs)/len(names) || len(s.runs) != 2*early {
			t.Errorf("%s has the runs %v, want %d", name, runs, len(s.runs)/len(names))
		}
	}
	s.remembers()
}
