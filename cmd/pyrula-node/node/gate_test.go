package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// P4, P55: fails when more runs start than burst + rate x time, the burst isn't the
// rate rounded up, or a run is lost.
func TestP4_P55RatesOverTheWire(t *testing.T) {
	t.Parallel()
	s := serve(t)
	type rate struct {
		declared    string
		perSecond   float64
		burst, runs int
	}
	rates := map[string]rate{
		"fast": {`{"rate":{"key":"k","per_second":40}}`, 40, 40, 60},
		"part": {`{"rate":{"key":"k","per_second":2.5}}`, 2.5, 3, 5},
		"slow": {`{"rate":{"key":"k","per_second":0.5}}`, 0.5, 1, 2},
		"wide": {`{"rate":{"key":"k","per_second":4,"burst":25}}`, 4, 25, 26},
	}
	var names []string
	left := 0
	for name, r := range rates {
		names, left = append(names, name), left+r.runs
		s.declare(name, r.declared)
		for range r.runs {
			s.submit(name, `{"k":"a"}`)
		}
		if k := s.key(name, "a"); k.at("rate.tokens").Int() != int64(r.burst) || k.at("rate.burst").Int() != int64(r.burst) {
			t.Errorf("the full bucket of %s is %v, want %d", name, k, r.burst)
		}
	}
	began, started := time.Now(), map[string]int{}
	for left > 0 {
		got := s.claim(claim{names: names, credit: 200, wait: patience})
		if len(got) == 0 {
			t.Fatalf("%d runs don't start: %v have", left, started)
		}
		left -= len(got)
		for _, g := range got {
			started[g.raw.Get("workflow").String()]++
		}
		for name, n := range started {
			if most := float64(rates[name].burst) + rates[name].perSecond*time.Since(began).Seconds(); float64(n) > most {
				t.Fatalf("%d runs of %s started where %f may", n, name, most)
			}
		}
	}
	for name, r := range rates {
		if k := s.key(name, "a"); started[name] != r.runs || k.at("rate.tokens").Int() < 0 || k.at("rate.tokens").Int() > int64(r.burst) || k.at("queued").Int() != 0 {
			t.Errorf("after %d starts the bucket of %s is %v", started[name], name, k)
		}
	}
}

// P5: fails when a run starts that only one of its two gates lets through, with
// both gates on one key and on two.
func TestP5_P62BothGates(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, keys := range [][2]string{{"k", "k"}, {"k", "r"}} {
		name := "w" + strings.Join(keys[:], "")
		s.declare(name, fmt.Sprintf(`{"limit":{"key":%q,"max":2},"rate":{"key":%q,"per_second":0.0001,"burst":5}}`, keys[0], keys[1]))
		for i := range 8 {
			s.submit(name, fmt.Sprintf(`{"k":"a","r":"b","i":%d}`, i))
		}
		started := 0
		for started < 5 {
			got := s.claim(claim{names: []string{name}, credit: 10, wait: patience})
			if len(got) == 0 || len(got) > 2 {
				t.Fatalf("%s: a claim gets %d runs after %d, want 1 or 2", name, len(got), started)
			}
			for _, g := range got {
				if i := int(g.raw.Get("params.i").Int()); i != started {
					t.Errorf("%s: start %d is run %d", name, started, i)
				}
				started++
			}
			if used := s.key(name, "a").at("used").Int(); used != int64(len(got)) {
				t.Errorf("%s: used is %d with %d executing", name, used, len(got))
			}
			for _, g := range got {
				s.complete(g)
			}
		}
		s.none("w1", name)
		if got := s.claim(claim{names: []string{name}, credit: 10, wait: 100 * time.Millisecond}); started != 5 || len(got) != 0 {
			t.Errorf("%s: %d runs started with a burst of 5, and then %d", name, started, len(got))
		}
		for _, r := range s.seen("/v1/runs?status=queued&workflow=" + name).at("runs").Array() {
			if reason := r.Get("wait.reason").String(); reason != "rate" && reason != "limit" {
				t.Errorf("%s: a run waits for %s", name, r.Get("wait"))
			}
		}
	}
}

// S43, S48: fails when one key's bucket is spent for another's run.
func TestS43_S48BucketsAreApart(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"rate":{"key":"k","per_second":0.0001,"burst":2}}`)
	for _, k := range []string{"a", "a", "a", "b"} {
		s.submit("w", `{"k":"`+k+`"}`)
	}
	got := s.claim(claim{names: []string{"w"}, credit: 10, wait: patience})
	for len(got) < 3 {
		got = append(got, s.one("w1", "w"))
	}
	s.none("w1", "w")
	if a, b := s.key("w", "a"), s.key("w", "b"); a.at("rate.tokens").Int() != 0 || b.at("rate.tokens").Int() != 1 || a.at("queued").Int() != 1 {
		t.Errorf("key a is %v, key b is %v", a, b)
	}
}

// S51, P64: fails when a refused claim spends a token, an attempt or a place.
func TestS51_P64RefusedClaimsCostNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"rate":{"key":"r","per_second":0.0001,"burst":10}}`)
	s.submit("w", `{"k":"a","r":"b"}`)
	a := s.one("w1", "w")
	id := s.submit("w", `{"k":"a","r":"b"}`)
	for i := range 10 {
		s.none("w1", "w")
		if got := s.claim(claim{names: []string{"w"}, credit: 0}); len(got) != 0 {
			t.Errorf("claim %d with no credit gets %v", i, got)
		}
	}
	if st := s.status(id); st.at("attempt").Int() != 0 || st.at("wait.position").Int() != 1 {
		t.Errorf("after refused claims the run is %v", st)
	}
	if n := len(s.seen("/v1/runs/" + id + "/events").at("events").Array()); n != 1 {
		t.Errorf("refused claims left %d events", n)
	}
	s.complete(a)
	if g := s.one("w1", "w"); g.run != id || g.raw.Get("attempt").Int() != 1 {
		t.Errorf("granted %s", g.raw)
	}
	if k := s.key("w", "b"); k.at("rate.tokens").Int() != 8 {
		t.Errorf("two starts leave %v", k)
	}
}

// P22: fails when a submit before any declaration is refused, a worker with gates
// starts such a run, or nobody says why it waits.
func TestP22_P77SubmitBeforeDeclare(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.submit("early", `{"k":"a"}`)
	st := s.status(id)
	if !st.at("gates_unknown").Bool() || st.at("gates.#").Int() != 0 || st.at("wait.reason").String() == "" || st.at("stamped_version").String() != "" {
		t.Errorf("the run is %v", st)
	}
	init := s.seen("/v1/runs/" + id + "/events").at("events.0")
	if init.Get("type").String() != "run:init" || !init.Get("gates_unknown").Bool() {
		t.Errorf("its first event is %s", init)
	}
	s.refused(s.post("/v1/claims", claim{names: []string{"early"}, credit: 1}.body()), 409, "not_declared")
	if a := s.get("/v1/keys/early/a"); a.status != 404 && a.status != 200 {
		t.Errorf("a key of a workflow that nobody declared answers %v", a)
	}

	s.declare("early", `{"version":"1","limit":{"key":"k","max":1}}`)
	exempt := s.must(202, "/v1/workflows/early/runs", `{"params":{"k":"b"},"trigger":"case"}`).at("run_id").String()
	gated := `{"worker":"gated","workflows":[{"name":"early","version":"1"}],"credit":5,"wait_ms":20000}`
	var got []grant
	for len(got) < 2 {
		got = append(got, grants(s.must(200, "/v1/claims", gated).at("runs"))...)
	}
	for _, g := range got {
		s.complete(g)
	}
	st = s.status(id)
	if st.at("run_id").String() == id || st.at("requested_run_id").String() != id || st.at("status").String() != "completed" ||
		st.at("gates.0.max").Int() != 1 || st.at("provenance.source.gated_from").String() != id || st.at("gates_unknown").Bool() {
		t.Errorf("under the worker's gates the run is %v", st)
	}
	if st := s.status(exempt); st.at("run_id").String() != exempt || st.at("stamped_version").String() != "1" {
		t.Errorf("a case is %v, want it under the stamp that it has", st)
	}
}

// P22, P17: fails when a claim may name two versions of one workflow: a run could
// then be given to the version that may not have it.
func TestP22_P17ClaimServesOneVersion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"version":"0"}`)
	s.declare("w", `{"version":"1","limit":{"key":"k","max":1}}`)
	a := s.post("/v1/claims", `{"worker":"w1","workflows":[{"name":"w","version":"0"},{"name":"w","version":"1"}],"credit":1}`)
	s.refused(a, 422, "invalid_argument")
	if field := a.at("field").String(); field != "workflows[1].name" {
		t.Errorf("the field is %q", field)
	}
}

// P17, P59, P86: fails when a lowered max stops a run, or lets one start before the
// count is below it.
func TestP86_P59LoweredMax(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":3}}`)
	for range 3 {
		s.submit("w", `{"k":"a"}`)
	}
	var held []grant
	for range 3 {
		held = append(held, s.one("w1", "w"))
	}
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	next := s.submit("w", `{"k":"a"}`)
	for i, g := range held {
		s.none("w1", "w")
		if k := s.key("w", "a"); k.at("used").Int() != int64(3-i) || k.at("max").Int() != 1 {
			t.Errorf("with %d executing the key is %v", 3-i, k)
		}
		if !s.beat(g).Get("ok").Bool() {
			t.Errorf("an executing run was stopped")
		}
		s.complete(g)
	}
	if g := s.one("w1", "w"); g.run != next {
		t.Errorf("granted %s, want %s", g.run, next)
	}
}

// P58: fails when versions of a workflow count apart, or workflows together.
func TestP58_P14CountersOfVersions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"version":"1","limit":{"key":"k","max":1}}`)
	s.declare("other", `{"limit":{"key":"k","max":1}}`)
	first := s.submit("w", `{"k":"a"}`)
	s.declare("w", `{"version":"2","limit":{"key":"k","max":1},"lease_seconds":5}`)
	second := s.submit("w", `{"k":"a"}`)
	apart := s.submit("other", `{"k":"a"}`)
	var got []grant
	for _, version := range []string{"2", "1", "2", "1"} {
		body := `{"worker":"w` + version + `","workflows":[{"name":"w","version":"` + version + `"},{"name":"other"}],"credit":9,"wait_ms":50}`
		got = append(got, grants(s.must(200, "/v1/claims", body).at("runs"))...)
	}
	if len(got) != 2 {
		t.Fatalf("%d runs execute, want one of each workflow: %v", len(got), got)
	}
	for _, g := range got {
		if g.run != first && g.run != apart {
			t.Errorf("granted %s, want %s and %s", g.run, first, apart)
		}
	}
	s.is(second, "queued")
}
