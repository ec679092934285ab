package node_test

import (
	"fmt"
	"strings"
	"testing"
)

// Fails when the same declaration twice is a change, or answers other hashes.
func TestP19DeclareTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const body = `{"version":"2","limit":{"key":"tenant_id","max":2},"rate":{"key":"tenant_id","per_second":5,"burst":10},
		"max_attempts":3,"retry_backoff_seconds":1.5,"lease_seconds":10}`
	first := s.declare("sync", body)
	if !first.at("changed").Bool() || first.at("workflow").String() != "sync" || first.at("version").String() != "2" {
		t.Errorf("the first declaration answers %v", first)
	}
	again := s.declare("sync", body)
	if again.at("changed").Bool() {
		t.Errorf("the same declaration answers %v", again)
	}
	for _, same := range []string{"definition_hash", "gates_hash", "version_rank"} {
		if first.at(same).Raw != again.at(same).Raw {
			t.Errorf("%s is %s, then %s", same, first.at(same), again.at(same))
		}
	}
	spelled := s.declare("sync", `{"lease_seconds":1e1,"max_attempts":3,"retry_backoff_seconds":1.500,"trigger":null,
		"rate":{"burst":10,"per_second":5.0,"key":"tenant_id"},"limit":{"max":2,"key":"tenant\u005fid"},"version":"2"}`)
	if spelled.at("changed").Bool() || spelled.at("definition_hash").Raw != first.at("definition_hash").Raw {
		t.Errorf("the same in other words answers %v, want what %v says", spelled, first)
	}
	if n := len(s.seen("/v1/workflows/sync").at("versions").Array()); n != 1 {
		t.Errorf("%d declarations are kept, want 1", n)
	}
}

// Fails when a declaration isn't read back as it was sent, or its defaults are
// others.
func TestP18DeclarationIsReadBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("full", `{"version":"2.10","limit":{"key":"tenant_id","max":2},"rate":{"key":{"function":"label"},"per_second":0.5,"burst":7},
		"max_attempts":3,"retry_backoff_seconds":0.25,"lease_seconds":10}`)
	s.declare("bare", `{}`)
	s.declare("rate", `{"rate":{"key":"k","per_second":2.5}}`)
	for path, want := range map[string]string{
		"full.versions.0.version": "2.10", "full.versions.0.limit.key": "tenant_id", "full.versions.0.limit.max": "2",
		"full.versions.0.rate.key.function": "label", "full.versions.0.rate.per_second": "0.5", "full.versions.0.rate.burst": "7",
		"full.versions.0.max_attempts": "3", "full.versions.0.retry_backoff_seconds": "0.25", "full.versions.0.lease_seconds": "10",
		"full.versions.0.current": "true",
		"bare.versions.0.version": "", "bare.versions.0.limit": "", "bare.versions.0.rate": "",
		"bare.versions.0.max_attempts": "1", "bare.versions.0.retry_backoff_seconds": "1", "bare.versions.0.lease_seconds": "30",
		"rate.versions.0.rate.burst": "3", "rate.versions.0.rate.per_second": "2.5",
	} {
		name, field, _ := strings.Cut(path, ".")
		if got := s.seen("/v1/workflows/" + name).at(field); got.String() != want {
			t.Errorf("%s is %s, want %q", path, got.Raw, want)
		}
	}
	list := s.seen("/v1/workflows").at("workflows.#.name").Raw
	if list != `["bare","full","rate"]` {
		t.Errorf("the workflows are %s", list)
	}
	s.refused(s.get("/v1/workflows/none"), 404, "unknown_workflow")
}

// current is the version that a submit by name is stamped with.
func (s *served) current(name string) string {
	s.t.Helper()
	return s.seen("/v1/workflows/" + name).at("versions.#(current==true).version").String()
}

// Fails when a submit by name isn't stamped by the highest number, or by the
// version seen last where one of the two is no number.
func TestP83_P18NewestVersionStamps(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for i, step := range []struct{ declare, current string }{
		{"2", "2"}, {"10", "10"}, {"9", "10"}, {"2", "10"}, {"10.1", "10.1"}, {"10.0.9", "10.1"}, {"10.10", "10.10"}, {"10.9", "10.10"},
	} {
		s.declare("num", fmt.Sprintf(`{"version":%q}`, step.declare))
		if got := s.current("num"); got != step.current {
			t.Errorf("declaration %d, of %s: the current version is %q, want %q", i, step.declare, got, step.current)
		}
	}
	if got := s.status(s.submit("num", `{}`)).at("stamped_version").String(); got != "10.10" {
		t.Errorf("a submit by name is stamped by %q", got)
	}
	for _, versions := range [][]string{{"zebra", "apple"}, {"2026", "v3"}, {"", "1a", "b"}, {"20260101", ""}} {
		name := "text-" + strings.Join(versions, "-")
		for _, v := range versions {
			s.declare(name, fmt.Sprintf(`{"version":%q}`, v))
		}
		if got, want := s.current(name), versions[len(versions)-1]; got != want {
			t.Errorf("of %q, in this order, %q is current, want %q", versions, got, want)
		}
	}
}

// Fails when two declarations of one version with different gates don't stand side
// by side, or a claim with a gates_hash is answered with other gates.
func TestP17DeclarationsStandSideBySide(t *testing.T) {
	t.Parallel()
	s := serve(t)
	narrow := s.declare("side", `{"version":"1","limit":{"key":"k","max":1}}`).at("gates_hash").String()
	id := s.submit("side", `{"k":"a"}`)
	wide := s.declare("side", `{"version":"1","limit":{"key":"k","max":2}}`).at("gates_hash").String()
	if narrow == wide {
		t.Fatalf("both declarations have gates_hash %s", wide)
	}
	versions := s.seen("/v1/workflows/side").at("versions")
	if n := len(versions.Array()); n != 2 {
		t.Errorf("%d declarations stand, want 2: %s", n, versions)
	}
	if n := len(versions.Get("#(current==true)#").Array()); n != 1 {
		t.Errorf("%d declarations are current, want 1: %s", n, versions)
	}
	if got := s.status(id).at("gates.0.max").Int(); got != 1 {
		t.Errorf("a queued run's stamp has max %d after a newer declaration, want 1", got)
	}
	if got := s.status(s.submit("side", `{"k":"b"}`)).at("gates.0.max").Int(); got != 2 {
		t.Errorf("a run of now is stamped with max %d, want 2", got)
	}
	with := func(hash string) string {
		return `{"worker":"w1","credit":0,"workflows":[{"name":"side","version":"1","gates_hash":"` + hash + `"}]}`
	}
	s.must(200, "/v1/claims", with(narrow))
	s.must(200, "/v1/claims", with(wide))
	s.refused(s.post("/v1/claims", with("0123")), 409, "not_declared")
}

// P57: fails when a declaration out of range is taken, is refused without its
// field, or leaves anything behind.
func TestP57BadDeclarations(t *testing.T) {
	t.Parallel()
	s := serve(t)
	long := strings.Repeat("v", 129)
	for body, field := range map[string]string{
		`{"limit":{"key":"k","max":0}}`:                                         "limit.max",
		`{"limit":{"key":"k","max":-1}}`:                                        "limit.max",
		`{"limit":{"key":"k","max":1000000001}}`:                                "limit.max",
		`{"limit":{"key":"","max":1}}`:                                          "limit.key",
		`{"limit":{"max":1}}`:                                                   "limit.key",
		`{"limit":{"key":"function:x","max":1}}`:                                "limit.key",
		`{"limit":{"key":"cel:parms.tenant","max":1}}`:                          "limit.key",
		`{"trigger":{"debounce":{"key":"cel:event.","window_seconds":1}}}`:      "trigger.debounce.key",
		`{"limit":{"key":"a\u0000b","max":1}}`:                                  "limit.key",
		`{"limit":{"key":{"function":"` + long + `"},"max":1}}`:                 "limit.key.function",
		`{"rate":{"key":"k","per_second":0}}`:                                   "rate.per_second",
		`{"rate":{"key":"k","per_second":-1}}`:                                  "rate.per_second",
		`{"rate":{"key":"k","per_second":1e-300}}`:                              "rate.per_second",
		`{"rate":{"key":"k","per_second":1e10}}`:                                "rate.per_second",
		`{"rate":{"key":"k"}}`:                                                  "rate.per_second",
		`{"rate":{"key":"k","per_second":1,"burst":0}}`:                         "rate.burst",
		`{"rate":{"key":"k","per_second":1,"burst":-5}}`:                        "rate.burst",
		`{"rate":{"key":"k","per_second":1,"burst":1000000001}}`:                "rate.burst",
		`{"rate":{"key":"k","per_second":0.0000001,"burst":1000000000}}`:        "rate.burst",
		`{"rate":{"key":"","per_second":1}}`:                                    "rate.key",
		`{"max_attempts":0}`:                                                    "max_attempts",
		`{"max_attempts":1000001}`:                                              "max_attempts",
		`{"retry_backoff_seconds":-0.1}`:                                        "retry_backoff_seconds",
		`{"retry_backoff_seconds":2592001}`:                                     "retry_backoff_seconds",
		`{"lease_seconds":0}`:                                                   "lease_seconds",
		`{"lease_seconds":0.999}`:                                               "lease_seconds",
		`{"lease_seconds":86401}`:                                               "lease_seconds",
		`{"version":"` + long + `"}`:                                            "version",
		`{"version":"a\u0000"}`:                                                 "version",
		`{"trigger":{"collect":{"key":"k","max_events":0,"window_seconds":1}}}`: "trigger.collect.max_events",
		`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":1},"debounce":{"key":"k","window_seconds":1}}}`: "trigger",
		`{"budget":{"max_transitions":20}}`:                         "budget",
		`{"kafka":{"topic":".."}}`:                                  "kafka.topic",
		`{"kafka":{"topic":"t"},"limit":{"key":"k","max":1}}`:       "limit",
		`{"kafka":{"topic":"t"},"rate":{"key":"k","per_second":1}}`: "rate",
	} {
		a := s.put("bad", body)
		s.refused(a, 400, "configuration_error")
		if got := a.at("field").String(); got != field {
			t.Errorf("%s is refused for field %q, want %q", brief(body), got, field)
		}
		if d := a.at("detail").String(); !strings.Contains(d, field) {
			t.Errorf("the detail %q doesn't name %s", d, field)
		}
	}
	s.refused(s.get("/v1/workflows/bad"), 404, "unknown_workflow")
	if list := s.seen("/v1/workflows").at("workflows").Raw; list != "[]" {
		t.Errorf("refused declarations left %s", list)
	}
	s.refused(s.post("/v1/claims", claim{names: []string{"bad"}, credit: 1}.body()), 409, "not_declared")
}

// Fails when a value of a wrong type in a declaration is taken or called
// something other than the sender's fault.
func TestP57DeclarationsOfWrongTypes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, body := range []string{
		`[]`, `7`, `null`, `"x"`, `{"limit":[]}`, `{"limit":1}`, `{"limit":{"key":7,"max":1}}`, `{"limit":{"key":"k","max":"1"}}`,
		`{"limit":{"key":"k","max":1.5}}`, `{"limit":{"key":"k","max":1e400}}`, `{"limit":{"key":"k","max":99999999999999999999}}`,
		`{"limit":{"key":null,"max":1}}`, `{"limit":{"key":{},"max":1}}`, `{"limit":{"key":{"function":""},"max":1}}`,
		`{"limit":{"key":{"function":"f","x":1},"max":1}}`, `{"rate":{"key":"k","per_second":"5"}}`, `{"rate":{"key":"k","per_second":1e400}}`,
		`{"rate":{"key":"k","per_second":NaN}}`, `{"rate":{"key":"k","per_second":Infinity}}`, `{"version":2}`, `{"max_attempts":1.5}`,
		`{"max_attempts":"3"}`, `{"lease_seconds":true}`, `{"limit":{"key":"k","max":1},"limit":{"key":"k","max":2}}`, `{"Version":"1"}`,
		`{"limit":{"key":"k","Max":1}}`, `{"limits":{"key":"k","max":1}}`, `{"retries":3}`, `{`, ``, `{} {}`,
	} {
		a := s.put("typed", body)
		if a.status != 400 && a.status != 422 {
			t.Errorf("%s answers %v, want 400 or 422", body, a)
		}
	}
	s.refused(s.get("/v1/workflows/typed"), 404, "unknown_workflow")
}

// Fails when a name at its bound isn't taken, or one beyond it or with a control
// character is.
func TestP57NamesOfWorkflows(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, name := range []string{strings.Repeat("n", 128), "ключ", "a b", "..", ".", "a/b", "%2F", "*", "v2", "runs:batch", strings.Repeat("é", 64)} {
		a := s.do(asked{method: "PUT", path: "/v1/workflows/" + segment(name), body: `{}`})
		if a.status != 200 || a.at("workflow").String() != name {
			t.Errorf("declare %q answers %v", name, a)
			continue
		}
		if back := s.seen("/v1/workflows/" + segment(name)).at("name").String(); back != name {
			t.Errorf("%q is read back as %q", name, back)
		}
		short := s.post("/"+segment(name), `{}`)
		if short.status != 202 {
			t.Errorf("POST /%s answers %v", name, short)
		}
		if got := s.claim(claim{names: []string{name}, credit: 1}); len(got) != 1 || got[0].raw.Get("workflow").String() != name {
			t.Errorf("a claim of %q gets %v", name, got)
		}
	}
	for _, name := range []string{
		strings.Repeat("n", 129), strings.Repeat("é", 65), "a\x00", "a\nb", "\x7f", "\xff", "",
		"v1", "metrics", "livez", "readyz", "healthz", "openapi.json",
	} {
		a := s.do(asked{method: "PUT", path: "/v1/workflows/" + segment(name), body: `{}`})
		s.refused(a, 400, "configuration_error")
		body, status := `{"runs":[{"workflow":"`+strings.ToValidUTF8(strings.NewReplacer("\x00", `\u0000`, "\n", `\n`, "\x7f", `\u007f`).Replace(name), "")+`"}]}`, 422
		if name != "\xff" {
			s.refused(s.post("/v1/runs:batch", body), status, "invalid_argument")
		}
	}
}
