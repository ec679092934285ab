package node_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Fails when a completion isn't kept, its repeat changes anything, or another end
// with the same fence is taken.
func TestS19CompleteOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"max_attempts":3}`)
	for _, result := range []string{`{"n":12345678901234567890}`, `null`, `""`, `[1,2]`, `false`, ``} {
		id := s.submit("w", `{}`)
		if a := s.get("/v1/runs/" + id + "/result"); a.status != 202 || a.at("status").String() != "queued" {
			t.Errorf("the result of a queued run answers %v", a)
		}
		g := s.one("w1", "w")
		more := ""
		if result != "" {
			more = `,"result":` + result
		}
		for range 3 {
			a := s.end(g, "complete", more)
			if a.status != 200 || a.at("status").String() != "completed" || a.at("runs").Exists() {
				t.Fatalf("complete answers %v", a)
			}
		}
		before := s.status(id)
		s.refused(s.end(g, "fail", `,"error":{"type":"T"}`), 409, "run_ended")
		s.refused(s.end(g, "suspend", `,"until":{"at_ms":0}`), 409, "run_ended")
		s.refused(s.end(grant{run: id, fence: g.fence + 1}, "complete", ""), 409, "run_ended")
		if after := s.status(id); after.text != before.text {
			t.Errorf("late ends changed %v into %v", before, after)
		}
		want := result
		if want == "" {
			want = "null"
		}
		a := s.get("/v1/runs/" + id + "/result")
		if a.status != 200 || a.at("result").Raw != want || a.at("status").String() != "completed" || a.at("error").Raw != "null" {
			t.Errorf("the result answers %v, want %s", a, want)
		}
		ends := s.seen("/v1/runs/" + id + "/events").at(`events.#(type=="run:completed")#`).Array()
		if len(ends) != 1 {
			t.Errorf("the run completed %d times", len(ends))
		}
	}
}

// S19: fails when a repeated completion with another result replaces the first.
func TestS19FirstResultStays(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	id := s.submit("w", `{}`)
	g := s.one("w1", "w")
	s.end(g, "complete", `,"result":1`)
	s.end(g, "complete", `,"result":2`)
	if r := s.status(id).at("result").Raw; r != "1" {
		t.Errorf("the result is %s, want 1", r)
	}
}

// P51: fails when an end with a fence that isn't the holder's changes anything.
func TestP51StaleFence(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"max_attempts":3,"limit":{"key":"k","max":1}}`)
	id := s.submit("w", `{"k":"a"}`)
	g := s.one("w1", "w")
	before := s.status(id)
	for _, fence := range []uint64{g.fence - 1, g.fence + 1, 1, 1<<53 - 1, 1 << 62} {
		bad := grant{run: id, fence: fence}
		s.refused(s.end(bad, "complete", `,"result":1`), 409, "stale_fence")
		s.refused(s.end(bad, "fail", `,"error":{"type":"T"},"retryable":true`), 409, "stale_fence")
		s.refused(s.end(bad, "suspend", `,"until":{"at_ms":0}`), 409, "stale_fence")
		if s.beat(bad).Get("ok").Bool() {
			t.Errorf("a heartbeat with fence %d is ok", fence)
		}
	}
	if after := s.status(id); after.text != before.text {
		t.Errorf("stale ends changed %v into %v", before, after)
	}
	for _, verb := range []string{"complete", "fail", "suspend"} {
		a := s.post("/v1/runs/"+id+"/"+verb, `{"error":{"type":"T"},"until":{"at_ms":0}}`)
		if a.status != 422 {
			t.Errorf("%s without a fence answers %v", verb, a)
		}
	}
	other := s.submit("w", `{"k":"b"}`)
	h := s.one("w1", "w")
	s.refused(s.end(grant{run: other, fence: g.fence}, "complete", ""), 409, "stale_fence")
	s.complete(h)
	s.complete(g)
}

// beat sends a heartbeat of one run and gives its result.
func (s *served) beat(g grant) gjson.Result {
	s.t.Helper()
	return s.must(200, "/v1/heartbeats", fmt.Sprintf(`{"worker":"w1","runs":[{"run_id":%q,"fence":%d}]}`, g.run, g.fence)).at("runs.0")
}

// S17: fails when a heartbeat is ok for a run that ended, that never was, or that
// another holds, or isn't for the holder's own.
func TestS17Heartbeats(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	s.submit("w", `{}`)
	s.submit("w", `{}`)
	g, h := s.one("w1", "w"), s.one("w1", "w")
	if b := s.beat(g); !b.Get("ok").Bool() || b.Get("cancel_requested").Bool() {
		t.Errorf("the holder's heartbeat answers %s", b)
	}
	s.complete(g)
	before := s.status(g.run)
	if b := s.beat(g); b.Get("ok").Bool() {
		t.Errorf("a heartbeat after the end answers %s", b)
	}
	if after := s.status(g.run); after.text != before.text {
		t.Errorf("a heartbeat changed %v into %v", before, after)
	}
	const nobody = "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"
	many := s.must(200, "/v1/heartbeats", fmt.Sprintf(`{"worker":"w1","runs":[{"run_id":%q,"fence":1},{"run_id":%q,"fence":%d},{"run_id":%q,"fence":%d}]}`,
		nobody, h.run, h.fence, g.run, g.fence))
	if got := many.at("runs.#.ok").Raw; got != "[false,true,false]" {
		t.Errorf("three heartbeats answer %s", many.text)
	}
	if got := many.at("runs.0.run_id").String(); got != nobody {
		t.Errorf("the results are not in order: %s", many.text)
	}
	for _, body := range []string{`{"worker":"w1","runs":[]}`, `{"worker":"w1"}`, `{"worker":"w1","runs":[{"run_id":"x","fence":1}]}`, `{"runs":[{"run_id":"` + nobody + `","fence":1}]}`} {
		s.refused(s.post("/v1/heartbeats", body), 422, "invalid_argument")
	}
}

// P65: fails when a retryable failure isn't another attempt of the same run, or
// there are more attempts than max_attempts.
func TestP65RetryableFailures(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"max_attempts":3,"retry_backoff_seconds":0.01,"limit":{"key":"k","max":1}}`)
	id := s.submit("w", `{"k":"a"}`)
	var last uint64
	for attempt := 1; attempt <= 3; attempt++ {
		g := s.one("w1", "w")
		if g.run != id || g.raw.Get("attempt").Int() != int64(attempt) || g.fence <= last {
			t.Fatalf("attempt %d: granted %s with fence %d after %d", attempt, g.raw, g.fence, last)
		}
		last = g.fence
		want := "suspended"
		if attempt == 3 {
			want = "failed"
		}
		a := s.end(g, "fail", `,"error":{"type":"Boom","message":"no `+fmt.Sprint(attempt)+`"},"retryable":true`)
		again := s.end(g, "fail", `,"error":{"type":"Boom","message":"no `+fmt.Sprint(attempt)+`"},"retryable":true`)
		if a.status != 200 || again.status != 200 {
			t.Fatalf("attempt %d: fail answers %v, then %v", attempt, a, again)
		}
		if got := a.at("status").String(); attempt == 3 && got != want || attempt < 3 && got != "queued" && got != want {
			t.Errorf("attempt %d: the run is %s after its failure", attempt, got)
		}
	}
	st := s.status(id)
	if st.at("error.type").String() != "Boom" || st.at("error.message").String() != "no 3" || st.at("attempt").Int() != 3 || st.at("result").Raw != "null" {
		t.Errorf("the failed run is %v", st)
	}
	if k := s.key("w", "a"); k.at("used").Int() != 0 || k.at("queued").Int() != 0 {
		t.Errorf("after the failure the key is %v", k)
	}
	s.none("w1", "w")
}

// Fails when an error that isn't retryable is tried again.
func TestP65FinalFailure(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"max_attempts":3}`)
	id := s.submit("w", `{}`)
	g := s.one("w1", "w")
	for _, more := range []string{`,"error":{"type":""}`, `,"error":{}`, `,"error":{"type":"` + strings.Repeat("T", 257) + `"}`, `,"error":"T"`, ``} {
		if a := s.end(g, "fail", more); a.status != 422 {
			t.Errorf("fail with %s answers %v", brief(more), a)
		}
	}
	if a := s.end(g, "fail", `,"error":{"type":"T"}`); a.at("status").String() != "failed" {
		t.Errorf("fail answers %v", a)
	}
	a := s.get("/v1/runs/" + id + "/result")
	if a.status != 200 || a.at("status").String() != "failed" || a.at("error.type").String() != "T" || a.at("error.message").String() != "" {
		t.Errorf("the result is %v", a)
	}
	s.none("w1", "w")
}

// S86: fails when a back-off's run starts before its time, or shows no reason.
func TestS86_P54BackOffWaits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"max_attempts":2,"retry_backoff_seconds":3600}`)
	id := s.submit("w", `{}`)
	s.end(s.one("w1", "w"), "fail", `,"error":{"type":"T"},"retryable":true`)
	s.none("w1", "w")
	st := s.status(id)
	if r := st.at("wait.reason").String(); r != "retry_backoff" {
		t.Errorf("the reason is %q in %v", r, st)
	}
	if at := st.at("wait.opens_at").Int(); at < time.Now().Add(50*time.Minute).UnixMilli() || at > time.Now().Add(70*time.Minute).UnixMilli() {
		t.Errorf("it opens at %d, want an hour from now", at)
	}
}

// P8, P52, P53: fails when a suspended run keeps its slot, loses its place or takes
// a second token.
func TestP8_P52_P53Suspend(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.000001,"burst":3}}`)
	a, b, c := s.submit("w", `{"k":"x"}`), s.submit("w", `{"k":"x"}`), s.submit("w", `{"k":"x"}`)
	ga := s.one("w1", "w")
	soon := time.Now().Add(300 * time.Millisecond).UnixMilli()
	for range 2 {
		if r := s.end(ga, "suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, soon)); r.status != 200 {
			t.Fatalf("suspend answers %v", r)
		}
	}
	gb := s.one("w1", "w")
	if ga.run != a || gb.run != b {
		t.Fatalf("granted %s and %s, want %s and %s", ga.run, gb.run, a, b)
	}
	s.refused(s.end(ga, "complete", ""), 409, "stale_fence")
	// A comes back while B executes, and waits at its old place, before C.
	back := s.later(t.Context(), "/v1/claims", claim{"w2", []string{"w"}, 1, patience}.body())
	for s.status(a).at("status").String() == "suspended" {
		s.get("/v1/runs/" + c + "?wait_ms=50")
	}
	if st := s.status(a); st.at("status").String() != "queued" || st.at("wait.reason").String() != "limit" || st.at("wait.position").Int() != 1 {
		t.Errorf("after its moment A is %v", st)
	}
	s.complete(gb)
	again := s.granted(back)
	if len(again) != 1 || again[0].run != a || again[0].fence <= ga.fence || again[0].raw.Get("attempt").Int() != 1 {
		t.Fatalf("after B granted %v, want A again in its first attempt with a higher fence", again)
	}
	s.complete(again[0])
	gc := s.one("w1", "w")
	if gc.run != c {
		t.Errorf("granted %s, want C", gc.run)
	}
	if k := s.key("w", "x"); k.at("rate.tokens").Int() != 0 || k.at("used").Int() != 1 {
		t.Errorf("three first starts leave %v", k)
	}
	s.complete(gc)
}

// S84: fails when a far moment wraps round, or a past one waits.
func TestS84SuspendMoments(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	far := time.Now().AddDate(10, 0, 0).UnixMilli()
	for _, at := range []int64{far, time.Now().AddDate(300, 0, 0).UnixMilli(), 1<<53 - 1, 1<<63 - 1} {
		id := s.submit("w", `{}`)
		a := s.end(s.one("w1", "w"), "suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, at))
		if a.status != 200 && a.status != 422 {
			t.Errorf("suspend until %d answers %v", at, a)
		}
		if a.status == 200 {
			s.none("w1", "w")
			if st := s.status(id); st.at("status").String() != "suspended" || st.at("wait.opens_at").Int() < far-1 || st.at("wait.reason").String() == "" {
				t.Errorf("suspended until %d the run is %v", at, st)
			}
			s.must(202, "/v1/runs/"+id+"/cancel", "")
			s.is(id, "cancelled")
		} else {
			s.must(202, "/v1/runs/"+id+"/terminate", "")
		}
	}
	id := s.submit("w", `{}`)
	g := s.one("w1", "w")
	for _, until := range []string{`{}`, `{"at_ms":-1}`, `{"at_ms":1.5}`, `{"signal":""}`, `{"signal":"x","at_ms":1}`, `{"runs":[]}`, `{"runs":["` + id + `"]}`, `{"at_ms":1,"timeout_seconds":1}`, `{"at_ms":9223372036854775808}`} {
		if a := s.end(g, "suspend", `,"until":`+until); a.status != 422 {
			t.Errorf("suspend until %s answers %v", until, a)
		}
	}
	for _, at := range []int64{0, 1, time.Now().UnixMilli()} {
		if a := s.end(g, "suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, at)); a.status != 200 {
			t.Fatalf("suspend until %d answers %v", at, a)
		}
		if g = s.one("w1", "w"); g.run != id || g.raw.Get("attempt").Int() != 1 {
			t.Fatalf("after a moment in the past granted %s", g.raw)
		}
	}
}

// S47: fails when an ending that claims doesn't answer the runs of the claim, or a
// refused ending claims all the same.
func TestS47EndingsThatClaim(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"max_attempts":9,"retry_backoff_seconds":3600}`)
	for range 6 {
		s.submit("w", `{"k":"a"}`)
	}
	next := `,"claim":` + claim{names: []string{"w"}, credit: 1, wait: 0}.body()
	g := s.one("w1", "w")
	for _, end := range []struct{ verb, more string }{
		{"complete", ``}, {"fail", `,"error":{"type":"T"}`}, {"fail", `,"error":{"type":"T"},"retryable":true`},
		{"suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, time.Now().Add(time.Hour).UnixMilli())},
	} {
		a := s.end(g, end.verb, end.more+next)
		got := grants(a.at("runs"))
		if a.status != 200 || len(got) != 1 || got[0].run == g.run {
			t.Fatalf("%s with a claim answers %v", end.verb, a)
		}
		stale := s.end(grant{run: got[0].run, fence: got[0].fence + 1}, end.verb, end.more+next)
		s.refused(stale, 409, "stale_fence")
		if stale.at("runs").Exists() {
			t.Errorf("a refused %s claims: %v", end.verb, stale)
		}
		g = got[0]
	}
	if used := s.key("w", "a").at("used").Int(); used != 1 {
		t.Errorf("used is %d, want 1", used)
	}
	bad := s.end(g, "complete", `,"claim":`+claim{names: []string{"none"}, credit: 1}.body())
	if bad.status != 200 || bad.at("claim_problem.code").String() != "not_declared" || bad.at("runs").Raw != "[]" {
		t.Errorf("a completion with a claim of nothing declared answers %v", bad)
	}
	s.is(g.run, "completed")
	malformed := s.end(s.one("w1", "w"), "complete", `,"claim":{"worker":"w1","workflows":[],"credit":1}`)
	s.refused(malformed, 422, "invalid_argument")
	if f := malformed.at("field").String(); f != "claim.workflows" {
		t.Errorf("it is refused for %q", f)
	}
}

// Fails when a batch of completions isn't answered in order, entry by entry, or its
// claim isn't.
func TestS19CompleteMany(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	for range 5 {
		s.submit("w", `{}`)
	}
	got := s.claim(claim{names: []string{"w"}, credit: 4, wait: patience})
	for len(got) < 4 {
		got = append(got, s.one("w1", "w"))
	}
	type entry struct {
		Run    string `json:"run_id"`
		Fence  uint64 `json:"fence"`
		Result int    `json:"result"`
	}
	entries := []entry{
		{got[0].run, got[0].fence, 0}, {got[1].run, got[1].fence + 9, 1}, {"run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6", 1, 2},
		{got[2].run, got[2].fence, 3}, {got[0].run, got[0].fence, 4},
	}
	list, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	a := s.must(200, "/v1/runs:complete", `{"runs":`+string(list)+`,"claim":`+claim{names: []string{"w"}, credit: 10, wait: patience}.body()+`}`)
	want := []string{"completed", "stale_fence", "unknown_run", "completed", "completed"}
	for i, r := range a.at("results").Array() {
		if got := r.Get("status").String() + r.Get("problem.code").String(); got != want[i] || r.Get("run_id").String() != entries[i].Run {
			t.Errorf("result %d is %s, want %s of %s", i, r, want[i], entries[i].Run)
		}
	}
	if n := len(a.at("runs").Array()); n != 1 || len(a.at("results").Array()) != len(want) {
		t.Errorf("the batch answers %v", a)
	}
	if r := s.status(got[0].run).at("result").Raw; r != "0" {
		t.Errorf("the first run's result is %s, want 0", r)
	}
	s.refused(s.post("/v1/runs:complete", `{"runs":[]}`), 422, "invalid_argument")
	s.refused(s.post("/v1/runs:complete", `{"runs":[{"run_id":"x","fence":1}]}`), 422, "invalid_argument")
	s.is(got[3].run, "executing")
}

// P50, S05, P52: fails when an expired lease doesn't free its slot and requeue its
// run at the old place, or the former holder is heard.
func TestP50_P52_S05LeaseExpires(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"lease_seconds":1,"rate":{"key":"k","per_second":0.000001,"burst":2}}`)
	a, b := s.submit("w", `{"k":"x"}`), s.submit("w", `{"k":"x"}`)
	old := s.one("w1", "w")
	now := s.one("w2", "w") // waits for the expiry
	if old.run != a || now.run != a || now.fence <= old.fence {
		t.Fatalf("granted %s, then %s, want A twice with a higher fence", old.raw, now.raw)
	}
	for range 10 {
		s.refused(s.end(old, "complete", `,"result":"late"`), 409, "stale_fence")
	}
	if s.beat(old).Get("ok").Bool() {
		t.Error("the former holder's heartbeat is ok")
	}
	s.is(a, "executing")
	s.is(b, "queued")
	if k := s.key("w", "x"); k.at("used").Int() != 1 || k.at("rate.tokens").Int() != 1 {
		t.Errorf("the key is %v", k)
	}
	s.complete(now)
	if st := s.status(a); st.at("result").Raw != "null" || st.at("worker").String() == "w1" {
		t.Errorf("the completed run is %v", st)
	}
	if g := s.one("w1", "w"); g.run != b {
		t.Errorf("granted %s, want B", g.run)
	}
}
