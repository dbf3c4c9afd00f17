package telemetry

import "bytes"

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
				i += j
				if i+1 == len(b) && !final {
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
