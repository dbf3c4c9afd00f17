package gpuflight

import "github.com/warpline/warpline/sink/table"

// RunEndRow is a row of RunEnds.
type RunEndRow struct {
	table.HeadRow
	RunID               string
	FinalSegmentIndex   int32
	EndedAt             int64
	EndReason           string
	RolloverReason      string
	RequestedRolloverAt int64
	ActualRolloverAt    int64
	Synthetic           uint8
	ReceivedDay         int32
}

// RunEnds holds the ends of runs, by the session that reported the end.
var RunEnds = table.DefineRows(table.DefineRollup("run_ends_data", "tenant, session_id, run_id", false).Few(),
	func(c *table.Binder[RunEndRow], r *RunEndRow) {
		c.Head(&r.HeadRow)
		c.Dict("run_id", &r.RunID)
		c.I32("final_segment_index", &r.FinalSegmentIndex, table.Most, table.Note("-1 unknown"))
		c.Time("ended_at", &r.EndedAt, table.Most)
		c.Dict("end_reason", &r.EndReason, table.Most, table.Note("rolled, or ''"))
		c.Dict("rollover_reason", &r.RolloverReason, table.Most, table.Note("time, serialized_bytes"))
		c.Time("requested_rollover_at", &r.RequestedRolloverAt, table.Most)
		c.Time("actual_rollover_at", &r.ActualRolloverAt, table.Most)
		c.U8("synthetic", &r.Synthetic, table.Most)
		c.FactTail(&r.ReceivedDay)
	})
