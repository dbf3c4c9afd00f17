package parca

import (
	"slices"

	"github.com/warpline/warpline/sink/table"
)

// rowSums is where the rows of a batch are that numbers are added to until the chunk is published.
type rowSums[K comparable] struct {
	b     *table.Batch
	rows  int // of b, when it was used last
	at    map[K]int32
	peak  int  // the most that at has held
	since bool // it was used since the last look
}

func newRowSums[K comparable](b *table.Batch) rowSums[K] {
	return rowSums[K]{b: b, rows: b.Rows(), at: map[K]int32{}}
}

// sumsOf returns the sums of a batch, ready for a part; all are those of the batches that are known.
func sumsOf[S interface {
	of(*table.Batch) bool
	begin()
}](all *[]S, b *table.Batch, make func(*table.Batch) S) S {
	at := slices.IndexFunc(*all, func(s S) bool { return s.of(b) })
	if at < 0 {
		if len(*all) >= maxBatches {
			*all = nil
		}
		at = len(*all)
		*all = append(*all, make(b))
	}
	s := (*all)[at]
	s.begin()
	return s
}

func (s *rowSums[K]) of(b *table.Batch) bool { return s.b == b }

// begin makes the sums ready for a part. When the batch was emptied since, they begin anew.
func (s *rowSums[K]) begin() {
	s.since = true
	if s.b.Rows() == s.rows {
		return
	}
	s.rows, s.peak = s.b.Rows(), max(s.peak, len(s.at))
	if 8*len(s.at) < s.peak { // a map stays as large as it ever was
		s.peak = len(s.at)
		s.at = make(map[K]int32, s.peak)
		return
	}
	clear(s.at)
}

// add enters a row that is appended next.
func (s *rowSums[K]) add(key *K) int32 {
	at := int32(s.rows)
	s.at[*key] = at
	s.rows++
	return at
}

// unused reports whether it was not used since it was asked the last time.
func (s *rowSums[K]) unused() bool {
	was := s.since
	s.since = false
	return !was
}

// maxBatches is how many batches are known at once: one for each retention class that sends, and two at the end of a month. What is added
// up twice because one was forgotten is added up by ClickHouse.
const maxBatches = 16
