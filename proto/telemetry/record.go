package telemetry

import (
	"bytes"

	"github.com/warpline/warpline/proto/jsonscan"
)

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

// record is one JSON object taken apart: where the values of known keys stand. Values of a key that stands twice: the last.
type record struct {
	text   []byte
	tokens [fields]token
	seen   uint64 // a bit a field: tokens[f] is of this record
	others bool   // it has keys that no rule knows
	prefix bool   // among them "metadata_..."
}

// parse takes apart the object at b[0] and returns its length. Not ok means: not an object, wrong, not all there, too deep or a too
// long integer; the skipper finds out which. b must stay as it is while r is used.
func (r *record) parse(b []byte, scratch *[]byte) (n int, ok bool) {
	r.seen, r.others, r.prefix = 0, false, false
	if len(b) == 0 || b[0] != '{' {
		return 0, false
	}
	i := jsonscan.Space(b, 1)
	if i < len(b) && b[i] == '}' {
		r.text = b[:i+1]
		return i + 1, true
	}
	next := fSchemaVersion // exporters write the keys in order
	for {
		if i >= len(b) || b[i] != '"' {
			return 0, false
		}
		keyEnd, keyEscaped, ok := jsonscan.String(b, i)
		if !ok {
			return 0, false
		}
		key := b[i+1 : keyEnd-1]
		if keyEscaped {
			*scratch = appendDecoded((*scratch)[:0], key)
			key = *scratch
		}
		f := next
		if string(key) != names[next] {
			f = lookup(key)
		}
		next = f + 1
		if next >= canonicals {
			next = fSchemaVersion
		}
		i = keyEnd
		if i < len(b) && b[i] != ':' {
			i = jsonscan.Space(b, i)
		}
		if i >= len(b) || b[i] != ':' {
			return 0, false
		}
		i++
		if i < len(b) && b[i] <= ' ' {
			i = jsonscan.Space(b, i)
		}
		end, k, escaped, ok := jsonscan.Value(b, i, &rules) // scanValue is too large to be inlined
		if !ok {
			return 0, false
		}
		if f < fields {
			r.tokens[f] = token{int32(i), int32(end), k, escaped}
			r.seen |= 1 << f
		} else {
			r.others = true
			r.prefix = r.prefix || bytes.HasPrefix(key, metadataPrefix)
		}
		i = end
		if i < len(b) && b[i] <= ' ' {
			i = jsonscan.Space(b, i)
		}
		if i >= len(b) {
			return 0, false
		}
		switch b[i] {
		case ',':
			i++
			if i < len(b) && b[i] <= ' ' {
				i = jsonscan.Space(b, i)
			}
		case '}':
			r.text = b[:i+1]
			return i + 1, true
		default:
			return 0, false
		}
	}
}

var metadataPrefix = []byte("metadata_")

// has tells whether the record has the key at all.
func (r *record) has(f field) bool { return r.seen>>f&1 != 0 }

// get returns the value of f, kAbsent if the key is not there.
func (r *record) get(f field) token {
	if r.seen>>f&1 == 0 {
		return token{}
	}
	return r.tokens[f]
}

func (r *record) bytes(t token) []byte { return r.text[t.start:t.end] }

// members calls f for each member of the object in b, which parse or scanValue has passed, in the order of the text. The key is as it
// stands between its quotes.
func members(b []byte, f func(key []byte, escaped bool, value token)) {
	i := jsonscan.Space(b, 1)
	for i < len(b) && b[i] == '"' {
		end, escaped, _ := jsonscan.String(b, i)
		key := b[i+1 : end-1]
		t, ok := scanValue(b, jsonscan.Space(b, jsonscan.Space(b, end)+1))
		if !ok {
			panic("BUG: telemetry: members of text that was not scanned")
		}
		f(key, escaped, t)
		i = jsonscan.Space(b, int(t.end))
		if b[i] == '}' {
			return
		}
		i = jsonscan.Space(b, i+1)
	}
}
