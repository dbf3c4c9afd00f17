package gpuflight

import (
	"math"

	"github.com/warpline/warpline/proto/jsonscan"
)

// members walks the keys of one JSON object. After next returned true, key is the unescaped key and i stands on the value; the
// caller sets i behind the value before it calls next again. After next returned false, ok tells whether the object ended well,
// and i stands behind it, or where it broke.
type members struct {
	b       []byte
	i       int
	key     []byte
	ok      bool
	started bool
}

// walkObject starts at the object that opens at or, after white space, behind b[i].
func walkObject(b []byte, i int) members {
	return members{b: b, i: i}
}

func (m *members) next() bool {
	m.ok = false
	b := m.b
	i := jsonscan.Space(b, m.i)
	m.i = i
	if i >= len(b) {
		return false
	}
	if m.started {
		switch b[i] {
		case '}':
			m.i, m.ok = i+1, true
			return false
		case ',':
		default:
			return false
		}
		i = jsonscan.Space(b, i+1)
	} else {
		if b[i] != '{' {
			return false
		}
		m.started = true
		i = jsonscan.Space(b, i+1)
		if i < len(b) && b[i] == '}' {
			m.i, m.ok = i+1, true
			return false
		}
	}
	m.i = i
	if i >= len(b) || b[i] != '"' {
		return false
	}
	end, escaped, ok := jsonscan.String(b, i)
	m.i = end
	if !ok {
		return false
	}
	m.key = b[i+1 : end-1]
	if escaped {
		m.key = appendUnquoted(nil, m.key) // no client escapes keys
	}
	i = jsonscan.Space(b, end)
	m.i = i
	if i >= len(b) || b[i] != ':' {
		return false
	}
	m.i = jsonscan.Space(b, i+1)
	return m.i < len(b)
}

// skip passes the value m stands on; false means bad syntax.
func (m *members) skip() bool {
	end, ok := skipValue(m.b, m.i)
	m.i = end
	return ok
}

// text reads the string m stands on and passes it. The result aliases the line when it has neither escapes nor broken UTF-8, else
// it is built in buf. isString is false when the value is of another kind: it is passed then too.
func (m *members) text(buf []byte) (s []byte, isString, ok bool) {
	if m.b[m.i] != '"' {
		return nil, false, m.skip()
	}
	start := m.i
	end, escaped, ok := jsonscan.String(m.b, start)
	m.i = end
	if !ok {
		return nil, true, false
	}
	return cleanText(m.b[start+1:end-1], escaped, buf), true, true
}

// integer reads the integer m stands on and passes it. good is false when it is not one, which is noted in fail.
func (m *members) integer(kind ColumnKind, name string, fail **LineError) (v int64, good, ok bool) {
	start := m.i
	if c := m.b[start]; c != '-' && c-'0' > 9 {
		note(fail, ReasonBadValue, name+" is not an integer")
		return 0, false, m.skip()
	}
	end, integer, ok := jsonscan.Number(m.b, start)
	m.i = end
	if !ok {
		return 0, false, false
	}
	if !integer {
		note(fail, ReasonBadValue, name+" is not an integer")
		return 0, false, true
	}
	v, reason := kind.parse(m.b[start:end])
	if reason != "" {
		note(fail, reason, name)
		return 0, false, true
	}
	return v, true, true
}

// float reads the number m stands on and passes it; a value that is not one, or does not fit, is noted in fail.
func (m *members) float(name string, fail **LineError) (v float64, ok bool) {
	start := m.i
	if c := m.b[start]; c != '-' && c-'0' > 9 {
		note(fail, ReasonBadValue, name+" is not a number")
		return 0, m.skip()
	}
	end, _, ok := jsonscan.Number(m.b, start)
	m.i = end
	if !ok {
		return 0, false
	}
	cell, reason := parseFloat(m.b[start:end])
	if reason != "" {
		note(fail, reason, name)
	}
	return math.Float64frombits(uint64(cell)), true
}
