package table

import (
	"reflect"
	"unsafe"
)

// Rows is a table whose rows are appended whole, each as a struct R. It is for tables that get few rows. Every column is bound to a field
// of R when the table is defined, so a column cannot be left out of a row. Tables that get many rows have handles instead.
type Rows[R any] struct {
	*Table
	columns []func(b *Batch, row unsafe.Pointer)
}

// Binder adds columns to a table of [Rows] and binds each to a field of R.
type Binder[R any] struct {
	rows  Rows[R]
	model *R
	bound map[uintptr]bool // offsets of fields that have a column
}

// DefineRows adds columns to t, which has none yet. bind is given a row and binds a column to each of its fields, in the order of the
// columns; a field that has no column, or two, panics when the program starts.
func DefineRows[R any](t *Table, bind func(c *Binder[R], r *R)) Rows[R] {
	c := &Binder[R]{rows: Rows[R]{Table: t}, model: new(R), bound: map[uintptr]bool{}}
	bind(c, c.model)
	c.check(reflect.TypeFor[R](), 0)
	return c.rows
}

func (c *Binder[R]) check(typ reflect.Type, at uintptr) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch {
		case f.Type.Kind() == reflect.Struct:
			c.check(f.Type, at+f.Offset)
		case !c.bound[at+f.Offset]:
			panic("BUG: table " + c.rows.Name + ": field " + f.Name + " of its rows has no column: bind it to one")
		}
	}
}

// Append adds a row to a batch of the table, except for the columns that [Batch.FillTail] fills.
func (t *Rows[R]) Append(b *Batch, r *R) {
	if b.table != t.Table {
		panic("BUG: table: a row of " + t.Name + " for a batch of " + b.table.Name)
	}
	for _, column := range t.columns {
		column(b, unsafe.Pointer(r))
	}
}

// bindField makes a column the field's: add appends a value to it.
func bindField[R, V any](c *Binder[R], field *V, add func(b *Batch, v V)) {
	at := uintptr(unsafe.Pointer(field)) - uintptr(unsafe.Pointer(c.model))
	t := c.rows.Table
	if at >= unsafe.Sizeof(*c.model) || c.bound[at] {
		panic("BUG: table " + t.Name + ": column " + t.Columns[len(t.Columns)-1].Name + " needs a field of its own in the table's rows")
	}
	c.bound[at] = true
	c.rows.columns = append(c.rows.columns, func(b *Batch, row unsafe.Pointer) { add(b, *(*V)(unsafe.Add(row, at))) })
}

// U8 adds a column of that kind.
func (c *Binder[R]) U8(name string, field *uint8, o ...Option) {
	bindField(c, field, c.rows.U8(name, o...).Append)
}

// U16 adds a column of that kind.
func (c *Binder[R]) U16(name string, field *uint16, o ...Option) {
	bindField(c, field, c.rows.U16(name, o...).Append)
}

// U32 adds a column of that kind.
func (c *Binder[R]) U32(name string, field *uint32, o ...Option) {
	bindField(c, field, c.rows.U32(name, o...).Append)
}

// U64 adds a column of that kind.
func (c *Binder[R]) U64(name string, field *uint64, o ...Option) {
	bindField(c, field, c.rows.U64(name, o...).Append)
}

// I32 adds a column of that kind.
func (c *Binder[R]) I32(name string, field *int32, o ...Option) {
	bindField(c, field, c.rows.I32(name, o...).Append)
}

// I64 adds a column of that kind.
func (c *Binder[R]) I64(name string, field *int64, o ...Option) {
	bindField(c, field, c.rows.I64(name, o...).Append)
}

// F32 adds a column of that kind.
func (c *Binder[R]) F32(name string, field *float32, o ...Option) {
	bindField(c, field, c.rows.F32(name, o...).Append)
}

// F64 adds a column of that kind.
func (c *Binder[R]) F64(name string, field *float64, o ...Option) {
	bindField(c, field, c.rows.F64(name, o...).Append)
}

// Time adds a column of nanoseconds since the epoch.
func (c *Binder[R]) Time(name string, field *int64, o ...Option) {
	bindField(c, field, c.rows.Time(name, o...).Append)
}

// Day adds a column of days since the epoch.
func (c *Binder[R]) Day(name string, field *int32, o ...Option) {
	bindField(c, field, c.rows.Day(name, o...).Append)
}

// Str adds a column of text.
func (c *Binder[R]) Str(name string, field *string, o ...Option) {
	col := c.rows.Str(name, o...)
	bindField(c, field, func(b *Batch, v string) { col.Append(b, v) })
}

// Dict adds a column of text that repeats.
func (c *Binder[R]) Dict(name string, field *string, o ...Option) {
	col := c.rows.Dict(name, o...)
	bindField(c, field, func(b *Batch, v string) { col.AppendString(b, v) })
}

// StrBytes adds a column of text that rows have as bytes.
func (c *Binder[R]) StrBytes(name string, field *[]byte, o ...Option) {
	col := c.rows.Str(name, o...)
	bindField(c, field, func(b *Batch, v []byte) { col.AppendBytes(b, v) })
}

// DictBytes adds a column of text that repeats and that rows have as bytes.
func (c *Binder[R]) DictBytes(name string, field *[]byte, o ...Option) {
	col := c.rows.Dict(name, o...)
	bindField(c, field, func(b *Batch, v []byte) { col.Append(b, col.IndexBytes(b, v)) })
}

// HeadRow is how a row of a tenant's session begins.
type HeadRow struct{ Tenant, SessionID string }

// Head adds its columns.
func (c *Binder[R]) Head(r *HeadRow) {
	c.Dict("tenant", &r.Tenant)
	c.Dict("session_id", &r.SessionID)
}

// contentID adds the columns that name a content.
func (c *Binder[R]) contentID(hi, lo *uint64) {
	id := c.rows.contentID()
	bindField(c, hi, id.ContentHi.Append)
	bindField(c, lo, id.ContentLo.Append)
}

// RawTail adds the columns of that name; FillTail fills all but the first.
func (c *Binder[R]) RawTail(receivedAt *int64) {
	bindField(c, receivedAt, c.rows.RawTail().ReceivedAt.Append)
}

// FactTail adds the columns of that name; FillTail fills all but the first.
func (c *Binder[R]) FactTail(receivedDay *int32) {
	col := c.rows.FactTail().ReceivedDay
	bindField(c, receivedDay, func(b *Batch, v int32) { col.Append(b, v) })
}
