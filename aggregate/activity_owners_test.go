package aggregate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// activityLoad publishes parts of copies, waits, samples and memsets over several sessions, each twice in uploads of their own cut.
func activityLoad(t testing.TB, s *broker.Streams, from, n int) {
	for i := from; i < from+n; i++ {
		session := fmt.Sprintf("s%d", i%5)
		base := 1795175929972803352 + int64(i)*7e9
		lines := []string{
			fmt.Sprintf(`{"type":"memcpy_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns","stream_id",`+
				`"duration_ns","bytes","copy_kind","corr_id"],"rows":[[0,7,%d,10,1,1],[5,7,9,20,2,2]]}`, session, i, base, i+1),
			fmt.Sprintf(`{"type":"synchronization_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
				`"duration_ns","sync_type","stream_id","event_id","context_id","corr_id","function_id"],"rows":[[0,%d,3,7,0,1,3,%d]]}`, session, i,
				base, 100+i, i%2),
			fmt.Sprintf(`{"type":"pm_sample_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["sample_index","dt_ns",`+
				`"device_id","metric_id","value","scope_name_id"],"rows":[[0,0,0,3,%d.25,2],[1,5,1,4,0.001,0]]}`, session, i, base, i),
			fmt.Sprintf(`{"type":"memset_event","session_id":"%s","start_ns":%d,"end_ns":%d,"corr_id":%d,"bytes":100}`, session, base, base+5, i+1),
			fmt.Sprintf(`{"type":"nvtx_marker_event","session_id":"%s","name":"m","start_ns":%d,"end_ns":%d}`, session, base, base+6),
		}
		publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprint("w", i)}, []byte(strings.Join(lines, "\n")+"\n"))
		publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprint("split", i)}, []byte(strings.Join(lines[:3], "\n")+"\n"))
		publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprint("split", i), Part: 1}, []byte(strings.Join(lines[3:], "\n")+"\n"))
	}
}

func checkActivity(t *testing.T, s *broker.Streams, n int) {
	t.Helper()
	parts, events := uint64(n), uint64(n*14)
	waitFor(t, s, "everything in rows and rollups", func(sum totals) bool {
		return sum["usage_data.events"] >= events && sum["memcpy_stats_data.calls"] >= 2*parts && sum["sync_stats_data.calls"] >= parts &&
			sum["pm_stats_data.samples"] >= 2*parts
	})
	time.Sleep(200 * time.Millisecond)
	sum := readRows(t, s)
	copies, waits := parts*9+parts*(parts+1)/2, parts*100+parts*(parts-1)/2
	for key, want := range map[string]uint64{
		"usage_data.events": events, "usage_data.duplicates": events / 2, "usage_data.rejected": 0,
		"memcpys_data": 2 * parts, "memcpys_data.duration_ns": copies, "memcpy_stats_data.calls": 2 * parts, "memcpy_stats_data.total_ns": copies,
		"memcpy_stats_data.bytes": 30 * parts,
		"syncs_data":              parts, "syncs_data.duration_ns": waits, "sync_stats_data.calls": parts, "sync_stats_data.total_ns": waits,
		"pm_samples_data": 2 * parts, "pm_stats_data.samples": 2 * parts,
		"memsets_data": parts, "memsets_data.bytes": 100 * parts, "markers_data": parts, "markers_data.duration_ns": 6 * parts,
	} {
		if sum[key] != want {
			t.Errorf("%s = %d, want %d", key, sum[key], want)
		}
	}
	if rows := sum["memcpy_stats_data"]; rows == 0 || rows > 2*parts {
		t.Errorf("%d rollup rows of %d copies", rows, 2*parts)
	}
}

// Minutes that are held, and lines that identify themselves, are part of the state: restarts count nothing twice and lose nothing.
func TestRestartKeepsMinutes(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	for i := range 4 {
		cfg := fast
		cfg.SnapshotChunks = 3
		stop := start(t, s, cfg)
		activityLoad(t, s, i*30, 30)
		time.Sleep(time.Duration(i) * 120 * time.Millisecond) // somewhere in the middle
		stop()
	}
	start(t, s, fast)
	checkActivity(t, s, 120)
}

// The same among workers that all believe they own every partition.
func TestTwoOwnersOfOneMinute(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	cfg := fast
	cfg.Greedy, cfg.SnapshotChunks = true, 2
	cfg.ChunkAge = 5 * time.Millisecond
	start(t, withoutLeases(t, s), cfg)
	rivals := []func(){start(t, withoutLeases(t, s), cfg), start(t, withoutLeases(t, s), cfg)}
	for i := range 10 {
		activityLoad(t, s, i*20, 20)
		time.Sleep(50 * time.Millisecond)
	}
	for _, stop := range rivals { // each take-over begins the wait of held minutes anew
		stop()
	}
	checkActivity(t, s, 200)
}
