package transport

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// anyOptional is raw JSON in a field that is left out when it is empty.
var anyOptional = rapid.Map(anyRaw, func(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return raw
})

var anyCursor = rapid.Custom(func(t *rapid.T) *int64 {
	if rapid.Bool().Draw(t, "last page") {
		return nil
	}
	return new(rapid.Int64().Draw(t, "cursor"))
})

var anyError = rapid.Custom(func(t *rapid.T) *wire.RunError {
	if rapid.Bool().Draw(t, "no error") {
		return nil
	}
	return &wire.RunError{Type: anyText.Draw(t, "type"), Message: anyText.Draw(t, "message")}
})

var anyStep = rapid.Custom(func(t *rapid.T) wire.Step {
	return wire.Step{
		Seq: rapid.Int64().Draw(t, "seq"), Name: anyText.Draw(t, "name"), Visit: rapid.Int64().Draw(t, "visit"),
		Result: anyOptional.Draw(t, "result"), Error: anyError.Draw(t, "error"), CostUnits: rapid.Int64().Draw(t, "cost"),
	}
})

var anySignal = rapid.Custom(func(t *rapid.T) wire.Signal {
	return wire.Signal{
		Name: anyText.Draw(t, "name"), Payload: anyRaw.Draw(t, "payload"), Number: rapid.Int64().Draw(t, "number"),
		At: rapid.Int64().Draw(t, "at"), Delivered: rapid.Bool().Draw(t, "delivered"),
	}
})

var anyOutcome = rapid.Custom(func(t *rapid.T) wire.Outcome {
	return wire.Outcome{
		RunID: anyText.Draw(t, "run"), Status: anyText.Draw(t, "status"), Result: anyOptional.Draw(t, "result"), Error: anyError.Draw(t, "error"),
	}
})

var anyWait = rapid.Custom(func(t *rapid.T) wire.WaitEnd {
	return wire.WaitEnd{
		Seq: rapid.Int64().Draw(t, "seq"), Kind: anyText.Draw(t, "kind"), Name: anyText.Draw(t, "name"), Visit: rapid.Int64().Draw(t, "visit"),
		TimedOut: rapid.Bool().Draw(t, "timed out"), Payload: anyOptional.Draw(t, "payload"),
		Outcomes: rapid.SliceOfN(anyOutcome, 0, 3).Draw(t, "outcomes"),
	}
})

var anyGroup = rapid.Custom(func(t *rapid.T) wire.ChildGroup {
	return wire.ChildGroup{
		Seq: rapid.Int64().Draw(t, "seq"), Step: anyText.Draw(t, "step"), Visit: rapid.Int64().Draw(t, "visit"),
		Kind: anyText.Draw(t, "kind"), Runs: list(t, anyText, "runs"),
	}
})

var anyCandidate = rapid.Custom(func(t *rapid.T) wire.Candidate {
	return wire.Candidate{
		RunID: anyText.Draw(t, "run"), Workflow: anyText.Draw(t, "workflow"), Version: anyText.Draw(t, "version"),
		GatesHash: anyText.Draw(t, "hash"), Params: json.RawMessage(`{"a":1}`),
	}
})

// What a body has recorded is written as encoding/json writes it.
func TestAppendBodyEqualsEncodingJSON(t *testing.T) {
	same := func(t *rapid.T, got []byte, v any) {
		if want := encoded(t, v); string(got) != want {
			t.Fatalf("appended %s\nencoding/json writes %s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		h := wire.History{Steps: list(t, anyStep, "steps"), Waits: list(t, anyWait, "waits"), Children: list(t, anyGroup, "children"), Next: anyCursor.Draw(t, "next")}
		same(t, appendHistory(nil, &h), h)
		runs, p := grants(t), anyProblem.Draw(t, "problem")
		r := wire.Recorded{RunID: anyText.Draw(t, "run"), Status: anyText.Draw(t, "status"), Waits: h.Waits, Runs: runs, ClaimProblem: p}
		same(t, appendRecorded(nil, &r), r)
		c := wire.ChildrenStarted{RunID: r.RunID, RunIDs: list(t, anyText, "ids"), Created: rapid.Bool().Draw(t, "created"), Runs: runs, ClaimProblem: p}
		same(t, appendChildrenStarted(nil, &c), c)
	})
}

// Each list keeps its place though all others are empty, and a nil one is never null.
func TestAppendGrantWithOneThing(t *testing.T) {
	empty := func() wire.Grant {
		return wire.Grant{Params: json.RawMessage("{}"), Steps: []wire.Step{}, Signals: []wire.Signal{}, Waits: []wire.WaitEnd{}, Children: []wire.ChildGroup{}}
	}
	for i, set := range []func(*wire.Grant){
		func(g *wire.Grant) { g.Steps = []wire.Step{{Name: "s"}} },
		func(g *wire.Grant) { g.Signals = []wire.Signal{{Name: "s"}} },
		func(g *wire.Grant) { g.Waits = []wire.WaitEnd{{Name: "s"}} },
		func(g *wire.Grant) { g.Children = []wire.ChildGroup{{Step: "s", Runs: []string{}}} },
		func(g *wire.Grant) { g.HistoryNext = new(int64) },
	} {
		want, bare := empty(), wire.Grant{Params: json.RawMessage("{}")}
		set(&want)
		set(&bare)
		if got, want := string(appendGrant(nil, &bare)), encoded(t, want); got != want {
			t.Errorf("%d: appended %s, want %s", i, got, want)
		}
	}
	if got := string(appendHistory(nil, &wire.History{})); got != `{"steps":[],"waits":[],"children":[],"next":null}` {
		t.Errorf("an empty history is %s", got)
	}
}
