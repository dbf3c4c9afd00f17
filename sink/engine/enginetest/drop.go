package enginetest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
)

// DropAtEnd drops a database when the test is over, in whatever state the engine is: a schema of all tables and views takes memory for as
// long as it is there, and a test binary makes dozens. Call it before anything that writes to the database registers its own clean-up.
func DropAtEnd(t testing.TB, e *engine.Engine, database string) {
	t.Helper()
	t.Cleanup(func() {
		q := url.Values{"query": {"DROP DATABASE IF EXISTS `" + strings.ReplaceAll(database, "`", "\\`") + "` SYNC"}}
		req, err := http.NewRequest(http.MethodPost, "http://"+e.HTTPAddr()+"/?"+q.Encode(), nil)
		if err != nil {
			return
		}
		req.SetBasicAuth(e.User(), e.Password())
		client := http.Client{Timeout: 60 * time.Second}
		if res, err := client.Do(req); err == nil {
			res.Body.Close()
		}
	})
}
