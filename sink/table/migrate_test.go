package table_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// shape is all that Ensure is responsible for, as text.
func (s *store) shape() string {
	s.Helper()
	// The mark in a view's comment depends on the database's name.
	text := s.Query("SELECT name, engine, replaceRegexpAll(create_table_query, 'warpline [0-9a-f]{16}', 'mark') FROM system.tables " +
		"WHERE database = '{db}' ORDER BY name")
	return strings.ReplaceAll(text, s.Opts.Database, "db")
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return g[i] + "\nwant\n" + w[i]
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestEnsureMakesEverythingOnce(t *testing.T) {
	s := newStore(t, true)
	for _, tb := range tabletest.Schema().Tables() {
		s.Want("SELECT count() FROM {db}."+tb.Name, "0")
	}
	for _, v := range tabletest.Schema().Views(s.Opts) {
		s.Query("SELECT * FROM {db}." + v.From() + " LIMIT 1")
	}
	before := s.shape()
	made := s.Query("SELECT uuid FROM system.tables WHERE database = '{db}' ORDER BY name")
	for range 2 {
		if err := tabletest.Schema().Ensure(t.Context(), s.Conn, s.Opts); err != nil {
			t.Fatal(err)
		}
	}
	if s.shape() != before || s.Query("SELECT uuid FROM system.tables WHERE database = '{db}' ORDER BY name") != made {
		t.Error("a second Ensure changed something")
	}
	s.Want("SELECT count(), any(fingerprint) FROM {db}.schema_history", "1\t"+tabletest.Schema().Fingerprint(s.Opts))
}

func TestEnsureConcurrently(t *testing.T) {
	s := newStore(t, false)
	const callers = 4
	var wg sync.WaitGroup
	for range callers {
		conn := s.Connect()
		wg.Go(func() {
			if err := tabletest.Schema().Ensure(t.Context(), conn, s.Opts); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want := len(tabletest.Schema().Tables()) + len(tabletest.Schema().Views(s.Opts)) + 1
	if got := strings.Count(s.shape(), "\n") + 1; got != want {
		t.Errorf("%d tables and views, want %d", got, want)
	}
	s.Want("SELECT count() FROM {db}.stall_reasons", "52")
	s.Want("SELECT count() FROM {db}.schema_history", "1")
}

// Wherever an Ensure was cut short, the next one finishes the work.
func TestEnsureAfterInterruption(t *testing.T) {
	whole := newStore(t, true)
	want := whole.shape()
	s := newStore(t, false)
	cut := 0
	for limit := 5 * time.Millisecond; ; limit += 20 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := tabletest.Schema().Ensure(ctx, s.Conn, s.Opts)
		cancel()
		if err == nil {
			break
		}
		cut++
	}
	if cut == 0 {
		t.Error("no Ensure was interrupted: the test shows nothing")
	}
	if got := s.shape(); got != want {
		t.Errorf("after %d interruptions the schema differs: %s", cut, firstDifference(got, want))
	}
}

// A table of an older program has no index. It gets it, and what was there before and what comes after it is found alike.
func TestEnsureAddsIndexes(t *testing.T) {
	s := newStore(t, false)
	s.Exec("CREATE DATABASE {db}")
	var old []string
	for line := range strings.Lines(table.Dictionaries.DDL(s.Opts)) {
		if !strings.Contains(line, "INDEX") {
			old = append(old, line)
		}
	}
	if len(old) != strings.Count(table.Dictionaries.DDL(s.Opts), "\n")-1 {
		t.Fatal("the table has no index")
	}
	ddl := strings.Join(old, "")
	end := strings.LastIndex(ddl, ",\n)")
	s.Exec(ddl[:end] + ddl[end+1:])
	insert := "INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, late, received_day, retention_days) VALUES "
	s.Exec(insert + "('acme', 'old', 'kernel_dict', 1, 'came before', 0, today(), 30), ('acme', 'old', 'kernel_dict', 2, 'came late', 1, " +
		"today(), 30)")
	if err := s.Schema.Ensure(t.Context(), s.Conn, s.Opts); err != nil {
		t.Fatal(err)
	}
	s.Exec(insert + "('acme', 'new', 'kernel_dict', 1, 'came before', 0, today(), 30), ('acme', 'new', 'kernel_dict', 2, 'came late', 1, " +
		"today(), 30)")
	s.Want("SELECT name, type_full FROM system.data_skipping_indices WHERE database = '{db}'", "late\tminmax")
	for range 2 {
		s.Want("SELECT session_id, value FROM {db}.dictionaries WHERE late = 1 ORDER BY session_id", "new\tcame late\nold\tcame late")
		s.Exec("OPTIMIZE TABLE {db}.dictionaries FINAL")
	}
}

// What all queries ask of names first, those that came late, reads no others.
func TestLateNamesAreFoundByTheirIndex(t *testing.T) {
	s := newStore(t, true)
	s.Exec("INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, received_day, retention_days) " +
		"SELECT 'acme', toString(intDiv(number, 100)), 'kernel_dict', number % 100, toString(number), today(), 30 FROM numbers(100000)")
	for _, view := range []string{"kernel_stats", "scope_stats", "scopes", "source_map"} {
		if reads := s.Query("EXPLAIN ESTIMATE SELECT count() FROM {db}." + view); regexp.MustCompile(`dictionaries\t[1-9]`).MatchString(reads) {
			t.Errorf("%s reads the names of other rows:\n%s", view, reads)
		}
	}
	s.Exec("INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, late, received_day, retention_days) VALUES " +
		"('acme', '77', 'kernel_dict', 7, 'late', 1, today(), 30)")
	s.Exec("OPTIMIZE TABLE {db}.dictionaries FINAL")
	s.Exec("INSERT INTO {db}.kernel_stats_data (tenant, session_id, kernel_id, calls, received_day, retention_days) VALUES " +
		"('acme', '77', 7, 1, today(), 30), ('acme', '78', 7, 1, today(), 30)")
	s.Want("SELECT session_id, kernel FROM {db}.kernel_stats ORDER BY session_id", "77\tlate\n78\t")
}

// A table of an older program lacks a column and has rows; a view has an older text.
func TestEnsureUpgrades(t *testing.T) {
	s := newStore(t, false)
	s.Exec("CREATE DATABASE {db}")
	var old []string
	for line := range strings.Lines(table.Kernels.DDL(s.Opts)) {
		if !strings.Contains(line, "`stream_id`") {
			old = append(old, line)
		}
	}
	s.Exec(strings.Join(old, ""))
	s.Exec("INSERT INTO {db}.kernels_data (tenant, session_id, duration_ns, received_at, retention_days) VALUES ('acme', 'old', 5, " +
		"now64(9), 30)")
	s.Exec("CREATE VIEW {db}.kernels AS SELECT 'old' AS tenant")
	if err := tabletest.Schema().Ensure(t.Context(), s.Conn, s.Opts); err != nil {
		t.Fatal(err)
	}
	s.Want("SELECT groupArray(name) = "+namesOf(table.Kernels.Table)+" FROM (SELECT name FROM system.columns WHERE database = '{db}' "+
		"AND table = 'kernels_data' ORDER BY position)", "1")
	b := table.NewBatch(table.Kernels.Table)
	fillKernels(b, 0, 10)
	s.Insert(b)
	s.Want("SELECT session_id = 'old', count(), sum(stream_id) FROM {db}.kernels GROUP BY 1 ORDER BY 1", "0\t10\t70\n1\t1\t0")
}

func namesOf(t *table.Table) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, "'"+c.Name+"'")
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// The clustered form cannot run on the embedded engine, but its statements can be parsed there.
func TestReplicatedDDLParses(t *testing.T) {
	s := newStore(t, true)
	o := table.Options{Database: s.Opts.Database, Replicated: true, Cluster: "warpline"}
	for _, tb := range tabletest.Schema().Tables() {
		ddl := tb.DDL(o)
		if !strings.Contains(ddl, " ON CLUSTER `warpline` ") || !strings.Contains(ddl, "ENGINE = Replicated") {
			t.Fatalf("%s is neither on the cluster nor replicated:\n%s", tb.Name, ddl)
		}
		if _, err := s.Post("EXPLAIN AST "+ddl, nil); err != nil {
			t.Errorf("%s: %v", tb.Name, err)
		}
	}
	for _, v := range tabletest.Schema().Views(o) {
		if _, err := s.Post("EXPLAIN AST "+v.DDL(o), nil); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if got := table.Devices.DDL(o); !strings.Contains(got,
		"ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', chunk)") {
		t.Errorf("devices: %s", got)
	}
}

// What readers may ask must not need a right that only the writer has.
func TestReadersSeeEveryView(t *testing.T) {
	s := newStore(t, true)
	reader, err := clickhouse.Open(&clickhouse.Options{Addr: []string{s.Engine.TCPAddr()},
		Auth: clickhouse.Auth{Username: engine.Reader, Password: s.Engine.ReaderPassword()}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, v := range tabletest.Schema().Views(s.Opts) {
		var n uint64
		if err := reader.QueryRow(t.Context(), "SELECT count() FROM (SELECT * FROM "+s.Opts.Database+"."+v.From()+")").Scan(
			&n); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if err := tabletest.Schema().Ensure(t.Context(), reader, table.Options{Database: "not_allowed"}); err == nil ||
		!strings.Contains(err.Error(), "needs the right") {
		t.Errorf("Ensure by a reader says %v", err)
	}
}
