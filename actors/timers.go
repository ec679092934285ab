package actors

import (
	"container/heap"

	"github.com/pyrula/pyrula-node/flow"
)

// timers is the one heap of a shard's deadlines. An entity has at most one valid
// entry, whose number stands in the entity's armed field; an entry of another number is
// stale and skipped. A deadline that moves later leaves its entry alone and is armed
// again when that comes up, so a heartbeat costs nothing here. Stale entries go when
// they are the greater part: a far deadline must not keep who has left.
type timers struct {
	heap  timerHeap
	stale int
	last  uint64 // number of the newest entry
}

// fewTimers are not worth clearing.
const fewTimers = 256

// armed is the valid entry of an entity; the zero value is none.
type armed struct {
	at     flow.Instant
	number uint64
}

// timer is an entry of a *runSlot, a *keySlot or a *scheduleSlot.
type timer struct {
	at     flow.Instant
	number uint64
	armed  *armed
	of     any
}

func (t timer) valid() bool { return t.armed.number == t.number }

// armRun, armKey and armSchedule enter a deadline unless an earlier entry covers it.
func (t *timers) armRun(s *runSlot, at flow.Instant) { t.arm(&s.armed, at, s) }

func (t *timers) armKey(s *keySlot, at flow.Instant) { t.arm(&s.armed, at, s) }

func (t *timers) armSchedule(s *scheduleSlot, at flow.Instant) { t.arm(&s.armed, at, s) }

func (t *timers) arm(a *armed, at flow.Instant, of any) {
	if a.number != 0 && at >= a.at {
		return
	}
	t.void(a)
	t.last++
	*a = armed{at, t.last}
	heap.Push(&t.heap, timer{at, t.last, a, of})
}

// void makes the entry of an entity stale, if it has one.
func (t *timers) void(a *armed) {
	if a.number == 0 {
		return
	}
	*a = armed{}
	if t.stale++; len(t.heap) < fewTimers || 2*t.stale < len(t.heap) {
		return
	}
	kept := t.heap[:0]
	for _, entry := range t.heap {
		if entry.valid() {
			kept = append(kept, entry)
		}
	}
	clear(t.heap[len(kept):])
	t.heap, t.stale = kept, 0
	heap.Init(&t.heap)
}

// next is the instant of the earliest valid entry.
func (t *timers) next() (flow.Instant, bool) {
	for len(t.heap) > 0 {
		if top := t.heap[0]; top.valid() {
			return top.at, true
		}
		heap.Pop(&t.heap)
		t.stale--
	}
	return 0, false
}

// due takes the earliest entry out if it has come, and says whose it is.
func (t *timers) due(now flow.Instant) (of any, ok bool) {
	at, ok := t.next()
	if !ok || at > now {
		return nil, false
	}
	top := heap.Pop(&t.heap).(timer)
	*top.armed = armed{}
	return top.of, true
}

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are container/heap's.
func (h *timerHeap) Push(x any) { *h = append(*h, x.(timer)) }

func (h *timerHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = timer{}
	*h = old[:n]
	return x
}
