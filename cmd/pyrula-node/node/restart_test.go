package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// image copies the data directory of a node at rest: what a node that is killed now
// leaves, since all that it acknowledged is in its files.
func (s *served) image() string {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// life is a node with runs in every status, and what must still be true of them.
type life struct {
	runs    []string
	holders map[string]grant
	order   []string // of the runs of key a that wait
}

// populate makes runs in every status.
func populate(s *served) life {
	s.t.Helper()
	l := life{holders: map[string]grant{}}
	s.declare("w", `{"version":"","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.0001,"burst":9},"max_attempts":2,"retry_backoff_seconds":3600}`)
	s.declare("w2", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"r","per_second":0.0001,"burst":9}}`)
	s.declare("w2", `{"version":"2","limit":{"key":"k","max":2},"rate":{"key":"r","per_second":0.0001,"burst":9}}`)
	add := func(key string) string {
		id := s.submit("w", `{"k":"`+key+`","text":"ключ \u0000 🦒"}`)
		l.runs = append(l.runs, id)
		return id
	}
	hold := func(key string) grant {
		add(key)
		return s.one("w1", "w")
	}
	for i, end := range []struct{ verb, more string }{
		{"complete", `,"result":{"n":[1,2.50,"x"]}`}, {"fail", `,"error":{"type":"Boom","message":"no"}`},
		{"fail", `,"error":{"type":"Boom"},"retryable":true`}, {"suspend", `,"until":{"at_ms":9000000000000}`},
	} {
		s.end(hold(fmt.Sprintf("end-%d", i)), end.verb, end.more)
	}
	s.must(202, "/v1/runs/"+add("stop-1")+"/cancel", `{"reason":"why not"}`)
	s.must(202, "/v1/runs/"+add("stop-2")+"/terminate", ``)
	g := hold("stop-3")
	s.must(202, "/v1/runs/"+g.run+"/cancel", ``)
	l.holders[g.run] = g
	g = hold("stop-4")
	s.must(202, "/v1/runs/"+g.run+"/terminate", ``)
	g = hold("a")
	l.holders[g.run] = g
	for range 5 {
		l.order = append(l.order, add("a"))
	}
	l.runs = append(l.runs, s.submit("nobody-declared", `{"x":1}`))
	a := s.must(202, "/v1/workflows/w2/runs", `{"params":{"k":"a","r":"b"},"idempotency_key":"K","trigger":"replay"}`)
	l.runs = append(l.runs, a.at("run_id").String())
	return l
}

// views reads all that a client can see of the runs, without what depends on who is
// asking for work just now.
func views(s *served, l life) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, id := range l.runs {
		st := s.status(id).text
		if r := gjson.Get(st, "wait.reason").String(); r == "no_worker" || r == "worker_busy" {
			st = strings.Replace(st, r, "a worker", 1)
		}
		out["run "+id] = st
		out["events "+id] = s.seen("/v1/runs/" + id + "/events").text
		out["result "+id] = s.get("/v1/runs/" + id + "/result").text
	}
	for _, key := range []string{"a", "end-0", "end-1", "end-2", "end-3", "stop-1", "stop-3", "stop-4"} {
		k := s.key("w", key)
		out["key "+key] = strings.Replace(k.text, `"oldest_wait_ms":`+k.at("oldest_wait_ms").Raw, "", 1)
	}
	out["workflows"] = s.seen("/v1/workflows").text
	out["list"] = s.seen("/v1/runs?limit=500").at("runs.#.run_id").Raw
	return out
}

// same fails for each view that isn't what it was.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s was\n%s\nand is\n%s", name, was, after[name])
		}
	}
}

// goesOn plays the rest of a life: holders end, and those who wait start in order.
func goesOn(s *served, l life) {
	s.t.Helper()
	s.none("w9", "w")
	for id, g := range l.holders {
		want := "completed"
		if s.status(id).at("cancel_requested").Bool() {
			want = "cancelled"
		}
		if a := s.end(g, "complete", `,"result":"after"`); a.status != 200 || a.at("status").String() != want {
			s.t.Errorf("the holder of before ends %s with %v, want %s", id, a, want)
		}
	}
	for i, want := range l.order {
		g := s.one("w2", "w")
		if g.run != want {
			s.t.Fatalf("start %d after the restart is %s, want %s", i, g.run, want)
		}
		for _, old := range l.holders {
			if g.fence <= old.fence {
				s.t.Errorf("fence %d after the restart isn't above %d of before", g.fence, old.fence)
			}
		}
		s.complete(g)
	}
	a := s.must(202, "/v1/workflows/w/runs", `{"params":{"k":"new"},"idempotency_key":"K"}`)
	if a.at("created").Bool() || !slices.Contains(l.runs, a.at("run_id").String()) {
		s.t.Errorf("the idempotency key of before answers %v", a)
	}
	if tokens := s.key("w", "a").at("rate.tokens").Int(); tokens != 3 {
		s.t.Errorf("6 of 9 tokens were spent and %d are left", tokens)
	}
}

// S08, S09, S23, S103: fails when anything that was acknowledged is another after
// Close and Start, several times over.
func TestS08_S09_S103CloseAndStart(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l := populate(s)
	before := views(s, l)
	for range 3 {
		s.reopen()
		same(t, before, views(s, l))
		if n := s.seen("/v1/node").at("recovery.records").Int(); n != 0 {
			t.Errorf("%d records are replayed after a clean end", n)
		}
	}
	goesOn(s, l)
}

// S08, S09, S24: fails when anything is another for a node that starts from the
// journal alone, or from a snapshot and the journal behind it.
func TestS08_S09_S24StartFromTheJournal(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.submit("before-the-snapshot", `{}`)
	s.reopen()
	l := populate(s)
	before := views(s, l)
	other := serveIn(t, s.image())
	same(t, before, views(other, l))
	again := serveIn(t, other.image())
	same(t, before, views(again, l))
	at := again.seen("/v1/node").at("recovery")
	if at.Get("records").Int() == 0 || at.Get("runs").Int() != int64(len(l.runs)+1) || at.Get("keys").Int() == 0 {
		t.Errorf("the recovery of %d runs is %s", len(l.runs)+1, at)
	}
	goesOn(again, l)
	goesOn(other, l)
}

// S84, S86: fails when a moment that came while no node ran is forgotten, or one
// that hasn't come is taken for past.
func TestS84_S86MomentsOverARestart(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"max_attempts":2,"retry_backoff_seconds":0.2}`)
	var soon []string
	for _, end := range []struct{ verb, more string }{
		{"suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, time.Now().Add(200*time.Millisecond).UnixMilli())},
		{"fail", `,"error":{"type":"T"},"retryable":true`},
	} {
		soon = append(soon, s.submit("w", `{}`))
		s.end(s.one("w1", "w"), end.verb, end.more)
	}
	s.submit("w", `{}`)
	late := s.one("w1", "w")
	s.end(late, "suspend", `,"until":{"at_ms":9000000000000}`)
	for range 2 {
		s.reopen()
	}
	for range soon {
		if g := s.one("w1", "w"); !slices.Contains(soon, g.run) {
			t.Errorf("granted %s, want one of %v", g.run, soon)
		}
	}
	s.none("w1", "w")
	s.is(late.run, "suspended")
}

// P50: fails when a holder of before a restart keeps its slot for ever.
func TestP50_S29LeasesOverARestart(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1},"lease_seconds":1}`)
	a, b := s.submit("w", `{"k":"x"}`), s.submit("w", `{"k":"x"}`)
	s.one("w1", "w")
	c := s.submit("w", `{"k":"y"}`)
	s.one("w1", "w")
	s.must(202, "/v1/runs/"+c+"/cancel", ``)
	s.reopen()
	g := s.one("w2", "w") // waits for the expiry
	if g.run != a || !s.beat(g).Get("ok").Bool() {
		t.Errorf("granted %s, want A again", g.raw)
	}
	if st := s.seen("/v1/runs/" + c + "?wait_ms=20000"); st.at("status").String() != "cancelled" {
		t.Errorf("the cancelled run without a worker is %v", st)
	}
	s.is(b, "queued")
	s.complete(g)
	if g := s.one("w2", "w"); g.run != b {
		t.Errorf("granted %s, want B", g.run)
	}
}

// Fails when params and results near their bounds don't survive, from the journal or
// from a snapshot.
func TestLargeParamsSurvive(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	params := func(i int) string {
		return fmt.Sprintf(`{"k":"%s%d","fill":"%s"}`, strings.Repeat("k", 1000), i, strings.Repeat("é", (1<<20-16<<10-1100)/2))
	}
	for i := range 2 {
		s.submit("w", params(i))
	}
	for _, s := range []*served{serveIn(t, s.image()), s} {
		s.reopen()
		seen := map[string]bool{}
		for range 2 {
			seen[s.one("w1", "w").raw.Get("params").Raw] = true
		}
		if !seen[params(0)] || !seen[params(1)] {
			t.Error("two large runs don't come back whole")
		}
	}
}

// journalOf is the last file of a directory's journal.
func journalOf(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the journal is %v, %v", all, err)
	}
	return all[len(all)-1]
}
