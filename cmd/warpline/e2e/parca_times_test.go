package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// An agent whose clock is wrong: what lies between 1970 and 2262 (but for its last two days) is in the minute that it says, the rest is a
// reject, and what is right beside it is counted. Rows do not expire by such times, and the audit is clean.
func TestParcaTimesOfAWrongClock(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--partitions", "4")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a := c.agent(c.grpcAddr, c.makeKey("acme"))
	// Times end two days before 64 bits do.
	const now, latest = int64(1795168800000000000), 1<<63 - 1 - int64(48*time.Hour)
	times := []int64{now, 1, 60e9, -1, 0, now, 1 << 31 * 1e9, 1<<32*1e9 - 1, 1 << 32 * 1e9, 65536 * 86400 * 1e9, 7258118400 * 1e9,
		now, latest - 1000, latest + 1, 1<<63 - 1, -1 << 63}
	want, minutes, kernels, bad, bytes := map[string][]uint64{}, map[string][]uint64{}, map[string][]uint64{}, uint64(0), uint64(0)
	rows := []parca.WireRow{}
	for i, at := range times {
		f := fmt.Sprintf("_Z4time%d", i)
		k := parcaBatch("node", 0)[60]
		k.Stacktrace[0].SystemName, k.TimestampUnixNS = f, at
		rows = append(rows, pcRow(at, "node", "", "", f, 16, "smsp__pcsamp_warps_issue_stalled_wait", int64(i+1)), k)
		if at <= 0 || at > latest {
			bad += 2
			continue
		}
		want[f] = []uint64{uint64(i + 1)}
		minutes[f] = []uint64{uint64(at / 60e9 * 60)}
		kernels[f] = []uint64{uint64(k.Value), uint64(at)}
	}
	for range 2 {
		batch := parcatest.Arrow(rows)
		bytes = uint64(len(batch))
		if err := a.WriteArrow(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct {
		what, sql string
		want      map[string][]uint64
	}{
		{"samples", "SELECT toString(function), toUInt64(sum(samples)) FROM pc_samples WHERE tenant = 'acme' GROUP BY function", want},
		{"lines", "SELECT toString(function), toUInt64(sum(samples)) FROM pc_lines WHERE tenant = 'acme' GROUP BY function", want},
		{"minutes", "SELECT toString(function), toUInt64(toUnixTimestamp64Second(toDateTime64(any(bucket), 0))) FROM pc_samples WHERE tenant = " +
			"'acme' GROUP BY function", minutes},
		{"kernels", "SELECT toString(kernel), toUInt64(duration_ns), toUInt64(toUnixTimestamp64Nano(started_at)) FROM kernels WHERE tenant = " +
			"'acme'", kernels},
	} {
		eventually(t, 3*time.Minute, q.what, func() (bool, string) {
			got, err := c.tryRows(q.sql)
			return err == nil && sums(got) == sums(q.want), fmt.Sprintf("%v\n%s\nwant\n%s", err, sums(got), sums(q.want))
		})
	}
	c.books(t, "acme", uint64(len(rows)), bad, bytes)
	c.auditClean(t)
}
