package table

// MoreNames is the name of what has a name that is beyond what a session may have: those of all such names are added up under it.
const MoreNames = "(more names)"

const restNote = "'" + MoreNames + "' of all whose names are beyond what the session may have"

// MoreNamesDict is the dict of the row, late and with id 0, that a session has once a name of it was refused. Its ids without a name have
// the name MoreNames.
const MoreNamesDict = "more_names"

const dicts = "kernel_dict, scope_name_dict, function_dict, metric_dict, source_file_dict, func_symbol_dict; the row of " + MoreNamesDict +
	" says that names of the session were refused"

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
		Dict:     t.Dict("dict", Note(dicts)),
		ID:       t.U32("id", Codec(Rising)),
		Value:    t.Str("value", Codec("ZSTD(3)"), Shared),
		Late:     t.U8("late", Note("1 when rollup rows with this id may have been written without the name")),
		FactTail: t.FactTail(),
	}
}()
