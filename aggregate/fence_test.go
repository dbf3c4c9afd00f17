package aggregate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// load publishes n parts of kernels with details over several sessions and returns what must be counted.
func load(t testing.TB, s *broker.Streams, from, n int) (kernels, total uint64) {
	for i := from; i < from+n; i++ {
		session := fmt.Sprintf("s%d", i%5)
		var b bytes.Buffer
		if i < 5 {
			fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"%s","kernel_dict":{"1":"alpha","2":"beta"}}`+"\n", session)
		}
		k, ns := tenKernels(&b, session, i)
		kernels, total = kernels+k, total+ns
		publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprintf("w%d", i)}, b.Bytes())
		publishDetails(t, s, session, i)
	}
	return kernels, total
}

// tenKernels appends the i-th batch of kernels, of which five have details.
func tenKernels(b *bytes.Buffer, session string, i int) (kernels, total uint64) {
	fmt.Fprintf(b, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
		`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, session, i+1)
	for k := range 10 {
		if k > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "[%d,%d,7,%d,%d,0,32,%d]", k*10, 1+k%2, 1000+k, i*10+k+1, k%2)
		kernels++
		total += uint64(1000 + k)
	}
	b.WriteString("]}\n")
	return kernels, total
}

// publishDetails publishes those of the i-th batch.
func publishDetails(t testing.TB, s *broker.Streams, session string, i int) {
	var b bytes.Buffer
	for k := 1; k < 10; k += 2 {
		b.WriteString(detailLine(session, i*10+k+1, fmt.Sprintf("train|step%d", k%4)))
	}
	publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprintf("w%d", i), Part: 1}, b.Bytes())
}

func detailLine(session string, corr int, scope string) string {
	return fmt.Sprintf(`{"version":1,"type":"kernel_detail","session_id":"%s","pid":1,"app":"a","corr_id":%d,"grid":"(1,2,3)","block":"(4,`+
		`5,6)","static_shared":0,"local_bytes":0,"const_bytes":0,"occupancy":0.500000,"reg_occupancy":0.5,"smem_occupancy":0.5,`+
		`"warp_occupancy":0.5,"block_occupancy":0.5,"limiting_resource":"warps","max_active_blocks":1,"local_mem_total_bytes":0,`+
		`"local_mem_per_thread_bytes":0,"cache_config_requested":0,"cache_config_executed":0,"shared_mem_executed_bytes":0,`+
		`"user_scope":"%s","stack_trace":""}`+"\n", session, corr, scope)
}

func checkLoad(t *testing.T, s *broker.Streams, kernels, total uint64) {
	t.Helper()
	waitFor(t, s, "every kernel in rows and rollup", func(sum totals) bool {
		return sum["kernels_data"] >= kernels && sum["kernel_stats_data.calls"] >= kernels
	})
	time.Sleep(200 * time.Millisecond)
	sum := readRows(t, s)
	for key, want := range map[string]uint64{
		"kernels_data": kernels, "kernels_data.duration_ns": total, "kernel_stats_data.calls": kernels, "kernel_stats_data.total_ns": total,
		"kernels_data.kernel=alpha": kernels / 2, "kernels_data.kernel=beta": kernels / 2,
		"kernels_data.scope=train|step1": kernels / 10 * 3, "kernels_data.scope=train|step3": kernels / 10 * 2,
		"kernels_data.scope=": kernels / 2,
		"kernel_details_data": 0,
	} {
		if sum[key] != want {
			t.Errorf("%s = %d, want %d", key, sum[key], want)
		}
	}
}

// A worker that is stopped and started again and again goes on where the log says, names included.
func TestRestartGoesOn(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	var kernels, total uint64
	for i := range 4 {
		cfg := fast
		cfg.SnapshotChunks = 3
		stop := start(t, s, cfg)
		k, ns := load(t, s, i*30, 30)
		kernels, total = kernels+k, total+ns
		time.Sleep(time.Duration(i) * 120 * time.Millisecond) // somewhere in the middle
		stop()
	}
	start(t, s, fast)
	checkLoad(t, s, kernels, total)
}

// Workers that all believe they own every partition fence each other; nothing is lost or doubled.
func TestTwoOwnersOfOnePartition(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	cfg := fast
	cfg.Greedy, cfg.SnapshotChunks = true, 2
	cfg.ChunkAge = 5 * time.Millisecond
	cfg.Hold = 20 * time.Millisecond // a second, and three of them can fence each other before any rollup has waited for so long
	for range 3 {
		start(t, withoutLeases(t, s), cfg)
	}
	kernels, total := uint64(0), uint64(0)
	for i := range 10 {
		k, ns := load(t, s, i*20, 20)
		kernels, total = kernels+k, total+ns
		time.Sleep(50 * time.Millisecond)
	}
	checkLoad(t, s, kernels, total)
}

// withoutLeases gives each worker a lease bucket of its own, so that each believes it owns everything.
func withoutLeases(t testing.TB, s *broker.Streams) *broker.Streams {
	other := *s
	other.Leases = brokertest.Bucket(t, s, "LEASES_"+broker.NewID())
	return &other
}

// Names that come after the rollup rows that use them are marked late; rows keep the id.
func TestLateDictionary(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	row := func(i int) []byte {
		return fmt.Appendf(nil, `{"version":1,"type":"kernel_event_batch","session_id":"x","batch_id":%d,"base_time_ns":1795175929972803352,`+
			`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,9,7,5,%d,0,32,`+
			`0]]}`+"\n", i, i)
	}
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, row(1))
	waitFor(t, s, "the nameless row", func(sum totals) bool {
		return sum["kernel_stats_data.kernel="] == 1 && sum["kernels_data.kernel_id"] == 9
	})
	stop() // "used before known" must survive
	start(t, s, fast)
	publish(t, s, stream.Envelope{Session: "x", Identity: "b"}, []byte(`{"version":1,"type":"dictionary_update","session_id":"x",`+
		`"kernel_dict":{"9":"late one","10":"early one"}}`+"\n"))
	publish(t, s, stream.Envelope{Session: "x", Identity: "c"}, row(2))
	sum := waitFor(t, s, "the named row", func(sum totals) bool {
		return sum["kernel_stats_data.kernel=late one"] == 1 && sum["kernels_data.kernel=late one"] == 2
	})
	if sum["dictionaries"] != 2 || sum["dictionaries.late"] != 1 {
		t.Errorf("dictionaries = %d rows, %d late; want 2 and 1", sum["dictionaries"], sum["dictionaries.late"])
	}
}

// What cannot be stored is a reject with its reason; its neighbours are stored.
func TestRejectsLeaveNeighboursAlone(t *testing.T) {
	batch := func(columns, rows string) string {
		return `{"version":1,"type":"kernel_event_batch","session_id":"x","batch_id":1,"base_time_ns":1795175929972803352,"columns":[` + columns +
			`],"rows":[` + rows + `]}`
	}
	const all = `"dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"`
	for name, c := range map[string]struct {
		lines   string
		kernels uint64
		rejects map[string]uint64
	}{
		"nan":               {batch(all, "[0,1,1,nan,1,0,0,0]"), 0, map[string]uint64{"bad_json": 1}},
		"ragged row":        {batch(all, "[0,1,1,5,1,0,0,0],[0,1],[1,1,1,6,2,0,0,0]"), 2, map[string]uint64{"ragged_row": 1}},
		"negative duration": {batch(all, "[0,1,1,-5,1,0,0,0],[1,1,1,6,2,0,0,0]"), 1, map[string]uint64{"negative_duration": 1}},
		"negative dt":       {batch(all, "[-50,1,1,5,1,0,0,0]"), 1, nil},
		"time before 1970":  {batch(all, "[-1795175929972803353,1,1,5,1,0,0,0],[0,1,1,5,1,0,0,0]"), 1, map[string]uint64{"bad_time": 1}},
		"missing column":    {batch(`"dt_ns","kernel_id"`, "[0,1]"), 0, map[string]uint64{"missing_column": 1}},
		"unknown column":    {batch(all+`,"new"`, "[0,1,1,5,1,0,0,0,77]"), 1, nil},
		"reordered columns": {batch(`"kernel_id","dt_ns","duration_ns","stream_id","corr_id","dyn_shared","num_regs","has_details"`,
			"[1,0,5,1,1,0,0,0]"), 1, nil},
		"unknown type":  {`{"type":"from_the_future","session_id":"x"}`, 0, map[string]uint64{"unknown_type": 1}},
		"missing field": {`{"type":"memset_event","session_id":"x"}`, 0, map[string]uint64{"missing_field": 1}},
		"another session": {`{"type":"kernel_event_batch","session_id":"y","base_time_ns":1,"columns":[` + all +
			`],"rows":[[0,1,1,5,1,0,0,0]]}`, 0, map[string]uint64{"session_mismatch": 1}},
		"no session":            {`{"type":"shutdown"}`, 0, map[string]uint64{"session_missing": 1}},
		"torn line":             {batch(all, "[0,1,1,5,1,0,0,0]")[:150], 0, map[string]uint64{"bad_json": 1}},
		"invalid UTF-8 in name": {"{\"type\":\"dictionary_update\",\"session_id\":\"x\",\"kernel_dict\":{\"1\":\"a\xffb\"}}", 0, nil},
		"uint64 beyond 2^63":    {batch(all+`,"external_kind","external_id"`, "[0,1,1,5,1,0,0,0,4,18446744073709551615]"), 1, nil},
		"beyond uint64": {batch(all+`,"external_kind","external_id"`, "[0,1,1,5,1,0,0,0,4,18446744073709551616]"), 0,
			map[string]uint64{"out_of_range": 1}},
		"detail without a row": {strings.TrimSpace(detailLine("x", 5, "")), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			start(t, s, fast)
			good := strings.Replace(batch(all, "[0,3,3,1000,99,0,0,0]"), `"batch_id":1`, `"batch_id":2`, 1)
			publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, []byte(good+"\n"+c.lines+"\n"+strings.Replace(good, `"batch_id":2`,
				`"batch_id":3`, 1)+"\n"))
			sum := waitFor(t, s, "all events accounted", func(sum totals) bool { return sum["usage_data.events"] > 0 })
			if sum["kernels_data"] != c.kernels+2 {
				t.Errorf("%d kernels, want %d and the 2 neighbours", sum["kernels_data"], c.kernels)
			}
			total := uint64(0)
			for reason, n := range c.rejects {
				total += n
				if sum["rejects_data.reason="+reason] != n {
					t.Errorf("rejects of %s: %d, want %d (have %v)", reason, sum["rejects_data.reason="+reason], n, sum)
				}
			}
			if sum["rejects_data"] != total || sum["usage_data.rejected"] != sum["rejects_data.events"] {
				t.Errorf("%d reject rows, want %d; usage says %d rejected", sum["rejects_data"], total, sum["usage_data.rejected"])
			}
		})
	}
}
