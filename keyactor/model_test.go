package keyactor

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow"
)

// model drives a world with whatever a host could do next, in any order.
type model struct {
	*world
	runs []flow.RunID
}

// stampOf draws gates over two keys, so that each is home of some runs and the
// Rate's key of others, and so that several maxima and rates meet in one key.
func stampOf(t *rapid.T) *flow.Stamp {
	s := &flow.Stamp{Version: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version")}
	key := rapid.SampledFrom([]string{"a", "b", ""})
	if k := key.Draw(t, "limit key"); k != "" {
		s.Gates = append(s.Gates, flow.Gate{Kind: flow.GateLimit, KeyName: "l", Key: k, Max: rapid.Int64Range(1, 3).Draw(t, "max")})
	}
	if k := key.Draw(t, "rate key"); k != "" {
		s.Gates = append(s.Gates, flow.Gate{
			Kind: flow.GateRate, KeyName: "r", Key: k, Burst: rapid.Int64Range(1, 4).Draw(t, "burst"),
			Interval: rapid.SampledFrom([]flow.Span{1, milli, 3 * milli, second, 7 * second}).Draw(t, "interval"),
		})
	}
	return s
}

// pick draws a run in one of the statuses, or skips the action.
func (m *model) pick(t *rapid.T, statuses ...flow.Status) *fakeRun {
	var fit []*fakeRun
	for _, id := range m.runs {
		r := m.run(id)
		for _, s := range statuses {
			if r.status == s && (s != flow.StatusTerminated || r.fence != 0) {
				fit = append(fit, r)
			}
		}
	}
	if len(fit) == 0 {
		t.Skip("no such run")
	}
	return rapid.SampledFrom(fit).Draw(t, "run")
}

func (m *model) submitAny(t *rapid.T) {
	if len(m.runs) >= 40 {
		t.Skip("enough")
	}
	m.runs = append(m.runs, m.submit(stampOf(t)))
}

// inherit queues a run at an old place, as a successor.
func (m *model) inherit(t *rapid.T) {
	if len(m.runs) >= 40 {
		t.Skip("enough")
	}
	m.runs = append(m.runs, m.submitAt(stampOf(t), start+flow.Instant(rapid.Int64Range(0, int64(m.now-start)).Draw(t, "place"))))
}

func (m *model) offerAny(t *rapid.T) {
	ids := m.keyIDs()
	if len(ids) == 0 {
		t.Skip("no key")
	}
	m.offer(rapid.SampledFrom(ids).Draw(t, "key"))
}

// leaveHolding ends an execution in one of the ways that free the slot.
func (m *model) leaveHolding(t *rapid.T) {
	r := m.pick(t, flow.StatusExecuting)
	kind := rapid.SampledFrom([]flow.RecordKind{
		flow.RecCompleted, flow.RecFailed, flow.RecRetrying, flow.RecSuspended, flow.RecExpired, flow.RecCancelled, flow.RecTerminated,
	}).Draw(t, "how")
	m.record(kind, flow.Fields{Run: r.id, Fence: r.fence})
}

func (m *model) leaveQueue(t *rapid.T) {
	r := m.pick(t, flow.StatusQueued, flow.StatusSuspended)
	how := []flow.RecordKind{flow.RecCancelled, flow.RecTerminated}
	if r.status == flow.StatusSuspended {
		how = append(how, flow.RecFailed) // its history became too large (R13)
	}
	m.leave(r.id, rapid.SampledFrom(how).Draw(t, "how"))
}

// handOn ends a run that has never started, and queues its successor, under other gates
// and perhaps at another key, at the same place (P76).
func (m *model) handOn(t *rapid.T) {
	r := m.pick(t, flow.StatusQueued)
	if r.started || len(m.runs) >= 60 {
		t.Skip("stays where it is")
	}
	m.leave(r.id, flow.RecContinued)
	m.runs = append(m.runs, m.submitAt(stampOf(t), r.order))
}

func (m *model) wake(t *rapid.T) {
	m.record(flow.RecWoken, flow.Fields{Run: m.pick(t, flow.StatusSuspended).id})
}

func (m *model) freeHold(t *rapid.T) {
	r := m.pick(t, flow.StatusTerminated)
	m.record(flow.RecHoldFreed, flow.Fields{Run: r.id, Fence: r.fence})
}

func (m *model) deliverAny(t *rapid.T) {
	if len(m.pairs) == 0 {
		t.Skip("no mail")
	}
	c := rapid.SampledFrom(m.pairs).Draw(t, "channel")
	m.deliver(c, rapid.SampledFrom([]flow.Flags{flow.FlagCredit, 0}).Draw(t, "credit"))
}

// forward moves the clock by any time, also to the very instant that is due and to
// the one before it: nothing may change between now and what is due.
func (m *model) forward(t *rapid.T) {
	to := m.now.Add(rapid.SampledFrom([]flow.Span{1, milli, second / 2, 5 * second, 61 * second}).Draw(t, "by"))
	due, ok := m.due()
	if ok && rapid.Bool().Draw(t, "to what is due") {
		to = due
	}
	ready, late := make(map[flow.KeyID]bool), make(map[flow.KeyID]bool)
	for id, k := range m.live.keys {
		ready[id] = k.Ready(m.now) > 0
		at, due, _ := k.BatchDeadline()
		late[id] = due || at <= m.now
	}
	if before := min(to, due) - 1; before > m.now {
		m.now = before
		for _, id := range m.keyIDs() {
			if k := m.live.key(id); !ready[id] && k.Ready(m.now) > 0 {
				t.Fatalf("%v became ready before it was due", id)
			}
			if n := m.tick(id); n > 0 {
				t.Fatalf("%v gave %d tokens before it was due", id, n)
			}
			if !late[id] && m.fire(id, true) > 0 {
				t.Fatalf("%v fired a batch before it was due (P72)", id)
			}
		}
	}
	m.advance(to)
}

// snapshot: a key that comes out of a snapshot is the key.
func (m *model) snapshot(t *rapid.T) {
	for _, id := range m.keyIDs() {
		k, err := m.live.restored(id)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := m.live.key(id).Fingerprint(), k.Fingerprint(); !bytes.Equal(a, b) {
			t.Fatalf("the snapshot differs:\n%s\n%s", a, b)
		}
		m.live.keys[id] = k // and life goes on with it
	}
}

// passivate drops what is idle, on the live side only: the replay must not notice.
func (m *model) passivate(*rapid.T) {
	for _, id := range m.keyIDs() {
		if m.live.key(id).Idle(m.now) {
			delete(m.live.keys, id)
		}
	}
}

// rest is what holds whenever nothing is under way: whoever could go is offered.
func (m *model) rest(t *rapid.T) {
	for _, id := range m.keyIDs() {
		k := m.live.key(id)
		head := m.watch.head(id)
		if k.Ready(m.now) == 0 && head != nil && m.watch.admissible(head) && k.asks.overdue(m.now) == nil {
			t.Fatalf("run %v could be admitted and %v isn't ready", head.id, id)
		}
		v := k.View(m.now)
		if v.Used != m.watch.used(id) || v.Tokens < 0 || v.Tokens > v.Burst {
			t.Fatalf("shown: used %d of %d, tokens %d of %d", v.Used, m.watch.used(id), v.Tokens, v.Burst)
		}
	}
	for _, id := range m.runs {
		r := m.run(id)
		w := m.live.key(r.home()).Explain(m.now, r.order, r.id)
		if (w.Reason != "") != (r.status == flow.StatusQueued) {
			t.Fatalf("run %v is %v and waits for %q", id, r.status, w.Reason)
		}
		if r.tokens > 1 {
			t.Fatalf("run %v took %d tokens (P53)", id, r.tokens)
		}
	}
}

// drain lets every run come to its end: whatever happened before, the waiting runs
// all start in the end, and the letters come to an end.
func (m *model) drain(t *rapid.T) {
	letters, offers := m.letters, m.offers
	for round := 0; ; round++ {
		if round > 2_000 {
			t.Fatalf("runs wait for ever:\n%s", m)
		}
		m.deliverAll(flow.FlagCredit)
		for _, id := range m.keyIDs() {
			m.offerAll(id)
		}
		m.deliverAll(flow.FlagCredit)
		waiting := 0
		for _, id := range m.runs {
			switch r := m.run(id); r.status {
			case flow.StatusExecuting:
				m.record(flow.RecCompleted, flow.Fields{Run: id, Fence: r.fence})
			case flow.StatusTerminated:
				if r.fence != 0 {
					m.record(flow.RecHoldFreed, flow.Fields{Run: id, Fence: r.fence})
				}
			case flow.StatusSuspended:
				m.record(flow.RecWoken, flow.Fields{Run: id})
				waiting++
			case flow.StatusQueued:
				waiting++
			}
		}
		if waiting == 0 && len(m.pairs) == 0 {
			break
		}
		ready := false
		for _, k := range m.live.keys {
			ready = ready || k.Ready(m.now) > 0
		}
		if due, ok := m.due(); ok && !ready && len(m.pairs) == 0 {
			m.advance(due)
		}
	}
	// No livelock: a run asks once for each offer at most, and each want is answered
	// by a token and at most one letter back.
	if sent := m.letters - letters; sent > 4*(len(m.runs)+m.offers-offers) {
		t.Fatalf("%d letters for %d runs and %d offers", sent, len(m.runs), m.offers-offers)
	}
	for id, k := range m.live.keys {
		m.now = max(m.now, k.tat)
		if !k.Idle(m.now) {
			t.Fatalf("%v remembers something when all is over:\n%s", id, k.Fingerprint())
		}
	}
}

func history(t *rapid.T) {
	m := &model{}
	m.world = newWorld(func(format string, args ...any) {
		t.Helper()
		t.Logf("%s", m)
		t.Fatalf(format, args...)
	})
	t.Repeat(map[string]func(*rapid.T){
		"submit": m.submitAny, "submit again": m.submitAny, "inherit": m.inherit,
		"offer": m.offerAny, "offer again": m.offerAny, "end": m.leaveHolding, "leave": m.leaveQueue, "hand on": m.handOn,
		"wake": m.wake, "free hold": m.freeHold, "deliver": m.deliverAny, "deliver again": m.deliverAny,
		"forward": m.forward, "snapshot": m.snapshot, "passivate": m.passivate,
		"": m.rest,
	})
	m.drain(t)
}

// TestP3_P4_P5_P7_P61_P62_S09Histories plays random histories. What is judged in each
// step stands in watch, world and model.
func TestP3_P4_P5_P7_P61_P62_S09Histories(t *testing.T) { rapid.Check(t, history) }

// FuzzP3_P4_R4Histories is the same with the fuzzer's bytes for dice.
func FuzzP3_P4_R4Histories(f *testing.F) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		b := make([]byte, 1<<14)
		for i := range b {
			b[i] = byte(dice.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(rapid.MakeFuzz(history))
}
