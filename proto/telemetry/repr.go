package telemetry

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// maxReprDepth is how deep a Python literal may nest.
const maxReprDepth = 100

// AppendRepr appends as JSON what Python's repr wrote of dicts, lists, tuples, strings, numbers, True, False and None: that is how
// the trackers' CSV exports spell metadata. It reports false, and leaves dst as it was, for anything else: nothing is evaluated.
// Nesting is bounded. Safe for concurrent use.
func AppendRepr(dst, text []byte) ([]byte, bool) {
	r := repr{b: bytes.TrimSpace(text), out: dst}
	if !r.value(0) || r.i != len(r.b) {
		return dst, false
	}
	return r.out, true
}

type repr struct {
	b       []byte
	i       int
	out     []byte
	decoded []byte // scratch: a string with escapes
}

func (r *repr) space() {
	for r.i < len(r.b) && (r.b[r.i] == ' ' || r.b[r.i] == '\t' || r.b[r.i] == '\n' || r.b[r.i] == '\r') {
		r.i++
	}
}

// next skips space and takes c.
func (r *repr) next(c byte) bool {
	r.space()
	if r.i < len(r.b) && r.b[r.i] == c {
		r.i++
		return true
	}
	return false
}

func (r *repr) value(depth int) bool {
	r.space()
	if r.i == len(r.b) || depth > maxReprDepth {
		return false
	}
	switch c := r.b[r.i]; c {
	case '{':
		r.i++
		return r.dict(depth + 1)
	case '[':
		r.i++
		return r.list(depth+1, ']')
	case '(':
		r.i++
		return r.list(depth+1, ')')
	case '\'', '"':
		return r.str()
	}
	return r.word()
}

func (r *repr) dict(depth int) bool {
	r.out = append(r.out, '{')
	for first := true; !r.next('}'); first = false {
		if !first {
			if !r.next(',') {
				return false
			}
			if r.next('}') {
				break
			}
			r.out = append(r.out, ',')
		}
		r.space()
		if r.i == len(r.b) {
			return false
		}
		if c := r.b[r.i]; c == '\'' || c == '"' {
			if !r.str() {
				return false
			}
		} else { // JSON has no other keys: json.dumps writes numbers as strings too
			r.out = append(r.out, '"')
			start := len(r.out)
			if !r.word() {
				return false
			}
			if c := r.out[start]; c != '-' && (c < '0' || c > '9') {
				return false
			}
			r.out = append(r.out, '"')
		}
		if !r.next(':') {
			return false
		}
		r.out = append(r.out, ':')
		if !r.value(depth) {
			return false
		}
	}
	r.out = append(r.out, '}')
	return true
}

func (r *repr) list(depth int, end byte) bool {
	r.out = append(r.out, '[')
	for first := true; !r.next(end); first = false {
		if !first {
			if !r.next(',') {
				return false
			}
			if r.next(end) {
				break
			}
			r.out = append(r.out, ',')
		}
		if !r.value(depth) {
			return false
		}
	}
	r.out = append(r.out, ']')
	return true
}

// word is a number or a name.
func (r *repr) word() bool {
	start := r.i
	for r.i < len(r.b) {
		c := r.b[r.i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '-' || c == '.' || c == '_') {
			break
		}
		r.i++
	}
	switch w := r.b[start:r.i]; string(w) {
	case "True":
		r.out = append(r.out, "true"...)
	case "False":
		r.out = append(r.out, "false"...)
	case "None":
		r.out = append(r.out, "null"...)
	case "nan":
		r.out = append(r.out, "NaN"...)
	case "inf":
		r.out = append(r.out, "Infinity"...)
	case "-inf":
		r.out = append(r.out, "-Infinity"...)
	default:
		// Python writes numbers as JSON does, except what repr never writes (1., .5, 0x1, 1_0).
		if len(w) == 0 || w[0] != '-' && (w[0] < '0' || w[0] > '9') {
			return false
		}
		out, refusal := AppendCanonical(r.out, w)
		if refusal != nil {
			return false
		}
		r.out = out
	}
	return true
}

// str is a string literal in either kind of quotes.
func (r *repr) str() bool {
	quote := r.b[r.i]
	r.i++
	r.decoded = r.decoded[:0]
	plain := r.i
	for r.i < len(r.b) {
		c := r.b[r.i]
		switch c {
		case quote:
			text := r.b[plain:r.i]
			if len(r.decoded) > 0 {
				r.decoded = append(r.decoded, text...)
				text = r.decoded
			}
			r.i++
			r.out = AppendString(r.out, text)
			return true
		case '\n':
			return false
		case '\\':
			r.decoded = append(r.decoded, r.b[plain:r.i]...)
			r.i++
			if !r.escape(&r.decoded) {
				return false
			}
			plain = r.i
		default:
			r.i++
		}
	}
	return false
}

// escape takes what follows a backslash.
func (r *repr) escape(dst *[]byte) bool {
	if r.i == len(r.b) {
		return false
	}
	c := r.b[r.i]
	r.i++
	digits := 0
	switch c {
	case '\\', '\'', '"':
		*dst = append(*dst, c)
		return true
	case 'n':
		*dst = append(*dst, '\n')
		return true
	case 'r':
		*dst = append(*dst, '\r')
		return true
	case 't':
		*dst = append(*dst, '\t')
		return true
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return false
	}
	if len(r.b)-r.i < digits {
		return false
	}
	n, err := strconv.ParseUint(string(r.b[r.i:r.i+digits]), 16, 32)
	if err != nil || n > utf8.MaxRune {
		return false
	}
	r.i += digits
	*dst = appendRune(*dst, rune(n)) // a lone surrogate stands in three bytes, see AppendString
	return true
}
