package tabletest

import (
	"reflect"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// Received is when the gateway got test rows: the present time, since expired rows are not shown.
var Received = time.Now()

// TableOf returns the table that a variable with its handles embeds.
func TableOf(handles any) *table.Table {
	return reflect.ValueOf(handles).FieldByName("Table").Interface().(*table.Table)
}

// Seed fills one batch with rows and inserts it; row sets what matters to the test, FillRest the rest.
func (s *Store) Seed(handles any, rows int, row func(b *table.Batch, i int)) {
	s.Helper()
	b := table.NewBatch(TableOf(handles))
	for i := range rows {
		row(b, i)
	}
	FillRest(b, rows, Received, 30)
	s.Insert(b)
}

// SeedAll gives every table rows of FillRest.
func (s *Store) SeedAll() {
	s.Helper()
	for _, t := range s.Schema.Tables() {
		b := table.NewBatch(t)
		FillRest(b, 3, time.Now(), 30)
		s.Insert(b, b) // the same body twice: splicing works for every table
	}
}

// FillRest gives every column that is shorter than rows a value of its kind.
func FillRest(b *table.Batch, rows int, received time.Time, retention uint16) {
	FillRestBut(b, "", rows, received, retention)
}

// FillRestBut does the same except for one column.
func FillRestBut(b *table.Batch, but string, rows int, received time.Time, retention uint16) {
	t := b.Table()
	for i := range t.Columns {
		if t.Columns[i].Name != but {
			fillColumn(b, &t.Columns[i], rows, received, retention)
		}
	}
}

func fillColumn(b *table.Batch, column *table.Column, rows int, received time.Time, retention uint16) {
	slot := column.Slot()
	switch column.Kind {
	case table.U8:
		c := table.U8Col(slot)
		for i := len(*c.Slice(b)); column.Name == "rank" && i < rows; i++ { // of a session's end: clients report it in two ways
			c.Append(b, []uint8{table.EndComplete, table.EndStopped}[i%2])
		}
		c.AppendN(b, 1, rows-len(*c.Slice(b)))
	case table.U16:
		c, n := table.U16Col(slot), uint16(3)
		if column.Name == "retention_days" {
			n = retention
		}
		c.AppendN(b, n, rows-len(*c.Slice(b)))
	case table.U32:
		c := table.U32Col(slot)
		c.AppendN(b, 1, rows-len(*c.Slice(b)))
	case table.U64:
		c := table.U64Col(slot)
		c.AppendN(b, 1, rows-len(*c.Slice(b)))
	case table.I32:
		c := table.I32Col(slot)
		c.AppendN(b, 1, rows-len(*c.Slice(b)))
	case table.I64:
		c := table.I64Col(slot)
		c.AppendN(b, -1, rows-len(*c.Slice(b)))
	case table.F32:
		c := table.F32Col(slot)
		c.AppendN(b, 1.5, rows-len(*c.Slice(b)))
	case table.F64:
		c := table.F64Col(slot)
		c.AppendN(b, 1.5, rows-len(*c.Slice(b)))
	case table.Time:
		c := table.TimeCol(slot)
		c.AppendN(b, received.UnixNano(), rows-len(*c.Slice(b)))
	case table.Day:
		c := table.DayCol(slot)
		c.AppendN(b, table.DayOf(received.UnixNano()), rows-len(*c.Slice(b)))
	case table.Dict:
		c := table.DictCol(slot)
		for i := len(*c.Slice(b)); column.Name == "kind" && i < rows; i++ {
			c.AppendString(b, []string{table.ArtifactSASS, table.ArtifactPTX}[i%2])
		}
		for i := len(*c.Slice(b)); column.Name == "stall_reason" && i < rows; i++ { // '' is rows of kernels among those of stacks
			c.AppendString(b, []string{"smsp__pcsamp_warps_issue_stalled_wait", ""}[i%2])
		}
		c.AppendN(b, c.Index(b, "x"), rows-len(*c.Slice(b)))
	case table.Str:
		c := table.StrCol(slot)
		for c.Len(b) < rows {
			c.Append(b, "text\xff")
		}
	case table.Hist:
		c := table.HistCol(slot)
		for c.Len(b) < rows {
			c.AppendPairs(b, []int16{5}, []uint64{1})
		}
	default:
		panic("BUG: tabletest: no value for columns of kind " + column.Kind.String())
	}
}
