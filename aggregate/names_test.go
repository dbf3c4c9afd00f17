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

// namesOf is a dictionary of n names of some size.
func namesOf(session string, from, n, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"%s","kernel_dict":{`, session)
	for i := range n {
		fmt.Fprintf(&b, `"%d":"%s-%d-%s",`, from+i, session, from+i, strings.Repeat("n", size))
	}
	return strings.TrimSuffix(b.String(), ",") + "}}\n"
}

func kernelsOf(session string, batch int, ids ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
		`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, session, batch)
	for i, id := range ids {
		fmt.Fprintf(&b, "[%d,%d,7,1000,%d,0,32,0],", i, id, batch*1000+i)
	}
	return strings.TrimSuffix(b.String(), ",") + "]}\n"
}

// metric is the value of a gauge or counter without labels. A worker that was started just now may not have registered it yet.
func metric(t testing.TB, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if m.GetName() == name {
				return m.GetMetric()[0].GetGauge().GetValue() + m.GetMetric()[0].GetCounter().GetValue()
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no metric %s", name)
		}
	}
}

// One budget holds over the names of all sessions, of a flood and after a restart that every session of it speaks after; and every row
// has its name all the same, whose session spoke before, between and after.
func TestNamesOfAllSessionsHaveOneBudget(t *testing.T) {
	const budget, sessions = 4 << 20, 60
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	cfg := fast
	cfg.NamesBytes = budget
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	stop := start(t, s, cfg)
	most := 0.0
	say := func(tenant, session, identity, body string) {
		publish(t, s, stream.Envelope{Tenant: tenant, Session: session, Identity: identity}, []byte(body))
		most = max(most, metric(t, reg, "warpline_worker_names_bytes"))
	}
	kernels := uint64(0)
	wait := func() {
		waitFor(t, s, "every kernel", func(sum totals) bool {
			most = max(most, metric(t, reg, "warpline_worker_names_bytes"))
			return sum["kernels_data"] >= kernels && sum["kernel_stats_data.calls"] >= kernels
		})
	}
	say("honest", "h", "names", namesOf("h", 1, 10, 20))
	for i := range sessions {
		session := fmt.Sprint("flood", i)
		say("flood", session, "names", namesOf(session, 1, 200, 1000)+kernelsOf(session, 1, 1, 200))
		say("honest", "h", fmt.Sprint("k", i), kernelsOf("h", 1+i, 1+i%10))
		kernels += 3
	}
	wait()
	if dropped := metric(t, reg, "warpline_worker_names_dropped_total"); dropped < sessions/2 {
		t.Errorf("%v sessions gave their names up", dropped)
	}
	if most > 1.5*budget || most < budget/2 {
		t.Errorf("%.0f bytes of names, the budget is %d", most, budget)
	}
	stop()
	reg, most = prometheus.NewRegistry(), 0
	cfg.Registerer = reg
	start(t, s, cfg)
	for i := range sessions { // a short line each brings all of the names back
		say("flood", fmt.Sprint("flood", i), "again", kernelsOf(fmt.Sprint("flood", i), 2, 7))
		kernels++
	}
	say("honest", "h", "last", kernelsOf("h", 1000, 3))
	kernels++
	wait()
	if most > 1.5*budget {
		t.Errorf("%.0f bytes of names after a restart, the budget is %d", most, budget)
	}
	sum := readRows(t, s)
	if sum["kernels_data"] != kernels || sum["kernel_stats_data.calls"] != kernels || sum["rejects_data"] != 0 ||
		sum["kernels_data.kernel="] != 0 || sum["kernel_stats_data.kernel="] != 0 {
		t.Errorf("%d kernels of %d, %d of them and %d rollups without a name, %d rejects", sum["kernels_data"], kernels,
			sum["kernels_data.kernel="], sum["kernel_stats_data.kernel="], sum["rejects_data"])
	}
	if metric(t, reg, "warpline_worker_names_refused_total") != 0 {
		t.Error("names are refused")
	}
}

// A session that has more names than one may keep in memory goes on: its rows keep their ids, and the names are there to be looked up.
func TestNamesOfOneSessionAreBounded(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	cfg := fast
	cfg.NamesBytes = 1 << 20 // 64 KiB a session
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	start(t, s, cfg)
	publish(t, s, stream.Envelope{Session: "s", Identity: "a"}, []byte(namesOf("s", 1, 300, 1000)+kernelsOf("s", 1, 1, 299)))
	publish(t, s, stream.Envelope{Session: "s", Identity: "b"}, []byte(namesOf("s", 250, 100, 1000)+kernelsOf("s", 2, 2, 300)))
	sum := waitFor(t, s, "every kernel", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= 4 })
	if sum["kernels_data"] != 4 || sum["dictionaries"] != 349 || sum["rejects_data"] != 0 || sum["kernel_stats_data.kernel="] != 2 ||
		sum["dictionaries.late"] < 280 {
		t.Errorf("%d kernels, %d names, %d of them late, %d rejects, %d rollups without a name", sum["kernels_data"], sum["dictionaries"],
			sum["dictionaries.late"], sum["rejects_data"], sum["kernel_stats_data.kernel="])
	}
	if n := metric(t, reg, "warpline_worker_names_refused_total"); n < 280 || n > 300 {
		t.Errorf("%v names are refused", n)
	}
}
