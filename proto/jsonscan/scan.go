// Package jsonscan passes over JSON text: space, strings, numbers, escapes and whole values. The formats in proto share it; what a value
// means is theirs to say.
//
// All functions take the text and the place where they begin, at most len(b), and return the place behind what they passed. They check
// syntax and nothing else: whether text is UTF-8, what a number is worth and whether a key stands twice is for the caller to judge.
// Nothing here allocates, or keeps the text.
package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at a time: every byte of lows is 0x01, of highs 0x80.
const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// Space passes the space at b[i], which may be none.
func Space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// Special returns the first place at or behind i with a quote, a backslash or a control character, len(b) if there is none.
func Special(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q := w ^ 0x22*lows
		s := w ^ 0x5c*lows
		// Each term flags the bytes it looks for; a false flag can only stand above a true one, and the lowest is taken.
		m := ((q-lows)&^q | (s-lows)&^s | (w-0x20*lows)&^w) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

// String passes the string that opens at b[i]. If it is not one, end is where it breaks.
func String(b []byte, i int) (end int, escaped, ok bool) {
	i++
	for {
		i = Special(b, i)
		if i >= len(b) {
			return i, escaped, false
		}
		switch b[i] {
		case '"':
			return i + 1, escaped, true
		case '\\':
			escaped = true
			if i+1 >= len(b) {
				return i, escaped, false
			}
			switch b[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if Hex4(b, i+2) < 0 {
					return i, escaped, false
				}
				i += 6
			default:
				return i, escaped, false
			}
		default:
			return i, escaped, false
		}
	}
}

// Digit reports whether a decimal digit stands at b[i].
func Digit(b []byte, i int) bool { return i < len(b) && b[i] >= '0' && b[i] <= '9' }

// Digits passes the decimal digits at b[i], which may be none.
func Digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

// Number passes the number at b[i]; integer tells that it has neither fraction nor exponent. If it is not a number, end is where a digit
// is missing: behind the e of 1ex.
func Number(b []byte, i int) (end int, integer, ok bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i >= len(b) || b[i] < '0' || b[i] > '9' {
		return i, false, false
	}
	if b[i] == '0' {
		i++
	} else {
		i = Digits(b, i)
	}
	integer = true
	if i < len(b) && b[i] == '.' {
		integer = false
		n := Digits(b, i+1)
		if n == i+1 {
			return i, false, false
		}
		i = n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		integer = false
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := Digits(b, i)
		if n == i {
			return i, false, false
		}
		i = n
	}
	return i, integer, true
}

// Word reports whether word stands at b[i].
func Word(b []byte, i int, word string) bool {
	return len(b)-i >= len(word) && string(b[i:i+len(word)]) == word
}
