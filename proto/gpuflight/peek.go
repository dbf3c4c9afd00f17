package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// clientHead is how nearly every line of the client begins.
const clientHead = `{"version":1,"type":"`

// Peek reads type and session of a line and no more: it stops behind the later of the two, so it says nothing about whether the
// line is whole. For lines Decode accepts, it agrees with Decode. For others it returns what it found before the fault:
// TypeUnknown and nil at worst. sessionID aliases line unless it had escapes or broken UTF-8.
func Peek(line []byte) (t Type, sessionID []byte) {
	const sep = `,"session_id":"`
	if i := len(clientHead); len(line) > i && string(line[:i]) == clientHead {
		end := jsonscan.Special(line, i)
		if end < len(line) && line[end] == '"' && len(line) > end+1+len(sep) && string(line[end+1:end+1+len(sep)]) == sep {
			t = TypeOf(line[i:end])
			start := end + 1 + len(sep)
			if end, escaped, ok := jsonscan.String(line, start-1); ok {
				return t, cleanText(line[start:end-1], escaped, nil)
			}
			return t, nil
		}
	}
	var haveType, haveSession bool
	for m := walkObject(line, 0); m.next(); {
		ok := false
		switch {
		case !haveType && string(m.key) == "type":
			var name []byte
			name, _, ok = m.text(nil)
			t, haveType = TypeOf(name), true
		case !haveSession && string(m.key) == "session_id":
			sessionID, _, ok = m.text(nil)
			haveSession = true
		default:
			ok = m.skip()
		}
		if !ok || haveType && haveSession {
			break
		}
	}
	return t, sessionID
}

// peekType is Peek for callers that need the type only.
func peekType(line []byte) Type {
	if i := len(clientHead); len(line) > i && string(line[:i]) == clientHead {
		if end := jsonscan.Special(line, i); end < len(line) && line[end] == '"' {
			return TypeOf(line[i:end])
		}
	}
	for m := walkObject(line, 0); m.next(); {
		if string(m.key) == "type" {
			name, _, _ := m.text(nil)
			return TypeOf(name)
		}
		if !m.skip() {
			break
		}
	}
	return TypeUnknown
}
