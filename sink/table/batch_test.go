package table_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// fillKernels appends n rows whose values follow from their number.
func fillKernels(b *table.Batch, from, n int) {
	k := table.Kernels
	k.Tenant.AppendN(b, k.Tenant.Index(b, "acme"), n)
	for i := from; i < from+n; i++ {
		k.StartedAt.Append(b, int64(i)*1000)
		k.DurationNS.Append(b, uint64(i)*3)
		k.SessionID.AppendString(b, fmt.Sprintf("session_%d", i%7))
		k.LaunchID.Append(b, uint32(i%7))
		k.CorrID.Append(b, uint32(i))
	}
	k.StreamID.Fill(b, 7)
	k.DeviceID.Fill(b, -1)
	k.ExternalKind.Fill(b, 1)
	k.ExternalID.Fill(b, 1<<63+5)
	k.ReceivedAt.Fill(b, tabletest.Received.UnixNano())
	k.RetentionDays.Fill(b, 30)
	k.RowsPartition.Fill(b, 4)
	k.Chunk.Fill(b, 99)
}

// splice makes a whole stream of bodies of one table.
func splice(t *testing.T, bodies ...[]byte) *ipc.Reader {
	t.Helper()
	var stream []byte
	stream = append(stream, table.Kernels.SchemaMessage()...)
	for _, b := range bodies {
		stream = append(stream, b...)
	}
	r, err := ipc.NewReader(bytes.NewReader(append(stream, table.EOS()...)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEncodeSplices(t *testing.T) {
	for _, lz4 := range []bool{false, true} {
		b := table.NewBatch(table.Kernels.Table)
		var bodies [][]byte
		for i := range 3 { // one batch reused, so that dictionaries are replaced within the stream
			b.Reset()
			fillKernels(b, i*100, 100)
			encode := b.Encode
			if lz4 {
				encode = b.EncodeLZ4
			}
			schema, body, err := encode(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(schema, table.Kernels.SchemaMessage()) {
				t.Fatal("the schema message changed")
			}
			bodies = append(bodies, body)
		}
		r := splice(t, bodies...)
		row := 0
		for r.Next() {
			rec := r.Record()
			if !rec.Schema().Equal(table.Kernels.Schema()) {
				t.Fatalf("schema %v", rec.Schema())
			}
			names := rec.Column(1).(*array.Dictionary)
			for i := range int(rec.NumRows()) {
				if got := rec.Column(2).(*array.Timestamp).Value(i); got != arrow.Timestamp(row*1000) {
					t.Fatalf("row %d started at %d", row, got)
				}
				if got := names.Dictionary().(*array.String).Value(names.GetValueIndex(i)); got != fmt.Sprintf("session_%d", row%7) {
					t.Fatalf("row %d is of %q", row, got)
				}
				row++
			}
		}
		if r.Err() != nil || row != 300 {
			t.Fatalf("read %d rows, %v", row, r.Err())
		}
	}
}

func TestEncodeAppends(t *testing.T) {
	b := table.NewBatch(table.Kernels.Table)
	fillKernels(b, 0, 1000)
	_, body, _ := b.Encode(nil)
	_, out, err := b.Encode([]byte("before"))
	if err != nil || !bytes.Equal(out, append([]byte("before"), body...)) {
		t.Fatalf("Encode did not append to what was there: %v", err)
	}
	if got := b.Bytes(); got < len(body)/2 || got > 2*len(body) {
		t.Errorf("Bytes() = %d, encoded are %d", got, len(body))
	}
}

func TestHistograms(t *testing.T) {
	ks := table.KernelStats
	b := table.NewBatch(ks.Table)
	var h hist.Dense
	want := [][]int16{{}, {-1, 122}, {hist.Last}}
	for i, values := range [][]uint64{{}, {10, 0, 10}, {1<<64 - 1}} {
		h.Reset()
		for _, v := range values {
			h.Add(v)
		}
		ks.Tenant.AppendString(b, "acme")
		ks.SessionID.AppendString(b, "s")
		ks.Calls.Append(b, uint64(len(values)))
		ks.DurationHist.Append(b, &h)
		ks.Bucket.Append(b, int64(i))
	}
	ks.BucketS.Fill(b, 60)
	ks.KernelID.Fill(b, 1)
	ks.Scope.Fill(b, "")
	ks.Kernel.Fill(b, "k")
	ks.TotalNS.Fill(b, 0)
	ks.MinNS.Fill(b, 0)
	ks.MaxNS.Fill(b, 0)
	ks.ReceivedDay.Fill(b, 20000)
	ks.RetentionDays.Fill(b, 30)
	ks.RowsPartition.Fill(b, 0)
	ks.Chunk.Fill(b, 1)
	schema, body, err := b.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(slices.Concat(schema, body, table.EOS())))
	if err != nil || !r.Next() {
		t.Fatal(err)
	}
	m := r.Record().Column(int(r.Schema().FieldIndices("duration_hist")[0])).(*array.Map)
	for i, w := range want {
		from, to := m.ValueOffsets(i)
		if got := m.Keys().(*array.Int16).Int16Values()[from:to]; !slices.Equal(got, w) {
			t.Errorf("row %d has buckets %v, want %v", i, got, w)
		}
	}
	if got := m.Items().(*array.Uint64).Uint64Values(); !slices.Equal(got, []uint64{1, 2, 1}) {
		t.Errorf("counts %v", got)
	}
}

func TestCheckNamesTheColumn(t *testing.T) {
	b := table.NewBatch(table.Kernels.Table)
	fillKernels(b, 0, 5)
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	table.Kernels.LaunchID.Append(b, 1)
	if err := b.Check(); err == nil || !strings.Contains(err.Error(), "launch_id has 6") {
		t.Fatalf("Check says %v", err)
	}
	defer func() {
		if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "BUG:") {
			t.Errorf("Encode of uneven columns ended with %v", p)
		}
	}()
	b.Encode(nil)
}

func TestDictReplacesInvalidUTF8(t *testing.T) {
	b := table.NewBatch(table.Kernels.Table)
	fillKernels(b, 0, 1)
	name := table.Kernels.SessionID
	i := name.Index(b, "a\xffb")
	if j := name.IndexBytes(b, []byte("a\xffb")); i != j {
		t.Errorf("one name has indexes %d and %d", i, j)
	}
	if j := name.Index(b, "a\xfeb"); i != j {
		t.Errorf("names that became the same have indexes %d and %d", i, j)
	}
	if k := name.Index(b, "ab"); k == i {
		t.Error("two names share an index")
	}
	_, body, err := b.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := splice(t, body)
	r.Next()
	if got := r.Record().Column(1).(*array.Dictionary).Dictionary().(*array.String).Value(int(i)); got != "a\uFFFDb" {
		t.Errorf("the name became %q", got)
	}
}

func TestTables(t *testing.T) {
	prints := map[string]string{}
	for _, tb := range tabletest.Schema().Tables() {
		if tabletest.Schema().Table(tb.Name) != tb {
			t.Errorf("ByName(%q) finds another", tb.Name)
		}
		if other, dup := prints[tb.Fingerprint()]; dup || len(tb.Fingerprint()) != 16 {
			t.Errorf("%s has fingerprint %q, as has %q", tb.Name, tb.Fingerprint(), other)
		}
		prints[tb.Fingerprint()] = tb.Name
		if tb.Retention != table.Static && tb.Columns[0].Name != "tenant" {
			t.Errorf("%s begins with %s", tb.Name, tb.Columns[0].Name)
		}
		for _, c := range []string{"retention_days", "rows_partition", "chunk"} {
			if tb.Retention != table.Static && tb.Column(c) == nil {
				t.Errorf("%s has no column %s", tb.Name, c)
			}
		}
	}
	if tabletest.Schema().Table("nothing") != nil {
		t.Error("ByName finds a table that is not there")
	}
}

func TestFillTail(t *testing.T) {
	for _, tb := range tabletest.Schema().Tables() {
		if tb.Retention == table.Static {
			continue
		}
		b := table.NewBatch(tb)
		tb0 := table.NewBatch(tb) // the same rows, completed column by column
		tabletest.FillRest(tb0, 3, tabletest.Received, 30)
		tabletest.FillRest(b, 3, tabletest.Received, 30)
		b.FillTail(table.DayPartition{RetentionDays: 30}, 3, 1) // full columns stay as they are
		_, got, _ := b.Encode(nil)
		_, want, _ := tb0.Encode(nil)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: FillTail changed a full column", tb.Name)
		}
	}
	k := table.Kernels
	b := table.NewBatch(k.Table)
	k.Tenant.AppendN(b, k.Tenant.Index(b, "acme"), 2)
	b.FillTail(table.DayPartition{RetentionDays: 30}, 4, 99)
	if d, p, c := *k.RetentionDays.Slice(b), *k.RowsPartition.Slice(b), *k.Chunk.Slice(b); !slices.Equal(d, []uint16{30, 30}) ||
		!slices.Equal(p, []uint16{4, 4}) || !slices.Equal(c, []uint64{99, 99}) {
		t.Errorf("FillTail filled %v %v %v", d, p, c)
	}
}

func TestDays(t *testing.T) {
	day := func(y int, m time.Month, d int) int32 {
		return int32(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	}
	last := time.Date(2026, 11, 20, 23, 59, 59, 999_999_999, time.UTC).UnixNano()
	if got, want := table.DayOf(last), day(2026, 11, 20); got != want || table.DayOf(last+1) != want+1 {
		t.Errorf("the last moment of %d is in %d, the next in %d", want, got, table.DayOf(last+1))
	}
	if got := table.DayOf(-1); got != -1 {
		t.Errorf("the day before the epoch is %d", got)
	}
	for _, d := range []int32{day(2026, 11, 1), day(2026, 11, 20), day(2026, 11, 30)} {
		if got, want := table.MonthOf(d), day(2026, 11, 1); got != want {
			t.Errorf("the month of %d begins at %d, want %d", d, got, want)
		}
	}
	if got, want := table.MonthOf(-1), day(1969, 12, 1); got != want {
		t.Errorf("the month before the epoch begins at %d, want %d", got, want)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct {
		name   string
		encode func(*table.Batch, []byte) ([]byte, []byte, error)
	}{{"plain", (*table.Batch).Encode}, {"lz4", (*table.Batch).EncodeLZ4}} {
		b.Run(c.name, func(b *testing.B) {
			const rows = 65536
			batch := table.NewBatch(table.Kernels.Table)
			benchKernels(batch, newBenchSource(1), rows)
			var out []byte
			b.ReportAllocs()
			for range b.N {
				_, out, _ = c.encode(batch, out[:0])
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
			b.ReportMetric(float64(len(out))/rows, "B/row")
		})
	}
}

func BenchmarkFill(b *testing.B) {
	batch := table.NewBatch(table.Kernels.Table)
	src := newBenchSource(1)
	rows := make([]benchRow, 65536)
	for i := range rows {
		rows[i] = src.next()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		batch.Reset()
		appendBenchRows(batch, src, rows)
	}
	b.ReportMetric(float64(b.N)*float64(len(rows))/b.Elapsed().Seconds(), "rows/s")
}
