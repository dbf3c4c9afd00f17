package trace

import (
	"cmp"
	"slices"
)

// mark is where a slice with a begin and an end of its own (B and E, b and e) begins or ends.
type mark struct {
	ts, at int64 // at is the byte of an end's text
	row    uint32
	of     int32 // of a begin the piece, of an end the size of its text
	end    bool
}

// pair gives each end to the slice of its row that began last. Marks of a row count in the order of their times, as in viewers: a file may
// have them in any. Those of one time are in the order of the file; where that has other rows of time, ends come first.
func (f *wholeFile) pair() {
	marks := f.marks
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.row, b.row) })
	for len(marks) > 0 {
		n := 1
		for n < len(marks) && marks[n].row == marks[0].row {
			n++
		}
		f.pairRow(marks[:n])
		marks = marks[n:]
	}
	f.marks = nil
	for slice, piece := range f.of {
		if s := &f.flows.Slices[slice]; piece >= 0 && s.Dur < 0 {
			s.Dur = f.pieces[piece].dur
		}
	}
}

func (f *wholeFile) pairRow(marks []mark) {
	if byTime := func(a, b mark) int { return cmp.Compare(a.ts, b.ts) }; !slices.IsSortedFunc(marks, byTime) {
		slices.SortStableFunc(marks, func(a, b mark) int {
			if c := byTime(a, b); c != 0 || a.end == b.end {
				return c
			} else if a.end {
				return -1
			}
			return 1
		})
	}
	var open []int32
	for _, m := range marks {
		if !m.end {
			open = append(open, m.of)
			continue
		}
		if len(open) == 0 {
			f.left["E without a begin"]++
			continue
		}
		s := &f.pieces[open[len(open)-1]]
		open = open[:len(open)-1]
		s.dur, s.endAt, s.ends = m.ts-s.ts, m.at, m.of
	}
}
