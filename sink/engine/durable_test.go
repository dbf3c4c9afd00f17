package engine_test

import (
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine/enginetest"
)

// What survives a power cut is the engine's default, so that tables which an older build made have it too: none of them sets any of these.
func TestPartsAreSyncedAndKept(t *testing.T) {
	e := enginetest.Shared(t)
	for name, want := range map[string]string{
		"fsync_after_insert": "1", "fsync_part_directory": "1",
		"min_rows_to_fsync_after_merge": "1", "min_compressed_bytes_to_fsync_after_merge": "1",
		"old_parts_lifetime": "60", "max_suspicious_broken_parts": "1000000", "max_suspicious_broken_parts_bytes": "1000000000000",
	} {
		if got := must(t, e, "SELECT value FROM system.merge_tree_settings WHERE name = '"+name+"'"); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	enginetest.DropAtEnd(t, e, "durable")
	must(t, e, "CREATE DATABASE IF NOT EXISTS durable")
	must(t, e, "CREATE TABLE durable.t (n UInt64) ENGINE = MergeTree ORDER BY n")
	must(t, e, "INSERT INTO durable.t SELECT 1")
	must(t, e, "INSERT INTO durable.t SELECT 2")
	must(t, e, "OPTIMIZE TABLE durable.t FINAL")
	time.Sleep(500 * time.Millisecond)
	// The sources of a merge stay for a minute: libchdb's own default drops them at once.
	if got := must(t, e, "SELECT countIf(active), countIf(NOT active) FROM system.parts WHERE database = 'durable'"); got != "1\t2" {
		t.Errorf("active and kept parts after a merge: %q, want 1 and 2", got)
	}
}
