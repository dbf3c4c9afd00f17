package table

import (
	"fmt"
	"slices"
	"strings"
)

// codedReasons are the names that stand for numbers while views add up samples by reason, from 1 on: of each kind that is added up, in the
// order of their names. The numbers are of one query alone, and are stored nowhere.
func codedReasons() (names []string, stalls int) {
	var not []string
	for _, r := range StallReasons() {
		switch r.Kind {
		case ReasonStall:
			names = append(names, r.Name)
		case ReasonStallNotIssued:
			not = append(not, r.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(not)
	return append(names, not...), len(names)
}

// reasonNamesSQL is their names as an array.
func reasonNamesSQL() string {
	names, _ := codedReasons()
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Quote(n)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// reasonCodeSQL is the number of a reason, 0 for others.
func reasonCodeSQL(name string) string {
	names, _ := codedReasons()
	return fmt.Sprintf("transform(%s, %s, range(toUInt16(1), toUInt16(%d)), toUInt16(0))", name, reasonNamesSQL(), len(names)+1)
}

// uncodedSQL is what was added up of one part (stall, not issued, metric), by name and in the order of names: of numbers, and of texts that
// begin with the part's first letter.
func uncodedSQL(coded, other, part string) string {
	named := fmt.Sprintf("mapApply((k, v) -> (substring(k, 2), v), mapFilter((k, v) -> startsWith(k, %s), %s))", Quote(part[:1]), other)
	names, stalls := codedReasons()
	from, to := 1, stalls
	switch part {
	case "metric":
		return named
	case "not issued":
		from, to = stalls+1, len(names)
	}
	return fmt.Sprintf("mapSort(mapConcat(mapApply((k, v) -> (%s[k], v), mapFilter((k, v) -> k BETWEEN %d AND %d, %s)), %s))",
		reasonNamesSQL(), from, to, coded, named)
}
