package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Table gives the records of a trackers' CSV export, a row a record, in memory bounded by the longest row. Columns are found by the
// names in the first row: the 22 keys of schema version 2, or those of a legacy record where there is no schema_version. Not safe for
// concurrent use.
//
// CSV says less than JSON, so cells are read by their column: an empty one is null (metadata: an empty object; rank, local_rank and
// world_size, and everything of a legacy record: not there); integers may be written as floats of no fraction and keep all their
// digits; metadata is JSON or a Python literal, see AppendRepr. A row that cannot be taken apart costs itself: reading goes on
// behind its first line.
type Table struct {
	w       window
	v       Validator
	o       Options
	most    int
	columns []column
	legacy  bool
	cells   []cell
	text    []byte
	scratch []byte
	event   Event
	rec     Record
	index   int
	end     error
}

// column is what a cell of it becomes.
type column struct {
	key  string
	f    field
	kind columnKind
}

type columnKind uint8

const (
	textColumn columnKind = iota
	integerColumn
	numberColumn
	objectColumn // metadata
	anyColumn    // metadata_<k> of legacy records
	skipColumn   // without a name: some writers number the rows
)

// cell is where a cell's text stands in its row; quoted ones without the quotes around them.
type cell struct {
	start, end int
	doubled    bool // quotes inside are written twice
}

// maxColumns bounds a header: more columns than that are no telemetry.
const maxColumns = 512

// NewTable reads the header. The error is a *DocumentError if it names no field of a record, or else the reader's.
func NewTable(r io.Reader, o Options) (*Table, error) {
	t := &Table{o: o, most: o.MaxRecordBytes, w: window{r: r}}
	if t.most <= 0 {
		t.most = DefaultMaxRecordBytes
	}
	row, n, status := t.row()
	if t.w.err != nil {
		return nil, t.w.err
	}
	row = bytes.TrimPrefix(row, []byte("\ufeff"))
	known := 0
	if status == rowWhole && row != nil && len(t.cells) <= maxColumns && firstBad(row) == len(row) {
		t.split(row, true) // again: a byte order mark has moved the cells
		t.legacy = true
		for _, c := range t.cells {
			col := columnOf(strings.TrimSpace(string(t.value(row, c))))
			if col.f != fUnknown {
				known++
			}
			t.legacy = t.legacy && col.f != fSchemaVersion
			t.columns = append(t.columns, col)
		}
	}
	if known == 0 {
		return nil, &DocumentError{NoEvents, "CSV header names no telemetry field"}
	}
	t.w.pos += n
	return t, nil
}

func columnOf(key string) column {
	c := column{key: key, f: lookup([]byte(key))}
	switch f := c.f; {
	case key == "":
		c.kind = skipColumn
	case f == fMetadata:
		c.kind = objectColumn
	case f == fTimestamp || f == fMemoryMB:
		c.kind = numberColumn
	case f == fUnknown && strings.HasPrefix(key, "metadata_"):
		c.kind = anyColumn
	case f == fUnknown || f == fEventType || f == fCollector || f == fHost || f == fJobID || f == fContext || f == fType || f == fDevice || f == fBackend || f == fMessage:
	default:
		c.kind = integerColumn
	}
	return c
}

// Next returns the next record; see Decoder.Next. Empty lines do not count.
func (t *Table) Next() (*Record, error) {
	for t.end == nil {
		at := t.w.offset()
		row, n, status := t.row()
		if t.w.err != nil {
			t.end = t.w.err
			break
		}
		switch status {
		case rowNone:
			t.end = io.EOF
		case rowLong, rowEndless:
			t.w.keepHead(row)
			t.w.headAt = at
			t.w.pos += n
			if status == rowEndless {
				t.toLineEnd()
			}
			if t.w.err != nil {
				t.end = t.w.err
				break
			}
			return t.refused(nil, &Refusal{Code: RecordTooLarge, Message: fmt.Sprintf("record is longer than %d bytes", t.most)}), nil
		case rowBroken:
			t.w.pos += n
			return t.refused(row, &Refusal{Code: MalformedRow, Message: "a quoted cell does not end where it should"}), nil
		case rowWhole:
			t.w.pos += n
			if len(bytes.TrimSpace(row)) == 0 {
				continue
			}
			return t.record(row, at), nil
		}
	}
	return nil, t.end
}

// toLineEnd passes what is left of a line.
func (t *Table) toLineEnd() {
	for {
		if i := bytes.IndexByte(t.w.rest(), '\n'); i >= 0 {
			t.w.pos += i + 1
			return
		}
		if t.w.pos = t.w.end; !t.w.more() {
			return
		}
	}
}

func (t *Table) refused(row []byte, r *Refusal) *Record {
	t.rec = Record{Index: t.index, Refusal: r, Raw: row, Size: int64(len(row))}
	if row == nil {
		t.rec.Head, t.rec.Size = t.w.head, t.w.offset()-t.w.headAt
	}
	t.index++
	return &t.rec
}

// record makes JSON of a row and reads that.
func (t *Table) record(row []byte, at int64) *Record {
	if r := badText(row, at); r != nil {
		return t.refused(row, r)
	}
	if len(t.cells) > len(t.columns) {
		return t.refused(row, &Refusal{Code: MalformedRow, Message: fmt.Sprintf("%d cells under %d columns", len(t.cells), len(t.columns))})
	}
	dst := append(t.text[:0], '{')
	for i, c := range t.cells {
		col := &t.columns[i]
		if col.kind == skipColumn {
			continue
		}
		text := t.value(row, c)
		trimmed := bytes.TrimSpace(text)
		empty := len(trimmed) == 0 && (col.kind != textColumn || len(text) == 0)
		if empty && (t.legacy || 1<<col.f&(identity&^(1<<fJobID)) != 0) {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, col.key), ':')
		var refusal *Refusal
		switch {
		case empty && col.kind == objectColumn:
			dst = append(dst, "{}"...)
		case empty:
			dst = append(dst, "null"...)
		case col.kind == integerColumn:
			dst = appendInteger(dst, trimmed)
		case col.kind == numberColumn:
			dst = appendFloat(dst, trimmed)
		case col.kind == textColumn:
			dst = AppendString(dst, text)
		default:
			dst, refusal = appendLiteral(dst, trimmed)
		}
		if refusal != nil {
			t.text = dst
			refusal.Field = col.key
			return t.refused(row, refusal)
		}
	}
	dst = append(dst, '}')
	t.text = dst
	if len(dst) > t.most {
		return t.refused(row, &Refusal{Code: RecordTooLarge, Message: fmt.Sprintf("record is longer than %d bytes", t.most)})
	}
	if r := t.v.Event(&t.event, dst, &t.o); r != nil {
		return t.refused(row, r)
	}
	t.rec = Record{Index: t.index, Event: &t.event, Raw: row, Size: int64(len(row))}
	t.index++
	return &t.rec
}

// appendInteger appends what text says in JSON: an integer also where it was written as a float, else something that is none.
func appendInteger(dst, text []byte) []byte {
	digits := bytes.TrimPrefix(text, []byte("+"))
	if whole, zeros, point := bytes.Cut(digits, []byte(".")); point && len(bytes.Trim(zeros, "0")) == 0 {
		digits = whole // all of them, where a float would lose some
	}
	if isDecimal(digits) {
		return append(dst, digits...)
	}
	f, ok := parseFloat(text)
	if !ok || math.IsInf(f, 0) || f != math.Trunc(f) {
		return appendFloat(dst, text)
	}
	return strconv.AppendFloat(dst, f, 'f', 0, 64)
}

// isDecimal reports whether b is an integer as JSON writes it.
func isDecimal(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	if len(b) == 0 || len(b) > 1 && b[0] == '0' {
		return false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// parseFloat reads a decimal number and nothing else that Go would take for one.
func parseFloat(text []byte) (float64, bool) {
	if len(text) == 0 || len(text) > MaxDigits || len(bytes.Trim(text, "0123456789+-.eE")) > 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// appendFloat appends a number if text is one, else text as a string, for the rules to refuse.
func appendFloat(dst, text []byte) []byte {
	f, ok := parseFloat(text)
	switch {
	case !ok && len(text) == 3 && strings.EqualFold(string(text), "nan"):
		return append(dst, "NaN"...)
	case !ok:
		return AppendString(dst, text)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendLiteral appends JSON or a Python literal as JSON, and any other text as a string.
func appendLiteral(dst, text []byte) ([]byte, *Refusal) {
	out, refusal := AppendCanonical(dst, text)
	if refusal == nil {
		return out, nil
	}
	if refusal.Code == TooDeep || refusal.Code == IntegerTooLong {
		return dst, &Refusal{Code: refusal.Code, Message: refusal.Message}
	}
	if out, ok := AppendRepr(dst, text); ok {
		return out, nil
	}
	return AppendString(dst, text), nil
}

type rowStatus uint8

const (
	rowNone    rowStatus = iota // nothing is left
	rowWhole                    // cells holds where its cells are
	rowBroken                   // its first line; quotes make no sense
	rowLong                     // longer than a record may be
	rowEndless                  // likewise, and its end is not in sight
)

// row finds the next row and returns it without its line end, and its length with it. It does not move on.
func (t *Table) row() (row []byte, n int, status rowStatus) {
	w := &t.w
	for {
		b := w.rest()
		final := w.eof || w.err != nil
		used, how := t.split(b, final)
		switch how {
		case splitWhole:
			if used > t.most {
				return b, used, rowLong
			}
			return bytes.TrimSuffix(bytes.TrimSuffix(b[:used], newline), []byte("\r")), used, rowWhole
		case splitNone:
			if final {
				return nil, 0, rowNone
			}
		case splitBroken:
			return t.firstLine(b)
		case splitOpen:
			if final || len(b) > t.most {
				return t.firstLine(b)
			}
		case splitMore:
			if len(b) > t.most {
				return b, len(b), rowEndless
			}
		}
		if !w.more() && w.err != nil {
			return nil, 0, rowNone
		}
	}
}

// firstLine is what a row costs that cannot be taken apart.
func (t *Table) firstLine(b []byte) (row []byte, n int, status rowStatus) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0 && len(b) > t.most:
		return b, len(b), rowEndless
	case i < 0:
		return b, len(b), rowBroken
	case i > t.most:
		return b, i + 1, rowLong
	}
	return bytes.TrimSuffix(b[:i], []byte("\r")), i + 1, rowBroken
}

type splitResult uint8

const (
	splitNone   splitResult = iota // no bytes
	splitWhole                     // a row
	splitMore                      // the row does not end here
	splitOpen                      // nor does a quoted cell
	splitBroken                    // something follows a quoted cell
)

// split finds the cells of the row that b begins with; final says that nothing follows b. used counts the row's bytes, line end
// included.
func (t *Table) split(b []byte, final bool) (used int, how splitResult) {
	t.cells = t.cells[:0]
	if len(b) == 0 {
		return 0, splitNone
	}
	for i := 0; ; {
		c := cell{start: i}
		if i < len(b) && b[i] == '"' {
			c.start++
			for i++; ; i++ {
				j := bytes.IndexByte(b[i:], '"')
				if j < 0 {
					return 0, splitOpen
				}
				if i += j; i+1 == len(b) && !final {
					return 0, splitOpen
				}
				if i+1 == len(b) || b[i+1] != '"' {
					break
				}
				c.doubled = true
				i++
			}
			c.end = i
			i++
			if i < len(b) && b[i] == '\r' && (i+1 == len(b) || b[i+1] == '\n') {
				i++
			}
			if i < len(b) && b[i] != ',' && b[i] != '\n' {
				return 0, splitBroken
			}
		} else {
			for i < len(b) && b[i] != ',' && b[i] != '\n' {
				i++
			}
			c.end = i
			if c.end > c.start && b[c.end-1] == '\r' && (i == len(b) || b[i] == '\n') {
				c.end--
			}
		}
		if i == len(b) && !final {
			return 0, splitMore
		}
		if len(t.cells) <= maxColumns { // one too many is enough to know
			t.cells = append(t.cells, c)
		}
		switch {
		case i == len(b):
			return i, splitWhole
		case b[i] == '\n':
			return i + 1, splitWhole
		}
		i++
	}
}

// value is a cell's text; it holds until the next call.
func (t *Table) value(row []byte, c cell) []byte {
	text := row[c.start:c.end]
	if !c.doubled {
		return text
	}
	t.scratch = t.scratch[:0]
	for i := 0; i < len(text); i++ {
		t.scratch = append(t.scratch, text[i])
		if text[i] == '"' {
			i++
		}
	}
	return t.scratch
}
