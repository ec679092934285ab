package runactor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
)

// waitKind is what a suspension waits for.
type waitKind uint8

// The waits. Their numbers stand in snapshots.
const (
	waitNone   waitKind = 0 // a back-off, or a run that was handed back
	waitMoment waitKind = 1 // a moment, and the history has it afterwards
	waitSignal waitKind = 2
	waitRuns   waitKind = 3
	lastWait            = waitRuns
)

// wait is what a suspended run waits for; past.until is its end in time, if it has one.
type wait struct {
	kind    waitKind
	name    string
	visit   int64
	number  uint64 // tells the run's waits for runs apart: the place that its entry will have
	awaited []flow.RunID
	known   []Outcome // of awaited, as far as ended says so
	ended   []bool
}

// open is the place of an awaited run that hasn't ended yet, or -1.
func (w *wait) open(id flow.RunID) int {
	i := slices.Index(w.awaited, id)
	if i < 0 || w.ended[i] {
		return -1
	}
	return i
}

// left is how many of the awaited runs haven't ended.
func (w *wait) left() int {
	n := 0
	for _, over := range w.ended {
		if !over {
			n++
		}
	}
	return n
}

// bytes is what the wait counts for in the book: the entry that it will be, and the
// outcomes that are known.
func (w *wait) bytes() int {
	if w.kind == waitNone {
		return 0
	}
	n := itemOverhead + len(w.name) + len(w.awaited)*len(flow.RunID{})
	for i, over := range w.ended {
		if over {
			n += w.known[i].size()
		}
	}
	return n
}

// itemKind is what the wait becomes in the history.
func (k waitKind) itemKind() ItemKind {
	switch k {
	case waitMoment:
		return ItemMoment
	case waitSignal:
		return ItemSignal
	default:
		return ItemRuns
	}
}

func waitOf(f flow.Flags) waitKind {
	switch {
	case f.Has(flow.FlagSignal):
		return waitSignal
	case f.Has(flow.FlagRuns):
		return waitRuns
	case f.Has(flow.FlagRecorded):
		return waitMoment
	}
	return waitNone
}

// stepSuspend gives the run back until what it waits for has come. A moment that has
// passed, or a signal that is kept, wakes the run in the same breath. An absolute moment
// never does, since only the caller knows whether the wall clock has reached it (R2): its
// tick comes through Due.
func (r *Run) stepSuspend(now flow.Instant, in *flow.Input, out *flow.Out) {
	kind := waitOf(in.Flags)
	if kind == waitNone {
		rec := r.closing(out, flow.RecSuspended, now, in)
		rec.Until = max(in.Until, 1) // zero is no moment
		rec.Flags = in.Flags & flow.FlagAbsolute
		if in.Until <= now && rec.Flags == 0 {
			r.record(out, flow.RecWoken, now)
		}
		return
	}
	visit, err := r.checkWait(kind, in)
	if err != nil {
		out.Err = err
		return
	}
	it := Item{Name: in.Name, Runs: flow.DecodeRunIDs(in.Extra)}
	if b := r.peek(); len(b.items) >= flow.MaxHistoryItems || b.bytes+it.Size() > flow.MaxHistoryBytes {
		r.overfull(now, in, out)
		return
	}
	rec := r.closing(out, flow.RecSuspended, now, in)
	rec.Until, rec.Name, rec.Visit = in.Until, in.Name, visit
	if kind == waitMoment {
		rec.Until = max(in.Until, 1)
	}
	rec.Flags = in.Flags & (flow.FlagAbsolute | flow.FlagSignal | flow.FlagRuns | flow.FlagRecorded)
	switch kind {
	case waitSignal:
		r.waitForSignal(now, in, out)
	case waitRuns:
		rec.Extra = in.Extra
		r.sendWatches(in, out)
	default:
		if in.Until <= now && !in.Flags.Has(flow.FlagAbsolute) {
			r.record(out, flow.RecWoken, now)
		}
	}
}

// checkWait refuses a wait that can't be the body's next, and says which visit it is.
func (r *Run) checkWait(kind waitKind, in *flow.Input) (int64, error) {
	next := r.peek().visits(kind.itemKind(), in.Name) + 1
	if in.Visit != 0 && in.Visit != next {
		return 0, wrongVisit("visit", next)
	}
	if kind == waitRuns {
		ids := flow.DecodeRunIDs(in.Extra)
		once := slices.Clone(ids)
		slices.SortFunc(once, flow.RunID.Compare)
		once = slices.Compact(once)
		if len(ids) == 0 || len(ids) > flow.MaxAwaited || len(once) != len(ids) || slices.Contains(ids, r.id) {
			return 0, flow.Invalid("until.runs", "must name other runs than this one, each once, and at most "+strconv.Itoa(flow.MaxAwaited))
		}
	}
	return next, nil
}

// waitForSignal decides the end of a wait for a signal: at once when one is kept (S92),
// else when one comes or the time that Interval names is over.
func (r *Run) waitForSignal(now flow.Instant, in *flow.Input, out *flow.Out) {
	if s := r.peek().kept(in.Name, nil); s != nil {
		r.record(out, flow.RecWoken, now).Number = s.Number
		return
	}
	if in.Interval > 0 {
		out.Records[len(out.Records)-1].Until = now.Add(in.Interval)
	}
}

// sendWatches asks every awaited run to tell of its end.
func (r *Run) sendWatches(in *flow.Input, out *flow.Out) {
	for _, id := range flow.DecodeRunIDs(in.Extra) {
		e := out.Send(flow.InWatch)
		e.Run, e.Root, e.Other, e.Number = id, id, r.id, r.nextPlace()
		if len(in.Extra) > len(id) {
			e.Flags = flow.FlagPosted // many results are more than one entry should hold
		}
	}
}

// nextPlace is the number that the next entry of the history will have.
func (r *Run) nextPlace() uint64 { return uint64(len(r.peek().items)) + 1 }

// stepSignal keeps a signal, and wakes the run if it waits for it.
func (r *Run) stepSignal(now flow.Instant, in *flow.Input, out *flow.Out) {
	b := r.peek()
	if number := b.repeated(in.RequestID); number != 0 {
		r.answerNumber(out, flow.FlagRepeat, number)
		return
	}
	if r.status.Ended() {
		out.Err = flow.ErrRunEnded
		return
	}
	s := flow.Signal{Number: b.last + 1, Name: in.Name, Payload: in.Payload, RequestID: in.RequestID, At: now}
	most := flow.MaxHistoryBytes
	if !r.Started() {
		most = flow.MaxLuggageBytes
	}
	if len(b.signals) >= flow.MaxSignals || b.bytes+signalSize(&s) > most {
		out.Err = flow.ErrHistoryTooLarge
		return
	}
	rec := r.record(out, flow.RecSignalled, now)
	rec.Name, rec.Payload, rec.Number, rec.RequestID = s.Name, s.Payload, s.Number, s.RequestID
	if r.status == flow.StatusSuspended && r.peek().wait.kind == waitSignal && r.peek().wait.name == in.Name {
		r.record(out, flow.RecWoken, now).Number = s.Number
	}
	r.answerNumber(out, flow.FlagOK, s.Number)
}

func (r *Run) answerNumber(out *flow.Out, f flow.Flags, number uint64) {
	r.answer(out, f)
	out.Effects[len(out.Effects)-1].Number = number
}

// stepWatch takes note of a run that waits for this one's end, and tells it at once if
// that has come (S96). It can't be refused: a "no" is an outcome too.
func (r *Run) stepWatch(now flow.Instant, in *flow.Input, out *flow.Out) {
	w := flow.Waiter{Waits: in.Other, Asked: in.Root, Number: in.Number}
	b := r.peek()
	switch {
	case r.status.Ended():
		end := r.outcome()
		tell(out, &w, &end)
	case slices.Contains(b.waiters, w):
	case len(b.waiters) >= flow.MaxWaiters:
		tell(out, &w, &Outcome{ErrType: "too_many_waiters", ErrText: "more runs wait for its end than may"})
	default:
		rec := r.record(out, flow.RecWatched, now)
		rec.Other, rec.Root, rec.Number = w.Waits, w.Asked, w.Number
	}
}

// outcome is how the run ended.
func (r *Run) outcome() Outcome {
	return Outcome{Status: r.status, Payload: r.past.result, ErrType: r.past.errType, ErrText: r.past.errText}
}

// tell sends a waiter the outcome that it waits for.
func tell(out *flow.Out, w *flow.Waiter, o *Outcome) {
	e := out.Send(flow.InOutcome)
	e.Run, e.Root, e.Number = w.Waits, w.Asked, w.Number
	e.Status, e.Payload, e.ErrType, e.ErrText = o.Status, o.Payload, o.ErrType, o.ErrText
}

// stepOutcome takes the end of an awaited run. One that belongs to no wait, or to one
// that is over, changes nothing (S95, S106).
func (r *Run) stepOutcome(now flow.Instant, in *flow.Input, out *flow.Out) {
	if r.status != flow.StatusSuspended || r.peek().wait.kind != waitRuns || r.peek().wait.number != in.Number {
		return
	}
	w := &r.peek().wait
	if w.open(in.Root) < 0 {
		return
	}
	o := Outcome{Status: in.Status, Payload: in.Payload, ErrType: in.ErrType, ErrText: in.ErrText}
	if r.peek().bytes+o.size() > flow.MaxHistoryBytes {
		r.overfull(now, in, out)
		return
	}
	rec := r.record(out, flow.RecOutcome, now)
	rec.Root, rec.Status, rec.Payload, rec.ErrType, rec.ErrText = in.Root, in.Status, in.Payload, in.ErrType, in.ErrText
	if w.left() == 1 {
		r.record(out, flow.RecWoken, now)
	}
}

// learn takes the end of an awaited run.
func (r *Run) learn(rec *flow.Record) {
	w := &r.past.book.wait
	i := w.open(rec.Root)
	o := Outcome{Status: rec.Status, Payload: rec.Payload, ErrType: rec.ErrType, ErrText: rec.ErrText}
	w.known[i], w.ended[i] = o, true
	r.past.book.bytes += o.size()
}

// announce tells everybody who waits for it that the run has ended, if a record of this
// Step says so: the runs that wait, and the run that was handed on to this one.
func (r *Run) announce(out *flow.Out) {
	for i := range out.Records {
		rec := &out.Records[i]
		if !endsRun(rec.Kind) || rec.Kind == flow.RecContinued {
			continue
		}
		o := Outcome{Payload: rec.Payload, ErrType: rec.ErrType, ErrText: rec.ErrText, Status: endStatus(rec.Kind)}
		r.tellWaiters(rec.At, &o, out)
		r.chainOver(out)
		return
	}
}

// Bounds of what one Step tells waiters. The others are told by ticks, which an ended run
// wants until all have been told.
const (
	maxTold      = 32
	maxToldBytes = 256 << 10
)

// tellWaiters tells as many waiters as one entry should hold, one at least.
func (r *Run) tellWaiters(now flow.Instant, o *Outcome, out *flow.Out) {
	size := 0
	for i, w := range r.peek().waiters {
		if size += o.size(); i > 0 && (i == maxTold || size > maxToldBytes) {
			return
		}
		rec := r.record(out, flow.RecTold, now)
		rec.Other, rec.Root, rec.Number = w.Waits, w.Asked, w.Number
		tell(out, &w, o)
	}
}

// mustTell says whether the run has ended and somebody who waits for that hasn't been
// told yet.
func (r *Run) mustTell() bool {
	return r.status.Ended() && r.status != flow.StatusContinued && len(r.peek().waiters) > 0
}

// chainOver tells the predecessor, if there is one, that the end of its chain has come.
func (r *Run) chainOver(out *flow.Out) {
	if r.from != nil && !r.from.gatedFrom.IsZero() {
		e := out.Send(flow.InChainOver)
		e.Run, e.Flags = r.from.gatedFrom, flow.FlagPosted
	}
}

func endStatus(k flow.RecordKind) flow.Status {
	switch k {
	case flow.RecCompleted:
		return flow.StatusCompleted
	case flow.RecFailed:
		return flow.StatusFailed
	case flow.RecCancelled:
		return flow.StatusCancelled
	default:
		return flow.StatusTerminated
	}
}

// cancelAwaited asks the children that the run waits for to stop too.
func (r *Run) cancelAwaited(in *flow.Input, out *flow.Out) {
	if r.status != flow.StatusSuspended || r.peek().wait.kind != waitRuns {
		return
	}
	w := &r.peek().wait
	var open []flow.RunID
	for i, id := range w.awaited {
		if !w.ended[i] {
			open = append(open, id)
		}
	}
	r.cancelChildren(open, in.Reason, out)
}

// cancelChildren asks those of the runs to stop that the body has started as its children.
func (r *Run) cancelChildren(ids []flow.RunID, why string, out *flow.Out) {
	reason := r.id.String() + ", which waits for it, was stopped"
	if why != "" {
		reason += ": " + why
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), flow.MaxReasonBytes)], "")
	for _, id := range ids {
		if r.peek().isChild(id) {
			e := out.Send(flow.InCancel)
			e.Run, e.Reason = id, reason
			e.Flags = flow.FlagPosted // it may have awaited children of its own, and so on
		}
	}
}
