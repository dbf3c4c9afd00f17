package gpuflight

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
)

// pieceKind says what a piece of an upload becomes.
type pieceKind int

const (
	piecePart   pieceKind = iota // whole lines, at most stream.PartBytes
	pieceGiant                   // one line longer than that: read it from the cutter, then call endGiant
	pieceReject                  // refused bytes
)

// piece is one unit that the cutter cuts from an upload. Pieces are numbered in the order they come; that number is wire format.
type piece struct {
	kind pieceKind
	// body is the part's lines as they came, or the first stream.RejectBytes of what is refused. It is valid until the next call.
	body []byte
	// size is how many bytes of the upload the piece stands for; of a reject it may be more than body has.
	size   int64
	events uint64
	lines  int64 // in it, blank ones included; 0 counts as one
	line   int64 // number of its first line, from 1
	// reason and detail are set for rejects. whole says that body is everything that was refused, so nothing is lost.
	reason, detail string
	whole          bool
}

// cutter cuts a stream of lines into pieces. What it gives depends only on the bytes and on maxLine, never on how the bytes are divided
// among reads: each piece is the longest run of whole lines that fits stream.PartBytes. It keeps one buffer of that size and no more.
//
// Bytes are passed on as they came: blank lines, '\r' before '\n' and an unterminated last line included.
type cutter struct {
	src     io.Reader
	maxLine int64 // of a line's bytes without its '\n'

	buf        []byte // stream.PartBytes long
	start, end int    // what is in buf and not yet cut
	err        error  // of the source: io.EOF, or why it ended
	line       int64  // lines cut so far
	ahead      [1]byte
	aheadLen   int
	done       bool
	giant      giantLine
	waste      [4 << 10]byte // receives bytes nobody looks at
}

// giantLine is the state of a line that does not fit the buffer, while it is read.
type giantLine struct {
	open  bool // the cutter stands inside one
	ended bool // its '\n' or the end of the upload was read
	err   error
	size  int64 // bytes read, '\n' included
	text  int64 // without it
	count rowCounter
}

var errGiantTooLong = errors.New("line is over the limit")

// reset makes the cutter ready for another upload; buf must hold stream.PartBytes and head stream.RejectBytes.
func (c *cutter) reset(src io.Reader, maxLine int64, buf []byte) {
	*c = cutter{src: src, maxLine: maxLine, buf: buf[:stream.PartBytes]}
}

// next returns the next piece, or io.EOF. After a pieceGiant, endGiant must be called first.
func (c *cutter) next() (piece, error) {
	if c.done {
		return piece{}, io.EOF
	}
	c.fill()
	data, full := c.buf[:c.end], c.end == len(c.buf)
	if len(data) == 0 {
		return c.finish(nil)
	}
	cut := bytes.LastIndexByte(data, '\n') + 1
	if c.maxLine < int64(len(c.buf)) { // lines in here may be over the limit: look at each
		var tooLong bool
		cut, tooLong = c.cutShort(data, full)
		if tooLong {
			return c.rejectLine(data[:cut]), nil
		}
	}
	if full {
		// The end of the upload may be known already or not, depending on the reads: it must not matter here.
		if cut == 0 {
			c.giant = giantLine{open: true}
			c.giant.count.reset(data)
			return piece{kind: pieceGiant, line: c.line + 1}, nil
		}
		return c.part(data[:cut]), nil
	}
	var torn *ingest.TornError
	if c.err == io.EOF || errors.As(c.err, &torn) && torn.Intact {
		if c.maxLine < int64(len(c.buf)) && cut > 0 {
			return c.part(data[:cut]), nil
		}
		return c.part(data), nil
	}
	if cut > 0 {
		return c.part(data[:cut]), nil
	}
	return c.finish(data)
}

// cutShort finds the longest run of whole lines none of which is over maxLine. When the first line is, it returns that line's
// end and true. An unterminated last line of an intact upload counts as a line.
func (c *cutter) cutShort(data []byte, full bool) (cut int, tooLong bool) {
	for cut < len(data) {
		i := bytes.IndexByte(data[cut:], '\n')
		if i < 0 {
			var torn *ingest.TornError
			intact := !full && (c.err == io.EOF || errors.As(c.err, &torn) && torn.Intact)
			switch {
			case !intact:
			case int64(len(data)-cut) <= c.maxLine:
				cut = len(data)
			case cut == 0:
				return len(data), true
			}
			return cut, false
		}
		if int64(i) > c.maxLine {
			if cut == 0 {
				return i + 1, true
			}
			return cut, false
		}
		cut += i + 1
	}
	return cut, false
}

// last reports whether no piece follows. It may read one byte.
func (c *cutter) last() bool {
	if c.done {
		return true
	}
	if c.start < c.end || c.aheadLen > 0 {
		return false
	}
	for c.err == nil {
		n, err := c.src.Read(c.ahead[:])
		c.aheadLen, c.err = n, err
		if n > 0 {
			return false
		}
	}
	return c.err == io.EOF
}

// fill moves what is left to the front and reads until the buffer is full or the source ends.
func (c *cutter) fill() {
	if c.start > 0 {
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
	}
	if c.aheadLen > 0 {
		c.end += copy(c.buf[c.end:], c.ahead[:])
		c.aheadLen = 0
	}
	for c.err == nil && c.end < len(c.buf) {
		var n int
		n, c.err = c.src.Read(c.buf[c.end:])
		c.end += n
	}
}

func (c *cutter) part(body []byte) piece {
	p := piece{kind: piecePart, body: body, size: int64(len(body)), line: c.line + 1}
	var lines int64
	p.events, lines = countLines(body)
	c.line += lines
	p.lines = lines
	c.start = len(body)
	return p
}

func (c *cutter) rejectLine(line []byte) piece {
	p := piece{
		kind: pieceReject, body: line[:min(len(line), stream.RejectBytes)], size: int64(len(line)), line: c.line + 1,
		reason: reject.LineTooLong, detail: c.tooLong(int64(len(bytes.TrimSuffix(line, []byte{'\n'})))),
		whole: len(line) <= stream.RejectBytes, events: max(1, uint64(gpuflight.CountEvents(line))),
	}
	c.line++
	c.start = len(line)
	return p
}

func (c *cutter) tooLong(text int64) string {
	return fmt.Sprintf("a line of %d bytes is over limit-line = %d bytes", text, c.maxLine)
}

// finish ends the upload: with io.EOF, or with the reject of what is left and cannot be taken.
func (c *cutter) finish(rest []byte) (piece, error) {
	c.done = true
	c.start = c.end
	if c.err == io.EOF {
		return piece{}, io.EOF
	}
	var torn *ingest.TornError
	if !errors.As(c.err, &torn) {
		return piece{}, fmt.Errorf("read spooled body: %w", c.err)
	}
	p := piece{kind: pieceReject, line: c.line + 1, reason: torn.Reason, detail: torn.Detail, events: 1}
	if torn.Raw != nil {
		p.body, p.size, p.whole = torn.Raw, torn.RawSize, int64(len(torn.Raw)) == torn.RawSize
		return p, nil
	}
	p.body, p.size = rest[:min(len(rest), stream.RejectBytes)], int64(len(rest))
	return p, nil
}

// Read gives the bytes of the giant line, '\n' included. It ends with io.EOF, with errGiantTooLong where the line goes over the limit, or
// with the source's error; endGiant then says what became of it.
func (c *cutter) Read(p []byte) (int, error) {
	g := &c.giant
	if g.ended || g.err != nil {
		if g.err != nil {
			return 0, g.err
		}
		return 0, io.EOF
	}
	for c.start == c.end {
		if c.err != nil {
			g.ended = true
			var torn *ingest.TornError
			if c.err != io.EOF && !(errors.As(c.err, &torn) && torn.Intact) {
				g.err = c.err
				return 0, c.err
			}
			return 0, io.EOF
		}
		// The first RejectBytes stay where they are, for a reject: the rest of the buffer is read over and over.
		c.start, c.end = stream.RejectBytes, stream.RejectBytes
		var n int
		n, c.err = c.src.Read(c.buf[c.end:])
		c.end += n
	}
	read := c.buf[c.start:min(c.end, c.start+len(p))]
	if i := bytes.IndexByte(read, '\n'); i >= 0 {
		read = read[:i+1]
		g.ended = true
	}
	copy(p, read)
	g.count.feed(read)
	c.start += len(read)
	g.size += int64(len(read))
	g.text = g.size
	if g.ended {
		g.text--
	}
	if g.text > c.maxLine {
		g.err = errGiantTooLong
		return 0, g.err
	}
	return len(read), nil
}

// endGiant reads what is left of the giant line and returns it as a piece: a pieceGiant without body, or a reject.
func (c *cutter) endGiant() (piece, error) {
	g := &c.giant
	tooLong := false
	for !g.ended || g.err != nil {
		if g.err == errGiantTooLong {
			tooLong = true
			g.err = nil
			if g.ended {
				break
			}
		}
		if g.err != nil { // torn inside the line
			break
		}
		// Discarding goes through Read, with the limit lifted, so that rows and bytes are counted alike.
		limit := c.maxLine
		if tooLong {
			c.maxLine = 1 << 62
		}
		_, err := c.Read(c.waste[:])
		c.maxLine = limit
		if err == io.EOF {
			break
		}
	}
	torn := g.err
	g.open, g.err = false, nil
	p := piece{kind: pieceGiant, size: g.size, events: g.count.events(), line: c.line + 1}
	c.line++
	switch {
	case torn != nil:
		size := g.size
		q, err := c.finish(c.buf[:stream.RejectBytes])
		if err == nil && q.kind == pieceReject {
			q.line, q.size, q.whole = p.line, size, false
		}
		return q, err
	case tooLong:
		p.kind, p.reason, p.detail = pieceReject, reject.LineTooLong, c.tooLong(g.text)
		p.body = c.buf[:stream.RejectBytes]
	}
	return p, nil
}
