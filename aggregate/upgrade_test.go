package aggregate_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// left is what a version left in NATS: see testdata/state/README.md.
type left struct {
	rows, ingest        [][]byte
	state, dictionaries map[string][]byte
}

func readLeft(t testing.TB, file string) left {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	l := left{state: map[string][]byte{}, dictionaries: map[string][]byte{}}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return l
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch kind, name, _ := strings.Cut(h.Name, "/"); kind {
		case "rows":
			l.rows = append(l.rows, data)
		case "ingest":
			l.ingest = append(l.ingest, data)
		case "state":
			l.state[name] = data
		case "dictionaries":
			l.dictionaries[name] = data
		}
	}
}

// put makes it what a NATS holds.
func (l left) put(t testing.TB, s *broker.Streams) {
	t.Helper()
	ctx := context.Background()
	l.send(t, s)
	for name, data := range l.state {
		if _, err := s.State.PutBytes(ctx, name, data); err != nil {
			t.Fatal(err)
		}
	}
	for key, data := range l.dictionaries {
		if _, err := s.Dictionaries.Create(ctx, key, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, msg := range l.rows {
		if _, err := s.JS.Publish(ctx, stream.RowsSubject(0), msg); err != nil {
			t.Fatal(err)
		}
	}
}

// send publishes the parts.
func (l left) send(t testing.TB, s *broker.Streams) {
	t.Helper()
	for _, msg := range l.ingest {
		e, _, err := stream.ParseEnvelope(msg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JS.Publish(context.Background(), stream.IngestSubject(0, e.Tenant, stream.SessionToken(e.Session)), msg); err != nil {
			t.Fatal(err)
		}
	}
}

// What every version that ever landed left behind is taken over: the same rows, and no part counts again when it is sent again.
func TestStatesOfEveryVersion(t *testing.T) {
	files, err := filepath.Glob("testdata/state/*.tar.gz")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			l := readLeft(t, file)
			l.put(t, s)
			var now clock
			start(t, s, patient.WithClock(now.at))
			want := totals{
				"kernels_data": 64, "kernels_data.duration_ns": 2 * (2*10045 + 4006 + 5010 + 3003), "kernels_data.kernel=alpha": 34,
				"kernels_data.kernel=beta": 30,
				"kernel_stats_data.calls":  64, "kernel_stats_data.total_ns": 2 * (2*10045 + 4006 + 5010 + 3003), "scopes_data": 2,
				"scopes_data.duration_ns": 10000,
				"scope_stats_data.calls":  2, "dictionaries": 6, "kernel_details_data": 0, "rejects_data": 0,
			}
			memory := slices.ContainsFunc(l.ingest, func(msg []byte) bool {
				e, _, err := stream.ParseEnvelope(msg)
				return err == nil && e.Kind == stream.KindTelemetry
			})
			if memory { // three events, and then two of which one was counted
				want["memory_events_data"], want["memory_stats_data.events"] = 4, 4
			}
			all := func(sum totals) bool {
				return sum["memory_events_data"] >= want["memory_events_data"] && sum["kernels_data"] >= 64 && sum["kernel_stats_data.calls"] >= 64 &&
					sum["scopes_data"] >= 2 && sum["scope_stats_data.calls"] >= 2
			}
			sum := waitFor(t, s, "the parts that were left", func(totals) bool { return head(t, s).Position >= uint64(len(l.ingest)) })
			named := sum["dictionaries"]         // minutes later names that were missing are looked for once more
			now.forward(t, 2*patient.DetailWait) // halves that wait are given up
			waitFor(t, s, "all of it", all)
			l.send(t, s)
			sum = waitFor(t, s, "what is sent again", func(sum totals) bool { return sum["usage_data.duplicates"] >= uint64(len(l.ingest)) })
			sum["dictionaries"] = named
			for key, n := range want {
				if sum[key] != n {
					t.Errorf("%s: %d, want %d", key, sum[key], n)
				}
			}
		})
	}
}

// Whoever changes what is written without a new number finds out here: what this version reads it writes again.
func TestStateOfThisVersionIsFrozen(t *testing.T) {
	files, err := filepath.Glob("testdata/state/v*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixture of this version: %v", err)
	}
	l := readLeft(t, files[len(files)-1])
	for name, data := range l.state {
		again, version, err := aggregate.Reencode(data, sources...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := "v" + version + ".tar.gz"; filepath.Base(files[len(files)-1]) != want {
			t.Errorf("states are written as version %s: make %s (testdata/state/README.md)", version, want)
		}
		plain, err := aggregate.Plain(data)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(plain) { // what is in maps has no order
			t.Errorf("%s: %d bytes are written as %d other ones: the layout needs a new number (layout.go)", name, len(plain), len(again))
		}
	}
}

// A partition whose state a later version wrote is left alone, and said to be; other partitions go on, and so does it once it can be read.
func TestStateOfALaterVersionWaits(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	c := stream.Chunk{Partition: 0, Number: 1000, Base: 1000, Epoch: 1, Nonce: "n", Writer: "v99.1"}
	msg, err := stream.AppendChunk(nil, &c, []byte{99, 0, 0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := s.JS.Publish(context.Background(), stream.RowsSubject(0), msg)
	if err != nil {
		t.Fatal(err)
	}
	kernels, _ := load(t, s, 0, 20)
	w := aggregate.New(s, fast)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	defer func() { cancel(); <-done }()
	var n []aggregate.NotUnderstood
	for deadline := time.Now().Add(60 * time.Second); len(n) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		n = w.Status().NotUnderstood
	}
	if len(n) != 1 || n[0].Partition != 0 || n[0].Writer != "v99.1" || !strings.Contains(n[0].Err, "v99.1") || !strings.Contains(n[0].Err,
		"version 99") {
		t.Fatalf("%+v", n)
	}
	if err := s.Rows.DeleteMsg(context.Background(), ack.Sequence); err != nil {
		t.Fatal(err)
	}
	waitFor(t, s, "every kernel", func(sum totals) bool { return sum["kernels_data"] >= kernels })
	if n := w.Status().NotUnderstood; len(n) != 0 {
		t.Errorf("still not understood: %+v", n)
	}
}
