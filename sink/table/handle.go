package table

import (
	"strings"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/hist"
)

// The handles of columns. One value of a handle belongs to one table; its methods take a batch of that table. Append adds
// one value, AppendN the same value n times, Fill repeats a value up to the batch's row count (that is the length of its
// first column), and Slice gives the column itself, for loops that append many values at a time.
type (
	// U8Col is a column of uint8.
	U8Col int
	// U16Col is a column of uint16.
	U16Col int
	// U32Col is a column of uint32.
	U32Col int
	// U64Col is a column of uint64.
	U64Col int
	// I32Col is a column of int32.
	I32Col int
	// I64Col is a column of int64.
	I64Col int
	// F32Col is a column of float32.
	F32Col int
	// F64Col is a column of float64.
	F64Col int
	// TimeCol is a column of nanoseconds since the epoch, UTC.
	TimeCol int
	// DayCol is a column of days since the epoch.
	DayCol int
	// StrCol is a column of bytes, which should be UTF-8 where a person reads them.
	StrCol int
	// DictCol is a column of strings that repeat, kept once a batch.
	DictCol int
	// HistCol is a column of histograms.
	HistCol int
)

// Append adds a copy of s.
func (c StrCol) Append(b *Batch, s string) {
	p := &b.str[c]
	p.data = append(p.data, s...)
	p.ends = append(p.ends, int32(len(p.data)))
	b.varBytes += len(s)
}

// AppendBytes adds a copy of s.
func (c StrCol) AppendBytes(b *Batch, s []byte) {
	p := &b.str[c]
	p.data = append(p.data, s...)
	p.ends = append(p.ends, int32(len(p.data)))
	b.varBytes += len(s)
}

// Index returns the index by which s is appended to this batch, interning it when it is new. It stays valid until the
// batch is reset. Bytes that are not UTF-8 are replaced, since readers of a text column may refuse them.
func (c DictCol) Index(b *Batch, s string) int32 {
	p := &b.dict[c]
	if i, ok := p.index[s]; ok {
		return i
	}
	if !utf8.ValidString(s) {
		// Two broken names may become the same text, which the dictionary must not have twice.
		i := c.Index(b, strings.ToValidUTF8(s, "\uFFFD"))
		p.index[strings.Clone(s)] = i
		return i
	}
	return p.intern(b, strings.Clone(s))
}

// IndexBytes is Index for bytes; it allocates only when s is new.
func (c DictCol) IndexBytes(b *Batch, s []byte) int32 {
	if i, ok := b.dict[c].index[string(s)]; ok {
		return i
	}
	return c.Index(b, string(s))
}

// Append adds the string for which Index returned idx.
func (c DictCol) Append(b *Batch, idx int32) { b.dict[c].idx = append(b.dict[c].idx, idx) }

// AppendN adds it n times.
func (c DictCol) AppendN(b *Batch, idx int32, n int) { more(&b.dict[c].idx, idx, n) }

// AppendString adds s; it costs a map look-up.
func (c DictCol) AppendString(b *Batch, s string) { c.Append(b, c.Index(b, s)) }

// Fill repeats s up to the batch's row count.
func (c DictCol) Fill(b *Batch, s string) {
	if len(b.dict[c].idx) < b.Rows() {
		fill(&b.dict[c].idx, c.Index(b, s), b.Rows())
	}
}

// Slice gives the column's indexes.
func (c DictCol) Slice(b *Batch) *[]int32 { return &b.dict[c].idx }

// Append adds what h counts; an empty histogram makes an empty map.
func (c HistCol) Append(b *Batch, h *hist.Dense) {
	p := &b.hist[c]
	before := len(p.keys)
	p.keys, p.counts = h.AppendTo(p.keys, p.counts)
	p.ends = append(p.ends, int32(len(p.keys)))
	b.varBytes += histEntry * (len(p.keys) - before)
}

// AppendPairs adds a histogram given as buckets in ascending order and their counts.
func (c HistCol) AppendPairs(b *Batch, buckets []int16, counts []uint64) {
	if len(buckets) != len(counts) {
		panic("BUG: table: a histogram with more buckets than counts, or fewer")
	}
	p := &b.hist[c]
	p.keys, p.counts = append(p.keys, buckets...), append(p.counts, counts...)
	p.ends = append(p.ends, int32(len(p.keys)))
	b.varBytes += histEntry * len(buckets)
}

// Len returns how many histograms the column holds.
func (c HistCol) Len(b *Batch) int { return len(b.hist[c].ends) - 1 }

// Len returns how many values the column holds.
func (c StrCol) Len(b *Batch) int { return len(b.str[c].ends) - 1 }
