package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/warpline/warpline/sink/engine/enginetest"
)

// batches makes one ArrowStream with a record batch of each size; the dictionary of each batch
// replaces that of the one before.
func batches(t *testing.T, prefix string, sizes ...int) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "k", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}},
		{Name: "n", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "h", Type: arrow.MapOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint64)},
	}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	for i, rows := range sizes {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for j := range rows {
			if err := b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(fmt.Sprintf("%s-%d-%d", prefix, i, j%7)); err != nil {
				t.Fatal(err)
			}
			b.Field(1).(*array.TimestampBuilder).Append(1_700_000_000_123_456_789)
			b.Field(2).(*array.Uint64Builder).Append(1<<64 - 1)
			m := b.Field(3).(*array.MapBuilder)
			m.Append(true)
			m.KeyBuilder().(*array.Int16Builder).Append(-3)
			m.ItemBuilder().(*array.Uint64Builder).Append(2)
		}
		record := b.NewRecord()
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
		record.Release()
		b.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What the sink builds on. The last case is the trap: the engine makes the identity of an insert
// from its token and the number of record batches squashed into each block, so that a retry is
// only recognised when it carries as many batches under the same block settings as before.
func TestArrowInsert(t *testing.T) {
	e := enginetest.Shared(t)
	must(t, e, "CREATE DATABASE arrow")
	conn, err := clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{e.HTTPAddr()}, Auth: clickhouse.Auth{Username: e.User(), Password: e.Password()},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A table of the shared engine is merged in the background, so rows are counted by sums.
	const columns = "(k LowCardinality(String), at %s, n %s, h %s) ENGINE = %s ORDER BY k SETTINGS non_replicated_deduplication_window = 100"
	must(t, e, "CREATE TABLE arrow.raw "+fmt.Sprintf(columns, "DateTime64(9,'UTC')", "UInt64", "Map(Int16, UInt64)", "MergeTree"))
	must(t, e, "CREATE TABLE arrow.agg "+fmt.Sprintf(columns, "SimpleAggregateFunction(max, DateTime64(9,'UTC'))",
		"SimpleAggregateFunction(max, UInt64)",
		"SimpleAggregateFunction(sumMap, Map(Int16, UInt64))", "AggregatingMergeTree"))
	for _, table := range []string{"arrow.raw", "arrow.agg"} {
		for i, step := range []struct {
			what, token string
			body        []byte
			sum         int // of h[-3] over the table afterwards
		}{
			{"first", "t1", batches(t, "a", 1000, 500, 1), 3002},
			{"same token, same bytes", "t1", batches(t, "a", 1000, 500, 1), 3002},
			{"same token, other rows in as many batches", "t1", batches(t, "b", 10, 10, 10), 3002},
			{"same token and an empty batch more", "t1", batches(t, "a", 1000, 500, 1, 0), 3002},
			{"other token, same bytes", "t2", batches(t, "a", 1000, 500, 1), 6004},
			{"same token, other number of batches", "t1", batches(t, "a", 1501), 9006},
		} {
			ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{
				"insert_deduplication_token": step.token, "min_insert_block_size_rows": "4000000", "min_insert_block_size_bytes": "1073741824",
			}))
			if err := conn.InsertFormat(ctx, "ArrowStream", "INSERT INTO "+table, bytes.NewReader(step.body)); err != nil {
				t.Fatalf("%s: %s: %v", table, step.what, err)
			}
			want(t, table+": "+step.what, must(t, e, "SELECT sum(h[-3]) FROM "+table), fmt.Sprint(step.sum))
			if i == 0 {
				want(t, table+": values", must(t, e, "SELECT uniqExact(k), min(k), max(k), toUnixTimestamp64Nano(max(at)), max(n) FROM "+table),
					"15\ta-0-0\ta-2-0\t1700000000123456789\t18446744073709551615")
				want(t, table+": parts", must(t, e, "SELECT count() FROM system.parts WHERE concat(database, '.', table) = '"+table+"'"), "1")
			}
		}
	}
}
