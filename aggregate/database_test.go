package aggregate_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// database is a schema of a test's own on the shared engine, into which chunks are put as the sink would.
type database struct {
	testing.TB
	e      *engine.Engine
	name   string
	number int32 // no other of the process has it
}

var databases atomic.Int32

func newDatabase(t testing.TB) *database {
	t.Helper()
	if testing.Short() {
		t.Skip("asks an engine, which the race detector has nothing to say about")
	}
	return &database{TB: t, e: enginetest.Shared(t), name: tabletest.Database(t), number: databases.Add(1)}
}

// loadViews puts every chunk on ROWS into a database of its own.
func loadViews(t testing.TB, s *broker.Streams) *database {
	t.Helper()
	d := newDatabase(t)
	d.load(s)
	return d
}

// load inserts every chunk of ROWS.
func (d *database) load(s *broker.Streams) {
	d.Helper()
	for p := range s.Partitions {
		for seq := uint64(1); ; {
			msg, err := s.Rows.GetMsg(context.Background(), seq, jetstream.WithGetMsgSubject(stream.RowsSubject(p)))
			if err != nil {
				break
			}
			seq = msg.Sequence + 1
			c, _, section, err := stream.ParseChunk(msg.Data)
			if err != nil {
				d.Fatal(err)
			}
			pieces, err := c.Split(section)
			if err != nil {
				d.Fatal(err)
			}
			for i := range c.Tables {
				piece, err := c.Tables[i].Unpack(nil, pieces[i])
				if err != nil {
					d.Fatal(err)
				}
				token := fmt.Sprintf("insert_deduplication_token=%d-%d-%d-%d", d.number, p, msg.Sequence, i)
				d.post(tabletest.Schema().Table(c.Tables[i].Table).InsertSQL(d.name), bytes.NewReader(append(piece, table.EOS()...)), "async_insert=0",
					token)
			}
		}
	}
}

func (d *database) post(sql string, body io.Reader, settings ...string) string {
	d.Helper()
	q := url.Values{"query": {sql}, "database": {d.name}, "output_format_json_quote_64bit_integers": {"0"}}
	for _, kv := range settings {
		k, v, _ := strings.Cut(kv, "=")
		q.Set(k, v)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+d.e.HTTPAddr()+"/?"+q.Encode(), body)
	if err != nil {
		d.Fatal(err)
	}
	req.SetBasicAuth(d.e.User(), d.e.Password())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		d.Fatalf("%s: %s %s %v", sql, res.Status, out, err)
	}
	return string(out)
}

// want compares a query's answer, tab-separated lines.
func (d *database) want(sql, want string) {
	d.Helper()
	if got := strings.TrimSuffix(d.post(sql, nil), "\n"); got != want {
		d.Errorf("%s\n got %q\nwant %q", sql, got, want)
	}
}
