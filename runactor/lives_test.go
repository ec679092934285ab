package runactor

import "github.com/pyrula/pyrula-node/flow"

// fenceOfRecorded is the holder's fence of the life "recorded".
const fenceOfRecorded = 5

// lives makes a run in every state that matters, with its holder's fence or 0.
var lives = map[string]struct {
	fence uint64
	make  func(*world)
}{
	"unsubmitted": {0, func(*world) {}},
	"queued":      {0, func(w *world) { w.submit() }},
	"executing":   {1, func(w *world) { w.submit(); w.hold(1) }},
	"asked":       {1, func(w *world) { w.submit(); w.hold(1); w.step(flow.InCancel, flow.Fields{}) }},
	"suspended":   {0, func(w *world) { w.submit(); w.hold(1); ended(w, flow.InSuspend, 1) }},
	"completed":   {0, func(w *world) { w.submit(); w.watch(8); w.hold(1); ended(w, flow.InComplete, 1) }},
	"cancelled":   {0, func(w *world) { w.submit(); w.step(flow.InCancel, flow.Fields{}) }},
	"held":        {1, func(w *world) { w.submit(); w.hold(1); w.step(flow.InTerminate, flow.Fields{}) }},
	"terminated":  {0, func(w *world) { w.submit(); w.step(flow.InTerminate, flow.Fields{}) }},

	"requeued":           {0, func(w *world) { w.submit(); w.hold(1); w.now += 13 * second; w.tick() }},
	"recorded":           {fenceOfRecorded, record},
	"waits for a signal": {0, func(w *world) { w.submit(); w.hold(1); w.signal("y", "r-y"); w.waitSignal(1, "x", flow.Minute) }},
	"waits for runs": {0, func(w *world) {
		w.submit()
		w.hold(1)
		w.waitRuns(1, 5, 6, 7)
		w.step(flow.InOutcome, flow.Fields{Root: testID(5), Number: 1, Status: flow.StatusFailed, Payload: []byte("p"), ErrType: "E", ErrText: "boom"})
	}},
	"successor": {0, func(w *world) { w.submitAs(successorFields()) }},
	"continued": {0, func(w *world) { w.submit(); w.signal("x", "r-x"); w.handOn(9) }},
	"chain over": {0, func(w *world) {
		w.submit()
		w.handOn(9)
		w.now++
		w.step(flow.InChainOver, flow.Fields{})
	}},
	"telling": {0, func(w *world) {
		w.submit()
		for n := byte(10); n < 10+maxTold+2; n++ {
			w.watch(n)
		}
		w.watch(8)
		w.step(flow.InCancel, flow.Fields{})
	}},
}

// record makes a run whose history has an entry of every kind, and that keeps a signal.
func record(w *world) {
	w.submit()
	w.hold(1)
	failed := flow.Input{Kind: flow.InStep, Fields: flow.Fields{Name: "b", ErrType: "E", ErrText: "boom", Cost: 3}}
	state := flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte(`{"n":1}`)}}
	w.steps(1, did("a", 1, "1"), failed, did("a", 2, "2"), state)
	w.start(1, "kids", flow.FlagChild, 5, 6)
	w.start(1, "others", 0, 7)
	w.signal("x", "r-x")
	w.signal("x", "")
	w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: w.now, Flags: flow.FlagRecorded, Name: "nap"})
	w.hold(2)
	w.waitSignal(2, "late", flow.Second)
	w.now += second
	w.tick()
	w.hold(3)
	w.waitRuns(3, 5, 6)
	wait := w.run.peek().wait.number
	w.step(flow.InOutcome, flow.Fields{Root: testID(5), Number: wait, Status: flow.StatusCompleted, Payload: []byte("r")})
	w.step(flow.InOutcome, flow.Fields{Root: testID(6), Number: wait, Status: flow.StatusFailed, ErrType: "E", ErrText: "boom"})
	w.hold(fenceOfRecorded)
	w.watch(8)
	w.steps(fenceOfRecorded, take("x", 1))
}

// successorFields are those of a run that takes another's place.
func successorFields() flow.Fields {
	luggage := flow.Luggage{
		Signals: []flow.Signal{{Number: 2, Name: "x", Payload: []byte("p"), RequestID: "r-2", At: epoch}},
		Last:    3, Waiters: []flow.Waiter{{Waits: testID(5), Asked: testID(6), Number: 4}},
	}
	return flow.Fields{
		Order: epoch - 1, Workflow: "sync", Stamp: testStamp, Trigger: TriggerChild, Other: testID(7), Root: testID(6),
		Parent: testID(5), Origin: "nightly", Extra: luggage.Encode(),
	}
}

func (w *world) submitAs(f flow.Fields) {
	w.t.Helper()
	if w.step(flow.InSubmit, f); w.out.Err != nil {
		w.t.Fatalf("submit: %v", w.out.Err)
	}
}

func (w *world) signal(name, request string) *flow.Out {
	w.t.Helper()
	return w.step(flow.InSignal, flow.Fields{Name: name, RequestID: request, Payload: []byte(name + "!")})
}

// waitSignal suspends until a signal comes, or its time is over if it has one.
func (w *world) waitSignal(fence uint64, name string, timeout flow.Span) *flow.Out {
	w.t.Helper()
	return w.step(flow.InSuspend, flow.Fields{Fence: fence, Flags: flow.FlagSignal, Name: name, Interval: timeout})
}

// waitRuns suspends until the test's runs of these numbers have ended.
func (w *world) waitRuns(fence uint64, runs ...byte) *flow.Out {
	w.t.Helper()
	return w.step(flow.InSuspend, flow.Fields{Fence: fence, Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(testIDs(runs...))})
}

func testIDs(runs ...byte) []flow.RunID {
	ids := make([]flow.RunID, len(runs))
	for i, n := range runs {
		ids[i] = testID(n)
	}
	return ids
}

// start starts the test's runs of these numbers.
func (w *world) start(fence uint64, name string, child flow.Flags, runs ...byte) *flow.Out {
	w.t.Helper()
	in := w.in(flow.InStart, flow.Fields{Fence: fence, Name: name, Flags: child})
	for _, id := range testIDs(runs...) {
		in.Parts = append(in.Parts, flow.Input{Kind: flow.InCreate, Fields: flow.Fields{Run: id, Workflow: "sub", Stamp: testStamp, Trigger: TriggerChild}})
	}
	return w.send(in)
}

// watch lets the test's run of that number wait for this one's end.
func (w *world) watch(by byte) *flow.Out {
	w.t.Helper()
	return w.step(flow.InWatch, flow.Fields{Other: testID(by), Root: w.run.ID(), Number: 1})
}

func (w *world) handOn(to byte) *flow.Out {
	w.t.Helper()
	return w.step(flow.InHandOn, flow.Fields{Other: testID(to), Stamp: &flow.Stamp{Version: "3", VersionRank: 3}})
}
