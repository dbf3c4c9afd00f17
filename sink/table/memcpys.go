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
