package gpuflight

// ColumnInfo returns the wire name and kind of a column of a batch type, and false when there is no such column.
func ColumnInfo(t Type, c Column) (name string, kind ColumnKind, ok bool) {
	if !t.IsBatch() || c < 0 || int(c) >= len(schemas[t]) {
		return "", 0, false
	}
	return schemas[t][c].name, schemas[t][c].kind, true
}
