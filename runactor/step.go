package runactor

import "github.com/pyrula/pyrula-node/flow"

// Step decides an input: it appends records and effects to out and changes
// nothing. Now is shard time. A refused input sets out.Err and appends nothing:
// flow.ErrUnknownRun, flow.ErrStaleFence, flow.ErrRunEnded, or a *flow.FieldError.
func (r *Run) Step(now flow.Instant, in *flow.Input, out *flow.Out) {
	if in.Run != r.id || (r.status == 0 && in.Kind != flow.InSubmit) {
		out.Err = flow.ErrUnknownRun
		return
	}
	if out.Err = checkBounds(in); out.Err != nil {
		return
	}
	switch in.Kind {
	case flow.InSubmit:
		r.stepSubmit(now, in, out)
	case flow.InComplete, flow.InFail, flow.InSuspend:
		r.stepEnding(now, in, out)
	case flow.InHeartbeat:
		r.stepHeartbeat(now, in, out)
	case flow.InCancel:
		r.stepCancel(now, in, out)
	case flow.InTerminate:
		r.stepTerminate(now, in, out)
	case flow.InRunTick:
		r.stepTick(now, out)
	default:
		r.stepRecorded(now, in, out)
	}
	r.announce(out)
}

// stepRecorded decides what a body records, and what comes from other runs.
func (r *Run) stepRecorded(now flow.Instant, in *flow.Input, out *flow.Out) {
	switch in.Kind {
	case flow.InSteps:
		r.stepSteps(now, in, out)
	case flow.InSignal:
		r.stepSignal(now, in, out)
	case flow.InStart:
		r.stepStart(now, in, out)
	case flow.InWatch:
		r.stepWatch(now, in, out)
	case flow.InOutcome:
		r.stepOutcome(now, in, out)
	case flow.InHandOn:
		r.stepHandOn(now, in, out)
	case flow.InChainOver:
		r.stepChainOver(now, out)
	default:
		out.Err = flow.Invalid("kind", "must be an input of a run, not "+in.Kind.String())
	}
}

// stepSubmit makes the run. A letter that creates it may come twice: the second
// finds it and changes nothing.
func (r *Run) stepSubmit(now flow.Instant, in *flow.Input, out *flow.Out) {
	if r.status != 0 {
		r.answer(out, flow.FlagRepeat)
		return
	}
	rec := r.record(out, flow.RecSubmitted, now)
	rec.Order = in.Order
	rec.Workflow = in.Workflow
	rec.Payload = in.Payload
	rec.Stamp = in.Stamp
	rec.Trigger = in.Trigger
	rec.IdempotencyKey = in.IdempotencyKey
	rec.RequestID = in.RequestID
	rec.Other, rec.Root, rec.Parent = in.Other, in.Root, in.Parent
	rec.Origin, rec.Extra = in.Origin, in.Extra
	r.answer(out, flow.FlagOK)
}

// stepTick acts on the one deadline that the run's state has. A tick that was
// armed for an older state finds nothing due and changes nothing (S86).
func (r *Run) stepTick(now flow.Instant, out *flow.Out) {
	if r.Held() && !r.mustTell() {
		r.stepExpiry(now, out)
		return
	}
	if r.mustTell() {
		o := r.outcome()
		r.tellWaiters(now, &o, out)
		return
	}
	if r.status == flow.StatusSuspended && r.past.until != 0 && r.past.until <= now {
		r.record(out, flow.RecWoken, now)
	}
}

// Due is the next instant at which Step wants a tick. A hold ends by shard time; a
// suspension until a date waits for the wall clock too (R2), and only then may its
// tick be sent.
func (r *Run) Due() (flow.Deadline, bool) {
	switch {
	case r.mustTell():
		return flow.Deadline{At: r.past.ended}, true
	case r.Held():
		return flow.Deadline{At: r.past.expiry}, r.past.expiry != 0
	case r.status == flow.StatusSuspended && r.past.until != 0:
		return flow.Deadline{At: r.past.until, Absolute: r.marks.has(markAbsolute)}, true
	}
	return flow.Deadline{}, false
}

// Resume appends what is owed after a replay: a holder gets a full lease from now,
// since renewals aren't written.
func (r *Run) Resume(now flow.Instant, out *flow.Out) {
	if r.Held() {
		r.renew(now, out)
	}
}

// record appends a fact about the run. The pointer is good until the next append.
func (r *Run) record(out *flow.Out, k flow.RecordKind, now flow.Instant) *flow.Record {
	rec := out.Record(k, now)
	rec.Run = r.id
	return rec
}

func (r *Run) answer(out *flow.Out, f flow.Flags) {
	eff := out.Effect(flow.EffAnswer)
	eff.Run = r.id
	eff.Flags = f
}
