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
	t := Define("memsets_data", Raw, "tenant, session_id, started_at")
	return memsetsTable{
		Table:      t,
		Head:       t.Head(),
		StartedAt:  t.Time("started_at", Codec(Spread)),
		DurationNS: t.U64("duration_ns"),
		Bytes:      t.U64("bytes"),
		Name:       t.Dict("name"),
		Platform:   t.Dict("platform"),
		DeviceID:   t.I32("device_id", Note("-1 unknown")),
		StreamID:   t.U64("stream_id", Codec("ZSTD(3)")),
		CorrID:     t.U32("corr_id", Codec(Rising)),
		Scope:      t.Dict("scope", Note("path of the user scope, '' none or global")),
		ScopeDepth: t.U32("scope_depth"),
		StackTrace: t.Str("stack_trace", Note("outer|…|inner")),
		APIStartNS: t.U64("api_start_ns", Note("when the call began, nanoseconds since the epoch, 0 unknown")),
		APIExitNS:  t.U64("api_exit_ns", Note("when the call returned, nanoseconds since the epoch, 0 unknown")),
		PID:        t.U32("pid"),
		App:        t.Dict("app"),
		RawTail:    t.RawTail(),
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
	t := Define("syncs_data", Raw, "tenant, session_id, started_at")
	return syncsTable{
		Table:      t,
		Head:       t.Head(),
		StartedAt:  t.Time("started_at", Codec(Spread)),
		DurationNS: t.U64("duration_ns"),
		SyncType:   t.Dict("sync_type", Note("unknown, event, stream_wait_event, stream, context, type_<n>")),
		SyncTypeID: t.U8("sync_type_id"),
		StreamID:   t.U64("stream_id", Codec("ZSTD(3)")),
		EventID:    t.U32("event_id"),
		ContextID:  t.U32("context_id"),
		CorrID:     t.U32("corr_id", Codec(Rising)),
		FunctionID: t.U32("function_id", Note("id of the call stack in function_dict, 0 none")),
		RawTail:    t.RawTail(),
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
	t := Define("allocations_data", Raw, "tenant, session_id, started_at")
	return allocationsTable{
		Table:      t,
		Head:       t.Head(),
		StartedAt:  t.Time("started_at", Codec(Spread)),
		DurationNS: t.U64("duration_ns"),
		MemoryOp:   t.Dict("memory_op", Note("alloc, free, op_<n>")),
		MemoryOpID: t.U8("memory_op_id"),
		MemoryKind: t.Dict("memory_kind", Note("unknown, pageable, pinned, device, array, managed, device_static, managed_static, "+
			"kind_<n>")),
		MemoryKindID: t.U8("memory_kind_id"),
		Address:      t.U64("address"),
		Bytes:        t.U64("bytes"),
		DeviceID:     t.I32("device_id"),
		StreamID:     t.U64("stream_id", Codec("ZSTD(3)")),
		CorrID:       t.U32("corr_id", Codec(Rising)),
		RawTail:      t.RawTail(),
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
	t := Define("markers_data", Raw, "tenant, session_id, started_at")
	return markersTable{
		Table:      t,
		Head:       t.Head(),
		StartedAt:  t.Time("started_at", Codec(Spread)),
		DurationNS: t.U64("duration_ns"),
		Name:       t.Str("name", Note("torch ranges are torch::<op>@<file>:<line>")),
		Domain:     t.Dict("domain"),
		MarkerID:   t.U64("marker_id", Codec(Rising)),
		PID:        t.U32("pid"),
		App:        t.Dict("app"),
		RawTail:    t.RawTail(),
	}
}()

// ExtraFieldRow is a row of ExtraFields.
type ExtraFieldRow struct {
	HeadRow
	At         int64
	Type       string
	BatchID    uint64
	Field      []byte
	Reason     string
	Rows       uint64
	Values     []byte
	ReceivedAt int64
}

// ExtraFields holds what lines contain and this version does not have a column for, so that a later version can read it, and values that do
// not fit their column.
var ExtraFields = DefineRows(Define("extra_fields_data", Raw, "tenant, session_id, at"),
	func(c *Binder[ExtraFieldRow], r *ExtraFieldRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At, Note("base time of the batch, the epoch for a line that is not a batch"))
		c.Dict("type", &r.Type, Note("type of the event"))
		c.U64("batch_id", &r.BatchID, Note("with the base time it identifies the batch, 0 for a line that is not a batch"))
		c.DictBytes("field", &r.Field, Note("column, key, or object.key"))
		c.Dict("reason", &r.Reason, Note("unknown: no column holds it; bad_value: not what its column holds, which has 0, '' or the "+
			"nearest value"))
		c.U64("rows", &r.Rows, Note("cells in values"))
		c.StrBytes("values", &r.Values, Codec("ZSTD(6)"), Note("JSON as received; of a column an array of the cells of the accepted rows, in "+
			"their order"))
		c.RawTail(&r.ReceivedAt)
	})

type memcpysTable struct {
	*Table
	Head
	StartedAt  TimeCol
	DurationNS U64Col
	Bytes      U64Col
	CopyKind   DictCol
	CopyKindID U32Col
	StreamID   U64Col
	CorrID     U32Col
	RawTail
}

// Memcpys holds one row for each memory copy.
var Memcpys = func() memcpysTable {
	t := Define("memcpys_data", Raw, "tenant, session_id, started_at")
	return memcpysTable{
		Table:      t,
		Head:       t.Head(),
		StartedAt:  t.Time("started_at"),
		DurationNS: t.U64("duration_ns"),
		Bytes:      t.U64("bytes"),
		CopyKind:   t.Dict("copy_kind", Note("HtoD, DtoH …")),
		CopyKindID: t.U32("copy_kind_id"),
		StreamID:   t.U64("stream_id", Codec("ZSTD(3)")),
		CorrID:     t.U32("corr_id", Codec(Rising)),
		RawTail:    t.RawTail(),
	}
}()
