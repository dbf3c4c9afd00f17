package kineto

import (
	"math"
	"strconv"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/jsonscan"
)

// Micros reads a time in microseconds, a JSON number or a string that holds one, as nanoseconds: exactly, without floating point, to the
// nearest one, halves away from zero. Not ok is what is no number or does not fit.
func Micros(v []byte) (ns int64, ok bool) {
	v = unquoted(v)
	end, _, ok := jsonscan.Number(v, 0)
	if !ok || end != len(v) {
		return 0, false
	}
	negative := v[0] == '-'
	if negative {
		v = v[1:]
	}
	whole := jsonscan.Digits(v, 0)
	n, digits, exponent := uint64(0), v[:whole], 0
	fraction := v[whole:]
	if len(fraction) > 0 && fraction[0] == '.' {
		k := jsonscan.Digits(fraction, 1)
		fraction, v = fraction[1:k], fraction[k:]
	} else {
		v, fraction = fraction, nil
	}
	if len(v) > 0 { // an exponent
		e, err := strconv.Atoi(string(v[1:]))
		if err != nil {
			e = math.MaxInt32 // or its opposite: more digits than an int holds
			if v[1] == '-' {
				e = -e
			}
		}
		exponent = e
	}
	// The digits before the point of a number in ns.
	want := len(digits) + exponent + 3
	digit := func(i int) uint64 {
		if i < len(digits) {
			return uint64(digits[i] - '0')
		}
		if i -= len(digits); i < len(fraction) {
			return uint64(fraction[i] - '0')
		}
		return 0
	}
	written := len(digits) + len(fraction)
	for i := range written {
		if i >= want {
			break
		}
		if n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + digit(i)
	}
	for i := written; i < want && n > 0; i++ {
		if n > math.MaxUint64/10 {
			return 0, false
		}
		n *= 10
	}
	if want >= 0 && digit(want) >= 5 {
		n++
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}

// Integer reads a JSON integer, or a string that holds one.
func Integer(v []byte) (int64, bool) {
	v = unquoted(v)
	if len(v) == 0 || len(v) > 20 {
		return 0, false
	}
	negative := v[0] == '-'
	if negative {
		v = v[1:]
	}
	n := uint64(0)
	for _, c := range v {
		if c < '0' || c > '9' || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if len(v) == 0 || n > math.MaxInt64 {
		return 0, false
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}

// unsigned reads an integer that is not negative; 0 is none.
func unsigned(v []byte) uint64 {
	v = unquoted(v)
	if n, ok := Integer(v); ok {
		return uint64(max(n, 0))
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// unquoted is a string's text, if nothing in it is escaped, or the value as it is.
func unquoted(v []byte) []byte {
	if n := len(v); n >= 2 && v[0] == '"' && v[n-1] == '"' {
		return v[1 : n-1]
	}
	return v
}

// text is what a value says: of a string what it stands for, of anything else its JSON. It is good as long as v is.
func text(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		if string(v) == "null" {
			return nil
		}
		return v
	}
	if at := jsonscan.Special(v, 1); at == len(v)-1 {
		return v[1:at]
	}
	return []byte(chrometrace.Text(v))
}

// isName reports whether a value can be a name, a pid or a tid: text or a number.
func isName(v []byte) bool { return len(v) == 0 || v[0] != '{' && v[0] != '[' }
