package table_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Whatever kernels and windows there are, at the edges of minutes above all, kernel_stats says of each minute, kernel and scope what the
// kernels themselves say, and scope_stats counts all of them.
func TestStatsSayWhatKernelsSay(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 3))
		// Milliseconds since 10:00: near the edges of a few minutes, or anywhere.
		moment := func() int {
			if r.IntN(2) == 0 {
				return 60_000*(1+r.IntN(6)) + []int{-1, 0, 1, -59_999, 30_000}[r.IntN(5)]
			}
			return r.IntN(480_000)
		}
		at := func(ms int) string {
			return time.Date(2026, 11, 20, 10, 0, 0, ms%1000*1e6, time.UTC).Add(time.Duration(ms/1000) * time.Second).Format("15:04:05.000")
		}
		s := newTruth(t)
		s.kernels = nil
		for range 600 {
			d := uint64(r.IntN(4)) * ms / 2
			if r.IntN(8) == 0 {
				d = uint64(r.IntN(60_001)) * ms
			}
			s.kernels = append(s.kernels, kernelAt{session: []string{"w", "v"}[r.IntN(2)], at: at(moment()), duration: d,
				kernel: uint32(1 + r.IntN(2)), scope: []string{"", "train"}[r.IntN(2)]})
		}
		if seed > 0 {
			for range 1 + r.IntN(6) {
				from := moment()
				s.Exec(fmt.Sprintf("INSERT INTO {db}.deep_windows_data (tenant, session_id, started_at, ended_at) VALUES ('acme', "+
					"'w', '2026-11-20 %s', '2026-11-20 %s')", at(from), at(from+r.IntN(2)*r.IntN(100_000))))
			}
		}
		if seed == 2 {
			s.Exec("INSERT INTO {db}.synthetic_sessions_data (tenant, session_id) VALUES ('acme', 'v'), ('other', 'w')")
		}
		s.Exec("INSERT INTO {db}.scope_stats_data (tenant, session_id, bucket, bucket_s, name_id, scope, calls) VALUES ('acme', 'w', " +
			"'2026-11-20 10:00:00', 60, 1, 'train', 1), ('acme', 'v', '2026-11-20 10:00:00', 60, 1, 'train', 1)")
		s.facts()
		s.raw()
		s.rollup(60)
		key := "session_id, kernel, if(kernel = '', kernel_id, 0) AS id, scope"
		kernels := "SELECT " + key + ", CAST(toStartOfMinute(started_at), 'DateTime64(9, \\'UTC\\')') AS bucket, countIf(NOT " +
			"synthetic AND NOT disturbed) AS calls, sumIf(duration_ns, NOT synthetic AND NOT disturbed) AS ns, " +
			"countIf(NOT synthetic AND disturbed) AS hit, countIf(synthetic) AS made_up FROM {db}.kernels GROUP BY ALL"
		stats := "SELECT " + key + ", bucket, calls, total_ns, disturbed_calls, synthetic_calls FROM {db}.kernel_stats WHERE calls + " +
			"disturbed_calls + synthetic_calls > 0"
		s.Want("SELECT count() FROM ("+kernels+" EXCEPT "+stats+")", "0")
		s.Want("SELECT count() FROM ("+stats+" EXCEPT "+kernels+")", "0")
		s.sumsAgree(t)
		s.Want("SELECT sum(calls + disturbed_calls + synthetic_calls) FROM {db}.kernel_stats", fmt.Sprint(len(s.kernels)))
		s.Want("SELECT (SELECT count() FROM {db}.kernels WHERE disturbed) > 0", []string{"0", "1", "1"}[seed])
		s.Want("SELECT (SELECT sum(kernels) FROM {db}.scope_stats) = (SELECT count() FROM {db}.kernels WHERE scope = 'train'), "+
			"(SELECT sum(kernel_ns) FROM {db}.scope_stats) = "+
			"(SELECT sum(duration_ns) FROM {db}.kernels WHERE scope = 'train' AND NOT disturbed AND NOT synthetic)",
			strings.Join([]string{"1", "1"}, "\t"))
	}
}
