package runactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// lives makes a run in every state that matters, with its holder's fence or 0.
var lives = map[string]struct {
	fence uint64
	make  func(*world)
}{
	"unsubmitted": {0, func(*world) {}},
	"queued":      {0, func(w *world) { w.submit() }},
	"executing":   {1, func(w *world) { w.submit(); w.hold(1) }},
	"asked":       {1, func(w *world) { w.submit(); w.hold(1); w.step(flow.InCancel, flow.Fields{}) }},
	"suspended":   {0, func(w *world) { w.submit(); w.hold(1); ended(w, flow.InSuspend, 1) }},
	"completed":   {0, func(w *world) { w.submit(); w.hold(1); ended(w, flow.InComplete, 1) }},
	"cancelled":   {0, func(w *world) { w.submit(); w.step(flow.InCancel, flow.Fields{}) }},
	"held":        {1, func(w *world) { w.submit(); w.hold(1); w.step(flow.InTerminate, flow.Fields{}) }},
	"terminated":  {0, func(w *world) { w.submit(); w.step(flow.InTerminate, flow.Fields{}) }},
}

// takes says which records may follow in which state, with the fence that is right
// for it.
var takes = map[flow.RecordKind][]string{
	flow.RecSubmitted:   {"unsubmitted"},
	flow.RecAdmitted:    {"queued"},
	flow.RecCompleted:   {"executing"},
	flow.RecFailed:      {"executing"},
	flow.RecRetrying:    {"executing"},
	flow.RecSuspended:   {"executing"},
	flow.RecWoken:       {"suspended"},
	flow.RecExpired:     {"executing"},
	flow.RecCancelAsked: {"executing"},
	flow.RecCancelled:   {"queued", "executing", "asked", "suspended"},
	flow.RecTerminated:  {"queued", "executing", "asked", "suspended"},
	flow.RecHoldFreed:   {"held"},
	flow.RecRenewed:     {"executing", "asked", "held"},
}

// Fails when Apply takes a record that can't follow, such as a second free of one
// admission, or refuses one that can.
func TestApplyTakesOnlyWhatCanFollow(t *testing.T) {
	for name, life := range lives {
		for k := range 256 {
			kind := flow.RecordKind(k)
			legal := false
			for _, s := range takes[kind] {
				legal = legal || s == name
			}
			fence := life.fence
			if kind == flow.RecAdmitted {
				fence = 9
			}
			if got := taken(t, name, flow.Record{Kind: kind, Fields: flow.Fields{Fence: fence}}); got != legal {
				t.Errorf("a run that is %s takes %v: %t, want %t", name, kind, got, legal)
			}
			fenced := kind != flow.RecSubmitted && kind != flow.RecWoken && kind != flow.RecCancelAsked && kind != flow.RecAdmitted
			if legal && fenced && taken(t, name, flow.Record{Kind: kind, Fields: flow.Fields{Fence: fence + 1}}) {
				t.Errorf("a run that is %s takes %v with a wrong fence", name, kind)
			}
		}
	}
}

func taken(t *testing.T, life string, rec flow.Record) bool {
	t.Helper()
	w := newWorld(t)
	lives[life].make(w)
	rec.Run, rec.At = w.run.ID(), w.now
	if panicked(func() { w.run.Apply(&rec) }) {
		return false
	}
	if err := w.run.Check(); err != nil {
		t.Errorf("after %v: %v", rec.Kind, err)
	}
	return true
}

// Fails when a record of another run is taken for this one's.
func TestApplyTakesOnlyItsOwnRecords(t *testing.T) {
	w := started(t)
	rec := flow.Record{Kind: flow.RecCompleted, Fields: flow.Fields{Run: testID(2), Fence: 1}}
	if !panicked(func() { w.run.Apply(&rec) }) {
		t.Error("it was taken")
	}
}

// Fails when Step or Apply costs memory where nothing is kept: in a heartbeat.
func TestHeartbeatAllocatesNothing(t *testing.T) {
	w := started(t)
	in := w.in(flow.InHeartbeat, flow.Fields{Fence: 1})
	out := new(flow.Out)
	beat := func() {
		out.Reset()
		w.run.Step(w.now, in, out)
		for i := range out.Records {
			w.run.Apply(&out.Records[i])
		}
	}
	beat() // makes room in out
	if n := testing.AllocsPerRun(100, beat); n != 0 {
		t.Errorf("a heartbeat makes %v allocations", n)
	}
}
