package chrometrace

import (
	"bytes"
	"fmt"

	"github.com/warpline/warpline/proto/jsonscan"
)

// verdict is what became of a text that is no JSON.
type verdict uint8

const (
	hopeless verdict = iota
	repaired
	unfinished // it depends on text that is not read yet
)

// repairer writes the object that begins at b[0] again, as the JSON that it was meant to be: control characters and quotes in strings get
// their escapes, escapes that there are none of are text, words that are no value are null. Where a string with a quote inside ends is
// guessed by what stands behind the quote. Nothing is taken for a string that another event begins in.
type repairer struct {
	b     []byte
	final bool // nothing comes behind b
	out   []byte
	short bool // b ended where more was needed
}

// repair appends to out, and returns how many bytes of b the object has.
func repair(out, b []byte, final bool) (_ []byte, n int, v verdict) {
	m := repairer{b: b, final: final, out: out}
	n, ok := m.value(0, MaxDepth, 0)
	switch {
	case m.short && !final:
		return m.out, 0, unfinished
	case !ok:
		return m.out, 0, hopeless
	}
	return m.out, n, repaired
}

// at is the byte at i, 0 behind the end.
func (m *repairer) at(i int) byte {
	if i >= len(m.b) {
		m.short = true
		return 0
	}
	return m.b[i]
}

func (m *repairer) space(i int) int { return jsonscan.Space(m.b, i) }

// value repairs the value at i; in is the bracket that it stands in, 0 for none.
func (m *repairer) value(i, depth int, in byte) (end int, ok bool) {
	switch c := m.at(i); c {
	case '"':
		return m.str(i, in)
	case '{', '[':
		if depth == 0 {
			return i, false
		}
		return m.container(i, depth, c)
	case 0, '}', ']', ',', ':':
		return i, false
	default:
		return m.word(i)
	}
}

func (m *repairer) container(i, depth int, open byte) (end int, ok bool) {
	closing := open + 2
	m.out = append(m.out, open)
	for first := true; ; first = false {
		i = m.space(i + 1)
		if m.at(i) == closing { // also behind a comma
			if !first {
				m.out = m.out[:len(m.out)-1]
			}
			break
		}
		if open == '{' {
			if m.at(i) != '"' {
				return i, false
			}
			if i, ok = m.str(i, ':'); !ok {
				return i, false
			}
			if i = m.space(i); m.at(i) != ':' {
				return i, false
			}
			m.out = append(m.out, ':')
			i = m.space(i + 1)
		}
		if i, ok = m.value(i, depth-1, open); !ok {
			return i, false
		}
		i = m.space(i)
		c := m.at(i)
		if c == closing {
			break
		}
		if c != ',' {
			return i, false
		}
		m.out = append(m.out, ',')
	}
	m.out = append(m.out, closing)
	return i + 1, true
}

// word passes a number or a word.
func (m *repairer) word(i int) (end int, ok bool) {
	end = i
	for end < len(m.b) && bytes.IndexByte([]byte(",:}]{[\" \t\r\n"), m.b[end]) < 0 {
		end++
	}
	m.at(end)
	if n, _, _, ok := jsonscan.Value(m.b[:end], i, &rules); ok && n == end {
		m.out = append(m.out, m.b[i:end]...)
	} else {
		m.out = append(m.out, "null"...)
	}
	return end, true
}

// str repairs the string at i; in is what it stands in, a colon where it is a name.
func (m *repairer) str(i int, in byte) (end int, ok bool) {
	m.out = append(m.out, '"')
	for i++; ; {
		n := jsonscan.Special(m.b, i)
		for k := i; k < n; k++ {
			if m.b[k] != '}' {
				continue
			}
			if _, v := nextEvent(m.b, k, m.final); v != hopeless {
				m.short = m.short || v == unfinished
				return k, false
			}
		}
		m.out = append(m.out, m.b[i:n]...)
		i = n
		switch c := m.at(i); {
		case i >= len(m.b):
			return i, false
		case c == '"' && m.closes(i, in):
			m.out = append(m.out, '"')
			return i + 1, true
		case c == '"':
			m.out = append(m.out, `\"`...)
			i++
		case c == '\\':
			if m.at(i+1) == 'u' {
				m.at(i + 5)
			}
			n := 2
			switch {
			case !isEscape(m.b, i):
				m.out, n = append(m.out, '\\'), 1
			case m.b[i+1] == 'u':
				n = 6
			}
			m.out = append(m.out, m.b[i:i+n]...)
			i += n
		default:
			m.out = fmt.Appendf(m.out, `\u%04x`, c)
			i++
		}
	}
}

// closes guesses whether the quote at i ends its string.
func (m *repairer) closes(i int, in byte) bool {
	i = m.space(i + 1)
	c := m.at(i)
	switch {
	case in == ':':
		return c == ':'
	case c == in+2: // the closing bracket, with what may stand behind one
		i = m.space(i + 1)
		next := m.at(i)
		return next == ',' || next == '}' || next == ']' || i >= len(m.b)
	case c != ',':
		return false
	case in == '{': // behind the comma another name
		if i = m.space(i + 1); m.at(i) == '}' {
			return true
		}
		if m.at(i) != '"' {
			return false
		}
		n := bytes.IndexByte(m.b[i+1:], '"')
		if n < 0 {
			m.short = true
			return false
		}
		return m.at(m.space(i+n+2)) == ':'
	}
	next := m.at(m.space(i + 1))
	return bytes.IndexByte([]byte(`"{[]-tfnNI`), next) >= 0 || next >= '0' && next <= '9'
}
