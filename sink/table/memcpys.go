package table

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
	t := define("memcpys_data", Raw, "tenant, session_id, started_at")
	return memcpysTable{
		Table:      t,
		Head:       t.head(),
		StartedAt:  t.time("started_at"),
		DurationNS: t.u64("duration_ns"),
		Bytes:      t.u64("bytes"),
		CopyKind:   t.dict("copy_kind", note("HtoD, DtoH …")),
		CopyKindID: t.u32("copy_kind_id"),
		StreamID:   t.u64("stream_id", codec("ZSTD(3)")),
		CorrID:     t.u32("corr_id", codec(rising)),
		RawTail:    t.rawTail(),
	}
}()
