package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest/doorbook"
	"github.com/warpline/warpline/ingest/pending"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// partsInFlight is how many parts of one upload may wait for JetStream's acknowledgement: enough to hide a round trip, few enough
// that an upload never holds more than this many MiB on its way.
const partsInFlight = 4

// flightBytes is how many bytes of large uploads of one tenant may wait for JetStream's acknowledgement, in all its uploads; it is above
// that of a part. All tenants together may have twice as much. INGEST stores one message after the other, so a small upload waits behind
// all that was sent before it: while several tenants send, a byte counts as flightBeside.
const (
	flightBytes  = 4 << 20
	flightBeside = 4
)

// Publisher publishes the parts of one upload in order. It is not safe for concurrent use.
type Publisher struct {
	// Envelope is what all parts have in common. A source sets its Kind.
	Envelope stream.Envelope
	// Tally is what the upload comes to; the source counts.
	Tally Tally

	gateway    *Gateway
	source     *Source
	js         jetstream.JetStream
	objects    jetstream.ObjectStore
	parts      *parts
	asked      *asked // nil: the client does not ask
	metrics    *metrics
	session    string // that subject, partition and token are of
	subject    string
	partition  int
	token      string
	dry        bool         // publishes nothing
	partitions map[int]bool // that parts would be in, when it is dry
	scratch    []byte
	waiting    [partsInFlight]pendingAck
	head, n    int           // of waiting
	waited     time.Duration // for the tenant's backlog
	most       int           // sessions that may be active, 0: any number
	counts     string        // the session that was counted last
	beyond     *Refusal      // a session may not begin yet
	timeout    time.Duration
	large      bool   // a large upload, which shares flightBytes
	last       uint64 // the highest sequence in INGEST of what is acknowledged
	known      uint64 // events of parts that JetStream had already, from within its duplicate window
	lost       uint64 // where the last part was that INGEST does not have any more, 0 for none: JetStream must not take these for it
	only       []int  // the parts that are published, in order; nil: all
	stored     []doorbook.Part
}

type pendingAck struct {
	future    jetstream.PubAckFuture
	partition int
	part      int
	bytes     int
	raw       int64 // before compression
	flight    int64 // what it has of the tenant's flightBytes
	events    uint64
	came      uint64 // bytes, as the envelope has them
	sent      time.Time
}

// msgID is the Nats-Msg-Id of a part: JetStream drops a second copy within minutes, the worker drops it for good.
// lost tells parts that are published once more, because they are gone, from those of the first time; workers know them as the same.
func msgID(tenant, session, identity string, part int, lost uint64) string {
	h := sha256.New()
	names := []string{tenant, session, identity, strconv.Itoa(part)}
	if lost > 0 {
		names = append(names, strconv.FormatUint(lost, 10))
	}
	for _, s := range names {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0])[:16])
}

func (g *Gateway) publisher(u *Upload, identity string) *Publisher {
	p := &Publisher{
		gateway: g, source: u.source, asked: u.asked, js: g.js, objects: g.cfg.Large.Parts, parts: g.parts, metrics: g.metrics,
		timeout: g.cfg.PublishTimeout, most: u.limits.ActiveSessions,
		Envelope: stream.Envelope{
			Tenant: u.Tenant, Session: u.Session, Source: u.source.Name, Identity: identity,
			ReceivedAt: u.Received.UnixNano(), RetentionDays: u.limits.RetentionDays, RollupDays: u.limits.RollupDays,
			NoRaw: u.limits.RawRows == tenant.RawOff, Names: u.limits.Names, NameBytes: u.limits.NameBytes, OpenScopes: u.limits.OpenScopes,
			PastNS: nanoseconds(u.limits.PastSeconds), FutureNS: nanoseconds(u.limits.FutureSeconds),
		},
	}
	if u.spool != nil && u.spool.file != nil {
		p.js, p.large = g.large, true
	}
	if u.asked != nil {
		p.Envelope.Asked = u.asked.id
	}
	if u.workspace != nil {
		p.scratch = u.workspace.out
	}
	return p
}

// nanoseconds is a limit in seconds as an envelope has it. What does not fit is no limit.
func nanoseconds(seconds float64) int64 {
	if seconds <= 0 || seconds >= 1<<33 {
		return 0
	}
	return max(int64(seconds*1e9), 1)
}

// of sets the session that the next parts are of.
func (p *Publisher) of(session string) error {
	if p.token != "" && p.session == session {
		return nil
	}
	if words := p.gateway.mayName(p.source, session); words != "" {
		return fmt.Errorf("BUG: ingest: source %s publishes for session %q: %s", p.source.Name, session, words)
	}
	p.session, p.token = session, stream.SessionToken(session)
	p.partition = stream.Partition(p.Envelope.Tenant, session, p.gateway.streams.Partitions)
	p.subject = stream.IngestSubject(p.partition, p.Envelope.Tenant, p.token)
	return nil
}

// begin counts the session of a part among the tenant's active ones, and reports false if it may not begin yet. Then the upload is refused
// in the end, but what it has of other sessions goes on.
func (p *Publisher) begin(e *stream.Envelope) bool {
	if p.most <= 0 || e.Session == stream.NoSession || e.Kind == stream.KindCubin || e.Kind == stream.KindComplete || p.counts == p.token {
		return true
	}
	n, ok := p.gateway.active.Begin(time.Now(), e.Tenant, activeID(p.token), p.most)
	if !ok {
		p.beyond = beyondActive(e.Tenant, p.most, n)
		return false
	}
	p.counts = p.token
	return true
}

// Send publishes one part. The body may be reused when it returns; the acknowledgement is awaited later.
func (p *Publisher) Send(ctx context.Context, e *stream.Envelope, body []byte) error {
	if err := p.of(e.Session); err != nil {
		return err
	}
	p.Tally.sent(e)
	if p.dry {
		if p.partitions == nil {
			p.partitions = map[int]bool{}
		}
		p.partitions[p.partition] = true
		return nil
	}
	if p.has(e.Part) {
		return nil
	}
	if !p.begin(e) {
		return nil
	}
	e.Recurs = p.source.Recurs || e.Session == stream.NoSession
	if p.n == len(p.waiting) {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	if err := p.gateway.backlog.within(e.Tenant); err != nil {
		return fmt.Errorf("publish part %d: %w", e.Part, err)
	}
	waited, err := p.gateway.backlog.wait(ctx, e.Tenant, uploadPatience-p.waited)
	if p.waited += waited; waited > 0 {
		p.metrics.backlogWait.WithLabelValues(e.Tenant).Add(waited.Seconds())
	}
	if err != nil {
		return fmt.Errorf("publish part %d: %w", e.Part, err)
	}
	p.scratch, err = stream.AppendEnvelope(p.scratch[:0], e, body)
	if err != nil {
		return err
	}
	flight, err := p.takeFlight(ctx, min(int64(len(body)), flightBytes))
	if err != nil {
		return fmt.Errorf("publish part %d: %w", e.Part, err)
	}
	// No retries by the client library: it would keep the message, whose buffer is ours again as soon as it is written.
	future, err := p.js.PublishMsgAsync(&nats.Msg{Subject: p.subject, Data: p.scratch},
		jetstream.WithMsgID(msgID(e.Tenant, e.Session, e.Identity, e.Part, p.lost)), jetstream.WithRetryAttempts(0),
		jetstream.WithStallWait(p.timeout))
	if err != nil {
		p.gateway.flight.give(p.Envelope.Tenant, flight)
		return fmt.Errorf("publish part %d: %w", e.Part, err)
	}
	raw := int64(len(body))
	if e.Object != "" {
		raw = int64(min(e.Bytes, stream.MaxBodyBytes))
	}
	p.waiting[(p.head+p.n)%len(p.waiting)] = pendingAck{future: future, partition: p.partition, part: e.Part, bytes: len(p.scratch),
		events: e.Events, came: e.Bytes, raw: raw, flight: flight, sent: time.Now()}
	p.n++
	p.gateway.backlog.sent(e.Tenant, raw)
	p.metrics.inFlight.Add(float64(len(p.scratch)))
	return nil
}

// takeFlight takes of the tenant's flightBytes what a part of n bytes of a large upload needs. While it waits for others it holds none
// itself.
func (p *Publisher) takeFlight(ctx context.Context, n int64) (int64, error) {
	tenant := p.Envelope.Tenant
	if !p.large {
		return 0, nil
	}
	if p.gateway.backlog.beside(tenant) {
		n = min(n*flightBeside, flightBytes)
	}
	for !p.gateway.flight.take(tenant, n) {
		if p.n == 0 {
			return n, p.gateway.flight.waitFor(ctx, tenant, n, 0)
		}
		if err := p.await(ctx); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// await waits for the oldest acknowledgement.
func (p *Publisher) await(ctx context.Context) error {
	a := p.waiting[p.head]
	p.waiting[p.head] = pendingAck{}
	p.head, p.n = (p.head+1)%len(p.waiting), p.n-1
	defer p.metrics.inFlight.Sub(float64(a.bytes))
	defer p.gateway.flight.give(p.Envelope.Tenant, a.flight)
	var seq uint64
	defer func() { p.gateway.backlog.stored(p.Envelope.Tenant, a.partition, seq, a.raw, pending.Taking(a.bytes)) }()
	select {
	case ack := <-a.future.Ok():
		seq = ack.Sequence
		p.last = max(p.last, ack.Sequence)
		p.asked.part(a.partition, ack.Sequence)
		if ack.Duplicate {
			p.known += a.events
		}
		p.stored = append(p.stored, doorbook.Part{Partition: a.partition, Part: a.part, Seq: ack.Sequence, Events: a.events, Bytes: a.came,
			Known: ack.Duplicate})
		p.metrics.ackSeconds.Observe(time.Since(a.sent).Seconds())
		return nil
	case err := <-a.future.Err():
		return fmt.Errorf("publish: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("publish: no acknowledgement: %w", ctx.Err())
	}
}

// has reports whether a part is folded already, of an upload that is sent again because others of its parts were lost.
func (p *Publisher) has(part int) bool {
	if p.only == nil {
		return false
	}
	_, lost := slices.BinarySearch(p.only, part)
	return !lost
}

// Known says that so many of the upload's events are stored already: they are counted as repeated, and not published.
func (p *Publisher) Known(events uint64) {
	p.known += events
	p.asked.known(events)
}

// Streams is where the source's own records are.
func (p *Publisher) Streams() *broker.Streams { return p.gateway.streams }

// Flush waits until all that was sent is stored. The gateway does so after Publish; a source that has to do something then does it itself.
func (p *Publisher) Flush(ctx context.Context) error { return p.flush(ctx) }

// flush waits for all acknowledgements.
func (p *Publisher) flush(ctx context.Context) error {
	for p.n > 0 {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	if p.beyond != nil {
		return p.beyond
	}
	return nil
}

// abandon forgets what is on its way, after a failure.
func (p *Publisher) abandon() {
	for ; p.n > 0; p.n-- {
		a := p.waiting[p.head]
		p.metrics.inFlight.Sub(float64(a.bytes))
		p.gateway.flight.give(p.Envelope.Tenant, a.flight)
		p.gateway.backlog.stored(p.Envelope.Tenant, a.partition, 0, a.raw, 0)
		p.waiting[p.head] = pendingAck{}
		p.head = (p.head + 1) % len(p.waiting)
	}
}

// Object streams what does not fit a message into the object store, as plain bytes of at most so many, and returns the object's name. A
// name that is there already is left alone, and body is not read: it is the same part of the same bytes, and a worker may be reading it.
// An error of body's is among those that the error wraps; nothing is stored then.
func (p *Publisher) Object(ctx context.Context, part int, body io.Reader, most int64) (name string, err error) {
	if err := p.of(p.Envelope.Session); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s%s.%d", stream.ObjectPrefix(p.Envelope.Tenant, p.token), DigestOf(p.Envelope.Identity), part)
	if p.has(part) {
		return name, nil
	}
	if _, err := p.objects.GetInfo(ctx, name); err == nil || !errors.Is(err, jetstream.ErrObjectNotFound) {
		if err != nil {
			err = fmt.Errorf("object store: %w", err)
		}
		return name, err
	}
	if err := p.parts.makeRoom(ctx, p.Envelope.Tenant, most); err != nil {
		return name, fmt.Errorf("%w: %w", errParts, err)
	}
	if _, err := p.objects.Put(ctx, jetstream.ObjectMeta{Name: name}, body); err != nil {
		return name, fmt.Errorf("%w: over %d bytes: %w", errParts, stream.PartBytes, err)
	}
	return name, nil
}

// errWindows and errParts mark errors of the two stores that are not the stream. Each has its own limit and remedy.
var (
	errWindows = errors.New("record of accepted uploads")
	errParts   = errors.New("store of giant lines")
)

func atWindows(err error) error { return fmt.Errorf("%w: %w", errWindows, err) }

// failure names the reason a publish failed, for metrics and for the words of the answer.
func failure(err error) (reason, words string) {
	switch {
	case errors.Is(err, errIngestShare):
		return "ingest_share", "what this tenant has on its way into SQL takes its share of INGEST, which other tenants need the rest of: " +
			"the pipeline is slower than the sender, or the sink cannot reach ClickHouse; nothing is lost: send the same again later, or " +
			"the operator has to raise --ingest-max"
	case errors.Is(err, errPartsFull):
		return "parts_full", "this tenant's lines over 1 MiB fill its share of their store (" + stream.PartsObjects +
			"): the workers are slower than the sender, or the operator has to raise --bucket-max"
	case broker.IsFull(err) && errors.Is(err, errParts):
		return "parts_full", "the store of lines over 1 MiB (" + stream.PartsObjects +
			") is full: the workers are slower than the senders, or the operator has to raise --bucket-max"
	case broker.IsFull(err):
		return "full", "the ingest stream is full: the pipeline behind it is slower than the senders, or the sink cannot reach ClickHouse"
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "no_responders", "JetStream does not answer: no stream leader at the moment"
	case broker.Disconnected(err):
		return "disconnected", "the connection to NATS is down"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, jetstream.ErrAsyncPublishTimeout), errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return "timeout", "JetStream did not acknowledge in time"
	}
	return "other", "storing failed: the gateway's log says why"
}
