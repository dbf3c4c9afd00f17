package telemetry

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

const digits16 = "0123456789abcdef"

// appendDecoded appends what the inside of a scanned string means. A lone surrogate becomes three bytes, as UTF-8 would spell it if it
// could: nothing is lost, and the order of bytes stays the order of code points. GPU Flight decodes on its own, because it repairs what
// this keeps.
func appendDecoded(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			j := i + 1
			for j < len(s) && s[j] != '\\' {
				j++
			}
			dst = append(dst, s[i:j]...)
			i = j
			continue
		}
		r, end := jsonscan.Escape(s, i)
		dst, i = appendRune(dst, r), end
	}
	return dst
}

// appendRune appends a character, or a lone surrogate in three bytes.
func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(dst, r)
}

// AppendString appends s as a JSON string: UTF-8, escapes only where JSON asks for one, lone surrogates (three bytes in s) as \udxxx,
// other bytes that are not UTF-8 as the replacement character.
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < 0x80 {
			i++
			continue
		}
		if c >= 0x80 {
			size, surrogate := runeAt(s, i)
			if size > 0 && !surrogate {
				i += size
				continue
			}
			dst = append(dst, s[start:i]...)
			if surrogate {
				dst = append(dst, '\\', 'u', 'd', digits16[s[i+1]>>2&0xf], digits16[s[i+1]<<2&0xc|s[i+2]>>4&3], digits16[s[i+2]&0xf])
				i += 3
			} else {
				dst = utf8.AppendRune(dst, utf8.RuneError)
				i++
			}
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits16[c>>4], digits16[c&0xf])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// runeAt returns the length of the character at s[i], 0 if there is none, and whether it is a surrogate in three bytes.
func runeAt[S ~string | ~[]byte](s S, i int) (size int, surrogate bool) {
	var b [utf8.UTFMax]byte
	n := copy(b[:], s[i:min(len(s), i+utf8.UTFMax)])
	if n >= 3 && b[0] == 0xed && b[1] >= 0xa0 && b[1] <= 0xbf && b[2] >= 0x80 && b[2] <= 0xbf {
		return 3, true
	}
	r, size := utf8.DecodeRune(b[:n])
	if r == utf8.RuneError && size <= 1 {
		return 0, false
	}
	return size, false
}

// blank tells whether nothing is left of s after Python's str.strip.
func blank(s []byte) bool { return len(strip(s)) == 0 }

// Blank tells whether nothing is left of s without the white space around it, as Python sees it.
func Blank(s string) bool { return blank([]byte(s)) }

func strip(s []byte) []byte {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if !isSpace(r) {
			break
		}
		s = s[n:]
	}
	for len(s) > 0 {
		r, n := utf8.DecodeLastRune(s)
		if !isSpace(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// isSpace is Python's str.isspace: unlike unicode.IsSpace it takes the separators 1C to 1F for space.
func isSpace(r rune) bool {
	switch {
	case r <= 0x20:
		return r >= 0x09 && r <= 0x0d || r >= 0x1c && r <= 0x20
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	}
	return r == 0x1680 || r >= 0x2000 && r <= 0x200a || r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f || r == 0x3000
}

// lower turns A to Z into a to z. That is enough wherever the result is compared with ASCII words whose letters no other letter
// becomes: Python's lower makes only k (of the Kelvin sign) and i (with a dot) out of letters that are not ASCII.
func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}
