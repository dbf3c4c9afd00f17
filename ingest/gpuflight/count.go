package gpuflight

import (
	"bytes"

	"github.com/warpline/warpline/proto/gpuflight"
)

// countLines returns the events and the number of lines of a part; an unterminated last line counts.
func countLines(body []byte) (events uint64, lines int64) {
	for {
		n, blank := gpuflight.BlankLines(body)
		lines += blank
		body = body[n:]
		if len(body) == 0 {
			break
		}
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		events += uint64(gpuflight.CountEvents(line))
		lines++
	}
	return events, lines
}

// rowCounter is gpuflight.CountEvents for a line that is never in memory as a whole. It agrees with it about lines of the
// client's form and about all well-formed JSON whose type stands in the first stream.PartBytes; about broken giant lines they may differ.
type rowCounter struct {
	batch bool

	// Plain form: brackets after the first `"rows":`, counted for a line that is torn.
	matched  int // bytes of rowsKey seen
	brackets int
	first    [2]byte // first two bytes after the key that are not white space
	firsts   int

	// General form: elements of the top-level "rows".
	depth      int
	inString   bool
	escaped    bool
	key        [5]byte
	keyLen     int
	afterKey   bool // the last string at depth 1 was "rows"
	inRows     bool
	rowsDone   bool
	elements   int
	anyElement bool
}

const rowsKey = `"rows":`

// reset starts a line; head is its beginning, which feed will see again.
func (r *rowCounter) reset(head []byte) {
	*r = rowCounter{}
	t, _ := gpuflight.Peek(head)
	r.batch = t.IsBatch()
}

func (r *rowCounter) feed(read []byte) {
	if !r.batch {
		return
	}
	for _, b := range read {
		r.plain(b)
		r.walk(b)
	}
}

func (r *rowCounter) plain(b byte) {
	if r.matched == len(rowsKey) {
		switch b {
		case '[':
			r.brackets++
		}
		if r.firsts < 2 && b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			r.first[r.firsts] = b
			r.firsts++
		}
		return
	}
	switch {
	case b == rowsKey[r.matched]:
		r.matched++
	case b == '"':
		r.matched = 1
	default:
		r.matched = 0
	}
}

func (r *rowCounter) walk(b byte) {
	if r.rowsDone {
		return
	}
	if r.inString {
		switch {
		case r.escaped:
			r.escaped = false
		case b == '\\':
			r.escaped = true
		case b == '"':
			r.inString = false
			r.afterKey = r.depth == 1 && r.keyLen == 4 && string(r.key[:4]) == "rows"
			return
		}
		if r.keyLen < len(r.key) {
			r.key[r.keyLen] = b
			r.keyLen++
		}
		return
	}
	switch b {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		r.inString, r.keyLen = true, 0
		r.anyElement = r.anyElement || r.inRows
		return
	case ':':
		return
	case '[', '{':
		if b == '[' && r.depth == 1 && r.afterKey {
			r.inRows = true
		} else if r.inRows {
			r.anyElement = true
		}
		r.depth++
	case ']', '}':
		r.depth--
		if r.inRows && r.depth == 1 {
			r.rowsDone = true
			if r.anyElement {
				r.elements++
			}
		}
	case ',':
		if r.inRows && r.depth == 2 {
			r.elements++
		}
	default:
		r.anyElement = r.anyElement || r.inRows
	}
	r.afterKey = false
}

// events returns the count of the line as fed so far.
func (r *rowCounter) events() uint64 {
	switch {
	case !r.batch:
		return 1
	case r.rowsDone:
		return uint64(r.elements)
	case r.matched < len(rowsKey):
		return 1
	case r.brackets > 1:
		return uint64(r.brackets - 1)
	case r.firsts == 2 && string(r.first[:]) == "[]":
		return 0
	}
	return 1
}
