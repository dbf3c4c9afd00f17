package gpuflight

import (
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

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
		var r rune
		switch {
		case c == '\\' && i+1 < len(raw):
			r, i = jsonscan.Escape(raw, i)
			dst = utf8.AppendRune(dst, r)
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
