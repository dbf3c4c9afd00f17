package table

type memoryEventsTable struct {
	*Table
	Head
	At                 TimeCol
	TimestampNS        I64Col
	EventType          DictCol
	Collector          DictCol
	Backend            DictCol
	Framework          DictCol
	SamplingIntervalMS I64Col
	PID                I64Col
	Host               DictCol
	JobID              DictCol
	Rank               I64Col
	LocalRank          I64Col
	WorldSize          I64Col
	DeviceID           I64Col
	AllocatedBytes     I64Col
	ReservedBytes      I64Col
	ActiveBytes        I64Col
	InactiveBytes      I64Col
	ChangeBytes        I64Col
	DeviceUsedBytes    I64Col
	DeviceFreeBytes    I64Col
	DeviceTotalBytes   I64Col
	Context            StrCol
	Metadata           StrCol
	Present            U16Col
	Legacy             U8Col
	Origin             DictCol
	UploadIndex        U32Col
	SentVersion        U8Col
	RecordSession      DictCol
	Capabilities       U16Col
	CapabilityBackend  DictCol
	CapabilityOf       DictCol
	SamplingSource     DictCol
	HealthPresent      U8Col
	HealthStatus       DictCol
	Partial            U8Col
	PartialFields      DictCol
	LastError          DictCol
	Failures           I64Col
	NextRetry          F64Col
	EventHash          U32Col
	Richness           U8Col
	RawTail
}

// MemoryEvents holds one row for each accepted TelemetryEvent. What may be null has a bit in Present, telemetry.Presence; the view
// makes it NULL again.
var MemoryEvents = func() memoryEventsTable {
	t := define("memory_events_data", Raw, "tenant, session_id, at")
	return memoryEventsTable{
		Table:              t,
		Head:               t.head(),
		At:                 t.time("at", codec(spread), note("timestamp_ns; the latest possible time where it is beyond that")),
		TimestampNS:        t.i64("timestamp_ns", codec(spread)),
		EventType:          t.dict("event_type"),
		Collector:          t.dict("collector", note("as sent")),
		Backend:            t.dict("backend", note("cuda, rocm, mps, cpu; '' unknown")),
		Framework:          t.dict("framework", note("pytorch, tensorflow; '' none or unknown")),
		SamplingIntervalMS: t.i64("sampling_interval_ms"),
		PID:                t.i64("pid", note("-1 unknown")),
		Host:               t.dict("host"),
		JobID:              t.dict("job_id"),
		Rank:               t.i64("rank"),
		LocalRank:          t.i64("local_rank"),
		WorldSize:          t.i64("world_size"),
		DeviceID:           t.i64("device_id", note("-1 the processor")),
		AllocatedBytes:     t.i64("allocator_allocated_bytes"),
		ReservedBytes:      t.i64("allocator_reserved_bytes"),
		ActiveBytes:        t.i64("allocator_active_bytes"),
		InactiveBytes:      t.i64("allocator_inactive_bytes"),
		ChangeBytes:        t.i64("allocator_change_bytes", note("several events of one sample carry the same change")),
		DeviceUsedBytes:    t.i64("device_used_bytes"),
		DeviceFreeBytes:    t.i64("device_free_bytes"),
		DeviceTotalBytes:   t.i64("device_total_bytes"),
		Context:            t.str("context"),
		Metadata:           t.str("metadata", note("a JSON object, canonical")),
		Present:            t.u16("present", note("bits: active, inactive, free, total, context, job_id, rank, local_rank, world_size; then not: allocated, reserved, change, used; session_id; capabilities inferred")),
		Legacy:             t.u8("legacy", note("1 when converted from before schema version 2")),
		Origin:             t.dict("origin", note("json, csv, sink, oom, tf: what it was read from")),
		UploadIndex:        t.u32("upload_index", note("place among the records of its upload")),
		SentVersion:        t.u8("sent_version", note("schema_version of the record as it was sent, 1 without; 0 in rows of before 4 was known")),
		RecordSession:      t.dict("record_session_id", note("session_id as sent; '' when the record names none, or a very long one")),
		Capabilities:       t.u16("capabilities", note("bits: supports_* as in the view memory_events; 11 known")),
		CapabilityBackend:  t.dict("capability_backend"),
		CapabilityOf:       t.dict("capability_collector"),
		SamplingSource:     t.dict("sampling_source"),
		HealthPresent:      t.u8("health_present", note("bits: status, partial, fields, error, failures, retry")),
		HealthStatus:       t.dict("health_status"),
		Partial:            t.u8("telemetry_partial"),
		PartialFields:      t.dict("partial_fields", note("a JSON array")),
		LastError:          t.dict("last_error"),
		Failures:           t.i64("consecutive_failures"),
		NextRetry:          t.f64("next_retry_s"),
		EventHash:          t.u32("event_hash", note("of what makes it one event, whatever the export; 0 in older rows")),
		Richness:           t.u8("richness", note("how much the copy says; of two copies the richer is shown")),
		RawTail:            t.rawTail(),
	}
}()

type memoryStatsTable struct {
	*Table
	Head
	BucketHead
	DeviceID          I64Col
	Rank              I64Col
	Host              DictCol
	JobID             DictCol
	Events            U64Col
	AllocatedSum      U64Col
	AllocatedPeak     U64Col
	ReservedSum       U64Col
	ReservedPeak      U64Col
	ActiveEvents      U64Col
	ActiveSum         U64Col
	ActivePeak        U64Col
	UsedSum           U64Col
	UsedPeak          U64Col
	TotalPeak         U64Col
	Allocations       U64Col
	AllocationBytes   U64Col
	Deallocations     U64Col
	DeallocationBytes U64Col
	FragmentedEvents  U64Col
	FragmentationPPB  U64Col
	FragmentationPeak U64Col
	UtilizationEvents U64Col
	UtilizationPPB    U64Col
	UtilizationPeak   U64Col
	Warnings          U64Col
	Criticals         U64Col
	WorldSize         U64Col
	NoAllocated       U64Col
	NoReserved        U64Col
	NoUsed            U64Col
	InactiveEvents    U64Col
	InactivePPB       U64Col
	InactivePeak      U64Col
	FactTail
}

// MemoryStats adds up memory events by device, rank and minute. Sums are of whole bytes, and ratios of whole parts in 10^9, so that parts
// add exactly in any order.
var MemoryStats = func() memoryStatsTable {
	t := aggregate("memory_stats_data", "tenant, session_id, device_id, rank", true)
	return memoryStatsTable{
		Table:             t,
		Head:              t.head(),
		BucketHead:        t.bucketHead(),
		DeviceID:          t.i64("device_id"),
		Rank:              t.i64("rank"),
		Host:              t.dict("host", most),
		JobID:             t.dict("job_id", most),
		Events:            t.u64("events", sum),
		AllocatedSum:      t.u64("allocated_sum", sum),
		AllocatedPeak:     t.u64("allocated_peak", most),
		ReservedSum:       t.u64("reserved_sum", sum),
		ReservedPeak:      t.u64("reserved_peak", most),
		ActiveEvents:      t.u64("active_events", sum, note("events that say how much is active")),
		ActiveSum:         t.u64("active_sum", sum),
		ActivePeak:        t.u64("active_peak", most),
		UsedSum:           t.u64("used_sum", sum),
		UsedPeak:          t.u64("used_peak", most),
		TotalPeak:         t.u64("total_peak", most, note("0 while it is not known")),
		Allocations:       t.u64("allocations", sum, note("events of type allocation: each change counts once")),
		AllocationBytes:   t.u64("allocation_bytes", sum),
		Deallocations:     t.u64("deallocations", sum),
		DeallocationBytes: t.u64("deallocation_bytes", sum),
		FragmentedEvents:  t.u64("fragmented_events", sum, note("events with reserved and allocated bytes")),
		FragmentationPPB:  t.u64("fragmentation_ppb", sum, note("(reserved - allocated) / reserved in 10^-9: the allocator's cache, in spite of the name")),
		FragmentationPeak: t.u64("fragmentation_peak_ppb", most),
		UtilizationEvents: t.u64("utilization_events", sum, note("events with a total")),
		UtilizationPPB:    t.u64("utilization_ppb", sum, note("used / total in 10^-9")),
		UtilizationPeak:   t.u64("utilization_peak_ppb", most),
		Warnings:          t.u64("warnings", sum),
		Criticals:         t.u64("criticals", sum, note("events of type critical or error")),
		WorldSize:         t.u64("world_size", most),
		NoAllocated:       t.u64("no_allocated", sum, note("events that do not say how much is allocated")),
		NoReserved:        t.u64("no_reserved", sum),
		NoUsed:            t.u64("no_used", sum),
		InactiveEvents:    t.u64("inactive_events", sum, note("events whose collector can say how fragmented memory is; 0 in older rows")),
		InactivePPB:       t.u64("inactive_ppb", sum, note("inactive / reserved in 10^-9, at most 1")),
		InactivePeak:      t.u64("inactive_peak_ppb", most),
		FactTail:          t.factTail(),
	}
}()

type memoryReplacedTable struct {
	*Table
	Head
	TimestampNS I64Col
	EventHash   U32Col
	Richness    U8Col
	RawTail
}

// MemoryReplaced names rows of MemoryEvents in whose place a richer copy of the same event stands.
var MemoryReplaced = func() memoryReplacedTable {
	t := define("memory_replaced_data", Raw, "tenant, session_id, timestamp_ns")
	return memoryReplacedTable{
		Table:       t,
		Head:        t.head(),
		TimestampNS: t.i64("timestamp_ns", codec(spread)),
		EventHash:   t.u32("event_hash"),
		Richness:    t.u8("richness"),
		RawTail:     t.rawTail(),
	}
}()

type memoryTrackAlertsTable struct {
	*Table
	Head
	At          TimeCol
	TimestampNS I64Col
	Host        DictCol
	JobID       DictCol
	Rank        I64Col
	DeviceID    I64Col
	MemoryMB    F64Col
	ThresholdMB F64Col
	Message     StrCol
	RawTail
}

// MemoryTrackAlerts holds the alerts that trackers' files have beside their events. One that came twice may have several rows, the view
// memory_alerts shows one.
var MemoryTrackAlerts = func() memoryTrackAlertsTable {
	t := define("memory_track_alerts_data", Raw, "tenant, session_id, at")
	return memoryTrackAlertsTable{
		Table:       t,
		Head:        t.head(),
		At:          t.time("at", codec(spread)),
		TimestampNS: t.i64("timestamp_ns", codec(spread), note("that of the sample, an event of its own")),
		Host:        t.dict("host"),
		JobID:       t.dict("job_id"),
		Rank:        t.i64("rank"),
		DeviceID:    t.i64("device_id", note("-1 the processor")),
		MemoryMB:    t.f64("memory_mb", note("MiB")),
		ThresholdMB: t.f64("threshold_mb", note("MiB")),
		Message:     t.str("message"),
		RawTail:     t.rawTail(),
	}
}()
