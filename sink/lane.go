package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/warpline/warpline/proto/stream"
)

// lane inserts the chunks of the partitions p with p mod lanes = n, one span after the other. Only one goroutine, run's, uses it; Status
// and the metrics read its atomic fields.
type lane struct {
	k     *Sink
	n     int
	log   *slog.Logger
	marks marks
	feed  *feed
	ctx   context.Context // the lease's: asks the lane to stop

	next    *message // read from the feed, for the next span
	began   time.Time
	took    time.Duration  // the span before
	purged  map[int]uint64 // by partition, the sequence below which ROWS was purged
	purgeAt time.Time
	window  *window

	retained map[string]string // requests of tenants to retain that are carried out
	retainAt time.Time
	taken    time.Time // when this owner took the lane

	shownMark atomic.Uint64
	oldest    atomic.Int64 // CreatedAt of the oldest chunk that is not inserted, 0 none
	held      atomic.Int64 // messages read and not inserted
	feedShown atomic.Pointer[feed]
}

func newLane(k *Sink, n int, log *slog.Logger) *lane {
	return &lane{k: k, n: n, log: log, marks: marks{kv: k.s.Marks, key: markKey(n)}, purged: map[int]uint64{}, retained: map[string]string{},
		purgeAt: time.Now().Add(purgeEvery), window: newWindow(k.cfg.ReplayWindow)}
}

// run takes the lane and works until ctx ends, another sink takes it (errFenced) or something fails that starting again may solve.
func (l *lane) run(ctx context.Context) error {
	l.ctx = ctx
	defer l.k.health.forget(l.n)
	work, cancel := l.graceful(ctx)
	defer cancel()
	if err := l.take(ctx); err != nil {
		return err
	}
	if err := l.step("taken"); err != nil {
		return err
	}
	l.taken = time.Now()
	if err := l.k.windows.Own(ctx, l.n); err != nil && ctx.Err() == nil {
		l.log.Debug("how far back the lane can be replayed", "err", err)
	}
	defer l.k.windows.Leave(l.n)
	if err := l.resumeRetain(work); err != nil {
		return err
	}
	if l.marks.mark.Fresh {
		if err := l.scrub(work); err != nil {
			return err
		}
	}
	if p := l.marks.mark.Pending; p != nil {
		if lost, err := l.lostSpan(ctx, p); err != nil {
			return err
		} else if lost {
			if err := l.abandon(work, p); err != nil {
				return err
			}
		}
	}
	read, stop := context.WithCancel(ctx)
	l.startFeed()
	done := make(chan struct{})
	go func() { defer close(done); l.feed.run(read) }()
	defer func() { stop(); <-done }()

	if p := l.marks.mark.Pending; p != nil {
		s, err := l.collect(ctx, p)
		if err == nil {
			l.log.Info("finishing a span that was begun before", "first", p.First, "last", p.Last, "since", p.StartedAt)
			err = l.insertSpan(work, s, true)
		}
		if err != nil {
			return err
		}
	}
	for {
		if l.marks.voided {
			return errVoided
		}
		s, err := l.gather(ctx)
		if err != nil {
			return err
		}
		l.began = time.Now()
		if err := l.record(work, s); err != nil {
			return err
		}
		if err := l.insertSpan(work, s, false); err != nil {
			return err
		}
		l.took = time.Since(l.began)
		l.purge(work)
		if err := l.retain(work); err != nil {
			return err
		}
	}
}

// graceful returns a context that ends later than ctx: a span in flight has that time to finish.
func (l *lane) graceful(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		l.k.mu.Lock()
		closed := l.k.closed
		l.k.mu.Unlock()
		grace := leaseGrace
		if closed() {
			grace = closeGrace
		}
		time.AfterFunc(grace, cancel)
	})
	return work, func() { stop(); cancel() }
}

func (l *lane) stopping() bool { return l.ctx.Err() != nil }

func (l *lane) step(what string) error {
	if l.k.step == nil {
		return nil
	}
	return l.k.step(l.n, what)
}

// take makes this process the lane's owner.
func (l *lane) take(ctx context.Context) error {
	var created time.Time
	why, err := l.marks.take(ctx, l.k.id, func(ctx context.Context, m *mark) (streamState, error) {
		ask, cancel := context.WithTimeout(ctx, natsTimeout)
		defer cancel()
		info, err := l.k.s.Rows.Info(ask)
		if err != nil {
			return streamState{}, fmt.Errorf("read the state of ROWS: %w", err)
		}
		created = info.Created
		now := streamState{created: info.Created.Unix(), lastSeq: info.State.LastSeq}
		if m.MarkAt != 0 && m.Mark <= now.lastSeq {
			now.markAt, err = l.storedAt(ask, m.Mark)
			if err != nil {
				return streamState{}, err
			}
		}
		return now, nil
	}, func(ctx context.Context, now streamState) (uint64, error) {
		return l.ledgered(ctx, now.created, now.lastSeq)
	})
	if err != nil {
		return err
	}
	m := &l.marks.mark
	if why != "" && len(m.Partitions) > 0 {
		l.log.Warn("the lane reads ROWS from its first message on and passes over chunks that ClickHouse has", "why", why)
	} else if why != "" && m.Mark > 0 {
		l.log.Warn("the lane's mark begins anew after the ledger's last row", "why", why, "mark", m.Mark)
	} else if why != "" {
		l.log.Info("the lane's mark begins at the stream's first message", "why", why)
	}
	l.shownMark.Store(l.marks.mark.Mark)
	l.suspect(ctx, why != "", created)
	return nil
}

// suspect warns when one of NATS and ClickHouse has lost what the other remembers. It does not stop the lane when it gets no answer: the
// audit asks again.
func (l *lane) suspect(ctx context.Context, anew bool, created time.Time) {
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	ledger := name(l.k.cfg.Database) + ".ledger"
	if anew {
		older, err := olderLedger(ask, l.k.native, ledger, created.Unix())
		if err == nil && older != "" && l.k.toldOlder.CompareAndSwap(false, true) { // it is the same for all lanes
			l.log.Warn("NATS has lost its past: " + older)
		}
		return
	}
	var first uint64
	sql := fmt.Sprintf("SELECT min(first) FROM %s WHERE lane = %d AND inserted_at >= fromUnixTimestamp(%d)", ledger, l.n, created.Unix())
	if err := l.k.native.QueryRow(ask, sql).Scan(&first); err != nil {
		return
	}
	if lost := lostPast(first, l.marks.mark.Mark, created); lost != "" && l.k.toldLost.CompareAndSwap(false, true) {
		l.log.Warn("ClickHouse has lost its past: " + lost)
	}
}

func (l *lane) startFeed() {
	most := l.k.cfg.MaxRangeBytes + pullBytes
	f := &feed{rows: l.k.s.Rows, log: l.log, out: make(chan message, 1024), budget: semaphore.NewWeighted(most), most: most,
		next: l.marks.mark.Mark + 1, numbers: map[int]uint64{}, created: l.marks.mark.StreamCreated, oldest: &l.oldest, missing: l.lacks,
		copied: l.k.s.Copied, aside: l.setAside}
	for p := range l.k.s.Partitions {
		if stream.Lane(p, l.k.s.Lanes) == l.n {
			f.subjects = append(f.subjects, stream.RowsSubject(p))
		}
	}
	for p, s := range l.marks.mark.Partitions {
		f.numbers[p] = max(s.Chunk, max(s.Void, 1)-1)
	}
	l.feed = f
	l.feedShown.Store(f)
}

// waiting is how many messages of the lane are known and not inserted.
func (l *lane) waiting() uint64 {
	n := uint64(l.held.Load())
	if f := l.feedShown.Load(); f != nil {
		n += f.pending.Load() + uint64(len(f.out))
	}
	return n
}

// lag is the age of the oldest chunk that is not inserted.
func (l *lane) lag() time.Duration {
	if at := l.oldest.Load(); at > 0 {
		return max(0, time.Since(time.Unix(0, at)))
	}
	return 0
}

// receive waits for one message, at most d (for ever when negative). Without an error and a message, the time is over.
func (l *lane) receive(ctx context.Context, d time.Duration) (*message, error) {
	if m := l.next; m != nil {
		l.next = nil
		return m, nil
	}
	select { // a message that is there has priority over the time
	case m, ok := <-l.feed.out:
		return l.received(ctx, m, ok)
	default:
	}
	if d == 0 {
		return nil, ctx.Err()
	}
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case m, ok := <-l.feed.out:
		return l.received(ctx, m, ok)
	case <-over:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lane) received(ctx context.Context, m message, ok bool) (*message, error) {
	if ok {
		l.held.Add(1)
		l.oldest.CompareAndSwap(0, m.chunk.CreatedAt)
		return &m, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(l.feed.failed, errForeign) {
		return nil, l.feed.failed
	}
	// Nothing after this message may be inserted before it, so the lane stands still.
	l.retry("read a chunk", fmt.Errorf("%w: %w", errChunk, l.feed.failed))
	sleep(ctx, 30*time.Second)
	return nil, l.feed.failed
}

// gather waits for messages and makes a span of them. When there is little to do it takes what is there, one span for each MinInterval;
// when there is much to do it fills the span.
func (l *lane) gather(ctx context.Context) (*span, error) {
	const linger = 200 * time.Millisecond // for messages that the stream is known to have
	s := &span{first: l.marks.mark.Mark + 1}
	cfg := &l.k.cfg
	for {
		wait := time.Duration(0)
		n := len(s.messages)
		switch {
		case n == 0:
			wait = min(time.Until(l.purgeAt), time.Until(l.retainAt))
		case s.full(cfg):
			return s, nil
		case s.messages[n-1].more:
			wait = max(linger, cfg.interval(l.took, s.rows)-time.Since(l.began))
		default:
			wait = cfg.wait(l.took, time.Since(l.began), s.rows)
		}
		m, err := l.receive(ctx, max(0, wait))
		switch {
		case err != nil:
			return nil, err
		case m == nil && len(s.messages) == 0:
			l.purge(ctx)
			if err := l.retain(ctx); err != nil {
				return nil, err
			}
		case m == nil:
			return s, nil
		case !s.fits(m, cfg):
			l.next = m
			return s, nil
		default:
			s.add(*m)
		}
	}
}

// A lane that inserts all the time while little comes makes many small data parts, and ClickHouse is the busier the more of them it has to
// merge. So a span of fewer rows than goodRows waits spanPause times as long as the one before it took, counted from its begin, but no
// longer than spanPause least intervals. On a machine with too much to do inserts take longer than that, and lanes that went on at once
// would take still more of it: there a lane rests as long as it works, at most slowPause least intervals from begin to begin.
const (
	goodRows  = 1 << 18
	spanPause = 4
	slowPause = 10
)

// interval is the least time from the begin of the last span, which took so long, to the begin of the next, which has so many rows by now.
func (cfg *Config) interval(took time.Duration, rows int) time.Duration {
	if rows >= goodRows {
		return cfg.MinInterval
	}
	return max(cfg.MinInterval, spanPause*min(took, cfg.MinInterval), min(2*took, slowPause*cfg.MinInterval))
}

// wait is how long a span waits for one more message when the last span began so long ago. Silence ends it too: what came is not held for
// company that does not come.
func (cfg *Config) wait(took, since time.Duration, rows int) time.Duration {
	return min(cfg.interval(took, rows)-since, cfg.MinInterval)
}

// collect rebuilds a span that was recorded before.
func (l *lane) collect(ctx context.Context, p *pending) (*span, error) {
	s := &span{first: p.First}
	for s.last < p.Last {
		m, err := l.receive(ctx, -1)
		if err != nil {
			return nil, err
		}
		if m.seq > p.Last {
			break
		}
		// The limits may have been larger when the span was recorded: the feed must not wait for room that only this lane frees.
		l.feed.release([]message{*m})
		m.size = 0
		s.add(*m)
	}
	if s.last != p.Last || len(s.messages) != p.Messages {
		err := fmt.Errorf("%w: %d of the %d messages of the span %d to %d are left", errLost, len(s.messages), p.Messages, p.First, p.Last)
		return nil, errors.Join(err, l.abandon(ctx, p))
	}
	return s, nil
}

// record writes the span to the mark. From here on it will be inserted, by us or by a successor.
func (l *lane) record(ctx context.Context, s *span) error {
	next := l.marks.mark.clone()
	last := &s.messages[len(s.messages)-1]
	next.Pending = &pending{First: s.first, Last: s.last, LastAt: last.at, Messages: len(s.messages),
		Reaches: map[int]stream.Inserted{}, StartedAt: time.Now().UTC(), Attempts: map[string]int{}}
	s.reach(next.Pending.Reaches)
	if err := l.marks.write(ctx, next); err != nil {
		return err
	}
	if err := l.durable(ctx); err != nil {
		return err
	}
	if err := l.step("recorded"); err != nil {
		return err
	}
	return l.present(ctx, last)
}

// insertSpan inserts a recorded span, writes the ledger and moves the mark.
func (l *lane) insertSpan(ctx context.Context, s *span, uncertain bool) error {
	if err := l.load(ctx, s); err != nil {
		return err
	}
	defer s.unload()
	p := l.marks.mark.Pending
	for _, d := range s.tables {
		d.token = token(l.marks.mark.Generation, l.n, p.First, p.Last, d.name, d.fingerprint)
		d.verify = func(ctx context.Context) ([]*block, error) { return l.k.missingBlocks(ctx, d) }
		for _, part := range d.blocks {
			part.attempt = p.Attempts[part.key]
		}
		if p.Inserted {
			continue
		}
		if err := l.settle(ctx, d, uncertain); err != nil {
			return err
		}
	}
	shown := time.Now()
	if len(s.deletions()) > 0 {
		if err := l.erase(ctx, s); err != nil {
			return err
		}
	}
	book, err := l.ledgerOf(s, l.marks.mark.Pending)
	if err != nil {
		return err
	}
	if err := l.settle(ctx, book, uncertain); err != nil {
		return err
	}
	if err := l.advance(ctx, s); err != nil {
		return err
	}
	l.observe(s, shown)
	return l.clear(ctx)
}

// load decodes the span's bodies; it tries until the lane is asked to stop, since the lane cannot go on without them.
func (l *lane) load(ctx context.Context, s *span) error {
	pause := newPause(30 * time.Second)
	for {
		err := s.load(ctx, l.k.cfg.Schema, l.k.s.Chunks)
		for _, d := range s.tables {
			if err != nil {
				break
			}
			d.sql, err = insertSQL(l.k.cfg.Database, d.name, d.schema)
		}
		if err == nil {
			return nil
		}
		// What NATS cannot give now it may give later. What cannot be understood waits for another build.
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w: %w", errBody, err)
		} else {
			err = fmt.Errorf("%w: %w", errChunk, err)
		}
		l.retry("read a chunk", err)
		if !sleep(l.ctx, pause.next()) {
			return err
		}
	}
}

// advance moves the mark past the span.
func (l *lane) advance(ctx context.Context, s *span) error {
	next := l.marks.mark.clone()
	next.Mark, next.MarkAt, next.Pending = s.last, s.messages[len(s.messages)-1].at, nil
	s.reach(next.Partitions)
	for i := range s.messages {
		c := &s.messages[i].chunk
		if c.Object != "" {
			next.Drop = append(next.Drop[:len(next.Drop):len(next.Drop)], c.Object)
		}
	}
	next.Erased = append(next.Erased[:len(next.Erased):len(next.Erased)], l.erasedOf(s)...)
	if err := l.step("advance"); err != nil {
		return err
	}
	if err := l.marks.write(ctx, next); err != nil {
		return err
	}
	l.shownMark.Store(s.last)
	return l.step("advanced")
}

// observe updates the metrics after a span and gives its bytes back to the feed.
func (l *lane) observe(s *span, shown time.Time) {
	for _, d := range s.tables {
		l.k.met.rows.WithLabelValues(d.name).Add(float64(d.rows))
	}
	for i := range s.messages {
		if at := s.messages[i].chunk.OldestReceivedAt; at > 0 {
			l.k.met.visible.Observe(shown.Sub(time.Unix(0, at)).Seconds())
		}
	}
	l.feed.release(s.messages)
	l.held.Add(int64(-len(s.messages)))
	l.oldest.Store(0)
	if l.next != nil {
		l.oldest.Store(l.next.chunk.CreatedAt)
	}
}
