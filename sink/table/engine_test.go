package table_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
)

// store is a database of a test's own on the shared engine.
type store struct {
	testing.TB
	e    *engine.Engine
	conn driver.Conn
	opts table.Options
	// answers holds what of has asked, by query and tenant.
	answers map[string]map[string][]string
}

var databases atomic.Int32

// newStore returns an empty store; ensured says whether the schema is made too.
func newStore(t testing.TB, ensured bool) *store {
	t.Helper()
	s := &store{TB: t, e: enginetest.Shared(t)}
	s.opts.Database = fmt.Sprintf("table_test_%d", databases.Add(1))
	enginetest.DropAtEnd(t, s.e, s.opts.Database)
	s.conn = s.connect()
	if ensured {
		if err := table.Ensure(context.Background(), s.conn, s.opts); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *store) connect() driver.Conn {
	s.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{s.e.TCPAddr()},
		Auth: clickhouse.Auth{Username: s.e.User(), Password: s.e.Password()},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	return conn
}

// exec runs a statement in which {db} is the store's database.
func (s *store) exec(sql string) {
	s.Helper()
	if err := s.conn.Exec(context.Background(), strings.ReplaceAll(sql, "{db}", s.opts.Database)); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// post sends a query over HTTP, with body after it, and returns the answer.
func (s *store) post(sql string, body io.Reader, settings ...string) (string, error) {
	q := url.Values{"query": {strings.ReplaceAll(sql, "{db}", s.opts.Database)}, "database": {s.opts.Database}}
	for _, kv := range settings {
		k, v, _ := strings.Cut(kv, "=")
		q.Set(k, v)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+s.e.HTTPAddr()+"/?"+q.Encode(), body)
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(s.e.User(), s.e.Password())
	res, err := http.DefaultClient.Do(req)
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

// query returns the answer as tab-separated lines.
func (s *store) query(sql string, settings ...string) string {
	s.Helper()
	out, err := s.post(sql, nil, settings...)
	if err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSuffix(out, "\n")
}

func (s *store) want(sql, want string) {
	s.Helper()
	if got := s.query(sql); got != want {
		s.Errorf("%s\n got %q\nwant %q", sql, got, want)
	}
}

var inserts atomic.Int32

// insert sends batches of one table as one spliced stream, under a token of its own: equal blocks without a token would
// be taken for one.
func (s *store) insert(batches ...*table.Batch) {
	s.Helper()
	token := fmt.Sprint("insert_deduplication_token=", inserts.Add(1))
	t := batches[0].Table()
	stream := slices.Clone(t.SchemaMessage())
	for _, b := range batches {
		var err error
		if _, stream, err = b.Encode(stream); err != nil {
			s.Fatal(err)
		}
	}
	if _, err := s.post(t.InsertSQL(s.opts.Database), bytes.NewReader(append(stream, table.EOS()...)), "async_insert=0", token); err != nil {
		s.Fatalf("insert into %s: %v", t.Name, err)
	}
}
