package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// sent is an answer that came in on another goroutine.
type sent struct {
	answer
	err error
}

// together sends requests at once and gives their answers in order.
func (s *served) together(all []asked) []sent {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	type numbered struct {
		i int
		sent
	}
	start, back := make(chan struct{}), make(chan numbered, len(all))
	for i, r := range all {
		go func() {
			<-start
			a, err := s.request(ctx, r)
			back <- numbered{i, sent{a, err}}
		}()
	}
	close(start)
	out := make([]sent, len(all))
	for range all {
		got := <-back
		if out[got.i] = got.sent; got.err != nil {
			s.t.Errorf("request %d of %d at once: %v", got.i, len(all), got.err)
		}
	}
	return out
}

// P16, P23: fails when a run isn't stamped when it is submitted, or its first event
// doesn't say so.
func TestP16_P23SubmitStamps(t *testing.T) {
	t.Parallel()
	s := serve(t)
	d := s.declare("sync", `{"version":"2","limit":{"key":"tenant_id","max":2},"rate":{"key":"user","per_second":5,"burst":10}}`)
	a := s.must(202, "/v1/workflows/sync/runs", `{"params":{"tenant_id":"acme","user":7}}`)
	if a.at("status").String() != "queued" || !a.at("created").Bool() {
		t.Errorf("submit answers %v", a)
	}
	st := s.status(a.at("run_id").String())
	for field, want := range map[string]string{
		"status": "queued", "attempt": "0", "workflow": "sync", "gates_unknown": "false", "stamped_version": "2", "version_rank": d.at("version_rank").Raw,
		"gates.#": "2", "gates.0.kind": "limit", "gates.0.key_name": "tenant_id", "gates.0.key": "acme", "gates.0.max": "2",
		"gates.1.kind": "rate", "gates.1.key_name": "user", "gates.1.key": "7", "gates.1.per_second": "5", "gates.1.burst": "10",
		"idempotency_key": "", "provenance.source.trigger": "client", "provenance.source.gated_from": "", "continued_to": "",
		"started_at": "", "ended_at": "", "result": "", "error": "", "worker": "", "cancel_requested": "false",
	} {
		if got := st.at(field); got.String() != want {
			t.Errorf("%s is %s, want %q in %v", field, got.Raw, want, st)
		}
	}
	if at := st.at("submitted_at").Int(); at < time.Now().Add(-time.Hour).UnixMilli() || at > time.Now().Add(time.Hour).UnixMilli() {
		t.Errorf("submitted_at %d is no Unix millisecond of today", at)
	}
	first := s.seen("/v1/runs/" + a.at("run_id").String() + "/events").at("events.0")
	if first.Get("type").String() != "run:init" || first.Get("gates").Raw == "" || first.Get("gates.1.key").String() != "7" {
		t.Errorf("the first event is %s", first)
	}
}

// P87: fails when the short form isn't the same as a submit with the body as params.
func TestP87ShortForm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("charge", `{"limit":{"key":"tenant","max":1}}`)
	a := s.must(202, "/charge", `{"tenant":"acme","n":12345678901234567890}`)
	if got := len(gjson.Parse(a.text).Map()); got != 1 {
		t.Errorf("the short form answers %v, want run_id alone", a)
	}
	st := s.status(a.at("run_id").String())
	if st.at("gates.0.key").String() != "acme" {
		t.Errorf("the run is %v", st)
	}
	if g := s.one("w1", "charge"); g.raw.Get("params").Raw != `{"tenant":"acme","n":12345678901234567890}` || g.raw.Get("key").String() != "acme" {
		t.Errorf("the worker gets %s", g.raw)
	}
	keyed := asked{method: "POST", path: "/charge", body: `{"tenant":"acme"}`, key: "K"}
	if first, again := s.do(keyed), s.do(keyed); first.text != again.text || first.status != 202 {
		t.Errorf("the same key answers %v, then %v", first, again)
	}
	for _, body := range []string{`[]`, `7`, `"x"`, `true`} {
		s.refused(s.post("/charge", body), 422, "invalid_argument")
	}
	for _, body := range []string{`{`, `{"a":}`, "{\"a\":\"\xff\"}", `{} x`, ``} {
		s.refused(s.post("/charge", body), 400, "malformed_body")
	}
	s.must(202, "/charge", `null`)
	s.refused(s.post("/charge/events", `{}`), 400, "configuration_error") // it has no trigger
	for _, path := range []string{"/v1", "/metrics", "/livez", "/", "//", "/charge/", "/charge/events/"} {
		if a := s.post(path, `{}`); a.status != 404 && a.status != 405 {
			t.Errorf("POST %s answers %v, want 404 or 405", path, a)
		}
	}
}

// D5.8, S101: fails when one idempotency key makes two runs, over two workflows and
// 50 submits at once, by field and by header, ended or not, also after a restart.
func TestD5_8_S101_S103OneKeyOneRun(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("a", `{"limit":{"key":"k","max":1}}`)
	s.declare("b", `{"rate":{"key":"k","per_second":1}}`)
	var all []asked
	for i := range 50 {
		r := asked{method: "POST", path: "/v1/workflows/" + string("ab"[i%2]) + "/runs", body: fmt.Sprintf(`{"params":{"k":"%d"}}`, i)}
		switch i % 3 {
		case 0:
			r.key = "order-7"
		case 1:
			r.key = `"order-7"` // as a structured field's string
		default:
			r.body = fmt.Sprintf(`{"params":{"k":"%d"},"idempotency_key":"order-7"}`, i)
		}
		all = append(all, r)
	}
	ids, created := map[string]int{}, 0
	for _, a := range s.together(all) {
		if a.status != 202 {
			t.Fatalf("a submit answers %v", a.answer)
		}
		ids[a.at("run_id").String()]++
		if a.at("created").Bool() {
			created++
		}
	}
	if len(ids) != 1 || created != 1 {
		t.Fatalf("50 submits of one key made %d runs, created is true %d times: %v", len(ids), created, ids)
	}
	again := func(when string) {
		t.Helper()
		for _, r := range all[:6] {
			if a := s.do(r); a.status != 202 || ids[a.at("run_id").String()] != 50 || a.at("created").Bool() {
				t.Errorf("%s the key answers %v, want %v", when, a, ids)
			}
		}
	}
	again("after the first submit")
	s.reopen()
	again("after a restart")
	if n := len(s.seen("/v1/runs").at("runs").Array()); n != 1 {
		t.Errorf("%d runs are listed, want 1", n)
	}
	got := s.claim(claim{names: []string{"a", "b"}, credit: 10, wait: patience})
	if len(got) != 1 || ids[got[0].run] != 50 {
		t.Fatalf("a worker of both gets %v", got)
	}
	if k := s.status(got[0].run).at("idempotency_key").String(); k != "order-7" {
		t.Errorf("the run's idempotency_key is %q", k)
	}
	s.complete(got[0])
	again("after the run's end")
	s.reopen()
	again("after its end and a restart")
	s.none("w1", "a", "b")
}

// S75, S104: fails when an end of any kind frees the key, or another case of the
// same letters is taken for the same key.
func TestS75_S104EndsKeepTheKey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	send := func(key string) answer {
		return s.must(202, "/v1/workflows/w/runs", fmt.Sprintf(`{"idempotency_key":%q}`, key))
	}
	for _, verb := range []string{"cancel", "terminate", "fail"} {
		first := send(verb)
		id := first.at("run_id").String()
		if verb == "fail" {
			if a := s.end(s.one("w1", "w"), "fail", `,"error":{"type":"T"}`); a.status != 200 {
				t.Fatalf("fail answers %v", a)
			}
		} else {
			s.must(202, "/v1/runs/"+id+"/"+verb, "")
		}
		for range 2 {
			if a := send(verb); a.at("run_id").String() != id || a.at("created").Bool() {
				t.Errorf("after %s the key answers %v, want %s", verb, a, id)
			}
		}
		if a := send(strings.ToUpper(verb)); !a.at("created").Bool() {
			t.Errorf("%q is taken for %q", strings.ToUpper(verb), verb)
		}
		s.complete(s.one("w1", "w"))
	}
}

// Fails when a bad idempotency key is taken, or a header that disagrees is ignored.
func TestP57IdempotencyKeyBounds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	path := "/v1/workflows/w/runs"
	long := strings.Repeat("k", 256)
	s.must(202, path, `{"idempotency_key":"`+long+`"}`)
	if a := s.must(202, path, `{"idempotency_key":null}`); !a.at("created").Bool() {
		t.Errorf("no key answers %v", a)
	}
	s.refused(s.post(path, `{"idempotency_key":"`+long+`k"}`), 422, "invalid_argument")
	s.refused(s.post(path, `{"idempotency_key":""}`), 422, "invalid_argument")
	s.refused(s.post(path, `{"idempotency_key":7}`), 422, "invalid_argument")
	s.refused(s.do(asked{method: "POST", path: path, body: `{"idempotency_key":"a"}`, key: "b"}), 422, "invalid_argument")
	s.refused(s.do(asked{method: "POST", path: path, body: `{}`, key: `"open`}), 422, "invalid_argument")
	s.refused(s.do(asked{method: "POST", path: "/v1/runs:batch", body: `{"runs":[{"workflow":"w"}]}`, key: "b"}), 422, "invalid_argument")
	agree := s.do(asked{method: "POST", path: path, body: `{"idempotency_key":"a\"b"}`, key: `"a\"b"`})
	if agree.status != 202 {
		t.Errorf("header and field that agree answer %v", agree)
	}
	if n := len(s.seen("/v1/runs?workflow=w").at("runs").Array()); n != 3 {
		t.Errorf("%d runs were made, want 3", n)
	}
}

// Fails when a batch isn't answered in order, one bad entry is half sent, or the
// same key twice in one batch makes two runs.
func TestD5_8BatchOfSubmits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("plain", `{}`)
	s.declare("fn", `{"limit":{"key":{"function":"f"},"max":1}}`)
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, `,{"workflow":"plain","params":{"i":%d}}`, i)
	}
	full := s.must(202, "/v1/runs:batch", `{"runs":[`+b.String()[1:]+`]}`).at("runs").Array()
	if len(full) != 256 {
		t.Fatalf("256 runs answer %d results", len(full))
	}
	place := map[string]int{}
	for i, r := range full {
		place[r.Get("run_id").String()] = i
	}
	got := s.claim(claim{names: []string{"plain"}, credit: 256, wait: patience})
	for len(got) < 256 {
		more := s.claim(claim{names: []string{"plain"}, credit: 256, wait: patience})
		if len(more) == 0 {
			t.Fatalf("%d of 256 runs are granted", len(got))
		}
		got = append(got, more...)
	}
	for _, g := range got {
		if i, ok := place[g.run]; !ok || int64(i) != g.raw.Get("params.i").Int() {
			t.Errorf("%s with params %s is result %d of the batch", g.run, g.raw.Get("params"), i)
		}
	}
	s.refused(s.post("/v1/runs:batch", `{"runs":[`+b.String()[1:]+`,{"workflow":"plain"}]}`), 422, "invalid_argument")
	s.refused(s.post("/v1/runs:batch", `{"runs":[]}`), 422, "invalid_argument")
	half := s.post("/v1/runs:batch", `{"runs":[{"workflow":"plain"},{"workflow":"plain","params":[]}]}`)
	s.refused(half, 422, "invalid_argument")
	if f := half.at("field").String(); f != "runs[1].params" {
		t.Errorf("the batch is refused for %q", f)
	}
	s.none("w1", "plain")
	mixed := s.must(202, "/v1/runs:batch", `{"runs":[{"workflow":"plain","idempotency_key":"K"},{"workflow":"fn"},
		{"workflow":"fn","idempotency_key":"K"},{"workflow":"fn","stamp":{"version":"","keys":{"limit":"x"}}},{"workflow":"plain","idempotency_key":"K"}]}`)
	r := mixed.at("runs").Array()
	if r[0].Get("run_id").String() != r[4].Get("run_id").String() || !r[0].Get("created").Bool() || r[4].Get("created").Bool() {
		t.Errorf("one key twice in a batch answers %v", mixed)
	}
	if r[1].Get("problem.code").String() != "configuration_error" || r[1].Get("run_id").Exists() || !r[3].Get("created").Bool() {
		t.Errorf("the batch answers %v", mixed)
	}
}

// P20: fails when a submit by name of a workflow with a function key makes a run.
func TestP20FunctionKeys(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("fn", `{"version":"1","limit":{"key":{"function":"by_tenant"},"max":1},"rate":{"key":"r","per_second":1}}`)
	path := "/v1/workflows/fn/runs"
	for _, body := range []string{`{"params":{"r":"a"}}`, `{"stamp":{"version":"1"}}`, `{"stamp":{"version":"1","keys":{}}}`, `{"stamp":{"version":"1","keys":{"rate":"x"}}}`} {
		a := s.post(path, body)
		s.refused(a, 400, "configuration_error")
		if f := a.at("field").String(); !strings.HasPrefix(f, "stamp.keys.") {
			t.Errorf("%s is refused for %q", body, f)
		}
	}
	s.refused(s.post("/fn", `{}`), 400, "configuration_error")
	s.refused(s.post(path, `{"stamp":{"version":"9","keys":{"limit":"a"}}}`), 409, "not_declared")
	s.refused(s.post(path, `{"stamp":{"version":"1","keys":{"limit":"`+strings.Repeat("k", 1025)+`"}}}`), 422, "invalid_argument")
	if n := len(s.seen("/v1/runs?workflow=fn").at("runs").Array()); n != 0 {
		t.Fatalf("refused submits made %d runs", n)
	}
	id := s.must(202, path, `{"params":{"r":"a"},"stamp":{"version":"1","keys":{"limit":"acme"}}}`).at("run_id").String()
	if st := s.status(id); st.at("gates.0.key").String() != "acme" || st.at("gates.1.key").String() != "a" {
		t.Errorf("the run is %v", st)
	}
	if k := s.key("fn", "acme"); k.at("queued").Int() != 1 {
		t.Errorf("its key is %v", k)
	}
}

// R10: fails when submits that carry one request_id make two runs.
func TestR10RequestID(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("free", `{}`)
	s.declare("gated", `{"limit":{"key":"k","max":1}}`)
	for _, name := range []string{"free", "gated", "never-declared"} {
		var all []asked
		for range 20 {
			all = append(all, asked{method: "POST", path: "/v1/workflows/" + name + "/runs", body: `{"params":{"k":"a"},"request_id":"r-1-` + name + `"}`})
		}
		ids := map[string]int{}
		for _, a := range s.together(all) {
			ids[a.at("run_id").String()]++
		}
		if len(ids) != 1 {
			t.Errorf("20 submits of %s with one request_id made %v", name, ids)
		}
	}
	s.refused(s.post("/v1/workflows/free/runs", `{"request_id":"`+strings.Repeat("r", 65)+`"}`), 422, "invalid_argument")
}

// Fails when params aren't given to the worker as they were sent, or what isn't an
// object is taken.
func TestParamsAreKept(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	path := "/v1/workflows/w/runs"
	for _, params := range []string{
		`{}`, `{"a":null,"b":[1,2,{"c":"\u0000\ud83d\ude00"}],"n":1e400,"big":123456789012345678901234567890,"f":0.1000}`,
		`{"":"","a b":"\\\"/\b\f\n\r\t"}`, `{"ключ":"значение"}`, `{"deep":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	} {
		s.must(202, path, `{"params":`+params+`}`)
		g := s.one("w1", "w")
		if got := g.raw.Get("params").Raw; got != params {
			t.Errorf("params %s come back as %s", params, got)
		}
		s.complete(g)
	}
	for _, params := range []string{`[]`, `7`, `"x"`, `true`} {
		a := s.post(path, `{"params":`+params+`}`)
		s.refused(a, 422, "invalid_argument")
		if a.at("field").String() != "params" {
			t.Errorf("params %s are refused for %q", params, a.at("field"))
		}
	}
	s.none("w1", "w")
	s.must(202, path, `{"params":null}`)
	s.must(202, path, `{}`)
	if g := s.one("w1", "w"); g.raw.Get("params").Raw != "{}" {
		t.Errorf("no params come back as %s", g.raw.Get("params").Raw)
	}
}

// P31: fails when the trigger of a run isn't kept, or an unknown one is taken.
func TestP31TriggerIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	for _, trigger := range []string{"client", "case", "replay", "eval"} {
		id := s.must(202, "/v1/workflows/w/runs", `{"trigger":"`+trigger+`"}`).at("run_id").String()
		if got := s.status(id).at("provenance.source.trigger").String(); got != trigger {
			t.Errorf("trigger %s is kept as %q", trigger, got)
		}
	}
	for _, body := range []string{`{"trigger":"Client"}`, `{"trigger":"schedule"}`, `{"budget":{"max_transitions":1}}`} {
		s.refused(s.post("/v1/workflows/w/runs", body), 422, "invalid_argument")
	}
}
