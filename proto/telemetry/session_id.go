package telemetry

import (
	"crypto/sha1"
	"encoding/hex"
	"math"
	"strconv"
)

// SessionPrefix begins the ids of sessions of memory telemetry. The gateway makes them, from what identifies a process or from what a
// record calls its session.
const SessionPrefix = "mem:"

// sessionOf finds the session that a record names: its own session_id, or that of its metadata where it has none or null, or else the
// default. It is nil if none of them is a string that is not blank. t is metadata's value in text.
func (v *Validator) sessionOf(text []byte, t token, o *Options) []byte {
	if own := v.record.get(fSessionID); own.kind != kAbsent && own.kind != kNull {
		text, t = v.record.text, own
	} else if o.frame {
		return nil // the gateway has looked
	}
	if t.kind == kString {
		if s := v.decoded(text, t); !blank(s) {
			return s
		}
	}
	if o.DefaultSessionID != "" {
		start := len(v.strings)
		v.strings = append(v.strings, o.DefaultSessionID...)
		return v.strings[start:len(v.strings):len(v.strings)]
	}
	return nil
}

// AppendSessionID appends the session_id that the peer gives the event: the one that it names or, for an event that names none, one
// made of its time, host and process, so that nearly every such event is a session of its own. Safe for concurrent use.
func (e *Event) AppendSessionID(dst []byte) []byte {
	if len(e.SessionID) > 0 {
		return append(dst, e.SessionID...)
	}
	var room [128]byte
	text := strconv.AppendInt(room[:0], e.TimestampNS, 10)
	text = append(append(append(text, "::"...), e.Host...), "::"...)
	return appendLegacySession(dst, strconv.AppendInt(text, e.PID, 10))
}

// legacySession makes the session of a legacy record that names none: of what the record itself says, spelled as Python spells it.
func (v *Validator) legacySession() []byte {
	text := v.sessionText[:0]
	switch r := &v.record; {
	case r.has(fTimestampNS):
		text = appendPythonNumber(text, r.bytes(r.get(fTimestampNS)), kInt)
	default:
		t := r.get(fTimestamp)
		text = appendPythonNumber(text, r.bytes(t), t.kind)
	}
	text = append(text, "::"...)
	if v.record.has(fHost) {
		text = append(text, v.text(fHost).b...)
	} else {
		text = append(text, "unknown"...)
	}
	text = append(text, "::"...)
	if v.record.has(fPID) {
		text = appendPythonNumber(text, v.record.bytes(v.record.get(fPID)), kInt)
	} else {
		text = append(text, "-1"...)
	}
	v.sessionText = text
	start := len(v.strings)
	v.strings = appendLegacySession(v.strings, text)
	return v.strings[start:len(v.strings):len(v.strings)]
}

// namespaceURL is the namespace of UUIDs that are made of addresses.
var namespaceURL = [16]byte{0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}

// appendLegacySession appends "legacy-" and the UUID of version 5 of text.
func appendLegacySession(dst, text []byte) []byte {
	var room [160]byte
	sum := sha1.Sum(append(append(room[:0], namespaceURL[:]...), text...))
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	dst = append(dst, "legacy-"...)
	for i, n := range [...][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, sum[n[0]:n[1]])
	}
	return dst
}

// appendPythonNumber appends a number token as Python's str spells the number.
func appendPythonNumber(dst, token []byte, k kind) []byte {
	if k == kInt {
		if n := integerOf(token, kInt); n.wide == nil {
			return strconv.AppendInt(dst, n.v, 10)
		}
		return append(dst, token...) // JSON has no leading zeros
	}
	switch string(token) {
	case "NaN":
		return append(dst, "nan"...)
	case "Infinity":
		return append(dst, "inf"...)
	case "-Infinity":
		return append(dst, "-inf"...)
	}
	f, _ := strconv.ParseFloat(string(token), 64)
	switch {
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if f == math.Trunc(f) {
		dst = append(dst, ".0"...)
	}
	return dst
}
