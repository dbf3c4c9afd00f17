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
	t := define("rejects_data", Raw, "tenant, at, session_id")
	return rejectsTable{
		Table:      t,
		Head:       t.head(),
		At:         t.time("at"),
		Source:     t.dict("source"),
		Reason:     t.dict("reason"),
		Detail:     t.str("detail"),
		Type:       t.dict("type", note("type of the event, as far as it could be read")),
		Events:     t.u64("events"),
		Bytes:      t.u64("bytes", note("size of what was refused")),
		Payload:    t.str("payload", codec("ZSTD(6)"), note("the bytes themselves, possibly cut")),
		PayloadRef: t.str("payload_ref", note("where the rest is, '' when payload is whole")),
		RawTail:    t.rawTail(),
	}
}()
