package gpuflight

import "math"

// Batch holds the rows of one batch line: one int64 a cell, row after row, at fixed places. See Line for how long it lives.
type Batch struct {
	// Type is the batch type, which says what the columns are.
	Type Type
	// UnknownColumns counts columns of the wire that this package does not know; see ExtraColumns for their cells.
	UnknownColumns int
	// UnknownKeys counts keys beside those of a batch; see LeftoversOf for them.
	UnknownKeys int
	// BadRows lists the rows that were refused, in wire order. They are not among Rows.
	BadRows []BadRow

	baseTimeNS int64
	timeCol    int
	vals       []int64
	stride     int
	rows       int
	badRows    int
}

// BadRow is one refused row, or, once a batch has more than maxBadRows of them, a run of neighbours refused for the same reason.
type BadRow struct {
	// Row is the index in the "rows" array of the wire.
	Row int
	// Count is how many rows this entry stands for, nearly always 1.
	Count int
	// Reason is one of the Reason constants; Detail the column, or what was wrong in words.
	Reason, Detail string
	// Start and End bound the bytes of the row in Line.Raw.
	Start, End int
}

// maxBadRows is where BadRows begins to merge runs: a line of commas only must not cost fifty times its size.
const maxBadRows = 1024

// Rows returns the number of rows that were accepted.
func (b *Batch) Rows() int { return b.rows }

// WireRows returns the number of elements in the "rows" array: accepted and refused. Those that
// were refused are the sum of Count over BadRows.
func (b *Batch) WireRows() int { return b.rows + b.badRows }

// Row returns the cells of accepted row r, indexed by the Column constants of the batch type. Cells of columns the wire lacked
// are 0. Integer cells are range-checked: conversion to the Go type of the column's kind loses nothing.
func (b *Batch) Row(r int) []int64 {
	return b.vals[r*b.stride : (r+1)*b.stride : (r+1)*b.stride]
}

// At returns one cell, 0 for a column that is absent or -1.
func (b *Batch) At(r int, c Column) int64 {
	if c < 0 || int(c) >= b.stride {
		return 0
	}
	return b.vals[r*b.stride+int(c)]
}

// Float returns the cell of a KindF64 column.
func (b *Batch) Float(r int, c Column) float64 { return math.Float64frombits(uint64(b.At(r, c))) }

// Time returns base time + dt_ns of row r in nanoseconds. ok is false when the sum is below zero or beyond int64 (the year 2262):
// refuse such a row with ReasonBadTime. Small values are legal: AMD activity times count from a clock of their own.
func (b *Batch) Time(r int) (ns int64, ok bool) {
	return AddTime(b.baseTimeNS, b.vals[r*b.stride+b.timeCol])
}

// Begin makes b a batch of type t that no line carried, without rows, whose times count from baseTimeNS.
// It keeps b's memory. Together with Add it lets single lines take the way of batches.
func (b *Batch) Begin(t Type, baseTimeNS int64) {
	*b = Batch{Type: t, BadRows: b.BadRows[:0], vals: b.vals[:0], stride: len(schemas[t]), baseTimeNS: baseTimeNS}
	b.timeCol = int(ColumnOf(t, "dt_ns"))
}

// Add appends a row of zeros and returns its cells, indexed by the Column constants and valid until the next Add. Nothing
// checks what is put there.
func (b *Batch) Add() []int64 {
	n := len(b.vals)
	b.vals = append(b.vals, make([]int64, b.stride)...)
	b.rows++
	return b.vals[n:]
}

// Keep takes out the accepted rows for which keep, called once for each in order, says false. The others move up. WireRows is less then.
func (b *Batch) Keep(keep func(r int) bool) {
	kept := 0
	for r := range b.rows {
		if !keep(r) {
			continue
		}
		if kept != r {
			copy(b.Row(kept), b.Row(r))
		}
		kept++
	}
	b.rows, b.vals = kept, b.vals[:kept*b.stride]
}

// AddTime adds a signed offset to a time. ok is false when the sum is below zero or overflows.
func AddTime(base, offset int64) (ns int64, ok bool) {
	ns = base + offset
	if (base > 0 && offset > 0 && ns < 0) || (base < 0 && offset < 0) || ns < 0 {
		return 0, false
	}
	return ns, true
}

func (b *Batch) addBad(bad BadRow) {
	b.badRows++
	if n := len(b.BadRows); n >= maxBadRows {
		last := &b.BadRows[n-1]
		if last.Row+last.Count == bad.Row && last.Reason == bad.Reason && last.Detail == bad.Detail {
			last.Count++
			last.End = bad.End
			return
		}
	}
	b.BadRows = append(b.BadRows, bad)
}
