package runactor

import "github.com/pyrula/pyrula-node/flow"

// stepEnding takes a worker's last message under a fence: complete, fail or
// suspend. A repeat of the last one that was taken is answered as before (R15);
// any other that doesn't come from the holder is refused (P51).
func (r *Run) stepEnding(now flow.Instant, in *flow.Input, out *flow.Out) {
	switch {
	case r.holds(in.Fence):
		r.endHold(now, in, out)
		return
	case r.past != nil && r.past.last == ending{kind: in.Kind, fence: in.Fence}:
		r.answer(out, flow.FlagRepeat|r.stop())
	case r.status.Ended():
		out.Err = flow.ErrRunEnded
	default:
		out.Err = flow.ErrStaleFence
	}
}

func (r *Run) endHold(now flow.Instant, in *flow.Input, out *flow.Out) {
	switch {
	case r.status == flow.StatusTerminated:
		r.closing(out, flow.RecHoldFreed, now, in)
	case r.CancelAsked():
		// Whatever the holder says now, the cancel was acknowledged first (S62).
		r.closing(out, flow.RecCancelled, now, in).Reason = r.past.reason
		if in.Kind == flow.InSuspend && in.Flags.Has(flow.FlagRuns) {
			r.cancelChildren(flow.DecodeRunIDs(in.Extra), r.past.reason, out)
		}
	case in.Kind == flow.InComplete:
		r.closing(out, flow.RecCompleted, now, in).Payload = in.Payload
	case in.Kind == flow.InFail:
		r.stepFail(now, in, out)
	default:
		r.stepSuspend(now, in, out)
	}
	if out.Err == nil {
		r.answer(out, flow.FlagOK|r.stop())
	}
}

// closing appends the record that ends the hold by the request in.
func (r *Run) closing(out *flow.Out, k flow.RecordKind, now flow.Instant, in *flow.Input) *flow.Record {
	rec := r.record(out, k, now)
	rec.Fence = in.Fence
	rec.Number = endingNumber(k, in.Kind)
	return rec
}

// stepFail ends an attempt. Tries are failures, not attempts: an expired lease
// uses none.
func (r *Run) stepFail(now flow.Instant, in *flow.Input, out *flow.Out) {
	retry := in.Flags.Has(flow.FlagRetryable) && r.past.failures+1 < r.past.attempts
	kind := flow.RecFailed
	if retry {
		kind = flow.RecRetrying
	}
	rec := r.closing(out, kind, now, in)
	rec.ErrType, rec.ErrText = in.ErrType, in.ErrText
	if retry {
		rec.Until = now.Add(r.past.backoff)
		if rec.Until <= now {
			r.record(out, flow.RecWoken, now)
		}
	}
}

// endingNumber is what a record keeps of the request that ended a hold, where its
// kind doesn't tell: zero means that the lease ended it.
func endingNumber(k flow.RecordKind, in flow.InputKind) uint64 {
	switch {
	case k == flow.RecCancelled || k == flow.RecHoldFreed:
		return uint64(in)
	case k == flow.RecFailed && in != flow.InFail:
		return uint64(in) // its history became too large
	}
	return 0
}

// endingOf is the ending request that a record stands for.
func endingOf(rec *flow.Record) (ending, bool) {
	var k flow.InputKind
	if rec.Fence == 0 {
		return ending{}, false // nobody held the run
	}
	switch rec.Kind {
	case flow.RecCompleted:
		k = flow.InComplete
	case flow.RecFailed, flow.RecRetrying:
		if k = flow.InFail; rec.Number != 0 {
			k = flow.InputKind(rec.Number)
		}
		if k != flow.InFail && k != flow.InSuspend {
			k = 0 // what ended it was no ending request
		}
	case flow.RecSuspended:
		k = flow.InSuspend
	case flow.RecCancelled, flow.RecHoldFreed:
		for _, known := range [...]flow.InputKind{flow.InComplete, flow.InFail, flow.InSuspend} {
			if rec.Number == uint64(known) {
				k = known
			}
		}
	default: // no request of a holder stands behind it
	}
	return ending{kind: k, fence: rec.Fence}, k != 0
}
