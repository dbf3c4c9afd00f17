// Package rows collects the rows of an open chunk, and has what makes values and partitions of them.
package rows

import (
	"fmt"
	"slices"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Output collects the rows of the open chunk: one batch per (table, ClickHouse partition).
type Output struct {
	batches map[batchKey]*table.Batch
	order   []batchKey // facts, then the rest as first used, so that a chunk's tables come in a stable order
	body    []byte     // scratch of encode
	Oldest  int64      // earliest gateway stamp among the rows, 0: none
	given   map[string]uint64

	mended     map[string]bool // columns that had to be mended, as table.column; true: logged already
	mendedRows map[string]int  // of the open chunk, by table
}

// Strict is set by tests, before any Output is used: a batch with a column that was left out then panics instead of being mended.
var Strict bool

type batchKey struct {
	table     *table.Table
	partition table.DayPartition
}

// NewOutput returns an empty output.
func NewOutput() *Output {
	return &Output{batches: map[batchKey]*table.Batch{}, given: map[string]uint64{}, mended: map[string]bool{}, mendedRows: map[string]int{}}
}

// Batch returns the batch for rows of t that go to partition p.
func (o *Output) Batch(t *table.Table, p table.DayPartition) *table.Batch {
	key := batchKey{t, p}
	b, ok := o.batches[key]
	if !ok {
		b = table.NewBatch(t)
		o.batches[key] = b
		if t.Retention == table.Fact { // first, since rows of other tables refer to them
			o.order = slices.Insert(o.order, 0, key)
		} else {
			o.order = append(o.order, key)
		}
	}
	return b
}

// Size returns rows and estimated bytes of the open chunk. A chunk has few batches, so this is cheap.
func (o *Output) Size() (rows, bytes int) {
	for _, b := range o.batches {
		rows += b.Rows()
		bytes += b.Bytes()
	}
	return rows, bytes
}

// Tails are the columns that are the same in every row of a chunk.
type Tails struct {
	Partition uint16
	Chunk     uint64
}

// Encode fills the constant columns and returns the chunk's tables and body. The body is valid until the next encode; the batches
// stay as they are until reset.
func (o *Output) Encode(tail Tails) (rows []stream.Rows, body []byte, err error) {
	o.book()
	body = o.body[:0]
	defer func() { o.body = body }()
	for _, key := range o.order {
		b := o.batches[key]
		n := b.Rows()
		if n == 0 {
			continue
		}
		b.FillTail(key.partition, tail.Partition, tail.Chunk)
		if !Strict {
			columns := b.Mend()
			for _, column := range columns {
				o.mended[key.table.Name+"."+column] = o.mended[key.table.Name+"."+column]
			}
			if columns != nil {
				o.mendedRows[key.table.Name] += n
			}
		}
		at := len(body)
		schema := key.table.SchemaMessage()
		body = append(body, schema...)
		_, body, err = b.Encode(body)
		if err != nil {
			return nil, nil, fmt.Errorf("encode %s: %w", key.table.Name, err)
		}
		rows = append(rows, stream.Rows{
			Table: key.table.Name, Fingerprint: key.table.Fingerprint(), Day: key.partition.Day, RetentionDays: key.partition.RetentionDays,
			Rows: n, SchemaLen: len(schema), DataLen: len(body) - at - len(schema), Amount: b.Amount(),
		})
	}
	return rows, body, nil
}

// book writes how many rows of each table each tenant gets with the chunk.
func (o *Output) book() {
	clear(o.given)
	for _, key := range o.order {
		if key.table == table.Books.Table {
			o.batches[key].Reset()
		}
	}
	for _, key := range slices.Clone(o.order) {
		if key.table == table.Books.Table || key.table.Lasting { // these are the service's own, and no tenant was given them
			continue
		}
		o.batches[key].Tally(func(tenant string, rows, amount uint64) {
			o.given[tenant] += rows
			b := o.Batch(table.Books.Table, table.DayPartition{Day: table.MonthOf(key.partition.Day), RetentionDays: table.BookDays})
			table.Books.Append(b, &table.BookRow{Tenant: tenant, Day: key.partition.Day, TableName: key.table.Name,
				Kept: key.partition.RetentionDays, Rows: rows, Amount: amount, ReceivedDay: key.partition.Day})
		})
	}
}

// Given returns how many rows of the encoded chunk are whose. It must not be changed, and is valid until the next encode.
func (o *Output) Given() map[string]uint64 { return o.given }

// Reset empties the batches. Those that were not used in this chunk (yesterday's partition, a rare table) are freed.
func (o *Output) Reset() {
	o.Oldest = 0
	clear(o.mendedRows)
	o.order = slices.DeleteFunc(o.order, func(key batchKey) bool {
		b := o.batches[key]
		if b.Rows() == 0 {
			delete(o.batches, key)
			return true
		}
		b.Reset()
		return false
	})
}

// NewlyMended returns the columns that had to be mended for the first time, as table.column.
func (o *Output) NewlyMended() (columns []string) {
	for column, said := range o.mended {
		if !said {
			columns = append(columns, column)
			o.mended[column] = true
		}
	}
	slices.Sort(columns)
	return columns
}

// MendedRows returns how many rows of the encoded chunk had to be mended, by table. It must not be changed.
func (o *Output) MendedRows() map[string]int { return o.mendedRows }

// Saw notes the gateway stamp of rows that enter the chunk.
func (o *Output) Saw(receivedAt int64) {
	if o.Oldest == 0 || receivedAt < o.Oldest {
		o.Oldest = receivedAt
	}
}
