// Package gpuflight has the tables and views that only GPU Flight fills: what its sampler, its passes and its runs report about themselves.
// What it measures is in tables that sources share, in package table. So are segments and deep windows, since shared views read them.
package gpuflight

import (
	"embed"

	"github.com/warpline/warpline/sink/table"
)

//go:embed views/*.sql
var views embed.FS

// Source is what GPU Flight adds to a schema.
var Source = table.Source{
	Name: "gpuflight",
	Tables: []*table.Table{
		PMConfigs.Table, SassConfigs.Table, ExecutionSignatures.Table, DeepWindowRules.Table, CounterQuality.Table, RunEnds.Table,
		SystemEvents.Table, DeviceSnapshots.Table, JobStarts.Table, Capabilities.Table,
	},
	Views: views,
}
