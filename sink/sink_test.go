package sink_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

func TestChunksArriveOnce(t *testing.T) {
	w := shared(t)
	registry := prometheus.NewRegistry()
	k := w.sink(func(c *sink.Config) { c.Registerer = registry })
	w.run(k)
	for i := range 40 {
		w.publish(i%4, 200)
	}
	w.settled(3 * time.Minute)
	says(t, k, func(s sink.Status) bool { // lanes that are at rest; they tell a moment after the mark is moved
		return s.String() == "" && !slices.ContainsFunc(s.Lanes, func(l sink.LaneStatus) bool {
			return l.Mark == 0 || l.Pending != 0 || l.Err != "" || l.Lag != 0
		})
	})
	var have map[string]float64
	says(t, k, func(sink.Status) bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		have = map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				have[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()) + m.GetGauge().GetValue()
			}
		}
		return have["warpline_sink_visible_seconds"] >= 40 && have["warpline_sink_rows_total"] >= 8000
	})
	if have["warpline_sink_visible_seconds"] != 40 || have["warpline_sink_retries_total"] != 0 || have["warpline_sink_clickhouse_up"] != 1 {
		t.Errorf("metrics: %v", have)
	}
}

// A span makes one part in each ClickHouse partition: on this rests that max(chunk) speaks for all of it.
func TestOneInsertMakesOnePart(t *testing.T) {
	w := shared(t)
	var seq uint64
	for i := range 30 {
		seq = w.publish(0, 2000+i)
	}
	stop := w.run(w.sink(func(c *sink.Config) { c.MinInterval = time.Second }))
	w.settled(3 * time.Minute)
	stop()
	c := w.conn()
	defer c.Close()
	var ranges, parts uint64
	if err := c.QueryRow(t.Context(), "SELECT uniqExact(last) FROM ledger WHERE last <= $1", seq).Scan(&ranges); err != nil {
		t.Fatal(err)
	}
	// Level 0 parts are as inserted; block numbers count inserts per partition whatever was merged since.
	if err := c.QueryRow(t.Context(), "SELECT toUInt64(max(max_block_number)) FROM system.parts WHERE database = currentDatabase() AND "+
		"table = 'kernels_data'").Scan(&parts); err != nil {
		t.Fatal(err)
	}
	// One span is to be expected, and more where messages come slowly; of each there is one block in each of the two partitions.
	if ranges > 10 || parts != 2*ranges {
		t.Errorf("%d chunks went in %d spans and made %d parts, want 1 and 2", 30, ranges, parts)
	}
}

// At every step of the protocol the sink dies; another goes on.
func TestSinkDiesAtEveryStep(t *testing.T) {
	w := shared(t)
	steps := map[string]bool{}
	deaths := 0
	var mu sync.Mutex
	for round := range 50 {
		newest := map[int]uint64{} // by lane
		for p := range 4 {
			newest[stream.Lane(p, w.s.Lanes)] = w.publish(p, 20)
		}
		k := w.sink()
		var calls, died atomic.Int64
		k.SetStep(func(_ int, step string) error {
			mu.Lock()
			steps[step] = true
			mu.Unlock()
			if calls.Add(1) >= int64(1+round%25) {
				died.Add(1)
				return sink.ErrCrash
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it may have nothing to do
		go func() {
			for died.Load() == 0 && ctx.Err() == nil && !(marked(k, 0, newest[0]) && marked(k, 1, newest[1])) {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(50 * time.Millisecond) // the other lane may have nothing left to do
			cancel()
		}()
		k.RunUnleased(ctx, true)
		if died.Load() > 0 { // else it had fewer steps to take than that: the one before had come far
			deaths++
		}
	}
	if deaths < 40 {
		t.Errorf("%d of 50 sinks died", deaths)
	}
	w.run(w.sink())
	w.settled(3 * time.Minute)
	for _, s := range []string{"taken", "recorded", "insert kernels_data", "inserted kernels_data",
		"insert kernel_stats_data", "inserted usage_data", "insert ledger", "inserted ledger", "advance", "advanced"} {
		if !steps[s] {
			t.Errorf("no sink died at or after step %q: %v", s, steps)
		}
	}
}

// Sinks that are cut off in the middle of what they do.
func TestSinkIsCutOffAtRandom(t *testing.T) {
	w := shared(t)
	for round := range 40 {
		for p := range 4 {
			w.publish(p, 300)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+7*round)*time.Millisecond)
		k := w.sink()
		k.SetStep(func(int, string) error {
			if ctx.Err() != nil {
				return sink.ErrCrash
			}
			return nil
		})
		k.RunUnleased(ctx, false)
		cancel()
	}
	w.run(w.sink())
	w.settled(3 * time.Minute)
}

// Several sinks believe they own all lanes and take them from each other all the time. Each takes what another has in its hands, so
// together they come forward slowly, or not at all where the cores are slow: the leases see to it that this does not last, and here it
// ends as well. The one that is left must find every row, and none twice.
func TestTwoSinksOnOneLane(t *testing.T) {
	w := shared(t)
	others, cancel := context.WithCancel(t.Context())
	defer cancel()
	last, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var taken atomic.Int64
	for i := range 3 {
		k := w.sink()
		k.SetStep(func(_ int, step string) error {
			if step == "taken" {
				taken.Add(1)
			}
			if step == "inserted kernels_data" && i == 0 {
				time.Sleep(30 * time.Millisecond) // a slow one
			}
			return nil
		})
		ctx := others
		if i == 2 {
			ctx = last
		}
		wg.Go(func() { k.RunUnleased(ctx, false) })
	}
	const changes = 24 // each sink takes each of the lanes once at its start
	began := time.Now()
	for i := 0; i < 60 || taken.Load() < changes && time.Since(began) < 3*time.Minute; i++ {
		for p := range 4 {
			w.publish(p, 100)
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	w.settled(5 * time.Minute)
	stop()
	wg.Wait()
	if n := taken.Load(); n < changes {
		t.Errorf("the lanes changed hands %d times, which tests nothing", n)
	}
}

// ClickHouse remembers the token of an insert whose rows it does not have.
func TestOrphanedTokenIsRepaired(t *testing.T) {
	for _, tab := range []string{"kernels_data", "kernel_stats_data", "usage_data", "ledger"} {
		t.Run(tab, func(t *testing.T) {
			w := shared(t)
			for p := range 4 {
				w.publish(p, 50)
			}
			stop := w.run(w.sink())
			w.settled(3 * time.Minute)
			stop()
			for p := range 4 {
				w.publish(p, 50)
			}
			crashed := make(chan struct{}, 8)
			ctx, cancel := context.WithCancel(t.Context())
			k := w.sink()
			k.SetStep(func(_ int, step string) error {
				if step == "inserted "+tab {
					crashed <- struct{}{}
					return sink.ErrCrash
				}
				return nil
			})
			done := make(chan struct{})
			go func() { defer close(done); k.RunUnleased(ctx, true) }()
			<-crashed
			<-crashed
			cancel()
			<-done
			c := w.conn()
			defer c.Close()
			where := "chunk = 2"
			switch tab {
			case "kernels_data":
				where += " AND retention_days = 7" // one of the two parts that the insert made
			case "ledger":
				where = "last > 4"
			}
			if tab == "kernel_stats_data" || tab == "usage_data" {
				// The rows may be merged with those of chunk 1 already: then there is nothing to take away.
				var n uint64
				c.QueryRow(t.Context(), "SELECT count() FROM "+tab+" WHERE chunk = 1").Scan(&n)
				if n == 0 {
					t.Skip("merged before it could be lost")
				}
			}
			// A lightweight delete leaves the part and its token; ALTER … DELETE may drop the emptied part, and its token with it.
			if err := c.Exec(t.Context(), "DELETE FROM "+tab+" WHERE "+where); err != nil {
				t.Fatal(err)
			}
			g, err := w.got(t.Context(), c)
			if err != nil || tab != "ledger" && g == w.want {
				t.Fatalf("nothing was lost (%v)", err)
			}
			registry := prometheus.NewRegistry()
			w.run(w.sink(func(c *sink.Config) { c.Registerer = registry }))
			w.settled(3 * time.Minute)
			var repairs float64
			families, _ := registry.Gather()
			for _, f := range families {
				if f.GetName() == "warpline_sink_repairs_total" {
					for _, m := range f.Metric {
						repairs += m.GetCounter().GetValue()
					}
				}
			}
			if repairs != 2 { // one part in each of two lanes
				t.Errorf("%v repairs, want 2", repairs)
			}
		})
	}
}

// Two versions of a table are never in one insert.
func TestSchemaChangeEndsTheSpan(t *testing.T) {
	w := shared(t)
	for i := range 9 {
		w.publish(0, 20, func(c *stream.Chunk) {
			if i >= 3 && i < 6 {
				for j := range c.Tables {
					if c.Tables[j].Table == "usage_data" {
						c.Tables[j].Fingerprint = "another"
					}
				}
			}
		})
	}
	w.run(w.sink(func(c *sink.Config) { c.MinInterval = time.Second }))
	w.settled(3 * time.Minute)
	c := w.conn()
	defer c.Close()
	var lasts []uint64
	if err := c.QueryRow(t.Context(), "SELECT arraySort(groupUniqArray(last)) FROM ledger").Scan(&lasts); err != nil {
		t.Fatal(err)
	}
	for _, end := range []uint64{3, 6, 9} { // and perhaps elsewhere, where messages come slowly
		if !slices.Contains(lasts, end) {
			t.Errorf("spans end at %v, want [3 6 9]", lasts)
		}
	}
}

// With a replay window what was inserted stays in ROWS, save what is from before a deletion.
func TestPurgeKeepsTheReplayWindow(t *testing.T) {
	w := shared(t)
	var seqs [4][]uint64
	for i := range 10 {
		for p := range 2 {
			if i == 6 {
				w.snapshot[p] = seqs[p][5]
			}
			seqs[p] = append(seqs[p], w.publish(p, 10, func(c *stream.Chunk) {
				if p == 1 && i == 3 {
					c.Deletes = []stream.Deletion{{ID: "d", Tenant: "nobody", Session: "s"}}
				}
			}))
		}
	}
	w.run(w.sink(func(c *sink.Config) { c.ReplayWindow = time.Hour }))
	w.settled(3 * time.Minute)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		info, err := w.s.Rows.Info(t.Context(), jetstream.WithSubjectFilter("rows.*"))
		if err != nil {
			t.Fatal(err)
		}
		have := fmt.Sprint(info.State.Subjects)
		if have == "map[rows.0:10 rows.1:5]" {
			break
		} else if time.Now().After(deadline) || info.State.Subjects["rows.0"] != 10 {
			t.Fatalf("ROWS holds %s, want what is from before the deletion to go, and nothing else", have)
		}
	}
}

// What recovery needs stays in ROWS; all else goes.
func TestPurgeKeepsTheCheckpoint(t *testing.T) {
	w := shared(t)
	var seqs [4][]uint64
	for i := range 10 {
		for p := range 3 {
			if i == 6 && p != 2 { // partition 2 never had a snapshot
				w.snapshot[p] = seqs[p][5]
			}
			seqs[p] = append(seqs[p], w.publish(p, 10))
		}
	}
	w.run(w.sink())
	w.settled(3 * time.Minute)
	deadline := time.Now().Add(60 * time.Second)
	for {
		info, err := w.s.Rows.Info(t.Context(), jetstream.WithSubjectFilter("rows.*"))
		if err != nil {
			t.Fatal(err)
		}
		have := fmt.Sprint(info.State.Subjects)
		if want := "map[rows.0:5 rows.1:5 rows.2:10]"; have == want {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("ROWS holds %s, want %s", have, want)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := w.s.Rows.GetMsg(t.Context(), seqs[0][5]); err != nil {
		t.Errorf("the snapshot's own chunk is gone: %v", err)
	}
	if _, err := w.s.Rows.GetMsg(t.Context(), seqs[0][4]); err == nil {
		t.Error("the chunk before the snapshot is still there")
	}
}

// Bodies that do not fit a message lie in the object store, and leave it when they are inserted.
func TestLargeBodies(t *testing.T) {
	w := shared(t)
	for i := range 6 {
		c, body := w.chunk(i%4, 400)
		c.Object = fmt.Sprintf("body-%d", i)
		packed, err := stream.PackBody(nil, &c, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.s.Chunks.PutBytes(t.Context(), c.Object, packed); err != nil {
			t.Fatal(err)
		}
		msg, err := stream.AppendChunk(nil, &c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.send(i%4, msg)
	}
	w.run(w.sink())
	w.settled(3 * time.Minute)
	deadline := time.Now().Add(60 * time.Second)
	for {
		left, err := w.s.Chunks.List(t.Context())
		if err == jetstream.ErrNoObjectsFound {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bodies are left (%v)", len(left), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A chunk of a worker that knows more than this sink stops its lane, and only its lane; nothing behind it is inserted.
func TestUnreadableChunkStopsItsLane(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.publish(0, 10)
	w.publish(1, 10)
	w.settled(3 * time.Minute)
	before := w.want
	w.publish(0, 10, func(c *stream.Chunk) { c.Tables[0].Table = "from_the_future" })
	w.publish(2, 10)
	w.want = before
	w.lastSeq[0], w.lastSeq[2] = 0, 0
	w.publish(1, 10)
	w.settled(3 * time.Minute)
	deadline := time.Now().Add(60 * time.Second)
	for !strings.Contains(k.Status().String(), "from_the_future") {
		if time.Now().After(deadline) {
			t.Fatalf("the sink says %q", k.Status().String())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The mark is lost, not the rows: the ledger says where to go on.
func TestLostMarkBeginsBehindTheLedger(t *testing.T) {
	w := shared(t)
	for i := range 8 {
		w.publish(i%4, 10)
	}
	stop := w.run(w.sink())
	w.settled(3 * time.Minute)
	stop()
	for n := range w.s.Lanes {
		if err := w.s.Marks.Delete(t.Context(), fmt.Sprintf("lane.%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		w.publish(i%4, 10)
	}
	w.run(w.sink())
	w.settled(3 * time.Minute)
}

// A request that ends early, even between two record batches, leaves nothing: on this rests that a part is whole or not there.
// What one store remembers and the other has lost is told by the audit, and in one line by the sink that starts on it.
func TestLostStoresAreToldByAuditAndSink(t *testing.T) {
	old := shared(t)
	for i := range 8 {
		old.publish(i%4, 10)
	}
	stop := old.run(old.sink())
	old.settled(60 * time.Second)
	stop()
	audit := func(w *world) sink.Report {
		t.Helper()
		c := w.conn()
		defer c.Close()
		r, err := sink.Audit(t.Context(), w.s, c, tabletest.Schema())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	starts := func(w *world) (said string) {
		t.Helper()
		var log lines
		stop := w.run(w.sink(func(c *sink.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
		defer stop()
		deadline := time.Now().Add(60 * time.Second)
		for strings.Count(log.String(), "lost its past") == 0 && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // the other lane
		return log.String()
	}
	if r := audit(old); !r.OK() || len(r.Notes) != 0 {
		t.Fatalf("before anything is lost: %v, %v", r.Problems(), r.Notes)
	}

	t.Run("ClickHouse", func(t *testing.T) {
		w := &world{t: t, s: old.s, e: old.e, db: old.db + "_emptied", numbers: old.numbers, snapshot: old.snapshot, lastSeq: old.lastSeq,
			rng: old.rng}
		said := starts(w)
		if n := strings.Count(said, "ClickHouse has lost its past"); n != 1 {
			t.Errorf("told %d times: %s", n, said)
		}
		for _, after := range []string{"empty", "with new rows"} {
			r := audit(w)
			for _, want := range []string{"the mark says that chunks 1 to", "nats/", "is taken for a duplicate"} {
				if r.OK() || !strings.Contains(fmt.Sprint(r.Problems()), want) {
					t.Errorf("%s: %q is not in %v", after, want, r.Problems())
				}
			}
			if after != "empty" {
				break
			}
			stop := w.run(w.sink())
			seq := w.publish(0, 10)
			for deadline := time.Now().Add(60 * time.Second); audit(w).Lanes[0].Mark < seq && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
			}
			stop()
		}
	})
	t.Run("NATS", func(t *testing.T) {
		nextSecond() // the age of a stream is kept in seconds
		w := shared(t)
		w.db = old.db
		said := starts(w)
		if n := strings.Count(said, "NATS has lost its past"); n != 1 || !strings.Contains(said, "counts again") {
			t.Errorf("told %d times: %s", n, said)
		}
		r := audit(w)
		if !r.OK() || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "older stream") {
			t.Errorf("%v, %v", r.Problems(), r.Notes)
		}
	})
}

// nextSecond waits until NATS stamps what it makes with another second than what it has made.
func nextSecond() {
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 5*time.Millisecond)))
}

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestTornStreamInsertsNothing(t *testing.T) {
	w := shared(t)
	stop := w.run(w.sink())
	w.publish(0, 10)
	w.settled(3 * time.Minute)
	stop()
	c, body := w.chunk(1, 4000)
	first := body[:c.Tables[0].SchemaLen+c.Tables[0].DataLen]
	q := url.Values{"query": {table.Kernels.InsertSQL(w.db)}, "user": {w.e.User()}, "password": {w.e.Password()},
		"insert_deduplication_token": {"torn"}}
	for _, end := range []string{"close", "half", "reset"} {
		conn, err := net.Dial("tcp", w.e.HTTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /?%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", q.Encode(), len(first), first)
		switch end {
		case "half":
			conn.(*net.TCPConn).CloseWrite()
			conn.SetReadDeadline(time.Now().Add(60 * time.Second))
			io.ReadAll(conn)
		case "reset":
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
	time.Sleep(500 * time.Millisecond)
	db := w.conn()
	defer db.Close()
	var n uint64
	if err := db.QueryRow(t.Context(), "SELECT count() FROM kernels_data").Scan(&n); err != nil || n != 10 {
		t.Errorf("%d rows (%v), want the 10 that were there", n, err)
	}
	// The same stream, whole, is taken: so it was the end that was refused.
	resp, err := postWhole(w, q, append(bytes.Clone(first), table.EOS()...))
	if err != nil || !strings.Contains(resp, "200 OK") {
		t.Errorf("whole stream: %q %v", resp, err)
	}
}

func postWhole(w *world, q url.Values, body []byte) (string, error) {
	conn, err := net.Dial("tcp", w.e.HTTPAddr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /?%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", q.Encode(), len(body), body)
	conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	answer := make([]byte, 512)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}
