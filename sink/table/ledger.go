package table

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

// Ledger holds one row for each ClickHouse partition of each insert that the sink made, by which an audit proves that none is missing or doubled.
var Ledger = func() ledgerTable {
	t := define("ledger", Static, "lane, last, table")
	t.TTL = "toDate(inserted_at) + toIntervalDay(90) DELETE"
	return ledgerTable{
		Table:         t,
		Lane:          t.u16("lane"),
		First:         t.u64("first", codec(rising), note("first chunk of the range")),
		Last:          t.u64("last", codec(rising), note("last chunk of the range")),
		TableName:     t.dict("table"),
		Rows:          t.u64("rows"),
		Token:         t.str("token", note("insert_deduplication_token")),
		Attempt:       t.u16("attempt"),
		InsertedAt:    t.time("inserted_at"),
		Day:           t.day("day", note("of receipt, in tables kept by month its first; 1970-01-01 in rows that older sinks wrote, for all partitions together")),
		RetentionDays: t.u16("retention_days"),
		Amount:        t.u64("amount", note("of tables that merge rows: the sum of all their sums, modulo 2^64")),
		Counted:       t.u8("counted", note("1: amount is known, 0: an older worker wrote these rows, or the table has no sums")),
	}
}()
