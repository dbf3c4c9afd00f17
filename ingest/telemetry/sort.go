package telemetry

import (
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// Bounds of one upload of telemetry.
const (
	// sortBytes is how much is held at most while records are sorted by session; beyond it the session with the most is published.
	sortBytes = 4 << 20
	slabBytes = 4 << 10
	// maxUploadSessions is how many sessions an upload may have; records of later ones are refused.
	maxUploadSessions = 4096
	// maxLoneRefusals is how many refusals of one reason have a part of their own, with their own message; later ones share parts.
	maxLoneRefusals = 100
)

// refusedSession is the session under which refused records are kept: what does not pass the rules does not name a process.
const refusedSession = telemetry.SessionPrefix + "unknown"

// freeSlabs are used by one upload after the other, and given up when they are not needed.
var freeSlabs = sync.Pool{New: func() any { return new([slabBytes]byte) }}

// sorter sorts the records of an upload by session and publishes them, in parts of at most stream.PartBytes. Which records
// come into which part follows from their order alone, so a resend makes the same parts.
type sorter struct {
	answer
	p *ingest.Publisher

	upload  ingest.Digest             // of what the upload says, for records that name no session
	summary *telemetry.SessionSummary // of the upload's one session, nil without

	alerts  func() *telemetry.Alerts // nil without
	owner   *alertOwner              // of the alerts, nil without
	alerted uint64                   // alerts published

	queues map[string]*queue // by session
	order  []*queue          // as they came
	last   *queue
	id     []byte // scratch: a session's id
	frame  []byte // scratch
	body   []byte // scratch: a part
	used   int    // slabs

	refusedPart int // parts of refusedSession so far
	groups      map[string]*refusedGroup
	reasons     []*refusedGroup // as they came
}

// queue is what waits of one session, in slabs.
type queue struct {
	session string
	slabs   []*[slabBytes]byte
	size    int // bytes in them
	events  uint64
	raw     int64 // bytes of the records as they were sent
	part    int   // parts published
}

// refusedGroup is refused records of one reason beyond the first.
type refusedGroup struct {
	reason, detail string
	seen           int
	body           []byte
	first          int // index of the first in body
	events         uint64
	raw            int64
}

// newSorter publishes through p; buf is room for a part.
func newSorter(p *ingest.Publisher, buf []byte) *sorter {
	t := &sorter{p: p, body: buf, queues: map[string]*queue{}, groups: map[string]*refusedGroup{}}
	t.Errors = []recordError{}
	return t
}

// all publishes every record.
func (t *sorter) all(ctx context.Context, in telemetry.Reader) error {
	for {
		r, err := in.Next()
		if err == io.EOF {
			break
		}
		if err == nil && r.Event != nil {
			err = t.add(ctx, r)
		} else if err == nil {
			err = t.refuse(ctx, r, string(r.Refusal.Code), r.Refusal.Field, r.Refusal.Message)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	for _, l := range t.order {
		if err := t.flush(ctx, l); err != nil {
			return err
		}
	}
	if err := t.sendAlerts(ctx); err != nil {
		return err
	}
	for _, g := range t.reasons {
		if err := t.flushGroup(ctx, g); err != nil {
			return err
		}
	}
	t.Sessions = len(t.order)
	return t.sendSummary(ctx)
}

// add puts an accepted record into its session's queue.
func (t *sorter) add(ctx context.Context, r *telemetry.Record) error {
	t.id = appendSession(t.id[:0], r.Event, t.upload)
	l := t.last
	if l == nil || l.session != string(t.id) {
		l = t.queues[string(t.id)]
		if l == nil {
			if len(t.queues) == maxUploadSessions {
				return t.refuse(ctx, r, reject.TooManySessions, "",
					"the upload holds records of more than "+strconv.Itoa(maxUploadSessions)+" processes: send the others in an upload "+
						"of their own")
			}
			l = &queue{session: string(t.id)}
			t.queues[l.session] = l
			t.order = append(t.order, l)
		}
		t.last = l
	}
	t.frame = telemetry.AppendFrame(t.frame[:0], r.Index, r.Event)
	if l.size > 0 && l.size+len(t.frame) > stream.PartBytes {
		if err := t.flush(ctx, l); err != nil {
			return err
		}
	}
	for t.room(l) < len(t.frame) {
		most := t.fullest()
		if most.size == 0 {
			break // cannot be: a frame is far smaller than all slabs together
		}
		if err := t.flush(ctx, most); err != nil {
			return err
		}
	}
	t.put(l, t.frame)
	if t.owner != nil {
		t.owner.saw(r.Event)
	}
	l.events++
	l.raw += r.Size
	t.Accepted++
	t.p.Tally.Accept(1, r.Size)
	return nil
}

// room is how many more bytes the queue can take.
func (t *sorter) room(l *queue) int {
	return len(l.slabs)*slabBytes - l.size + (sortBytes/slabBytes-t.used)*slabBytes
}

func (t *sorter) put(l *queue, b []byte) {
	for len(b) > 0 {
		at := l.size % slabBytes
		if at == 0 {
			l.slabs = append(l.slabs, freeSlabs.Get().(*[slabBytes]byte))
			t.used++
		}
		n := copy(l.slabs[len(l.slabs)-1][at:], b)
		l.size += n
		b = b[n:]
	}
}

// fullest is the queue with the most bytes, the first of several.
func (t *sorter) fullest() *queue {
	best := t.order[0]
	for _, l := range t.order {
		if l.size > best.size {
			best = l
		}
	}
	return best
}

// flush publishes what waits of a session.
func (t *sorter) flush(ctx context.Context, l *queue) error {
	if l.size == 0 {
		return nil
	}
	body := t.body[:0]
	for i, slab := range l.slabs {
		body = append(body, slab[:min(slabBytes, l.size-i*slabBytes)]...)
		freeSlabs.Put(slab)
	}
	t.body = body
	e := t.p.Envelope
	e.Session, e.Kind, e.Part, e.Events, e.Bytes = l.session, stream.KindTelemetry, l.part, l.events, uint64(l.raw)
	t.used -= len(l.slabs)
	clear(l.slabs)
	l.slabs, l.size, l.events, l.raw = l.slabs[:0], 0, 0, 0
	l.part++
	return t.p.Send(ctx, &e, body)
}

// refuse keeps a refused record: its bytes, why, and where in the upload it stood.
func (t *sorter) refuse(ctx context.Context, r *telemetry.Record, reason, field, message string) error {
	message = clipText(message, maxMessageBytes)
	t.Rejected++
	t.p.Tally.Refuse(reason, 1, r.Size)
	if len(t.Errors) < maxListedRefusals {
		t.Errors = append(t.Errors, recordError{r.Index, reason, clipText(field, maxMessageBytes), message})
	}
	text := r.Raw
	if text == nil {
		text = r.Head
	}
	g := t.groups[reason]
	if g == nil {
		g = &refusedGroup{reason: reason}
		t.groups[reason] = g
		t.reasons = append(t.reasons, g)
	}
	if g.seen++; g.seen <= maxLoneRefusals || len(text)+1 > stream.RejectBytes || int64(len(text)) < r.Size {
		return t.sendRefused(ctx, text[:min(len(text), stream.RejectBytes)], 1, r.Size,
			&stream.Reject{Reason: reason, Detail: message, Ref: "record " + strconv.Itoa(r.Index)})
	}
	if len(g.body)+len(text)+1 > stream.RejectBytes {
		if err := t.flushGroup(ctx, g); err != nil {
			return err
		}
	}
	if g.events == 0 {
		g.first, g.detail = r.Index, message
	}
	g.body = append(append(g.body, text...), '\n')
	g.events++
	g.raw += r.Size
	return nil
}

func (t *sorter) flushGroup(ctx context.Context, g *refusedGroup) error {
	if g.events == 0 {
		return nil
	}
	why := &stream.Reject{Reason: g.reason, Ref: "record " + strconv.Itoa(g.first),
		Detail: strconv.FormatUint(g.events, 10) + " records refused for one reason, a line each; the first: " + g.detail}
	err := t.sendRefused(ctx, g.body, g.events, g.raw, why)
	g.body, g.events, g.raw = g.body[:0], 0, 0
	return err
}

func (t *sorter) sendRefused(ctx context.Context, body []byte, events uint64, raw int64, why *stream.Reject) error {
	e := t.p.Envelope
	e.Session, e.Kind, e.Part, e.Events, e.Bytes, e.Reject = refusedSession, stream.KindReject, t.refusedPart, events, uint64(raw), why
	t.refusedPart++
	return t.p.Send(ctx, &e, body)
}
