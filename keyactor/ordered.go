package keyactor

import (
	"slices"

	"github.com/tidwall/btree"
)

// A set turns from a slice into a tree above largeSet items and back below
// smallSet. Most keys have a handful of runs: a slice has no nodes to allocate
// and to free at each turn, and a tree keeps the cost of a long queue at
// O(log n).
const (
	largeSet = 48
	smallSet = 16
)

// item is what can stand in an ordered set.
type item[T any] interface {
	// before is a strict total order. Items of which neither is before the other
	// are the same.
	before(T) bool
}

// ordered is a set in order. The zero value is empty.
type ordered[T item[T]] struct {
	small []T
	tree  *btree.BTreeG[T] // when not nil it holds everything and small is empty
}

func (s *ordered[T]) len() int {
	if s.tree != nil {
		return s.tree.Len()
	}
	return len(s.small)
}

// find is the place of v in the slice, and whether it stands there.
func (s *ordered[T]) find(v T) (int, bool) {
	low, high := 0, len(s.small)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if s.small[mid].before(v) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(s.small) && !v.before(s.small[low])
}

// get is the item that is the same as v.
func (s *ordered[T]) get(v T) (T, bool) {
	if s.tree != nil {
		return s.tree.Get(v)
	}
	if i, ok := s.find(v); ok {
		return s.small[i], true
	}
	var none T
	return none, false
}

// put adds v, or replaces the item that is the same; it says whether v is new.
func (s *ordered[T]) put(v T) bool {
	if s.tree != nil {
		_, replaced := s.tree.Set(v)
		return !replaced
	}
	i, found := s.find(v)
	if found {
		s.small[i] = v
		return false
	}
	if len(s.small) < largeSet {
		s.small = slices.Insert(s.small, i, v)
		return true
	}
	s.tree = btree.NewBTreeGOptions(func(a, b T) bool { return a.before(b) }, btree.Options{NoLocks: true})
	for _, old := range s.small {
		s.tree.Set(old)
	}
	s.small = nil
	s.tree.Set(v)
	return true
}

// remove takes the item that is the same as v out.
func (s *ordered[T]) remove(v T) (T, bool) {
	if s.tree != nil {
		old, ok := s.tree.Delete(v)
		if s.tree.Len() < smallSet {
			s.small, s.tree = s.tree.Items(), nil
		}
		return old, ok
	}
	i, found := s.find(v)
	if !found {
		var none T
		return none, false
	}
	old := s.small[i]
	s.small = slices.Delete(s.small, i, i+1)
	return old, true
}

// first is the lowest item.
func (s *ordered[T]) first() (T, bool) {
	if s.tree != nil {
		return s.tree.Min()
	}
	if len(s.small) > 0 {
		return s.small[0], true
	}
	var none T
	return none, false
}

// rank is the number of items before v, whether or not v is in the set. The
// tree has no rank of its own, so it is found by halving: O(log² n).
func (s *ordered[T]) rank(v T) int {
	if s.tree == nil {
		i, _ := s.find(v)
		return i
	}
	low, high := 0, s.tree.Len()
	for low < high {
		mid := int(uint(low+high) >> 1)
		if at, ok := s.tree.GetAt(mid); ok && at.before(v) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// each calls yield for the items in order until it answers false.
func (s *ordered[T]) each(yield func(T) bool) {
	if s.tree != nil {
		s.tree.Scan(yield)
		return
	}
	for _, v := range s.small {
		if !yield(v) {
			return
		}
	}
}
