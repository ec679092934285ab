package transport

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// encoded is what encoding/json writes, without the escapes for HTML.
func encoded(t interface{ Fatal(...any) }, v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

var (
	anyText   = rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), rapid.Just(""))
	anyRaw    = rapid.Map(rapid.SampledFrom([]string{"", "null", "{}", `{"a":[1,"x"]}`, "7", `"<&>"`}), func(s string) json.RawMessage { return json.RawMessage(s) })
	anyNumber = rapid.OneOf(rapid.Float64(), rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) }), rapid.SampledFrom([]float64{0, 1.5, 30, 1e21, 1e-7, math.Copysign(0, -1)}))
)

var anyProblem = rapid.Custom(func(t *rapid.T) *wire.Problem {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	return &wire.Problem{
		Type: anyText.Draw(t, "type"), Title: anyText.Draw(t, "title"), Status: rapid.Int().Draw(t, "status"), Detail: anyText.Draw(t, "detail"),
		Code: anyText.Draw(t, "code"), Retryable: rapid.Bool().Draw(t, "retryable"), Field: anyText.Draw(t, "field"), RunID: anyText.Draw(t, "run"),
		Key: anyText.Draw(t, "key"), Gate: anyText.Draw(t, "gate"), RetryAfterMS: rapid.Int64().Draw(t, "retry"),
	}
})

var anySubmitted = rapid.Custom(func(t *rapid.T) wire.Submitted {
	return wire.Submitted{
		RunID: anyText.Draw(t, "run"), Status: anyText.Draw(t, "status"), Created: rapid.Bool().Draw(t, "created"), Problem: anyProblem.Draw(t, "problem"),
	}
})

// list is never nil: the hand-written form of a nil list is the empty one.
func list[T any](t *rapid.T, g *rapid.Generator[T], label string) []T {
	return append([]T{}, rapid.SliceOfN(g, 0, 4).Draw(t, label)...)
}

var anyGrant = rapid.Custom(func(t *rapid.T) wire.Grant {
	g := wire.Grant{
		RunID: anyText.Draw(t, "run"), Workflow: anyText.Draw(t, "workflow"), Version: anyText.Draw(t, "version"), Key: anyText.Draw(t, "key"),
		Params: anyRaw.Draw(t, "params"), Attempt: rapid.Int64().Draw(t, "attempt"), Fence: rapid.Uint64().Draw(t, "fence"),
		LeaseSeconds: anyNumber.Draw(t, "lease"), State: anyRaw.Draw(t, "state"), CancelRequested: rapid.Bool().Draw(t, "cancel"),
		Steps: []wire.Step{}, Signals: []wire.Signal{}, Waits: []wire.WaitEnd{}, Children: []wire.ChildGroup{},
	}
	if rapid.Bool().Draw(t, "nothing recorded") {
		return g
	}
	g.Steps, g.Signals = list(t, anyStep, "steps"), list(t, anySignal, "signals")
	g.Waits, g.Children = list(t, anyWait, "waits"), list(t, anyGroup, "children")
	g.HistoryNext = anyCursor.Draw(t, "next")
	return g
})

// nilled makes an empty raw value nil: encoding/json refuses the empty one.
func nilled(g wire.Grant) wire.Grant {
	fix := func(raw *json.RawMessage) {
		if len(*raw) == 0 {
			*raw = nil
		}
	}
	fix(&g.Params)
	fix(&g.State)
	for i := range g.Signals {
		fix(&g.Signals[i].Payload)
	}
	return g
}

func grants(t *rapid.T) *[]wire.Grant {
	if rapid.Bool().Draw(t, "no claim") {
		return nil
	}
	all := list(t, rapid.Map(anyGrant, nilled), "grants")
	return &all
}

// TestAppendEqualsEncodingJSON is why the hand-written encoders may be trusted.
func TestAppendEqualsEncodingJSON(t *testing.T) {
	same := func(t *rapid.T, got []byte, v any) {
		if want := encoded(t, v); string(got) != want {
			t.Fatalf("appended %s\nencoding/json writes %s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := anySubmitted.Draw(t, "submitted")
		same(t, appendSubmitted(nil, &s), s)
		same(t, appendShort(nil, s.RunID), wire.ShortSubmitted{RunID: s.RunID})
		many := list(t, anySubmitted, "batch")
		same(t, appendBatchResult(nil, many), wire.BatchResult{Runs: many})
		if s.Problem != nil {
			same(t, appendProblem(nil, s.Problem), s.Problem)
		}
		events := list(t, rapid.Custom(func(t *rapid.T) wire.Triggered {
			return wire.Triggered{RunID: rapid.Ptr(anyText, true).Draw(t, "run"), Problem: anyProblem.Draw(t, "problem")}
		}), "events")
		same(t, appendEventsResult(nil, events), wire.EventsResult{Events: events})
		for _, e := range events {
			same(t, bytes.TrimSuffix(appendLines(nil, []wire.Triggered{e}), []byte("\n")), e)
		}
		beats := list(t, rapid.Custom(func(t *rapid.T) wire.BeatResult {
			return wire.BeatResult{RunID: anyText.Draw(t, "run"), OK: rapid.Bool().Draw(t, "ok"), CancelRequested: rapid.Bool().Draw(t, "cancel")}
		}), "beats")
		same(t, appendHeartbeatResult(nil, beats), wire.HeartbeatResult{Runs: beats})
		runs := grants(t)
		if runs != nil {
			c := wire.Claimed{Runs: *runs, Resolve: rapid.SliceOfN(anyCandidate, 0, 3).Draw(t, "candidates")}
			same(t, appendClaimed(nil, &c), c)
		}
		e := wire.Ended{RunID: anyText.Draw(t, "run"), Status: anyText.Draw(t, "status"), Runs: runs, ClaimProblem: anyProblem.Draw(t, "problem")}
		same(t, appendEnded(nil, &e), e)
		c := wire.CompleteBatchResult{Runs: runs, ClaimProblem: e.ClaimProblem, Results: list(t, rapid.Custom(func(t *rapid.T) wire.CompleteResult {
			return wire.CompleteResult{RunID: anyText.Draw(t, "run"), Status: anyText.Draw(t, "status"), Problem: anyProblem.Draw(t, "problem")}
		}), "results")}
		same(t, appendCompleteBatchResult(nil, &c), c)
	})
}

// A nil list is an empty one on the wire, and raw JSON stays as it was sent.
func TestAppendNeverNull(t *testing.T) {
	if got := string(appendClaimed(nil, &wire.Claimed{})); got != `{"runs":[]}` {
		t.Errorf("no grants are %s", got)
	}
	want := `{"run_id":"","workflow":"","version":"","key":"","params":{ "a": 1 },"attempt":0,"fence":0,"lease_seconds":0,"steps":[],"signals":[],"waits":[],"children":[],"history_next":null,"state":null,"cancel_requested":false}`
	if got := string(appendGrant(nil, &wire.Grant{Params: json.RawMessage(`{ "a": 1 }`)})); got != want {
		t.Errorf("a bare grant is %s, want %s", got, want)
	}
}

func FuzzAppendText(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "<&>", "\u2028\u2029\ufffd", "\xff\xc0\x80", "ключ", "🙂", "a\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := string(appendText(nil, s)), encoded(t, s); got != want {
			t.Errorf("%q is appended as %s, encoding/json writes %s", s, got, want)
		}
	})
}

func FuzzAppendNumber(f *testing.F) {
	for _, n := range []float64{0, math.Copysign(0, -1), 1, -1, 30, 0.5, 1e20, 1e21, 1e22, 1e-6, 1e-7, 1.5e-10, 1 << 53, 1<<53 + 2, math.MaxFloat64, math.SmallestNonzeroFloat64, -1e-300} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n float64) {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			t.Skip("JSON has no such number")
		}
		if got, want := string(appendNumber(nil, n)), encoded(t, n); got != want {
			t.Errorf("%v is appended as %s, encoding/json writes %s", n, got, want)
		}
	})
}
