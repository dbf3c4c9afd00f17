package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

// No setting is open to the reader but those that somebody has looked at, whatever the engine of tomorrow has.
func TestReaderChangesFewSettings(t *testing.T) {
	e := enginetest.Shared(t)
	got, err := ask(e, engine.Reader, e.ReaderPassword(), "SELECT name FROM system.settings WHERE NOT readonly ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	wanted := slices.Concat(engine.Changeable, []string{"max_block_size", "max_execution_time"})
	slices.Sort(wanted)
	want(t, "settings that the reader may change", got, strings.Join(wanted, "\n"))
}

// What people and drivers do with a reader's password works.
func TestReaderReads(t *testing.T) {
	e := enginetest.Shared(t)
	must(t, e, "CREATE DATABASE reads")
	enginetest.DropAtEnd(t, e, "reads")
	must(t, e, "CREATE TABLE reads.t (a UInt64, at DateTime64(9, 'UTC')) ENGINE = MergeTree ORDER BY a")
	must(t, e, "CREATE VIEW reads.v AS SELECT sum(a) AS s FROM reads.t")
	must(t, e, "INSERT INTO reads.t SELECT number, '2026-01-02 03:04:05' FROM numbers(5)")
	for query, wanted := range map[string]string{
		"SELECT sum(a) FROM reads.t":     "10",
		"SELECT * FROM reads.v":          "10",
		"SELECT count() FROM numbers(3)": "3",
		"WITH x AS (SELECT 1 AS a) SELECT count() FROM x JOIN reads.t USING a": "1",
		"SELECT count() FROM system.tables WHERE database='reads'":             "2",
		"SELECT count() FROM system.columns WHERE database='reads'":            "3",
		"SELECT sum(rows) FROM system.parts WHERE active AND database='reads'": "5",
		"SELECT currentUser(), timezone() != '', version() != ''":              "reader\t1\t1",
		"SELECT value FROM system.settings WHERE name = 'readonly'":            "1",
		"SHOW TABLES FROM reads":                               "t\nv",
		"EXISTS TABLE reads.t":                                 "1",
		"SELECT a FROM reads.t WHERE a = 3 FORMAT JSONEachRow": `{"a":3}`,
		"SELECT a FROM reads.t WHERE a = 3 FORMAT JSONEachRow SETTINGS output_format_json_quote_64bit_integers = 1": `{"a":"3"}`,
		"SELECT max(at) FROM reads.t SETTINGS session_timezone = 'Asia/Tokyo', date_time_output_format = 'iso'": "2026-01-02T03:04:05.00000" +
			"0000Z",
	} {
		got, err := ask(e, engine.Reader, e.ReaderPassword(), query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		} else if got != wanted {
			t.Errorf("%s: got %q, want %q", query, got, wanted)
		}
	}
	if _, err := ask(e, engine.Reader, e.ReaderPassword(), "SELECT * FROM reads.t FORMAT PrettyCompact"); err != nil {
		t.Error(err)
	}
	// As curl -u and clickhouse-client do, and as the drivers of ClickHouse, Inc. begin.
	for _, params := range []string{
		"query=SELECT+1", "query=SELECT+1&database=reads&default_format=TSV", "query=SELECT+1&enable_http_compression=1&compress=0",
		"query=SELECT+1&max_execution_time=300",
		"query=SELECT+1&wait_end_of_query=1&send_progress_in_http_headers=1&cancel_http_readonly_queries_on_client_close=1&http_headers_progres" +
			"s_interval_ms=9000",
		"query=SELECT+1&session_id=x&max_result_rows=10&result_overflow_mode=throw&extremes=0&readonly=1&log_comment=x&date_time_input_format=b" +
			"est_effort",
		"query=SELECT+{x:UInt8}&param_x=1&query_id=y",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.HTTPAddr()+"/?"+params, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-ClickHouse-User", engine.Reader)
		req.Header.Set("X-ClickHouse-Key", e.ReaderPassword())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "1\n" {
			t.Errorf("%s: %d %s", params, resp.StatusCode, body)
		}
	}
	for name, o := range map[string]clickhouse.Options{
		"native": {Addr: []string{e.TCPAddr()}}, "native lz4": {Addr: []string{e.TCPAddr()},
			Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4}},
		"HTTP": {Addr: []string{e.HTTPAddr()}, Protocol: clickhouse.HTTP},
		"HTTP lz4": {Addr: []string{e.HTTPAddr()}, Protocol: clickhouse.HTTP,
			Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4}},
		"HTTP gzip": {Addr: []string{e.HTTPAddr()}, Protocol: clickhouse.HTTP,
			Compression: &clickhouse.Compression{Method: clickhouse.CompressionGZIP}},
	} {
		o.Auth = clickhouse.Auth{Database: "reads", Username: engine.Reader, Password: e.ReaderPassword()}
		conn, err := clickhouse.Open(&o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // which the driver sends as a setting
		var sum uint64
		if err := conn.QueryRow(ctx, "SELECT sum(a) FROM t WHERE a < ?", 4).Scan(&sum); err != nil || sum != 6 {
			t.Errorf("%s: %d, %v", name, sum, err)
		}
		if err := conn.QueryRow(clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"x": "4"})),
			"SELECT sum(a) FROM t WHERE a < {x:UInt64}").Scan(&sum); err != nil || sum != 6 {
			t.Errorf("%s, with a parameter: %d, %v", name, sum, err)
		}
		cancel()
		conn.Close()
	}
}

// Bounds that the reader cannot lift leave the writer memory, threads and a turn.
func TestReaderIsBounded(t *testing.T) {
	e := enginetest.Start(t)
	for name, wanted := range map[string]string{
		"max_concurrent_queries_for_user": fmt.Sprint(min(64, max(8, 4*runtime.NumCPU()))), "max_execution_time": "60",
		"output_format_parallel_formatting": "0", "readonly": "1",
		"cancel_http_readonly_queries_on_client_close": "1", "max_memory_usage_for_user": fmt.Sprint((2 << 30) / 100 * 40),
	} {
		got, err := ask(e, engine.Reader, e.ReaderPassword(), "SELECT value FROM system.settings WHERE name = '"+name+"'")
		if err != nil {
			t.Fatal(err)
		}
		want(t, name, got, wanted)
	}
	_, err := ask(e, engine.Reader, e.ReaderPassword(), "SELECT length(groupArray(toString(number))) FROM numbers(100000000)")
	if err == nil || !strings.Contains(err.Error(), "MEMORY_LIMIT_EXCEEDED") {
		t.Errorf("a query for more memory than there is: %v", err)
	}
	running := func() string {
		return must(t, e, "SELECT count() FROM system.processes WHERE user = 'reader'")
	}
	for name, forget := range map[string]func(context.Context) error{
		"HTTP": func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.HTTPAddr()+"/", strings.NewReader(endless))
			if err != nil {
				return err
			}
			req.SetBasicAuth(engine.Reader, e.ReaderPassword())
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		},
		"native": func(ctx context.Context) error {
			conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
				Auth: clickhouse.Auth{Username: engine.Reader, Password: e.ReaderPassword()}})
			if err != nil {
				return err
			}
			defer conn.Close()
			return conn.QueryRow(ctx, endless).Err()
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- forget(ctx) }()
		eventually(t, 60*time.Second, name+": the query runs", func() bool { return running() == "1" })
		cancel()
		<-gone
		eventually(t, 60*time.Second, name+": the query ends with its client", func() bool { return running() == "0" })
	}
}

// endless would run for hours.
const endless = "SELECT count() FROM numbers(1000000000) AS a, numbers(1000000000) AS b WHERE cityHash64(a.number, b.number) = 1"

// Folders of before have the writer's password where the engine may look.
func TestPasswordsMoveOut(t *testing.T) {
	enginetest.Need(t)
	top := t.TempDir()
	dir := filepath.Join(top, "clickhouse")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, engine.WriterSecret), []byte("of-before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := engine.Config{Dir: dir, Secrets: top}
	var reader string
	for range 2 {
		filled, _, err := engine.Prepare(t.Context(), cfg, true)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "writer's password", filled.Password, "of-before")
		if reader == "" {
			reader = filled.ReaderPassword
		}
		if len(reader) < 26 || filled.ReaderPassword != reader {
			t.Errorf("the reader's password is %q, then %q", reader, filled.ReaderPassword)
		}
		if _, err := os.Stat(filepath.Join(dir, engine.WriterSecret)); !os.IsNotExist(err) {
			t.Errorf("the writer's password is still within the engine's folder: %v", err)
		}
		for _, name := range []string{engine.WriterSecret, engine.ReaderSecret} {
			if info, err := os.Stat(filepath.Join(top, name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
}

// The reader may be connected so often and no more: what is beyond is told so, and the writer comes in.
func TestReaderSessionsAreBounded(t *testing.T) {
	e := enginetest.Shared(t)
	var in, refused int
	for range 120 {
		conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()}, MaxOpenConns: 1,
			Auth: clickhouse.Auth{Username: engine.Reader, Password: e.ReaderPassword()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var exception *clickhouse.Exception
		switch err := conn.Ping(t.Context()); {
		case err == nil:
			in++
		case errors.As(err, &exception) && exception.Code == 700:
			refused++
		default:
			t.Fatal(err)
		}
	}
	if in != 102 || refused != 18 {
		t.Errorf("%d let in, %d refused; want 102, a tenth of 2 GiB, and 18", in, refused)
	}
	want(t, "the writer", must(t, e, "SELECT 1"), "1")
}
