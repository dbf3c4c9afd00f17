package table

import (
	"fmt"
	"strings"

	"github.com/warpline/warpline/proto/gpuflight"
)

// namesSQL is the right side of a join that finds all names of a dictionary, for rows that have only the id.
func namesSQL(o Options, dict string) string {
	return fmt.Sprintf("(SELECT tenant, session_id, id, value FROM %s.dictionaries WHERE dict = %s)", ident(o.database()), Quote(dict))
}

// vendorsSQL is the right side of a join that finds the vendor of each session.
func vendorsSQL(o Options) string {
	return fmt.Sprintf("(SELECT tenant, session_id, CAST(max(vendor), 'String') AS vendor FROM %s.sessions_data GROUP BY tenant, "+
		"session_id)", ident(o.database()))
}

// copyKindSQL is gpuflight.CopyKind as an expression over a vendor and a code. It is ” for a code whose meaning depends on a vendor that is
// not known.
func copyKindSQL(vendor, code string) string {
	table := func(vendor string, last uint32) string {
		return codesSQL(code, "kind_", 1, last, func(c uint32) string { return gpuflight.CopyKind(vendor, c) })
	}
	return fmt.Sprintf("multiIf(lower(%[1]s) = 'amd', %[2]s, lower(%[1]s) = 'nvidia', %[3]s, %[1]s = '' AND %[4]s > 2, '', %[5]s)",
		vendor, table("AMD", 4), table("NVIDIA", lastCopyKind), code, table("", 2))
}

// NamedCopy is the first of the codes in memcpy_stats for copies whose kind came as a word: NamedCopy plus NVIDIA's code of that kind,
// whatever the vendor is, and NamedCopy itself for all kinds without a code.
const NamedCopy = uint32(1) << 31

// otherCopies are copies of kinds without a code.
const otherCopies = "other"

// CopyKindCode returns the code in memcpy_stats of a kind that came as a word.
func CopyKindCode(kind string) uint32 {
	for code := uint32(1); code <= lastCopyKind; code++ {
		if gpuflight.CopyKind("NVIDIA", code) != kind {
			continue
		}
		if code <= 2 { // all vendors agree
			return code
		}
		return NamedCopy + code
	}
	return NamedCopy
}

const lastCopyKind = 10

// copyCodeSQL is the kind of a code of memcpy_stats.
func copyCodeSQL(vendor, code string) string {
	named := codesSQL("("+code+fmt.Sprintf(" - %d)", NamedCopy), "kind_", 1, lastCopyKind,
		func(c uint32) string { return gpuflight.CopyKind("NVIDIA", c) })
	return fmt.Sprintf("multiIf(%[1]s > %[2]d, %[3]s, %[1]s = %[2]d, %[4]s, %[5]s)", code, NamedCopy, named, Quote(otherCopies),
		copyKindSQL(vendor, code))
}

// syncTypeSQL is gpuflight.SyncTypeName as an expression over a code.
func syncTypeSQL(code string) string {
	return codesSQL(code, "type_", 0, 4, func(c uint32) string { return gpuflight.SyncTypeName(uint8(c)) })
}

// codesSQL turns the codes first to last into their names, and others into prefix and code.
func codesSQL(code, prefix string, first, last uint32, name func(uint32) string) string {
	var from, to []string
	for c := first; c <= last; c++ {
		from, to = append(from, fmt.Sprint(c)), append(to, Quote(name(c)))
	}
	return fmt.Sprintf("transform(%[1]s, [%[2]s], [%[3]s], concat(%[4]s, toString(%[1]s)))", code, strings.Join(from, ", "),
		strings.Join(to, ", "), Quote(prefix))
}

// sumPartsSQL adds up what SumParts of PMStats holds. Dividing by a power of ten is exact where multiplying by its inverse is not.
func sumPartsSQL(parts string) string {
	return fmt.Sprintf("arraySum((k, v) -> if(k >= 1000, -1, 1) * if((if(k >= 1000, k - %[2]d, k) AS p) < 0, v / exp10(-p), v * "+
		"exp10(p)), mapKeys(%[1]s), mapValues(%[1]s))", parts, NegativePart)
}
