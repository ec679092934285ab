package actors

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidwall/btree"

	"github.com/pyrula/pyrula-node/flow"
)

// slab keeps entities at fixed seats, so that a snapshot can walk them in slices
// while others come and go.
type slab[T comparable] struct {
	seats []T
	free  []int
}

func (s *slab[T]) add(v T) int {
	if n := len(s.free); n > 0 {
		seat := s.free[n-1]
		s.free = s.free[:n-1]
		s.seats[seat] = v
		return seat
	}
	s.seats = append(s.seats, v)
	return len(s.seats) - 1
}

func (s *slab[T]) remove(seat int) {
	var none T
	s.seats[seat] = none
	s.free = append(s.free, seat)
}

// all yields who sits, by seat. The walk may remove whom it is given.
func (s *slab[T]) all() iter.Seq[T] {
	var none T
	return func(yield func(T) bool) {
		for _, v := range s.seats {
			if v != none && !yield(v) {
				return
			}
		}
	}
}

// queue is a first-in first-out list. Zero value: empty.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

func (q *queue[T]) len() int { return len(q.items) - q.head }

// at is the item behind i others; i is less than len.
func (q *queue[T]) at(i int) T { return q.items[q.head+i] }

func (q *queue[T]) front() (v T, ok bool) {
	if q.len() == 0 {
		return v, false
	}
	return q.at(0), true
}

// pop takes the first item out. What is left moves to an array of its own once half
// of the old one is empty: a copy of the old list stays as it was.
func (q *queue[T]) pop() T {
	v := q.at(0)
	q.head++
	if q.head > len(q.items)/2 {
		q.items = append([]T(nil), q.items[q.head:]...)
		q.head = 0
	}
	return v
}

// aged is something with the instant that its age counts from.
type aged[K any] struct {
	at  flow.Instant
	key K
}

// byAge is a set in the order of age, oldest first. The order depends on what is in it
// alone, so it is the same behind a snapshot.
type byAge[K any] struct {
	tree    *btree.BTreeG[aged[K]]
	compare func(a, b aged[K]) int
}

func newByAge[K any](compare func(a, b K) int) byAge[K] {
	order := func(a, b aged[K]) int { return cmp.Or(cmp.Compare(a.at, b.at), compare(a.key, b.key)) }
	less := func(a, b aged[K]) bool { return order(a, b) < 0 }
	return byAge[K]{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}), order}
}

// load fills an empty set.
func (s *byAge[K]) load(items []aged[K]) {
	slices.SortFunc(items, s.compare)
	for _, item := range items {
		s.tree.Load(item)
	}
}

func (s *byAge[K]) add(at flow.Instant, key K)    { s.tree.Set(aged[K]{at, key}) }
func (s *byAge[K]) remove(at flow.Instant, key K) { s.tree.Delete(aged[K]{at, key}) }
func (s *byAge[K]) len() int                      { return s.tree.Len() }

// after calls f for what is younger than a member or a former one, oldest first, until
// f says no; with a zero instant for all.
func (s *byAge[K]) after(last aged[K], f func(aged[K]) bool) {
	if last.at == 0 {
		s.tree.Scan(f)
		return
	}
	first := true
	s.tree.Ascend(last, func(item aged[K]) bool {
		if first {
			first = false
			if !s.tree.Less(last, item) {
				return true // the last one itself
			}
		}
		return f(item)
	})
}
