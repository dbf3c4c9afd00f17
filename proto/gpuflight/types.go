package gpuflight

// Type is the kind of a line, from its "type" key. The zero value is TypeUnknown.
type Type uint8

// The types of the client as of v1.3.0rc1, then those only older clients wrote.
const (
	TypeUnknown Type = iota

	// Batches: these carry columns and rows.
	KernelEventBatch
	MemcpyEventBatch
	ScopeEventBatch
	ProfileSampleBatch
	HostMetricBatch
	DeviceMetricBatch
	SynchronizationEventBatch
	MemoryAllocEventBatch
	PMSampleBatch

	// Session life, written to every channel.
	JobStart
	Shutdown
	SegmentStart
	SegmentEnd
	RunEnd
	CaptureCapabilities
	DictionaryUpdate

	// Single lines.
	KernelDetail
	MemsetEvent
	SassConfig
	KernelPerfMetricEvent
	SystemStart
	SystemStop
	PMSamplingConfig
	NvtxMarkerEvent
	GraphLaunchEvent
	GraphNodeDefinition
	PerfMetricEvent
	ExecutionSignature
	DeepWindowEvent
	DeepWindowRuleSummary
	CounterDataQualitySummary
	SourceFileContent
	CubinDisassembly
	PtxDisassembly

	// Older clients.
	Init
	KernelEvent
	MemcpyEvent
	ScopeBegin
	ScopeEnd
	ProfileSample
	SynchronizationEvent
	MemoryAllocEvent
	SystemSample

	numTypes
)

// numBatchTypes bounds the batch types, which stand first in the list above.
const numBatchTypes = PMSampleBatch + 1

var typeNames = [numTypes]string{
	TypeUnknown:               "unknown",
	KernelEventBatch:          "kernel_event_batch",
	MemcpyEventBatch:          "memcpy_event_batch",
	ScopeEventBatch:           "scope_event_batch",
	ProfileSampleBatch:        "profile_sample_batch",
	HostMetricBatch:           "host_metric_batch",
	DeviceMetricBatch:         "device_metric_batch",
	SynchronizationEventBatch: "synchronization_event_batch",
	MemoryAllocEventBatch:     "memory_alloc_event_batch",
	PMSampleBatch:             "pm_sample_batch",
	JobStart:                  "job_start",
	Shutdown:                  "shutdown",
	SegmentStart:              "segment_start",
	SegmentEnd:                "segment_end",
	RunEnd:                    "run_end",
	CaptureCapabilities:       "capture_capabilities",
	DictionaryUpdate:          "dictionary_update",
	KernelDetail:              "kernel_detail",
	MemsetEvent:               "memset_event",
	SassConfig:                "sass_config",
	KernelPerfMetricEvent:     "kernel_perf_metric_event",
	SystemStart:               "system_start",
	SystemStop:                "system_stop",
	PMSamplingConfig:          "pm_sampling_config",
	NvtxMarkerEvent:           "nvtx_marker_event",
	GraphLaunchEvent:          "graph_launch_event",
	GraphNodeDefinition:       "graph_node_definition",
	PerfMetricEvent:           "perf_metric_event",
	ExecutionSignature:        "execution_signature",
	DeepWindowEvent:           "deep_window_event",
	DeepWindowRuleSummary:     "deep_window_rule_summary",
	CounterDataQualitySummary: "counter_data_quality_summary",
	SourceFileContent:         "source_file_content",
	CubinDisassembly:          "cubin_disassembly",
	PtxDisassembly:            "ptx_disassembly",
	Init:                      "init",
	KernelEvent:               "kernel_event",
	MemcpyEvent:               "memcpy_event",
	ScopeBegin:                "scope_begin",
	ScopeEnd:                  "scope_end",
	ProfileSample:             "profile_sample",
	SynchronizationEvent:      "synchronization_event",
	MemoryAllocEvent:          "memory_alloc_event",
	SystemSample:              "system_sample",
}

var typesByName = func() map[string]Type {
	m := make(map[string]Type, numTypes)
	for t := TypeUnknown + 1; t < numTypes; t++ {
		m[typeNames[t]] = t
	}
	return m
}()

// String returns the wire name, "unknown" for TypeUnknown and for values outside the list.
func (t Type) String() string {
	if t >= numTypes {
		return typeNames[TypeUnknown]
	}
	return typeNames[t]
}

// IsBatch reports whether lines of this type carry columns and rows.
func (t Type) IsBatch() bool { return t > TypeUnknown && t < numBatchTypes }

// TypeOf returns the type with this wire name, TypeUnknown if there is none.
func TypeOf(name []byte) Type {
	// The two types that make up nearly all lines do without the map.
	switch string(name) {
	case "kernel_detail":
		return KernelDetail
	case "kernel_event_batch":
		return KernelEventBatch
	}
	return typesByName[string(name)]
}
