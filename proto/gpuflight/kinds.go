package gpuflight

import (
	"strconv"
	"strings"
)

var (
	copyKindsNVIDIA = [...]string{1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
		10: "PtoP"}
	copyKindsAMD = [...]string{1: "HtoD", 2: "DtoH", 3: "DtoD", 4: "HtoH"}
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

var (
	syncTypes   = [...]string{"unknown", "event", "stream_wait_event", "stream", "context"}
	memoryOps   = [...]string{1: "alloc", 2: "free"}
	memoryKinds = [...]string{"unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"}
)

// SyncTypeName returns the text of a synchronization's sync_type; codes no table has become "type_<code>".
func SyncTypeName(code uint8) string { return codeName(syncTypes[:], "type_", code) }

// MemoryOpName returns the text of an allocation's memory_op; codes no table has become "op_<code>".
func MemoryOpName(code uint8) string { return codeName(memoryOps[:], "op_", code) }

// MemoryKindName returns the text of an allocation's memory_kind; codes no table has become "kind_<code>".
func MemoryKindName(code uint8) string { return codeName(memoryKinds[:], "kind_", code) }

func codeName(names []string, prefix string, code uint8) string {
	if int(code) < len(names) && names[code] != "" {
		return names[code]
	}
	return prefix + strconv.Itoa(int(code))
}
