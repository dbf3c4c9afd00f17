package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Traces of our own make, each with what no vector has, and what is to be in SQL of them.
func (c *cluster) syntheticTraces(t *testing.T) {
	key := c.makeKey("synthetic")
	var names strings.Builder
	for i := range 70_000 {
		fmt.Fprintf(&names, `,{"ph":"X","cat":"c","name":"n%d","ts":%d,"dur":1}`, i, i)
	}
	rank := func(r, late int) string {
		return fmt.Sprintf(`{"distributedInfo":{"rank":%d,"world_size":2},"traceEvents":[
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":%d,"dur":%d,"args":{"device":0,"stream":7,"Seq":4,
 "Process Group Name":"0"}}]}`, r, 100+late, 50-late)
	}
	for _, tr := range []*trace{
		// The seed's: an arrow that leaves A at its end, where B begins and C after a while. Then one that starts where two begin.
		{name: "ends", body: []byte(`[{"ph":"X","name":"A","pid":1,"tid":1,"ts":100,"dur":10},
{"ph":"X","name":"K","pid":0,"tid":7,"ts":130,"dur":5},
{"ph":"s","id":1,"name":"f","cat":"g","pid":1,"tid":1,"ts":110},{"ph":"f","id":1,"name":"f","cat":"g","pid":0,"tid":"7","ts":130},
{"ph":"X","name":"long","pid":1,"tid":2,"ts":200,"dur":10},{"ph":"X","name":"short","pid":1,"tid":2,"ts":200,"dur":5},{"ph":"M","name":"x"},
{"ph":"X","name":"K2","pid":0,"tid":7,"ts":300,"dur":5},{"ph":"X","name":"Z","pid":9,"tid":9,"ts":1,"dur":1},
{"ph":"s","id":2,"name":"f","cat":"g","pid":1,"tid":2,"ts":200},{"ph":"t","id":2,"name":"f","cat":"g","pid":0,"tid":7,"ts":300},
{"ph":"f","id":2,"name":"f","cat":"g","pid":0,"tid":7,"ts":300},{"ph":"s","id":3,"name":"f","cat":"g","pid":1,"tid":2,"ts":200},
{"ph":"f","id":3,"name":"f","cat":"g","pid":9,"tid":9,"ts":1}]`)},
		// A kernel 10^14 ns before its launch, and one 1 us before.
		{name: "astray", body: []byte(`[{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":200000000000,"dur":2,
 "args":{"correlation":1}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":100000000000,"dur":5,"args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":200000000010,"dur":2,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":200000000009,"dur":5,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":200000000012,"dur":5,"args":{"correlation":4294967296}}]`)},
		// Two processes in one file, with one correlation.
		{name: "merged", body: []byte(`[{"ph":"X","cat":"cuda_runtime","name":"l","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":7}},
{"ph":"X","cat":"cuda_runtime","name":"l","pid":2,"tid":1,"ts":6,"dur":2,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":5,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":5,"args":{"correlation":7}}]`)},
		{name: "torn", body: []byte(`{"traceEvents":[{"ph":"i","name":"a","ts":1},{"ph":`)},
		{name: "counters", body: []byte(`[{"ph":"C","name":"m","pid":1,"ts":5,"args":{"a":1.5,"b":"2","c":"x","d":NaN}}]`)},
		{name: "names", body: []byte("[" + names.String()[1:] + "]")},
		{name: "rank0", body: []byte(rank(0, 0))}, {name: "rank1", body: []byte(rank(1, 30))},
	} {
		tr.deliver(t, c.gatewayAddr, key, 0)
	}
	for what, q := range map[string][3]string{
		"arrows": {"trace_flows", "session_id, kind, correlation, from_name, toUnixTimestamp64Nano(from_started_at), from_duration_ns, " +
			"to_name, toUnixTimestamp64Nano(to_started_at), to_duration_ns", `
trace:astray|launch|1|cudaLaunchKernel|200000000000000|2000|k|100000000000000|5000
trace:astray|launch|2|cudaLaunchKernel|200000000010000|2000|k|200000000009000|5000
trace:ends|g|1|A|100000|10000|K|130000|5000
trace:ends|g|2|K2|300000|5000|K2|300000|5000
trace:ends|g|2|short|200000|5000|K2|300000|5000
trace:ends|g|3|short|200000|5000|Z|1000|1000`},
		"a breakdown": {"trace_breakdown", "session_id, span_ns, busy_ns, summed_ns", `trace:astray|8000|8000|10000
trace:merged|15000|10000|10000
trace:rank0|50000|50000|50000
trace:rank1|20000|20000|20000`},
		"launches": {"trace_launches", "session_id, correlation, delay_ns, inverted", "trace:astray|1|0|1\ntrace:astray|2|0|1"},
		"large ids": {"kernels", "session_id, corr_id, count()", "trace:astray|0|1\ntrace:astray|1|1\n" +
			"trace:astray|2|1\ntrace:merged|7|2\ntrace:rank0|0|1\ntrace:rank1|0|1"},
		"ambiguous launches": {"(SELECT * FROM trace_gpu WHERE ambiguous = 1)", "session_id, launched, count()", "trace:merged|0|2"},
		"counters":           {"trace_counters", "name, series, value", "m|a|1.5\nm|b|2"},
		"collectives": {"trace_collectives", "run_id, process_group, seq, ranks, skew_ns, transfer_ns, late_rank",
			"night|0|4|2|30000|20000|1"},
		"sessions": {"sessions", "session_id, rank, world_size, state", `trace:astray|-1|0|complete
trace:counters|-1|0|complete
trace:ends|-1|0|complete
trace:merged|-1|0|complete
trace:names|-1|0|complete
trace:rank0|0|2|complete
trace:rank1|1|2|complete
trace:torn|-1|0|crashed`},
		"names": {"(SELECT tenant, uniqExact(name) AS names, sum(calls) AS total, sumIf(calls, name = '(more names)') AS more FROM trace_stats " +
			"WHERE category = 'c' GROUP BY tenant)", "names, total, more", "65536|70000|4465"},
		"their slices": {"(SELECT tenant, uniqExact(name) AS names FROM trace_slices WHERE category = 'c' GROUP BY tenant)", "names", "70000"},
	} {
		columns := strings.Split(q[1], ", ")
		group := ""
		if strings.HasSuffix(q[1], "count()") {
			group = " GROUP BY " + strings.Join(columns[:len(columns)-1], ", ")
		}
		eventually(t, 3*time.Minute, what, func() (bool, string) {
			got, err := c.tryRows("SELECT arrayStringConcat(arraySort(groupArray(line)), '\n') FROM (SELECT concat(toString("+
				strings.Join(columns, "), '|', toString(")+")) AS line FROM "+q[0]+" WHERE tenant = $1"+group+")", "synthetic")
			if err != nil {
				return false, err.Error()
			}
			_, ok := got[strings.TrimSpace(q[2])]
			return ok, fmt.Sprintf("%.2000v, want %s", got, q[2])
		})
	}
}
