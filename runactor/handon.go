package runactor

import "github.com/pyrula/pyrula-node/flow"

// Triggers that only this program gives. The others are a client's.
const (
	TriggerChild    = "child"
	TriggerSchedule = "schedule"
	TriggerEvents   = "trigger" // a batch of events
	TriggerRetry    = "retry_by_name"
)

// lineage is where a run comes from, as far as another run or a schedule made it.
type lineage struct {
	gatedFrom flow.RunID // the immediate predecessor of a hand-on (P25)
	gatedRoot flow.RunID // the first run of the chain (P79)
	parent    flow.RunID
	origin    string // the schedule, or the run that was retried by hand
}

// MayHandOn says whether the run may go on in a successor's place: it is queued, its
// body has never started (P29), and nobody made it to run under just the stamp that it
// has (P31).
func (r *Run) MayHandOn() bool {
	if r.status != flow.StatusQueued || r.Started() {
		return false
	}
	switch r.trigger {
	case "case", "replay", "eval", TriggerRetry:
		return false
	}
	return true
}

// IsSuccessor says whether the run took the place of another: then only a strictly newer
// version hands it on again (P78).
func (r *Run) IsSuccessor() bool { return r.from != nil && !r.from.gatedFrom.IsZero() }

// Successor is the run that took this one's place; zero when it was not handed on.
func (r *Run) Successor() flow.RunID {
	return r.peek().successor
}

// stepHandOn hands the run on: it ends, and its successor takes its place, its signals,
// its parent and those who wait for its end (P28, P76). A run that may not be handed on
// any more is left as it is, without an error: it was decided for a state that is over.
func (r *Run) stepHandOn(now flow.Instant, in *flow.Input, out *flow.Out) {
	if !r.MayHandOn() {
		return
	}
	rec := r.record(out, flow.RecContinued, now)
	rec.Other, rec.Version = in.Other, in.Stamp.Version
	e := out.Send(flow.InCreate)
	e.Run, e.Order, e.Workflow, e.Payload, e.Stamp = in.Other, r.order, r.workflow, r.params, in.Stamp
	e.Trigger, e.IdempotencyKey = r.trigger, r.idempotencyKey
	e.Other, e.Root = r.id, r.id
	if r.from != nil {
		e.Parent, e.Origin = r.from.parent, r.from.origin
		if !r.from.gatedRoot.IsZero() {
			e.Root = r.from.gatedRoot
		}
	}
	b := r.peek()
	luggage := flow.Luggage{Signals: b.signals, Last: b.last, Waiters: b.waiters}
	e.Extra = luggage.Encode()
	r.answer(out, flow.FlagOK)
}

// stepChainOver takes note that the chain behind a run that was handed on has ended, and
// passes it on. From then on the run may leave memory.
func (r *Run) stepChainOver(now flow.Instant, out *flow.Out) {
	if r.status != flow.StatusContinued || r.peek().chain != 0 {
		return
	}
	r.record(out, flow.RecChainOver, now)
	r.chainOver(out)
}

// Over says that nothing more can happen to the run: it has ended, nobody holds it, and
// if it was handed on its chain has ended too.
func (r *Run) Over() bool {
	return r.status.Ended() && !r.Held() && !r.mustTell() && (r.status != flow.StatusContinued || r.peek().chain != 0)
}
