package gpuflight

import (
	"strconv"
	"strings"
)

var (
	copyKindsNVIDIA = [...]string{1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
	copyKindsAMD    = [...]string{1: "HtoD", 2: "DtoH", 3: "DtoD", 4: "HtoH"}
)

// CopyKind returns the text of a memcpy's copy_kind: HtoD, DtoH and so on. The codes above 2 depend on the vendor of the session
// (Job.Vendor); without a known vendor they, like codes no table has, become "kind_<code>".
func CopyKind(vendor string, code uint32) string {
	table := copyKindsNVIDIA[:]
	switch {
	case strings.EqualFold(vendor, "AMD"):
		table = copyKindsAMD[:]
	case !strings.EqualFold(vendor, "NVIDIA"):
		table = table[:3] // where both agree
	}
	if int64(code) < int64(len(table)) && table[code] != "" {
		return table[code]
	}
	return "kind_" + strconv.FormatUint(uint64(code), 10)
}
