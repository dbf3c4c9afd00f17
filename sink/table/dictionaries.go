package table

type dictionariesTable struct {
	*Table
	Head
	Dict  DictCol
	ID    U32Col
	Value StrCol
	Late  U8Col
	FactTail
}

// Dictionaries holds the names that sessions declared for their ids.
var Dictionaries = func() dictionariesTable {
	t := Define("dictionaries", Fact, "tenant, session_id, dict, id").SkipsBy("late")
	return dictionariesTable{
		Table:    t,
		Head:     t.Head(),
		Dict:     t.Dict("dict", Note("kernel_dict, scope_name_dict, function_dict, metric_dict, source_file_dict, func_symbol_dict")),
		ID:       t.U32("id"),
		Value:    t.Str("value", Codec("ZSTD(3)")),
		Late:     t.U8("late", Note("1 when rollup rows with this id may have been written without the name")),
		FactTail: t.FactTail(),
	}
}()
