package gpuflight

import "strconv"

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
