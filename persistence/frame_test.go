package persistence

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares bytes with a file of hexadecimal lines. Such a file changes only
// with the version of its format.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := hex.Dump(got)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: bytes on disk have changed:\n%s\nwant\n%s", name, text, want)
	}
}

// goldenItems are one of each kind, with numbers at the edges of their encodings.
func goldenItems() []item {
	return []item{
		{kind: kindBoot, epoch: 3, wall: 1_700_000_000_000_000_000},
		{kind: kindRecovered, epoch: 3, seq: 1 << 40, wall: -1, body: []byte{9, 0, 0, 0, 0, 0, 0, 0}},
		{kind: kindEntry, shard: 65535, epoch: 3, seq: 127, wall: 0, body: nil},
		{kind: kindEntry, shard: 7, epoch: 3, seq: 128, wall: 1, body: []byte("body")},
	}
}

func encodeFrame(t testing.TB, f frame, items []item) []byte {
	t.Helper()
	var w frameWriter
	w.reset()
	for i := range items {
		if err := w.add(&items[i]); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Clone(w.finish(f))
}

// TestFrameBytesAreFixed fails when the bytes of version 1 change.
func TestFrameBytesAreFixed(t *testing.T) {
	f := frame{flags: flagSynced, epoch: 3, index: 1000, first: 70_000}
	golden(t, "frame_v1.txt", encodeFrame(t, f, goldenItems()))
}

func decodeItems(f frame) ([]item, error) {
	var out []item
	var dec itemDecoder
	err := dec.each(f, func(it item) error {
		out = append(out, it)
		return nil
	})
	return out, err
}

// TestFrameRoundTrip fails when a frame or an item doesn't come back as it was.
func TestFrameRoundTrip(t *testing.T) {
	items := rapid.Custom(func(t *rapid.T) item {
		return item{
			kind:  kind(rapid.IntRange(1, 3).Draw(t, "kind")),
			shard: engine.ShardID(rapid.Uint16().Draw(t, "shard")),
			epoch: engine.Epoch(rapid.Uint64().Draw(t, "epoch")),
			seq:   engine.Seq(rapid.Uint64().Draw(t, "seq")),
			wall:  rapid.Int64().Draw(t, "wall"),
			body:  rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(items, 1, 20).Draw(rt, "items")
		head := frame{
			flags: uint8(rapid.IntRange(0, flagsKnown).Draw(rt, "flags")),
			epoch: rapid.Uint64().Draw(rt, "epoch"), index: rapid.Uint64().Draw(rt, "index"),
			first: rapid.Uint64().Draw(rt, "first"),
		}
		f, err := decodeFrame(encodeFrame(t, head, want))
		if err != nil {
			rt.Fatal(err)
		}
		if f.flags != head.flags || f.epoch != head.epoch || f.index != head.index || f.first != head.first || int(f.items) != len(want) {
			rt.Fatalf("head %+v, was %+v", f, head)
		}
		got, err := decodeItems(f)
		if err != nil || len(got) != len(want) {
			rt.Fatalf("%d items, want %d: %v", len(got), len(want), err)
		}
		for i, g := range got {
			w := want[i]
			if !bytes.Equal(g.body, w.body) {
				rt.Fatalf("item %d: body %x, was %x", i, g.body, w.body)
			}
			g.body, w.body = nil, nil
			if g.kind != w.kind || g.shard != w.shard || g.epoch != w.epoch || g.seq != w.seq || g.wall != w.wall {
				rt.Fatalf("item %d: %+v, was %+v", i, g, w)
			}
		}
	})
}

// rawItem encodes an item field by field, also such as the encoder never writes.
func rawItem(t *testing.T, fields int, values ...any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	if err := enc.EncodeArrayLen(fields); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

// TestItemOfLaterVersion fails when further fields aren't skipped, or an unknown
// kind or version isn't refused.
func TestItemOfLaterVersion(t *testing.T) {
	var dec itemDecoder
	more := rawItem(t, 9, 1, 1, 4, 2, 3, int64(5), []byte("x"), "later", []int{1, 2})
	it, err := dec.decode(more)
	if err != nil || it.shard != 4 || it.seq != 3 || string(it.body) != "x" {
		t.Errorf("two more fields: %+v, %v", it, err)
	}
	for what, data := range map[string][]byte{
		"kind 4":    rawItem(t, 7, 4, 1, 0, 1, 1, int64(1), []byte("x")),
		"version 2": rawItem(t, 7, 1, 2, 0, 1, 1, int64(1), []byte("x")),
	} {
		if _, err := dec.decode(data); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("%s: %v, want ErrNewerFormat", what, err)
		}
	}
}

// hostileItems are inputs that make a careless decoder allocate or recurse.
func hostileItems() map[string][]byte {
	head := []byte{0x97, 1, 1, 0, 1, 1, 0}
	with := func(b ...byte) []byte { return append(bytes.Clone(head), b...) }
	deep := append([]byte{0x98, 1, 1, 0, 1, 1, 0, 0xC4, 0}, bytes.Repeat([]byte{0x91}, 4000)...)
	return map[string][]byte{
		"empty":                 {},
		"not an array":          {0xC0},
		"array of 4 Gi":         {0xDD, 0xFF, 0xFF, 0xFF, 0xFF},
		"six fields":            {0x96, 1, 1, 0, 1, 1, 0},
		"body of 1 GiB":         with(0xC6, 0x40, 0, 0, 0),
		"body of 4 GiB":         with(0xC6, 0xFF, 0xFF, 0xFF, 0xFF),
		"body one byte short":   with(0xC4, 2, 1),
		"body nil":              with(0xC0),
		"body is a string":      with(0xDB, 0x40, 0, 0, 0),
		"bytes behind the body": with(0xC4, 0, 1),
		"shard 65536":           {0x97, 1, 1, 0xCE, 0, 1, 0, 0, 1, 1, 0, 0xC4, 0},
		"kind 256":              {0x97, 0xCD, 1, 0, 1, 0, 1, 1, 0, 0xC4, 0},
		"kind 0":                {0x97, 0, 1, 0, 1, 1, 0, 0xC4, 0},
		"negative shard":        {0x97, 1, 1, 0xFF, 1, 1, 0, 0xC4, 0},
		"map of 4 Gi behind":    {0x98, 1, 1, 0, 1, 1, 0, 0xC4, 0, 0xDF, 0xFF, 0xFF, 0xFF, 0xFF},
		"deep nesting behind":   deep,
		"5 KiB behind":          append([]byte{0x98, 1, 1, 0, 1, 1, 0, 0xC4, 0}, make([]byte, 5<<10)...),
	}
}

// TestItemDecoderIsBounded fails when a hostile item is accepted, or when decoding
// it allocates more than a little.
func TestItemDecoderIsBounded(t *testing.T) {
	for what, data := range hostileItems() {
		var dec itemDecoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := dec.decode(data)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes allocated for an input of %d", what, got, len(data))
		}
	}
}

// TestFrameItemsAreBounded fails when item lengths inside a frame with a right
// checksum are believed.
func TestFrameItemsAreBounded(t *testing.T) {
	good := encodeFrame(t, frame{epoch: 1, index: 1, first: 1}, goldenItems())
	for what, change := range map[string]func(f []byte) []byte{
		"item longer than the frame": func(f []byte) []byte {
			binary.LittleEndian.PutUint32(f[frameHeadBytes:], 1<<31)
			return f
		},
		"one item more than there are": func(f []byte) []byte {
			binary.LittleEndian.PutUint32(f[offItems:], 5)
			return f
		},
		"one item less than there are": func(f []byte) []byte {
			binary.LittleEndian.PutUint32(f[offItems:], 3)
			return f
		},
	} {
		data := change(bytes.Clone(good))
		binary.LittleEndian.PutUint32(data[offSum:], frameSum(data[:offSum], data[frameHeadBytes:]))
		f, err := decodeFrame(data)
		if err == nil {
			_, err = decodeItems(f)
		}
		if !errors.Is(err, errItem) {
			t.Errorf("%s: %v, want an item error", what, err)
		}
	}
}

// TestEncodingDoesNotAllocate fails when the committing goroutine allocates for
// each entry.
func TestEncodingDoesNotAllocate(t *testing.T) {
	var w frameWriter
	it := item{kind: kindEntry, shard: 3, epoch: 9, seq: 1 << 33, wall: 1 << 60, body: make([]byte, 164)}
	w.reset()
	allocs := testing.AllocsPerRun(100, func() {
		w.reset()
		for range 64 {
			if err := w.add(&it); err != nil {
				t.Fatal(err)
			}
		}
		w.finish(frame{epoch: 9, index: 1, first: 1})
	})
	if allocs > 0 {
		t.Errorf("%v allocations for a frame of 64 entries", allocs)
	}
}

// TestDamageErrorSaysWhere fails when the text lacks the file or the offset.
func TestDamageErrorSaysWhere(t *testing.T) {
	err := &DamageError{File: "journal/00000000000000000001", Offset: 17, Expected: "frame 3", Found: "frame 5"}
	for _, want := range []string{"journal/00000000000000000001", "offset 17", "frame 3", "frame 5"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}
