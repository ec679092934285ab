package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// firstSegment is the journal's first file.
const firstSegment = "00000000000000000001"

// traced starts the program under strace, which does to its system calls what rules
// say. The node is the process itself, so that signals and exit codes are its own.
func traced(t *testing.T, rules []string, args ...string) *child {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace isn't installed here, so no system call can be made to fail or to wait")
	}
	if err := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-o", os.DevNull, "true").Run(); err != nil {
		t.Skipf("strace may not trace here: %v", err)
	}
	program, err := exec.LookPath(longName)
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{"-D", "-f", "-qq", "-y", "-o", filepath.Join(t.TempDir(), "calls")}, rules...)
	return spawnAs(t, strace, append(append(all, program), args...)...)
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// early is what clients were told by a node that may not be ready yet.
type early struct {
	mu      sync.Mutex
	answers map[string]int // path and status -> how often
	faults  []string
}

// TestS08P85NothingBeforeReplayIsDone fails when a node that replays its journal grants
// a run, calls itself ready or takes work, when it doesn't say how far it is, or when
// the holder of before the kill loses its slot to somebody who claimed meanwhile.
func TestS08P85NothingBeforeReplayIsDone(t *testing.T) {
	t.Parallel()
	w, dir, addr := newWitness(t), t.TempDir(), freeAddr(t)
	w.serve(dir)
	w.declare("sync", oneSlot)
	w.submitMany(3, "sync", `{"k":"a"}`)
	grant := w.one("sync")
	w.node.kill()

	// Reading the journal takes longer than the second after which a node tells how
	// far it is.
	n := traced(t, []string{
		"-P", filepath.Join(dir, "journal", firstSegment), "-e", "trace=read,pread64", "-e", "inject=read,pread64:delay_enter=1200000:when=1",
	}, "serve", "--data", dir, "--addr", addr)
	e := &early{answers: map[string]int{}}
	w.url = "http://" + addr
	stop := make(chan struct{})
	var crew sync.WaitGroup
	for range 4 {
		crew.Go(func() { e.knock(w, stop) })
	}
	n.says(`msg="recovery goes on".*segment=\d+ of=\d+ entries=\d+ bytes=\d+ elapsed=\S+`)
	n.says(`msg=recovered records=\d+ runs=3 keys=\d+ seconds=[1-9]\S* dropped_bytes=0`)
	n.url()
	close(stop)
	crew.Wait()
	t.Logf("answers: %v", e.answers)
	for _, path := range append([]string{"/readyz"}, works...) {
		if e.answers[path+" 503"] == 0 {
			t.Errorf("%s was never refused while the node replays: %v", path, e.answers)
		}
	}
	for _, fault := range e.faults {
		t.Error(fault)
	}
	w.node = n
	if at := w.key("sync", "a"); at.Get("holders.0.run_id").String() != grant.Get("run_id").String() || !w.beat(grant) {
		t.Errorf("run %s held the key, and it is %s", grant.Get("run_id"), at)
	}
	w.complete(grant)
	w.one("sync")
	w.remembers()
}

// works are the requests that a node must not take before it is ready.
var works = []string{"/v1/claims", "/v1/workflows/sync/runs", "/v1/heartbeats"}

// knock asks again and again for what a node that replays must not give. Whoever was
// answered otherwise than by a refusal must then find the node ready.
func (e *early) knock(w *witness, stop <-chan struct{}) {
	client := &http.Client{Timeout: patience}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	bodies := []string{claimOf(3, 0, "sync"), `{"params":{"k":"z"}}`, `{"worker":"w","runs":[{"run_id":"` + w.runs[0] + `","fence":1}]}`}
	for {
		taken := ""
		for i, path := range works {
			status, answer := ask(client, w.url+path, bodies[i])
			e.note(path, status)
			if status != 0 && status != 503 {
				taken = path
			}
			if at := answer.Get(`runs.#(key=="a")`); at.Exists() {
				e.faultf("granted %s beside a holder that was replayed", at)
			}
		}
		status, answer := ask(client, w.url+"/readyz", "")
		e.note("/readyz", status)
		if taken != "" && status != 200 {
			e.faultf("%s was answered before the node was ready: %d %s", taken, status, answer)
		}
		select {
		case <-again.C:
		case <-stop:
			return
		}
	}
}

// ask posts a body, or gets without one. Status 0 means that there is no answer.
func ask(client *http.Client, url, body string) (int, gjson.Result) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, gjson.Result{}
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, gjson.Result{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, gjson.Result{}
	}
	return resp.StatusCode, gjson.ParseBytes(text)
}

func (e *early) note(path string, status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[fmt.Sprintf("%s %d", path, status)]++
}

func (e *early) faultf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, fmt.Sprintf(format, args...))
}
