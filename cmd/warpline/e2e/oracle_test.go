package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
)

// oracle counts and adds up lines with encoding/json and plain maps. It shares no code with the product: it is what the product is
// measured against. Keys read "what|name"; values are sums.
type oracle struct {
	t     testing.TB
	sum   map[string]uint64
	seen  map[string]bool              // lines that are written to all channels
	dicts map[string]map[string]string // session/dict → id → text
	later []func()                     // what needs dictionaries

	scopes    map[string]string     // session/corr id → user_scope, of details
	groups    map[string][]uint64   // session|minute|kernel|scope → honest durations, the rows of kernel_stats
	leftOut   map[string]uint64     // the same → calls whose durations are none
	windows   map[string][][2]int64 // session → deep windows
	synthetic map[string]bool       // sessions whose durations are host gaps
	named     map[string]bool       // session|name of every scope that was entered
}

func newOracle(t testing.TB) *oracle {
	return &oracle{t: t, scopes: map[string]string{}, groups: map[string][]uint64{}, windows: map[string][][2]int64{},
		synthetic: map[string]bool{}, named: map[string]bool{}, leftOut: map[string]uint64{}, sum: map[string]uint64{}, seen: map[string]bool{},
		dicts: map[string]map[string]string{}}
}

func (o *oracle) add(key string, n uint64) { o.sum[key] += n }

func (o *oracle) text(session, dict, id string) string { return o.dicts[session+"/"+dict][id] }

// read takes the lines of one window.
func (o *oracle) read(raw []byte) {
	o.t.Helper()
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			o.t.Fatalf("vector line: %v", err)
		}
		typ, session := m["type"].(string), m["session_id"].(string)
		switch typ {
		case "job_start", "shutdown", "segment_start", "segment_end", "run_end", "capture_capabilities",
			"dictionary_update", "profile_sample_batch":
			if o.seen[string(line)] {
				continue
			}
			o.seen[string(line)] = true
		}
		if key := "segment " + session; m["run_id"] != nil && !o.seen[key] {
			o.seen[key] = true // a session that any line puts into a run is a segment of it
			o.add("segments", 1)
		}
		switch typ {
		case "dictionary_update":
			for k, v := range m {
				if entries, ok := v.(map[string]any); ok {
					key := session + "/" + k
					if o.dicts[key] == nil {
						o.dicts[key] = map[string]string{}
					}
					for id, text := range entries {
						o.dicts[key][id] = text.(string)
					}
				}
			}
		case "job_start":
			o.add("job_start", 1)
		case "shutdown":
			o.add("shutdown", 1)
		case "kernel_detail":
			o.add("details", 1)
			o.add("details by grid|"+m["grid"].(string), 1)
			scope := m["user_scope"].(string)
			if scope == "global" {
				scope = ""
			}
			o.scopes[session+"/"+m["corr_id"].(json.Number).String()] = scope
		case "kernel_event_batch", "memcpy_event_batch", "scope_event_batch", "profile_sample_batch", "host_metric_batch", "device_metric_batch",
			"synchronization_event_batch", "memory_alloc_event_batch", "pm_sample_batch":
			o.batch(typ, session, m)
		default:
			o.single(typ, session, m)
		}
	}
}

func (o *oracle) batch(typ, session string, m map[string]any) {
	column := map[string]int{}
	for i, c := range m["columns"].([]any) {
		column[c.(string)] = i
	}
	for _, r := range m["rows"].([]any) {
		row := r.([]any)
		get := func(name string) uint64 {
			var v uint64
			if i, ok := column[name]; ok {
				if _, err := fmt.Sscan(row[i].(json.Number).String(), &v); err != nil {
					o.t.Fatalf("%s.%s: %v", typ, name, err)
				}
			}
			return v
		}
		id := func(name string) string { return row[column[name]].(json.Number).String() }
		switch typ {
		case "kernel_event_batch":
			o.add("kernels", 1)
			o.add("kernels ns", get("duration_ns"))
			o.add("kernels corr", get("corr_id"))
			o.add("kernels registers", get("num_regs"))
			kernel := id("kernel_id")
			ns := get("duration_ns")
			base, _ := m["base_time_ns"].(json.Number).Int64()
			dt, _ := row[column["dt_ns"]].(json.Number).Int64()
			start, minute, corr := base+dt, (base+dt)/60e9, session+"/"+id("corr_id")
			o.later = append(o.later, func() {
				name := o.text(session, "kernel_dict", kernel)
				o.add("kernel calls|"+name, 1)
				o.add("kernel ns|"+name, ns)
				group := fmt.Sprintf("%s|%d|%s|%s", session, minute, name, o.scopes[corr])
				if o.synthetic[session] {
					o.add("synthetic calls", 1)
					o.leftOut[group]++
					return
				}
				for _, w := range o.windows[session] {
					if start <= w[1] && start+int64(ns) >= w[0] {
						o.add("disturbed calls", 1)
						o.leftOut[group]++
						return
					}
				}
				o.add("honest calls|"+name, 1)
				o.add("honest ns|"+name, ns)
				o.groups[group] = append(o.groups[group], ns)
			})
		case "memcpy_event_batch":
			kind := map[string]string{"1": "HtoD", "2": "DtoH", "8": "DtoD"}[id("copy_kind")]
			o.add("memcpys", 1)
			o.add("memcpy bytes|"+kind, get("bytes"))
			o.add("memcpy ns|"+kind, get("duration_ns"))
		case "scope_event_batch":
			switch id("event_type") {
			case "0", "2":
				o.add("scope begins", 1)
				name := id("name_id")
				o.later = append(o.later, func() { o.named[session+"|"+o.text(session, "scope_name_dict", name)] = true })
			default:
				o.add("scope ends", 1)
			}
		case "profile_sample_batch":
			value, metric := get("metric_value"), id("metric_id")
			switch id("sample_kind") {
			case "0":
				o.later = append(o.later, func() { o.add("pc samples|"+o.text(session, "metric_dict", metric), value) })
			case "1":
				o.later = append(o.later, func() { o.add("metric value|"+o.text(session, "metric_dict", metric), value) })
			default:
				o.add("source map rows", 1)
			}
		case "synchronization_event_batch":
			kind := []string{"unknown", "event", "stream_wait_event", "stream", "context"}[get("sync_type")]
			o.add("syncs|"+kind, 1)
			o.add("sync ns|"+kind, get("duration_ns"))
		case "memory_alloc_event_batch":
			op := []string{"", "alloc", "free"}[get("memory_op")]
			o.add("allocations|"+op, 1)
			o.add("allocation bytes|"+op, get("bytes"))
			o.add("allocation address", get("address")%1000)
		case "pm_sample_batch":
			value, _ := row[column["value"]].(json.Number).Float64()
			metric := id("metric_id")
			o.later = append(o.later, func() {
				o.add("pm samples|"+o.text(session, "metric_dict", metric), 1)
				o.add("pm value|"+o.text(session, "metric_dict", metric), uint64(math.Round(value*1e4)))
			})
		case "host_metric_batch":
			o.add("host rows", 1)
			o.add("host ram", get("ram_used_mib")<<20)
			o.add("host cpu", get("cpu_pct_x100"))
		case "device_metric_batch":
			o.add("device rows", 1)
			o.add("device used", get("used_mib")<<20)
			o.add("device power mw", get("power_mw"))
			o.add("device energy", get("energy_uj"))
		}
	}
}

// single counts the lines that are one event each.
func (o *oracle) single(typ, session string, m map[string]any) {
	num := func(key string) uint64 {
		v, ok := m[key].(json.Number)
		if !ok {
			o.t.Fatalf("%s has no number %s", typ, key)
		}
		var n uint64
		if _, err := fmt.Sscan(v.String(), &n); err != nil {
			o.t.Fatalf("%s.%s: %v", typ, key, err)
		}
		return n
	}
	text := func(key string) string { return m[key].(string) }
	switch typ {
	case "memset_event":
		o.add("memsets", 1)
		o.add("memset bytes", num("bytes"))
		o.add("memset ns", num("end_ns")-num("start_ns"))
	case "nvtx_marker_event":
		o.add("markers|"+text("name"), 1)
		o.add("marker ns|"+text("name"), num("duration_ns"))
	case "graph_launch_event":
		o.add("graphs", 1)
		o.add("graph ns", num("duration_ns"))
	case "graph_node_definition":
		if key := session + text("graph_exec_key") + m["node_index"].(json.Number).String(); !o.seen[key] {
			o.seen[key] = true // it is replayed at each segment, and a definition is one
			o.add("graph nodes", 1)
		}
	case "perf_metric_event":
		o.add("perf metrics|range", 1)
	case "kernel_perf_metric_event":
		o.add("perf metrics|kernel", 1)
	case "pm_sampling_config":
		o.add("pm configs", 1)
	case "sass_config":
		o.add("sass configs", 1)
	case "execution_signature":
		o.add("signatures", 1)
		o.add("signature launches", num("launch_count"))
	case "system_start":
		o.add("system events|start", 1)
	case "system_stop":
		o.add("system events|stop", 1)
	case "deep_window_event":
		o.add("deep windows", 1)
		o.windows[session] = append(o.windows[session], [2]int64{int64(num("start_ns")), int64(num("end_ns"))})
	case "capture_capabilities":
		for _, c := range m["capabilities"].([]any) {
			c := c.(map[string]any)
			o.add("capabilities|"+c["feature"].(string)+" "+c["status"].(string), 1)
			if c["feature"] == "kernel_events" && c["mode"] == "launch_callbacks_synthetic" {
				o.synthetic[session] = true
			}
		}
	case "segment_start":
	case "segment_end":
		o.add("segments ended|"+text("end_reason"), 1)
	case "run_end":
		o.add("runs ended", 1)
	case "ptx_disassembly":
		o.add("ptx", 1)
	case "deep_window_rule_summary":
		o.add("deep window rules", 1)
	case "counter_data_quality_summary":
		o.add("counter qualities", 1)
	case "source_file_content":
		o.add("source lines", uint64(len(m["lines"].([]any))))
	case "cubin_disassembly":
		o.add("functions", 1)
		for _, e := range m["entries"].([]any) {
			n := uint64(1)
			if c, ok := e.(map[string]any)["count"].(json.Number); ok {
				fmt.Sscan(c.String(), &n)
			}
			o.add("instructions", n)
		}
	default:
		o.t.Fatalf("the oracle does not know type %s: say what becomes of it", typ)
	}
}

// finish resolves what waited for dictionaries.
func (o *oracle) finish() map[string]uint64 {
	for _, f := range o.later {
		f()
	}
	o.later = nil
	return o.sum
}

// answers asks SQL for the same keys. where restricts tenants.
func answers(c *cluster, tenant string) (map[string]uint64, error) {
	got := map[string]uint64{}
	ask := func(query string, keys ...string) error {
		rows, err := c.tryRows(query, tenant)
		if err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		for name, nums := range rows {
			for i, n := range nums {
				key := keys[i]
				if name != "" {
					key += "|" + name
				}
				if n > 0 {
					got[key] += n
				}
			}
		}
		return nil
	}
	for _, q := range []struct {
		query string
		keys  []string
	}{
		{`SELECT '', count(), sum(duration_ns), sum(toUInt64(corr_id)), sum(toUInt64(registers)), countIf(grid != '') FROM kernels WHERE ` +
			`tenant = ?`, []string{"kernels", "kernels ns", "kernels corr", "kernels registers", "details"}},
		{`SELECT grid, count() FROM kernels WHERE tenant = ? AND grid != '' GROUP BY grid`, []string{"details by grid"}},
		{`SELECT kernel, count(), sum(duration_ns) FROM kernels WHERE tenant = ? GROUP BY kernel`, []string{"kernel calls", "kernel ns"}},
		{`SELECT '', count() FROM memcpys WHERE tenant = ?`, []string{"memcpys"}},
		{`SELECT copy_kind, sum(bytes), sum(duration_ns) FROM memcpys WHERE tenant = ? GROUP BY copy_kind`,
			[]string{"memcpy bytes", "memcpy ns"}},
		{`SELECT metric, sum(samples) FROM (SELECT stall_reason AS metric, samples FROM pc_samples WHERE tenant = ?) GROUP BY metric`,
			[]string{"pc samples"}},
		{`SELECT metric_name, sum(metric_value) FROM profile_metrics WHERE tenant = ? GROUP BY metric_name`, []string{"metric value"}},
		{`SELECT '', toUInt64(sum(hits)) FROM source_map WHERE tenant = ?`, []string{"source map rows"}},
		{`SELECT '', count(), sum(ram_used_bytes), toUInt64(round(sum(toFloat64(cpu_pct)) * 100)) FROM host_metrics WHERE tenant = ?`,
			[]string{"host rows", "host ram", "host cpu"}},
		{`SELECT '', count(), sum(used_bytes), toUInt64(round(sum(toFloat64(power_w)) * 1000)), sum(energy_uj) FROM device_metrics WHERE ` +
			`tenant = ?`, []string{"device rows", "device used", "device power mw", "device energy"}},
		{`SELECT '', count(), sum(bytes), sum(duration_ns) FROM memsets WHERE tenant = ?`, []string{"memsets", "memset bytes", "memset ns"}},
		{`SELECT sync_type, count(), sum(duration_ns) FROM syncs WHERE tenant = ? GROUP BY sync_type`, []string{"syncs", "sync ns"}},
		{`SELECT memory_op, count(), sum(bytes) FROM allocations WHERE tenant = ? GROUP BY memory_op`,
			[]string{"allocations", "allocation bytes"}},
		{`SELECT '', sum(address % 1000) FROM allocations WHERE tenant = ?`, []string{"allocation address"}},
		{`SELECT name, count(), sum(duration_ns) FROM markers WHERE tenant = ? GROUP BY name`, []string{"markers", "marker ns"}},
		{`SELECT '', count(), sum(duration_ns) FROM graphs WHERE tenant = ?`, []string{"graphs", "graph ns"}},
		{`SELECT '', count() FROM graph_nodes WHERE tenant = ?`, []string{"graph nodes"}},
		{`SELECT kind, count() FROM perf_metrics WHERE tenant = ? GROUP BY kind`, []string{"perf metrics"}},
		{`SELECT metric_name, count(), sum(toUInt64(round(value * 10000))) FROM pm_samples WHERE tenant = ? GROUP BY metric_name`,
			[]string{"pm samples", "pm value"}},
		{`SELECT '', count() FROM pm_configs WHERE tenant = ?`, []string{"pm configs"}},
		{`SELECT '', count() FROM sass_configs WHERE tenant = ?`, []string{"sass configs"}},
		{`SELECT '', count(), sum(toUInt64(launch_count)) FROM execution_signatures WHERE tenant = ?`,
			[]string{"signatures", "signature launches"}},
		{`SELECT kind, count() FROM system_events WHERE tenant = ? GROUP BY kind`, []string{"system events"}},
		{`SELECT '', count() FROM deep_windows WHERE tenant = ?`, []string{"deep windows"}},
		{`SELECT concat(feature, ' ', status), count() FROM capture_capabilities WHERE tenant = ? GROUP BY 1`, []string{"capabilities"}},
		{`SELECT '', count() FROM segments WHERE tenant = ?`, []string{"segments"}},
		{`SELECT end_reason, count() FROM segments WHERE tenant = ? AND end_reason != '' GROUP BY end_reason`, []string{"segments ended"}},
		{`SELECT '', countIf(final_segment_index >= 0) FROM runs WHERE tenant = ?`, []string{"runs ended"}},
		{`SELECT '', count() FROM source_files WHERE tenant = ? AND lent = 0`, []string{"source lines"}},
		{`SELECT '', count() FROM ptx WHERE tenant = ? AND lent = 0`, []string{"ptx"}},
		{`SELECT '', count() FROM deep_window_rules WHERE tenant = ?`, []string{"deep window rules"}},
		{`SELECT '', count() FROM counter_quality WHERE tenant = ?`, []string{"counter qualities"}},
		{`SELECT '', uniqExact(session_id, cubin_crc, function_name), count() FROM disassembly WHERE tenant = ? AND lent = 0`,
			[]string{"functions", "instructions"}},
		{`SELECT concat(reason, ' ', type), sum(events) FROM rejects WHERE tenant = ? GROUP BY 1`, []string{"rejects"}},
	} {
		if err := ask(q.query, q.keys...); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// rollups asks the rollups for what they must agree on with the raw rows.
func rollups(c *cluster, tenant string) (map[string]uint64, error) {
	got := map[string]uint64{}
	for _, q := range []struct {
		query string
		keys  []string
	}{
		{`SELECT kernel, sum(calls), sum(total_ns) FROM kernel_stats WHERE tenant = ? GROUP BY kernel`, []string{"honest calls", "honest ns"}},
		{`SELECT '', sum(synthetic_calls), sum(disturbed_calls) FROM kernel_stats WHERE tenant = ?`,
			[]string{"synthetic calls", "disturbed calls"}},
		{`SELECT copy_kind, sum(bytes), sum(total_ns) FROM memcpy_stats WHERE tenant = ? GROUP BY copy_kind`,
			[]string{"memcpy bytes", "memcpy ns"}},
		{`SELECT sync_type, sum(calls), sum(total_ns) FROM sync_stats WHERE tenant = ? GROUP BY sync_type`, []string{"syncs", "sync ns"}},
		{`SELECT metric_name, sum(samples) FROM pm_stats WHERE tenant = ? GROUP BY metric_name`, []string{"pm samples"}},
		{`SELECT '', sum(kernels) FROM sessions WHERE tenant = ?`, []string{"kernels"}},
		{`SELECT '', sum(samples) FROM host_metrics_1m WHERE tenant = ?`, []string{"host rows"}},
		{`SELECT '', sum(samples) FROM device_metrics_1m WHERE tenant = ?`, []string{"device rows"}},
	} {
		rows, err := c.tryRows(q.query, tenant)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.query, err)
		}
		for name, nums := range rows {
			for i, n := range nums {
				key := q.keys[i]
				if name != "" {
					key += "|" + name
				}
				if n > 0 {
					got[key] += n
				}
			}
		}
	}
	return got, nil
}

// compare lists the differences; keys of want that only is false for are left out.
func compare(want, got map[string]uint64, only func(string) bool) string {
	var out []string
	for k, v := range want {
		if only(k) && got[k] != v {
			out = append(out, fmt.Sprintf("  %-60s have %d, want %d", k, got[k], v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok && only(k) {
			out = append(out, fmt.Sprintf("  %-60s have %d, want none", k, v))
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// checkGroups waits until compareGroups finds no difference.
func checkGroups(t *testing.T, c *cluster, tenant string, groups map[string][]uint64) {
	t.Helper()
	eventually(t, 3*time.Minute, "kernel_stats of "+tenant, func() (bool, string) {
		d := compareGroups(c, tenant, groups)
		return d == "", "\n" + d
	})
}

// compareGroups demands that kernel_stats has exactly the groups of the oracle, kernels of synthetic or disturbed times left out: calls,
// sums, least and largest exact, percentiles (nearest rank) within 1 %.
func compareGroups(c *cluster, tenant string, groups map[string][]uint64) string {
	rows, err := c.tryRows(`SELECT concat(session_id, '|', toString(intDiv(toUnixTimestamp(bucket), 60)), '|', kernel, '|', scope), `+
		`toUInt64(calls), toUInt64(total_ns), toUInt64(min_ns), toUInt64(max_ns), toUInt64(p50_ns), toUInt64(p90_ns), toUInt64(p99_ns) FROM `+
		`kernel_stats WHERE tenant = ? AND calls > 0`, tenant)
	if err != nil {
		return err.Error()
	}
	var out []string
	for key, ns := range groups {
		slices.Sort(ns)
		total := uint64(0)
		for _, v := range ns {
			total += v
		}
		row := rows[key]
		if len(row) == 0 {
			out = append(out, "  no row for "+key)
			continue
		}
		if want := []uint64{uint64(len(ns)), total, ns[0], ns[len(ns)-1]}; !slices.Equal(row[:4], want) {
			out = append(out, fmt.Sprintf("  %s: calls, total, min, max %v, want %v", key, row[:4], want))
		}
		for i, q := range []float64{0.5, 0.9, 0.99} {
			exact := ns[int(math.Ceil(q*float64(len(ns))))-1]
			if got := float64(row[4+i]); math.Abs(got-float64(exact)) > 0.01*float64(exact)+0.5 {
				out = append(out, fmt.Sprintf("  %s: p%g is %g, exactly %d", key, q*100, got, exact))
			}
		}
	}
	for key := range rows {
		if groups[key] == nil {
			out = append(out, "  a row too many: "+key)
		}
	}
	return strings.Join(out, "\n")
}

// inside is what scope_stats must say of the kernels in each scope, whatever its depth: session|minute|scope → calls, ns.
func (o *oracle) inside() map[string][]uint64 {
	out := map[string][]uint64{}
	add := func(group string, calls, total uint64) {
		g := strings.SplitN(group, "|", 4) // session, minute, kernel, path
		names := strings.Split(g[3], "|")
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if name == "" || !o.named[g[0]+"|"+name] {
				continue
			}
			key := g[0] + "|" + g[1] + "|" + name
			if out[key] == nil {
				out[key] = []uint64{0, 0}
			}
			out[key][0] += calls
			out[key][1] += total
		}
	}
	for group, durations := range o.groups {
		total := uint64(0)
		for _, ns := range durations {
			total += ns
		}
		add(group, uint64(len(durations)), total)
	}
	for group, calls := range o.leftOut {
		add(group, calls, 0)
	}
	return out
}
