package telemetry

import (
	"bytes"
	"strconv"
)

// Health is what a collector says of itself in an event's metadata. Has tells which of it is there; the rest is zero.
type Health struct {
	Has HealthPresence
	// Status is healthy, degraded or unhealthy as trackers write it; any text.
	Status []byte
	// Partial tells that some counters could not be read.
	Partial bool
	// PartialFields is a JSON array of their names.
	PartialFields []byte
	LastError     []byte
	Failures      int64   // in a row
	NextRetry     float64 // seconds since 1970
	// Keys is how many keys the metadata has, repeated ones counted twice.
	Keys int
}

// HealthPresence says which parts of a Health are there.
type HealthPresence uint8

// The parts.
const (
	HasHealthStatus HealthPresence = 1 << iota
	HasPartial
	HasPartialFields
	HasLastError
	HasFailures
	HasNextRetry
)

// HealthReader reads what metadata says of its collector. It remembers the last metadata, since most events of a process say the same.
// The zero value is ready. Not safe for concurrent use.
type HealthReader struct {
	text []byte
	own  []byte
	h    Health
}

// Read returns the health that metadata tells, the text of a JSON object of an accepted event. It holds until the next call.
func (r *HealthReader) Read(metadata []byte) *Health {
	if len(metadata) <= 2 {
		return &noHealth
	}
	if bytes.Equal(r.text, metadata) {
		return &r.h
	}
	if cap(r.text) > 1<<16 {
		r.text, r.own = nil, nil // one hostile record must not be remembered in memory
	}
	r.text, r.own, r.h = append(r.text[:0], metadata...), r.own[:0], Health{}
	members(r.text, func(key []byte, _ bool, t token) {
		h := &r.h
		h.Keys++
		switch string(key) {
		case "collector_health_status":
			r.set(HasHealthStatus, t.kind == kString)
			h.Status = r.string(t)
		case "telemetry_partial":
			r.set(HasPartial, t.kind == kBool)
			h.Partial = t.kind == kBool && r.text[t.start] == 't'
		case "collector_partial_fields":
			r.set(HasPartialFields, t.kind == kArray)
			h.PartialFields = nil
			if t.kind == kArray {
				h.PartialFields = r.text[t.start:t.end]
			}
		case "collector_last_error":
			r.set(HasLastError, t.kind == kString)
			h.LastError = r.string(t)
		case "collector_consecutive_failures":
			n := integerOf(r.text[t.start:t.end], t.kind)
			r.set(HasFailures, n.kind == kInt && n.wide == nil)
			h.Failures = n.v
		case "collector_next_retry_epoch_s":
			f, err := strconv.ParseFloat(string(r.text[t.start:t.end]), 64)
			if t.kind != kInt && t.kind != kFloat || err != nil {
				f, t.kind = 0, kNull
			}
			r.set(HasNextRetry, t.kind != kNull)
			h.NextRetry = f
		}
	})
	return &r.h
}

var noHealth Health

func (r *HealthReader) set(bit HealthPresence, has bool) {
	r.h.Has &^= bit
	if has {
		r.h.Has |= bit
	}
}

func (r *HealthReader) string(t token) []byte {
	if t.kind != kString {
		return nil
	}
	b := r.text[t.start+1 : t.end-1]
	if t.escaped {
		start := len(r.own)
		r.own = appendDecoded(r.own, b)
		b = r.own[start:len(r.own):len(r.own)]
	}
	return b
}
