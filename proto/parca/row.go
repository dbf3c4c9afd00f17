package parca

// WireRow is one row of a batch as the wire has it, whatever the encoding. It is for tests and tools: making one allocates.
// Its JSON is a line of testdata/parca/*.wire_rows.ndjson.
type WireRow struct {
	TimestampUnixNS int64             `json:"timestamp_unix_ns"`
	Labels          map[string]string `json:"labels"`
	Producer        string            `json:"producer"`
	SampleType      string            `json:"sample_type"`
	SampleUnit      string            `json:"sample_unit"`
	PeriodType      string            `json:"period_type"`
	PeriodUnit      string            `json:"period_unit"`
	Temporality     string            `json:"temporality"`
	Period          int64             `json:"period"`
	Duration        uint64            `json:"duration"` // nanoseconds
	Value           int64             `json:"value"`
	// StacktraceID is 32 hex digits, "" where the encoding has none. It is no identity.
	StacktraceID string      `json:"stacktrace_id"`
	Stacktrace   []WireFrame `json:"stacktrace"` // innermost frame first
}

// WireFrame is one frame of a row's stack. A location with several lines gives several frames.
type WireFrame struct {
	Address        uint64 `json:"address"`
	FrameType      string `json:"frame_type"`
	MappingFile    string `json:"mapping_file,omitempty"`
	MappingBuildID string `json:"mapping_build_id,omitempty"`
	Line           uint64 `json:"line"`
	Column         uint64 `json:"column"`
	SystemName     string `json:"system_name,omitempty"`
	Filename       string `json:"filename,omitempty"`
	HasLines       bool   `json:"has_lines"` // false: the address is not resolved
}
