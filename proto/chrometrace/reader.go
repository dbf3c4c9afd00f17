// Package chrometrace reads traces in Chrome's JSON: an array of events, or an object with one under "traceEvents" and other members before
// or behind it. A Reader gives one event at a time in bounded memory, however long the trace is. Values stay the text that they are in the
// file, so that no digit of a time or an id is lost; Text, and the functions of strconv, read them. To unpack a trace is the caller's.
package chrometrace

import (
	"errors"
	"fmt"
	"io"

	"github.com/warpline/warpline/proto/jsonscan"
)

// Bounds of one trace. What is larger is passed over, and not kept.
const (
	MaxEvent  = 1 << 20 // bytes of an event
	MaxMember = 1 << 20 // bytes of another member of the object: distributedInfo lists the ranks of each process group
	MaxDepth  = 128     // of what is in an event
	MaxKept   = 1 << 16 // bytes of an element that is no event
)

// rules are Python's, which writes NaN into traces.
var rules = jsonscan.Rules{Depth: MaxDepth, Python: true}

// Event is one element of the trace. Its values are JSON text, nil where the event has none, and good until the next call of Next. Of a
// member that stands twice the last counts.
type Event struct {
	// Offset is the byte of the trace at which it begins.
	Offset                                                     int64
	Phase, Name, Category, Colour, TS, Dur, PID, TID, ID, Args []byte
	ID2                                                        []byte // an object: local is an id within the process, global one of all
	// Of arrows and of slices at their ends; Scope is of instants.
	BindingPoint, BindID, FlowIn, FlowOut, Scope []byte
}

// EventError is an element that is no event; reading can go on behind it.
type EventError struct {
	Offset int64
	Reason string
	// Text is the element as it stands in the trace, at most its first MaxKept bytes. It is good until the next call of Next.
	Text []byte
}

// Error names the byte.
func (e *EventError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// SyntaxError is where a trace stops being one. Nothing is read behind it.
type SyntaxError struct {
	Offset int64
	Reason string
	// Torn tells that the trace ends there, and Err that reading failed.
	Torn bool
	Err  error
}

// Error names the byte.
func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Unwrap returns Err.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Reader reads the events of a trace. It is not safe for concurrent use.
type Reader struct {
	// Member, unless it is nil, is called with every other member of the object. value is nil if it is longer than MaxMember; both are
	// good until Member returns.
	Member func(key string, value []byte)
	// Mended counts events whose text is no JSON and could be read all the same.
	Mended uint64

	r      io.Reader
	b      []byte // what was read and not yet passed is b[at:]
	at     int
	offset int64 // of b[0] in the trace
	ended  error // what reading ended with
	place  place
	object bool // the trace is an object
	first  bool // nothing of the array or object came yet
	listed bool // an array of events began
	event  Event
	mended []byte // scratch
	kept   []byte // the beginning of an element that may be no event
	// broken tells that value stopped where it began, because that is no JSON and its end cannot be told.
	broken bool
	err    error
}

// place is what comes next.
type place uint8

const (
	atStart place = iota
	inObject
	inArray
	atEnd
)

// NewReader returns a Reader of the trace in r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, b: make([]byte, 0, 1<<16)} }

// Next returns the next event, or io.EOF behind the last one, when the members behind the events were passed too. After an *EventError it
// can be called again; every other error stays.
func (r *Reader) Next() (*Event, error) {
	for r.err == nil {
		switch r.place {
		case atStart:
			r.open()
		case inObject:
			r.member()
		case inArray:
			if e, err := r.element(); e != nil || err != nil {
				return e, err
			}
		case atEnd:
			if r.space() {
				r.fail("more text behind the trace")
			} else if r.err == nil {
				r.err = io.EOF
			}
		}
	}
	return nil, r.err
}

// Listed reports whether an array of events has begun: other JSON objects have none.
func (r *Reader) Listed() bool { return r.listed }

// Offset is the byte up to which the trace is passed.
func (r *Reader) Offset() int64 { return r.offset + int64(r.at) }

// fail ends reading here. If it is the end of the text, the trace is torn.
func (r *Reader) fail(reason string) {
	if r.err != nil {
		return
	}
	e := &SyntaxError{Offset: r.Offset(), Reason: reason}
	if r.at == len(r.b) && r.ended != nil {
		e.Reason, e.Torn = "the trace ends here, before it is whole", true
		if !errors.Is(r.ended, io.EOF) {
			e.Reason, e.Torn, e.Err = "read: "+r.ended.Error(), false, r.ended
		}
	}
	r.err = e
}

// more reads on, and keeps the last n bytes that were passed and those that were not. It reports whether there is more.
func (r *Reader) more(keep int) bool {
	if r.ended != nil {
		return false
	}
	if from := r.at - keep; from > 0 {
		n := copy(r.b, r.b[from:])
		r.b, r.at, r.offset = r.b[:n], keep, r.offset+int64(from)
	}
	if len(r.b) == cap(r.b) {
		r.b = append(r.b, make([]byte, cap(r.b))...)[:len(r.b)]
	}
	for range 100 {
		n, err := r.r.Read(r.b[len(r.b):cap(r.b)])
		r.b, r.ended = r.b[:len(r.b)+n], err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	r.ended = io.ErrNoProgress
	return false
}

// space passes space, and reports whether anything comes behind it.
func (r *Reader) space() bool {
	for {
		if r.at = jsonscan.Space(r.b, r.at); r.at < len(r.b) {
			return true
		}
		if !r.more(0) {
			return false
		}
	}
}

// next passes space and returns the byte behind it, 0 at the end.
func (r *Reader) next() byte {
	if !r.space() {
		return 0
	}
	return max(r.b[r.at], 1) // a byte 0 in the trace is not its end
}

func (r *Reader) open() {
	switch r.next() {
	case '[':
		r.place, r.listed = inArray, true
	case '{':
		r.place, r.object = inObject, true
	default:
		r.fail("neither an array nor an object begins here")
		return
	}
	r.at++
	r.first = true
}

// separated passes the comma between elements or members, and reports whether another comes before the closing byte.
func (r *Reader) separated(closing byte) bool {
	c := r.next()
	if !r.first && c == ',' {
		r.at++
		c = r.next()
	} else if !r.first && c != closing && c != 0 {
		r.fail(noComma)
		return false
	}
	r.first = false
	if c == closing {
		r.at++
		return false
	}
	if c == 0 && !r.object && r.ended == io.EOF { // an array may end without its bracket, so that a writer can just stop
		r.place = atEnd
		return false
	}
	return true
}

// member passes one member of the object, up to the first element if it is the events.
func (r *Reader) member() {
	if !r.separated('}') {
		if r.err == nil {
			r.place = atEnd
		}
		return
	}
	if r.next() != '"' {
		r.fail("no name of a member here")
		return
	}
	key, whole := r.value(MaxMember, false)
	if r.err != nil {
		return
	}
	name := "" // of one that is too long
	if whole {
		name = Text(key)
	}
	if r.next() != ':' {
		r.fail("no colon here")
		return
	}
	r.at++
	c := r.next()
	if name == "traceEvents" && c == '[' {
		r.at++
		r.place, r.first, r.listed = inArray, true, true
		return
	}
	value, whole := r.value(MaxMember, false)
	if r.err == nil && r.Member != nil {
		if !whole {
			value = nil
		}
		r.Member(name, value)
	}
}

// element returns the next event of the array, or neither an event nor an error at its end.
func (r *Reader) element() (*Event, error) {
	if !r.first {
		switch c := r.next(); {
		case c == '{':
			r.first = true // a comma is missed
		case c != ',' && c != ']' && c != 0:
			offset := r.Offset()
			if !r.pass(-1) {
				r.err = &SyntaxError{Offset: offset, Reason: noComma}
				return nil, r.err
			}
			return nil, r.eventError(offset, noComma)
		}
	}
	if !r.separated(']') {
		if r.err == nil && r.place == inArray {
			r.place = atEnd
			if r.object {
				r.place = inObject
			}
		}
		return nil, r.err
	}
	if r.next() == 0 {
		r.fail("")
		return nil, r.err
	}
	offset := r.Offset()
	r.event = Event{Offset: offset}
	if r.b[r.at] == '{' { // nearly always it is whole and here, and one look is enough
		if end, ok := r.event.members(r.b[r.at:]); ok && end <= MaxEvent {
			r.at += end
			return &r.event, nil
		}
	}
	text, whole := r.value(MaxEvent, true)
	switch {
	case r.err != nil:
		return nil, r.err
	case r.broken:
		r.broken = false
		return r.repair(offset, -1, notJSON)
	case !whole:
		return nil, r.eventError(offset, fmt.Sprintf("an event of more than %d bytes", MaxEvent))
	}
	r.event = Event{Offset: offset}
	reason := r.event.split(text)
	if reason == "" {
		return &r.event, nil
	}
	if reason == notJSON {
		r.at -= len(text)
		return r.repair(offset, len(text), reason)
	}
	r.keep(text)
	return nil, r.eventError(offset, reason)
}

// keep notes how an element begins that may be no event.
func (r *Reader) keep(text []byte) { r.kept = append(r.kept[:0], text[:min(len(text), MaxKept)]...) }

// eventError is an element that is passed now, whose beginning is kept.
func (r *Reader) eventError(offset int64, reason string) *EventError {
	return &EventError{offset, reason, r.kept[:min(int64(len(r.kept)), r.Offset()-offset)]}
}

const noComma = "no comma here"

// notJSON is what is wrong with an event that may be repaired.
var notJSON = fmt.Sprintf("no JSON, or nested deeper than %d", MaxDepth)

// split finds the members of an event; it returns what is wrong.
func (e *Event) split(b []byte) (reason string) {
	if b[0] != '{' {
		return "no object, and an event is one"
	}
	if end, ok := e.members(b); !ok || end != len(b) {
		return notJSON
	}
	return ""
}

// members finds the members of the event that begins here.
func (e *Event) members(b []byte) (end int, ok bool) {
	return members(b, func(key, value []byte) {
		switch string(key) {
		case `"ph"`:
			e.Phase = value
		case `"name"`:
			e.Name = value
		case `"cat"`:
			e.Category = value
		case `"cname"`:
			e.Colour = value
		case `"ts"`:
			e.TS = value
		case `"dur"`:
			e.Dur = value
		case `"pid"`:
			e.PID = value
		case `"tid"`:
			e.TID = value
		case `"id"`:
			e.ID = value
		case `"id2"`:
			e.ID2 = value
		case `"args"`:
			e.Args = value
		case `"bp"`:
			e.BindingPoint = value
		case `"bind_id"`:
			e.BindID = value
		case `"flow_in"`:
			e.FlowIn = value
		case `"flow_out"`:
			e.FlowOut = value
		case `"s"`:
			e.Scope = value
		}
	})
}

// value passes the value here, and returns its text if it is at most limit bytes long; more is not kept. Brackets and strings alone are
// looked at. With mend, one that has no end, or is longer, and that is no JSON in its first limit bytes is not passed, but broken.
func (r *Reader) value(limit int, mend bool) (text []byte, whole bool) {
	begin, depth, inString, escaped, whole := r.at, 0, false, false, true
	for {
		if r.at == len(r.b) {
			keep := r.at - begin
			if mend && whole && keep > limit && broken(r.b[begin:begin+limit]) {
				r.at, r.broken = begin, true
				return nil, false
			}
			if mend && whole && keep > limit {
				r.keep(r.b[begin:])
			}
			if whole = whole && keep <= limit; !whole {
				keep = 0
			}
			if !r.more(keep) {
				if begin = r.at - keep; mend && whole && r.ended == io.EOF && broken(r.b[begin:]) {
					r.at, r.broken = begin, true
					return nil, false
				}
				r.fail("")
				return nil, false
			}
			begin = r.at - keep
		}
		c := r.b[r.at]
		switch {
		case escaped:
			escaped = false
		case inString:
			if r.at = jsonscan.Special(r.b, r.at); r.at == len(r.b) {
				continue
			}
			escaped, inString = r.b[r.at] == '\\', r.b[r.at] != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == '}' || c == ']' || c == ',' || c == ':' || c <= ' '): // behind a number or a word
			if whole && r.at == begin {
				r.fail("no value here")
				return nil, false
			}
			return r.passed(begin, limit, whole, mend)
		case c == '}' || c == ']':
			depth--
		}
		r.at++
		if depth == 0 && !inString && (c == '"' || c == '}' || c == ']' || r.b[r.at-1] == '"') {
			return r.passed(begin, limit, whole, mend)
		}
	}
}

// passed is what value returns of a value that ends here.
func (r *Reader) passed(begin, limit int, whole, mend bool) ([]byte, bool) {
	text := r.b[begin:r.at]
	if mend && whole && len(text) > limit {
		r.keep(text)
	}
	return text, whole && len(text) <= limit
}
