package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Fails when a run that waits shows no reason, or the wrong one, anywhere.
func TestP6_S54WaitsHaveReasons(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("limited", `{"limit":{"key":"k","max":1}}`)
	s.declare("rated", `{"rate":{"key":"k","per_second":0.001,"burst":1}}`)
	s.declare("free", `{"max_attempts":2,"retry_backoff_seconds":3600}`)
	reasons := map[string]string{}
	s.submit("limited", `{"k":"a"}`)
	held := s.one("w1", "limited")
	reasons[s.submit("limited", `{"k":"a"}`)] = "limit"
	reasons[s.submit("limited", `{"k":"a"}`)] = "limit"
	s.submit("rated", `{"k":"a"}`)
	s.one("w1", "rated")
	reasons[s.submit("rated", `{"k":"a"}`)] = "rate"
	s.submit("free", `{}`)
	g := s.one("w1", "free")
	s.end(g, "fail", `,"error":{"type":"T"},"retryable":true`)
	reasons[g.run] = "retry_backoff"
	s.submit("free", `{}`)
	g = s.one("w1", "free")
	s.end(g, "suspend", `,"until":{"at_ms":9000000000000}`)
	reasons[g.run] = "schedule"
	reasons[s.submit("never-declared", `{}`)] = "no_worker"
	for id, want := range reasons {
		st, why := s.status(id), s.seen("/v1/runs/"+id+"/why")
		if got := st.at("wait.reason").String(); got != want {
			t.Errorf("%s waits for %q, want %s: %v", id, got, want, st)
		}
		if got := why.at("wait.reason").String(); got != want || why.at("text").String() == "" || why.at("status").String() != st.at("status").String() {
			t.Errorf("why says %v, want %s", why, want)
		}
		switch want {
		case "limit":
			if st.at("wait.used").Int() != 1 || st.at("wait.max").Int() != 1 || st.at("wait.key").String() != "a" || st.at("wait.gate").String() != "limit" {
				t.Errorf("the wait is %s", st.at("wait"))
			}
			if why.at("holders.0.run_id").String() != held.run || why.at("gates.0.open").Bool() || why.at("gates.0.used").Int() != 1 {
				t.Errorf("why is %v", why)
			}
		case "rate":
			at := st.at("wait.opens_at").Int()
			if at < time.Now().Add(900*time.Second).UnixMilli() || at > time.Now().Add(1010*time.Second).UnixMilli() || why.at("gates.0.tokens").Int() != 0 {
				t.Errorf("the wait is %s, why is %v", st.at("wait"), why)
			}
		case "retry_backoff", "schedule":
			if st.at("wait.opens_at").Int() == 0 {
				t.Errorf("the wait of %s is %s", want, st.at("wait"))
			}
		}
	}
	for _, r := range s.seen("/v1/runs?limit=500").at("runs").Array() {
		waits := slices.Contains([]string{"queued", "suspended"}, r.Get("status").String())
		if waits != (r.Get("wait.reason").String() != "") {
			t.Errorf("in the list a run has status %s and wait %s", r.Get("status"), r.Get("wait"))
		}
		if id := r.Get("run_id").String(); reasons[id] != "" && r.Get("wait.reason").String() != reasons[id] {
			t.Errorf("in the list %s waits for %s", id, r.Get("wait"))
		}
	}
}

// Fails when a run that no live worker serves is not told apart from one that a busy
// worker will get to.
func TestNoWorkerAndBusyWorker(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	id := s.submit("w", `{}`)
	if r := s.status(id).at("wait.reason").String(); r != "no_worker" {
		t.Errorf("with no worker the reason is %q", r)
	}
	first := s.one("w1", "w")
	id = s.submit("w", `{}`)
	if r := s.status(id).at("wait.reason").String(); r != "worker_busy" {
		t.Errorf("with a busy worker the reason is %q", r)
	}
	s.complete(first)
}

// Fails when a worker that claims with no credit, to say that it is alive, isn't seen.
func TestCreditZeroIsAlive(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	id := s.submit("w", `{}`)
	s.claim(claim{names: []string{"w"}, credit: 0})
	if r := s.status(id).at("wait.reason").String(); r != "worker_busy" {
		t.Errorf("with a worker that takes nothing the reason is %q", r)
	}
}

// S39: fails when looking moves anything.
func TestS39ReadingChangesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"rate":{"key":"k","per_second":0.001,"burst":1}}`)
	s.submit("w", `{"k":"a"}`)
	s.one("w1", "w")
	id := s.submit("w", `{"k":"a"}`)
	opens := s.status(id).at("wait.opens_at").Raw
	for range 20 {
		for _, got := range []gjson.Result{
			s.status(id).at("wait.opens_at"), s.seen("/v1/runs/" + id + "/why").at("wait.opens_at"), s.key("w", "a").at("rate.opens_at"),
		} {
			if got.Raw != opens {
				t.Errorf("opens_at moved from %s to %s", opens, got.Raw)
			}
		}
	}
	events := s.seen("/v1/runs/" + id + "/events").text
	if n := len(gjson.Get(events, "events").Array()); n != 1 {
		t.Errorf("a run that waits has %d events: %s", n, events)
	}
}

// P26: fails when the events of a run aren't its life in order, numbered, with what
// each one says.
func TestP26_P23EventsTellTheLife(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"version":"","max_attempts":2,"retry_backoff_seconds":0}`)
	id := s.submit("w", `{}`)
	g := s.one("w1", "w")
	s.end(g, "suspend", `,"until":{"at_ms":0}`)
	g = s.one("w1", "w")
	s.end(g, "fail", `,"error":{"type":"Boom","message":"no"},"retryable":true`)
	g = s.one("w2", "w")
	other := s.submit("w", `{}`)
	s.complete(g)
	events := s.seen("/v1/runs/" + id + "/events").at("events").Array()
	var last, at int64
	for i, e := range events {
		if seq := e.Get("seq").Int(); i > 0 && seq != last+1 {
			t.Errorf("event %d follows %d", seq, last)
		}
		last = e.Get("seq").Int()
		if e.Get("at").Int() < at {
			t.Errorf("event %s is before the one before it", e)
		}
		at = e.Get("at").Int()
	}
	text := s.seen("/v1/runs/" + id + "/events")
	if events[0].Get("type").String() != "run:init" || events[len(events)-1].Get("type").String() != "run:completed" {
		t.Errorf("the events are %v", text)
	}
	if n := len(text.at(`events.#(error.type=="Boom")#`).Array()); n != 1 {
		t.Errorf("%d events show the failure: %v", n, text)
	}
	if n := len(text.at(`events.#(fence==` + fmt.Sprint(g.fence) + `)#`).Array()); n == 0 {
		t.Errorf("no event shows the last fence %d: %v", g.fence, text)
	}
	if s.seen("/v1/runs/"+other+"/events").at("events.0.type").String() != "run:init" {
		t.Error("the other run has no events of its own")
	}
}

// Fails when a wait for the end isn't answered by the end, or not at all when the
// wait is over.
func TestP87LongPollOfAnEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	id := s.submit("w", `{}`)
	if a := s.seen("/v1/runs/" + id + "?wait_ms=20"); a.at("status").String() != "queued" {
		t.Errorf("a wait that is over answers %v", a)
	}
	if a := s.get("/v1/runs/" + id + "/result?wait_ms=20"); a.status != 202 || a.at("status").String() != "queued" {
		t.Errorf("a wait that is over answers %v", a)
	}
	g := s.one("w1", "w")
	var waiting []<-chan sent
	for range 10 {
		for _, path := range []string{"?wait_ms=20000", "/result?wait_ms=20000"} {
			back := make(chan sent, 1)
			go func() {
				a, err := s.request(t.Context(), asked{method: "GET", path: "/v1/runs/" + id + path})
				back <- sent{a, err}
			}()
			waiting = append(waiting, back)
		}
	}
	s.end(g, "complete", `,"result":{"ok":true}`)
	for _, w := range waiting {
		if got := <-w; got.err != nil || got.status != 200 || got.at("status").String() != "completed" || got.at("result").Raw != `{"ok":true}` {
			t.Errorf("a wait for the end answers %v, %v", got.answer, got.err)
		}
	}
	for _, wait := range []string{"-1", "30001", "x", "1.5", "", "99999999999999999999"} {
		s.refused(s.get("/v1/runs/"+id+"?wait_ms="+wait), 422, "invalid_argument")
	}
	s.refused(s.get("/v1/runs/"+id+"?wait=1"), 422, "unknown_field")
}

// Fails when pages of a list show a run twice or leave one out, or a filter lets a
// wrong one through.
func TestP81_S54Lists(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("a", `{"limit":{"key":"k","max":1}}`)
	s.declare("b", `{}`)
	all := map[string]bool{}
	for i := range 60 {
		all[s.submit("a", fmt.Sprintf(`{"k":"k%d"}`, i%3))] = true
		all[s.submit("b", `{}`)] = true
	}
	done := s.claim(claim{names: []string{"a"}, credit: 3, wait: patience})
	s.complete(done[0])
	s.must(202, "/v1/runs/"+s.seen("/v1/runs?workflow=b&limit=1").at("runs.0.run_id").String()+"/cancel", ``)
	count := func(query string, limit int) int {
		t.Helper()
		seen, cursor := map[string]bool{}, ""
		last := "run_zzz" // ids begin with the time, so newest first is by id
		for pages := 0; ; pages++ {
			path := fmt.Sprintf("/v1/runs?limit=%d%s", limit, query)
			if cursor != "" {
				path += "&cursor=" + segment(cursor)
			}
			page := s.seen(path)
			runs := page.at("runs").Array()
			if len(runs) > limit || pages > 200 {
				t.Fatalf("page %d of %q has %d runs, limit %d", pages, query, len(runs), limit)
			}
			for _, r := range runs {
				id := r.Get("run_id").String()
				if seen[id] || !all[id] {
					t.Errorf("%q lists %s twice, or it was never made", query, id)
				}
				seen[id] = true
				if id >= last {
					t.Errorf("%q isn't newest first: %s after %s", query, id, last)
				}
				last = id
			}
			if cursor = page.at("next_cursor").String(); cursor == "" {
				return len(seen)
			}
		}
	}
	for query, want := range map[string]int{
		"": 120, "&workflow=a": 60, "&workflow=b": 60, "&workflow=none": 0, "&key=k1": 20, "&workflow=a&key=k0": 20, "&workflow=b&key=k0": 0,
		"&key=": 0, "&status=cancelled": 1, "&status=failed": 0, "&workflow=a&status=queued&key=k2": 20 - 1, "&status=continued": 0,
		"&status=completed": 1, "&status=suspended": 0,
	} {
		for _, limit := range []int{7, 500} {
			if got := count(query, limit); got != want && !(query == "&workflow=a&status=queued&key=k2" && got == want+1) {
				t.Errorf("%q lists %d runs in pages of %d, want %d", query, got, limit, want)
			}
		}
	}
	for _, bad := range []string{"limit=0", "limit=501", "limit=x", "status=waiting", "cursor=!!", "cursor=AAAA", "workflow=v1", "key=%FF", "limit=1&limit=2"} {
		s.refused(s.get("/v1/runs?"+bad), 422, "invalid_argument")
	}
	s.refused(s.get("/v1/runs?worflow=a"), 422, "unknown_field")
	if n := len(s.seen("/v1/runs").at("runs").Array()); n != 100 {
		t.Errorf("a page has %d runs by default, want 100", n)
	}
}
