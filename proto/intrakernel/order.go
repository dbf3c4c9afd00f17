package intrakernel

import (
	"cmp"
	"math/bits"
	"slices"
)

// digitBits is the width of a digit of the sort: 2,048 counters stay in the first cache.
const digitBits = 11

// sortByTime sorts items by what time returns, those of equal time in the order in which they stand. It needs one spare slice of the same
// length, and returns the two: the sorted one first. Digits that all times share cost nothing.
func sortByTime[T any](items, spare []T, time func(*T) uint64) (sorted, other []T) {
	if len(items) < 2 {
		return items, spare
	}
	low, differ, last, inOrder := time(&items[0]), uint64(0), uint64(0), true
	for i := range items {
		at := time(&items[i])
		low = min(low, at)
		inOrder = inOrder && at >= last
		last = at
	}
	if inOrder {
		return items, spare
	}
	for i := range items {
		differ |= time(&items[i]) - low
	}
	spare = spare[:len(items)]
	for shift := 0; shift < bits.Len64(differ); shift += digitBits {
		if differ>>shift&(1<<digitBits-1) == 0 {
			continue
		}
		var places [1 << digitBits]int
		for i := range items {
			places[(time(&items[i])-low)>>shift&(1<<digitBits-1)]++
		}
		at := 0
		for i, n := range places {
			places[i] = at
			at += n
		}
		for i := range items {
			digit := (time(&items[i]) - low) >> shift & (1<<digitBits - 1)
			spare[places[digit]] = items[i]
			places[digit]++
		}
		items, spare = spare, items
	}
	return items, spare
}

// sortTies sorts each run of items that same calls equal to its neighbour.
func sortTies[T any](items []T, same func(a, b *T) bool, compare func(a, b T) int) {
	for i := 0; i < len(items); {
		end := i + 1
		for end < len(items) && same(&items[i], &items[end]) {
			end++
		}
		if end > i+1 && !slices.IsSortedFunc(items[i:end], compare) {
			slices.SortStableFunc(items[i:end], compare)
		}
		i = end
	}
}

// sortRecords brings records into the order in which the peer pairs them: by time, SM, block, warp, type and region. It may use spare, and
// returns the sorted slice and the other one.
func sortRecords(records, spare []Record) (sorted, other []Record) {
	sorted, other = sortByTime(records, spare, func(r *Record) uint64 { return r.TS })
	sortTies(sorted, func(a, b *Record) bool { return a.TS == b.TS }, compareTies)
	return sorted, other
}

// compareTies orders records of the same time. An end comes behind the begin of the same region, even where it was recorded before.
func compareTies(a, b Record) int {
	return cmp.Or(cmp.Compare(a.SM(), b.SM()), cmp.Compare(a.Block, b.Block), cmp.Compare(a.Warp(), b.Warp()),
		cmp.Compare(a.Type.rank(), b.Type.rank()), cmp.Compare(a.Region, b.Region))
}
