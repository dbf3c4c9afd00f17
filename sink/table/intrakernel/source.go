// Package intrakernel has the tables and views of captures of intra-kernel profilers: what each warp did between two points of one kernel.
package intrakernel

import (
	"embed"
	"strconv"
	"strings"
	"text/template"

	"github.com/warpline/warpline/sink/table"
)

//go:embed views/*.sql
var views embed.FS

// Source is what captures of intra-kernel profilers add to a schema.
var Source = table.Source{
	Name:   "intrakernel",
	Tables: []*table.Table{Regions.Table, RegionMarks.Table, RegionCaptures.Table, RegionTrends.Table, RegionBlocks.Table},
	Views:  views,
	Funcs:  template.FuncMap{"levels": levelsSQL},
}

// levels are the percentiles of a summary.
var levels = [...]int{5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99}

// levelsSQL lists the percentiles, as the keys of a map or as numbers.
func levelsSQL(as string) string {
	var list []string
	for _, l := range levels {
		if as == "keys" {
			list = append(list, "'p"+strconv.Itoa(l)+"'")
		} else {
			list = append(list, strconv.Itoa(l))
		}
	}
	return "[" + strings.Join(list, ", ") + "]"
}
