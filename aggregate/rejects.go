package aggregate

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// rejectRow is one refused piece on its way to the rejects table.
type rejectRow struct {
	reason, detail string
	typ            string // of the refused line, "" when it has none that is known
	events         uint64
	payload        []byte
	bytes          uint64 // of the refused piece when payload is only its beginning
	ref            string // where the rest is
	whole          bool   // keep every byte: a later version will read it
}

// rejectKind is what equal rejects of one part share.
type rejectKind struct {
	reason string
	typ    string
}

// rejectRun is rejects of one kind beyond the first few: a file of a hundred million broken lines must not become a hundred million rows.
type rejectRun struct {
	rows, events, bytes uint64
	first               rejectRow // of those beyond
}

// maxRejectRows of one reason and type are written for one part; the rest share one row that counts them and says where they are.
const maxRejectRows = 100

// again counts a reject towards its run and reports whether it shares the run's row.
func (p *part) again(r *rejectRow) bool {
	if r.whole || p.env.Kind == stream.KindReject {
		return false
	}
	if p.rejects == nil {
		p.rejects = map[rejectKind]*rejectRun{}
	}
	kind := rejectKind{r.reason, r.typ}
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
		run.first.payload = bytes.Clone(r.payload[:min(len(r.payload), stream.RejectBytes)])
		run.first.ref = p.ref()
	}
	run.events += r.events
	run.bytes += max(r.bytes, uint64(len(r.payload)))
	return true
}

// flushRejects writes the shared rows of a part. Their events are counted already.
func (f *folder) flushRejects(p *part) {
	for kind, run := range p.rejects {
		if run.rows <= maxRejectRows {
			continue
		}
		r := run.first
		r.typ, r.events, r.bytes = kind.typ, run.events, run.bytes
		r.detail = fmt.Sprintf("%d rejects like this one and the %d before it in one part of %d bytes; the payload is the first of them", run.rows-maxRejectRows, maxRejectRows, p.env.Bytes)
		f.writeReject(p, &r)
	}
}

// reject stores a refused piece and counts it. The first stream.RejectBytes are copied, everything of a piece kept whole.
func (f *folder) reject(p *part, r rejectRow) {
	s := p.s
	f.touch(s)
	s.delta.rejects += r.events
	p.usage.rejected += r.events
	if p.env.Asked != "" {
		p.refused = stream.AddRejected(p.refused, r.reason, r.events, maxVerdictReasons)
	}
	f.metrics.rejects.WithLabelValues(s.key.tenant, r.reason).Add(float64(r.events))
	if !p.again(&r) {
		f.writeReject(p, &r)
	}
}

func (f *folder) writeReject(p *part, r *rejectRow) {
	r.bytes = max(r.bytes, uint64(len(r.payload)))
	if !r.whole && len(r.payload) > stream.RejectBytes {
		r.payload = r.payload[:stream.RejectBytes]
	}
	if uint64(len(r.payload)) < r.bytes && r.ref == "" {
		r.ref = p.ref()
	}
	p.keep = p.keep || r.ref != ""
	t := &table.Rejects
	b := f.out.batch(t.Table, p.raw)
	t.Tenant.AppendString(b, p.s.key.tenant)
	t.SessionID.AppendString(b, p.s.key.id)
	t.At.Append(b, p.env.ReceivedAt)
	t.Source.AppendString(b, p.env.Source)
	t.Reason.AppendString(b, r.reason)
	t.Detail.Append(b, r.detail)
	t.Type.AppendString(b, r.typ)
	t.Events.Append(b, r.events)
	t.Bytes.Append(b, r.bytes)
	t.Payload.AppendBytes(b, r.payload)
	t.PayloadRef.Append(b, r.ref)
	t.ReceivedAt.Append(b, p.env.ReceivedAt)
	f.out.saw(p.env.ReceivedAt)
}

// ref says where the whole piece can be read: the object or the INGEST message and line, as long as the replay window lasts.
func (p *part) ref() string {
	if p.env.Object != "" {
		return "object:" + p.env.Object
	}
	return "ingest:" + strconv.FormatUint(p.seq, 10) + ":" + strconv.Itoa(p.line)
}

// rejectPart stores what the gateway refused.
func (f *folder) rejectPart(p *part, body []byte) {
	r := rejectRow{reason: gpuflight.ReasonBadJSON, events: p.env.Events, payload: body, bytes: p.env.Bytes}
	if p.env.Reject != nil {
		r.reason, r.detail, r.ref = p.env.Reject.Reason, p.env.Reject.Detail, p.env.Reject.Ref
	}
	if r.ref == "" && uint64(len(body)) < r.bytes {
		r.ref = "cut"
	}
	f.reject(p, r)
}
