package broker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// eventually waits for a condition.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// Each stream and bucket is deleted under a process that holds it: it comes back, the handles of before work, leases are held again, the
// log and the metric name it, and INGEST and ROWS go on above every sequence that was given out.
func TestWhatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	var log text
	l := small()
	l.Logger = log.logger()
	s, err := broker.Open(t.Context(), nc, js, l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reg := prometheus.NewRegistry()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.Keep(ctx, broker.KeeperConfig{Registerer: reg, Every: 100 * time.Millisecond})
	}()
	defer func() { cancel(); <-kept }()
	var running atomic.Int64
	leases := &broker.Leases{Bucket: s.Leases, Role: "worker", Count: 4, TTL: s.LeaseTTL, Logger: slog.New(slog.DiscardHandler),
		Run: func(ctx context.Context, _ int) {
			running.Add(1)
			<-ctx.Done()
			running.Add(-1)
		}}
	held := make(chan struct{})
	go func() { defer close(held); leases.Hold(ctx) }()
	defer func() { cancel(); <-held }()
	eventually(t, 60*time.Second, "all leases are held", func() bool { return running.Load() == 4 })
	for range 7 {
		for _, subject := range []string{stream.IngestSubject(3, "t", "s"), stream.RowsSubject(2)} {
			if _, err := js.Publish(ctx, subject, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, 60*time.Second, "the keeper has seen the ends", func() bool { // it looks every fifth round
		for _, name := range []string{stream.IngestStream, stream.RowsStream} {
			st, err := js.Stream(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			info := st.CachedInfo()
			if s.Full()[name] != float64(info.State.Bytes)/float64(info.Config.MaxBytes) {
				return false
			}
		}
		return true
	})
	for _, name := range everything {
		if err := js.DeleteStream(ctx, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		eventually(t, 60*time.Second, name+" is there again", func() bool {
			_, err := js.Stream(ctx, name)
			return err == nil && s.Remade(name) == 1
		})
	}
	for name, kv := range map[string]jetstream.KeyValue{stream.KeysBucket: s.Keys, stream.WindowsBucket: s.Windows,
		stream.DictionariesBucket: s.Dictionaries, stream.MarksBucket: s.Marks, stream.DeletionsBucket: s.Deletions} {
		if _, err := kv.Put(ctx, "k", []byte("v")); err != nil {
			t.Errorf("bucket %s: %v", name, err)
		} else if e, err := kv.Get(ctx, "k"); err != nil || string(e.Value()) != "v" {
			t.Errorf("bucket %s has lost what was put into it: %v", name, err)
		}
	}
	for name, o := range map[string]jetstream.ObjectStore{stream.PartsObjects: s.Parts, stream.StateObjects: s.State,
		stream.ChunksObjects: s.Chunks} {
		if _, err := o.PutBytes(ctx, "k", []byte("v")); err != nil {
			t.Errorf("object store %s: %v", name, err)
		} else if b, err := o.GetBytes(ctx, "k"); err != nil || string(b) != "v" {
			t.Errorf("object store %s has lost what was put into it: %v", name, err)
		}
	}
	for subject, st := range map[string]jetstream.Stream{stream.IngestSubject(3, "t", "s"): s.Ingest, stream.RowsSubject(2): s.Rows} {
		ack, err := js.Publish(ctx, subject, []byte("y"))
		if err != nil {
			t.Errorf("%s: %v", subject, err)
			continue
		}
		if ack.Sequence <= 7 {
			t.Errorf("%s: sequence %d was given out before", subject, ack.Sequence)
		}
		if m, err := st.GetMsg(ctx, ack.Sequence); err != nil || string(m.Data) != "y" {
			t.Errorf("%s: the handle of before does not read: %v", subject, err)
		}
		cfg := config(t, js, ack.Stream)
		if cfg.Metadata[stream.MetaPartitions] != "4" || len(cfg.Subjects) != 4 || cfg.MaxBytes != 64<<20 {
			t.Errorf("%s was made anew with other settings: %+v", ack.Stream, cfg)
		}
	}
	eventually(t, 60*time.Second, "all leases are held again", func() bool { return running.Load() == 4 })
	for _, name := range everything {
		if !strings.Contains(log.String(), strings.TrimPrefix(strings.TrimPrefix(name, "KV_"), "OBJ_")+" was gone and is made anew") {
			t.Errorf("%s: not a line about it", name)
		}
	}
	series := 0
	families, err := reg.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "warpline_broker_remade_total" && m.GetCounter().GetValue() == 1 {
				series++
			}
		}
	}
	if err != nil || series != len(everything) {
		t.Errorf("the metric counts %d, %v", series, err)
	}
}

// INGEST is gone when the service starts: it begins above the position of the newest chunk, with the partitions of ROWS, and that is told.
func TestIngestBeginsAboveEveryPosition(t *testing.T) {
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	l := small()
	if _, err := broker.Open(t.Context(), nc, js, l); err != nil {
		t.Fatal(err)
	}
	msg, err := stream.AppendChunk(nil, &stream.Chunk{Partition: 1, Number: 9, Base: 9, Epoch: 1, Nonce: "n", Position: 4711, CreatedAt: 1},
		nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), stream.RowsSubject(1), msg); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), stream.MarksBucket)
	if err != nil {
		t.Fatal(err)
	}
	for key, mark := range map[string]string{"lane.0": `{"mark":812,"pending":{"last":815},"partitions":{"0":{"position":{"seq":5000,"at":1}` +
		`}}}`, "lane.1": `{"mark":3,"partitions":{"1":{"chunk":1,"snapshot":1}}}`, "junk": "x"} {
		if _, err := kv.PutString(t.Context(), key, mark); err != nil {
			t.Fatal(err)
		}
	}
	if err := js.DeleteStream(t.Context(), stream.IngestStream); err != nil {
		t.Fatal(err)
	}
	var log text
	l.Partitions, l.Logger = 16, log.logger()
	s, err := broker.Open(t.Context(), nc, js, l)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), stream.IngestSubject(0, "t", "s"), []byte("x"))
	if err != nil || ack.Sequence != 5001 {
		t.Errorf("the first message has sequence %+v, %v", ack, err)
	}
	if s.Partitions != 4 || s.Remade(stream.IngestStream) != 1 || !strings.Contains(log.String(), "stream INGEST was not there") {
		t.Errorf("%d partitions, made anew %d times, told %q", s.Partitions, s.Remade(stream.IngestStream), log.String())
	}
	if err := js.DeleteStream(t.Context(), stream.RowsStream); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Open(t.Context(), nc, js, l); err != nil {
		t.Fatal(err)
	}
	if ack, err := js.Publish(t.Context(), stream.RowsSubject(1), []byte("x")); err != nil || ack.Sequence != 816 {
		t.Errorf("the first chunk has sequence %+v, %v", ack, err)
	}
	// Nobody owns partition 99, so nothing can be left lying there.
	if _, err := js.Publish(t.Context(), "ingest.99.t.s", []byte("x")); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("a part that nobody owns is taken: %v", err)
	}
}

// A stream of an earlier version took parts of partitions that there are not. They are found, named, and told.
func TestMessagesThatNobodyOwnsAreTold(t *testing.T) {
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	l := small()
	if _, err := broker.Open(t.Context(), nc, js, l); err != nil {
		t.Fatal(err)
	}
	old := config(t, js, stream.IngestStream)
	old.Subjects = []string{"ingest.>"}
	if _, err := js.UpdateStream(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"ingest.99.t.s", "ingest.99.t.s", stream.IngestSubject(3, "t", "s"), "ingest.4.t.s"} {
		if _, err := js.Publish(t.Context(), subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var log text
	l.Logger = log.logger()
	s, err := broker.Open(t.Context(), nc, js, l)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.FindUnowned(t.Context())
	have := map[broker.Unowned]bool{}
	for _, u := range found {
		have[u] = true
	}
	if err != nil || len(found) != 2 || !have[broker.Unowned{Stream: stream.IngestStream, Subject: "ingest.99.t.s", Messages: 2}] ||
		!have[broker.Unowned{Stream: stream.IngestStream, Subject: "ingest.4.t.s", Messages: 1}] {
		t.Errorf("found %v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); s.Keep(ctx, broker.KeeperConfig{Every: 20 * time.Millisecond}) }()
	eventually(t, 60*time.Second, "they are told", func() bool {
		return strings.Contains(log.String(), "trouble: stream INGEST holds messages beside its partitions") &&
			strings.Contains(log.String(), "messages=3")
	})
	cancel()
	<-kept
	if _, err := js.Publish(t.Context(), "ingest.99.t.s", []byte("x")); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("another one is taken: %v", err)
	}
}

// A bucket that fills up is seen, in Full and in the metric, and so is its emptying.
func TestFillOfBucketsIsSeen(t *testing.T) {
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	s, err := broker.Open(t.Context(), nc, js, small())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reg := prometheus.NewRegistry()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.Keep(ctx, broker.KeeperConfig{Registerer: reg, Every: 20 * time.Millisecond})
	}()
	defer func() { cancel(); <-kept }()
	for i := range 31 {
		if _, err := s.Marks.Put(ctx, fmt.Sprint("junk", i), make([]byte, 500<<10)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, "it is nearly full", func() bool { return s.Full()["KV_"+stream.MarksBucket] > 0.9 })
	if full := s.Full()["KV_"+stream.LeasesBucket]; full > 0.1 {
		t.Errorf("the leases are %v full", full)
	}
	for i := range 31 {
		if err := s.Marks.Purge(ctx, fmt.Sprint("junk", i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, "it is empty again", func() bool { return s.Full()["KV_"+stream.MarksBucket] < 0.1 })
}
