package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// partsInFlight is how many parts of one upload may wait for JetStream's acknowledgement: enough to hide a round trip, few enough
// that an upload never holds more than this many MiB on its way.
const partsInFlight = 4

// publisher publishes the parts of one upload in order. It is not safe for concurrent use.
type publisher struct {
	js        jetstream.JetStream
	objects   jetstream.ObjectStore
	parts     *parts
	asked     *asked // nil: nobody asks
	metrics   *metrics
	subject   string
	partition int
	token     string
	envelope  stream.Envelope // what all parts have in common
	scratch   []byte
	waiting   [partsInFlight]pendingAck
	head, n   int // of waiting
	timeout   time.Duration
	last      uint64 // the highest sequence in INGEST of what is acknowledged
	known     uint64 // events of parts that JetStream had already, from within its duplicate window
}

type pendingAck struct {
	future    jetstream.PubAckFuture
	partition int
	bytes     int
	events    uint64
	sent      time.Time
}

// msgID is the Nats-Msg-Id of a part: JetStream drops a second copy within minutes, the worker drops it for good.
func msgID(tenant, session, identity string, part int) string {
	h := sha256.New()
	for _, s := range [...]string{tenant, session, identity, strconv.Itoa(part)} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0])[:16])
}

// send publishes one part. The body may be reused when it returns; the acknowledgement is awaited later.
func (p *publisher) send(ctx context.Context, e *stream.Envelope, body []byte) error {
	if p.n == len(p.waiting) {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	var err error
	if p.scratch, err = stream.AppendEnvelope(p.scratch[:0], e, body); err != nil {
		return err
	}
	// No retries by the client library: it would keep the message, whose buffer is ours again as soon as it is written.
	future, err := p.js.PublishMsgAsync(&nats.Msg{Subject: p.subject, Data: p.scratch},
		jetstream.WithMsgID(msgID(e.Tenant, e.Session, e.Identity, e.Part)), jetstream.WithRetryAttempts(0), jetstream.WithStallWait(p.timeout))
	if err != nil {
		return fmt.Errorf("publish part %d: %w", e.Part, err)
	}
	p.waiting[(p.head+p.n)%len(p.waiting)] = pendingAck{future: future, partition: p.partition, bytes: len(p.scratch), events: e.Events, sent: time.Now()}
	p.n++
	p.metrics.inFlight.Add(float64(len(p.scratch)))
	return nil
}

// await waits for the oldest acknowledgement.
func (p *publisher) await(ctx context.Context) error {
	a := p.waiting[p.head]
	p.waiting[p.head] = pendingAck{}
	p.head, p.n = (p.head+1)%len(p.waiting), p.n-1
	defer p.metrics.inFlight.Sub(float64(a.bytes))
	select {
	case ack := <-a.future.Ok():
		p.last = max(p.last, ack.Sequence)
		p.asked.part(a.partition, ack.Sequence)
		if ack.Duplicate {
			p.known += a.events
		}
		p.metrics.ackSeconds.Observe(time.Since(a.sent).Seconds())
		return nil
	case err := <-a.future.Err():
		return fmt.Errorf("publish: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("publish: no acknowledgement: %w", ctx.Err())
	}
}

// flush waits for all acknowledgements.
func (p *publisher) flush(ctx context.Context) error {
	for p.n > 0 {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// abandon forgets what is on its way, after a failure.
func (p *publisher) abandon() {
	for ; p.n > 0; p.n-- {
		p.metrics.inFlight.Sub(float64(p.waiting[p.head].bytes))
		p.waiting[p.head] = pendingAck{}
		p.head = (p.head + 1) % len(p.waiting)
	}
}

// giant streams a line that does not fit a message into the object store, as plain bytes, and returns the object's name and what
// became of the line. A name that is there already is left alone: it is the same part of the same bytes, and a worker may be reading it.
func (p *publisher) giant(ctx context.Context, c *cutter, part int) (name string, got piece, err error) {
	name = fmt.Sprintf("%s%s.%d", stream.ObjectPrefix(p.envelope.Tenant, p.token), digestOf(p.envelope.Identity), part)
	if _, err := p.objects.GetInfo(ctx, name); errors.Is(err, jetstream.ErrObjectNotFound) {
		if err := p.parts.makeRoom(ctx, p.envelope.Tenant, c.maxLine); err != nil {
			return "", piece{}, fmt.Errorf("%w: %w", errParts, err)
		}
		_, err = p.objects.Put(ctx, jetstream.ObjectMeta{Name: name}, c)
		var torn *tornError
		if err != nil && !errors.Is(err, errGiantTooLong) && !errors.As(err, &torn) {
			return "", piece{}, fmt.Errorf("%w: over %d bytes: %w", errParts, stream.PartBytes, err)
		}
	} else if err != nil {
		return "", piece{}, fmt.Errorf("object store: %w", err)
	}
	got, err = c.endGiant()
	return name, got, err
}

// errWindows and errParts mark errors of the two stores beside the stream, each with a limit and a remedy of its own.
var (
	errWindows = errors.New("record of accepted uploads")
	errParts   = errors.New("store of giant lines")
)

func atWindows(err error) error { return fmt.Errorf("%w: %w", errWindows, err) }

// failure names the reason a publish failed, for metrics and for the words of the answer.
func failure(err error) (reason, words string) {
	switch {
	case errors.Is(err, errPartsFull):
		return "parts_full", "this tenant's lines over 1 MiB fill its share of their store (" + stream.PartsObjects + "): the workers are slower than the sender, or the operator has to raise --bucket-max"
	case broker.IsFull(err) && errors.Is(err, errParts):
		return "parts_full", "the store of lines over 1 MiB (" + stream.PartsObjects + ") is full: the workers are slower than the senders, or the operator has to raise --bucket-max"
	case broker.IsFull(err):
		return "full", "the ingest stream is full: the pipeline behind it is slower than the senders, or the sink cannot reach ClickHouse"
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "no_responders", "JetStream does not answer: no stream leader at the moment"
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrNoServers):
		return "disconnected", "the connection to NATS is down"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, jetstream.ErrAsyncPublishTimeout), errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return "timeout", "JetStream did not acknowledge in time"
	}
	return "other", "storing failed: the gateway's log says why"
}
