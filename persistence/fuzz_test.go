package persistence

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

// FuzzScan puts any bytes behind two whole segments. It fails when the scan panics,
// reads something that was never written, or loses the segments before.
func FuzzScan(f *testing.F) {
	s := newSample(0)
	whole := s.segments[lastSegment]
	for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 1, len(whole)} {
		f.Add(whole[:n])
	}
	f.Add(append(slices.Clone(whole), make([]byte, 64)...))
	f.Add(append(slices.Clone(whole), whole...))
	f.Add(newSample(flagLazy).segments[lastSegment])
	before := 2 * sampleFrames * sampleItems
	f.Fuzz(func(t *testing.T, data []byte) {
		_, bodies, err := scanDisk(s.disk(lastSegment, data))
		if err != nil {
			if !isDamage(err) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if len(bodies) < before || !slices.Equal(bodies[:before], s.bodies[:before]) {
			t.Fatalf("the segments before gave %d items", len(bodies))
		}
	})
}

// FuzzItem decodes any bytes. It fails when the decoder panics, or when what it
// accepts doesn't come back from the encoder.
func FuzzItem(f *testing.F) {
	var w frameWriter
	for _, it := range goldenItems() {
		w.reset()
		if err := w.add(&it); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(w.codec.out.b[frameHeadBytes+itemLengthBytes:]))
	}
	for _, data := range hostileItems() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var dec itemDecoder
		it, err := dec.decode(data)
		if err != nil {
			if !errors.Is(err, errItem) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		again, err := decodeItems(mustFrame(t, encodeFrame(t, frame{index: 1, first: 1}, []item{it})))
		if err != nil || len(again) != 1 || !bytes.Equal(again[0].body, it.body) ||
			again[0].kind != it.kind || again[0].shard != it.shard || again[0].epoch != it.epoch ||
			again[0].seq != it.seq || again[0].wall != it.wall {
			t.Fatalf("%+v came back as %+v, %v", it, again, err)
		}
	})
}

func mustFrame(t *testing.T, data []byte) frame {
	t.Helper()
	f, err := decodeFrame(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// FuzzFrame decodes any bytes as a frame. It fails when the decoder panics or hands
// out more than it was given.
func FuzzFrame(f *testing.F) {
	good := encodeFrame(f, frame{epoch: 3, index: 9, first: 70}, goldenItems())
	f.Add(good)
	f.Add(good[:frameHeadBytes])
	f.Add([]byte(frameMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeFrame(data)
		if err == nil && len(got.body)+frameHeadBytes != len(data) {
			t.Fatalf("body of %d bytes from %d", len(got.body), len(data))
		}
		if err == nil {
			// The items may be anything: they need only not panic.
			if _, err := decodeItems(got); err != nil && !errors.Is(err, errItem) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("error of another kind: %v", err)
			}
		}
	})
}

// FuzzSnapshot reads any bytes as a snapshot. It fails when the reader panics or
// hands out more than it was given.
func FuzzSnapshot(f *testing.F) {
	head := snapshotHead(sampleRef())
	sum := headSum(head)
	chunk := []byte{5, 0, 0, 0, 0, 0, 0, 0, 's', 't', 'a', 't', 'e'}
	f.Add(head)
	f.Add(slices.Concat(head, snapshotFoot(sum, 0, 0)))
	f.Add(slices.Concat(head, chunk, snapshotFoot(sum, 1, 5)))
	f.Add(slices.Concat(head, []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The bytes follow a right head too, or most inputs would end there.
		for _, file := range [][]byte{data, slices.Concat(head, data)} {
			r, err := newSnapshotReader("file", bytes.NewReader(file), sampleRef())
			if err != nil {
				continue
			}
			n, err := io.Copy(io.Discard, r)
			if n > int64(len(file)) {
				t.Fatalf("%d bytes from a file of %d", n, len(file))
			}
			if err != nil && !isDamage(err) {
				t.Fatalf("error of another kind: %v", err)
			}
		}
	})
}

// FuzzManifest decodes any bytes as a manifest. It fails when the decoder panics, or
// accepts what doesn't come back.
func FuzzManifest(f *testing.F) {
	m := sampleManifest()
	data, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"crc32c":"00000000","manifest":{}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest(again); err != nil {
			t.Fatalf("accepted, and refused the second time: %v", err)
		}
	})
}
