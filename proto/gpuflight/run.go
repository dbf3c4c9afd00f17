package gpuflight

// SegmentBegin is a segment_start line: a segmented run goes on in the session that carries it. Fields the line lacks, and those it
// says null for, are zero. Text is valid UTF-8.
type SegmentBegin struct {
	SessionID           string `json:"session_id"`
	RunID               string `json:"run_id"`
	SegmentIndex        int64  `json:"segment_index" fits:"id"`
	TimeNS              int64  `json:"ts_ns" fits:"size"`
	ActualStartNS       int64  `json:"actual_start_ns" fits:"size"`
	PreviousSessionID   string `json:"previous_session_id"`               // "" for the first segment
	RequestedBoundaryNS int64  `json:"requested_boundary_ns" fits:"size"` // 0: nobody asked for a cut
	BoundaryDelayNS     int64  `json:"boundary_delay_ns" fits:"size"`
	DeferredBy          string `json:"deferred_by"` // what put the cut off, "" nothing
	// Partial tells that a field was of the wrong JSON kind and read as zero.
	Partial bool `json:"-"`
}

// SegmentClose is a segment_end line: the session's segment is over. Fields are zero as in SegmentBegin.
type SegmentClose struct {
	SessionID           string `json:"session_id"`
	RunID               string `json:"run_id"`
	SegmentIndex        int64  `json:"segment_index" fits:"id"`
	TimeNS              int64  `json:"ts_ns" fits:"size"`
	ActualEndNS         int64  `json:"actual_end_ns" fits:"size"`
	RequestedBoundaryNS int64  `json:"requested_boundary_ns" fits:"size"` // 0: nobody asked for a cut
	BoundaryDelayNS     int64  `json:"boundary_delay_ns" fits:"size"`
	EndReason           string `json:"end_reason"` // time, row_budget, rolled, final, process_shutdown
	DeferredBy          string `json:"deferred_by"`
	// rows of the session that lie before its start or behind its end
	RecordsOutside int64 `json:"records_outside_segment_window" fits:"size"`
	Synthetic      bool  `json:"synthetic"` // written for a process that could not
	// Partial tells that a field was of the wrong JSON kind and read as zero.
	Partial bool `json:"-"`
}

// RunClose is a run_end line: no segment follows the final one. Fields are zero as in SegmentBegin, except FinalSegmentIndex, which is -1
// when the line does not say it.
type RunClose struct {
	SessionID           string `json:"session_id"`
	RunID               string `json:"run_id"`
	FinalSegmentIndex   int64  `json:"final_segment_index" fits:"id"`
	TimeNS              int64  `json:"ts_ns" fits:"size"`
	EndedNS             int64  `json:"ended_ns" fits:"size"`
	EndReason           string `json:"end_reason"`      // rolled, or ""
	RolloverReason      string `json:"rollover_reason"` // time, serialized_bytes, or ""
	RequestedRolloverNS int64  `json:"requested_rollover_ns" fits:"size"`
	ActualRolloverNS    int64  `json:"actual_rollover_ns" fits:"size"`
	Synthetic           bool   `json:"synthetic"`
	// Partial tells that a field was of the wrong JSON kind and read as zero.
	Partial bool `json:"-"`
}

// DecodeSegmentStart decodes a segment_start line, with the errors of DecodeJobStart.
func DecodeSegmentStart(line *Line) (SegmentBegin, error) {
	var s SegmentBegin
	partial, err := unmarshal(line.Raw, &s)
	if err != nil {
		return SegmentBegin{}, err
	}
	s.Partial = partial
	return s, nil
}

// DecodeSegmentEnd decodes a segment_end line, with the errors of DecodeJobStart.
func DecodeSegmentEnd(line *Line) (SegmentClose, error) {
	var s SegmentClose
	partial, err := unmarshal(line.Raw, &s)
	if err != nil {
		return SegmentClose{}, err
	}
	s.Partial = partial
	return s, nil
}

// DecodeRunEnd decodes a run_end line, with the errors of DecodeJobStart.
func DecodeRunEnd(line *Line) (RunClose, error) {
	r := RunClose{FinalSegmentIndex: -1}
	partial, err := unmarshal(line.Raw, &r)
	if err != nil {
		return RunClose{}, err
	}
	r.Partial = partial
	return r, nil
}
