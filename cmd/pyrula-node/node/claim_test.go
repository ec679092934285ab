package node_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// later posts on another goroutine.
func (s *served) later(ctx context.Context, path, body string) <-chan sent {
	back := make(chan sent, 1)
	go func() {
		a, err := s.request(ctx, asked{method: "POST", path: path, body: body})
		back <- sent{a, err}
	}()
	return back
}

// granted waits for a claim that was sent later.
func (s *served) granted(back <-chan sent) []grant {
	s.t.Helper()
	got := <-back
	if got.err != nil || got.status != 200 {
		s.t.Fatalf("a claim answers %v, %v", got.answer, got.err)
	}
	return grants(got.at("runs"))
}

// S81: fails when a claim that waits isn't answered by one submit alone, or a claim
// that comes after the submit isn't.
func TestS81SubmitWakesAWaitingClaim(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("free", `{}`)
	s.declare("gated", `{"limit":{"key":"k","max":1},"rate":{"key":"r","per_second":1}}`)
	for _, name := range []string{"free", "gated"} {
		back := s.later(t.Context(), "/v1/claims", claim{names: []string{name}, credit: 1, wait: patience}.body())
		id := s.submit(name, `{"k":"a","r":"`+name+`"}`)
		got := s.granted(back)
		if len(got) != 1 || got[0].run != id {
			t.Fatalf("the waiting claim of %s gets %v, want %s", name, got, id)
		}
		s.complete(got[0])
		id = s.submit(name, `{"k":"a","r":"other"}`)
		if g := s.one("w1", name); g.run != id {
			t.Errorf("a claim after the submit gets %s, want %s", g.run, id)
		}
	}
}

// Fails when a grant isn't what the wire promises.
func TestGrantHasItsFields(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("full", `{"version":"7","limit":{"key":"k","max":1},"lease_seconds":12.5}`)
	id := s.submit("full", `{"k":"a"}`)
	a := s.must(200, "/v1/claims", `{"worker":"w1","workflows":[{"name":"full","version":"7"}],"credit":1}`)
	for field, want := range map[string]string{
		"run_id": id, "workflow": "full", "version": "7", "key": "a", "params": `{"k":"a"}`, "attempt": "1", "lease_seconds": "12.5",
		"steps": "[]", "signals": "[]", "cancel_requested": "false",
	} {
		if got := a.at("runs.0." + field); got.String() != want {
			t.Errorf("%s is %s, want %s", field, got.Raw, want)
		}
	}
	if f := a.at("runs.0.fence").Uint(); f == 0 || f >= 1<<53 {
		t.Errorf("the fence is %d", f)
	}
	st := s.status(id)
	for field, want := range map[string]string{"status": "executing", "worker": "w1", "attempt": "1", "wait": ""} {
		if got := st.at(field); got.String() != want {
			t.Errorf("%s of the executing run is %s, want %q", field, got.Raw, want)
		}
	}
	if st.at("started_at").Int() < st.at("submitted_at").Int() {
		t.Errorf("it started at %s and was submitted at %s", st.at("started_at"), st.at("submitted_at"))
	}
}

// Fails when a claim that waits in vain isn't answered with no runs, or takes credit
// along that nobody gave it.
func TestEmptyClaim(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	if got := s.claim(claim{names: []string{"w"}, credit: 10, wait: 30}); len(got) != 0 {
		t.Errorf("nothing was submitted, and a claim gets %v", got)
	}
	a := s.must(200, "/v1/claims", claim{names: []string{"w"}, credit: 1}.body())
	if a.text != `{"runs":[]}` {
		t.Errorf("an empty claim answers %s", a.text)
	}
	for range 3 {
		s.submit("w", `{}`)
	}
	if got := s.claim(claim{names: []string{"w"}, credit: 0, wait: 0}); len(got) != 0 {
		t.Errorf("a credit of 0 gets %v", got)
	}
	if got := s.claim(claim{names: []string{"w"}, credit: 2}); len(got) != 2 {
		t.Errorf("a credit of 2 gets %d runs", len(got))
	}
	if got := s.claim(claim{names: []string{"w"}, credit: 256}); len(got) != 1 {
		t.Errorf("the third run is granted %d times", len(got))
	}
}

// Fails when a claim for what was never declared waits, or claims what stands
// beside it.
func TestP18NotDeclaredClaims(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"version":"1"}`)
	s.submit("w", `{}`)
	for _, pairs := range []string{
		`{"name":"none"}`, `{"name":"w"}`, `{"name":"w","version":"2"}`, `{"name":"w","version":"1"},{"name":"none"}`,
		`{"name":"w","version":"1","gates_hash":"ffff"}`,
	} {
		a := s.post("/v1/claims", `{"worker":"w1","workflows":[`+pairs+`],"credit":1,"wait_ms":20000}`)
		s.refused(a, 409, "not_declared")
	}
	if k := s.seen("/v1/runs?workflow=w").at("runs.0.status").String(); k != "queued" {
		t.Errorf("after refused claims the run is %s", k)
	}
}

// Fails when a claim out of bounds is taken or the field isn't named.
func TestP57ClaimBounds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{}`)
	many := strings.Repeat(`,{"name":"w"}`, 257)[1:]
	for body, field := range map[string]string{
		`{"workflows":[{"name":"w"}],"credit":1}`:                                              "worker",
		`{"worker":"","workflows":[{"name":"w"}],"credit":1}`:                                  "worker",
		`{"worker":"a\u0000","workflows":[{"name":"w"}],"credit":1}`:                           "worker",
		`{"worker":"` + strings.Repeat("w", 129) + `","workflows":[{"name":"w"}],"credit":1}`:  "worker",
		`{"worker":"w","workflows":[],"credit":1}`:                                             "workflows",
		`{"worker":"w","credit":1}`:                                                            "workflows",
		`{"worker":"w","workflows":[` + many + `],"credit":1}`:                                 "workflows",
		`{"worker":"w","workflows":[{"name":""}],"credit":1}`:                                  "workflows[0].name",
		`{"worker":"w","workflows":[{"name":"w"},{"name":"w","version":"\u0000"}],"credit":1}`: "workflows[1].version",
		`{"worker":"w","workflows":[{"name":"w"}],"credit":-1}`:                                "credit",
		`{"worker":"w","workflows":[{"name":"w"}],"credit":257}`:                               "credit",
		`{"worker":"w","workflows":[{"name":"w"}],"credit":1.5}`:                               "credit",
		`{"worker":"w","workflows":[{"name":"w"}],"credit":1,"wait_ms":-1}`:                    "wait_ms",
		`{"worker":"w","workflows":[{"name":"w"}],"credit":1,"wait_ms":30001}`:                 "wait_ms",
		`{"worker":"w","workflows":[{"name":"w"}]}`:                                            "credit",
	} {
		a := s.post("/v1/claims", body)
		s.refused(a, 422, "invalid_argument")
		if got := a.at("field").String(); got != field {
			t.Errorf("%s is refused for %q, want %q", brief(body), got, field)
		}
	}
}

// S32: fails when workers that claim in one instant share a slot, or runs start out
// of their order.
func TestS32_P3WorkersInOneInstant(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("one", `{"limit":{"key":"k","max":1}}`)
	var order []string
	for i := range 4 {
		order = append(order, s.submit("one", fmt.Sprintf(`{"k":"a","i":%d}`, i)))
	}
	for i, want := range order {
		var both []asked
		for _, w := range []string{"w1", "w2", "w3"} {
			both = append(both, asked{method: "POST", path: "/v1/claims", body: claim{w, []string{"one"}, 4, 0}.body()})
		}
		var got []grant
		for _, a := range s.together(both) {
			got = append(got, grants(a.at("runs"))...)
		}
		if len(got) != 1 || got[0].run != want {
			t.Fatalf("round %d: 3 workers get %d runs, want %s alone: %v", i, len(got), want, got)
		}
		k := s.key("one", "a")
		if k.at("used").Int() != 1 || k.at("queued").Int() != int64(3-i) || k.at("holders.0.run_id").String() != want {
			t.Errorf("round %d: the key is %v", i, k)
		}
		s.complete(got[0])
	}
}

// S47, P61: fails when an end doesn't hand the slot to the next of its key, in the
// order of submit, to a claim that waits.
func TestS47_P61FreedSlotWakesTheNext(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("one", `{"limit":{"key":"k","max":1}}`)
	var order []string
	for range 10 {
		order = append(order, s.submit("one", `{"k":"a"}`))
	}
	g := s.one("w1", "one")
	for i, want := range order {
		if g.run != want {
			t.Fatalf("start %d is %s, want %s", i, g.run, want)
		}
		if i == len(order)-1 {
			break
		}
		back := s.later(t.Context(), "/v1/claims", claim{"w2", []string{"one"}, 4, patience}.body())
		s.complete(g)
		next := s.granted(back)
		if len(next) != 1 {
			t.Fatalf("after end %d the waiting claim gets %d runs", i, len(next))
		}
		g = next[0]
	}
}

// metric reads a measurement by its name and labels, 0 when it isn't there.
func (s *served) metric(name string) int {
	s.t.Helper()
	for line := range strings.Lines(s.seen("/metrics").text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
			return int(n)
		}
	}
	return 0
}

// settles waits until workers ask for so many runs of a workflow.
func (s *served) settles(workflow string, credit int) {
	s.t.Helper()
	late := time.After(patience)
	for name := fmt.Sprintf("pyrula_worker_credit{workflow=%q}", workflow); s.metric(name) != credit; {
		select {
		case <-late:
			s.t.Fatalf("the credit for %s is %d, want %d", workflow, s.metric(name), credit)
		default:
		}
	}
}

// R11: fails when a claim whose client has gone takes a run that another waits for,
// or counts as an attempt (P64).
func TestR11_P64ClientsThatVanish(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("one", `{"limit":{"key":"k","max":1}}`)
	s.declare("free", `{}`)
	for _, name := range []string{"one", "free", "one", "free"} {
		gone, hangUp := context.WithCancel(t.Context())
		var waiting []<-chan sent
		for w := range 20 {
			waiting = append(waiting, s.later(gone, "/v1/claims", claim{fmt.Sprintf("gone-%d", w), []string{name}, 5, patience}.body()))
		}
		s.settles(name, 100)
		hangUp()
		for _, w := range waiting {
			if got := <-w; !errors.Is(got.err, context.Canceled) {
				t.Errorf("a claim of nothing answers %v, %v", got.answer, got.err)
			}
		}
		s.settles(name, 0)
		id := s.submit(name, `{"k":"a"}`)
		got := s.claim(claim{"here", []string{name}, 1, 0})
		if len(got) != 1 || got[0].run != id || got[0].raw.Get("attempt").Int() != 1 {
			t.Fatalf("granted %v, want %s in its first attempt", got, id)
		}
		s.complete(got[0])
	}
}

// P61: fails when a key that waits holds another up, or a claim doesn't rotate over
// keys.
func TestP61_S42KeysDontHoldEachOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("one", `{"limit":{"key":"k","max":1}}`)
	for range 30 {
		s.submit("one", `{"k":"busy"}`)
	}
	held := s.one("w1", "one")
	want := map[string]bool{}
	for i := range 8 {
		want[s.submit("one", fmt.Sprintf(`{"k":"k%d"}`, i))] = true
	}
	for range 8 {
		g := s.one("w2", "one")
		if !want[g.run] {
			t.Fatalf("granted %s, want one of the free keys: %v", g.raw, want)
		}
		delete(want, g.run)
	}
	s.none("w2", "one")
	if k := s.key("one", "busy"); k.at("used").Int() != 1 || k.at("queued").Int() != 29 || k.at("holders.0.run_id").String() != held.run {
		t.Errorf("the busy key is %v", k)
	}
}
