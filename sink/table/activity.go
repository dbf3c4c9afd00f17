package table

type memsetsTable struct {
	*Table
	Head
	StartedAt  TimeCol
	DurationNS U64Col
	Bytes      U64Col
	Name       DictCol
	Platform   DictCol
	DeviceID   I32Col
	StreamID   U64Col
	CorrID     U32Col
	Scope      DictCol
	ScopeDepth U32Col
	StackTrace StrCol
	APIStartNS U64Col
	APIExitNS  U64Col
	PID        U32Col
	App        DictCol
	RawTail
}

// Memsets holds one row for each memset.
var Memsets = func() memsetsTable {
	t := define("memsets_data", Raw, "tenant, session_id, started_at")
	return memsetsTable{
		Table:      t,
		Head:       t.head(),
		StartedAt:  t.time("started_at", codec(spread)),
		DurationNS: t.u64("duration_ns"),
		Bytes:      t.u64("bytes"),
		Name:       t.dict("name"),
		Platform:   t.dict("platform"),
		DeviceID:   t.i32("device_id", note("-1 unknown")),
		StreamID:   t.u64("stream_id", codec("ZSTD(3)")),
		CorrID:     t.u32("corr_id", codec(rising)),
		Scope:      t.dict("scope", note("path of the user scope, '' none or global")),
		ScopeDepth: t.u32("scope_depth"),
		StackTrace: t.str("stack_trace", note("outer|…|inner")),
		APIStartNS: t.u64("api_start_ns", note("when the call began, nanoseconds since the epoch, 0 unknown")),
		APIExitNS:  t.u64("api_exit_ns", note("when the call returned, nanoseconds since the epoch, 0 unknown")),
		PID:        t.u32("pid"),
		App:        t.dict("app"),
		RawTail:    t.rawTail(),
	}
}()

type syncsTable struct {
	*Table
	Head
	StartedAt  TimeCol
	DurationNS U64Col
	SyncType   DictCol
	SyncTypeID U8Col
	StreamID   U64Col
	EventID    U32Col
	ContextID  U32Col
	CorrID     U32Col
	FunctionID U32Col
	RawTail
}

// Syncs holds one row for each time the host waited for a device.
var Syncs = func() syncsTable {
	t := define("syncs_data", Raw, "tenant, session_id, started_at")
	return syncsTable{
		Table:      t,
		Head:       t.head(),
		StartedAt:  t.time("started_at", codec(spread)),
		DurationNS: t.u64("duration_ns"),
		SyncType:   t.dict("sync_type", note("unknown, event, stream_wait_event, stream, context, type_<n>")),
		SyncTypeID: t.u8("sync_type_id"),
		StreamID:   t.u64("stream_id", codec("ZSTD(3)")),
		EventID:    t.u32("event_id"),
		ContextID:  t.u32("context_id"),
		CorrID:     t.u32("corr_id", codec(rising)),
		FunctionID: t.u32("function_id", note("id of the call stack in function_dict, 0 none")),
		RawTail:    t.rawTail(),
	}
}()

type allocationsTable struct {
	*Table
	Head
	StartedAt    TimeCol
	DurationNS   U64Col
	MemoryOp     DictCol
	MemoryOpID   U8Col
	MemoryKind   DictCol
	MemoryKindID U8Col
	Address      U64Col
	Bytes        U64Col
	DeviceID     I32Col
	StreamID     U64Col
	CorrID       U32Col
	RawTail
}

// Allocations holds one row for each time memory was allocated or freed.
var Allocations = func() allocationsTable {
	t := define("allocations_data", Raw, "tenant, session_id, started_at")
	return allocationsTable{
		Table:        t,
		Head:         t.head(),
		StartedAt:    t.time("started_at", codec(spread)),
		DurationNS:   t.u64("duration_ns"),
		MemoryOp:     t.dict("memory_op", note("alloc, free, op_<n>")),
		MemoryOpID:   t.u8("memory_op_id"),
		MemoryKind:   t.dict("memory_kind", note("unknown, pageable, pinned, device, array, managed, device_static, managed_static, kind_<n>")),
		MemoryKindID: t.u8("memory_kind_id"),
		Address:      t.u64("address"),
		Bytes:        t.u64("bytes"),
		DeviceID:     t.i32("device_id"),
		StreamID:     t.u64("stream_id", codec("ZSTD(3)")),
		CorrID:       t.u32("corr_id", codec(rising)),
		RawTail:      t.rawTail(),
	}
}()

type markersTable struct {
	*Table
	Head
	StartedAt  TimeCol
	DurationNS U64Col
	Name       StrCol
	Domain     DictCol
	MarkerID   U64Col
	PID        U32Col
	App        DictCol
	RawTail
}

// Markers holds one row for each NVTX range.
var Markers = func() markersTable {
	t := define("markers_data", Raw, "tenant, session_id, started_at")
	return markersTable{
		Table:      t,
		Head:       t.head(),
		StartedAt:  t.time("started_at", codec(spread)),
		DurationNS: t.u64("duration_ns"),
		Name:       t.str("name", note("torch ranges are torch::<op>@<file>:<line>")),
		Domain:     t.dict("domain"),
		MarkerID:   t.u64("marker_id", codec(rising)),
		PID:        t.u32("pid"),
		App:        t.dict("app"),
		RawTail:    t.rawTail(),
	}
}()

type extraFieldsTable struct {
	*Table
	Head
	At      TimeCol
	Type    DictCol
	BatchID U64Col
	Field   DictCol
	Reason  DictCol
	Rows    U64Col
	Values  StrCol
	RawTail
}

// ExtraFields holds what lines carry that this version has no column for, so that a later one can read it, and what does not fit the column
// that it has.
var ExtraFields = func() extraFieldsTable {
	t := define("extra_fields_data", Raw, "tenant, session_id, at")
	return extraFieldsTable{
		Table:   t,
		Head:    t.head(),
		At:      t.time("at", note("base time of the batch, the epoch for a line that is no batch")),
		Type:    t.dict("type", note("type of the event")),
		BatchID: t.u64("batch_id", note("with the base time it identifies the batch, 0 for a line that is no batch")),
		Field:   t.dict("field", note("column, key, or object.key")),
		Reason:  t.dict("reason", note("unknown: no column holds it; bad_value: not what its column holds, which has 0, '' or the nearest value")),
		Rows:    t.u64("rows", note("cells in values")),
		Values:  t.str("values", codec("ZSTD(6)"), note("JSON as received; of a column an array of the cells of the accepted rows, in their order")),
		RawTail: t.rawTail(),
	}
}()
