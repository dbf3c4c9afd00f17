package chrometrace

import "github.com/warpline/warpline/proto/jsonscan"

// Mend appends the text of an element that is no JSON to dst, as what was probably meant: see repairer. What cannot be mended stays no
// JSON. PyTorch writes such texts, with names that come from elsewhere (pytorch #130622, #146900).
func Mend(dst, b []byte) []byte {
	dst, _, _ = repair(dst, b, true)
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
	mended, _, v := repair(mended[:0], text, true) // as a Reader did
	*e = Event{}
	return mended, v == repaired && e.split(mended) == ""
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
