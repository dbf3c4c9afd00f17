package telemetry

import "github.com/warpline/warpline/sink/table"

type memoryEventsTable struct {
	*table.Table
	table.Head
	At                 table.TimeCol
	TimestampNS        table.I64Col
	EventType          table.DictCol
	Collector          table.DictCol
	Backend            table.DictCol
	Framework          table.DictCol
	SamplingIntervalMS table.I64Col
	PID                table.I64Col
	Host               table.DictCol
	JobID              table.DictCol
	Rank               table.I64Col
	LocalRank          table.I64Col
	WorldSize          table.I64Col
	DeviceID           table.I64Col
	AllocatedBytes     table.I64Col
	ReservedBytes      table.I64Col
	ActiveBytes        table.I64Col
	InactiveBytes      table.I64Col
	ChangeBytes        table.I64Col
	DeviceUsedBytes    table.I64Col
	DeviceFreeBytes    table.I64Col
	DeviceTotalBytes   table.I64Col
	Context            table.StrCol
	Metadata           table.StrCol
	Present            table.U16Col
	Legacy             table.U8Col
	Origin             table.DictCol
	UploadIndex        table.U32Col
	SentVersion        table.U8Col
	RecordSession      table.DictCol
	Capabilities       table.U16Col
	CapabilityBackend  table.DictCol
	CapabilityOf       table.DictCol
	SamplingSource     table.DictCol
	HealthPresent      table.U8Col
	HealthStatus       table.DictCol
	Partial            table.U8Col
	PartialFields      table.DictCol
	LastError          table.DictCol
	Failures           table.I64Col
	NextRetry          table.F64Col
	EventHash          table.U32Col
	Richness           table.U8Col
	table.RawTail
}

// MemoryEvents holds one row for each accepted TelemetryEvent. What may be null has a bit in Present, telemetry.Presence; the view
// makes it NULL again.
var MemoryEvents = func() memoryEventsTable {
	t := table.Define("memory_events_data", table.Raw, "tenant, session_id, at")
	return memoryEventsTable{
		Table: t,
		Head:  t.Head(),
		At: t.Time("at", table.Codec(table.Spread),
			table.Note("timestamp_ns; the latest possible time where it is beyond that")),
		TimestampNS:        t.I64("timestamp_ns", table.Codec(table.Spread)),
		EventType:          t.Dict("event_type"),
		Collector:          t.Dict("collector", table.Note("as sent")),
		Backend:            t.Dict("backend", table.Note("cuda, rocm, mps, cpu; '' unknown")),
		Framework:          t.Dict("framework", table.Note("pytorch, tensorflow; '' none or unknown")),
		SamplingIntervalMS: t.I64("sampling_interval_ms"),
		PID:                t.I64("pid", table.Note("-1 unknown")),
		Host:               t.Dict("host"),
		JobID:              t.Dict("job_id"),
		Rank:               t.I64("rank"),
		LocalRank:          t.I64("local_rank"),
		WorldSize:          t.I64("world_size"),
		DeviceID:           t.I64("device_id", table.Note("-1 the processor")),
		AllocatedBytes:     t.I64("allocator_allocated_bytes"),
		ReservedBytes:      t.I64("allocator_reserved_bytes"),
		ActiveBytes:        t.I64("allocator_active_bytes"),
		InactiveBytes:      t.I64("allocator_inactive_bytes"),
		ChangeBytes:        t.I64("allocator_change_bytes", table.Note("several events of one sample carry the same change")),
		DeviceUsedBytes:    t.I64("device_used_bytes"),
		DeviceFreeBytes:    t.I64("device_free_bytes"),
		DeviceTotalBytes:   t.I64("device_total_bytes"),
		Context:            t.Str("context"),
		Metadata:           t.Str("metadata", table.Note("a JSON object, canonical")),
		Present: t.U16("present", table.Note("bits: active, inactive, free, total, context, job_id, rank, local_rank, "+
			"world_size; then not: allocated, reserved, change, used; session_id; capabilities inferred")),
		Legacy:      t.U8("legacy", table.Note("1 when converted from before schema version 2")),
		Origin:      t.Dict("origin", table.Note("json, csv, sink, oom, tf: what it was read from")),
		UploadIndex: t.U32("upload_index", table.Note("place among the records of its upload")),
		SentVersion: t.U8("sent_version", table.Note("schema_version of the record as it was sent, 1 without; 0 in rows of "+
			"before 4 was known")),
		RecordSession: t.Dict("record_session_id",
			table.Note("session_id as sent; '' when the record names none, or a very long one")),
		Capabilities:      t.U16("capabilities", table.Note("bits: supports_* as in the view memory_events; 11 known")),
		CapabilityBackend: t.Dict("capability_backend"),
		CapabilityOf:      t.Dict("capability_collector"),
		SamplingSource:    t.Dict("sampling_source"),
		HealthPresent:     t.U8("health_present", table.Note("bits: status, partial, fields, error, failures, retry")),
		HealthStatus:      t.Dict("health_status"),
		Partial:           t.U8("telemetry_partial"),
		PartialFields:     t.Dict("partial_fields", table.Note("a JSON array")),
		LastError:         t.Dict("last_error"),
		Failures:          t.I64("consecutive_failures"),
		NextRetry:         t.F64("next_retry_s"),
		EventHash:         t.U32("event_hash", table.Note("of what makes it one event, whatever the export; 0 in older rows")),
		Richness:          t.U8("richness", table.Note("how much the copy says; of two copies the richer is shown")),
		RawTail:           t.RawTail(),
	}
}()

type memoryStatsTable struct {
	*table.Table
	table.Head
	table.BucketHead
	DeviceID          table.I64Col
	Rank              table.I64Col
	Host              table.DictCol
	JobID             table.DictCol
	Events            table.U64Col
	AllocatedSum      table.U64Col
	AllocatedPeak     table.U64Col
	ReservedSum       table.U64Col
	ReservedPeak      table.U64Col
	ActiveEvents      table.U64Col
	ActiveSum         table.U64Col
	ActivePeak        table.U64Col
	UsedSum           table.U64Col
	UsedPeak          table.U64Col
	TotalPeak         table.U64Col
	Allocations       table.U64Col
	AllocationBytes   table.U64Col
	Deallocations     table.U64Col
	DeallocationBytes table.U64Col
	FragmentedEvents  table.U64Col
	FragmentationPPB  table.U64Col
	FragmentationPeak table.U64Col
	UtilizationEvents table.U64Col
	UtilizationPPB    table.U64Col
	UtilizationPeak   table.U64Col
	Warnings          table.U64Col
	Criticals         table.U64Col
	WorldSize         table.U64Col
	NoAllocated       table.U64Col
	NoReserved        table.U64Col
	NoUsed            table.U64Col
	InactiveEvents    table.U64Col
	InactivePPB       table.U64Col
	InactivePeak      table.U64Col
	table.FactTail
}

// MemoryStats adds up memory events by device, rank and minute. Sums are of whole bytes, and ratios of whole parts in 10^9, so that parts
// add exactly in any order.
var MemoryStats = func() memoryStatsTable {
	t := table.DefineRollup("memory_stats_data", "tenant, session_id, device_id, rank", true)
	return memoryStatsTable{
		Table:             t,
		Head:              t.Head(),
		BucketHead:        t.BucketHead(),
		DeviceID:          t.I64("device_id"),
		Rank:              t.I64("rank"),
		Host:              t.Dict("host", table.Most),
		JobID:             t.Dict("job_id", table.Most),
		Events:            t.U64("events", table.Sum),
		AllocatedSum:      t.U64("allocated_sum", table.Sum),
		AllocatedPeak:     t.U64("allocated_peak", table.Most),
		ReservedSum:       t.U64("reserved_sum", table.Sum),
		ReservedPeak:      t.U64("reserved_peak", table.Most),
		ActiveEvents:      t.U64("active_events", table.Sum, table.Note("events that say how much is active")),
		ActiveSum:         t.U64("active_sum", table.Sum),
		ActivePeak:        t.U64("active_peak", table.Most),
		UsedSum:           t.U64("used_sum", table.Sum),
		UsedPeak:          t.U64("used_peak", table.Most),
		TotalPeak:         t.U64("total_peak", table.Most, table.Note("0 while it is not known")),
		Allocations:       t.U64("allocations", table.Sum, table.Note("events of type allocation: each change counts once")),
		AllocationBytes:   t.U64("allocation_bytes", table.Sum),
		Deallocations:     t.U64("deallocations", table.Sum),
		DeallocationBytes: t.U64("deallocation_bytes", table.Sum),
		FragmentedEvents:  t.U64("fragmented_events", table.Sum, table.Note("events with reserved and allocated bytes")),
		FragmentationPPB: t.U64("fragmentation_ppb", table.Sum,
			table.Note("(reserved - allocated) / reserved in 10^-9: the allocator's cache, in spite of the name")),
		FragmentationPeak: t.U64("fragmentation_peak_ppb", table.Most),
		UtilizationEvents: t.U64("utilization_events", table.Sum, table.Note("events with a total")),
		UtilizationPPB:    t.U64("utilization_ppb", table.Sum, table.Note("used / total in 10^-9")),
		UtilizationPeak:   t.U64("utilization_peak_ppb", table.Most),
		Warnings:          t.U64("warnings", table.Sum),
		Criticals:         t.U64("criticals", table.Sum, table.Note("events of type critical or error")),
		WorldSize:         t.U64("world_size", table.Most),
		NoAllocated:       t.U64("no_allocated", table.Sum, table.Note("events that do not say how much is allocated")),
		NoReserved:        t.U64("no_reserved", table.Sum),
		NoUsed:            t.U64("no_used", table.Sum),
		InactiveEvents: t.U64("inactive_events", table.Sum,
			table.Note("events whose collector can say how fragmented memory is; 0 in older rows")),
		InactivePPB:  t.U64("inactive_ppb", table.Sum, table.Note("inactive / reserved in 10^-9, at most 1")),
		InactivePeak: t.U64("inactive_peak_ppb", table.Most),
		FactTail:     t.FactTail(),
	}
}()

type memoryReplacedTable struct {
	*table.Table
	table.Head
	TimestampNS table.I64Col
	EventHash   table.U32Col
	Richness    table.U8Col
	table.RawTail
}

// MemoryReplaced names rows of MemoryEvents that were replaced by a richer copy of the same event.
var MemoryReplaced = func() memoryReplacedTable {
	t := table.Define("memory_replaced_data", table.Raw, "tenant, session_id, timestamp_ns")
	return memoryReplacedTable{
		Table:       t,
		Head:        t.Head(),
		TimestampNS: t.I64("timestamp_ns", table.Codec(table.Spread)),
		EventHash:   t.U32("event_hash"),
		Richness:    t.U8("richness"),
		RawTail:     t.RawTail(),
	}
}()

type memoryTrackAlertsTable struct {
	*table.Table
	table.Head
	At          table.TimeCol
	TimestampNS table.I64Col
	Host        table.DictCol
	JobID       table.DictCol
	Rank        table.I64Col
	DeviceID    table.I64Col
	MemoryMB    table.F64Col
	ThresholdMB table.F64Col
	Message     table.StrCol
	table.RawTail
}

// MemoryTrackAlerts holds the alerts that trackers' files have beside their events. An alert that came twice may have several rows; the
// view memory_alerts shows one.
var MemoryTrackAlerts = func() memoryTrackAlertsTable {
	t := table.Define("memory_track_alerts_data", table.Raw, "tenant, session_id, at")
	return memoryTrackAlertsTable{
		Table:       t,
		Head:        t.Head(),
		At:          t.Time("at", table.Codec(table.Spread)),
		TimestampNS: t.I64("timestamp_ns", table.Codec(table.Spread), table.Note("that of the sample, an event of its own")),
		Host:        t.Dict("host"),
		JobID:       t.Dict("job_id"),
		Rank:        t.I64("rank"),
		DeviceID:    t.I64("device_id", table.Note("-1 the processor")),
		MemoryMB:    t.F64("memory_mb", table.Note("MiB")),
		ThresholdMB: t.F64("threshold_mb", table.Note("MiB")),
		Message:     t.Str("message"),
		RawTail:     t.RawTail(),
	}
}()
