package runactor

import (
	"bufio"
	"bytes"
	"maps"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// maxQueuedBytes is what a queued run may cost its own package, with 100 bytes of
// params and a request id: its queue entry and the index have to fit into the 600
// bytes of the whole, too.
const maxQueuedBytes = 380

// Fails when a queued run costs more than its share of live heap (R23).
func TestR23QueuedRunIsSmall(t *testing.T) {
	const n = 20_000
	runs := make([]*Run, n)
	before := liveHeap()
	for i := range runs {
		id := flow.NewRunID(epoch, 1, flow.Entropy{byte(i), byte(i >> 8)})
		runs[i] = New(id)
		runs[i].Apply(&flow.Record{Kind: flow.RecSubmitted, At: epoch, Fields: flow.Fields{
			Run: id, Order: epoch, Workflow: "sync", Payload: make([]byte, 100), Stamp: testStamp,
			Trigger: "client", RequestID: string(make([]byte, 24)),
		}})
	}
	got := (liveHeap() - before) / n
	runtime.KeepAlive(runs)
	t.Logf("a queued run costs %d bytes", got)
	if got > maxQueuedBytes {
		t.Errorf("a queued run costs %d bytes, want at most %d", got, maxQueuedBytes)
	}
}

// Fails when a run out of a snapshot keeps its own copy of a stamp that all share.
func TestR23ShareKeepsOneStamp(t *testing.T) {
	w := started(t)
	r := New(flow.RunID{})
	decode(t, r, w.run.Fingerprint())
	if r.Stamp() == testStamp {
		t.Fatal("a decoded stamp is the shared one")
	}
	other := *testStamp
	other.VersionRank++
	if r.Share("other", &other); r.Workflow() != "sync" || r.Stamp().VersionRank != 2 {
		t.Errorf("a different stamp or name was put in: %q, %+v", r.Workflow(), r.Stamp())
	}
	if r.Share("sync", testStamp); r.Stamp() != testStamp {
		t.Error("an equal stamp isn't shared")
	}
}

// Fails when runs that are read with what was read before differ from those that
// aren't, or keep names and stamps of their own.
func TestR23RunsOfOneSnapshotShare(t *testing.T) {
	runs := samples(t)
	var snapshot bytes.Buffer
	enc := msgpack.NewEncoder(&snapshot)
	names := slices.Sorted(maps.Keys(runs))
	for _, name := range names {
		for range 2 {
			if err := runs[name].EncodeMsgpack(enc); err != nil {
				t.Fatal(err)
			}
		}
	}
	dec := msgpack.NewDecoder(bufio.NewReaderSize(&snapshot, 1<<16))
	var shared flow.Shared
	for _, name := range names {
		var twins [2]Run
		for i := range twins {
			if err := twins[i].DecodeShared(dec, &shared); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !bytes.Equal(twins[i].Fingerprint(), runs[name].Fingerprint()) {
				t.Errorf("%s comes back as %+v", name, twins[i].View())
			}
		}
		if a, b := &twins[0], &twins[1]; a.stamp != b.stamp || unsafe.StringData(a.workflow) != unsafe.StringData(b.workflow) {
			t.Errorf("%s: equal stamps or names are two", name)
		}
	}
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
