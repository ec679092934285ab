package persistence

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// fault is what strace puts into a writer's system calls.
type fault struct {
	call string
	what string // error=EIO, signal=KILL
}

func (f fault) at(n int) string { return fmt.Sprintf("inject=%s:%s:when=%d", f.call, f.what, n) }

// missesMax is the number of faults in a row that meet no call before the proof takes
// it that no thread makes so many. strace counts for each thread, and the runtime moves
// the work between some.
const missesMax = 8

// faults are all that a disk, or a kill, may do to each call that changes a directory.
func faults() []fault {
	var out []fault
	for _, c := range []string{"write", "fsync", "openat", "renameat", "unlinkat", "ftruncate", "pwrite64", "fdatasync"} {
		for _, what := range []string{"error=EIO", "error=ENOSPC", "error=EMFILE", "signal=KILL"} {
			if (what == "error=EMFILE") == (c == "openat") || what == "signal=KILL" {
				out = append(out, fault{c, what})
			}
		}
	}
	return out
}

// TestS16FaultsOfRealSystemCalls lets one system call of a real process fail, or kills
// the process in front of it. It fails when the process acknowledges anything after a
// failure in its journal, goes on, or when something that was acknowledged is missing
// when a start follows.
func TestS16FaultsOfRealSystemCalls(t *testing.T) {
	needStrace(t)
	w := tracedWreck(t)
	hits := 0
	for _, f := range faults() {
		missed := 0
		for _, n := range injectAt(f) {
			if injected(t, w, f, n) {
				hits++
				missed = 0
			} else if missed++; missed == missesMax {
				break
			}
		}
	}
	if hits < injectHits {
		t.Errorf("only %d faults hit", hits)
	}
	t.Logf("%d faults hit", hits)
}

// injected runs a writer over a copy of w with a fault in call number n, and recovers.
// It reports whether there was such a call.
func injected(t *testing.T, w lived, f fault, n int) bool {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	w.img.export(t, dir)
	run := trace(t, dir, FsyncAlways, "-e", f.at(n))
	killed := strings.HasPrefix(f.what, "signal")
	hit := killed && run.exit != 0 && !strings.Contains(run.said, "closed")
	journal := filepath.Join(dir, journalDir)
	inJournal, where := false, "?"
	for i, c := range run.calls {
		if inJournal && c.name == "writev" && c.fd == 1 && strings.HasPrefix(string(c.data), "ack") {
			t.Errorf("%s: acknowledged behind the failure, call %d: %s", f.at(n), i, c.data)
		}
		if c.injected && c.failed {
			hit = true
			where = c.path
			// Without space for a fresh file a recovery renews the last segment in place.
			spare := strings.HasSuffix(c.path, tempSuffix) && f.what == "error=ENOSPC"
			inJournal = inJournal || strings.HasPrefix(c.path, journal) && !spare
		}
	}
	if inJournal && run.exit == 0 {
		t.Errorf("%s: the process went on: %s", f.at(n), run.said)
	}
	if inJournal && !killed && run.exit != exitStopped && run.exit != exitRefused && run.exit != exitUnclean {
		t.Errorf("%s: the process ended with %d: %s", f.at(n), run.exit, run.said)
	}
	known := writerKnown(w.known, run.acked)
	for _, again := range []string{"", ", again"} {
		v, err := startWith(t, testConfig(dir, imageShards))
		if err != nil {
			t.Errorf("%s%s: close: %v", f.at(n), again, err)
		}
		v.holds(t, f.at(n)+again+": "+run.said, known)
	}
	if hit {
		t.Logf("%s hit %s, exit %d", f.at(n), where, run.exit)
	}
	return hit
}
