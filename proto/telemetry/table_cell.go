package telemetry

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// appendInteger appends what text says in JSON: an integer also where it was written as a float, else something that is not one.
func appendInteger(dst, text []byte) []byte {
	digits := bytes.TrimPrefix(text, []byte("+"))
	if whole, zeros, point := bytes.Cut(digits, []byte(".")); point && len(bytes.Trim(zeros, "0")) == 0 {
		digits = whole // all of them, where a float would lose some
	}
	if isDecimal(digits) {
		return append(dst, digits...)
	}
	f, ok := parseFloat(text)
	if !ok || math.IsInf(f, 0) || f != math.Trunc(f) {
		return appendFloat(dst, text)
	}
	return strconv.AppendFloat(dst, f, 'f', 0, 64)
}

// isDecimal reports whether b is an integer as JSON writes it.
func isDecimal(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	if len(b) == 0 || len(b) > 1 && b[0] == '0' {
		return false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// parseFloat reads a decimal number and nothing else that Go would take for one.
func parseFloat(text []byte) (float64, bool) {
	if len(text) == 0 || len(text) > MaxDigits || len(bytes.Trim(text, "0123456789+-.eE")) > 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// appendFloat appends a number if text is one, else text as a string, for the rules to refuse.
func appendFloat(dst, text []byte) []byte {
	f, ok := parseFloat(text)
	switch {
	case !ok && len(text) == 3 && strings.EqualFold(string(text), "nan"):
		return append(dst, "NaN"...)
	case !ok:
		return AppendString(dst, text)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// literals remembers the last cell that was JSON or a Python literal: a process writes the same metadata into most of its rows.
type literals struct {
	text, json []byte
}

// append is appendLiteral.
func (l *literals) append(dst, text []byte) ([]byte, *Refusal) {
	if len(l.text) > 0 && bytes.Equal(l.text, text) {
		return append(dst, l.json...), nil
	}
	if cap(l.text)+cap(l.json) > 1<<16 {
		*l = literals{} // one hostile row must not be remembered in memory
	}
	out, refusal := appendLiteral(dst, text)
	if refusal == nil {
		l.text, l.json = append(l.text[:0], text...), append(l.json[:0], out[len(dst):]...)
	}
	return out, refusal
}

// appendLiteral appends JSON or a Python literal as JSON, and any other text as a string.
func appendLiteral(dst, text []byte) ([]byte, *Refusal) {
	out, refusal := AppendCanonical(dst, text)
	if refusal == nil {
		return out, nil
	}
	if refusal.Code == TooDeep || refusal.Code == IntegerTooLong {
		return dst, &Refusal{Code: refusal.Code, Message: refusal.Message}
	}
	if out, ok := AppendRepr(dst, text); ok {
		return out, nil
	}
	return AppendString(dst, text), nil
}
