package gpuflight

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// cutting is what is needed to cut an upload, lent while that is done.
type cutting struct{ *cutters }

// cutters have buffers of some 12 KiB.
type cutters struct {
	cutter cutter
	reader lineReader
}

var idle = sync.Pool{New: func() any { return new(cutters) }}

func (c *cutting) lend() {
	if c.cutters == nil {
		c.cutters = idle.Get().(*cutters)
	}
}

func (c *cutting) giveBack() {
	if c.cutters != nil {
		c.cutter.src, c.cutter.buf, c.reader.src = nil, nil, nil // the gateway's
		idle.Put(c.cutters)
		c.cutters = nil
	}
}

// publish cuts what the cutter was set to and publishes its pieces.
func (p *upload) publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	to.Envelope.Kind, to.Envelope.Host, to.Envelope.Channel = stream.KindGPUFlight, p.host, p.channel
	to.Tally.Whole = true
	if p.missing != "" {
		return p.publishRefused(ctx, u, to)
	}
	c := &p.cutter
	for part := 0; ; part++ {
		got, err := c.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e := to.Envelope
		e.Part = part
		body := got.body
		if got.kind == pieceGiant {
			var name string
			name, got, err = giant(ctx, to, c, part)
			if err != nil {
				return err
			}
			body = got.body
			if got.kind == pieceGiant {
				e.Object, body = name, nil
			}
		}
		e.Events, e.Bytes, e.Last = got.events, uint64(got.size), c.last()
		if got.kind == pieceReject {
			e.Kind = stream.KindReject
			e.Reject = &stream.Reject{Reason: got.reason, Detail: got.detail, Ref: "line " + strconv.FormatInt(got.line, 10)}
		}
		if err := to.Send(ctx, &e, body); err != nil {
			return err
		}
		p.count(&to.Tally, got)
	}
}

// giant stores a line that does not fit into a message, and returns the object's name and what became of the line.
func giant(ctx context.Context, to *ingest.Publisher, c *cutter, part int) (name string, got piece, err error) {
	name, err = to.Object(ctx, part, c, c.maxLine)
	var torn *ingest.TornError
	if err != nil && !errors.Is(err, errGiantTooLong) && !errors.As(err, &torn) {
		return "", piece{}, err
	}
	got, err = c.endGiant()
	return name, got, err
}

// publishRefused publishes one reject that stands for the whole upload.
func (p *upload) publishRefused(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	all := piece{kind: pieceReject, line: 1, reason: p.reason, detail: p.missing, whole: true}
	head := make([]byte, 0, stream.RejectBytes)
	for {
		got, err := p.cutter.next()
		if err == io.EOF {
			break
		}
		if err == nil && got.kind == pieceGiant {
			got, err = p.cutter.endGiant()
			all.whole = false
			if got.body == nil {
				got.body = u.Buffer()[:stream.RejectBytes] // where the cutter leaves the beginning
			}
		}
		if err != nil {
			return err
		}
		head = append(head, got.body[:min(len(got.body), cap(head)-len(head))]...)
		all.size += got.size
		all.lines += got.lines
		all.events += got.events
		all.whole = all.whole && (got.kind == piecePart || got.whole)
	}
	all.events = max(all.events, 1)
	all.body, all.whole = head, all.whole && all.size == int64(len(head))
	e := to.Envelope
	e.Kind, e.Events, e.Bytes, e.Last = stream.KindReject, all.events, uint64(all.size), true
	e.Reject = &stream.Reject{Reason: all.reason, Detail: all.detail}
	if err := to.Send(ctx, &e, head); err != nil {
		return err
	}
	p.count(&to.Tally, all)
	return nil
}

// count enters a piece into the upload's tally. An event is a row; a line without one costs as well.
func (p *upload) count(t *ingest.Tally, got piece) {
	t.Events += uint64(got.lines)
	if got.kind != pieceReject {
		t.Accept(got.events, got.size)
		return
	}
	t.Refuse(got.reason, got.events, got.size)
	t.Whole = t.Whole && got.whole
	if len(p.errors) < maxListedErrors {
		e := lineError{Line: got.line, Reason: got.reason}
		if kind, _ := gpuflight.Peek(got.body); kind != gpuflight.TypeUnknown {
			e.Type = kind.String()
		}
		p.errors = append(p.errors, e)
	}
}
