package telemetry

import (
	"errors"
	"io"
)

// Form is how a document holds its events.
type Form uint8

// Forms of documents.
const (
	List  Form = iota + 1 // an array, or a list under a key of an object
	Alone                 // the document is one record
	Lines                 // a record a line
)

// Layout is where in a document its events are: bytes Start to End, brackets included. Of Lines it is not known.
type Layout struct {
	Form       Form
	Start, End int64
}

// Survey reads a document to its end and tells where its events are, or with a *DocumentError that it cannot be read as events: what
// the peer's loader says, byte for byte, save that an element which is no usable record does not count. Memory is bounded. With
// Options.Lines nothing is read. Other errors are those of r.
func Survey(r io.Reader, o Options) (Layout, error) {
	if o.Lines {
		return Layout{Form: Lines}, nil
	}
	w := &window{r: r, check: true}
	l, err := survey(w, o)
	var de *DocumentError
	if err != nil && !errors.As(err, &de) {
		return Layout{}, err
	}
	if err != nil { // the peer decodes all of the text before it looks at any
		for w.pos = w.end; w.more(); w.pos = w.end {
		}
		if w.err != nil {
			return Layout{}, w.err
		}
	}
	if bad := w.encoding.bad; bad != "" && (err != nil || w.encoding.where < l.Start || w.encoding.where >= l.End) {
		return Layout{}, &DocumentError{BadUTF8, bad}
	}
	return l, err
}

func survey(w *window, o Options) (l Layout, err error) {
	c, err := open(w)
	if err != nil {
		return l, err
	}
	var s skipper
	var outside *DocumentError
	switch c {
	case '[':
		l.Form, l.Start = List, w.offset()
		_, err = w.skip(&s, 0)
		l.End = w.offset()
	case '{':
		l, outside, err = surveyObject(w, &s, o)
	default:
		if _, err = w.skip(&s, 0); err == nil {
			if outside = tooLong(&s); outside == nil {
				outside = &DocumentError{NotContainer, "Telemetry payload must be a JSON object or array"}
			}
		}
	}
	if err == nil {
		err = w.finish()
	}
	if err == nil && outside != nil {
		err = outside
	}
	return l, err
}

// open begins the document and returns its first byte that is not space.
func open(w *window) (byte, error) {
	w.more()
	if w.err == nil && hasPrefix(w.rest(), 0, "\ufeff") {
		return 0, w.here(unexpectedBOM)
	}
	if !w.space() {
		if w.err != nil {
			return 0, w.err
		}
		return 0, w.here(expectValue)
	}
	return w.buf[w.pos], nil
}

// finish wants nothing but space behind the document's value.
func (w *window) finish() error {
	if w.space() {
		return w.here(extraData)
	}
	return w.err
}

func tooLong(s *skipper) *DocumentError {
	if s.longest == 0 {
		return nil
	}
	return &DocumentError{IntegerTooLong, tooManyDigits(s.longest)}
}

// surveyObject surveys a document that is an object. What makes a well-formed one unusable is outside.
func surveyObject(w *window, s *skipper, o Options) (l Layout, outside *DocumentError, err error) {
	whole := Layout{Form: Alone, Start: w.offset()}
	m := walker{w: w, s: s, o: o}
	var list, kind = Layout{Form: List}, byte(0) // of the last value under the key
	for {
		c, events, err := m.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return l, nil, err
		}
		start := w.offset()
		if _, err := w.skip(s, 0); err != nil {
			return l, nil, err
		}
		if events {
			kind, list.Start, list.End = c, start, w.offset()
		}
		if outside == nil && !(events && c == '[') {
			outside = tooLong(s)
		}
	}
	whole.End = w.offset()
	switch {
	case kind == '[':
		return list, outside, nil
	case o.EventsKey == nil && m.looks:
		return whole, nil, nil
	case outside == nil:
		outside = m.without()
	}
	return l, outside, nil
}

// walker goes through the members of the object that a document is.
type walker struct {
	w     *window
	s     *skipper
	o     Options
	begun bool
	looks bool // some key says that the object itself is an event
	key   []byte
}

// next goes to the value of the next member and returns its first byte, and whether its key is the one that holds events. Behind the
// last it returns io.EOF. The value must have been passed before next is called again.
func (m *walker) next() (c byte, events bool, err error) {
	w := m.w
	want := expectKey
	if !m.begun {
		w.pos++
	} else {
		want = expectComma
	}
	if err := m.space(want); err != nil {
		return 0, false, err
	}
	if w.buf[w.pos] == '}' {
		w.pos++
		return 0, false, io.EOF
	}
	if m.begun {
		if w.buf[w.pos] != ',' {
			return 0, false, w.here(expectComma)
		}
		w.pos++
		if err := m.space(expectKey); err != nil {
			return 0, false, err
		}
	}
	m.begun = true
	if w.buf[w.pos] != '"' {
		return 0, false, w.here(expectKey)
	}
	text, err := w.skip(m.s, 1<<16+len(m.eventsKey())*6) // no longer key is of interest
	if err != nil {
		return 0, false, err
	}
	if text != nil {
		m.key = appendDecoded(m.key[:0], text[1:len(text)-1])
		events = string(m.key) == m.eventsKey()
		switch lookup(m.key) {
		case fSchemaVersion, fEventType, fType, fMemoryAllocated, fMemoryMB, fTimestamp, fTimestampNS:
			m.looks = true
		}
	}
	if err := m.space(expectColon); err != nil {
		return 0, false, err
	}
	if w.buf[w.pos] != ':' {
		return 0, false, w.here(expectColon)
	}
	w.pos++
	if err := m.space(expectValue); err != nil {
		return 0, false, err
	}
	return w.buf[w.pos], events, nil
}

func (m *walker) eventsKey() string {
	if m.o.EventsKey != nil {
		return *m.o.EventsKey
	}
	return "events"
}

func (m *walker) space(want string) error {
	if m.w.space() {
		return nil
	}
	if m.w.err != nil {
		return m.w.err
	}
	return m.w.here(want)
}

// without says that there is no list of events.
func (m *walker) without() *DocumentError {
	if m.o.EventsKey != nil {
		return &DocumentError{EventsNotList, "Top-level key '" + *m.o.EventsKey + "' must contain a list of events"}
	}
	return &DocumentError{NoEvents, "JSON payload does not contain telemetry events"}
}
