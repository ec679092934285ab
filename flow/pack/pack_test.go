package pack_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow/pack"
)

// written is what f writes.
func written(t *testing.T, f func(*pack.Writer)) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := pack.NewWriter(msgpack.NewEncoder(&buf))
	f(&w)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	return buf.Bytes()
}

// reader reads b without knowing how much remains.
func reader(b []byte) pack.Reader {
	return pack.NewReader(msgpack.NewDecoder(bytes.NewReader(b)), nil)
}

func TestEverythingComesBack(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	r := reader(written(t, func(w *pack.Writer) {
		w.Array(6)
		w.Number(-5)
		w.Flag(true)
		w.Text(long)
		w.Bytes(nil)
		w.Bytes([]byte{1, 2, 3})
		w.Nil()
	}))
	var three [3]byte
	if n := r.Array(6, 6); n != 6 {
		t.Errorf("array of %d", n)
	}
	if v := r.Between(-5, 5); v != -5 {
		t.Errorf("number %d", v)
	}
	if !r.Flag() || r.Text(len(long)) != long || len(r.Bytes(nil, 0)) != 0 {
		t.Error("flag, text or empty bytes differ")
	}
	if r.Exactly(three[:]); three != [3]byte{1, 2, 3} {
		t.Errorf("bytes %v", three)
	}
	if _, there := r.Optional(0, 9); there {
		t.Error("nil is there")
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestWhatIsOutOfBoundsIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		put  func(*pack.Writer)
		take func(*pack.Reader)
		want string
	}{
		{"array too long", func(w *pack.Writer) { w.Array(3) }, func(r *pack.Reader) { r.Array(0, 2) }, "3 parts where 0 to 2"},
		{"array too short", func(w *pack.Writer) { w.Array(1) }, func(r *pack.Reader) { r.Array(2, 2) }, "1 parts where 2 to 2"},
		{"no array", (*pack.Writer).Nil, func(r *pack.Reader) { r.Array(0, 2) }, "nothing where"},
		{"number too large", func(w *pack.Writer) { w.Number(9) }, func(r *pack.Reader) { r.Between(0, 8) }, "9 where 0 to 8"},
		{"text too long", func(w *pack.Writer) { w.Text("abc") }, func(r *pack.Reader) { r.Text(2) }, "3 bytes are announced where at most 2"},
		{"bytes too short", func(w *pack.Writer) { w.Bytes([]byte{1}) }, func(r *pack.Reader) { r.Exactly(make([]byte, 2)) }, "1 bytes where 2"},
		{"another type", func(w *pack.Writer) { w.Text("abc") }, func(r *pack.Reader) { r.Number() }, "msgpack"},
	} {
		r := reader(written(t, c.put))
		c.take(&r)
		if r.Err() == nil || !strings.Contains(r.Err().Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, r.Err(), c.want)
		}
		first := r.Err()
		r.Failf("a later fault")
		if r.Number() != 0 || r.Err() != first { //nolint:errorlint // the very value is kept
			t.Errorf("%s: the first error is not kept", c.name)
		}
	}
}

// A length of a gigabyte allocates next to nothing, whether or not it is known how
// many bytes remain.
func TestALengthAloneAllocatesLittle(t *testing.T) {
	claim := []byte{0xC6, 0x40, 0, 0, 0, 1, 2, 3}
	for name, room := range map[string]func() int{"unknown": nil, "known": func() int { return 3 }} {
		r := pack.NewReader(msgpack.NewDecoder(bytes.NewReader(claim)), room)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.Bytes(nil, 2<<30)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; r.Err() == nil || got > 1<<20 {
			t.Errorf("%s room: error %v, %d bytes allocated", name, r.Err(), got)
		}
	}
}
