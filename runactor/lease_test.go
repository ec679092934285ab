package runactor

import (
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// started is a run that w1 holds under fence 1 since the epoch, for 10 s.
func started(t failer) *world {
	t.Helper()
	w := newWorld(t)
	w.now = epoch
	w.submit()
	w.hold(1)
	return w
}

func wantKinds(t *testing.T, w *world, kinds ...flow.RecordKind) {
	t.Helper()
	if !slices.Equal(w.kinds(), kinds) || w.out.Err != nil {
		t.Fatalf("decided %v (error %v), want %v", w.kinds(), w.out.Err, kinds)
	}
}

// Fails when a lease isn't ended at 1.2 x lease + 1 s to the nanosecond.
func TestP50ExpiryIsToTheNanosecond(t *testing.T) {
	for _, l := range []flow.Span{flow.MinLease, lease, flow.DefaultLease, flow.MaxLease} {
		w := newWorld(t)
		w.now = epoch
		w.submit()
		w.admit(flow.Fields{Fence: 1, Lease: l})
		end := epoch.Add(l + l/5 + flow.Second)
		if due, ok := w.run.Due(); !ok || due.At != end || due.Absolute {
			t.Fatalf("lease %d: due %+v %t, want %d", l, due, ok, end)
		}
		w.now = end - 1
		w.tick()
		wantKinds(t, w)
		w.now = end
		w.tick()
		wantKinds(t, w, flow.RecExpired)
	}
}

// Fails when the record that expires a lease doesn't also requeue the run at its
// old place, or leaves a deadline behind.
func TestP50P52ExpiryRequeuesInOneRecord(t *testing.T) {
	w := started(t)
	order := w.run.Order()
	w.now = epoch + 13*second
	w.tick()
	wantKinds(t, w, flow.RecExpired)
	if rec := w.out.Records[0]; rec.Fence != 1 {
		t.Errorf("the record frees fence %d, want 1", rec.Fence)
	}
	if w.run.Status() != flow.StatusQueued || w.run.Order() != order || w.run.Held() {
		t.Errorf("the run is %v at %d, held %t", w.run.Status(), w.run.Order(), w.run.Held())
	}
	if _, ok := w.run.Due(); ok {
		t.Error("a queued run has something due")
	}
}

// Fails when the owner's expiry could come before the worker's own: the worker
// counts from before the grant, the owner from the grant and longer (R1).
func TestR1OwnerExpiryIsLaterThanTheWorkers(t *testing.T) {
	for l := flow.MinLease; l <= flow.MaxLease; l = l*3 + 7 {
		if got := Expiry(epoch, l).Sub(epoch); got < l+leaseMargin {
			t.Fatalf("a lease of %d is given up after %d", l, got)
		}
	}
}

// Fails when a far lease wraps into the past, or a negative one cuts the margin.
func TestS84ExpiryNeverWraps(t *testing.T) {
	if got := Expiry(flow.MaxInstant-1, flow.MaxLease); got != flow.MaxInstant {
		t.Errorf("at the end of time a lease ends at %d", got)
	}
	if got := Expiry(epoch, -flow.MaxLease); got != epoch+second {
		t.Errorf("a negative lease ends at %d", got)
	}
	if got := Expiry(epoch, 1<<63-1); got != flow.MaxInstant {
		t.Errorf("the longest lease ends at %d", got)
	}
}

// Fails when a restart gives a holder less than a full expiry, writes a record for
// it, or gives one to a run that nobody holds.
func TestR15ResumeGivesAFullLease(t *testing.T) {
	for name, rebuild := range map[string]func(*world){"replay": (*world).restart, "snapshot": (*world).restore} {
		t.Run(name, func(t *testing.T) {
			w := started(t)
			w.now += 12 * second
			rebuild(w)
			wantKinds(t, w, flow.RecRenewed)
			if due, ok := w.run.Due(); !ok || due.At != w.now+13*second {
				t.Errorf("due %+v %t, want 13 s from now", due, ok)
			}
			w.step(flow.InComplete, flow.Fields{Fence: 1})
			rebuild(w)
			wantKinds(t, w)
		})
	}
}

// Fails when a run out of a snapshot is expired before Resume has given its holder
// a lease.
func TestR15NothingExpiresBeforeResume(t *testing.T) {
	w := started(t)
	r := New(w.run.ID())
	decode(t, r, w.run.Fingerprint())
	var out flow.Out
	r.Step(flow.MaxInstant, w.in(flow.InRunTick, flow.Fields{}), &out)
	if due, ok := r.Due(); ok || len(out.Records) != 0 || out.Err != nil {
		t.Fatalf("decided %v (error %v), due %+v %t", out.Records, out.Err, due, ok)
	}
}

// Fails when an admission could give out a fence that isn't above all earlier ones.
func TestR18FenceOnlyGrows(t *testing.T) {
	for _, fence := range []uint64{0, 1, 5, 6} {
		w := newWorld(t)
		w.submit()
		w.hold(5)
		w.now += 13 * second
		w.tick()
		panics := panicked(func() { w.run.Apply(admission(w, fence)) })
		if want := fence <= 5; panics != want {
			t.Errorf("fence %d after 5: panics %t, want %t", fence, panics, want)
		}
	}
}

func admission(w *world, fence uint64) *flow.Record {
	return &flow.Record{Kind: flow.RecAdmitted, At: w.now, Fields: flow.Fields{Run: w.run.ID(), Fence: fence}}
}

func panicked(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// Fails when any order of a heartbeat, an end and a tick in one instant gives two
// outcomes, or an outcome that the first to be handled didn't decide.
func TestS20EveryOrderHasOneOutcome(t *testing.T) {
	inputs := []flow.InputKind{flow.InHeartbeat, flow.InComplete, flow.InRunTick}
	for _, at := range []flow.Instant{epoch + 5*second, epoch + 13*second - 1, epoch + 13*second} {
		for _, order := range permutations(inputs) {
			w := started(t)
			w.now = at
			expired := false
			for _, k := range order {
				w.step(k, flow.Fields{Fence: 1})
				if k == flow.InRunTick && len(w.out.Records) > 0 {
					expired = true
				}
			}
			// The tick expires the lease exactly if it's over and neither of the others came first.
			wantExpired := at == epoch+13*second && order[0] == flow.InRunTick
			want := flow.StatusCompleted
			if wantExpired {
				want = flow.StatusQueued
			}
			if expired != wantExpired || w.run.Status() != want || w.run.Held() {
				t.Errorf("at %d in order %v: expired %t, %v, held %t", at-epoch, order, expired, w.run.Status(), w.run.Held())
			}
		}
	}
}

func permutations(all []flow.InputKind) [][]flow.InputKind {
	if len(all) <= 1 {
		return [][]flow.InputKind{append([]flow.InputKind(nil), all...)}
	}
	var out [][]flow.InputKind
	for i := range all {
		rest := append(append([]flow.InputKind(nil), all[:i]...), all[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]flow.InputKind{all[i]}, p...))
		}
	}
	return out
}
