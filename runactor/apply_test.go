package runactor

import (
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// takes says which records may follow in which state, with the fence and the fields that
// are right for it.
var takes = map[flow.RecordKind][]string{
	flow.RecSubmitted:   {"unsubmitted"},
	flow.RecAdmitted:    {"queued", "successor", "requeued"},
	flow.RecCompleted:   {"executing", "recorded"},
	flow.RecFailed:      slices.Concat(sleeping, []string{"executing", "recorded"}),
	flow.RecRetrying:    {"executing", "recorded"},
	flow.RecSuspended:   {"executing", "recorded"},
	flow.RecWoken:       sleeping,
	flow.RecExpired:     {"executing", "recorded"},
	flow.RecCancelAsked: {"executing", "recorded"},
	flow.RecCancelled:   alive,
	flow.RecTerminated:  alive,
	flow.RecHoldFreed:   {"held"},
	flow.RecRenewed:     {"executing", "recorded", "asked", "held"},
	flow.RecContinued:   {"queued", "successor"},
	flow.RecStep:        {"executing", "recorded", "asked"},
	flow.RecSignalled:   alive,
	flow.RecTaken:       {"recorded"},
	flow.RecState:       {"executing", "recorded", "asked"},
	flow.RecStarted:     {"executing", "recorded", "asked"},
	flow.RecWatched:     alive,
	flow.RecOutcome:     {"waits for runs"},
	flow.RecChainOver:   {"continued"},
	flow.RecTold:        {"completed", "cancelled", "held", "terminated", "telling"},
}

var (
	sleeping = []string{"suspended", "waits for a signal", "waits for runs"}
	alive    = slices.Concat(sleeping, []string{"queued", "successor", "requeued", "executing", "recorded", "asked"})
	// fenceless are records that no holder stands behind.
	fenceless = []flow.RecordKind{
		flow.RecSubmitted, flow.RecAdmitted, flow.RecWoken, flow.RecCancelAsked, flow.RecContinued, flow.RecSignalled,
		flow.RecWatched, flow.RecOutcome, flow.RecChainOver, flow.RecTold,
	}
)

// right are the fields, beside the fence, with which a record of the kind may follow
// somewhere: the names and numbers are those of lives.
func right(k flow.RecordKind) flow.Fields {
	switch k {
	case flow.RecRetrying, flow.RecSuspended:
		return flow.Fields{Until: 1}
	case flow.RecContinued:
		return flow.Fields{Other: testID(9)}
	case flow.RecSignalled:
		return flow.Fields{Name: "z", Number: 100}
	case flow.RecTaken:
		return flow.Fields{Name: "x", Visit: 2, Number: 2}
	case flow.RecOutcome:
		return flow.Fields{Root: testID(6)}
	case flow.RecWatched, flow.RecTold:
		return flow.Fields{Other: testID(8), Root: testID(1), Number: 1}
	case flow.RecStep, flow.RecStarted:
		return flow.Fields{Name: "new", Visit: 1}
	default:
		return flow.Fields{}
	}
}

// Fails when Apply takes a record that can't follow, such as a second free of one
// admission, or refuses one that can.
func TestApplyTakesOnlyWhatCanFollow(t *testing.T) {
	for name, life := range lives {
		refuser := made(t, name) // stays as it is, unless it takes what it must not
		for k := range 256 {
			kind := flow.RecordKind(k)
			f := right(kind)
			f.Fence = life.fence
			if kind == flow.RecAdmitted {
				f.Fence = 9
			}
			if !slices.Contains(takes[kind], name) {
				if applied(t, refuser, flow.Record{Kind: kind, Fields: f}) {
					t.Fatalf("a run that is %s takes %v", name, kind)
				}
				continue
			}
			if !applied(t, made(t, name), flow.Record{Kind: kind, Fields: f}) {
				t.Errorf("a run that is %s doesn't take %v", name, kind)
			}
			f.Fence++
			if !slices.Contains(fenceless, kind) && applied(t, made(t, name), flow.Record{Kind: kind, Fields: f}) {
				t.Errorf("a run that is %s takes %v with a wrong fence", name, kind)
			}
		}
	}
}

// Fails when Apply takes a record whose fence and status are right and that names what
// the run hasn't: a signal that it doesn't keep, a run that it doesn't await, no successor.
func TestApplyTakesOnlyWhatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		life string
		kind flow.RecordKind
		f    flow.Fields
	}{
		"a signal that wasn't sent":    {"recorded", flow.RecTaken, flow.Fields{Fence: fenceOfRecorded, Name: "x", Visit: 2, Number: 9}},
		"a signal that a wait has got": {"recorded", flow.RecTaken, flow.Fields{Fence: fenceOfRecorded, Name: "x", Visit: 2, Number: 1}},
		"a wake with a signal to come": {"waits for a signal", flow.RecWoken, flow.Fields{Number: 9}},
		"a wake by a signal of a date": {"suspended", flow.RecWoken, flow.Fields{Number: 1}},
		"a wake by a signal of runs":   {"waits for runs", flow.RecWoken, flow.Fields{Number: 1}},
		"a run that isn't awaited":     {"waits for runs", flow.RecOutcome, flow.Fields{Root: testID(9)}},
		"a run that has ended already": {"waits for runs", flow.RecOutcome, flow.Fields{Root: testID(5)}},
		"a successor of no id":         {"queued", flow.RecContinued, flow.Fields{}},
		"a second end of a chain":      {"chain over", flow.RecChainOver, flow.Fields{}},
		"a fence that goes back":       {"requeued", flow.RecAdmitted, flow.Fields{Fence: 1}},
		"a hand-on after the start":    {"requeued", flow.RecContinued, flow.Fields{Other: testID(9)}},
	} {
		if applied(t, made(t, c.life), flow.Record{Kind: c.kind, Fields: c.f}) {
			t.Errorf("%s was taken", name)
		}
	}
}

func made(t *testing.T, life string) *world {
	t.Helper()
	w := newWorld(t)
	w.now = epoch
	lives[life].make(w)
	return w
}

// applied applies a record to a run and says whether it was taken.
func applied(t *testing.T, w *world, rec flow.Record) bool {
	t.Helper()
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
