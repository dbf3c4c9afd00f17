package gpuflight

import (
	"bytes"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/gpuflight"
)

// The wrapper of legacy mode: {"agentSendingTime":…,"data":"<line>","type":…,"hostname":…,"ipAddr":…}. A line may be tens of MB, so it is
// found in one pass over the body and read in another, never in memory as a whole.

// foundLine is where the line is in a body.
type foundLine struct {
	start, end int64
	quoted     bool // a JSON string's inside, to be unquoted; else an object as it is
	host       string
}

// wrapperError says why a body holds no line.
type wrapperError struct{ reason, detail string }

func (e *wrapperError) Error() string { return e.reason + ": " + e.detail }

var (
	errNotJSON = &wrapperError{gpuflight.ReasonBadJSON, "the body is not one JSON object"}
	errNoLine  = &wrapperError{gpuflight.ReasonMissingField,
		"the body has neither \"data\", a line as a string, nor \"type\", as lines themselves have"}
)

// findLine finds the line in a wrapper, where it may be an object as well as a string, or in a body that is a line itself. The error
// is a *wrapperError, or what src returned. buf is scratch.
func findLine(src io.Reader, buf []byte) (foundLine, error) {
	s := scanner{src: src, buf: buf}
	found, ok := s.find()
	switch {
	case s.err != nil && s.err != io.EOF:
		return foundLine{}, s.err
	case !ok:
		return foundLine{}, errNotJSON
	case found.end == 0:
		return foundLine{}, errNoLine
	}
	return found, nil
}

// scanner reads JSON byte by byte and checks only as much of it as is needed to tell where values end.
type scanner struct {
	src  io.Reader
	buf  []byte
	i, n int
	off  int64 // of the next byte in src
	err  error
	over bool                   // next has given the 0 of the end, not one that is in the body
	word [maxHostBytes + 1]byte // the last string, as far as it fits, with its escapes
	len  int
}

// next returns the next byte, 0 at the end: no JSON has one.
func (s *scanner) next() byte {
	for s.i == s.n {
		if s.err != nil {
			s.over = true
			return 0
		}
		s.i = 0
		s.n, s.err = s.src.Read(s.buf)
	}
	c := s.buf[s.i]
	s.i++
	s.off++
	return c
}

// space returns the first byte that is not white space.
func (s *scanner) space() byte {
	for {
		if c := s.next(); c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
}

func (s *scanner) find() (found foundLine, ok bool) {
	if s.space() != '{' {
		return found, false
	}
	start, isLine := s.off-1, false
	for c := s.space(); c != '}'; {
		if c != '"' || !s.text() {
			return found, false
		}
		key := string(s.word[:min(s.len, 16)])
		if s.space() != ':' {
			return found, false
		}
		c = s.space()
		at := s.off - 1
		after := byte(0)
		switch c {
		case '"':
			ok = s.text()
		case '{', '[':
			ok = s.nested()
		default:
			after, ok = s.scalar(c)
		}
		if !ok {
			return found, false
		}
		switch {
		case key == "data" && found.end == 0 && c == '"':
			found.start, found.end, found.quoted = at+1, s.off-1, true
		case key == "data" && found.end == 0 && c == '{':
			found.start, found.end = at, s.off
		case key == "hostname" && c == '"':
			var line lineReader
			line.reset(bytes.NewReader(s.word[:min(s.len, maxHostBytes)]), int64(min(s.len, maxHostBytes)), true)
			host, _ := io.ReadAll(&line)
			found.host = string(host)
		case key == "type" && c == '"':
			isLine = true
		}
		if after == 0 || after == ' ' || after == '\t' || after == '\n' || after == '\r' {
			after = s.space()
		}
		if after == '}' {
			break
		}
		if after != ',' {
			return found, false
		}
		c = s.space()
		if c == '}' {
			return found, false
		}
	}
	if found.end == 0 && isLine {
		found.start, found.end = start, s.off
	}
	return found, s.space() == 0 && s.over
}

// text passes the rest of a string.
func (s *scanner) text() bool {
	s.len = 0
	for {
		c := s.next()
		switch {
		case c == '"':
			return true
		case c < 0x20:
			return false
		case c == '\\':
			s.keep(c)
			c = s.next()
			if bytes.IndexByte([]byte(`"\/bfnrtu`), c) < 0 || c == 0 {
				return false
			}
			if c == 'u' {
				for range 4 {
					s.keep(c)
					c = s.next()
					if !isHex(c) {
						return false
					}
				}
			}
		}
		s.keep(c)
	}
}

func (s *scanner) keep(c byte) {
	if s.len < len(s.word) {
		s.word[s.len] = c
		s.len++
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// nested passes the rest of an object or an array. Whether its inside is well-formed is checked by what reads it later.
func (s *scanner) nested() bool {
	for depth := 1; depth > 0; {
		switch s.next() {
		case 0:
			return false
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			if !s.text() {
				return false
			}
		}
	}
	return true
}

// scalar passes a number or a word and returns the byte after it.
func (s *scanner) scalar(c byte) (after byte, ok bool) {
	for n := 0; ; n++ {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '+', c == '.':
			c = s.next()
		default:
			return c, n > 0 && c != 0
		}
	}
}

// lineReader reads a line out of a body that has been read up to it: a string is unquoted; in an object line ends, which only stand between
// its tokens, become spaces. What it gives is one line, unless a string holds line ends of its own.
type lineReader struct {
	src    io.Reader
	left   int64 // of the value in src
	quoted bool
	buf    [8 << 10]byte
	i, n   int
	err    error
	text   [utf8.UTFMax]byte // of an escape, what is not given yet
	held   []byte
}

// reset makes the reader ready for a value of size bytes. The value's escapes must have been checked.
func (l *lineReader) reset(src io.Reader, size int64, quoted bool) {
	l.src, l.left, l.quoted, l.i, l.n, l.err, l.held = src, size, quoted, 0, 0, nil, nil
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (int, error) {
	k := 0
	for k < len(p) {
		if len(l.held) > 0 {
			n := copy(p[k:], l.held)
			l.held = l.held[n:]
			k += n
			continue
		}
		if l.n-l.i < len(`\uD83D\uDE00`) {
			l.fill()
		}
		if l.i == l.n {
			break
		}
		data := l.buf[l.i:l.n]
		if l.quoted && data[0] == '\\' {
			l.escape(data)
			continue
		}
		if l.quoted {
			if i := bytes.IndexByte(data, '\\'); i > 0 {
				data = data[:i]
			}
		}
		n := copy(p[k:], data)
		if !l.quoted {
			for i, c := range p[k : k+n] {
				if c == '\n' || c == '\r' {
					p[k+i] = ' '
				}
			}
		}
		l.i += n
		k += n
	}
	if k == 0 && len(p) > 0 {
		if l.err != nil {
			return 0, l.err
		}
		return 0, io.EOF
	}
	return k, nil
}

// fill reads until the buffer is full or the value ends.
func (l *lineReader) fill() {
	if l.left == 0 || l.err != nil {
		return
	}
	l.n = copy(l.buf[:], l.buf[l.i:l.n])
	l.i = 0
	for l.left > 0 && l.n < len(l.buf) && l.err == nil {
		n, err := l.src.Read(l.buf[l.n:min(int64(len(l.buf)), int64(l.n)+l.left)])
		l.n += n
		l.left -= int64(n)
		if err == io.EOF && l.left > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != io.EOF {
			l.err = err
		}
	}
}

// escape takes the escape that data begins with into held. A lone surrogate becomes U+FFFD, as everywhere.
func (l *lineReader) escape(data []byte) {
	if len(data) < 2 { // cut short, which only happens to names
		l.i = l.n
		return
	}
	l.i += 2
	c := data[1]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := unit(data)
		if !ok {
			l.i = l.n
			return
		}
		l.i += 4
		if utf16.IsSurrogate(r) {
			low, _ := unit(data[6:])
			r = utf16.DecodeRune(r, low)
			if r != utf8.RuneError {
				l.i += 6
			}
		}
		l.held = utf8.AppendRune(l.text[:0], r)
		return
	}
	l.text[0] = c
	l.held = l.text[:1]
}

// unit reads the \uXXXX that data begins with.
func unit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(v), err == nil
}
