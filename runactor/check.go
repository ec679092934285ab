package runactor

import (
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Check reports the first invariant of the run that doesn't hold, or nil. It costs
// time in the length of the journal: it is for tests, snapshots and builds with
// assertions.
func (r *Run) Check() error {
	if err := r.check(); err != nil {
		return fmt.Errorf("run %v (%v): %w", r.id, r.status, err)
	}
	return nil
}

func (r *Run) check() error {
	if r.status == 0 {
		return r.checkUnsubmitted()
	}
	if r.status > flow.StatusContinued {
		return errors.New("its status isn't one of its life")
	}
	if r.stamp == nil {
		return errors.New("it has no stamp")
	}
	if err := r.checkMarks(); err != nil {
		return err
	}
	if r.past == nil {
		if r.status != flow.StatusQueued {
			return errors.New("it left the queue and nothing is known of it")
		}
		return nil
	}
	if err := r.checkPast(); err != nil {
		return err
	}
	if err := r.checkBook(); err != nil {
		return err
	}
	return r.checkJournal()
}

func (r *Run) checkUnsubmitted() error {
	if r.order != 0 || r.workflow != "" || r.params != nil || r.stamp != nil || r.trigger != "" ||
		r.idempotencyKey != "" || r.requestID != "" || r.from != nil || r.past != nil || r.marks != 0 {
		return errors.New("it was never submitted and has a state")
	}
	return nil
}

// checkMarks holds what may be true in which status.
func (r *Run) checkMarks() error {
	executing, suspended := r.status == flow.StatusExecuting, r.status == flow.StatusSuspended
	switch {
	case r.marks&^allMarks != 0:
		return errors.New("it has a mark that doesn't exist")
	case executing && !r.Held():
		return errors.New("nobody holds it")
	case r.Held() && !executing && r.status != flow.StatusTerminated:
		return errors.New("somebody holds it")
	case r.CancelAsked() && !executing && r.status != flow.StatusCancelled && r.status != flow.StatusTerminated:
		return errors.New("it was asked to stop and went on") // S62
	case r.marks&suspendedMarks != 0 && !suspended:
		return errors.New("it has marks of a suspension")
	case r.marks.has(markSuspended) && !suspended && r.status != flow.StatusQueued:
		return errors.New("it goes on with an attempt that nobody can take up")
	case suspended && r.marks.has(markBackoff) == r.marks.has(markSuspended):
		return errors.New("it is suspended for no reason or for two")
	}
	return nil
}

func (r *Run) checkPast() error {
	p := r.past
	admitted := p.fence != 0
	switch {
	case (r.Held() || r.status == flow.StatusSuspended || r.status == flow.StatusCompleted ||
		r.status == flow.StatusFailed) && !admitted:
		return errors.New("it was never admitted")
	case admitted != (p.attempt > 0):
		return errors.New("its admissions and attempts disagree")
	case !admitted && (p.started != 0 || p.worker != "" || p.version != "" || p.last != ending{}):
		return errors.New("it was never admitted and had a holder")
	case p.failures < 0 || p.failures > p.attempt:
		return fmt.Errorf("it has %d failures in %d attempts", p.failures, p.attempt)
	case p.last.fence > p.fence:
		return errors.New("a fence ended that was never given")
	case r.status == flow.StatusContinued && admitted:
		return errors.New("it was handed on after its body had started") // P29
	case r.Held() && p.last.fence == p.fence:
		return errors.New("its holder has already ended")
	case (p.last.kind == 0) != (p.last.fence == 0) || p.last.kind > flow.InSuspend ||
		p.last.kind == flow.InSubmit:
		return errors.New("its last ending request is none")
	case p.expiry != 0 && !r.Held():
		return errors.New("nobody holds it and the hold ends")
	case p.until != 0 && r.status != flow.StatusSuspended:
		return errors.New("it isn't suspended and wakes") // S65
	}
	return r.checkEnd()
}

// checkBook holds what a run records and waits for.
func (r *Run) checkBook() error {
	p := r.past
	b := r.peek()
	w := &b.wait
	size := len(b.state) + w.bytes()
	for i := range b.items {
		size += b.items[i].Size()
	}
	for i := range b.signals {
		size += signalSize(&b.signals[i])
		if s := &b.signals[i]; s.Number > b.last || (i > 0 && s.Number <= b.signals[i-1].Number) {
			return errors.New("its signals are out of order")
		}
	}
	switch {
	case w.kind != waitNone && r.status != flow.StatusSuspended:
		return errors.New("it isn't suspended and waits") // S65
	case w.kind != waitNone && r.marks.has(markBackoff):
		return errors.New("it waits for two things")
	case w.kind == waitSignal && b.kept(w.name, nil) != nil:
		return errors.New("it waits for a signal that it keeps") // S92
	case w.kind == waitRuns && (w.left() == 0 || len(w.awaited) != len(w.ended) || len(w.known) != len(w.ended)):
		return errors.New("it waits for runs that have ended") // S96
	case r.status == flow.StatusSuspended && p.until == 0 && w.kind != waitSignal && w.kind != waitRuns:
		return errors.New("nothing can wake it") // S96
	case (b.successor != flow.RunID{}) != (r.status == flow.StatusContinued):
		return errors.New("its successor and its status disagree")
	case b.chain != 0 && r.status != flow.StatusContinued:
		return errors.New("it has no chain that could end")
	case b.bytes != size:
		return fmt.Errorf("its history counts %d bytes, not %d", b.bytes, size)
	case b.fresh > len(b.items) || (b.fresh > 0 && b.items[b.fresh-1].Kind != ItemSignal):
		return errors.New("what was delivered is no signal")
	case len(b.waiters) > flow.MaxWaiters:
		return errors.New("too many runs wait for it")
	}
	return nil
}

func (r *Run) checkEnd() error {
	p := r.past
	switch {
	case p.ended != 0 && !r.status.Ended():
		return errors.New("it goes on after its end")
	case p.result != nil && r.status != flow.StatusCompleted:
		return errors.New("it has a result and didn't complete")
	case (p.errType != "" || p.errText != "") && r.status != flow.StatusFailed:
		return errors.New("it has an error and didn't fail")
	case p.reason != "" && !r.CancelAsked() && r.status != flow.StatusCancelled && r.status != flow.StatusTerminated:
		return errors.New("it has a reason to stop and wasn't asked to")
	}
	return nil
}

// checkJournal holds that the journal tells the life that the state shows: one
// ending at most, at the end; fences and instants that only grow.
func (r *Run) checkJournal() error {
	j := &r.past.journal
	if len(j.kept) == 0 && j.dropped == 0 && r.status == flow.StatusQueued && !r.Started() {
		return nil // it has taken over signals, or somebody waits for its end
	}
	if len(j.kept) == 0 || len(j.kept) >= flow.MaxRunEvents || j.dropped < 0 {
		return fmt.Errorf("its journal has %d entries after %d", len(j.kept), j.dropped)
	}
	text, ends := 0, 0
	for i := range j.kept {
		e := &j.kept[i]
		text += e.textSize()
		if i > 0 && (e.at < j.kept[i-1].at || e.attempt < j.kept[i-1].attempt) {
			return errors.New("its journal goes back")
		}
		if e.fence > r.past.fence || eventType(e.kind) == "" {
			return errors.New("its journal tells of what can't be")
		}
		if endsRun(e.kind) {
			ends++
		} else if ends > 0 && e.kind != flow.RecHoldFreed {
			return errors.New("its journal goes on after the end")
		}
	}
	if text != j.text {
		return fmt.Errorf("its journal counts %d bytes of text, not %d", j.text, text)
	}
	if (ends == 1) != r.status.Ended() || ends > 1 {
		return fmt.Errorf("its journal has %d endings", ends)
	}
	return nil
}

func endsRun(k flow.RecordKind) bool {
	switch k {
	case flow.RecCompleted, flow.RecFailed, flow.RecCancelled, flow.RecTerminated, flow.RecContinued:
		return true
	default:
		return false
	}
}
