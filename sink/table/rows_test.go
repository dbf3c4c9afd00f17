package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

type cellRow struct {
	table.HeadRow
	N           uint32
	At          int64
	Text        string
	Share       float64
	ReceivedDay int32
}

func defineCells(bind func(c *table.Binder[cellRow], r *cellRow)) (t table.Rows[cellRow], panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Sprint(p)
		}
	}()
	return table.DefineRows(table.Define("cells", table.Fact, "tenant, session_id"), bind), ""
}

func TestRowsAreWhole(t *testing.T) {
	cells, panicked := defineCells(func(c *table.Binder[cellRow], r *cellRow) {
		c.Head(&r.HeadRow)
		c.U32("n", &r.N)
		c.Time("at", &r.At)
		c.Str("text", &r.Text)
		c.F64("share", &r.Share)
		c.FactTail(&r.ReceivedDay)
	})
	if panicked != "" {
		t.Fatal(panicked)
	}
	b := table.NewBatch(cells.Table)
	for i := range 3 {
		cells.Append(b, &cellRow{HeadRow: acme("s"), N: uint32(i), At: 5, Text: "x", Share: 0.5, ReceivedDay: today()})
	}
	b.FillTail(table.DayPartition{RetentionDays: 30}, 1, 2)
	if err := b.Check(); err != nil || b.Rows() != 3 {
		t.Fatalf("%d rows: %v", b.Rows(), err)
	}
	if n := *table.U32Col(cells.Column("n").Slot()).Slice(b); !slices.Equal(n, []uint32{0, 1, 2}) {
		t.Errorf("n is %v", n)
	}
}

// A field that no column is bound to, and one that two are, are found when the table is defined, which is before any test.
func TestRowsWithAForgottenColumnCannotBeDefined(t *testing.T) {
	_, forgotten := defineCells(func(c *table.Binder[cellRow], r *cellRow) {
		c.Head(&r.HeadRow)
		c.U32("n", &r.N)
		c.Time("at", &r.At)
		c.Str("text", &r.Text)
		c.FactTail(&r.ReceivedDay)
	})
	if want := "table cells: field Share"; !strings.Contains(forgotten, want) {
		t.Errorf("a forgotten column panics with %q, want %q in it", forgotten, want)
	}
	_, twice := defineCells(func(c *table.Binder[cellRow], r *cellRow) {
		c.Head(&r.HeadRow)
		c.U32("n", &r.N)
		c.U32("m", &r.N)
	})
	if want := "table cells: column m"; !strings.Contains(twice, want) {
		t.Errorf("a field with two columns panics with %q, want %q in it", twice, want)
	}
}

// In production a column that a caller left out costs its values, not the rows of others and not the worker.
func TestMend(t *testing.T) {
	for _, tb := range tabletest.Schema().Tables() {
		for i := range tb.Columns {
			if i == 0 {
				continue // it says how many rows there are
			}
			whole, short := table.NewBatch(tb), table.NewBatch(tb)
			tabletest.FillRest(whole, 2, tabletest.Received, 30)
			if columns := whole.Mend(); columns != nil {
				t.Fatalf("a whole batch of %s was mended: %v", tb.Name, columns)
			}
			tabletest.FillRestBut(short, tb.Columns[i].Name, 3, tabletest.Received, 30)
			if err := short.Check(); err == nil || !strings.Contains(err.Error(), tb.Columns[i].Name) ||
				!strings.Contains(err.Error(), tb.Name) {
				t.Fatalf("%s without %s: the check says %v", tb.Name, tb.Columns[i].Name, err)
			}
			if columns := short.Mend(); !slices.Equal(columns, []string{tb.Columns[i].Name}) {
				t.Errorf("%s without %s: %v was mended", tb.Name, tb.Columns[i].Name, columns)
			}
			if _, _, err := short.Encode(nil); err != nil || short.Rows() != 3 {
				t.Errorf("%s without %s: %d rows, %v", tb.Name, tb.Columns[i].Name, short.Rows(), err)
			}
		}
	}
}
