package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Entry is a key of a bucket and its newest value.
type Entry struct {
	Key      string
	Value    []byte // nil of ScanKeys
	Revision uint64
	Created  time.Time
}

const (
	scanBatch   = 256
	scanRenewed = 5 // times in a row that a scan begins anew where it was
)

// Scan calls f with every entry of a bucket whose key matches the filter, the oldest first. An entry that changes meanwhile may come
// twice. It ends however many entries go while it reads: a watch, or a list of keys, waits for ever for those. A filter is one:
// where a consumer has several, NATS looks through all keys of a block for each message, while nobody can write there. It ends with f's
// first error.
func (s *Streams) Scan(ctx context.Context, bucket jetstream.KeyValue, filter string, f func(Entry) error) error {
	return scan(ctx, s.JS, bucket.Bucket(), filter, false, f)
}

// ScanKeys returns the keys of a bucket that match the filter, without reading their values; otherwise it is Scan.
func (s *Streams) ScanKeys(ctx context.Context, bucket jetstream.KeyValue, filter string) (keys []string, err error) {
	err = scan(ctx, s.JS, bucket.Bucket(), filter, true, func(e Entry) error {
		keys = append(keys, e.Key)
		return nil
	})
	return keys, err
}

func scan(ctx context.Context, js jetstream.JetStream, bucket, filter string, keysOnly bool, f func(Entry) error) error {
	read := scanner{js: js, stream: "KV_" + bucket, subjects: "$KV." + bucket + ".", f: f, next: 1, config: jetstream.ConsumerConfig{
		Description: "warpline scan", FilterSubject: "$KV." + bucket + "." + filter, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, HeadersOnly: keysOnly, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: 30 * time.Second,
	}}
	for renewed := 0; ; renewed++ {
		from := read.next
		done, err := read.through(ctx)
		if done || err != nil {
			return err
		}
		if read.next > from {
			renewed = 0
		}
		if renewed == scanRenewed {
			return fmt.Errorf("bucket %s gives nothing more of %q after message %d: try again", bucket, filter, read.next-1)
		}
	}
}

// scanner is at one place of a bucket.
type scanner struct {
	js       jetstream.JetStream
	stream   string
	subjects string // prefix
	config   jetstream.ConsumerConfig
	f        func(Entry) error
	next     uint64 // stream sequence
}

// through reads from the place on with one consumer; done is false if something was lost on the way here.
func (r *scanner) through(ctx context.Context) (done bool, err error) {
	r.config.OptStartSeq = r.next
	c, err := r.js.CreateConsumer(ctx, r.stream, r.config)
	if err != nil {
		return false, err
	}
	defer func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		r.js.DeleteConsumer(gone, r.stream, c.CachedInfo().Name) // it expires by itself when this fails
	}()
	pending, delivered := c.CachedInfo().NumPending, uint64(0)
	for pending > 0 {
		batch, err := c.FetchNoWait(scanBatch)
		if err != nil {
			return false, err
		}
		got := false
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return false, err
			}
			if delivered++; meta.Sequence.Consumer != delivered {
				return false, nil
			}
			got, pending, r.next = true, meta.NumPending, meta.Sequence.Stream+1
			if h := msg.Headers(); h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != "" {
				continue // it was deleted
			}
			if err := r.f(Entry{strings.TrimPrefix(msg.Subject(), r.subjects), msg.Data(), meta.Sequence.Stream, meta.Timestamp}); err != nil {
				return false, err
			}
		}
		if err := batch.Error(); err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if got {
			continue
		}
		// Nothing came: what was pending may be gone, or the answer is late.
		info, err := c.Info(ctx)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || err == nil && info.Delivered.Consumer != delivered {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		pending = info.NumPending
	}
	return true, nil
}
