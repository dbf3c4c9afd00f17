package main

import (
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// A session that is older than its tenant may send is refused event by event, and stored once when the limit is raised and what was kept is
// sent again.
func TestEventsTooOldAreReplayed(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, append(upArgs(dir), "--limit-past", "1h", "--limit-future", "10m")...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	sql := asReader(t, dir, r.ClickHouseHTTP)
	if got := runIn(t, nil, "send", "../../testdata/gpuflight/trace_default", "--data", dir); got.code != exitFailed {
		t.Fatalf("%+v", got)
	}
	const old = "SELECT countIf(reason = 'too_old') > 0 AND countIf(reason != 'too_old') = 0 FROM warpline.rejects"
	settled(t, dir)
	eventually(t, sql, old, "1")
	if n := query(t, sql, "SELECT count() FROM warpline.kernels"); n != "0" {
		t.Errorf("%s kernels are stored", n)
	}
	if got := runIn(t, nil, "reject", "replay", "--tenant", "default", "--data", dir); got.code == exitOK {
		t.Errorf("they are still too old: %+v", got)
	}
	if got := runIn(t, nil, "tenant", "create", "default", "--limit-past", "876000h", "--data", dir); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	const session = "dbca9991-838e-4545-b1e3-570e3dac0e39"
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); { // until the gateway knows of the change
		runIn(t, nil, "reject", "replay", "--session", session, "--limit", "1000", "--data", dir)
		if query(t, sql, "SELECT min(replayed_at) > '2020-01-01' FROM warpline.rejects") == "1" {
			break
		}
	}
	eventually(t, sql, "SELECT count() FROM warpline.kernels", "300")
	eventually(t, sql, "SELECT sum(calls) FROM warpline.kernel_stats", "280") // without the disturbed ones, as in any order
	balanced(t, "--data", dir)
}
