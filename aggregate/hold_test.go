package aggregate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// Many sessions that send little: their rollup rows are held back, survive restarts in the state, and come out few and exact.
func TestSparseSessionsShareFewRollupRows(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	const sessions, rounds = 80, 7 // an eighth would make them dense enough to go out
	var kernels, total uint64
	stop := func() {}
	for round := range rounds {
		if round%3 == 0 { // another owner takes over in mid-flight: the one before gets no chance to write out what it holds
			cfg := fast
			cfg.Hold, cfg.Greedy, cfg.SnapshotChunks = time.Hour, true, 2+round
			next := start(t, withoutLeases(t, s), cfg)
			time.Sleep(200 * time.Millisecond)
			stop()
			stop = next
		}
		for i := range sessions {
			id := fmt.Sprintf("s%d", i)
			body := fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
				`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,%d,%d,0,`+
				`32,0],[9,2,7,%d,%d,0,32,0]]}`+"\n",
				id, round+1, 100+round, 2*round+1, 5000+i, 2*round+2)
			publish(t, s, stream.Envelope{Session: id, Identity: fmt.Sprint("w", round)}, []byte(body))
			kernels += 2
			total += uint64(100+round) + uint64(5000+i)
		}
		waitFor(t, s, "the round's raw rows", func(sum totals) bool { return sum["kernels_data"] == kernels })
	}
	if rows := readRows(t, s)["kernel_stats_data"]; rows != 0 {
		t.Errorf("%d rollup rows went out while they should wait", rows)
	}
	stop() // who leaves writes what waits
	sum := readRows(t, s)
	for key, want := range map[string]uint64{"kernels_data": kernels, "kernel_stats_data.calls": kernels, "kernel_stats_data.total_ns": total,
		"sessions_data.kernels": kernels} {
		if sum[key] != want {
			t.Errorf("%s = %d, want %d", key, sum[key], want)
		}
	}
	if rows := sum["kernel_stats_data"]; rows != 2*sessions { // two kernels of each, in one bucket
		t.Errorf("%d rollup rows for %d sessions with two kernels each", rows, sessions)
	}
}

// What a session sent into the chunk that is open when its owner leaves goes out whole, though nothing of it was held back before. A state
// that
// is made anew from parts relies on it: where the last chunk held nothing, nothing may be left to write.
func TestWhoLeavesHoldsNothingBack(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	reg := prometheus.NewRegistry()
	cfg := fast
	cfg.ChunkAge, cfg.Hold, cfg.Registerer = time.Hour, time.Hour, reg
	stop := start(t, s, cfg)
	publish(t, s, stream.Envelope{Session: "s", Identity: "w"}, []byte(`{"version":1,"type":"kernel_event_batch","session_id":"s",`+
		`"batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared",`+
		`"num_regs","has_details"],"rows":[[0,1,7,100,1,0,32,0],[9,2,7,100,2,0,32,0]]}`+"\n"))
	folded := func() (n float64) {
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.GetName() == "warpline_worker_parts_total" {
				for _, m := range f.GetMetric() {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	for deadline := time.Now().Add(60 * time.Second); folded() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the part is not folded")
		}
	}
	stop()
	if sum := readRows(t, s); sum["kernels_data"] != 2 || sum["kernel_stats_data.calls"] != 2 || sum["sessions_data.kernels"] != 2 {
		t.Errorf("%d rows, %d calls, %d kernels of the session; want 2 of each", sum["kernels_data"], sum["kernel_stats_data.calls"],
			sum["sessions_data.kernels"])
	}
	last, err := s.Rows.GetLastMsgForSubject(t.Context(), stream.RowsSubject(0))
	if err != nil {
		t.Fatal(err)
	}
	if c, _, _, err := stream.ParseChunk(last.Data); err != nil || !c.Flushed {
		t.Errorf("the last chunk holds something back: %v", err)
	}
}
