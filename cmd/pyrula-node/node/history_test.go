package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// modelMax is the Limit of the model's workflow.
const modelMax = 2

// modelRun is a run as the rules say it stands.
type modelRun struct {
	id, key   string
	status    string
	held      *grant // by a worker: executing, or terminated and not let go yet
	asked     bool   // to stop
	formerly  []grant
	submitted int
}

// takes says whether the run takes a slot of its key.
func (r *modelRun) takes() bool { return r.held != nil }

// model is a workflow with a Limit over HTTP, beside what must be true of it.
type model struct {
	*served
	name string
	runs []*modelRun // in the order of submit
}

// draw picks a run that a condition holds for, or nil.
func (m *model) draw(t *rapid.T, what string, ok func(*modelRun) bool) *modelRun {
	var fit []*modelRun
	for _, r := range m.runs {
		if ok(r) {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, what)]
}

func (m *model) add(t *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b/c"}).Draw(t, "key")
	r := &modelRun{id: m.submit(m.name, fmt.Sprintf(`{"k":%q}`, key)), key: key, status: "queued", submitted: len(m.runs)}
	m.runs = append(m.runs, r)
}

// due are the runs that a claim must get: for each key, the oldest that fit.
func (m *model) due() []*modelRun {
	used := map[string]int{}
	for _, r := range m.runs {
		if r.takes() {
			used[r.key]++
		}
	}
	var out []*modelRun
	for _, r := range m.runs {
		if r.status == "queued" && used[r.key] < modelMax {
			used[r.key]++
			out = append(out, r)
		}
	}
	return out
}

func (m *model) take(t *rapid.T) {
	credit := rapid.SampledFrom([]int{1, 2, 50}).Draw(t, "credit")
	due := m.due()
	got := m.claim(claim{names: []string{m.name}, credit: credit})
	if len(got) != min(credit, len(due)) {
		t.Fatalf("a claim of %d gets %d runs, and %d may start", credit, len(got), len(due))
	}
	for _, g := range got {
		i := slices.IndexFunc(due, func(r *modelRun) bool { return r.id == g.run })
		if i < 0 {
			t.Fatalf("%s is granted, and isn't among those that may start", g.run)
		}
		r := due[i]
		// Within the key nobody older may be left out.
		for _, older := range due[:i] {
			if older.key == r.key && older.status == "queued" && !slices.ContainsFunc(got, func(o grant) bool { return o.run == older.id }) {
				t.Fatalf("%s of key %q starts before %s", r.id, r.key, older.id)
			}
		}
		for _, old := range r.formerly {
			if g.fence <= old.fence {
				t.Fatalf("fence %d follows %d", g.fence, old.fence)
			}
		}
	}
	for _, g := range got {
		r := due[slices.IndexFunc(due, func(r *modelRun) bool { return r.id == g.run })]
		r.status, r.held = "executing", &g
	}
}

// let ends what a worker holds, in one of the four ways.
func (m *model) let(t *rapid.T) {
	r := m.draw(t, "holder", (*modelRun).takes)
	if r == nil {
		return
	}
	end := rapid.SampledFrom([]struct{ verb, more, status string }{
		{"complete", `,"result":1`, "completed"}, {"fail", `,"error":{"type":"T"}`, "failed"},
		{"fail", `,"error":{"type":"T"},"retryable":true`, "suspended"},
		{"suspend", `,"until":{"at_ms":9000000000000}`, "suspended"}, {"suspend", `,"until":{"at_ms":0}`, "queued"},
	}).Draw(t, "end")
	want := end.status
	if r.status == "terminated" {
		want = "terminated"
	} else if r.asked {
		want = "cancelled"
	}
	a := m.end(*r.held, end.verb, end.more)
	if a.status != 200 {
		t.Fatalf("%s by the holder of %s answers %v", end.verb, r.id, a)
	}
	r.formerly = append(r.formerly, *r.held)
	r.status, r.held = want, nil
	// A moment that has passed wakes the run by its timer, in an entry of its own.
	for late := time.After(patience); want == "queued" && m.status(r.id).at("status").String() == "suspended"; {
		select {
		case <-late:
			t.Fatalf("%s isn't queued again", r.id)
		default:
		}
	}
	if again := m.end(r.formerly[len(r.formerly)-1], end.verb, end.more); again.status != 200 {
		t.Fatalf("%s of %s once more answers %v", end.verb, r.id, again)
	}
}

// stale sends what a former holder may still send.
func (m *model) stale(t *rapid.T) {
	r := m.draw(t, "former", func(r *modelRun) bool { return len(r.formerly) > 1 || r.takes() && len(r.formerly) > 0 })
	if r == nil {
		return
	}
	old := r.formerly[0]
	if a := m.end(old, "complete", `,"result":"stale"`); a.status != 409 {
		t.Fatalf("fence %d of %s, which ended before, answers %v", old.fence, r.id, a)
	}
	if m.beat(old).Get("ok").Bool() {
		t.Fatalf("a heartbeat with the former fence of %s is ok", r.id)
	}
}

func (m *model) stop(t *rapid.T) {
	r := m.draw(t, "any", func(*modelRun) bool { return true })
	if r == nil {
		return
	}
	verb := rapid.SampledFrom([]string{"cancel", "terminate"}).Draw(t, "verb")
	ended := slices.Contains([]string{"completed", "failed", "cancelled", "terminated"}, r.status)
	a := m.post("/v1/runs/"+r.id+"/"+verb, ``)
	switch {
	case ended && (a.status != 200 || a.at("changed").Bool()):
		t.Fatalf("%s of %s, which is %s, answers %v", verb, r.id, r.status, a)
	case !ended && a.status != 202 && !r.asked:
		t.Fatalf("%s of %s, which is %s, answers %v", verb, r.id, r.status, a)
	case ended:
	case verb == "terminate":
		r.status = "terminated"
	case r.held != nil:
		r.asked = true
	default:
		r.status = "cancelled"
	}
}

// holds fails when the node says something else than the model.
func (m *model) holds(t *rapid.T) {
	queued, held := map[string]int64{}, map[string][]string{"a": nil, "b/c": nil}
	// One list for all, and not held against the document: this is asked often.
	list := m.do(asked{method: "GET", path: "/v1/runs?limit=500&workflow=" + m.name, huge: true}).at("runs").Array()
	byID := map[string]gjson.Result{}
	for _, st := range list {
		byID[st.Get("run_id").String()] = st
	}
	if len(list) != len(m.runs) || len(byID) != len(m.runs) {
		t.Fatalf("%d runs are listed, want %d", len(list), len(m.runs))
	}
	for _, r := range m.runs {
		st := byID[r.id]
		if got := st.Get("status").String(); got != r.status {
			t.Fatalf("%s is %s, want %s", r.id, st, r.status)
		}
		waits := r.status == "queued" || r.status == "suspended"
		if waits != (st.Get("wait.reason").String() != "") {
			t.Fatalf("%s is %s and waits for %s", r.id, r.status, st.Get("wait"))
		}
		if r.status == "queued" {
			queued[r.key]++
			if p := st.Get("wait.position").Int(); p != queued[r.key] {
				t.Fatalf("%s is at position %d, want %d", r.id, p, queued[r.key])
			}
		}
		if r.takes() {
			held[r.key] = append(held[r.key], r.id)
		}
	}
	for key, want := range held {
		k := m.do(asked{method: "GET", path: "/v1/keys/" + m.name + "/" + segment(key), huge: true})
		var got []string
		for _, h := range k.at("holders.#.run_id").Array() {
			got = append(got, h.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if k.at("used").Int() != int64(len(want)) || k.at("queued").Int() != queued[key] || !slices.Equal(got, want) || len(want) > modelMax {
			t.Fatalf("key %q is %v, want %v to hold it and %d to wait", key, k, want, queued[key])
		}
	}
}

// P3, P52, R20, S06: fails when a history of submits, claims, ends and stops, with
// restarts between, leaves anything else than the rules say.
func TestP3_P52_R20_S06Histories(t *testing.T) {
	t.Parallel()
	s, number := serve(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		m := &model{served: s, name: fmt.Sprintf("w%d", number)}
		s.declare(m.name, fmt.Sprintf(`{"limit":{"key":"k","max":%d},"max_attempts":1000,"retry_backoff_seconds":3600}`, modelMax))
		rt.Repeat(map[string]func(*rapid.T){
			"submit": m.add, "submit too": m.add, "claim": m.take, "end": m.let, "end too": m.let, "stale": m.stale, "stop": m.stop, "check": m.holds,
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 59).Draw(t, "seldom") == 59 {
					s.reopen()
				}
			},
		})
		m.holds(rt)
	})
}
