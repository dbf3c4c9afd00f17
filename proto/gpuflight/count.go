package gpuflight

import (
	"bytes"

	"github.com/warpline/warpline/proto/jsonscan"
)

// CountEvents returns how many events a line is. Gateway and worker both use it, so that limits, usage and the worker's books
// agree about every line, malformed ones included. It depends on the bytes of the line alone:
//
//   - a blank line is 0 events;
//   - a line whose type, as Peek sees it, is not a batch type is 1 event, and so is a line without type;
//   - a batch line is as many events as its "rows" array has elements, 0 for an empty array;
//   - a batch line that is torn or has no "rows" array is 1 event or, if "rows" followed by a bracket stands in it, as many as
//     brackets open behind that one, and 1 at least.
//
// So for a line that Decode accepts it equals Batch.WireRows or 1. A line that is refused whole still is as many events as this says.
func CountEvents(line []byte) int {
	if !peekType(line).IsBatch() {
		if jsonscan.Space(line, 0) == len(line) {
			return 0
		}
		return 1
	}
	const key = `"rows":`
	at := bytes.Index(line, []byte(key))
	if at >= 0 {
		if n := plainRows(line[at+len(key):]); n > 0 {
			return n
		}
	}
	if n := countRows(line); n >= 0 {
		return n
	}
	if at < 0 {
		return 1
	}
	return countBrackets(line[at+len(key):])
}

// plainRows counts the rows of a line as the client writes it, whose last member is the array of rows, all of them arrays of scalars that
// are no text. For any other line it returns 0.
func plainRows(rest []byte) int {
	if len(rest) < 2 || rest[0] != '[' || rest[1] != '[' || bytes.IndexByte(rest, '"') >= 0 {
		return 0
	}
	end := len(rest)
	for end > 0 && rest[end-1] <= ' ' {
		end--
	}
	if !bytes.HasSuffix(rest[:end], []byte("]]}")) {
		return 0
	}
	n := 1
	for i := 2; ; n++ {
		k := bytes.IndexByte(rest[i:], '[')
		if k < 0 {
			return n
		}
		i += k
		if rest[i-1] != ',' || rest[i-2] != ']' { // an array within a row, or something else than a row before this one
			return 0
		}
		i++
	}
}

// countBrackets takes the text behind the key for a rows array and what ends the line.
func countBrackets(rest []byte) int {
	n := bytes.Count(rest, []byte{'['}) - 1
	if n > 0 {
		return n
	}
	if i := jsonscan.Space(rest, 0); i < len(rest) && rest[i] == '[' {
		i = jsonscan.Space(rest, i+1)
		if i < len(rest) && rest[i] == ']' {
			return 0
		}
	}
	return 1
}

// countRows walks the line and counts the elements of the first "rows", -1 if that cannot be done.
func countRows(line []byte) int {
	for m := walkObject(line, 0); m.next(); {
		if string(m.key) != "rows" {
			if !m.skip() {
				return -1
			}
			continue
		}
		if line[m.i] != '[' {
			return -1
		}
		i := jsonscan.Space(line, m.i+1)
		if i < len(line) && line[i] == ']' {
			return 0
		}
		for n := 1; ; n++ {
			var ok bool
			if i, ok = skipValue(line, i); !ok {
				return -1
			}
			i = jsonscan.Space(line, i)
			if i >= len(line) {
				return -1
			}
			if line[i] == ']' {
				return n
			}
			if line[i] != ',' {
				return -1
			}
			i = jsonscan.Space(line, i+1)
		}
	}
	return -1
}
