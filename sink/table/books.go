package table

// UsageRow is a row of Usage.
type UsageRow struct {
	Tenant      string
	Day         int32
	Source      string
	Events      uint64
	Bytes       uint64
	StoredBytes uint64
	Rejected    uint64
	Duplicates  uint64
	DoorEvents  uint64
	DoorBytes   uint64
	LostEvents  uint64
	ReceivedDay int32
}

// Usage counts what each tenant sent, by day of arrival and source.
var Usage = DefineRows(DefineRollup("usage_data", "tenant, day, source", false).Few(),
	func(c *Binder[UsageRow], r *UsageRow) {
		c.Dict("tenant", &r.Tenant)
		c.Day("day", &r.Day)
		c.Dict("source", &r.Source)
		c.U64("events", &r.Events, Sum)
		c.U64("bytes", &r.Bytes, Sum)
		c.U64("stored_bytes", &r.StoredBytes, Sum)
		c.U64("rejected", &r.Rejected, Sum)
		c.U64("duplicates", &r.Duplicates, Sum)
		c.U64("door_events", &r.DoorEvents, Sum, Note("events that gateways say they stored: at most events + lost_events, less what a "+
			"gateway that was killed could not tell any more; 0 in rows of older versions"))
		c.U64("door_bytes", &r.DoorBytes, Sum, Note("bytes of the same"))
		c.U64("lost_events", &r.LostEvents, Sum, Note("of door_events, those that INGEST lost before they were folded"))
		c.FactTail(&r.ReceivedDay)
	})

// BookRow is a row of Books.
type BookRow struct {
	Tenant      string
	Day         int32
	TableName   string
	Kept        uint16
	Rows        uint64
	Amount      uint64
	ReceivedDay int32
}

// BookDays is how long the books are kept: as long as the ledger.
const BookDays = 90

// Books says how many rows of each table each tenant was given, by day of arrival. The audit compares it with the tables.
var Books = DefineRows(DefineRollup("books_data", "tenant, day, table, kept", false),
	func(c *Binder[BookRow], r *BookRow) {
		c.Dict("tenant", &r.Tenant)
		c.Day("day", &r.Day, Note("of arrival, in tables kept by month its first"))
		c.Dict("table", &r.TableName)
		c.U16("kept", &r.Kept, Note("retention class of the rows: days from arrival"))
		c.U64("rows", &r.Rows, Sum)
		c.U64("amount", &r.Amount, Sum, Note("of tables that merge rows: the sum of all their sums, modulo 2^64"))
		c.FactTail(&r.ReceivedDay)
	})

// RejectRow is a row of Rejects.
type RejectRow struct {
	HeadRow
	At         int64
	Source     string
	Reason     string
	Detail     string
	Type       string
	Events     uint64
	Bytes      uint64
	Payload    []byte
	PayloadRef string
	Stage      string
	ReceivedAt int64
}

// Rejects holds what was refused, with its bytes.
var Rejects = DefineRows(Define("rejects_data", Raw, "tenant, at, session_id"),
	func(c *Binder[RejectRow], r *RejectRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.Dict("source", &r.Source)
		c.Dict("reason", &r.Reason)
		c.Str("detail", &r.Detail)
		c.Dict("type", &r.Type, Note("type of the event, as far as it could be read"))
		c.U64("events", &r.Events)
		c.U64("bytes", &r.Bytes, Note("size of what was refused"))
		c.StrBytes("payload", &r.Payload, Codec("ZSTD(6)"), Note("the bytes themselves, possibly cut"))
		c.Str("payload_ref", &r.PayloadRef, Note("where the rest is, '' when payload is whole"))
		c.Dict("stage", &r.Stage, Note("who refused it: door, the gateway; fold, the worker; '' in rows of older versions"))
		c.RawTail(&r.ReceivedAt)
	})

// RejectReplayRow is a row of RejectReplays.
type RejectReplayRow struct {
	HeadRow
	At         int64
	RejectID   string
	Stored     uint64
	Refused    uint64
	ReceivedAt int64
}

// RejectReplays holds what became of refused bytes that were sent again.
var RejectReplays = DefineRows(Define("reject_replays_data", Raw, "tenant, at, session_id"),
	func(c *Binder[RejectReplayRow], r *RejectReplayRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.Str("reject_id", &r.RejectID, Note("of the row in rejects"))
		c.U64("stored", &r.Stored, Note("events that are stored now, or were before"))
		c.U64("refused", &r.Refused, Note("events that were refused again"))
		c.RawTail(&r.ReceivedAt)
	})

// AdminLogRow is a row of AdminLog.
type AdminLogRow struct {
	Tenant      string
	At          int64
	EntryID     string
	Who         string
	Action      string
	Object      string
	Change      string
	Outcome     string
	ReceivedDay int32
}

// AdminLog holds what administrators changed: a row when a change began, and one when it was known what became of it.
var AdminLog = DefineRows(Define("admin_log_data", Fact, "tenant, at, entry_id").Lasts(),
	func(c *Binder[AdminLogRow], r *AdminLogRow) {
		c.Dict("tenant", &r.Tenant, Note("whose it is; '' of what belongs to no tenant"))
		c.Time("at", &r.At, Note("when the change began"))
		c.Str("entry_id", &r.EntryID, Note("the same in all rows of one change"))
		c.Dict("who", &r.Who, Note("id of the key that asked; cli, a command; file, that of --tenants"))
		c.Dict("action", &r.Action)
		c.Str("object", &r.Object, Note("name of the tenant or id of the key"))
		c.Str("change", &r.Change, Note("JSON: by field what was and what is; without secrets"))
		c.Dict("outcome", &r.Outcome, Note("begun, done, or failed: then nothing was changed"))
		c.FactTail(&r.ReceivedDay)
	})

// LedgerRow is a row of Ledger.
type LedgerRow struct {
	Lane          uint16
	First         uint64
	Last          uint64
	TableName     string
	Rows          uint64
	Token         string
	Attempt       uint16
	InsertedAt    int64
	Day           int32
	RetentionDays uint16
	Amount        uint64
	Counted       uint8
	Owner         string
	Chunks        string
}

// Ledger holds one row for each ClickHouse partition of each insert that the sink made. With it an audit proves that no insert is missing
// or doubled.
var Ledger = DefineRows(Define("ledger", Static, "lane, last, table").Expires("toDate(inserted_at) + toIntervalDay(90) DELETE"),
	func(c *Binder[LedgerRow], r *LedgerRow) {
		c.U16("lane", &r.Lane)
		c.U64("first", &r.First, Codec(Rising), Note("first chunk of the range"))
		c.U64("last", &r.Last, Codec(Rising), Note("last chunk of the range"))
		c.Dict("table", &r.TableName)
		c.U64("rows", &r.Rows)
		c.Str("token", &r.Token, Note("insert_deduplication_token"))
		c.U16("attempt", &r.Attempt)
		c.Time("inserted_at", &r.InsertedAt)
		c.Day("day", &r.Day, Note("of arrival, in tables kept by month its first; 1970-01-01 in rows that older sinks wrote, "+
			"for all partitions together"))
		c.U16("retention_days", &r.RetentionDays)
		c.U64("amount", &r.Amount, Note("of tables that merge rows: the sum of all their sums, modulo 2^64"))
		c.U8("counted", &r.Counted, Note("1: amount is known, 0: an older worker wrote these rows, or the table has no sums"))
		c.Dict("owner", &r.Owner, Note("whose rows were deleted, a hash of the tenant; '' in rows of inserts, and in those of older sinks"))
		c.Str("chunks", &r.Chunks, Note("in the row without a table, which each range has: the chunks of the range, as "+
			"partition:first-last of rows_partition and chunk; '' in rows that older sinks wrote"))
	})
