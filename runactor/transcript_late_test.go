package runactor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/pyrula/pyrula-node/flow"
)

// late reads the arguments that few commands have.
func (p *player) late(f *flow.Fields, a datadriven.CmdArg) {
	val := ""
	if len(a.Vals) > 0 {
		val = a.Vals[0]
	}
	switch a.Key {
	case "signal":
		f.Flags, f.Name = f.Flags|flow.FlagSignal, val
	case "timeout":
		f.Interval = span(val)
	case "moment":
		f.Flags, f.Name = f.Flags|flow.FlagRecorded, val
	case "runs":
		f.Flags, f.Extra = f.Flags|flow.FlagRuns, flow.EncodeRunIDs(testRuns(a.Vals))
	case "child":
		f.Flags |= flow.FlagChild
	case "name":
		f.Name = val
	case "visit":
		f.Visit = number(val)
	case "request":
		f.RequestID = val
	case "by":
		f.Other, f.Root = testID(byte(number(val))), testID(1)
	case "to":
		f.Other, f.Stamp = testID(byte(number(val))), testStamp
	case "of":
		f.Root = testID(byte(number(val)))
	case "wait":
		f.Number = uint64(number(val))
	case "status":
		f.Status, _ = flow.ParseStatus(val)
	case "did", "failed", "take", "state": // parts of steps
	default:
		p.t.Fatalf("unknown argument %q", a.Key)
	}
}

// parts plays steps and start, which have parts.
func (p *player) parts(cmd string, f flow.Fields, args []datadriven.CmdArg) {
	if cmd == "start" {
		in := p.in(flow.InStart, f)
		for _, id := range flow.DecodeRunIDs(in.Extra) {
			in.Parts = append(in.Parts, flow.Input{Kind: flow.InCreate, Fields: flow.Fields{Run: id, Workflow: "sub"}})
		}
		in.Extra, in.Flags = nil, in.Flags&^flow.FlagRuns
		p.world.send(in)
		return
	}
	in := p.in(flow.InSteps, flow.Fields{Fence: f.Fence})
	for _, a := range args {
		switch a.Key {
		case "did":
			in.Parts = append(in.Parts, did(a.Vals[0], number(a.Vals[1]), a.Vals[2]))
		case "failed":
			part := flow.Input{Kind: flow.InStep}
			part.Name, part.Visit, part.ErrType = a.Vals[0], number(a.Vals[1]), a.Vals[2]
			in.Parts = append(in.Parts, part)
		case "take":
			in.Parts = append(in.Parts, take(a.Vals[0], number(a.Vals[1])))
		case "state":
			in.Parts = append(in.Parts, flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte(a.Vals[0])}})
		}
	}
	p.world.send(in)
}

func testRuns(vals []string) []flow.RunID {
	var ids []flow.RunID
	for _, v := range vals {
		ids = append(ids, testID(byte(number(v))))
	}
	return ids
}

// numbers are the test's numbers of runs.
func numbers(ids []flow.RunID) string {
	var list []string
	for _, id := range ids {
		list = append(list, strconv.Itoa(int(id[15])))
	}
	return strings.Join(list, ",")
}

// lateWords are the fields that few records and letters have; numbered says that the number
// is that of a signal or a wait.
func lateWords(b *strings.Builder, f *flow.Fields, numbered bool) {
	word(b, "name", f.Name != "", f.Name)
	word(b, "visit", f.Visit != 0, f.Visit)
	word(b, "number", numbered && f.Number != 0, f.Number)
	word(b, "other", !f.Other.IsZero(), f.Other[15])
	word(b, "of", !f.Root.IsZero(), f.Root[15])
	word(b, "status", f.Status != 0, f.Status)
}

// sent tells a letter.
func sent(b *strings.Builder, e *flow.Effect) {
	fmt.Fprintf(b, " %v to=%d", e.Input, e.Run[15])
	lateWords(b, &e.Fields, true)
	word(b, "error", e.ErrType != "", e.ErrType)
	word(b, "reason", e.Reason != "", strings.Replace(e.Reason, testID(1).String(), "1", 1))
	word(b, "parent", !e.Parent.IsZero(), e.Parent[15])
	if e.Input == flow.InCreate && len(e.Extra) > 0 {
		l, err := flow.DecodeLuggage(e.Extra)
		if err != nil {
			panic("transcript: " + err.Error())
		}
		for _, s := range l.Signals {
			fmt.Fprintf(b, " signal=%d:%s", s.Number, s.Name)
		}
		for _, w := range l.Waiters {
			fmt.Fprintf(b, " waiter=%d", w.Waits[15])
		}
	}
	word(b, "body", len(e.Payload) > 0, string(e.Payload))
	b.WriteByte('\n')
}

var itemNames = map[ItemKind]string{
	ItemStep: "step", ItemStepError: "failed", ItemMoment: "moment", ItemSignal: "signal", ItemTimeout: "timeout",
	ItemRuns: "runs", ItemChildren: "children", ItemWorkflows: "workflows",
}

// history tells what the run has recorded, one entry a line.
func (p *player) history() string {
	var b strings.Builder
	items, _ := p.run.History(0, flow.MaxHistoryBytes)
	for i := range items {
		it := &items[i]
		fmt.Fprintf(&b, "%d %s %s/%d", i+1, itemNames[it.Kind], it.Name, it.Visit)
		word(&b, "number", it.Signal != 0, it.Signal)
		word(&b, "runs", len(it.Runs) > 0, numbers(it.Runs))
		for _, o := range it.Outcomes {
			fmt.Fprintf(&b, " %v:%s", o.Status, o.Payload)
		}
		word(&b, "error", it.ErrType != "", it.ErrType)
		word(&b, "body", len(it.Payload) > 0, string(it.Payload))
		b.WriteByte('\n')
	}
	if len(p.run.State()) > 0 {
		fmt.Fprintf(&b, "state %s\n", p.run.State())
	}
	return b.String()
}

// signals tells what the body has still to handle.
func (p *player) signals() string {
	var b strings.Builder
	for _, s := range p.run.Signals() {
		fmt.Fprintf(&b, "%d %s", s.Number, s.Name)
		word(&b, "body", len(s.Payload) > 0, string(s.Payload))
		word(&b, "delivered", s.Delivered, "yes")
		b.WriteByte('\n')
	}
	return b.String()
}
