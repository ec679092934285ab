package keyactor

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// ledger says what must come of events, from the rules alone: a list of events for each
// key, and no more. It is told every input, compares what the key answers, and after each
// step compares the key and the runs that were made.
type ledger struct {
	w     *world
	open  map[flow.KeyID]*gathered
	taken map[flow.KeyID][]string // all events that were acknowledged, in order
	runs  map[flow.KeyID][]string // those that are in runs, in the order of the runs
	made  []flow.RunID            // the runs, in their order

	shown  []byte // parameters that were read last, and their events
	events []string
}

// gathered is an open batch.
type gathered struct {
	run      flow.RunID // drawn when it was opened
	opened   flow.Instant
	deadline flow.Instant
	first    flow.Instant // the deadline when it was opened
	due      bool
	events   []string
	ids      []string
	bytes    int64 // of the events
	named    int64 // bytes of their ids
}

// outcome is what an input must lead to.
type outcome struct {
	kinds  []flow.RecordKind
	cuts   []cut
	repeat bool
	full   bool       // refused
	names  flow.RunID // the run in the answer
	opens  *gathered
	moves  flow.Instant // the deadline that the event writes; zero if it stays
}

// cut is a batch that became a run. by is the id of the event that filled it.
type cut struct {
	*gathered
	by string
}

func newLedger(w *world) *ledger {
	return &ledger{
		w: w, open: make(map[flow.KeyID]*gathered), taken: make(map[flow.KeyID][]string), runs: make(map[flow.KeyID][]string),
	}
}

// collects and wait read an input as a declaration.
func collects(in *flow.Input) bool { return !in.Flags.Has(flow.FlagDebounce) }

func (g *gathered) quiet(now flow.Instant, in *flow.Input) flow.Instant {
	at := now.Add(in.Interval)
	if in.Backoff > 0 {
		at = min(at, g.opened.Add(in.Backoff))
	}
	return at
}

// restart is the window that begins again. What has passed already is no deadline that
// somebody would look for: a longest wait that is over since it was declared ends now, and
// a deadline that has come stays.
func (g *gathered) restart(now flow.Instant, in *flow.Input) (moved flow.Instant) {
	at := g.quiet(now, in)
	if at <= now && g.deadline > now {
		at = now + 1
	}
	if at > now && at != g.deadline {
		g.deadline, g.due = at, false
		return at
	}
	return 0
}

// fits is the bound of a key's buffer (P70): events, and bytes of events and ids.
func (g *gathered) fits(in *flow.Input) bool {
	size := int64(len(in.Payload) + len(in.IdempotencyKey))
	return len(g.events) < flow.MaxBatchEvents && g.bytes+g.named+size <= flow.MaxBatchBytes
}

// full is what a Collect declares (P33).
func (g *gathered) full(in *flow.Input) bool {
	return collects(in) && (int64(len(g.events)) >= in.Burst || in.Number > 0 && g.bytes >= int64(in.Number))
}

// event is what must come of an event at now.
func (l *ledger) event(now flow.Instant, in *flow.Input) (o outcome) {
	g := l.open[in.Key]
	if g != nil && in.IdempotencyKey != "" && slices.Contains(g.ids, in.IdempotencyKey) {
		return outcome{repeat: true}
	}
	if g != nil && !g.fits(in) {
		if in.Number == 0 && !g.full(in) {
			return outcome{full: true}
		}
		o.cut(l, in.Key, "") // it is full as declared, before this event
		g = nil
	}
	if g == nil {
		g = &gathered{run: in.Run, opened: now, deadline: now.Add(in.Interval)}
		if !collects(in) {
			g.deadline = g.quiet(now, in)
		}
		g.first = g.deadline
		l.open[in.Key], o.opens = g, g
		o.kinds = append(o.kinds, flow.RecBatchOpened)
	} else if !collects(in) {
		o.moves = g.restart(now, in)
	}
	o.kinds = append(o.kinds, flow.RecEvent)
	g.events = append(g.events, string(in.Payload))
	g.bytes += int64(len(in.Payload))
	g.named += int64(len(in.IdempotencyKey))
	if in.IdempotencyKey != "" {
		g.ids = append(g.ids, in.IdempotencyKey)
	}
	l.taken[in.Key] = append(l.taken[in.Key], string(in.Payload))
	if g.full(in) {
		o.names = g.run
		o.cut(l, in.Key, in.IdempotencyKey)
	}
	return o
}

func (o *outcome) cut(l *ledger, key flow.KeyID, by string) {
	o.kinds = append(o.kinds, flow.RecBatchCut)
	o.cuts = append(o.cuts, cut{l.open[key], by})
	delete(l.open, key)
}

// tick is what must come of a timer: a fire is never early (P72).
func (l *ledger) tick(now flow.Instant, in *flow.Input) (o outcome) {
	g := l.open[in.Key]
	switch {
	case g == nil || !g.due && now < g.deadline:
	case in.Stamp != nil:
		o.cut(l, in.Key, "")
	case !g.due:
		g.due = true
		o.kinds = append(o.kinds, flow.RecBatchDue)
	}
	return o
}

// answer compares what the key has decided.
func (l *ledger) answer(in *flow.Input, o *outcome) {
	out := &l.w.out
	var kinds []flow.RecordKind
	cuts := o.cuts
	for i := range out.Records {
		rec := &out.Records[i]
		kinds = append(kinds, rec.Kind)
		if rec.Key != in.Key {
			l.w.fail("record %v of key %v", rec.Kind, rec.Key)
		}
		if rec.Kind != flow.RecBatchCut || len(cuts) == 0 {
			l.record(in, o, rec)
			continue
		}
		want := flow.Fields{
			Key: in.Key, Run: cuts[0].run, Stamp: in.Stamp, Number: uint64(len(cuts[0].events)), IdempotencyKey: cuts[0].by,
			Order: in.Order + flow.Instant(len(o.cuts)-len(cuts)), // orders rise
		}
		if got := rec.Fields; !same(&got, &want) {
			l.w.fail("the cut is %+v, want %+v", got, want)
		}
		cuts = cuts[1:]
	}
	if !slices.Equal(kinds, o.kinds) {
		l.w.fail("%v %.60s at %d made the records %v, want %v", in.Kind, in.Payload, l.w.now-start, kinds, o.kinds)
	}
	full, refused := errors.AsType[*flow.BufferFull](out.Err)
	switch {
	case refused != o.full || (out.Err != nil && !refused):
		l.w.fail("%v: error %v, want one: %t", in.Kind, out.Err, o.full)
	case refused:
		l.refusal(in.Key, full)
	case in.Kind == flow.InBatchTick:
		if len(out.Effects) != 0 {
			l.w.fail("a timer has effects: %+v", out.Effects)
		}
	case len(out.Effects) != 1 || out.Effects[0].Kind != flow.EffAnswer:
		l.w.fail("an event has the effects %+v, want one answer", out.Effects)
	case out.Effects[0].Run != o.names || out.Effects[0].Flags.Has(flow.FlagRepeat) != o.repeat:
		l.w.fail("the answer is %+v, want run %v, repeat %t (P37)", out.Effects[0], o.names, o.repeat)
	}
}

// record compares a record that isn't a cut.
func (l *ledger) record(in *flow.Input, o *outcome, rec *flow.Record) {
	want := flow.Fields{Key: in.Key}
	switch {
	case rec.Kind == flow.RecBatchOpened && o.opens != nil:
		want.Run, want.Until = o.opens.run, o.opens.first
	case rec.Kind == flow.RecEvent:
		want.Payload, want.IdempotencyKey, want.Until = in.Payload, in.IdempotencyKey, o.moves
	case rec.Kind == flow.RecBatchDue && l.open[in.Key] != nil:
		want.Run = l.open[in.Key].run
	}
	if !same(&rec.Fields, &want) {
		l.w.fail("the record %v is %+v, want %+v", rec.Kind, rec.Fields, want)
	}
}

func same(a, b *flow.Fields) bool {
	return a.Key == b.Key && a.Run == b.Run && a.Stamp == b.Stamp && a.Number == b.Number && a.Order == b.Order && a.Until == b.Until &&
		a.IdempotencyKey == b.IdempotencyKey && bytes.Equal(a.Payload, b.Payload)
}

// refusal tells of the buffer as it is.
func (l *ledger) refusal(key flow.KeyID, full *flow.BufferFull) {
	g := l.open[key]
	if len(l.w.out.Records)+len(l.w.out.Effects) != 0 {
		l.w.fail("a refused event left %d records and %d effects", len(l.w.out.Records), len(l.w.out.Effects))
	}
	want := flow.BufferFull{Key: key, Events: int64(len(g.events)), Bytes: g.bytes + g.named, Room: max(0, g.deadline.Sub(l.w.now))}
	if *full != want || !errors.Is(full, flow.ErrBufferFull) {
		l.w.fail("refused by %+v, want %+v", *full, want)
	}
}

// triggered are the parameters of a run that was made of a batch (P36).
type triggered struct {
	Key    string            `json:"key"`
	Events []json.RawMessage `json:"events"`
	Count  int64             `json:"count"`
}

func (l *ledger) read(params []byte) (events []string, t triggered) {
	if err := json.Unmarshal(params, &t); err != nil || t.Count != int64(len(t.Events)) {
		l.w.fail("the parameters count %d events and have %d: %v", t.Count, len(t.Events), err)
	}
	for _, e := range t.Events {
		events = append(events, string(e))
	}
	return events, t
}

// born reads the runs that were made, as they are in the table of runs.
func (l *ledger) born(key flow.KeyID, o *outcome) {
	for _, c := range o.cuts {
		run := l.w.run(c.run)
		if run == nil {
			l.w.fail("no run is made of the batch %v", c.run)
			return
		}
		events, t := l.read(run.params)
		if t.Key != key.Value || !slices.Equal(events, c.events) {
			l.w.fail("run %v of key %q has the events %v, want %v of %v", c.run, t.Key, events, c.events, key)
		}
		l.runs[key] = append(l.runs[key], events...)
		l.made = append(l.made, c.run)
	}
}

// state compares a key after a step: what it buffers, what it promises, and that no event
// is lost or there twice.
func (l *ledger) state(key flow.KeyID) {
	k, g := l.w.live.key(key), l.open[key]
	params, ids, open := k.Batch()
	at, due, timed := k.BatchDeadline()
	d, ok := k.Due(l.w.now)
	if open != (g != nil) || open != timed || (!open && k.ViewBatch() != BatchView{}) {
		l.w.fail("a batch is open: %t, has a deadline: %t, and should be: %t (S77)", open, timed, g != nil)
		return
	}
	if g == nil {
		g = new(gathered)
	}
	view := BatchView{Run: g.run, Events: int64(len(g.events)), Bytes: g.bytes + g.named, Opened: g.opened, Deadline: g.deadline, Due: g.due}
	if k.ViewBatch() != view || at != g.deadline || due != g.due {
		l.w.fail("the batch is %+v until %d, want %+v", k.ViewBatch(), at, view)
	}
	var events []string
	switch {
	case open && bytes.Equal(params, l.shown):
		events = l.events
	case open:
		events, _ = l.read(params)
		l.shown, l.events = params, slices.Clip(events)
	}
	if !slices.Equal(ids, g.ids) || !slices.Equal(append(slices.Clip(l.runs[key]), events...), l.taken[key]) {
		l.w.fail("runs have %v and the buffer %v with ids %q, acknowledged were %v", l.runs[key], events, ids, l.taken[key])
	}
	waits := open && !due && at > l.w.now && at != flow.MaxInstant // which is never
	switch {
	case ok && d.At <= l.w.now:
		l.w.fail("due at %d, now is %d", d.At, l.w.now)
	case waits && (!ok || d.At > at):
		l.w.fail("the batch is to be fired at %d, and the key is due at %d (%t)", at, d.At, ok)
	case d.Absolute:
		l.w.fail("a key waits for the date %d: its windows are spans", d.At)
	case open && k.Idle(l.w.now):
		l.w.fail("a key with events may be forgotten")
	}
}
