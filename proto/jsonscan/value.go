package jsonscan

import "bytes"

// Rules are where the formats differ about values. Each follows a parser of its own: GPU Flight encoding/json, memory telemetry the json
// of Python, because its peer is written in that.
type Rules struct {
	// Depth is how many objects and arrays may be open at a time.
	Depth int
	// Digits is how many digits an integer may have, 0 any number.
	Digits int
	// Python takes NaN, Infinity and -Infinity too, and of a number that cannot go on the part that is one: 1 of 1.x.
	Python bool
}

// Kind is what a value is.
type Kind uint8

// Kinds of values. NaN, Infinity and -Infinity are floats.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindInt
	KindFloat
	KindString
	KindObject
	KindArray
)

// Value passes the value at b[i], where no space stands. escaped tells that it is a string with escapes. Not ok means: wrong, not all
// there, too deep or too long; end is where that was seen.
func Value(b []byte, i int, r *Rules) (end int, k Kind, escaped, ok bool) {
	if i >= len(b) {
		return i, KindNone, false, false
	}
	switch b[i] {
	case '"':
		end, escaped, ok = String(b, i)
		return end, KindString, escaped, ok
	case '{':
		end, ok = container(b, i, r.Depth, r)
		return end, KindObject, false, ok
	case '[':
		end, ok = container(b, i, r.Depth, r)
		return end, KindArray, false, ok
	case 'n':
		return literal(b, i, "null", KindNull)
	case 't':
		return literal(b, i, "true", KindBool)
	case 'f':
		return literal(b, i, "false", KindBool)
	case 'N':
		if r.Python {
			return literal(b, i, "NaN", KindFloat)
		}
	case 'I':
		if r.Python {
			return literal(b, i, "Infinity", KindFloat)
		}
	case '-':
		if r.Python && Word(b, i, "-Infinity") {
			return i + len("-Infinity"), KindFloat, false, true
		}
	}
	end, integer, ok := Number(b, i)
	switch {
	case !ok && r.Python:
		return shortened(b, i, end, r)
	case !ok:
		return end, KindNone, false, false
	case !integer:
		return end, KindFloat, false, true
	}
	return end, KindInt, false, r.Digits == 0 || end-i <= r.Digits || b[i] == '-' && end-i == r.Digits+1
}

// shortened passes what is a number of the text at b[i], where a digit is missing at stop.
func shortened(b []byte, i, stop int, r *Rules) (end int, k Kind, escaped, ok bool) {
	rules := *r
	rules.Python = false // what is left is a number, or nothing is
	return Value(bytes.TrimRight(b[:stop], "eE+-"), i, &rules)
}

func literal(b []byte, i int, word string, k Kind) (end int, _ Kind, escaped, ok bool) {
	if !Word(b, i, word) {
		return i, k, false, false
	}
	return i + len(word), k, false, true
}

// container passes the object or array at b[i]; depth is how many may be open, itself included. The levels are the bits of a word, and
// it calls itself for each 64 of them only, so that hostile nesting costs little stack. The two openings stand apart because one code for
// both is 15 % slower.
func container(b []byte, i, depth int, r *Rules) (end int, ok bool) {
	var objects uint64 // the lowest bit is the innermost level: 1 for an object
	open := 0
value:
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '{':
		if open == depth {
			return i, false
		}
		if open == 64 {
			goto deeper
		}
		open++
		objects = objects<<1 | 1
		i = Space(b, i+1)
		if i < len(b) && b[i] == '}' {
			goto closed
		}
		goto key
	case '[':
		if open == depth {
			return i, false
		}
		if open == 64 {
			goto deeper
		}
		open++
		objects <<= 1
		i = Space(b, i+1)
		if i < len(b) && b[i] == ']' {
			goto closed
		}
		goto value
	case '"':
		i, _, ok = String(b, i)
	default:
		i, _, _, ok = Value(b, i, r)
	}
	if !ok {
		return i, false
	}
after:
	if open == 0 {
		return i, true
	}
	i = Space(b, i)
	if i >= len(b) {
		return i, false
	}
	switch {
	case b[i] == ',':
		i = Space(b, i+1)
		if objects&1 == 0 {
			goto value
		}
		goto key
	case b[i] == '}' && objects&1 != 0, b[i] == ']' && objects&1 == 0:
		goto closed
	}
	return i, false
closed:
	i++
	open--
	objects >>= 1
	goto after
key:
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	i, _, ok = String(b, i)
	if !ok {
		return i, false
	}
	i = Space(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, false
	}
	i = Space(b, i+1)
	goto value
deeper:
	i, ok = container(b, i, depth-64, r)
	if !ok {
		return i, false
	}
	goto after
}
