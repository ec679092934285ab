package persistence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// vandalize does one thing to one or two files of a directory.
func vandalize(rng *rand.Rand, img image, paths []string) (image, string) {
	path, other := paths[rng.IntN(len(paths))], paths[rng.IntN(len(paths))]
	data := slices.Clone(img[path])
	if data == nil {
		data = []byte{}
	}
	at := rng.IntN(len(data) + 1)
	size := min(1+rng.IntN(600), len(data)-at)
	what := ""
	switch rng.IntN(9) {
	case 0:
		what = "cut"
		data = data[:at]
	case 1:
		what = "zeros over"
		clear(data[at : at+size])
	case 2:
		what = "bits of"
		for range 1 + rng.IntN(3) {
			if len(data) > 0 {
				data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
		}
	case 3:
		what = "bytes taken out of"
		data = slices.Delete(data, at, at+size)
	case 4:
		what = "bytes repeated in"
		data = slices.Insert(data, at, slices.Clone(data[at:at+size])...)
	case 5:
		what = "a piece of " + other + " over"
		from := img[other]
		if len(from) > 0 {
			copy(data[at:], from[rng.IntN(len(from)):])
		}
	case 6:
		what = "the bytes of " + other + " for"
		data = slices.Clone(img[other])
	case 7:
		what = "a piece of " + other + " behind"
		from := img[other]
		data = append(data, from[rng.IntN(len(from)+1):]...)
	case 8:
		return img.with(path, nil), "without " + path
	}
	if data == nil {
		data = []byte{}
	}
	return img.with(path, data), what + " " + path
}

// TestR9VandalismIsNeverRead does a few random things to a data directory. It fails when a
// start panics, gives a line that was never acknowledged or in another order, or is
// refused without a reason. How much of the end is lost isn't judged: several of these
// things at once can look like one torn write.
func TestR9VandalismIsNeverRead(t *testing.T) {
	dirs := shapes(t)
	for number := range uint64(vandalRuns) {
		rng := rand.New(rand.NewPCG(number, 31))
		name := []string{"journal only", "with snapshots"}[number%2]
		w := dirs[name]
		img := w.img
		var done []string
		for range 1 + rng.IntN(3) {
			paths := slices.Concat(img.under("."), img.under(journalDir), img.under(snapshotDir))
			var what string
			img, what = vandalize(rng, img, paths)
			done = append(done, what)
		}
		w.shorter(t, fmt.Sprintf("run %d, %s: %s", number, name, strings.Join(done, ", ")), img)
	}
}

// TestR9ClosedDirectoryLosesNoByte cuts and bends the end of a journal whose last life was
// closed. It fails when a start takes it for a torn write: the manifest remembers how far
// the journal reached.
func TestR9ClosedDirectoryLosesNoByte(t *testing.T) {
	for name, w := range shapes(t) {
		v := w.img.start(t)
		if v.refused != nil {
			t.Fatal(v.refused)
		}
		w = lived{img: v.after, known: w.known}
		segments := w.img.segments()
		last := segments[len(segments)-1]
		data := w.img[last]
		starts := frameStarts(t, data)
		for at := starts[len(starts)-1]; at < len(data); at += closedStep {
			w.judge(t, fmt.Sprintf("%s: cut at byte %d", name, at), w.img.with(last, data[:at]), mustRefuse)
			w.judge(t, fmt.Sprintf("%s: bit of byte %d", name, at), w.img.with(last, bent(data, at*8+at%8)), mustRefuse)
		}
		w.judge(t, name+": without its last segment", w.img.with(last, nil), mustRefuse)
		files := w.img.under(journalDir)
		end := files[len(files)-1] // it may hold nothing yet
		w.judge(t, name+": with zeros behind", w.img.with(end, append(slices.Clone(w.img[end]), make([]byte, 100)...)), allBack)
	}
}
