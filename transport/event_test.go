package transport_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// as sets the media type of a request.
func as(mediaType string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Content-Type", mediaType) }
}

var asLines, asCloud, asCloudBatch = as(wire.ContentNDJSON), as(wire.ContentCloudEvent), as(wire.ContentCloudEventBatch)

// cloudHeaders make a request a CloudEvent in binary mode.
func cloudHeaders(id string) func(*http.Request) {
	return func(r *http.Request) {
		for name, value := range map[string]string{"ce-specversion": "1.0", "ce-id": id, "ce-source": "/shop", "ce-type": "order"} {
			r.Header.Set(name, value)
		}
	}
}

// cloudEvent is an event of the source /shop as JSON.
func cloudEvent(id, data string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":"order","data":%s}`, id, data)
}

var eventPaths = []string{"/v1/workflows/digest/events", "/digest/events"}

// lines are the results in an answer of lines.
func (w answer) lines() (all []wire.Triggered) {
	w.t.Helper()
	if got := w.Header().Get("Content-Type"); w.Code != 202 || got != wire.ContentNDJSON || !strings.HasSuffix(w.Body.String(), "\n") {
		w.t.Fatalf("status %d, type %q, %q: want 202 and lines", w.Code, got, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		var one wire.Triggered
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

// P35, P87: both paths take events in every form, and what reaches the node is exactly what
// was sent.
func TestP35P87EventForms(t *testing.T) {
	const a, b = `{"b": [1, {"x":"é"}] , "b":2}`, `{ }`
	for _, c := range []struct {
		what   string
		body   string
		change []func(*http.Request)
		events []string
		ids    []string
	}{
		{"one", " " + a + "\r\n", nil, []string{a}, []string{""}},
		{"one with a type", a, []func(*http.Request){as("application/json; charset=utf-8")}, []string{a}, []string{""}},
		{"one as a form", a, []func(*http.Request){as("application/x-www-form-urlencoded"), fromHere}, []string{a}, []string{""}},
		{"one with a key", a, []func(*http.Request){header("Idempotency-Key", `"o 1"`)}, []string{a}, []string{"ko 1"}},
		{"lines", a + "\n" + b, []func(*http.Request){asLines}, []string{a, b}, []string{"", ""}},
		{"a line", a, []func(*http.Request){asLines}, []string{a}, []string{""}},
		{"lines of CRLF", a + "\r\n \t" + b + " \r\n", []func(*http.Request){as("application/x-ndjson; charset=utf-8")}, []string{a, b}, []string{"", ""}},
		{"lines with a key", a + "\n" + b + "\n", []func(*http.Request){asLines, header("Idempotency-Key", "o")}, []string{a, b}, []string{"ko#1", "ko#2"}},
		{"ndjson", b + "\n", []func(*http.Request){as("application/ndjson")}, []string{b}, []string{""}},
		{"jsonl", b + "\n", []func(*http.Request){as("Application/JSONL")}, []string{b}, []string{""}},
		{"x-jsonlines", b + "\n", []func(*http.Request){as("application/x-jsonlines")}, []string{b}, []string{""}},
		{"jsonlines", b + "\n", []func(*http.Request){as("application/jsonlines")}, []string{b}, []string{""}},
		{"binary", a, []func(*http.Request){cloudHeaders("7")}, []string{a}, []string{"c5:/shop7"}},
		{"binary of a type of its own", a, []func(*http.Request){cloudHeaders("7"), as("application/vnd.shop+json; v=1")}, []string{a}, []string{"c5:/shop7"}},
		{"binary as a form", a, []func(*http.Request){cloudHeaders("7"), as("application/x-www-form-urlencoded"), fromHere}, []string{a}, []string{"c5:/shop7"}},
		{"structured", cloudEvent("7", a), []func(*http.Request){asCloud}, []string{a}, []string{"c5:/shop7"}},
		{"structured with headers too", cloudEvent("7", a), []func(*http.Request){as("application/cloudevents+json; charset=UTF-8"), cloudHeaders("8")}, []string{a}, []string{"c5:/shop7"}},
		{"batch", "[" + cloudEvent("7", a) + " ,\n" + cloudEvent("8", b) + "]", []func(*http.Request){asCloudBatch}, []string{a, b}, []string{"c5:/shop7", "c5:/shop8"}},
	} {
		for _, path := range eventPaths {
			api := newAPI(t)
			w := api.send("POST", path, c.body, c.change...)
			if w.Code != 202 {
				t.Errorf("%s: %d %s", c.what, w.Code, w.Body)
				continue
			}
			got := api.onlyTrigger()
			if got.workflow != "digest" || got.key != nil {
				t.Errorf("%s: sent to %q with the key %v", c.what, got.workflow, got.key)
			}
			if diff := cmp.Diff(c.events, got.bodies()) + cmp.Diff(c.ids, got.ids()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.what, diff)
			}
		}
	}
}

func fromHere(r *http.Request) { r.RemoteAddr = "127.0.0.1:9" }

// P37, P69: the answer is null, or the run of the batch that the event fills, in every form.
func TestP37NullOrARun(t *testing.T) {
	const null, run = `{"run_id":null}`, `{"run_id":"` + benchRun + `"}`
	a := newAPI(t)
	for _, c := range []struct {
		body, want string
		change     func(*http.Request)
	}{
		{`{}`, null, as(wire.ContentJSON)},
		{`{"fills":1}`, run, as(wire.ContentJSON)},
		{`{"fills":1}`, run, cloudHeaders("7")},
		{cloudEvent("7", `{"fills":1}`), run, asCloud},
		{"[" + cloudEvent("7", `{"fills":1}`) + "," + cloudEvent("8", `{}`) + "]", `{"events":[` + run + "," + null + `]}`, asCloudBatch},
		{"{}\n" + `{"fills":1}` + "\n{}", null + "\n" + run + "\n" + null + "\n", asLines},
		{"{}", null + "\n", asLines},
	} {
		for _, path := range eventPaths {
			w := a.send("POST", path, c.body, c.change)
			if w.ok(202, nil); w.Body.String() != c.want {
				t.Errorf("%s answers %s, want %s", c.body, w.Body, c.want)
			}
		}
	}
	// A batch of none is a legal one, and there is nothing to ask the node.
	n := len(a.node.triggers)
	if w := a.send("POST", "/digest/events", " [ ]", asCloudBatch); w.Code != 202 || w.Body.String() != `{"events":[]}` || len(a.node.triggers) != n {
		t.Errorf("an empty batch answers %d %s", w.Code, w.Body)
	}
}

// The events own their bytes: the next body is read into the same buffer.
func TestEventsAreKept(t *testing.T) {
	a := newAPI(t)
	a.send("POST", "/w/events", "{\"a\":\"11111111\"}\n{\"a\":\"22222222\"}", asLines, header("Idempotency-Key", "11")).ok(202, nil)
	first := a.onlyTrigger()
	for range 20 {
		a.send("POST", "/w/events", "{\"b\":\"33333333\"}\n{\"b\":\"44444444\"}", asLines, header("Idempotency-Key", "22")).ok(202, nil)
	}
	if got := first.bodies(); !slices.Equal(got, []string{`{"a":"11111111"}`, `{"a":"22222222"}`}) || first.ids()[0] != "k11#1" {
		t.Errorf("events are %q with the ids %q after later requests", got, first.ids())
	}
	for _, e := range first.events {
		if cap(e.Body) != len(e.Body) {
			t.Errorf("%s has room for %d more bytes, which are another's", e.Body, cap(e.Body)-len(e.Body))
		}
	}
}

// R22: whatever is wrong with one event, wherever it stands, the node sees none, and the
// refusal says which.
func TestR22AllAreCheckedFirst(t *testing.T) {
	huge := `{"p":"` + strings.Repeat("x", flow.MaxEventBytes-len(`{"p":""}`)+1) + `"}`
	for _, c := range []struct{ event, code, detail string }{
		{``, invalid, "line 0: must not be empty: each line is a JSON object"},
		{" \t", invalid, "line 0: must not be empty: each line is a JSON object"},
		{`[]`, invalid, "line 0: must be a JSON object"},
		{`null`, invalid, "line 0: must be a JSON object"},
		{`"x"`, invalid, "line 0: must be a JSON object"},
		{`{"a":01}`, wire.CodeMalformed, "line 0: not JSON: offset 6"},
		{`{"a":1`, wire.CodeMalformed, "line 0: the JSON ends too early: offset 6"},
		{`{} {}`, wire.CodeMalformed, "line 0: data after the JSON document: offset 3"},
		{"{}\r{}", wire.CodeMalformed, "line 0: data after the JSON document: offset 3"},
		{"{\"\xff\":1}", wire.CodeMalformed, "line 0: the body is not UTF-8: offset 2"},
		{"\x00", wire.CodeMalformed, "line 0: not JSON: offset 0"},
		{`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, invalid, "line 0: must be nested at most 1000 deep"},
		{huge, invalid, fmt.Sprintf("line 0: must be at most %d bytes", flow.MaxEventBytes)},
	} {
		for _, at := range []int{0, 3, wire.MaxEvents - 1} {
			all := slices.Repeat([]string{`{}`}, wire.MaxEvents)
			all[at] = c.event
			a := newAPI(t)
			place := fmt.Sprintf("line %d", at+1)
			p := a.send("POST", "/w/events", strings.Join(all, "\n")+"\n", asLines).refused(c.code, place)
			if want := strings.Replace(c.detail, "line 0", place, 1); p.Detail != want {
				t.Errorf("%.40q says %q, want %q", c.event, p.Detail, want)
			}
			if len(a.node.triggers) != 0 {
				t.Errorf("%.40q in %s: the node has seen %d calls", c.event, place, len(a.node.triggers))
			}
		}
	}
	a := newAPI(t)
	a.send("POST", "/w/events", strings.Repeat("{}\n", wire.MaxEvents), asLines).ok(202, nil)
	a.send("POST", "/w/events", strings.Repeat("{}\n", wire.MaxEvents+1), asLines).refused(invalid, "body")
	a.send("POST", "/w/events", "\n", asLines).refused(invalid, "line 1")
	a.send("POST", "/w/events", "", asLines).refused(wire.CodeMalformed, "")
	a.send("POST", "/w/events", "\xef\xbb\xbf{}", asLines).refused(wire.CodeMalformed, "line 1")
	if got := len(a.onlyTrigger().events); got != wire.MaxEvents {
		t.Errorf("%d events were taken, want the full request", got)
	}
}

// R22: the same of a batch of CloudEvents.
func TestR22AllCloudEventsAreCheckedFirst(t *testing.T) {
	huge := `{"p":"` + strings.Repeat("x", flow.MaxEventBytes) + `"}`
	for _, c := range []struct{ event, code, field string }{
		{`7`, invalid, ""},
		{cloudEvent("x", `[]`), invalid, ".data"},
		{cloudEvent("x", `null`), invalid, ".data"},
		{cloudEvent("x", huge), invalid, ".data"},
		{cloudEvent("", `{}`), invalid, ".id"},
		{strings.Replace(cloudEvent("x", `{}`), "1.0", "0.3", 1), invalid, ".specversion"},
		{strings.Replace(cloudEvent("x", `{}`), `"type"`, `"Type"`, 1), unknown, ".Type"},
		{strings.Replace(cloudEvent("x", `{}`), `"/shop"`, `"`+long[:flow.MaxEventIDBytes]+`"`, 1), invalid, ".id"},
	} {
		for _, at := range []int{0, 2, wire.MaxEvents - 1} {
			all := slices.Repeat([]string{cloudEvent("7", `{}`)}, wire.MaxEvents)
			all[at] = c.event
			a := newAPI(t)
			a.send("POST", "/w/events", "["+strings.Join(all, ",")+"]", asCloudBatch).refused(c.code, fmt.Sprintf("events[%d]%s", at, c.field))
			if len(a.node.triggers) != 0 {
				t.Errorf("%s at %d: the node has seen %d calls", c.event, at, len(a.node.triggers))
			}
		}
	}
	a := newAPI(t)
	full := strings.Repeat(cloudEvent("7", `{}`)+",", wire.MaxEvents-1) + cloudEvent("7", `{}`)
	a.send("POST", "/w/events", "["+full+"]", asCloudBatch).ok(202, nil)
	a.send("POST", "/w/events", "["+full+","+cloudEvent("7", `{}`)+"]", asCloudBatch).refused(invalid, "events")
	a.send("POST", "/w/events", full, asCloudBatch).refused(invalid, "body")
	a.send("POST", "/w/events", "[", asCloudBatch).refused(wire.CodeMalformed, "")
	if got := len(a.onlyTrigger().events); got != wire.MaxEvents {
		t.Errorf("%d events were taken, want the full batch", got)
	}
}

// R22: what the node refuses is the result of that event alone, in its place.
func TestR22EachEventHasItsResult(t *testing.T) {
	a := newAPI(t)
	texts := []string{`{}`, `{"x":"too many"}`, `{"x":"fills"}`, `{"x":"odd key"}`, `{}`}
	events := slices.Clone(texts)
	for i, text := range texts {
		events[i] = cloudEvent(fmt.Sprint(i), text)
	}
	var batch wire.EventsResult
	a.send("POST", "/w/events", "["+strings.Join(events, ",")+"]", asCloudBatch).ok(202, &batch)
	for _, got := range [][]wire.Triggered{a.send("POST", "/w/events", strings.Join(texts, "\n"), asLines).lines(), batch.Events} {
		if len(got) != len(texts) {
			t.Fatalf("%d results of %d events", len(got), len(texts))
		}
		for i, r := range got {
			code, run := "", r.RunID != nil && *r.RunID == benchRun
			if r.Problem != nil {
				code = r.Problem.Code
			}
			if want := []string{"", wire.CodeBufferFull, "", config, ""}[i]; code != want || run != (i == 2) || r.RunID != nil && !run {
				t.Errorf("event %d answers %+v, want the code %q", i, r, want)
			}
		}
	}
	for i, c := range a.node.triggers {
		if !slices.Equal(c.bodies(), texts) {
			t.Errorf("call %d has the events %q, want those of the request in order", i, c.bodies())
		}
	}
}

// P70: the event past the bound answers 429, says whose batch is full and when to come again.
func TestP70BufferFull(t *testing.T) {
	a := newAPI(t)
	const text = `{"x":"too many"}`
	for _, c := range []struct {
		body   string
		change func(*http.Request)
	}{{text, as(wire.ContentJSON)}, {text, cloudHeaders("7")}, {cloudEvent("7", text), asCloud}} {
		w := a.send("POST", "/w/events", c.body, c.change)
		p := w.refused(wire.CodeBufferFull, "")
		if w.Code != 429 || p.Key != "acme" || p.RetryAfterMS != 2501 || !p.Retryable || w.Header().Get("Retry-After") != "3" || !strings.Contains(p.Detail, "10000 events") {
			t.Errorf("status %d, Retry-After %s: %+v", w.Code, w.Header().Get("Retry-After"), p)
		}
	}
	// Alone on its line it is that line's result too: another key may have room.
	got := a.send("POST", "/w/events", text, asLines).lines()
	if p := got[0].Problem; len(got) != 1 || got[0].RunID != nil || p == nil || p.Code != wire.CodeBufferFull || p.Key != "acme" || p.RetryAfterMS != 2501 {
		t.Errorf("a line answers %+v", got)
	}
}

// P75: no trigger is a configuration error, an unknown workflow is not found, in every form.
func TestP75NoTriggerAndUnknown(t *testing.T) {
	for _, c := range []struct {
		body   string
		change func(*http.Request)
	}{
		{`{}`, as(wire.ContentJSON)}, {`{}`, cloudHeaders("7")}, {cloudEvent("7", `{}`), asCloud},
		{"[" + cloudEvent("7", `{}`) + "," + cloudEvent("8", `{}`) + "]", asCloudBatch}, {"{}\n{}\n", asLines},
	} {
		for _, path := range []string{"/v1/workflows/%s/events", "/%s/events"} {
			a := newAPI(t)
			if p := a.send("POST", fmt.Sprintf(path, "unknown"), c.body, c.change).refused(wire.CodeUnknownWorkflow, ""); p.Status != 404 {
				t.Errorf("an unknown workflow answers %d", p.Status)
			}
			if p := a.send("POST", fmt.Sprintf(path, "untriggered"), c.body, c.change).refused(config, "trigger"); p.Status != 400 {
				t.Errorf("a workflow without a trigger answers %d", p.Status)
			}
		}
	}
	a := newAPI(t)
	a.send("POST", "/v1/workflows/v1/events", `{}`).refused(wire.CodeUnknownWorkflow, "name")
	a.send("POST", "/v1/events", `{}`).refused(wire.CodeNotFound, "")
}

// What stops all events stops the request: a sender that looks at the status alone sees it.
func TestAllRefusedAlike(t *testing.T) {
	for err, status := range map[error]int{
		flow.ErrOverloaded: 429, flow.ErrArchiveBehind: 429, flow.ErrNotReady: 503, flow.ErrOutcomeUnknown: 503, fmt.Errorf("disk: %w", flow.ErrCodec): 500,
	} {
		a := newAPI(t)
		a.node.fail(err)
		for _, w := range []answer{a.send("POST", "/w/events", "{}\n{}", asLines), a.send("POST", "/w/events", "["+cloudEvent("7", `{}`)+"]", asCloudBatch)} {
			if w.Code != status {
				t.Errorf("%v answers %d, want %d", err, w.Code, status)
			}
		}
	}
	a := newAPI(t)
	a.send("POST", "/keyed/events", "{}\n{}", asLines).refused(config, "key")
	a.send("POST", "/keyed/events", "{}\n{}", asLines, header(wire.HeaderKey, "a")).lines()
	if got := a.send("POST", "/w/events", `{"x":"odd key"}`+"\n"+`{"x":"odd key"}`, asLines).lines(); len(got) != 2 || got[1].Problem == nil {
		t.Errorf("two events whose keys can't be computed answer %+v, want a result each", got)
	}
}
