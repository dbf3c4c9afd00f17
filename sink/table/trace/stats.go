package trace

import "github.com/warpline/warpline/sink/table"

type statsTable struct {
	*table.Table
	table.Head
	table.BucketHead
	Category     table.DictCol
	Name         table.DictCol
	Calls        table.U64Col
	TotalNS      table.U64Col
	MinNS        table.U64Col
	MaxNS        table.U64Col
	DurationHist table.HistCol
	table.FactTail
}

// Stats adds up slices by category, name and minute.
var Stats = func() statsTable {
	t := table.DefineRollup("trace_stats_data", "tenant, session_id, category, name", true)
	return statsTable{
		Table:        t,
		Head:         t.Head(),
		BucketHead:   t.BucketHead(),
		Category:     t.Dict("category"),
		Name:         t.Dict("name"),
		Calls:        t.U64("calls", table.Sum),
		TotalNS:      t.U64("total_ns", table.Sum, table.Note("a duration of more than 2^48 ns, three days, counts as so much")),
		MinNS:        t.U64("min_ns", table.Least),
		MaxNS:        t.U64("max_ns", table.Most),
		DurationHist: t.Hist("duration_hist", table.SumMap, table.Note("buckets of package hist")),
		FactTail:     t.FactTail(),
	}
}()

// MostAdded is the longest duration that is added up, in ns: so that sums of a session stay within 64 bits.
const MostAdded = 1 << 48
