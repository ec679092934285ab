package transport_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

func TestSteps(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	path := "/v1/runs/" + g.RunID + "/steps"
	body := fmt.Sprintf(`{"fence":%d,"steps":[{"name":"charge","result":{"id": 7},"cost_units":2},{"name":"mail","visit":3,"error":{"type":"T","message":"m"}}],"state":{"at": 1}}`, g.Fence)
	for range 2 { // the same again changes nothing
		w := a.send("POST", path, body)
		if w.ok(200, nil); w.Body.String() != `{"run_id":"`+g.RunID+`","status":"executing","waits":[]}` {
			t.Errorf("a recording answers %s", w.Body)
		}
	}
	r := a.node.held(t, g.RunID)
	want := []wire.Step{
		{Seq: 1, Name: "charge", Visit: 1, Result: []byte(`{"id": 7}`), CostUnits: 2},
		{Seq: 2, Name: "mail", Visit: 3, Error: &wire.RunError{Type: "T", Message: "m"}},
	}
	if diff := cmp.Diff(want, r.steps); diff != "" || string(r.state) != `{"at": 1}` {
		t.Errorf("state %s, steps (-want +got):\n%s", r.state, diff)
	}
	p := a.send("POST", path, fmt.Sprintf(`{"fence":%d,"steps":[{"name":"charge","result":8}]}`, g.Fence)).refused(wire.CodeStepConflict, "")
	if p.Status != 409 || !strings.Contains(p.Detail, `"charge"`) || p.RunID != g.RunID {
		t.Errorf("another result of the same step answers %+v", p)
	}
	a.send("POST", path, fmt.Sprintf(`{"fence":%d,"state":{}}`, g.Fence+1)).refused(wire.CodeStaleFence, "")
}

// A kept signal is taken by the recording that asks for it, and only what is there.
func TestStepsTakeSignals(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	a.send("POST", "/v1/runs/"+g.RunID+"/signals/go", `{"n": 1}`).ok(202, nil)
	var got wire.Recorded
	a.send("POST", "/v1/runs/"+g.RunID+"/steps", fmt.Sprintf(`{"fence":%d,"signals":[{"name":"go","visit":1},{"name":"go","visit":2}]}`, g.Fence)).ok(200, &got)
	if len(got.Waits) != 1 || got.Waits[0].Kind != wire.WaitSignal || got.Waits[0].Visit != 1 || string(got.Waits[0].Payload) != `{"n": 1}` {
		t.Errorf("taken %+v, want the one signal that was kept", got.Waits)
	}
}

func TestHistoryInPages(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	path := "/v1/runs/" + g.RunID + "/steps"
	if w := a.send("GET", path, ""); w.Code != 200 || w.Body.String() != `{"steps":[],"waits":[],"children":[],"next":null}` {
		t.Errorf("no history is %d %s", w.Code, w.Body)
	}
	a.send("POST", path, fmt.Sprintf(`{"fence":%d,"steps":[{"name":"a","result":1},{"name":"b"}]}`, g.Fence)).ok(200, nil)
	a.send("POST", "/v1/runs/"+g.RunID+"/children", fmt.Sprintf(`{"fence":%d,"runs":[{"workflow":"x"}]}`, g.Fence)).ok(202, nil)
	var names []string
	var all wire.History
	for target, pages := path, 0; pages < 4; pages++ {
		var h wire.History
		a.send("GET", target, "").ok(200, &h)
		for _, s := range h.Steps {
			names = append(names, s.Name)
		}
		if all.Children = append(all.Children, h.Children...); h.Next == nil {
			break
		}
		target = fmt.Sprintf("%s?after=%d", path, *h.Next)
	}
	if strings.Join(names, "") != "ab" || len(all.Children) != 1 || all.Children[0].Step != "x" || all.Children[0].Kind != wire.ChildKind {
		t.Errorf("the pages have the steps %v and the children %+v", names, all.Children)
	}
	for _, after := range []string{"-1", "x", "", "1.5", "99999999999999999999"} {
		a.send("GET", path+"?after="+after, "").refused(wire.CodeInvalid, "after")
	}
	a.send("GET", path+"?from=1", "").refused(wire.CodeUnknownField, "from")
}

// What a run has recorded comes back with its next grant.
func TestP54GrantHasTheHistory(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	a.send("POST", "/v1/runs/"+g.RunID+"/steps", fmt.Sprintf(`{"fence":%d,"steps":[{"name":"a","result":[1, 2]}],"state":{"s": 1}}`, g.Fence)).ok(200, nil)
	a.send("POST", "/v1/runs/"+g.RunID+"/signals/go", "").ok(202, nil)
	a.send("POST", "/v1/runs/"+g.RunID+"/fail", fmt.Sprintf(`{"fence":%d,"error":{"type":"T"},"retryable":true}`, g.Fence)).ok(200, nil)
	var got wire.Claimed
	a.send("POST", "/v1/claims", claimBody("w", 1)).ok(200, &got)
	again := got.Runs[0]
	if len(again.Steps) != 1 || string(again.Steps[0].Result) != "[1, 2]" || string(again.State) != `{"s": 1}` ||
		len(again.Signals) != 1 || string(again.Signals[0].Payload) != "null" || again.HistoryNext != nil {
		t.Errorf("the next grant is %+v", again)
	}
}

func TestSuspendUntil(t *testing.T) {
	for body, want := range map[string]wire.Suspend{
		`{"fence":1,"until":{"signal":"go","timeout_seconds":1.5},"visit":2}`: {Until: wire.Until{Signal: "go", TimeoutSeconds: new(1.5)}, Visit: 2},
		`{"fence":1,"until":{"signal":"go"}}`:                                 {Until: wire.Until{Signal: "go"}},
		`{"fence":1,"until":{"runs":["RUN"]},"step":"both"}`:                  {Until: wire.Until{Runs: []string{"RUN"}}, Step: "both"},
		`{"fence":1,"until":{"at_ms":5},"step":"nap","visit":1}`:              {Until: wire.Until{AtMS: new(int64(5))}, Step: "nap", Visit: 1},
	} {
		a := newAPI(t)
		g := a.hold("w")
		a.send("POST", "/v1/runs/"+g.RunID+"/suspend", strings.ReplaceAll(body, "RUN", g.RunID)).ok(200, nil)
		want.Fence = 1
		if len(want.Until.Runs) > 0 {
			want.Until.Runs[0] = g.RunID
		}
		if diff := cmp.Diff([]wire.Suspend{want}, a.node.held(t, g.RunID).suspended); diff != "" {
			t.Errorf("%s arrives otherwise (-want +got):\n%s", body, diff)
		}
	}
}

func TestChildren(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	path := "/v1/runs/" + g.RunID + "/children"
	body := fmt.Sprintf(`{"fence":%d,"step":"fan","visit":2,"runs":[{"workflow":"x","params":{"a": 1}},{"workflow":"y","stamp":{"version":"1","keys":{"limit":"k"}}}]}`, g.Fence)
	var first, again wire.ChildrenStarted
	a.send("POST", path, body).ok(202, &first)
	a.send("POST", path, body).ok(202, &again)
	if !first.Created || again.Created || len(first.RunIDs) != 2 || !cmp.Equal(first.RunIDs, again.RunIDs) {
		t.Errorf("started %+v, and again %+v: want the same two runs", first, again)
	}
	sent := a.node.held(t, g.RunID).children[0]
	if string(sent.Runs[0].Params) != `{"a": 1}` || string(sent.Runs[1].Params) != "{}" || *sent.Runs[1].Stamp.Keys.Limit != "k" || sent.Visit != 2 {
		t.Errorf("the node is given %+v", sent)
	}
	a.send("POST", path, body, header("Idempotency-Key", "k")).refused(wire.CodeInvalid, "Idempotency-Key")
	a.send("POST", path, strings.Replace(body, `"fence":1`, `"fence":9`, 1)).refused(wire.CodeStaleFence, "")
}

// Steps and children may carry a claim, and answer it as an ending does.
func TestClaimAfterRecording(t *testing.T) {
	for path, form := range map[string]string{
		"/steps":    `{"fence":%d,"state":{},"claim":%s}`,
		"/children": `{"fence":%d,"runs":[{"workflow":"x"}],"claim":%s}`,
	} {
		a := newAPI(t)
		g := a.hold("w")
		next := a.submit("w")
		want := 200
		if path == "/children" {
			want = 202
		}
		var got struct {
			Runs         []wire.Grant
			ClaimProblem *wire.Problem `json:"claim_problem"`
		}
		a.send("POST", "/v1/runs/"+g.RunID+path, fmt.Sprintf(form, g.Fence, claimBody("w", 2))).ok(want, &got)
		if len(got.Runs) != 1 || got.Runs[0].RunID != next || got.ClaimProblem != nil {
			t.Errorf("%s with a claim answers %+v, want the next run", path, got)
		}
		a.server.Drain()
		w := a.send("POST", "/v1/runs/"+g.RunID+path, fmt.Sprintf(form, g.Fence, claimBody("w", 2)))
		if w.ok(want, &got); got.ClaimProblem == nil || got.ClaimProblem.Code != wire.CodeNotReady || !strings.Contains(w.Body.String(), `"runs":[]`) {
			t.Errorf("%s of a server that drains answers %s, want a claim problem", path, w.Body)
		}
	}
}

// A claim is answered with candidates too; their keys go to /v1/resolutions.
func TestP27Resolve(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	a.node.resolve = []wire.Candidate{{RunID: id, Workflow: "w", Version: "2", GatesHash: "h", Params: []byte(`{"a": 1}`)}}
	var got wire.Claimed
	w := a.send("POST", "/v1/claims", claimBody("other", 1))
	if w.ok(200, &got); len(got.Resolve) != 1 || got.Resolve[0].RunID != id || string(got.Resolve[0].Params) != `{"a": 1}` || len(got.Runs) != 0 {
		t.Errorf("a claim with a candidate answers %s", w.Body)
	}
	var done wire.Resolved
	a.send("POST", "/v1/resolutions", fmt.Sprintf(`{"worker":"w1","runs":[{"run_id":%q,"version":"2","gates_hash":"h","keys":{"limit":"acme"}},{"run_id":%q,"gates_hash":"h","problem":"it panicked"}]}`, id, id)).ok(200, &done)
	if len(done.Runs) != 2 || !done.Runs[0].HandedOn || done.Runs[1].HandedOn {
		t.Errorf("resolutions answer %+v, want yes and no", done.Runs)
	}
	r := a.node.held(t, id).resolved
	if len(r) != 2 || r[0].Version != "2" || *r[0].Keys.Limit != "acme" || r[0].Keys.Rate != nil || r[1].Problem != "it panicked" {
		t.Errorf("the node is given %+v", r)
	}
}

// Bounds of what a body records: a value at the bound is legal.
func TestR13BoundsOfABody(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	run := "/v1/runs/" + g.RunID
	steps := strings.Repeat(`{"name":"s","visit":1000000},`, 99) + `{"name":"` + long[:128] + `","cost_units":1099511627776}`
	takes := strings.Repeat(`{"name":"s","visit":1},`, 99) + `{"name":"` + long[:128] + `","visit":1000000}`
	a.send("POST", run+"/steps", `{"fence":1,"steps":[`+steps+`],"signals":[`+takes+`]}`).ok(200, nil)
	children := strings.Repeat(`{"workflow":"x"},`, 127) + `{"workflow":"` + long[:128] + `"}`
	a.send("POST", run+"/children", `{"fence":1,"step":"`+long[:128]+`","visit":1000000,"runs":[`+children+`]}`).ok(202, nil)
	var ids []string
	for i := range 128 {
		ids = append(ids, `"`+flow.RunID{1, byte(i)}.String()+`"`)
	}
	a.send("POST", run+"/suspend", `{"fence":1,"until":{"runs":[`+strings.Join(ids, ",")+`]},"step":"`+long[:128]+`","visit":1000000}`).ok(200, nil)
	g = a.hold("v")
	run = "/v1/runs/" + g.RunID
	a.send("POST", run+"/suspend", fmt.Sprintf(`{"fence":%d,"until":{"signal":%q,"timeout_seconds":3153600000}}`, g.Fence, long[:128])).ok(200, nil)
	payload := strings.Repeat("x", flow.MaxPayloadBytes-2)
	a.send("POST", run+"/signals/"+long[:128], `"`+payload+`"`).ok(202, nil)
	a.send("POST", run+"/signals/s", `"x`+payload+`"`).refused(wire.CodeInvalid, "payload")
	a.send("POST", run+"/signals/"+long[:129], "").refused(wire.CodeInvalid, "signal")
}
