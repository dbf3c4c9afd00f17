package aggregate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// rows returns the rows of a view; times are nanoseconds since the epoch.
func (d *database) rows(view string) (rows []map[string]any) {
	d.Helper()
	var columns []string
	for line := range strings.Lines(d.post("SELECT name, type FROM system.columns WHERE database = '"+
		d.name+"' AND table = '"+view+"' ORDER BY position", nil)) {
		name, typ, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(typ, "DateTime64") {
			columns = append(columns, fmt.Sprintf("toUnixTimestamp64Nano(`%[1]s`) AS `%[1]s`", name))
		} else {
			columns = append(columns, "`"+name+"`")
		}
	}
	for line := range strings.Lines(d.post("SELECT "+strings.Join(columns, ", ")+" FROM "+view+" FORMAT JSONEachRow", nil)) {
		rows = append(rows, object(d, []byte(line)))
	}
	return rows
}

func object(t testing.TB, text []byte) (o map[string]any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// plain writes values so that equal ones look alike: -0.5, 7.2500 and 7.25e0, null.
func plain(v any) string {
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil && strings.ContainsAny(n.String(), ".eE") {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		return n.String()
	}
	return fmt.Sprintf("%v", v)
}

// landing says where the keys of a type go: the view, and key → column where the names differ ("" is not stored under that view).
type landing struct {
	view  string
	only  map[string]string // columns with fixed values, to tell apart what shares a view
	names map[string]string
	value map[string]func(any) string
}

func mebibytes(v any) string {
	n, _ := v.(json.Number).Int64()
	return fmt.Sprint(n << 20)
}

func milli(v any) string {
	n, _ := v.(json.Number).Float64()
	return strconv.FormatFloat(n/1000, 'g', -1, 64)
}

func notAvailable(v any) string {
	if f, _ := v.(json.Number).Float64(); f == -1 {
		return "<nil>"
	}
	return plain(v)
}

func named(name func(uint8) string) func(any) string {
	return func(v any) string {
		n, _ := v.(json.Number).Int64()
		return name(uint8(n))
	}
}

var span = map[string]string{"start_ns": "started_at", "end_ns": "ended_at", "user_scope": "scope", "ts_ns": "at", "emitted_ns": "at"}

var hostValues = map[string]func(any) string{"ram_used_mib": mebibytes, "ram_total_mib": mebibytes}

var hostNames = map[string]string{"ram_used_mib": "ram_used_bytes", "ram_total_mib": "ram_total_bytes"}

var deviceLanding = landing{view: "device_snapshots",
	names: map[string]string{"id": "device_id", "used_mib": "used_bytes", "free_mib": "free_bytes", "total_mib": "total_bytes",
		"power_mw": "power_w"},
	value: map[string]func(any) string{"used_mib": mebibytes, "free_mib": mebibytes, "total_mib": mebibytes, "power_mw": milli},
}

var perfValues = func() map[string]func(any) string {
	m := map[string]func(any) string{}
	for _, k := range strings.Fields("sm_throughput_pct l1_hit_rate_pct l2_hit_rate_pct dram_read_bytes dram_write_bytes tensor_active_pct " +
		"achieved_occupancy_pct shared_load_bank_conflicts shared_store_bank_conflicts shared_bank_conflicts shared_wavefronts " +
		"shared_bank_conflict_overhead_pct shared_bank_conflict_nway") {
		m[k] = notAvailable
	}
	return m
}()

// landings are the types whose every key is checked.
var landings = map[gpuflight.Type]landing{
	gpuflight.MemsetEvent:         {view: "memsets", names: span},
	gpuflight.NvtxMarkerEvent:     {view: "markers", names: span},
	gpuflight.GraphLaunchEvent:    {view: "graphs", names: span},
	gpuflight.GraphNodeDefinition: {view: "graph_nodes"},
	gpuflight.PerfMetricEvent:     {view: "perf_metrics", only: map[string]string{"kind": "range"}, names: span, value: perfValues},
	gpuflight.KernelPerfMetricEvent: {view: "perf_metrics", only: map[string]string{"kind": "kernel", "started_at": "0"},
		names: map[string]string{"range_name": "name"}, value: perfValues},
	gpuflight.PMSamplingConfig:   {view: "pm_configs", names: span},
	gpuflight.SassConfig:         {view: "sass_configs", names: span},
	gpuflight.ExecutionSignature: {view: "execution_signatures", names: map[string]string{"ts_ns": "at", "scope_name": "scope"}},
	gpuflight.DeepWindowRuleSummary: {view: "deep_window_rules", names: map[string]string{"emitted_ns": "at",
		"last_observed_ns": "last_observed_at"}},
	gpuflight.CounterDataQualitySummary: {view: "counter_quality", names: span},
	gpuflight.SystemStart:               {view: "system_events", only: map[string]string{"kind": "start"}, names: span},
	gpuflight.SystemStop:                {view: "system_events", only: map[string]string{"kind": "stop"}, names: span},
	gpuflight.JobStart:                  {view: "job_starts", names: map[string]string{"ts_ns": "at", "ip_addr": "ip"}},

	gpuflight.SynchronizationEventBatch: {view: "syncs", names: map[string]string{"dt_ns": "started_at"}},
	gpuflight.MemoryAllocEventBatch:     {view: "allocations", names: map[string]string{"dt_ns": "started_at"}},
	gpuflight.PMSampleBatch:             {view: "pm_samples", names: map[string]string{"dt_ns": "at"}},
}

// codes are columns of the wire that have a text beside them.
var codes = map[string]struct {
	column string
	text   func(any) string
}{
	"sync_type":   {"sync_type_id", named(gpuflight.SyncTypeName)},
	"memory_op":   {"memory_op_id", named(gpuflight.MemoryOpName)},
	"memory_kind": {"memory_kind_id", named(gpuflight.MemoryKindName)},
}

// expectation collects, by view, the rows that lines must have become.
type expectation map[string][]map[string]string

// put makes a row of the keys of one object.
func (x expectation) put(l landing, session string, keys map[string]any) {
	row := map[string]string{"session_id": session}
	for k, v := range l.only {
		row[k] = v
	}
	for k, v := range keys {
		column := k
		if n, ok := l.names[k]; ok {
			column = n
		}
		text := plain(v)
		if f := l.value[k]; f != nil {
			text = f(v)
		}
		if c, ok := codes[k]; ok {
			row[c.column], text = text, c.text(v)
		}
		row[column] = text
	}
	x[l.view] = append(x[l.view], row)
}

// line adds the rows of one line.
func (x expectation) line(t testing.TB, raw []byte) {
	t.Helper()
	typ, _ := gpuflight.Peek(raw)
	l, ok := landings[typ]
	if !ok {
		return
	}
	keys := object(t, raw)
	session := keys["session_id"].(string)
	at := keys["ts_ns"]
	if typ.IsBatch() {
		base, _ := keys["base_time_ns"].(json.Number).Int64()
		for _, cells := range keys["rows"].([]any) {
			row := map[string]any{}
			for i, c := range keys["columns"].([]any) {
				row[c.(string)] = cells.([]any)[i]
			}
			dt, _ := row["dt_ns"].(json.Number).Int64()
			row["dt_ns"] = json.Number(fmt.Sprint(base + dt))
			if typ == gpuflight.PMSampleBatch {
				row["batch_id"] = keys["batch_id"]
			}
			x.put(l, session, row)
		}
		return
	}
	for _, k := range []string{"type", "version", "session_id"} {
		delete(keys, k)
	}
	for k, v := range object(t, []byte(hostText(keys["host"]))) {
		keys[renamed(hostNames, k)] = json.Number(valueText(hostValues, k, v))
	}
	delete(keys, "host")
	devices, _ := keys["devices"].([]any)
	for _, d := range devices {
		snapshot := deviceLanding
		snapshot.only = map[string]string{"kind": typ.String(), "at": plain(at)}
		x.put(snapshot, session, d.(map[string]any))
	}
	delete(keys, "devices")
	if typ == gpuflight.JobStart {
		static, _ := keys["gpu_static_devices"].([]any)
		for _, d := range static {
			x.put(landing{view: "devices", names: map[string]string{"id": "device_id", "multi_processor_count": "sm_count"}}, session,
				d.(map[string]any))
		}
		delete(keys, "gpu_static_devices")
		delete(keys, "cuda_static_devices") // parts of the one above
		delete(keys, "rocm_static_devices")
	}
	x.put(l, session, keys)
}

func hostText(host any) string {
	if host == nil {
		return "{}"
	}
	text, _ := json.Marshal(host)
	return string(text)
}

func renamed(names map[string]string, k string) string {
	if n, ok := names[k]; ok {
		return n
	}
	return k
}

func valueText(values map[string]func(any) string, k string, v any) string {
	if f := values[k]; f != nil {
		return f(v)
	}
	return plain(v)
}

// check compares the rows of each view, by the columns that the lines name.
func (x expectation) check(d *database) {
	d.Helper()
	for view, want := range x {
		rows := d.rows(view)
		if len(rows) != len(want) {
			d.Errorf("%s has %d rows, want %d", view, len(rows), len(want))
		}
		for _, w := range want {
			i := slices.IndexFunc(rows, func(r map[string]any) bool {
				for column, text := range w {
					if v, ok := r[column]; !ok || plain(v) != text {
						return false
					}
				}
				return true
			})
			if i < 0 {
				d.Errorf("%s has no row %v; it has %v", view, w, rows)
				break
			}
			rows = slices.Delete(rows, i, i+1)
		}
	}
}

// Every key and every cell of the examples stands in a view under its name.
func TestExamplesLandWithEveryField(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	want := expectation{}
	parts := map[string][]byte{}
	var events uint64
	types := map[gpuflight.Type]bool{}
	for _, name := range []string{"examples_by_type.ndjson", "examples_handbuilt.ndjson"} {
		text, err := os.ReadFile(filepath.Join("..", "testdata", "gpuflight", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			typ, session := gpuflight.Peek(line)
			types[typ] = true
			want.line(t, line)
			parts[string(session)] = append(parts[string(session)], line...)
			events += uint64(gpuflight.CountEvents(line))
		}
	}
	for typ := range landings {
		if !types[typ] {
			t.Errorf("no example of %v", typ)
		}
	}
	for session, body := range parts {
		publish(t, s, stream.Envelope{Session: session, Identity: "w"}, body)
	}
	waitFor(t, s, "all folded", func(sum totals) bool {
		return sum["usage_data.events"] == events && sum["sessions_data"] >= uint64(len(parts))
	})
	stop()
	d := newDatabase(t)
	d.load(s)
	// A definition that is sent again is shown once.
	want["graph_nodes"] = slices.CompactFunc(want["graph_nodes"], func(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
	want.check(d)
	for typ := range landings {
		if got := d.post("SELECT count() FROM rejects WHERE type = '"+typ.String()+"'", nil); got != "0\n" {
			t.Errorf("%s rejects of %v", strings.TrimSpace(got), typ)
		}
	}
	// Names come from the dictionaries, whatever came first.
	if got := d.post("SELECT DISTINCT metric_name, scope FROM pm_samples ORDER BY ALL", nil); got != "sm__throughput.avg.pct_of_peak_sustai"+
		"ned_elapsed\tfwd\nsm__warps_launched.sum\tfwd\n" {
		t.Error(got)
	}
	for sql, want := range map[string]string{
		"SELECT sync_type, calls, total_ns, max_ns FROM sync_stats": "stream\t3\t360000\t120000\n",
		"SELECT copy_kind, calls, bytes, total_ns, min_ns, max_ns FROM memcpy_stats ORDER BY ALL": "DtoH\t1\t4194304\t15000\t" +
			"15000\t15000\nHtoD\t2\t8388608\t30000\t15000\t15000\n",
		"SELECT metric_name, scope, samples, sum_value, mean_value, min_value, max_value FROM pm_stats ORDER BY 1": "sm__throughput.avg.pct_of" +
			"_peak_sustained_elapsed\tfwd\t1\t12.3457\t12.3457\t12.3457\t12.3457\nsm__warps_launched.sum\tfwd\t2\t24.6914\t12.3457\t0\t24.6914\n",
	} {
		if got := d.post(sql, nil); got != want {
			t.Errorf("%s\n got %q\nwant %q", sql, got, want)
		}
	}
}

// The same for whole sessions, with the channels mixed and every window sent twice.
func TestSessionsLandWithEveryField(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	want := expectation{}
	once := map[string]bool{}
	var events uint64
	for _, w := range byChannelShuffled(vectorWindows(t, "trace_rotated")) {
		for line := range bytes.Lines(w.lines) {
			typ, _ := gpuflight.Peek(line)
			// job_start is written to every channel, and a definition is shown once.
			if all := typ == gpuflight.JobStart || typ == gpuflight.GraphNodeDefinition; !all || !once[string(line)] {
				want.line(t, line)
				once[string(line)] = all
			}
		}
		for _, upload := range []string{"", "again-"} {
			publish(t, s, stream.Envelope{Session: w.session, Channel: w.channel, Identity: upload + w.name}, w.lines)
			for line := range bytes.Lines(w.lines) {
				events += uint64(gpuflight.CountEvents(line))
			}
		}
	}
	waitFor(t, s, "all folded", func(sum totals) bool { return sum["usage_data.events"] == events && sum["sessions_data"] > 0 })
	stop()
	if len(want["memsets"]) < 30 || len(want["markers"]) < 20 || len(want["pm_samples"]) < 50 {
		t.Fatalf("few examples: %d memsets, %d markers, %d samples", len(want["memsets"]), len(want["markers"]), len(want["pm_samples"]))
	}
	d := newDatabase(t)
	d.load(s)
	want.check(d)
	// Rollups say what the raw rows say.
	for sql, same := range map[string]string{
		"SELECT copy_kind, sum(calls), sum(bytes), sum(total_ns), min(min_ns), max(max_ns) FROM memcpy_stats GROUP BY ALL ORDER BY ALL": "SELEC" +
			"T copy_kind, count(), sum(bytes), sum(duration_ns), min(duration_ns), max(duration_ns) FROM memcpys GROUP BY ALL ORDER BY ALL",
		"SELECT bucket, sync_type, stack_trace, calls, total_ns, max_ns FROM sync_stats ORDER BY ALL": "SELECT " +
			"CAST(toStartOfMinute(started_at), 'DateTime64(9, \\'UTC\\')') AS bucket, sync_type, stack_trace, count(), sum(duration_ns), " +
			"max(duration_ns) FROM syncs GROUP BY ALL ORDER BY ALL",
		"SELECT metric_name, scope, device_id, sum(samples), round(sum(sum_value), 3), min(min_value), max(max_value) FROM pm_stats GROUP BY " +
			"ALL ORDER BY ALL": "SELECT metric_name, scope, device_id, count(), round(sum(value), 3), min(value), max(value) FROM pm_samples " +
			"GROUP BY ALL ORDER BY ALL",
	} {
		a, b := d.post(sql, nil), d.post(same, nil)
		if a != b || a == "" {
			t.Errorf("%s\n got %q\nwant %q", sql, a, b)
		}
	}
}
