package runactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// BenchmarkLife is one whole life: submitted, admitted, a heartbeat, completed.
func BenchmarkLife(b *testing.B) {
	id := testID(1)
	fields := flow.Fields{
		Run: id, Order: epoch, Workflow: "sync", Payload: make([]byte, 100), Stamp: testStamp, Fence: 1,
	}
	admitted := &flow.Record{Kind: flow.RecAdmitted, At: epoch, Fields: flow.Fields{
		Run: id, Fence: 1, Worker: "w1", Version: "2", Lease: lease, Attempts: 1,
	}}
	var out flow.Out
	var run *Run
	step := func(k flow.InputKind) {
		out.Reset()
		run.Step(epoch, &flow.Input{Kind: k, Fields: fields}, &out)
		for i := range out.Records {
			run.Apply(&out.Records[i])
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		run = New(id)
		step(flow.InSubmit)
		run.Apply(admitted)
		step(flow.InHeartbeat)
		step(flow.InComplete)
	}
	if run.Status() != flow.StatusCompleted {
		b.Fatalf("the run is %v", run.Status())
	}
}
