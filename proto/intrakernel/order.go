package intrakernel

import (
	"cmp"
	"math/bits"
	"slices"
)

// digitBits is the width of a digit of the sort: 2,048 counters stay in the first cache.
const digitBits = 11

// sortBy sorts items by their keys, those of equal key in the order in which they stand. It needs one spare slice of the same length, and
// returns the two: the sorted one first. Digits that all keys share cost nothing, and no order of the items is a bad one.
func sortBy[T any](items, spare []T, key func(*T) uint64) (sorted, other []T) {
	if len(items) < 2 {
		return items, spare
	}
	low, differ, last, inOrder := key(&items[0]), uint64(0), uint64(0), true
	for i := range items {
		at := key(&items[i])
		low = min(low, at)
		inOrder = inOrder && at >= last
		last = at
	}
	if inOrder {
		return items, spare
	}
	for i := range items {
		differ |= key(&items[i]) - low
	}
	spare = spare[:len(items)]
	for shift := 0; shift < bits.Len64(differ); shift += digitBits {
		if differ>>shift&(1<<digitBits-1) == 0 {
			continue
		}
		var places [1 << digitBits]int
		for i := range items {
			places[(key(&items[i])-low)>>shift&(1<<digitBits-1)]++
		}
		at := 0
		for i, n := range places {
			places[i] = at
			at += n
		}
		for i := range items {
			digit := (key(&items[i]) - low) >> shift & (1<<digitBits - 1)
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
// returns the sorted slice and the other one. Ticks of the clock are 32 ns apart and warps run in step, so hundreds of records share a
// time: all keys are sorted in the same way, the least important first.
//
// An end comes behind the begin of the same region and time, even where it was recorded before. Where a type is none of the device's, an
// end and an instant can be equal here: then they are sorted as the peer does it.
func sortRecords(records, spare []Record) (sorted, other []Record) {
	regions := uint64(1)
	for i := range records {
		regions = max(regions, uint64(records[i].Region)+1)
	}
	if hasUnknownTypes(records) {
		introsort(records, compareRecords)
		return records, spare
	}
	records, spare = sortBy(records, spare, func(r *Record) uint64 { return uint64(r.Type.rank())*regions + uint64(r.Region) })
	records, spare = sortBy(records, spare, func(r *Record) uint64 {
		return uint64(r.SM())<<22 | uint64(r.Block)<<6 | uint64(r.Warp())
	})
	return sortBy(records, spare, func(r *Record) uint64 { return r.TS })
}

// hasUnknownTypes reports whether a record has a type that the device does not write.
func hasUnknownTypes(records []Record) bool {
	return slices.ContainsFunc(records, func(r Record) bool { return r.Type > Mark })
}

// compareRecords is the order of sortRecords.
func compareRecords(a, b *Record) int {
	if a.TS != b.TS {
		return cmp.Compare(a.TS, b.TS)
	}
	return cmp.Or(cmp.Compare(a.SM(), b.SM()), cmp.Compare(a.Block, b.Block), cmp.Compare(a.Warp(), b.Warp()),
		cmp.Compare(a.Type.rank(), b.Type.rank()), cmp.Compare(a.Region, b.Region))
}
