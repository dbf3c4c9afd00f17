package parca

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/stream"
)

// publish puts parts on INGEST as gateways would.
func publish(t testing.TB, s *broker.Streams, parts []sent) {
	t.Helper()
	var acks []jetstream.PubAckFuture
	for i := range parts {
		e := &parts[i].env
		msg, err := stream.AppendEnvelope(nil, e, parts[i].body)
		if err != nil {
			t.Fatal(err)
		}
		subject := stream.IngestSubject(stream.Partition(e.Tenant, e.Session, s.Partitions), e.Tenant, stream.SessionToken(e.Session))
		ack, err := s.JS.PublishAsync(subject, msg)
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			t.Fatal(err)
		}
	}
}

func startWorker(t testing.TB, s *broker.Streams) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	cfg := aggregate.Config{Sources: []aggregate.Source{Source()}, ChunkAge: 30 * time.Millisecond, SnapshotChunks: 20}
	go func() {
		defer close(done)
		aggregate.New(s, cfg).Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// readNew adds the chunks of ROWS that were not read yet.
func (o *owner) readNew(s *broker.Streams, next []uint64) {
	o.t.Helper()
	for p := range next {
		for {
			msg, err := s.Rows.GetMsg(o.t.Context(), next[p], jetstream.WithGetMsgSubject(stream.RowsSubject(p)))
			if err != nil {
				break
			}
			next[p] = msg.Sequence + 1
			c, _, section, err := stream.ParseChunk(msg.Data)
			if err != nil {
				o.t.Fatal(err)
			}
			pieces, err := c.Split(section)
			if err != nil {
				o.t.Fatal(err)
			}
			for i := range c.Tables {
				piece, err := c.Tables[i].Unpack(nil, pieces[i])
				if err != nil {
					o.t.Fatal(err)
				}
				o.read(c.Tables[i].Table, piece)
			}
		}
	}
}

// Batches do not fill NATS's buckets: names are not stored beside the rows, and snapshots hold little of a session. Workers hand over to
// each other meanwhile; every row counts once, and every launch has its name.
func TestBucketsDoNotGrow(t *testing.T) {
	batches, sessions := 20_000, 500
	if testing.Short() {
		batches = 4000
	}
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	size := func() (n uint64) {
		for _, bucket := range []jetstream.ObjectStore{s.State, s.Chunks} {
			status, err := bucket.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += status.Size()
		}
		status, err := s.Dictionaries.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if status.Values() > 0 {
			t.Errorf("%d blocks of names", status.Values())
		}
		return n + status.Bytes()
	}
	before := size()
	o := newOwner(t)
	stop := startWorker(t, s)
	next := []uint64{1, 1}
	var parts []sent
	for i := range batches {
		n := i / sessions
		b := newBuilder("node", "7", "train", parca.Label{Name: "pod", Value: fmt.Sprint(i % sessions)})
		for k := range 4 {
			name, stack := fmt.Sprint("kernel", n+k), b.stack(uint64((n+k)%90+1), "train.py")
			b.kernel(noon, name, 10, stack).pc(noon, name, 16, stalled, 1, 1, stack)
		}
		id := fmt.Sprint("parca:node-", i%sessions, ":7:train")
		parts = append(parts, message(id, fmt.Sprint("sha256-", i), 0, time.Now().UnixNano(), &b.Part))
		if len(parts) == 200 { // fewer than may be on their way
			publish(t, s, parts)
			parts = parts[:0]
		}
		if i%(batches/4) == batches/8 {
			stop()
			o.readNew(s, next)
			stop = startWorker(t, s)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		o.readNew(s, next)
		have := o.sum("pc_buckets_data", "samples")
		if have == uint64(4*batches) && o.sum("kernel_stats_data", "calls") == have {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d samples and %d calls of %d", have, o.sum("kernel_stats_data", "calls"), 4*batches)
		}
	}
	stop()
	o.readNew(s, next)
	if have, want := o.kernelTotals(), batches/sessions+3; len(have) != want { // four each, of which the next batch has three
		t.Errorf("%d kernels, want %d: %v", len(have), want, have)
	}
	o.linked()
	grown := size() - before
	t.Logf("%d batches: %d B", batches, grown)
	if grown > uint64(16<<20*batches/200_000) && grown > 4<<20 {
		t.Errorf("the buckets have grown by %d bytes", grown)
	}
}
