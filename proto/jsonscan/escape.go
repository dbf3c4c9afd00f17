package jsonscan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Escape reads the escape at s[i], in a string that String has passed, and returns the character that it stands for. Two escapes that
// are a surrogate pair are read as one. A lone surrogate is returned as it is: one format repairs it, the other keeps it.
func Escape(s []byte, i int) (r rune, end int) {
	switch c := s[i+1]; c {
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'n':
		return '\n', i + 2
	case 'r':
		return '\r', i + 2
	case 't':
		return '\t', i + 2
	case 'u':
	default:
		return rune(c), i + 2
	}
	r, end = Hex4(s, i+2), i+6
	if utf16.IsSurrogate(r) && Word(s, end, `\u`) {
		if pair := utf16.DecodeRune(r, Hex4(s, end+2)); pair != utf8.RuneError {
			return pair, end + 6
		}
	}
	return r, end
}

// Hex4 reads the four hexadecimal digits at b[i]; it is below zero when they are not there.
func Hex4(b []byte, i int) (r rune) {
	if i+4 > len(b) {
		return -1
	}
	for _, c := range b[i : i+4] {
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
