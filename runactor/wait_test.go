package runactor

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when a signal isn't kept, in its order, in every state of a run that hasn't ended,
// or one that was answered is kept twice, or an ended run takes one (S88, S92).
func TestS88S92SignalsAreKept(t *testing.T) {
	for name, life := range lives {
		w := newWorld(t)
		w.now = epoch
		life.make(w)
		before := w.run.peek().last
		w.signal("z", "r-z")
		status := w.run.Status()
		if status == 0 || status.Ended() {
			want := flow.ErrRunEnded
			if status == 0 {
				want = flow.ErrUnknownRun
			}
			if !errors.Is(w.out.Err, want) {
				t.Errorf("%s: error %v", name, w.out.Err)
			}
			continue
		}
		wantKinds(t, w, flow.RecSignalled)
		if a := w.answered(); a.Flags != flow.FlagOK || a.Number != before+1 {
			t.Errorf("%s: answered %b, %d", name, a.Flags, a.Number)
		}
		for _, rebuild := range []func(*world){func(*world) {}, (*world).restart, (*world).restore} {
			rebuild(w)
			w.signal("z", "r-z")
			wantKinds(t, w)
			if a := w.answered(); a.Flags != flow.FlagRepeat || a.Number != before+1 {
				t.Errorf("%s: the same again is answered %b, %d", name, a.Flags, a.Number)
			}
		}
		w.signal("z", "")
		w.signal("z", "")
		kept := w.run.Signals()
		for i := range 3 {
			if s := kept[len(kept)-3+i]; s.Name != "z" || s.Number != before+1+uint64(i) || s.At != w.now || s.Delivered {
				t.Errorf("%s: signal %d is %+v", name, i, s)
			}
		}
	}
}

// Fails when a wait gets another signal than the oldest of its name, or a signal that
// another wait of the same request has got.
func TestS88WaitsGetTheOldestOfTheirName(t *testing.T) {
	w := started(t)
	for i, name := range []string{"x", "y", "x", "y", "x"} {
		w.step(flow.InSignal, flow.Fields{Name: name, Payload: []byte{byte('1' + i)}})
	}
	got := func(name string, visit int64) string {
		it, _, _ := w.run.Entry(ItemSignal, name, visit)
		return string(it.Payload)
	}
	w.steps(1, take("x", 1), take("y", 1), take("x", 2), take("z", 1))
	wantKinds(t, w, flow.RecTaken, flow.RecTaken, flow.RecTaken)
	if got("x", 1)+got("y", 1)+got("x", 2) != "123" {
		t.Errorf("the waits got %q", got("x", 1)+got("y", 1)+got("x", 2))
	}
	w.steps(1, take("x", 1), take("y", 1), take("x", 2)) // the reply was lost
	wantKinds(t, w)
	w.waitSignal(1, "y", 0)
	wantKinds(t, w, flow.RecSuspended, flow.RecWoken)
	if w.out.Records[1].Number != 4 || got("y", 2) != "4" {
		t.Errorf("the third wait got %q", got("y", 2))
	}
	w.hold(2)
	w.waitSignal(2, "y", 0)
	wantKinds(t, w, flow.RecSuspended)
	w.signal("x", "")
	wantKinds(t, w, flow.RecSignalled)
	w.signal("y", "r-7")
	wantKinds(t, w, flow.RecSignalled, flow.RecWoken)
	w.signal("y", "r-7")
	if wantKinds(t, w); w.answered().Number != 7 || w.flags() != flow.FlagRepeat {
		t.Errorf("a signal that was handled, sent again, is answered %d, %b", w.answered().Number, w.flags())
	}
}

// Fails when a body that fails on a signal isn't given it again with each attempt, or is
// given it again though it went on (S100).
func TestS100SignalIsDeliveredUntilTheBodyGoesOn(t *testing.T) {
	delivered := func(w *world) bool {
		s := w.run.Signals()
		return len(s) > 0 && s[0].Delivered && s[0].Number == 1 && string(s[0].Payload) == "x!" && s[0].RequestID == "r-x"
	}
	goOn := map[string]func(*world){
		"a step": func(w *world) { w.steps(w.run.Fence(), did("a", 1, "1")) },
		"a failed one": func(w *world) {
			w.steps(w.run.Fence(), flow.Input{Kind: flow.InStep, Fields: flow.Fields{Name: "a", ErrType: "E"}})
		},
		"state": func(w *world) {
			w.steps(w.run.Fence(), flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte("{}")}})
		},
		"children":     func(w *world) { w.start(w.run.Fence(), "kids", 0, 2) },
		"another wait": func(w *world) { w.waitSignal(w.run.Fence(), "y", 0) },
	}
	for name, next := range goOn {
		for how, get := range map[string]func(*world){
			"by a suspension": func(w *world) { w.waitSignal(1, "x", 0); w.signal("x", "r-x"); w.hold(2) },
			"when it looks":   func(w *world) { w.signal("x", "r-x"); w.steps(1, take("x", 1)) },
		} {
			w := started(t)
			get(w)
			for attempt := range 3 {
				if !delivered(w) {
					t.Fatalf("%s: attempt %d isn't given the signal: %+v", how, attempt, w.run.Signals())
				}
				if attempt == 2 {
					break
				}
				ended(w, flow.InFail, w.run.Fence())
				if attempt == 1 {
					w.restore()
				}
				w.now += 5 * second
				w.tick()
				if attempt == 0 {
					w.restart()
				}
				w.hold(w.run.Fence() + 1)
			}
			if next(w); delivered(w) {
				t.Errorf("%s, then %s: the signal is still to be handled", how, name)
			}
			w.restore()
			if it, _, ok := w.run.Entry(ItemSignal, "x", 1); !ok || it.Signal != 1 {
				t.Errorf("%s: the history has lost it", how)
			}
		}
	}
}

// Fails when a signal is taken above a bound, or refused at it; or what was refused ends
// the run (R13, P76).
func TestR13P76SignalsAreBounded(t *testing.T) {
	fill := func(w *world, left int) {
		w.large = true
		for w.run.peek().bytes+flow.MaxLuggageBytes/4 < flow.MaxLuggageBytes-left {
			w.step(flow.InSignal, flow.Fields{Name: "x", Payload: make([]byte, flow.MaxLuggageBytes/8)})
		}
		w.step(flow.InSignal, flow.Fields{Name: "x", Payload: make([]byte, flow.MaxLuggageBytes-left-w.run.peek().bytes-itemOverhead-1)})
	}
	for over := range 2 {
		w := newWorld(t)
		w.now = epoch
		w.submit()
		fill(w, itemOverhead+len("y")+len("y!")+len("r-1")-over)
		w.signal("y", "r-1")
		if errors.Is(w.out.Err, flow.ErrHistoryTooLarge) != (over == 1) || w.run.Status() != flow.StatusQueued {
			t.Errorf("%d bytes too many: error %v", over, w.out.Err)
		}
		if w.handOn(9); len(w.letters()[0].Extra) > flow.MaxLuggageBytes+4096 {
			t.Errorf("the luggage has %d bytes", len(w.letters()[0].Extra))
		}
	}
	w := newWorld(t)
	w.now = epoch
	w.submit()
	fill(w, 0)
	w.hold(1) // from now on nobody has to take them over
	if w.signal("y", ""); w.out.Err != nil {
		t.Errorf("a run that has started: error %v", w.out.Err)
	}

	w = started(t)
	b := w.run.noted()
	for n := range uint64(flow.MaxSignals - 1) {
		b.keep(flow.Signal{Number: n + 1, Name: "x"})
	}
	for _, want := range []error{nil, flow.ErrHistoryTooLarge} {
		w.out.Reset()
		w.run.Step(w.now, w.in(flow.InSignal, flow.Fields{Name: "y"}), &w.out)
		if !errors.Is(w.out.Err, want) {
			t.Errorf("signal %d: error %v", len(b.signals)+1, w.out.Err)
		}
		b.keep(flow.Signal{Number: flow.MaxSignals, Name: "x"})
	}
}

// Fails when a wait that isn't the body's next is taken, or one that is isn't (P54, S96).
func TestP54S96OnlyTheNextWait(t *testing.T) {
	for name, c := range map[string]struct {
		f     flow.Fields
		field string
	}{
		"the next signal":       {flow.Fields{Flags: flow.FlagSignal, Name: "x", Visit: 3}, ""},
		"unnumbered":            {flow.Fields{Flags: flow.FlagSignal, Name: "x"}, ""},
		"an old signal":         {flow.Fields{Flags: flow.FlagSignal, Name: "x", Visit: 2}, "visit"},
		"a signal to come":      {flow.Fields{Flags: flow.FlagSignal, Name: "x", Visit: 4}, "visit"},
		"a negative visit":      {flow.Fields{Flags: flow.FlagSignal, Name: "x", Visit: -1}, "visit"},
		"another name":          {flow.Fields{Flags: flow.FlagSignal, Name: "y", Visit: 1}, ""},
		"a moment of that name": {flow.Fields{Flags: flow.FlagRecorded, Name: "x", Visit: 1, Until: epoch + 60*second}, ""},
		"an old moment":         {flow.Fields{Flags: flow.FlagRecorded, Name: "nap", Visit: 1, Until: epoch + 60*second}, "visit"},
		"the next moment":       {flow.Fields{Flags: flow.FlagRecorded, Name: "nap", Visit: 2, Until: epoch + 60*second}, ""},
		"runs":                  {flow.Fields{Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(testIDs(5)), Visit: 1}, ""},
		"no runs":               {flow.Fields{Flags: flow.FlagRuns}, "until.runs"},
		"itself":                {flow.Fields{Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(testIDs(5, 1))}, "until.runs"},
		"one run twice":         {flow.Fields{Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(testIDs(5, 6, 5))}, "until.runs"},
	} {
		w := started(t)
		w.step(flow.InSuspend, flow.Fields{Fence: 1, Flags: flow.FlagRecorded, Name: "nap", Until: w.now})
		w.hold(2)
		w.signal("x", "")
		w.steps(2, take("x", 1))
		w.waitSignal(2, "x", flow.Second)
		w.now += second
		w.tick()
		w.hold(3)
		c.f.Fence = 3
		n := len(w.log)
		w.step(flow.InSuspend, c.f)
		var f *flow.FieldError
		if c.field == "" && w.run.Status() != flow.StatusSuspended || c.field != "" && (!errors.As(w.out.Err, &f) || f.Field != c.field || len(w.log) != n) {
			t.Errorf("%s: the run is %v, error %v", name, w.run.Status(), w.out.Err)
		}
	}
	many := make([]flow.RunID, flow.MaxAwaited+1)
	for i := range many {
		many[i] = flow.RunID{byte(i), 1, 15: byte(i >> 8)}
	}
	for over := range 2 {
		w := started(t)
		w.step(flow.InSuspend, flow.Fields{Fence: 1, Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(many[:flow.MaxAwaited+over])})
		if (w.out.Err != nil) != (over == 1) {
			t.Errorf("%d runs: error %v", flow.MaxAwaited+over, w.out.Err)
		}
	}
}

// Fails when a suspension until a moment isn't ended by it, is ended before, or doesn't
// stand in the history where the body asked for that (P54, S84, R2).
func TestP54S84R2Moments(t *testing.T) {
	for _, until := range []flow.Instant{-1, 0, 1, epoch - 1, epoch, epoch + 1, epoch + 60*second, flow.MaxInstant} {
		for flags, name := range map[flow.Flags]string{0: "", flow.FlagAbsolute: "", flow.FlagRecorded: "nap", flow.FlagRecorded | flow.FlagAbsolute: "nap"} {
			w := started(t)
			w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: until, Flags: flags | flow.FlagRetryable, Name: name})
			if f := w.out.Records[0].Flags; f != flags {
				t.Errorf("flags %b are recorded as %b", flags, f)
			}
			now := until <= epoch && !flags.Has(flow.FlagAbsolute)
			due, ok := w.run.Due()
			switch {
			case now:
				wantKinds(t, w, flow.RecSuspended, flow.RecWoken)
			case !ok || due.At != max(until, 1) || due.Absolute != flags.Has(flow.FlagAbsolute):
				t.Errorf("until %d, %b: due %+v, %t", until, flags, due, ok)
			case until > epoch:
				w.now = until - 1
				w.tick()
				wantKinds(t, w)
				fallthrough
			default:
				w.now = max(w.now, until)
				w.restore()
				w.tick()
				wantKinds(t, w, flow.RecWoken)
			}
			if _, _, ok := w.run.Entry(ItemMoment, "nap", 1); ok != flags.Has(flow.FlagRecorded) || w.run.Status() != flow.StatusQueued {
				t.Errorf("until %d, %b: the history has it %t", until, flags, ok)
			}
		}
	}
}

// Fails when a wait for a signal that has an end in time doesn't end there, or the others
// that come meanwhile move it (S85, S91).
func TestS85S91TimeoutStaysWhereItIs(t *testing.T) {
	w := started(t)
	w.waitSignal(1, "x", flow.Minute)
	for range 59 {
		w.now += second
		w.signal("y", "")
		w.tick()
		wantKinds(t, w)
		if due, ok := w.run.Due(); !ok || due.At != epoch+60*second || due.Absolute {
			t.Fatalf("due %+v %t", due, ok)
		}
	}
	w.restart()
	w.now = epoch + 60*second
	w.tick()
	wantKinds(t, w, flow.RecWoken)
	if it, _, ok := w.run.Entry(ItemTimeout, "x", 1); !ok || it.Kind != ItemTimeout || len(w.run.Signals()) != 59 {
		t.Errorf("the wait came to %+v; %d signals are kept", it, len(w.run.Signals()))
	}
	w.hold(2)
	w.step(flow.InSuspend, flow.Fields{Fence: 2, Flags: flow.FlagSignal, Name: "x", Interval: flow.MaxTimeout})
	if due, ok := w.run.Due(); !ok || due.At != w.now.Add(flow.MaxTimeout) {
		t.Errorf("the longest timeout is due at %+v", due)
	}
}

// Fails when some of many who wait for an end aren't told, or twice, or more of them in one
// turn than an entry should hold; over crashes between the turns (S106, R15).
func TestS106R15ManyAreToldByTicks(t *testing.T) {
	for name, c := range map[string]struct {
		waiters, first int
		result         int
	}{
		"one turn": {maxTold, maxTold, 1}, "one more": {maxTold + 1, maxTold, 1}, "most": {flow.MaxWaiters, maxTold, 1},
		"just full": {5, 4, maxToldBytes/4 - itemOverhead}, "a byte more": {5, 3, maxToldBytes/4 - itemOverhead + 1}, "largest": {3, 1, flow.MaxPayloadBytes},
	} {
		t.Run(name, func(t *testing.T) {
			w := started(t)
			w.large = c.result > 1
			for n := range c.waiters {
				w.step(flow.InWatch, flow.Fields{Other: flow.RunID{9, 15: byte(n)}, Root: testID(1), Number: 1})
				wantKinds(t, w, flow.RecWatched)
			}
			w.step(flow.InComplete, flow.Fields{Fence: 1, Payload: make([]byte, c.result)})
			told, turns := 0, 0
			for ; ; turns++ {
				if n := len(w.letters()); turns == 0 && n != c.first || n > maxTold || n == 0 {
					t.Fatalf("turn %d tells %d", turns, n)
				}
				told += len(w.letters())
				due, ok := w.run.Due()
				if w.run.Over() {
					if ok {
						t.Errorf("all are told and a tick is due at %d", due.At)
					}
					break
				}
				if !ok || due.At > w.now || due.Absolute {
					t.Fatalf("after %d: due %+v %t", told, due, ok)
				}
				if w.restart(); turns == 1 {
					w.restore()
				}
				w.tick()
			}
			if told != c.waiters || len(w.laws.told) != c.waiters {
				t.Errorf("%d of %d were told in %d turns", told, c.waiters, turns+1)
			}
		})
	}
}

// Fails when the one waiter too many waits for ever, or is noted; or the same one twice (S96).
func TestS96WaitersAreBounded(t *testing.T) {
	w := started(t)
	for n := range flow.MaxWaiters {
		w.step(flow.InWatch, flow.Fields{Other: flow.RunID{9, 15: byte(n)}, Root: testID(1), Number: 1})
	}
	w.step(flow.InWatch, flow.Fields{Other: flow.RunID{9}, Root: testID(1), Number: 1}) // known
	if wantKinds(t, w); len(w.out.Effects) > 0 {
		t.Errorf("the same again: %+v", w.letters())
	}
	w.watch(8)
	wantKinds(t, w)
	want := []flow.Input{{Kind: flow.InOutcome, Fields: flow.Fields{
		Run: testID(8), Root: testID(1), Number: 1, ErrType: "too_many_waiters", ErrText: "more runs wait for its end than may",
	}}}
	if diff := cmp.Diff(want, w.letters()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// Fails when a letter that leads to more letters, or many that bring a result each, don't go
// by the outbox: what one message leads to must stay small (R5).
func TestR5WhatGoesByTheOutbox(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(*world)
		posted bool
	}{
		"a watch":   {func(w *world) { w.waitRuns(1, 5) }, false},
		"watches":   {func(w *world) { w.waitRuns(1, 5, 6) }, true},
		"a child":   {func(w *world) { w.start(1, "kids", flow.FlagChild, 5) }, false},
		"an end":    {func(w *world) { w.watch(8); w.step(flow.InComplete, flow.Fields{Fence: 1}) }, false},
		"a hand-on": {func(w *world) { *w = *newWorld(w.t); w.now = epoch; w.submit(); w.handOn(9) }, false},
		"a stop": {func(w *world) {
			w.start(1, "kids", flow.FlagChild, 5)
			w.waitRuns(1, 5)
			w.step(flow.InCancel, flow.Fields{})
		}, true},
		"a chain's end": {func(w *world) {
			*w = *newWorld(w.t)
			w.now = epoch
			f := successorFields()
			f.Extra = nil
			w.submitAs(f)
			w.step(flow.InCancel, flow.Fields{})
		}, true},
	} {
		w := started(t)
		c.do(w)
		letters := w.letters()
		if len(letters) == 0 {
			t.Errorf("%s: no letter", name)
		}
		for _, l := range letters {
			if l.Flags.Has(flow.FlagPosted) != c.posted {
				t.Errorf("%s: %v has the flags %b", name, l.Kind, l.Flags)
			}
		}
	}
}

// Fails when a terminated run's holder goes on for ever, or its waiters aren't told, since
// one of the two is looked after first (R20, S106).
func TestR20S106HeldWhileItTells(t *testing.T) {
	w := started(t)
	for n := range maxTold + 1 {
		w.step(flow.InWatch, flow.Fields{Other: flow.RunID{9, 15: byte(n)}, Root: testID(1), Number: 1})
	}
	w.step(flow.InTerminate, flow.Fields{})
	w.now += 13 * second
	w.tick()
	wantKinds(t, w, flow.RecTold)
	if due, ok := w.run.Due(); !ok || due.At != epoch+13*second || w.run.Over() {
		t.Fatalf("due %+v %t, over %t", due, ok, w.run.Over())
	}
	w.tick()
	if wantKinds(t, w, flow.RecHoldFreed); !w.run.Over() {
		t.Error("it isn't over")
	}
}

// Fails when a suspended run doesn't say what it waits for, since when and until when, or
// shows a run that has ended among those that it waits for (P54, P81).
func TestP54P81ExplainEveryWait(t *testing.T) {
	since := epoch + second
	for name, c := range map[string]struct {
		do   func(*world)
		want flow.Wait
	}{
		"a moment": {func(w *world) {
			w.step(flow.InSuspend, flow.Fields{Fence: 1, Flags: flow.FlagRecorded, Name: "nap", Until: since + 5})
		}, flow.Wait{Reason: flow.WaitSchedule, OpensAt: since + 5}},
		"a signal":          {func(w *world) { w.waitSignal(1, "x", 0) }, flow.Wait{Reason: flow.WaitSignal, Signal: "x"}},
		"a signal, bounded": {func(w *world) { w.waitSignal(1, "x", 1) }, flow.Wait{Reason: flow.WaitSignal, Signal: "x", OpensAt: since + 1}},
		"runs":              {func(w *world) { w.waitRuns(1, 5, 6) }, flow.Wait{Reason: flow.WaitChild, Runs: testIDs(5, 6)}},
		"runs, one of them ended": {func(w *world) {
			w.waitRuns(1, 5, 6)
			w.step(flow.InOutcome, flow.Fields{Root: testID(5), Number: 1, Status: flow.StatusFailed})
		}, flow.Wait{Reason: flow.WaitChild, Runs: testIDs(6)}},
		"a back-off": {func(w *world) { ended(w, flow.InFail, 1) }, flow.Wait{Reason: flow.WaitRetryBackoff, OpensAt: since + 5*second}},
	} {
		w := started(t)
		w.now = since
		c.do(w)
		c.want.Since = since
		for range 2 {
			got, ok := w.run.Explain()
			if diff := cmp.Diff(c.want, got); diff != "" || !ok {
				t.Errorf("%s: %t (-want +got):\n%s", name, ok, diff)
			}
			v := w.run.View()
			if v.Waiting != c.want.Reason || v.Signal != c.want.Signal || !slices.Equal(v.Awaits, c.want.Runs) || v.Since != since {
				t.Errorf("%s: it shows %+v", name, v)
			}
			w.restore()
		}
		w.step(flow.InCancel, flow.Fields{})
		if v := w.run.View(); v.Waiting != "" || v.Signal != "" || v.Awaits != nil {
			t.Errorf("%s: after its end it shows %+v", name, v)
		}
	}
}
