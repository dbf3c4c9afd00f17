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

// ReasonKind says what the counter of a PC-sampling reason counts. Counters of different kinds overlap: never add them up.
type ReasonKind uint8

// Kinds of reasons. The zero value is UnresolvedReason.
const (
	UnresolvedReason     ReasonKind = iota // a number without a name, or no PC-sampling name at all: in no total
	StallReason                            // samples in this state; their sum over the reasons is the total of a PC
	StallNotIssuedReason                   // the part of a stall counted while the scheduler issued nothing
	SampleCountReason                      // all samples at this PC, once more
	DataDroppedReason                      // samples the hardware lost
)

var reasonKindNames = [...]string{"unresolved", "stall", "stall_not_issued", "sample_count", "data_dropped"}

// String returns the name as the SQL column reason_kind has it.
func (k ReasonKind) String() string {
	if int(k) >= len(reasonKindNames) {
		return reasonKindNames[UnresolvedReason]
	}
	return reasonKindNames[k]
}

// ReasonKindOf classifies a reason by its name; indices differ between devices and drivers, names do not. Unknown reasons of the
// known form are stalls, so that new hardware needs no new table.
func ReasonKindOf(name string) ReasonKind {
	switch name {
	case "smsp__pcsamp_sample_count":
		return SampleCountReason
	case "smsp__pcsamp_samples_data_dropped":
		return DataDroppedReason
	}
	rest, ok := strings.CutPrefix(name, "smsp__pcsamp_warps_issue_stalled_")
	switch {
	case !ok && isLegacyStall(name):
		return StallReason
	case !ok || rest == "":
		return UnresolvedReason
	case strings.HasSuffix(rest, "_not_issued"):
		return StallNotIssuedReason
	}
	return StallReason
}
