package aggregate

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Reject is refused bytes on their way to the table rejects.
type Reject struct {
	Reason, Detail string
	Type           string // of the refused line, "" when it has none that is known
	Events         uint64
	Payload        []byte
	Bytes          uint64 // of all that was refused, when the payload is only its beginning
	Ref            string // where the rest is
	Whole          bool   // keep every byte: a later version will read it
}

// rejectKind is what equal rejects of one part share.
type rejectKind struct {
	reason string
	typ    string
}

// rejectRun is rejects of one kind beyond the first few: a file of a hundred million broken lines must not become a hundred million rows.
type rejectRun struct {
	rows, events, bytes uint64
	first               Reject // of those beyond
}

// maxRejectRows is how many rejects of one reason and type are written for one part; the rest share one row that counts them and says where
// they are.
const maxRejectRows = 100

// again counts a reject towards its run and reports whether it shares the run's row.
func (p *Part) again(r *Reject) bool {
	if r.Whole || p.Env.Kind == stream.KindReject {
		return false
	}
	if p.rejects == nil {
		p.rejects = map[rejectKind]*rejectRun{}
	}
	kind := rejectKind{r.Reason, r.Type}
	run := p.rejects[kind]
	if run == nil {
		run = &rejectRun{}
		p.rejects[kind] = run
	}
	if run.rows++; run.rows <= maxRejectRows {
		return false
	}
	if run.rows == maxRejectRows+1 {
		run.first = *r
		run.first.Payload = bytes.Clone(r.Payload[:min(len(r.Payload), stream.RejectBytes)])
		run.first.Ref = p.Ref()
	}
	run.events += r.Events
	run.bytes += max(r.Bytes, uint64(len(r.Payload)))
	return true
}

// flushRejects writes the shared rows of a part. Their events are counted already.
func (f *Fold) flushRejects(p *Part) {
	for kind, run := range p.rejects {
		if run.rows <= maxRejectRows {
			continue
		}
		r := run.first
		r.Type, r.Events, r.Bytes = kind.typ, run.events, run.bytes
		r.Detail = fmt.Sprintf("%d rejects like this one and the %d before it in one part of %d bytes; the payload is the first of them",
			run.rows-maxRejectRows, maxRejectRows, p.Env.Bytes)
		f.writeReject(p, &r)
	}
}

// Reject stores refused bytes and counts them. The first stream.RejectBytes are copied, or all of them when they are to be kept whole.
func (f *Fold) Reject(p *Part, r Reject) {
	f.CountReject(p, r.Reason, r.Events)
	if !p.again(&r) {
		f.writeReject(p, &r)
	}
}

// CountReject counts refused events without a row of them: the source writes one later, by WriteRefused.
func (f *Fold) CountReject(p *Part, reason string, events uint64) {
	s := p.Session
	f.Touch(s)
	s.Delta.Rejects += events
	p.usage.rejected += events
	if p.Env.Asked != "" {
		p.refused = stream.AddRejected(p.refused, reason, events, maxVerdictReasons)
	}
	f.metrics.rejects.WithLabelValues(s.Key.Tenant, reason).Add(float64(events))
}

// WriteRefused writes a row for refused events that are counted already and of which no bytes are kept; at is nanoseconds since the epoch.
func (f *Fold) WriteRefused(s *Session, r *Reject, at int64) {
	f.Touch(s)
	b := f.Out.Batch(table.Rejects.Table, rows.RawDayPartition(s.LastReceived, s.RetentionDays))
	table.Rejects.Append(b, &table.RejectRow{
		HeadRow:    s.Head(),
		At:         at,
		Source:     s.source,
		Reason:     r.Reason,
		Detail:     r.Detail,
		Type:       r.Type,
		Events:     r.Events,
		Bytes:      0,
		Payload:    nil,
		PayloadRef: "",
		Stage:      stageFold,
		ReceivedAt: s.LastReceived,
	})
	f.Out.Saw(s.LastReceived)
}

// Stages of the column stage.
const (
	stageDoor = "door"
	stageFold = "fold"
)

// replayed writes what became of a part that brings refused bytes again.
func (f *Fold) replayed(p *Part) {
	id := p.Env.Replays()
	if id == "" {
		return
	}
	c := p.Counted()
	table.RejectReplays.Append(f.Out.Batch(table.RejectReplays.Table, p.Raw), &table.RejectReplayRow{
		HeadRow: p.Session.Head(), At: p.Env.ReceivedAt, RejectID: id, Stored: c.Stored + c.Duplicates, Refused: c.rejected,
		ReceivedAt: p.Env.ReceivedAt,
	})
	f.Out.Saw(p.Env.ReceivedAt)
}

func (f *Fold) writeReject(p *Part, r *Reject) {
	if p.Env.Replays() != "" {
		return // it has its row
	}
	stage := stageFold
	if p.Env.Kind == stream.KindReject {
		stage = stageDoor
	}
	r.Bytes = max(r.Bytes, uint64(len(r.Payload)))
	if !r.Whole && len(r.Payload) > stream.RejectBytes {
		r.Payload = r.Payload[:stream.RejectBytes]
	}
	if uint64(len(r.Payload)) < r.Bytes && r.Ref == "" {
		r.Ref = p.Ref()
	}
	p.keep = p.keep || r.Ref != ""
	table.Rejects.Append(f.Out.Batch(table.Rejects.Table, p.Raw), &table.RejectRow{
		HeadRow:    p.Session.Head(),
		At:         p.Env.ReceivedAt,
		Source:     p.Env.Source,
		Reason:     r.Reason,
		Detail:     r.Detail,
		Type:       r.Type,
		Events:     r.Events,
		Bytes:      r.Bytes,
		Payload:    r.Payload,
		PayloadRef: r.Ref,
		Stage:      stage,
		ReceivedAt: p.Env.ReceivedAt,
	})
	f.Out.Saw(p.Env.ReceivedAt)
}

// Ref says where all of the refused bytes can be read: the object, or the INGEST message and line, for as long as that is kept.
func (p *Part) Ref() string {
	if p.Env.Object != "" {
		return stream.ObjectRef + p.Env.Object
	}
	return "ingest:" + strconv.FormatUint(p.Seq, 10) + ":" + strconv.Itoa(p.Line)
}

// rejectPart stores what the gateway refused.
func (f *Fold) rejectPart(p *Part, body []byte) {
	r := Reject{Reason: gpuflight.ReasonBadJSON, Events: p.Env.Events, Payload: body, Bytes: p.Env.Bytes}
	if p.Env.Reject != nil {
		r.Reason, r.Detail, r.Ref = p.Env.Reject.Reason, p.Env.Reject.Detail, p.Env.Reject.Ref
	}
	if r.Ref == "" && uint64(len(body)) < r.Bytes {
		r.Ref = "cut"
	}
	f.Reject(p, r)
}

// markKept marks the objects to which only rejects refer as the first to be deleted when their store is full, and says which chunk has the
// rejects: whoever finds that it is in ClickHouse, and no reject there, may delete them. If that fails they stay until they expire, like
// all objects.
func (o *owner) markKept(ctx context.Context) {
	for _, name := range o.keptParts {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		if info, err := o.streams.Parts.GetInfo(try, name); err == nil && info.Description == "" {
			meta := info.ObjectMeta
			meta.Description = stream.KeptForReject
			meta.Metadata = map[string]string{stream.KeptPartition: strconv.Itoa(o.partition), stream.KeptChunk: strconv.FormatUint(o.number, 10)}
			o.streams.Parts.UpdateMeta(try, name, meta)
		}
		cancel()
	}
	o.keptParts = o.keptParts[:0]
}
