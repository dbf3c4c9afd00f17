package gpuflight

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep values of a line may nest. The client nests four deep.
const MaxDepth = 512

// Eight bytes at a time: every byte of lows is 0x01, of highs 0x80.
const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// indexSpecial returns the first place at or behind i with a quote, a backslash or a control character, len(b) if there is none.
func indexSpecial(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q := w ^ 0x2222222222222222
		s := w ^ 0x5c5c5c5c5c5c5c5c
		// Each term flags the bytes it looks for; a false flag can only stand above a true one, and the lowest is taken.
		m := ((q-lows)&^q | (s-lows)&^s | (w-0x2020202020202020)&^w) & highs
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

// skipString passes the string that opens at b[i]. plain tells that it has no escapes.
func skipString(b []byte, i int) (end int, plain, ok bool) {
	plain = true
	i++
	for {
		i = indexSpecial(b, i)
		if i >= len(b) {
			return i, plain, false
		}
		switch b[i] {
		case '"':
			return i + 1, plain, true
		case '\\':
			plain = false
			if i+1 >= len(b) {
				return i, plain, false
			}
			switch b[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if i+6 > len(b) || !isHex(b[i+2]) || !isHex(b[i+3]) || !isHex(b[i+4]) || !isHex(b[i+5]) {
					return i, plain, false
				}
				i += 6
			default:
				return i, plain, false
			}
		default:
			return i, plain, false
		}
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// skipNumber passes the number at b[i]. integer tells that it has neither fraction nor exponent.
func skipNumber(b []byte, i int) (end int, integer, ok bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i >= len(b) || b[i] < '0' || b[i] > '9' {
		return i, false, false
	}
	if b[i] == '0' {
		i++
	} else {
		i = skipDigits(b, i)
	}
	integer = true
	if i < len(b) && b[i] == '.' {
		integer = false
		n := skipDigits(b, i+1)
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
		n := skipDigits(b, i)
		if n == i {
			return i, false, false
		}
		i = n
	}
	return i, integer, true
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) (int, bool) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, false
	}
	return i + len(word), true
}

// skipValue passes the value that begins at b[i], white space before it excluded, and checks its syntax.
func skipValue(b []byte, i int) (end int, ok bool) {
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '{', '[':
		return skipContainer(b, i)
	}
	return skipScalar(b, i)
}

func skipScalar(b []byte, i int) (end int, ok bool) {
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '"':
		end, _, ok = skipString(b, i)
		return end, ok
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	}
	end, _, ok = skipNumber(b, i)
	return end, ok
}

// skipContainer passes an object or an array without recursion, so that hostile nesting costs no stack.
func skipContainer(b []byte, i int) (int, bool) {
	var objects [MaxDepth / 64]uint64 // bit d: the container at depth d is an object
	depth := 0
	var ok bool
value:
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '{', '[':
		if depth == MaxDepth {
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
		if object {
			if b[i] == '}' {
				i++
				depth--
				goto after
			}
			goto key
		}
		if b[i] == ']' {
			i++
			depth--
			goto after
		}
		goto value
	}
	if i, ok = skipScalar(b, i); !ok {
		return i, false
	}
after:
	if depth == 0 {
		return i, true
	}
	i = skipSpace(b, i)
	if i >= len(b) {
		return i, false
	}
	if objects[(depth-1)>>6]&(1<<((depth-1)&63)) != 0 {
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
			goto key
		case '}':
			i++
			depth--
			goto after
		}
		return i, false
	}
	switch b[i] {
	case ',':
		i = skipSpace(b, i+1)
		goto value
	case ']':
		i++
		depth--
		goto after
	}
	return i, false
key:
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	if i, _, ok = skipString(b, i); !ok {
		return i, false
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, false
	}
	i = skipSpace(b, i+1)
	goto value
}
