package runactor

import (
	"bytes"
	"errors"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// FuzzTape reads bytes as a tape of operations against one run: each pair is an
// operation and its argument. The world checks after each of them that Step changed
// nothing, refused inputs appended nothing, every invariant holds, replay is the
// live run, and no fence counts after it has left.
func FuzzTape(f *testing.F) {
	f.Fuzz(func(t *testing.T, tape []byte) {
		w := newWorld(t)
		w.now = epoch
		w.submit()
		for len(tape) >= 2 && len(w.log) < 200 {
			turn(w, tape[0], tape[1])
			tape = tape[2:]
		}
		w.restart()
		w.restore()
	})
}

func turn(w *world, op, arg byte) {
	f := flow.Fields{
		Fence: uint64(arg & 7), Until: w.now.Add(flow.Span(arg) * flow.Second / 8),
		Payload: []byte{arg}, ErrType: "E", ErrText: string(make([]byte, int(arg)*64)),
	}
	if arg&8 != 0 {
		f.Flags = flow.FlagRetryable | flow.FlagAbsolute
	}
	if arg&16 != 0 {
		f.Fence = w.run.Fence()
	}
	switch k := flow.InputKind(op % 24); k {
	case 0:
		w.now = w.now.Add(flow.Span(arg) * flow.Second / 16)
	case 20:
		w.restart()
	case 21:
		w.restore()
	case 22:
		if w.run.Status() == flow.StatusQueued {
			w.admit(flow.Fields{
				Fence: w.run.Fence() + 1 + uint64(arg&1), Worker: "w", Lease: flow.Span(arg) * flow.Second,
				Attempts: int64(arg & 3), Backoff: flow.Span(arg>>4) * flow.Second,
			})
		}
	case flow.InSubmit, flow.InComplete, flow.InFail, flow.InSuspend, flow.InHeartbeat, flow.InCancel, flow.InTerminate, flow.InRunTick:
		w.step(k, f)
	default:
		lateTurn(w, k, arg)
	}
}

// lateTurn is a turn of what a body records, or of what comes from other runs.
func lateTurn(w *world, k flow.InputKind, arg byte) {
	name, fence, visit := string('a'+rune(arg&3)), w.run.Fence(), int64(arg>>2&7)
	if arg >= 0xF0 {
		fence++
	}
	switch k {
	case flow.InSteps:
		w.steps(fence, did(name, visit, string('0'+rune(arg>>5))), take(name, visit), flow.Input{Kind: flow.InState, Fields: flow.Fields{Payload: []byte{'{', arg}}})
	case flow.InSignal:
		w.signal(name, string('0'+rune(arg>>2)))
	case flow.InStart:
		w.start(fence, name, flow.Flags(arg>>7)*flow.FlagChild, 2+arg&3, 6)
	case flow.InWatch:
		w.watch(arg)
	case flow.InOutcome:
		w.step(k, flow.Fields{Root: testID(2 + arg&3), Number: uint64(arg >> 2), Status: flow.Status(arg >> 5), Payload: []byte{arg}})
	case flow.InHandOn:
		w.handOn(9)
	case flow.InChainOver:
		w.step(k, flow.Fields{})
	case 16:
		w.step(flow.InSuspend, flow.Fields{Fence: fence, Flags: flow.FlagSignal, Name: name, Visit: visit, Interval: flow.Span(arg>>5) * flow.Second})
	case 17:
		w.waitRuns(fence, 2+arg&3, 2+arg>>6)
	case 18:
		w.step(flow.InSuspend, flow.Fields{Fence: fence, Flags: flow.FlagRecorded, Name: name, Until: w.now.Add(flow.Span(arg>>4) * flow.Second)})
	default:
		w.steps(fence, take(name, visit))
	}
}

// FuzzDecodeMsgpack holds that no bytes make DecodeMsgpack panic or allocate far
// beyond their length, and that what it takes is a run that holds its invariants
// and can be written and read again.
func FuzzDecodeMsgpack(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		r := New(flow.RunID{})
		if err := r.DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(body))); err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("error %v is of no family", err)
			}
			return
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		again := New(flow.RunID{})
		decode(t, again, r.Fingerprint())
		if !bytes.Equal(again.Fingerprint(), r.Fingerprint()) {
			t.Fatalf("read again it is\n%+v\nwas\n%+v", again.View(), r.View())
		}
		var out flow.Out
		r.Resume(epoch, &out)
		for k := flow.InSubmit; k <= flow.InChainOver; k++ {
			for _, flags := range []flow.Flags{0, flow.FlagSignal, flow.FlagRuns, flow.FlagRecorded} {
				out.Reset()
				in := flow.Input{Kind: k, Fields: flow.Fields{Run: r.ID(), Fence: r.Fence(), Name: "x", Number: 1, Flags: flags, Stamp: testStamp}}
				in.Extra = flow.EncodeRunIDs(testIDs(2))
				r.Step(epoch, &in, &out)
			}
		}
		r.Events()
		r.View()
		r.Signals()
		r.History(0, 1000)
	})
}
