package runactor

import (
	"bytes"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// ledger keeps the books of a world that Check can't, since they span a whole life: what
// stands in a history stays as it is, a signal that was acknowledged is in just one place,
// who waits for the end is told once, and a suspended run can be woken. Every test that
// uses a world holds these laws.
type ledger struct {
	history []Item
	signals map[uint64]flow.Signal // that came, by number
	owed    []flow.Waiter          // who is to be told
	told    []flow.Waiter
}

// record looks at the run after a record was applied.
func (l *ledger) record(w *world, rec *flow.Record) {
	w.t.Helper()
	l.keepHistory(w)
	switch rec.Kind {
	case flow.RecSubmitted:
		luggage, err := flow.DecodeLuggage(rec.Extra)
		if err != nil {
			w.t.Fatalf("luggage: %v", err)
		}
		for _, s := range luggage.Signals {
			l.came(s)
		}
		l.owed = slices.Clone(luggage.Waiters)
	case flow.RecSignalled:
		if s, twice := l.signals[rec.Number]; twice {
			w.t.Fatalf("signal %d has come before: %+v", rec.Number, s)
		}
		l.came(flow.Signal{Number: rec.Number, Name: rec.Name, Payload: rec.Payload, RequestID: rec.RequestID, At: rec.At})
	case flow.RecWatched:
		l.owed = append(l.owed, flow.Waiter{Waits: rec.Other, Asked: rec.Root, Number: rec.Number})
	case flow.RecTold:
		l.tell(w, flow.Waiter{Waits: rec.Other, Asked: rec.Root, Number: rec.Number})
	}
	if rec.Kind != flow.RecContinued && w.run.Status() != flow.StatusContinued {
		l.findSignals(w, w.run.peek().signals)
	}
	if slices.Contains([]flow.RecordKind{flow.RecStep, flow.RecState, flow.RecStarted}, rec.Kind) {
		for _, s := range w.run.Signals() {
			if s.Delivered {
				w.t.Fatalf("after %v signal %d is still to be handled", rec.Kind, s.Number)
			}
		}
	}
}

func (l *ledger) came(s flow.Signal) {
	if l.signals == nil {
		l.signals = make(map[uint64]flow.Signal)
	}
	l.signals[s.Number] = s
}

// keepHistory holds that a history only grows: what a call came to is never another.
func (l *ledger) keepHistory(w *world) {
	w.t.Helper()
	items := w.run.peek().items
	if len(items) < len(l.history) {
		w.t.Fatalf("the history shrank from %d to %d entries", len(l.history), len(items))
	}
	for i := range l.history {
		if !sameItem(&l.history[i], &items[i]) {
			w.t.Fatalf("entry %d was %+v and is %+v", i+1, l.history[i], items[i])
		}
	}
	for i := len(l.history); i < len(items); i++ {
		for j := range i {
			if a, b := &items[j], &items[i]; a.Kind.sort() == b.Kind.sort() && a.Name == b.Name && a.Visit == b.Visit {
				w.t.Fatalf("entries %d and %d are both %q, visit %d", j+1, i+1, b.Name, b.Visit)
			}
		}
		it := items[i]
		it.Runs, it.Outcomes = slices.Clone(it.Runs), slices.Clone(it.Outcomes)
		l.history = append(l.history, it)
	}
}

func sameItem(a, b *Item) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Visit == b.Visit && bytes.Equal(a.Payload, b.Payload) &&
		a.ErrType == b.ErrType && a.ErrText == b.ErrText && a.Cost == b.Cost && a.Signal == b.Signal &&
		a.Request == b.Request && slices.Equal(a.Runs, b.Runs) && slices.EqualFunc(a.Outcomes, b.Outcomes, sameOutcome)
}

func sameOutcome(a, b Outcome) bool {
	return a.Status == b.Status && bytes.Equal(a.Payload, b.Payload) && a.ErrType == b.ErrType && a.ErrText == b.ErrText
}

// findSignals holds that each signal that came is kept, or was got by one wait, and is
// what its sender sent; of one name the waits got them in the order in which they came.
func (l *ledger) findSignals(w *world, kept []flow.Signal) {
	w.t.Helper()
	seen := make(map[uint64]int)
	latest := make(map[string]uint64)
	look := func(number uint64, name string, payload []byte, request string) {
		seen[number]++
		s, came := l.signals[number]
		if !came || s.Name != name || !bytes.Equal(s.Payload, payload) || s.RequestID != request {
			w.t.Fatalf("signal %d %q %q %q was sent as %+v", number, name, payload, request, s)
		}
		if number <= latest[name] {
			w.t.Fatalf("signal %d of %q comes behind %d", number, name, latest[name])
		}
		latest[name] = number
	}
	for _, it := range w.run.peek().items {
		if it.Kind == ItemSignal {
			look(it.Signal, it.Name, it.Payload, it.Request)
		}
	}
	for _, s := range kept {
		look(s.Number, s.Name, s.Payload, s.RequestID)
	}
	for number := range l.signals {
		if seen[number] != 1 {
			w.t.Fatalf("signal %d is in %d places", number, seen[number])
		}
	}
}

func (l *ledger) tell(w *world, to flow.Waiter) {
	w.t.Helper()
	i := slices.Index(l.owed, to)
	if i < 0 {
		w.t.Fatalf("%+v is told and isn't owed it", to)
	}
	l.owed = slices.Delete(l.owed, i, i+1)
	l.told = append(l.told, to)
}

// turn looks at a whole turn: what it sent, and what it leaves behind.
func (l *ledger) turn(w *world, in *flow.Input) {
	w.t.Helper()
	status := w.run.Status()
	for i := range w.out.Effects {
		e := &w.out.Effects[i]
		if e.Kind == flow.EffSend && e.Input == flow.InOutcome {
			l.notice(w, in, e)
		}
	}
	for i := range w.out.Records {
		if rec := &w.out.Records[i]; rec.Kind == flow.RecContinued {
			l.handedOn(w, rec)
		}
	}
	if status == flow.StatusSuspended {
		_, due := w.run.Due()
		open := w.run.peek().wait.kind == waitSignal || w.run.peek().wait.left() > 0
		if !due && !open {
			w.t.Fatalf("suspended, and nothing can wake it") // S96
		}
	}
	if status.Ended() && status != flow.StatusContinued {
		if due, ok := w.run.Due(); len(l.owed) > 0 && (!ok || due.At > w.now) {
			w.t.Fatalf("it has ended, %d are to be told and no tick is due", len(l.owed))
		}
		if over := len(l.owed) == 0 && !w.run.Held(); over != w.run.Over() {
			w.t.Fatalf("over is %t; %d are to be told, held %t", w.run.Over(), len(l.owed), w.run.Held())
		}
	}
}

// notice holds that an outcome goes to who is told in the same turn, or to who asks in it,
// and says how the run ended.
func (l *ledger) notice(w *world, in *flow.Input, e *flow.Effect) {
	w.t.Helper()
	to := flow.Waiter{Waits: e.Run, Asked: e.Root, Number: e.Number}
	recorded := slices.ContainsFunc(w.out.Records, func(r flow.Record) bool {
		return r.Kind == flow.RecTold && to == flow.Waiter{Waits: r.Other, Asked: r.Root, Number: r.Number}
	})
	asks := in.Kind == flow.InWatch && to == flow.Waiter{Waits: in.Other, Asked: in.Root, Number: in.Number}
	if recorded == asks {
		w.t.Fatalf("%+v gets an outcome: told %t, asks %t", to, recorded, asks)
	}
	if refused := asks && !w.run.Status().Ended(); refused != (e.Status == 0) {
		w.t.Fatalf("%+v is told %v of a run that is %v", to, e.Status, w.run.Status())
	} else if refused {
		return
	}
	v := w.run.View()
	if e.Status != v.Status || !bytes.Equal(e.Payload, v.Result) || e.ErrType != v.ErrType || e.ErrText != v.ErrText {
		w.t.Fatalf("%+v is told %v %q %q of %v %q %q", to, e.Status, e.Payload, e.ErrType, v.Status, v.Result, v.ErrType)
	}
}

// handedOn holds that the successor gets all that came and nobody is told twice (P76).
func (l *ledger) handedOn(w *world, rec *flow.Record) {
	w.t.Helper()
	var made []flow.Input
	for _, letter := range w.letters() {
		if letter.Kind == flow.InCreate {
			made = append(made, letter)
		}
	}
	if len(made) != 1 || made[0].Run != rec.Other || len(made) != len(w.letters()) {
		w.t.Fatalf("handed on to %v with %d letters, %d of them make a run", rec.Other, len(w.letters()), len(made))
	}
	luggage, err := flow.DecodeLuggage(made[0].Extra)
	if err != nil {
		w.t.Fatalf("luggage: %v", err)
	}
	l.findSignals(w, luggage.Signals)
	if !slices.Equal(luggage.Waiters, l.owed) {
		w.t.Fatalf("the successor is to tell %v, not %v", luggage.Waiters, l.owed)
	}
	l.owed = nil
}
