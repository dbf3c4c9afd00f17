package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest/doorbook"
	"github.com/warpline/warpline/proto/stream"
)

// repeats counts the events of uploads that were answered as repeats, and sends the counts to the workers once a second, so that the table
// usage has them among what was received and among the duplicates. A repeat does not cost a message of its own. A gateway that is killed
// forgets up to a second of them. It is safe for concurrent use.
type repeats struct {
	mu     sync.Mutex
	counts map[repeatKey]uint64
}

// repeatKey is the key of a row of usage.
type repeatKey struct {
	tenant, source string
	day            int64
	days           uint16 // kept
}

func (r *repeats) add(k repeatKey, n uint64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[repeatKey]uint64{}
	}
	r.counts[k] += n
}

func (r *repeats) take() map[repeatKey]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.counts
	r.counts = nil
	return out
}

// run sends the counts to the workers until ctx ends, and then a last time.
func (r *repeats) run(ctx context.Context, js jetstream.JetStream, partitions int, book *doorbook.Book) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	type repeated struct {
		msg *nats.Msg
		k   repeatKey
		n   uint64
	}
	var held []repeated // built and not acknowledged; the ids keep the broker from storing one twice
	for ending := false; !ending; {
		select {
		case <-ctx.Done():
			ending = true
		case <-tick.C:
		}
		if len(held) == 0 {
			for k, n := range r.take() {
				if msg, err := repeatMessage(k, n, partitions); err == nil {
					held = append(held, repeated{msg, k, n})
				}
			}
		}
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		for len(held) > 0 {
			h := &held[0]
			ack, err := js.PublishMsg(try, h.msg, jetstream.WithRetryAttempts(0))
			if err != nil {
				break
			}
			// Also where it was known: it is counted when it is acknowledged, and that is now.
			book.Enter(doorbook.Upload{Tenant: h.k.tenant, Source: h.k.source, Received: time.Unix(0, h.k.day*int64(24*time.Hour)),
				RollupDays: h.k.days,
				Parts:      []doorbook.Part{{Partition: stream.Partition(h.k.tenant, "", partitions), Seq: ack.Sequence, Events: h.n}}})
			held = held[1:]
		}
		cancel()
	}
}

// repeatMessage is the message of n events that came again.
func repeatMessage(k repeatKey, n uint64, partitions int) (*nats.Msg, error) {
	id := "repeats-" + broker.NewID()
	data, err := stream.AppendEnvelope(nil, &stream.Envelope{
		Tenant: k.tenant, Kind: stream.KindRepeats, Source: k.source, Identity: id, Last: true, Events: n,
		ReceivedAt: k.day * int64(24*time.Hour), RollupDays: k.days,
	}, nil)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(stream.IngestSubject(stream.Partition(k.tenant, "", partitions), k.tenant, stream.RepeatsToken))
	msg.Data = data
	msg.Header.Set(jetstream.MsgIDHeader, id)
	return msg, nil
}

// repeated counts an upload of n events that was stored before: as received and as repeated, here and in usage.
func (g *Gateway) repeated(u *Upload, x *exchange, n uint64) {
	x.outcome = "repeat"
	g.metrics.windows.WithLabelValues(u.Tenant, "repeat").Inc()
	g.metrics.receivedEvents.WithLabelValues(u.Tenant).Add(float64(n))
	g.metrics.repeatedEvents.WithLabelValues(u.Tenant).Add(float64(n))
	g.repeats.add(repeatKey{u.Tenant, u.source.Name, time.Now().UnixNano() / int64(24*time.Hour), u.limits.RollupDays}, n)
}
