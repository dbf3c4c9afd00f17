package chrometrace

import "github.com/warpline/warpline/proto/jsonscan"

// Mend appends the text of an element that is no JSON to dst, as what was probably meant: control characters in a string are escaped, as
// are quotes behind which neither a comma, a colon nor a bracket comes, and backslashes that begin no escape. PyTorch writes such texts,
// with names that come from elsewhere (pytorch #130622, #146900).
func Mend(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	inString := false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case !inString:
			inString = c == '"'
			dst = append(dst, c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c == '\\' && isEscape(b, i):
			dst = append(dst, c, b[i+1])
			i++
		case c == '\\':
			dst = append(dst, '\\', '\\')
		case c == '"' && !closes(b, i):
			dst = append(dst, '\\', '"')
		case c == '"':
			inString = false
			dst = append(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// Split reads one event from its text alone, which is mended if that is needed. mended is scratch. e refers to text or mended.
func Split(e *Event, text, mended []byte) (scratch []byte, ok bool) {
	*e = Event{}
	if len(text) > 0 && e.split(text) == "" {
		return mended, true
	}
	if len(text) == 0 {
		return mended, false
	}
	mended = Mend(mended[:0], text)
	*e = Event{}
	return mended, e.split(mended) == ""
}

// isEscape reports whether the backslash at b[i] begins an escape.
func isEscape(b []byte, i int) bool {
	if i+1 >= len(b) {
		return false
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		return jsonscan.Hex4(b, i+2) >= 0
	}
	return false
}

// closes reports whether the quote at b[i] ends its string.
func closes(b []byte, i int) bool {
	i = jsonscan.Space(b, i+1)
	if i == len(b) {
		return true
	}
	switch b[i] {
	case ',', ':', '}', ']':
		return true
	}
	return false
}
