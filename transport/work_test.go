package transport_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

func TestClaim(t *testing.T) {
	a := newAPI(t)
	var first wire.Submitted
	a.send("POST", "/w", `{"tenant":"acme"}`).ok(202, &first)
	var got wire.Claimed
	w := a.send("POST", "/v1/claims", claimBody("w", 10))
	w.ok(200, &got)
	if len(got.Runs) != 1 || got.Runs[0].RunID != first.RunID || string(got.Runs[0].Params) != `{"tenant":"acme"}` || got.Runs[0].Fence == 0 {
		t.Errorf("claimed %s, want the one run with its params and a fence", w.Body)
	}
	for _, empty := range []string{`"steps":[]`, `"signals":[]`, `"waits":[]`, `"children":[]`, `"history_next":null`} {
		if !strings.Contains(w.Body.String(), empty) {
			t.Errorf("%s has no %s", w.Body, empty)
		}
	}
	w = a.send("POST", "/v1/claims", claimBody("w", 10))
	if w.ok(200, &got); w.Body.String() != `{"runs":[]}` {
		t.Errorf("an empty claim answers %s", w.Body)
	}
	a.submit("w")
	a.send("POST", "/v1/claims", claimBody("w", 0)).ok(200, &got)
	if len(got.Runs) != 0 {
		t.Errorf("a credit of 0 claims %d runs", len(got.Runs))
	}
}

func TestClaimWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		begin := time.Now()
		var got wire.Claimed
		body := strings.Replace(claimBody("w", 1), `"credit":1`, `"credit":1,"wait_ms":30000`, 1)
		a.send("POST", "/v1/claims", body).ok(200, &got)
		if waited := time.Since(begin); len(got.Runs) != 0 || waited != 30*time.Second {
			t.Errorf("an idle claim got %d runs after %v, want none after 30s", len(got.Runs), waited)
		}
		done := make(chan wire.Claimed)
		go func() {
			var got wire.Claimed
			a.send("POST", "/v1/claims", body).ok(200, &got)
			done <- got
		}()
		synctest.Wait()
		id := a.submit("w")
		if got := <-done; len(got.Runs) != 1 || got.Runs[0].RunID != id {
			t.Errorf("a waiting claim got %+v, want the run that came", got)
		}
	})
}

func TestHeartbeat(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	var got wire.HeartbeatResult
	a.send("POST", "/v1/heartbeats", fmt.Sprintf(
		`{"worker":"w1","runs":[{"run_id":%q,"fence":%d},{"run_id":%q,"fence":%d}]}`, g.RunID, g.Fence, strings.ToLower(g.RunID), g.Fence+1)).ok(200, &got)
	if len(got.Runs) != 2 || !got.Runs[0].OK || got.Runs[1].OK {
		t.Errorf("heartbeat answers %+v, want yes and no", got.Runs)
	}
}

func TestComplete(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	body := fmt.Sprintf(`{"fence":%d,"result":{"charge": "ch_1"}}`, g.Fence)
	for range 2 { // the same again changes nothing
		w := a.send("POST", "/v1/runs/"+g.RunID+"/complete", body)
		if w.ok(200, nil); w.Body.String() != `{"run_id":"`+g.RunID+`","status":"completed"}` {
			t.Errorf("complete answers %s", w.Body)
		}
	}
	if got := string(a.node.held(t, g.RunID).Result); got != `{"charge": "ch_1"}` {
		t.Errorf("result %s, want it as it was sent", got)
	}
	p := a.send("POST", "/v1/runs/"+g.RunID+"/complete", fmt.Sprintf(`{"fence":%d}`, g.Fence+1)).refused(wire.CodeStaleFence, "")
	if p.Status != 409 || p.RunID != g.RunID {
		t.Errorf("a stale fence answers %+v, want 409 and the run", p)
	}
	p = a.send("POST", "/v1/runs/"+g.RunID+"/fail", fmt.Sprintf(`{"fence":%d,"error":{"type":"T"}}`, g.Fence)).refused(wire.CodeRunEnded, "")
	if p.Status != 409 {
		t.Errorf("an ended run answers %d, want 409", p.Status)
	}
}

func TestFailAndSuspend(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	var got wire.Ended
	a.send("POST", "/v1/runs/"+g.RunID+"/fail", fmt.Sprintf(`{"fence":%d,"error":{"type":"Timeout","message":"after 3 s"},"retryable":true}`, g.Fence)).ok(200, &got)
	if got.Status != "queued" {
		t.Errorf("a retryable failure answers %+v, want queued", got)
	}
	if e := a.node.held(t, g.RunID).Error; e == nil || e.Type != "Timeout" || e.Message != "after 3 s" {
		t.Errorf("error %+v, want the one that was sent", e)
	}
	g = a.hold("v")
	a.send("POST", "/v1/runs/"+g.RunID+"/suspend", fmt.Sprintf(`{"fence":%d,"until":{"at_ms":0}}`, g.Fence)).ok(200, &got)
	if got.Status != "suspended" {
		t.Errorf("a suspension answers %+v", got)
	}
}

// The claim inside an ending is served after it, in the same request.
func TestClaimAfterEnding(t *testing.T) {
	ends := map[string]string{
		"complete": `{"fence":%d,"claim":%s}`,
		"fail":     `{"fence":%d,"error":{"type":"T"},"claim":%s}`,
		"suspend":  `{"fence":%d,"until":{"signal":"go"},"claim":%s}`,
	}
	for verb, form := range ends {
		a := newAPI(t)
		g := a.hold("w")
		next := a.submit("w")
		var got wire.Ended
		a.send("POST", "/v1/runs/"+g.RunID+"/"+verb, fmt.Sprintf(form, g.Fence, claimBody("w", 5))).ok(200, &got)
		if got.Runs == nil || len(*got.Runs) != 1 || (*got.Runs)[0].RunID != next || got.ClaimProblem != nil {
			t.Errorf("%s with a claim answers %+v, want the next run", verb, got)
		}
		g = (*got.Runs)[0]
		w := a.send("POST", "/v1/runs/"+g.RunID+"/"+verb, fmt.Sprintf(form, g.Fence, claimBody("none", 5)))
		if w.ok(200, nil); !strings.Contains(w.Body.String(), `"runs":[]`) {
			t.Errorf("%s with an empty claim answers %s, want empty runs", verb, w.Body)
		}
	}
}

// A claim that fails doesn't undo the ending before it.
func TestClaimProblemBesideEnding(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	a.server.Drain() // claims are refused from now on, endings are not (R7)
	var got wire.Ended
	a.send("POST", "/v1/runs/"+g.RunID+"/complete", fmt.Sprintf(`{"fence":%d,"claim":%s}`, g.Fence, claimBody("w", 1))).ok(200, &got)
	if got.Status != "completed" || got.Runs == nil || len(*got.Runs) != 0 || got.ClaimProblem == nil || got.ClaimProblem.Code != wire.CodeNotReady {
		t.Errorf("answer %+v, want completed with a claim problem", got)
	}
	if s := a.node.held(t, g.RunID).Status; s != "completed" {
		t.Errorf("the run is %s", s)
	}
}

// A bad claim is refused before the ending happens.
func TestBadClaimEndsNothing(t *testing.T) {
	a := newAPI(t)
	g := a.hold("w")
	a.send("POST", "/v1/runs/"+g.RunID+"/complete", fmt.Sprintf(`{"fence":%d,"claim":{"worker":"w","workflows":[{"name":"w"}],"credit":257}}`, g.Fence)).
		refused(wire.CodeInvalid, "claim.credit")
	if s := a.node.held(t, g.RunID).Status; s != "executing" {
		t.Errorf("the run is %s, want it untouched", s)
	}
}

func TestCompleteBatch(t *testing.T) {
	a := newAPI(t)
	g, h := a.hold("w"), a.hold("w")
	next := a.submit("w")
	var got wire.CompleteBatchResult
	a.send("POST", "/v1/runs:complete", fmt.Sprintf(
		`{"runs":[{"run_id":%q,"fence":%d,"result":1},{"run_id":%q,"fence":999}],"claim":%s}`, g.RunID, g.Fence, h.RunID, claimBody("w", 3))).ok(200, &got)
	if len(got.Results) != 2 || got.Results[0].Status != "completed" || got.Results[0].Problem != nil {
		t.Errorf("results %+v, want the first completed", got.Results)
	}
	if r := got.Results[1]; r.Problem == nil || r.Problem.Code != wire.CodeStaleFence || r.RunID != h.RunID || r.Status != "" {
		t.Errorf("the second result is %+v, want a stale fence", r)
	}
	if got.Runs == nil || len(*got.Runs) != 1 || (*got.Runs)[0].RunID != next {
		t.Errorf("runs %+v, want the next one", got.Runs)
	}
	w := a.send("POST", "/v1/runs:complete", fmt.Sprintf(`{"runs":[{"run_id":%q,"fence":%d}]}`, h.RunID, h.Fence))
	if w.ok(200, nil); strings.Contains(w.Body.String(), `"runs"`) {
		t.Errorf("without a claim the answer is %s", w.Body)
	}
	h2 := newAPIWith(t, configOf(lossyNode{a.node}))
	h2.send("POST", "/v1/runs:complete", `{"runs":[{"run_id":"`+g.RunID+`","fence":1}]}`).refused(wire.CodeInternal, "")
	h2.send("POST", "/v1/runs/"+g.RunID+"/complete", `{"fence":1}`).refused(wire.CodeInternal, "")
}

func TestStop(t *testing.T) {
	for _, verb := range []string{"cancel", "terminate"} {
		a := newAPI(t)
		id := a.submit("w")
		path := "/v1/runs/" + id + "/" + verb
		a.send("POST", path, `{"reasn":"x"}`).refused(wire.CodeUnknownField, "reasn")
		var got wire.Stopped
		a.send("POST", path, `{"reason":"wrong order"}`).ok(202, &got)
		if !got.Changed {
			t.Errorf("%s answers %+v, want a change", verb, got)
		}
		for _, body := range []string{"", "{}"} { // of an ended run: nothing changes
			a.send("POST", path, body).ok(200, &got)
			if got.Changed || got.RunID != id {
				t.Errorf("%s of an ended run answers %+v", verb, got)
			}
		}
	}
}

func TestUnknownRuns(t *testing.T) {
	a := newAPI(t)
	unknown := flow.RunID{1}.String()
	for _, id := range []string{unknown, "run_1", "x", "%00", ".."} {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "", ""}, {"GET", "/result", ""}, {"GET", "/events", ""}, {"GET", "/why", ""},
			{"POST", "/complete", `{"fence":1}`}, {"POST", "/fail", `{"fence":1,"error":{"type":"T"}}`},
			{"POST", "/suspend", `{"fence":1,"until":{"at_ms":1}}`}, {"POST", "/cancel", ""}, {"POST", "/terminate", ""},
			{"GET", "/steps", ""}, {"POST", "/steps", `{"fence":1,"state":{}}`}, {"POST", "/children", `{"fence":1,"runs":[{"workflow":"x"}]}`},
			{"POST", "/signals/go", ""}, {"POST", "/retry", ""},
		} {
			if p := a.send(c.method, "/v1/runs/"+id+c.path, c.body).refused(wire.CodeUnknownRun, ""); p.Status != 404 {
				t.Errorf("%s %s of run %s answers %d", c.method, c.path, id, p.Status)
			}
		}
	}
}
