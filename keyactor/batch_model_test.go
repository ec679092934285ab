package keyactor

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow"
)

// batchModel is a model whose runs also come from events: all that it does to gates and
// runs goes on beside. What is judged in each step stands in ledger.
type batchModel struct {
	*model
	sent int
}

var eventKeys = []flow.KeyID{keyOf("a"), keyOf("b")}

const maxModelRuns = 60

// drawTrigger draws a declaration; small ones, so that all bounds are met.
func drawTrigger(t *rapid.T) *flow.Definition {
	window := rapid.SampledFrom([]flow.Span{1, milli, second, 5 * second}).Draw(t, "window")
	var def *flow.Definition
	if rapid.Bool().Draw(t, "collect") {
		most := rapid.SampledFrom([]int64{1, 2, 3, 5, flow.MaxBatchEvents}).Draw(t, "max events")
		def = collect(most, window, rapid.SampledFrom([]int64{0, 0, 1, 30, 100, flow.MaxBatchBytes}).Draw(t, "max bytes"))
	} else {
		def = debounce(window, rapid.SampledFrom([]flow.Span{0, window, 2 * window, 10 * window}).Draw(t, "max wait"))
	}
	def.Version = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version")
	var rules []flow.Rule
	if rapid.Bool().Draw(t, "limited") {
		rules = append(rules, flow.Rule{Kind: flow.GateLimit, Max: rapid.Int64Range(1, 2).Draw(t, "max")})
	}
	if rapid.Bool().Draw(t, "rated") {
		rules = append(rules, flow.Rule{Kind: flow.GateRate, Interval: second, Burst: rapid.Int64Range(1, 2).Draw(t, "burst")})
	}
	return gated(def, rules...)
}

func (m *batchModel) declare(t *rapid.T) { m.def = drawTrigger(t) }

// event sends one: with an id of few, so that some are repeats, and of a size that one or
// two of them fill a buffer with, or a small one.
func (m *batchModel) event(t *rapid.T) {
	if len(m.runs) >= maxModelRuns {
		t.Skip("enough")
	}
	m.sent++
	name := strconv.Itoa(m.sent)
	size := 0
	if rapid.IntRange(0, 5).Draw(t, "large") == 0 {
		size = rapid.SampledFrom([]int{30, 30, 30, 100, 100, 100, 300 << 10, flow.MaxEventBytes - 9, flow.MaxEventBytes}).Draw(t, "size")
	}
	id := rapid.SampledFrom([]string{"", "", "", "i", "j", "k"}).Draw(t, "id")
	key := rapid.SampledFrom(eventKeys).Draw(t, "key")
	if rapid.IntRange(0, 9).Draw(t, "written") == 0 {
		m.lose(key, padded(name, size), id) // and the sender sends it again
	}
	made := len(m.ledger.made)
	_, _ = m.send(key, padded(name, size), id) // the ledger judges the answer
	m.runs = append(m.runs, m.ledger.made[made:]...)
}

func (m *batchModel) timer(t *rapid.T) {
	key := rapid.SampledFrom(eventKeys).Draw(t, "key")
	made := len(m.ledger.made)
	m.fire(key, rapid.IntRange(0, 3).Draw(t, "worker") > 0)
	m.runs = append(m.runs, m.ledger.made[made:]...)
}

// toDeadline moves shard time to the deadline of a batch, or just before or behind it.
func (m *batchModel) toDeadline(t *rapid.T) {
	at, _, open := m.live.key(rapid.SampledFrom(eventKeys).Draw(t, "key")).BatchDeadline()
	to := at.Add(flow.Span(rapid.IntRange(-1, 1).Draw(t, "off")))
	if !open || to <= m.now {
		t.Skip("no deadline ahead")
	}
	m.advance(to)
}

func (m *batchModel) restart(*rapid.T) { m.crash() }

// fired lets all batches come to their end.
func (m *batchModel) fired(t *rapid.T) {
	for range 1_000 {
		made, open := len(m.ledger.made), 0
		m.fireAll(true)
		m.runs = append(m.runs, m.ledger.made[made:]...)
		for _, k := range m.live.keys {
			if k.ViewBatch().Events > 0 {
				open++
			}
		}
		if open == 0 {
			return
		}
		at, ok := m.due()
		if !ok {
			t.Fatalf("%d batches have no time to be fired at:\n%s", open, m)
		}
		m.advance(at)
	}
	t.Fatalf("batches are never fired:\n%s", m)
}

func eventHistory(t *rapid.T) {
	m := &batchModel{model: new(model)}
	m.world = newWorld(func(format string, args ...any) {
		t.Helper()
		t.Logf("%s", m)
		t.Fatalf(format, args...)
	})
	m.declare(t)
	t.Repeat(map[string]func(*rapid.T){
		"event": m.event, "event again": m.event, "event once more": m.event, "timer": m.timer, "timer again": m.timer,
		"declare": m.declare, "to deadline": m.toDeadline, "restart": m.restart,
		"submit": m.submitAny, "offer": m.offerAny, "end": m.leaveHolding, "leave": m.leaveQueue, "wake": m.wake, "free hold": m.freeHold,
		"deliver": m.deliverAny, "forward": m.forward, "snapshot": m.snapshot, "passivate": m.passivate,
		"": m.rest,
	})
	m.positions()
	m.fired(t)
	m.drain(t)
	for _, key := range eventKeys {
		if len(m.ledger.runs[key]) != len(m.ledger.taken[key]) {
			t.Fatalf("%d of %d events of %v are in runs", len(m.ledger.runs[key]), len(m.ledger.taken[key]), key)
		}
	}
}

// TestP33_P34_P36_P37_P39_P66_P67_P68_P69_P71_P72_R8_S77Batches plays random histories of events,
// timers, workers and declarations, with gates and their runs beside.
func TestP33_P34_P36_P37_P39_P66_P67_P68_P69_P71_P72_R8_S77Batches(t *testing.T) {
	rapid.Check(t, eventHistory)
}

// FuzzP33_P34_P67_P71Batches is the same with the fuzzer's bytes for dice.
func FuzzP33_P34_P67_P71Batches(f *testing.F) {
	dice := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		b := make([]byte, 1<<14)
		for i := range b {
			b[i] = byte(dice.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(rapid.MakeFuzz(eventHistory))
}

// nearlyFull is a snapshot of a key with all events but three that it may buffer.
func nearlyFull(t *testing.T) (snapshot []byte, g gathered) {
	w := testWorld(t)
	w.light = true
	w.def = debounce(5*second, 0)
	for i := range flow.MaxBatchEvents - 3 {
		mustSend(t, w, eventKeys[0], padded(strconv.Itoa(i), 0), "")
	}
	g = *w.ledger.open[eventKeys[0]]
	g.events = slices.Clip(g.events)
	return encoded(t, w.live.key(eventKeys[0])), g
}

// TestP70_P33_P34_S78AtTheBound plays histories of a key that is nearly full by number. Only
// what the key answers and what its runs hold is judged in each step.
func TestP70_P33_P34_S78AtTheBound(t *testing.T) {
	snapshot, full := nearlyFull(t)
	rapid.Check(t, func(t *rapid.T) {
		m := &batchModel{model: new(model)}
		m.world = newWorld(t.Fatalf)
		m.light, m.serial = true, flow.MaxBatchEvents // the snapshot's ids are taken
		for _, h := range []*house{m.live, m.replay} {
			k, err := decode(snapshot)
			if err != nil {
				t.Fatal(err)
			}
			h.keys[k.ID()] = k
		}
		g, key := full, eventKeys[0]
		m.ledger.open[key], m.ledger.taken[key] = &g, slices.Clip(g.events)
		m.declare(t)
		t.Repeat(map[string]func(*rapid.T){
			"event": m.event, "event again": m.event, "event once more": m.event, "timer": m.timer,
			"declare": m.declare, "to deadline": m.toDeadline,
		})
		m.ledger.state(key)
		m.fired(t)
		m.ledger.state(key)
		m.light = false
		m.compare(flow.RecEvent)
	})
}
