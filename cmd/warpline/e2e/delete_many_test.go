package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/engine"
)

// A thousand sessions go in one command, which takes seconds: deletions that come together are one statement a table.
func TestDeleteThousandSessions(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	red := c.makeKey("red")
	const sessions = 1000
	id := func(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; i <= sessions; i += 8 {
				w := &window{session: id(i), channel: "device", id: "w" + id(i), sequence: 1}
				w.gz = zip([]byte(`{"version":1,"type":"kernel_event_batch","session_id":"` + w.session + `","batch_id":1,` +
					`"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs",` +
					`"has_details"],"rows":[[0,1,7,5,1,0,32,0]]}` + "\n"))
				if err := w.deliver(ctx, c.gatewayAddr, red, true); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	eventually(t, 3*time.Minute, "all are stored", func() (bool, string) {
		have := fmt.Sprint(c.one("SELECT sum(kernels) FROM sessions_data"), c.one("SELECT sum(calls) FROM kernel_stats_data"),
			c.one("SELECT count() FROM kernels_data"))
		return have == fmt.Sprint(sessions+1, sessions+1, sessions+1), have
	})
	args := []string{"session", "delete", "red"}
	for i := range sessions { // and one stays
		args = append(args, id(i))
	}
	began := time.Now()
	out, err := exec.Command(binary, append(append(args, "--yes", "--wait", "8m"), c.reach()...)...).CombinedOutput()
	took := time.Since(began)
	if err != nil || !strings.Contains(string(out), "kernels_data") {
		t.Fatalf("session delete: %v\n%s", err, out[max(0, len(out)-3000):])
	}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{c.clickTCP}, // who reads sees no mutations
		Auth: clickhouse.Auth{Database: "warpline", Username: engine.Writer, Password: c.secret(engine.WriterSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var mutations uint64 // ClickHouse keeps the newest 100 of a table
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.mutations WHERE database = 'warpline' AND table = 'kernels_data'").
		Scan(&mutations); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sessions were deleted in %v with %d mutations of kernels_data", sessions, took.Round(100*time.Millisecond), mutations)
	if mutations == 0 || mutations > 50 {
		t.Errorf("%d mutations of kernels_data for %d sessions", mutations, sessions)
	}
	for _, table := range []string{"kernels_data", "sessions_data", "kernel_stats_data"} {
		if left := c.rows("SELECT '', uniqExact(session_id), countIf(session_id != '" + id(sessions) + "') FROM " + table)[""]; left[0] != 1 ||
			left[1] != 0 {
			t.Errorf("%s has %d sessions left, want 1; %d rows of others", table, left[0], left[1])
		}
	}
	eventually(t, 3*time.Minute, "the audit is content", func() (bool, string) {
		out, err := exec.Command(binary, append([]string{"audit"}, c.reach()...)...).CombinedOutput()
		return err == nil, string(out)
	})
}
