package keyactor

import (
	"fmt"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// gatherer brings events to one key without any host around it.
type gatherer struct {
	key *Key
	in  flow.Input
	now flow.Instant
	out flow.Out
}

// newGatherer is a key with a batch of some events of 100 bytes, under a Collect.
func newGatherer(maxEvents int64, events int) *gatherer {
	def := gated(collect(maxEvents, flow.Hour, 0), flow.Rule{Kind: flow.GateLimit, Max: 1})
	g := &gatherer{key: New(keyOf("a")), now: start}
	g.in = flow.Input{Kind: flow.InEvent, Fields: flow.Fields{
		Key: g.key.id, Payload: []byte(padded("a", 100)), Run: flow.RunID{1}, Stamp: def.StampBatch("a"),
		Interval: def.Trigger.Window, Burst: def.Trigger.MaxEvents,
	}}
	for range events {
		g.turn()
	}
	return g
}

func (g *gatherer) turn() {
	g.out.Reset()
	g.key.Step(g.now, &g.in, &g.out)
	for i := range g.out.Records {
		g.key.Apply(&g.out.Records[i])
	}
}

// BenchmarkEvent is an event into a Collect of 100 of a warm key: each 100th cuts.
func BenchmarkEvent(b *testing.B) {
	for _, ids := range []bool{false, true} {
		b.Run(fmt.Sprintf("ids=%t", ids), func(b *testing.B) {
			g, n := newGatherer(100, 50), 0
			all := make([]string, 1_000)
			for i := range all {
				all[i] = fmt.Sprintf("id of an event %d", i)
			}
			b.ReportAllocs()
			for b.Loop() {
				if ids {
					n++
					g.in.IdempotencyKey = all[n%len(all)]
				}
				g.turn()
			}
		})
	}
}

// BenchmarkCut is the cut of a batch of 100 events of 100 bytes: the decision, the
// parameters of its run, and the key without it. What was gathered is the same each time.
func BenchmarkCut(b *testing.B) {
	g := newGatherer(1_000, 100)
	full := *g.key.batch
	tick := flow.Input{Kind: flow.InBatchTick, Fields: flow.Fields{Key: g.key.id, Stamp: g.in.Stamp}}
	g.now = g.now.Add(flow.Hour)
	b.ReportAllocs()
	for b.Loop() {
		batch := full
		g.key.batch = &batch
		g.out.Reset()
		g.key.Step(g.now, &tick, &g.out)
		if params, _, _ := g.key.Batch(); len(params) < 100*100 {
			b.Fatalf("%d bytes of parameters", len(params))
		}
		g.key.Apply(&g.out.Records[0])
	}
}

// TestR23BufferedEventsAreSmall: what a key keeps for an event that waits is little more
// than its bytes, in one large batch and in many that have just begun.
func TestR23BufferedEventsAreSmall(t *testing.T) {
	const n = 20_000
	many := heapOf(func() any {
		keys := make([]*Key, n)
		for i := range keys {
			keys[i] = newGatherer(flow.MaxBatchEvents, 1).key
		}
		return keys
	}) / n
	const events = 7_000
	one := heapOf(func() any { return newGatherer(flow.MaxBatchEvents, events).key }) / events
	t.Logf("bytes: %d a key with one event of 100 bytes, %d an event of 100 bytes in a large batch", many, one)
	if many > 600 || one > 200 {
		t.Errorf("bytes: %d a key with one event, %d an event; at most 600 and 200", many, one)
	}
}
