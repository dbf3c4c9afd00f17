package aggregate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// plant is a house with a worker, a sink and a database: everything but the gateway.
type plant struct {
	*house
	d              *database
	conn           driver.Conn
	kernels, total uint64
	sent           int
	// slack is how many of a hundred calls in rollups may be missing or counted twice.
	slack uint64
}

func newPlant(t testing.TB) *plant {
	t.Helper()
	p := &plant{house: newHouse(t, 4), d: newDatabase(t)}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{p.d.e.TCPAddr()}, Auth: clickhouse.Auth{Username: p.d.e.User(),
		Password: p.d.e.Password(), Database: p.d.name}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p.conn = conn
	return p
}

func (p *plant) worker() (stop func()) {
	cfg := fast
	cfg.SnapshotChunks = 5
	return start(p.t, p.s, cfg)
}

func (p *plant) sink() (stop func()) {
	p.t.Helper()
	cfg := sink.Config{Schema: tabletest.Schema(), HTTPAddr: p.d.e.HTTPAddr(), NativeAddr: p.d.e.TCPAddr(), Database: p.d.name,
		User:     p.d.e.User(),
		Password: p.d.e.Password(), MinInterval: 20 * time.Millisecond}
	if testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	k, err := sink.New(p.s, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	p.t.Cleanup(stop)
	return stop
}

// send publishes n uploads of ten kernels and five details each.
func (p *plant) send(n int) {
	k, ns := load(p.t, p.s, p.sent, n)
	p.kernels, p.total, p.sent = p.kernels+k, p.total+ns, p.sent+n
}

// books are what SQL says of all that was sent.
type books struct{ kernels, total, calls, events, duplicates, rejected uint64 }

func (p *plant) books() (b books) {
	for _, q := range []struct {
		sql string
		to  []any
	}{
		{"SELECT count(), sum(duration_ns) FROM kernels_data", []any{&b.kernels, &b.total}},
		{"SELECT sum(calls) FROM kernel_stats_data", []any{&b.calls}},
		{"SELECT sum(events), sum(duplicates), sum(rejected) FROM usage_data", []any{&b.events, &b.duplicates, &b.rejected}},
	} {
		p.conn.QueryRow(context.Background(), q.sql).Scan(q.to...)
	}
	return b
}

// events of what was sent: rows, details, and a dictionary in each of the first five uploads.
func (p *plant) events() uint64 { return p.kernels + p.kernels/2 + uint64(min(p.sent, 5)) }

// settled waits until everything that was sent is in the tables, and once.
func (p *plant) settled(what string) {
	p.t.Helper()
	want := books{kernels: p.kernels, total: p.total, calls: p.kernels, events: p.events()}
	var got books
	few := want.calls * p.slack / 100
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = p.books(); got.kernels >= want.kernels && got.calls >= want.calls-few && got.events >= want.events {
			break
		}
	}
	time.Sleep(500 * time.Millisecond)
	if got = p.books(); got.calls+few >= want.calls && got.calls <= want.calls+few {
		got.calls = want.calls
	}
	if got != want {
		p.t.Errorf("%s: have %+v\nwant %+v", what, got, want)
	}
}

func (p *plant) audited(words ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var report sink.Report
	var all string
	for { // until the sink is at rest
		var err error
		if report, err = sink.Audit(ctx, p.s, p.conn, tabletest.Schema()); err != nil {
			p.t.Fatal(err)
		}
		if all = strings.Join(append(report.Problems(), report.Notes...), "\n"); len(report.Problems()) == len(report.Lost)+len(report.Found) ||
			ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, w := range words {
		if !strings.Contains(all, w) {
			p.t.Errorf("the audit does not say %q:\n%s", w, all)
		}
	}
	for _, l := range report.Lanes {
		if len(l.Problems) > 0 {
			p.t.Errorf("lane %d: %v", l.Lane, l.Problems)
		}
	}
	for _, t := range report.Tables {
		if len(t.Problems) > 0 {
			p.t.Errorf("table %s: %v", t.Table, t.Problems)
		}
	}
}

func purge(t testing.TB, st jetstream.Stream, opts ...jetstream.StreamPurgeOpt) {
	t.Helper()
	if err := st.Purge(context.Background(), opts...); err != nil {
		t.Fatal(err)
	}
}

// remakeObjects removes an object store and makes it anew.
func remakeObjects(t testing.TB, s *broker.Streams, name string) {
	t.Helper()
	ctx := context.Background()
	if err := s.JS.DeleteObjectStore(ctx, name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.JS.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, Storage: jetstream.FileStorage,
		MaxBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
}

// ROWS loses its end, a subject or all, while INGEST is kept: all goes on by itself, nothing is lost, nothing is doubled, and it is told.
func TestRowsLost(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(p *plant, old string)
		told string
	}{
		{"removed", func(p *plant, _ string) { p.remake(stream.RowsStream, 0) }, "ROWS lost chunks"},
		{"purged", func(p *plant, _ string) { purge(p.t, p.s.Rows) }, "ROWS lost chunks"},
		{"one subject purged", func(p *plant, _ string) {
			purge(p.t, p.s.Rows, jetstream.WithPurgeSubject(stream.RowsSubject(stream.Partition("acme", "s1", 4))))
		}, "ROWS lost chunks"},
		{"older copy", func(p *plant, old string) { p.putBack(stream.RowsStream, old) }, "ROWS lost chunks"},
		{"removed, and the snapshots", func(p *plant, _ string) {
			remakeObjects(p.t, p.s, stream.StateObjects)
			p.remake(stream.RowsStream, 0)
		}, "ROWS lost chunks"},
		{"snapshots alone", func(p *plant, _ string) { remakeObjects(p.t, p.s, stream.StateObjects) }, ""},
		{"marks", func(p *plant, _ string) {
			for lane := range p.s.Lanes {
				if err := p.s.Marks.Purge(context.Background(), stream.MarkKey(lane)); err != nil {
					p.t.Fatal(err)
				}
			}
		}, ""},
	} {
		for _, running := range []bool{false, true} {
			if running == (c.told == "" || strings.Contains(c.name, "and the")) {
				continue // of lost snapshots and marks only a start learns; else the running worker and sink are harder
			}
			t.Run(fmt.Sprintf("%s, running %v", c.name, running), func(t *testing.T) {
				t.Parallel()
				p := newPlant(t)
				stopWorker, stopSink := p.worker(), p.sink()
				p.send(40)
				p.settled("before")
				old := ""
				if c.name == "older copy" {
					old = p.copyOf(stream.RowsStream)
				}
				p.send(40)
				p.settled("before the loss")
				if !running {
					stopWorker()
					stopSink()
				}
				c.lose(p, old)
				if !running {
					p.send(10)
					p.worker()
					p.sink()
				}
				p.send(40)
				p.settled("after the loss")
				p.send(5)
				p.settled("later")
				p.audited(c.told)
			})
		}
	}
}

// The same while uploads come, chunks wait in the sink and spans are half-way in. Rows and books are exact; of rollups, what was held back
// at the moment of the loss may count twice or not at all.
func TestRowsLostUnderLoad(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(p *plant, old string)
	}{
		{"purged", func(p *plant, _ string) { purge(p.t, p.s.Rows) }},
		{"one subject purged", func(p *plant, _ string) {
			purge(p.t, p.s.Rows, jetstream.WithPurgeSubject(stream.RowsSubject(stream.Partition("acme", "s1", 4))))
		}},
		{"removed", func(p *plant, _ string) { p.remake(stream.RowsStream, 0) }},
		{"older copy", func(p *plant, old string) { p.putBack(stream.RowsStream, old) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			p.slack = 2
			p.worker()
			p.sink()
			var mu sync.Mutex // held while the server is away, or uploads would fail
			over, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-over:
						return
					case <-time.After(10 * time.Millisecond):
						mu.Lock()
						p.send(3)
						mu.Unlock()
					}
				}
			}()
			for i := range 3 {
				time.Sleep(700 * time.Millisecond)
				old := ""
				if c.name == "older copy" {
					mu.Lock()
					old = p.copyOf(stream.RowsStream)
					mu.Unlock()
					time.Sleep(700 * time.Millisecond)
					mu.Lock()
				}
				c.lose(p, old)
				if c.name == "older copy" {
					mu.Unlock()
				}
				t.Logf("lost for the %d. time after %d uploads", i+1, p.sent)
			}
			time.Sleep(500 * time.Millisecond)
			close(over)
			<-done
			p.settled("after the losses")
			p.audited("ROWS lost chunks")
		})
	}
}

// A chunk comes to ROWS late, from an owner whose partition has gone on from the mark meanwhile: it is void, the sink will not insert
// it, and its state knows parts that no row tells of. Whoever takes over then folds them.
func TestLastChunkIsVoid(t *testing.T) {
	p := newPlant(t)
	stopWorker, stopSink := p.worker(), p.sink()
	p.send(40)
	p.settled("before")
	stopSink()
	had := lastOfRows(t, p)
	p.send(40)
	for deadline := time.Now().Add(time.Minute); lastOfRows(t, p) == had; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no chunk is published")
		}
	}
	stopWorker()
	for lane := range p.s.Lanes {
		entry, err := p.s.Marks.Get(t.Context(), stream.MarkKey(lane))
		if err != nil {
			t.Fatal(err)
		}
		var mark map[string]json.RawMessage
		var partitions map[int]stream.Inserted
		if err := json.Unmarshal(entry.Value(), &mark); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(mark["partitions"], &partitions); err != nil {
			t.Fatal(err)
		}
		for n, inserted := range partitions {
			inserted.Void = uint64(time.Now().UnixMilli()) + 1
			partitions[n] = inserted
		}
		mark["partitions"], _ = json.Marshal(partitions)
		body, _ := json.Marshal(mark)
		if _, err := p.s.Marks.Update(t.Context(), stream.MarkKey(lane), body, entry.Revision()); err != nil {
			t.Fatal(err)
		}
	}
	p.slack = 2 // rollups that were held back at the mark
	p.worker()
	p.sink()
	p.send(10)
	p.settled("after")
}

func lastOfRows(t testing.TB, p *plant) uint64 {
	t.Helper()
	info, err := p.s.Rows.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}
