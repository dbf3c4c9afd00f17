package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// Somebody takes rows, a rollup and usage of a running service: the audit names tenant, table, day and count, its command brings them back,
// and after it the audit is content.
func TestReplay(t *testing.T) {
	dir := dataFolder(t)
	_, _, sql := serving(t, dir)
	run := runAt(t, dir)
	run(exitOK, "send", "../../testdata/gpuflight/trace_default")
	eventually(t, sql, "SELECT count() FROM warpline.kernels", "300")
	eventually(t, sql, "SELECT sum(calls) FROM warpline.kernel_stats", "280")
	settled(t, dir)
	sums := query(t, sql, "SELECT sum(total_ns), sum(calls) FROM warpline.kernel_stats")
	// Nothing more comes into usage: where rows of the same key are left, those before them do not come back.
	eventually(t, sql, "SELECT toUInt8(sum(door_events) = sum(events)) FROM warpline.usage", "1")
	balanced(t, "--deep", "--data", dir)

	srv, err := service.WriterOf(dir, "warpline")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := srv.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, do := range []string{
		"ALTER TABLE warpline.kernels_data DELETE WHERE corr_id % 3 = 0 SETTINGS mutations_sync = 2",
		"TRUNCATE TABLE warpline.kernel_stats_data", "TRUNCATE TABLE warpline.usage_data", "TRUNCATE TABLE warpline.launches",
		"TRUNCATE TABLE warpline.memcpys_data"} {
		if err := conn.Exec(context.Background(), do); err != nil {
			t.Fatal(err)
		}
	}
	today := time.Now().UTC().Format(time.DateOnly)
	got := run(exitUnbalanced, "audit", "--tenant", "default", "--deep")
	for _, words := range []string{"tenant default, table kernels_data, received in " + today, "rows fewer than it was given",
		"table kernel_stats_data", "no row is left", "table usage_data", "table launches", "table memcpys_data",
		"warpline replay --tenant default --table kernels_data --from " + today + " --to " + today} {
		if !strings.Contains(got.stderr, words) {
			t.Errorf("the audit does not say %q: %s", words, got.stderr)
		}
	}
	run(exitUnbalanced, "replay", "--dry-run")
	run(exitUsage, "replay", "--table", "no_such")
	run(exitUnbalanced, "replay", "--table", "kernels_data", "--tenant", "default", "--from", "1d", "--dry-run")
	run(exitOK, "replay", "--table", "kernels_data", "--tenant", "default", "--from", "1d")
	eventually(t, sql, "SELECT count() FROM warpline.kernels", "300")
	if back := run(exitOK, "replay"); !strings.Contains(back.stdout, "memcpys_data") || !strings.Contains(back.stderr, "replay window: ") {
		t.Errorf("%+v", back)
	}
	eventually(t, sql, "SELECT sum(total_ns), sum(calls) FROM warpline.kernel_stats", sums)
	balanced(t, "--deep", "--data", dir)
}
