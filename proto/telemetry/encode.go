package telemetry

import "strconv"

// AppendJSON appends the event as one line of JSON: the 22 keys of schema version 2 in canonical order, what is missing as null,
// metadata in canonical spelling. What was accepted gives a record that is accepted, with the same values. Safe for concurrent use.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"schema_version":2`...)
	dst = e.number(dst, fTimestampNS, e.TimestampNS, true)
	dst = e.string(dst, fEventType, e.EventType, true)
	dst = e.string(dst, fCollector, e.Collector, true)
	dst = e.number(dst, fSamplingIntervalMS, e.SamplingIntervalMS, true)
	dst = e.number(dst, fPID, e.PID, true)
	dst = e.string(dst, fHost, e.Host, true)
	dst = e.string(dst, fJobID, e.JobID, e.Has&HasJobID != 0)
	dst = e.number(dst, fRank, e.Rank, true)
	dst = e.number(dst, fLocalRank, e.LocalRank, true)
	dst = e.number(dst, fWorldSize, e.WorldSize, true)
	dst = e.number(dst, fDeviceID, e.DeviceID, true)
	dst = e.number(dst, fAllocated, e.Allocated, true)
	dst = e.number(dst, fReserved, e.Reserved, true)
	dst = e.number(dst, fActive, e.Active, e.Has&HasActive != 0)
	dst = e.number(dst, fInactive, e.Inactive, e.Has&HasInactive != 0)
	dst = e.number(dst, fChange, e.Change, true)
	dst = e.number(dst, fDeviceUsed, e.DeviceUsed, true)
	dst = e.number(dst, fDeviceFree, e.DeviceFree, e.Has&HasFree != 0)
	dst = e.number(dst, fDeviceTotal, e.DeviceTotal, e.Has&HasTotal != 0)
	dst = e.string(dst, fContext, e.Context, e.Has&HasContext != 0)
	dst = appendKey(dst, fMetadata)
	dst = e.AppendMetadata(dst)
	return append(dst, '}')
}

// AppendMetadata appends the metadata in canonical spelling. Safe for concurrent use.
func (e *Event) AppendMetadata(dst []byte) []byte {
	if e.Legacy || len(e.Metadata) <= 2 {
		if len(e.Metadata) == 0 {
			return append(dst, "{}"...)
		}
		return append(dst, e.Metadata...)
	}
	out, refusal := AppendCanonical(dst, e.Metadata)
	if refusal != nil {
		panic("BUG: telemetry: metadata of an accepted event: " + refusal.Message)
	}
	return out
}

func appendKey(dst []byte, f field) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, names[f]...)
	return append(dst, '"', ':')
}

func (e *Event) number(dst []byte, f field, v int64, ok bool) []byte {
	dst = appendKey(dst, f)
	if !ok {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, v, 10)
}

func (e *Event) string(dst []byte, f field, s []byte, ok bool) []byte {
	dst = appendKey(dst, f)
	if !ok {
		return append(dst, "null"...)
	}
	return AppendString(dst, s)
}
