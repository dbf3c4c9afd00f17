package chrometrace

import (
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

// Text is what a JSON string stands for, "" of anything else. Bytes that are no UTF-8 stay as they are.
func Text(value []byte) string {
	end, escaped, ok := 0, false, false
	if len(value) > 0 && value[0] == '"' {
		end, escaped, ok = jsonscan.String(value, 0)
	}
	if !ok || end != len(value) {
		return ""
	}
	value = value[1 : end-1]
	if !escaped {
		return string(value)
	}
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); {
		if value[i] == '\\' {
			r, end := jsonscan.Escape(value, i)
			out, i = utf8.AppendRune(out, r), end
			continue
		}
		n := jsonscan.Special(value, i)
		out, i = append(out, value[i:n]...), n
	}
	return string(out)
}

// EachMember visits the members of an object, and reports whether it was one. A key is as it stands, with its quotes, so that it can be
// compared without being decoded.
func EachMember(object []byte, visit func(key, value []byte)) (ok bool) {
	return len(object) > 0 && object[0] == '{' && eachMember(object, visit)
}

func eachMember(b []byte, visit func(key, value []byte)) bool {
	end, ok := members(b, visit)
	return ok && end == len(b)
}

// members visits the members of the object at the beginning of b. end is behind it.
func members(b []byte, visit func(key, value []byte)) (end int, ok bool) {
	i := jsonscan.Space(b, 1)
	for i < len(b) && b[i] != '}' {
		if b[i] != '"' {
			return i, false
		}
		end, _, ok := jsonscan.String(b, i)
		if !ok {
			return i, false
		}
		key := b[i:end]
		if i = jsonscan.Space(b, end); i >= len(b) || b[i] != ':' {
			return i, false
		}
		i = jsonscan.Space(b, i+1)
		if end, _, _, ok = jsonscan.Value(b, i, &rules); !ok {
			return i, false
		}
		visit(key, b[i:end])
		if i = jsonscan.Space(b, end); i < len(b) && b[i] == ',' {
			if i = jsonscan.Space(b, i+1); i < len(b) && b[i] == '}' {
				return i, false
			}
		} else if i < len(b) && b[i] != '}' {
			return i, false
		}
	}
	return i + 1, i < len(b)
}
