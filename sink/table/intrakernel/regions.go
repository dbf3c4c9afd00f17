package intrakernel

import "github.com/warpline/warpline/sink/table"

type regionsTable struct {
	*table.Table
	table.Head
	Kernel     table.DictCol
	Region     table.U32Col
	Name       table.DictCol
	Block      table.U32Col
	Warp       table.U16Col
	SM         table.U16Col
	StartedAt  table.TimeCol
	DurationNS table.U64Col
	table.RawTail
}

// Regions holds one row for each time that a warp was in a region.
var Regions = func() regionsTable {
	t := table.Define("regions_data", table.Raw, "tenant, session_id, kernel, region, block, warp, started_at")
	return regionsTable{
		Table:      t,
		Head:       t.Head(),
		Kernel:     t.Dict("kernel", table.Note("as the sender or the trace names it, '' unknown")),
		Region:     t.U32("region", table.Note("id of the region in its kernel")),
		Name:       t.Dict("name", table.Note("of the region; its id where it has none")),
		Block:      t.U32("block", table.Note("blockIdx.x, of write_trace modulo 65536")),
		Warp:       t.U16("warp", table.Note("in its block")),
		SM:         t.U16("sm", table.Note("multiprocessor, of write_trace modulo 1024")),
		StartedAt:  startedAt(t),
		DurationNS: t.U64("duration_ns", table.Note("of the device's clock, not scaled")),
		RawTail:    t.RawTail(),
	}
}()

func startedAt(t *table.Table) table.TimeCol {
	return t.Time("started_at", table.Codec(table.Spread), table.Note("from 1970 on where the sender does not say when the launch was"))
}

type regionMarksTable struct {
	*table.Table
	table.Head
	Kernel table.DictCol
	Region table.U32Col
	Name   table.DictCol
	Block  table.U32Col
	Warp   table.U16Col
	SM     table.U16Col
	At     table.TimeCol
	table.RawTail
}

// RegionMarks holds one row for each time that a warp passed a mark.
var RegionMarks = func() regionMarksTable {
	t := table.Define("region_marks_data", table.Raw, "tenant, session_id, kernel, region, block, warp, at")
	return regionMarksTable{
		Table:   t,
		Head:    t.Head(),
		Kernel:  t.Dict("kernel"),
		Region:  t.U32("region"),
		Name:    t.Dict("name"),
		Block:   t.U32("block"),
		Warp:    t.U16("warp"),
		SM:      t.U16("sm"),
		At:      t.Time("at", table.Codec(table.Spread), table.Note("as started_at of regions")),
		RawTail: t.RawTail(),
	}
}()

// RegionCaptureRow is a row of RegionCaptures.
type RegionCaptureRow struct {
	table.HeadRow
	Kernel         string
	Device         string
	Host           string
	Job            string
	Rank           int64
	Launch         int64
	StartedAt      int64
	Clock          string
	Scale          float64
	Blocks         uint32
	WarpsPerBlock  uint32
	PerWarpCap     uint32
	GroupBySM      uint8
	Bins           uint32
	BlockBins      uint32
	Recorded       uint64
	Survived       uint64
	Lost           uint64
	UnmatchedBegin uint64
	UnmatchedEnd   uint64
	ReceivedDay    int32
}

// RegionCaptures holds what is known of a capture as a whole, one row a session.
var RegionCaptures = table.DefineRows(table.Define("region_captures_data", table.Fact, "tenant, session_id").LastCounts(),
	func(c *table.Binder[RegionCaptureRow], r *RegionCaptureRow) {
		c.Head(&r.HeadRow)
		c.Dict("kernel", &r.Kernel)
		c.Dict("device", &r.Device)
		c.Dict("host", &r.Host)
		c.Dict("job_id", &r.Job)
		c.I64("rank", &r.Rank, table.Note("-1 unknown"))
		c.I64("launch", &r.Launch, table.Note("which launch of the kernel, -1 unknown"))
		c.Time("started_at", &r.StartedAt, table.Note("of the first record; 1970 unknown"))
		c.Dict("clock", &r.Clock, table.Note("globaltimer, or cycles that are shown as ns"))
		c.F64("scale", &r.Scale, table.Note("what the sender multiplies times with, in its summaries"))
		c.U32("blocks", &r.Blocks, table.Note("gridDim.x; 0 unknown, as the two that follow"))
		c.U32("warps_per_block", &r.WarpsPerBlock)
		c.U32("per_warp_cap", &r.PerWarpCap, table.Note("records that the ring of a warp holds"))
		c.U8("group_by_smid", &r.GroupBySM, table.Note("1: a begin and an end pair on one multiprocessor alone"))
		c.U32("bins", &r.Bins, table.Note("of the histograms of region_stats"))
		c.U32("block_bins", &r.BlockBins, table.Note("of those of region_block_stats"))
		c.U64("recorded", &r.Recorded, table.Note("records that the device made"))
		c.U64("survived", &r.Survived, table.Note("records that came through rings and block filter"))
		c.U64("lost", &r.Lost, table.Note("records that were overwritten in a ring"))
		c.U64("unmatched_begin", &r.UnmatchedBegin)
		c.U64("unmatched_end", &r.UnmatchedEnd)
		c.FactTail(&r.ReceivedDay)
	})
