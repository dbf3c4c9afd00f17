package telemetry

import (
	"fmt"
	"io"
)

// Record is one record of a document, accepted or refused.
type Record struct {
	// Index is its place in the document, from 0. Empty lines do not count.
	Index int
	// Event is nil if the record was refused.
	Event *Event
	// Refusal is nil if the record was accepted.
	Refusal *Refusal
	// Raw is its text; nil if that was longer than Options.MaxRecordBytes.
	Raw []byte
	// Head is how a record without Raw begins, at most HeadBytes of it; Size is how long it is, or for others the length of Raw.
	Head []byte
	Size int64
}

// HeadBytes is how much is kept of a record that is too long to be read.
const HeadBytes = 64 << 10

// Reader gives the records of a document one by one, as Decoder.Next does. Decoder, Table and Track are Readers.
type Reader interface {
	Next() (*Record, error)
}

// Decoder gives the records of a document one by one, in memory bounded by the longest record. Not safe for concurrent use.
type Decoder struct {
	w      buffer
	v      Validator
	o      Options
	most   int
	state  decoderState
	first  bool // of a list
	only   bool // the list or record is all there is to read
	walk   *walker
	end    error
	event  Event
	rec    Record
	index  int
	listed bool // a list of events was opened inside an object

	summary *SessionSummary
}

type decoderState uint8

const (
	atStart decoderState = iota
	inList
	inLines
	inRecord
	inObject
	ended
)

// NewDecoder reads a document in one pass. The peer's loader sees all of a document before it takes anything from it; here records
// before a broken place have been given out when the *DocumentError comes. Only of an object longer than a record is more lost: of a
// list of events that it holds twice the first is given out, and then there is an error. Use Survey and Layout.Decoder where the
// document can be read twice.
func NewDecoder(r io.Reader, o Options) *Decoder {
	d := newDecoder(r, o)
	d.w.check = !o.Lines
	if o.Lines {
		d.state = inLines
	}
	return d
}

// Decoder gives the records of a document that was surveyed with the same options.
func (l Layout) Decoder(r io.ReaderAt, o Options) *Decoder {
	d := newDecoder(io.NewSectionReader(r, l.Start, l.End-l.Start), o)
	d.w.base = l.Start
	d.only = true
	d.summary = l.Summary
	switch l.Form {
	case Lines:
		d.w.r = io.NewSectionReader(r, 0, 1<<63-1)
		d.state = inLines
	case Alone:
		d.state = inRecord
	case List:
		d.openList()
	default:
		d.state, d.end = ended, io.EOF
	}
	return d
}

func newDecoder(r io.Reader, o Options) *Decoder {
	d := &Decoder{o: o, most: o.MaxRecordBytes, w: buffer{r: r}}
	if d.most <= 0 {
		d.most = DefaultMaxRecordBytes
	}
	return d
}

// Next returns the next record. It and what it refers to hold until the next call. Behind the last the error is io.EOF; a
// *DocumentError says that the rest of the document cannot be read as events; any other error is the reader's.
func (d *Decoder) Next() (*Record, error) {
	for d.end == nil {
		r, err := d.step()
		if r != nil {
			return r, nil
		}
		if de, ok := err.(*DocumentError); ok && d.w.encoding.bad != "" && de.Code == BadJSON {
			err = &DocumentError{BadUTF8, d.w.encoding.bad}
		}
		d.end = err
	}
	return nil, d.end
}

// step does what the state asks for. It returns neither record nor error if the state has changed and there is more to do.
func (d *Decoder) step() (*Record, error) {
	switch d.state {
	case atStart:
		return nil, d.start()
	case inList:
		return d.element()
	case inLines:
		return d.line()
	case inObject:
		return d.member()
	case inRecord:
		if !d.w.space() {
			return nil, d.failed(expectValue)
		}
		d.state = ended
		return d.record()
	}
	if !d.only {
		if err := d.w.finish(); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

func (d *Decoder) start() error {
	w := &d.w
	c, err := open(w)
	if err != nil {
		return err
	}
	switch c {
	case '[':
		d.openList()
		return nil
	case '{':
	default:
		if _, err := w.skip(&d.v.skip, 0); err != nil {
			return err
		}
		if err := w.finish(); err != nil {
			return err
		}
		return &DocumentError{NotContainer, "Telemetry payload must be a JSON object or array"}
	}
	for !w.eof && len(w.rest()) <= d.most && w.more() {
	}
	if w.err != nil {
		return w.err
	}
	if !w.eof {
		d.walk = &walker{w: w, s: &d.v.skip, o: d.o}
		d.state = inObject
		return nil
	}
	// All of it is in memory: decide as the peer does.
	all := *w
	l, err := survey(&all, d.o)
	if err != nil {
		return err
	}
	d.only = true
	d.summary = l.Summary
	if l.Form == Alone {
		d.state = inRecord
		return nil
	}
	w.pos = int(l.Start - w.base)
	d.openList()
	return nil
}

func (d *Decoder) openList() { d.state, d.first = inList, true }

// element gives the next element of a list.
func (d *Decoder) element() (*Record, error) {
	w := &d.w
	if !w.space() {
		return nil, d.failed(expectComma)
	}
	if d.first {
		w.pos++ // the bracket
		d.first = false
		if !w.space() {
			return nil, d.failed(expectValue)
		}
		if w.buf[w.pos] == ']' {
			return nil, d.closeList()
		}
		return d.record()
	}
	switch w.buf[w.pos] {
	case ']':
		return nil, d.closeList()
	case ',':
	default:
		return nil, w.here(expectComma)
	}
	w.pos++
	if !w.space() {
		return nil, d.failed(expectValue)
	}
	return d.record()
}

func (d *Decoder) closeList() error {
	d.w.pos++
	d.state = ended
	if d.walk != nil {
		d.state = inObject
	}
	return nil
}

func (d *Decoder) failed(what string) error {
	if d.w.err != nil {
		return d.w.err
	}
	return d.w.here(what)
}

// member goes on in an object that does not fit in memory, until a list of events opens.
func (d *Decoder) member() (*Record, error) {
	listed := d.listed
	c, which, err := d.walk.next()
	events := which == memberEvents || which == memberTracked && c == '['
	switch {
	case err == io.EOF && listed:
		d.state = ended
		return nil, nil
	case err == io.EOF && d.o.EventsKey == nil && d.walk.looks:
		d.state = ended
		return d.refused(nil, &Refusal{Code: RecordTooLarge, Message: d.tooLarge()}), nil
	case err == io.EOF:
		if err := d.w.finish(); err != nil {
			return nil, err
		}
		return nil, d.walk.without()
	case err != nil:
		return nil, err
	case events && listed:
		return nil, &DocumentError{EventsKeyRepeated, "the key '" + string(d.walk.key) + "' stands more than once; send it once, or as an array"}
	case events && c == '[':
		d.listed = true
		d.openList()
		return nil, nil
	}
	if _, err := d.w.skip(&d.v.skip, 0); err != nil {
		return nil, err
	}
	if err := tooLong(&d.v.skip); err != nil {
		return nil, err
	}
	return nil, nil
}

// record gives the value at pos.
func (d *Decoder) record() (*Record, error) {
	w := &d.w
	at, c := w.offset(), w.buf[w.pos]
	w.head, w.headAt = w.head[:0], at
	b := w.rest()
	n, ok := d.v.record.parse(b, &d.v.key)
	if ok && n <= d.most {
		w.pos += n
		return d.judge(b[:n], at), nil
	}
	s := &d.v.skip
	text, err := w.skip(s, d.most)
	if err != nil {
		return nil, err
	}
	switch {
	case c != '{':
		return d.refused(text, d.notObject()), nil
	case text == nil:
		return d.refused(nil, &Refusal{Code: RecordTooLarge, Message: d.tooLarge()}), nil
	}
	if n, ok := d.v.record.parse(text, &d.v.key); ok && n == len(text) {
		return d.judge(text, at), nil
	}
	if r := badText(text, at); r != nil {
		return d.refused(text, r), nil
	}
	if s.longest > 0 {
		return d.refused(text, &Refusal{Code: IntegerTooLong, Message: tooManyDigits(s.longest)}), nil
	}
	return d.refused(text, &Refusal{Code: TooDeep, Message: tooDeep}), nil
}

// judge gives the record that was parsed, whose text stands at at.
func (d *Decoder) judge(text []byte, at int64) *Record {
	if r := badText(text, at); r != nil {
		return d.refused(text, r)
	}
	return d.take(text)
}

// take gives the record that was parsed and is UTF-8.
func (d *Decoder) take(text []byte) *Record {
	if d.summary != nil && !d.v.isOf(d.summary) {
		return d.refused(text, &Refusal{Code: OtherSession, Field: names[fSessionID],
			Message: "Tracker session summary does not match telemetry event identity"})
	}
	if r := d.v.event(&d.event, &d.o); r != nil {
		return d.refused(text, r)
	}
	d.rec = Record{Index: d.index, Event: &d.event, Raw: text, Size: int64(len(text))}
	d.index++
	return &d.rec
}

func badText(text []byte, at int64) *Refusal {
	if bad := firstBad(text); bad < len(text) {
		return &Refusal{Code: BadUTF8, Message: badUTF8(text[bad:], at+int64(bad), false)}
	}
	return nil
}

func (d *Decoder) refused(text []byte, r *Refusal) *Record {
	d.rec = Record{Index: d.index, Refusal: r, Raw: text, Size: int64(len(text))}
	if text == nil {
		d.rec.Head, d.rec.Size = d.w.head, d.w.offset()-d.w.headAt
	}
	d.index++
	return &d.rec
}

func (d *Decoder) notObject() *Refusal {
	return &Refusal{Code: EventNotObject, Message: fmt.Sprintf("Event at index %d must be an object", d.index)}
}

func (d *Decoder) tooLarge() string { return fmt.Sprintf("record is longer than %d bytes", d.most) }
