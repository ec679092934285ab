package transport_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// without takes a header away, and with sets one.
func without(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Del(name) }
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// P35: headers are unquoted and then percent-decoded, once, as the HTTP binding of
// CloudEvents says.
func TestP35CloudHeadersAreDecoded(t *testing.T) {
	for sent, want := range map[string]string{
		"a-1":                             "a-1",
		" a-1\t":                          "a-1",
		"Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀",
		"%e2%82%ac":                       "€",
		"€":                               "€",
		"%61":                             "a", // needlessly encoded
		"%2525":                           "%25",
		"a b":                             "a b",
		"a+b":                             "a+b",
		`"a b"`:                           "a b",
		`"a\"\\\x"`:                       `a"\x`,
		`"%22"`:                           `"`,
		"%22a%22":                         `"a"`,
		"%00":                             "\x00",
		"a%0Ab":                           "a\nb",
		"7,8":                             "7,8",
	} {
		a := newAPI(t)
		a.send("POST", "/w/events", `{}`, cloudHeaders("x"), with("ce-id", sent), with("ce-subject", "%zz")).ok(202, nil)
		if got := a.onlyTrigger().ids()[0]; got != "c5:/shop"+want {
			t.Errorf("ce-id %q gives the id %q, want that of %q", sent, got, want)
		}
	}
	for _, sent := range []string{"%", "%2", "a%2", "%zz", "%2z", "%z2", "%C0%A0", "%ff", "\xff", `"a`, `"a"b`, `"a\`, `"`, "%ED%A0%80"} {
		for _, name := range []string{"ce-id", "ce-source", "ce-type", "ce-specversion"} {
			a := newAPI(t)
			p := a.send("POST", "/w/events", `{}`, cloudHeaders("x"), with(name, sent)).refused(invalid, name)
			if p.Status != 422 || !strings.Contains(p.Detail, "%25") || len(a.node.triggers) != 0 {
				t.Errorf("%s %q: %+v, %d calls", name, sent, p, len(a.node.triggers))
			}
		}
	}
}

// P35: a CloudEvent in binary mode has its four attributes, each once, and JSON as its data.
func TestP35CloudHeadersRefused(t *testing.T) {
	for _, c := range []struct {
		what   string
		change []func(*http.Request)
		code   string
		field  string
	}{
		{"no version", []func(*http.Request){without("ce-specversion")}, invalid, "ce-specversion"},
		{"no id", []func(*http.Request){without("ce-id")}, invalid, "ce-id"},
		{"no source", []func(*http.Request){without("ce-source")}, invalid, "ce-source"},
		{"no type", []func(*http.Request){without("ce-type")}, invalid, "ce-type"},
		{"an empty id", []func(*http.Request){with("ce-id", `""`)}, invalid, "ce-id"},
		{"an empty source", []func(*http.Request){with("ce-source", "")}, invalid, "ce-source"},
		{"an empty type", []func(*http.Request){with("ce-type", " ")}, invalid, "ce-type"},
		{"another version", []func(*http.Request){with("ce-specversion", "0.3")}, invalid, "ce-specversion"},
		{"two ids", []func(*http.Request){header("ce-id", "8")}, invalid, "ce-id"},
		{"two versions", []func(*http.Request){header("ce-specversion", "1.0")}, invalid, "ce-specversion"},
		{"a long id", []func(*http.Request){with("ce-id", long[:flow.MaxEventIDBytes])}, invalid, "ce-id"},
		{"a type in two places", []func(*http.Request){with("ce-datacontenttype", "application/json")}, invalid, "ce-datacontenttype"},
		{"another kind of id", []func(*http.Request){with("Idempotency-Key", "k")}, invalid, "Idempotency-Key"},
		{"text as data", []func(*http.Request){as("text/plain")}, wire.CodeMediaType, ""},
		{"lines as data", []func(*http.Request){asLines}, wire.CodeMediaType, ""},
		{"a form from elsewhere", []func(*http.Request){as("application/x-www-form-urlencoded")}, wire.CodeMediaType, ""},
	} {
		a := newAPI(t)
		a.send("POST", "/w/events", `{}`, append([]func(*http.Request){cloudHeaders("7")}, c.change...)...).refused(c.code, c.field)
		if len(a.node.triggers) != 0 {
			t.Errorf("%s: the node has seen the event", c.what)
		}
	}
	a := newAPI(t)
	for _, body := range []string{`[]`, `null`, `7`} {
		a.send("POST", "/w/events", body, cloudHeaders("7")).refused(invalid, "body")
	}
	a.send("POST", "/w/events", `{`, cloudHeaders("7")).refused(wire.CodeMalformed, "")
	a.send("POST", "/w/events", ``, cloudHeaders("7")).refused(wire.CodeMalformed, "")
	// Source and id together at the bound, and a byte beyond it.
	most := flow.MaxEventIDBytes - len("c512:") - len("/shop")
	a.send("POST", "/w/events", `{}`, cloudHeaders("7"), with("ce-id", long[:most])).ok(202, nil)
	a.send("POST", "/w/events", `{}`, cloudHeaders("7"), with("ce-id", long[:most+1])).refused(invalid, "ce-id")
	a.send("POST", "/w/events", cloudEvent(long[:most], `{}`), asCloud).ok(202, nil)
	a.send("POST", "/w/events", cloudEvent(long[:most+1], `{}`), asCloud).refused(invalid, "id")
}

// P35: one CloudEvent as JSON: what is required, what may stand beside it, and what is taken.
func TestP35StructuredCloudEvents(t *testing.T) {
	const start = `{"specversion":"1.0","id":"7","source":"/shop","type":"order",`
	for _, body := range []string{
		start + `"data":{"a":1}}`,
		`{"data":{"a":1},"type":"order","source":"/shop","id":"7","specversion":"1.0"}`,
		start + `"subject":"s","time":"2026-12-01T00:00:00Z","dataschema":"https://x/y","datacontenttype":"application/json","data":{"a":1}}`,
		start + `"subject":null,"time":null,"dataschema":null,"datacontenttype":null,"data_base64":null,"ext":null,"data":{"a":1}}`,
		start + `"datacontenttype":"application/vnd.shop+JSON; charset=utf-8","data":{"a":1}}`,
		start + `"datacontenttype":"text/json","data":{"a":1}}`,
		start + `"ext1":"x","2ext":7,"anextensionwithaverylongnameindeed":true,"odd":{"a":[1]},"d\u0061ta":{"a":1}}`,
		strings.Replace(start, `"7"`, `"\u0037"`, 1) + `"data":{"a":1}}`,
		start + extensions(95) + `"data":{"a":1}}`,
	} {
		a := newAPI(t)
		a.send("POST", "/w/events", body, asCloud).ok(202, nil)
		if got := a.onlyTrigger(); got.bodies()[0] != `{"a":1}` || got.ids()[0] != "c5:/shop7" {
			t.Errorf("%s gives the event %q with the id %q", body, got.bodies(), got.ids())
		}
	}
	for _, c := range []refusal{
		{`{"id":"7","source":"/s","type":"t","data":{}}`, invalid, "specversion"},
		{`{"specversion":"1.0","source":"/s","type":"t","data":{}}`, invalid, "id"},
		{`{"specversion":"1.0","id":"7","type":"t","data":{}}`, invalid, "source"},
		{`{"specversion":"1.0","id":"7","source":"/s","data":{}}`, invalid, "type"},
		{`{"specversion":"1.0","id":"7","source":"/s","type":"t"}`, invalid, "data"},
		{`{"specversion":"1.0","id":null,"source":"/s","type":"t","data":{}}`, invalid, "id"},
		{`{"specversion":1.0,"id":"7","source":"/s","type":"t","data":{}}`, invalid, "specversion"},
		{`{"specversion":"1.1","id":"7","source":"/s","type":"t","data":{}}`, invalid, "specversion"},
		{`{"specversion":"","id":"7","source":"/s","type":"t","data":{}}`, invalid, "specversion"},
		{`{"specversion":"1.0","id":7,"source":"/s","type":"t","data":{}}`, invalid, "id"},
		{`{"specversion":"1.0","id":"7","source":"","type":"t","data":{}}`, invalid, "source"},
		{`{"specversion":"1.0","id":"7","source":"/s","type":["t"],"data":{}}`, invalid, "type"},
		{`{"specversion":"1.0","id":"\ud800","source":"/s","type":"t","data":{}}`, invalid, "id"},
		{start + `"data":[]}`, invalid, "data"},
		{start + `"data":"{}"}`, invalid, "data"},
		{start + `"data":{"a":1},"data":{"a":2}}`, invalid, "data"},
		{start + `"id":"8","data":{}}`, invalid, "id"},
		{start + `"data_base64":"e30="}`, invalid, "data_base64"},
		{start + `"data":{},"data_base64":"e30="}`, invalid, "data_base64"},
		{start + `"datacontenttype":"text/xml","data":{}}`, invalid, "datacontenttype"},
		{start + `"datacontenttype":"json","data":{}}`, invalid, "datacontenttype"},
		{start + `"datacontenttype":"","data":{}}`, invalid, "datacontenttype"},
		{start + `"subject":"","data":{}}`, invalid, "subject"},
		{start + `"time":1796000000000,"data":{}}`, invalid, "time"},
		{start + `"dataSchema":"x","data":{}}`, unknown, "dataSchema"},
		{start + `"my_ext":"x","data":{}}`, unknown, "my_ext"},
		{start + `"é":"x","data":{}}`, unknown, "é"},
		{start + `"":"x","data":{}}`, unknown, ""},
		{start + extensions(96) + `"data":{}}`, invalid, "data"},
		{start + `"data":{"p":"` + strings.Repeat("x", flow.MaxEventBytes) + `"}}`, invalid, "data"},
		{start + `"data":{"p":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}}`, invalid, "data"},
		{strings.Replace(start, `"7"`, `"`+long[:flow.MaxEventIDBytes]+`"`, 1) + `"data":{}}`, invalid, "id"},
		{`[]`, invalid, "body"},
		{start + `"data":{}}{}`, wire.CodeMalformed, ""},
		{start + `"data":{},}`, wire.CodeMalformed, ""},
		{start + `"ext":x,"data":{}}`, wire.CodeMalformed, ""},
		{``, wire.CodeMalformed, ""},
	} {
		a := newAPI(t)
		p := a.send("POST", "/w/events", c.body, asCloud).refused(c.code, c.field)
		if !strings.Contains(p.Detail, c.field) || len(a.node.triggers) != 0 {
			t.Errorf("%.200s: %q, %d calls", c.body, p.Detail, len(a.node.triggers))
		}
	}
	a := newAPI(t)
	for _, name := range []string{"specversion", "id", "source", "type", "data"} {
		missing := strings.Replace(cloudEvent("7", `{}`), `"`+name+`"`, `"other"`, 1)
		if p := a.send("POST", "/w/events", missing, asCloud).refused(invalid, name); p.Detail != name+" is required" {
			t.Errorf("without %s the answer is %q", name, p.Detail)
		}
	}
}

// extensions are n attributes of an event, each with a comma behind it.
func extensions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"ext%d":%d,`, i, i)
	}
	return b.String()
}

func TestEventMediaTypes(t *testing.T) {
	a := newAPI(t)
	for _, mediaType := range []string{
		"text/plain", "application/xml", "application/vnd.shop+json", "application/json-seq", "application/cloudevents+avro", "application/cloudevents",
		"application/cloudevents-batch+protobuf", "nonsense;;", "application/x-www-form-urlencoded", "text/x-ndjson",
	} {
		says := "the Content-Type "
		if strings.HasPrefix(mediaType, "application/cloudevents") {
			says = "of the formats of CloudEvents, JSON alone is taken"
		}
		if p := a.send("POST", "/w/events", `{}`, as(mediaType)).refused(wire.CodeMediaType, ""); p.Status != 415 || !strings.HasPrefix(p.Detail, says) {
			t.Errorf("%s answers %d %q", mediaType, p.Status, p.Detail)
		}
	}
	a.send("POST", "/w/events", `{}`, asLines, header("Content-Encoding", "gzip")).refused(wire.CodeMediaType, "")
	a.send("POST", "/w/events?x=1", `{}`).refused(unknown, "x")
	a.send("POST", "/w/events", strings.Repeat(" ", wire.MaxBodyBytes)+`{}`).refused(wire.CodeTooLarge, "")
	a.send("POST", "/w/events", strings.Repeat("{}\n", wire.MaxBodyBytes/2), asLines).refused(wire.CodeTooLarge, "")
	a.send("POST", "/w/events", `[]`).refused(invalid, "body")
	a.send("POST", "/w/events", `null`).refused(invalid, "body")
	a.send("POST", "/w/events", `{"p":"`+strings.Repeat("x", flow.MaxEventBytes)+`"}`).refused(invalid, "body")
	if n := len(a.node.triggers); n != 0 {
		t.Errorf("the node has seen %d calls", n)
	}
	a.send("POST", "/w/events", `{"p":"`+strings.Repeat("x", flow.MaxEventBytes-len(`{"p":""}`))+`"}`).ok(202, nil)
}

// Ids of events: those of CloudEvents, of keys and of lines are no other event's.
func TestEventIDsRefused(t *testing.T) {
	a := newAPI(t)
	for _, value := range []string{"", `""`, strings.Repeat("k", 257), `"o`, "\xff"} {
		for _, form := range []func(*http.Request){as(wire.ContentJSON), asLines} {
			a.send("POST", "/w/events", `{}`, form, header("Idempotency-Key", value)).refused(invalid, "Idempotency-Key")
		}
	}
	a.send("POST", "/w/events", `{}`, header("Idempotency-Key", "a"), header("Idempotency-Key", "b")).refused(invalid, "Idempotency-Key")
	a.send("POST", "/w/events", cloudEvent("7", `{}`), asCloud, header("Idempotency-Key", "a")).refused(invalid, "Idempotency-Key")
	a.send("POST", "/w/events", "["+cloudEvent("7", `{}`)+"]", asCloudBatch, header("Idempotency-Key", "a")).refused(invalid, "Idempotency-Key")
	if n := len(a.node.triggers); n != 0 {
		t.Errorf("the node has seen %d calls", n)
	}
	a.send("POST", "/w/events", strings.Repeat("{}\n", wire.MaxEvents), asLines, header("Idempotency-Key", strings.Repeat("k", 256))).ok(202, nil)
	ids := a.onlyTrigger().ids()
	if last := ids[len(ids)-1]; last != "k"+strings.Repeat("k", 256)+"#1000" {
		t.Errorf("the last line has the id %q", last)
	}
}

// P20, S99: the key that the caller resolved is any text, and reaches the node as it is.
func TestP20_S99ResolvedKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"acme": "acme", "": "", " " + "acme\t": "acme", "%20acme%09": " acme\t", "caf%C3%A9%20100%25": "café 100%", "café": "café", `"a"`: `"a"`, "a+b": "a+b",
		"%00": "\x00", "a/b": "a/b", "..": "..", "*": "*", url.PathEscape(strings.Repeat("\x01", 1024)): strings.Repeat("\x01", 1024),
	} {
		for _, form := range []func(*http.Request){as(wire.ContentJSON), asLines, cloudHeaders("7")} {
			a := newAPI(t)
			a.send("POST", "/w/events", `{}`, form, header(wire.HeaderKey, sent)).ok(202, nil)
			if got := a.onlyTrigger().key; got == nil || *got != want {
				t.Errorf("the key %.50q arrives as %v, want %.50q", sent, got, want)
			}
		}
	}
	a := newAPI(t)
	for _, sent := range []string{"%", "%4", "%zz", "%4z", "\xff", "%ff", "%C0%80", strings.Repeat("k", 1025)} {
		if p := a.send("POST", "/w/events", `{}`, header(wire.HeaderKey, sent)).refused(invalid, wire.HeaderKey); p.Status != 422 {
			t.Errorf("the key %.50q answers %d", sent, p.Status)
		}
	}
	a.send("POST", "/w/events", `{}`, header(wire.HeaderKey, "a"), header(wire.HeaderKey, "a")).refused(invalid, wire.HeaderKey)
	if n := len(a.node.triggers); n != 0 {
		t.Errorf("the node has seen %d calls", n)
	}
}

// P57: a trigger reaches the node as it was declared, and is read back.
func TestP57TriggersAreReadBack(t *testing.T) {
	a := newAPI(t)
	for version, trigger := range map[string]string{
		"1": `{"collect":{"key":"user_id","max_events":50,"window_seconds":60}}`,
		"2": `{"collect":{"key":"cel:event.user","max_events":1,"window_seconds":0.5,"max_bytes":1000}}`,
		"3": `{"debounce":{"key":{"function":"label"},"window_seconds":5,"max_wait_seconds":0}}`,
		"4": `null`,
	} {
		a.send("PUT", "/v1/workflows/w"+version, `{"version":"1","trigger":`+trigger+`}`).ok(200, nil)
		var got struct{ Versions []map[string]any }
		w := a.send("GET", "/v1/workflows/w"+version, "")
		w.ok(200, &got)
		if !strings.Contains(w.Body.String(), `"trigger":`+trigger) {
			t.Errorf("%s is read back as %s", trigger, w.Body)
		}
	}
}

// The view of a key shows its open batch; null says that there is none.
func TestKeyShowsItsBatch(t *testing.T) {
	a := newAPI(t)
	if w := a.send("GET", "/v1/keys/w/acme", ""); !strings.Contains(w.Body.String(), `"batch":null`) {
		t.Errorf("a key without events is %s", w.Body)
	}
	a.node.batch = &wire.OpenBatch{RunID: benchRun, Events: 3, Bytes: 300, OpenedAt: 1, FiresAt: 2, Due: true}
	var got wire.KeyView
	if a.send("GET", "/v1/keys/w/acme", "").ok(200, &got); got.Batch == nil || *got.Batch != *a.node.batch {
		t.Errorf("the batch reads as %+v", got.Batch)
	}
}
