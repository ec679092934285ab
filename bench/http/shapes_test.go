package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// strict reads a body as a shape of the API, and refuses what the shape doesn't have.
func strict[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if _, err := d.Token(); err == nil {
		t.Fatalf("%s: something follows", body)
	}
	return v
}

// Fails when a request that is built by hand isn't the shape of the API, or the API's
// own check refuses it.
func TestRequests(t *testing.T) {
	claim := claimBody("w1", "bench_1", 16, 1000)
	c := strict[wire.Claim](t, claim)
	if err := c.Check(); err != nil || c.Credit != 16 || c.WaitMS != 1000 || c.Workflows[0].Name != "bench_1" {
		t.Errorf("claim %+v: %v", c, err)
	}
	one := strict[wire.Submit](t, appendSubmit(nil, 7))
	if err := one.Check(); err != nil {
		t.Error(err)
	}
	var params struct{ Tenant, Payload string }
	if err := json.Unmarshal(one.Params, &params); err != nil || params.Tenant != "k7" || len(params.Payload) != payloadBytes {
		t.Errorf("params %s: %v", one.Params, err)
	}
	batch := strict[wire.Batch](t, appendBatch(nil, "bench_1", []int{3, 14}))
	if err := batch.Check(); err != nil || len(batch.Runs) != 2 || batch.Runs[1].Workflow != "bench_1" {
		t.Errorf("batch %+v: %v", batch, err)
	}
	for _, with := range [][]byte{nil, claim} {
		end := strict[wire.Complete](t, appendComplete(nil, 1<<60, with))
		if end.Fence != 1<<60 || (end.Claim != nil) != (with != nil) {
			t.Errorf("completion %+v", end)
		}
		ends := strict[wire.CompleteBatch](t, appendCompletions(nil, []held{{id: "run_a", fence: 1}, {id: "run_b", fence: 2}}, with))
		if len(ends.Runs) != 2 || ends.Runs[1].RunID != "run_b" || ends.Runs[1].Fence != 2 || (ends.Claim != nil) != (with != nil) {
			t.Errorf("completions %+v", ends)
		}
	}
	for _, p := range []policy{openGates, {max: 2}} {
		d := strict[wire.Declaration](t, p.declaration())
		if d.Limit.Max != int64(p.max) || (d.Rate != nil) != (p.rate > 0) {
			t.Errorf("declaration %+v", d)
		}
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Fails when the grants of an answer aren't found, in any of the three answers that
// have some.
func TestGrants(t *testing.T) {
	runs := []wire.Grant{
		{RunID: "run_a", Key: "k1", Params: json.RawMessage(`{"tenant":"k1","payload":"x"}`), Fence: 9, Attempt: 4},
		{RunID: "run_b", Key: "", Params: json.RawMessage(`{}`), Fence: 1 << 52},
	}
	want := []held{{"run_a", 9, "k1"}, {"run_b", 1 << 52, ""}}
	ended := wire.Ended{RunID: "run_x", Status: "completed", Runs: &runs}
	batch := wire.CompleteBatchResult{Results: []wire.CompleteResult{{RunID: "run_x"}}, Runs: &runs}
	for _, v := range []any{wire.Claimed{Runs: runs}, ended, batch} {
		got, err := grants(nil, encoded(t, v))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%T: %+v, %v", v, got, err)
		}
	}
	none := []wire.Grant{}
	for _, v := range []any{wire.Claimed{Runs: none}, wire.Ended{RunID: "run_x", Runs: &none}} {
		if got, err := grants(nil, encoded(t, v)); err != nil || len(got) != 0 {
			t.Errorf("%T: %+v, %v", v, got, err)
		}
	}
	for _, body := range []string{`{}`, `{"runs":[{"run_id":"a"}]}`, `{"runs":[{"run_id":"a","key":"k"}]}`} {
		if _, err := grants(nil, []byte(body)); !errors.Is(err, errShape) {
			t.Errorf("%s: error is %v", body, err)
		}
	}
}

// Fails when a batch with a refused entry counts as done.
func TestRefused(t *testing.T) {
	good := wire.BatchResult{Runs: []wire.Submitted{{RunID: "run_a", Created: true}}}
	if err := refused(encoded(t, good)); err != nil {
		t.Error(err)
	}
	problem := &wire.Problem{Code: "overloaded"}
	for _, v := range []any{
		wire.BatchResult{Runs: []wire.Submitted{{RunID: "run_a"}, {Problem: problem}}},
		wire.CompleteBatchResult{Results: []wire.CompleteResult{{Problem: problem}}},
		wire.Ended{RunID: "run_a", ClaimProblem: problem},
	} {
		if err := refused(encoded(t, v)); !errors.Is(err, errShape) {
			t.Errorf("%T: error is %v", v, err)
		}
	}
}
