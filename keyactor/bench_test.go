package keyactor

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// mill turns one key without any host around it.
type mill struct {
	key   *Key
	stamp *flow.Stamp
	now   flow.Instant
	n     uint64
	out   flow.Out
}

func newMill(stamp *flow.Stamp, waiting int) *mill {
	m := &mill{key: New(keyOf("a")), stamp: stamp, now: start}
	for range waiting {
		m.submit()
	}
	return m
}

func (m *mill) submit() {
	m.n++
	m.now++
	rec := flow.Record{Kind: flow.RecSubmitted, At: m.now}
	binary.BigEndian.PutUint64(rec.Run[:8], m.n)
	rec.Order, rec.Stamp = m.now, m.stamp
	m.key.Apply(&rec)
}

// cycle submits a run at the end of the queue, admits the one at its head and
// completes it.
func (m *mill) cycle() {
	m.submit()
	m.out.Reset()
	m.now += flow.Instant(m.stamp.Rate().Interval)
	m.key.Step(m.now, &flow.Input{Kind: flow.InOffer, Fields: flow.Fields{Key: m.key.id, Fence: m.n, Claim: m.n}}, &m.out)
	rec := &m.out.Records[0]
	head, _ := m.key.head()
	rec.Order, rec.Stamp = head.order, head.stamp
	m.key.Apply(rec)
	rec.Kind, rec.Flags = flow.RecCompleted, flow.FlagStarted
	m.key.Apply(rec)
}

func BenchmarkCycle(b *testing.B) {
	for _, waiting := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprintf("queue=%d", waiting), func(b *testing.B) {
			m := newMill(both(limited("a", 1), rated("a", milli, 10)), waiting)
			b.ReportAllocs()
			for b.Loop() {
				m.cycle()
			}
		})
	}
}

// BenchmarkReady is what a host asks after each input, with a refused head.
func BenchmarkReady(b *testing.B) {
	m := newMill(both(limited("a", 1), rated("a", flow.Hour, 1)), 100_000)
	m.cycle()
	b.ReportAllocs()
	for b.Loop() {
		if m.key.Ready(m.now) != 0 {
			b.Fatal("ready")
		}
	}
}

// BenchmarkExplain is the place of a run in the middle of a long queue.
func BenchmarkExplain(b *testing.B) {
	m := newMill(both(limited("a", 1), rated("a", flow.Hour, 1)), 100_000)
	m.cycle()
	var mid waiter
	if m.key.waiting.tree != nil {
		mid, _ = m.key.waiting.tree.GetAt(50_000)
	}
	b.ReportAllocs()
	for b.Loop() {
		if m.key.Explain(m.now, mid.order, mid.run).Position != 50_001 {
			b.Fatal("place")
		}
	}
}

// heapOf is the live heap that build's result holds, in bytes.
func heapOf(build func() any) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

// TestR23WaitingRunsAreSmall: a waiting run costs its key little, in one long queue
// and in many short ones.
func TestR23WaitingRunsAreSmall(t *testing.T) {
	stamp := both(limited("a", 1), rated("a", milli, 10))
	const n = 50_000
	long := heapOf(func() any { return newMill(stamp, n) }) / n
	short := heapOf(func() any {
		mills := make([]*Key, n)
		for i := range mills {
			mills[i] = newMill(stamp, 1).key
		}
		return mills
	}) / n
	idle := heapOf(func() any {
		keys := make([]*Key, n)
		for i := range keys {
			keys[i] = New(keyOf("a"))
		}
		return keys
	}) / n
	t.Logf("bytes: %d a waiting run in one queue, %d a key with one waiting run, %d an empty key", long, short, idle)
	if long > 110 || short > 300 || idle > 220 {
		t.Errorf("bytes: %d a waiting run, %d a key with one, %d an empty key; at most 110, 300 and 220", long, short, idle)
	}
}

// TestR23ShortQueuesAllocateNothing: the turn of a key with a handful of runs reuses
// what it has.
func TestR23ShortQueuesAllocateNothing(t *testing.T) {
	m := newMill(both(limited("a", 1), rated("a", milli, 10)), 5)
	m.cycle()
	if n := testing.AllocsPerRun(1_000, m.cycle); n != 0 {
		t.Errorf("%v allocations a cycle", n)
	}
}
