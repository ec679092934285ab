package keyactor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// crowded is a key that has something in every field of its snapshot: wants under
// way, resting and with a slot set aside, and wants of another home.
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

// TestS09SnapshotFormat: the bytes of version 1 never change. A new format is a new
// version with a file of its own.
func TestS09SnapshotFormat(t *testing.T) {
	const file = "testdata/snapshot_v1.hex"
	w := crowded(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	for i, id := range []flow.KeyID{keyX, keyY} {
		got := hex.EncodeToString(encoded(t, w.live.key(id)))
		if i >= len(lines) || got != lines[i] {
			t.Errorf("%v:\n%s", id, got)
		}
	}
}

// TestS09SnapshotIsTheKey: what comes out of a snapshot and its runs, in any order, is
// the key, and goes on like it.
func TestS09SnapshotIsTheKey(t *testing.T) {
	w := crowded(t)
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
}

// TestS09DamagedSnapshots: a cut or flipped snapshot is refused or is some key, and
// never a panic.
func TestS09DamagedSnapshots(t *testing.T) {
	whole := encoded(t, crowded(t).live.key(keyX))
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

// TestS09SnapshotBounds: numbers out of their range, a newer version and lengths that
// the bytes can't hold are refused before anything is allocated for them.
func TestS09SnapshotBounds(t *testing.T) {
	fields := []any{1, "w", "x", 0, int64(0), int64(0), int64(0), int64(0), []any{}, []any{}}
	run := bytes.Repeat([]byte{7}, 16)
	change := func(i int, v any) []byte {
		f := append([]any(nil), fields...)
		f[i] = v
		b, err := msgpack.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if _, err := decode(change(0, 1)); err != nil {
		t.Fatalf("the plain one: %v", err)
	}
	for name, b := range map[string][]byte{
		"newer version":    change(0, 2),
		"kind":             change(3, 9),
		"negative bucket":  change(4, -1),
		"interval":         change(5, int64(flow.MaxInterval)+1),
		"burst":            change(6, int64(flow.MaxBurst)+1),
		"max":              change(7, int64(flow.MaxLimit)+1),
		"long value":       change(2, strings.Repeat("x", flow.MaxKeyBytes+1)),
		"huge text":        {0x9a, 1, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"huge list":        append(change(8, []any{})[:len(change(8, []any{}))-2], 0xdd, 0xff, 0xff, 0xff, 0xff),
		"short id":         change(8, []any{[]any{run[:9], 1, 0, 1}}),
		"unknown marks":    change(8, []any{[]any{run, 1, 0, 4}}),
		"same run twice":   change(8, []any{[]any{run, 1, 0, 1}, []any{run, 1, 0, 1}}),
		"want twice":       change(9, []any{[]any{run, 1, "h", 1, 1, 1}, []any{run, 1, "h", 1, 1, 1}}),
		"want without":     change(9, []any{[]any{run, 1, "h", 0, 1, 1}}),
		"too few fields":   {0x91, 1},
		"not even a list":  {0xc0},
		"text for a count": change(4, "x"),
	} {
		if _, err := decode(b); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzS09Snapshot: whatever decodes encodes to the same key.
func FuzzS09Snapshot(f *testing.F) {
	text, err := os.ReadFile("testdata/snapshot_v1.hex")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		b, err := hex.DecodeString(line)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
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
	})
}
