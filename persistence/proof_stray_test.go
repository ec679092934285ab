package persistence

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestR9StrayFilesOfADirectory puts files in the journal, beside the snapshots and
// beside the manifest that no start of this program leaves whole: unfinished ones, the
// library's START and END, names that are nearly those of segments. It fails when one of
// them is read, costs a line, or makes a refusal that changes the directory.
func TestR9StrayFilesOfADirectory(t *testing.T) {
	for name, w := range shapes(t) {
		segments := w.img.segments()
		for i, path := range segments {
			data := w.img[path]
			starts := frameStarts(t, data)
			half := starts[len(starts)/2]
			add := func(what, file string, data []byte, may allowed) {
				t.Helper()
				what = fmt.Sprintf("%s: %s %s", name, filepath.Base(file), what)
				bad := w.img.with(file, data)
				if v := w.judge(t, what, bad, may); v.refused != nil {
					w.untouched(t, what, bad, v)
				}
			}
			add("unfinished", path+tempSuffix, data[:half], allBack)
			add("unfinished", path+startSuffix+tempSuffix, data[:half], allBack)
			add("unfinished", path+endSuffix+tempSuffix, data[:half], allBack)
			add("whole", path+startSuffix, data, orRefused)
			add("with half of its frames", path+startSuffix, data[:half], orRefused)
			add("torn", path+startSuffix, data[:half+1], mustRefuse)
			add("of zeros", path+startSuffix, make([]byte, 64), mustRefuse)
			add("empty", path+startSuffix, []byte{}, orRefused)
			add("whole", path+endSuffix, data, mustRefuse)
			add("with half of its frames", path+endSuffix, data[:half], mustRefuse)
			add("of the segment before", path+startSuffix, w.img[segments[max(i-1, 0)]], orRefused)
		}
		for _, file := range []string{
			"journal/00000000000000000000", "journal/0000000000000000001", "journal/00000000000000000001.bak",
			"journal/00000000000000000001.start", "journal/99999999999999999999", "journal/README",
			"journal/+0000000000000000001", "journal/00000000000000000001.TEMP.TEMP",
			"snapshots/shard-00000-epoch-1-pos-1-at-1.snap", "snapshots/shard-00000-epoch-9-pos-900-at-900.snap",
			"snapshots/x.snap.TEMP", "snapshots/README", "dropped/x.cut", "manifest.json.TEMP", "manifest.json.bak", "README",
		} {
			for _, data := range [][]byte{{}, []byte("rubbish"), w.img[segments[0]], w.img[filepath.Join(imageDir, ManifestName)]} {
				what := fmt.Sprintf("%s: %s with %d bytes", name, file, len(data))
				w.judge(t, what, w.img.with(filepath.Join(imageDir, file), data), allBack)
			}
		}
	}
}
