package transport_test

import (
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// The body of a signal is its payload, whatever JSON it is.
func TestSignal(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	path := "/v1/runs/" + id + "/signals/"
	for i, c := range [][2]string{{"", "null"}, {"null", "null"}, {" {\"a\": 1}\n", `{"a": 1}`}, {`"x"`, `"x"`}, {"7", "7"}, {"[]", "[]"}, {"false", "false"}} {
		var got wire.Signalled
		a.send("POST", path+"go", c[0]).ok(202, &got)
		kept := a.node.held(t, id).signals
		if got.RunID != id || !got.Created || got.Number != int64(i+1) || len(kept) != i+1 || string(kept[i].Payload) != c[1] || kept[i].Name != "go" {
			t.Errorf("payload %q answers %+v, and %+v is kept", c[0], got, kept)
		}
	}
	a.send("POST", path+"a%2Fb", "").ok(202, nil)
	if kept := a.node.held(t, id).signals; kept[len(kept)-1].Name != "a/b" {
		t.Errorf("a name with a slash arrives as %q", kept[len(kept)-1].Name)
	}
	for _, body := range []string{"{", "{}x", "x", "\xff", "\"\x01\""} {
		a.send("POST", path+"go", body).refused(wire.CodeMalformed, "")
	}
	a.send("POST", path+"%00", "").refused(wire.CodeInvalid, "signal")
	a.send("POST", path, "").refused(wire.CodeInvalid, "signal")
	a.send("POST", path+"go", strings.Repeat("[", 1001)+strings.Repeat("]", 1001)).refused(wire.CodeInvalid, "body")
	a.node.held(t, id).Status = "completed"
	if p := a.send("POST", path+"go", "").refused(wire.CodeRunEnded, ""); p.Status != 409 {
		t.Errorf("a signal to an ended run answers %d", p.Status)
	}
}

// With the header a signal that is sent again is one signal.
func TestR10SignalOnce(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	path := "/v1/runs/" + id + "/signals/go"
	var first, again wire.Signalled
	a.send("POST", path, `1`, header("Idempotency-Key", `"k 1"`)).ok(202, &first)
	a.send("POST", path, `1`, header("Idempotency-Key", "k 1")).ok(202, &again)
	if !first.Created || again.Created || first.Number != again.Number || len(a.node.held(t, id).signals) != 1 {
		t.Errorf("sent twice: %+v and %+v", first, again)
	}
	for _, value := range []string{"", `""`, `"k`, strings.Repeat("k", 65)} {
		a.send("POST", path, `1`, header("Idempotency-Key", value)).refused(wire.CodeInvalid, "Idempotency-Key")
	}
	a.send("POST", path, `1`, header("Idempotency-Key", "a"), header("Idempotency-Key", "b")).refused(wire.CodeInvalid, "Idempotency-Key")
	a.send("POST", path, `1`, header("Idempotency-Key", strings.Repeat("k", 64))).ok(202, nil)
}

// P32, P81: whoever asks a handed-on id reaches the successor, and is told its id.
func TestP32_P81HandedOnID(t *testing.T) {
	a := newAPI(t)
	first, middle, last := a.submit("w"), a.submit("w"), a.submit("w")
	a.handOn(first, middle)
	a.handOn(middle, last)
	var run wire.Run
	a.send("GET", "/v1/runs/"+first, "").ok(200, &run)
	var result wire.Result
	a.send("GET", "/v1/runs/"+first+"/result", "").ok(202, &result)
	if run.RunID != last || run.RequestedRunID != first || result.RunID != last || result.RequestedRunID != first {
		t.Errorf("status %+v and result %+v, want %s with requested_run_id %s", run, result, last, first)
	}
	w := a.send("GET", "/v1/runs/"+last, "")
	if w.ok(200, &run); strings.Contains(w.Body.String(), "requested_run_id") {
		t.Errorf("the successor's own id answers %s", w.Body)
	}
	var signalled wire.Signalled
	a.send("POST", "/v1/runs/"+first+"/signals/go", "").ok(202, &signalled)
	if signalled.RunID != last || len(a.node.held(t, last).signals) != 1 || len(a.node.held(t, first).signals) != 0 {
		t.Errorf("a signal answers %+v, want %s", signalled, last)
	}
	for _, verb := range []string{"cancel", "terminate"} { // the second finds the successor ended
		var stopped wire.Stopped
		a.send("POST", "/v1/runs/"+first+"/"+verb, "")
		a.send("POST", "/v1/runs/"+first+"/"+verb, "").ok(200, &stopped)
		if stopped.RunID != last || stopped.Status != "cancelled" || stopped.Changed {
			t.Errorf("%s answers %+v, want %s cancelled", verb, stopped, last)
		}
	}
	var again wire.Submitted
	a.send("POST", "/v1/runs/"+first+"/retry", "").ok(202, &again)
	if again.RunID == first || again.RunID == last || !again.Created {
		t.Errorf("a retry answers %+v, want a new run", again)
	}
}

// P65: a retry by hand is a new run, and only of a run that has ended.
func TestP65Retry(t *testing.T) {
	a := newAPI(t)
	id := a.submit("w")
	path := "/v1/runs/" + id + "/retry"
	if p := a.send("POST", path, "").refused(wire.CodeRunNotEnded, ""); p.Status != 409 || p.RunID != id {
		t.Errorf("a retry of a run that goes on answers %+v", p)
	}
	a.node.held(t, id).Status = "failed"
	seen := map[string]bool{id: true}
	for _, body := range []string{"", "{}", `{"request_id":"r1"}`} {
		var got wire.Submitted
		a.send("POST", path, body).ok(202, &got)
		if seen[got.RunID] || !got.Created || got.Status != "queued" {
			t.Errorf("%q answers %+v, want a new run", body, got)
		}
		seen[got.RunID] = true
	}
	var again wire.Submitted
	a.send("POST", path, "", header("Idempotency-Key", `"r1"`)).ok(202, &again)
	if !seen[again.RunID] || again.Created {
		t.Errorf("the same request again answers %+v, want the run of before", again)
	}
	a.send("POST", path, `{"request_id":"r1"}`, header("Idempotency-Key", "r2")).refused(wire.CodeInvalid, "Idempotency-Key")
	a.send("POST", path, "", header("Idempotency-Key", "")).refused(wire.CodeInvalid, "Idempotency-Key")
	a.send("POST", path, "", header("Idempotency-Key", strings.Repeat("k", 65))).refused(wire.CodeInvalid, "request_id")
}

// P20: the key of a function can't be computed here, so a retry is a configuration
// error and makes no run; the command line exits with 2 for it (P21).
func TestP20_P21RetryOfAFunctionKey(t *testing.T) {
	a := newAPI(t)
	id := a.submit("keyed")
	a.node.held(t, id).Status = "failed"
	p := a.send("POST", "/v1/runs/"+id+"/retry", "").refused(wire.CodeConfiguration, "limit.key")
	if p.Status != 400 || len(a.node.order) != 1 {
		t.Errorf("it answers %+v and makes %d runs", p, len(a.node.order)-1)
	}
}
