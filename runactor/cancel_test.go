package runactor

import (
	"errors"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when cancel or terminate of a run that nobody holds isn't its end at once,
// or leaves a deadline or a fence behind.
func TestP63CancelWithoutAHolderIsTheEnd(t *testing.T) {
	for stop, want := range map[flow.InputKind]flow.RecordKind{
		flow.InCancel: flow.RecCancelled, flow.InTerminate: flow.RecTerminated,
	} {
		for name, state := range map[string]func(*world){
			"queued":    func(*world) {},
			"requeued":  func(w *world) { w.hold(1); w.now += 13 * second; w.tick() },
			"suspended": func(w *world) { w.hold(1); ended(w, flow.InSuspend, 1) },
			"back-off":  func(w *world) { w.hold(1); ended(w, flow.InFail, 1) },
		} {
			w := newWorld(t)
			w.submit()
			state(w)
			w.step(stop, flow.Fields{Reason: "r"})
			wantKinds(t, w, want)
			if rec := w.out.Records[0]; rec.Fence != 0 || rec.Reason != "r" {
				t.Errorf("%s: the record is %+v", name, rec.Fields)
			}
			if _, due := w.run.Due(); due || !w.run.Status().Ended() || w.run.Held() {
				t.Errorf("%s: %v, due %t, held %t", name, w.run.Status(), due, w.run.Held())
			}
		}
	}
}

// Fails when a terminated run's hold ends by anything but its holder's last word
// or its expiry, is freed twice, or is renewed (R20, S35).
func TestR20HoldIsFreedOnce(t *testing.T) {
	for _, end := range append(endings, flow.InRunTick) {
		w := started(t)
		w.now += 9 * second
		w.step(flow.InTerminate, flow.Fields{})
		wantKinds(t, w, flow.RecTerminated)
		if w.run.Status() != flow.StatusTerminated || !w.run.Held() {
			t.Fatalf("the run is %v, held %t", w.run.Status(), w.run.Held())
		}
		w.now = epoch + 12*second
		w.step(flow.InHeartbeat, flow.Fields{Fence: 1})
		if due, _ := w.run.Due(); due.At != epoch+13*second {
			t.Fatalf("the hold ends at %d", due.At-epoch)
		}
		w.step(flow.InCancel, flow.Fields{})
		wantKinds(t, w)
		w.now = epoch + 13*second
		ended(w, end, 1)
		wantKinds(t, w, flow.RecHoldFreed)
		for _, again := range append(endings, flow.InRunTick, flow.InTerminate, flow.InHeartbeat) {
			if ended(w, again, 1); len(w.out.Records) != 0 {
				t.Errorf("%v after %v: decided %v", again, end, w.kinds())
			}
		}
	}
}

// Fails when terminate doesn't end a run whose cancel wasn't heeded, or cancel is
// recorded twice.
func TestP63TerminateAfterCancel(t *testing.T) {
	w := started(t)
	w.step(flow.InCancel, flow.Fields{Reason: "please"})
	w.step(flow.InCancel, flow.Fields{Reason: "please, again"})
	wantKinds(t, w)
	if w.flags() != flow.FlagRepeat {
		t.Errorf("a second cancel is answered %b", w.flags())
	}
	w.step(flow.InTerminate, flow.Fields{Reason: "now"})
	wantKinds(t, w, flow.RecTerminated)
	if v := w.run.View(); v.Reason != "now" || !v.CancelRequested {
		t.Errorf("the run is %+v", v)
	}
}

// Fails when a suspension or back-off that races a cancel leaves a timer (S65).
func TestS65EveryOrderEndsCancelled(t *testing.T) {
	for _, k := range []flow.InputKind{flow.InSuspend, flow.InFail} {
		for _, order := range permutations([]flow.InputKind{flow.InCancel, k}) {
			w := started(t)
			for _, in := range order {
				ended(w, in, 1)
			}
			w.now += 60 * second
			w.tick()
			wantKinds(t, w)
			if _, due := w.run.Due(); due || w.run.Status() != flow.StatusCancelled || w.run.Held() {
				t.Errorf("order %v: %v, due %t, held %t", order, w.run.Status(), due, w.run.Held())
			}
		}
	}
}

// Fails when a back-off that was cancelled is anything but cancelled after a crash,
// by replay or snapshot, or still wakes (S67).
func TestS67CancelledInBackoffStaysCancelled(t *testing.T) {
	for name, rebuild := range map[string]func(*world){"replay": (*world).restart, "snapshot": (*world).restore} {
		w := started(t)
		ended(w, flow.InFail, 1)
		w.step(flow.InCancel, flow.Fields{})
		rebuild(w)
		w.now += 60 * second
		w.tick()
		if wantKinds(t, w); w.run.Status() != flow.StatusCancelled {
			t.Errorf("%s: the run is %v", name, w.run.Status())
		}
	}
}

// Fails when an input of another run, or of a run that doesn't exist, has an effect
// (S64).
func TestS64OtherRunsInputIsRefused(t *testing.T) {
	w := started(t)
	for k := flow.InSubmit; k <= flow.InChainOver; k++ {
		in := w.in(k, flow.Fields{Fence: 1, Stamp: testStamp})
		in.Run = testID(2)
		w.out.Reset()
		w.run.Step(w.now, in, &w.out)
		if !errors.Is(w.out.Err, flow.ErrUnknownRun) || len(w.out.Records)+len(w.out.Effects) > 0 {
			t.Errorf("%v: error %v, decided %v", k, w.out.Err, w.kinds())
		}
		if k == flow.InSubmit {
			continue
		}
		nobody := newWorld(t)
		if nobody.step(k, flow.Fields{Fence: 1}); !errors.Is(nobody.out.Err, flow.ErrUnknownRun) {
			t.Errorf("%v of a run that isn't: error %v", k, nobody.out.Err)
		}
	}
}

// Fails when an input over a bound is taken, or one at the bound is refused.
func TestStepRefusesWhatIsTooLarge(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		kind flow.InputKind
		most int
		with func(*flow.Fields, int)
	}{
		"result":  {flow.InComplete, flow.MaxPayloadBytes, func(f *flow.Fields, n int) { f.Payload = make([]byte, n) }},
		"type":    {flow.InFail, flow.MaxErrorTypeBytes, func(f *flow.Fields, n int) { f.ErrType = text(n) }},
		"message": {flow.InFail, flow.MaxErrorMessageBytes, func(f *flow.Fields, n int) { f.ErrText = text(n) }},
		"cancel":  {flow.InCancel, flow.MaxReasonBytes, func(f *flow.Fields, n int) { f.Reason = text(n) }},
		"stop":    {flow.InTerminate, flow.MaxReasonBytes, func(f *flow.Fields, n int) { f.Reason = text(n) }},
	} {
		for over := range 2 {
			w := started(t)
			f := flow.Fields{Fence: 1}
			c.with(&f, c.most+over)
			if w.step(c.kind, f); errors.Is(w.out.Err, flow.ErrInvalid) != (over == 1) {
				t.Errorf("%s of %d: error %v", name, c.most+over, w.out.Err)
			}
		}
	}
	for name, c := range map[string]struct {
		most int
		with func(*flow.Fields, int)
	}{
		"params":   {flow.MaxPayloadBytes, func(f *flow.Fields, n int) { f.Payload = make([]byte, n) }},
		"workflow": {flow.MaxNameBytes, func(f *flow.Fields, n int) { f.Workflow = text(n) }},
		"trigger":  {flow.MaxNameBytes, func(f *flow.Fields, n int) { f.Trigger = text(n) }},
		"key":      {flow.MaxIdempotencyKeyBytes, func(f *flow.Fields, n int) { f.IdempotencyKey = text(n) }},
		"request":  {flow.MaxRequestIDBytes, func(f *flow.Fields, n int) { f.RequestID = text(n) }},
	} {
		for over := range 2 {
			w := newWorld(t)
			f := flow.Fields{Stamp: testStamp}
			c.with(&f, c.most+over)
			if w.step(flow.InSubmit, f); errors.Is(w.out.Err, flow.ErrInvalid) != (over == 1) {
				t.Errorf("%s of %d: error %v", name, c.most+over, w.out.Err)
			}
		}
	}
}

// Fails when an input that isn't a run's is taken, or a submit without a stamp.
func TestStepRefusesWhatIsNotARuns(t *testing.T) {
	w := started(t)
	for k := range flow.InputKind(128) {
		if k >= flow.InSubmit && k <= flow.InChainOver {
			continue
		}
		if w.step(k, flow.Fields{Fence: 1}); !errors.Is(w.out.Err, flow.ErrInvalid) {
			t.Errorf("%v: error %v", k, w.out.Err)
		}
	}
	if w := newWorld(t); !errors.Is(w.step(flow.InSubmit, flow.Fields{}).Err, flow.ErrInvalid) {
		t.Error("a submit without a stamp was taken")
	}
}
