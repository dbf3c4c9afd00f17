package telemetry

import _ "embed"

// field is a key that some rule looks at. The first 23 are the canonical ones, in the order in which they are written; schema version 2
// has no session_id.
type field uint8

const (
	fSchemaVersion field = iota
	fSessionID
	fTimestampNS
	fEventType
	fCollector
	fSamplingIntervalMS
	fPID
	fHost
	fJobID
	fRank
	fLocalRank
	fWorldSize
	fDeviceID
	fAllocated
	fReserved
	fActive
	fInactive
	fChange
	fDeviceUsed
	fDeviceFree
	fDeviceTotal
	fContext
	fMetadata

	// Keys of the legacy shapes.
	fTimestamp
	fType
	fDevice
	fMemoryAllocated
	fMemoryReserved
	fMemoryChange
	fMemoryMB
	fTotalMemory
	fTotalOfDevice
	fTotalBytes
	fBackend
	fMessage
	// Keys that only events of an out-of-memory bundle have; see Options.BundleKeys.
	fActiveMemory
	fInactiveMemory
	fUsedOfDevice
	fFreeOfDevice

	fields
	fUnknown   = fields
	canonicals = fMetadata + 1
)

var names = [fields]string{
	"schema_version", "session_id", "timestamp_ns", "event_type", "collector", "sampling_interval_ms", "pid", "host", "job_id", "rank",
	"local_rank", "world_size", "device_id", "allocator_allocated_bytes", "allocator_reserved_bytes", "allocator_active_bytes",
	"allocator_inactive_bytes", "allocator_change_bytes", "device_used_bytes", "device_free_bytes", "device_total_bytes", "context",
	"metadata",
	"timestamp", "type", "device", "memory_allocated", "memory_reserved", "memory_change", "memory_mb", "total_memory", "device_total",
	"total_bytes", "backend", "message", "active_memory", "inactive_memory", "device_used", "device_free",
}

const (
	identity  uint64 = 1<<fJobID | 1<<fRank | 1<<fLocalRank | 1<<fWorldSize
	canonical uint64 = 1<<canonicals - 1
	session   uint64 = 1 << fSessionID
)

// keysOf returns the keys that records of a schema version may have.
func keysOf(version int64) uint64 {
	if version == 2 {
		return canonical &^ session
	}
	return canonical
}

// lookup finds the field of a decoded key; fUnknown if no rule looks at it.
func lookup(key []byte) field {
	switch string(key) {
	case "schema_version":
		return fSchemaVersion
	case "session_id":
		return fSessionID
	case "timestamp_ns":
		return fTimestampNS
	case "event_type":
		return fEventType
	case "collector":
		return fCollector
	case "sampling_interval_ms":
		return fSamplingIntervalMS
	case "pid":
		return fPID
	case "host":
		return fHost
	case "job_id":
		return fJobID
	case "rank":
		return fRank
	case "local_rank":
		return fLocalRank
	case "world_size":
		return fWorldSize
	case "device_id":
		return fDeviceID
	case "allocator_allocated_bytes":
		return fAllocated
	case "allocator_reserved_bytes":
		return fReserved
	case "allocator_active_bytes":
		return fActive
	case "allocator_inactive_bytes":
		return fInactive
	case "allocator_change_bytes":
		return fChange
	case "device_used_bytes":
		return fDeviceUsed
	case "device_free_bytes":
		return fDeviceFree
	case "device_total_bytes":
		return fDeviceTotal
	case "context":
		return fContext
	case "metadata":
		return fMetadata
	case "timestamp":
		return fTimestamp
	case "type":
		return fType
	case "device":
		return fDevice
	case "memory_allocated":
		return fMemoryAllocated
	case "memory_reserved":
		return fMemoryReserved
	case "memory_change":
		return fMemoryChange
	case "memory_mb":
		return fMemoryMB
	case "total_memory":
		return fTotalMemory
	case "device_total":
		return fTotalOfDevice
	case "total_bytes":
		return fTotalBytes
	case "backend":
		return fBackend
	case "message":
		return fMessage
	case "active_memory":
		return fActiveMemory
	case "inactive_memory":
		return fInactiveMemory
	case "device_used":
		return fUsedOfDevice
	case "device_free":
		return fFreeOfDevice
	}
	return fUnknown
}

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of a record of schema versions 2 to 4. It is laxer than the rules, as the peer's own is; its
// $comment says where. The bytes are the caller's.
func Schema() []byte { return append([]byte(nil), schema...) }
