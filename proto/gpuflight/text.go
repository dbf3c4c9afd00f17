package gpuflight

import (
	"unicode/utf16"
	"unicode/utf8"
)

// cleanText returns the text of a string body whose escapes are known to be well formed: itself where it can be, else a copy
// appended to buf[:0].
func cleanText(raw []byte, plain bool, buf []byte) []byte {
	if plain && utf8.Valid(raw) {
		return raw
	}
	return appendUnquoted(buf[:0], raw)
}

// appendUnquoted appends the text of a JSON string body to dst. Each byte that is not UTF-8 and each lone surrogate becomes
// U+FFFD, as in encoding/json.
func appendUnquoted(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\' && i+1 < len(raw):
			i++
			switch raw[i] {
			case 'b':
				dst = append(dst, '\b')
			case 'f':
				dst = append(dst, '\f')
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			case 'u':
				r := unhex(raw, i+1)
				i += 4
				if utf16.IsSurrogate(r) {
					pair := rune(utf8.RuneError)
					if i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
						pair = utf16.DecodeRune(r, unhex(raw, i+3))
					}
					if r = pair; r != utf8.RuneError {
						i += 6
					}
				}
				dst = utf8.AppendRune(dst, r)
			default:
				dst = append(dst, raw[i])
			}
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

// unhex reads four hexadecimal digits at b[i]; it returns U+FFFD when they are not there.
func unhex(b []byte, i int) rune {
	if i+4 > len(b) {
		return utf8.RuneError
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return utf8.RuneError
		}
		r = r<<4 | rune(c)
	}
	return r
}
