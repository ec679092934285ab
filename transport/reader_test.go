package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// bodies are where the fuzzers begin: something of every shape, and what is odd
// about JSON.
var bodies = []string{
	`{"version":"1","limit":{"key":"k","max":1},"rate":{"key":{"function":"f"},"per_second":0.5,"burst":2},"max_attempts":2,"retry_backoff_seconds":1.5,"lease_seconds":2}`,
	`{"trigger":{"collect":{"key":"cel:event.a","max_events":2,"window_seconds":0.5,"max_bytes":3}},"limit":{"key":"key","max":1}}`,
	`{"trigger":{"debounce":{"key":{"function":"f"},"window_seconds":1e1,"max_wait_seconds":null},"collect":null},"budget":[]}`,
	`{"workflow":"w","params":{"a":[1,{"b":null}]},"idempotency_key":"k","request_id":"r","trigger":"case","budget":null,"stamp":{"version":"1","keys":{"limit":"a","rate":"b"}}}`,
	`{"runs":[{"workflow":"w","params":{}},{"workflow":"v"}]}`,
	`{"worker":"w1","workflows":[{"name":"w","version":"1","gates_hash":"h"}],"credit":1,"wait_ms":0}`,
	`{"worker":"w1","runs":[{"run_id":"run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6","fence":1}]}`,
	`{"fence":18446744073709551615,"result":1e3,"claim":{"worker":"w1","workflows":[{"name":"x"}],"credit":1}}`,
	`{"runs":[{"run_id":"run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6","fence":1,"result":[]}],"claim":null}`,
	`{"fence":1,"error":{"type":"T","message":"\ud83d\ude42\n"},"retryable":true}`,
	`{"fence":1,"until":{"at_ms":1,"signal":"s","timeout_seconds":1,"runs":["a"]}}`,
	`{"fence":1,"until":{"runs":["run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"]},"step":"s","visit":3,"claim":null}`,
	`{"fence":1,"steps":[{"seq":null,"name":"s","visit":2,"result":[1,null],"error":null,"cost_units":7},{"name":"t","error":{"type":"T"}}],"signals":[{"name":"go","visit":1}],"state":{"a":1}}`,
	`{"fence":1,"kind":"child","step":"s","visit":1,"runs":[{"workflow":"w","params":{},"idempotency_key":"k","stamp":{"version":"1","keys":null}}]}`,
	`{"worker":"w","runs":[{"run_id":"r","version":"2","gates_hash":"h","keys":{"limit":"a"},"problem":""}]}`,
	`{"request_id":"r"}`,
	`{"name":"s","workflow":"w","params":{"a":1},"cron":"0 3 * * *","time_zone":"Europe/Paris","every_seconds":0.5,"start_ms":1,"at_ms":2,"catch_up":"all","paused":true}`,
	`{"reason":"r\u0000\"\\\/\b\f\n\r\t"}`,
	`{}`, `[]`, `null`, ``, ` `, `{"a":1}`, `{"fence":1,"fence":1}`, `{"FENCE":1}`, `{"reason":"\ud800"}`, `{"params":[[[[]]]]}`,
	`{"params":{"a":1,}}`, `{"params":{"a":01}}`, `{"params":{"a":1.}}`, `{"params":{"a":-}}`, `{"params":{"a":tru}}`, `{"params":{"a":"` + "\x01" + `"}}`,
	"{\"reason\":\"\xff\"}", "\"\x1f\"", `{"runs":[,{"workflow":"w"}]}`, `{,"fence":1}`, `[,1]`, `{"fence":-0}`, `{"fence":1e0}`, `{"credit":9223372036854775808}`, "\ufeff{}",
}

// readAny reads a body as each shape in turn.
var readAny = map[string]func(*reader) any{
	"declaration":    func(r *reader) any { return r.declaration() },
	"submit":         func(r *reader) any { return r.submit() },
	"batch":          func(r *reader) any { return r.batch() },
	"claim":          func(r *reader) any { return r.claim() },
	"heartbeat":      func(r *reader) any { return r.heartbeat() },
	"complete":       func(r *reader) any { return r.complete() },
	"complete batch": func(r *reader) any { return r.completeBatch() },
	"fail":           func(r *reader) any { return r.fail() },
	"suspend":        func(r *reader) any { return r.suspend() },
	"stop":           func(r *reader) any { return r.stop() },
	"steps":          func(r *reader) any { return r.stepsOf() },
	"children":       func(r *reader) any { return r.children() },
	"retry":          func(r *reader) any { return r.retry() },
	"resolve":        func(r *reader) any { return r.resolve() },
	"schedule":       func(r *reader) any { return r.schedule() },
}

// stdlib decodes the same shape with encoding/json.
var stdlib = map[string]func([]byte) (any, error){
	"declaration": decodeStd[wire.Declaration], "submit": decodeStd[wire.Submit], "batch": decodeStd[wire.Batch], "claim": decodeStd[wire.Claim],
	"heartbeat": decodeStd[wire.Heartbeat], "complete": decodeStd[wire.Complete], "complete batch": decodeStd[wire.CompleteBatch],
	"fail": decodeStd[wire.Fail], "suspend": decodeStd[wire.Suspend], "stop": decodeStd[wire.Stop],
	"steps": decodeStd[wire.Steps], "children": decodeStd[wire.Children], "retry": decodeStd[wire.Retry], "resolve": decodeStd[wire.Resolve],
	"schedule": decodeStd[wire.Schedule],
}

func decodeStd[T any](b []byte) (any, error) {
	var v T
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err := dec.Decode(&v)
	return v, err
}

// sameValue treats what both mean as the same: no value and null, none and empty.
var sameValue = cmp.Options{
	cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 }, cmp.Transformer("raw", func(raw json.RawMessage) string {
		if string(raw) == "null" {
			return ""
		}
		return string(raw)
	})),
	cmpopts.EquateEmpty(),
	cmp.Transformer("credit", func(c wire.Claim) any {
		c.Credit = max(c.Credit, 0) // a missing one is out of bounds on purpose
		return struct {
			Worker    string
			Workflows []wire.ClaimWorkflow
			Numbers   [2]int64
		}{c.Worker, c.Workflows, [2]int64{int64(c.Credit), c.WaitMS}}
	}),
}

// checkReader holds the reader against encoding/json: what it takes, encoding/json
// takes with the same meaning; and it calls nothing malformed that is JSON.
func checkReader(t *testing.T, body []byte) {
	t.Helper()
	valid := json.Valid(body) && utf8.Valid(body)
	for name, read := range readAny {
		var r reader
		own := bytes.Clone(body)
		r.reset(own)
		got := read(&r)
		err := r.end()
		p := ProblemOf(err)
		switch {
		case err != nil && p.Code == wire.CodeInternal:
			t.Errorf("%s %q: error %v is of no known kind", name, body, err)
		case err != nil && p.Code == wire.CodeMalformed && valid:
			t.Errorf("%s %q: %v, and it is JSON", name, body, err)
		case err != nil:
			continue
		case !valid:
			t.Errorf("%s %q is taken, and isn't JSON in UTF-8", name, body)
		}
		clear(own) // what was read must own its bytes
		want, err := stdlib[name](body)
		if err != nil {
			if name == "declaration" && bytes.Contains(body, []byte("key")) {
				continue // a key that is null or {} is refused by the check and not by the reader
			}
			t.Errorf("%s %q is taken, encoding/json says %v", name, body, err)
			continue
		}
		if negative, ok := got.(wire.Claim); ok && negative.Credit < 0 && bytes.Contains(body, []byte("-")) {
			continue // a credit below 0 isn't a missing one
		}
		if diff := cmp.Diff(want, got, sameValue); diff != "" {
			t.Errorf("%s %q reads otherwise than encoding/json does (-want +got):\n%s", name, body, diff)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	f.Fuzz(checkReader)
}

// FuzzScan holds the scanner of any value against encoding/json: it takes exactly
// the JSON texts in UTF-8, down to its depth.
func FuzzScan(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r reader
		r.reset(bytes.Clone(body))
		got := r.raw()
		err := r.end()
		if want := json.Valid(body) && utf8.Valid(body); (err == nil) != want && bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) <= maxDepth {
			t.Errorf("%q is taken: %v, encoding/json says %v", body, err, want)
		}
		if text := bytes.Trim(body, " \t\r\n"); err == nil && !bytes.Equal(got, text) && string(text) != "null" {
			t.Errorf("%q reads as %q", body, got)
		}
	})
}

// A value that is deeper than the bound is refused, not recursed into.
func TestDepth(t *testing.T) {
	for _, c := range []struct {
		depth int
		ok    bool
	}{{maxDepth, true}, {maxDepth + 1, false}, {500_000, false}} {
		var r reader
		r.reset([]byte(strings.Repeat("[", c.depth) + strings.Repeat("]", c.depth)))
		r.raw()
		if err := r.end(); (err == nil) != c.ok {
			t.Errorf("%d deep: %v", c.depth, err)
		}
	}
}

// Raw values own their bytes, and no more than those: a run keeps them for as long
// as it is queued.
func TestRawIsExact(t *testing.T) {
	body := []byte(`{"params":{"a":1},"request_id":"` + strings.Repeat("x", 60) + `"}`)
	var r reader
	r.reset(body)
	s := r.submit()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if string(s.Params) != `{"a":1}` || cap(s.Params) != len(s.Params) || s.RequestID != strings.Repeat("x", 60) {
		t.Errorf("params %q with room for %d, request id %q", s.Params, cap(s.Params), s.RequestID)
	}
}

// A list is refused at its bound, before the rest is read.
func TestLongListIsNotRead(t *testing.T) {
	var r reader
	r.reset([]byte(`{"runs":[` + strings.Repeat("{},", wire.MaxBatch) + `!!! not JSON`))
	b := r.batch()
	if err := r.end(); err == nil || ProblemOf(err).Field != "runs" || len(b.Runs) != wire.MaxBatch {
		t.Errorf("%d entries were read, error %v", len(b.Runs), err)
	}
}

func TestReaderReuse(t *testing.T) {
	var r reader
	for i := range 3 {
		r.reset([]byte(`{"until":{"runs":[7`))
		r.suspend()
		if err := r.end(); ProblemOf(err).Field != "until.runs[0]" {
			t.Errorf("round %d: %v, want the same path each time", i, err)
		}
	}
	r.reset([]byte(`{"fence":1}`))
	if got := r.complete(); r.end() != nil || got.Fence != 1 || errors.Is(r.err, r.kind) {
		t.Errorf("after an error: %+v, %v", got, r.err)
	}
}

func ExampleOpenAPI() {
	var doc struct{ OpenAPI string }
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		fmt.Println(err)
	}
	fmt.Println(doc.OpenAPI)
	// Output: 3.1.0
}
