package telemetry

// Presence says which of the values that may be missing an event has.
type Presence uint16

// Values that may be missing. HasRank to HasWorldSize are always meaningful in an Event; the bits tell that the record said so itself.
// Those that begin with No are the other way round, since before schema version 4 those counters were always there.
const (
	HasActive Presence = 1 << iota
	HasInactive
	HasFree
	HasTotal
	HasContext
	HasJobID
	HasRank
	HasLocalRank
	HasWorldSize
	NoAllocated
	NoReserved
	NoChange
	NoDeviceUsed
	HasSession           // SessionID is the record's word, or the default, and not made up
	InferredCapabilities // the record had no memory_capabilities
)

// Event is one accepted record. Byte slices are shared with the record's text or with the Validator that made the event: they hold
// until its next call. Strings are decoded; a lone surrogate stands in them as three bytes (see AppendString).
type Event struct {
	// Version is the record's schema version, 2 to 4, or 1 for a legacy record, which has none.
	Version uint8
	// SessionID is the session that the record names, see HasSession; AppendSessionID makes one for an event that has none.
	SessionID []byte
	// TimestampNS is nanoseconds since 1970, never negative.
	TimestampNS int64
	EventType   []byte
	// Collector names the program part that wrote the record; see CollectorOf.
	Collector          []byte
	SamplingIntervalMS int64
	PID                int64 // -1: unknown
	Host               []byte
	JobID              []byte // meaningful with HasJobID
	Rank               int64  // 0 by default
	LocalRank          int64  // Rank by default
	WorldSize          int64  // 1 by default
	DeviceID           int64  // -1: the processor

	// Bytes held by the framework's allocator. Change is since the sample before and can be negative; one sample makes several
	// events, and all of them carry the same change.
	Allocated int64 // meaningful without NoAllocated
	Reserved  int64 // meaningful without NoReserved
	Active    int64 // meaningful with HasActive
	Inactive  int64 // meaningful with HasInactive
	Change    int64 // meaningful without NoChange

	// Bytes of the whole device.
	DeviceUsed  int64 // meaningful without NoDeviceUsed
	DeviceFree  int64 // meaningful with HasFree
	DeviceTotal int64 // meaningful with HasTotal

	Context []byte // meaningful with HasContext
	// Metadata is the text of a JSON object: as sent, canonical (see AppendCanonical) for a legacy record. It holds memory_capabilities
	// only if the record did, see InferredCapabilities.
	Metadata []byte

	// Capabilities are what the record's metadata says that its collector can measure, or what follows from the record.
	Capabilities                                           Capabilities
	CapabilityBackend, CapabilityCollector, SamplingSource []byte // meaningful with CapabilitiesKnown

	Has Presence
	// Legacy tells that the record had no schema version and was converted.
	Legacy bool

	peer    Peer   // how AppendJSON writes it
	spelled []byte // metadata as AppendMetadata writes it, if the Validator knows
	of      *byte  // where the metadata stands that spelled is of: Metadata may be set to something else
	plain   []byte // metadata of a legacy record as release 0.2.9 leaves it, if that is something else
}

// The sources of an event's integers and texts, in canonical order.
type values struct {
	ints     [canonicals]integer
	texts    [canonicals]text
	metadata kind
	given    uint64 // which of the identity fields are there
	wide     bool   // some integer does not fit in 64 bits
}

type text struct {
	b    []byte
	kind kind
}

func (v *values) setInt(f field, n integer) {
	v.ints[f] = n
	v.wide = v.wide || n.wide != nil
}

// event makes the event of values that check has passed.
func (v *values) event(e *Event) {
	n := &v.ints
	*e = Event{
		TimestampNS: n[fTimestampNS].v, EventType: v.texts[fEventType].b, Collector: v.texts[fCollector].b,
		SamplingIntervalMS: n[fSamplingIntervalMS].v, PID: n[fPID].v, Host: v.texts[fHost].b, JobID: v.texts[fJobID].b,
		Rank: n[fRank].v, LocalRank: n[fLocalRank].v, WorldSize: n[fWorldSize].v, DeviceID: n[fDeviceID].v,
		Allocated: n[fAllocated].v, Reserved: n[fReserved].v, Active: n[fActive].v, Inactive: n[fInactive].v, Change: n[fChange].v,
		DeviceUsed: n[fDeviceUsed].v, DeviceFree: n[fDeviceFree].v, DeviceTotal: n[fDeviceTotal].v, Context: v.texts[fContext].b,
	}
	for _, p := range [...]struct {
		bit Presence
		ok  bool
	}{
		{HasActive, n[fActive].kind == kInt}, {HasInactive, n[fInactive].kind == kInt}, {HasFree, n[fDeviceFree].kind == kInt},
		{HasTotal, n[fDeviceTotal].kind == kInt}, {HasContext, v.texts[fContext].kind == kString}, {HasJobID, v.texts[fJobID].kind == kString},
		{HasRank, v.given>>fRank&1 != 0}, {HasLocalRank, v.given>>fLocalRank&1 != 0}, {HasWorldSize, v.given>>fWorldSize&1 != 0},
		{NoAllocated, n[fAllocated].kind != kInt}, {NoReserved, n[fReserved].kind != kInt}, {NoChange, n[fChange].kind != kInt},
		{NoDeviceUsed, n[fDeviceUsed].kind != kInt},
	} {
		if p.ok {
			e.Has |= p.bit
		}
	}
}
