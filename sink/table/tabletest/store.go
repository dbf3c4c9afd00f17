// Package tabletest is what tests of tables and views share: a database on the shared engine, rows for every table, and a schema with the
// sources of today. The program's own list of sources is in cmd/warpline; tests of other sources name theirs.
package tabletest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/gpuflight"
	"github.com/warpline/warpline/sink/table/intrakernel"
	"github.com/warpline/warpline/sink/table/telemetry"
	"github.com/warpline/warpline/sink/table/trace"
)

// Schema returns the schema with the sources of today.
func Schema() *table.Schema { return schema() }

var schema = sync.OnceValue(func() *table.Schema { return with() })

// with returns the schema with the sources of today and more.
func with(more ...table.Source) *table.Schema {
	s, err := table.NewSchema(append([]table.Source{gpuflight.Source, intrakernel.Source, telemetry.Source, trace.Source}, more...)...)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}

// Store is a database of a test's own on the shared engine.
type Store struct {
	testing.TB
	Schema *table.Schema
	Engine *engine.Engine
	Conn   driver.Conn
	Opts   table.Options
}

// New returns an empty store with the sources of today and more; ensured says whether the schema is made too.
func New(t testing.TB, ensured bool, more ...table.Source) *Store {
	t.Helper()
	s := &Store{TB: t, Schema: Schema(), Engine: enginetest.Shared(t)}
	if ensured && len(more) == 0 {
		s.Opts.Database = Database(t)
		s.Conn = s.Connect()
		return s
	}
	s.Opts.Database = newDatabase(t, s.Engine)
	if len(more) > 0 {
		s.Schema = with(more...)
	}
	s.Conn = s.Connect()
	if ensured {
		if err := s.Schema.Ensure(context.Background(), s.Conn, s.Opts); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Connect opens another connection.
func (s *Store) Connect() driver.Conn {
	s.Helper()
	conn := connect(s, s.Engine)
	s.Cleanup(func() { conn.Close() })
	return conn
}

func connect(t testing.TB, e *engine.Engine) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Username: e.User(), Password: e.Password()}})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Exec runs a statement in which {db} is the store's database.
func (s *Store) Exec(sql string) {
	s.Helper()
	if err := s.Conn.Exec(context.Background(), strings.ReplaceAll(sql, "{db}", s.Opts.Database)); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// Post sends a query over HTTP, with body after it, and returns the answer.
func (s *Store) Post(sql string, body io.Reader, settings ...string) (string, error) {
	q := url.Values{"query": {strings.ReplaceAll(sql, "{db}", s.Opts.Database)}, "database": {s.Opts.Database}}
	for _, kv := range settings {
		k, v, _ := strings.Cut(kv, "=")
		q.Set(k, v)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+s.Engine.HTTPAddr()+"/?"+q.Encode(), body)
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(s.Engine.User(), s.Engine.Password())
	return answer(http.DefaultClient.Do(req))
}

// answer is the body of a response, or the error that it says.
func answer(res *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, out)
	}
	return string(out), err
}

// Query returns the answer as tab-separated lines.
func (s *Store) Query(sql string, settings ...string) string {
	s.Helper()
	out, err := s.Post(sql, nil, settings...)
	if err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSuffix(out, "\n")
}

// Want fails the test when the answer is not want.
func (s *Store) Want(sql, want string) {
	s.Helper()
	if got := s.Query(sql); got != want {
		s.Errorf("%s\n got %q\nwant %q", sql, got, want)
	}
}

var inserts atomic.Int32

// Insert sends batches of one table as one spliced stream, under a token of its own: without a token ClickHouse would drop the second of
// two equal blocks.
func (s *Store) Insert(batches ...*table.Batch) {
	s.Helper()
	token := fmt.Sprint("insert_deduplication_token=", inserts.Add(1))
	t := batches[0].Table()
	stream := slices.Clone(t.SchemaMessage())
	for _, b := range batches {
		var err error
		_, stream, err = b.Encode(stream)
		if err != nil {
			s.Fatal(err)
		}
	}
	if _, err := s.Post(t.InsertSQL(s.Opts.Database), bytes.NewReader(append(stream, table.EOS()...)), "async_insert=0",
		token); err != nil {
		s.Fatalf("insert into %s: %v", t.Name, err)
	}
}
