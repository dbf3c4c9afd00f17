package telemetry

import (
	"errors"
	"io"

	"github.com/warpline/warpline/proto/jsonscan"
)

// buffer is the part of a document that is in memory. It grows to twice the longest record and slides on.
type buffer struct {
	r        io.Reader
	buf      []byte
	pos, end int   // buf[pos:end] is unread
	base     int64 // where buf[0] stands in the document
	place    place // counts what stands before base
	begun    place // where the string begins that skip is in, if that has slid away
	encoding encoding
	check    bool   // look for what is not UTF-8
	head     []byte // how the last value began that skip did not keep; it stands at headAt
	headAt   int64
	eof      bool
	err      error // why reading ended, if not at the end
}

const firstWindow = 256 << 10

var errStuck = errors.New("reader returns neither bytes nor an error")

func (w *buffer) rest() []byte { return w.buf[w.pos:w.end] }

func (w *buffer) offset() int64 { return w.base + int64(w.pos) }

// more reads on: keep bytes from pos on stay, and if that leaves no room the buffer grows. It returns false if there is nothing more.
func (w *buffer) more() bool {
	if w.eof || w.err != nil {
		return false
	}
	if w.pos > 0 {
		w.place.pass(w.buf[:w.pos])
		w.base += int64(w.pos)
		w.end = copy(w.buf, w.buf[w.pos:w.end])
		w.pos = 0
	}
	if w.end == len(w.buf) {
		grown := make([]byte, max(2*len(w.buf), firstWindow))
		copy(grown, w.buf)
		w.buf = grown
	}
	from := w.end
	for idle := 0; w.end < len(w.buf); {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		if err == io.EOF {
			w.eof = true
			break
		}
		if err != nil {
			w.err = err
			break
		}
		idle++
		if n > 0 {
			idle = 0
		}
		if idle == 100 {
			w.err = errStuck
			break
		}
	}
	if w.check {
		w.encoding.pass(w.buf[from:w.end], w.eof)
	}
	return w.end > from
}

// space skips white space and tells whether anything is left.
func (w *buffer) space() bool {
	for {
		w.pos = jsonscan.Space(w.buf[:w.end], w.pos)
		if w.pos < w.end {
			return true
		}
		if !w.more() {
			return false
		}
	}
}

// here describes what is wrong at pos.
func (w *buffer) here(what string) *DocumentError { return w.wrong(&syntaxError{what, w.offset()}) }

// skip passes the value at pos. It returns its text if that is not longer than most; a longer one does not stay in memory.
func (w *buffer) skip(s *skipper, most int) ([]byte, error) {
	for {
		s.reset()
		b := w.rest()
		used, done, wrong := s.run(b, w.offset(), w.eof)
		for {
			if wrong != nil {
				return nil, w.wrong(wrong)
			}
			if done {
				w.pos += used
				if b == nil || used > most {
					if b != nil {
						w.keepHead(b[:used])
					}
					return nil, nil
				}
				return b[:used], nil
			}
			if b != nil && len(b) <= most {
				break
			}
			if b != nil {
				w.keepHead(b)
			}
			b = nil
			if (s.state == inString || s.state == inKey) && s.begin >= w.base {
				w.begun = w.place
				w.begun.pass(w.buf[:s.begin-w.base])
			}
			w.pos += used
			w.more()
			if w.err != nil {
				return nil, w.err
			}
			used, done, wrong = s.run(w.rest(), w.offset(), w.eof)
		}
		w.more()
		if w.err != nil {
			return nil, w.err
		}
	}
}

// wrong describes e, which must stand in the buffer.
func (w *buffer) wrong(e *syntaxError) *DocumentError {
	if e.what == nestsTooDeep {
		return &DocumentError{TooDeep, "nested deeper than a document may be"}
	}
	if e.at < w.base { // an open string whose beginning has slid away
		return &DocumentError{BadJSON, w.begun.describe(e.what)}
	}
	return &DocumentError{BadJSON, w.place.locate(e, w.buf[:w.end], w.base)}
}

// keepHead keeps the beginning of a value that does not stay in memory.
func (w *buffer) keepHead(b []byte) { w.head = append(w.head[:0], b[:min(len(b), HeadBytes)]...) }
