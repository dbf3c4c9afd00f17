package aggregate_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// publish puts one part on INGEST as the gateway would.
func publish(t testing.TB, s *broker.Streams, e stream.Envelope, body []byte) {
	t.Helper()
	if e.Tenant == "" {
		e.Tenant = "acme"
	}
	if e.Kind == "" {
		e.Kind, e.Source = stream.KindGPUFlight, "gpu-flight"
		for line := range bytes.Lines(body) {
			e.Events += uint64(gpuflight.CountEvents(line))
		}
	}
	e.Bytes = uint64(len(body))
	if e.ReceivedAt == 0 {
		e.ReceivedAt = time.Now().UnixNano()
	}
	e.RetentionDays, e.RollupDays = 7, 395
	msg, err := stream.AppendEnvelope(nil, &e, body)
	if err != nil {
		t.Fatal(err)
	}
	subject := stream.IngestSubject(stream.Partition(e.Tenant, e.Session, s.Partitions), e.Tenant, stream.SessionToken(e.Session))
	if _, err := s.JS.Publish(context.Background(), subject, msg); err != nil {
		t.Fatal(err)
	}
}

// start runs a worker until stop, which waits for its end.
func start(t testing.TB, s *broker.Streams, cfg aggregate.Config) (stop func()) {
	t.Helper()
	if testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if cfg.Sources == nil {
		cfg.Sources = sources
	}
	if cfg.ChunkAge == 0 {
		cfg.ChunkAge = 30 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		aggregate.New(s, cfg).Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// run runs a worker as it is until the returned function is called.
func run(t testing.TB, w *aggregate.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// totals are sums over all rows of all chunks: "table" counts rows, "table.column" adds up, "table.column=text" counts texts.
type totals map[string]uint64

// readRows decodes every chunk on ROWS. What a row of kernels_data takes from its launch is counted as if it were its own.
func readRows(t testing.TB, s *broker.Streams) totals {
	t.Helper()
	sum := totals{}
	facts := newFacts()
	ctx := context.Background()
	slow := time.Now().Add(60 * time.Second)
	for p := range s.Partitions {
		number := uint64(0)
		for seq := uint64(1); ; {
			msg, err := s.Rows.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(stream.RowsSubject(p)))
			if errors.Is(err, context.DeadlineExceeded) && time.Now().Before(slow) {
				continue // no answer is not the end
			}
			if err != nil {
				break
			}
			seq = msg.Sequence + 1
			c, _, section, err := stream.ParseChunk(msg.Data)
			if err != nil {
				t.Fatal(err)
			}
			if number == 0 {
				number = max(c.Base, 1) - 1 // the first versions counted from 1
			}
			if number++; c.Number != number {
				t.Fatalf("partition %d: chunk %d after %d", p, c.Number, number-1)
			}
			if c.Object != "" { // a large chunk; the sink is not here to delete it
				if section, err = s.Chunks.GetBytes(ctx, c.Object); err != nil {
					t.Fatal(err)
				}
			}
			pieces, err := c.Split(section)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.Tables {
				if c.Tables[i].Table == table.Books.Name { // it counts rows, whose number depends on where chunks end
					continue
				}
				piece, err := c.Tables[i].Unpack(nil, pieces[i])
				if err != nil {
					t.Fatal(err)
				}
				addRows(t, sum, facts, c.Tables[i], append(piece, table.EOS()...))
			}
		}
	}
	facts.resolve(t, sum)
	return sum
}

func addRows(t testing.TB, sum totals, facts *facts, r stream.Rows, piece []byte) {
	t.Helper()
	reader, err := ipc.NewReader(bytes.NewReader(piece))
	if err != nil {
		t.Fatalf("%s: %v", r.Table, err)
	}
	defer reader.Release()
	rows := 0
	for reader.Next() {
		rec := reader.Record()
		rows += int(rec.NumRows())
		facts.take(r.Table, rec)
		for i, col := range rec.Columns() {
			name := r.Table + "." + rec.ColumnName(i)
			for row := range col.Len() {
				switch c := col.(type) {
				case *array.Uint64:
					sum[name] += c.Value(row)
				case *array.Uint32:
					sum[name] += uint64(c.Value(row))
				case *array.Uint8:
					sum[name] += uint64(c.Value(row))
				case *array.Int64:
					sum[name] += uint64(c.Value(row))
				case *array.Int32:
					sum[name] += uint64(c.Value(row))
				case *array.Timestamp:
					sum[name] += uint64(c.Value(row))
				case *array.Dictionary:
					sum[name+"="+c.Dictionary().ValueStr(c.GetValueIndex(row))]++
				case *array.String:
					sum[name+"="+c.Value(row)]++
				case *array.Binary:
					if len(c.Value(row)) < 256 {
						sum[name+"="+string(c.Value(row))]++
					}
				case *array.Float32, *array.Float64, *array.Map, *array.Date32, *array.Uint16:
				default:
					t.Fatalf("%s: column of type %s", name, col.DataType())
				}
			}
		}
	}
	if reader.Err() != nil {
		t.Fatalf("%s: %v", r.Table, reader.Err())
	}
	if rows != r.Rows {
		t.Fatalf("%s: header says %d rows, body has %d", r.Table, r.Rows, rows)
	}
	sum[r.Table] += uint64(rows)
}

var _ arrow.Record

// waitIdle waits until the worker has folded everything published so far and nothing changes any more.
func waitFor(t testing.TB, s *broker.Streams, what string, ok func(totals) bool) totals {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		sum := readRows(t, s)
		if ok(sum) {
			return sum
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time; have %v", what, sum)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// window is one window file of a vector session.
type window struct {
	session, channel, name string
	lines                  []byte
}

// vectorWindows reads a session fold (or a run of several) of testdata.
func vectorWindows(t testing.TB, fold string) []window {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "gpuflight", fold, "*", "*.log.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no windows in %s: %v", fold, err)
	}
	var out []window
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		name := filepath.Base(file)
		out = append(out, window{filepath.Base(filepath.Dir(file)), name[:strings.IndexByte(name, '.')], name, body})
	}
	return out
}

// publishWindows cuts each window into parts of two lines, so that joins cross parts.
func publishWindows(t testing.TB, s *broker.Streams, windows []window) {
	for _, w := range windows {
		n := 0
		lines := bytes.SplitAfter(w.lines, []byte("\n"))
		for len(lines) > 0 {
			k := min(2, len(lines))
			body := bytes.Join(lines[:k], nil)
			lines = lines[k:]
			if len(body) == 0 {
				continue
			}
			publish(t, s, stream.Envelope{Session: w.session, Channel: w.channel, Identity: w.name, Part: n}, body)
			n++
		}
	}
}

// settled are the totals that do not depend on how the input was split or ordered.
func (t totals) settled() totals {
	out := totals{}
	for k, v := range t {
		tab, col, _ := strings.Cut(k, ".")
		col, _, _ = strings.Cut(col, "=")
		switch {
		case strings.HasSuffix(tab, "_stats_data") || strings.HasSuffix(tab, "_1m_data") || tab == "sessions_data" || tab == "usage_data" ||
			tab == "pc_samples_data" || tab == "profile_metrics_data" || tab == "source_map_data" || tab == "launches":
			if col == "calls" || col == "total_ns" || col == "samples" || col == "hits" || col == "metric_value" || col == "kernels" ||
				strings.HasSuffix(col, "_sum") || col == "bytes" && tab == "memcpy_stats_data" || col == "unmatched_begin" || col == "unmatched_end" ||
				col == "child_ns" {
				out[k] = v
			}
		case col == "rows_partition" || col == "chunk" || col == "received_at" || col == "config_id" || col == "launch_id" || col == "path" ||
			col == "tenant" || col == "late" || tab == "rejects_data" && (col == "at" || col == "payload_ref"):
		default:
			out[k] = v
		}
	}
	return out
}

func diff(a, b totals) string {
	var out []string
	for k, v := range a {
		if b[k] != v {
			out = append(out, fmt.Sprintf("%s: %d, want %d", k, b[k], v))
		}
	}
	for k, v := range b {
		if _, ok := a[k]; !ok {
			out = append(out, fmt.Sprintf("%s: %d, want none", k, v))
		}
	}
	return strings.Join(out, "\n")
}

// patient waits long enough for the other half on a busy machine: a test moves its clock forward.
var patient = aggregate.Config{Sources: sources, RawWait: time.Minute, DetailWait: time.Minute}

var fast = aggregate.Config{Sources: sources, RawWait: 300 * time.Millisecond, DetailWait: 600 * time.Millisecond}

// Channels in any order, every part twice, parts of one upload under another identity: the rows are the same.
func TestOrderAndRepetitionDoNotMatter(t *testing.T) {
	for _, fold := range []string{"trace_default", "trace_rotated", "scoped", "segmented", "monitor"} {
		t.Run(fold, func(t *testing.T) {
			t.Parallel()
			windows := vectorWindows(t, fold)
			run := func(order func([]window) []window) totals {
				s := brokertest.Start(t, broker.Layout{Partitions: 2})
				var now clock
				stop := start(t, s, patient.WithClock(now.at))
				publishWindows(t, s, order(windows))
				var events uint64
				for _, w := range order(windows) {
					for line := range bytes.Lines(w.lines) {
						events += uint64(gpuflight.CountEvents(line))
					}
				}
				waitFor(t, s, "all folded", func(sum totals) bool { return sum["usage_data.events"] == events })
				now.forward(t, 2*patient.DetailWait) // halves that wait are given up, and children of scopes counted
				stop()
				return readRows(t, s).settled()
			}
			want := run(func(w []window) []window { return w })
			if want["kernels_data"] == 0 && fold != "monitor" {
				t.Fatalf("no kernels: %v", want)
			}
			for name, order := range map[string]func([]window) []window{
				"channels shuffled": func(w []window) []window { return byChannelShuffled(w) },
				"windows twice":     func(w []window) []window { return append(append([]window{}, w...), w...) },
				"other identity": func(w []window) []window {
					again := append([]window{}, w...)
					for _, x := range w {
						x.name = "upload-" + x.name
						again = append(again, x)
					}
					return again
				},
			} {
				got := run(order)
				if d := diff(want, got); d != "" {
					t.Errorf("%s:\n%s", name, d)
				}
			}
		})
	}
}

// byChannelShuffled keeps the order within a channel, as the agent does, and mixes the channels.
func byChannelShuffled(w []window) []window {
	queues := map[string][]window{}
	var keys []string
	for _, x := range w {
		k := x.session + x.channel
		if queues[k] == nil {
			keys = append(keys, k)
		}
		queues[k] = append(queues[k], x)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var out []window
	for len(out) < len(w) {
		k := keys[r.IntN(len(keys))]
		if q := queues[k]; len(q) > 0 {
			out, queues[k] = append(out, q[0]), q[1:]
		}
	}
	return out
}
