package persistence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// largestLine is a body of the largest legal size, without two equal sectors.
func largestLine() string {
	var b strings.Builder
	b.Grow(engine.MaxEntryBytes + 20)
	for i := 0; b.Len() < engine.MaxEntryBytes; i++ {
		fmt.Fprintf(&b, "%x entry ", i)
	}
	return b.String()[:engine.MaxEntryBytes]
}

// largest is a directory whose last frame is the largest legal entry, and what is known.
func largest(t *testing.T) lived {
	t.Helper()
	var w lived
	line := largestLine()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		gate := &gatedAppender{}
		cfg := onDisk(disk, imageShards)
		cfg.SegmentBytes = 4 << 20 // else the entry fills its segment, and damage to it is never a torn write
		cfg.open = gate.open(disk)
		l := openLocal(t, cfg)
		ledgers := startAll(t, l)
		hold := make(chan struct{})
		gate.hold.Store(&hold)
		write(t, l, ledgers[0], 0, "before", "before")
		synctest.Wait()
		// Both wait while the first are written, and still the large one has a frame of
		// its own.
		write(t, l, ledgers[1], 1, "small")
		write(t, l, ledgers[0], 0, line)
		close(hold)
		barrier(t, l, ledgers[1], 1)
		barrier(t, l, ledgers[0], 0)
		w = lived{known: witnesses(ledgers), lastOf: 0, img: takeImage(t, disk.CrashClone(nil))}
		lawful(t, ledgers)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return w
}

// largestFrame is the place of the largest entry's frame: its segment and its bytes.
func largestFrame(t *testing.T, w lived) (path string, from, to int) {
	t.Helper()
	segments := w.img.segments()
	path = segments[len(segments)-1]
	data := w.img[path]
	starts := frameStarts(t, data)
	from = starts[len(starts)-1]
	f, size, err := cutFrame(data[from:])
	if err != nil || f.items != 1 || from+size != len(data) || size < engine.MaxEntryBytes {
		t.Fatalf("the last frame has %d items and %d bytes, %v", f.items, size, err)
	}
	return path, from, len(data)
}

// TestR9LargestEntryCutOrBent cuts the largest legal entry at many bytes and turns many of
// its bits. It fails when a start gives anything but what was before it, or when damage
// with a frame behind it is cut off.
func TestR9LargestEntryCutOrBent(t *testing.T) {
	w := largest(t)
	path, from, to := largestFrame(t, w)
	data := w.img[path]
	places := []int{from, from + 5, from + (to-from)/2, to - 1}
	for at := from + largestStep/2; at < to; at += largestStep {
		places = append(places, at-at%512)
	}
	for _, at := range places {
		v := w.judge(t, fmt.Sprintf("cut at byte %d", at), w.img.with(path, data[:at:at]), lastMayMiss)
		if len(v.lines[0]) != 2 {
			t.Errorf("cut at byte %d: %d lines", at, len(v.lines[0]))
		}
		w.judge(t, fmt.Sprintf("bit of byte %d", at), w.img.with(path, bent(data, at*8+at%8)), lastMayMiss)
	}
	zeroed := slices.Clone(data)
	clear(zeroed[from+(to-from)/2/512*512:])
	w.judge(t, "half of it zeros", w.img.with(path, zeroed), lastMayMiss)

	// Behind a further frame it is no torn write.
	disk := w.img.disk()
	l := openLocal(t, onDisk(disk, imageShards))
	ledgers := startAll(t, l)
	write(t, l, ledgers[0], 0, "behind")
	barrier(t, l, ledgers[0], 0)
	w = lived{known: witnesses(ledgers), lastOf: 0, img: takeImage(t, disk.CrashClone(nil))}
	for _, at := range places[1:3] {
		w.judge(t, fmt.Sprintf("bit of byte %d with frames behind", at),
			w.img.with(path, bent(w.img[path], at*8+at%8)), mustRefuse)
	}
}

// TestR9LargestEntryAndPowerCuts cuts the power at every operation of a life that
// appends the largest legal entry, takes snapshots of it and closes. It fails when it
// isn't whole afterwards although it was acknowledged, or comes back in pieces.
func TestR9LargestEntryAndPowerCuts(t *testing.T) {
	loss := rand.New(rand.NewPCG(29, 1))
	disk := vfs.NewMem()
	var ledgers []*enginetest.Ledger
	var cuts []cut
	began := false
	fs := vfs.NewFault(disk, func(op vfs.Op) error {
		if began && op.Index%largestCuts == 0 && op.Kind != vfs.OpRead {
			known := witnesses(ledgers)
			what := fmt.Sprintf("power cut before operation %d, %s %s", op.Index, op.Kind, op.Name)
			cuts = append(cuts, cut{disk.CrashClone(loss), known, what}, cut{disk.CrashClone(nil), known, what})
		}
		return nil
	})
	l := openLocal(t, onDisk(fs, imageShards))
	opened := startAll(t, l)
	ledgers, began = opened, true
	for i, line := range []string{"before", largestLine(), "behind", largestLine()} {
		write(t, l, ledgers[0], 0, line)
		barrier(t, l, ledgers[0], 0)
		if i == 1 {
			if err := l.shards[0].Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	began = false
	if len(cuts) < 2 {
		t.Fatalf("%d cuts", len(cuts))
	}
	for _, c := range cuts {
		startOn(t, c.disk).holds(t, c.what, c.known)
	}
	lawful(t, opened)
}
