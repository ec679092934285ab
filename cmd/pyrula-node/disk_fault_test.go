package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attach makes the system calls of a running node fail as rules say, from now on.
func attach(t *testing.T, n *child, rules ...string) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace isn't installed here, so no system call can be made to fail")
	}
	args := append([]string{"-f", "-y", "-o", filepath.Join(t.TempDir(), "calls"), "-p", fmt.Sprint(n.cmd.Process.Pid)}, rules...)
	tracer := spawnAs(t, strace, args...)
	tracer.says(`attached|Operation not permitted`)
	if strings.Contains(tracer.said(), "Operation not permitted") {
		t.Skip("strace may not trace here, so no system call can be made to fail")
	}
}

// faultText is how a node names an error of the disk.
var faultText = map[string]string{"EIO": "input/output error", "ENOSPC": "no space left on device"}

// TestS16FailingDiskEndsTheNode makes every write or fsync of a node fail while a run
// ends. It fails when that end is acknowledged, when the run that waits behind it is
// granted, when the node goes on or ends without naming file and error, or when after
// the next start the slot isn't as its holder left it.
func TestS16FailingDiskEndsTheNode(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"fsync", "write"} {
		for errno, text := range faultText {
			t.Run(call+" "+errno, func(t *testing.T) {
				w, dir := newWitness(t), t.TempDir()
				w.serve(dir)
				w.declare("sync", oneSlot)
				a, b := w.submit("sync", `{"k":"a"}`), w.submit("sync", `{"k":"a"}`)
				grant := w.one("sync")
				claimed := make(chan string, 1)
				go func(url string) { // it waits behind the holder
					_, text := post(url+"/v1/claims", claimOf(1, 30_000, "sync"))
					claimed <- text
				}(w.url)
				attach(t, w.node, "-P", filepath.Join(dir, "journal", firstSegment), "-e", "trace="+call, "-e", "inject="+call+":error="+errno)
				if status, answer := w.tryComplete(grant, `"done"`); status == 200 {
					t.Errorf("the completion is acknowledged: %s", answer)
				}
				if got := <-claimed; strings.Contains(got, b) {
					t.Errorf("the waiter is granted: %s", got)
				}
				if code := w.node.exit(); code != exitOther {
					t.Errorf("it ends with %d, want 1:\n%s", code, w.node.said())
				}
				want := `level=ERROR msg="the node stops: .*` + regexp.QuoteMeta(filepath.Join(dir, "journal", firstSegment)) + `.*` + text
				if last := lastLine(w.node); !regexp.MustCompile(want).MatchString(last) {
					t.Errorf("the last line is %s", last)
				}
				w.serve(dir)
				w.remembers()
				if w.run(a).Get("status").String() == "executing" {
					if at := w.key("sync", "a"); at.Get("used").Int() != 1 || at.Get("holders.0.fence").Uint() != grant.Get("fence").Uint() {
						t.Errorf("the run executes, and its key is %s", at)
					}
					w.complete(grant)
				}
				w.is(a, "completed")
				// The waiter's grant may stand in the journal, though nobody was told of it.
				if at := w.key("sync", "a"); at.Get("used").Int() == 0 {
					w.one("sync")
				}
				if at := w.key("sync", "a"); at.Get("used").Int() != 1 || at.Get("holders.0.run_id").String() != b {
					t.Errorf("run %s follows, and the key is %s", b, at)
				}
			})
		}
	}
}

// nthFault is a system call that fails once for each thread of a life, at its nth.
type nthFault struct {
	call  string // as strace spells it
	errno string
	nth   int
	file  string // below the data directory; empty: any
}

// ofArchive says whether only the archive makes such calls.
func (f nthFault) ofArchive() bool { return f.call == "pwrite64" || f.call == "fdatasync" }

// TestS16NthCallFails makes one system call of a life fail: while it starts, under
// load, or while it takes snapshots. It fails when the node goes on after its journal
// failed, ends with another code than 1, doesn't name file and error, or when anything
// that it acknowledged is gone after the next start.
func TestS16NthCallFails(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	for _, f := range nthFaults() {
		t.Run(fmt.Sprintf("%s %s %d %s", f.call, f.errno, f.nth, f.file), func(t *testing.T) {
			defer func() {
				if t.Skipped() {
					ends["no tracer"]++
				}
			}()
			ends[f.play(t)]++
		})
	}
	t.Logf("lives by how they ended: %v", ends)
	if ends["fault"]+ends["no start"] == 0 && !t.Failed() && ends["no tracer"] == 0 {
		t.Error("no fault was ever met, so nothing is shown")
	}
}

// play gives how the life ended: at the fault, before it was ready, or by itself. Without
// a tracer it skips the test.
func (f nthFault) play(t *testing.T) (end string) {
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", `{"limit":{"key":"k","max":2},"lease_seconds":30}`)
	w.submitMany(3, "sync", `{"k":"a"}`)
	w.complete(w.one("sync"))
	w.node.kill()
	rules := []string{"-e", "trace=" + f.call, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", f.call, f.errno, f.nth)}
	if f.file != "" {
		rules = append(rules, "-P", filepath.Join(dir, f.file))
	}
	n := traced(t, rules, "serve", "--data", dir, "--addr", "127.0.0.1:0", "--recent", "1s", "--recent-runs", "1")
	end = w.liveUnder(n, f.ofArchive())
	says := lastLine(n)
	switch code := n.exit(); {
	case end != "its own" && (code != exitOther || !strings.Contains(says, faultText[f.errno]) || !namesFile(says, dir)):
		t.Errorf("it ends with %d, want 1, and its last line is %s", code, says)
	case end == "its own" && code != exitOK:
		t.Errorf("SIGTERM ends it with %d: %s", code, says)
	}
	w.serve(dir)
	w.remembers()
	w.complete(w.one("sync"))
	return end
}

// namesFile says whether a line names a file of the data directory; those of the archive
// are known by their day.
func namesFile(line, dir string) bool {
	return strings.Contains(line, dir) || regexp.MustCompile(`\d{4}-\d\d-\d\d\.db|keys\.db`).MatchString(line)
}

// liveUnder works with a node until it ends, or until it has archived something.
func (w *witness) liveUnder(n *child, archiving bool) (end string) {
	w.t.Helper()
	n.says(`msg=ready|pyrula-node: |the node stops`)
	if !strings.Contains(n.said(), "msg=ready") {
		return "no start"
	}
	w.attend(n)
	for range 40 {
		w.trySubmit("sync", `{"k":"b"}`)
		status, answer := w.send(http.MethodPost, "/v1/claims", claimOf(1, 0, "sync"))
		for _, g := range answer.Get("runs").Array() {
			status, _ = w.tryComplete(g, `"done"`)
		}
		if status == 0 {
			return "fault"
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for archiving && archived(w.t, w.url) < 1 {
		select {
		case <-late:
			w.t.Fatalf("nothing is archived:\n%s", n.said())
		case <-tick.C:
		case <-n.ended:
			return "fault"
		}
	}
	n.signal(syscall.SIGTERM)
	if n.exit() != exitOK {
		return "fault"
	}
	return "its own"
}
