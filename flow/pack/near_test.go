package pack_test

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow/pack"
)

// calls are what a Reader is asked, each with an answer as text.
var calls = []func(*pack.Reader, *pack.Names) string{
	func(r *pack.Reader, _ *pack.Names) string { return fmt.Sprint(r.Array(0, 5)) },
	func(r *pack.Reader, _ *pack.Names) string { return fmt.Sprint(r.Optional(1, 4)) },
	func(r *pack.Reader, _ *pack.Names) string { return fmt.Sprint(r.Number()) },
	func(r *pack.Reader, _ *pack.Names) string { return fmt.Sprint(r.Between(-3, 1<<33)) },
	func(r *pack.Reader, _ *pack.Names) string { return fmt.Sprint(r.Flag()) },
	func(r *pack.Reader, _ *pack.Names) string { return r.Text(40) },
	func(r *pack.Reader, n *pack.Names) string { return r.Name(n, 40) },
	func(r *pack.Reader, _ *pack.Names) string { return string(r.Bytes(nil, 300)) },
	func(r *pack.Reader, _ *pack.Names) string {
		var b [3]byte
		r.Exactly(b[:])
		return string(b[:])
	},
}

// answers is what a tape of calls makes of what r reads, until the first error.
func answers(r pack.Reader, tape []byte) string {
	var b strings.Builder
	var names pack.Names
	for _, c := range tape {
		fmt.Fprintf(&b, "%q ", calls[int(c)%len(calls)](&r, &names))
		if r.Failed() {
			fmt.Fprintf(&b, "error %v", r.Err())
			break
		}
	}
	return b.String()
}

// agree fails when it makes a difference how much of what is read lies in memory.
func agree(t interface{ Fatalf(string, ...any) }, input, tape []byte) {
	plain := answers(pack.NewReader(msgpack.NewDecoder(bytes.NewReader(input)), nil), tape)
	buffered := bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(input)), 16)
	ready := bufio.NewReaderSize(bytes.NewReader(input), 32)
	for name, dec := range map[string]*msgpack.Decoder{
		"a byte at a time": msgpack.NewDecoder(buffered), "a buffer at a time": msgpack.NewDecoder(ready),
	} {
		if got := answers(pack.NewReader(dec, nil), tape); got != plain {
			t.Fatalf("%x by %v, %s:\n%s\nwant\n%s", input, tape, name, got, plain)
		}
	}
	src := bytes.NewReader(input)
	plain = answers(pack.NewReader(msgpack.NewDecoder(src), src.Len), tape)
	var body pack.Body
	body.Reset(input)
	if got := answers(pack.NewReader(msgpack.NewDecoder(&body), body.Len), tape); got != plain {
		t.Fatalf("%x by %v, in memory:\n%s\nwant\n%s", input, tape, got, plain)
	}
}

// Fails when a Reader gives other values or other errors where it doesn't ask the
// decoder.
func TestMemoryMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tape := rapid.SliceOfN(rapid.ByteRange(0, byte(len(calls)-1)), 1, 12).Draw(t, "tape")
		var buf bytes.Buffer
		enc := msgpack.NewEncoder(&buf)
		enc.UseCompactInts(true)
		w := pack.NewWriter(enc)
		for _, c := range tape { // mostly what the call expects
			switch c {
			case 0, 1:
				w.Array(rapid.IntRange(0, 6).Draw(t, "parts"))
			case 2, 3:
				w.Number(rapid.Int64().Draw(t, "number"))
			case 4:
				w.Flag(rapid.Bool().Draw(t, "flag"))
			case 8:
				w.Bytes([]byte{1, 2, 3})
			default:
				w.Text(strings.Repeat("x", rapid.IntRange(0, 310).Draw(t, "text")))
			}
		}
		input := buf.Bytes()
		if at := rapid.IntRange(0, 4*len(input)).Draw(t, "damage"); at < len(input) {
			input[at] = rapid.Byte().Draw(t, "damaged")
		}
		agree(t, input[:len(input)-min(len(input), rapid.IntRange(0, 3).Draw(t, "cut"))], tape)
	})
}

// FuzzMemoryMakesNoDifference is the same for any bytes.
func FuzzMemoryMakesNoDifference(f *testing.F) {
	for c := range 256 { // each first byte, by each call
		for call := range calls {
			f.Add(append([]byte{byte(c)}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), []byte{byte(call), 2, 2})
		}
	}
	f.Fuzz(func(t *testing.T, input, tape []byte) { agree(t, input, tape) })
}

// Fails when the extent of a value isn't what is read of it, when one is found that
// isn't whole, or when a length alone is believed.
func TestExtent(t *testing.T) {
	b := written(t, func(w *pack.Writer) {
		w.Array(4)
		w.Text("name")
		w.Array(2)
		w.Number(-7)
		w.Number(1 << 40)
		w.Flag(true)
		w.Bytes(make([]byte, 200))
	})
	if n := pack.Extent(append(bytes.Clone(b), 1, 2, 3)); n != len(b) {
		t.Errorf("extent %d of %d", n, len(b))
	}
	for n := range b {
		if got := pack.Extent(b[:n]); got != 0 {
			t.Errorf("extent %d of the first %d bytes", got, n)
		}
	}
	for _, claim := range [][]byte{{0xDD, 0xFF, 0xFF, 0xFF, 0xFF}, {0xDA, 0xFF, 0xFF, 1}, {0xC1}, {0x81, 1, 1}} {
		if got := pack.Extent(claim); got != 0 {
			t.Errorf("extent %d of %x", got, claim)
		}
	}
}

// Fails when equal names aren't one, a name changes with what it was read from, or a
// long one is kept.
func TestNamesAreShared(t *testing.T) {
	long := strings.Repeat("l", 1000)
	input := written(t, func(w *pack.Writer) {
		for _, s := range []string{"sync", "cyns", "sync", long, long, ""} {
			w.Text(s)
		}
	})
	var body pack.Body
	body.Reset(input)
	r := pack.NewReader(msgpack.NewDecoder(&body), body.Len)
	var names pack.Names
	var got []string
	for range 6 {
		got = append(got, r.Name(&names, 2000))
	}
	clear(input)
	if r.Err() != nil || strings.Join(got, " ") != "sync cyns sync "+long+" "+long+" " {
		t.Fatalf("error %v, names %q", r.Err(), got)
	}
	if unsafe.StringData(got[0]) != unsafe.StringData(got[2]) {
		t.Error("equal names are two")
	}
	if unsafe.StringData(got[3]) == unsafe.StringData(got[4]) {
		t.Error("a long name is kept")
	}
}
