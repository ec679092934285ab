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
	switch k := flow.InputKind(op % 12); k {
	case 0:
		w.now = w.now.Add(flow.Span(arg) * flow.Second / 16)
	case 9:
		w.restart()
	case 10:
		w.restore()
	case 11:
		if w.run.Status() == flow.StatusQueued {
			w.admit(flow.Fields{
				Fence: w.run.Fence() + 1 + uint64(arg&1), Worker: "w", Lease: flow.Span(arg) * flow.Second,
				Attempts: int64(arg & 3), Backoff: flow.Span(arg>>4) * flow.Second,
			})
		}
	default:
		w.step(k, f)
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
		r.Step(epoch, &flow.Input{Kind: flow.InRunTick, Fields: flow.Fields{Run: r.ID()}}, &out)
		r.Events()
		r.View()
	})
}
