package runactor

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow"
)

// recorded is the oracle of what a body records, and of what comes from other runs.
type recorded struct {
	calls     []called // in the order in which they came to something
	kept      []flow.Signal
	last      uint64
	state     string
	wait      awaiting
	fresh     uint64 // number of the signal that the body hasn't gone on with
	waiters   []flow.Waiter
	successor bool // it took another's place
	untouched bool // by any admission
	mayMove   bool // its trigger lets it be handed on
	continued bool
	chainOver bool
}

// called is a call of the body and what it came to. kind is "step", "signal", "moment",
// "runs" or "start".
type called struct {
	kind, name string
	visit      int64
	said       string
	runs       []flow.RunID
	child      bool
	request    string
	number     uint64
}

// awaiting is the wait of a suspension; kind is that of called, empty for none.
type awaiting struct {
	kind, name string
	visit      int64
	number     uint64
	runs       []flow.RunID
	ended      map[flow.RunID]bool
}

func (o *recorded) begin(f *flow.Fields) {
	o.untouched, o.mayMove = true, f.Trigger != "case"
	if f.Other.IsZero() {
		return
	}
	l, err := flow.DecodeLuggage(f.Extra)
	if err != nil {
		panic(err)
	}
	o.successor, o.kept, o.last, o.waiters = true, l.Signals, l.Last, l.Waiters
}

func (o *recorded) find(kind, name string, visit int64) *called {
	for i := range o.calls {
		if c := &o.calls[i]; c.kind == kind && c.name == name && c.visit == visit {
			return c
		}
	}
	return nil
}

func (o *recorded) next(kind, name string) int64 {
	n := int64(1)
	for i := range o.calls {
		if o.calls[i].kind == kind && o.calls[i].name == name {
			n++
		}
	}
	return n
}

// oldest is the place of the oldest kept signal of a name, or -1.
func (o *recorded) oldest(name string) int {
	return slices.IndexFunc(o.kept, func(s flow.Signal) bool { return s.Name == name })
}

// get gives the oldest kept signal of the name to a wait.
func (o *recorded) get(name string, visit int64) {
	i := o.oldest(name)
	s := o.kept[i]
	o.kept = slices.Delete(slices.Clone(o.kept), i, i+1)
	o.calls = append(o.calls, called{kind: "signal", name: name, visit: visit, said: string(s.Payload), request: s.RequestID, number: s.Number})
	o.fresh = s.Number
}

// open are the awaited runs of the wait that haven't ended.
func (o *oracle) open() []flow.RunID {
	var ids []flow.RunID
	for _, id := range o.wait.runs {
		if o.suspended && !o.wait.ended[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// childrenOf are those of the runs that the body has started as its children.
func (o *recorded) childrenOf(ids []flow.RunID) []flow.RunID {
	var kids []flow.RunID
	for _, id := range ids {
		if slices.ContainsFunc(o.calls, func(c called) bool { return c.child && slices.Contains(c.runs, id) }) {
			kids = append(kids, id)
		}
	}
	return kids
}

// wantEnd wants the run's end: who waits for it is told, its predecessor too, and the
// children that it awaits are asked to stop. Nothing else is sent.
func (m *runModel) wantEnd(t *rapid.T, kind flow.RecordKind, children []flow.RunID) {
	t.Helper()
	kinds := []flow.RecordKind{kind}
	var letters []string
	for _, id := range children {
		letters = append(letters, fmt.Sprint(flow.InCancel, id))
	}
	for _, w := range m.o.waiters {
		kinds = append(kinds, flow.RecTold)
		letters = append(letters, fmt.Sprint(flow.InOutcome, w.Waits))
	}
	if m.o.successor {
		letters = append(letters, fmt.Sprint(flow.InChainOver, successorFields().Other))
	}
	m.want(t, kinds...)
	m.wantLetters(t, letters...)
	m.o.waiters, m.o.ended, m.o.suspended, m.o.wait = nil, true, false, awaiting{}
}

func (m *runModel) wantLetters(t *rapid.T, want ...string) {
	t.Helper()
	var got []string
	for _, l := range m.letters() {
		got = append(got, fmt.Sprint(l.Kind, l.Run))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sent %v, want %v", got, want)
	}
}

// woken ends the wait that is under way: number is that of its signal, zero for none.
func (m *runModel) woken(number uint64) {
	w := m.o.wait
	m.o.suspended, m.o.wait, m.o.wakes = false, awaiting{}, 0
	switch {
	case w.kind == "signal" && number != 0:
		m.o.get(w.name, w.visit)
	case w.kind != "":
		m.o.calls = append(m.o.calls, called{kind: w.kind, name: w.name, visit: w.visit, runs: w.runs})
	}
}

// heard settles what everything that a body records has in common; ok says that the
// holder is heard.
func (m *runModel) heard(t *rapid.T, fence uint64) (ok bool) {
	t.Helper()
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case m.o.ended:
		m.refused(t, flow.ErrRunEnded)
	case fence == 0 || fence != m.o.holder:
		m.refused(t, flow.ErrStaleFence)
	default:
		return true
	}
	return false
}

func (m *runModel) Steps(t *rapid.T) {
	var parts []flow.Input
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3, 0}).Draw(t, "parts") {
		name, visit := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), rapid.Int64Range(1, 3).Draw(t, "visit")
		switch p := did(name, visit, rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "said")); rapid.IntRange(0, 3).Draw(t, "part") {
		case 0:
			p.ErrType, p.Payload = "E", nil
			parts = append(parts, p)
		case 1:
			parts = append(parts, take(name, rapid.SampledFrom([]int64{visit, m.o.next("signal", name), m.o.next("signal", name)}).Draw(t, "take")))
		default:
			parts = append(parts, p)
		}
	}
	if rapid.Bool().Draw(t, "with state") {
		state := rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "state")
		parts = append(parts, flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte(state)}})
	}
	fence := m.fence(t)
	if m.steps(fence, parts...); !m.heard(t, fence) {
		return
	}
	after, kinds, refusal := m.o.recorded, []flow.RecordKind(nil), error(nil)
	after.calls, after.kept = slices.Clone(after.calls), slices.Clone(after.kept)
	for i := range parts {
		k, err := after.part(&parts[i], &m.o.recorded)
		if err != nil {
			refusal = err
			break
		}
		kinds = append(kinds, k...)
	}
	if refusal != nil {
		m.refused(t, refusal)
		return
	}
	m.want(t, kinds...)
	if f := m.flags(); !f.Has(flow.FlagOK) || f.Has(flow.FlagCancel) != m.o.cancelAsked {
		t.Fatalf("steps are answered %b", f)
	}
	m.o.recorded = after
}

// part records one part of InSteps, and says which records it makes or why it is refused.
// before is what stood there before the request: of a wait that asks twice in one request
// the second is out of turn.
func (o *recorded) part(p *flow.Input, before *recorded) ([]flow.RecordKind, error) {
	switch p.Kind {
	case flow.InStep:
		said := p.ErrType + string(p.Payload)
		if said == "" {
			said = "null"
		}
		if c := o.find("step", p.Name, p.Visit); c != nil {
			if c.said != said {
				return nil, flow.ErrStepConflict
			}
			return nil, nil
		}
		o.calls = append(o.calls, called{kind: "step", name: p.Name, visit: p.Visit, said: said})
		o.fresh = 0
		return []flow.RecordKind{flow.RecStep}, nil
	case flow.InTake:
		switch {
		case before.find("signal", p.Name, p.Visit) != nil:
			return nil, nil
		case p.Visit != o.next("signal", p.Name):
			return nil, flow.ErrInvalid
		case o.oldest(p.Name) < 0:
			return nil, nil
		}
		o.get(p.Name, p.Visit)
		return []flow.RecordKind{flow.RecTaken}, nil
	default:
		if o.state == string(p.Payload) {
			return nil, nil
		}
		o.state, o.fresh = string(p.Payload), 0
		return []flow.RecordKind{flow.RecState}, nil
	}
}

func (m *runModel) Signal(t *rapid.T) {
	name, request := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), rapid.SampledFrom([]string{"", "", "r-1", "r-2", "r-3"}).Draw(t, "request")
	payload := []byte(fmt.Sprint("p", m.o.last+1))
	m.step(flow.InSignal, flow.Fields{Name: name, RequestID: request, Payload: payload})
	known := uint64(0)
	for _, s := range m.o.kept {
		if request != "" && s.RequestID == request {
			known = s.Number
		}
	}
	for _, c := range m.o.calls {
		if request != "" && c.request == request {
			known = c.number
		}
	}
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
		return
	case known != 0:
		m.want(t)
		if a := m.answered(); a.Flags != flow.FlagRepeat || a.Number != known {
			t.Fatalf("a repeat of signal %d is answered %b, %d", known, a.Flags, a.Number)
		}
		return
	case m.o.ended:
		m.refused(t, flow.ErrRunEnded)
		return
	}
	m.o.last++
	if a := m.answered(); a.Flags != flow.FlagOK || a.Number != m.o.last {
		t.Fatalf("signal %d is answered %b, %d", m.o.last, a.Flags, a.Number)
	}
	m.o.kept = append(slices.Clone(m.o.kept), flow.Signal{Number: m.o.last, Name: name, Payload: payload, RequestID: request})
	if m.o.suspended && m.o.wait.kind == "signal" && m.o.wait.name == name {
		m.want(t, flow.RecSignalled, flow.RecWoken)
		m.woken(m.o.last)
		return
	}
	m.want(t, flow.RecSignalled)
}

func (m *runModel) Start(t *rapid.T) {
	name, visit := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), rapid.Int64Range(1, 2).Draw(t, "visit")
	in := m.in(flow.InStart, flow.Fields{Fence: m.fence(t), Name: name, Visit: visit})
	if rapid.Bool().Draw(t, "child") {
		in.Flags = flow.FlagChild
	}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(testIDs(2, 3, 4)), 1, 2, rapid.ID).Draw(t, "runs")
	var letters []string
	for i, id := range ids {
		part := flow.Input{Kind: flow.InCreate, Fields: flow.Fields{Run: id, Workflow: "sub"}}
		if i == 1 {
			part.Kind = flow.InSubmit // it exists already
		} else {
			letters = append(letters, fmt.Sprint(flow.InCreate, id))
		}
		in.Parts = append(in.Parts, part)
	}
	if m.send(in); !m.heard(t, in.Fence) {
		return
	}
	child := in.Flags.Has(flow.FlagChild)
	if c := m.o.find("start", name, visit); c != nil {
		if len(c.runs) != len(ids) || c.child != child {
			m.refused(t, flow.ErrStepConflict)
			return
		}
		m.want(t)
		m.wantLetters(t)
		if a := m.answered(); !a.Flags.Has(flow.FlagRepeat) || !slices.Equal(flow.DecodeRunIDs(a.Extra), c.runs) {
			t.Fatalf("a repeat is answered %b with %v", a.Flags, flow.DecodeRunIDs(a.Extra))
		}
		return
	}
	m.want(t, flow.RecStarted)
	m.wantLetters(t, letters...)
	if a := m.answered(); !a.Flags.Has(flow.FlagOK) || !slices.Equal(flow.DecodeRunIDs(a.Extra), ids) {
		t.Fatalf("a start is answered %b with %v", a.Flags, flow.DecodeRunIDs(a.Extra))
	}
	for _, l := range m.letters() {
		if l.Parent != m.run.ID() {
			t.Fatalf("a child has the parent %v", l.Parent)
		}
	}
	m.o.calls = append(m.o.calls, called{kind: "start", name: name, visit: visit, runs: ids, child: child})
	m.o.fresh = 0
}

func (m *runModel) HandOn(t *rapid.T) {
	m.rare(t)
	m.handedOn(t)
}

func (m *runModel) handedOn(t *rapid.T) {
	t.Helper()
	m.handOn(9)
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case m.o.ended || !m.o.untouched || !m.o.mayMove:
		m.want(t)
		m.wantLetters(t)
	default:
		m.want(t, flow.RecContinued)
		m.wantLetters(t, fmt.Sprint(flow.InCreate, testID(9)))
		m.o.ended, m.o.continued, m.o.kept, m.o.waiters = true, true, nil, nil
	}
}

func (m *runModel) ChainOver(t *rapid.T) {
	m.step(flow.InChainOver, flow.Fields{})
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case !m.o.continued || m.o.chainOver:
		m.want(t)
	default:
		m.want(t, flow.RecChainOver)
		if m.o.successor {
			m.wantLetters(t, fmt.Sprint(flow.InChainOver, successorFields().Other))
		}
		m.o.chainOver = true
	}
}

// books holds that what the run tells of itself is what the oracle has.
func (m *runModel) books(t *rapid.T) {
	t.Helper()
	items, more := m.run.History(0, flow.MaxHistoryBytes)
	if len(items) != len(m.o.calls) || more {
		t.Fatalf("%d entries, want %d", len(items), len(m.o.calls))
	}
	for i, c := range m.o.calls {
		it := items[i]
		if it.Name != c.name || it.Visit != c.visit || it.Signal != c.number || c.said != it.ErrType+string(it.Payload) || !slices.Equal(it.Runs, c.runs) {
			t.Fatalf("entry %d is %+v, want %+v", i+1, it, c)
		}
		if got, place, ok := m.run.Entry(it.Kind, c.name, c.visit); !ok || place != int64(i)+1 || got.Kind != it.Kind {
			t.Fatalf("entry %d is found at %d", i+1, place)
		}
	}
	var signals []uint64
	for i, s := range m.run.Signals() {
		signals = append(signals, s.Number)
		if s.Delivered != (i == 0 && m.o.fresh != 0) {
			t.Fatalf("signal %d is delivered: %t", s.Number, s.Delivered)
		}
	}
	var want []uint64
	if m.o.fresh != 0 {
		want = append(want, m.o.fresh)
	}
	for _, s := range m.o.kept {
		want = append(want, s.Number)
	}
	if !slices.Equal(signals, want) || string(m.run.State()) != m.o.state {
		t.Fatalf("signals %v, want %v; state %q, want %q", signals, want, m.run.State(), m.o.state)
	}
	v := m.run.View()
	if v.ContinuedTo.IsZero() == m.o.continued || (v.GatedFrom == successorFields().Other) != m.o.successor || !slices.Equal(v.Awaits, m.o.open()) {
		t.Fatalf("the run is %+v; oracle %+v", v, m.o)
	}
}
