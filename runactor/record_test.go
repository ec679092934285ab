package runactor

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when what a step came to isn't found by the next attempt, over a crash, or a step
// that is recorded is recorded again; by the same holder or the next (S21).
func TestS21RecordedStepsStand(t *testing.T) {
	for name, rebuild := range map[string]func(*world){"replay": (*world).restart, "snapshot": (*world).restore} {
		for _, next := range []uint64{1, 2} {
			w := started(t)
			w.steps(1, did("a", 1, "1"), did("a", 2, "2"))
			wantKinds(t, w, flow.RecStep, flow.RecStep)
			rebuild(w)
			if next == 2 {
				w.now += 14 * second
				w.tick()
				w.hold(2)
			}
			w.steps(next, did("a", 1, "1"), did("a", 2, "2"), did("b", 1, "3"))
			wantKinds(t, w, flow.RecStep)
			items, more := w.run.History(0, flow.MaxHistoryBytes)
			want := []Item{
				{Kind: ItemStep, Name: "a", Visit: 1, Payload: []byte("1")}, {Kind: ItemStep, Name: "a", Visit: 2, Payload: []byte("2")},
				{Kind: ItemStep, Name: "b", Visit: 1, Payload: []byte("3")},
			}
			if diff := cmp.Diff(want, items); diff != "" || more || w.run.Attempt() != int64(next) {
				t.Errorf("%s, fence %d: attempt %d, more %t (-want +got):\n%s", name, next, w.run.Attempt(), more, diff)
			}
		}
	}
}

// Fails when a step that is recorded gets another outcome, of a later request or of the
// same one, or when a part of a request that is refused is recorded (S21, P51).
func TestS21StepConflict(t *testing.T) {
	failed := func(name, text string) flow.Input {
		return flow.Input{Kind: flow.InStep, Fields: flow.Fields{Name: name, Visit: 1, ErrType: "E", ErrText: text}}
	}
	for name, parts := range map[string][]flow.Input{
		"another result":                  {did("new", 1, "1"), did("a", 1, "other")},
		"a result of a failed step":       {did("new", 1, "1"), did("b", 1, "null")},
		"an error of a step with result":  {did("new", 1, "1"), failed("a", "boom")},
		"another error":                   {did("new", 1, "1"), failed("b", "bang")},
		"two outcomes in one request":     {did("new", 1, "1"), did("new", 1, "2")},
		"visit 0 is the first":            {did("a", 0, "other")},
		"a result and an error at once":   {did("new", 1, "1"), failed("new", "boom")},
		"a signal's turn after a step":    {did("new", 1, "1"), take("x", 2)},
		"a signal's turn that is none":    {did("new", 1, "1"), take("y", 0)},
		"a part that is none":             {did("new", 1, "1"), {Kind: flow.InComplete}},
		"a part that is none, by itself":  {{Kind: flow.InSignal}},
		"state beside another's outcome":  {{Kind: flow.InState, Fields: flow.Fields{Payload: []byte("{}")}}, did("a", 1, "other")},
		"a signal beside another outcome": {take("y", 1), did("a", 1, "other")},
	} {
		w := started(t)
		w.steps(1, did("a", 1, "1"), failed("b", "boom"))
		w.signal("y", "")
		n := len(w.log)
		if w.steps(1, parts...); w.out.Err == nil || len(w.log) != n {
			t.Errorf("%s: error %v, %d records", name, w.out.Err, len(w.log)-n)
		}
		if conflict := errors.Is(w.out.Err, flow.ErrStepConflict); conflict == errors.Is(w.out.Err, flow.ErrInvalid) {
			t.Errorf("%s: error %v", name, w.out.Err)
		}
		if conflict := errors.Is(w.out.Err, flow.ErrStepConflict); conflict && !strings.Contains(w.out.Err.Error(), ", visit 1") {
			t.Errorf("%s: the error doesn't name the step: %v", name, w.out.Err)
		}
	}
	w := started(t)
	w.steps(1, did("a", 1, ""), failed("b", "boom"))
	w.steps(1, did("a", 1, "null"), did("a", 0, ""), failed("b", "boom"))
	wantKinds(t, w)
	if w.flags() != flow.FlagOK {
		t.Errorf("the same again is answered %b", w.flags())
	}
}

// Fails when anything is recorded for somebody who doesn't hold the run, or a holder that
// was asked to stop isn't heard, or isn't told (P51, P63).
func TestP51P63OnlyTheHolderRecords(t *testing.T) {
	for name, life := range lives {
		for _, fence := range []uint64{0, 1, life.fence, 99} {
			for _, kind := range []flow.InputKind{flow.InSteps, flow.InStart} {
				w := newWorld(t)
				w.now = epoch
				life.make(w)
				in := w.in(kind, flow.Fields{Fence: fence, Name: "new"})
				in.Parts = []flow.Input{did("new", 1, "1")}
				w.send(in)
				status := w.run.Status()
				holds := fence != 0 && fence == life.fence && status == flow.StatusExecuting
				want := flow.ErrStaleFence
				if status.Ended() {
					want = flow.ErrRunEnded
				} else if status == 0 {
					want = flow.ErrUnknownRun
				}
				switch {
				case holds && w.out.Err == nil:
					if f := w.flags(); f.Has(flow.FlagCancel) != w.run.CancelAsked() || !f.Has(flow.FlagOK) || len(w.out.Records) != 1 {
						t.Errorf("%s, %v: %d records, answered %b", name, kind, len(w.out.Records), f)
					}
				case holds || !errors.Is(w.out.Err, want):
					t.Errorf("%s, fence %d, %v: error %v, want %v", name, fence, kind, w.out.Err, want)
				}
			}
		}
	}
}

// Fails when the state isn't the last one that was recorded, or one that is the same is
// recorded again.
func TestStateIsTheLast(t *testing.T) {
	state := func(s string) flow.Input {
		return flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte(s)}}
	}
	w := started(t)
	for _, c := range []struct {
		say  string
		want int
	}{{`{"n":1}`, 1}, {`{"n":1}`, 0}, {`{}`, 1}, {`{"n":1}`, 1}} {
		w.steps(1, state(c.say))
		if string(w.run.State()) != c.say || len(w.out.Records) != c.want {
			t.Errorf("%s: the state is %s after %d records", c.say, w.run.State(), len(w.out.Records))
		}
		w.restore()
	}
}

// Fails when a run may record more than the bound, by steps, state, waits, children or what
// its awaited runs say, or is failed at the bound itself (R13).
func TestR13HistoryIsBounded(t *testing.T) {
	almost := func(w *world, left int) { // fills the history but for so many bytes
		for n := int64(1); w.run.peek().bytes+flow.MaxPayloadBytes+itemOverhead < flow.MaxHistoryBytes-left; n++ {
			w.fill("f", n, flow.MaxPayloadBytes)
		}
		w.fill("g", 1, flow.MaxHistoryBytes-left-w.run.peek().bytes-itemOverhead-1)
		if w.run.peek().bytes != flow.MaxHistoryBytes-left {
			t.Fatalf("%d bytes are left", flow.MaxHistoryBytes-w.run.peek().bytes)
		}
	}
	runs := 2 * len(flow.RunID{})
	for name, c := range map[string]struct {
		size int
		do   func(*world)
	}{
		"a step": {itemOverhead + 3, func(w *world) { w.steps(1, did("s", 1, "12")) }},
		"an error": {itemOverhead + 6, func(w *world) {
			w.steps(1, flow.Input{Kind: flow.InStep, Fields: flow.Fields{Name: "s", ErrType: "E", ErrText: "boom"}})
		}},
		"a state": {2, func(w *world) { w.steps(1, flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte("{}")}}) }},
		"another state": {3, func(w *world) {
			for _, s := range []string{"{}", "{1}"} {
				w.steps(1, flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte(s)}})
			}
		}},
		"a moment": {itemOverhead + 3, func(w *world) {
			w.step(flow.InSuspend, flow.Fields{Fence: 1, Flags: flow.FlagRecorded, Name: "nap", Until: w.now + 1})
		}},
		"a signal": {itemOverhead + 1, func(w *world) { w.waitSignal(1, "x", 1) }},
		"runs":     {itemOverhead + runs, func(w *world) { w.waitRuns(1, 2, 3) }},
		"children": {itemOverhead + 4 + runs, func(w *world) { w.start(1, "kids", flow.FlagChild, 2, 3) }},
		"an answer": {2*itemOverhead + runs + 1, func(w *world) {
			w.waitRuns(1, 2, 3)
			w.step(flow.InOutcome, flow.Fields{Root: testID(2), Number: w.run.peek().wait.number, Status: flow.StatusCompleted, Payload: []byte("r")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for over := range 2 {
				w := started(t)
				w.t = t
				almost(w, c.size-over)
				c.do(w)
				v := w.run.View()
				if failed := v.Status == flow.StatusFailed; failed != (over == 1) || failed != (v.ErrType == ErrTypeHistory) || failed == (v.ErrText == "") {
					t.Errorf("%d bytes too many: the run is %v, %q %q", over, v.Status, v.ErrType, v.ErrText)
				}
			}
		})
	}
}

// fill records a step with a result of n bytes. The world stops writing the run down.
func (w *world) fill(name string, visit int64, n int) {
	w.t.Helper()
	w.large = true
	w.steps(w.run.Fence(), did(name, visit, strings.Repeat("x", n)))
}

// Fails when a run whose history is full by what it was told of its runs, or one that was
// asked to stop, ends otherwise than it should, or its last request isn't known (R13, S62, R15).
func TestR13S62R15FullHistory(t *testing.T) {
	big := strings.Repeat("x", flow.MaxPayloadBytes)
	full := func() *world {
		w := started(t)
		w.start(1, "kids", flow.FlagChild, 2, 3)
		for n := int64(1); n < 8; n++ {
			w.fill("f", n, flow.MaxPayloadBytes)
		}
		return w
	}
	w := full()
	w.watch(8)
	w.waitRuns(1, 2, 3)
	w.step(flow.InOutcome, flow.Fields{Root: testID(2), Number: w.run.peek().wait.number, Status: flow.StatusCompleted, Payload: []byte(big)})
	w.step(flow.InOutcome, flow.Fields{Root: testID(3), Number: w.run.peek().wait.number, Status: flow.StatusCompleted, Payload: []byte(big)})
	wantKinds(t, w, flow.RecFailed, flow.RecTold)
	if w.out.Records[0].Fence != 0 || w.run.View().ErrType != ErrTypeHistory {
		t.Errorf("it ends with %+v", w.out.Records[0].Fields)
	}
	w.restore()
	// The suspension was its holder's last word.
	w.waitRuns(1, 2, 3)
	if wantKinds(t, w); w.flags() != flow.FlagRepeat {
		t.Errorf("the suspension again is answered %b", w.flags())
	}
	if w.step(flow.InFail, flow.Fields{}); !errors.Is(w.out.Err, flow.ErrRunEnded) {
		t.Errorf("a failure of nobody: error %v", w.out.Err)
	}

	w = full()
	w.step(flow.InCancel, flow.Fields{Reason: "stop"})
	w.steps(1, did("f", 8, big), did("f", 9, big))
	wantKinds(t, w, flow.RecCancelled)
	if v := w.run.View(); v.Reason != "stop" || v.ErrType != "" || w.out.Records[0].Fence != 1 {
		t.Errorf("the run is %v for %q, error %q", v.Status, v.Reason, v.ErrType)
	}
	if ended(w, flow.InComplete, 1); !errors.Is(w.out.Err, flow.ErrRunEnded) {
		t.Errorf("a result afterwards: error %v", w.out.Err)
	}
}

// Fails when the suspension that made the history too large is refused the second time:
// its holder was told that it was taken (R15).
func TestR15SuspendThatOverfills(t *testing.T) {
	w := started(t)
	for n := int64(1); n <= 8; n++ {
		w.fill("f", n, flow.MaxHistoryBytes/8-itemOverhead-1)
	}
	w.waitSignal(1, "x", 0)
	wantKinds(t, w, flow.RecFailed)
	for _, rebuild := range []func(*world){func(*world) {}, (*world).restart, (*world).restore} {
		rebuild(w)
		w.waitSignal(1, "x", 0)
		if wantKinds(t, w); w.flags() != flow.FlagRepeat {
			t.Errorf("the same again is answered %b", w.flags())
		}
		if ended(w, flow.InFail, 1); !errors.Is(w.out.Err, flow.ErrRunEnded) {
			t.Errorf("a failure that wasn't sent before: error %v", w.out.Err)
		}
	}
}

// Fails when a run may have more entries than the bound, or fewer (R13).
func TestR13EntriesAreBounded(t *testing.T) {
	for over := range 2 {
		w := started(t)
		w.signal("x", "")
		b := w.run.noted()
		for n := range flow.MaxHistoryItems - 1 + over {
			b.add(Item{Kind: ItemMoment, Visit: int64(n) + 1})
		}
		steps := func(p flow.Input) *flow.Input {
			in := w.in(flow.InSteps, flow.Fields{Fence: 1})
			in.Parts = []flow.Input{p}
			return in
		}
		start := w.in(flow.InStart, flow.Fields{Fence: 1, Name: "kids"})
		start.Parts = []flow.Input{{Kind: flow.InCreate, Fields: flow.Fields{Run: testID(2)}}}
		for name, in := range map[string]*flow.Input{
			"a step": steps(did("s", 1, "1")), "a take": steps(take("x", 1)), "children": start,
			"a wait": w.in(flow.InSuspend, flow.Fields{Fence: 1, Flags: flow.FlagSignal, Name: "s"}),
		} {
			w.out.Reset()
			w.run.Step(w.now, in, &w.out)
			if failed := w.kinds()[0] == flow.RecFailed; w.out.Err != nil || failed != (over == 1) {
				t.Errorf("%s, %d too many: %v, error %v", name, over, w.kinds(), w.out.Err)
			}
		}
	}
}

// Fails when the same call starts runs twice, or answers others than the first time, or
// other parameters count as the same call (R15, S101).
func TestR15S101ChildrenOfACallAreStartedOnce(t *testing.T) {
	w := started(t)
	w.start(1, "kids", flow.FlagChild, 2, 3)
	wantKinds(t, w, flow.RecStarted)
	letters := w.letters()
	if len(letters) != 2 || letters[0].Kind != flow.InCreate || letters[0].Parent != w.run.ID() || letters[1].Run != testID(3) || letters[0].Workflow != "sub" {
		t.Fatalf("it sends %+v", letters)
	}
	for _, rebuild := range []func(*world){func(*world) {}, (*world).restart, (*world).restore, func(w *world) {
		w.now += 14 * second
		w.tick()
		w.hold(2)
	}} {
		rebuild(w)
		w.start(w.run.Fence(), "kids", flow.FlagChild, 8, 9) // whoever asks has made new ids
		wantKinds(t, w)
		if a := w.answered(); a.Flags != flow.FlagRepeat || !bytes.Equal(a.Extra, flow.EncodeRunIDs(testIDs(2, 3))) || len(w.letters()) > 0 {
			t.Errorf("the same call is answered %b with %v and sends %v", a.Flags, flow.DecodeRunIDs(a.Extra), w.letters())
		}
	}
	w.start(2, "others", flow.FlagAbsolute, 4) // only one of the flags is for this
	if wantKinds(t, w, flow.RecStarted); w.out.Records[0].Flags != 0 {
		t.Errorf("the record has the flags %b", w.out.Records[0].Flags)
	}
	if w.start(2, "others", 0, 8); w.flags() != flow.FlagRepeat || len(w.letters()) > 0 {
		t.Errorf("runs that are no children, again: answered %b, sent %v", w.flags(), w.letters())
	}
	for name, call := range map[string]func(){
		"another number of runs": func() { w.start(2, "kids", flow.FlagChild, 8) },
		"no children but runs":   func() { w.start(2, "kids", 0, 8, 9) },
		"no runs but children":   func() { w.start(2, "others", flow.FlagChild, 8) },
	} {
		if call(); !errors.Is(w.out.Err, flow.ErrStepConflict) {
			t.Errorf("%s: error %v", name, w.out.Err)
		}
	}
	in := w.in(flow.InStart, flow.Fields{Fence: 2, Name: "kids", Visit: 2})
	in.Parts = []flow.Input{{Kind: flow.InSubmit, Fields: flow.Fields{Run: testID(8)}}} // it exists already
	w.send(in)
	wantKinds(t, w, flow.RecStarted)
	if len(w.letters()) > 0 || !bytes.Equal(w.answered().Extra, flow.EncodeRunIDs(testIDs(8))) {
		t.Errorf("of a run that exists it sends %v", w.letters())
	}
}

// Fails when an entry of a long history isn't found by its call, or its calls are counted
// wrongly, before or after a snapshot (S21).
func TestS21LongHistory(t *testing.T) {
	const n = 3 * fewItems
	w := started(t)
	w.signal("s", "r-s")
	for visit := int64(1); visit <= n; visit++ {
		w.steps(1, did("a", visit, fmt.Sprint(visit)))
		wantKinds(t, w, flow.RecStep)
	}
	for range 2 {
		for visit := int64(1); visit <= n; visit++ {
			it, place, ok := w.run.Entry(ItemStep, "a", visit)
			if !ok || place != visit || string(it.Payload) != fmt.Sprint(visit) {
				t.Fatalf("visit %d is %+v at %d", visit, it, place)
			}
		}
		for name, absent := range map[string]func() bool{
			"visit 0":      func() bool { _, _, ok := w.run.Entry(ItemStep, "a", 0); return ok },
			"the next":     func() bool { _, _, ok := w.run.Entry(ItemStep, "a", n+1); return ok },
			"another name": func() bool { _, _, ok := w.run.Entry(ItemStep, "b", 1); return ok },
			"another kind": func() bool { _, _, ok := w.run.Entry(ItemMoment, "a", 1); return ok },
		} {
			if absent() {
				t.Errorf("%s is found", name)
			}
		}
		if w.steps(1, did("a", 40, "other")); !errors.Is(w.out.Err, flow.ErrStepConflict) {
			t.Errorf("another outcome: error %v", w.out.Err)
		}
		if w.steps(1, take("a", 2)); !errors.Is(w.out.Err, flow.ErrInvalid) {
			t.Errorf("a signal's second wait, before its first: error %v", w.out.Err)
		}
		w.restore()
	}
	w.steps(1, take("s", 1))
	w.waitSignal(1, "s", flow.Second)
	w.now += second
	w.tick()
	w.hold(2)
	if w.step(flow.InSuspend, flow.Fields{Fence: 2, Flags: flow.FlagSignal, Name: "s", Visit: 2}); !errors.Is(w.out.Err, flow.ErrInvalid) {
		t.Errorf("the second wait again: error %v", w.out.Err)
	}
	w.step(flow.InSuspend, flow.Fields{Fence: 2, Flags: flow.FlagSignal, Name: "s", Visit: 3})
	wantKinds(t, w, flow.RecSuspended)
}

// Fails when a text or a list of an entry isn't counted, or counted twice (R13).
func TestR13WhatAnEntryCountsFor(t *testing.T) {
	for name, c := range map[string]struct {
		it   Item
		want int
	}{
		"nothing": {Item{Kind: ItemMoment}, 0}, "a name": {Item{Name: "123"}, 3}, "a result": {Item{Payload: make([]byte, 5)}, 5},
		"an error": {Item{ErrType: "12", ErrText: "1234"}, 6}, "a request": {Item{Request: "1234"}, 4},
		"runs":       {Item{Runs: testIDs(1, 2, 3)}, 48},
		"an outcome": {Item{Outcomes: []Outcome{{Payload: make([]byte, 5), ErrType: "12", ErrText: "1234"}}}, itemOverhead + 11},
		"outcomes":   {Item{Outcomes: make([]Outcome, 3)}, 3 * itemOverhead},
	} {
		if got := c.it.Size() - itemOverhead; got != c.want {
			t.Errorf("%s counts for %d bytes, want %d", name, got, c.want)
		}
	}
}

// Fails when the pages of a history leave an entry out, give one twice, are larger than
// asked for with more than one entry, or say wrongly that others follow (R13).
func TestR13HistoryPages(t *testing.T) {
	w := started(t)
	for n := int64(1); n <= 20; n++ {
		w.steps(1, did("a", n, strings.Repeat("x", int(n*n)%40)))
	}
	all, more := w.run.History(0, flow.MaxHistoryBytes)
	if len(all) != 20 || more {
		t.Fatalf("%d entries, more %t", len(all), more)
	}
	two := all[0].Size() + all[1].Size() // a page that is just full
	for _, most := range []int{0, 1, itemOverhead + 1, two - 1, two, two + 1, 2*itemOverhead + 30, 500, 1 << 20} {
		var got []Item
		for more = true; more; {
			var page []Item
			page, more = w.run.History(int64(len(got)), most)
			size := 0
			for i := range page {
				size += page[i].Size()
			}
			if len(page) == 0 || len(page) > 1 && size > most {
				t.Fatalf("at most %d: a page of %d entries, %d bytes", most, len(page), size)
			}
			if next := len(got) + len(page); next < len(all) && size+all[next].Size() <= most {
				t.Errorf("at most %d: a page of %d bytes leaves out one of %d", most, size, all[next].Size())
			}
			got = append(got, page...)
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("at most %d (-all +got):\n%s", most, diff)
		}
	}
	for _, after := range []int64{-1, 20, 21, 1 << 40} {
		if page, more := w.run.History(after, 100); len(page) > 0 || more {
			t.Errorf("behind %d there are %d entries, more %t", after, len(page), more)
		}
	}
	page, _ := w.run.History(0, 1)
	page = append(page, Item{Name: "mine"})
	if len(page) != 2 || w.run.peek().items[1].Name != "a" {
		t.Error("what is appended to a page is in the history")
	}
}
