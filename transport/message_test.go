package transport_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestR24Sentences: a refusal says what is wrong with the value that was sent, and
// calls a field missing only when it is.
func TestR24Sentences(t *testing.T) {
	const claim = `{"worker":"w","workflows":[{"name":"w"}],"credit":`
	for _, c := range []struct{ target, body, want string }{
		{"POST /v1/claims", claim + `-1}`, "credit must be an integer from 0 to 256"},
		{"POST /v1/claims", claim + `257}`, "credit must be an integer from 0 to 256"},
		{"POST /v1/claims", claim + `"1"}`, "credit must be an integer from 0 to 256"},
		{"POST /v1/claims", `{"worker":"w","workflows":[{"name":"w"}]}`, "credit is required"},
		{"POST /v1/claims", claim + `null}`, "credit is required"},
		{"POST /v1/claims", `{"worker":"","workflows":[{"name":"w"}],"credit":1}`, "worker must be " + flow.NameRule},
		{"POST /v1/claims", `{"workflows":[{"name":"w"}],"credit":1}`, "worker is required"},
		{"POST /v1/claims", `{"worker":"w","workflows":[{"version":""}],"credit":1}`, "workflows[0].name is required"},
		{"POST /v1/claims", claim + `1,"wait_ms":1.5}`, "wait_ms must be an integer from 0 to 30000"},
		{"POST /v1/heartbeats", `{"worker":"w","runs":[{"run_id":"abc","fence":1}]}`, `runs[0].run_id must be "run_" and 26 characters of Crockford's base 32`},
		{"POST /v1/heartbeats", `{"worker":"w","runs":[{"fence":1}]}`, "runs[0].run_id is required"},
		{"POST /v1/runs/RUN/complete", `{"fence":0}`, "fence must be the fence of the grant, an integer of at least 1"},
		{"POST /v1/runs/RUN/complete", `{}`, "fence is required"},
		{"POST /v1/runs/RUN/fail", `{"fence":1,"error":{"type":""}}`, "error.type must be 1 to 256 bytes"},
		{"POST /v1/runs/RUN/fail", `{"fence":1,"error":{}}`, "error.type is required"},
		{"POST /v1/runs/RUN/fail", `{"fence":1}`, "error.type is required"},
		{"POST /v1/runs/RUN/suspend", `{"fence":1,"until":{}}`, "until.at_ms is required, unless signal or runs is given"},
		{"POST /v1/runs/RUN/suspend", `{"fence":1,"until":{"at_ms":-1}}`, "until.at_ms must be Unix milliseconds, an integer of at least 0"},
		{"POST /v1/runs:batch", `{"runs":[{}]}`, "runs[0].workflow is required"},
		{"POST /v1/runs/RUN/steps", `{"fence":1,"steps":[{"visit":1}]}`, "steps[0].name is required"},
		{"POST /v1/runs/RUN/steps", `{"fence":1,"steps":[{"name":"s","visit":1.5}]}`, "steps[0].visit must be an integer from 1 to 1000000"},
		{"POST /v1/runs/RUN/steps", `{"fence":1,"signals":[{"name":"s"}]}`, "signals[0].visit is required"},
		{"POST /v1/runs/RUN/steps", `{"fence":1,"steps":[` + strings.Repeat(`{"name":"s"},`, 100) + `{"name":"s"}]}`, "steps must hold at most 100 entries"},
		{"POST /v1/runs/RUN/children", `{"fence":1}`, "runs is required"},
		{"POST /v1/runs/RUN/children", `{"fence":1,"runs":[]}`, "runs must hold 1 to 128 entries"},
		{"POST /v1/runs/RUN/children", `{"fence":1,"runs":[` + strings.Repeat(`{"workflow":"s"},`, 128) + `{"workflow":"s"}]}`, "runs must hold 1 to 128 entries"},
		{"POST /v1/schedules", `{"workflow":"w","at_ms":1}`, "name is required"},
		{"PUT /v1/schedules/s", `{"at_ms":1}`, "workflow is required"},
		{"PUT /v1/schedules/s", `{"workflow":"w"}`, "cron is required, unless every_seconds or at_ms is given"},
		{"PUT /v1/workflows/w", `{"limit":{"key":"k","max":"2"}}`, "limit.max must be an integer from 1 to 1000000000"},
		{"PUT /v1/workflows/w", `{"limit":{"key":"k","max":2.5}}`, "limit.max must be an integer from 1 to 1000000000"},
		{"PUT /v1/workflows/w", `{"limit":{"key":"k"}}`, "limit.max is required"},
		{"PUT /v1/workflows/w", `{"rate":{"key":"k"}}`, "rate.per_second is required"},
		{"PUT /v1/workflows/w", `{"rate":{"key":7,"per_second":1}}`, `rate.key must be the name of a parameter, "cel:" and an expression, or {"function": "label"}`},
		{"PUT /v1/workflows/w", `{"trigger":{"collect":{"key":"k","max_events":2.5,"window_seconds":1}}}`, "trigger.collect.max_events must be an integer from 1 to 10000"},
		{"PUT /v1/workflows/w", `{"trigger":{"collect":{"key":"k","window_seconds":1}}}`, "trigger.collect.max_events is required"},
		{"PUT /v1/workflows/w", `{"trigger":{"debounce":{"key":[],"window_seconds":1}}}`, `trigger.debounce.key must be the name of a parameter, "cel:" and an expression, or {"function": "label"}`},
		{"PUT /v1/workflows/w", `{"rate":{"per_second":1}}`, "rate.key is required"},
	} {
		a := newAPI(t)
		g := a.hold("other")
		method, path, _ := strings.Cut(strings.ReplaceAll(c.target, "RUN", g.RunID), " ")
		field, _, _ := strings.Cut(c.want, " ")
		code := invalid
		if strings.HasPrefix(path, "/v1/workflows") {
			code = config
		}
		if p := a.send(method, path, c.body).refused(code, field); p.Detail != c.want {
			t.Errorf("%s %s says %q, want %q", c.target, c.body, p.Detail, c.want)
		}
	}
}

// A claim with something that nobody has declared says what.
func TestP18NotDeclaredSaysWhat(t *testing.T) {
	a := newAPI(t)
	a.send("PUT", "/v1/workflows/charge", `{"version":"1"}`).ok(200, nil)
	a.send("PUT", "/v1/workflows/other", `{"version":"1"}`).ok(200, nil)
	a.node.claimErr = fmt.Errorf("claim: %w", flow.ErrNotDeclared)
	for entry, want := range map[string][2]string{
		`{"name":"charg","version":""}`:                      {"workflows[1].name", `no workflow "charg" is declared, declare it first`},
		`{"name":"charge","version":"2"}`:                    {"workflows[1].version", `workflow "charge" has no version "2", declare it first`},
		`{"name":"charge","version":"1","gates_hash":"bad"}`: {"workflows[1].gates_hash", `version "1" of workflow "charge" was never declared with these gates`},
	} {
		p := a.send("POST", "/v1/claims", `{"worker":"w","workflows":[{"name":"other","version":"1"},`+entry+`],"credit":1}`).refused(wire.CodeNotDeclared, want[0])
		if p.Detail != want[0]+": "+want[1] || p.Status != 409 {
			t.Errorf("%s: %d %q", entry, p.Status, p.Detail)
		}
	}
}

// A stale fence says what a worker has to do, alone and in a batch.
func TestP51StaleFenceSaysWhatToDo(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	want := "fence 99 does not hold the run: stop the body and drop its result"
	for _, c := range [][2]string{{"complete", `{"fence":99}`}, {"fail", `{"fence":99,"error":{"type":"T"}}`}, {"suspend", `{"fence":99,"until":{"at_ms":1}}`},
		{"steps", `{"fence":99,"state":{}}`}, {"children", `{"fence":99,"runs":[{"workflow":"x"}]}`}} {
		if p := a.send("POST", "/v1/runs/"+g.RunID+"/"+c[0], c[1]).refused(wire.CodeStaleFence, ""); p.Detail != want {
			t.Errorf("%s says %q, want %q", c[0], p.Detail, want)
		}
	}
	var got wire.CompleteBatchResult
	a.send("POST", "/v1/runs:complete", `{"runs":[{"run_id":"`+g.RunID+`","fence":99}]}`).ok(200, &got)
	if got.Results[0].Problem.Detail != want {
		t.Errorf("a batch says %q, want %q", got.Results[0].Problem.Detail, want)
	}
	if p := a.send("GET", "/v1/runs/abc", "").refused(wire.CodeUnknownRun, ""); p.Detail != `"abc": a run id is "run_" and 26 characters of Crockford's base 32` {
		t.Errorf("a run id that is none: %q", p.Detail)
	}
}
