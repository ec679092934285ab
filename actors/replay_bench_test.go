package actors

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// replayRuns is the number of runs whose records a benchmark applies.
const replayRuns = 100_000

// replayEntries are the entries of one shard that submits, admits and completes runs of
// some keys: in turns of 64 runs, as a busy node writes them.
func replayEntries(keys int, all bool) (entries []engine.Entry, records int) {
	w := flow.NewWriter()
	wall := flow.Instant(1_700_000_000_000_000_000)
	add := func(rec *flow.Record) {
		w.Record(rec)
		records++
	}
	for first := 0; first < replayRuns; first += 64 {
		wall = wall.Add(flow.Millisecond)
		w.Reset()
		for i := first; i < first+64; i++ {
			id := flow.NewRunID(wall, 0, flow.Entropy{5: byte(i), 6: byte(i >> 8), 7: byte(i >> 16)})
			stamp := &flow.Stamp{Version: "1", VersionRank: 1, Gates: []flow.Gate{
				{Kind: flow.GateLimit, KeyName: "tenant", Key: fmt.Sprintf("tenant-%d", i%keys), Max: 1000},
			}}
			f := flow.Fields{Run: id}
			submitted := f
			submitted.Order, submitted.Workflow, submitted.Stamp, submitted.Trigger = wall.Add(flow.Span(i-first)), "charge", stamp, "client"
			submitted.Payload = make([]byte, 100)
			add(&flow.Record{Kind: flow.RecSubmitted, Fields: submitted})
			if !all {
				continue
			}
			admitted := f
			admitted.Fence, admitted.Worker, admitted.Version, admitted.Lease, admitted.Attempts = uint64(i+1), "worker-1", "1", 30*flow.Second, 3
			add(&flow.Record{Kind: flow.RecAdmitted, Fields: admitted})
			completed := f
			completed.Fence, completed.Payload = uint64(i+1), []byte(`{"ok":true}`)
			add(&flow.Record{Kind: flow.RecCompleted, Fields: completed})
		}
		entries = append(entries, engine.Entry{
			Pos: engine.Pos(len(entries) + 1), Epoch: 1, Seq: engine.Seq(len(entries) + 1), Wall: int64(wall), Body: append([]byte(nil), w.Bytes()...),
		})
	}
	return entries, records
}

// BenchmarkReplay applies the entries of one shard on one core, as a start does on as
// many as there are.
func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct {
		name string
		keys int
		all  bool
	}{{"queued/keys=1000", 1000, false}, {"queued/keys=100000", replayRuns, false}, {"cycles/keys=1000", 1000, true}} {
		b.Run(c.name, func(b *testing.B) {
			entries, records := replayEntries(c.keys, c.all)
			b.ReportAllocs()
			for b.Loop() {
				replayed(b, entries)
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkRestore reads a snapshot of queued runs of one shard, on one core.
func BenchmarkRestore(b *testing.B) {
	for _, keys := range []int{1000, replayRuns} {
		b.Run(fmt.Sprintf("queued/keys=%d", keys), func(b *testing.B) {
			entries, _ := replayEntries(keys, false)
			before := replayed(b, entries).st
			var snapshot bytes.Buffer
			for c, more := before.begin(1, 1, 1), true; more; {
				var slice []byte
				slice, more = c.slice()
				snapshot.Write(slice)
			}
			b.ReportAllocs()
			for b.Loop() {
				m := benchMachine()
				if err := m.Restore(bytes.NewReader(snapshot.Bytes()), 0); err != nil {
					b.Fatal(err)
				}
				if got, want := len(m.st.runs), len(before.runs); got != want {
					b.Fatalf("%d runs of %d", got, want)
				}
			}
			b.ReportMetric(float64(len(before.runs))*float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// benchMachine is the machine of one shard of 16, without the shard's goroutine.
func benchMachine() *machine {
	return &machine{shard: &shard{node: &Node{shards: make([]*shard, 16)}}, reader: flow.NewReader()}
}

// replayed is a machine that has applied the entries.
func replayed(b *testing.B, entries []engine.Entry) *machine {
	b.Helper()
	m := benchMachine()
	for _, e := range entries {
		if err := m.Apply(e); err != nil {
			b.Fatal(err)
		}
	}
	return m
}
