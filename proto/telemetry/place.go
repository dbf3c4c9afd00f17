package telemetry

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// place counts as the peer does, who reads a document as text: in characters, and with every line end, \r\n and \r too, turned into
// one character.
type place struct {
	chars  int64 // characters passed
	lines  int64 // line ends passed
	column int64 // characters since the last line end
	cr     bool  // the last byte was a carriage return
}

// pass counts b. Continuation bytes are not characters.
func (p *place) pass(b []byte) {
	if len(b) == 0 {
		return
	}
	if p.cr && b[0] == '\n' {
		b = b[1:] // the second half of a line end that is counted
		p.cr = false
		if len(b) == 0 {
			return
		}
	}
	p.cr = b[len(b)-1] == '\r'
	if bytes.IndexByte(b, '\r') < 0 {
		p.plain(b)
		return
	}
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\r')
		if i < 0 {
			p.plain(b)
			return
		}
		p.plain(b[:i])
		p.chars++
		p.lines++
		p.column = 0
		b = b[i+1:]
		if len(b) > 0 && b[0] == '\n' {
			b = b[1:]
		}
	}
}

func (p *place) plain(b []byte) {
	n := characters(b)
	p.chars += n
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		p.lines += int64(bytes.Count(b, newline))
		p.column = characters(b[i+1:])
		return
	}
	p.column += n
}

var newline = []byte{'\n'}

// characters counts eight bytes at a time.
func characters(b []byte) int64 {
	const highs = 0x8080808080808080 // the high bit of each
	n, i := len(b), 0
	for ; i+8 <= len(b); i += 8 {
		if w := binary.LittleEndian.Uint64(b[i:]); w&highs != 0 {
			n -= bits.OnesCount64(w & highs &^ (w << 1))
		}
	}
	for ; i < len(b); i++ {
		if b[i]&0xc0 == 0x80 {
			n--
		}
	}
	return int64(n)
}

// describe is how the peer says where something is.
func (p place) describe(what string) string {
	return fmt.Sprintf("%s: line %d column %d (char %d)", what, p.lines+1, p.column+1, p.chars)
}

// locate says what e is about a document of which b starts at base and p counts what stands before base.
func (p place) locate(e *syntaxError, b []byte, base int64) string {
	p.pass(b[:e.at-base])
	return p.describe(e.what)
}

// encoding finds the first place of a document that is not UTF-8, in pieces.
type encoding struct {
	rest [utf8.UTFMax]byte // a character that is not all there
	n    int
	at   int64 // bytes passed, rest not counted
	bad  string
	// where the first bad byte is; meaningful if bad is not empty
	where int64
}

// pass looks at b, which follows what was passed before; final says that nothing follows.
func (e *encoding) pass(b []byte, final bool) {
	if e.bad != "" {
		return
	}
	for e.n > 0 && len(b) > 0 && e.bad == "" { // complete the character that was cut
		e.rest[e.n] = b[0]
		e.n++
		b = b[1:]
		if utf8.FullRune(e.rest[:e.n]) {
			if r, size := utf8.DecodeRune(e.rest[:e.n]); r == utf8.RuneError && size <= 1 {
				e.fail(e.rest[:e.n], false)
				return
			}
			e.at += int64(e.n)
			e.n = 0
		}
	}
	if !utf8.Valid(b) {
		i := 0
		for i < len(b) {
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size <= 1 {
				if !utf8.FullRune(b[i:]) {
					break
				}
				e.at += int64(i)
				e.fail(b[i:], false)
				return
			}
			i += size
		}
		e.at += int64(i)
		e.n = copy(e.rest[:], b[i:])
	} else {
		e.at += int64(len(b))
	}
	if final && e.n > 0 {
		e.fail(e.rest[:e.n], true)
	}
}

func (e *encoding) fail(b []byte, end bool) {
	e.where = e.at
	e.bad = badUTF8(b, e.at, end)
}

// badUTF8 says as Python does what is wrong with b, which starts with something that is not UTF-8.
func badUTF8(b []byte, at int64, end bool) string {
	n, why := 1, "invalid start byte"
	if c := b[0]; c >= 0xc2 && c <= 0xf4 {
		why = "invalid continuation byte"
		for n < len(b) && n < utf8.UTFMax && !utf8.FullRune(b[:n+1]) {
			n++ // the bytes that could still have become a character
		}
		if end && n == len(b) {
			why = "unexpected end of data"
		}
	}
	if n == 1 {
		return fmt.Sprintf("'utf-8' codec can't decode byte 0x%02x in position %d: %s", b[0], at, why)
	}
	return fmt.Sprintf("'utf-8' codec can't decode bytes in position %d-%d: %s", at, at+int64(n)-1, why)
}

// firstBad returns where b stops being UTF-8; len(b) if it does not.
func firstBad(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(b)
}
