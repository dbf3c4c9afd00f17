package telemetry

import "github.com/warpline/warpline/proto/jsonscan"

// hardDepth ends a document: below it a record that is too deep costs only itself. One bit a level is 128 KiB.
const hardDepth = 1 << 20

// skipper passes one JSON value of any size in pieces, with memory for its nesting only, and says what is wrong with it as
// Python's json does. It is slower than scanValue and knows more: jsonscan wants the whole value in memory and has no words for what is
// wrong, and GPU Flight, whose lines are bounded, needs neither.
type skipper struct {
	objects []uint64 // a bit a level: object or array
	depth   int
	deepest int  // except for what was passed ahead
	ahead   bool // pass what nests one level down by scanValue if that can: much faster
	state   skipState
	begin   int64 // where the string began
	digits  int   // of the integer that is being passed
	longest int   // digits of the first integer with more than MaxDigits, else 0
}

type skipState uint8

const (
	wantValue   skipState = iota
	wantElement           // behind '[': a value or ']'
	wantMember            // behind '{': a key or '}'
	wantKey               // behind ',' in an object
	wantColon
	wantAfter // behind a value: ',' or the end of what it is in
	inString
	inKey
	inInteger
	inFraction
	inExponent
)

// syntaxError is what is wrong, and where: an offset in bytes of the document.
type syntaxError struct {
	what string
	at   int64
}

const (
	expectValue   = "Expecting value"
	expectKey     = "Expecting property name enclosed in double quotes"
	expectColon   = "Expecting ':' delimiter"
	expectComma   = "Expecting ',' delimiter"
	badEscape     = "Invalid \\escape"
	badHex        = "Invalid \\uXXXX escape"
	badControl    = "Invalid control character at"
	openString    = "Unterminated string starting at"
	extraData     = "Extra data"
	unexpectedBOM = "Unexpected UTF-8 BOM (decode using utf-8-sig)"
	nestsTooDeep  = "" // not the peer's
)

func (s *skipper) reset() {
	if cap(s.objects) > 1024 {
		s.objects = nil // one hostile value must not be remembered in memory
	}
	*s = skipper{objects: s.objects[:0], ahead: s.ahead}
}

// run passes what it can of b, whose first byte stands at base in the document; final says that nothing follows b. Bytes from used on
// must be shown again, with more behind them, unless the value is done.
func (s *skipper) run(b []byte, base int64, final bool) (used int, done bool, err *syntaxError) {
	i := 0
	fail := func(what string, at int) (int, bool, *syntaxError) {
		return i, false, &syntaxError{what, base + int64(at)}
	}
	for {
		switch s.state {
		case inString, inKey:
			i = jsonscan.Special(b, i)
			if i >= len(b) {
				if final {
					return i, false, &syntaxError{openString, s.begin}
				}
				return i, false, nil
			}
			switch c := b[i]; {
			case c == '"':
				i++
				if s.state == inKey {
					s.state = wantColon
				} else {
					s.state = wantAfter
				}
			case c < 0x20:
				return fail(badControl, i)
			case i+1 >= len(b):
				if final {
					return i, false, &syntaxError{openString, s.begin}
				}
				return i, false, nil
			case b[i+1] == 'u':
				if i+6 >= len(b) { // with the byte behind it, which the peer looks for too
					if final {
						return fail(badHex, i+1)
					}
					return i, false, nil
				}
				if jsonscan.Hex4(b, i+2) < 0 {
					return fail(badHex, i+1)
				}
				i += 6
			default:
				switch b[i+1] {
				case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
					i += 2
				default:
					return fail(badEscape, i)
				}
			}
			continue
		case inInteger, inFraction, inExponent:
			j := jsonscan.Digits(b, i)
			if s.state == inInteger {
				s.digits += j - i
			}
			i = j
			if i == len(b) && !final {
				return i, false, nil
			}
			if s.state == inInteger && i < len(b) && b[i] == '.' {
				if i+1 >= len(b) && !final {
					return i, false, nil
				}
				if jsonscan.Digit(b, i+1) {
					i, s.state = i+1, inFraction
					continue
				}
			} else if s.state != inExponent && i < len(b) && (b[i] == 'e' || b[i] == 'E') {
				j := i + 1
				if j < len(b) && (b[j] == '+' || b[j] == '-') {
					j++
				}
				if j >= len(b) && !final {
					return i, false, nil
				}
				if jsonscan.Digit(b, j) {
					i, s.state = j, inExponent
					continue
				}
			}
			if s.state == inInteger && s.digits > MaxDigits && s.longest == 0 {
				s.longest = s.digits
			}
			s.state = wantAfter
			continue
		case wantAfter:
			if s.depth == 0 {
				return i, true, nil
			}
		}
		i = jsonscan.Space(b, i)
		if i == len(b) {
			if !final {
				return i, false, nil
			}
			switch s.state {
			case wantMember, wantKey:
				return fail(expectKey, i)
			case wantColon:
				return fail(expectColon, i)
			case wantAfter:
				return fail(expectComma, i)
			}
			return fail(expectValue, i)
		}
		c := b[i]
		switch s.state {
		case wantMember, wantKey:
			if c == '}' && s.state == wantMember {
				s.pop()
				i++
				continue
			}
			if c != '"' {
				return fail(expectKey, i)
			}
			s.state, s.begin = inKey, base+int64(i)
			i++
		case wantColon:
			if c != ':' {
				return fail(expectColon, i)
			}
			i++
			s.state = wantValue
		case wantAfter:
			object := s.objects[(s.depth-1)>>6]>>((s.depth-1)&63)&1 != 0
			switch {
			case c == ',' && object:
				s.state = wantKey
			case c == ',':
				s.state = wantValue
			case c == '}' && object, c == ']' && !object:
				s.pop()
			default:
				return fail(expectComma, i)
			}
			i++
		case wantElement, wantValue:
			if c == ']' && s.state == wantElement {
				s.pop()
				i++
				continue
			}
			switch c {
			case '"':
				s.state, s.begin = inString, base+int64(i)
				i++
			case '{', '[':
				if s.depth == 1 && s.ahead { // an element of a list of events, which mostly is well and in sight
					if t, ok := scanValue(b, i); ok {
						i, s.state = int(t.end), wantAfter
						continue
					}
				}
				if s.depth == hardDepth {
					return fail(nestsTooDeep, i)
				}
				s.push(c == '{')
				i++
			case '0':
				s.state, s.digits = inInteger, 1
				i++
				// No digit may follow a leading zero: what does is not of this number.
				if jsonscan.Digit(b, i) {
					s.state = wantAfter
				} else if i == len(b) && !final {
					s.state = wantValue
					return i - 1, false, nil
				}
			case '1', '2', '3', '4', '5', '6', '7', '8', '9':
				s.state, s.digits = inInteger, 0
			case '-':
				if i+1 >= len(b) && !final {
					return i, false, nil
				}
				if jsonscan.Digit(b, i+1) {
					if b[i+1] == '0' {
						if i+2 >= len(b) && !final {
							return i, false, nil
						}
						i += 2
						s.state, s.digits = inInteger, 1
						if jsonscan.Digit(b, i) {
							s.state = wantAfter
						}
						continue
					}
					i++
					s.state, s.digits = inInteger, 0
					continue
				}
				fallthrough
			default:
				word := wordOf(c)
				if word == "" {
					return fail(expectValue, i)
				}
				if !jsonscan.Word(b, i, word) {
					if !final && len(b)-i < len(word) && string(b[i:]) == word[:len(b)-i] {
						return i, false, nil
					}
					return fail(expectValue, i)
				}
				i += len(word)
				s.state = wantAfter
			}
		}
	}
}

func wordOf(c byte) string {
	switch c {
	case 'n':
		return "null"
	case 't':
		return "true"
	case 'f':
		return "false"
	case 'N':
		return "NaN"
	case 'I':
		return "Infinity"
	case '-':
		return "-Infinity"
	}
	return ""
}

func (s *skipper) push(object bool) {
	s.state = wantElement
	if s.depth>>6 == len(s.objects) {
		s.objects = append(s.objects, 0)
	}
	bit := uint64(1) << (s.depth & 63)
	s.objects[s.depth>>6] &^= bit
	if object {
		s.state = wantMember
		s.objects[s.depth>>6] |= bit
	}
	s.depth++
	s.deepest = max(s.deepest, s.depth)
}

func (s *skipper) pop() {
	s.depth--
	s.state = wantAfter
}
