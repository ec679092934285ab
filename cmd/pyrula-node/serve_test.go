package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// post sends a body to the API and gives the status and the answer. A connection
// that breaks gives status 0.
func post(url, body string) (int, string) {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestServeDrains fails when SIGTERM doesn't drain a node: /readyz must answer 503,
// what ends work must still be taken, a waiting claim must end, the exit code must
// be 0, and the next start must have everything from snapshots alone.
func TestServeDrains(t *testing.T) {
	dir := t.TempDir()
	// The delay is long enough for this test; a second signal ends it early.
	c := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0", "--drain-delay", "1m")
	url := c.url()
	_, answer := post(url+"/charge", `{"tenant":"acme"}`)
	id := gjson.Get(answer, "run_id").String()
	claim := `{"worker":"w1","workflows":[{"name":"charge","version":""}],"credit":1,"wait_ms":30000}`
	declare, err := http.NewRequest(http.MethodPut, url+"/v1/workflows/charge", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(declare)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	_, answer = post(url+"/v1/claims", claim)
	fence := gjson.Get(answer, "runs.0.fence").String()
	waiting := make(chan string, 1)
	go func() {
		_, text := post(url+"/v1/claims", claim)
		waiting <- text
	}()
	c.signal(syscall.SIGTERM)
	c.says("msg=draining")
	if text := <-waiting; text != `{"runs":[]}` && !strings.Contains(text, `"not_ready"`) {
		t.Errorf("the waiting claim got %s", text)
	}
	if status, text := get(t, url+"/readyz"); status != 503 || gjson.Get(text, "ready").Bool() {
		t.Errorf("/readyz answers %d %s while draining", status, text)
	}
	if status, text := post(url+"/v1/runs/"+id+"/complete", `{"fence":`+fence+`}`); status != 200 {
		t.Errorf("a completion while draining: %d %s", status, text)
	}
	// A signal right behind the first would be taken for the same request.
	again := time.NewTicker(oneRequest / 4)
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-again.C:
			c.signal(syscall.SIGTERM)
		case <-c.ended:
			ended = true
		}
	}
	if c.code != exitInterrupted {
		t.Errorf("a second signal ends it with %d, want %d", c.code, exitInterrupted)
	}

	c = spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	c.url()
	c.signal(syscall.SIGTERM)
	if code := c.exit(); code != exitOK {
		t.Errorf("SIGTERM ends it with %d:\n%s", code, c.said())
	}
	c = spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	url = c.url()
	if got := c.says(`msg=recovered records=(\d+)`); got != "0" {
		t.Errorf("%s records replayed after a clean end, want 0", got)
	}
	if _, text := get(t, url+"/v1/runs/"+id); gjson.Get(text, "status").String() != "completed" {
		t.Errorf("the run is %s", text)
	}
}

// TestServeLocked fails when two nodes can open one directory, or when the second
// doesn't say why it can't.
func TestServeLocked(t *testing.T) {
	dir := t.TempDir()
	first := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	first.url()
	first.says("level=WARN msg=\"the data directory is new")
	second := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	if code := second.exit(); code != exitOther {
		t.Errorf("the second node ends with %d, want 1", code)
	}
	second.says(regexp.QuoteMeta(dir) + ".* is in use by another process")
	if strings.Contains(second.said(), "is new") {
		t.Error("a directory with a journal is called new")
	}
}

// TestServeMismatch fails when a directory can be opened under another name of the
// node.
func TestServeMismatch(t *testing.T) {
	dir := t.TempDir()
	first := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	first.url()
	first.kill()
	second := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0", "--node-id", "n2")
	if code := second.exit(); code != exitUsage {
		t.Errorf("it ends with %d, want 2", code)
	}
	second.says("has node_id n1, the configuration says n2")
}

// TestServeRefusesDamage fails when a node starts with a journal that was changed
// in its middle, or doesn't name the file and the offset.
func TestServeRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	c := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	url := c.url()
	for i := range 50 {
		if status, text := post(url+"/charge", fmt.Sprintf(`{"n":%d}`, i)); status != 202 {
			t.Fatalf("submit: %d %s", status, text)
		}
	}
	c.kill()
	segments, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %v, error %v", segments, err)
	}
	slices.Sort(segments)
	raw, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 0x40
	if err := os.WriteFile(segments[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	c = spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	if code := c.exit(); code != exitOther {
		t.Errorf("it ends with %d, want 1", code)
	}
	c.says(regexp.QuoteMeta(segments[0]) + ` is damaged at offset \d+`)
}

// TestServeJSONLog fails when a line of the log isn't JSON, or the lines that an
// operator looks for are missing.
func TestServeJSONLog(t *testing.T) {
	c := spawn(t, "serve", "--data", t.TempDir(), "--addr", "127.0.0.1:0", "--fsync", "every=1s", "--log-format", "json")
	c.says(`"msg":"ready"`)
	c.signal(syscall.SIGINT)
	if code := c.exit(); code != exitOK {
		t.Errorf("SIGINT ends it with %d", code)
	}
	said := map[string]gjson.Result{}
	for line := range strings.Lines(c.said()) {
		if !gjson.Valid(line) {
			t.Errorf("%q isn't JSON", line)
		}
		said[gjson.Get(line, "msg").String()] = gjson.Parse(line)
	}
	if got := said["pyrula-node starts"].Get("off_default").String(); got != "addr=127.0.0.1:0 fsync=every=1s log_format=json" {
		t.Errorf("off default: %q", got)
	}
	for _, field := range []string{"records", "runs", "keys", "seconds", "dropped_bytes"} {
		if !said["recovered"].Get(field).Exists() {
			t.Errorf("the recovery line has no %s: %s", field, said["recovered"])
		}
	}
}
