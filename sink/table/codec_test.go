package table_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// alters is a connection that notes what it is asked to alter.
type alters struct {
	driver.Conn
	asked []string
}

func (a *alters) Exec(ctx context.Context, sql string, args ...any) error {
	if strings.HasPrefix(sql, "ALTER") {
		a.asked = append(a.asked, sql)
	}
	return a.Conn.Exec(ctx, sql, args...)
}

// ClickHouse tells every codec in other words than it was given, and still it is seen that nothing has to change.
func TestEnsureAltersNoCodecTwice(t *testing.T) {
	s := newStore(t, true)
	conn := &alters{Conn: s.Conn}
	if err := s.Schema.Ensure(t.Context(), conn, s.Opts); err != nil {
		t.Fatal(err)
	}
	if conn.asked != nil {
		t.Errorf("a second Ensure wanted to alter tables:\n%s", strings.Join(conn.asked, "\n"))
	}
}

// A table of an older program has other codecs, and rows. It gets those of today, keeps its rows as they are, and merges old data parts
// with new ones.
func TestEnsureGivesTablesTheirCodecs(t *testing.T) {
	s := newStore(t, false)
	s.Exec("CREATE DATABASE {db}")
	ddl := table.KernelStats.DDL(s.Opts)
	old := strings.Replace(ddl, "CODEC(T64, Delta(1), ZSTD(3))", "CODEC(DoubleDelta(2), ZSTD(3))", 1)
	if old == ddl {
		t.Fatal("the test knows no older codec of duration_hist")
	}
	s.Exec(old)
	sessions := table.Sessions.DDL(s.Opts)
	oldSessions := strings.Replace(sessions, ", compress_per_column_in_compact_parts = 0", "", 1)
	if oldSessions == sessions {
		t.Fatal("the test knows no older settings of sessions_data")
	}
	s.Exec(oldSessions)
	insert := "INSERT INTO {db}.kernel_stats_data (tenant, session_id, kernel_id, bucket, calls, total_ns, min_ns, max_ns, duration_hist, " +
		"received_day, retention_days) SELECT 'acme', 's', number % 50, toDateTime64('2026-11-20 12:00:00', 9, 'UTC') + 60 * (number % 7), " +
		"3, 30, 5, 15, map(toInt16(number % 1000 - 1), 2, toInt16(2000), 1), today(), 30 FROM numbers(10000)"
	session := "INSERT INTO {db}.sessions_data (tenant, session_id, kernels, received_day, retention_days) " +
		"VALUES ('acme', 's', "
	s.Exec(insert)
	s.Exec(session + "5, today(), 30)")
	sums := "SELECT sum(calls), sum(total_ns), min(min_ns), max(max_ns), cityHash64(toString(sumMap(duration_hist))) " +
		"FROM {db}.kernel_stats_data"
	before := s.Query(sums)
	if err := s.Schema.Ensure(t.Context(), s.Conn, s.Opts); err != nil {
		t.Fatal(err)
	}
	s.Want("SELECT compression_codec FROM system.columns WHERE database = '{db}' AND table = 'kernel_stats_data' AND name = 'duration_hist'",
		"CODEC(T64, Delta(1), ZSTD(3))")
	s.Want("SELECT engine_full LIKE '%compress_per_column_in_compact_parts = 0%' FROM system.tables WHERE database = '{db}' AND name = "+
		"'sessions_data'", "1")
	if after := s.Query(sums); after != before {
		t.Errorf("after the codecs changed the rows add up to %s, before to %s", after, before)
	}
	s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	if after := s.Query(sums); after != before {
		t.Errorf("after a merge the rows add up to %s, before to %s", after, before)
	}
	s.Exec(insert)
	s.Exec(session + "7, today(), 30)")
	for range 2 {
		s.Want("SELECT sum(calls), sum(total_ns), max(max_ns) FROM {db}.kernel_stats_data", "60000\t600000\t15")
		s.Want("SELECT sum(kernels) FROM {db}.sessions_data", "12")
		s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
		s.Exec("OPTIMIZE TABLE {db}.sessions_data FINAL")
	}
}

// A table of an older program keeps its names as plain strings: its type is left alone, and names come in and out of it as of a new one.
func TestEnsureLeavesTypes(t *testing.T) {
	for _, c := range []struct{ stored, want string }{{"String", "String"}, {"LowCardinality(String)", "LowCardinality(String)"}} {
		t.Run(c.stored, func(t *testing.T) {
			s := newStore(t, false)
			s.Exec("CREATE DATABASE {db}")
			ddl := table.Dictionaries.DDL(s.Opts)
			const today = "`value` LowCardinality(String) CODEC(ZSTD(3))"
			if !strings.Contains(ddl, today) {
				t.Fatalf("value is not what this test is about:\n%s", ddl)
			}
			s.Exec(strings.Replace(ddl, today, "`value` "+c.stored+" CODEC(ZSTD(3))", 1))
			if err := s.Schema.Ensure(t.Context(), s.Conn, s.Opts); err != nil {
				t.Fatal(err)
			}
			s.Want("SELECT type FROM system.columns WHERE database = '{db}' AND table = 'dictionaries' AND name = 'value'", c.want)
			names := []string{"gemm", "", "\xff\x00 no text", "gemm"}
			s.Seed(table.Dictionaries, len(names), func(b *table.Batch, i int) {
				table.Dictionaries.Dict.AppendString(b, "kernel_dict")
				table.Dictionaries.ID.Append(b, uint32(i+1))
				table.Dictionaries.Value.Append(b, names[i])
			})
			s.Want("SELECT id, hex(value) FROM {db}.dictionaries ORDER BY id", "1\t67656D6D\n2\t\n3\tFF00206E6F2074657874\n4\t67656D6D")
		})
	}
}
