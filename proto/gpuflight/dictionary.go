package gpuflight

// Dict is one of the dictionaries of a session.
type Dict uint8

// The dictionaries of a dictionary_update line. FunctionDict holds call stacks too, for synchronization rows; FuncSymbolDict is
// keyed by the ids of FunctionDict.
const (
	KernelDict Dict = iota
	ScopeNameDict
	FunctionDict
	MetricDict
	SourceFileDict
	FuncSymbolDict

	numDicts
)

var dictNames = [numDicts]string{"kernel_dict", "scope_name_dict", "function_dict", "metric_dict", "source_file_dict", "func_symbol_dict"}

// String returns the wire name, "unknown_dict" for values outside the list.
func (d Dict) String() string {
	if d >= numDicts {
		return "unknown_dict"
	}
	return dictNames[d]
}

// DictOf returns the dictionary with this wire name; ok is false if there is none.
func DictOf(name string) (d Dict, ok bool) {
	for i, n := range dictNames {
		if n == name {
			return Dict(i), true
		}
	}
	return 0, false
}

// DecodeDictionary calls f for every entry of a dictionary_update line, in wire order. value is valid UTF-8, aliases the line or a
// buffer, and is gone when f returns.
//
// skipped counts what is not an entry: a key that is not a decimal id from 1 to 2^32-1 written the usual way, a value that is not a
// string, and a dictionary that is not an object. err is a *LineError of bad_json if the line is not sound; entries before the fault
// have been delivered then, so callers that must not see half a line pass one that Decode has accepted.
func DecodeDictionary(line *Line, f func(dict Dict, id uint32, value []byte)) (skipped int, err error) {
	buf := make([]byte, 0, 512) // for the values that cannot alias the line
	top := walkObject(line.Raw, 0)
	for top.next() {
		dict, known := Dict(0), false
		for i := range dictNames {
			if dictNames[i] == string(top.key) {
				dict, known = Dict(i), true
			}
		}
		if !known || line.Raw[top.i] != '{' {
			if known {
				skipped++
			}
			if !top.skip() {
				return skipped, badJSON(line.Raw, top.i)
			}
			continue
		}
		entries := walkObject(line.Raw, top.i)
		for entries.next() {
			id, good := dictID(entries.key)
			value, isString, ok := entries.text(buf)
			if !ok {
				return skipped, badJSON(line.Raw, entries.i)
			}
			if !good || !isString {
				skipped++
				continue
			}
			f(dict, id, value)
		}
		if !entries.ok {
			return skipped, badJSON(line.Raw, entries.i)
		}
		top.i = entries.i
	}
	if !top.ok {
		return skipped, badJSON(line.Raw, top.i)
	}
	return skipped, nil
}

// dictID reads a key such as "17".
func dictID(key []byte) (id uint32, ok bool) {
	if len(key) == 0 || key[0] == '-' {
		return 0, false
	}
	mag, _, end := readInteger(key, 0)
	if end != len(key) || mag == 0 || mag > 1<<32-1 {
		return 0, false
	}
	return uint32(mag), true
}
