package trace

import "github.com/warpline/warpline/sink/table"

type flowEndsTable struct {
	*table.Table
	table.Head
	Category        table.DictCol
	Name            table.DictCol
	FlowID          table.U64Col
	Phase           table.DictCol
	At              table.TimeCol
	PID             table.DictCol
	TID             table.DictCol
	SliceName       table.DictCol
	SliceDurationNS table.U64Col
	table.RawTail
}

// FlowEnds holds one row for each end of an arrow, as the trace has it.
var FlowEnds = func() flowEndsTable {
	t := table.Define("trace_flow_ends_data", table.Raw, "tenant, session_id, category, name, flow_id")
	return flowEndsTable{
		Table:    t,
		Head:     t.Head(),
		Category: t.Dict("category"),
		Name:     t.Dict("name"),
		FlowID:   t.U64("flow_id", table.Codec("DoubleDelta, ZSTD(1)"), table.Note("id, or a hash above 2^63 of one that is no number")),
		Phase:    t.Dict("phase", table.Note("s start, t step, f end")),
		At:       t.Time("at", table.Codec(table.Spread)),
		PID:      t.Dict("pid"),
		TID:      t.Dict("tid"),
		SliceName: t.Dict("slice_name",
			table.Note("of the slice that stood just before it in the trace, if that has its thread and time; else ''")),
		SliceDurationNS: t.U64("slice_duration_ns"),
		RawTail:         t.RawTail(),
	}
}()
