// Package doorbook keeps a gateway's own book of what it has stored: which events, and which parts of which uploads stand where in INGEST.
// It goes to the workers through INGEST itself, partition by partition, behind what it is about. So a worker that has come to it has passed
// all that it lists: what it has not met is lost, and whose that is, is known.
//
// What a gateway that is killed had not sent yet, at most the last seconds, is in no book. So a book can say too little and never too much.
package doorbook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

const (
	// every is how long something may stand in the book before it is sent, early so many parts that do not wait for that.
	every = 5 * time.Second
	early = 4096
	// mostParts is how many parts one message lists, some MiB at most; mostWaiting how many of a partition may wait for NATS. What is beyond
	// is counted, and not listed.
	mostParts   = 8192
	mostWaiting = 1 << 17
	// kept is how many messages of a partition are held until a worker has come to them; looks how many are looked for at a time.
	kept  = 256
	looks = 8
)

// Upload is what was stored of one upload. Last is where the last of all its parts is, by which its record is known, or 0 where it has no
// record that is done.
type Upload struct {
	Tenant, Source  string
	Received        time.Time
	RollupDays      uint16
	Session, Window string
	Own             bool // its record is among those of Session
	Last            uint64
	Parts           []Part
}

// Part is one part of an upload, as JetStream acknowledged it.
type Part struct {
	Partition, Part    int
	Seq, Events, Bytes uint64
	Known              bool // it was there before, and was counted then
}

// key is one of usage.
type key struct {
	tenant, source string
	day            int32
	days           uint16
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.tenant, o.tenant), cmp.Compare(k.source, o.source), cmp.Compare(k.day, o.day), cmp.Compare(k.days, o.days))
}

// sum is what was stored of a key.
type sum struct{ events, bytes uint64 }

// listed is an upload in the book.
type listed struct {
	key
	stream.DoorUpload
}

// partition is the book of one partition.
type partition struct {
	n       int
	counts  map[key]*sum
	since   int64
	uploads []listed
	parts   int // in uploads

	// Of the messages that were sent.
	number, last uint64
	sending      *stream.Door
	listing      []listed // of sending
	unsure       bool     // NATS may have it
	sent         []sent
	turn         int // which of sent are looked for
}

// sent is a message that no worker is known to have come to yet.
type sent struct {
	seq     uint64
	uploads []listed
	missed  bool // INGEST did not have it at the last look
}

// Book is what a gateway has stored. It is safe for concurrent use.
type Book struct {
	js      jetstream.JetStream
	log     *slog.Logger
	gateway string
	reached func(partition int) uint64

	full chan struct{} // one page has many parts

	mu    sync.Mutex // of counts, since, uploads and parts
	parts []partition

	flushing sync.Mutex // of the rest
}

// New returns an empty book of a gateway. reached says up to which sequence of INGEST a partition was folded, as far as the gateway knows.
func New(js jetstream.JetStream, partitions int, log *slog.Logger, reached func(partition int) uint64) *Book {
	b := &Book{js: js, log: log, gateway: broker.NewID(), reached: reached, full: make(chan struct{}, 1), parts: make([]partition, partitions)}
	for n := range b.parts {
		b.parts[n].n = n
	}
	return b
}

// Enter notes what JetStream has acknowledged of an upload, before the client is answered.
func (b *Book) Enter(u Upload) {
	if len(u.Parts) == 0 {
		return
	}
	received := u.Received.UnixNano()
	k := key{u.Tenant, u.Source, int32(received / int64(24*time.Hour)), u.RollupDays}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range u.Parts {
		in := &u.Parts[i]
		p := &b.parts[in.Partition]
		if !in.Known {
			if p.counts == nil {
				p.counts, p.since = map[key]*sum{}, received
			}
			p.since = min(p.since, received)
			s := p.counts[k]
			if s == nil {
				s = &sum{}
				p.counts[k] = s
			}
			s.events += in.Events
			s.bytes += in.Bytes
		}
		if p.parts >= mostWaiting {
			continue
		}
		part := stream.DoorPart{Part: in.Part, Seq: in.Seq, Events: in.Events}
		p.parts++
		if n := len(p.uploads); n > 0 && i > 0 && p.uploads[n-1].begun(&u, k, u.Parts[i-1].Partition == in.Partition) {
			p.uploads[n-1].Parts = append(p.uploads[n-1].Parts, part)
		} else {
			p.uploads = append(p.uploads, listed{k, stream.DoorUpload{Session: u.Session, Window: u.Window, Last: u.Last, Own: u.Own,
				Parts: []stream.DoorPart{part}}})
		}
		if p.parts == early {
			select {
			case b.full <- struct{}{}:
			default:
			}
		}
	}
}

// begun reports whether the upload that was entered last is the one whose part before went to the same partition.
func (l *listed) begun(u *Upload, k key, same bool) bool {
	return same && l.key == k && l.Last == u.Last && l.Session == u.Session
}

// Run sends the book until ctx ends, and then a last time.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.full:
		case <-tick.C:
		}
		send, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		b.Flush(send)
		cancel()
		if ctx.Err() == nil {
			look, cancel := context.WithTimeout(ctx, 2*time.Second)
			b.Look(look)
			cancel()
		}
	}
}

// Flush sends what stands in the book. What cannot be sent waits for the next time.
func (b *Book) Flush(ctx context.Context) {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	for n := range b.parts {
		for p := &b.parts[n]; b.take(p); {
			if err := b.send(ctx, p); err != nil { // NATS is away, or INGEST is full
				b.log.Debug("what was stored cannot be told to the workers, trying again", "partition", n, "err", err)
				break
			}
		}
	}
}

// take makes the next message of a partition from its book, and reports false when there is none.
func (b *Book) take(p *partition) bool {
	if p.sending != nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(p.counts) == 0 && len(p.uploads) == 0 {
		return false
	}
	n, parts := 0, 0
	for n < len(p.uploads) && (n == 0 || parts+len(p.uploads[n].Parts) <= mostParts) {
		parts += len(p.uploads[n].Parts)
		n++
	}
	p.listing = slices.Clone(p.uploads[:n])
	p.uploads, p.parts = slices.Clone(p.uploads[n:]), p.parts-parts
	d := &stream.Door{Gateway: b.gateway, Number: p.number + 1, Since: p.since}
	counts := p.counts
	if counts == nil {
		counts = map[key]*sum{}
	}
	for i := range p.listing {
		if counts[p.listing[i].key] == nil {
			counts[p.listing[i].key] = &sum{}
		}
	}
	index := map[key]int{}
	for k, s := range counts {
		d.Counts = append(d.Counts, stream.DoorCount{Tenant: k.tenant, Source: k.source, Day: k.day, RollupDays: k.days, Events: s.events,
			Bytes: s.bytes})
	}
	of := func(c *stream.DoorCount) key { return key{c.Tenant, c.Source, c.Day, c.RollupDays} }
	slices.SortFunc(d.Counts, func(x, y stream.DoorCount) int { return of(&x).compare(of(&y)) })
	for i := range d.Counts {
		index[of(&d.Counts[i])] = i
	}
	for i := range p.listing {
		u := p.listing[i].DoorUpload
		u.Count = index[p.listing[i].key]
		d.Uploads = append(d.Uploads, u)
	}
	p.counts, p.since, p.sending, p.unsure = nil, 0, d, false
	return true
}

// send stores the message that is taken, once: it has to be the next on its subject.
func (b *Book) send(ctx context.Context, p *partition) error {
	for try := 0; ; try++ {
		p.sending.After = p.last
		data, err := stream.AppendEnvelope(nil, &stream.Envelope{Kind: stream.KindDoor, Source: "door", Identity: "door-" + b.gateway,
			Last: true, ReceivedAt: time.Now().UnixNano()}, stream.AppendDoor(nil, p.sending))
		if err != nil {
			return err
		}
		ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: stream.DoorSubject(p.n, b.gateway), Data: data},
			jetstream.WithExpectLastSequencePerSubject(p.last), jetstream.WithRetryAttempts(0))
		if err == nil {
			p.stored(ack.Sequence)
			return nil
		}
		if !broker.IsWrongSequence(err) {
			p.unsure = p.unsure || !broker.IsFull(err)
			return err
		}
		if try == 3 {
			return err
		}
		done, err := b.resolve(ctx, p)
		if done || err != nil {
			return err
		}
	}
}

// stored notes that the message that was taken is stored.
func (p *partition) stored(seq uint64) {
	if len(p.listing) > 0 {
		p.sent = append(p.sent, sent{seq: seq, uploads: p.listing})
		p.sent = p.sent[max(0, len(p.sent)-kept):]
	}
	p.number, p.last, p.sending, p.listing = p.sending.Number, seq, nil, nil
}

// resolve finds out what the last message on the subject is, when it is not the one that was sent last: the one that is being sent, whose
// acknowledgement was lost, or an older one, or none, when INGEST has given up or lost the others. What may be stored and is not there is
// given up: a book that counts too little does no harm.
func (b *Book) resolve(ctx context.Context, p *partition) (done bool, err error) {
	s, err := b.js.Stream(ctx, stream.IngestStream)
	if err != nil {
		return false, err
	}
	last, err := s.GetLastMsgForSubject(ctx, stream.DoorSubject(p.n, b.gateway))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) && p.unsure:
		p.sending, p.listing = nil, nil
		p.number, p.last = p.number+1, 0
		return true, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		p.last = 0
		return false, nil
	case err != nil:
		return false, err
	}
	if d, err := doorOf(last.Data); err == nil && d.Number == p.sending.Number {
		p.stored(last.Sequence)
		return true, nil
	}
	p.last = last.Sequence
	return false, nil
}

// doorOf reads a message of KindDoor.
func doorOf(data []byte) (stream.Door, error) {
	_, packed, err := stream.ParseEnvelope(data)
	if err != nil {
		return stream.Door{}, err
	}
	body, err := stream.DecodeBody(nil, packed)
	if err != nil {
		return stream.Door{}, err
	}
	return stream.ParseDoor(body)
}

// Look finds messages that INGEST has lost, perhaps with what they list, before a worker came to them: their uploads are listed again. What
// a worker has come to is forgotten. Deletions take messages too, a moment before that is known, so it looks twice.
func (b *Book) Look(ctx context.Context) {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	listed := 0
	for n := range b.parts {
		listed += len(b.parts[n].sent) // the rest of a partition is not read: it changes while an upload comes
	}
	if listed == 0 {
		return
	}
	s, err := b.js.Stream(ctx, stream.IngestStream)
	if err != nil {
		return
	}
	for n := range b.parts {
		p := &b.parts[n]
		reached, left := b.reached(n), p.sent[:0]
		for i, m := range p.sent {
			if m.seq <= reached {
				continue
			}
			if !m.missed && (i+p.turn)%len(p.sent) >= looks {
				left = append(left, m)
				continue
			}
			_, err := s.GetMsg(ctx, m.seq)
			switch gone := errors.Is(err, jetstream.ErrMsgNotFound); {
			case gone && m.missed:
				b.again(p, m)
				continue
			case gone || err == nil:
				m.missed = gone
			}
			left = append(left, m)
		}
		clear(p.sent[len(left):])
		p.sent, p.turn = left, p.turn+looks
	}
}

// again lists uploads once more. They are not counted: a worker may have done so.
func (b *Book) again(p *partition, m sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range m.uploads {
		if u.Again || p.parts >= mostWaiting {
			continue // once is enough
		}
		u.Again = true
		p.uploads = append(p.uploads, u)
		p.parts += len(u.Parts)
	}
}
