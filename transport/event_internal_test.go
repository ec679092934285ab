package transport

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// takeWith reads a body as events of a form, as a request with the headers would.
func takeWith(form eventForm, body []byte, headers ...string) ([]wire.TriggerEvent, error) {
	x := &exchange{in: body, r: httptest.NewRequest("POST", "/w/events", http.NoBody)}
	for i := 0; i < len(headers); i += 2 {
		x.r.Header.Set(headers[i], headers[i+1])
	}
	return x.takeEvents(form)
}

// eventBodies are where the fuzzer begins, beside the bodies of other requests.
var eventBodies = []string{
	"{}\n{}", "{}\r\n{\"a\":1}\r\n", "\n", "{}\n\n{}", " {} \n\t{}\t", "{}\r{}", "[]\n", "{}\n ", "{\"a\":\"\n\"}",
	`{"specversion":"1.0","id":"7","source":"/s","type":"t","data":{"a":[1]}}`, `{"specversion":"1.0","id":"7","source":"/s","type":"t","data":{},"data":{}}`,
	`[{"specversion":"1.0","id":"7","source":"/s","type":"t","data": { } },{"type":"t","datacontenttype":"a/b+json","source":"/s","id":"\u0037","specversion":"1.0","ext":[],"d\u0061ta":{"":1}}]`,
	`[]`, ` [ ] `, `[{}]`, `[null]`, `{"data_base64":"e30=","specversion":"1.0","id":"7","source":"/s","type":"t"}`, `{"subject":null,"time":null,"x":{"a":1}}`,
}

// FuzzEvents: whatever the body, what is taken are JSON objects exactly as they were sent,
// one for each line or entry, by the word of encoding/json; and what is JSON of the right
// shape isn't called anything else.
func FuzzEvents(f *testing.F) {
	for _, b := range append(eventBodies, bodies...) {
		for form := range formLines + 1 {
			f.Add(byte(form), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, number byte, body []byte) {
		if len(body) == 0 {
			t.Skip("a request without a body is refused before")
		}
		form := eventForm(number) % (formLines + 1)
		sent := bytes.Clone(body)
		var headers []string
		if form == formBinary {
			headers = []string{"ce-specversion", "1.0", "ce-id", "7", "ce-source", "/s", "ce-type", "t"}
		}
		events, err := takeWith(form, body, headers...)
		clear(body) // the events own their bytes
		if err != nil {
			if p := ProblemOf(err); p.Code == wire.CodeInternal {
				t.Errorf("%q: error %v is of no known kind", sent, err)
			}
			return
		}
		if want := eventsStd(t, form, sent); len(want) != len(events) {
			t.Errorf("%q: %d events, encoding/json reads %d", sent, len(events), len(want))
		} else {
			for i, e := range events {
				if !bytes.Equal(e.Body, want[i]) || cap(e.Body) != len(e.Body) || len(e.ID) > flow.MaxEventIDBytes || !utf8.ValidString(e.ID) {
					t.Errorf("%q: event %d is %q with the id %q, encoding/json reads %q", sent, i, e.Body, e.ID, want[i])
				}
			}
		}
	})
}

// eventsStd reads a body that was taken with encoding/json.
func eventsStd(t *testing.T, form eventForm, body []byte) (all []json.RawMessage) {
	t.Helper()
	if !utf8.Valid(body) {
		t.Fatalf("%q is taken, and isn't UTF-8", body)
	}
	texts := []json.RawMessage{body}
	switch form {
	case formLines:
		texts = nil
		for line := range bytes.Lines(body) {
			texts = append(texts, line)
		}
	case formBatch:
		texts = nil
		if err := json.Unmarshal(body, &texts); err != nil {
			t.Fatalf("%q is taken, encoding/json says %v", body, err)
		}
	}
	for _, text := range texts {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil || object == nil {
			t.Fatalf("%q is taken, encoding/json says %v", text, err)
		}
		if form == formStructured || form == formBatch {
			text = object["data"]
			if err := json.Unmarshal(text, &object); err != nil || object == nil {
				t.Fatalf("the data %q is taken, encoding/json says %v", text, err)
			}
		}
		all = append(all, bytes.TrimSpace(text))
	}
	return all
}

// No two events have one id unless their source and id, or their key and line, are the
// same; and all ids fit.
func TestEventIDsAreDistinct(t *testing.T) {
	seen := map[string][2]string{}
	short := rapid.StringMatching(`[0-9:#kc/é"]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		source, id := short.Draw(t, "source"), short.Draw(t, "id")
		text, err := json.Marshal(map[string]any{"specversion": "1.0", "id": id, "source": source, "type": "t", "data": map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		structured, err := takeWith(formStructured, text)
		if err != nil {
			t.Fatal(err)
		}
		escape := strings.NewReplacer("%", "%25", `"`, "%22", "é", "%C3%A9")
		binary, err := takeWith(formBinary, []byte("{}"), "ce-specversion", "1.0", "ce-type", "t", "ce-source", escape.Replace(source), "ce-id", escape.Replace(id))
		if err != nil {
			t.Fatal(err)
		}
		if structured[0].ID != binary[0].ID {
			t.Fatalf("source %q and id %q give %q in one form and %q in another", source, id, structured[0].ID, binary[0].ID)
		}
		key, err := takeWith(formPlain, []byte("{}"), "Idempotency-Key", `"`+strings.ReplaceAll(strings.ReplaceAll(id, `"`, `\"`), "é", "e")+`"`)
		if err != nil {
			t.Fatal(err)
		}
		for got, of := range map[string][2]string{structured[0].ID: {source, id}, key[0].ID: {"a key", strings.ReplaceAll(id, "é", "e")}} {
			if other, known := seen[got]; known && other != of {
				t.Fatalf("%q and %q have both the id %q", of, other, got)
			}
			seen[got] = of
		}
	})
}

// A request gives back all that points into its events: they may be a megabyte.
func TestReaderForgets(t *testing.T) {
	x := &exchange{}
	if _, err := x.reader.cloudEvents([]byte(`[{"specversion":"1.0","id":"7","extension":{},"data":[`)); err == nil {
		t.Error("an array is taken as data")
	}
	x.release()
	r := &x.reader
	for _, p := range r.path[:cap(r.path)] {
		if p.name != nil {
			t.Errorf("the path still has %q", p.name)
		}
	}
	for _, n := range r.names[:cap(r.names)] {
		if n.text != nil {
			t.Errorf("the names still have %q", n.text)
		}
	}
	if cap(r.path) == 0 || cap(r.names) == 0 || r.b != nil || r.err != nil {
		t.Errorf("room for %d places and %d names, document %q, error %v", cap(r.path), cap(r.names), r.b, r.err)
	}
}

// A media type of JSON, as CloudEvents has it.
func TestJSONTypes(t *testing.T) {
	for mediaType, want := range map[string]bool{
		"application/json": true, "text/json": true, "Application/JSON": true, " " + "application/json ; charset=utf-8": true, "application/vnd.a+json": true, "a/b+c+json;x": true,
		"": false, "json": false, "/json": false, "application/jsonp": false, "application/x-ndjson": false, "application/json+x": false, "application/": false, "+json": false,
	} {
		if isJSON(mediaType) != want {
			t.Errorf("%q is JSON: %v, want %v", mediaType, !want, want)
		}
	}
}
