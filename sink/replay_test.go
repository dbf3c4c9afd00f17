package sink_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// replayer is that of the world's database.
func (w *world) replayer() sink.Replayer {
	w.t.Helper()
	conn := w.conn()
	w.t.Cleanup(func() { conn.Close() })
	return sink.Replayer{Streams: w.s, Conn: conn, URL: "http://" + w.e.HTTPAddr(), User: w.e.User(), Password: w.e.Password(),
		Schema: tabletest.Schema(), Database: w.db}
}

// What somebody took from a table comes back from ROWS, once, while the sink runs and rows come: also when the replay is killed between two
// statements or amid one and run again, and by two at once.
func TestReplayBringsBackWhatIsMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	for lost, c := range map[string]struct {
		do   []string
		rows uint64 // of kernels_data that are missing then
	}{
		"nothing": {nil, 0},
		"some rows, a tenant in a rollup, usage of a tenant": {[]string{
			"ALTER TABLE kernels_data DELETE WHERE corr_id = 3 OR tenant = 'beta' AND corr_id < 10 SETTINGS mutations_sync = 2",
			"ALTER TABLE kernel_stats_data DELETE WHERE tenant = 'beta' SETTINGS mutations_sync = 2",
			"ALTER TABLE usage_data DELETE WHERE tenant = 'beta' SETTINGS mutations_sync = 2"}, 176},
		"rows of the ledger": {[]string{"ALTER TABLE ledger DELETE WHERE lane = 0 SETTINGS mutations_sync = 2",
			"ALTER TABLE ledger DELETE WHERE lane = 1 AND table = 'kernels_data' AND retention_days = 30 SETTINGS mutations_sync = 2",
			"ALTER TABLE kernels_data DELETE WHERE corr_id = 3 SETTINGS mutations_sync = 2"}, 0},
		"a partition, a rollup": {[]string{"ALTER TABLE kernels_data DROP PARTITION (today(), 30)", "TRUNCATE TABLE kernel_stats_data"}, 800},
	} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			for i := range 16 {
				w.tenant = []string{"acme", "beta"}[i/8]
				w.publish(i%4, 100)
			}
			w.run(w.sink())
			w.settled(3 * time.Minute)
			for _, sql := range c.do {
				w.exec(sql)
			}
			w.tenant = "gamma"
			for i := range 4 { // the sink goes on
				w.publish(i, 10)
			}
			r := w.replayer()
			dry, err := r.Replay(t.Context(), sink.ReplayScope{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if c.rows > 0 && !slices.ContainsFunc(dry.Tables, func(r sink.Replayed) bool {
				return r.Table == "kernels_data" && r.Missing == c.rows && r.Back == 0
			}) || dry.Oldest.IsZero() || dry.Chunks < 16 {
				t.Errorf("the dry run says %+v", dry)
			}
			killed := errors.New("killed")
			calls := 0
			r.Step = func(string) error {
				if calls++; calls == 2 {
					return killed
				}
				return nil
			}
			if _, err := r.Replay(t.Context(), sink.ReplayScope{}); err != nil && !errors.Is(err, killed) {
				t.Fatal(err)
			}
			r.Step = nil
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				r.Step = func(string) error { time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel); return nil }
				r.Replay(ctx, sink.ReplayScope{})
				cancel()
			}
			r.Step = nil
			var two sync.WaitGroup
			for range 2 {
				two.Go(func() {
					if _, err := r.Replay(t.Context(), sink.ReplayScope{}); err != nil {
						t.Error(err)
					}
				})
			}
			two.Wait()
			w.settled(3 * time.Minute)
			if lines, _ := w.books(sink.Scope{}); len(lines) > 0 {
				t.Errorf("the books say %q", lines)
			}
			again, err := r.Replay(t.Context(), sink.ReplayScope{})
			if err != nil || len(again.Tables) > 0 || len(again.Left) > 0 || len(again.Beyond) > 0 {
				t.Errorf("after it %+v (%v)", again, err)
			}
		})
	}
}

// What was deleted on purpose does not come back with what was lost, nor another tenant's rows with one's.
func TestReplayLeavesWhatWasDeleted(t *testing.T) {
	w := shared(t)
	for i := range 8 {
		w.tenant = []string{"acme", "beta"}[i/4]
		w.publish(i%4, 100)
	}
	w.publish(0, 10, func(c *stream.Chunk) {
		c.Deletes = []stream.Deletion{{ID: "d", Tenant: "beta", Session: "session-0"}}
	})
	w.run(w.sink())
	c := w.conn()
	defer c.Close()
	rows := func(where string) (n uint64) {
		t.Helper()
		if err := c.QueryRow(t.Context(), "SELECT count() FROM kernels_data WHERE "+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var n uint64
		const gone = "SELECT count() FROM ledger WHERE token = 'deleted' AND table = 'kernels_data' AND owner != ''"
		if err := c.QueryRow(t.Context(), gone).Scan(&n); err == nil && n > 0 && rows("tenant = 'beta' AND session_id = 'session-0'") == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the deletion was not carried out")
		}
	}
	w.exec("ALTER TABLE kernels_data DELETE WHERE corr_id < 10 SETTINGS mutations_sync = 2")
	r := w.replayer()
	out, err := r.Replay(t.Context(), sink.ReplayScope{Scope: sink.Scope{Tenant: "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := rows("tenant = 'beta' AND corr_id < 10"); n > 0 {
		t.Errorf("%d rows of another tenant came back", n)
	}
	if len(out.Beyond) != 1 || out.Beyond[0].Chunks == 0 || len(out.Left) == 0 {
		t.Errorf("what is beyond reach is not told: %+v", out)
	}
	if out, err = r.Replay(t.Context(), sink.ReplayScope{}); err != nil {
		t.Fatal(err)
	}
	if a, b := rows("tenant = 'beta' AND session_id = 'session-0'"), rows("tenant = 'beta' AND corr_id < 10"); a > 0 || b == 0 {
		t.Errorf("%d rows of the deleted session, %d of the others came back: %+v", a, b, out)
	}
}
