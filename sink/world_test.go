package sink_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// world is a NATS server, an engine and a worker that publishes made-up chunks and remembers what they add up to.
type world struct {
	t        testing.TB
	s        *broker.Streams
	e        *engine.Engine // addresses and user; may be one of several lives
	db       string
	mu       sync.Mutex
	numbers  []uint64 // by partition
	snapshot []uint64
	lastSeq  []uint64
	want     totals
	rng      *rand.Rand
	tenant   string // of what is published; "" is acme
	day      int32  // on which it arrived; 0 is today
}

// totals are what SQL must answer.
type totals struct {
	kernels, duration, calls, totalNS, samples, events uint64
}

// worlds numbers the databases, so that a test may run several times on the shared engine.
var worlds atomic.Int64

func newWorld(t testing.TB, e *engine.Engine) *world {
	s := brokertest.Start(t, broker.Layout{Partitions: 4, Lanes: 2, RowsMaxBytes: 2 << 30})
	db := fmt.Sprintf("sink_%d_", worlds.Add(1)) + strings.ToLower(strings.NewReplacer("/", "_", "=", "_", "#", "_").Replace(t.Name()))
	enginetest.DropAtEnd(t, e, db)
	return &world{t: t, s: s, e: e, db: db, numbers: make([]uint64, 4), snapshot: make([]uint64, 4),
		lastSeq: make([]uint64, 4), rng: rand.New(rand.NewPCG(1, 2))}
}

func shared(t testing.TB) *world { return newWorld(t, enginetest.Shared(t)) }

func (w *world) config() sink.Config {
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() && os.Getenv("SINK_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return sink.Config{Schema: tabletest.Schema().WithoutViews(), HTTPAddr: w.e.HTTPAddr(), NativeAddr: w.e.TCPAddr(), Database: w.db,
		User: w.e.User(), Password: w.e.Password(), MinInterval: 20 * time.Millisecond, Logger: log}
}

// withViews makes a sink that makes the views too.
func withViews(c *sink.Config) { c.Schema = tabletest.Schema() }

func (w *world) sink(change ...func(*sink.Config)) *sink.Sink {
	cfg := w.config()
	for _, c := range change {
		c(&cfg)
	}
	k, err := sink.New(w.s, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// run starts a sink; the returned function stops it and waits for its end.
func (w *world) run(k *sink.Sink) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) conn() driver.Conn {
	c, err := clickhouse.Open(&clickhouse.Options{Addr: []string{w.e.TCPAddr()},
		Auth: clickhouse.Auth{Username: w.e.User(), Password: w.e.Password(), Database: w.db}})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// chunk makes a chunk of partition p with n kernel rows in two ClickHouse partitions, and rollup rows of the same.
func (w *world) chunk(p, n int) (stream.Chunk, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbers[p]++
	now := time.Now().UTC()
	if w.day != 0 {
		now = time.Unix(int64(w.day)*86400+3600, 0).UTC()
	}
	tenant := cmp.Or(w.tenant, "acme")
	day := int32(now.Unix() / 86400)
	month := int32(time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	c := stream.Chunk{Partition: p, Number: w.numbers[p], Epoch: 1, CreatedAt: now.UnixNano(),
		OldestReceivedAt: now.UnixNano() - int64(time.Second), Snapshot: stream.Snapshot{Seq: w.snapshot[p]}, After: w.lastSeq[p] + 1}
	var body []byte
	books := table.NewBatch(table.Books.Table)
	add := func(b *table.Batch, d int32, retention uint16) {
		if b.Rows() == 0 {
			return
		}
		schema, data, err := b.Encode(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		c.Tables = append(c.Tables, stream.Rows{Table: b.Table().Name, Fingerprint: b.Table().Fingerprint(), Day: d, RetentionDays: retention,
			Rows: b.Rows(), SchemaLen: len(schema), DataLen: len(data), Amount: b.Amount()})
		body = append(append(body, schema...), data...)
		b.Tally(func(tenant string, rows, amount uint64) {
			if b != books {
				table.Books.Append(books, &table.BookRow{Tenant: tenant, Day: d, TableName: b.Table().Name, Kept: retention, Rows: rows, Amount: amount,
					ReceivedDay: d})
			}
		})
	}
	session := fmt.Sprintf("session-%d", p)
	var hists [5]hist.Dense
	var calls, total [5]uint64
	for _, retention := range []uint16{7, 30} {
		k := table.Kernels
		b := table.NewBatch(k.Table)
		for i := range n / 2 {
			d := uint64(w.rng.IntN(100000))
			id := i % 5
			hists[id].Add(d)
			calls[id]++
			total[id] += d
			w.want.kernels++
			w.want.duration += d
			k.StartedAt.Append(b, now.UnixNano()+int64(i))
			k.DurationNS.Append(b, d)
			k.LaunchID.Append(b, uint32(id))
			k.CorrID.Append(b, uint32(i))
		}
		rows := n / 2
		k.Tenant.AppendN(b, k.Tenant.Index(b, tenant), rows)
		k.SessionID.AppendN(b, k.SessionID.Index(b, session), rows)
		k.StreamID.AppendN(b, 7, rows)
		k.DeviceID.AppendN(b, 0, rows)
		k.ExternalKind.AppendN(b, 0, rows)
		k.ExternalID.AppendN(b, 0, rows)
		k.ReceivedAt.AppendN(b, now.UnixNano(), rows)
		k.RetentionDays.AppendN(b, retention, rows)
		k.RowsPartition.AppendN(b, uint16(p), rows)
		k.Chunk.AppendN(b, c.Number, rows)
		add(b, day, retention)
	}
	ks := table.KernelStats
	b := table.NewBatch(ks.Table)
	for id := range 5 {
		if calls[id] == 0 {
			continue
		}
		w.want.calls += calls[id]
		w.want.totalNS += total[id]
		w.want.samples += calls[id]
		ks.Tenant.AppendString(b, tenant)
		ks.SessionID.AppendString(b, session)
		ks.Bucket.Append(b, now.Truncate(time.Minute).UnixNano())
		ks.BucketS.Append(b, 60)
		ks.KernelID.Append(b, uint32(id))
		ks.Scope.AppendString(b, "")
		ks.Kernel.AppendString(b, fmt.Sprintf("kernel-%d", id))
		ks.Calls.Append(b, calls[id])
		ks.TotalNS.Append(b, total[id])
		ks.MinNS.Append(b, 1)
		ks.MaxNS.Append(b, 100000)
		ks.DurationHist.Append(b, &hists[id])
		ks.ReceivedDay.Append(b, day)
		ks.RetentionDays.Append(b, 400)
		ks.RowsPartition.Append(b, uint16(p))
		ks.Chunk.Append(b, c.Number)
	}
	add(b, month, 400)
	u := table.Usage
	b = table.NewBatch(u.Table)
	w.want.events += uint64(n) + 1
	u.Append(b, &table.UsageRow{Tenant: tenant, Day: day, Source: "gpu-flight", Events: uint64(n) + 1, Bytes: 1, StoredBytes: 1,
		ReceivedDay: day})
	b.FillTail(table.DayPartition{RetentionDays: 400}, uint16(p), c.Number)
	add(b, month, 400)
	books.FillTail(table.DayPartition{RetentionDays: table.BookDays}, uint16(p), c.Number)
	add(books, month, table.BookDays)
	return c, body
}

// publish sends a chunk of partition p as its worker would.
func (w *world) publish(p, n int, change ...func(*stream.Chunk)) uint64 {
	w.t.Helper()
	c, body := w.chunk(p, n)
	for _, f := range change {
		f(&c)
	}
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.send(p, msg)
}

func (w *world) send(p int, msg []byte) uint64 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	ack, err := w.s.JS.Publish(ctx, stream.RowsSubject(p), msg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.lastSeq[p] = ack.Sequence
	w.mu.Unlock()
	return ack.Sequence
}

func (w *world) got(ctx context.Context, c driver.Conn) (g totals, err error) {
	for _, q := range []struct {
		sql string
		to  []any
	}{
		{"SELECT count(), sum(duration_ns) FROM kernels_data", []any{&g.kernels, &g.duration}},
		{"SELECT sum(calls), sum(total_ns), sum(arraySum(mapValues(duration_hist))) FROM kernel_stats_data",
			[]any{&g.calls, &g.totalNS, &g.samples}},
		{"SELECT sum(events) FROM usage_data", []any{&g.events}},
	} {
		if err := c.QueryRow(ctx, q.sql).Scan(q.to...); err != nil {
			return g, err
		}
	}
	return g, nil
}

// settled waits until SQL answers exactly what was published, and then checks that it stays so and that the audit agrees.
func (w *world) settled(within time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c := w.conn()
	defer c.Close()
	w.mu.Lock()
	want := w.want
	w.mu.Unlock()
	var last totals
	var report sink.Report
	for began := time.Now(); ; {
		g, err := w.got(ctx, c)
		if err == nil {
			last = g
			if g.kernels > want.kernels || g.events > want.events || g.calls > want.calls {
				w.t.Fatalf("doubled:\nhave %+v\nwant %+v", g, want)
			}
			if g == want {
				if report, err = sink.Audit(ctx, w.s, c, tabletest.Schema()); err == nil && report.OK() && w.caughtUp(report) {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("not settled (%v):\nhave %+v\nwant %+v\naudit %v", err, last, want, report.Problems())
		case <-time.After(min(max(time.Since(began)/8, 20*time.Millisecond), 500*time.Millisecond)):
		}
	}
}

func (w *world) caughtUp(r sink.Report) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, seq := range w.lastSeq {
		if r.Lanes[stream.Lane(p, w.s.Lanes)].Mark < seq {
			return false
		}
	}
	return true
}
