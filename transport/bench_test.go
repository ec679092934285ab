package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// idleNode answers at once what a node would answer, so that a benchmark measures
// the transport alone.
type idleNode struct {
	*fakeNode
	granted []wire.Grant
}

const benchRun = "run_01K0Z3V8Q4E9Q0B1J2K3M4N5P6"

func (n *idleNode) Submit(_ context.Context, runs []wire.Submit) ([]wire.Submitted, []error) {
	got := make([]wire.Submitted, len(runs))
	for i := range got {
		got[i] = wire.Submitted{RunID: benchRun, Status: "queued", Created: true}
	}
	return got, make([]error, len(runs))
}

func (n *idleNode) Trigger(_ context.Context, _ string, _ *string, events []wire.TriggerEvent) ([]wire.Triggered, []error) {
	return make([]wire.Triggered, len(events)), make([]error, len(events))
}

func (n *idleNode) Claim(context.Context, wire.Claim) (wire.Claimed, error) {
	return wire.Claimed{Runs: n.granted}, nil
}

func (n *idleNode) Complete(_ context.Context, ends []wire.Completion) ([]wire.CompleteResult, []error) {
	got := make([]wire.CompleteResult, len(ends))
	for i := range got {
		got[i] = wire.CompleteResult{RunID: ends[i].RunID, Status: "completed"}
	}
	return got, make([]error, len(ends))
}

// discard is a response that goes nowhere.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// body can be read again and again.
type body struct{ bytes.Reader }

func (b *body) Close() error { return nil }

func newIdleServer(grants int) *transport.Server {
	n := &idleNode{fakeNode: newFakeNode()}
	for range grants {
		n.granted = append(n.granted, wire.Grant{
			RunID: benchRun, Workflow: "sync_account", Version: "2", Key: "acme", Params: []byte(payload), Attempt: 1, Fence: 1 << 40, LeaseSeconds: 30,
		})
	}
	return transport.NewServer(transport.Config{Node: n, Metrics: metrics()})
}

// payload is 100 bytes.
const payload = `{"tenant_id":"acme","account":"a-000000000017","padding":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`

// serveMany measures the handler without a socket.
func serveMany(b *testing.B, s http.Handler, path, text string, change ...func(*http.Request)) {
	b.Helper()
	u, err := url.Parse(path)
	if err != nil {
		b.Fatal(err)
	}
	w := &discard{header: http.Header{}}
	r := httptest.NewRequestWithContext(b.Context(), "POST", path, http.NoBody)
	r.Header.Set("Content-Type", "application/json")
	for _, c := range change {
		c(r)
	}
	in := &body{}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		in.Reset([]byte(text))
		r.URL, r.Body, r.ContentLength = u, in, int64(len(text))
		clear(w.header)
		s.ServeHTTP(w, r)
	}
	if w.status >= 300 {
		b.Fatalf("%s answers %d", path, w.status)
	}
}

func BenchmarkSubmitHandler(b *testing.B) {
	serveMany(b, newIdleServer(0), "/v1/workflows/sync_account/runs", `{"params":`+payload+`}`)
}

func BenchmarkShortHandler(b *testing.B) {
	serveMany(b, newIdleServer(0), "/sync_account", payload)
}

func BenchmarkBatchHandler16(b *testing.B) {
	entry := `{"workflow":"sync_account","params":` + payload + `}`
	serveMany(b, newIdleServer(0), "/v1/runs:batch", `{"runs":[`+strings.Repeat(entry+",", 15)+entry+`]}`)
}

func BenchmarkEventHandler(b *testing.B) {
	serveMany(b, newIdleServer(0), "/digest/events", payload)
}

// BenchmarkEventLinesHandler100 is the request that many events come in.
func BenchmarkEventLinesHandler100(b *testing.B) {
	serveMany(b, newIdleServer(0), "/digest/events", strings.Repeat(payload+"\n", 100), asLines)
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkEventLinesWithKeyHandler100(b *testing.B) {
	serveMany(b, newIdleServer(0), "/digest/events", strings.Repeat(payload+"\n", 100), asLines, header("Idempotency-Key", "batch-000000017"))
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkCloudEventBatchHandler100(b *testing.B) {
	event := cloudEvent("000000017", payload)
	serveMany(b, newIdleServer(0), "/digest/events", "["+strings.Repeat(event+",", 99)+event+"]", asCloudBatch)
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkClaimHandler16(b *testing.B) {
	serveMany(b, newIdleServer(16), "/v1/claims", `{"worker":"w1","workflows":[{"name":"sync_account","version":"2"}],"credit":16,"wait_ms":20000}`)
}

func BenchmarkCompleteAndClaimHandler(b *testing.B) {
	serveMany(b, newIdleServer(1), "/v1/runs/"+benchRun+"/complete",
		`{"fence":1099511627776,"result":{"ok":true},"claim":{"worker":"w1","workflows":[{"name":"sync_account","version":"2"}],"credit":1,"wait_ms":20000}}`)
}

func BenchmarkCompleteBatchHandler16(b *testing.B) {
	entry := `{"run_id":"` + benchRun + `","fence":1099511627776,"result":{"ok":true}}`
	serveMany(b, newIdleServer(16), "/v1/runs:complete", `{"runs":[`+strings.Repeat(entry+",", 15)+entry+`]}`)
}

// BenchmarkSubmitLoopback is a whole request over a socket, client included.
func BenchmarkSubmitLoopback(b *testing.B) {
	server := httptest.NewServer(newIdleServer(0))
	defer server.Close()
	client := server.Client()
	text := `{"params":` + payload + `}`
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Post(server.URL+"/v1/workflows/w/runs", "application/json", strings.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusAccepted {
			b.Fatal(fmt.Errorf("status %d: %w", resp.StatusCode, err))
		}
	}
}
