package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
)

// nth is the key of an entry: two tenants and two kinds in turn.
func nth(i int) string {
	return fmt.Sprintf("%s.%s.%d", []string{"red", "blue"}[i%2], []string{"a", "b"}[i/2%2], i)
}

// many puts n entries into the bucket of cubins.
func many(t *testing.T, s *broker.Streams, n int) {
	t.Helper()
	for i := range n {
		subject := "$KV." + s.Cubins.Bucket() + "." + nth(i)
		if _, err := s.JS.PublishAsync(subject, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-s.JS.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("not stored")
	}
}

func TestScan(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	scan := func(filter string) (got []string) {
		t.Helper()
		err := s.Scan(ctx, s.Cubins, filter, func(e broker.Entry) error {
			if time.Since(e.Created) > time.Hour || e.Revision == 0 {
				t.Errorf("%+v", e)
			}
			got = append(got, e.Key+"="+string(e.Value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := scan(">"); got != nil {
		t.Errorf("an empty bucket: %v", got)
	}
	many(t, s, 12)
	if err := s.Cubins.Delete(ctx, "red.a.0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Cubins.Purge(ctx, "red.a.4"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cubins.PutString(ctx, "red.b.2", "new"); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string][]string{
		"red.>":    {"red.b.6=6", "red.a.8=8", "red.b.10=10", "red.b.2=new"},
		"*.b.*":    {"blue.b.3=3", "red.b.6=6", "blue.b.7=7", "red.b.10=10", "blue.b.11=11", "red.b.2=new"},
		"blue.a.5": {"blue.a.5=5"},
		"green.>":  nil,
	} {
		if got := scan(filter); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", filter, got, want)
		}
		keys, err := s.ScanKeys(ctx, s.Cubins, filter)
		if err != nil || len(keys) != len(want) {
			t.Errorf("%s: keys %v %v", filter, keys, err)
		}
	}
	stop := errors.New("stop")
	if err := s.Scan(ctx, s.Cubins, ">", func(broker.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("its own error: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Scan(gone, s.Cubins, ">", func(broker.Entry) error { return nil }); err == nil {
		t.Error("it went on after its context")
	}
}

// Entries that go while they are read do not hold up a scan, whenever they go: a watch waits for them for ever.
func TestScanOfWhatGoes(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := s.JS.Stream(ctx, "KV_"+s.Cubins.Bucket())
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	for _, after := range []int{1, 255, 256, 257, 700, n - 1} {
		many(t, s, n)
		seen := 0
		err := s.Scan(ctx, s.Cubins, ">", func(broker.Entry) error {
			if seen++; seen == after {
				return st.Purge(ctx)
			}
			return nil
		})
		if err != nil || seen < after || seen > n {
			t.Errorf("all go after %d entries: %d seen, %v", after, seen, err)
		}
	}
}

// What stays is seen, though it changes and others come and go.
func TestScanOfWhatChanges(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const n = 1000
	many(t, s, n)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !stop.Load(); i++ {
			s.Cubins.Put(ctx, nth(i%n), []byte("again"))
			other := fmt.Sprintf("other.a.%d", i)
			s.Cubins.Put(ctx, other, nil)
			s.Cubins.Purge(ctx, other)
		}
	}()
	for range 20 {
		seen := map[string]bool{}
		err := s.Scan(ctx, s.Cubins, ">", func(e broker.Entry) error {
			seen[e.Key] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if !seen[nth(i)] {
				t.Fatalf("%s was not seen", nth(i))
			}
		}
	}
	stop.Store(true)
	<-done
}

// NATS that goes away while a scan reads ends it with an error: what was read is not taken for all.
func TestScanWithoutNATS(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv, nc, js := mortal(ctx, t)
	s, err := broker.Open(ctx, nc, js, broker.Layout{Partitions: 1, Lanes: 1, Replicas: 1, IngestMaxBytes: 64 << 20, RowsMaxBytes: 64 << 20,
		BucketMaxBytes: 16 << 20, LeaseTTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	many(t, s, 5000)
	seen := 0
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	err = s.Scan(short, s.Cubins, ">", func(broker.Entry) error {
		if seen++; seen == 300 {
			srv.Shutdown()
			srv.WaitForShutdown()
		}
		return nil
	})
	if err == nil {
		t.Errorf("%d of 5000 entries were taken for all", seen)
	}
	if _, err := s.Cubins.Get(short, "red.a.0"); errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Error("NATS is there")
	}
}
