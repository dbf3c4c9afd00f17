package gpuflight

import "github.com/warpline/warpline/sink/table"

type runEndsTable struct {
	*table.Table
	table.Head
	RunID               table.DictCol
	FinalSegmentIndex   table.I32Col
	EndedAt             table.TimeCol
	EndReason           table.DictCol
	RolloverReason      table.DictCol
	RequestedRolloverAt table.TimeCol
	ActualRolloverAt    table.TimeCol
	Synthetic           table.U8Col
	table.FactTail
}

// RunEnds holds the ends of runs, by the session that told of it.
var RunEnds = func() runEndsTable {
	t := table.DefineRollup("run_ends_data", "tenant, session_id, run_id", false)
	return runEndsTable{
		Table:               t,
		Head:                t.Head(),
		RunID:               t.Dict("run_id"),
		FinalSegmentIndex:   t.I32("final_segment_index", table.Most, table.Note("-1 unknown")),
		EndedAt:             t.Time("ended_at", table.Most),
		EndReason:           t.Dict("end_reason", table.Most, table.Note("rolled, or ''")),
		RolloverReason:      t.Dict("rollover_reason", table.Most, table.Note("time, serialized_bytes")),
		RequestedRolloverAt: t.Time("requested_rollover_at", table.Most),
		ActualRolloverAt:    t.Time("actual_rollover_at", table.Most),
		Synthetic:           t.U8("synthetic", table.Most),
		FactTail:            t.FactTail(),
	}
}()
