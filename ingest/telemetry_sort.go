package ingest

import (
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// Bounds of one upload of telemetry.
const (
	// sortBytes are held at most while records are sorted by session; beyond it the session with the most goes out.
	sortBytes = 4 << 20
	sortBlock = 4 << 10
	// maxUploadSessions an upload may have; records of later ones are refused.
	maxUploadSessions = 4096
	// maxLoneRefusals of one reason have a part of their own, with their own message; later ones share parts.
	maxLoneRefusals = 100
)

const (
	// refusedTelemetry is the session under which refused records are kept: what does not pass the rules names no process.
	refusedTelemetry = stream.MemoryPrefix + "unknown"
	// reasonTooManySessions is the gateway's own, beside the codes of proto/telemetry.
	reasonTooManySessions = "too_many_sessions"
)

// sortBlocks are shared by the uploads that follow each other, and given up when nobody needs them.
var sortBlocks = sync.Pool{New: func() any { return new([sortBlock]byte) }}

// telemetrySorter sorts the records of an upload by session and publishes them, in parts of at most stream.PartBytes. Which records
// come into which part follows from their order alone, so a resend makes the same parts.
type telemetrySorter struct {
	telemetryReceipt
	books tally
	p     *publisher
	g     *Gateway
	dry   bool // only count

	partitions map[int]bool // of the parts, when it only counts

	upload  digest                    // of what the upload says, for records that name no session
	summary *telemetry.SessionSummary // of the upload's one session, nil without

	alerts  func() *telemetry.Alerts // nil without
	owner   *alertOwner              // of the alerts, nil without
	alerted uint64                   // alerts published

	lanes map[string]*telemetryLane // by session
	order []*telemetryLane          // as they came
	last  *telemetryLane
	id    []byte // scratch: a session's id
	frame []byte // scratch
	body  []byte // scratch: a part
	used  int    // blocks

	refusedPart int // parts of refusedTelemetry so far
	groups      map[string]*refusedGroup
	reasons     []*refusedGroup // as they came
}

// telemetryLane is what waits of one session, in blocks.
type telemetryLane struct {
	session string
	blocks  []*[sortBlock]byte
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

// newTelemetrySorter publishes through p; buf is room for a part.
func newTelemetrySorter(g *Gateway, p *publisher, buf []byte, dry bool) *telemetrySorter {
	t := &telemetrySorter{g: g, p: p, body: buf, dry: dry, lanes: map[string]*telemetryLane{}, partitions: map[int]bool{}, groups: map[string]*refusedGroup{}}
	t.Errors = []recordError{}
	t.books.kind = stream.KindTelemetry
	t.books.refusedBytes, t.books.refusedEvents = map[string]int64{}, map[string]uint64{}
	return t
}

// all publishes every record. All of it is acknowledged when it returns without error.
func (t *telemetrySorter) all(ctx context.Context, in telemetry.Reader) error {
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
	if err := t.sendSummary(ctx); err != nil {
		return err
	}
	return t.p.flush(ctx)
}

// add puts an accepted record into its session's lane.
func (t *telemetrySorter) add(ctx context.Context, r *telemetry.Record) error {
	t.id = appendTelemetrySession(t.id[:0], r.Event, t.upload)
	l := t.last
	if l == nil || l.session != string(t.id) {
		if l = t.lanes[string(t.id)]; l == nil {
			if len(t.lanes) == maxUploadSessions {
				return t.refuse(ctx, r, reasonTooManySessions, "", "the upload holds records of more than "+strconv.Itoa(maxUploadSessions)+" processes: send the others in an upload of their own")
			}
			l = &telemetryLane{session: string(t.id)}
			t.lanes[l.session] = l
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
			break // cannot be: a frame is far smaller than all blocks together
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
	t.books.bytes += r.Size
	return nil
}

// room is how many more bytes the lane can take.
func (t *telemetrySorter) room(l *telemetryLane) int {
	return len(l.blocks)*sortBlock - l.size + (sortBytes/sortBlock-t.used)*sortBlock
}

func (t *telemetrySorter) put(l *telemetryLane, b []byte) {
	for len(b) > 0 {
		at := l.size % sortBlock
		if at == 0 {
			l.blocks = append(l.blocks, sortBlocks.Get().(*[sortBlock]byte))
			t.used++
		}
		n := copy(l.blocks[len(l.blocks)-1][at:], b)
		l.size += n
		b = b[n:]
	}
}

// fullest is the lane with the most bytes, the first of several.
func (t *telemetrySorter) fullest() *telemetryLane {
	best := t.order[0]
	for _, l := range t.order {
		if l.size > best.size {
			best = l
		}
	}
	return best
}

// flush publishes what waits of a session.
func (t *telemetrySorter) flush(ctx context.Context, l *telemetryLane) error {
	if l.size == 0 {
		return nil
	}
	body := t.body[:0]
	for i, block := range l.blocks {
		body = append(body, block[:min(sortBlock, l.size-i*sortBlock)]...)
		sortBlocks.Put(block)
	}
	t.body = body
	e := t.p.envelope
	e.Session, e.Kind, e.Part, e.Events, e.Bytes = l.session, stream.KindTelemetry, l.part, l.events, uint64(l.raw)
	t.used -= len(l.blocks)
	clear(l.blocks)
	l.blocks, l.size, l.events, l.raw = l.blocks[:0], 0, 0, 0
	l.part++
	t.books.parts[0]++
	return t.send(ctx, &e, body)
}

// send publishes a part on its session's subject.
func (t *telemetrySorter) send(ctx context.Context, e *stream.Envelope, body []byte) error {
	t.p.partition = stream.Partition(e.Tenant, e.Session, t.g.streams.Partitions)
	if t.dry {
		t.partitions[t.p.partition] = true
		return nil
	}
	t.p.subject = stream.IngestSubject(t.p.partition, e.Tenant, stream.SessionToken(e.Session))
	return t.p.send(ctx, e, body)
}

// refuse keeps a refused record: its bytes, why, and where in the upload it stood.
func (t *telemetrySorter) refuse(ctx context.Context, r *telemetry.Record, reason, field, message string) error {
	message = clipText(message, maxMessageBytes)
	t.Rejected++
	t.books.refusedBytes[reason] += r.Size
	t.books.refusedEvents[reason]++
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
		return t.sendRefused(ctx, text[:min(len(text), stream.RejectBytes)], 1, r.Size, &stream.Reject{Reason: reason, Detail: message, Ref: "record " + strconv.Itoa(r.Index)})
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

func (t *telemetrySorter) flushGroup(ctx context.Context, g *refusedGroup) error {
	if g.events == 0 {
		return nil
	}
	why := &stream.Reject{Reason: g.reason, Ref: "record " + strconv.Itoa(g.first),
		Detail: strconv.FormatUint(g.events, 10) + " records refused for one reason, a line each; the first: " + g.detail}
	err := t.sendRefused(ctx, g.body, g.events, g.raw, why)
	g.body, g.events, g.raw = g.body[:0], 0, 0
	return err
}

func (t *telemetrySorter) sendRefused(ctx context.Context, body []byte, events uint64, raw int64, why *stream.Reject) error {
	e := t.p.envelope
	e.Session, e.Kind, e.Part, e.Events, e.Bytes, e.Reject = refusedTelemetry, stream.KindReject, t.refusedPart, events, uint64(raw), why
	t.refusedPart++
	t.books.parts[1]++
	return t.send(ctx, &e, body)
}
