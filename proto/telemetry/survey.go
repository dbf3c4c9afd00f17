package telemetry

import (
	"errors"
	"io"

	"github.com/warpline/warpline/proto/jsonscan"
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
	// Summary is what a tracker's document says of the session that all of its records are of; nil if it says nothing.
	Summary *SessionSummary
	// AlertsStart and AlertsEnd are where an object has a list of alerts beside its events; 0 without.
	AlertsStart, AlertsEnd int64
}

// Survey reads a document to its end and tells where its events are, or with a *DocumentError that it cannot be read as events: what
// the peer's loader says, byte for byte, except that an element which is not a usable record does not count. Memory is bounded. With
// Options.Lines nothing is read. Other errors are those of r.
func Survey(r io.Reader, o Options) (Layout, error) {
	if o.Lines {
		return Layout{Form: Lines}, nil
	}
	w := &buffer{r: r, check: true}
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

func survey(w *buffer, o Options) (l Layout, err error) {
	c, err := open(w)
	if err != nil {
		return l, err
	}
	s := skipper{ahead: true}
	var outside *DocumentError
	switch c {
	case '[':
		l.Form, l.Start = List, w.offset()
		_, err = w.skip(&s, 0)
		l.End = w.offset()
	case '{':
		l, outside, err = surveyObject(w, &s, o)
	default:
		_, err = w.skip(&s, 0)
		if err == nil {
			outside = tooLong(&s)
			if outside == nil {
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
func open(w *buffer) (byte, error) {
	w.more()
	if w.err == nil && jsonscan.Word(w.rest(), 0, "\ufeff") {
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

// finish accepts only space behind the document's value.
func (w *buffer) finish() error {
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
func surveyObject(w *buffer, s *skipper, o Options) (l Layout, outside *DocumentError, err error) {
	whole := Layout{Form: Alone, Start: w.offset()}
	m := walker{w: w, s: s, o: o}
	// Of the last value under each of the two keys that hold events, and of the alerts and the summary.
	var lists [2]Layout
	var alerts Layout
	var kinds [2]byte
	var summary []byte
	summarized := false
	for {
		c, which, err := m.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return l, nil, err
		}
		start, most := w.offset(), 0
		if which == memberSummary {
			most = maxSummary
		}
		text, err := w.skip(s, most)
		if err != nil {
			return l, nil, err
		}
		switch which {
		case memberEvents, memberTracked:
			kinds[which], lists[which] = c, Layout{Form: List, Start: start, End: w.offset()}
		case memberAlerts:
			alerts = Layout{}
			if c == '[' {
				alerts.AlertsStart, alerts.AlertsEnd = start, w.offset()
			}
		case memberSummary:
			summarized = c == '{'
			if summarized {
				summary = append(summary[:0], text...)
			}
		}
		if outside == nil && !((which == memberEvents || which == memberTracked) && c == '[') {
			outside = tooLong(s)
		}
	}
	whole.End = w.offset()
	tracked := o.EventsKey != nil && *o.EventsKey == trackedKey
	switch {
	case kinds[memberEvents] == '[':
		l = lists[memberEvents]
	case kinds[memberTracked] == '[':
		l, tracked = lists[memberTracked], true
	case o.EventsKey == nil && m.looks:
		return whole, nil, nil
	case outside == nil:
		outside = m.without()
	}
	if l.Form == List {
		l.AlertsStart, l.AlertsEnd = alerts.AlertsStart, alerts.AlertsEnd
	}
	if l.Form == List && tracked && summarized && o.Peer != Peer029 {
		var refusal *DocumentError
		l.Summary, refusal = readSummary(summary)
		if outside == nil {
			outside = refusal
		}
	}
	return l, outside, nil
}

// walker goes through the members of the object that a document is.
type walker struct {
	w     *buffer
	s     *skipper
	o     Options
	begun bool
	looks bool // some key says that the object itself is an event
	key   []byte
}

// memberKind is what a member of a document is to its reader.
type memberKind uint8

const (
	memberEvents  memberKind = iota // the key that holds events
	memberTracked                   // the key that does so in documents of newer trackers
	memberSummary
	memberAlerts
	memberOther
)

const (
	trackedKey = "telemetry_events"
	summaryKey = "session_summary"
	alertsKey  = "alerts"
)

// next goes to the value of the next member and returns its first byte, and what its key makes it. Behind the last it returns io.EOF.
// The value must have been passed before next is called again.
func (m *walker) next() (c byte, kind memberKind, err error) {
	kind = memberOther
	w := m.w
	want := expectKey
	if !m.begun {
		w.pos++
	} else {
		want = expectComma
	}
	if err := m.space(want); err != nil {
		return 0, kind, err
	}
	if w.buf[w.pos] == '}' {
		w.pos++
		return 0, kind, io.EOF
	}
	if m.begun {
		if w.buf[w.pos] != ',' {
			return 0, kind, w.here(expectComma)
		}
		w.pos++
		if err := m.space(expectKey); err != nil {
			return 0, kind, err
		}
	}
	m.begun = true
	if w.buf[w.pos] != '"' {
		return 0, kind, w.here(expectKey)
	}
	text, err := w.skip(m.s, 1<<16+len(m.eventsKey())*6) // no longer key is of interest
	if err != nil {
		return 0, kind, err
	}
	if text != nil {
		m.key = appendDecoded(m.key[:0], text[1:len(text)-1])
		switch key := string(m.key); {
		case key == m.eventsKey():
			kind = memberEvents
		case key == summaryKey:
			kind = memberSummary
		case key == alertsKey:
			kind = memberAlerts
		case key == trackedKey && m.o.EventsKey == nil && m.o.Peer != Peer029:
			kind = memberTracked
		}
		switch lookup(m.key) {
		case fSchemaVersion, fEventType, fType, fMemoryAllocated, fMemoryMB, fTimestamp, fTimestampNS:
			m.looks = true
		}
	}
	if err := m.space(expectColon); err != nil {
		return 0, kind, err
	}
	if w.buf[w.pos] != ':' {
		return 0, kind, w.here(expectColon)
	}
	w.pos++
	if err := m.space(expectValue); err != nil {
		return 0, kind, err
	}
	return w.buf[w.pos], kind, nil
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
