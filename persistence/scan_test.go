package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// sample is a journal of three segments with four frames each, byte by byte.
type sample struct {
	segments [3][]byte
	starts   [3][]int // offsets of the frames
	bodies   []string // of all items, in order
}

const (
	sampleDir    = "/journal"
	sampleFrames = 4
	sampleItems  = 2
)

func newSample(flags uint8) *sample {
	s := &sample{}
	var w frameWriter
	index, next := uint64(1), uint64(1)
	for seg := range s.segments {
		for n := range sampleFrames {
			w.reset()
			for range sampleItems {
				body := fmt.Sprintf("item %d", next)
				s.bodies = append(s.bodies, body)
				it := item{kind: kindEntry, epoch: 1, seq: engine.Seq(next), body: []byte(body)}
				if err := w.add(&it); err != nil {
					panic(err)
				}
				next++
			}
			f := flags
			if n == 0 {
				f |= flagSynced
			}
			data := w.finish(frame{flags: f, epoch: 1, index: index, first: next - sampleItems})
			s.starts[seg] = append(s.starts[seg], len(s.segments[seg]))
			s.segments[seg] = binary.AppendUvarint(s.segments[seg], uint64(len(data)))
			s.segments[seg] = append(s.segments[seg], data...)
			index++
		}
	}
	return s
}

// disk puts the segments on a file system; replace stands for segment number at.
func (s *sample) disk(at int, replace []byte) *vfs.Mem {
	fs := vfs.NewMem()
	if err := fs.MkdirAll(sampleDir); err != nil {
		panic(err)
	}
	for i, data := range s.segments {
		if i == at {
			data = replace
		}
		putFile(fs, filepath.Join(sampleDir, segmentName(uint64(1+i*sampleFrames))), data)
	}
	return fs
}

func putFile(fs vfs.FS, name string, data []byte) {
	f, err := fs.Create(name)
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Sync(), f.Close(), fs.SyncDir(filepath.Dir(name))); err != nil {
		panic(err)
	}
}

// scanDisk scans the sample directory and returns the bodies in it.
func scanDisk(fs vfs.FS) (found, []string, error) {
	var bodies []string
	var dec itemDecoder
	s := scanner{fs: fs, dir: sampleDir, bounds: scanBounds{need: 1, epoch: 1}, visit: func(f frame) error {
		return dec.each(f, func(it item) error {
			bodies = append(bodies, string(it.body))
			return nil
		})
	}}
	fd, err := s.run()
	return fd, bodies, err
}

// prefix fails unless the scan of a damaged journal was refused with the file and
// an offset, or gave the first want items and nothing else.
func (s *sample) prefix(t *testing.T, what string, fs vfs.FS, want int) {
	t.Helper()
	fd, bodies, err := scanDisk(fs)
	if err != nil {
		t.Fatalf("%s: refused: %v", what, err)
	}
	if !slices.Equal(bodies, s.bodies[:want]) {
		t.Fatalf("%s: %d items, want the first %d", what, len(bodies), want)
	}
	if int(fd.last) != want/sampleItems {
		t.Fatalf("%s: ends with frame %d, want %d", what, fd.last, want/sampleItems)
	}
}

func refused(t *testing.T, what string, fs vfs.FS) {
	t.Helper()
	_, _, err := scanDisk(fs)
	damage, ok := errors.AsType[*DamageError](err)
	if !ok {
		t.Fatalf("%s: %v, want a DamageError", what, err)
	}
	text := damage.Error()
	if damage.File == "" || !strings.Contains(text, damage.File) ||
		!strings.Contains(text, fmt.Sprintf("offset %d", damage.Offset)) {
		t.Fatalf("%s: the message doesn't say where: %s", what, text)
	}
}

// frameAt is the number of whole frames in the first n bytes of a segment.
func (s *sample) frameAt(seg, n int) int {
	whole := 0
	for i := range s.starts[seg] {
		end := len(s.segments[seg])
		if i+1 < len(s.starts[seg]) {
			end = s.starts[seg][i+1]
		}
		if end <= n {
			whole++
		}
	}
	return whole
}

const lastSegment = 2

// TestScanCutsLastSegmentAtEveryByte fails when a last segment that ends anywhere
// gives anything but the frames that are whole.
func TestScanCutsLastSegmentAtEveryByte(t *testing.T) {
	s := newSample(0)
	data := s.segments[lastSegment]
	for n := range len(data) + 1 {
		want := (lastSegment*sampleFrames + s.frameAt(lastSegment, n)) * sampleItems
		s.prefix(t, fmt.Sprintf("cut at byte %d", n), s.disk(lastSegment, data[:n]), want)
	}
}

// TestScanRefusesShortSealedSegment fails when a cut of a segment that isn't the
// last is taken for a torn write.
func TestScanRefusesShortSealedSegment(t *testing.T) {
	s := newSample(0)
	for n := range len(s.segments[1]) {
		refused(t, fmt.Sprintf("cut at byte %d", n), s.disk(1, s.segments[1][:n]))
	}
}

// flip calls f with every version of data in which one bit of [from, to) is wrong.
func flip(data []byte, from, to int, f func(bit int, data []byte)) {
	for bit := from * 8; bit < to*8; bit++ {
		bad := slices.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		f(bit, bad)
	}
}

// TestScanFindsEveryFlippedBit fails when a wrong bit in a frame that isn't the
// last is read, or cut off as if it were a torn write; or when one in the last
// frame gives anything but the frames before it.
func TestScanFindsEveryFlippedBit(t *testing.T) {
	s := newSample(0)
	last := s.starts[lastSegment]
	flip(s.segments[lastSegment], last[1], last[2], func(bit int, data []byte) {
		refused(t, fmt.Sprintf("bit %d of a middle frame", bit), s.disk(lastSegment, data))
	})
	flip(s.segments[1], s.starts[1][3], len(s.segments[1]), func(bit int, data []byte) {
		refused(t, fmt.Sprintf("bit %d of a sealed segment's last frame", bit), s.disk(1, data))
	})
	end := len(s.segments[lastSegment])
	flip(s.segments[lastSegment], last[3], end, func(bit int, data []byte) {
		want := (len(s.bodies)/sampleItems - 1) * sampleItems
		s.prefix(t, fmt.Sprintf("bit %d of the last frame", bit), s.disk(lastSegment, data), want)
	})
}

// TestScanCutsGarbageBehindTheEnd fails when zeros or garbage behind the last frame
// are read as frames, or cost one.
func TestScanCutsGarbageBehindTheEnd(t *testing.T) {
	s := newSample(0)
	rng := rand.New(rand.NewPCG(1, 1))
	data := s.segments[lastSegment]
	for _, n := range []int{1, 2, 41, 42, 43, 511, 512, 4096, 100_000} {
		s.prefix(t, fmt.Sprintf("%d zeros", n), s.disk(lastSegment, append(slices.Clone(data), make([]byte, n)...)), len(s.bodies))
		for range 20 {
			tail := make([]byte, n)
			for i := range tail {
				tail[i] = byte(rng.Uint32())
			}
			s.prefix(t, fmt.Sprintf("%d bytes of garbage", n), s.disk(lastSegment, append(slices.Clone(data), tail...)), len(s.bodies))
		}
	}
}

// TestScanRefusesZeroedSector fails when zeros over a frame that has whole frames
// behind it are cut off.
func TestScanRefusesZeroedSector(t *testing.T) {
	s := newSample(0)
	data := slices.Clone(s.segments[lastSegment])
	clear(data[s.starts[lastSegment][1]:s.starts[lastSegment][2]])
	refused(t, "zeroed frame", s.disk(lastSegment, data))
}

// TestScanRefusesMoreThanOneTornFrame fails when two bad frames at the end are cut:
// the first was on disk before the second was written.
func TestScanRefusesMoreThanOneTornFrame(t *testing.T) {
	s := newSample(0)
	data := slices.Clone(s.segments[lastSegment])
	data[s.starts[lastSegment][3]-1] ^= 1
	data[len(data)-1] ^= 1
	refused(t, "two bad frames", s.disk(lastSegment, data))
	long := append(slices.Clone(s.segments[lastSegment]), make([]byte, frameBytesMax+10)...)
	refused(t, "a tail longer than a frame", s.disk(lastSegment, long))
}

// TestScanRefusesMisplacedFrames fails when whole frames in a wrong place are read:
// repeated, missing, swapped, of another life, or whole segments of them.
func TestScanRefusesMisplacedFrames(t *testing.T) {
	s := newSample(0)
	at := s.starts[lastSegment]
	data := s.segments[lastSegment]
	cat := slices.Concat[[]byte]
	for what, bad := range map[string][]byte{
		"last frame twice":      cat(data, data[at[3]:]),
		"first frame twice":     cat(data[:at[1]], data),
		"frame missing":         cat(data[:at[1]], data[at[2]:]),
		"frames swapped":        cat(data[:at[1]], data[at[2]:at[3]], data[at[1]:at[2]], data[at[3]:]),
		"segment of its before": s.segments[1],
	} {
		refused(t, what, s.disk(lastSegment, bad))
	}
	fs := s.disk(-1, nil)
	if err := fs.Remove(filepath.Join(sampleDir, segmentName(1+sampleFrames))); err != nil {
		t.Fatal(err)
	}
	refused(t, "segment missing", fs)
	fs = s.disk(-1, nil)
	if err := fs.Remove(filepath.Join(sampleDir, segmentName(1))); err != nil {
		t.Fatal(err)
	}
	refused(t, "first segment missing", fs)
}

// TestScanRefusesALostEnd fails when a journal that ends before a frame that was
// known to be on disk is taken.
func TestScanRefusesALostEnd(t *testing.T) {
	s := newSample(0)
	sc := scanner{fs: s.disk(-1, nil), dir: sampleDir, bounds: scanBounds{need: 1, epoch: 1, durable: 13}}
	if _, err := sc.run(); !isDamage(err) {
		t.Errorf("journal ends with frame 12, 13 was durable: %v", err)
	}
	empty := vfs.NewMem()
	if err := empty.MkdirAll(sampleDir); err != nil {
		t.Fatal(err)
	}
	sc = scanner{fs: empty, dir: sampleDir, bounds: scanBounds{need: 1, epoch: 1, durable: 1}}
	if _, err := sc.run(); !isDamage(err) {
		t.Errorf("empty journal, frame 1 was durable: %v", err)
	}
}

func isDamage(err error) bool {
	_, ok := errors.AsType[*DamageError](err)
	return ok
}

// TestScanRefusesEpochsOutOfOrder fails when a frame of a later life than the
// manifest knows is read.
func TestScanRefusesEpochsOutOfOrder(t *testing.T) {
	s := newSample(0)
	sc := scanner{fs: s.disk(-1, nil), dir: sampleDir, bounds: scanBounds{need: 1, epoch: 0}}
	if _, err := sc.run(); !isDamage(err) {
		t.Errorf("frames of epoch 1, the manifest is at 0: %v", err)
	}
}

// TestScanLeavesOutWhatIsNotNeeded fails when damage below the lowest needed frame,
// where deleted segments may be left, stops a start.
func TestScanLeavesOutWhatIsNotNeeded(t *testing.T) {
	s := newSample(0)
	sc := scanner{fs: s.disk(0, []byte("rubbish")), dir: sampleDir, bounds: scanBounds{need: 1 + sampleFrames, epoch: 1}}
	fd, err := sc.run()
	if err != nil || fd.first != 1+sampleFrames || fd.last != 3*sampleFrames || len(fd.obsolete) != 1 {
		t.Errorf("first %d last %d, %d obsolete, %v", fd.first, fd.last, len(fd.obsolete), err)
	}
}

// TestScanInALazyLifeCutsBehindTheFirstGap fails when unsynced frames of which the
// disk lost one in the middle are refused, or read behind the gap; or when damage
// before a frame that was written behind a sync is cut.
func TestScanInALazyLifeCutsBehindTheFirstGap(t *testing.T) {
	s := newSample(flagLazy)
	at := s.starts[lastSegment]
	data := slices.Clone(s.segments[lastSegment])
	clear(data[at[1]:at[2]])
	s.prefix(t, "second frame lost", s.disk(lastSegment, data), (2*sampleFrames+1)*sampleItems)

	data = slices.Clone(s.segments[lastSegment])
	clear(data[at[1]:at[2]])
	synced := data[at[3]:]
	f, _, err := cutFrame(synced)
	if err != nil {
		t.Fatal(err)
	}
	f.flags |= flagSynced
	reseal(synced, f.flags)
	refused(t, "lost before a sync", s.disk(lastSegment, data))
}

// TestScanChecksEachNumberOfAFrame fails when a frame whose checksum is right is
// read with a wrong index, item number or epoch.
func TestScanChecksEachNumberOfAFrame(t *testing.T) {
	for what, change := range map[string]func(f []byte){
		"index":      func(f []byte) { f[offIndex]++ },
		"first item": func(f []byte) { f[offFirst]++ },
		"epoch":      func(f []byte) { f[offEpoch]-- },
	} {
		s := newSample(0)
		data := slices.Clone(s.segments[lastSegment])
		tail := data[s.starts[lastSegment][2]:]
		n, k := binary.Uvarint(tail)
		change(tail[k : k+int(n)])
		reseal(tail, 0)
		refused(t, what, s.disk(lastSegment, data))
	}
}

// reseal sets the flags of the frame at the start of data and its checksum.
func reseal(data []byte, flags uint8) {
	n, k := binary.Uvarint(data)
	frame := data[k : k+int(n)]
	frame[offFlags] = flags
	binary.LittleEndian.PutUint32(frame[offSum:], frameSum(frame[:offSum], frame[frameHeadBytes:]))
}

// TestScanTellsNewerFormatFromDamage fails when a whole frame of a later version or
// with unknown flags is cut off or called damaged.
func TestScanTellsNewerFormatFromDamage(t *testing.T) {
	s := newSample(0)
	for what, change := range map[string]func([]byte){
		"version": func(f []byte) { f[offVersion] = 2 },
		"flags":   func(f []byte) { f[offFlags] |= 0x80 },
	} {
		data := slices.Clone(s.segments[lastSegment])
		tail := data[s.starts[lastSegment][3]:]
		n, k := binary.Uvarint(tail)
		f := tail[k : k+int(n)]
		change(f)
		binary.LittleEndian.PutUint32(f[offSum:], frameSum(f[:offSum], f[frameHeadBytes:]))
		if _, _, err := scanDisk(s.disk(lastSegment, data)); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("%s: %v, want ErrNewerFormat", what, err)
		}
	}
}
