package telemetry

import (
	"bytes"
	"errors"
	"strconv"
)

// Frame is an accepted record on its way from the gateway to a worker: a line with what AppendJSON does not hold before the JSON.
//
//	<index> <bits> {"schema_version":4,…}
//
// index counts the records of the upload; bits is Presence shifted left by one, and 1 if the record was converted, and from bit 17 on
// the schema version that the record had. The JSON is the record as version 4 has it, except that what was not said is left out: the
// session_id of a record that names none, and the memory_capabilities of one that has none. Frames of version 2, which had no version
// among the bits, are still read.
type Frame struct {
	Index   uint32 // the last one there is stands for all beyond it
	Has     Presence
	Legacy  bool
	Version uint8 // see Event.Version
	JSON    []byte
}

// errFrame says that a line was written by no version of AppendFrame that this one knows.
var errFrame = errors.New("not a frame of an accepted record: was it written by a newer gateway?")

// AppendFrame appends the event's line, '\n' included. Safe for concurrent use.
func AppendFrame(dst []byte, index int, e *Event) []byte {
	bits := uint64(e.Has)<<1 | uint64(e.Version)<<17
	if e.Legacy {
		bits |= 1
	}
	dst = append(strconv.AppendInt(dst, int64(index), 10), ' ')
	dst = append(strconv.AppendUint(dst, bits, 10), ' ')
	return append(e.appendFields(append(dst, '{'), true), '}', '\n')
}

// FrameBytes is by how much a frame can be longer than the record it is made of: the keys that a legacy record leaves out, their
// values, a session_id that stood in metadata, and what stands before the JSON.
const FrameBytes = 5 << 10

// frameSessionBytes is how long a session_id may be that a frame carries on; of a longer one only the session that the gateway made of
// it is kept.
const frameSessionBytes = 512

// ParseFrame takes a line apart, with or without its '\n'. JSON is shared with it.
func ParseFrame(line []byte) (Frame, error) {
	line = bytes.TrimSuffix(line, newline)
	index, rest, ok1 := number(line, 1<<62)
	bits, text, ok2 := number(rest, 4<<17|1<<17-1)
	if !ok1 || !ok2 {
		return Frame{}, errFrame
	}
	f := Frame{Index: uint32(min(index, 1<<32-1)), Has: Presence(bits >> 1), Legacy: bits&1 == 1, Version: uint8(bits >> 17), JSON: text}
	if f.Version == 0 {
		f.Version = 2
		if f.Legacy {
			f.Version = 1
		}
	}
	return f, nil
}

// number takes a decimal number and the space behind it off b.
func number(b []byte, most uint64) (n uint64, rest []byte, ok bool) {
	for i, c := range b {
		if c == ' ' {
			return n, b[i+1:], i > 0
		}
		if c < '0' || c > '9' || n > most/10 {
			break
		}
		n = n*10 + uint64(c-'0')
		if n > most {
			break
		}
	}
	return 0, nil, false
}

// Event reads the frame's event into e with v, as Validator.Event does; its metadata is canonical. A refusal means that the frame
// was damaged, or written under rules that this version does not have.
func (f *Frame) Event(v *Validator, e *Event) *Refusal {
	if r := v.Event(e, f.JSON, &strict); r != nil {
		return r
	}
	// Always there by now, or too long; what the record said itself is in the frame.
	const given = HasRank | HasLocalRank | HasWorldSize | HasSession
	e.Has = e.Has&^given | f.Has&given
	e.Legacy, e.Version = f.Legacy, f.Version
	return nil
}

var strict = Options{RefuseLegacy: true, frame: true}
