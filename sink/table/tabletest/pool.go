package tabletest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
)

// made is a database with all tables and views of today. Making one takes ClickHouse seconds, most of them for the views, and emptying one
// takes it a moment: so what a test has left, and not changed but for rows, is given to the next.
type made struct {
	name  string
	shape string // what tables and views it has, to the letter
}

var (
	databases atomic.Int32
	spare     struct {
		mu  sync.Mutex
		all []made // that no test uses
	}
)

// newDatabase is a name that no other test of the process has. What is there when the test ends is dropped.
func newDatabase(t testing.TB, e *engine.Engine) string {
	name := fmt.Sprintf("table_test_%d", databases.Add(1))
	enginetest.DropAtEnd(t, e, name)
	return name
}

// Database returns the name of a database of the test's own on the shared engine, which has all tables and views of today, and no rows.
func Database(t testing.TB) string {
	t.Helper()
	e := enginetest.Shared(t)
	spare.mu.Lock()
	var m made
	if last := len(spare.all) - 1; last >= 0 {
		m, spare.all = spare.all[last], spare.all[:last]
	}
	spare.mu.Unlock()
	if m.name == "" {
		m.name = fmt.Sprintf("table_test_%d", databases.Add(1))
		conn := connect(t, e)
		err := Schema().Ensure(context.Background(), conn, table.Options{Database: m.name})
		conn.Close()
		if err == nil {
			m.shape, err = m.look(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { m.release(t, e) })
	return m.name
}

// release empties it for the next test, or drops it where that is not certain to be as good as a new one.
func (m made) release(t testing.TB, e *engine.Engine) {
	shape, err := m.look(e)
	if err == nil && shape == m.shape && !t.Failed() {
		var full string
		full, err = post(e, "SELECT DISTINCT table FROM system.parts WHERE active AND table != 'schema_history' AND database = "+
			table.Quote(m.name))
		for _, name := range strings.Fields(full) {
			if err == nil {
				_, err = post(e, "TRUNCATE TABLE "+m.name+"."+name)
			}
		}
		if err == nil {
			spare.mu.Lock()
			defer spare.mu.Unlock()
			spare.all = append(spare.all, m)
			return
		}
	}
	_, _ = post(e, "DROP DATABASE IF EXISTS "+m.name+" SYNC") // the engine ends with the process anyway
}

// look returns what tables and views there are.
func (m made) look(e *engine.Engine) (string, error) {
	return post(e, "SELECT name, uuid, create_table_query FROM system.tables WHERE database = "+table.Quote(m.name)+" ORDER BY name")
}

// post asks the engine as its writer.
func post(e *engine.Engine, sql string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+e.HTTPAddr()+"/?"+url.Values{"query": {sql}}.Encode(), nil)
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(e.User(), e.Password())
	client := http.Client{Timeout: time.Minute}
	return answer(client.Do(req))
}
