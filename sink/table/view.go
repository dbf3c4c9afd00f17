package table

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"text/template"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/hist"
)

//go:embed views/*.sql
var viewFiles embed.FS

// views are the contract's views in the order in which they are created: those that read others come after them.
var views = []string{
	"sessions", "session_ends", "segments", "runs", "capture_capabilities", "deep_windows", "devices", "kernels", "kernel_details", "touched_minutes",
	"kernel_stats", "scopes", "scope_stats", "scope_paths", "run_scopes", "source_map", "pc_samples", "pc_lines",
	"profile_metrics", "memcpys", "host_metrics", "device_metrics", "host_metrics_1m", "device_metrics_1m", "usage", "rejects", "stall_reasons",
	"memsets", "syncs", "sync_stats", "allocations", "memcpy_stats", "markers", "graphs", "graph_nodes", "perf_metrics", "pm_samples", "pm_stats", "pm_configs",
	"sass_configs", "execution_signatures", "deep_window_rules", "counter_quality", "system_events", "device_snapshots", "job_starts", "extra_fields",
	"source_files", "disassembly", "ptx", "instructions", "source_profile", "function_metrics", "line_metrics",
	"insight_occupancy", "insight_spill", "insight_registers", "insight_stall", "insight_divergence", "insight_temperature",
	"insight_sync_time", "insight_sync_loop", "insights",
	"memory_events", "memory_stats",
	"memory_used", "memory_samples", "memory_alerts", "memory_gap_parts", "memory_gaps", "memory_leaks", "memory_collectives", "memory_runs", "memory_cross_rank", "memory_missing_ranks",
	"memory_clock_skew", "memory_anomalies", "memory_ranks", "memory_ooms",
	"memory_marked", "memory_session_rollups", "memory_rank_rollups", "memory_window_rollups",
	"memory_phases", "memory_event_phases", "memory_gap_phases", "memory_issue_hits", "memory_issues", "memory_told", "memory_sessions", "memory_summaries", "memory_markers", "memory_correlate",
}

// View is one view over the tables.
type View struct {
	Name string
	Body string // the SELECT
}

// Views returns every view, in the order in which they are created, for the database that o names.
func Views(o Options) []View {
	funcs := template.FuncMap{
		"db":         func() string { return ident(o.database()) },
		"quantile":   hist.QuantileSQL,
		"late":       func(dict string) string { return lateSQL(o, dict) },
		"function":   functionSQL,
		"fileof":     fileOfSQL,
		"reasonkind": reasonKindSQL,
		"reasons":    reasonsSQL,
		"scopepath":  scopePathSQL,
		"names":      func(dict string) string { return namesSQL(o, dict) },
		"vendors":    func() string { return vendorsSQL(o) },
		"copykind":   copyKindSQL,
		"copycode":   copyCodeSQL,
		"synctype":   syncTypeSQL,
		"sumparts":   sumPartsSQL,
		"synthetic":  func(tenant, session string) string { return syntheticSQL(o, tenant, session) },
		"spans":      func() string { return spansSQL(o) },
		"spankey":    spanKeySQL,
		"disturbed":  disturbedSQL,
		"touched":    func(before int) string { return touchedSQL(o, before) },
		"windowed":   func() string { return windowedSQL(o) },
		"minute":     minuteSQL,
		"bucketof":   hist.IndexSQL,
		"endweight":  endWeightSQL,
		"ending":     endSQL,
		"collective": collectiveSQL,
		"normal":     normalSQL,
		"jsontext":   jsonTextSQL,
		"words":      jsonWordsSQL,
		"string":     jsonStringSQL,
		"issueid":    fingerprintSQL,
		"warns":      warnsSQL,
		"summed":     summedSQL,
		"status":     memoryStatusSQL,
		"attributed": attributedSQL,
		"origin":     originSQL,
		"trimmed":    trimmedSQL,
		"rolled":     rolledSQL,
		"peaks":      peaksSQL,
		"gauge":      func(of, name string) string { return fmt.Sprintf("%s[%d]", of, gaugeKey(name)) },
	}
	maps.Copy(funcs, artifactFuncs(o))
	t := template.Must(template.New("").Funcs(funcs).ParseFS(viewFiles, "views/*.sql"))
	out := make([]View, len(views))
	for i, name := range views {
		var s strings.Builder
		if err := t.ExecuteTemplate(&s, name+".sql", nil); err != nil {
			panic("BUG: view " + name + ": " + err.Error())
		}
		body := strings.TrimSpace(s.String())
		if base := ByName(name + "_data"); base != nil {
			body = plainTypes(base, body)
		}
		out[i] = View{Name: name, Body: body}
	}
	return out
}

var extreme = regexp.MustCompile(`\b(?:min|max)\([a-z]\.(\w+)\)`)

// plainTypes casts what min and max say of aggregated columns, since ClickHouse gives them the type
// SimpleAggregateFunction(…) again, which is no type to show to people and their drivers.
func plainTypes(base *Table, body string) string {
	return extreme.ReplaceAllStringFunc(body, func(call string) string {
		c := base.Column(extreme.FindStringSubmatch(call)[1])
		if c == nil || c.agg == "" {
			return call
		}
		typ := kinds[c.Kind].click
		if c.Kind == Dict {
			typ = "String"
		}
		return "CAST(" + call + ", " + quote(typ) + ")"
	})
}

// correlateExample has arguments for a first try of memory_correlate.
const correlateExample = "(tenant = 'default', session_id = '', job_id = '', rank = -1, scope = 'session', at_ns = 1795175929972803352, window_ns = 60000000000)"

// From is what stands behind FROM to ask the view, in the session's database: its name, and for one that takes parameters arguments for
// a first try.
func (v View) From() string {
	if v.Name == "memory_correlate" {
		return ident(v.Name) + correlateExample
	}
	return ident(v.Name)
}

// DDL returns the statement that creates the view or puts it in the place of an older one.
func (v View) DDL(o Options) string {
	return fmt.Sprintf("CREATE OR REPLACE VIEW %s.%s%s AS\n%s\nCOMMENT %s", ident(o.database()), ident(v.Name), o.onCluster(), v.Body, quote(v.mark()))
}

// mark tells versions of a view apart. It stands in the view's comment, so that an unchanged view is left alone.
func (v View) mark() string { return fmt.Sprintf("warpline %016x", xxh3.HashString(v.Body)) }

// lateSQL is the right side of a join that finds names which came after the rows that need them. Only those are read: of
// all names they are few.
func lateSQL(o Options, dict string) string {
	return fmt.Sprintf("(SELECT tenant, session_id, id, value FROM %s.dictionaries WHERE late = 1 AND dict = %s)", ident(o.database()), quote(dict))
}

// scopePathSQL is the path of the scope that a kernel ran in, ” when it ran in none.
func scopePathSQL(userScope string) string {
	return fmt.Sprintf("if(%[1]s = 'global', '', %[1]s)", userScope)
}

// functionSQL takes the function out of a dictionary's name@file.
func functionSQL(value string) string {
	return fmt.Sprintf("if(position(%[1]s, '@') = 0, %[1]s, substring(%[1]s, 1, length(%[1]s) - position(reverse(%[1]s), '@')))", value)
}

// fileOfSQL takes the file out of a dictionary's name@file.
func fileOfSQL(value string) string {
	return fmt.Sprintf("if(position(%[1]s, '@') = 0, '', substring(%[1]s, length(%[1]s) - position(reverse(%[1]s), '@') + 2))", value)
}

// reasonsSQL is the stall reasons as an array of tuples. They are part of the view rather than rows of a table, so that
// two processes that bring a new text at the same time cannot leave it there twice.
func reasonsSQL() string {
	var rows []string
	for _, r := range StallReasons() {
		rows = append(rows, fmt.Sprintf("(%s, %s, %s, %s, %s, %s)", quote(r.Name), quote(r.Kind), quote(r.Group), quote(r.Meaning), quote(r.Remedy), quote(r.Doc)))
	}
	return "[\n    " + strings.Join(rows, ",\n    ") + "]"
}
