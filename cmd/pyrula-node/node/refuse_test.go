package node_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// R24: fails when a field or a parameter that isn't in the document is ignored
// anywhere.
func TestR24UnknownFields(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	id := s.submit("w", `{}`)
	run := "/v1/runs/" + id
	for _, r := range []asked{
		{method: "PUT", path: "/v1/workflows/w", body: `{"x":1}`},
		{method: "PUT", path: "/v1/workflows/w", body: `{"limit":{"key":"k","max":1,"x":1}}`},
		{method: "POST", path: "/v1/workflows/w/runs", body: `{"parms":{}}`},
		{method: "POST", path: "/v1/workflows/w/runs", body: `{"stamp":{"version":"","key":{}}}`},
		{method: "POST", path: "/v1/runs:batch", body: `{"runs":[{"workflow":"w","x":1}]}`},
		{method: "POST", path: "/v1/runs:batch", body: `{"runs":[{"workflow":"w"}],"x":1}`},
		{method: "POST", path: "/v1/claims", body: `{"worker":"w","workflows":[{"name":"w","x":1}],"credit":1}`},
		{method: "POST", path: "/v1/claims", body: `{"worker":"w","workflows":[{"name":"w"}],"credit":1,"wait":1}`},
		{method: "POST", path: "/v1/heartbeats", body: `{"worker":"w","runs":[{"run_id":"` + id + `","fence":1,"x":1}]}`},
		{method: "POST", path: run + "/complete", body: `{"fence":1,"output":1}`},
		{method: "POST", path: run + "/fail", body: `{"fence":1,"error":{"type":"T","code":1}}`},
		{method: "POST", path: run + "/suspend", body: `{"fence":1,"until":{"at_ms":1,"at":1}}`},
		{method: "POST", path: "/v1/runs:complete", body: `{"runs":[{"run_id":"` + id + `","fence":1,"x":1}]}`},
		{method: "POST", path: run + "/cancel", body: `{"Reason":"x"}`},
		{method: "GET", path: run + "?wait=1"}, {method: "GET", path: "/v1/runs?x=1"}, {method: "GET", path: "/v1/node?x"},
		{method: "POST", path: "/w?x=1", body: `{}`}, {method: "GET", path: "/v1/workflows?limit=1"}, {method: "GET", path: "/v1/keys/w/a?x=1"},
	} {
		a := s.do(r)
		s.refused(a, 422, "unknown_field")
		if a.status == 422 && a.at("field").String() == "" {
			t.Errorf("%s %s %s is refused without the field: %v", r.method, r.path, r.body, a)
		}
	}
	s.is(id, "queued")
	if n := len(s.seen("/v1/runs").at("runs").Array()); n != 1 {
		t.Errorf("refused requests made %d runs", n-1)
	}
}

// Fails when a body over the bound is taken, or one at it isn't.
func TestP57BodyBounds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	const most = 1 << 20
	fill := func(head, tail string, size int) string {
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	over := fill(`{"a":"`, `"}`, most+1)
	for _, path := range []string{"/w", "/v1/workflows/w/runs", "/v1/runs:batch", "/v1/claims", "/v1/heartbeats", "/v1/runs:complete", "/v1/runs/" + unknownRun + "/complete"} {
		s.refused(s.post(path, over), 413, "body_too_large")
	}
	s.refused(s.put("w", over), 413, "body_too_large")
	if n := len(s.seen("/v1/runs").at("runs").Array()); n != 0 {
		t.Errorf("refused bodies made %d runs", n)
	}
	params := fill(`{"a":"`, `"}`, most-16<<10)
	id := s.submit("w", params)
	g := s.one("w1", "w")
	if g.run != id || g.raw.Get("params").Raw != params {
		t.Errorf("params of %d bytes come back with %d", len(params), len(g.raw.Get("params").Raw))
	}
	result := fill(`"`, `"`, most-16<<10)
	if a := s.end(g, "complete", `,"result":`+result); a.status != 200 {
		t.Fatalf("a result of %d bytes answers %v", len(result), brief(a.text))
	}
	s.refused(s.post("/v1/workflows/w/runs", `{"params":`+fill(`{"a":"`, `"}`, most-16<<10+1)+`}`), 422, "invalid_argument")
	s.reopen()
	if r := s.seen("/v1/runs/" + id + "/result").at("result").Raw; r != result {
		t.Errorf("after a restart the result has %d bytes, want %d", len(r), len(result))
	}
}

// Fails when a wrong media type, method, path or host is taken, or the refusal isn't
// a problem that says so.
func TestP87WrongRequests(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	s.refused(s.do(asked{method: "POST", path: "/w", body: `{}`, mediaType: "text/xml"}), 415, "unsupported_media_type")
	for _, r := range []asked{
		{method: "DELETE", path: "/v1/workflows/w"}, {method: "POST", path: "/v1/workflows", body: `{}`}, {method: "GET", path: "/w"},
		{method: "PUT", path: "/v1/claims", body: `{}`}, {method: "GET", path: "/v1/runs:batch"}, {method: "PATCH", path: "/v1/runs/" + unknownRun},
		{method: "POST", path: "/livez", body: `{}`},
	} {
		a := s.do(r)
		s.refused(a, 405, "method_not_allowed")
		if a.header.Get("Allow") == "" {
			t.Errorf("%s %s has no Allow", r.method, r.path)
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/run", "/v1/runs/" + unknownRun + "/", "/v1//runs", "/v1/runs/" + unknownRun + "/x", "/x/y/z", "/v1/workflows/"} {
		if a := s.get(path); a.status != 404 && a.status != 400 && a.status != 405 {
			t.Errorf("GET %s answers %v", path, a)
		}
	}
	for path, body := range map[string]string{
		"steps": `{"fence":1,"state":{}}`, "children": `{"fence":1,"runs":[{"workflow":"w"}]}`, "retry": ``, "signals/x": `1`,
	} {
		s.refused(s.post("/v1/runs/"+unknownRun+"/"+path, body), 404, "unknown_run")
	}
	s.refused(s.post("/v1/workflows/w/events", `{}`), 400, "configuration_error") // it has no trigger
}

// raw speaks bytes to the node, and gives the status line of what comes back.
func (s *served) raw(request string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.node.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	// A server that has seen enough closes its end before all is written.
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Logf("write %q: %v", brief(request), err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return resp.Status + " " + string(text)
}

// Fails when bytes that are no proper request are taken for one, or end the node.
func TestP87HostileBytes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	head := "POST /w HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
	for request, want := range map[string]string{
		"GARBAGE\r\n\r\n": "400", "GET / HTTP/9.9\r\n\r\n": "505",
		head + "Content-Length: -1\r\n\r\n{}":                                                         "400",
		head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}":                                     "400",
		head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":          "",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":                               "202",
		head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n":                                             "400",
		head + "Transfer-Encoding: gzip\r\n\r\n{}":                                                    "501",
		head + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}":                                "415",
		"POST /w HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}":  "421",
		"POST /w HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}":                        "400",
		head + "Origin: https://evil.example\r\nContent-Length: 2\r\n\r\n{}":                          "403",
		head + "Sec-Fetch-Site: cross-site\r\nContent-Length: 2\r\n\r\n{}":                            "403",
		"GET /v1/keys/w/%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":                 "400",
		"GET /v1/keys/w/%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":                 "422",
		"GET /v1/keys/w/../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n": "404",
	} {
		got := s.raw(request)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q answers %q, want %s", brief(request), brief(got), want)
		}
	}
	// The server may have hung up before such a head is written.
	if got := s.raw(head + "X: " + strings.Repeat("x", 1<<17) + "\r\n\r\n"); strings.HasPrefix(got, "2") {
		t.Errorf("a head of 128 KiB answers %q", got)
	}
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	if a := s.do(asked{method: "POST", path: "/w", body: deep, huge: true}); a.status != 400 && a.status != 422 && a.status != 202 {
		t.Errorf("20,000 levels answer %v", brief(a.text))
	}
	wide := `{"k":[` + strings.Repeat("0,", 400_000) + `0]}`
	if a := s.do(asked{method: "POST", path: "/w", body: wide, huge: true}); a.status != 202 {
		t.Errorf("400,000 numbers answer %v", brief(a.text))
	}
	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprintf(`"%d":%d`, i, i)
	}
	if a := s.do(asked{method: "POST", path: "/w", body: "{" + strings.Join(names, ",") + "}", huge: true}); a.status != 202 {
		t.Errorf("20,000 fields answer %v", brief(a.text))
	}
	if a := s.seen("/livez"); !a.at("live").Bool() {
		t.Errorf("after all that /livez answers %v", a)
	}
}
