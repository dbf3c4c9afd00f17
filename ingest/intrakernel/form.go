package intrakernel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime/multipart"

	"github.com/klauspost/compress/gzip"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/intrakernel"
)

// The fields of a form.
const (
	fieldInput    = "input"
	fieldEvents   = "events"
	fieldCounters = "counters"
)

// maxFormBytes bounds what is read of a form that is compressed as a whole.
const maxFormBytes = maxEventBytes + maxCounterBytes + intrakernel.MaxHeader + 1<<20

// maxPreamble bounds what may stand before the first field. It is read line by line, so a few MB of gzip could keep a processor busy for
// minutes.
const maxPreamble = 1 << 16

// form is what is known of a capture's buffers before the events are read.
type form struct {
	input, counters []byte
	header          *intrakernel.Header
	launch          intrakernel.Launch
}

// parseForm reads the header and the counters of a form. More than so many bytes of counters are errLarge, or refused.
func (p *upload) parseForm(u *ingest.Upload, most int64) (*form, error) {
	f := &form{}
	seen := map[string]bool{}
	err := p.walk(u, func(name string, field io.Reader) (more bool, err error) {
		if seen[name] {
			return false, unusable("bad_form", fmt.Sprintf("the form has the field %s twice", name))
		}
		seen[name] = true
		switch name {
		case fieldInput:
			f.input, err = all(name, field, intrakernel.MaxHeader)
		case fieldCounters:
			if f.counters, err = all(name, field, most); errors.Is(err, errLong) && most < maxCounterBytes {
				err = errLarge
			}
		}
		return true, err
	})
	if err != nil {
		return nil, p.refusal(err)
	}
	for _, name := range []string{fieldInput, fieldEvents, fieldCounters} {
		if !seen[name] {
			return nil, unusable("bad_form", "the form has no field "+name+": send input, events and counters")
		}
	}
	h, err := intrakernel.ParseHeader(f.input)
	if err != nil {
		return nil, p.refusal(err)
	}
	launch, no := parseLaunch(f.input)
	if no != nil {
		return nil, no
	}
	if n, err := h.Session.EventBytes(); err == nil && n > maxEventBytes {
		return nil, unusable("bad_input", fmt.Sprintf("input: session: grid_x %d × warps %d × per_warp_cap %d × %d bytes are %d, and at most "+
			"%d are read",
			h.Session.Blocks, h.Session.Warps, h.Session.Cap, intrakernel.RecordSize, n, int64(maxEventBytes)))
	}
	h.Options.CompleteEvents = true
	f.header, f.launch = h, launch
	return f, nil
}

// readForm reads a form: once for the header and the counters, which are small, and once for the events, of which only those are kept that
// the header wants.
func (p *upload) readForm(u *ingest.Upload, sum hash.Hash, most int) error {
	counters := int64(maxCounterBytes)
	if most <= smallCapture {
		counters = smallCounters
	}
	f, err := p.parseForm(u, counters)
	if err != nil {
		return err
	}
	f.header.Most = most
	var c *intrakernel.Capture
	if err := p.readEvents(u, f, sum, func(events io.Reader) (err error) {
		c, err = intrakernel.Collect(events, bytes.NewReader(f.counters), f.header)
		return err
	}); err != nil {
		return p.refusal(err)
	}
	p.head = intrakernel.PartHead{Launch: f.launch, Clock: intrakernel.ClockGlobalTimer, Recorded: c.Recorded, Lost: c.Recorded - c.Survived}
	line, err := c.Timeline(f.header)
	if err != nil {
		return p.refusal(err)
	}
	p.line = line
	return nil
}

// readEvents gives the events of a form to read, and writes what the form holds to sum.
func (p *upload) readEvents(u *ingest.Upload, f *form, sum io.Writer, read func(events io.Reader) error) error {
	sum.Write(f.input)
	err := p.walk(u, func(name string, field io.Reader) (more bool, err error) {
		if name != fieldEvents {
			return true, nil
		}
		events, err := unpacked(name, field)
		if err == nil {
			err = read(io.TeeReader(events, sum))
		}
		return false, err
	})
	sum.Write(f.counters)
	return err
}

// walk visits the fields of the form until visit wants no more.
func (p *upload) walk(u *ingest.Upload, visit func(name string, field io.Reader) (more bool, err error)) error {
	var body io.Reader = io.NewSectionReader(u.Reader(), 0, u.Size())
	if u.Gzip() {
		z, err := gzip.NewReader(body)
		if err != nil {
			return unusable("bad_form", "the gzip data of the body is damaged")
		}
		defer z.Close()
		body = io.LimitReader(z, maxFormBytes)
	}
	begin := bufio.NewReaderSize(body, maxPreamble)
	if head, err := begin.Peek(maxPreamble); err == nil && !bytes.Contains(head, []byte("--"+p.o.boundary)) {
		return unusable("bad_form", fmt.Sprintf("no field begins within %d bytes: give the boundary of the body in Content-Type", maxPreamble))
	}
	form := multipart.NewReader(begin, p.o.boundary)
	for {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unusable("bad_form", "the form ends in the middle or is damaged: "+ingest.Printable(err.Error(), 200))
		}
		name := part.FormName()
		switch name {
		case fieldInput, fieldEvents, fieldCounters:
		default:
			return unusable("bad_form", fmt.Sprintf("%q is no field of a capture: there are input, events and counters", ingest.Printable(name, 40)))
		}
		if more, err := visit(name, part); err != nil || !more {
			return err
		}
	}
}

// unpacked reads a field, which may be gzip.
func unpacked(name string, field io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(field, 1<<16)
	if head, _ := in.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, unusable("bad_"+name, name+": the gzip data is damaged: "+err.Error())
	}
	return z, nil
}

// all reads a field of at most so many bytes.
func all(name string, field io.Reader, most int64) ([]byte, error) {
	in, err := unpacked(name, field)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, unusable("bad_form", name+": the form or its gzip data ends in the middle")
	case err != nil:
		return nil, unusable("bad_"+name, name+": read: "+ingest.Printable(err.Error(), 200))
	case int64(len(b)) > most:
		return nil, errors.Join(errLong, unusable("bad_"+name, fmt.Sprintf("%s: more than %d bytes", name, most)))
	}
	return b, nil
}

var errLong = errors.New("a long field")
