package transport

import (
	"bytes"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// What the hot path allocates: what the node keeps, and nothing to get there.
func TestHotPathAllocations(t *testing.T) {
	var r reader
	submit := []byte(`{"params":{"tenant":"acme","n":[1,2,3]}}`)
	complete := []byte(`{"fence":1099511627776,"result":{"ok":true}}`)
	claimed := wire.Claimed{Runs: []wire.Grant{{RunID: "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6", Workflow: "w", Key: "k", Params: []byte("{}"), LeaseSeconds: 1.5}}}
	resumed := wire.Claimed{Runs: []wire.Grant{{RunID: "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6", Steps: []wire.Step{{Seq: 1, Name: "s", Visit: 1, Result: []byte("1")}}}}}
	steps := []byte(`{"fence":1099511627776,"steps":[{"name":"s","visit":1,"result":{"ok":true}}]}`)
	lines := bytes.Repeat([]byte(`{"tenant_id":"acme","account":"a-000000000017","n":[1,2,3]}`+"\n"), 100)
	cloud := []byte(`[{"specversion":"1.0","id":"7","source":"/s","type":"t","time":"2026-12-01T00:00:00Z","datacontenttype":"application/json","data":{"a":1}}]`)
	results := make([]wire.Triggered, 100)
	taken := wire.Submitted{RunID: "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6", Status: "queued", Created: true}
	out := make([]byte, 0, 4096)
	for _, c := range []struct {
		what string
		most float64
		run  func()
	}{
		{"reading a submit, but for its params", 1, func() {
			r.reset(submit)
			r.submit()
		}},
		{"reading a completion, but for its result", 1, func() {
			r.reset(complete)
			r.complete()
		}},
		{"reading a step, but for its name, its result and the list", 3, func() {
			r.reset(steps)
			r.stepsOf()
		}},
		{"reading 100 lines, but for the list of events", 1, func() {
			if _, err := r.lines(lines, ""); err != nil {
				t.Error(err)
			}
		}},
		{"reading 100 lines, but for the list of events and their ids", 102, func() {
			if _, err := r.lines(lines, "key"); err != nil {
				t.Error(err)
			}
		}},
		{"reading a CloudEvent, but for the list and its id", 2, func() {
			if _, err := r.cloudEvents(cloud); err != nil {
				t.Error(err)
			}
		}},
		{"writing the answer of 100 events", 0, func() { out = appendLines(out[:0], results) }},
		{"writing a claim's answer", 0, func() { out = appendClaimed(out[:0], &claimed) }},
		{"writing the grant of a run that is resumed", 0, func() { out = appendClaimed(out[:0], &resumed) }},
		{"writing a submit's answer", 0, func() { out = appendSubmitted(out[:0], &taken) }},
	} {
		if got := testing.AllocsPerRun(100, c.run); got > c.most {
			t.Errorf("%s takes %v allocations, want at most %v", c.what, got, c.most)
		}
		if r.err != nil {
			t.Errorf("%s: %v", c.what, r.err)
		}
	}
}
