package persistence

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// tracedWreck exports a wreck whose recovery, appends and snapshots do all that the
// package does with files.
func tracedWreck(t *testing.T) lived {
	t.Helper()
	return wrecks(t)["with snapshots, torn"]
}

// TestR9PowerCutBetweenSystemCalls lets a real process with the real library recover,
// append, cycle, take snapshots and close, and replays its system calls on a disk that
// knows what is synced. It fails when a power cut between two of them would lose
// something that the process had acknowledged, or make the next start impossible.
func TestR9PowerCutBetweenSystemCalls(t *testing.T) {
	needStrace(t)
	w := tracedWreck(t)
	for mode, fsync := range modes() {
		dir := filepath.Join(t.TempDir(), "data")
		w.img.export(t, dir)
		run := trace(t, dir, fsync)
		if run.exit != 0 || !strings.Contains(run.said, "closed") {
			t.Fatalf("%s: the writer ended with %d: %s", mode, run.exit, run.said)
		}
		rp := &callReplay{t: t, dir: dir, disk: w.img.disk(), files: make(map[int]vfs.File), dirs: make(map[int]string)}
		loss := rand.New(rand.NewPCG(23, 1))
		acked := make([]int, imageShards)
		cuts := 0
		for i, c := range run.calls {
			if changes := rp.play(c); changes && cuts%callStep == 0 {
				told := acked
				if fsync.lazy() {
					told = make([]int, imageShards) // acknowledged before it is on disk
				}
				what := fmt.Sprintf("%s: power cut behind call %d, %s %s", mode, i, c.name, filepath.Base(c.path))
				known := writerKnown(w.known, told)
				startOn(t, rp.disk.CrashClone(nil)).holds(t, what, known)
				startOn(t, rp.disk.CrashClone(loss)).holds(t, what+", some of it kept", known)
			}
			if c.name == "writev" && c.fd == 1 {
				noteAck(string(c.data), acked)
			} else if rp.changed {
				cuts++
			}
		}
		if !slices.Equal(acked, run.acked) || acked[0] == 0 {
			t.Errorf("%s: %v acknowledged in the trace, %v on the output", mode, acked, run.acked)
		}
		if cuts < 50 {
			t.Errorf("%s: %d calls that change the disk", mode, cuts)
		}
		rp.compare(dir)
	}
}

// callReplay plays system calls on a disk in memory.
type callReplay struct {
	t       *testing.T
	dir     string // of the process; imageDir on the disk
	disk    *vfs.Mem
	files   map[int]vfs.File
	dirs    map[int]string
	changed bool // by the last call
}

// play does one call, and reports whether it changed what a power cut would leave.
func (rp *callReplay) play(c call) bool {
	rp.t.Helper()
	rp.changed = false
	rest, ours := strings.CutPrefix(c.path, rp.dir)
	if !ours || c.failed {
		return false
	}
	path := imageDir + rest
	var err error
	rp.changed = true
	switch c.name {
	case "openat":
		err = rp.open(c, path)
	case "write":
		if file := rp.files[c.fd]; file != nil {
			_, err = file.Write(c.data[:c.ret])
		}
	case "fsync", "fdatasync":
		if dir, ok := rp.dirs[c.fd]; ok {
			err = rp.disk.SyncDir(dir)
		} else {
			err = rp.files[c.fd].Sync()
		}
	case "ftruncate":
		var size int64
		if _, err = fmt.Sscanf(c.args[strings.LastIndex(c.args, ", ")+2:], "%d", &size); err == nil {
			err = rp.files[c.fd].Truncate(size)
		}
	case "renameat", "renameat2":
		err = rp.disk.Rename(path, imageDir+strings.TrimPrefix(c.to, rp.dir))
	case "unlinkat":
		err = rp.disk.Remove(path)
	case "mkdirat":
		err = rp.disk.MkdirAll(path)
	case "lseek":
		rp.changed = false
		info, serr := rp.disk.Stat(path)
		at := c.args[strings.LastIndex(c.args, ">")+1:]
		end := strings.HasSuffix(at, fmt.Sprintf(", %d, SEEK_SET", info.Size)) || strings.HasSuffix(at, "SEEK_END")
		if serr != nil || !end {
			err = fmt.Errorf("lseek %s of %d bytes: only the end is played", at, info.Size)
		}
	default:
		err = fmt.Errorf("%s isn't played", c.name)
	}
	if err != nil {
		rp.t.Fatalf("replay of %s %s: %v", c.name, c.path, err)
	}
	return rp.changed
}

// open gives a number to a file or a directory.
func (rp *callReplay) open(c call, path string) error {
	fd := int(c.ret)
	delete(rp.files, fd)
	delete(rp.dirs, fd)
	_, missing := rp.disk.Stat(path)
	create, cut := strings.Contains(c.args, "O_CREAT"), strings.Contains(c.args, "O_TRUNC")
	var err error
	switch {
	case create && (cut || missing != nil):
		rp.files[fd], err = rp.disk.Create(path)
		return err
	case missing != nil:
		rp.dirs[fd] = path
	case strings.Contains(c.args, "O_RDONLY"):
		rp.files[fd], err = rp.disk.Open(path)
	default:
		rp.files[fd], err = rp.disk.OpenWrite(path)
	}
	rp.changed = false
	return err
}

// compare fails the test unless the replay ended with the files of the process.
func (rp *callReplay) compare(dir string) {
	rp.t.Helper()
	have := takeImage(rp.t, rp.disk)
	want := make(image)
	for path, data := range filesOf(rp.t, dir) {
		want[imageDir+strings.TrimPrefix(path, dir)] = []byte(data)
	}
	if bad := want.differs(have); len(bad) > 0 {
		rp.t.Errorf("the replay has other files than the process: %v", bad)
	}
}
