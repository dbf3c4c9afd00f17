package sink_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// More parts than ClickHouse's own bound are damaged on disk: the engine starts in spite of it, what is lost is told by name, the audit
// does not balance, and what is sent from then on is there.
func TestDamagedPartsAreTold(t *testing.T) {
	w, start := own(t)
	stop := w.run(w.sink())
	for i := range 8 {
		w.publish(i%4, 50)
	}
	w.settled(5 * time.Minute)
	stop()
	c := w.conn()
	var folder string
	// A table that nothing merges while it is filled: more parts than the 100 that ClickHouse lets break.
	for _, sql := range []string{"CREATE TABLE many (n UInt64) ENGINE = MergeTree ORDER BY n PARTITION BY n",
		"INSERT INTO many SELECT number FROM numbers(99)", "INSERT INTO many SELECT 100 + number FROM numbers(99)"} {
		if err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	damage := func(table string) (n int) {
		if err := c.QueryRow(t.Context(), "SELECT data_paths[1] FROM system.tables WHERE database = currentDatabase() AND name = $1", table).
			Scan(&folder); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(folder, "*_*_*_*", "checksums.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			for _, name := range []string{"checksums.txt", "columns.txt", "count.txt", "primary.cidx", "data.bin"} {
				if _, err := os.Stat(filepath.Join(filepath.Dir(f), name)); err != nil {
					continue
				}
				if err := os.Truncate(filepath.Join(filepath.Dir(f), name), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		return len(files)
	}
	if n := damage("many"); n < 150 {
		t.Fatalf("%d parts to damage, want more than ClickHouse's own bound", n)
	}
	damaged := damage("kernels_data")
	c.Close()
	if err := syscall.Kill(w.e.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-w.e.Done()
	w.e = start()
	var log lines
	k := w.sink(func(c *sink.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	w.run(k)
	c = w.conn()
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	broken := func() (n int) {
		for _, b := range k.Broken() {
			if b.Table == "kernels_data" && strings.HasPrefix(b.Name, "broken") {
				n++
			}
		}
		return n
	}
	for broken() < damaged || !strings.Contains(log.String(), "table=kernels_data") {
		if ctx.Err() != nil {
			t.Fatalf("%d parts were damaged, told: %v\n%s", damaged, k.Broken(), log.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	r, err := sink.Audit(ctx, w.s, c, tabletest.Schema())
	if err != nil || r.OK() || !strings.Contains(strings.Join(r.Problems(), "\n"), "table kernels_data") {
		t.Errorf("audit: %v %v", r.Problems(), err)
	}
	seq := w.publish(0, 10)
	for {
		var n uint64
		if err := c.QueryRow(ctx, "SELECT max(last) FROM ledger").Scan(&n); err == nil && n >= seq {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("what was sent after the start did not come")
		}
		time.Sleep(50 * time.Millisecond)
	}
}
