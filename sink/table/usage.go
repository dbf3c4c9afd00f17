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

// Usage counts what each tenant sent, by day of receipt and source.
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
