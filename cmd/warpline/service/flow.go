package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/sink"
)

const (
	// ownerGrace is how long a partition may have no owner, or one that cannot take it: longer than a handover after a kill.
	ownerGrace = 15 * time.Second
	// standGrace is how long a lane may stand still on an error that trying again will not mend: an operator's change of a table is one.
	standGrace = time.Minute
)

// flow watches whether every partition is folded by somebody, by the leases. It is used by one goroutine.
type flow struct {
	streams *broker.Streams
	since   map[int]time.Time // partitions without an owner
	unread  time.Time         // since when nobody can tell
}

func newFlow(s *broker.Streams) *flow { return &flow{streams: s, since: map[int]time.Time{}} }

// look adds what it finds to t.
func (f *flow) look(ctx context.Context, t map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	owned, err := broker.Owned(ctx, f.streams.Leases, "worker")
	if err != nil {
		if f.unread.IsZero() {
			f.unread = time.Now()
		}
		if time.Since(f.unread) > ownerGrace {
			t[noOwner] = "the leases cannot be read: " + err.Error()
		}
		return
	}
	f.unread = time.Time{}
	var late []string
	for p := range f.streams.Partitions {
		if owned[p] {
			delete(f.since, p)
			continue
		}
		if f.since[p].IsZero() {
			f.since[p] = time.Now()
		}
		if time.Since(f.since[p]) > ownerGrace {
			late = append(late, fmt.Sprint(p))
		}
	}
	switch n := len(late); {
	case n == f.streams.Partitions:
		t[noOwner] = "all of them: is a worker running?"
	case n > 0:
		t[noOwner] = "partitions " + strings.Join(late, ", ")
	}
}

// notTaken adds the partitions that a worker has tried to take in vain for a while.
func notTaken(t map[string]string, w *aggregate.Worker) {
	var parts []string
	for _, f := range w.Status().Failing {
		if time.Since(f.Since) > ownerGrace {
			parts = append(parts, fmt.Sprintf("partition %d: %s", f.Partition, f.Err))
		}
	}
	if err := joined(parts); err != nil {
		t[notTakenT] = err.Error()
	}
}

// stoodStill adds a lane that stands still for a reason that trying again will not mend.
func stoodStill(t map[string]string, k *sink.Sink) {
	if st := k.Status(); !st.Blocked.IsZero() && st.Unreachable.IsZero() && time.Since(st.Blocked) > standGrace {
		t[standing] = st.String()
	}
}

// storesGone adds what the keeper misses just now.
func storesGone(t map[string]string, s *broker.Streams) {
	if names := s.Gone(); len(names) > 0 {
		t[gone] = strings.Join(names, ", ")
	}
}

// endsLost adds what streams were lately found to have lost of their ends.
func endsLost(t map[string]string, s *broker.Streams) {
	if err := joined(s.Shortened(time.Now().Add(-lossShown))); err != nil {
		t["NATS has lost the end of a stream, which it had acknowledged: see warpline audit"] = err.Error()
	}
}

// bucketsFull adds the buckets and object stores in which there is hardly room; the two streams have lines of their own.
func bucketsFull(t map[string]string, s *broker.Streams) {
	for name, full := range s.Full() {
		kind, bucket, ok := strings.Cut(name, "_")
		if ok && (kind == "KV" || kind == "OBJ") && full >= nearlyFull {
			t["bucket "+bucket+" is nearly full"] = fmt.Sprintf("%.0f %%; raise --bucket-max", 100*full)
		}
	}
}

// apartTroubles is what a role that runs alone looks at: its connection, and what else it knows.
func apartTroubles(s *broker.Streams, more func(context.Context, map[string]string)) func(context.Context) map[string]string {
	return func(ctx context.Context) map[string]string {
		t := map[string]string{}
		if st := s.Conn.Status(); st != nats.CONNECTED {
			t[natsAway] = st.String()
			return t
		}
		storesGone(t, s)
		endsLost(t, s)
		bucketsFull(t, s)
		more(ctx, t)
		return t
	}
}
