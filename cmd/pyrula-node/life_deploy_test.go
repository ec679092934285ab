package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// What a deploy puts on the node, in each of its three phases.
const (
	oldMax, newMax = 3, 1
	deployKeys     = 4
	deployBody     = 4 * time.Millisecond
)

type drawing struct {
	Customer string `json:"customer"`
	Number   int    `json:"number"`
}

// shift is one execution of a body. A fence is a counter of the shard that counts a
// key, so of two runs of a key the one with the smaller fence was admitted first.
type shift struct {
	run, key, worker string
	fence            uint64
	begun, ended     int  // moments, counted
	lost             bool // its lease may have been over before it ended
}

// studio is what the bodies of a deploy saw.
type studio struct {
	mu     sync.Mutex // guards what follows
	moment int
	shifts []*shift
}

func (s *studio) now() int {
	s.moment++
	return s.moment
}

func (s *studio) enter(r *pyrula.Run) *shift {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := &shift{run: r.ID, key: r.Key, worker: r.Version, fence: r.Fence, begun: s.now()}
	s.shifts = append(s.shifts, sh)
	return sh
}

func (s *studio) leave(sh *shift) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.ended = s.now()
}

// beforeIt counts the bodies that were admitted before one and were still at work when
// it began: they all held a slot when it was admitted.
func (s *studio) beforeIt(x *shift) (n int) {
	for _, y := range s.shifts {
		if y.key == x.key && y.fence < x.fence && y.ended > x.begun && !y.lost {
			n++
		}
	}
	return n
}

// draw is one version of the workflow.
func (s *studio) draw(version string, limit pyrula.Limit) *pyrula.Workflow[drawing, int] {
	return pyrula.Define("draw", func(r *pyrula.Run, d drawing) (int, error) {
		sh := s.enter(r)
		defer s.leave(sh)
		select {
		case <-time.After(deployBody):
			return d.Number, nil
		case <-r.Done():
			sh.lost = true
			return 0, context.Cause(r)
		}
	}, limit, pyrula.Version(version), pyrula.Lease(2*theLease))
}

func customerOf(d drawing) string { return d.Customer }

// TestP28_P30_P78_D5_3MixedDeploy fails when, while workers of an older version with
// Limit 3 and of a newer one with Limit 1 work on the same keys and the node is killed,
// a run starts at the newer worker under the older stamp, a run starts beside more than
// its stamp allows, a run has two successors or one that moves on, or a result doesn't
// come under the id that the submit was answered with. P27, P82: the same with a key
// that only the workers can compute.
func TestP28_P30_P78_D5_3MixedDeploy(t *testing.T) {
	for name, limit := range map[string]pyrula.Limit{
		"parameter": {Key: "customer", Max: newMax},
		"function":  {Key: customerOf, Label: "by customer", Max: newMax},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mixedDeploy(t, limit)
		})
	}
}

func mixedDeploy(t *testing.T, tight pyrula.Limit) {
	s, st := newStanding(t), &studio{}
	before, after := st.draw("1", pyrula.Limit{Key: "customer", Max: oldMax}), st.draw("2", tight)
	c := s.dial()
	var handles []*pyrula.Handle[int]
	submit := func(w *pyrula.Workflow[drawing, int]) {
		for range deployRuns {
			n := len(handles)
			h, err := w.Start(t.Context(), c, drawing{fmt.Sprintf("c%d", n%deployKeys), n})
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, h)
		}
	}
	submit(before)
	old := hire(t, c, 2, before)
	st.await(t, deployRuns/4)
	young := hire(t, c, 2, after)
	submit(after)
	st.await(t, deployRuns/2)
	s.kill9()
	submit(after)
	old.dismiss()
	for n, h := range handles {
		got, err := h.Result(t.Context())
		if err != nil || got != n {
			t.Errorf("run %s gives %d, %v, want %d", h.ID, got, err, n)
		}
	}
	young.dismiss()
	st.judge(t, s)
}

// await waits until so many bodies have begun.
func (s *studio) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		s.mu.Lock()
		begun := len(s.shifts)
		s.mu.Unlock()
		if begun >= n {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatalf("%d bodies have begun, want %d", begun, n)
		}
	}
}

// judge holds what the bodies saw against the stamps of their runs.
func (s *studio) judge(t *testing.T, n *standing) {
	t.Helper()
	runs := map[string]runView{}
	for _, r := range n.every("draw") {
		runs[r.id] = r
	}
	heirs := map[string]int{}
	var moved int
	for _, r := range runs {
		if r.from != "" {
			heirs[r.from]++
		}
		if r.next == "" {
			continue
		}
		moved++
		heir := runs[r.next]
		if heir.from != r.id || heir.version != "2" || heir.next != "" || r.version != "1" || r.from != "" {
			t.Errorf("run %+v went on as %+v: want one step, from version 1 to 2", r, heir)
		}
		if events := n.must(200, http.MethodGet, "/v1/runs/"+r.id+"/events", "").Get("events.#.type").Raw; events != `["run:init","run:continued"]` {
			t.Errorf("run %s was handed on and has the events %s", r.id, events)
		}
	}
	for id, count := range heirs {
		if count != 1 || runs[id].next == "" {
			t.Errorf("run %+v has %d successors", runs[id], count)
		}
	}
	if moved == 0 {
		t.Error("no run was handed on, so nothing is shown")
	}
	for _, sh := range s.shifts {
		stamped := runs[sh.run].version
		most := map[string]int{"1": oldMax, "2": newMax}[stamped]
		if beside := s.beforeIt(sh); beside >= most {
			t.Errorf("run %s, stamped %s with Limit %d, began beside %d others of key %s", sh.run, stamped, most, beside, sh.key)
		}
		if sh.worker == "2" && stamped != "2" {
			t.Errorf("a worker of version 2 ran %s, which is stamped %q", sh.run, stamped)
		}
	}
	versions := map[string]int{}
	for _, sh := range s.shifts {
		versions[sh.worker]++
	}
	if versions["1"] == 0 || versions["2"] == 0 {
		t.Errorf("bodies by version of the worker: %v, so nothing is shown", versions)
	}
	ids := make([]string, 0, len(s.shifts))
	for _, sh := range s.shifts {
		ids = append(ids, sh.run)
	}
	slices.Sort(ids)
	if twice := len(ids) - len(slices.Compact(ids)); twice > 0 {
		t.Logf("%d bodies ran again: their end was lost with the node", twice)
	}
	t.Logf("%d runs, %d handed on, bodies by version of the worker: %v", len(runs), moved, versions)
}
