package keyactor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// crowded is a key that has something in every field of its snapshot but a batch: wants
// under way, resting and with a slot set aside, and wants of another home.
func crowded(t *testing.T) *world {
	w := testWorld(t)
	stamp := both(limited("x", 3), rated("y", second, 5))
	w.submit(stamp)
	w.submit(stamp)
	w.offerAll(keyX)
	w.deliverAll(0)
	w.advance(w.now.Add(PassedOver))
	w.offer(keyX)                                            // a slot is set aside, and its run asks again
	w.submit(both(limited("y", 2), rated("x", 3*second, 2))) // the other way round
	w.submit(both(limited("y", 2), rated("x", 3*second, 2)))
	w.offerAll(keyY)
	w.deliver(toX, 0) // a want stays here: the bucket of x gives its tokens to others
	w.submit(rated("x", 3*second, 1))
	return w
}

func encoded(t *testing.T, k *Key) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := k.EncodeMsgpack(msgpack.NewEncoder(&b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(b []byte) (*Key, error) {
	k := new(Key)
	return k, k.DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(b)))
}

// gathering is crowded with a batch in each key: one with ids that is due, and one without.
func gathering(t *testing.T) *world {
	w := crowded(t)
	w.def = collect(9, second, 0)
	mustSend(t, w, keyX, padded("a", 0), "source id")
	mustSend(t, w, keyX, padded("b", 0), "")
	mustSend(t, w, keyX, padded("c", 0), "7")
	w.advance(w.now.Add(second))
	w.fire(keyX, false)
	mustSend(t, w, keyY, padded("d", 0), "")
	return w
}

// golden are the snapshots of a file, one a line.
func golden(t testing.TB, file string) (all [][]byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		b, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// TestS09SnapshotFormat: the bytes of today's version never change. A new format is a new
// version with a file of its own.
func TestS09SnapshotFormat(t *testing.T) {
	w := gathering(t)
	want := golden(t, "testdata/snapshot_v2.hex")
	want = append(want, make([][]byte, 3)...)
	for i, k := range []*Key{w.live.key(keyX), w.live.key(keyY), crowded(t).live.key(keyX)} {
		if got := encoded(t, k); !bytes.Equal(got, want[i]) {
			t.Errorf("%v:\n%s", k.ID(), hex.EncodeToString(got))
		}
	}
}

// TestS09OlderSnapshots: what the version before batches wrote is still the same key.
func TestS09OlderSnapshots(t *testing.T) {
	w := crowded(t)
	for i, id := range []flow.KeyID{keyX, keyY} {
		old, err := decode(golden(t, "testdata/snapshot_v1.hex")[i])
		if err != nil {
			t.Fatal(err)
		}
		now, err := decode(encoded(t, w.live.key(id)))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := old.Fingerprint(), now.Fingerprint(); !bytes.Equal(a, b) {
			t.Errorf("version 1 of %v is\n%s, want\n%s", id, a, b)
		}
	}
}

// TestS09SnapshotIsTheKey: what comes out of a snapshot and its runs, in any order, is
// the key, and goes on like it.
func TestS09SnapshotIsTheKey(t *testing.T) {
	w := gathering(t)
	for _, id := range []flow.KeyID{keyX, keyY} {
		k, err := w.live.restored(id)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := w.live.key(id).Fingerprint(), k.Fingerprint(); !bytes.Equal(a, b) {
			t.Fatalf("differs:\n%s\n%s", a, b)
		}
		w.live.keys[id] = k
	}
	w.deliverAll(flow.FlagCredit)
	w.offerAll(keyX)
	w.deliverAll(flow.FlagCredit)
	if v := w.live.key(keyX).View(w.now); v.Used == 0 {
		t.Fatalf("nobody starts after the snapshot: %+v", v)
	}
	mustSend(t, w, keyX, padded("again", 0), "7")
	w.advance(w.now.Add(second))
	w.fireAll(true)
	wantBatches(t, w, keyX, "[a b c]")
	wantBatches(t, w, keyY, "[d]")
}

// TestS09DamagedSnapshots: a cut or flipped snapshot is refused or is some key, and
// never a panic.
func TestS09DamagedSnapshots(t *testing.T) {
	whole := encoded(t, gathering(t).live.key(keyX))
	for i := range whole {
		if _, err := decode(whole[:i]); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut at %d: %v", i, err)
		}
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			if _, err := decode(damaged); err != nil && !errors.Is(err, ErrSnapshot) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

var aRun = bytes.Repeat([]byte{7}, 16)

// written is a snapshot of plain fields, of which one is another.
func written(t *testing.T, i int, v any) []byte {
	t.Helper()
	f := []any{2, "w", "x", 0, int64(0), int64(0), int64(0), int64(0), []any{}, []any{}, nil}
	f[i] = v
	b, err := msgpack.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// batchWith is a batch of one event, of which one field is another.
func batchWith(t *testing.T, i int, v any) []byte {
	t.Helper()
	f := []any{aRun, 1, 2, false, 1, []byte("{}"), []any{"7"}}
	f[i] = v
	return written(t, 10, f)
}

// TestS09SnapshotBounds: numbers out of their range, a newer version and lengths that
// the bytes can't hold are refused before anything is allocated for them.
func TestS09SnapshotBounds(t *testing.T) {
	for name, b := range map[string][]byte{"plain": written(t, 0, 2), "with a batch": batchWith(t, 4, 1)} {
		if k, err := decode(b); err != nil || k.Check() != nil {
			t.Fatalf("the %s one: %v, %v", name, err, k.Check())
		}
	}
	for name, b := range map[string][]byte{
		"newer version":    written(t, 0, 3),
		"version 0":        written(t, 0, 0),
		"older, too long":  written(t, 0, 1),
		"kind":             written(t, 3, 9),
		"negative bucket":  written(t, 4, -1),
		"interval":         written(t, 5, int64(flow.MaxInterval)+1),
		"burst":            written(t, 6, int64(flow.MaxBurst)+1),
		"max":              written(t, 7, int64(flow.MaxLimit)+1),
		"long value":       written(t, 2, strings.Repeat("x", flow.MaxKeyBytes+1)),
		"huge text":        {0x9b, 2, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"huge list":        append(written(t, 8, []any{})[:len(written(t, 8, []any{}))-3], 0xdd, 0xff, 0xff, 0xff, 0xff),
		"short id":         written(t, 8, []any{[]any{aRun[:9], 1, 0, 1}}),
		"unknown marks":    written(t, 8, []any{[]any{aRun, 1, 0, 4}}),
		"same run twice":   written(t, 8, []any{[]any{aRun, 1, 0, 1}, []any{aRun, 1, 0, 1}}),
		"want twice":       written(t, 9, []any{[]any{aRun, 1, "h", 1, 1, 1}, []any{aRun, 1, "h", 1, 1, 1}}),
		"want without":     written(t, 9, []any{[]any{aRun, 1, "h", 0, 1, 1}}),
		"too few fields":   {0x91, 1},
		"not even a list":  {0xc0},
		"text for a count": written(t, 4, "x"),
	} {
		if _, err := decode(b); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestS09SnapshotBatchBounds: a batch that can't be is refused: what is read here is
// what runs are made of.
func TestS09SnapshotBatchBounds(t *testing.T) {
	many := make([]any, flow.MaxBatchEvents+1)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	short := written(t, 0, 2)
	short[0] = 0x9a // and what would be the batch stands behind it
	for name, b := range map[string][]byte{
		"short run":        batchWith(t, 0, aRun[:9]),
		"never opened":     batchWith(t, 1, 0),
		"no deadline":      batchWith(t, 2, 0),
		"negative":         batchWith(t, 2, -1),
		"number for a due": batchWith(t, 3, 1),
		"no events":        batchWith(t, 4, 0),
		"too many events":  batchWith(t, 4, flow.MaxBatchEvents+1),
		"more than bytes":  batchWith(t, 4, 2),
		"too many bytes":   batchWith(t, 5, make([]byte, flow.MaxBatchBytes+flow.MaxBatchEvents+1)),
		"more than fit":    batchWith(t, 5, make([]byte, flow.MaxBatchBytes+1)),
		"an id twice":      batchWith(t, 6, []any{"7", "7"}),
		"more ids":         batchWith(t, 6, []any{"7", "8"}),
		"an empty id":      batchWith(t, 6, []any{""}),
		"long id":          batchWith(t, 6, []any{strings.Repeat("i", flow.MaxEventIDBytes+1)}),
		"too many ids":     batchWith(t, 6, many),
		"a field too few":  written(t, 10, []any{aRun, 1, 2, false, 1, []byte("{}")}),
		"not a list":       written(t, 10, 5),
		"outside the list": short,
	} {
		if k, err := decode(b); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v, check says %v", name, err, k.Check())
		}
	}
}

// TestS09SnapshotClaimsAllocateLittle: a length that is only claimed is not allocated.
func TestS09SnapshotClaimsAllocateLittle(t *testing.T) {
	plain := batchWith(t, 4, 1)
	at := bytes.Index(plain, []byte("\xc4\x02{}"))
	for name, b := range map[string][]byte{
		"events": append(bytes.Clone(plain[:at]), 0xc6, 0, 0x0c, 0x20, 0),
		"ids":    append(bytes.Clone(plain[:at+4]), 0xdc, 0x27, 0x10),
		"an id":  append(bytes.Clone(plain[:at+4]), 0x91, 0xda, 2, 0),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(b)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrSnapshot) || n > 256<<10 {
			t.Errorf("%s: error %v, %d bytes allocated", name, err, n)
		}
	}
}

// FuzzS09Snapshot: whatever decodes encodes to the same key, and its batch can be shown.
func FuzzS09Snapshot(f *testing.F) {
	for _, file := range []string{"testdata/snapshot_v1.hex", "testdata/snapshot_v2.hex"} {
		for _, b := range golden(f, file) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		again, err := decode(encoded(t, k))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(k.Fingerprint(), again.Fingerprint()) {
			t.Fatalf("%s\n%s", k.Fingerprint(), again.Fingerprint())
		}
		params, ids, open := k.Batch()
		if v := k.ViewBatch(); open != (v.Events > 0) || v.Bytes < 0 || v.Bytes > flow.MaxBatchBytes || int64(len(ids)) > v.Events || len(params) > flow.MaxPayloadBytes {
			t.Fatalf("a batch %+v with %d ids and %d bytes of parameters", v, len(ids), len(params))
		}
	})
}
