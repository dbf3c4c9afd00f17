package aggregate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// Kernels that wait for details which never come, in many sessions of one tenant: what waits is bounded over all of them, each kernel
// counts
// once, and another tenant's kernels get theirs.
func TestPendingOfAllSessionsIsBounded(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	cfg := fast
	cfg.RawWait, cfg.DetailWait = time.Minute, time.Minute
	cfg.NamesBytes = 1 << 20 // 128 KiB may wait: 1000 kernels
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	start(t, s, cfg)
	waiting := func(session string, n int) string {
		ids := make([]int, n)
		for i := range ids {
			ids[i] = 1 + i%5
		}
		return strings.ReplaceAll(kernelsOf(session, 1, ids...), ",0,32,0]", ",0,32,1]")
	}
	publish(t, s, stream.Envelope{Tenant: "honest", Session: "h", Identity: "k"}, []byte(waiting("h", 5)))
	const sessions, each = 40, 100
	for i := range sessions {
		session := fmt.Sprint("flood", i)
		publish(t, s, stream.Envelope{Tenant: "flood", Session: session, Identity: "k"}, []byte(waiting(session, each)))
	}
	waitFor(t, s, "most of the flood", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= 3000 })
	if n := metric(t, reg, "warpline_worker_pending_given_up_total"); n < 30 || n > sessions {
		t.Errorf("%v sessions gave up what waited", n)
	}
	var b strings.Builder
	for i := range 5 {
		b.WriteString(detailLine("h", 1000+i, "train|honest"))
	}
	publish(t, s, stream.Envelope{Tenant: "honest", Session: "h", Identity: "d"}, []byte(b.String()))
	sum := waitFor(t, s, "the honest ones", func(sum totals) bool { return sum["kernels_data.scope=train|honest"] >= 5 })
	if sum["kernels_data.scope=train|honest"] != 5 || sum["kernel_details_data"] != 0 || sum["kernels_data"] > sessions*each+5 ||
		sum["kernel_stats_data.calls"] > sessions*each+5 {
		t.Errorf("%d kernels, %d in rollups, %d in their scope, %d details alone", sum["kernels_data"], sum["kernel_stats_data.calls"],
			sum["kernels_data.scope=train|honest"], sum["kernel_details_data"])
	}
}
