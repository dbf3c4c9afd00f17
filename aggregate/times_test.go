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

// timedKernels is a batch of kernels that began so long after received.
func timedKernels(session string, id int, received int64, after ...time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,`+
		`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`,
		session, id, received)
	for i, d := range after {
		fmt.Fprintf(&b, "[%d,1,7,1000,%d,0,32,0],", d.Nanoseconds(), id*1000+i)
	}
	return strings.TrimSuffix(b.String(), ",") + "]}\n"
}

// Events whose times are not within the tenant's limits, from when the gateway received them, are rejects, each line with its bytes. Their
// neighbours are stored, and so is what has another clock or says what a session is. What was refused as a whole is stored when it comes
// again after the limits were raised, and the books balance all the while.
func TestTimesBeyondTheLimitsAreRejects(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	const received = int64(1795176000e9)
	at := func(d time.Duration) int64 { return received + d.Nanoseconds() }
	const hour = time.Hour
	memset := func(begin, end time.Duration) string {
		return fmt.Sprintf(`{"type":"memset_event","session_id":"s","corr_id":1,"device_id":"0","stream_id":"0","start_ns":%d,"end_ns":%d,`+
			`"bytes":5}`+"\n", at(begin), at(end))
	}
	lines := []string{
		fmt.Sprintf(`{"version":1,"type":"job_start","pid":5,"app":"a","session_id":"s","ts_ns":%d}`+"\n", at(-50*hour)), // what it is
		timedKernels("s", 1, received, -2*hour, -hour, 0, time.Minute, time.Minute+1),                                    // 3 of 5 are within
		timedKernels("s", 2, received, -2*hour, -3*hour, -hour-1),                                                        // none is
		timedKernels("s", 3, received, 2*hour),                                                                           // none is
		timedKernels("s", 4, 1000, 0, hour),                                                                              // another clock
		memset(-2*hour, -2*hour),
		memset(-hour, 0),
		fmt.Sprintf(`{"type":"nvtx_marker_event","session_id":"s","name":"n","start_ns":%d,"end_ns":%d}`+"\n", at(2*hour), at(3*hour)),
		fmt.Sprintf(`{"type":"kernel_event","session_id":"s","name":"gemm","start_ns":%d,"duration_ns":5,"corr_id":9}`+"\n", at(-2*hour)),
		fmt.Sprintf(`{"type":"scope_begin","session_id":"s","name":"x","user_scope":"x","ts_ns":%d,"scope_depth":0}`+"\n", at(-2*hour)),
		`{"version":1,"type":"host_metric_batch","session_id":"s","batch_id":1,"base_time_ns":1000,"columns":["dt_ns","cpu_pct_x100",` +
			`"ram_used_mib","ram_total_mib"],"rows":[[0,5,6,7]]}` + "\n", // 1970, where the calendar's clock is known to be meant
	}
	const events, rejected = 1 + 5 + 3 + 1 + 2 + 1 + 1 + 1 + 1 + 1 + 1, 2 + 3 + 1 + 1 + 1 + 1 + 1 + 1
	body := []byte(strings.Join(lines, ""))
	e := stream.Envelope{Session: "s", Identity: "one", ReceivedAt: received, PastNS: int64(hour), FutureNS: int64(time.Minute)}
	publish(t, s, e, body)
	check := func(what string, sum totals, want map[string]uint64) {
		t.Helper()
		for name, n := range want {
			if sum[name] != n {
				t.Errorf("%s: %s is %d, want %d", what, name, sum[name], n)
			}
		}
	}
	sum := waitFor(t, s, "the first", func(sum totals) bool { return sum["usage_data.events"] == events })
	check("first", sum, map[string]uint64{
		"usage_data.rejected": rejected, "usage_data.duplicates": 0, "rejects_data.events": rejected,
		"kernels_data": 5, "memsets_data": 1, "markers_data": 0, "rejects_data": 9, "rejects_data.reason=too_old": 6,
		"rejects_data.reason=in_future":                                                                             3,
		"rejects_data.payload=" + strings.TrimSuffix(lines[5], "\n"):                                                1,
		"rejects_data.detail=1 of the 5 rows of the line are further before their receipt than limit-past = 1h0m0s": 1,
		"rejects_data.detail=1 of the 5 rows of the line are further after their receipt than limit-future = 1m0s":  1,
		"rejects_data.detail=all events of the line are further before their receipt than limit-past = 1h0m0s":      5,
		"rejects_data.detail=all events of the line are further after their receipt than limit-future = 1m0s":       2,
	})

	// The same in an upload of its own is no second reject.
	e.Identity = "again"
	publish(t, s, e, []byte("\n"+string(body)))
	sum = waitFor(t, s, "the second", func(sum totals) bool { return sum["usage_data.events"] == 2*events })
	check("again", sum, map[string]uint64{"usage_data.rejected": rejected, "usage_data.duplicates": events})

	// Without limits, what was refused as a whole is stored. Of the batch of which some rows are stored the others are not known apart.
	e.Identity, e.PastNS, e.FutureNS = "later", 0, 0
	publish(t, s, e, []byte("\n\n"+string(body)))
	sum = waitFor(t, s, "the third", func(sum totals) bool { return sum["usage_data.events"] == 3*events })
	const late = rejected - 2
	check("raised", sum, map[string]uint64{"usage_data.rejected": rejected,
		"usage_data.duplicates": 2*events - late, "kernels_data": 5 + 3 + 1 + 1, "memsets_data": 2, "markers_data": 1})

	// And what is stored is a duplicate when it comes again when it is too old.
	e.Identity, e.PastNS, e.ReceivedAt = "old", 1, received+int64(100*hour)
	publish(t, s, e, []byte("\n\n\n"+string(body)))
	sum = waitFor(t, s, "the fourth", func(sum totals) bool { return sum["usage_data.events"] == 4*events })
	check("old", sum, map[string]uint64{"usage_data.rejected": rejected})
}

// So it is with records of memory telemetry, which come again in each export of a tracker. A limit far beyond what a clock can say is none.
func TestTimesOfTelemetryBeyondTheLimits(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	const received = int64(1795176000e9)
	var body []byte
	for i, d := range []time.Duration{-2 * time.Hour, -time.Minute, 0, 2 * time.Hour} {
		one := sample{ns: received + d.Nanoseconds(), kind: "sample", collector: "stormlog.cuda_tracker", host: "h", sampling: 100,
			pid: 7, world: 1, metadata: map[string]any{}}
		body = append(body, one.frame(t, i)...)
	}
	e := stream.Envelope{Session: "mem:x", Kind: stream.KindTelemetry, Source: "telemetry", Identity: "one", Events: 4, ReceivedAt: received,
		PastNS: int64(time.Hour), FutureNS: 1 << 62}
	publish(t, s, e, body)
	sum := waitFor(t, s, "the first", func(sum totals) bool { return sum["usage_data.events"] == 4 })
	if sum["memory_events_data"] != 3 || sum["rejects_data.reason=too_old"] != 1 || sum["usage_data.rejected"] != 1 {
		t.Errorf("%d rows, %d too old, %d rejected", sum["memory_events_data"], sum["rejects_data.reason=too_old"], sum["usage_data.rejected"])
	}
	e.Identity, e.ReceivedAt, e.FutureNS = "later", received+int64(3*time.Hour), 0
	publish(t, s, e, body)
	sum = waitFor(t, s, "the second", func(sum totals) bool { return sum["usage_data.events"] == 8 })
	if sum["memory_events_data"] != 3 || sum["usage_data.rejected"] != 2 || sum["usage_data.duplicates"] != 3 {
		t.Errorf("%d rows, %d rejected, %d duplicates", sum["memory_events_data"], sum["usage_data.rejected"], sum["usage_data.duplicates"])
	}
}
