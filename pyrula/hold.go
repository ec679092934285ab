package pyrula

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// hold is one grant in a worker's hands, from the answer that brought it until its
// end is told or its lease is over and its body has returned.
type hold struct {
	run    *Run
	params []byte
	rest   *int64 // where the history goes on that the grant had no room for; nil for nowhere
	def    *definition
	stop   context.CancelCauseFunc // ends the run's context
	lease  *lease

	beatAt time.Time // when the next heartbeat is due; guarded by holds.mu
}

// mayHandBack says whether the node may still be told that the run comes back unused: a
// fence makes that harmless even when the lease has passed, but there is no need
// when the node itself has said that the run isn't ours.
func (h *hold) mayHandBack() bool { return !h.lease.wasRefused() }

// holds is the set of a worker's holds.
type holds struct {
	mu   sync.Mutex
	all  map[*hold]struct{}
	next time.Time // what the heartbeat loop sleeps until; zero when it sleeps without end

	wake chan struct{} // a token makes the heartbeat loop look again
	left chan struct{} // a token after each hold that has gone
}

func newHolds() *holds {
	return &holds{all: map[*hold]struct{}{}, wake: make(chan struct{}, 1), left: make(chan struct{}, 1)}
}

func (s *holds) add(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[h] = struct{}{}
	s.arm(h)
}

func (s *holds) remove(h *hold) {
	s.mu.Lock()
	delete(s.all, h)
	s.mu.Unlock()
	offer(s.left)
}

// len is the number of holds, those whose lease is over too.
func (s *holds) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// list is every hold, by the id of its run.
func (s *holds) list() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*hold, 0, len(s.all))
	for h := range s.all {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b *hold) int { return cmp.Compare(a.run.ID, b.run.ID) })
	return list
}

// beatBy moves the next heartbeats of holds to at, unless they are due before.
func (s *holds) beatBy(list []*hold, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range list {
		if at.Before(h.beatAt) {
			h.beatAt = at
		}
		s.arm(h)
	}
}

// arm wakes the heartbeat loop when it sleeps past the hold's heartbeat. The lock is
// held.
func (s *holds) arm(h *hold) {
	if s.next.IsZero() || h.beatAt.Before(s.next) {
		s.next = h.beatAt
		offer(s.wake)
	}
}

// due takes the holds whose heartbeat is to be sent now, moves their next one a
// third of their lease on, and says when to look again. Holds that are soon due come
// along, so that the holds of a worker share requests. None is named when nothing is
// due; the moment is zero when nothing is held.
func (s *holds) due(now time.Time) ([]*hold, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*hold
	anyDue := false
	for h := range s.all {
		third := h.lease.span / startShare
		if !h.beatAt.Add(-third / 2).After(now) {
			anyDue = anyDue || !h.beatAt.After(now)
			list = append(list, h)
		}
	}
	if anyDue {
		for _, h := range list {
			h.beatAt = now.Add(h.lease.span / startShare)
		}
	}
	s.next = time.Time{}
	for h := range s.all {
		if s.next.IsZero() || h.beatAt.Before(s.next) {
			s.next = h.beatAt
		}
	}
	if !anyDue {
		return nil, s.next
	}
	slices.SortFunc(list, func(a, b *hold) int { return cmp.Compare(a.run.ID, b.run.ID) })
	return list, s.next
}

// slots counts what a worker can still take.
type slots struct {
	mu   sync.Mutex
	free int           // below zero when a node granted more than was asked for
	wake chan struct{} // a token when something is free again
}

func newSlots(n int) *slots { return &slots{free: n, wake: make(chan struct{}, 1)} }

// take takes all that is free, up to the credit of one claim.
func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(0, min(s.free, wire.MaxBatch))
	s.free -= n
	return n
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if s.free > 0 {
		offer(s.wake)
	}
}

// offer leaves a token unless one lies there.
func offer(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
