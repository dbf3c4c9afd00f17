// Package trace has the tables and views of Chrome traces, above all those of PyTorch's profiler: slices of threads and streams, counters,
// arrows, and what they come to.
package trace

import (
	"embed"
	"strings"
	"text/template"

	"github.com/warpline/warpline/sink/table"
)

//go:embed views/*.sql
var views embed.FS

// Source is what traces add to a schema.
var Source = table.Source{
	Name:   "trace",
	Tables: []*table.Table{Slices.Table, Counters.Table, FlowEnds.Table, Stats.Table},
	Views:  views,
	Funcs:  template.FuncMap{"launchflows": launchFlows},
}

// launchFlows lists the categories of arrows from a launch to what it launched: a correlation says the same, and says it of all of them.
func launchFlows() string {
	quoted := []string{}
	for _, c := range []string{"ac2g", "async_cpu_to_gpu", "async"} {
		quoted = append(quoted, table.Quote(c))
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}
