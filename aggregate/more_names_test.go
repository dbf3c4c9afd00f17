package aggregate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// What has a name beyond those that a session may have is added up under one name, also by a worker that takes over, and sums over all
// names are the totals. An id that was used before any name was refused gets its name late when it comes after all. When the limit is
// raised and the names come, what follows has them, and so have the rows that keep ids.
func TestNamesBeyondALimitHaveOneName(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	most := 3 // names of the session
	say := func(identity string, lines ...string) {
		t.Helper()
		publish(t, s, stream.Envelope{Session: "s", Identity: identity, Names: most}, []byte(strings.Join(lines, "\n")+"\n"))
	}
	line := func(kind, rest string) string {
		return fmt.Sprintf(`{"type":"%s","session_id":"s",%s}`, kind, rest)
	}
	names := func(rest string) string { return line("dictionary_update", rest) }
	batch := 0
	rows := func(kind, columns, rows string) string {
		batch++
		return line(kind, fmt.Sprintf(`"batch_id":%d,"base_time_ns":%d,"columns":[%s],"rows":[%s]`, batch, 1795175929972803352, columns, rows))
	}
	kernels := func(ids ...int) string {
		batch++
		return strings.TrimSuffix(kernelsOf("s", batch, ids...), "\n")
	}
	scopes := func(ids ...int) string { // one in the other
		var begin, end []string
		for depth, id := range ids {
			begin = append(begin, fmt.Sprintf("[%d,%d,%d,0,%d]", batch*1000+depth, id, batch*1000+depth, depth))
			end = append([]string{fmt.Sprintf("[%d,%d,%d,1,%d]", batch*1000+500-depth, id, batch*1000+depth, depth)}, end...)
		}
		return rows("scope_event_batch", `"dt_ns","name_id","scope_instance_id","event_type","depth"`, strings.Join(append(begin, end...), ","))
	}
	written := func(kernels, scopes uint64) {
		t.Helper()
		waitFor(t, s, "all rows", func(sum totals) bool {
			return sum["kernels_data"] >= kernels && sum["kernel_stats_data.calls"] >= kernels && sum["scope_stats_data.calls"] >= scopes
		})
	}

	say("early", names(`"kernel_dict":{"1":"k1"},"scope_name_dict":{"1":"s1"}`), kernels(1, 9), scopes(1, 9))
	written(2, 2)
	say("over", names(`"kernel_dict":{"2":"k2","3":"k3","9":"k9"},"scope_name_dict":{"2":"s2"}`), names(`"scope_name_dict":{"9":"s9"}`),
		names(`"metric_dict":{"6":"m6"},"function_dict":{"5":"f5"}`), kernels(2, 3, 4, 9), scopes(1, 2, 3), scopes(1, 3), scopes(3),
		rows("synchronization_event_batch", `"dt_ns","duration_ns","sync_type","stream_id","event_id","context_id","corr_id","function_id"`,
			"[1,1000,3,1,1,1,1,5],[1,1000,3,1,1,1,1,0]"),
		rows("pm_sample_batch", `"sample_index","dt_ns","device_id","metric_id","value","scope_name_id"`, "[0,1,0,6,2.5,3]"),
		rows("profile_sample_batch", `"dt_ns","corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason",`+
			`"sample_kind","scope_name_id","source_file_id","source_line"`,
			"[1,1,0,5,16,6,7,0,0,3,4,1],[1,1,0,5,16,7,5,0,0,2,4,1],[1,1,0,5,16,6,7,0,1,3,4,1],[1,1,0,5,16,8,5,0,1,1,4,1]"))
	written(6, 8)
	stop()
	stop = start(t, s, fast)
	say("over", kernels(1, 3, 5, 9)) // a part that was folded
	say("successor", kernels(1, 3, 5, 9), scopes(9, 3))
	written(10, 10)
	stop()
	const kernelSums = "SELECT kernel, sum(calls) FROM kernel_stats WHERE session_id = 's' GROUP BY kernel ORDER BY kernel"
	const kernelRows = "SELECT kernel, count() FROM kernels WHERE session_id = 's' GROUP BY kernel ORDER BY kernel"
	d := loadViews(t, s)
	for _, c := range [][2]string{
		{kernelSums, "(more names)\t7\nk1\t2\nk2\t1"},
		{strings.ReplaceAll(kernelSums, "kernel_stats", "kernel_sums"), "(more names)\t7\nk1\t2\nk2\t1"},
		{kernelRows, "(more names)\t7\nk1\t2\nk2\t1"},
		// They are stored under one id, but for what was written before the session was full.
		{"SELECT kernel_id, kernel, sum(calls) FROM kernel_stats_data WHERE kernel_id NOT IN (1, 2) GROUP BY ALL ORDER BY ALL",
			"0\t(more names)\t6\n9\t\t1"},
		{"SELECT name_id, scope, sum(calls) FROM scope_stats_data WHERE name_id != 1 GROUP BY ALL ORDER BY ALL",
			"0\t(more names)\t6\n9\t\t1"},
		{"SELECT name, count() FROM scopes GROUP BY name ORDER BY name", "(more names)\t7\ns1\t3"},
		{"SELECT scope, sum(calls) FROM scope_stats GROUP BY scope ORDER BY scope", "(more names)\t7\ns1\t3"},
		{"SELECT scope, sum(calls) FROM scope_sums GROUP BY scope ORDER BY scope", "(more names)\t7\ns1\t3"},
		{"SELECT path, calls FROM scope_paths ORDER BY path", "(more names)\t2\n(more names)|(more names)\t1\ns1\t3\ns1|(more names)\t3\n" +
			"s1|(more names)|(more names)\t1"},
		{"SELECT stack_trace, calls FROM sync_stats ORDER BY ALL", "\t1\n(more names)\t1"},
		{"SELECT stack_trace, count() FROM syncs GROUP BY ALL ORDER BY ALL", "\t1\n(more names)\t1"},
		{"SELECT metric_name, scope, value FROM pm_samples", "(more names)\t(more names)\t2.5"},
		{"SELECT metric_name, scope, sum_value FROM pm_stats", "(more names)\t(more names)\t2.5"},
		{"SELECT function, function_id, stall_reason, scope, samples FROM pc_samples", "(more names)\t5\t(more names)\t(more names)\t12"},
		{"SELECT metric_name, metric_id, scope, metric_value FROM profile_metrics ORDER BY ALL",
			"(more names)\t6\t(more names)\t7\n(more names)\t8\ts1\t5"},
		{"SELECT metrics FROM instructions", "{'metric_6':7,'metric_8':5}"},
		{"SELECT count(), min(late) FROM dictionaries WHERE dict = 'more_names'", "1\t1"},
	} {
		d.want(c[0], c[1])
	}

	most = 0
	start(t, s, fast)
	say("raised", names(`"kernel_dict":{"3":"k3","9":"k9"},"scope_name_dict":{"9":"s9","3":"s3"}`), kernels(3, 9, 4), scopes(9, 3))
	written(13, 12)
	d = loadViews(t, s)
	d.want(kernelSums, "(more names)\t7\nk1\t2\nk2\t1\nk3\t1\nk9\t2")
	d.want(kernelRows, "(more names)\t3\nk1\t2\nk2\t1\nk3\t3\nk9\t4")
	d.want("SELECT scope, sum(calls) FROM scope_stats GROUP BY scope ORDER BY scope", "(more names)\t6\ns1\t3\ns3\t1\ns9\t2")
	d.want("SELECT path, calls FROM scope_paths WHERE path LIKE '%s9%' ORDER BY path", "s1|s9\t1\ns9\t1\ns9|s3\t1")
}
