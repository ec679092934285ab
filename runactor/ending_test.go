package runactor

import (
	"errors"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

var endings = []flow.InputKind{flow.InComplete, flow.InFail, flow.InSuspend}

// ended sends an ending request that keeps the run alive where it can.
func ended(w *world, k flow.InputKind, fence uint64) {
	w.step(k, flow.Fields{Fence: fence, Flags: flow.FlagRetryable, Until: w.now + 60*second, Payload: []byte("r")})
}

// Fails when a repeated ending request isn't answered as a repeat, or another kind
// or fence is; at once, after a restart, and after a snapshot.
func TestR15SameEndingAgain(t *testing.T) {
	for _, first := range endings {
		for _, again := range endings {
			for _, fence := range []uint64{1, 2} {
				w := started(t)
				ended(w, first, 1)
				for range 2 {
					n := len(w.log)
					ended(w, again, fence)
					if repeat := first == again && fence == 1; repeat != (w.out.Err == nil) || len(w.log) != n {
						t.Fatalf("%v(1), then %v(%d): error %v, %d records", first, again, fence, w.out.Err, len(w.log)-n)
					}
					if w.out.Err == nil && w.flags() != flow.FlagRepeat {
						t.Errorf("the repeat is answered %b", w.flags())
					}
					w.restart()
					w.restore()
				}
			}
		}
	}
}

// Fails when a request that ended a cancelled or terminated run isn't remembered
// as itself, or when an expiry is remembered as a request.
func TestR15EndingOfAStoppedRun(t *testing.T) {
	for _, stop := range []flow.InputKind{flow.InCancel, flow.InTerminate} {
		for _, first := range endings {
			w := started(t)
			w.step(stop, flow.Fields{})
			ended(w, first, 1)
			if w.flags() != flow.FlagOK|flow.FlagCancel {
				t.Fatalf("%v, then %v is answered %b", stop, first, w.flags())
			}
			w.restart()
			for _, again := range endings {
				ended(w, again, 1)
				switch {
				case again == first:
					if w.flags() != flow.FlagRepeat|flow.FlagCancel {
						t.Errorf("%v after %v: the repeat is answered %b", first, stop, w.flags())
					}
				case !errors.Is(w.out.Err, flow.ErrRunEnded):
					t.Errorf("%v after %v and %v: error %v", again, stop, first, w.out.Err)
				}
			}
		}
		w := started(t)
		w.step(stop, flow.Fields{})
		w.now += 13 * second
		w.tick()
		for _, k := range endings {
			if ended(w, k, 1); !errors.Is(w.out.Err, flow.ErrRunEnded) {
				t.Errorf("%v after %v and an expiry: error %v", k, stop, w.out.Err)
			}
		}
	}
}

// Fails when a former holder is heard in any state that the run can be in.
func TestP51FormerHolderIsRefused(t *testing.T) {
	for name, then := range map[string]func(*world){
		"queued":    func(*world) {},
		"executing": func(w *world) { w.hold(2) },
		"suspended": func(w *world) { w.hold(2); ended(w, flow.InSuspend, 2) },
		"completed": func(w *world) { w.hold(2); ended(w, flow.InComplete, 2) },
		"cancelled": func(w *world) { w.step(flow.InCancel, flow.Fields{}) },
		"held":      func(w *world) { w.hold(2); w.step(flow.InTerminate, flow.Fields{}) },
	} {
		w := started(t)
		w.now += 13 * second
		w.tick()
		then(w)
		want := flow.ErrStaleFence
		if w.run.Status().Ended() {
			want = flow.ErrRunEnded
		}
		for _, k := range endings {
			if ended(w, k, 1); !errors.Is(w.out.Err, want) {
				t.Errorf("%s: %v of fence 1: error %v, want %v", name, k, w.out.Err, want)
			}
		}
		if w.step(flow.InHeartbeat, flow.Fields{Fence: 1}); w.flags().Has(flow.FlagOK) {
			t.Errorf("%s: a heartbeat of fence 1 was taken", name)
		}
	}
}

// Fails when fence 0, which nobody holds, is taken for a holder's.
func TestP51NoFenceIsNobody(t *testing.T) {
	w := newWorld(t)
	w.submit()
	for _, k := range endings {
		if ended(w, k, 0); !errors.Is(w.out.Err, flow.ErrStaleFence) {
			t.Errorf("%v: error %v", k, w.out.Err)
		}
	}
	if w.step(flow.InHeartbeat, flow.Fields{}); w.flags() != 0 {
		t.Errorf("a heartbeat is answered %b", w.flags())
	}
}

// Fails when an acknowledged cancel loses to anything that its holder says, or to
// his silence (S62, S29).
func TestS62CancelWinsOverEveryEnd(t *testing.T) {
	for _, k := range append(endings, flow.InRunTick) {
		w := started(t)
		w.step(flow.InCancel, flow.Fields{Reason: "stop"})
		wantKinds(t, w, flow.RecCancelAsked)
		w.now += 13 * second
		ended(w, k, 1)
		wantKinds(t, w, flow.RecCancelled)
		if rec := w.out.Records[0]; rec.Fence != 1 || rec.Reason != "stop" {
			t.Errorf("%v: the record is %+v", k, rec.Fields)
		}
		if v := w.run.View(); v.Status != flow.StatusCancelled || len(v.Result) != 0 || v.ErrType != "" {
			t.Errorf("%v: the run is %+v", k, v)
		}
	}
}

// Fails when a failure ends a run that has a try left, or doesn't end one that has
// none: a try is a failure, and an expiry or a suspension is none (P54, P65).
func TestP65TriesAreFailures(t *testing.T) {
	for _, c := range []struct {
		tries, fails int64
	}{{0, 1}, {1, 1}, {2, 2}, {3, 3}} {
		w := newWorld(t)
		w.now = epoch
		w.submit()
		fence := uint64(0)
		hold := func() {
			fence++
			w.admit(flow.Fields{Fence: fence, Lease: lease, Attempts: c.tries})
		}
		for n := int64(1); n <= c.fails; n++ {
			hold()
			w.now += 13 * second
			w.tick()
			wantKinds(t, w, flow.RecExpired)
			hold()
			w.step(flow.InSuspend, flow.Fields{Fence: fence})
			hold()
			w.step(flow.InFail, flow.Fields{Fence: fence, Flags: flow.FlagRetryable})
			if n < c.fails {
				wantKinds(t, w, flow.RecRetrying, flow.RecWoken)
			}
		}
		wantKinds(t, w, flow.RecFailed)
		if v := w.run.View(); v.Failures != c.fails || v.Attempt != 2*c.fails {
			t.Errorf("tries %d: %d failures in %d attempts", c.tries, v.Failures, v.Attempt)
		}
	}
}

// Fails when a failure that the worker calls final is tried again.
func TestP65FinalFailure(t *testing.T) {
	w := started(t)
	w.step(flow.InFail, flow.Fields{Fence: 1, ErrType: "E", ErrText: "boom"})
	wantKinds(t, w, flow.RecFailed)
	if v := w.run.View(); v.ErrType != "E" || v.ErrText != "boom" || v.Ended != w.now {
		t.Errorf("the run is %+v", v)
	}
}

// Fails when a resumed run is a new attempt, or a retried or expired one isn't.
func TestP54SuspensionUsesNoAttempt(t *testing.T) {
	w := started(t)
	w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: w.now})
	wantKinds(t, w, flow.RecSuspended, flow.RecWoken)
	w.hold(2)
	if w.run.Attempt() != 1 {
		t.Errorf("after a suspension it is attempt %d", w.run.Attempt())
	}
	w.step(flow.InFail, flow.Fields{Fence: 2, Flags: flow.FlagRetryable})
	w.now += 5 * second
	w.tick()
	w.hold(3)
	if w.run.Attempt() != 2 {
		t.Errorf("after a failure it is attempt %d", w.run.Attempt())
	}
	w.now += 13 * second
	w.tick()
	w.hold(4)
	if w.run.Attempt() != 3 {
		t.Errorf("after an expiry it is attempt %d", w.run.Attempt())
	}
}

// Fails when a run says that it hasn't taken its token after it was admitted once,
// or that it has before.
func TestP53TokenIsTakenWithTheFirstAdmission(t *testing.T) {
	w := newWorld(t)
	w.now = epoch
	w.submit()
	if w.run.Started() {
		t.Error("a queued run has started")
	}
	w.hold(1)
	w.now += 13 * second
	w.tick()
	w.restore()
	if !w.run.Started() || w.run.View().Started != epoch {
		t.Errorf("a requeued run hasn't started, or at %d", w.run.View().Started)
	}
	w.hold(2)
	if w.run.View().Started != epoch {
		t.Errorf("a second admission moved the start to %d", w.run.View().Started)
	}
}

// Fails when a date is judged by shard time alone (R2): only its tick, which the
// host sends when the wall clock has come too, may wake the run.
func TestR2DateWaitsForItsTick(t *testing.T) {
	w := started(t)
	w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: w.now - 1, Flags: flow.FlagAbsolute})
	wantKinds(t, w, flow.RecSuspended)
	if due, ok := w.run.Due(); !ok || !due.Absolute || due.At != w.now-1 {
		t.Fatalf("due %+v %t", due, ok)
	}
	w.tick()
	wantKinds(t, w, flow.RecWoken)
}
