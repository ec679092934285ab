package transport_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// targets are the paths that take a body; the fuzzer chooses by number.
var targets = []string{
	"PUT /v1/workflows/w", "POST /v1/workflows/w/runs", "POST /v1/runs:batch", "POST /v1/claims", "POST /v1/heartbeats",
	"POST /v1/runs/RUN/complete", "POST /v1/runs/RUN/fail", "POST /v1/runs/RUN/suspend", "POST /v1/runs:complete",
	"POST /v1/runs/RUN/cancel", "POST /v1/runs/RUN/terminate", "POST /w", "POST /v1/runs/RUN/steps", "POST /v1/runs/RUN/children",
	"POST /v1/runs/RUN/retry", "POST /v1/runs/RUN/signals/go", "POST /v1/resolutions", "POST /v1/schedules", "PUT /v1/schedules/s",
	"POST /v1/workflows/w/events",
}

// addBodies begins with every body that other tests know.
func addBodies(f *testing.F) {
	f.Helper()
	for i, target := range targets {
		for _, full := range fullBodies {
			if full.target == target {
				f.Add(uint8(i), full.body)
			}
		}
		for _, r := range shapeRefusals[target] {
			if len(r.body) < 4096 {
				f.Add(uint8(i), r.body)
			}
		}
		f.Add(uint8(i), "")
	}
}

// FuzzBodies: whatever the body, the answer is one that the document promises, and
// what is taken is what the document allows; newAPI's handler checks both.
func FuzzBodies(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, target uint8, body string) {
		a := newAPI(t)
		g := a.hold("w")
		body = strings.ReplaceAll(body, "RUN", g.RunID)
		method, path, _ := strings.Cut(strings.ReplaceAll(targets[int(target)%len(targets)], "RUN", g.RunID), " ")
		a.server.Drain() // a claim that waits would, and a claim is checked before
		w := a.send(method, path, body)
		if w.Code >= 500 && w.Code != 501 && w.Code != 503 {
			t.Errorf("%s %s %q answers %d %s", method, path, body, w.Code, w.Body)
		}
	})
}

// FuzzPaths: whatever the path, the server answers by itself and sends nobody on.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{
		"/", "/v1/runs", "/v1/runs/run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6", "/v1/keys/wf/", "/v1/keys/wf/%2F", "/v1/keys/wf/..", "/../livez", "//livez",
		"/v1/keys/wf/%00", "/v1/keys/wf/%25252F", "/%76%31/runs", "/v1/runs?limit=1&limit=2", "/v1/runs?%", "/readyz?verbose", "/v1/problems/internal", "*",
	} {
		f.Add("GET", s)
		f.Add("POST", s)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.Contains(target, "wait_m") || method == http.MethodConnect {
			t.Skip("net/http wouldn't pass it on")
		}
		a := newAPI(t)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", strings.NewReader("{}"))
		r.Method, r.URL = method, u
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		if w.Code >= 300 && w.Code < 400 || w.Code == 500 {
			t.Errorf("%s %s answers %d", method, target, w.Code)
		}
	})
}

// FuzzKeys (S99): every text is a key, and reaches the node as it is.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{"", "*", "a/b", "..", "%2F", "ключ", "a\x00b", "?", "#", "+", "\xff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		a := newAPI(t)
		w := a.send("GET", "/v1/keys/wf/"+url.PathEscape(key), "")
		if len(key) > flow.MaxKeyBytes || !utf8.ValidString(key) {
			w.refused(wire.CodeInvalid, "key")
			return
		}
		var got wire.KeyView
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Key != key {
			t.Errorf("key %q answers %d and arrives as %q, %v", key, w.Code, got.Key, err)
		}
	})
}
