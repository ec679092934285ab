package runactor

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when a successor isn't all that its predecessor was but for its gates: parameters,
// place, key, trigger, parent, origin, signals and those who wait; or the original doesn't
// end continued, naming it (P24, P25, P28, P76, P79).
func TestP24P25P28P76P79HandOn(t *testing.T) {
	w := newWorld(t)
	w.now = epoch
	w.submitAs(flow.Fields{
		Order: epoch - 7, Workflow: "sync", Payload: []byte(`{"a":1}`), Stamp: testStamp, Trigger: TriggerSchedule, IdempotencyKey: "k",
		RequestID: "r-0", Parent: testID(5), Origin: "nightly",
	})
	w.signal("x", "r-1")
	w.watch(8)
	w.now += second
	stamp := &flow.Stamp{Version: "3", VersionRank: 3, Gates: []flow.Gate{{Kind: flow.GateLimit, KeyName: "tenant", Key: "acme", Max: 9}}}
	w.step(flow.InHandOn, flow.Fields{Other: testID(9), Stamp: stamp})
	wantKinds(t, w, flow.RecContinued)
	if rec := w.out.Records[0]; rec.Other != testID(9) || rec.Version != "3" || rec.Fence != 0 {
		t.Errorf("the record is %+v", rec.Fields)
	}
	luggage := flow.Luggage{
		Signals: []flow.Signal{{Number: 1, Name: "x", Payload: []byte("x!"), RequestID: "r-1", At: epoch}}, Last: 1,
		Waiters: []flow.Waiter{{Waits: testID(8), Asked: testID(1), Number: 1}},
	}
	want := []flow.Input{{Kind: flow.InCreate, Fields: flow.Fields{
		Run: testID(9), Order: epoch - 7, Workflow: "sync", Payload: []byte(`{"a":1}`), Stamp: stamp, Trigger: TriggerSchedule,
		IdempotencyKey: "k", Parent: testID(5), Origin: "nightly", Other: testID(1), Root: testID(1), Extra: luggage.Encode(),
	}}}
	if diff := cmp.Diff(want, w.letters()); diff != "" || w.flags() != flow.FlagOK {
		t.Errorf("answered %b; sent (-want +got):\n%s", w.flags(), diff)
	}
	v := w.run.View()
	if v.Status != flow.StatusContinued || v.ContinuedTo != testID(9) || v.Ended != w.now || w.run.Successor() != testID(9) || w.run.IsSuccessor() {
		t.Errorf("the original is %+v", v)
	}
	if b := w.run.peek(); len(b.signals)+len(b.waiters)+b.bytes != 0 {
		t.Errorf("the original keeps %d signals, %d waiters, %d bytes", len(b.signals), len(b.waiters), b.bytes)
	}
	events := w.run.Events()
	last := events[len(events)-1]
	if diff := cmp.Diff(flow.Event{Seq: 3, Type: flow.EventContinued, At: w.now, Version: "3", Runs: testIDs(9)}, last); diff != "" {
		t.Errorf("its last event (-want +got):\n%s", diff)
	}

	next := newWorldOf(t, testID(9))
	next.now = w.now
	letter := want[0]
	letter.Kind = flow.InSubmit
	next.send(&letter)
	v = next.run.View()
	if !next.run.IsSuccessor() || v.GatedFrom != testID(1) || v.GatedRoot != testID(1) || v.Parent != testID(5) || v.Origin != "nightly" ||
		v.Submitted != epoch-7 || v.Since != epoch-7 || v.IdempotencyKey != "k" || len(next.run.Signals()) != 1 {
		t.Errorf("the successor is %+v", v)
	}
	next.step(flow.InHandOn, flow.Fields{Other: testID(10), Stamp: stamp})
	if made := next.letters()[0]; made.Other != testID(9) || made.Root != testID(1) || !bytes.Equal(made.Extra, letter.Extra) {
		t.Errorf("the successor's is made of %v, root %v", made.Other, made.Root)
	}
	if (flow.RunID{}) != newWorld(t).run.Successor() {
		t.Error("a run that isn't has a successor")
	}
}

// Fails when a run is handed on in a state in which it may not be, or one that may isn't,
// or who asks for it gets an error (P28, P29, P31, P80).
func TestP28P29P31P80WhoIsHandedOn(t *testing.T) {
	for name, life := range lives {
		w := newWorld(t)
		w.now = epoch
		life.make(w)
		n, may := len(w.log), name == "queued" || name == "successor"
		if got := w.run.MayHandOn(); got != may {
			t.Errorf("%s: may be handed on: %t", name, got)
		}
		if name == "unsubmitted" {
			continue
		}
		if w.handOn(9); (len(w.log) > n) != may || w.out.Err != nil {
			t.Errorf("%s: %v, error %v", name, w.kinds(), w.out.Err)
		}
		if !may && len(w.out.Effects) > 0 {
			t.Errorf("%s: %v", name, w.out.Effects)
		}
	}
	for trigger, may := range map[string]bool{
		"client": true, "http": true, TriggerSchedule: true, "trigger": true, TriggerChild: true, "odd": true, "": true,
		TriggerRetry: false, "case": false, "replay": false, "eval": false,
	} {
		w := newWorld(t)
		w.now = epoch
		w.submitAs(flow.Fields{Order: epoch, Workflow: "sync", Stamp: &flow.Stamp{Unknown: true}, Trigger: trigger})
		for _, rebuild := range []func(*world){func(*world) {}, (*world).restore} {
			if rebuild(w); w.run.MayHandOn() != may {
				t.Errorf("trigger %q: may be handed on: %t", trigger, w.run.MayHandOn())
			}
		}
		if w.handOn(9); (w.run.Status() == flow.StatusContinued) != may {
			t.Errorf("trigger %q: the run is %v", trigger, w.run.Status())
		}
	}
}

// Fails when a run that was handed on hears anything but the end of its chain, or is over
// before it, or passes that on twice (R14, P32, P79).
func TestR14P79ChainOver(t *testing.T) {
	for name, rebuild := range map[string]func(*world){"live": func(*world) {}, "replay": (*world).restart, "snapshot": (*world).restore} {
		w := newWorld(t)
		w.now = epoch
		w.submitAs(successorFields())
		w.handOn(9)
		rebuild(w)
		n := len(w.log)
		for k := flow.InSubmit; k < flow.InChainOver; k++ {
			w.step(k, flow.Fields{Fence: 1, Stamp: testStamp, Other: testID(3), Number: 1})
		}
		if len(w.log) != n || w.run.Over() || w.run.Ended() != 0 {
			t.Fatalf("%s: %d records, over %t since %d", name, len(w.log)-n, w.run.Over(), w.run.Ended())
		}
		if _, due := w.run.Due(); due {
			t.Errorf("%s: something is due", name)
		}
		w.now += second
		w.step(flow.InChainOver, flow.Fields{})
		wantKinds(t, w, flow.RecChainOver)
		if l := w.letters(); len(l) != 1 || l[0].Kind != flow.InChainOver || l[0].Run != testID(7) || !l[0].Flags.Has(flow.FlagPosted) {
			t.Errorf("%s: it sends %+v", name, l)
		}
		if rebuild(w); !w.run.Over() || w.run.Ended() != w.now || w.run.View().Ended != epoch {
			t.Errorf("%s: over %t since %d, ended %d", name, w.run.Over(), w.run.Ended(), w.run.View().Ended)
		}
		w.now += second
		if w.step(flow.InChainOver, flow.Fields{}); len(w.out.Records)+len(w.out.Effects) > 0 {
			t.Errorf("%s: again: %v %v", name, w.kinds(), w.letters())
		}
	}
	for name, life := range lives {
		w := newWorld(t)
		w.now = epoch
		life.make(w)
		if name == "continued" || name == "unsubmitted" {
			continue
		}
		if w.step(flow.InChainOver, flow.Fields{}); w.out.Err != nil || len(w.out.Records)+len(w.out.Effects) > 0 {
			t.Errorf("%s: %v, error %v", name, w.kinds(), w.out.Err)
		}
	}
}

// Fails when, on a chain of 1,000, somebody who signals and reads the first id in a loop is
// told that there is no run or that it has ended, or a signal is lost, doubled or out of
// order (S90, S88, P32, P79).
func TestS90S88P32P79ChainOfAThousand(t *testing.T) {
	const n = 1000
	c := newTown(t)
	c.run(1)
	ids := []flow.RunID{testID(1)}
	at := 0
	last := func() *world { // from where the reader was, so that this stays quick
		for c.runs[ids[at]].run.Status() == flow.StatusContinued && at+1 < len(ids) && c.runs[ids[at+1]] != nil {
			at++
		}
		return c.at(c.runs[ids[at]])
	}
	for i := range n {
		c.now += flow.Instant(flow.Millisecond)
		w := last()
		if i%10 == 0 {
			w.signal("x", fmt.Sprint("r-", i))
			if w.out.Err != nil || w.answered().Number != uint64(i/10)+1 {
				t.Fatalf("signal %d: %+v, error %v", i, w.answered(), w.out.Err)
			}
		}
		if i%10 == 5 { // the reply to it was lost
			if w.signal("x", fmt.Sprint("r-", i-5)); w.flags() != flow.FlagRepeat || w.answered().Number != uint64(i/10)+1 {
				t.Fatalf("signal %d again: %+v", i, w.answered())
			}
		}
		if s := w.run.Status(); s != flow.StatusQueued {
			t.Fatalf("after %d the status is %v", i, s)
		}
		id := flow.NewRunID(c.now, 7, flow.Entropy{1, byte(i), byte(i >> 8)})
		w.step(flow.InHandOn, flow.Fields{Other: id, Stamp: testStamp})
		ids = append(ids, id)
		if c.post(w); i%10 == 8 { // sent again to the original, while its successor is on its way
			in := flow.Input{Kind: flow.InSignal, Fields: flow.Fields{Run: w.run.ID(), Name: "x", RequestID: fmt.Sprint("r-", i-8)}}
			c.mail = append(c.mail, envelope{testID(99), w.run.ID(), in})
		}
		c.settle()
	}
	kept := last().run.Signals()
	for i, s := range kept {
		if s.Number != uint64(i)+1 || s.RequestID != fmt.Sprint("r-", 10*i) {
			t.Fatalf("signal %d is %+v", i, s)
		}
	}
	if v := last().run.View(); len(kept) != n/10 || v.GatedRoot != testID(1) || v.Submitted != epoch {
		t.Errorf("%d signals; the last run is %+v", len(kept), v)
	}
	last().hold(1)
	w := last()
	w.step(flow.InComplete, flow.Fields{Fence: 1})
	c.post(w)
	c.settle()
	for i, id := range ids {
		if r := c.runs[id].run; !r.Over() {
			t.Fatalf("run %d of the chain isn't over", i)
		}
	}
}
