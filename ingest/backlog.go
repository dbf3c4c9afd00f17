package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest/pending"
	"github.com/warpline/warpline/proto/stream"
)

// Parts of all tenants wait in one line for workers and sinks, in INGEST and then in ROWS, in the order in which they came. A tenant that
// sends much at once would make the others wait behind all of it, so what each has in that line is bounded: beyond the bound its uploads go
// on as fast as its rows come into SQL. While it sends alone it may have more, but not any amount: the next tenant comes behind it. The
// sinks' marks say how far that is. Where they stand still, as while ClickHouse is away, the line is there to be filled, and nobody waits.

const (
	// sharedDelay is how long what a tenant has on its way may take into SQL while others send, at the pace of its last second. It may
	// always have leastBacklog bytes, before compression, on their way.
	sharedDelay  = 600 * time.Millisecond
	leastBacklog = 8 << 20
	// aloneDelay and leastAlone are the same while nobody else sends: enough to keep workers and sinks busy.
	aloneDelay = 4 * time.Second
	leastAlone = 192 << 20
	// sharedFor is how long a tenant counts as sending after its last part.
	sharedFor = 10 * time.Second
	// stillAfter is how long marks must stand still, while something is on its way, for nobody to wait any more.
	stillAfter = 5 * time.Second
	// mostWait is how long one part waits at most, uploadPatience how long all parts of one upload together: however slow the others are,
	// each tenant goes on, and an upload of thousands of parts is answered while its client still waits.
	mostWait       = time.Second
	uploadPatience = 20 * time.Second
	// backlogGrain is how many bytes of a partition share one note of where they are.
	backlogGrain = 256 << 10
)

// backlog is what each tenant has sent through this gateway and is not in ClickHouse yet. The zero value is ready. Safe for concurrent
// use.
type backlog struct {
	elsewhere *pending.Amounts // at other gateways; may be nil

	mu      sync.Mutex
	by      map[string]*owed // tenants that have something on its way, or had until just now
	reached map[int]uint64   // by partition: INGEST sequence up to which all is in ClickHouse
	moved   time.Time        // when that last changed
	all     int64            // bytes of all tenants on their way
	began   time.Time        // when there last was nothing on its way before
	changed chan struct{}    // closed when it changes; nil while nobody waits

	// The tenant that sent last, when it did, and when another last did before it.
	last            string
	lastAt, otherAt time.Time

	room pending.Room // of INGEST
}

type owed struct {
	bytes int64
	took  int64              // of INGEST, for those of bytes that are stored
	at    time.Time          // when it last sent
	parts map[int][]owedPart // by partition, in order of sequence
	// room is how much it may have on its way beside others, and alone, by what came into SQL since.
	room, alone, came int64
	since             time.Time
}

// owedPart is parts of one partition up to a sequence.
type owedPart struct {
	seq         uint64
	bytes, took int64
}

// wait returns when the tenant may send a part of an upload with so much patience left, and how long that took, or when ctx ends.
func (b *backlog) wait(ctx context.Context, tenant string, patience time.Duration) (time.Duration, error) {
	if patience <= 0 {
		return 0, nil
	}
	began := time.Now()
	b.mu.Lock()
	changed := b.full(tenant, began)
	b.mu.Unlock()
	if changed == nil {
		return 0, nil
	}
	over := time.NewTimer(min(mostWait, patience))
	defer over.Stop()
	for changed != nil {
		select {
		case <-changed:
		case <-over.C:
			changed = nil
			continue
		case <-ctx.Done():
			return time.Since(began), ctx.Err()
		}
		b.mu.Lock()
		changed = b.full(tenant, time.Now())
		b.mu.Unlock()
	}
	return time.Since(began), nil
}

// full returns what is closed when it is worth looking again, nil when the tenant need not wait. The caller holds the lock.
func (b *backlog) full(tenant string, now time.Time) <-chan struct{} {
	o := b.by[tenant]
	if o == nil || o.bytes <= o.room || o.bytes <= o.alone && !b.shared(tenant, now) || b.still(now) {
		return nil
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// still reports whether nothing comes into SQL though something is on its way, or none is known to have. The caller holds the lock.
func (b *backlog) still(now time.Time) bool {
	return b.moved.IsZero() || now.Sub(b.moved) > stillAfter && now.Sub(b.began) > stillAfter
}

// beside reports whether another tenant sends.
func (b *backlog) beside(tenant string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shared(tenant, time.Now())
}

// shared reports whether another tenant sends. The caller holds the lock.
func (b *backlog) shared(tenant string, now time.Time) bool {
	at := b.lastAt
	if b.last == tenant {
		at = b.otherAt
	}
	return now.Sub(at) < sharedFor
}

// sent notes bytes that are on their way to INGEST.
func (b *backlog) sent(tenant string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != tenant {
		b.otherAt, b.last = b.lastAt, tenant
	}
	b.lastAt = time.Now()
	o := b.by[tenant]
	if o == nil {
		if b.by == nil {
			b.by = map[string]*owed{}
		}
		o = &owed{parts: map[int][]owedPart{}, room: leastBacklog, alone: leastAlone, since: time.Now()}
		b.by[tenant] = o
	}
	if o.bytes += bytes; b.all <= 0 {
		b.began = b.lastAt
	}
	b.all += bytes
	o.at = b.lastAt
}

// stored notes where in INGEST a part is that was sent, and how much it took there; seq 0 is that it is not there.
func (b *backlog) stored(tenant string, partition int, seq uint64, bytes, took int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seq > 0 {
		b.room.Used += took
	}
	o := b.by[tenant]
	if o == nil {
		return
	}
	if seq <= b.reached[partition] {
		o.bytes -= bytes
		b.all -= bytes
		return
	}
	o.took += took
	parts := o.parts[partition]
	if n := len(parts); n > 0 && (parts[n-1].bytes < backlogGrain || parts[n-1].seq >= seq) {
		parts[n-1].seq = max(parts[n-1].seq, seq)
		parts[n-1].bytes += bytes
		parts[n-1].took += took
		return
	}
	o.parts[partition] = append(parts, owedPart{seq, bytes, took})
}

// drained sets the tenant's room by what came into SQL in the last second or more.
func (o *owed) drained(bytes int64, now time.Time) {
	o.came += bytes
	if took := now.Sub(o.since); took >= time.Second {
		pace := float64(o.came) / took.Seconds()
		o.room = max(int64(pace*sharedDelay.Seconds()), leastBacklog)
		o.alone = max(int64(pace*aloneDelay.Seconds()), leastAlone)
		o.came, o.since = 0, now
	}
}

// owes is how many bytes of the tenant are on their way, from all gateways together.
func (b *backlog) owes(tenant string) (bytes int64) {
	b.mu.Lock()
	if o := b.by[tenant]; o != nil {
		bytes = max(o.bytes, 0)
	}
	b.mu.Unlock()
	return bytes + b.elsewhere.Of(tenant)
}

// amounts is what other gateways shall know: of each tenant that has at least so many bytes on their way, 0 for none of it, and of those
// that take much of INGEST.
func (b *backlog) amounts(least func(tenant string) int64) map[string]pending.Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]pending.Amount{}
	for tenant, o := range b.by {
		if n := least(tenant); (n <= 0 || o.bytes < n) && !b.room.Much(o.took) {
			continue
		}
		a := pending.Amount{Bytes: o.bytes, Took: o.took, Ends: map[int]uint64{}}
		for partition, parts := range o.parts {
			a.Ends[partition] = parts[len(parts)-1].seq
		}
		all[tenant] = a
	}
	return all
}

// reach notes up to where a partition is in ClickHouse. A stream that was made anew begins again: what was noted of the old one is gone.
func (b *backlog) reach(partition int, seq uint64) {
	if b.elsewhere != nil {
		b.elsewhere.Reached(partition, seq)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.reached[partition]
	if seq == was {
		return
	}
	if b.reached == nil {
		b.reached = map[int]uint64{}
	}
	b.reached[partition], b.moved = seq, time.Now()
	for tenant, o := range b.by {
		parts, bytes := o.parts[partition], int64(0)
		for len(parts) > 0 && (parts[0].seq <= seq || seq < was) {
			bytes += parts[0].bytes
			o.took -= parts[0].took
			parts = parts[1:]
		}
		if len(parts) == 0 {
			delete(o.parts, partition)
		} else {
			o.parts[partition] = parts
		}
		o.drained(bytes, b.moved)
		b.all -= bytes
		if o.bytes -= bytes; o.bytes <= 0 && b.moved.Sub(o.at) > sharedFor {
			delete(b.by, tenant)
		}
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// upTo is up to where a partition is in ClickHouse, 0 while that is not known.
func (b *backlog) upTo(partition int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached[partition]
}

// errIngestShare says that a tenant's parts fill its share of INGEST.
var errIngestShare = errors.New("this tenant's parts on their way into SQL fill its share of INGEST")

// saw takes note of how full INGEST is.
func (b *backlog) saw(used, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room = pending.Room{Used: used, Max: most}
}

// share is how much of INGEST what a tenant has on its way takes, from all gateways together, and the most that it may take; 0: any.
func (b *backlog) share(tenant string) (own, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.by[tenant]; o != nil {
		own = max(o.took, 0)
	}
	if b.elsewhere != nil {
		own += b.elsewhere.Took(tenant)
	}
	return b.room.Share(own)
}

// within returns errIngestShare while the tenant has more of INGEST than its share.
func (b *backlog) within(tenant string) error {
	if own, most := b.share(tenant); most > 0 && own > most {
		return errIngestShare
	}
	return nil
}

// run reads the sinks' marks until ctx ends.
func (b *backlog) run(ctx context.Context, marks jetstream.KeyValue, log *slog.Logger) {
	broker.FollowInserted(ctx, marks, log, func(partition int, at stream.Inserted) { b.reach(partition, at.Position.Seq) })
}
