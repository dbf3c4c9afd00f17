package chrometrace

import (
	"bytes"

	"github.com/warpline/warpline/proto/jsonscan"
)

// maxGap is how much text nextEvent looks at.
const maxGap = 256

// nextEvent tells whether, behind the bracket that closes at b[i], another event begins, or the list of events ends; then next is the
// place of its brace or of the list's bracket.
func nextEvent(b []byte, i int, final bool) (next int, v verdict) {
	if !final && i+maxGap > len(b) {
		return 0, unfinished
	}
	ends := final && i+maxGap >= len(b)
	b = b[:min(len(b), i+maxGap)]
	i = jsonscan.Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		next = i
		i = jsonscan.Space(b, i+1)
		if ends && (i == len(b) || b[i] == '}' && jsonscan.Space(b, i+1) == len(b)) {
			return next, repaired
		}
		if i < len(b) && b[i] == ',' && named(b, jsonscan.Space(b, i+1), membersBehind) {
			return next, repaired
		}
		return 0, hopeless
	}
	if i < len(b) && b[i] == ',' {
		i = jsonscan.Space(b, i+1)
	}
	if i < len(b) && b[i] == '{' && named(b, jsonscan.Space(b, i+1), membersOfEvents) {
		return i, repaired
	}
	return 0, hopeless
}

// What an event begins with, and what is known to stand behind the list of them.
var (
	membersOfEvents = []string{`"ph"`, `"name"`, `"cat"`, `"ts"`, `"pid"`, `"tid"`, `"id"`, `"dur"`, `"args"`}
	membersBehind   = []string{`"traceName"`, `"displayTimeUnit"`, `"metadata"`, `"otherData"`, `"schemaVersion"`, `"distributedInfo"`,
		`"baseTimeNanoseconds"`, `"deviceProperties"`, `"stackFrames"`, `"host_name"`, `"trace_id"`}
)

// named reports whether a member of one of these names begins at b[i].
func named(b []byte, i int, names []string) bool {
	for _, name := range names {
		if jsonscan.Word(b, i, name) {
			i = jsonscan.Space(b, i+len(name))
			return i < len(b) && b[i] == ':'
		}
	}
	return false
}

// broken reports whether a text that may be cut is no JSON before it is cut.
func broken(b []byte) bool {
	end, _, _, ok := jsonscan.Value(b, 0, &rules)
	return !ok && end < len(b)-16 // what is cut may be an escape or a word
}

// repair reads the event here, which is no JSON, as what was meant, or passes it. length is how long it is by its brackets, below zero if
// they tell nothing.
func (r *Reader) repair(offset int64, length int, reason string) (*Event, error) {
	for {
		window, final := r.b[r.at:], r.ended != nil
		if len(window) >= MaxEvent {
			window, final = window[:MaxEvent], true
		}
		out, n, v := repair(r.mended[:0], window, final)
		r.mended = out
		if v == unfinished {
			for want := 2 * len(window); len(r.b)-r.at < want && r.more(0); {
			}
			continue
		}
		if r.event = (Event{Offset: offset}); v == repaired && len(out) <= MaxEvent && r.event.split(out) == "" {
			r.at += n
			r.Mended++
			return &r.event, nil
		}
		break
	}
	if !r.pass(length) {
		r.fail("")
		return nil, r.err
	}
	return nil, r.eventError(offset, reason)
}

// pass passes text up to the next event or the end of the list, or length bytes if neither comes before. Its beginning is kept.
func (r *Reader) pass(length int) bool {
	r.kept = r.kept[:0]
	advance := func(n int) {
		r.kept = append(r.kept, r.b[r.at:r.at+min(n, MaxKept-len(r.kept))]...)
		r.at += n
	}
	for passed := 0; ; {
		n := bytes.IndexByte(r.b[r.at:], '}')
		if n < 0 {
			n = len(r.b) - r.at
		}
		if length >= 0 && passed+n+1 >= length && length-passed <= len(r.b)-r.at {
			advance(length - passed)
			return true
		}
		advance(n)
		passed += n
		v := unfinished
		if r.at < len(r.b) {
			next := 0
			switch next, v = nextEvent(r.b, r.at, r.ended != nil); v {
			case repaired:
				advance(next - r.at)
				r.first = true // no comma is missed
				return true
			case hopeless:
				advance(1)
				passed++
			}
		}
		if v == unfinished && !r.more(0) && r.at == len(r.b) {
			return false
		}
	}
}
