package runactor

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when a run doesn't say since when it waits: since its submit, since it was queued
// again, or since it was suspended (P81).
func TestP81Since(t *testing.T) {
	w := newWorld(t)
	w.now = epoch
	w.submitAs(flow.Fields{Order: epoch - 3, Workflow: "sync", Stamp: testStamp})
	want := func(what string, at flow.Instant) {
		t.Helper()
		for range 2 {
			if got := w.run.View().Since; got != at {
				t.Errorf("%s: since %d, want %d", what, got-epoch, at-epoch)
			}
			w.restore()
		}
	}
	want("submitted", epoch-3)
	w.now = epoch + second
	w.hold(1)
	w.now += 13 * second
	w.tick()
	want("expired", w.now)
	w.hold(2)
	w.now += second
	w.waitSignal(2, "x", 0)
	want("suspended", w.now)
	w.now += second
	w.signal("x", "")
	want("woken", w.now)
	w.now += second
	w.signal("x", "")
	want("signalled", w.now-second)
	w.hold(3)
	ended(w, flow.InFail, 3)
	want("in its back-off", w.now)
	w.now += 5 * second
	w.tick()
	want("at the end of it", w.now)
}

// Fails when the end of a run that took nobody's place is told to a predecessor, since it
// comes from a parent or a schedule (P79).
func TestP79OnlySuccessorsTellOfTheChain(t *testing.T) {
	for name, f := range map[string]flow.Fields{
		"a child": {Parent: testID(5)}, "of a schedule": {Origin: "nightly"}, "retried": {Origin: testID(3).String(), Trigger: TriggerRetry},
	} {
		f.Order, f.Workflow, f.Stamp = epoch, "sync", testStamp
		w := newWorld(t)
		w.now = epoch
		w.submitAs(f)
		w.step(flow.InCancel, flow.Fields{})
		if len(w.letters()) > 0 || w.run.IsSuccessor() {
			t.Errorf("%s: it sends %+v", name, w.letters())
		}
		if v := w.run.View(); v.Parent != f.Parent || v.Origin != f.Origin || !v.GatedFrom.IsZero() || !v.GatedRoot.IsZero() {
			t.Errorf("%s: it comes from %+v", name, v)
		}
	}
}

// Fails when a parent that is stopped asks a child to stop that has ended, or gives a
// reason that is too long, isn't text, or doesn't name the parent (P63).
func TestP63ChildrenAreStoppedWithAReason(t *testing.T) {
	for _, why := range []string{"", "enough", strings.Repeat("ü", flow.MaxReasonBytes/2), strings.Repeat("x", flow.MaxReasonBytes)} {
		w := started(t)
		w.start(1, "kids", flow.FlagChild, 5, 6, 7)
		w.waitRuns(1, 5, 6, 7)
		w.step(flow.InOutcome, flow.Fields{Root: testID(6), Number: w.run.peek().wait.number, Status: flow.StatusCompleted})
		w.step(flow.InCancel, flow.Fields{Reason: why})
		letters := w.letters()
		if len(letters) != 2 || letters[0].Run != testID(5) || letters[1].Run != testID(7) {
			t.Fatalf("it sends %+v", letters)
		}
		said := letters[0].Reason
		if len(said) > flow.MaxReasonBytes || !utf8.ValidString(said) || !strings.Contains(said, w.run.ID().String()) ||
			!strings.Contains(said, why[:min(len(why), 400)]) {
			t.Errorf("the reason has %d bytes: %q", len(said), said)
		}
		if v := w.run.View(); v.Reason != why {
			t.Errorf("its own reason has %d bytes", len(v.Reason))
		}
	}
}

// Fails when the events of a run that waits for many runs again and again keep more than
// their share of memory, or Check finds fault with that (P26).
func TestP26RunsOfEventsAreBounded(t *testing.T) {
	r := New(testID(1))
	apply := func(k flow.RecordKind, f flow.Fields) {
		f.Run = r.ID()
		r.Apply(&flow.Record{Kind: k, Fields: f})
	}
	apply(flow.RecSubmitted, flow.Fields{})
	awaited := make([]flow.RunID, flow.MaxAwaited)
	for i := range awaited {
		awaited[i] = flow.RunID{1, 15: byte(i)}
	}
	for fence := uint64(1); fence <= 200; fence++ {
		apply(flow.RecAdmitted, flow.Fields{Fence: fence, Lease: lease})
		apply(flow.RecSuspended, flow.Fields{Fence: fence, Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(awaited)})
		apply(flow.RecWoken, flow.Fields{})
	}
	kept := 0
	for _, e := range r.Events() {
		kept += len(e.Runs) * len(flow.RunID{})
	}
	if err := r.Check(); err != nil || kept > maxJournalText || kept < maxJournalText/2 {
		t.Errorf("%d bytes of ids are kept: %v", kept, err)
	}
}
