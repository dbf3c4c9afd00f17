package rows_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// Rows that lack a value in a column are written with that column empty; they are counted by table, and the column is named once.
func TestMendedRowsAreCounted(t *testing.T) {
	out := rows.NewOutput()
	part := table.DayPartition{Day: 20000, RetentionDays: 7}
	for chunk := range 2 {
		b := out.Batch(table.Memcpys.Table, part)
		m := table.Memcpys
		for i := range 3 {
			m.Tenant.AppendString(b, "acme")
			m.SessionID.AppendString(b, "s")
			m.StartedAt.Append(b, int64(i))
			m.DurationNS.Append(b, 5)
			m.CopyKind.AppendString(b, "HtoD")
			m.CopyKindID.Append(b, 1)
			m.StreamID.Append(b, 7)
			m.CorrID.Append(b, uint32(i))
			m.ReceivedAt.Append(b, 20000*rows.NanosPerDay)
		}
		table.Usage.Append(out.Batch(table.Usage.Table, part), &table.UsageRow{Tenant: "acme", Events: 3})
		list, _, err := out.Encode(rows.Tails{Chunk: uint64(chunk)})
		if err != nil || len(list) != 3 || list[0].Rows != 3 {
			t.Fatalf("chunk %d has %+v: %v", chunk, list, err)
		}
		if have, want := out.MendedRows(), map[string]int{"memcpys_data": 3}; !maps.Equal(have, want) {
			t.Errorf("chunk %d: mended %v, want %v", chunk, have, want)
		}
		named := out.NewlyMended()
		if want := []string{"memcpys_data.bytes"}; chunk == 0 && !slices.Equal(named, want) || chunk > 0 && named != nil {
			t.Errorf("chunk %d names %v; want %v, once", chunk, named, want)
		}
		if out.Reset(); len(out.MendedRows()) != 0 {
			t.Errorf("after chunk %d: mended %v", chunk, out.MendedRows())
		}
	}
}
