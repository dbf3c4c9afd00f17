package intrakernel

import "math/bits"

// smallSort is how many items are left to the sort by insertion.
const smallSort = 16

// introsort sorts as std::sort of GCC's library does, step by step. The peer sorts with it, and it is not stable: where items that compare
// equal are printed differently, their order is a part of the peer's answer. It takes no memory; order is below 0 where a comes before b.
func introsort[T any](items []T, order func(a, b *T) int) {
	s := introsorter[T]{items, func(a, b *T) bool { return order(a, b) < 0 }}
	if len(items) == 0 {
		return
	}
	s.quick(0, len(items), 2*(bits.Len(uint(len(items)))-1))
	s.insertion(0, min(len(items), smallSort))
	for i := smallSort; i < len(items); i++ {
		s.insert(i)
	}
}

type introsorter[T any] struct {
	all  []T
	less func(a, b *T) bool
}

func (s *introsorter[T]) swap(i, j int) { s.all[i], s.all[j] = s.all[j], s.all[i] }

// quick sorts from first on until no piece has more than smallSort items; after so many cuts in each other, heap takes over.
func (s *introsorter[T]) quick(first, last, cuts int) {
	for last-first > smallSort {
		if cuts == 0 {
			s.heap(s.all[first:last])
			return
		}
		cuts--
		s.median(first, first+1, first+(last-first)/2, last-1)
		cut := s.partition(first+1, last, first)
		s.quick(cut, last, cuts)
		last = cut
	}
}

// median swaps the middle one of three items to the place to.
func (s *introsorter[T]) median(to, a, b, c int) {
	less := func(i, j int) bool { return s.less(&s.all[i], &s.all[j]) }
	switch {
	case less(a, b) && less(b, c):
		s.swap(to, b)
	case less(a, b) && less(a, c):
		s.swap(to, c)
	case less(a, b):
		s.swap(to, a)
	case less(a, c):
		s.swap(to, a)
	case less(b, c):
		s.swap(to, c)
	default:
		s.swap(to, b)
	}
}

// partition brings what is less than the pivot before what is not, and returns where that begins. What is equal to it may be in both.
func (s *introsorter[T]) partition(first, last, pivot int) int {
	for {
		for s.less(&s.all[first], &s.all[pivot]) {
			first++
		}
		last--
		for s.less(&s.all[pivot], &s.all[last]) {
			last--
		}
		if first >= last {
			return first
		}
		s.swap(first, last)
		first++
	}
}

// insertion sorts a few items.
func (s *introsorter[T]) insertion(first, last int) {
	for i := first + 1; i < last; i++ {
		if s.less(&s.all[i], &s.all[first]) {
			item := s.all[i]
			copy(s.all[first+1:i+1], s.all[first:i])
			s.all[first] = item
		} else {
			s.insert(i)
		}
	}
}

// insert moves an item to its place among those before it, of which one is not larger.
func (s *introsorter[T]) insert(i int) {
	item := s.all[i]
	for ; s.less(&item, &s.all[i-1]); i-- {
		s.all[i] = s.all[i-1]
	}
	s.all[i] = item
}

// heap sorts by a heap.
func (s *introsorter[T]) heap(items []T) {
	for parent := (len(items) - 2) / 2; parent >= 0; parent-- {
		s.sink(items, parent, items[parent])
	}
	for n := len(items) - 1; n > 0; n-- {
		item := items[n]
		items[n] = items[0]
		s.sink(items[:n], 0, item)
	}
}

// sink fills the hole at the top of a heap: the larger children come up to the end, then the item goes up from there.
func (s *introsorter[T]) sink(items []T, top int, item T) {
	hole, child, n := top, top, len(items)
	for child < (n-1)/2 {
		child = 2 * (child + 1)
		if s.less(&items[child], &items[child-1]) {
			child--
		}
		items[hole] = items[child]
		hole = child
	}
	if n%2 == 0 && child == (n-2)/2 {
		child = 2*child + 1
		items[hole] = items[child]
		hole = child
	}
	for parent := (hole - 1) / 2; hole > top && s.less(&items[parent], &item); parent = (hole - 1) / 2 {
		items[hole] = items[parent]
		hole = parent
	}
	items[hole] = item
}
