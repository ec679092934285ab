package runactor

import "github.com/pyrula/pyrula-node/flow"

// View is all that a run's readers are told. Its slices and its stamp are shared:
// read them, don't change them.
type View struct {
	ID             flow.RunID
	Workflow       string
	Status         flow.Status
	Stamp          *flow.Stamp
	Trigger        string
	IdempotencyKey string
	Params         []byte

	Submitted flow.Instant // the order key: the run's place in every queue
	Started   flow.Instant // first admission; zero before it
	Ended     flow.Instant // zero until the end

	Attempt  int64 // of the current or last attempt, from 1; zero before it
	Failures int64 // attempts that failed

	Worker          string // the current or last holder
	Version         string // its version of the workflow
	Fence           uint64 // its fence
	Lease           flow.Span
	Held            bool // whether Worker still holds the run
	CancelRequested bool

	Until    flow.Instant    // end of a suspension
	Absolute bool            // Until is a date
	Waiting  flow.WaitReason // why the run is suspended; empty when it isn't

	Since  flow.Instant // when the run was submitted, or last queued again or suspended
	Signal string       // the signal that a suspension waits for
	Awaits []flow.RunID // the runs that a suspension waits for and that haven't ended

	Result  []byte
	ErrType string
	ErrText string
	Reason  string // why cancelled or terminated

	GatedFrom   flow.RunID // the run that was handed on to this one (P25)
	GatedRoot   flow.RunID // the first of that chain (P79)
	Parent      flow.RunID // the run whose body started this one
	Origin      string     // the schedule, or the run that was retried by hand
	ContinuedTo flow.RunID // the run that took this one's place
}

// View returns what the run's readers are told.
func (r *Run) View() View {
	v := View{
		ID: r.id, Workflow: r.workflow, Status: r.status, Stamp: r.stamp, Trigger: r.trigger,
		IdempotencyKey: r.idempotencyKey, Params: r.params, Submitted: r.order,
		Held: r.Held(), CancelRequested: r.CancelAsked(), Absolute: r.marks.has(markAbsolute),
	}
	v.Since = r.order
	if w, ok := r.Explain(); ok {
		v.Waiting, v.Signal, v.Awaits = w.Reason, w.Signal, w.Runs
	}
	if r.from != nil {
		v.GatedFrom, v.GatedRoot, v.Parent, v.Origin = r.from.gatedFrom, r.from.gatedRoot, r.from.parent, r.from.origin
	}
	if p := r.past; p != nil {
		v.Since = max(p.since, r.order)
		v.ContinuedTo = r.Successor()
		v.Started, v.Ended, v.Until = p.started, p.ended, p.until
		v.Attempt, v.Failures = p.attempt, p.failures
		v.Worker, v.Version, v.Fence, v.Lease = p.worker, p.version, p.fence, p.lease
		v.Result, v.ErrType, v.ErrText, v.Reason = p.result, p.errType, p.errText, p.reason
	}
	return v
}

// Explain says why a suspended run waits and until when. Why a queued run waits is
// its key's to say; of any other run ok is false.
func (r *Run) Explain() (w flow.Wait, ok bool) {
	if r.status != flow.StatusSuspended {
		return flow.Wait{}, false
	}
	w = flow.Wait{Reason: flow.WaitSchedule, OpensAt: r.past.until, Since: r.past.since}
	switch waits := &r.peek().wait; {
	case r.marks.has(markBackoff):
		w.Reason = flow.WaitRetryBackoff
	case waits.kind == waitSignal:
		w.Reason, w.Signal = flow.WaitSignal, waits.name
	case waits.kind == waitRuns:
		w.Reason = flow.WaitChild
		for i, id := range waits.awaited {
			if !waits.ended[i] {
				w.Runs = append(w.Runs, id)
			}
		}
	}
	return w, true
}
