// Package aggregate folds parts of the INGEST stream into chunks of Arrow rows on the ROWS stream.
//
// A Worker owns some of the partitions. Each owned partition is one goroutine (owner.go) that reads its parts in order, folds them
// (fold.go, and a folder for each source) into the state of their sessions and the open chunk's rows, and publishes chunk after chunk. The
// publish is the checkpoint: it carries the position reached, the rows and the change of state, and succeeds only when nobody else has
// published since. So each part is counted once, even if workers are killed or restarted, or two own one partition.
package aggregate

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Config configures a Worker. The zero value of each field means its default.
type Config struct {
	// Sources are the kinds of telemetry that this program knows. Parts of others are rejects, and states with others are not understood.
	Sources []Source

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
	// MetricsTenants is how many tenants have series of their own (tenant.DefaultSeries); the rest is tenant.OtherSeries.
	MetricsTenants int

	// A chunk is published when it is this old (default 400 ms), or has this many rows (131 072: one good insert) or estimated
	// bytes (6 MiB: about 2 MiB compressed, well inside a message).
	ChunkAge   time.Duration
	ChunkRows  int
	ChunkBytes int
	// A snapshot of the state is written after this many chunks (64) or bytes of chunks (8 MiB): what a successor must read.
	SnapshotChunks int
	SnapshotBytes  int

	// RawWait is how long a kernel row waits for its kernel_detail before it is written without one (2 s); DetailWait is the same for its
	// rollup, and how long an ended session stays open for late windows (10 s: an agent that ships a window every 5 s splits some batches
	// from their details).
	RawWait, DetailWait time.Duration
	// Hold is how long rollups of sparse sessions are held back (1 to 4 s, the longer the more sessions there are).
	Hold time.Duration
	// IdleAfter closes the scopes of a session that fell silent (10 min); DropNames frees the names of one (10 min; of one that has ended
	// after DetailWait); Forget drops its state (24 h: after that, only the gateway's record of uploads recognises what is sent again).
	IdleAfter, DropNames, Forget time.Duration
	// ReplayHorizon is how long folded parts are kept in INGEST (24 h). They go sooner when the stream is more than half full, see early.
	ReplayHorizon time.Duration

	// LoadNames reads a session's dictionary from ClickHouse once its blocks have expired from NATS; nil: such names stay unknown.
	LoadNames func(ctx context.Context, tenant, session string, name func(dict string, id uint32, value string)) error

	// NamesBytes bounds the memory of names of all sessions (DefaultNamesBytes). Beyond it they are loaded again when they are needed.
	NamesBytes int

	// Schema has the tables that rows may be of: their series are there from the start. nil: each series begins with its first row.
	Schema *table.Schema

	// Version of the program is written into chunks: a program that cannot read one can say which version wrote it.
	Version string
	// Greedy takes every free partition, however many workers are alive. For tests of two owners.
	Greedy bool

	foldTime, stuckGrace time.Duration // instead of the constants, for tests
	beforeFold           func(stream.Envelope)
	clock                func(partition int) time.Time // what time it is for the fold of a partition, for tests; nil: time.Now
	exit                 func(code int)
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	set(&c.ChunkAge, 400*time.Millisecond)
	set(&c.RawWait, 2*time.Second)
	set(&c.DetailWait, 10*time.Second)
	set(&c.IdleAfter, 10*time.Minute)
	set(&c.DropNames, 10*time.Minute)
	set(&c.Forget, 24*time.Hour)
	set(&c.ReplayHorizon, 24*time.Hour)
	set(&c.foldTime, foldTime)
	set(&c.stuckGrace, stuckGrace)
	for field, v := range map[*int]int{&c.ChunkRows: 1 << 17, &c.ChunkBytes: 6 << 20, &c.SnapshotChunks: 64, &c.SnapshotBytes: 8 << 20,
		&c.NamesBytes: DefaultNamesBytes} {
		if *field == 0 {
			*field = v
		}
	}
	return c
}

// Worker owns partitions and folds them. It is safe for concurrent use.
type Worker struct {
	streams *broker.Streams
	cfg     Config
	metrics *counters

	// suspicions counts the times that INGEST looked like another stream or NATS was reached anew: owners then check their positions.
	suspicions atomic.Uint64

	mu            sync.Mutex
	status        map[int]PartitionStatus
	failing       map[int]Failure
	usage         float64 // of INGEST, 0 to 1, as of the last look
	owners        map[int]*owner
	emptied       map[int]bool   // see watchRows
	newest        map[int]uint64 // number of the newest chunk that this process published, by partition
	notUnderstood map[int]NotUnderstood
	names         *nameBudget
	holding       *holding
	acquitted     map[int]uint64 // parts by partition, see owner.acquit
	clock         atomic.Int64   // ns that folds are measured by, see watchFolds
	loss          string         // see Status
	told          map[int]told   // by partition, see answer
	windows       *broker.Windows
	lossAt        time.Time
}

// Status is what a worker is doing, for one-line diagnosis.
type Status struct {
	Partitions []PartitionStatus
	Failing    []Failure
	// NotUnderstood are partitions that are not folded until a program takes them that can read their state; in order of their numbers.
	NotUnderstood []NotUnderstood
	// Loss is what INGEST was last seen to have lost as a whole, "" for nothing; LossAt is when.
	Loss   string
	LossAt time.Time
}

// PartitionStatus is one owned partition. LastError is "" while all is well; Since is when that began.
type PartitionStatus struct {
	Partition int
	Position  uint64 // INGEST sequence folded and published
	Chunk     uint64
	Sessions  int
	LastError string
	// SnapshotError is why the last snapshot of the state could not be stored, "" when it could: ROWS cannot be purged meanwhile.
	SnapshotError string
	Since         time.Time
	// Loss is what NATS was found to have lost when this process last took the partition, "" for nothing; LossAt is when that was.
	Loss   string
	LossAt time.Time
}

// New returns a worker on the opened streams. Nothing runs until Run.
func New(s *broker.Streams, cfg Config) *Worker {
	cfg = cfg.withDefaults()
	m := newCounters(cfg.Registerer, cfg.Sources...)
	m.tenants.Bound(cfg.MetricsTenants)
	m.beginRows(cfg.Schema.Tables())
	return &Worker{streams: s, cfg: cfg, metrics: m, names: newNameBudget(cfg.NamesBytes, m), status: map[int]PartitionStatus{},
		holding: newHolding(),
		owners:  map[int]*owner{}, notUnderstood: map[int]NotUnderstood{}, acquitted: map[int]uint64{}, emptied: map[int]bool{},
		newest: map[int]uint64{}, told: map[int]told{},
		windows: broker.NewWindows(s.Marks, stream.IngestStream, cfg.ReplayHorizon, "worker", cfg.Registerer)}
}

// Run takes its share of the partitions and folds them until ctx ends. Then it publishes the open chunks, writes snapshots, gives
// its leases back and returns.
func (w *Worker) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { w.watchIngest(ctx) })
	wg.Go(func() { w.watchRows(ctx) })
	wg.Go(func() { w.watchInserted(ctx) })
	wg.Go(func() { w.tellHolding(ctx) })
	watch, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { w.watchFolds(watch) })
	leases := &broker.Leases{
		Bucket: w.streams.Leases, Role: "worker", Count: w.streams.Partitions, TTL: w.streams.LeaseTTL, Logger: w.cfg.Logger,
		Greedy: w.cfg.Greedy, Run: w.runPartition,
	}
	leases.Hold(ctx)
	endWatch() // all owners have left
	wg.Wait()
	return nil
}

// Status returns the state of the owned partitions, in order of their number.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Loss: w.loss, LossAt: w.lossAt}
	for p := range w.streams.Partitions {
		if st, ok := w.status[p]; ok {
			s.Partitions = append(s.Partitions, st)
		}
		if n, ok := w.notUnderstood[p]; ok {
			s.NotUnderstood = append(s.NotUnderstood, n)
		}
	}
	s.Failing = w.failures()
	return s
}

func (w *Worker) setStatus(p int, change func(*PartitionStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.status[p]
	st.Partition = p
	change(&st)
	w.status[p] = st
}

// runPartition owns one partition until ctx ends or another owner fences it.
func (w *Worker) runPartition(ctx context.Context, p int) {
	w.metrics.partitions.Inc()
	defer w.metrics.partitions.Dec()
	defer func() {
		w.mu.Lock()
		delete(w.status, p)
		delete(w.owners, p)
		w.mu.Unlock()
	}()
	o := newOwner(w, p)
	w.mu.Lock()
	w.owners[p] = o
	w.mu.Unlock()
	defer o.leaveGauges()
	if err := w.windows.Own(ctx, p); err != nil && ctx.Err() == nil {
		w.cfg.Logger.Debug("how far back the partition can be replayed", "partition", p, "err", err)
	}
	defer w.windows.Leave(p)
	if stop, err := w.answer(p); err == nil {
		defer stop()
	} else {
		w.cfg.Logger.Warn("questions about what became of uploads cannot be answered for the partition", "partition", p, "err", err)
	}
	if err := o.runSafely(ctx); err != nil && ctx.Err() == nil && !w.unread(ctx, o, err) {
		w.cfg.Logger.Warn("partition given up, will be taken again", "partition", p, "err", err)
		w.fails(p, err)
		select { // do not try again at once: the failure may last
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// watchIngest watches how full INGEST is, because owners purge sooner when it is, and whether it still is the same stream.
func (w *Worker) watchIngest(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	past := historian{kv: w.streams.Marks}
	past.recall(ctx, w.streams.Conn.Stats().Reconnects)
	for {
		w.metrics.endSilent(time.Now())
		look, cancel := context.WithTimeout(ctx, 2*time.Second)
		info, err := w.streams.Ingest.Info(look)
		cancel()
		if err == nil && info.Config.MaxBytes > 0 {
			w.mu.Lock()
			w.usage = float64(info.State.Bytes) / float64(info.Config.MaxBytes)
			w.mu.Unlock()
		}
		if err == nil {
			suspect, lost := past.look(info, w.streams.Conn.Stats().Reconnects)
			if suspect {
				w.suspicions.Add(1)
			}
			if lost != nil {
				w.tell(ctx, *lost)
			}
			past.keep(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Worker) ingestUsage() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usage
}

// purgeIngest deletes the parts of a partition up to a sequence.
func (w *Worker) purgeIngest(ctx context.Context, p int, upTo uint64) error {
	if err := w.streams.Durable(ctx); err != nil { // otherwise a power cut could take the chunk that was made of them
		return err
	}
	return w.streams.Ingest.Purge(ctx, jetstream.WithPurgeSubject(stream.IngestFilter(p)), jetstream.WithPurgeSequence(upTo+1))
}
