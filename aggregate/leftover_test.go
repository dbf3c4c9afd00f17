package aggregate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// A line of a session's life with an odd field is stored without that field, whose bytes are kept; the books balance, and a line that comes
// on four channels tells it once.
func TestBadFieldsAreKept(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	reg := prometheus.NewRegistry()
	cfg := fast
	cfg.Registerer = reg
	stop := start(t, s, cfg)
	lines := []string{
		`{"type":"job_start","session_id":"x","app":"train","pid":"7","ts_ns":1795175929972801292,"host":{"cpu_pct":"high","ram_used_mib":5,` +
			`"ram_total_mib":17592186044416},"devices":[{"id":0,"name":"GPU","temp_c":"hot"}]}`,
		`{"type":"segment_start","session_id":"x","run_id":"r","segment_index":2,"actual_start_ns":1795175929972801292,"boundary_delay_ns":-1,` +
			`"new":true}`,
		`{"type":"capture_capabilities","session_id":"x","ts_ns":1795175929972801292,"capabilities":[{"feature":"kernel_events",` +
			`"requested":"yes","status":"collected"}]}`,
		`{"type":"deep_window_event","session_id":"x","name":"dw","start_ns":1795175929972801292,"end_ns":1795175929972801299,` +
			`"launches_covered":{"n":1}}`,
		`{"type":"segment_end","session_id":"x","run_id":"r","segment_index":2,"actual_end_ns":1795175930972801292,` +
			`"records_outside_segment_window":"3"}`,
		`{"type":"run_end","session_id":"x","run_id":"r","final_segment_index":"2","ended_ns":1795175930972801292}`,
		`{"type":"shutdown","session_id":"x","ts_ns":1795175930972801292,"exit_code":"0"}`,
	}
	for _, channel := range []string{"device", "scope"} {
		publish(t, s, stream.Envelope{Session: "x", Identity: channel}, []byte(strings.Join(lines, "\n")+"\n"+`{"type":"`+channel+`"}`))
	}
	sum := waitFor(t, s, "all accounted", func(sum totals) bool { return sum["usage_data.events"] == 2*uint64(len(lines)+1) })
	stop()
	if sum["usage_data.rejected"] != 2 || sum["usage_data.duplicates"] != uint64(len(lines)) {
		t.Errorf("%d rejected, %d duplicates", sum["usage_data.rejected"], sum["usage_data.duplicates"])
	}
	d := newDatabase(t)
	d.load(s)
	want := strings.Join([]string{
		"capture_capabilities\tcapabilities.requested\tbad_value\t\"yes\"",
		"deep_window_event\tlaunches_covered\tbad_value\t{\"n\":1}",
		"job_start\tdevices.temp_c\tbad_value\t\"hot\"",
		"job_start\thost.cpu_pct\tbad_value\t\"high\"",
		"job_start\thost.ram_total_mib\tbad_value\t17592186044416",
		"job_start\tpid\tbad_value\t\"7\"",
		"run_end\tfinal_segment_index\tbad_value\t\"2\"",
		"segment_end\trecords_outside_segment_window\tbad_value\t\"3\"",
		"segment_start\tboundary_delay_ns\tbad_value\t-1",
		"segment_start\tnew\tunknown\ttrue",
		"shutdown\texit_code\tbad_value\t\"0\"", "",
	}, "\n")
	if got := d.post("SELECT type, field, reason, values FROM extra_fields ORDER BY type, field", nil); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := d.post("SELECT app, pid, ram_used_bytes, ram_total_bytes FROM job_starts", nil); got != "train\t0\t5242880\t18446744073708503"+
		"040\n" {
		t.Errorf("job_starts: %s", got)
	}
	if got := d.post("SELECT segment_index, end_reason, state FROM segments AS g JOIN sessions AS s USING (tenant, session_id)",
		nil); got != "2\t\tcomplete\n" {
		t.Errorf("the segment: %s", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		if m := family.GetMetric()[0]; m.GetCounter() != nil {
			counted[family.GetName()] = m.GetCounter().GetValue()
		}
	}
	if counted["warpline_worker_bad_fields_total"] != 10 || counted["warpline_worker_unknown_columns_total"] != 1 {
		t.Errorf("%v bad fields and %v unknown are counted, want 10 and 1", counted["warpline_worker_bad_fields_total"],
			counted["warpline_worker_unknown_columns_total"])
	}
}

// A key of the future is kept on every type of line, and once, however often the line comes.
func TestKeysOfTheFutureAreKept(t *testing.T) {
	var lines, want []string
	for _, name := range []string{"examples_by_type.ndjson", "examples_handbuilt.ndjson"} {
		text, err := os.ReadFile("../testdata/gpuflight/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			typ, session := gpuflight.Peek([]byte(line))
			key := fmt.Sprintf("%v\tzz_%v\tunknown\t[%d]", typ, typ, len(typ.String()))
			if slices.Contains(want, key) {
				continue
			}
			want = append(want, key)
			line = strings.Replace(line, fmt.Sprintf("%q", session), `"x"`, 1)
			lines = append(lines, strings.Replace(line, "{", fmt.Sprintf(`{"zz_%v":[%d],`, typ, len(typ.String())), 1))
		}
	}
	if len(want) < 30 {
		t.Fatalf("only %d types", len(want))
	}
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	events := uint64(0)
	for _, channel := range []string{"device", "scope"} {
		text := strings.Join(lines, "\n") + "\n" + `{"type":"` + channel + `"}`
		publish(t, s, stream.Envelope{Session: "x", Identity: channel}, []byte(text))
		for _, line := range lines {
			events += uint64(gpuflight.CountEvents([]byte(line)))
		}
		events++
	}
	sum := waitFor(t, s, "all accounted", func(sum totals) bool { return sum["usage_data.events"] == events })
	stop()
	if sum["usage_data.rejected"] != 2 {
		t.Errorf("%d rejected, want the two lines that tell the channels apart", sum["usage_data.rejected"])
	}
	d := newDatabase(t)
	d.load(s)
	slices.Sort(want)
	got := strings.Split(strings.TrimSpace(d.post("SELECT type, field, reason, values FROM extra_fields", nil)), "\n")
	slices.Sort(got)
	want = slices.DeleteFunc(want, func(w string) bool { return strings.HasPrefix(w, "graph_node_definition") }) // it may rightly come twice
	got = slices.DeleteFunc(got, func(w string) bool { return strings.HasPrefix(w, "graph_node_definition") })
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
