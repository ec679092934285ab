package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// catcher takes requests of events and notes them. A request answers null for each of its
// lines, unless answer says something else.
type catcher struct {
	mu     sync.Mutex // guards lines
	lines  [][]string // of each request
	bytes  []int
	answer func(n int, w http.ResponseWriter) bool // of the n-th request, from 1
}

func (c *catcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	c.lines, c.bytes = append(c.lines, lines), append(c.bytes, len(body))
	n := len(c.lines)
	c.mu.Unlock()
	if c.answer != nil && c.answer(n, w) {
		return
	}
	w.Header().Set("Content-Type", wire.ContentNDJSON)
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, strings.Repeat(`{"run_id":null}`+"\n", len(lines)))
}

// requests is how many have come.
func (c *catcher) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// catch starts one and gives its address.
func catch(t *testing.T, c *catcher) string {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// refuse writes a problem document.
func refuse(w http.ResponseWriter, status int, code, field string) bool {
	w.Header().Set("Content-Type", wire.ContentProblem)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"/v1/problems/%s","title":"T","status":%d,"detail":"%s: no","code":"%s","field":"%s","retryable":true}`, code, status, field, code, field)
	return true
}

// sendFile runs events send with a file of so many lines, numbered from 1.
func sendFile(ctx context.Context, t *testing.T, addr string, lines int, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	var text strings.Builder
	for n := range lines {
		fmt.Fprintf(&text, "{\"n\":%d}\n", n+1)
	}
	return sendText(ctx, t, addr, text.String(), flags...)
}

func sendText(ctx context.Context, t *testing.T, addr, text string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var data, talk bytes.Buffer
	p := program{
		name: longName, args: append([]string{"events", "send", "digest", "@" + name, "--addr", addr}, flags...),
		stdout: &data, stderr: &talk, getenv: func(string) string { return "" },
	}
	code = p.run(ctx)
	return code, data.String(), talk.String()
}

// TestP35ManyEventsInOrder fails when lines are lost, doubled or out of order on their way,
// or when a request is larger than it may be.
func TestP35ManyEventsInOrder(t *testing.T) {
	c := &catcher{}
	code, stdout, stderr := sendFile(t.Context(), t, catch(t, c), 1203, "-o", "json")
	if code != exitOK || stderr != "" || strings.Count(stdout, "\n") != 1203 {
		t.Fatalf("exit code %d, %d answers, %q", code, strings.Count(stdout, "\n"), stderr)
	}
	next := 1
	for i, lines := range c.lines {
		if len(lines) != []int{500, 500, 203}[i] {
			t.Errorf("request %d has %d lines", i, len(lines))
		}
		for _, line := range lines {
			if want := fmt.Sprintf(`{"n":%d}`, next); line != want {
				t.Fatalf("line %d arrives as %s", next, line)
			}
			next++
		}
	}
	if next != 1204 {
		t.Errorf("%d lines arrived", next-1)
	}
	// Large events go in smaller requests, and what grows as it is encoded counts as it is.
	c = &catcher{}
	large := fmt.Sprintf("{\"p\":\"%s\"}\n", strings.Repeat("<", 60_000)) // 360,000 bytes as \u003c
	code, _, stderr = sendText(t.Context(), t, catch(t, c), strings.Repeat(large, 5))
	if code != exitOK || len(c.lines) != 3 || !strings.Contains(stderr, "5 events taken, no run made") {
		t.Errorf("exit code %d after %d requests, %q", code, len(c.lines), stderr)
	}
	for i, n := range c.bytes {
		if n > requestBytes {
			t.Errorf("request %d has %d bytes", i, n)
		}
	}
	code, _, stderr = sendText(t.Context(), t, catch(t, c), "{}\n{\"p\":\""+strings.Repeat("x", wire.MaxBodyBytes)+"\"}\n")
	if code != exitUsage || !strings.Contains(stderr, "line 2: it is longer than 1048576 bytes") {
		t.Errorf("a line that is too long: exit code %d, %q", code, stderr)
	}
}

// TestSendInterrupted fails when the count after an interrupt isn't that of what was taken.
func TestSendInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	c := &catcher{answer: func(n int, _ http.ResponseWriter) bool {
		if n == 2 {
			interrupt(errInterrupted)
		}
		return false
	}}
	code, _, stderr := sendFile(ctx, t, catch(t, c), 1600)
	if code != exitInterrupted || len(c.lines) != 2 || !strings.Contains(stderr, "1000 events taken, no run made\ngo on from line 1001\n") {
		t.Errorf("exit code %d after %d requests, %q", code, len(c.lines), stderr)
	}
	// Standard input that says nothing doesn't hold the command.
	silent, writer := io.Pipe()
	defer writer.Close()
	ctx, interrupt = context.WithCancelCause(t.Context())
	interrupt(errInterrupted)
	p := program{
		name: longName, args: []string{"events", "send", "digest", "--addr", catch(t, c)}, stdin: silent,
		stdout: t.Output(), stderr: t.Output(), getenv: func(string) string { return "" },
	}
	if code := p.run(ctx); code != exitInterrupted {
		t.Errorf("with a silent input: exit code %d", code)
	}
}

// TestP65SendIsCutShort fails when a request that is refused as a whole doesn't end the
// command, when it isn't told from where to go on, or when the exit code promises that the
// same command again is safe though some events were taken.
func TestP65SendIsCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		at     int // the request that is refused
		answer func(w http.ResponseWriter) bool
		code   int
		says   string
	}{
		"busy, at first": {1, func(w http.ResponseWriter) bool { return refuse(w, 429, wire.CodeOverloaded, "") }, exitUnreachable, "no event taken, no run made\npyrula-node: "},
		"busy, later":    {2, func(w http.ResponseWriter) bool { return refuse(w, 429, wire.CodeOverloaded, "") }, exitOther, "500 events taken, no run made\ngo on from line 501\n"},
		"unknown":        {1, func(w http.ResponseWriter) bool { return refuse(w, 404, wire.CodeUnknownWorkflow, "") }, exitNotFound, "no event taken"},
		"a line":         {2, func(w http.ResponseWriter) bool { return refuse(w, 422, wire.CodeInvalid, "line 7") }, exitUsage, "go on from line 501\npyrula-node: line 507: no (invalid_argument)\n"},
		"broken":         {2, func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }, exitOther, "lines 501 to 1000 may have been taken; once that is known, go on from line 501 or 1001\n"},
		"broken at first": {
			1, func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }, exitOther, "no event taken, no run made\nlines 1 to 500 may have been taken",
		},
		"not what it promises": {2, func(w http.ResponseWriter) bool { w.WriteHeader(202); return true }, exitOther, "lines 501 to 1000 may have been taken"},
	} {
		c2 := &catcher{answer: func(n int, w http.ResponseWriter) bool { return n >= c.at && c.answer(w) }}
		code, _, stderr := sendFile(t.Context(), t, catch(t, c2), 1600)
		came := c2.requests()
		if code != c.code || !strings.Contains(stderr, c.says) || came < c.at || came > c.at+1 { // Go itself sends again on a connection that was used before
			t.Errorf("%s: exit code %d after %d requests, %q; want %d and %q", name, code, came, stderr, c.code, c.says)
		}
	}
	code, _, stderr := sendFile(t.Context(), t, "127.0.0.1:1", 3)
	if code != exitUnreachable || !strings.Contains(stderr, longName+" dev starts one") {
		t.Errorf("without a node: exit code %d, %q", code, stderr)
	}
	broken := catch(t, &catcher{answer: func(int, http.ResponseWriter) bool { panic(http.ErrAbortHandler) }})
	for _, c := range []struct {
		flags []string
		want  int
	}{{nil, exitOther}, {[]string{"--id", "d-1"}, exitUnreachable}} {
		code, stderr := invoke(t, append([]string{"events", "send", "digest", "{}", "--addr", broken}, c.flags...)...)
		if code != c.want || strings.Contains(stderr, "taken, ") {
			t.Errorf("%v without an answer: exit code %d, %q", c.flags, code, stderr)
		}
	}
}

// TestP65RefusedEvents fails when an event that is refused alone isn't told of with its
// line, stops the others, or ends the command with another code than the worst has.
func TestP65RefusedEvents(t *testing.T) {
	result := func(code, detail string) string {
		return `{"run_id":null,"problem":{"type":"/v1/problems/` + code + `","title":"T","status":429,"detail":"` + detail + `","code":"` + code + `","retryable":true}}`
	}
	const taken, filled = `{"run_id":null}`, `{"run_id":"` + runA + `"}`
	full, wrong := result(wire.CodeBufferFull, "its batch is full"), result(wire.CodeConfiguration, "event.n can't be a key")
	for _, c := range []struct {
		lines []string
		code  int
		says  string
	}{
		{[]string{taken, full, filled}, exitOther, "line 2: its batch is full (buffer_full)\n2 events taken, 1 run made, 1 refused\npyrula-node: 1 of 3 events refused, the first in line 2\n"},
		{[]string{wrong, taken, wrong}, exitUsage, "line 3: event.n can't be a key (configuration_error)\n1 event taken, no run made, 2 refused\n"},
		{[]string{wrong, full}, exitOther, "no event taken, no run made, 2 refused\n"},
	} {
		addr := fake(t, "POST /v1/workflows/digest/events 202 lines:["+strings.Join(c.lines, ",")+"]")
		code, stdout, stderr := sendFile(t.Context(), t, addr, len(c.lines))
		if code != c.code || !strings.Contains(stderr, c.says) || strings.Contains(stdout, runA+" filled by line 3\n") != (c.code == exitOther && len(c.lines) == 3) {
			t.Errorf("exit code %d, %q, %q; want %d and %q", code, stdout, stderr, c.code, c.says)
		}
		code, stdout, stderr = sendFile(t.Context(), t, addr, len(c.lines), "-o", "json")
		if code != c.code || stdout != strings.Join(c.lines, "\n")+"\n" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, `{"type":`) {
			t.Errorf("as JSON: exit code %d, %q, %q", code, stdout, stderr)
		}
	}
	many := &catcher{answer: func(_ int, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", wire.ContentNDJSON)
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, strings.Repeat(full+"\n", 500))
		return true
	}}
	_, _, stderr := sendFile(t.Context(), t, catch(t, many), 1000)
	if len(many.lines) != 2 || strings.Count(stderr, "its batch is full") != toldRefusals || !strings.Contains(stderr, "and 980 more\n") {
		t.Errorf("%d requests, %q", len(many.lines), stderr)
	}
	addr := fake(t, `POST /v1/workflows/digest/events 429 problem:{"code":"buffer_full","detail":"full","key":"a b","retry_after_ms":9000}`)
	code, stderr := invoke(t, "events", "send", "digest", "{}", "--addr", addr)
	if code != exitUnreachable || !strings.Contains(stderr, `See the batch: pyrula-node keys show digest "a b"`) {
		t.Errorf("a single one: exit code %d, %q", code, stderr)
	}
}

// TestReadEvent fails when an event isn't read for what it is, or what is wrong isn't said.
func TestReadEvent(t *testing.T) {
	for text, want := range map[string]string{
		"":             "it is empty, want a JSON object",
		"hello":        "not JSON at byte 1: invalid character 'h' looking for beginning of value",
		"{}{}":         "not JSON at byte 3: invalid character '{' after top-level value",
		"[{}]":         "want a JSON object",
		"null":         "want a JSON object",
		"{\"\xff\":1}": "not UTF-8",
		`{"p":"` + strings.Repeat("x", 768<<10) + `"}`: "it is longer than 785920 bytes",
	} {
		if got, err := readEvent([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.20q is read as %.20s, %v; want %q", text, got, err, want)
		}
	}
	if got, err := readEvent([]byte(" {\n \"a\": [1, 2]\n} ")); err != nil || string(got) != `{"a":[1,2]}` {
		t.Errorf("%s, %v", got, err)
	}
}

// TestP35SlowPipe fails when events of a pipe that stays open wait for a full request.
func TestP35SlowPipe(t *testing.T) {
	came := make(chan []string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		came <- strings.Split(strings.TrimSpace(string(body)), "\n")
		w.Header().Set("Content-Type", wire.ContentNDJSON)
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, `{"run_id":null}`+"\n")
	}))
	t.Cleanup(server.Close)
	in, pipe := io.Pipe()
	p := &program{
		name: longName, args: []string{"events", "send", "digest", "-", "--addr", strings.TrimPrefix(server.URL, "http://")},
		stdin: in, stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" },
	}
	ended := make(chan int, 1)
	go func() { ended <- p.run(t.Context()) }()
	for _, line := range []string{`{"n":1}`, `{"n":2}`} {
		if _, err := io.WriteString(pipe, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-came; len(got) != 1 || got[0] != line { // and the pipe is still open
			t.Errorf("%s came as %q", line, got)
		}
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
