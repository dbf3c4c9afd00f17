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
	t := aggregate("segments_data", "tenant, session_id", false)
	return segmentsTable{
		Table:                    t,
		Head:                     t.head(),
		RunID:                    t.dict("run_id", most),
		SegmentIndex:             t.i32("segment_index", most, note("-1 unknown")),
		RollChainID:              t.dict("roll_chain_id", most),
		PartIndex:                t.u32("part_index", most, note("of the run within its roll chain, from 1")),
		PreviousRunID:            t.dict("previous_run_id", most),
		PreviousSessionID:        t.dict("previous_session_id", most),
		StartedAt:                t.time("started_at", most),
		StartRequestedBoundaryAt: t.time("start_requested_boundary_at", most),
		StartBoundaryDelayNS:     t.u64("start_boundary_delay_ns", most),
		StartDeferredBy:          t.dict("start_deferred_by", most),
		EndedAt:                  t.time("ended_at", most),
		RequestedBoundaryAt:      t.time("requested_boundary_at", most),
		BoundaryDelayNS:          t.u64("boundary_delay_ns", most),
		EndReason:                t.dict("end_reason", most, note("time, row_budget, rolled, final, process_shutdown")),
		DeferredBy:               t.dict("deferred_by", most),
		RecordsOutside:           t.u64("records_outside_segment_window", most),
		Synthetic:                t.u8("synthetic", most),
		FactTail:                 t.factTail(),
	}
}()

type runEndsTable struct {
	*Table
	Head
	RunID               DictCol
	FinalSegmentIndex   I32Col
	EndedAt             TimeCol
	EndReason           DictCol
	RolloverReason      DictCol
	RequestedRolloverAt TimeCol
	ActualRolloverAt    TimeCol
	Synthetic           U8Col
	FactTail
}

// RunEnds holds the ends of runs, by the session that told of it.
var RunEnds = func() runEndsTable {
	t := aggregate("run_ends_data", "tenant, session_id, run_id", false)
	return runEndsTable{
		Table:               t,
		Head:                t.head(),
		RunID:               t.dict("run_id"),
		FinalSegmentIndex:   t.i32("final_segment_index", most, note("-1 unknown")),
		EndedAt:             t.time("ended_at", most),
		EndReason:           t.dict("end_reason", most, note("rolled, or ''")),
		RolloverReason:      t.dict("rollover_reason", most, note("time, serialized_bytes")),
		RequestedRolloverAt: t.time("requested_rollover_at", most),
		ActualRolloverAt:    t.time("actual_rollover_at", most),
		Synthetic:           t.u8("synthetic", most),
		FactTail:            t.factTail(),
	}
}()
