package telemetry

import (
	"encoding/binary"
	"math/bits"
)

const (
	// MaxDepth is how deep a record may nest, itself included. The peer's parser gives up a little below 1000, with the whole file.
	MaxDepth = 900
	// MaxDigits is how many digits an integer may have; the peer's parser has the same limit.
	MaxDigits = 4300
)

// kind is what a token is. Python's json takes NaN, Infinity and -Infinity for floats, and so do we.
type kind uint8

const (
	kAbsent kind = iota
	kNull
	kBool
	kInt
	kFloat
	kString
	kObject
	kArray
)

// token is a value inside a record: record[start:end], quotes and brackets included.
type token struct {
	start, end int32
	kind       kind
	escaped    bool // a string with a backslash
}

// Eight bytes at a time: every byte of lows is 0x01, of highs 0x80.
const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// indexSpecial returns the first place at or behind i with a quote, a backslash or a control character; len(b) if there is none.
func indexSpecial(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		q := w ^ 0x22*lows
		s := w ^ 0x5c*lows
		// The lowest flag of each term is true; only flags above a true one can be false, and the lowest is taken.
		if m := ((q-lows)&^q | (s-lows)&^s | (w-0x20*lows)&^w) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

// scanString passes the string that opens at b[i].
func scanString(b []byte, i int) (end int, escaped, ok bool) {
	for i++; ; {
		i = indexSpecial(b, i)
		if i >= len(b) || b[i] < 0x20 {
			return i, escaped, false
		}
		if b[i] == '"' {
			return i + 1, escaped, true
		}
		escaped = true
		if i+1 >= len(b) {
			return i, escaped, false
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(b) || hex4(b[i+2:]) < 0 {
				return i, escaped, false
			}
			i += 6
		default:
			return i, escaped, false
		}
	}
}

func hex4(b []byte) (r rune) {
	if len(b) < 4 {
		return -1
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func digit(b []byte, i int) bool { return i < len(b) && b[i] >= '0' && b[i] <= '9' }

func skipDigits(b []byte, i int) int {
	for digit(b, i) {
		i++
	}
	return i
}

// scanNumber passes the number at b[i]. What cannot belong to it is left: of 1.x it takes 1.
func scanNumber(b []byte, i int) (end int, k kind, ok bool) {
	if b[i] == '-' {
		i++
		if hasPrefix(b, i, "Infinity") {
			return i + 8, kFloat, true
		}
	}
	first := i
	if !digit(b, i) {
		return i, kAbsent, false
	}
	if b[i] == '0' {
		i++
	} else {
		i = skipDigits(b, i)
	}
	digits := i - first
	k = kInt
	if i < len(b) && b[i] == '.' && digit(b, i+1) {
		k, i = kFloat, skipDigits(b, i+1)
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		j := i + 1
		if j < len(b) && (b[j] == '+' || b[j] == '-') {
			j++
		}
		if digit(b, j) {
			k, i = kFloat, skipDigits(b, j)
		}
	}
	return i, k, k == kFloat || digits <= MaxDigits
}

func hasPrefix(b []byte, i int, s string) bool {
	return len(b)-i >= len(s) && string(b[i:i+len(s)]) == s
}

// scanValue passes the value at b[i], where no space stands. Not ok means: wrong, not all there, too deep or too long; the skipper
// finds out which.
func scanValue(b []byte, i int) (t token, ok bool) {
	t.start = int32(i)
	if i >= len(b) {
		return t, false
	}
	end := i
	switch c := b[i]; c {
	case '"':
		t.kind = kString
		end, t.escaped, ok = scanString(b, i)
	case '{', '[':
		t.kind = kObject
		if c == '[' {
			t.kind = kArray
		}
		end, ok = scanNested(b, i)
	case 'n':
		t.kind, end, ok = kNull, i+4, hasPrefix(b, i, "null")
	case 't':
		t.kind, end, ok = kBool, i+4, hasPrefix(b, i, "true")
	case 'f':
		t.kind, end, ok = kBool, i+5, hasPrefix(b, i, "false")
	case 'N':
		t.kind, end, ok = kFloat, i+3, hasPrefix(b, i, "NaN")
	case 'I':
		t.kind, end, ok = kFloat, i+8, hasPrefix(b, i, "Infinity")
	default:
		if c != '-' && !digit(b, i) {
			return t, false
		}
		end, t.kind, ok = scanNumber(b, i)
	}
	t.end = int32(end)
	return t, ok
}

// scanNested passes the object or array at b[i], which is the second level of its record.
func scanNested(b []byte, i int) (end int, ok bool) {
	var objects [(MaxDepth + 63) / 64]uint64 // a bit a level: object or array
	depth := 0
	for {
		// A value starts at b[i].
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			if depth+1 >= MaxDepth {
				return i, false
			}
			object := b[i] == '{'
			bit := uint64(1) << (depth & 63)
			if object {
				objects[depth>>6] |= bit
			} else {
				objects[depth>>6] &^= bit
			}
			depth++
			i = skipSpace(b, i+1)
			if i >= len(b) {
				return i, false
			}
			if b[i] != '}' && b[i] != ']' {
				if object {
					if i, ok = scanKey(b, i); !ok {
						return i, false
					}
				}
				continue
			}
			if object != (b[i] == '}') {
				return i, false
			}
			depth--
			i++
		} else {
			t, ok := scanValue(b, i) // a scalar: no recursion
			if !ok {
				return i, false
			}
			i = int(t.end)
		}
		// A value ended.
		for {
			if depth == 0 {
				return i, true
			}
			object := objects[(depth-1)>>6]>>((depth-1)&63)&1 != 0
			i = skipSpace(b, i)
			if i >= len(b) {
				return i, false
			}
			if b[i] == ',' {
				i = skipSpace(b, i+1)
				if object {
					if i, ok = scanKey(b, i); !ok {
						return i, false
					}
				}
				break
			}
			if b[i] != '}' && b[i] != ']' || object != (b[i] == '}') {
				return i, false
			}
			depth--
			i++
		}
	}
}

// scanKey passes a key, its colon and the space around that.
func scanKey(b []byte, i int) (end int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	if i, _, ok = scanString(b, i); !ok {
		return i, false
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return i, false
	}
	return skipSpace(b, i+1), true
}
