package table

import (
	"fmt"
	"math"
	"time"
)

// DayPartition names the ClickHouse partition that rows go to.
type DayPartition struct {
	// Day of arrival, in days since the epoch; for Rollup and Fact tables the first day of its month (MonthOf).
	Day int32
	// RetentionDays is the retention class.
	RetentionDays uint16
}

// DayOf returns the day (UTC) of a time in nanoseconds since the epoch, in days since the epoch: for Day columns and DayPartition.
func DayOf(ns int64) int32 {
	const day = int64(24 * time.Hour)
	d := ns / day
	if ns%day < 0 {
		d--
	}
	return int32(d)
}

// MonthOf returns the first day of the month of a day, both in days since the epoch.
func MonthOf(day int32) int32 {
	t := time.Unix(int64(day)*86400, 0).UTC()
	return DayOf(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC).UnixNano())
}

const (
	histEntry = 2 + 8 // bytes of one histogram bucket
	// maxVar keeps the 32-bit offsets of a column's bytes from overflowing; callers cut batches long before.
	maxVar = math.MaxInt32
)

type strColumn struct {
	ends []int32 // ends[0] is 0, then the end of each value
	data []byte
}

type dictColumn struct {
	idx    []int32
	index  map[string]int32
	values strColumn
}

type histColumn struct {
	ends   []int32
	keys   []int16
	counts []uint64
}

// intern adds a new string, which it keeps.
func (d *dictColumn) intern(b *Batch, s string) int32 {
	i := int32(len(d.values.ends) - 1)
	d.values.data = append(d.values.data, s...)
	d.values.ends = append(d.values.ends, int32(len(d.values.data)))
	d.index[s] = i
	b.varBytes += len(s) + 4
	return i
}

// Batch collects rows of one table that go to one ClickHouse partition. It is made by [NewBatch] and filled through the
// handles of the table's columns, one value in every column for every row. Not safe for concurrent use.
type Batch struct {
	table *Table

	u8  [][]uint8
	u16 [][]uint16
	u32 [][]uint32
	u64 [][]uint64
	i32 [][]int32
	i64 [][]int64
	f32 [][]float32
	f64 [][]float64

	str  []strColumn
	dict []dictColumn
	hist []histColumn

	varBytes int // bytes of strings, dictionaries and histograms
}

// NewBatch returns an empty batch of t.
func NewBatch(t *Table) *Batch {
	b := &Batch{
		table: t,
		u8:    make([][]uint8, t.slots[U8]),
		u16:   make([][]uint16, t.slots[U16]),
		u32:   make([][]uint32, t.slots[U32]),
		u64:   make([][]uint64, t.slots[U64]),
		i32:   make([][]int32, t.slots[I32]),
		i64:   make([][]int64, t.slots[I64]),
		f32:   make([][]float32, t.slots[F32]),
		f64:   make([][]float64, t.slots[F64]),
		str:   make([]strColumn, t.slots[Str]),
		dict:  make([]dictColumn, t.slots[Dict]),
		hist:  make([]histColumn, t.slots[Hist]),
	}
	for i := range b.dict {
		b.dict[i].index = map[string]int32{}
	}
	b.Reset()
	return b
}

// Table returns the table whose rows b holds.
func (b *Batch) Table() *Table { return b.table }

// Rows returns the number of rows, which is the length of the first column.
func (b *Batch) Rows() int { return b.length(&b.table.Columns[0]) }

// Bytes estimates the encoded size. It is cheap to call.
func (b *Batch) Bytes() int { return b.Rows()*b.table.width + b.varBytes }

// Reset empties the batch and keeps its memory. Indexes of Dict columns are no longer valid.
func (b *Batch) Reset() {
	clip(b.u8)
	clip(b.u16)
	clip(b.u32)
	clip(b.u64)
	clip(b.i32)
	clip(b.i64)
	clip(b.f32)
	clip(b.f64)
	for i := range b.str {
		b.str[i].reset()
	}
	for i := range b.dict {
		d := &b.dict[i]
		d.idx = d.idx[:0]
		clear(d.index)
		d.values.reset()
	}
	for i := range b.hist {
		h := &b.hist[i]
		h.ends, h.keys, h.counts = append(h.ends[:0], 0), h.keys[:0], h.counts[:0]
	}
	b.varBytes = 0
}

func clip[T any](columns [][]T) {
	for i := range columns {
		columns[i] = columns[i][:0]
	}
}

func (s *strColumn) reset() { s.ends, s.data = append(s.ends[:0], 0), s.data[:0] }

func (b *Batch) length(c *Column) int {
	switch storage(c.Kind) {
	case U8:
		return len(b.u8[c.slot])
	case U16:
		return len(b.u16[c.slot])
	case U32:
		return len(b.u32[c.slot])
	case U64:
		return len(b.u64[c.slot])
	case I32:
		return len(b.i32[c.slot])
	case I64:
		return len(b.i64[c.slot])
	case F32:
		return len(b.f32[c.slot])
	case F64:
		return len(b.f64[c.slot])
	case Str:
		return len(b.str[c.slot].ends) - 1
	case Dict:
		return len(b.dict[c.slot].idx)
	case Hist:
		return len(b.hist[c.slot].ends) - 1
	}
	panic("BUG: table: a column of kind " + c.Kind.String() + " has no storage")
}

// Check returns an error that names the columns that are longer or shorter than the first, which means that a caller left
// out a value or appended to the batch of another table.
func (b *Batch) Check() error {
	rows := b.Rows()
	var wrong []string
	for i := range b.table.Columns {
		c := &b.table.Columns[i]
		if n := b.length(c); n != rows {
			wrong = append(wrong, fmt.Sprintf("%s has %d", c.Name, n))
		}
	}
	if wrong != nil {
		return fmt.Errorf("batch of %s: %s has %d values, but %v", b.table.Name, b.table.Columns[0].Name, rows, wrong)
	}
	if b.varBytes > maxVar {
		return fmt.Errorf("batch of %s: %d bytes of strings are more than one batch can hold", b.table.Name, b.varBytes)
	}
	return nil
}

// Mend gives every column as many values as b has rows, and names those that had more or fewer. All their values are then the default of
// their kind, because it is not known to which rows they belonged. It means that a caller left a column out, which its table's tests must
// find; rows without that column are still better than no rows.
func (b *Batch) Mend() (columns []string) {
	rows := b.Rows()
	for i := range b.table.Columns {
		c := &b.table.Columns[i]
		if b.length(c) == rows {
			continue
		}
		columns = append(columns, c.Name)
		slot := c.slot
		switch storage(c.Kind) {
		case U8:
			b.u8[slot] = make([]uint8, rows)
		case U16:
			b.u16[slot] = make([]uint16, rows)
		case U32:
			b.u32[slot] = make([]uint32, rows)
		case U64:
			b.u64[slot] = make([]uint64, rows)
		case I32:
			b.i32[slot] = make([]int32, rows)
		case I64:
			b.i64[slot] = make([]int64, rows)
		case F32:
			b.f32[slot] = make([]float32, rows)
		case F64:
			b.f64[slot] = make([]float64, rows)
		case Str:
			b.str[slot] = strColumn{ends: make([]int32, rows+1)}
		case Dict:
			b.dict[slot].idx = b.dict[slot].idx[:0]
			DictCol(slot).AppendN(b, DictCol(slot).Index(b, ""), rows)
		case Hist:
			b.hist[slot] = histColumn{ends: make([]int32, rows+1)}
		}
	}
	return columns
}

// FillTail completes the rows of b with what one chunk shares: retention_days of partition p, the partition of the ROWS stream
// and its chunk number. Callers append received_at or received_day row by row and leave these three out.
func (b *Batch) FillTail(p DayPartition, rowsPartition uint16, chunk uint64) {
	n := b.Rows()
	t := b.table
	fill(&b.u16[t.Column("retention_days").slot], p.RetentionDays, n)
	fill(&b.u16[t.Column("rows_partition").slot], rowsPartition, n)
	fill(&b.u64[t.Column("chunk").slot], chunk, n)
}
