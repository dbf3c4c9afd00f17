// Package table defines Warpline's tables: their columns, their DDL in ClickHouse, the Arrow schema in which they travel, and the batches
// that are filled with their rows. Here are the tables and views that several sources fill or read; each source has a folder with its own,
// and a [Schema] puts them together.
//
// A table that gets many rows is a variable with a typed handle for each column: a value of the wrong kind does not compile, but a column
// that is left out does. The tests of the worker run with batches that panic then; in production [Batch.Mend] writes such a column with the
// default of its kind, and the worker logs it. A table that gets few rows is a [Rows]: its rows are structs with a column bound to each
// field, and are appended whole.
//
// The worker fills batches and encodes them, the sink inserts what was encoded, [Schema.Ensure] makes the tables and the views over
// them. Nothing here talks to NATS.
package table

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
)

// Kind is how a column's values are kept in a batch and travel in Arrow.
type Kind uint8

// The kinds. Time is nanoseconds since the epoch, UTC; Day is days since the epoch; Dict is a string out of few, stored
// once a batch; Hist is a histogram of package hist.
const (
	U8 Kind = iota
	U16
	U32
	U64
	I32
	I64
	F32
	F64
	Time
	Day
	Str
	Dict
	Hist
)

// UnknownTime means "not known" in a Time column that keeps the minimum; views show something else in its place.
const UnknownTime = int64(1<<63 - 1)

// NoMin means "there was no value" in a U64 column that keeps the minimum, so that such a row does not hide the real minimum.
const NoMin = uint64(1<<64 - 1)

// dictType is shared by all Dict columns: signed 32-bit indexes are what ClickHouse reads fastest.
var dictType = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}

var histType = func() *arrow.MapType {
	m := arrow.MapOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint64)
	m.SetItemNullable(false) // otherwise ClickHouse makes a Nullable of it first
	return m
}()

// kinds has for each kind the Arrow type, the ClickHouse type and the bytes of a row in a batch, not counting strings.
var kinds = [...]struct {
	arrow arrow.DataType
	click string
	width int
}{
	U8:   {arrow.PrimitiveTypes.Uint8, "UInt8", 1},
	U16:  {arrow.PrimitiveTypes.Uint16, "UInt16", 2},
	U32:  {arrow.PrimitiveTypes.Uint32, "UInt32", 4},
	U64:  {arrow.PrimitiveTypes.Uint64, "UInt64", 8},
	I32:  {arrow.PrimitiveTypes.Int32, "Int32", 4},
	I64:  {arrow.PrimitiveTypes.Int64, "Int64", 8},
	F32:  {arrow.PrimitiveTypes.Float32, "Float32", 4},
	F64:  {arrow.PrimitiveTypes.Float64, "Float64", 8},
	Time: {&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, "DateTime64(9, 'UTC')", 8},
	Day:  {arrow.FixedWidthTypes.Date32, "Date", 4},
	Str:  {arrow.BinaryTypes.Binary, "String", 4},
	Dict: {dictType, "LowCardinality(String)", 4},
	Hist: {histType, "Map(Int16, UInt64)", 4},
}

// String returns the ClickHouse type that the kind has when its column does not name another.
func (k Kind) String() string { return kinds[k].click }

// Column describes one column of a table.
type Column struct {
	Name    string
	Kind    Kind
	Type    string // ClickHouse type; never empty
	Codec   string // inside CODEC(…); never empty
	Comment string // what it holds, with the unit; may be empty
	agg     string // aggregate function of a SimpleAggregateFunction column, else empty
	slot    int    // position among the batch's columns of the same storage
}

// Slot is the number of the column's handle: U8Col(c.Slot()) is that of a column of kind U8.
func (c *Column) Slot() int { return c.slot }

// Plain is the ClickHouse type of the column's values, without what it aggregates.
func (c *Column) Plain() string { return kinds[c.Kind].click }

// storedCodec is the codec as system.columns tells it: ClickHouse adds the width of the values where Delta and Gorilla name none.
func (c *Column) storedCodec() string {
	width := kinds[c.Kind].width
	if c.Kind == Day {
		width = 2 // a Date in ClickHouse, 32 bits in Arrow
	}
	list := splitTop(c.Codec)
	for i, codec := range list {
		if codec == "Delta" || codec == "Gorilla" {
			list[i] = fmt.Sprintf("%s(%d)", codec, width)
		}
	}
	return "CODEC(" + strings.Join(list, ", ") + ")"
}

// definition returns the column as CREATE TABLE and ADD COLUMN have it.
func (c *Column) definition() string {
	comment := ""
	if c.Comment != "" {
		comment = " COMMENT " + Quote(c.Comment)
	}
	return fmt.Sprintf("%s %s%s CODEC(%s)", ident(c.Name), c.Type, comment, c.Codec)
}
