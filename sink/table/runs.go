package table

type segmentsTable struct {
	*Table
	Head
	RunID                    DictCol
	SegmentIndex             I32Col
	RollChainID              DictCol
	PartIndex                U32Col
	PreviousRunID            DictCol
	PreviousSessionID        DictCol
	StartedAt                TimeCol
	StartRequestedBoundaryAt TimeCol
	StartBoundaryDelayNS     U64Col
	StartDeferredBy          DictCol
	EndedAt                  TimeCol
	RequestedBoundaryAt      TimeCol
	BoundaryDelayNS          U64Col
	EndReason                DictCol
	DeferredBy               DictCol
	RecordsOutside           U64Col
	Synthetic                U8Col
	FactTail
}

// Segments holds the sessions that belong to a run. job_start, segment_start, segment_end and run_end add to one row in any order, so
// everything is a maximum and what a line does not say is zero; SegmentIndex is then -1.
var Segments = func() segmentsTable {
	t := DefineRollup("segments_data", "tenant, session_id", false)
	return segmentsTable{
		Table:                    t,
		Head:                     t.Head(),
		RunID:                    t.Dict("run_id", Most),
		SegmentIndex:             t.I32("segment_index", Most, Note("-1 unknown")),
		RollChainID:              t.Dict("roll_chain_id", Most),
		PartIndex:                t.U32("part_index", Most, Note("of the run within its roll chain, from 1")),
		PreviousRunID:            t.Dict("previous_run_id", Most),
		PreviousSessionID:        t.Dict("previous_session_id", Most),
		StartedAt:                t.Time("started_at", Most),
		StartRequestedBoundaryAt: t.Time("start_requested_boundary_at", Most),
		StartBoundaryDelayNS:     t.U64("start_boundary_delay_ns", Most),
		StartDeferredBy:          t.Dict("start_deferred_by", Most),
		EndedAt:                  t.Time("ended_at", Most),
		RequestedBoundaryAt:      t.Time("requested_boundary_at", Most),
		BoundaryDelayNS:          t.U64("boundary_delay_ns", Most),
		EndReason:                t.Dict("end_reason", Most, Note("time, row_budget, rolled, final, process_shutdown")),
		DeferredBy:               t.Dict("deferred_by", Most),
		RecordsOutside:           t.U64("records_outside_segment_window", Most),
		Synthetic:                t.U8("synthetic", Most),
		FactTail:                 t.FactTail(),
	}
}()
