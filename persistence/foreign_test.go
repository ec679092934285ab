package persistence

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// twin makes the data directory of one of two nodes that have done the same with other
// lines: every frame has its like, and every snapshot its namesake.
func twin(t *testing.T, node string, lines int) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 1))
	ledger := startAll(t, l)[0]
	for i := range lines {
		write(t, l, ledger, 0, fmt.Sprintf("%s%01000d", node, i))
		barrier(t, l, ledger, 0)
		if i == 2 || i == 4 {
			if err := l.shards[0].Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return disk
}

// TestR9ForeignFilesAreNotOurs puts files of a node that has lived the same life in the
// place of another one's. It fails when a start reads a line of the other node.
func TestR9ForeignFilesAreNotOurs(t *testing.T) {
	for _, lines := range []int{1, 2, 12} {
		ours, theirs := twin(t, "a", lines), twin(t, "b", lines)
		for _, sub := range []string{journalDir, snapshotDir} {
			dir := filepath.Join("/data", sub)
			files := names(t, ours, dir)
			if fmt.Sprint(files) != fmt.Sprint(names(t, theirs, dir)) {
				t.Fatalf("the nodes differ: %v, %v", files, names(t, theirs, dir))
			}
			for _, file := range files {
				pair{ours, theirs, lines}.swap(t, filepath.Join(dir, file))
			}
		}
		mixed := ours.CrashClone(nil)
		for _, file := range names(t, theirs, filepath.Join("/data", journalDir)) {
			name := filepath.Join("/data", journalDir, file)
			change(t, mixed, name, func([]byte) []byte { return content(t, theirs, name) })
		}
		judgeForeign(t, "the whole journal", mixed, lines)
	}
}

func content(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	data, err := readFile(fs, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pair is the disks of two nodes, with as many lines each.
type pair struct {
	ours, theirs *vfs.Mem
	lines        int
}

// swap puts one file of the other node in the place of ours.
func (p pair) swap(t *testing.T, name string) {
	t.Helper()
	mixed, theirData := p.ours.CrashClone(nil), content(t, p.theirs, name)
	if len(theirData) == 0 {
		return // an empty segment is like any other
	}
	change(t, mixed, name, func([]byte) []byte { return theirData })
	judgeForeign(t, name, mixed, p.lines)
}

func judgeForeign(t *testing.T, what string, disk *vfs.Mem, want int) {
	t.Helper()
	l := openLocal(t, onDisk(disk, 1))
	ledgers := openAll(t, l)
	if err := l.Start(t.Context()); err != nil {
		if !isDamage(err) {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	lines, _ := ledgers[0].Lines()
	for i, line := range lines {
		if line.Body[0] != 'a' {
			t.Errorf("%s: line %d is of another node", what, i)
		}
	}
	if len(lines) != want {
		t.Errorf("%s: %d lines, want %d or a refusal", what, len(lines), want)
	}
}
