// Package telemetry has the tables and views that only memory telemetry fills: memory_*. Its events also fill tables that sources share,
// in package table.
package telemetry

import (
	"embed"
	"text/template"

	"github.com/warpline/warpline/sink/table"
)

//go:embed views/*.sql
var views embed.FS

// Source is what memory telemetry adds to a schema.
var Source = table.Source{
	Name:   "telemetry",
	Tables: []*table.Table{MemoryEvents.Table, MemoryStats.Table, MemoryReplaced.Table, MemoryTrackAlerts.Table},
	Views:  views,
	Funcs: template.FuncMap{
		"collective": collectiveSQL,
		"normal":     normalSQL,
		"jsontext":   jsonTextSQL,
		"words":      jsonWordsSQL,
		"string":     jsonStringSQL,
		"issueid":    fingerprintSQL,
		"warns":      warnsSQL,
		"summed":     summedSQL,
		"status":     statusSQL,
		"attributed": attributedSQL,
		"origin":     originSQL,
		"trimmed":    trimmedSQL,
		"rolled":     rolledSQL,
		"peaks":      peaksSQL,
	},
	Arguments: map[string]string{
		"memory_correlate": "(tenant = 'default', session_id = '', job_id = '', rank = -1, scope = 'session', " +
			"at_ns = 1795175929972803352, window_ns = 60000000000)",
	},
}
