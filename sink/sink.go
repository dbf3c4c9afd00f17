// Package sink moves chunks from the ROWS stream into ClickHouse, each exactly once.
//
// Start with New and Run. A lane (lane.go) owns some partitions of ROWS: it cuts their messages into spans (span.go), records
// each span in its mark (mark.go) before the first insert, inserts one stream per table and ClickHouse partition (insert.go, splice.go),
// checks what an uncertain insert left behind (verify.go), writes the ledger and moves the mark. Audit proves the result.
//
// # Why nothing is lost or doubled
//
// A span is the set of a lane's ROWS messages with first ≤ sequence ≤ last. It is written to the mark, by compare-and-set, before anything
// of it is inserted, and ROWS keeps those messages until the mark has passed them, so every owner of the lane, now or later, builds the
// same inserts with the same tokens. Each insert is one block of one ClickHouse partition, so that it leaves at most one data part, which
// is there whole or not at all: ClickHouse refuses a request whose body was cut short.
//
// An insert that answered OK at the first try, in a span that this owner recorded, is certain: no other sink can have used its token
// before. Everything else is uncertain: an error, a time-out, a span found in the mark at the start. Then the sink asks, for each (table,
// ClickHouse partition), whether the largest chunk number of each ROWS partition has arrived. The chunk numbers of a ROWS partition rise
// and its chunks are inserted in that order, so max(chunk) answers for the whole block, also in tables that merge rows, which keep the
// maximum. Only what is missing is sent again, under the same token. When that was answered OK and rows are still missing, ClickHouse has
// logged the token without keeping the data part (that happens when it is killed in between). Only then the block is sent under the token
// of the next attempt, which is recorded in the mark first.
//
// # Power cuts
//
// ClickHouse's data parts are synced before it answers and when it merges (sink/engine, Config.Fsync), but its log of tokens is not: after
// a power cut it may have forgotten the token of a data part that it has. So the sink does not rely on tokens to keep rows from being
// inserted twice: it asks first what is there, as after any restart, and each block has a token of its own. And ClickHouse must not be
// ahead of NATS, because its rows would come again in a chunk that the sink cannot know. So before a recorded span is inserted, and before
// anything is deleted or purged because of a mark, the sink waits until chunks and marks are on disk (lane.durable).
//
// # Two sinks on one lane
//
// Taking a lane raises the epoch in its mark, so an earlier owner (a zombie) cannot record anything any more: no new span, no new attempt,
// no progress. What it can still do is finish or repeat an insert whose token is recorded. That is harmless:
//
//   - Its insert has the same token and the same rows as the new owner's. ClickHouse drops the second one, in each ClickHouse partition.
//   - It may have logged the token but not yet shown its data part when the new owner looks and finds nothing. The new owner then sends the
//     same token, and since the token is also the query id, ClickHouse refuses it for as long as the zombie's insert is running ("query
//     with this id is already running"). So an OK means that no insert of that token is in flight, and what is missing after it is lost.
//   - An insert of the zombie that starts later finds its token in the log, because the new owner had an OK for the same token. It cannot
//     come so late that the token has left the log (10 000 inserts, never less than many minutes): a body stops giving bytes when its
//     time is over (splice.go), and the server closes a connection that has been silent for less time than that.
//
// The lease only decides which sink should run; these arguments do not rest on it. Deletions (erase.go) have an argument of their own.
package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Config says where ClickHouse is, what is stored there and how large inserts are. HTTPAddr, NativeAddr and Schema are required; other zero
// values mean the defaults.
type Config struct {
	HTTPAddr, NativeAddr string // host:port of the two protocols
	Database             string // default "warpline"
	User, Password       string
	TLS                  bool // both protocols over TLS, checked against the system's roots

	// Schema has the tables into which chunks are inserted, and the views over them.
	Schema *table.Schema

	// MinInterval is the least time from the begin of one span of a lane to the begin of the next, if that is not full: each insert makes a
	// data part in each table, and few large data parts are cheap. Default 300 ms. Where inserts take long and have few rows
	// it is up to ten times that.
	MinInterval time.Duration
	// MaxRangeBytes bounds the compressed chunk bytes of one span (default 32 MiB); three times as much is the bound uncompressed.
	MaxRangeBytes int64
	// MaxRangeRows bounds the rows of one span. The default is 1 M, which ClickHouse takes as one block.
	MaxRangeRows int

	// ReplayWindow is how long ROWS keeps chunks after they were inserted, for Replayer, while no more than a quarter of it is used. 0: no
	// longer than a worker needs them to recover.
	ReplayWindow time.Duration

	// Fsync makes ClickHouse sync each data part before it answers: durability "fsync".
	Fsync bool
	// Replicated and Cluster are passed on to the schema, see table.Options.
	Replicated bool
	Cluster    string

	Logger     *slog.Logger          // default: discards
	Registerer prometheus.Registerer // default: metrics are kept but not published
}

const (
	insertTimeout = 2 * time.Minute  // of one insert; then it is uncertain
	queryTimeout  = 30 * time.Second // of one verification
	natsTimeout   = 5 * time.Second  // of one KV write or purge
	purgeEvery    = 3 * time.Second
	damageEvery   = 10 * time.Minute // see watchDamage
	// closeGrace is how long Run goes on with the span in flight after its context ended, and leaseGrace how long a lane does
	// whose lease was lost: the lease loop waits for it, so it must stay well below the lease's TTL.
	closeGrace, leaseGrace = 15 * time.Second, time.Second
	pullBytes              = 16 << 20 // of one pull: larger ones make the server's delivery collapse
)

// Sink inserts the chunks of all lanes that this process holds. Its methods may be called from any goroutine.
type Sink struct {
	s       *broker.Streams
	cfg     Config
	log     *slog.Logger
	http    driver.Conn // inserts
	native  driver.Conn // schema and verification
	met     *metrics
	windows *broker.Windows // how far back ROWS can be replayed
	id      string
	health  health
	again   time.Duration // lookAgainAfter

	mu      sync.Mutex
	lanes   map[int]*lane            // those that run now
	rows    [2]int64                 // bytes and max_bytes of ROWS, for Status
	damage  map[string]string        // by stream: what the NATS server says it has lost
	torn    map[string]string        // likewise, torn ends that were logged; only watchDamage uses it
	broken  []BrokenDataPart         // see Broken
	closed  func() bool              // the context of Run has ended
	retains map[string]stream.Retain // requests, by key

	// toldOlder and toldLost keep the lanes from logging the same for the whole service, see lane.suspect.
	toldOlder, toldLost atomic.Bool

	// step, for tests, is called between the steps of the protocol; an error ends the lane on the spot, as a crash would.
	step func(lane int, step string) error
}

// New prepares a sink. It does not connect yet. Call Run, which also closes what New opened.
func New(s *broker.Streams, cfg Config) (*Sink, error) {
	if cfg.HTTPAddr == "" || cfg.NativeAddr == "" {
		return nil, errors.New("sink: ClickHouse's HTTP and native addresses are both needed: give host:port for each")
	}
	if cfg.Schema == nil {
		return nil, errors.New("sink: the schema is not set: give what table.NewSchema makes of the sources")
	}
	if cfg.Database == "" {
		cfg.Database = table.DefaultDatabase
	}
	if cfg.MinInterval <= 0 {
		cfg.MinInterval = 300 * time.Millisecond
	}
	if cfg.MaxRangeBytes <= 0 {
		cfg.MaxRangeBytes = 32 << 20
	}
	if cfg.MaxRangeRows <= 0 {
		cfg.MaxRangeRows = 1 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Sink{s: s, cfg: cfg, log: cfg.Logger.With("role", "sink"), id: broker.NewID(), again: lookAgainAfter, lanes: map[int]*lane{},
		torn: map[string]string{}, retains: map[string]stream.Retain{}, closed: func() bool { return false }}
	k.met = newMetrics(k, cfg.Registerer)
	k.windows = broker.NewWindows(s.Marks, stream.RowsStream, cfg.ReplayWindow, "sink", cfg.Registerer)
	k.health.log = k.log
	opts := clickhouse.Options{
		Auth:            clickhouse.Auth{Username: cfg.User, Password: cfg.Password},
		DialTimeout:     2 * time.Second,
		MaxOpenConns:    s.Lanes + 4,
		MaxIdleConns:    s.Lanes + 4,
		ConnMaxLifetime: time.Hour,
	}
	if cfg.TLS {
		opts.TLS = &tls.Config{}
	}
	http, native := opts, opts
	http.Addr, http.Protocol, http.ReadTimeout = []string{cfg.HTTPAddr}, clickhouse.HTTP, insertTimeout
	native.Addr, native.Protocol, native.ReadTimeout = []string{cfg.NativeAddr}, clickhouse.Native, queryTimeout
	native.MaxOpenConns = s.Lanes*atOnce + 4
	if cfg.Replicated {
		// One connection, so that the replica that has caught up is the one that is asked next.
		native.MaxOpenConns, native.MaxIdleConns = 1, 1
	}
	var err error
	k.http, err = clickhouse.Open(&http)
	if err == nil {
		k.native, err = clickhouse.Open(&native)
	}
	if err != nil {
		return nil, fmt.Errorf("sink: clickhouse options: %w", err)
	}
	return k, nil
}

// Run makes the schema, waiting for ClickHouse as long as it takes, then holds leases and runs their lanes until ctx ends. A span in
// flight then has 15 s to finish. What was not finished is found in the marks by the next sink. It returns nil after ctx ended.
func (k *Sink) Run(ctx context.Context) error {
	defer k.http.Close()
	defer k.native.Close()
	k.mu.Lock()
	k.closed = func() bool { return ctx.Err() != nil }
	k.mu.Unlock()
	if err := k.ensure(ctx); err != nil {
		return nil // ctx ended first
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go k.watch(watch)
	go k.watchBroken(watch)
	go k.keepCubins(watch)
	go k.forgetCubins(watch)
	go k.keepMeasuring(watch)
	go k.watchRetain(watch)
	// The logger without a role, since Leases names it.
	leases := broker.Leases{Bucket: k.s.Leases, Role: "sink", Count: k.s.Lanes, TTL: k.s.LeaseTTL, Logger: k.cfg.Logger, Run: k.runLane}
	leases.Hold(ctx)
	return nil
}

// ensure makes the schema; it fails only when ctx ends.
func (k *Sink) ensure(ctx context.Context) error {
	pause := newPause(5 * time.Second)
	for {
		try, cancel := context.WithTimeout(ctx, insertTimeout)
		err := k.ensureOnce(try)
		cancel()
		if err == nil {
			k.health.ok(schemaLane)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err() // asked to stop: ClickHouse is not at fault
		}
		k.health.failed(schemaLane, "make the schema", err)
		if !sleep(ctx, pause.next()) {
			return ctx.Err()
		}
	}
}

func (k *Sink) ensureOnce(ctx context.Context) error {
	err := k.cfg.Schema.Ensure(ctx, k.native, k.options())
	if err != nil || !k.cfg.Fsync {
		return err
	}
	return k.syncTables(ctx)
}

// runLane runs one lane until ctx ends or another sink has taken it.
func (k *Sink) runLane(ctx context.Context, n int) {
	log := k.log.With("lane", n)
	pause := newPause(5 * time.Second)
	for ctx.Err() == nil {
		l := newLane(k, n, log)
		k.mu.Lock()
		k.lanes[n] = l
		k.mu.Unlock()
		began := time.Now()
		err := l.run(ctx)
		k.mu.Lock()
		if k.lanes[n] == l {
			delete(k.lanes, n)
		}
		k.mu.Unlock()
		switch {
		case ctx.Err() != nil, errors.Is(err, errCrash):
			return
		case errors.Is(err, errFenced):
			log.Info("another sink has taken this lane over")
			return
		}
		log.Warn("lane stopped, starting it again", "err", err)
		if time.Since(began) > time.Minute {
			pause.reset()
		}
		sleep(ctx, pause.next())
	}
}

// watch refreshes what Status says about the stream.
func (k *Sink) watch(ctx context.Context) {
	var looked time.Time
	var reconnects uint64
	for {
		ask, cancel := context.WithTimeout(ctx, natsTimeout)
		info, err := k.s.Rows.Info(ask)
		cancel()
		if err == nil {
			k.mu.Lock()
			k.rows = [2]int64{int64(info.State.Bytes), info.Config.MaxBytes}
			k.mu.Unlock()
		}
		// The NATS server finds damage on disk when it starts, hardly ever later.
		now := k.s.Conn.Stats().Reconnects
		if time.Since(looked) > damageEvery || now != reconnects {
			looked, reconnects = time.Now(), now
			k.watchDamage(ctx)
		}
		if !sleep(ctx, 5*time.Second) {
			return
		}
	}
}

// pause is a doubling wait from 100 ms to a bound.
type pause struct{ now, most time.Duration }

func newPause(most time.Duration) *pause { return &pause{now: 100 * time.Millisecond, most: most} }
func (p *pause) reset()                  { p.now = 100 * time.Millisecond }
func (p *pause) next() time.Duration {
	d := p.now
	p.now = min(2*p.now, p.most)
	return d
}

// sleep reports whether all of d passed.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
