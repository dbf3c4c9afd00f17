package gpuflight

import (
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

// MaxDepth is how deep values of a line may nest. The client nests four deep.
const MaxDepth = 512

// rules are encoding/json's. Memory telemetry has others: its peer is written in Python.
var rules = jsonscan.Rules{Depth: MaxDepth}

// skipValue passes the value that begins at b[i], white space before it excluded, and checks its syntax.
func skipValue(b []byte, i int) (end int, ok bool) {
	end, _, _, ok = jsonscan.Value(b, i, &rules)
	return end, ok
}

// cleanText returns the text of a string body whose escapes are known to be well formed: itself where it can be, else a copy
// appended to buf[:0].
func cleanText(raw []byte, escaped bool, buf []byte) []byte {
	if !escaped && utf8.Valid(raw) {
		return raw
	}
	return appendUnquoted(buf[:0], raw)
}

// appendUnquoted appends the text of a JSON string body to dst. Each byte that is not UTF-8 and each lone surrogate becomes
// U+FFFD, as in encoding/json. Memory telemetry decodes on its own: it refuses the one and keeps the other, as its peer does.
func appendUnquoted(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\' && i+1 < len(raw):
			r, end := jsonscan.Escape(raw, i)
			dst, i = utf8.AppendRune(dst, r), end
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
