package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// fence is the fence of a grant.
func fence(grant gjson.Result) uint64 { return grant.Get("fence").Uint() }

// end ends a hold in some way, and gives the answer.
func (w *witness) end(grant gjson.Result, verb, more string) gjson.Result {
	w.t.Helper()
	return w.must(200, http.MethodPost, "/v1/runs/"+grant.Get("run_id").String()+"/"+verb, fmt.Sprintf(`{"fence":%d%s}`, fence(grant), more))
}

// signalRun sends a signal that must be kept.
func (w *witness) signalRun(id, name, payload string) {
	w.t.Helper()
	w.must(202, http.MethodPost, "/v1/runs/"+id+"/signals/"+name, payload)
}

// children starts runs of a run, and gives their ids.
func (w *witness) children(grant gjson.Result, entries ...string) (ids []string) {
	w.t.Helper()
	answer := w.must(202, http.MethodPost, "/v1/runs/"+grant.Get("run_id").String()+"/children",
		fmt.Sprintf(`{"fence":%d,"step":"legs","runs":[%s]}`, fence(grant), strings.Join(entries, ",")))
	for _, id := range answer.Get("run_ids").Array() {
		ids = append(ids, id.String())
	}
	return ids
}

// events are the types of a run's events, in order.
func (w *witness) events(id string) string {
	w.t.Helper()
	return w.must(200, http.MethodGet, "/v1/runs/"+id+"/events", "").Get("events.#.type").Raw
}

// TestS67_S86CancelledInBackOff fails when a run that was cancelled while it waited for
// its next attempt has another one, or isn't cancelled, after a kill right behind the
// last acknowledgement.
func TestS67_S86CancelledInBackOff(t *testing.T) {
	const runs = 1000
	s := newStanding(t)
	s.declare("flaky", `{"max_attempts":3,"retry_backoff_seconds":60,"lease_seconds":60}`)
	s.declare("quick", `{"max_attempts":3,"retry_backoff_seconds":0.3,"lease_seconds":60}`)
	ids := append(slices.Clone(s.submitMany(runs-100, "flaky", `{}`)), s.submitMany(100, "quick", `{}`)...)
	var grants []gjson.Result
	for len(grants) < runs {
		grants = append(grants, s.claim(250, patience.Milliseconds()/2, "flaky", "quick")...)
	}
	abreastOf(s, grants, func(g gjson.Result) (string, string) {
		return "/v1/runs/" + g.Get("run_id").String() + "/fail", fmt.Sprintf(`{"fence":%d,"error":{"type":"t","message":"m"},"retryable":true}`, fence(g))
	}, 200)
	// Of those with a short back-off some are queued again by now; they are cancelled too.
	abreastOf(s, ids, func(id string) (string, string) { return "/v1/runs/" + id + "/cancel", `{}` }, 202)
	s.kill9()
	if got := s.claim(250, 1000, "flaky", "quick"); len(got) > 0 {
		t.Errorf("%d runs start after they were cancelled, the first is %s", len(got), got[0])
	}
	s.cleanly()
	if got := s.claim(250, 0, "flaky", "quick"); len(got) > 0 {
		t.Errorf("%d runs start after they were cancelled, the first is %s", len(got), got[0])
	}
	for _, r := range append(s.every("flaky"), s.every("quick")...) {
		if r.status != "cancelled" {
			t.Errorf("run %s is %s after its cancel was acknowledged", r.id, r.status)
		}
	}
	for i, id := range ids {
		if i%20 > 0 {
			continue
		}
		if claimed := s.count(id, "run:claimed"); claimed != 1 {
			t.Errorf("run %s has %d attempts, want the one before its cancel", id, claimed)
		}
	}
}

// abreastOf makes one request for each of a list, eight at a time.
func abreastOf[T any](s *standing, all []T, request func(T) (path, body string), want int) {
	s.t.Helper()
	var wg sync.WaitGroup
	for part := range slices.Chunk(all, len(all)/8+1) {
		wg.Go(func() {
			for _, one := range part {
				path, body := request(one)
				if status, answer := post("http://"+s.addr+path, body); status != want {
					s.t.Errorf("%s: %d %s, want %d", path, status, answer, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestS92_S100SignalRightAfterTheStart fails when a signal that was acknowledged before
// the run was claimed, or between its claim and its wait, is gone after a kill, or when
// the wait that it is for isn't satisfied at once. It is shown again with each attempt
// until a step is recorded.
func TestS92_S100SignalRightAfterTheStart(t *testing.T) {
	s := newStanding(t)
	s.declare("patient", `{"limit":{"key":"t","max":1},"max_attempts":3,"retry_backoff_seconds":0.01,"lease_seconds":60}`)
	for i, when := range []string{"before the claim", "between claim and wait"} {
		id := s.submit("patient", `{"t":"a"}`)
		var g gjson.Result
		if i == 1 {
			g = s.one("patient")
		}
		s.signalRun(id, "x", `{"n":1}`)
		s.kill9()
		if i == 0 {
			g = s.one("patient")
		}
		if got := s.end(g, "suspend", `,"until":{"signal":"x","timeout_seconds":60}`).Get("status").String(); got != "queued" {
			t.Errorf("%s: the run is %s after it waits for a signal that it has", when, got)
		}
		for attempt := range 2 {
			g = s.one("patient")
			if g.Get("waits.0.payload.n").Int() != 1 || g.Get("signals.0.payload.n").Int() != 1 || !g.Get("signals.0.delivered").Bool() {
				t.Errorf("%s: attempt %d gets waits %s and signals %s, want the signal in both", when, attempt, g.Get("waits"), g.Get("signals"))
			}
			s.end(g, "fail", `,"error":{"type":"panic","message":"m"},"retryable":true`)
			s.kill9()
		}
		g = s.one("patient")
		s.must(200, http.MethodPost, "/v1/runs/"+id+"/steps", fmt.Sprintf(`{"fence":%d,"steps":[{"name":"s","result":1}]}`, fence(g)))
		s.end(g, "suspend", `,"until":{"at_ms":0}`)
		s.kill9()
		if g = s.one("patient"); len(g.Get("signals").Array()) != 0 || g.Get("steps.0.result").Int() != 1 {
			t.Errorf("%s: behind a step the run gets signals %s and steps %s", when, g.Get("signals"), g.Get("steps"))
		}
		s.complete(g)
	}
}

// TestS96_S101_S106ChildrenOverKills fails when children whose start is sent twice, before
// and after a kill, are more than one run each; when their parent doesn't wake exactly
// once, with all their results, whatever comes first, their end or the wait; or when an
// end that is sent twice has two events.
func TestS96_S101_S106ChildrenOverKills(t *testing.T) {
	s := newStanding(t, "--recent", "1s")
	s.declare("parent", `{"limit":{"key":"t","max":1},"lease_seconds":60}`)
	s.declare("leg", `{"limit":{"key":"n","max":1},"lease_seconds":60}`)
	const legs = 8
	for round, waitFirst := range []bool{true, false, true, false} {
		id := s.submit("parent", fmt.Sprintf(`{"t":"p%d"}`, round))
		g := s.one("parent")
		var entries []string
		for i := range legs { // every other one has a key
			key := ""
			if i%2 == 0 {
				key = fmt.Sprintf(`,"idempotency_key":"leg %d of %s"`, i, id)
			}
			entries = append(entries, fmt.Sprintf(`{"workflow":"leg","params":{"n":"%d-%d"}%s}`, round, i, key))
		}
		first := s.children(g, entries...)
		s.kill9()
		if second := s.children(g, entries...); !slices.Equal(first, second) {
			t.Fatalf("the children are %q, and when they are started again %q", first, second)
		}
		wait := func() {
			s.end(g, "suspend", `,"until":{"runs":["`+strings.Join(first, `","`)+`"]}`)
			s.kill9()
		}
		if waitFirst {
			wait()
		}
		for n := range legs {
			leg := s.one("leg")
			for range 2 { // the answer may be lost
				if answer := s.end(leg, "complete", fmt.Sprintf(`,"result":%q`, leg.Get("run_id"))); answer.Get("status").String() != "completed" {
					t.Fatalf("completion of a child: %s", answer)
				}
			}
			if n%3 == 0 {
				s.kill9()
			}
		}
		if !waitFirst {
			s.eventually("the children are in the archive", func() bool { return archived(t, s.url) >= legs })
			wait()
		}
		g = s.one("parent")
		for i, child := range first {
			if o := g.Get(fmt.Sprintf("waits.0.outcomes.%d", i)); o.Get("run_id").String() != child || o.Get("result").String() != child {
				t.Errorf("child %s ends for its parent as %s", child, o)
			}
			if got := s.events(child); got != `["run:init","run:claimed","run:completed"]` {
				t.Errorf("child %s has the events %s", child, got)
			}
		}
		s.complete(g)
		s.kill9()
		if woken, more := s.count(id, "run:resumed"), s.claim(1, 0, "leg", "parent"); woken != 1 || len(more) > 0 {
			t.Errorf("the parent woke %d times, and %v is left", woken, more)
		}
	}
}

// TestS103_S101KeyOverASuspension fails when a submit with the key of a run that is suspended
// makes another one, before or after kills.
func TestS103_S101KeyOverASuspension(t *testing.T) {
	s := newStanding(t)
	s.declare("long", `{"lease_seconds":60}`)
	submit := func() (string, bool) {
		answer := s.must(202, http.MethodPost, "/v1/workflows/long/runs", `{"idempotency_key":"K"}`)
		return answer.Get("run_id").String(), answer.Get("created").Bool()
	}
	id, _ := submit()
	s.end(s.one("long"), "suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, time.Now().Add(10*365*24*time.Hour).UnixMilli()))
	for range 2 {
		if got, created := submit(); got != id || created {
			t.Errorf("key K is run %s, created %t, want %s", got, created, id)
		}
		s.kill9()
	}
	s.cleanly()
	if got, created := submit(); got != id || created {
		t.Errorf("key K is run %s, created %t, want %s", got, created, id)
	}
	s.is(id, "suspended")
}
