package node_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/transport"
)

// Fails when /v1/node doesn't say what the node is.
func TestP87NodeIsDescribed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	a := s.seen("/v1/node")
	if a.at("node_id").String() != "n1" || a.at("data_dir").String() != s.dir || a.at("fsync").String() != "always" || a.at("version").String() == "" {
		t.Errorf("the node is %v", a)
	}
	owners := a.at("shards.#.owner").Array()
	for i, o := range owners {
		if o.String() != "n1" || a.at("shards").Array()[i].Get("role").String() != "owner" || a.at("shards").Array()[i].Get("id").Int() != int64(i) {
			t.Errorf("shard %d is %s", i, a.at("shards").Array()[i])
		}
	}
	if len(owners) == 0 || a.at("recovery.records").Int() != 0 || a.at("recovery.runs").Int() != 0 {
		t.Errorf("a new node is %v", a)
	}
	for _, path := range []string{"/livez", "/healthz"} {
		if a := s.seen(path); !a.at("live").Bool() {
			t.Errorf("%s answers %v", path, a)
		}
	}
	if a := s.seen("/readyz"); !a.at("ready").Bool() || a.at("checks").Exists() {
		t.Errorf("/readyz answers %v", a)
	}
	checks := s.seen("/readyz?verbose").at("checks").Array()
	for _, c := range checks {
		if !c.Get("ok").Bool() || c.Get("name").String() == "" {
			t.Errorf("a ready node has the check %s", c)
		}
	}
	if len(checks) == 0 {
		t.Error("/readyz?verbose has no checks")
	}
}

// Fails when the document that is served isn't the one that tests hold answers
// against, or a code of a problem can't be looked up.
func TestP87DocumentIsServed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var served, held any
	if err := json.Unmarshal([]byte(s.seen("/openapi.json").text), &served); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(transport.OpenAPI(), &held); err != nil {
		t.Fatal(err)
	}
	a, errA := json.Marshal(served)
	b, errB := json.Marshal(held)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("the document that is served is another: %v, %v", errA, errB)
	}
	for _, code := range transport.Codes() {
		if got := s.seen("/v1/problems/" + code); got.at("code").String() != code || got.at("meaning").String() == "" {
			t.Errorf("the problem %s is %v", code, got)
		}
	}
	missing := s.get("/v1/runs/" + unknownRun)
	if where := missing.at("type").String(); s.seen(where).at("code").String() != missing.at("code").String() {
		t.Errorf("the type of %v doesn't lead to its meaning", missing)
	}
	s.refused(s.get("/v1/problems/nonsense"), 404, "not_found")
}

// Fails when a measurement is missing, renamed, or has a key's value in a label.
func TestP87Metrics(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	for range 3 {
		s.submit("w", `{"k":"secret-key"}`)
	}
	s.complete(s.one("w1", "w"))
	s.one("w1", "w")
	text := s.seen("/metrics").text
	for _, name := range []string{
		"pyrula_runs_started_total", "pyrula_runs_finished_total", "pyrula_run_wait_seconds_bucket", "pyrula_run_duration_seconds_bucket",
		"pyrula_runs", "pyrula_waiting_runs", "pyrula_oldest_wait_seconds", "pyrula_limit_slots", "pyrula_limit_slots_used", "pyrula_keys",
		"pyrula_worker_credit", "pyrula_wal_fsync_seconds_count", "pyrula_build_info", "pyrula_http_requests_total",
	} {
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(text) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	for name, want := range map[string]int{
		`pyrula_runs_started_total{workflow="w"}`: 2, `pyrula_runs_finished_total{outcome="completed",workflow="w"}`: 1,
		`pyrula_runs{state="executing",workflow="w"}`: 1, `pyrula_runs{state="queued",workflow="w"}`: 1,
		`pyrula_waiting_runs{reason="limit",workflow="w"}`: 1, `pyrula_limit_slots_used{limit="k",workflow="w"}`: 1,
	} {
		if got := s.metric(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if strings.Contains(text, "secret-key") || strings.Contains(text, "run_0") {
		t.Error("a key or the id of a run is in a label")
	}
	var names []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE pyrula_"); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if slices.Contains(names, "") || len(names) < 14 {
		t.Errorf("the measurements are %v", names)
	}
}
