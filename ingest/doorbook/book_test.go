package doorbook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest/doorbook"
	"github.com/warpline/warpline/proto/stream"
)

func bookOn(s *broker.Streams) *doorbook.Book {
	return doorbook.New(s.JS, s.Partitions, slog.New(slog.DiscardHandler), func(int) uint64 { return 0 })
}

// upload is the n-th: one part of n events in partition n%2.
func upload(n int) doorbook.Upload {
	return doorbook.Upload{Tenant: fmt.Sprint("t", n%3), Source: "gpu-flight", Received: time.Unix(1795175929, 0), RollupDays: 395,
		Session: fmt.Sprint("s", n%7), Window: fmt.Sprint("w", n), Own: true, Last: uint64(n + 1),
		Parts: []doorbook.Part{{Partition: n % 2, Seq: uint64(n + 1), Events: uint64(n), Bytes: 10}}}
}

// read returns what gateways said in all partitions, in order, and fails where one of them is not the next of its gateway.
func read(t testing.TB, s *broker.Streams) (out []stream.Door) {
	t.Helper()
	type place struct {
		gateway   string
		partition int
	}
	last := map[place][2]uint64{} // number, sequence
	for p := range s.Partitions {
		for seq := uint64(1); ; {
			msg, err := s.Ingest.GetMsg(t.Context(), seq, jetstream.WithGetMsgSubject(stream.DoorFilter(p)))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			seq = msg.Sequence + 1
			e, packed, err := stream.ParseEnvelope(msg.Data)
			if err != nil || e.Kind != stream.KindDoor {
				t.Fatalf("%v %+v", err, e)
			}
			body, err := stream.DecodeBody(nil, packed)
			if err != nil {
				t.Fatal(err)
			}
			d, err := stream.ParseDoor(body)
			if err != nil {
				t.Fatal(err)
			}
			at := place{d.Gateway, p}
			if was := last[at]; d.Number != was[0]+1 || d.After != was[1] || msg.Subject != stream.DoorSubject(p, d.Gateway) {
				t.Errorf("message %d after %d of %v follows %v", d.Number, d.After, at, was)
			}
			last[at] = [2]uint64{d.Number, msg.Sequence}
			out = append(out, d)
		}
	}
	return out
}

// once fails unless the first n uploads are counted and listed once.
func once(t testing.TB, s *broker.Streams, n int) {
	t.Helper()
	events, bytes, want := uint64(0), uint64(0), uint64(0)
	listed := map[string]int{}
	for _, d := range read(t, s) {
		for _, c := range d.Counts {
			events, bytes = events+c.Events, bytes+c.Bytes
		}
		for _, u := range d.Uploads {
			if u.Again {
				t.Errorf("%s is listed again", u.Window)
			}
			listed[u.Window]++
			if c := d.Counts[u.Count]; len(u.Parts) != 1 || c.Tenant != fmt.Sprint("t", u.Parts[0].Events%3) || u.Last != u.Parts[0].Seq {
				t.Errorf("%+v of %+v", u, c)
			}
		}
	}
	for i := range n {
		want += uint64(i)
		if k := fmt.Sprint("w", i); listed[k] != 1 {
			t.Errorf("%s is listed %d times", k, listed[k])
		}
	}
	if events != want || bytes != uint64(10*n) || len(listed) != n {
		t.Errorf("%d events, %d bytes of %d uploads, want %d, %d of %d", events, bytes, len(listed), want, 10*n, n)
	}
}

// However often an acknowledgement does not come in time, all that was entered is told, once, and in messages that follow each other.
func TestToldOnceWhateverIsAcknowledged(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	b := bookOn(s)
	r := rand.New(rand.NewPCG(1, 2))
	const uploads = 400
	for n := range uploads {
		b.Enter(upload(n))
		if n%4 == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(400))*time.Microsecond)
			b.Flush(ctx)
			cancel()
		}
	}
	b.Flush(t.Context())
	b.Flush(t.Context())
	once(t, s, uploads)
}

// While INGEST is full nothing can be told; when there is room again, all of it is.
func TestToldWhenThereIsRoom(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2, IngestMaxBytes: 1 << 20})
	var filled []uint64
	for {
		ack, err := s.JS.Publish(t.Context(), "ingest.0.t.filler", make([]byte, 20<<10))
		if err != nil {
			break
		}
		filled = append(filled, ack.Sequence)
	}
	for range 40 { // up to the last bytes
		if _, err := s.JS.Publish(t.Context(), "ingest.0.t.filler", make([]byte, 400)); err != nil {
			break
		}
	}
	b := bookOn(s)
	for n := range 30 {
		b.Enter(upload(n))
		b.Flush(t.Context())
	}
	if told := read(t, s); len(told) > 0 {
		t.Fatalf("%d messages where there is no room", len(told))
	}
	for _, seq := range filled {
		if err := s.Ingest.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	b.Flush(t.Context())
	once(t, s, 30)
}

// Of more than a message may list, the rest is in the next.
func TestLongBooksAreCut(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	b := bookOn(s)
	const uploads = 40_000
	for n := range uploads {
		b.Enter(upload(n))
	}
	b.Flush(t.Context())
	once(t, s, uploads)
	if told := len(read(t, s)); told < 4 {
		t.Errorf("%d messages", told)
	}
}

func BenchmarkEnter(b *testing.B) {
	s := brokertest.Start(b, broker.Layout{Partitions: 2})
	book := bookOn(s)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		book.Enter(upload(n % 1000))
		if n%4096 == 0 {
			book.Flush(b.Context())
		}
	}
}
