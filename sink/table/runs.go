package table

// SegmentRow is a row of Segments.
type SegmentRow struct {
	HeadRow
	RunID                    string
	SegmentIndex             int32
	RollChainID              string
	PartIndex                uint32
	PreviousRunID            string
	PreviousSessionID        string
	StartedAt                int64
	StartRequestedBoundaryAt int64
	StartBoundaryDelayNS     uint64
	StartDeferredBy          string
	EndedAt                  int64
	RequestedBoundaryAt      int64
	BoundaryDelayNS          uint64
	EndReason                string
	DeferredBy               string
	RecordsOutside           uint64
	Synthetic                uint8
	ReceivedDay              int32
}

// Segments holds the sessions that belong to a run. job_start, segment_start, segment_end and run_end add to one row in any order, so
// everything is a maximum and what a line does not say is zero; SegmentIndex is then -1.
var Segments = DefineRows(DefineRollup("segments_data", "tenant, session_id", false), func(c *Binder[SegmentRow], r *SegmentRow) {
	c.Head(&r.HeadRow)
	c.Dict("run_id", &r.RunID, Most)
	c.I32("segment_index", &r.SegmentIndex, Most, Note("-1 unknown"))
	c.Dict("roll_chain_id", &r.RollChainID, Most)
	c.U32("part_index", &r.PartIndex, Most, Note("of the run within its roll chain, from 1"))
	c.Dict("previous_run_id", &r.PreviousRunID, Most)
	c.Dict("previous_session_id", &r.PreviousSessionID, Most)
	c.Time("started_at", &r.StartedAt, Most)
	c.Time("start_requested_boundary_at", &r.StartRequestedBoundaryAt, Most)
	c.U64("start_boundary_delay_ns", &r.StartBoundaryDelayNS, Most)
	c.Dict("start_deferred_by", &r.StartDeferredBy, Most)
	c.Time("ended_at", &r.EndedAt, Most)
	c.Time("requested_boundary_at", &r.RequestedBoundaryAt, Most)
	c.U64("boundary_delay_ns", &r.BoundaryDelayNS, Most)
	c.Dict("end_reason", &r.EndReason, Most, Note("time, row_budget, rolled, final, process_shutdown"))
	c.Dict("deferred_by", &r.DeferredBy, Most)
	c.U64("records_outside_segment_window", &r.RecordsOutside, Most)
	c.U8("synthetic", &r.Synthetic, Most)
	c.FactTail(&r.ReceivedDay)
})
