package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
	"github.com/pyrula/pyrula-node/transport/apitest"
)

// fakeAPI answers requests as a script says, for what a node can't easily be brought to
// say. Both sides are held against the OpenAPI document, so it can't say what no node
// would, and no command can ask what no node takes.
type fakeAPI struct {
	mu      sync.Mutex // guards everything below
	answers map[string][]fakeAnswer
	asked   []string // METHOD TARGET [Idempotency-Key] BODY
}

type fakeAnswer struct {
	status int
	body   string
}

// newFakeAPI reads one answer a line: METHOD PATH STATUS BODY. Several for one method and
// path are given in order, the last one again and again. Lines with # are comments. The
// status 0 breaks the connection. A body
// that begins with "run:" has some fields of a status object, "list:" several such, "problem:" a problem's;
// one that begins with "lines:" is a JSON array whose entries stand on a line each.
func newFakeAPI(text string) (*fakeAPI, error) {
	f := &fakeAPI{answers: map[string][]fakeAnswer{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, " ", 4)
		if len(parts) != 4 {
			return nil, fmt.Errorf("%q: want METHOD PATH STATUS BODY", line)
		}
		status, err := strconv.Atoi(parts[2])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		body, err := fullBody(status, parts[3])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		key := parts[0] + " " + parts[1]
		f.answers[key] = append(f.answers[key], fakeAnswer{status, body})
	}
	return f, nil
}

// fakeRun is a status object of which a script says what matters.
type fakeRun struct{ wire.Run }

func bareRun() wire.Run {
	run := wire.Run{Workflow: "charge", Gates: []wire.Gate{}, SubmittedAt: 1_796_000_000_000}
	run.Provenance.Source.Trigger = "client"
	return run
}

// UnmarshalJSON leaves what isn't said as it is in a bare run.
func (r *fakeRun) UnmarshalJSON(b []byte) error {
	r.Run = bareRun()
	return json.Unmarshal(b, &r.Run)
}

// fullBody fills up a body that says only what matters.
func fullBody(status int, body string) (string, error) {
	var whole any
	switch kind, rest, _ := strings.Cut(body, ":"); kind {
	case "run":
		var run fakeRun
		if err := json.Unmarshal([]byte(rest), &run); err != nil {
			return "", err
		}
		whole = run
	case "list":
		var some []fakeRun
		if err := json.Unmarshal([]byte(rest), &some); err != nil {
			return "", err
		}
		whole = map[string]any{"runs": some, "next_cursor": "c2"}
	case "lines":
		var some []json.RawMessage
		if err := json.Unmarshal([]byte(rest), &some); err != nil {
			return "", err
		}
		var text strings.Builder
		for _, one := range some {
			text.Write(append(one, '\n'))
		}
		return text.String(), nil
	case "problem":
		p := wire.Problem{Status: status}
		if err := json.Unmarshal([]byte(rest), &p); err != nil {
			return "", err
		}
		known, ok := transport.Describe(p.Code)
		if !ok {
			return "", fmt.Errorf("no problem has the code %q", p.Code)
		}
		p.Type, p.Title, p.Retryable = wire.PathProblems+"/"+p.Code, known.Title, known.Retryable
		whole = p
	default:
		return body, nil
	}
	text, err := json.Marshal(whole)
	return string(text), err
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(fmt.Sprintf("%s %s [%s] %s", r.Method, r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), body)))
	key := r.Method + " " + r.URL.EscapedPath()
	left := f.answers[key]
	if len(left) == 0 {
		left = []fakeAnswer{{404, `{"type":"/v1/problems/not_found","title":"Not found","status":404,"detail":"the script has no answer to ` + key + `","code":"not_found","retryable":false}`}}
	}
	if len(left) > 1 {
		f.answers[key] = left[1:]
	}
	if left[0].status == 0 {
		panic(http.ErrAbortHandler)
	}
	kind := wire.ContentJSON
	switch {
	case left[0].status >= 400:
		kind = wire.ContentProblem
	case r.Header.Get("Content-Type") == wire.ContentNDJSON:
		kind = wire.ContentNDJSON
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(left[0].status)
	if _, err := io.WriteString(w, left[0].body); err != nil {
		return // the command has gone
	}
}

var apiChecker = sync.OnceValues(apitest.New)

// fake starts one for a test and gives its address.
func fake(t *testing.T, text string) string {
	t.Helper()
	f, err := newFakeAPI(text)
	if err != nil {
		t.Fatal(err)
	}
	check, err := apiChecker()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(check.Handler(f, func(err error) { t.Errorf("the document doesn't allow it: %v", err) }))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// scriptAPI is the command api FILE: a fakeAPI from now on, named by PYRULA_ADDR.
func scriptAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: api FILE")
	}
	f, err := newFakeAPI(ts.ReadFile(args[0]))
	ts.Check(err)
	check, err := apiChecker()
	ts.Check(err)
	var wrong []error
	var mu sync.Mutex
	server := httptest.NewServer(check.Handler(f, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, err)
	}))
	ts.Defer(func() {
		server.Close()
		for _, err := range wrong {
			ts.Logf("the document doesn't allow it: %v", err)
		}
		if len(wrong) > 0 {
			ts.Fatalf("requests or answers that the document doesn't have")
		}
	})
	fakes.Store(ts, f)
	ts.Setenv("PYRULA_ADDR", strings.TrimPrefix(server.URL, "http://"))
}

// fakes are the fakeAPI of each script that has one.
var fakes sync.Map

// scriptAsked is the command asked REGEXP: a request since the last asked was so.
func scriptAsked(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: asked REGEXP")
	}
	want := regexp.MustCompile(args[0])
	found, ok := fakes.Load(ts)
	if !ok {
		ts.Fatalf("asked without api")
	}
	f := found.(*fakeAPI)
	f.mu.Lock()
	defer f.mu.Unlock()
	all := strings.Join(f.asked, "\n")
	f.asked = nil
	if want.MatchString(all) == neg {
		ts.Fatalf("the requests were\n%s", all)
	}
}
