package runactor

import "github.com/pyrula/pyrula-node/flow"

// maxJournalText bounds the error texts kept in one journal: a thousand failures
// of 16 KiB each would make a run larger than a node should carry. Beyond it the
// oldest events go, and the gap in Seq shows it.
const maxJournalText = 256 << 10

// journal is a run's own events without the first: run:init is what the run's
// fields say (R23). It is nil-sized for a queued run.
type journal struct {
	kept    []entry
	dropped int64 // events that were dropped from the front
	text    int   // bytes of the error texts that are kept
}

// entry is one event. Its two texts mean what its kind says: worker and version,
// error type and text, or the reason.
type entry struct {
	at      flow.Instant
	until   flow.Instant
	fence   uint64
	attempt int64
	a, b    string
	more    *detail // nil for most
	kind    flow.RecordKind
}

// detail is what few events have.
type detail struct {
	name  string
	visit int64
	runs  []flow.RunID
}

// note writes the journal entry of a record that was applied. A record that is
// volatile, or that makes the run, has none.
func (r *Run) note(rec *flow.Record) {
	e := entry{at: rec.At, kind: rec.Kind, fence: rec.Fence, attempt: r.Attempt()}
	switch rec.Kind {
	case flow.RecSubmitted, flow.RecRenewed, flow.RecState, flow.RecWatched, flow.RecTold, flow.RecChainOver:
		return
	case flow.RecAdmitted:
		e.a, e.b = rec.Worker, rec.Version
	case flow.RecExpired:
		e.a, e.b = r.past.worker, r.past.version
	case flow.RecFailed, flow.RecRetrying:
		e.a, e.b = rec.ErrType, rec.ErrText
		e.until = rec.Until
	case flow.RecSuspended:
		e.until = rec.Until
		if waitOf(rec.Flags) != waitNone {
			e.more = &detail{name: rec.Name, visit: rec.Visit, runs: flow.DecodeRunIDs(rec.Extra)}
		}
	case flow.RecStep:
		e.a, e.b = rec.ErrType, rec.ErrText
		e.more = &detail{name: rec.Name, visit: rec.Visit}
	case flow.RecTaken:
		e.more = &detail{name: rec.Name, visit: rec.Visit}
	case flow.RecSignalled:
		e.more = &detail{name: rec.Name}
	case flow.RecStarted:
		e.more = &detail{name: rec.Name, visit: rec.Visit, runs: flow.DecodeRunIDs(rec.Extra)}
	case flow.RecOutcome:
		e.more = &detail{runs: []flow.RunID{rec.Root}}
	case flow.RecContinued:
		e.b, e.more = rec.Version, &detail{runs: []flow.RunID{rec.Other}}
	case flow.RecCancelAsked, flow.RecCancelled, flow.RecTerminated:
		e.a = rec.Reason
	default: // the kind and the time say all
	}
	r.past.journal.add(e)
}

func (j *journal) add(e entry) {
	j.kept = append(j.kept, e)
	j.text += e.textSize()
	for len(j.kept) > flow.MaxRunEvents-1 || (j.text > maxJournalText && len(j.kept) > 1) {
		j.text -= j.kept[0].textSize()
		j.kept[0] = entry{} // lets go of the texts before the array does
		j.kept = j.kept[1:]
		j.dropped++
	}
}

func (e *entry) textSize() int {
	if e.more == nil {
		return len(e.b)
	}
	return len(e.b) + len(e.more.runs)*len(flow.RunID{})
}

// Events is the run's own journal (P26), oldest first. Seq counts from 1; a gap
// means that older events were dropped.
func (r *Run) Events() []flow.Event {
	if r.status == 0 {
		return nil
	}
	events := []flow.Event{{Seq: 1, Type: flow.EventInit, At: r.order, Version: r.stamp.Version}}
	if r.past == nil {
		return events
	}
	j := &r.past.journal
	for i := range j.kept {
		e := j.kept[i].event()
		e.Seq = j.dropped + int64(i) + 2
		events = append(events, e)
	}
	return events
}

func (e *entry) event() flow.Event {
	ev := flow.Event{
		Type: eventType(e.kind), At: e.at, Until: e.until, Fence: e.fence, Attempt: e.attempt,
	}
	if e.more != nil {
		ev.Name, ev.Visit, ev.Runs = e.more.name, e.more.visit, e.more.runs
	}
	switch e.kind {
	case flow.RecAdmitted, flow.RecExpired, flow.RecContinued:
		ev.Worker, ev.Version = e.a, e.b
	case flow.RecFailed, flow.RecRetrying:
		ev.ErrType, ev.ErrText = e.a, e.b
	case flow.RecStep:
		ev.ErrType, ev.ErrText = e.a, e.b
		if e.a != "" {
			ev.Type = flow.EventStepFailed
		}
	default:
		ev.Reason = e.a
	}
	return ev
}

// eventType is the name under which readers see a record; empty for one that
// makes no event.
func eventType(k flow.RecordKind) string {
	switch k {
	case flow.RecAdmitted:
		return flow.EventClaimed
	case flow.RecCompleted:
		return flow.EventCompleted
	case flow.RecFailed:
		return flow.EventFailed
	case flow.RecRetrying:
		return flow.EventRetrying
	case flow.RecSuspended:
		return flow.EventSuspended
	case flow.RecWoken:
		return flow.EventResumed
	case flow.RecExpired:
		return flow.EventLeaseExpired
	case flow.RecCancelAsked:
		return flow.EventCancelRequested
	case flow.RecCancelled:
		return flow.EventCancelled
	case flow.RecTerminated:
		return flow.EventTerminated
	case flow.RecHoldFreed:
		return flow.EventReleased
	default:
		return recordedType(k)
	}
}

// recordedType is eventType for what a body records, and for what comes from other runs.
func recordedType(k flow.RecordKind) string {
	switch k {
	case flow.RecContinued:
		return flow.EventContinued
	case flow.RecStep:
		return flow.EventStepCompleted
	case flow.RecSignalled:
		return flow.EventSignalReceived
	case flow.RecTaken:
		return flow.EventSignalTaken
	case flow.RecStarted:
		return flow.EventChildrenStarted
	case flow.RecOutcome:
		return flow.EventRunEnded
	default:
		return ""
	}
}
