package runactor

import "github.com/pyrula/pyrula-node/flow"

// stepCancel ends a run that nobody holds at once, and asks the holder of any
// other to stop (P63). Asking twice, or asking a run that has ended, changes
// nothing.
func (r *Run) stepCancel(now flow.Instant, in *flow.Input, out *flow.Out) {
	if r.status.Ended() || r.CancelAsked() {
		r.answer(out, flow.FlagRepeat)
		return
	}
	kind := flow.RecCancelled
	if r.status == flow.StatusExecuting {
		kind = flow.RecCancelAsked
	}
	r.record(out, kind, now).Reason = in.Reason
	r.cancelAwaited(in, out)
	r.answer(out, flow.FlagOK)
}

// stepTerminate ends a run at once. Its holder may still be at work, so the slot
// stays taken until he says so or his lease ends as it stands (R20).
func (r *Run) stepTerminate(now flow.Instant, in *flow.Input, out *flow.Out) {
	if r.status.Ended() {
		r.answer(out, flow.FlagRepeat)
		return
	}
	rec := r.record(out, flow.RecTerminated, now)
	rec.Reason = in.Reason
	if r.status == flow.StatusExecuting {
		rec.Fence = r.past.fence
	}
	r.cancelAwaited(in, out)
	r.answer(out, flow.FlagOK)
}
