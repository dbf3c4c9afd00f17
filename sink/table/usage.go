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
	t := aggregate("usage_data", "tenant, day, source", false)
	return usageTable{
		Table:       t,
		Tenant:      t.dict("tenant"),
		Day:         t.day("day"),
		Source:      t.dict("source"),
		Events:      t.u64("events", sum),
		Bytes:       t.u64("bytes", sum),
		StoredBytes: t.u64("stored_bytes", sum),
		Rejected:    t.u64("rejected", sum),
		Duplicates:  t.u64("duplicates", sum),
		FactTail:    t.factTail(),
	}
}()
