package table

// RetainedDays returns for how many days rows of a table are kept in a retention class that keeps raw rows and rollups for so many. moves
// is false for tables whose rows keep the days that they came with: those of no tenant, admin_log, books, and those of cubins, which are
// renewed while samples name them and of which the record of cubins says until when they are there.
func RetainedDays(t *Table, raw, rollup uint16) (days uint16, moves bool) {
	if t.Retention == Static || t.Lasting || t.Column("tenant") == nil || t == Books.Table || t == Cubins.Table ||
		t == CubinFunctions.Table || t == CubinLines.Table {
		return 0, false
	}
	switch t.Retention {
	case Raw:
		return raw, true
	case Fact: // as long as raw rows need them that came later, see rows.FactDays of package aggregate
		return uint16(min(max(int(rollup), 2*int(raw)), 1<<16-1)), true
	}
	return rollup, true
}
