package node_test

import (
	"fmt"
	"strings"
	"testing"
)

const unknownRun = "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"

// P63, S04: fails when cancelling or terminating a queued run needs a worker, starts
// it, or advances the queue.
func TestP63_S04StopWhileQueued(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.000001,"burst":3}}`)
	for verb, status := range map[string]string{"cancel": "cancelled", "terminate": "terminated"} {
		key := `{"k":"` + verb + `"}`
		s.submit("w", key)
		a := s.one("w1", "w")
		b, c := s.submit("w", key), s.submit("w", key)
		got := s.must(202, "/v1/runs/"+b+"/"+verb, `{"reason":"not needed"}`)
		if got.at("status").String() != status || !got.at("changed").Bool() || got.at("run_id").String() != b {
			t.Errorf("%s answers %v", verb, got)
		}
		again := s.must(200, "/v1/runs/"+b+"/"+verb, `{"reason":"not needed"}`)
		if again.at("changed").Bool() || again.at("status").String() != status {
			t.Errorf("%s of an ended run answers %v", verb, again)
		}
		st := s.status(b)
		if st.at("started_at").Raw != "null" || st.at("ended_at").Int() == 0 || st.at("attempt").Int() != 0 || st.at("wait").Raw != "null" {
			t.Errorf("the stopped run is %v", st)
		}
		if k := s.key("w", verb); k.at("used").Int() != 1 || k.at("queued").Int() != 1 || k.at("rate.tokens").Int() != 2 {
			t.Errorf("after %s the key is %v", verb, k)
		}
		if p := s.status(c).at("wait.position").Int(); p != 1 {
			t.Errorf("the next run is at position %d", p)
		}
		s.none("w2", "w")
		s.complete(a)
		if g := s.one("w2", "w"); g.run != c {
			t.Errorf("granted %s, want the next run %s", g.run, c)
		} else {
			s.complete(g)
		}
		if r := s.seen("/v1/runs/" + b + "/result"); r.at("status").String() != status || r.at("result").Raw != "null" {
			t.Errorf("the result of the stopped run is %v", r)
		}
		why := s.seen("/v1/runs/" + b + "/events").text
		if !strings.Contains(why, "not needed") {
			t.Errorf("the reason isn't in the events: %s", why)
		}
	}
}

// S62, P63: fails when a cancelled run ends as a success, its slot is freed before
// its body's end, or nobody tells the worker.
func TestS62_P63CancelWhileExecuting(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"max_attempts":3,"retry_backoff_seconds":0}`)
	for _, end := range []struct{ verb, more string }{
		{"complete", `,"result":"late"`}, {"fail", `,"error":{"type":"T"}`}, {"fail", `,"error":{"type":"T"},"retryable":true`},
		{"suspend", `,"until":{"at_ms":0}`}, {"suspend", `,"until":{"at_ms":9000000000000}`},
	} {
		id := s.submit("w", `{"k":"a"}`)
		next := s.submit("w", `{"k":"a"}`)
		g := s.one("w1", "w")
		if a := s.must(202, "/v1/runs/"+id+"/cancel", ``); !a.at("changed").Bool() || a.at("status").String() != "executing" {
			t.Errorf("cancel answers %v", a)
		}
		if a := s.post("/v1/runs/"+id+"/cancel", `{}`); a.at("changed").Bool() || a.status >= 300 {
			t.Errorf("a second cancel answers %v", a)
		}
		if b := s.beat(g); !b.Get("ok").Bool() || !b.Get("cancel_requested").Bool() {
			t.Errorf("the heartbeat answers %s", b)
		}
		if st := s.status(id); !st.at("cancel_requested").Bool() || st.at("status").String() != "executing" {
			t.Errorf("the run is %v", st)
		}
		s.none("w2", "w")
		a := s.end(g, end.verb, end.more)
		if a.status != 200 || a.at("status").String() != "cancelled" {
			t.Errorf("%s after the cancel answers %v", end.verb, a)
		}
		if st := s.status(id); st.at("status").String() != "cancelled" || st.at("result").Raw != "null" {
			t.Errorf("after %s the run is %v", end.verb, st)
		}
		if again := s.end(g, end.verb, end.more); again.status != 200 {
			t.Errorf("%s again answers %v", end.verb, again)
		}
		h := s.one("w2", "w")
		if h.run != next {
			t.Fatalf("granted %s, want %s", h.run, next)
		}
		s.complete(h)
		if a := s.must(200, "/v1/runs/"+next+"/cancel", ``); a.at("changed").Bool() || a.at("status").String() != "completed" {
			t.Errorf("cancel of a completed run answers %v", a)
		}
	}
}

// S64: fails when a cancel touches another run of the key.
func TestS64CancelMeansOneRun(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":2}}`)
	for range 3 {
		s.submit("w", `{"k":"a"}`)
	}
	g, h := s.one("w1", "w"), s.one("w1", "w")
	s.must(202, "/v1/runs/"+g.run+"/cancel", ``)
	if b := s.beat(h); !b.Get("ok").Bool() || b.Get("cancel_requested").Bool() {
		t.Errorf("the other run's heartbeat answers %s", b)
	}
	if n := len(s.seen("/v1/runs?workflow=w&status=queued").at("runs").Array()); n != 1 {
		t.Errorf("%d runs are queued, want 1", n)
	}
	if e := s.seen("/v1/runs/" + h.run + "/events").text; strings.Contains(e, "cancel") {
		t.Errorf("the other run's events are %s", e)
	}
}

// S35, R20: fails when terminate isn't final at once, the slot is free while the
// body may run, a heartbeat still renews, or a late result is kept.
func TestS35_R20Terminate(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"lease_seconds":1}`)
	a, b := s.submit("w", `{"k":"x"}`), s.submit("w", `{"k":"x"}`)
	g := s.one("w1", "w")
	if r := s.must(202, "/v1/runs/"+a+"/terminate", `{"reason":"stop"}`); r.at("status").String() != "terminated" {
		t.Errorf("terminate answers %v", r)
	}
	s.is(a, "terminated")
	if k := s.key("w", "x"); k.at("used").Int() != 1 || k.at("holders.0.run_id").String() != a {
		t.Errorf("right after it the key is %v", k)
	}
	s.none("w2", "w")
	if h := s.beat(g); !h.Get("cancel_requested").Bool() && h.Get("ok").Bool() {
		t.Errorf("a heartbeat after it answers %s", h)
	}
	next := s.one("w2", "w") // waits for the expiry
	if next.run != b {
		t.Fatalf("granted %s, want B", next.run)
	}
	before := s.status(a)
	if r := s.end(g, "complete", `,"result":"late"`); r.status != 409 && r.at("status").String() != "terminated" {
		t.Errorf("a late completion answers %v", r)
	}
	if after := s.status(a); after.text != before.text || after.at("result").Raw != "null" {
		t.Errorf("a late completion makes %v of %v", after, before)
	}
	s.complete(next)

	// With the worker's answer the slot is free at once.
	c, d := s.submit("w", `{"k":"y"}`), s.submit("w", `{"k":"y"}`)
	g = s.one("w1", "w")
	s.must(202, "/v1/runs/"+c+"/terminate", ``)
	if r := s.end(g, "complete", `,"result":"late"`); r.status != 200 || r.at("status").String() != "terminated" {
		t.Errorf("the holder's completion answers %v", r)
	}
	if got := s.claim(claim{"w2", []string{"w"}, 1, 0}); len(got) != 1 || got[0].run != d {
		t.Errorf("after it a claim gets %v", got)
	}
}

// Fails when stopping a suspended run leaves it waiting, or a run that waits to be
// tried again starts once more (S67).
func TestS65_S67StopWhileSuspended(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"max_attempts":2,"retry_backoff_seconds":0.3}`)
	for verb, status := range map[string]string{"cancel": "cancelled", "terminate": "terminated"} {
		id := s.submit("w", `{"k":"a"}`)
		s.end(s.one("w1", "w"), "suspend", `,"until":{"at_ms":9000000000000}`)
		if a := s.must(202, "/v1/runs/"+id+"/"+verb, ``); a.at("status").String() != status {
			t.Errorf("%s of a suspended run answers %v", verb, a)
		}
		id = s.submit("w", `{"k":"a"}`)
		g := s.one("w1", "w")
		s.end(g, "fail", `,"error":{"type":"T"},"retryable":true`)
		if a := s.must(202, "/v1/runs/"+id+"/"+verb, ``); a.at("status").String() != status {
			t.Errorf("%s in the back-off answers %v", verb, a)
		}
		if got := s.claim(claim{names: []string{"w"}, credit: 5, wait: 600e6}); len(got) != 0 {
			t.Errorf("after %s a claim gets %v", verb, got)
		}
		if k := s.key("w", "a"); k.at("used").Int() != 0 || k.at("queued").Int() != 0 {
			t.Errorf("after %s the key is %v", verb, k)
		}
	}
}

// Fails when stopping what isn't there isn't 404, or a reason that is too long is
// taken.
func TestP63StopNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, verb := range []string{"cancel", "terminate"} {
		s.refused(s.post("/v1/runs/"+unknownRun+"/"+verb, ``), 404, "unknown_run")
		s.refused(s.post("/v1/runs/nonsense/"+verb, ``), 404, "unknown_run")
		s.refused(s.post("/v1/runs/"+unknownRun+"/"+verb, `{"why":"x"}`), 422, "unknown_field")
		s.refused(s.post("/v1/runs/"+unknownRun+"/"+verb, `{"reason":"`+strings.Repeat("r", 1025)+`"}`), 422, "invalid_argument")
	}
	for _, verb := range []string{"complete", "fail", "suspend"} {
		a := s.post("/v1/runs/"+unknownRun+"/"+verb, map[string]string{
			"complete": `{"fence":1}`, "fail": `{"fence":1,"error":{"type":"T"}}`, "suspend": `{"fence":1,"until":{"at_ms":0}}`,
		}[verb])
		s.refused(a, 404, "unknown_run")
	}
	for _, path := range []string{"", "/result", "/events", "/why", "?wait_ms=10", "/result?wait_ms=10"} {
		s.refused(s.get("/v1/runs/"+unknownRun+path), 404, "unknown_run")
		s.refused(s.get("/v1/runs/RUN_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"+path), 404, "unknown_run")
	}
}

// S62: fails when cancel, terminate and completion at once leave a run with two
// ends, a slot taken, or an answer that doesn't fit the end.
func TestS62_R20StopRacesEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	for i := range 30 {
		id := s.submit("w", `{"k":"a"}`)
		g := s.one("w1", "w")
		all := []asked{
			{method: "POST", path: "/v1/runs/" + id + "/cancel"},
			{method: "POST", path: "/v1/runs/" + id + "/complete", body: fmt.Sprintf(`{"fence":%d,"result":1}`, g.fence)},
			{method: "POST", path: "/v1/runs/" + id + "/terminate"},
			{method: "POST", path: "/v1/runs/" + id + "/complete", body: fmt.Sprintf(`{"fence":%d,"result":1}`, g.fence)},
		}
		if i%2 == 0 {
			all[0], all[2] = all[2], all[0]
		}
		got := s.together(all)
		st := s.status(id)
		ended := st.at("status").String()
		ends := 0
		for _, e := range s.seen("/v1/runs/" + id + "/events").at("events.#.type").Array() {
			switch e.String() {
			case "run:completed", "run:cancelled", "run:terminated":
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("round %d: %d ends of %v", i, ends, st)
		}
		if (ended == "completed") != (st.at("result").Raw == "1") {
			t.Errorf("round %d: the run is %v", i, st)
		}
		for j, a := range got {
			if a.status != 200 && a.status != 202 {
				t.Errorf("round %d: request %d answers %v", i, j, a.answer)
			}
		}
		if k := s.key("w", "a"); k.at("used").Int() != 0 || k.at("queued").Int() != 0 {
			t.Errorf("round %d: the key is %v", i, k)
		}
	}
}
