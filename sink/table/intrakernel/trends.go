package intrakernel

import "github.com/warpline/warpline/sink/table"

type regionTrendsTable struct {
	*table.Table
	table.Head
	Kernel       table.DictCol
	Region       table.U32Col
	Name         table.DictCol
	StartedAt    table.TimeCol
	Slices       table.U64Col
	TotalNS      table.U64Col
	MinNS        table.U64Col
	MaxNS        table.U64Col
	DurationHist table.HistCol
	table.FactTail
}

// RegionTrends adds up regions by session and kernel.
var RegionTrends = func() regionTrendsTable {
	t := table.DefineRollup("region_trends_data", "tenant, session_id, kernel, region", false)
	return regionTrendsTable{
		Table:        t,
		Head:         t.Head(),
		Kernel:       t.Dict("kernel"),
		Region:       t.U32("region"),
		Name:         t.Dict("name", table.Most),
		StartedAt:    t.Time("started_at", table.Least),
		Slices:       t.U64("slices", table.Sum),
		TotalNS:      t.U64("total_ns", table.Sum, table.Note("a duration of more than 2^48 ns, three days, counts as so much")),
		MinNS:        t.U64("min_ns", table.Least),
		MaxNS:        t.U64("max_ns", table.Most),
		DurationHist: t.Hist("duration_hist", table.SumMap, table.Note("buckets of package hist")),
		FactTail:     t.FactTail(),
	}
}()

// MostAdded is the longest duration that is added up, in ns: so that sums of a session stay within 64 bits.
const MostAdded = 1 << 48

type regionBlocksTable struct {
	*table.Table
	table.Head
	Kernel  table.DictCol
	Region  table.U32Col
	Block   table.U32Col
	Slices  table.U64Col
	TotalNS table.U64Col
	table.FactTail
}

// RegionBlocks adds up the regions of each block: which are late can be asked when the slices have expired.
var RegionBlocks = func() regionBlocksTable {
	t := table.DefineRollup("region_blocks_data", "tenant, session_id, kernel, region, block", false)
	return regionBlocksTable{
		Table:    t,
		Head:     t.Head(),
		Kernel:   t.Dict("kernel"),
		Region:   t.U32("region"),
		Block:    t.U32("block", table.Codec(table.Rising)),
		Slices:   t.U64("slices", table.Sum),
		TotalNS:  t.U64("total_ns", table.Sum, table.Note("as in region_trends_data")),
		FactTail: t.FactTail(),
	}
}()
