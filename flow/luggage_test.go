package flow

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sampleLuggage has every field of a luggage set.
func sampleLuggage() *Luggage {
	return &Luggage{
		Signals: []Signal{
			{Number: 2, Name: "approve", Payload: []byte(`{"by":"zoë"}`), RequestID: "r-2", At: 7},
			{Number: 5, Name: "x", At: -1},
		},
		Last: 1<<64 - 1,
		Waiters: []Waiter{
			{Waits: RunID{1, 15: 2}, Asked: RunID{2, 15: 3}, Number: 4},
			{Waits: RunID{1}, Asked: RunID{5}, Number: 1<<64 - 1},
		},
	}
}

// Fails when a signal or a waiter doesn't come out of the luggage as it was put in, in
// its order, or when nothing is written as something.
func TestP76LuggageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want Luggage
		text := func(name string, most int) string { return rapid.StringN(0, -1, most).Draw(t, name) }
		id := func(name string) RunID { return RunID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name)) }
		for range rapid.IntRange(0, 4).Draw(t, "signals") {
			s := Signal{
				Number: rapid.Uint64().Draw(t, "number"), Name: text("name", MaxNameBytes),
				RequestID: text("request", MaxRequestIDBytes), At: Instant(rapid.Int64().Draw(t, "at")),
			}
			if b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"); len(b) > 0 {
				s.Payload = b
			}
			want.Signals = append(want.Signals, s)
			want.Last = max(want.Last, s.Number, 1)
		}
		for range rapid.IntRange(0, 3).Draw(t, "waiters") {
			want.Waiters = append(want.Waiters, Waiter{id("waits"), id("asked"), rapid.Uint64().Draw(t, "wait")})
		}
		body := want.Encode()
		if want.Empty() != (body == nil) {
			t.Fatalf("nothing to take over is %d bytes", len(body))
		}
		got, err := DecodeLuggage(body)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("error %v (-want +got):\n%s", err, diff)
		}
	})
}

// Fails when the number of the last signal is lost once all were handled: the successor
// would give a number twice.
func TestP76LuggageKeepsTheLastNumber(t *testing.T) {
	for _, want := range []Luggage{{Last: 9}, {Waiters: []Waiter{{Number: 1}}}} {
		got, err := DecodeLuggage(want.Encode())
		if diff := cmp.Diff(want, got); err != nil || diff != "" || want.Empty() {
			t.Errorf("error %v, empty %t (-want +got):\n%s", err, want.Empty(), diff)
		}
	}
	if l := (Luggage{}); !l.Empty() || l.Encode() != nil {
		t.Error("nothing is something")
	}
	if l, err := DecodeLuggage(nil); err != nil || !l.Empty() {
		t.Errorf("no bytes are %+v, error %v", l, err)
	}
}

// Fails when the largest luggage that a run may have doesn't come back: its successor
// could not be made.
func TestP76LargestLuggage(t *testing.T) {
	var l Luggage
	for n := range MaxSignals {
		l.Signals = append(l.Signals, Signal{Number: uint64(n) + 1, Name: "x"})
	}
	l.Last = MaxSignals
	for n := range MaxWaiters {
		l.Waiters = append(l.Waiters, Waiter{Waits: RunID{byte(n)}, Number: 1})
	}
	got, err := DecodeLuggage(l.Encode())
	if err != nil || len(got.Signals) != MaxSignals || len(got.Waiters) != MaxWaiters {
		t.Fatalf("%d signals and %d waiters came back: %v", len(got.Signals), len(got.Waiters), err)
	}
	for name, over := range map[string]Luggage{
		"signals": {Signals: append(slices.Clone(l.Signals), Signal{}), Last: 1}, "waiters": {Waiters: append(slices.Clone(l.Waiters), Waiter{})},
	} {
		if _, err := DecodeLuggage(over.Encode()); !errors.Is(err, ErrCodec) {
			t.Errorf("one too many %s: error %v", name, err)
		}
	}
	l.Signals = []Signal{{Number: 1, Name: strings.Repeat("n", MaxNameBytes), Payload: make([]byte, MaxLuggageBytes), RequestID: strings.Repeat("r", MaxRequestIDBytes)}}
	body := l.Encode()
	if got, err := DecodeLuggage(body); err != nil || len(got.Signals[0].Payload) != MaxLuggageBytes {
		t.Errorf("one large signal: %v", err)
	}
	rec := Record{Kind: RecSubmitted, Fields: Fields{Payload: make([]byte, MaxPayloadBytes), Extra: body}}
	if n := len(encoded(rec)); n > MaxRecordBytes {
		t.Errorf("with the largest parameters it is a record of %d bytes", n)
	}
	if got := decoded(t, encoded(rec)); !bytes.Equal(got.Extra, body) {
		t.Error("it isn't what a record brings")
	}
}

// Fails when cut or altered luggage panics or is refused with an error of no family, when
// cut luggage is read, or that of a newer build.
func TestP76LuggageDamageIsRefused(t *testing.T) {
	body := sampleLuggage().Encode()
	for n := 1; n < len(body); n++ {
		if _, err := DecodeLuggage(body[:n]); !errors.Is(err, ErrCodec) {
			t.Fatalf("cut at %d: error %v", n, err)
		}
		for bit := range 8 {
			bad := bytes.Clone(body)
			bad[n] ^= 1 << bit
			if _, err := DecodeLuggage(bad); err != nil && !errors.Is(err, ErrCodec) {
				t.Fatalf("bit %d of byte %d altered: error %v", bit, n, err)
			}
		}
	}
	body[1] = codecVersion + 1
	if _, err := DecodeLuggage(body); !errors.Is(err, ErrCodec) || !strings.Contains(err.Error(), "version 2, this build knows 1") {
		t.Errorf("a newer one: error %v", err)
	}
}

// Fails when a number of signals or waiters that is only claimed is allocated or waited
// for, or one over the bound is taken.
func TestP76LuggageClaimsAllocateLittle(t *testing.T) {
	for name, body := range map[string]string{
		"signals":     "\x94\x01\x01\xdd\x00\x00\x27\x10",
		"too many":    "\x94\x01\x01\xdd\x00\x00\x27\x11",
		"huge":        "\x94\x01\x01\xdd\x7f\xff\xff\xff",
		"waiters":     "\x94\x01\x01\x90\xdc\x00\x65",
		"payload":     "\x94\x01\x01\x91\x95\x01\xa0\xc6\x40\x00\x00\x00",
		"large":       "\x94\x01\x01\x91\x95\x01\xa0\xc6\x00\x1f\xff\xff",
		"not a array": "\x07",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeLuggage([]byte(body))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrCodec) || n > 2*MaxRecordBytes {
			t.Errorf("%s: error %v, %d bytes allocated", name, err, n)
		}
	}
}

// Fails when ids don't come back in their order, or bytes that are no whole id become one.
func TestRunIDLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []RunID
		for range rapid.IntRange(0, MaxAwaited).Draw(t, "ids") {
			want = append(want, RunID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")))
		}
		body := EncodeRunIDs(want)
		if len(body) != 16*len(want) {
			t.Fatalf("%d ids are %d bytes", len(want), len(body))
		}
		over := rapid.SliceOfN(rapid.Byte(), 0, 15).Draw(t, "over")
		if got := DecodeRunIDs(append(body, over...)); !slices.Equal(got, want) {
			t.Fatalf("%v came back as %v", want, got)
		}
	})
}
