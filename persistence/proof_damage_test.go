package persistence

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// frameStarts are the offsets of the frames of a whole segment.
func frameStarts(t *testing.T, data []byte) []int {
	t.Helper()
	var out []int
	for at := 0; at < len(data); {
		out = append(out, at)
		_, size, err := cutFrame(data[at:])
		if err != nil {
			t.Fatal(err)
		}
		at += size
	}
	return out
}

// bent is data with one bit turned.
func bent(data []byte, bit int) []byte {
	out := slices.Clone(data)
	out[bit/8] ^= 1 << (bit % 8)
	return out
}

// shapes are the directories that the tests damage.
func shapes(t *testing.T) map[string]lived {
	return map[string]lived{"journal only": live(t, 24, false), "with snapshots": live(t, 36, true)}
}

// TestR9CutSegmentsOfADirectory cuts the last segment of a data directory at every
// byte, and the other segments too. It fails when a start gives anything but
// everything that is whole, or cuts something that isn't at the end.
func TestR9CutSegmentsOfADirectory(t *testing.T) {
	for name, w := range shapes(t) {
		segments := w.img.segments()
		if len(segments) < 2 {
			t.Fatalf("%s: %d segments", name, len(segments))
		}
		for i, path := range segments {
			data := w.img[path]
			starts := frameStarts(t, data)
			for n := 0; n < len(data); n += 1 + proofStep/4 {
				what := fmt.Sprintf("%s: %s cut at byte %d", name, path, n)
				img := w.img.with(path, data[:n])
				switch {
				case i < len(segments)-1 && needed(t, w, path):
					w.judge(t, what, img, mustRefuse)
				case i < len(segments)-1:
					w.judge(t, what, img, allBack)
				case n >= starts[len(starts)-1]:
					w.judge(t, what, img, lastMayMiss)
				default:
					w.shorter(t, what, img)
				}
			}
		}
	}
}

// needed says whether a recovery reads a segment.
func needed(t *testing.T, w lived, path string) bool {
	t.Helper()
	man, err := readManifest(w.img.disk(), imageDir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := listJournal(w.img.disk(), filepath.Join(imageDir, journalDir))
	if err != nil {
		t.Fatal(err)
	}
	_, rest := splitObsolete(list.segments, man.MinIndex)
	return slices.ContainsFunc(rest, func(s segment) bool { return segmentName(s.first) == filepath.Base(path) })
}

// shorter fails the test unless a start over an image whose end was taken away gives a
// prefix of what was acknowledged, or is refused with a reason. More than the last
// frame is gone, which no torn write does; but a file system that forgets whole frames
// that were synced can be found out only as far as the manifest reaches.
func (w lived) shorter(t *testing.T, what string, img image) verdict {
	t.Helper()
	v := img.start(t)
	if v.refused != nil {
		if err := explained(v.refused); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
	for s, got := range v.lines {
		if want := w.known[s].lines; len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("%s: shard %d has lines that were never acknowledged", what, s)
		}
	}
	return v
}

// TestR9BitsOfADirectory turns bits in every file of a data directory: segments,
// snapshots and the manifest. It fails when a wrong byte is read, or when more than
// the last frame is lost without a refusal.
func TestR9BitsOfADirectory(t *testing.T) {
	for name, w := range shapes(t) {
		segments := w.img.segments()
		last := segments[len(segments)-1]
		end := frameStarts(t, w.img[last])
		tail := end[len(end)-1] * 8
		for path, data := range w.img {
			if filepath.Base(path) == lockName {
				continue
			}
			isSegment := filepath.Dir(path) == filepath.Join(imageDir, journalDir)
			isSnapshot := filepath.Dir(path) == filepath.Join(imageDir, snapshotDir)
			unread := isSegment && len(data) > 0 && !needed(t, w, path)
			step := proofStep
			if filepath.Base(path) == ManifestName {
				step = min(step, 61) // a small file, in which every letter counts
			}
			for bit := 0; bit < len(data)*8; bit += step {
				if path == last && bit >= end[max(len(end)-2, 0)]*8 {
					step = frameStep // the last frame, and the one before it
				}
				what := fmt.Sprintf("%s: bit %d of %s", name, bit, path)
				img := w.img.with(path, bent(data, bit))
				switch {
				case unread, isSnapshot: // the other snapshot of the shard is whole
					w.judge(t, what, img, allBack)
				case path == last && bit >= tail:
					w.judge(t, what, img, lastMayMiss)
				case isSegment:
					w.judge(t, what, img, mustRefuse)
				default:
					w.judge(t, what, img, orRefused)
				}
			}
		}
	}
}

// TestR9TailsOfADirectory puts zeros, garbage, frames of the same journal and
// snapshots behind each segment. It fails when any of it is read, when it costs a
// frame, or when whole frames in a wrong place are cut off.
func TestR9TailsOfADirectory(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for name, w := range shapes(t) {
		segments := w.img.segments()
		for i, path := range segments {
			data := w.img[path]
			starts := frameStarts(t, data)
			isLast := i == len(segments)-1
			may := orRefused
			switch {
			case !needed(t, w, path):
				may = allBack
			case !isLast:
				may = mustRefuse
			}
			tail := func(what string, more []byte, may allowed) {
				t.Helper()
				w.judge(t, fmt.Sprintf("%s: %s with %s", name, path, what), w.img.with(path, slices.Concat(data, more)), may)
			}
			atEnd := may
			if isLast {
				atEnd = allBack
			}
			for _, n := range []int{1, 41, 42, 43, 512, 4096} {
				tail(fmt.Sprintf("%d zeros", n), make([]byte, n), atEnd)
				noise := make([]byte, n)
				for j := range noise {
					noise[j] = byte(rng.Uint32())
				}
				tail(fmt.Sprintf("%d bytes of garbage", n), noise, atEnd)
			}
			for j, at := range starts {
				end := len(data)
				if j+1 < len(starts) {
					end = starts[j+1]
				}
				wrong := mustRefuse
				if may == allBack {
					wrong = allBack
				}
				tail(fmt.Sprintf("frame %d twice", j), data[at:end], wrong)
				// A torn copy of a frame is no frame: behind the last one it is a torn write.
				tail(fmt.Sprintf("half of frame %d", j), data[at:at+(end-at)/2], atEnd)
			}
		}
	}
}

// TestR9MisplacedFiles swaps, renames, removes and repeats files of a data directory
// and brings in those of another one. It fails when a start gives anything but all
// lines, or refuses without a reason, or changes the files that it refuses.
func TestR9MisplacedFiles(t *testing.T) {
	for name, w := range shapes(t) {
		other := liveOf(t, lifePlan{lines: 33, snapshots: name == "with snapshots", before: 1, filler: "z"}).img
		for _, c := range misplaced(w.img, other) {
			what := fmt.Sprintf("%s: %s", name, c.what)
			var v verdict
			if c.last {
				v = w.shorter(t, what, c.img)
			} else {
				v = w.judge(t, what, c.img, orRefused)
			}
			if v.refused != nil {
				w.untouched(t, what, c.img, v)
			}
		}
	}
}

// untouched fails the test if a start that was refused has changed a file that
// somebody may still need: a segment, the manifest, or a snapshot that it named.
func (w lived) untouched(t *testing.T, what string, img image, v verdict) {
	t.Helper()
	man, err := readManifest(w.img.disk(), imageDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range img.differs(v.after) {
		name := filepath.Base(path)
		stray := filepath.Dir(path) == filepath.Join(imageDir, snapshotDir) && !man.holds(name)
		if name != lockName && filepath.Ext(name) != tempSuffix && !stray {
			t.Errorf("%s: refused (%v), and yet %s has changed", what, v.refused, path)
		}
	}
}

// misplacedImage is a directory with files in wrong places.
type misplacedImage struct {
	what string
	img  image
	last bool // the last segment isn't there, or has other bytes
}

// misplaced makes every image with two segments swapped, one missing, renamed, copied
// or replaced by that of another journal, and the same with snapshots.
func misplaced(img, other image) []misplacedImage {
	var out []misplacedImage
	segments := img.segments()
	last := segments[len(segments)-1]
	add := func(what string, bad image) {
		_, there := bad[last]
		out = append(out, misplacedImage{what: what, img: bad, last: !there || string(bad[last]) != string(img[last])})
	}
	for _, dir := range []string{journalDir, snapshotDir} {
		paths := img.under(dir)
		for i, a := range paths {
			add("without "+a, img.with(a, nil))
			for _, b := range paths[i+1:] {
				add("swapped "+a+" and "+b, img.with(a, img[b]).with(b, img[a]))
				add(a+" in the place of "+b, img.with(b, img[a]))
				add(b+" in the place of "+a, img.with(a, img[b]))
				add(a+" renamed to "+b, img.with(b, img[a]).with(a, nil))
			}
			add("empty "+a, img.with(a, []byte{}))
			for _, foreign := range other.under(dir) {
				add("foreign "+foreign+" in the place of "+a, img.with(a, other[foreign]))
			}
		}
		for _, foreign := range other.under(dir) {
			if _, ok := img[foreign]; !ok {
				add("foreign "+foreign+" beside", img.with(foreign, other[foreign]))
			}
		}
	}

	add("segment before the first", img.with(filepath.Join(imageDir, journalDir, segmentName(1)), img[segments[0]]))
	add("segment far behind", img.with(filepath.Join(imageDir, journalDir, segmentName(1_000_000)), img[segments[0]]))
	add("no manifest", img.with(filepath.Join(imageDir, ManifestName), nil))
	add("empty manifest", img.with(filepath.Join(imageDir, ManifestName), []byte{}))
	return out
}

// TestR9RefusedStartDeletesNothing puts the manifest of another directory, and an older
// one of the same, in the place of the right one. It fails when the start that is
// refused then deletes something: with the right manifest again, everything must come
// back.
func TestR9RefusedStartDeletesNothing(t *testing.T) {
	w := live(t, 36, true)
	path := filepath.Join(imageDir, ManifestName)
	for what, manifest := range map[string][]byte{
		"of another node": liveOf(t, lifePlan{lines: 33, snapshots: true, before: 1, filler: "z"}).img[path],
		"an older one":    live(t, 20, true).img[path],
	} {
		bad := w.img.with(path, manifest)
		v := w.judge(t, what, bad, orRefused)
		if v.refused == nil {
			t.Errorf("%s: taken", what)
			continue
		}
		w.untouched(t, what, bad, v)
		w.judge(t, what+", and then the right one", v.after.with(path, w.img[path]), allBack)
	}
}

// TestR9FilesOfATwinAreNotRead puts segments and snapshots of another node into a
// directory that have the same names, numbers and sizes, as two young nodes under the
// same load have them. It fails when a line of the other node is read, also behind the
// end of the journal.
func TestR9FilesOfATwinAreNotRead(t *testing.T) {
	for name, w := range shapes(t) {
		snapshots := name == "with snapshots"
		lines := len(w.known[0].lines) + len(w.known[1].lines)
		twin := liveOf(t, lifePlan{lines: lines, snapshots: snapshots, filler: "y"}).img
		for _, path := range append(w.img.segments(), w.img.under(snapshotDir)...) {
			if len(twin[path]) != len(w.img[path]) {
				t.Fatalf("%s: the twin's %s has %d bytes, ours %d", name, path, len(twin[path]), len(w.img[path]))
			}
			w.judge(t, fmt.Sprintf("%s: the twin's %s", name, path), w.img.with(path, twin[path]), orRefused)
		}
		longer := liveOf(t, lifePlan{lines: lines + 20, snapshots: snapshots, filler: "y"}).img
		for _, path := range longer.segments() {
			if _, ours := w.img[path]; !ours || len(w.img[path]) == 0 {
				w.judge(t, fmt.Sprintf("%s: the twin's %s beside", name, path), w.img.with(path, longer[path]), orRefused)
			}
		}
		whole := w.img
		for _, path := range w.img.under(journalDir) {
			whole = whole.with(path, twin[path])
		}
		w.judge(t, name+": the twin's journal", whole, orRefused)
		last := w.img.segments()[len(w.img.segments())-1]
		more := twin[last][len(twin[last])/2:]
		w.judge(t, name+": half of the twin's last segment behind ours",
			w.img.with(last, slices.Concat(w.img[last], more)), orRefused)
	}
}
