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

// readForm reads a form: once for the header and the counters, which are small, and once for the events, of which only those are kept that
// the header wants.
func (p *upload) readForm(u *ingest.Upload, sum hash.Hash, most int) error {
	var input, counters []byte
	seen := map[string]bool{}
	err := p.walk(u, func(name string, field io.Reader) (more bool, err error) {
		if seen[name] {
			return false, unusable("bad_form", fmt.Sprintf("the form has the field %s twice", name))
		}
		seen[name] = true
		switch name {
		case fieldInput:
			input, err = all(name, field, intrakernel.MaxHeader)
		case fieldCounters:
			counters, err = all(name, field, maxCounterBytes)
		}
		return true, err
	})
	if err != nil {
		return p.refusal(err)
	}
	for _, name := range []string{fieldInput, fieldEvents, fieldCounters} {
		if !seen[name] {
			return unusable("bad_form", "the form has no field "+name+": send input, events and counters")
		}
	}
	h, err := intrakernel.ParseHeader(input)
	if err != nil {
		return p.refusal(err)
	}
	launch, no := parseLaunch(input)
	if no != nil {
		return no
	}
	if n, err := h.Session.EventBytes(); err == nil && n > maxEventBytes {
		return unusable("bad_input", fmt.Sprintf("input: session: grid_x %d × warps %d × per_warp_cap %d × %d bytes are %d, and at most %d "+
			"are read",
			h.Session.Blocks, h.Session.Warps, h.Session.Cap, intrakernel.RecordSize, n, int64(maxEventBytes)))
	}
	h.Options.CompleteEvents, h.Most = true, most
	sum.Write(input)
	var c *intrakernel.Capture
	err = p.walk(u, func(name string, field io.Reader) (more bool, err error) {
		if name != fieldEvents {
			return true, nil
		}
		events, err := unpacked(name, field)
		if err == nil {
			c, err = intrakernel.Collect(io.TeeReader(events, sum), bytes.NewReader(counters), h)
		}
		return false, err
	})
	if err != nil {
		return p.refusal(err)
	}
	sum.Write(counters)
	p.head = intrakernel.PartHead{Launch: launch, Clock: intrakernel.ClockGlobalTimer, Recorded: c.Recorded, Lost: c.Recorded - c.Survived}
	line, err := c.Timeline(h)
	if err != nil {
		return p.refusal(err)
	}
	p.line = line
	return nil
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
	form := multipart.NewReader(body, p.o.boundary)
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
		return nil, unusable("bad_"+name, fmt.Sprintf("%s: more than %d bytes", name, most))
	}
	return b, nil
}
