package actors

import (
	"container/heap"

	"github.com/pyrula/pyrula-node/flow"
)

// timers is the one heap of a shard's deadlines. An entity has at most one valid
// entry, for the instant in its slot's armed field; an entry whose instant isn't
// that one is stale and skipped. A deadline that moves later leaves its entry
// alone and is armed again when that comes up, so a heartbeat costs nothing here. Stale
// entries go when they are the greater part: a far deadline must not keep who has left.
type timers struct {
	heap  timerHeap
	stale int
}

// fewTimers are not worth clearing.
const fewTimers = 256

type timer struct {
	at   flow.Instant
	run  *runSlot
	key  *keySlot
	plan *scheduleSlot
}

// armRun, armKey and armSchedule enter a deadline unless an earlier entry covers it.
func (t *timers) armRun(s *runSlot, at flow.Instant) {
	t.arm(&s.armed, timer{at: at, run: s})
}

func (t *timers) armKey(s *keySlot, at flow.Instant) {
	t.arm(&s.armed, timer{at: at, key: s})
}

func (t *timers) armSchedule(s *scheduleSlot, at flow.Instant) {
	t.arm(&s.armed, timer{at: at, plan: s})
}

func (t *timers) arm(armed *flow.Instant, entry timer) {
	if *armed != 0 && entry.at >= *armed {
		return
	}
	t.void(armed)
	*armed = entry.at
	heap.Push(&t.heap, entry)
}

// void makes the entry of an entity stale, if it has one.
func (t *timers) void(armed *flow.Instant) {
	if *armed == 0 {
		return
	}
	*armed = 0
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

// due takes the earliest entry out if it has come.
func (t *timers) due(now flow.Instant) (timer, bool) {
	at, ok := t.next()
	if !ok || at > now {
		return timer{}, false
	}
	top := heap.Pop(&t.heap).(timer)
	switch {
	case top.run != nil:
		top.run.armed = 0
	case top.plan != nil:
		top.plan.armed = 0
	default:
		top.key.armed = 0
	}
	return top, true
}

func (t timer) valid() bool {
	switch {
	case t.run != nil:
		return t.run.armed == t.at
	case t.plan != nil:
		return t.plan.armed == t.at
	}
	return t.key.armed == t.at
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
