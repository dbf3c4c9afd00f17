package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Table gives the records of a trackers' CSV export, a row a record, in memory bounded by the longest row. Columns are found by the
// names in the first row: the 23 keys of schema version 4 or 3, the 22 of version 2, or those of a legacy record where there is no
// schema_version. Not safe for concurrent use.
//
// CSV says less than JSON, so cells are read by their column: an empty one is null (metadata: an empty object; rank, local_rank and
// world_size, and everything of a legacy record: not there); integers may be written as floats without a fraction and keep all their
// digits; metadata is JSON or a Python literal, see AppendRepr. A row that cannot be taken apart costs itself: reading goes on
// behind its first line.
type Table struct {
	w        buffer
	v        Validator
	o        Options
	most     int
	columns  []column
	legacy   bool
	cells    []cell
	text     []byte
	scratch  []byte
	literals literals
	event    Event
	rec      Record
	index    int
	end      error
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

// maxColumns bounds a header: more columns than that are not telemetry.
const maxColumns = 512

// NewTable reads the header. The error is a *DocumentError if it names no field of a record, or else the reader's.
func NewTable(r io.Reader, o Options) (*Table, error) {
	t := &Table{o: o, most: o.MaxRecordBytes, w: buffer{r: r}}
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
	case f == fUnknown || f == fSessionID || f == fEventType || f == fCollector || f == fHost || f == fJobID || f == fContext || f == fType ||
		f == fDevice || f == fBackend || f == fMessage:
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
		t.w.pos = t.w.end
		if !t.w.more() {
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
			dst, refusal = t.literals.append(dst, trimmed)
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
