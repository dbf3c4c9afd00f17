package table_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table"
)

// BenchmarkKernelsAtRest tells the bytes that a row of bench data takes in kernels_data, column by column (-v).
func BenchmarkKernelsAtRest(b *testing.B) {
	const rows, perBatch = 1 << 20, 1 << 16
	s := newStore(b, true)
	src := newBenchSource(1)
	batch := table.NewBatch(table.Kernels.Table)
	for range rows / perBatch {
		batch.Reset()
		benchKernels(batch, src, perBatch)
		s.Insert(batch)
	}
	s.Exec("OPTIMIZE TABLE {db}.kernels_data FINAL")
	b.Log(s.Query("SELECT column, round(sum(column_bytes_on_disk) / 1048576, 3) AS b FROM system.parts_columns WHERE active AND " +
		"database = '{db}' AND table = 'kernels_data' GROUP BY column ORDER BY b DESC FORMAT PrettyCompactMonoBlock"))
	var bytes float64
	if err := s.Conn.QueryRow(b.Context(), "SELECT sum(bytes_on_disk) / sum(rows) FROM system.parts WHERE active AND table = "+
		"'kernels_data' AND database = $1", s.Opts.Database).Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	for range b.N {
	}
	b.ReportMetric(bytes, "B/row")
}
