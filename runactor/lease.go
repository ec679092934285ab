package runactor

import "github.com/pyrula/pyrula-node/flow"

// How long the owner waits beyond the lease before it gives a slot to somebody
// else. The worker stops by itself at the end of its lease, counted from before
// the owner heard of it; a fifth and a second more cover the drift of two clocks
// and a pause between reading one and acting on it.
const (
	leaseMarginPart           = 5
	leaseMargin     flow.Span = 1 * flow.Second
)

// Expiry is the instant at which the owner ends a lease that was granted or
// renewed at now: 1.2 x lease + 1 s later.
func Expiry(now flow.Instant, lease flow.Span) flow.Instant {
	lease = max(lease, 0)
	return now.Add(lease).Add(lease / leaseMarginPart).Add(leaseMargin)
}

// stepHeartbeat renews the holder's lease. Anybody else is told, without an error,
// that the run isn't his any more: heartbeats come in batches. A terminated run's
// holder is told to stop and gets no more time (S35).
func (r *Run) stepHeartbeat(now flow.Instant, in *flow.Input, out *flow.Out) {
	if r.status != flow.StatusExecuting || !r.holds(in.Fence) {
		r.answer(out, r.stop())
		return
	}
	r.renew(now, out)
	r.answer(out, flow.FlagOK|r.stop())
}

func (r *Run) renew(now flow.Instant, out *flow.Out) {
	rec := r.record(out, flow.RecRenewed, now)
	rec.Fence = r.past.fence
	rec.Until = Expiry(now, r.past.lease)
}

// stepExpiry ends a hold whose lease is over. An executing run goes back to its
// old place in the queue; one that was asked to stop ends, so that it is never
// started again (S29); a terminated one only loses its hold.
func (r *Run) stepExpiry(now flow.Instant, out *flow.Out) {
	if r.past.expiry == 0 || now < r.past.expiry {
		return
	}
	kind := flow.RecExpired
	switch {
	case r.status == flow.StatusTerminated:
		kind = flow.RecHoldFreed
	case r.CancelAsked():
		kind = flow.RecCancelled
	}
	rec := r.record(out, kind, now)
	rec.Fence = r.past.fence
	if kind == flow.RecCancelled {
		rec.Reason = r.past.reason
	}
}

// holds says whether fence is the holder's.
func (r *Run) holds(fence uint64) bool { return r.Held() && fence == r.past.fence }

// stop is the flag that tells a worker to stop: the run was cancelled or
// terminated, or is about to be.
func (r *Run) stop() flow.Flags {
	if r.CancelAsked() || r.status == flow.StatusCancelled || r.status == flow.StatusTerminated {
		return flow.FlagCancel
	}
	return 0
}
