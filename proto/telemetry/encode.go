package telemetry

import (
	"slices"
	"strconv"
)

// AppendJSON appends the event as one line of JSON: the 23 keys of schema version 4 in canonical order, what is missing as null,
// metadata with its memory_capabilities in canonical spelling. An event that was read for release 0.2.9 is written as that writes it:
// 22 keys, schema version 2. What was accepted gives a record that is accepted, with the same values. Safe for concurrent use.
func (e *Event) AppendJSON(dst []byte) []byte {
	return append(e.appendFields(append(dst, '{'), false), '}')
}

// appendFields appends the members of AppendJSON or, with frame, those of AppendFrame.
func (e *Event) appendFields(dst []byte, frame bool) []byte {
	older := e.peer == Peer029 && !frame
	switch {
	case older:
		dst = append(dst, `"schema_version":2`...)
	case frame && (e.Has&HasSession == 0 || len(e.SessionID) > frameSessionBytes):
		dst = append(dst, `"schema_version":4`...)
	case len(e.SessionID) > 0:
		dst = append(dst, `"schema_version":4,"session_id":`...)
		dst = AppendString(dst, e.SessionID)
	default:
		dst = append(dst, `"schema_version":4,"session_id":"`...)
		dst = append(e.AppendSessionID(dst), '"')
	}
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
	dst = e.number(dst, fAllocated, e.Allocated, e.Has&NoAllocated == 0)
	dst = e.number(dst, fReserved, e.Reserved, e.Has&NoReserved == 0)
	dst = e.number(dst, fActive, e.Active, e.Has&HasActive != 0)
	dst = e.number(dst, fInactive, e.Inactive, e.Has&HasInactive != 0)
	dst = e.number(dst, fChange, e.Change, e.Has&NoChange == 0)
	dst = e.number(dst, fDeviceUsed, e.DeviceUsed, e.Has&NoDeviceUsed == 0)
	dst = e.number(dst, fDeviceFree, e.DeviceFree, e.Has&HasFree != 0)
	dst = e.number(dst, fDeviceTotal, e.DeviceTotal, e.Has&HasTotal != 0)
	dst = e.string(dst, fContext, e.Context, e.Has&HasContext != 0)
	dst = appendKey(dst, fMetadata)
	switch {
	case older && e.plain != nil:
		return append(dst, e.plain...)
	case !older && !frame && e.Has&InferredCapabilities != 0:
		return e.appendInferred(dst)
	}
	return e.AppendMetadata(dst)
}

// AppendMetadata appends the metadata in canonical spelling, without memory_capabilities that were not in it. Safe for concurrent use.
func (e *Event) AppendMetadata(dst []byte) []byte {
	if e.spelled != nil && len(e.Metadata) > 0 && &e.Metadata[0] == e.of {
		return append(dst, e.spelled...)
	}
	if e.Legacy || len(e.Metadata) <= 2 {
		if len(e.Metadata) == 0 {
			return append(dst, "{}"...)
		}
		return append(dst, e.Metadata...)
	}
	return appendScanned(dst, e.Metadata)
}

// appendInferred appends the metadata with the memory_capabilities that follow from the record, in their place among the keys.
func (e *Event) appendInferred(dst []byte) []byte {
	start := len(dst)
	dst = e.AppendMetadata(dst)
	at, behind := start+1, false // where the key goes, and whether any member stands behind it
	members(dst[start:], func(key []byte, escaped bool, t token) {
		if escaped && !behind {
			key = appendDecoded(nil, key)
		}
		behind = behind || string(key) > capabilitiesKey
		if !behind {
			at = start + int(t.end)
		}
	})
	var room [1 << 10]byte
	member := room[:0]
	if at > start+1 {
		member = append(member, ',')
	}
	member = e.appendCapabilities(append(member, `"`+capabilitiesKey+`":`...))
	if behind && at == start+1 {
		member = append(member, ',')
	}
	return slices.Insert(dst, at, member...)
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
