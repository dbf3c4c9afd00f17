package table

type usageTable struct {
	*Table
	Tenant      DictCol
	Day         DayCol
	Source      DictCol
	Events      U64Col
	Bytes       U64Col
	StoredBytes U64Col
	Rejected    U64Col
	Duplicates  U64Col
	FactTail
}

// Usage counts what each tenant sent, by day of arrival and source.
var Usage = func() usageTable {
	t := DefineRollup("usage_data", "tenant, day, source", false)
	return usageTable{
		Table:       t,
		Tenant:      t.Dict("tenant"),
		Day:         t.Day("day"),
		Source:      t.Dict("source"),
		Events:      t.U64("events", Sum),
		Bytes:       t.U64("bytes", Sum),
		StoredBytes: t.U64("stored_bytes", Sum),
		Rejected:    t.U64("rejected", Sum),
		Duplicates:  t.U64("duplicates", Sum),
		FactTail:    t.FactTail(),
	}
}()

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

type ledgerTable struct {
	*Table
	Lane          U16Col
	First         U64Col
	Last          U64Col
	TableName     DictCol
	Rows          U64Col
	Token         StrCol
	Attempt       U16Col
	InsertedAt    TimeCol
	Day           DayCol
	RetentionDays U16Col
	Amount        U64Col
	Counted       U8Col
}

// Ledger holds one row for each ClickHouse partition of each insert that the sink made. With it an audit proves that no insert is missing
// or doubled.
var Ledger = func() ledgerTable {
	t := Define("ledger", Static, "lane, last, table")
	t.TTL = "toDate(inserted_at) + toIntervalDay(90) DELETE"
	return ledgerTable{
		Table:      t,
		Lane:       t.U16("lane"),
		First:      t.U64("first", Codec(Rising), Note("first chunk of the range")),
		Last:       t.U64("last", Codec(Rising), Note("last chunk of the range")),
		TableName:  t.Dict("table"),
		Rows:       t.U64("rows"),
		Token:      t.Str("token", Note("insert_deduplication_token")),
		Attempt:    t.U16("attempt"),
		InsertedAt: t.Time("inserted_at"),
		Day: t.Day("day", Note("of arrival, in tables kept by month its first; 1970-01-01 in rows that older sinks wrote, "+
			"for all partitions together")),
		RetentionDays: t.U16("retention_days"),
		Amount:        t.U64("amount", Note("of tables that merge rows: the sum of all their sums, modulo 2^64")),
		Counted:       t.U8("counted", Note("1: amount is known, 0: an older worker wrote these rows, or the table has no sums")),
	}
}()
