package table

type ledgerTable struct {
	*Table
	Lane       U16Col
	First      U64Col
	Last       U64Col
	TableName  DictCol
	Rows       U64Col
	Token      StrCol
	Attempt    U16Col
	InsertedAt TimeCol
}

// Ledger holds one row for each insert that the sink made, by which an audit proves that none is missing or doubled.
var Ledger = func() ledgerTable {
	t := define("ledger", Static, "lane, last, table")
	t.TTL = "toDate(inserted_at) + toIntervalDay(90) DELETE"
	return ledgerTable{
		Table:      t,
		Lane:       t.u16("lane"),
		First:      t.u64("first", codec(rising), note("first chunk of the range")),
		Last:       t.u64("last", codec(rising), note("last chunk of the range")),
		TableName:  t.dict("table"),
		Rows:       t.u64("rows"),
		Token:      t.str("token", note("insert_deduplication_token")),
		Attempt:    t.u16("attempt"),
		InsertedAt: t.time("inserted_at"),
	}
}()
