package kineto

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// partVersion is the first byte of a part.
const partVersion = 1

// MaxHeadBytes bounds the head of a part.
const MaxHeadBytes = 192 << 10

// Head is what every part says of the whole trace.
type Head struct {
	// Index of the part, from 0. Last is the last one.
	Index int  `json:"index"`
	Last  bool `json:"last,omitempty"`
	// Complete says that the trace is whole.
	Complete  bool   `json:"complete"`
	Rank      int64  `json:"rank"`                 // -1 unknown
	WorldSize int64  `json:"world_size,omitempty"` // 0 unknown
	Host      string `json:"host,omitempty"`
	Job       string `json:"job,omitempty"`
	Vendor    string `json:"vendor,omitempty"`
	// Devices are in the first part alone.
	Devices []Device `json:"devices,omitempty"`
	// Besides is how many elements of the list are told in the part beside its events: those of phase M.
	Besides uint64 `json:"besides,omitempty"`
}

// Event is one event of a part. Texts are indexes in Part.Texts.
type Event struct {
	Phase Phase
	Kind  Kind
	// NewName says that NameID was in no kernel before.
	NewName bool
	// NameID is the number of the name in the trace, from 1 on; 0 is one of those beyond MaxNames.
	NameID uint32
	Name   uint32
	// Start is in ns since 1970, Duration in ns. Of a flow's end, Duration is that of the slice which it stands on.
	Start, Duration       int64
	Category, PID, TID    uint32
	Track                 uint32 // name of the thread; of a flow's end, of the slice which it stands on
	Device                int32  // -1 unknown
	Stream                int64  // -1 unknown
	Correlation, External uint64 // 0 unknown; of a flow's end Correlation is the flow's id
	Args                  []byte // JSON, nil for none
}

// Elements is how many elements of the trace the event was made of.
func (e *Event) Elements() uint64 {
	if e.Phase == Paired || e.Phase == AsyncPaired {
		return 2
	}
	return 1
}

// MaxNames is how many names of a trace are told apart in sums.
const MaxNames = 1 << 16

// Part is a piece of a trace, as it travels from the gateway to the worker.
type Part struct {
	Head
	Texts [][]byte // the first is ''
	// Events in the order of the trace, a slice of a begin and an end where the end stands.
	Events []Event
}

// Elements is how many elements of the trace the part tells.
func (p *Part) Elements() uint64 {
	n := p.Besides
	for i := range p.Events {
		n += p.Events[i].Elements()
	}
	return n
}

func appendHead(dst []byte, h *Head) ([]byte, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("kineto: encode part: %w", err)
	}
	if len(head) > MaxHeadBytes {
		return nil, fmt.Errorf("kineto: BUG: the head of a part has %d bytes, more than %d", len(head), MaxHeadBytes)
	}
	dst = append(dst, partVersion)
	return append(binary.AppendUvarint(dst, uint64(len(head))), head...), nil
}

// Bits of the byte that says which numbers of an event follow: those that most events do not have.
const (
	hasDevice = 1 << iota
	hasStream
	hasCorrelation
	hasExternal
	hasArgs
	hasNewName
	hasBits
)

// writer encodes events. refs holds what refer has made of the texts of an event.
func appendEvent(dst []byte, e *Event, before int64, refs []byte) []byte {
	bits := byte(0)
	for i, has := range [...]bool{e.Device != -1, e.Stream != -1, e.Correlation != 0, e.External != 0, len(e.Args) > 0, e.NewName} {
		if has {
			bits |= 1 << i
		}
	}
	dst = append(dst, byte(e.Phase), byte(e.Kind), bits)
	dst = binary.AppendVarint(dst, e.Start-before)
	dst = binary.AppendUvarint(dst, uint64(e.Duration))
	dst = binary.AppendUvarint(dst, uint64(e.NameID))
	dst = append(dst, refs...)
	if bits&hasDevice != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Device))
	}
	if bits&hasStream != 0 {
		dst = binary.AppendVarint(dst, e.Stream)
	}
	if bits&hasCorrelation != 0 {
		dst = binary.AppendUvarint(dst, e.Correlation)
	}
	if bits&hasExternal != 0 {
		dst = binary.AppendUvarint(dst, e.External)
	}
	if bits&hasArgs != 0 {
		dst = append(binary.AppendUvarint(dst, uint64(len(e.Args))), e.Args...)
	}
	return dst
}

var errPart = errors.New("kineto: the part is damaged")

// Decode reads an encoded part into p, which may have been used before: its slices are used again, and its texts and args are those of b.
// It takes some ten times the memory of b at most.
func (p *Part) Decode(b []byte) error {
	texts, events := p.Texts[:0], p.Events[:0]
	*p = Part{}
	if len(b) == 0 || b[0] != partVersion {
		return fmt.Errorf("%w: it is not of version %d", errPart, partVersion)
	}
	r := partReader{b: b[1:]}
	if err := json.Unmarshal(r.bytes(MaxHeadBytes), &p.Head); err != nil {
		return fmt.Errorf("%w: head: %w", errPart, err)
	}
	if p.Index < 0 || p.Rank < -1 || p.Rank > math.MaxInt32 || p.WorldSize < 0 || p.WorldSize > math.MaxInt32 || p.Besides > 1<<40 {
		return fmt.Errorf("%w: head: numbers out of range", errPart)
	}
	r.texts = append(texts, nil)
	before := int64(0)
	for len(r.b) > 0 && !r.bad {
		e := Event{Device: -1, Stream: -1}
		if len(r.b) < 3 {
			r.bad = true
			break
		}
		bits := r.b[2]
		e.Phase, e.Kind, e.NewName = Phase(r.b[0]), Kind(r.b[1]), bits&hasNewName != 0
		r.bad = e.Phase >= phases || e.Kind >= kinds || bits >= hasBits
		r.b = r.b[3:]
		e.Start = before + r.signed()
		before = e.Start
		e.Duration = int64(r.number(math.MaxInt64))
		e.NameID = uint32(r.number(MaxNames))
		e.Name, e.Category, e.PID, e.TID, e.Track = r.text(), r.text(), r.text(), r.text(), r.text()
		if bits&hasDevice != 0 {
			e.Device = int32(r.number(math.MaxInt32))
		}
		if bits&hasStream != 0 {
			e.Stream = r.signed()
		}
		if bits&hasCorrelation != 0 {
			e.Correlation = r.number(math.MaxUint64)
		}
		if bits&hasExternal != 0 {
			e.External = r.number(math.MaxUint64)
		}
		if bits&hasArgs != 0 {
			e.Args = r.bytes(math.MaxInt32)
		}
		r.bad = r.bad || e.Start > math.MaxInt64-e.Duration
		events = append(events, e)
	}
	if r.bad {
		return fmt.Errorf("%w: %d bytes from its end", errPart, len(r.b))
	}
	p.Texts, p.Events = r.texts, events
	return nil
}

// partReader reads numbers and texts; after the first that cannot be read, bad is set.
type partReader struct {
	b     []byte
	texts [][]byte
	bad   bool
}

func (r *partReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *partReader) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *partReader) bytes(most uint64) []byte {
	n := r.number(most)
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// text reads a reference to a text, and the text where it is new.
func (r *partReader) text() uint32 {
	i := r.number(uint64(len(r.texts)))
	if !r.bad && i == uint64(len(r.texts)) {
		r.texts = append(r.texts, r.bytes(math.MaxInt32))
	}
	return uint32(i)
}
