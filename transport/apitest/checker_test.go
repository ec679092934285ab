package apitest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const (
		run     = "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"
		stale   = `{"type":"/v1/problems/stale_fence","title":"Stale fence","status":409,"detail":"d","code":"stale_fence","retryable":false}`
		problem = "application/problem+json"
		plain   = "application/json"
		lines   = "application/x-ndjson"
	)
	claimed := `{"runs":[]}`
	claim := `{"worker":"w","workflows":[{"name":"w"}],"credit":1}`
	for _, tc := range []struct {
		what string
		e    Exchange
		want string // a word of the error, or nothing
	}{
		{"a good answer", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, plain, []byte(claimed)}, ""},
		{"a type with a charset", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, plain + "; charset=utf-8", []byte(claimed)}, ""},
		{"a status that isn't promised", Exchange{"POST", "/v1/claims", []byte(claim), plain, 204, plain, []byte(claimed)}, "204"},
		{"another media type", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, "text/plain", []byte(claimed)}, "text/plain"},
		{"no media type", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, "", []byte(claimed)}, "content type"},
		{"a list that is null", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, plain, []byte(`{"runs":null}`)}, "array"},
		{"a field that is missing", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, plain, []byte(`{}`)}, "runs"},
		{"no JSON", Exchange{"POST", "/v1/claims", []byte(claim), plain, 200, plain, []byte(`{`)}, "EOF"},
		{"a request that isn't allowed", Exchange{"POST", "/v1/claims", []byte(`{"worker":"w"}`), plain, 200, plain, []byte(claimed)}, "taken"},
		{"a request that was refused", Exchange{"POST", "/v1/claims", []byte(`x`), plain, 409, problem, []byte(stale)}, ""},
		{"a problem with another status", Exchange{"POST", "/v1/claims", nil, plain, 400, problem, []byte(stale)}, "409"},
		{"a refusal that is no problem", Exchange{"POST", "/v1/claims", nil, plain, 409, plain, []byte(stale)}, "content type"},
		{"a problem without a code", Exchange{"POST", "/v1/claims", nil, plain, 409, problem, []byte(`{"status":409}`)}, "missing"},
		{"a problem with a code of its own", Exchange{"POST", "/v1/claims", nil, plain, 409, problem, []byte(strings.ReplaceAll(stale, "stale_fence", "mine"))}, "mine"},
		{"an escaped path", Exchange{"GET", "/v1/problems/stale%5Ffence", nil, plain, 200, plain, []byte(`{"code":"x"}`)}, "describeProblem"},
		{"a path that isn't there", Exchange{"GET", "/v1/other", nil, plain, 200, plain, []byte(`{}`)}, "doesn't have it"},
		{"a refused path", Exchange{"GET", "/v1/other", nil, plain, 404, plain, []byte(`{}`)}, "content type"},
		{"a reserved first segment", Exchange{"POST", "/v1", nil, plain, 202, plain, []byte(`{}`)}, "doesn't have it"},
		{"the short form", Exchange{"POST", "/w", []byte(`{}`), plain, 202, plain, []byte(`{"run_id":"` + run + `"}`)}, ""},
		{"the short form with a list", Exchange{"POST", "/w", []byte(`[]`), plain, 202, plain, []byte(`{"run_id":"` + run + `"}`)}, "taken"},
		{"an id that is none", Exchange{"POST", "/w", []byte(`{}`), plain, 202, plain, []byte(`{"run_id":"run_x"}`)}, "pattern"},
		{"an answer to HEAD", Exchange{"HEAD", "/livez", nil, plain, 200, plain, nil}, ""},
		{"a problem of HEAD", Exchange{"HEAD", "/v1/other", nil, plain, 404, problem, nil}, ""},
		{"text", Exchange{"GET", "/metrics", nil, plain, 200, "text/plain; version=0.0.4", []byte("x 1\n")}, ""},
		{"not ready", Exchange{"GET", "/readyz", nil, plain, 503, plain, []byte(`{"ready":false}`)}, ""},
		{"a broken escape", Exchange{"GET", "/%zz", nil, plain, 200, plain, nil}, "doesn't have it"},
		{"lines", Exchange{"POST", "/w/events", []byte("{}\n{\"a\":1}"), lines, 202, lines, []byte("{\"run_id\":null}\n{\"run_id\":\"" + run + "\"}\n")}, ""},
		{"a line that is no event", Exchange{"POST", "/w/events", []byte("{}\n7\n"), lines, 202, lines, []byte("{\"run_id\":null}\n")}, "taken"},
		{"a line of an answer that is no result", Exchange{"POST", "/w/events", []byte("{}\n"), lines, 202, lines, []byte("{\"run_id\":null}\n{}\n")}, "run_id"},
		{"a list as one event", Exchange{"POST", "/w/events", []byte(`[]`), plain, 202, plain, []byte(`{"run_id":null}`)}, "taken"},
		{"a list as a batch", Exchange{"POST", "/w/events", []byte(`[]`), "application/cloudevents-batch+json; charset=utf-8", 202, plain, []byte(`{"events":[]}`)}, ""},
		{"a form as JSON", Exchange{"POST", "/w/events", []byte(`[]`), "application/x-www-form-urlencoded", 202, plain, []byte(`{"run_id":null}`)}, "taken"},
		{"no path", Exchange{"GET", "", nil, plain, 200, plain, nil}, "doesn't have it"},
	} {
		err := c.Check(tc.e)
		if tc.want == "" && err != nil {
			t.Errorf("%s: %v", tc.what, err)
		}
		if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one about %q", tc.what, err, tc.want)
		}
	}
}

func TestTransportAndHandlerReport(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var found []error
	report := func(err error) { found = append(found, err) }
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		if _, err := w.Write(body); err != nil {
			t.Error(err)
		}
	})
	const good = `{"run_id":"run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"}`
	server := httptest.NewServer(h)
	defer server.Close()
	client := &http.Client{Transport: c.Transport(nil, report)}
	for body, want := range map[string]int{good: 0, `{}`: 1} {
		found = nil
		resp, err := client.Post(server.URL+"/w", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || string(got) != body {
			t.Errorf("the body came through as %q, %v", got, err)
		}
		if len(found) != want {
			t.Errorf("the round trip of %s reports %v", body, found)
		}
		found = nil
		w := httptest.NewRecorder()
		c.Handler(h, report).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/w", strings.NewReader(body)))
		if len(found) != want || w.Body.String() != body || w.Code != http.StatusAccepted {
			t.Errorf("the handler's answer %d %s to %s reports %v", w.Code, w.Body, body, found)
		}
	}
}

func TestBrokenDocuments(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                 "EOF",
		`{"components":{}}`: "Problem",
		`{"components":{"schemas":{"Problem":{"type":7}}}}`:                                                                                  "Problem",
		`{"components":{"schemas":{"Problem":{}}},"paths":{"/x":{"get":{"responses":{"200":{"$ref":"#/components/responses/X"}}}}}}`:         "points at nothing",
		`{"components":{"schemas":{"Problem":{}}},"paths":{"/x":{"get":{"responses":{"200":{"content":{"a/b":{"schema":{"type":"x"}}}}}}}}}`: "type",
	} {
		if _, err := newChecker([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", text, err, want)
		}
	}
}
