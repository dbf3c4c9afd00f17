package table

type rejectsTable struct {
	*Table
	Head
	At         TimeCol
	Source     DictCol
	Reason     DictCol
	Detail     StrCol
	Type       DictCol
	Events     U64Col
	Bytes      U64Col
	Payload    StrCol
	PayloadRef StrCol
	RawTail
}

// Rejects holds what was refused, with its bytes.
var Rejects = func() rejectsTable {
	t := Define("rejects_data", Raw, "tenant, at, session_id")
	return rejectsTable{
		Table:      t,
		Head:       t.Head(),
		At:         t.Time("at"),
		Source:     t.Dict("source"),
		Reason:     t.Dict("reason"),
		Detail:     t.Str("detail"),
		Type:       t.Dict("type", Note("type of the event, as far as it could be read")),
		Events:     t.U64("events"),
		Bytes:      t.U64("bytes", Note("size of what was refused")),
		Payload:    t.Str("payload", Codec("ZSTD(6)"), Note("the bytes themselves, possibly cut")),
		PayloadRef: t.Str("payload_ref", Note("where the rest is, '' when payload is whole")),
		RawTail:    t.RawTail(),
	}
}()
