package intrakernel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// Capture is what the rings of one launch still hold.
type Capture struct {
	// Records are those that survived and passed the filter: slot by slot, in each the oldest first.
	Records []Record
	// Recorded is how many the device counted, Survived how many of them the rings hold. Neither knows of the filter.
	Recorded, Survived uint64
}

// maxRecords is how many records fit one capture: indices of 32 bits chain them.
const maxRecords = 1<<31 - 1

// Collect reads the device's buffers: the records, slot by slot, and a count for each slot. It takes memory for the records that it keeps,
// whatever the header and the counters say. Both readers have to end where the header says; nothing is read behind that but to see it.
func Collect(events, counters io.Reader, h *Header) (*Capture, error) {
	if err := h.Session.check(); err != nil {
		return nil, err
	}
	c := newCollector(events, counters, h)
	for slot := range h.Session.Slots() {
		if err := c.slot(slot); err != nil {
			return nil, err
		}
	}
	return c.capture, c.ended()
}

func newCollector(events, counters io.Reader, h *Header) *collector {
	return &collector{session: h.Session, keep: h.filter(), most: h.most(), events: bufio.NewReaderSize(events, 1<<16),
		counters: bufio.NewReaderSize(counters, 1<<12), capture: &Capture{}}
}

// collector reads both buffers side by side, so that neither has to be in memory.
type collector struct {
	session          Session
	most             int
	keep             []uint64 // a set of blocks; nil keeps all
	events, counters *bufio.Reader
	capture          *Capture
	before           int // records that were kept and given away since
}

// slot reads one ring.
func (c *collector) slot(slot uint64) error {
	var b [4]byte
	if n, err := io.ReadFull(c.counters, b[:]); err != nil {
		return c.short(InCounters, err, slot*4+uint64(n), c.session.Slots()*4)
	}
	count, size := binary.LittleEndian.Uint32(b[:]), c.session.Cap
	held, oldest := min(count, size), uint32(0)
	if count > size {
		oldest = count & (size - 1)
	}
	c.capture.Recorded += uint64(count)
	c.capture.Survived += uint64(held)
	c.expect(slot, min(int(held), c.most))
	first := len(c.capture.Records)
	newer := first // where those begin that were written before the ring came round
	for i := uint32(0); i < held; {
		block, err := c.events.Peek(int(min(uint64(held-i)*RecordSize, 1<<12)))
		if err != nil {
			return c.shortEvents(err, slot, uint64(i)*RecordSize+uint64(len(block)))
		}
		for at := 0; at < len(block); at += RecordSize {
			if i == oldest {
				newer = len(c.capture.Records)
			}
			i++
			r := DecodeRecord(block[at:])
			if c.before+len(c.capture.Records) > c.most {
				return tooMany(InEvents, c.most)
			}
			if c.keep == nil || c.keep[r.Block/64]&(1<<(r.Block%64)) != 0 {
				c.capture.Records = append(c.capture.Records, r)
			}
		}
		c.events.Discard(len(block)) // it is in the buffer
	}
	if c.before+len(c.capture.Records) > c.most {
		return tooMany(InEvents, c.most)
	}
	rotate(c.capture.Records[first:], newer-first)
	for rest := uint64(size-held) * RecordSize; rest > 0; {
		n, err := c.events.Discard(int(min(rest, 1<<30)))
		rest -= uint64(n)
		if err != nil {
			return c.shortEvents(err, slot, uint64(size)*RecordSize-rest)
		}
	}
	return nil
}

// expect makes room for n records more. If slots go on as they did, it is enough for all, so that no second copy grows beside the first;
// but it never is more than four times what was read.
func (c *collector) expect(slot uint64, n int) {
	have := len(c.capture.Records)
	if n = min(n, 1<<16); cap(c.capture.Records)-have >= n {
		return
	}
	all := float64(have) * 1.01 * float64(c.session.Slots()) / float64(slot+1)
	c.capture.Records = slices.Grow(c.capture.Records, max(n, int(min(all, 4*float64(have)))-have))
}

// rotate moves the first n items behind the others.
func rotate(items []Record, n int) {
	if n > 0 && n < len(items) {
		slices.Reverse(items[:n])
		slices.Reverse(items[n:])
		slices.Reverse(items)
	}
}

// shortEvents is the error of a buffer that ends so many bytes into a slot.
func (c *collector) shortEvents(err error, slot, bytes uint64) error {
	whole, _ := c.session.EventBytes() // checked before
	return c.short(InEvents, err, slot*uint64(c.session.Cap)*RecordSize+bytes, whole)
}

// short is the error of a buffer that cannot be read to its end.
func (c *collector) short(in string, err error, have, want uint64) error {
	if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{In: in, Text: "read: " + err.Error() + ": copy the file again", Err: err}
	}
	size, inside := c.size(in), ""
	if in == InEvents && have%RecordSize != 0 {
		inside = ", inside a record"
	}
	e := wrong(in, "ends after %d bytes%s, and %s is %d: copy the whole buffer, or correct the input", have, inside, size, want).(*Error)
	e.Err = err
	return e
}

// size says how the length of a buffer comes about.
func (c *collector) size(in string) string {
	if in == InCounters {
		return "grid_x × warps × 4"
	}
	return "grid_x × warps × per_warp_cap × 16"
}

// ended checks that both buffers end.
func (c *collector) ended() error {
	events, _ := c.session.EventBytes() // checked before
	for _, b := range []struct {
		in   string
		r    *bufio.Reader
		want uint64
	}{{InCounters, c.counters, c.session.Slots() * 4}, {InEvents, c.events, events}} {
		switch _, err := b.r.ReadByte(); {
		case err == nil:
			return wrong(b.in, "longer than %s, which is %d bytes: correct the input, or give the buffer that belongs to it", c.size(b.in), b.want)
		case err != io.EOF:
			return &Error{In: b.in, Text: "read: " + err.Error() + ": copy the file again", Err: err}
		}
	}
	return nil
}
