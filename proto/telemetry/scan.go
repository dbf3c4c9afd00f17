package telemetry

import "github.com/warpline/warpline/proto/jsonscan"

const (
	// MaxDepth is how deep a record may nest, itself included. The peer's parser gives up a little below 1000, with the whole file.
	MaxDepth = 900
	// MaxDigits is how many digits an integer may have; the peer's parser has the same limit.
	MaxDigits = 4300
)

// rules are those of Python's json, for a value inside a record. GPU Flight has others: its client is not written in Python.
var rules = jsonscan.Rules{Depth: MaxDepth - 1, Digits: MaxDigits, Python: true}

// kind is what a token is. Python's json takes NaN, Infinity and -Infinity for floats, and so do we.
type kind = jsonscan.Kind

const (
	kAbsent = jsonscan.KindNone
	kNull   = jsonscan.KindNull
	kBool   = jsonscan.KindBool
	kInt    = jsonscan.KindInt
	kFloat  = jsonscan.KindFloat
	kString = jsonscan.KindString
	kObject = jsonscan.KindObject
	kArray  = jsonscan.KindArray
)

// token is a value inside a record: record[start:end], quotes and brackets included.
type token struct {
	start, end int32
	kind       kind
	escaped    bool // a string with a backslash
}

// scanValue passes the value at b[i], where no space stands. Not ok means: wrong, not all there, too deep or too long; the skipper
// finds out which.
func scanValue(b []byte, i int) (t token, ok bool) {
	end, k, escaped, ok := jsonscan.Value(b, i, &rules)
	return token{int32(i), int32(end), k, escaped}, ok
}
