package runactor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when run:init isn't the first event of every run, or doesn't name the
// version that stamped it; its gates are those of View.
func TestP23InitNamesTheStamp(t *testing.T) {
	for _, stamp := range []*flow.Stamp{testStamp, {Unknown: true}, {}} {
		w := newWorld(t)
		w.now = epoch
		w.step(flow.InSubmit, flow.Fields{Order: epoch, Workflow: "sync", Stamp: stamp})
		w.restart()
		w.restore()
		want := []flow.Event{{Seq: 1, Type: flow.EventInit, At: epoch, Version: stamp.Version}}
		if diff := cmp.Diff(want, w.run.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(stamp, w.run.View().Stamp); diff != "" {
			t.Errorf("stamp (-want +got):\n%s", diff)
		}
	}
}

// Fails when a change of the run has no event, the wrong one, or a wrong field.
func TestP26EveryChangeHasItsEvent(t *testing.T) {
	w := started(t)
	w.now++
	w.step(flow.InFail, flow.Fields{Fence: 1, Flags: flow.FlagRetryable, ErrType: "E", ErrText: "boom"})
	w.now += 5 * second
	w.tick()
	w.hold(2)
	w.step(flow.InSuspend, flow.Fields{Fence: 2, Until: w.now + second})
	w.now += second
	w.tick()
	w.hold(3)
	w.now += 13 * second
	w.tick()
	w.hold(4)
	w.step(flow.InCancel, flow.Fields{Reason: "stop"})
	w.step(flow.InTerminate, flow.Fields{Reason: "now"})
	w.step(flow.InSuspend, flow.Fields{Fence: 4})
	want := []flow.Event{
		{Type: flow.EventInit, At: epoch, Version: "2"},
		{Type: flow.EventClaimed, At: epoch, Fence: 1, Attempt: 1, Worker: "w1", Version: "2"},
		{Type: flow.EventRetrying, At: epoch + 1, Fence: 1, Attempt: 1, ErrType: "E", ErrText: "boom", Until: epoch + 1 + 5*second},
		{Type: flow.EventResumed, At: epoch + 1 + 5*second, Attempt: 1},
		{Type: flow.EventClaimed, At: epoch + 1 + 5*second, Fence: 2, Attempt: 2, Worker: "w1", Version: "2"},
		{Type: flow.EventSuspended, At: epoch + 1 + 5*second, Fence: 2, Attempt: 2, Until: epoch + 1 + 6*second},
		{Type: flow.EventResumed, At: epoch + 1 + 6*second, Attempt: 2},
		{Type: flow.EventClaimed, At: epoch + 1 + 6*second, Fence: 3, Attempt: 2, Worker: "w1", Version: "2"},
		{Type: flow.EventLeaseExpired, At: epoch + 1 + 19*second, Fence: 3, Attempt: 2, Worker: "w1", Version: "2"},
		{Type: flow.EventClaimed, At: epoch + 1 + 19*second, Fence: 4, Attempt: 3, Worker: "w1", Version: "2"},
		{Type: flow.EventCancelRequested, At: epoch + 1 + 19*second, Attempt: 3, Reason: "stop"},
		{Type: flow.EventTerminated, At: epoch + 1 + 19*second, Fence: 4, Attempt: 3, Reason: "now"},
		{Type: flow.EventReleased, At: epoch + 1 + 19*second, Fence: 4, Attempt: 3},
	}
	for i := range want {
		want[i].Seq = int64(i) + 1
	}
	if diff := cmp.Diff(want, w.run.Events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Fails when what a body records, or what comes from other runs, has no event, the wrong
// one, or a wrong field; or state, watchers and what they are told have one (P26, S100).
func TestP26S100EventsOfABody(t *testing.T) {
	w := newWorld(t)
	w.now = epoch
	record(w)
	at := epoch + second
	want := []flow.Event{
		{Type: flow.EventInit, At: epoch, Version: "2"},
		{Type: flow.EventClaimed, At: epoch, Fence: 1, Worker: "w1", Version: "2"},
		{Type: flow.EventStepCompleted, At: epoch, Fence: 1, Name: "a", Visit: 1},
		{Type: flow.EventStepFailed, At: epoch, Fence: 1, Name: "b", Visit: 1, ErrType: "E", ErrText: "boom"},
		{Type: flow.EventStepCompleted, At: epoch, Fence: 1, Name: "a", Visit: 2},
		{Type: flow.EventChildrenStarted, At: epoch, Fence: 1, Name: "kids", Visit: 1, Runs: testIDs(5, 6)},
		{Type: flow.EventChildrenStarted, At: epoch, Fence: 1, Name: "others", Visit: 1, Runs: testIDs(7)},
		{Type: flow.EventSignalReceived, At: epoch, Name: "x"},
		{Type: flow.EventSignalReceived, At: epoch, Name: "x"},
		{Type: flow.EventSuspended, At: epoch, Fence: 1, Name: "nap", Visit: 1, Until: epoch},
		{Type: flow.EventResumed, At: epoch},
		{Type: flow.EventClaimed, At: epoch, Fence: 2, Worker: "w1", Version: "2"},
		{Type: flow.EventSuspended, At: epoch, Fence: 2, Name: "late", Visit: 1, Until: at},
		{Type: flow.EventResumed, At: at},
		{Type: flow.EventClaimed, At: at, Fence: 3, Worker: "w1", Version: "2"},
		{Type: flow.EventSuspended, At: at, Fence: 3, Visit: 1, Runs: testIDs(5, 6)},
		{Type: flow.EventRunEnded, At: at, Runs: testIDs(5)},
		{Type: flow.EventRunEnded, At: at, Runs: testIDs(6)},
		{Type: flow.EventResumed, At: at},
		{Type: flow.EventClaimed, At: at, Fence: fenceOfRecorded, Worker: "w1", Version: "2"},
		{Type: flow.EventSignalTaken, At: at, Fence: fenceOfRecorded, Name: "x", Visit: 1},
	}
	for i := range want {
		if want[i].Seq = int64(i) + 1; i > 0 {
			want[i].Attempt = 1
		}
	}
	for range 2 {
		if diff := cmp.Diff(want, w.run.Events(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.restore()
	}
}

// Fails when heartbeats, repeats, refusals or idle ticks leave an event, or
// anything durable at all (P64).
func TestP64NothingIsWrittenForNothing(t *testing.T) {
	w := started(t)
	before, n := w.run.Fingerprint(), len(w.log)
	for _, k := range []flow.InputKind{flow.InHeartbeat, flow.InRunTick} {
		w.step(k, flow.Fields{Fence: 1})
	}
	for _, k := range append(endings, flow.InHeartbeat) {
		w.step(k, flow.Fields{Fence: 9})
	}
	if string(before) != string(w.run.Fingerprint()) || len(w.log) != n {
		t.Errorf("%d records were written", len(w.log)-n)
	}
}

// failing is a run that has failed and come back n times.
func failing(n uint64, text string) *Run {
	r := New(testID(1))
	r.Apply(&flow.Record{Kind: flow.RecSubmitted, Fields: flow.Fields{Run: r.ID()}})
	var out flow.Out
	for fence := uint64(1); fence <= n; fence++ {
		r.Apply(&flow.Record{Kind: flow.RecAdmitted, Fields: flow.Fields{
			Run: r.ID(), Fence: fence, Lease: lease, Attempts: flow.MaxAttempts,
		}})
		out.Reset()
		r.Step(0, &flow.Input{Kind: flow.InFail, Fields: flow.Fields{
			Run: r.ID(), Fence: fence, Flags: flow.FlagRetryable, ErrText: text,
		}}, &out)
		for i := range out.Records {
			r.Apply(&out.Records[i])
		}
	}
	return r
}

// Fails when a journal grows without a bound, or drops the first or the newest
// event, or hides that it dropped any.
func TestP26JournalIsBounded(t *testing.T) {
	const cycles = flow.MaxRunEvents/3 + 2
	const written = 1 + 3*cycles // init, and claimed, retrying, resumed of each
	r := failing(cycles, "boom")
	wantEvents(t, r, flow.MaxRunEvents, written)
	again := New(flow.RunID{})
	decode(t, again, r.Fingerprint())
	wantEvents(t, again, flow.MaxRunEvents, written)
}

func wantEvents(t *testing.T, r *Run, n int, last int64) {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	events := r.Events()
	if len(events) != n || events[0].Seq != 1 || events[0].Type != flow.EventInit {
		t.Fatalf("%d events, the first %+v", len(events), events[0])
	}
	for i := range events[1:] {
		if want := last - int64(n) + int64(i) + 2; events[i+1].Seq != want {
			t.Fatalf("event %d has seq %d, want %d", i+1, events[i+1].Seq, want)
		}
	}
}

// Fails when the texts of many failures are all kept, or the newest isn't.
func TestP26JournalTextIsBounded(t *testing.T) {
	text := strings.Repeat("x", flow.MaxErrorMessageBytes)
	r := failing(40, text)
	kept := 0
	for _, e := range r.Events() {
		kept += len(e.ErrText)
	}
	if kept > maxJournalText || kept <= maxJournalText-len(text) {
		t.Errorf("%d bytes of text are kept", kept)
	}
	if n := len(r.Fingerprint()); n > 2*maxJournalText {
		t.Errorf("a snapshot has %d bytes", n)
	}
}

// Fails when a run tells a wrong reason why it is suspended, or one when it isn't.
func TestExplainOnlyASuspendedRun(t *testing.T) {
	w := started(t)
	if w, ok := w.run.Explain(); ok {
		t.Errorf("an executing run waits: %+v", w)
	}
	w.step(flow.InFail, flow.Fields{Fence: 1, Flags: flow.FlagRetryable})
	if e, ok := w.run.Explain(); !ok || e.Reason != flow.WaitRetryBackoff || e.OpensAt != w.now+5*second {
		t.Errorf("a back-off waits: %+v %t", e, ok)
	}
	w.now += 5 * second
	w.tick()
	w.hold(2)
	w.step(flow.InSuspend, flow.Fields{Fence: 2, Until: w.now + 1})
	if e, ok := w.run.Explain(); !ok || e.Reason != flow.WaitSchedule || e.OpensAt != w.now+1 {
		t.Errorf("a suspension waits: %+v %t", e, ok)
	}
}
