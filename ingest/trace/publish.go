package trace

import (
	"context"
	"fmt"
	"strconv"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/stream"
)

// Publish implements ingest.Intake.
func (p *upload) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	head := kineto.Head{Complete: p.meta.Complete, Rank: p.meta.Rank, WorldSize: p.meta.WorldSize, Host: p.meta.Host, Job: p.o.job,
		Vendor: p.meta.Vendor, Devices: p.meta.Devices}
	if p.o.rank >= 0 {
		head.Rank = p.o.rank
	}
	if p.o.world > 0 {
		head.WorldSize = p.o.world
	}
	if p.o.host != "" {
		head.Host = p.o.host
	}
	to.Envelope.Kind = stream.KindTrace
	to.Tally.Whole = true
	p.answer.Errors = p.answer.Errors[:0]
	r := &refusals{ctx: ctx, to: to, session: u.Session, answer: &p.answer, groups: map[string]*refusedGroup{}}
	cutter := kineto.Cutter{Head: head, Meta: p.meta, Limit: stream.PartBytes, Refuse: r.refuse,
		Send: func(head *kineto.Head, elements uint64, size int64, body []byte) error {
			e := to.Envelope
			e.Session, e.Part, e.Events, e.Last, e.Bytes = u.Session, head.Index, elements, head.Last, uint64(max(size, 0))
			to.Tally.Accept(elements, int64(e.Bytes))
			return to.Send(ctx, &e, body)
		}}
	if err := cutter.Cut(p.trace(u)); err != nil {
		return err
	}
	return r.finish()
}

// maxLoneRefusals is how many refusals of one reason have a part of their own, with their own words; later ones share parts.
const maxLoneRefusals = 100

// maxMessageBytes bounds the words of a refusal, which may quote the element.
const maxMessageBytes = 512

// refusals publishes what is refused of a trace.
type refusals struct {
	ctx     context.Context
	to      *ingest.Publisher
	session string
	answer  *answer
	parts   int
	groups  map[string]*refusedGroup
	order   []*refusedGroup
}

// refusedGroup is refused elements of one reason beyond the first.
type refusedGroup struct {
	reason, detail string
	seen           int
	body           []byte
	first          int64 // where the first in body stood
	events         uint64
	raw            int64
}

func (r *refusals) refuse(of *kineto.Refusal) error {
	size := max(of.Size, 0)
	r.to.Tally.Refuse(of.Reason, 1, size)
	words := ingest.Printable(of.Detail, maxMessageBytes)
	if len(r.answer.Errors) < maxListedErrors {
		r.answer.Errors = append(r.answer.Errors, elementError{of.Offset, of.Reason, words})
	}
	g := r.groups[of.Reason]
	if g == nil {
		g = &refusedGroup{reason: of.Reason}
		r.groups[of.Reason] = g
		r.order = append(r.order, g)
	}
	if g.seen++; g.seen <= maxLoneRefusals || len(of.Text)+1 > stream.RejectBytes {
		return r.send(of.Text[:min(len(of.Text), stream.RejectBytes)], 1, size, &stream.Reject{Reason: of.Reason, Detail: words,
			Ref: ref(of.Offset)})
	}
	if len(g.body)+len(of.Text)+1 > stream.RejectBytes {
		if err := r.flush(g); err != nil {
			return err
		}
	}
	if g.events == 0 {
		g.first, g.detail = of.Offset, words
	}
	g.body = append(append(g.body, of.Text...), '\n')
	g.events++
	g.raw += size
	return nil
}

func ref(offset int64) string { return "byte " + strconv.FormatInt(offset, 10) }

// finish publishes what is gathered.
func (r *refusals) finish() error {
	for _, g := range r.order {
		if err := r.flush(g); err != nil {
			return err
		}
	}
	return nil
}

func (r *refusals) flush(g *refusedGroup) error {
	if g.events == 0 {
		return nil
	}
	err := r.send(g.body, g.events, g.raw, &stream.Reject{Reason: g.reason, Ref: ref(g.first),
		Detail: fmt.Sprintf("%d elements refused for one reason, a line each; the first: %s", g.events, g.detail)})
	g.body, g.events, g.raw = g.body[:0], 0, 0
	return err
}

// send publishes refused elements. Their parts count down from -1, those of the events up from 0.
func (r *refusals) send(body []byte, events uint64, size int64, why *stream.Reject) error {
	r.parts++
	e := r.to.Envelope
	e.Session, e.Kind, e.Part, e.Events, e.Bytes, e.Reject = r.session, stream.KindReject, -r.parts, events, uint64(size), why
	return r.to.Send(r.ctx, &e, body)
}
