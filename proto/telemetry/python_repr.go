package telemetry

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

// appendPython appends what Python's str makes of the JSON value t in text, which was scanned: a string is itself, the rest is as its
// repr.
func (v *Validator) appendPython(dst, text []byte, t token) []byte {
	if t.kind == kString {
		b := text[t.start+1 : t.end-1]
		if t.escaped {
			return appendDecoded(dst, b)
		}
		return append(dst, b...)
	}
	return appendPythonRepr(dst, text, t)
}

func appendPythonRepr(dst, text []byte, t token) []byte {
	b := text[t.start:t.end]
	switch t.kind {
	case kNull:
		return append(dst, "None"...)
	case kBool:
		if b[0] == 't' {
			return append(dst, "True"...)
		}
		return append(dst, "False"...)
	case kString:
		b = b[1 : len(b)-1]
		if t.escaped {
			b = appendDecoded(nil, b)
		}
		return appendPythonString(dst, b)
	case kObject:
		// A key that stands twice keeps its first place and its last value.
		var keys [][]byte
		var last []token
		members(b, func(key []byte, escaped bool, value token) {
			if escaped {
				key = appendDecoded(nil, key)
			}
			for i := range keys {
				if bytes.Equal(keys[i], key) {
					last[i] = value
					return
				}
			}
			keys, last = append(keys, key), append(last, value)
		})
		dst = append(dst, '{')
		for i, key := range keys {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(appendPythonString(dst, key), ": "...)
			dst = appendPythonRepr(dst, b, last[i])
		}
		return append(dst, '}')
	case kArray:
		dst = append(dst, '[')
		for i := jsonscan.Space(b, 1); b[i] != ']'; {
			e, _ := scanValue(b, i)
			dst = appendPythonRepr(dst, b, e)
			i = jsonscan.Space(b, int(e.end))
			if b[i] == ',' {
				dst = append(dst, ", "...)
				i = jsonscan.Space(b, i+1)
			}
		}
		return append(dst, ']')
	}
	return appendPythonNumber(dst, b, t.kind)
}

// appendPythonString quotes a string as Python's repr does.
func appendPythonString(dst, s []byte) []byte {
	quote := byte('\'')
	if bytes.IndexByte(s, '\'') >= 0 && bytes.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	dst = append(dst, quote)
	for i := 0; i < len(s); {
		size, surrogate := runeAt(s, i)
		r := rune(s[i])
		switch {
		case surrogate:
			r = 0xd000 | rune(s[i+1]&0x3f)<<6 | rune(s[i+2]&0x3f)
		case size > 1:
			r, _ = utf8.DecodeRune(s[i:])
		default:
			size = 1
		}
		switch {
		case r == rune(quote) || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case !surrogate && unicode.IsPrint(r):
			dst = append(dst, s[i:i+size]...)
		case r < 0x100:
			dst = append(dst, '\\', 'x', digits16[r>>4], digits16[r&0xf])
		case r < 0x10000:
			dst = append(dst, '\\', 'u', digits16[r>>12], digits16[r>>8&0xf], digits16[r>>4&0xf], digits16[r&0xf])
		default:
			dst = append(dst, '\\', 'U')
			for shift := 28; shift >= 0; shift -= 4 {
				dst = append(dst, digits16[r>>shift&0xf])
			}
		}
		i += size
	}
	return append(dst, quote)
}
