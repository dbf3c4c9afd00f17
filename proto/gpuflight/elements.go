package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// elements walks the values of one JSON array. After next returned true, i stands on the value; the caller sets i behind it before it
// calls next again. After next returned false, ok tells whether the array ended well, and i stands behind it, or where it broke.
type elements struct {
	b       []byte
	i       int
	ok      bool
	started bool
}

func (e *elements) next() bool {
	e.ok = false
	i := jsonscan.Space(e.b, e.i)
	e.i = i
	if i >= len(e.b) {
		return false
	}
	if !e.started {
		if e.b[i] != '[' {
			return false
		}
		e.started = true
		i = jsonscan.Space(e.b, i+1)
		if i < len(e.b) && e.b[i] == ']' {
			e.i, e.ok = i+1, true
			return false
		}
		e.i = i
		return i < len(e.b)
	}
	switch e.b[i] {
	case ']':
		e.i, e.ok = i+1, true
		return false
	case ',':
		e.i = jsonscan.Space(e.b, i+1)
		return e.i < len(e.b)
	}
	return false
}
