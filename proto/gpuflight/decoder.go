package gpuflight

import (
	"strconv"

	"github.com/warpline/warpline/proto/jsonscan"
	"github.com/warpline/warpline/proto/reject"
)

// DefaultMaxLine is the longest line a Decoder takes when its MaxLine is 0. A decoded batch takes at most some ten times the
// memory of its line.
const DefaultMaxLine = 16 << 20

// keepCells is how many decoded cells a Decoder keeps allocated between lines: 8 MiB. A client's usual batch needs 20 thousand.
const keepCells = 1 << 20

// Decoder decodes lines one after the other and reuses its memory. The zero value is ready. It is not safe for concurrent use.
type Decoder struct {
	// MaxLine is the longest line in bytes that is decoded; 0 means DefaultMaxLine.
	MaxLine int

	line    Line
	batch   Batch
	plans   [numBatchTypes]plan
	scratch [128]byte // a session id that cannot alias the line
	nameBuf [64]byte
}

// Decode decodes one line, with or without its line end. Errors are *LineError with a Reason constant: bad_json, missing_field,
// missing_column, bad_value, out_of_range or line_too_long.
//
// The returned Line is never nil. When there is an error it has no Batch, and Type, TypeName and SessionID hold what could be read
// before it. An unknown type and a missing session are not errors here: look at Type and SessionID. Of lines that are not a
// batch the whole JSON is checked, but only the envelope is read: see DecodeDictionary, DecodeJobStart, DecodeShutdown, DecodeDetail
// and EventDecoder.
func (d *Decoder) Decode(line []byte) (*Line, error) {
	d.line = Line{Raw: line}
	limit := d.MaxLine
	if limit == 0 {
		limit = DefaultMaxLine
	}
	if len(line) > limit {
		return &d.line, &LineError{Reason: reject.LineTooLong}
	}
	if len(d.batch.vals) > keepCells {
		d.batch.vals = nil
	}
	if cap(d.batch.BadRows) > 4*maxBadRows {
		d.batch.BadRows = nil
	}
	if err := d.decode(line); err != nil {
		d.line.Batch = nil
		return &d.line, err
	}
	return &d.line, nil
}

// seen tells which envelope keys a line had; of repeated keys the first counts.
type seen uint8

const (
	seenType seen = 1 << iota
	seenSession
	seenBatchID
	seenBaseTime
	seenColumns
	seenRows
)

// first marks the key and reports whether it was new.
func (s *seen) first(key seen) bool {
	was := *s&key != 0
	*s |= key
	return !was
}

func (d *Decoder) decode(b []byte) error {
	l := &d.line
	var have seen
	// The first fault that is not syntax (syntax comes first), and the first that matters only in a batch.
	var fail, batchFail *LineError
	columnsAt, rowsAt := -1, -1 // lists that stood before the type, or rows before columns
	var p *plan
	others := 0 // keys that no batch has

	m := walkObject(b, 0)
	for m.next() {
		ok := false
		switch string(m.key) {
		case "type":
			if !have.first(seenType) {
				ok = m.skip()
				break
			}
			var isString bool
			l.TypeName, isString, ok = m.text(d.nameBuf[:0])
			if !isString {
				note(&fail, ReasonBadValue, "type is not a string")
			}
			l.Type = TypeOf(l.TypeName)
		case "session_id":
			if !have.first(seenSession) {
				ok = m.skip()
				break
			}
			var isString bool
			l.SessionID, isString, ok = m.text(d.scratch[:0])
			if !isString {
				note(&fail, ReasonBadValue, "session_id is not a string")
			}
		case "batch_id":
			if !have.first(seenBatchID) {
				ok = m.skip()
				break
			}
			var v int64
			v, l.HasBatchID, ok = m.integer(KindU64, "batch_id", &batchFail)
			l.BatchID = uint64(v)
		case "base_time_ns":
			if !have.first(seenBaseTime) {
				ok = m.skip()
				break
			}
			l.BaseTimeNS, _, ok = m.integer(KindI64, "base_time_ns", &batchFail)
		case "columns":
			switch {
			case !have.first(seenColumns):
				ok = m.skip()
			case !l.Type.IsBatch():
				columnsAt = m.i
				ok = m.skip()
			default:
				p, ok = d.columns(&m, &batchFail)
			}
		case "rows":
			switch {
			case !have.first(seenRows):
				ok = m.skip()
			case p == nil || b[m.i] != '[':
				rowsAt = m.i
				ok = m.skip()
			default:
				d.resetBatch(p)
				m.i, ok = p.readRows(&d.batch, b, m.i)
			}
		case "version", "hostname", "ip_addr":
			ok = m.skip()
		default:
			others++
			ok = m.skip()
		}
		if !ok {
			return badJSON(b, m.i)
		}
	}
	if !m.ok || jsonscan.Space(b, m.i) != len(b) {
		return badJSON(b, m.i)
	}

	if have&seenType == 0 {
		note(&fail, ReasonMissingField, "type")
	}
	if !l.Type.IsBatch() {
		// What other types put under the keys of a batch does not matter here.
		l.BatchID, l.HasBatchID, l.BaseTimeNS = 0, false, 0
		return orNil(fail)
	}
	switch {
	case fail != nil || batchFail != nil:
	case have&seenBaseTime == 0:
		note(&batchFail, ReasonMissingField, "base_time_ns")
	case have&seenColumns == 0:
		note(&batchFail, ReasonMissingField, "columns")
	case have&seenRows == 0:
		note(&batchFail, ReasonMissingField, "rows")
	case rowsAt >= 0 && b[rowsAt] != '[':
		note(&batchFail, ReasonBadValue, "rows is not an array")
	case p == nil:
		m.i = columnsAt
		p, _ = d.columns(&m, &batchFail)
	}
	if fail == nil {
		fail = batchFail
	}
	if fail == nil && rowsAt >= 0 {
		d.resetBatch(p)
		if end, ok := p.readRows(&d.batch, b, rowsAt); !ok {
			return badJSON(b, end)
		}
	}
	d.batch.baseTimeNS, d.batch.UnknownKeys = l.BaseTimeNS, others
	l.Batch = &d.batch
	return orNil(fail)
}

// note keeps the first fault.
func note(fail **LineError, reason, detail string) {
	if *fail == nil {
		*fail = &LineError{reason, detail}
	}
}

// orNil keeps a nil *LineError from becoming a non-nil error.
func orNil(e *LineError) error {
	if e == nil {
		return nil
	}
	return e
}

// columns makes sure there is a plan for the column list m stands on, and passes the list. The plan is nil when the list cannot be used.
func (d *Decoder) columns(m *members, fail **LineError) (p *plan, ok bool) {
	p = &d.plans[d.line.Type]
	if p.matches(m.b, m.i) {
		m.i += len(p.raw)
		return p, true
	}
	end, ok, lineErr := p.build(d.line.Type, m.b, m.i)
	m.i = end
	if !ok || lineErr != nil {
		if *fail == nil && ok {
			*fail = lineErr
		}
		return nil, ok
	}
	return p, true
}

func (d *Decoder) resetBatch(p *plan) {
	b := &d.batch
	*b = Batch{
		Type: p.batchType, UnknownColumns: p.unknown, BadRows: b.BadRows[:0],
		timeCol: p.timeCol, vals: b.vals, stride: p.stride,
	}
}

// badJSON says where the syntax breaks.
func badJSON(b []byte, i int) error {
	switch {
	case len(b) == jsonscan.Space(b, 0):
		return &LineError{ReasonBadJSON, "empty line"}
	case b[jsonscan.Space(b, 0)] != '{':
		return &LineError{ReasonBadJSON, "line is not a JSON object"}
	case i >= len(b):
		return &LineError{ReasonBadJSON, "line ends in the middle"}
	}
	return &LineError{ReasonBadJSON, "syntax near byte " + strconv.Itoa(i)}
}
