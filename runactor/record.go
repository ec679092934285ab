package runactor

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/pyrula/pyrula-node/flow"
)

// ErrTypeHistory is the error type of a run that recorded more than a run may keep (R13).
const ErrTypeHistory = "history_too_large"

// recording is one InSteps on its way into records: all of it or nothing.
type recording struct {
	run   *Run
	now   flow.Instant
	fence uint64
	out   *flow.Out
	items int
	bytes int
	taken []uint64
}

// mayRecord says whether a body may record something; only its holder may, while the run
// executes.
func (r *Run) mayRecord(in *flow.Input, out *flow.Out) bool {
	switch {
	case r.status == flow.StatusExecuting && r.holds(in.Fence):
		return true
	case r.status.Ended():
		out.Err = flow.ErrRunEnded
	default:
		out.Err = flow.ErrStaleFence
	}
	return false
}

// stepSteps records what a body has done. What stands in the book already is passed
// over, so that the same request may come twice.
func (r *Run) stepSteps(now flow.Instant, in *flow.Input, out *flow.Out) {
	if !r.mayRecord(in, out) {
		return
	}
	b := r.peek()
	rec := recording{run: r, now: now, fence: in.Fence, out: out, items: len(b.items), bytes: b.bytes}
	for i := range in.Parts {
		part := &in.Parts[i]
		var err error
		switch part.Kind {
		case flow.InStep:
			err = rec.step(part)
		case flow.InTake:
			err = rec.take(part)
		case flow.InState:
			rec.state(part)
		default:
			err = flow.Invalid("kind", "must be a part of steps, not "+part.Kind.String())
		}
		if err != nil {
			clear(out.Records)
			out.Records, out.Err = out.Records[:0], err
			return
		}
	}
	if rec.bytes > flow.MaxHistoryBytes || rec.items > flow.MaxHistoryItems {
		r.overfull(now, in, out)
	}
	r.answer(out, flow.FlagOK|r.stop())
}

// overfull ends a run whose history would become too large, in place of the records
// that would make it so.
func (r *Run) overfull(now flow.Instant, in *flow.Input, out *flow.Out) {
	clear(out.Records)
	out.Records = out.Records[:0]
	kind := flow.RecFailed
	if r.CancelAsked() {
		kind = flow.RecCancelled // S62: whatever ends it now, it was asked to stop before
	}
	rec := r.closing(out, kind, now, in)
	if kind == flow.RecCancelled {
		rec.Reason = r.past.reason
		return
	}
	rec.ErrType = ErrTypeHistory
	rec.ErrText = fmt.Sprintf("the run would keep more than %d bytes, or %d entries, of steps, waits, signals and state",
		flow.MaxHistoryBytes, flow.MaxHistoryItems)
}

func (c *recording) step(part *flow.Input) error {
	visit := max(part.Visit, 1)
	payload := part.Payload
	if part.ErrType == "" && len(payload) == 0 {
		payload = []byte("null")
	}
	same := func(p []byte, errType, errText string) error {
		if bytes.Equal(p, payload) && errType == part.ErrType && errText == part.ErrText {
			return nil
		}
		return fmt.Errorf("step %q, visit %d: %w", part.Name, visit, flow.ErrStepConflict)
	}
	if it := c.run.peek().find(ItemStep, part.Name, visit); it != nil {
		return same(it.Payload, it.ErrType, it.ErrText)
	}
	for i := range c.out.Records {
		if rec := &c.out.Records[i]; rec.Kind == flow.RecStep && rec.Name == part.Name && rec.Visit == visit {
			return same(rec.Payload, rec.ErrType, rec.ErrText)
		}
	}
	rec := c.record(flow.RecStep)
	rec.Name, rec.Visit, rec.Cost = part.Name, visit, part.Cost
	rec.ErrType, rec.ErrText = part.ErrType, part.ErrText
	if part.ErrType == "" {
		rec.Payload = payload
	}
	c.items++
	c.bytes += itemOf(rec).Size()
	return nil
}

// take gives the oldest kept signal of a name to the wait of that visit, if there is one.
func (c *recording) take(part *flow.Input) error {
	b := c.run.peek()
	if b.find(ItemSignal, part.Name, part.Visit) != nil {
		return nil
	}
	next := b.visits(ItemSignal, part.Name) + 1
	for i := range c.out.Records {
		if rec := &c.out.Records[i]; rec.Kind == flow.RecTaken && rec.Name == part.Name {
			next++
		}
	}
	if part.Visit != next {
		return wrongVisit("signals.visit", next)
	}
	s := b.kept(part.Name, c.taken)
	if s == nil {
		return nil
	}
	c.taken = append(c.taken, s.Number)
	rec := c.record(flow.RecTaken)
	rec.Name, rec.Visit, rec.Number = part.Name, part.Visit, s.Number
	c.items++
	return nil
}

func (c *recording) state(part *flow.Input) {
	old := c.run.peek().state
	if bytes.Equal(old, part.Payload) {
		return
	}
	c.record(flow.RecState).Payload = part.Payload
	c.bytes += len(part.Payload) - len(old)
}

func (c *recording) record(k flow.RecordKind) *flow.Record {
	rec := c.run.record(c.out, k, c.now)
	rec.Fence = c.fence
	return rec
}

func wrongVisit(field string, next int64) error {
	return flow.Invalid(field, "must be "+strconv.FormatInt(next, 10)+", the next one of that name, or left out")
}

// itemOf is the entry that a step's record makes.
func itemOf(rec *flow.Record) *Item {
	it := &Item{
		Kind: ItemStep, Name: rec.Name, Visit: rec.Visit, Payload: rec.Payload,
		ErrType: rec.ErrType, ErrText: rec.ErrText, Cost: rec.Cost,
	}
	if rec.ErrType != "" {
		it.Kind = ItemStepError
	}
	return it
}

// stepStart starts runs for a body, once for each call: the same call again answers the
// runs of the first time (R15).
func (r *Run) stepStart(now flow.Instant, in *flow.Input, out *flow.Out) {
	if !r.mayRecord(in, out) {
		return
	}
	b := r.peek()
	visit := max(in.Visit, 1)
	ids := make([]flow.RunID, len(in.Parts))
	for i := range in.Parts {
		ids[i] = in.Parts[i].Run
	}
	if it := b.find(ItemChildren, in.Name, visit); it != nil {
		if len(it.Runs) != len(ids) || (it.Kind == ItemChildren) != in.Flags.Has(flow.FlagChild) {
			out.Err = fmt.Errorf("children of %q, visit %d: %w", in.Name, visit, flow.ErrStepConflict)
			return
		}
		r.answerIDs(out, flow.FlagRepeat|r.stop(), it.Runs)
		return
	}
	rec := r.record(out, flow.RecStarted, now)
	rec.Fence, rec.Name, rec.Visit = in.Fence, in.Name, visit
	rec.Flags = in.Flags & flow.FlagChild
	rec.Extra = flow.EncodeRunIDs(ids)
	it := startedItem(rec)
	if b.bytes+it.Size() > flow.MaxHistoryBytes || len(b.items) >= flow.MaxHistoryItems {
		r.overfull(now, in, out)
		r.answer(out, flow.FlagOK|r.stop())
		return
	}
	for i := range in.Parts {
		if in.Parts[i].Kind != flow.InCreate {
			continue // it exists already: an idempotency key named it
		}
		e := out.Send(flow.InCreate)
		e.Fields = in.Parts[i].Fields
		e.Parent = r.id
	}
	r.answerIDs(out, flow.FlagOK|r.stop(), ids)
}

func (r *Run) answerIDs(out *flow.Out, f flow.Flags, ids []flow.RunID) {
	r.answer(out, f)
	out.Effects[len(out.Effects)-1].Extra = flow.EncodeRunIDs(ids)
}

func startedItem(rec *flow.Record) *Item {
	it := &Item{Kind: ItemWorkflows, Name: rec.Name, Visit: rec.Visit, Runs: flow.DecodeRunIDs(rec.Extra)}
	if rec.Flags.Has(flow.FlagChild) {
		it.Kind = ItemChildren
	}
	return it
}

// isChild says whether the body has started a run as its child.
func (b *book) isChild(id flow.RunID) bool {
	for i := range b.items {
		if it := &b.items[i]; it.Kind == ItemChildren && slices.Contains(it.Runs, id) {
			return true
		}
	}
	return false
}
