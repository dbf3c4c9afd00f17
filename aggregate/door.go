package aggregate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// Gateways say in INGEST itself what they have stored there, behind it (proto/stream/door.go). An owner that comes to that has passed all
// of it, so what it did not meet is lost: somebody deleted it, or a file of NATS is gone. An owner remembers which parts it has passed, and
// so does its chunk of the last seconds: a successor may stand between a loss and what tells it.

const (
	// maxPassed is how many parts an owner remembers to have passed, 256 KiB, maxPassedChunk how many a chunk has, passedFor how far these
	// reach back: gateways say every 5 s what they have stored.
	maxPassed      = 1 << 15
	maxPassedChunk = 1 << 12
	passedFor      = 15 * time.Second
)

// passed are the sequences in INGEST that a partition's owners have passed: all parts after from.
type passed struct {
	from uint64
	seqs []uint64
	cuts []passedCut // of the chunks of the last seconds, oldest first
}

// passedCut is how far the partition was at a time.
type passedCut struct {
	at  time.Time
	seq uint64
}

func (p *passed) add(seq uint64) {
	if n := len(p.seqs); n > 0 && seq <= p.seqs[n-1] || seq <= p.from {
		return
	}
	if len(p.seqs) == 2*maxPassed {
		p.from = p.seqs[maxPassed-1]
		p.seqs = append(p.seqs[:0], p.seqs[maxPassed:]...)
	}
	p.seqs = append(p.seqs, seq)
}

// lacks reports whether no part at seq was passed, for certain.
func (p *passed) lacks(seq uint64) bool {
	if seq <= p.from {
		return false
	}
	_, met := slices.BinarySearch(p.seqs, seq)
	return !met
}

// publish returns what a chunk says that reaches to position.
func (p *passed) publish(now time.Time, position uint64) *stream.Passed {
	for len(p.cuts) > 1 && now.Sub(p.cuts[1].at) >= passedFor {
		p.cuts = p.cuts[1:]
	}
	from := p.from
	if len(p.cuts) > 0 && now.Sub(p.cuts[0].at) >= passedFor {
		from = max(from, p.cuts[0].seq)
	}
	p.cuts = append(p.cuts, passedCut{now, position})
	at, _ := slices.BinarySearch(p.seqs, from+1)
	if over := len(p.seqs) - at - maxPassedChunk; over > 0 {
		at += over
		from = p.seqs[at-1]
	}
	out := &stream.Passed{From: from}
	for _, seq := range p.seqs[at:] {
		out.Seqs = binary.AppendUvarint(out.Seqs, seq-from)
		from = seq
	}
	return out
}

// load takes what the chunk says from which an owner goes on, nil where that does not say it.
func (p *passed) load(c *stream.Passed, position uint64) {
	*p = passed{from: position}
	if c == nil {
		return
	}
	p.from = c.From
	seq := c.From
	for src := c.Seqs; len(src) > 0; {
		d, n := binary.Uvarint(src)
		if n <= 0 || d == 0 {
			*p = passed{from: position}
			return
		}
		seq, src = seq+d, src[n:]
		p.seqs = append(p.seqs, seq)
	}
}

// lostUpload is an upload of which parts are lost.
type lostUpload struct {
	of     stream.DoorCount
	listed *stream.DoorUpload
	parts  []int
	events uint64
}

// door compares what a gateway says that it stored with what was passed, and tells what is lost. It may do so again for the same after a
// takeover.
func (o *owner) door(ctx context.Context, p *Part, compressed []byte) error {
	body, err := stream.DecodeBody(nil, compressed)
	var d stream.Door
	if err == nil {
		d, err = stream.ParseDoor(body)
	}
	if err != nil {
		o.w.metrics.parts.WithLabelValues("bad").Inc()
		o.log.Error("what a gateway says that it stored cannot be read; whether INGEST lost some of that stays unknown", "seq", p.Seq,
			"err", err)
		return nil
	}
	if o.replaying || o.lost != nil && p.Seq <= o.lost.To { // counted before INGEST lost its end, or perhaps
		return nil
	}
	o.fold.stored(&d)
	var lost []lostUpload
	first, last, parts := uint64(0), uint64(0), uint64(0)
	gone := func(seq uint64) bool {
		if seq == 0 || seq >= p.Seq || !o.passed.lacks(seq) {
			return false
		}
		if parts++; parts == 1 {
			first = seq
		}
		first, last = min(first, seq), max(last, seq)
		return true
	}
	for i := range d.Uploads {
		u := &d.Uploads[i]
		l := lostUpload{of: d.Counts[u.Count], listed: u}
		for _, part := range u.Parts {
			if gone(part.Seq) {
				l.parts = append(l.parts, part.Part)
				l.events += part.Events
			}
		}
		if len(l.parts) > 0 {
			lost = append(lost, l)
			if !u.Again {
				o.fold.lost(&d, &l.of, l.events)
			}
		}
	}
	uncounted := gone(d.After)
	if parts == 0 {
		return nil
	}
	return o.tellParts(ctx, lost, uncounted, stream.Loss{Stream: stream.IngestStream, Partition: o.partition, From: first, To: last,
		At: time.Now().UnixNano()}, parts)
}

// tellParts tells that parts are gone that nobody had folded: in the log, the metrics and the status, in the findings, and in the record of
// accepted uploads, from which gateways take them again. It has to be done before the partition goes on: nothing else tells it.
func (o *owner) tellParts(ctx context.Context, lost []lostUpload, uncounted bool, l stream.Loss, parts uint64) error {
	tenants := map[string]uint64{} // events
	uploads := map[string]int{}
	for i := range lost {
		tenants[lost[i].of.Tenant] += lost[i].events
		uploads[lost[i].of.Tenant]++
	}
	names := make([]string, 0, len(tenants))
	for name := range tenants {
		names = append(names, name)
	}
	slices.Sort(names)
	l.Why = fmt.Sprintf("%d of them were gone before they were folded, which gateways had stored", parts)
	l.Missing = fmt.Sprintf("%d uploads of tenants %.200s lack parts: sent again, these are taken", len(lost), strings.Join(names, ", "))
	if len(lost) == 0 {
		l.Missing = "it is what a gateway says that it stored: whether more is missing is not known"
	}
	o.w.metrics.parts.WithLabelValues("lost").Add(float64(parts))
	o.w.metrics.lost.WithLabelValues(l.Stream).Inc()
	o.w.metrics.brokenAt.Set(float64(l.At) / 1e9)
	o.log.Error("NATS has lost data: "+l.String(), "stream", l.Stream, "from", l.From, "to", l.To, "do", "warpline audit names the uploads")
	o.w.setStatus(o.partition, func(st *PartitionStatus) { st.Loss, st.LossAt = l.String(), time.Unix(0, l.At) })
	for i := range lost {
		if lost[i].listed.Last == 0 {
			continue // it has no record: sent again, it is new
		}
		if err := o.insist(ctx, func(ctx context.Context) error { return o.reopen(ctx, &lost[i], l.At) }); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := o.insist(ctx, func(ctx context.Context) error {
			_, err := broker.Find(ctx, o.streams.Marks, broker.FindingUnfolded, l.Stream, o.partition, uint64(uploads[name]), broker.Place{
				First: l.From, Last: l.To, Tenant: name, Detail: fmt.Sprintf("parts of %d uploads with %d events", uploads[name], tenants[name])})
			return err
		}); err != nil {
			return err
		}
	}
	if !uncounted {
		return nil
	}
	return o.insist(ctx, func(ctx context.Context) error {
		_, err := broker.Find(ctx, o.streams.Marks, broker.FindingUnfolded, l.Stream, o.partition, 1, broker.Place{First: l.From, Last: l.To,
			Detail: "what a gateway said that it had stored"})
		return err
	})
}

// insist does something until it is done. Where there is no room for it, the log has it.
func (o *owner) insist(ctx context.Context, do func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := do(try)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case broker.IsFull(err):
			o.log.Error("there is no room to note that parts are lost: their uploads are not taken again, raise --bucket-max", "err", err)
			return nil
		}
		o.retry("lost_parts", err)
		sleep(ctx, 500*time.Millisecond)
	}
}

// reopen notes in the record of uploads which parts of one are lost. Other partitions may have noted others.
func (o *owner) reopen(ctx context.Context, l *lostUpload, now int64) error {
	token := stream.ManySessionsToken
	if l.listed.Own {
		token = stream.SessionToken(l.listed.Session)
	}
	key := stream.LostUploadKey(l.of.Tenant, token, l.listed.Last)
	for {
		note := stream.LostUpload{Session: l.listed.Session, Window: l.listed.Window, Source: l.of.Source, At: now}
		entry, err := o.streams.Windows.Get(ctx, key)
		revision := uint64(0)
		switch {
		case err == nil:
			revision = entry.Revision()
			if old, err := stream.ParseLostUpload(entry.Value()); err == nil {
				note = old
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return fmt.Errorf("the record of accepted uploads: %w", err)
		}
		if note.Add(l.parts, l.events) == 0 {
			return nil
		}
		if err := putLost(ctx, o.streams.Windows, key, &note, revision); err == nil || !broker.IsWrongSequence(err) {
			return err
		}
	}
}

// putLost writes the note of a lost upload if the key is still at revision (0: absent).
func putLost(ctx context.Context, kv jetstream.KeyValue, key string, note *stream.LostUpload, revision uint64) error {
	body, err := note.Encode()
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = kv.Create(ctx, key, body)
	} else {
		_, err = kv.Update(ctx, key, body, revision)
	}
	if err != nil {
		return fmt.Errorf("the record of accepted uploads: %w", err)
	}
	return nil
}
