package transport_test

import (
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// TestP6WaitReasonsAreInTheDocument: the reasons are a closed set, and the document
// says what each means.
func TestP6WaitReasonsAreInTheDocument(t *testing.T) {
	reasons := []flow.WaitReason{
		flow.WaitLimit, flow.WaitRate, flow.WaitSchedule, flow.WaitRetryBackoff, flow.WaitNoWorker, flow.WaitWorkerBusy, flow.WaitCluster, flow.WaitSignal, flow.WaitChild,
	}
	s := readOpenAPI(t).Components.Schemas["Wait"].Properties["reason"]
	if len(s.Enum) != len(reasons) {
		t.Fatalf("the document has %v, want %v", s.Enum, reasons)
	}
	for i, r := range reasons {
		if s.Enum[i] != string(r) || !strings.Contains(s.Description, string(r)+": ") {
			t.Errorf("the document says %v of %s: %q", s.Enum[i], r, s.Description)
		}
	}
}
