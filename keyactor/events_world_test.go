package keyactor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
)

// collect and debounce are declarations, of a workflow without gates.
func collect(maxEvents int64, window flow.Span, maxBytes int64) *flow.Definition {
	return &flow.Definition{Version: "1", Trigger: flow.TriggerOfCollect(flow.Collect{
		Key: flow.KeySource{Name: "k"}, MaxEvents: maxEvents, Window: window, MaxBytes: maxBytes,
	})}
}

func debounce(window, maxWait flow.Span) *flow.Definition {
	return &flow.Definition{Version: "1", Trigger: flow.TriggerOfDebounce(flow.Debounce{
		Key: flow.KeySource{Name: "k"}, Window: window, MaxWait: maxWait,
	})}
}

// gated adds gates on the batch's key (P39).
func gated(def *flow.Definition, rules ...flow.Rule) *flow.Definition {
	for i := range rules {
		rules[i].Key = flow.KeySource{Name: flow.BatchKey}
	}
	def.Rules = rules
	return def
}

// padded is an event of a name and at least a size, a JSON object.
func padded(name string, size int) string {
	head := `{"e":"` + name + `"`
	return head + strings.Repeat(" ", max(0, size-len(head)-1)) + "}"
}

// eventOf is what a host makes of an event under the declaration of now.
func (w *world) eventOf(key flow.KeyID, event, id string) flow.Input {
	t := w.def.Trigger
	in := flow.Input{Kind: flow.InEvent, Fields: flow.Fields{
		Key: key, Payload: []byte(event), IdempotencyKey: id, Run: w.newRun(w.now), Order: w.nextOrder(),
		Stamp: w.def.StampBatch(key.Value), Interval: t.Window, Burst: t.MaxEvents, Number: uint64(t.MaxBytes),
	}}
	w.order++ // an event may cut two batches
	if t.Kind == flow.TriggerDebounce {
		in.Flags, in.Backoff = flow.FlagDebounce, t.MaxWait
	}
	return in
}

// send brings an event to its key; the answer names a run, or it is refused.
func (w *world) send(key flow.KeyID, event, id string) (flow.RunID, error) {
	in := w.eventOf(key, event, id)
	before, _, _ := w.live.key(key).BatchDeadline()
	opens := w.live.key(key).Opens(&in)
	w.decide(&in)
	want := w.ledger.event(w.now, &in)
	if !want.repeat && opens != slices.Contains(want.kinds, flow.RecBatchOpened) {
		w.fail("it is said that the event opens a batch: %t", opens)
	}
	w.ledger.answer(&in, &want)
	if err := w.out.Err; err != nil {
		w.ledgerState(key)
		return flow.RunID{}, err
	}
	w.taken(&in, &want)
	if at, _, open := w.live.key(key).BatchDeadline(); open && at <= w.now && before > w.now {
		w.fail("an event at %d moved the deadline from %d to %d, which has passed, so nobody looks again (P72)",
			w.now-start, before-start, at-start)
	}
	return want.names, nil
}

// lose is an event whose entry is never written: the key has decided, and that is all.
func (w *world) lose(key flow.KeyID, event, id string) {
	in := w.eventOf(key, event, id)
	w.decide(&in)
	w.out.Reset()
}

// fire lets a key look at its batch; with a worker alive it is fired.
func (w *world) fire(key flow.KeyID, worker bool) int {
	in := flow.Input{Kind: flow.InBatchTick, Fields: flow.Fields{Key: key}}
	if worker && w.def != nil {
		in.Stamp, in.Order = w.def.StampBatch(key.Value), w.nextOrder()
	}
	w.decide(&in)
	want := w.ledger.tick(w.now, &in)
	w.ledger.answer(&in, &want)
	n := len(w.out.Records)
	w.taken(&in, &want)
	return n
}

func (w *world) taken(in *flow.Input, want *outcome) {
	w.watch.input(in)
	w.commit()
	w.ledger.born(in.Key, want)
	w.settle()
	w.ledgerState(in.Key)
}

func (w *world) ledgerState(key flow.KeyID) {
	if !w.light {
		w.ledger.state(key)
	}
}

// fireAll fires what is due anywhere.
func (w *world) fireAll(worker bool) (n int) {
	for _, id := range w.keyIDs() {
		n += w.fire(id, worker)
	}
	return n
}

// crash is a restart without a snapshot: all keys and runs come from the log.
func (w *world) crash() {
	w.live = w.rebuilt(len(w.log))
	for _, id := range w.keyIDs() {
		if err := w.live.key(id).Check(); err != nil {
			w.fail("after a restart: %v", err)
		}
		w.ledgerState(id)
	}
}

// rebuilt is the house that the first records of the log make.
func (w *world) rebuilt(records int) *house {
	h := newHouse()
	for i := range w.log[:records] {
		h.apply(w.coded(&w.log[i]))
	}
	return h
}

// positions restores every key from every position of the log, by a replay, and says how
// many there are and how many buffers had events. No buffer is without a deadline (S77).
func (w *world) positions() (all, buffers int) {
	h := newHouse()
	for i := range w.log {
		h.apply(w.coded(&w.log[i]))
		if w.log[i].Kind == flow.RecBatchOpened {
			continue // of one entry with the event behind it
		}
		all++
		for id, k := range h.keys {
			at, _, timed := k.BatchDeadline()
			view := k.ViewBatch()
			if err := k.Check(); err != nil || timed != (view.Events > 0) || timed != (at > 0) {
				w.fail("at %d of the log %v has %d events until %d: %v", i, id, view.Events, at, err)
			}
			if timed {
				buffers++
			}
		}
	}
	return all, buffers
}

// batches are the events of all runs that were made of the key's, one run after another.
func (w *world) batches(key flow.KeyID) string {
	var b strings.Builder
	for _, id := range w.ledger.made {
		events, t := w.ledger.read(w.run(id).params)
		if t.Key == key.Value {
			fmt.Fprintf(&b, "%s ", eventNames(events))
		}
	}
	return strings.TrimSpace(b.String())
}
