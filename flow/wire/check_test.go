package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

const run = "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"

// checker is a shape that knows what it may not say.
type checker interface{ Check() error }

// goodClaim is a claim that nothing is wrong with.
func goodClaim() *wire.Claim {
	return &wire.Claim{Worker: "w1", Workflows: []wire.ClaimWorkflow{{Name: "w"}}, Credit: 1}
}

func TestChecksTakeWhatIsRight(t *testing.T) {
	limit, rate := wire.Limit{Key: wire.Key{Name: "k"}, Max: 1}, wire.Rate{Key: wire.Key{Function: "f"}, PerSecond: 1, Burst: new(int64(1))}
	for _, c := range []checker{
		&wire.Submit{}, &wire.Submit{Params: json.RawMessage(`{}`), Budget: json.RawMessage("null"), Stamp: &wire.Stamp{Keys: &wire.StampKeys{}}},
		&wire.Batch{Runs: []wire.Submit{{Workflow: "w"}}}, goodClaim(), &wire.Heartbeat{Worker: "w", Runs: []wire.Beat{{RunID: run, Fence: 1}}},
		&wire.Complete{Fence: 1, Claim: goodClaim()}, &wire.CompleteBatch{Runs: []wire.Completion{{RunID: run, Fence: 1}}},
		&wire.Fail{Fence: 1, Error: wire.RunError{Type: "T"}}, &wire.Suspend{Fence: 1, Until: wire.Until{AtMS: new(int64(0))}},
		&wire.Stop{}, &wire.ListQuery{}, &wire.ListQuery{Workflow: "w", Key: new(""), Status: "queued", Limit: 500, Cursor: "c"},
		&wire.Declaration{}, &wire.Declaration{Version: "1.2", Limit: &limit, Rate: &rate, MaxAttempts: new(int64(1)), RetryBackoffSeconds: new(0.0), LeaseSeconds: new(1.0)},
	} {
		if err := c.Check(); err != nil {
			t.Errorf("%T %+v: %v", c, c, err)
		}
	}
}

// P57 and the bounds that only code, and no JSON, can pass.
func TestP57ChecksNameTheField(t *testing.T) {
	for _, c := range []struct {
		shape checker
		kind  error
		field string
	}{
		{&wire.Submit{Params: json.RawMessage(`[]`)}, flow.ErrInvalid, "params"},
		{&wire.Batch{Runs: []wire.Submit{{Workflow: "w"}, {}}}, flow.ErrInvalid, "runs[1].workflow"},
		{&wire.Claim{}, flow.ErrInvalid, "worker"},
		{&wire.Complete{Fence: 1, Claim: &wire.Claim{Worker: "w"}}, flow.ErrInvalid, "claim.workflows"},
		{&wire.CompleteBatch{Runs: []wire.Completion{{RunID: run, Fence: 1}, {RunID: "x"}}}, flow.ErrInvalid, "runs[1].run_id"},
		{&wire.Declaration{LeaseSeconds: new(math.NaN())}, flow.ErrConfiguration, "lease_seconds"},
		{&wire.Declaration{RetryBackoffSeconds: new(math.Inf(1))}, flow.ErrConfiguration, "retry_backoff_seconds"},
		{&wire.Declaration{Rate: &wire.Rate{Key: wire.Key{Name: "k"}, PerSecond: math.NaN()}}, flow.ErrConfiguration, "rate.per_second"},
		{&wire.Declaration{Rate: &wire.Rate{Key: wire.Key{Name: "k"}, PerSecond: math.Inf(1)}}, flow.ErrConfiguration, "rate.per_second"},
		{&wire.Declaration{Limit: &wire.Limit{Key: wire.Key{Name: "a", Function: "b"}, Max: 1}}, flow.ErrConfiguration, "limit.key"},
		{&wire.Submit{Stamp: &wire.Stamp{Keys: &wire.StampKeys{Limit: new("\xff")}}}, flow.ErrInvalid, "stamp.keys.limit"},
		{&wire.ListQuery{Limit: -1}, flow.ErrInvalid, "limit"},
	} {
		err := c.shape.Check()
		f, ok := errors.AsType[*flow.FieldError](err)
		if !ok || f.Field != c.field || !errors.Is(err, c.kind) {
			t.Errorf("%T %+v: error %v, want %v of %s", c.shape, c.shape, err, c.kind, c.field)
		}
	}
}

// The words of a list's filter are the statuses that runs have.
func TestStatusesAreFlows(t *testing.T) {
	for s := flow.StatusQueued; s <= flow.StatusContinued; s++ {
		if err := (&wire.ListQuery{Status: s.String()}).Check(); err != nil {
			t.Errorf("status %v: %v", s, err)
		}
	}
	for _, s := range []string{"unknown", "Queued", flow.Status(0).String()} {
		if err := (&wire.ListQuery{Status: s}).Check(); err == nil {
			t.Errorf("status %q is taken", s)
		}
	}
}

func TestKeyJSON(t *testing.T) {
	for text, want := range map[string]wire.Key{`"tenant"`: {Name: "tenant"}, `{"function":"label"}`: {Function: "label"}, `""`: {}} {
		var k wire.Key
		if err := json.Unmarshal([]byte(text), &k); err != nil || k != want {
			t.Errorf("%s reads as %+v, %v", text, k, err)
		}
		b, err := json.Marshal(k)
		if err != nil || string(b) != text {
			t.Errorf("%+v is written as %s, %v", k, b, err)
		}
		if back := wire.KeyOf(k.Source()); back != k {
			t.Errorf("%+v comes back as %+v", k, back)
		}
	}
	for _, text := range []string{`7`, `{}`, `{"function":""}`, `{"function":"f","x":1}`, `["a"]`, `{"Function":7}`} {
		var k wire.Key
		if err := json.Unmarshal([]byte(text), &k); err == nil {
			t.Errorf("%s reads as %+v", text, k)
		}
	}
}

// A Problem can travel as an error.
func TestProblemIsAnError(t *testing.T) {
	var err error = &wire.Problem{Code: wire.CodeStaleFence, Detail: "fence 3"}
	if p, ok := errors.AsType[*wire.Problem](err); !ok || !strings.Contains(err.Error(), p.Code) || !strings.Contains(err.Error(), p.Detail) {
		t.Errorf("error %q of %+v", err, p)
	}
}
