package persistence

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// falseHeads is a body that somebody has made to look like the heads of frames that
// follow: plausible numbers, and lengths that make the search for later frames sum up
// nearly all of the body again and again.
func falseHeads(bytes int, index uint64) []byte {
	out := make([]byte, 0, bytes+frameHeadBytes)
	for n := uint64(0); len(out) < bytes; n++ {
		head := append([]byte(frameMagic), frameVersion, 0)
		head = binary.LittleEndian.AppendUint64(head, 1) // the epoch of a young node
		head = binary.LittleEndian.AppendUint64(head, index+1+n%500)
		head = binary.LittleEndian.AppendUint64(head, 1<<62)
		head = binary.LittleEndian.AppendUint32(head, 1)
		head = binary.LittleEndian.AppendUint32(head, uint32(max(bytes*3/4-len(out), 0)))
		out = binary.LittleEndian.AppendUint32(append(out, head...), 0)
	}
	return out[:bytes]
}

// TestR9HostileBodyDoesNotStopAStart tears the write of a body that looks like frames. It
// fails when the start is refused because of it: whoever may submit could then keep a
// node from starting behind a kill.
func TestR9HostileBodyDoesNotStopAStart(t *testing.T) {
	disk := vfs.NewMem()
	cfg := onDisk(disk, imageShards)
	cfg.SegmentBytes = 4 << 20
	l := openLocal(t, cfg)
	ledgers := startAll(t, l)
	write(t, l, ledgers[0], 0, "before")
	barrier(t, l, ledgers[0], 0)
	write(t, l, ledgers[0], 0, string(falseHeads(100_000, 3)))
	barrier(t, l, ledgers[0], 0)
	w := lived{known: witnesses(ledgers), img: takeImage(t, disk.CrashClone(nil))}
	path := w.img.segments()[0]
	data := w.img[path]
	starts := frameStarts(t, data)
	from := starts[len(starts)-1]
	// A kill leaves the beginning of a write.
	for _, kept := range []int{1, 50, 4096, 40_000, 99_000, len(data) - from - 1} {
		w.judge(t, fmt.Sprintf("%d bytes of the write kept", kept), w.img.with(path, data[:from+kept:from+kept]), lastMayMiss)
	}
	// A power cut leaves any of its sectors, and zeros between them.
	for _, gone := range []int{1, 10, 100} {
		torn := slices.Clone(data)
		at := (from/512 + gone) * 512
		clear(torn[at : at+512])
		w.judge(t, fmt.Sprintf("sector %d gone", gone), w.img.with(path, torn), lastMayMiss)
	}
}
