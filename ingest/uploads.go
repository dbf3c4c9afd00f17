package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// uploads is the record of accepted uploads, in the bucket stream.WindowsBucket:
//
//	<tenant>.<session>.v.<hash>   a window, from its claim until it is sealed (accept.go)
//	<tenant>.<session>.u.<hash>   an upload without window headers, likewise; <tenant>.t.<kind>.<hash> one of telemetry
//	<tenant>.p.<block>.<page>     pages of sealed uploads (block.go)
//	<tenant>.f.<block>            the index of a block, written after its pages
//	<tenant>.h.forgotten          until when the tenant's uploads were forgotten for lack of room (forget.go)
//	<tenant>.<session>.x.<hash>   which window an operator may accept
//	<tenant>.<session>.d          up to where in INGEST a session was deleted, <tenant>.purge.d a tenant
//	<tenant>.<session>.l.<last>   the upload with its last part there lacks parts; written by workers
//	<tenant>.<session>.w.<hash>   a channel's windows, of older builds
//
// A claim costs some 250 bytes and an upload in a block some 25. The indexes of all blocks are in memory, 1.5 bytes an upload, kept up to
// date by a watch, so that a new upload costs no look-up. It does no harm when a gateway does not know an upload yet: then it publishes
// parts that the broker or the worker drops. It is safe for concurrent use.
type uploads struct {
	kv      jetstream.KeyValue
	js      jetstream.JetStream
	streams *broker.Streams
	conn    *nats.Conn
	log     *slog.Logger
	metrics *metrics
	quiet   *quiet
	sealAt  sealing

	loaded chan struct{} // closed once the indexes are here
	older  atomic.Bool   // there may be records of older builds
	// someLost says that workers have found uploads of which INGEST lost parts.
	someLost atomic.Bool

	stored, room atomic.Int64 // bytes in the bucket and its bound, as of the last look

	mu      sync.RWMutex
	tenants map[string]*tenantUploads
	open    int // settled and not sealed, of all tenants

	forgetting sync.Mutex // one round at a time
}

// sealing says when the settled uploads of a tenant become a block. Small blocks cost more room, and uploads that wait ten times as much.
type sealing struct {
	most    int // seal at so many
	few     int // after soon, when there are so many
	soon    time.Duration
	latest  time.Duration // seal whatever there is
	inTotal int           // seal the tenant with the most beyond so many of all
}

var defaultSealing = sealing{most: 16 << 10, few: 256, soon: time.Hour, latest: 6 * time.Hour, inTotal: 128 << 10}

// tenantUploads is what a gateway holds of a tenant.
type tenantUploads struct {
	blocks []*block // oldest first
	open   []openUpload
	since  time.Time // of the first in open
	until  int64     // uploads settled up to then were forgotten, seconds since the epoch; 0: none
}

// openUpload is an upload that this gateway settled and that is not in a block yet.
type openUpload struct {
	settled
	settledClaim
}

// settledClaim is the key of a settled upload, and where it stood when it was settled.
type settledClaim struct {
	key      string
	revision uint64
}

// sealedClaims are claims that are in a block by now. They are deleted a little later: other gateways learn of the block by their watch.
type sealedClaims struct {
	at     time.Time
	claims []settledClaim
}

// maxOpen bounds how many uploads of one tenant wait to be sealed.
const maxOpen = 64 << 10

// sealedClaimsStay is how long claims stay after they were sealed.
const sealedClaimsStay = 3 * time.Second

func newUploads(s *broker.Streams, js jetstream.JetStream, log *slog.Logger, m *metrics, q *quiet) *uploads {
	u := &uploads{
		kv: s.Windows, js: js, streams: s, conn: s.Conn, log: log, metrics: m, quiet: q, sealAt: defaultSealing,
		loaded: make(chan struct{}), tenants: map[string]*tenantUploads{},
	}
	u.older.Store(true)
	m.horizon.Set(broker.WindowHorizon.Seconds())
	return u
}

// of returns what is held of a tenant. The caller holds the lock.
func (u *uploads) of(tenant string) *tenantUploads {
	t := u.tenants[tenant]
	if t == nil {
		t = &tenantUploads{}
		u.tenants[tenant] = t
	}
	return t
}

// run keeps the indexes up to date and seals until ctx ends.
func (u *uploads) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { u.watchAll(ctx) })
	wg.Go(func() { u.adoptAll(ctx) })
	wg.Go(func() { u.lookBackAll(ctx) })
	waiting := make(chan sealedClaims, 64)
	wg.Go(func() { u.dropAll(ctx, waiting) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			for name := range u.ripe(time.Now()) {
				gone := u.seal(ctx, name)
				select {
				case waiting <- sealedClaims{at: time.Now(), claims: gone}:
				case <-ctx.Done():
				}
			}
			u.horizon(time.Now())
		}
	}
	wg.Wait()
}

// dropAll removes claims some time after they were sealed.
func (u *uploads) dropAll(ctx context.Context, waiting <-chan sealedClaims) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-waiting:
			select {
			case <-ctx.Done():
				return
			case <-time.After(sealedClaimsStay - time.Since(d.at)):
			}
			u.drop(ctx, d.claims)
		}
	}
}

// find looks for a sealed upload. A window comes back as it was settled, nil when it is in no block.
func (u *uploads) find(ctx context.Context, tenant, key string) (*settled, error) {
	select {
	case <-u.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("the record of accepted uploads is not loaded yet: %w", ctx.Err())
	}
	u.mu.RLock()
	var blocks []*block
	if t := u.tenants[tenant]; t != nil {
		blocks = t.blocks
	}
	u.mu.RUnlock()
	if len(blocks) == 0 {
		return nil, nil
	}
	id := uploadIDOf(key)
	for i := len(blocks) - 1; i >= 0; i-- { // what was accepted after a conflict is in a later block
		b := blocks[i]
		if !b.may(id) {
			continue
		}
		e, err := u.kv.Get(ctx, pageKey(tenant, b.name, pageOf(id, pagesOf(b.count))))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // expired, forgotten or purged
		}
		if err != nil {
			return nil, err
		}
		have, found, err := findInPage(e.Value(), id)
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", e.Key(), err)
		}
		if found {
			return &have, nil
		}
	}
	return nil, nil
}

// remember takes note of an upload that this gateway has settled under key at a revision.
func (u *uploads) remember(tenant, key string, revision uint64, w *window) {
	e := openUpload{settledClaim: settledClaim{key, revision}, settled: settled{
		id: uploadIDOf(key), whole: w.whole, generation: w.generation, accepted: w.accepted, rejected: w.rejected, last: w.last, at: w.at,
	}}
	if w.id != w.body {
		copy(e.body[:], w.body[:])
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.of(tenant)
	if len(t.open) == 0 {
		t.since = time.Now()
	}
	if len(t.open) < maxOpen { // more only while NATS is away: the rest stay as they are, and are adopted later
		t.open = append(t.open, e)
		u.open++
	}
}

// ripe returns the tenants whose uploads are to be sealed now.
func (u *uploads) ripe(now time.Time) map[string]bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	out := map[string]bool{}
	most, largest := "", 0
	for name, t := range u.tenants {
		n, age := len(t.open), now.Sub(t.since)
		if n >= u.sealAt.most || n >= u.sealAt.few && age >= u.sealAt.soon || n > 0 && age >= u.sealAt.latest {
			out[name] = true
		}
		if n > largest {
			most, largest = name, n
		}
	}
	if u.open > u.sealAt.inTotal {
		out[most] = true
	}
	return out
}

// seal makes a block of what a tenant has open and returns the claims that it replaces. If it fails, everything stays open; pages without
// an index are not found and expire.
func (u *uploads) seal(ctx context.Context, tenant string) (gone []settledClaim) {
	u.mu.Lock()
	t := u.of(tenant)
	taken, since := t.open, t.since
	t.open = nil
	u.open -= len(taken)
	u.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	entries := make([]settled, len(taken))
	for i := range taken {
		entries[i] = taken[i].settled
	}
	b, err := u.write(ctx, tenant, entries)
	if err != nil {
		u.mu.Lock()
		t.open, t.since = append(taken, t.open...), since
		u.open += len(taken)
		u.mu.Unlock()
		if ok, _ := u.quiet.say("seal_uploads", time.Now()); ok && ctx.Err() == nil {
			u.log.Warn("cannot seal accepted uploads, trying again", "tenant", tenant, "uploads", len(taken), "err", err)
		}
		return nil
	}
	u.mu.Lock()
	t.insert(b)
	u.mu.Unlock()
	gone = make([]settledClaim, len(taken))
	for i := range taken {
		gone[i] = taken[i].settledClaim
	}
	return gone
}

// write stores a block: its pages, then its index.
func (u *uploads) write(ctx context.Context, tenant string, entries []settled) (*block, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	entries = sortEntries(entries)
	name, n, total, from := blockName(time.Now()), pagesOf(len(entries)), int64(0), 0
	var value []byte
	for i := range n {
		to := from
		for to < len(entries) && pageOf(entries[to].id, n) == i {
			to++
		}
		value = appendPage(value[:0], entries[from:to])
		if err := u.put(ctx, pageKey(tenant, name, i), value); err != nil {
			return nil, err
		}
		total += int64(len(value)) + messageBytes
		from = to
	}
	b := newBlock(name, entries, 0)
	b.bytes = total + int64(len(b.bloom)) + messageBytes
	return b, u.put(ctx, indexKey(tenant, name), b.appendIndex(nil))
}

// shares is about how many bytes each tenant has in the record, without what other gateways have not sealed.
func (u *uploads) shares() map[string]int64 {
	u.mu.RLock()
	defer u.mu.RUnlock()
	all := make(map[string]int64, len(u.tenants))
	for name, t := range u.tenants {
		all[name] = t.bytes()
	}
	return all
}

// bytes is about what the tenant takes in the record. The caller holds the lock.
func (t *tenantUploads) bytes() int64 {
	n := int64(len(t.open)) * 2 * messageBytes
	for _, b := range t.blocks {
		n += b.bytes
	}
	return n
}

// messageBytes is about what a message of the bucket costs in addition to its value: header and subject.
const messageBytes = 110

// put writes a key, and makes room where there is none.
func (u *uploads) put(ctx context.Context, key string, value []byte) error {
	_, err := u.kv.Put(ctx, key, value)
	for try := 0; err != nil && broker.IsFull(err) && try < 3; try++ {
		u.makeRoom(ctx)
		_, err = u.kv.Put(ctx, key, value)
	}
	return err
}

// drop removes claims that are in a block by now. One that was written since, because a conflict was accepted, stays. What it fails to
// remove is adopted later.
func (u *uploads) drop(ctx context.Context, claims []settledClaim) {
	s, err := u.js.Stream(ctx, "KV_"+stream.WindowsBucket)
	if err != nil {
		return
	}
	for _, c := range claims {
		e, err := u.kv.Get(ctx, c.key)
		if errors.Is(err, jetstream.ErrKeyNotFound) || err == nil && e.Revision() != c.revision {
			continue
		}
		if err == nil { // the bucket does not allow deleting a message, and a purge does not leave a marker
			err = s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+stream.WindowsBucket+"."+c.key))
		}
		if err != nil && (ctx.Err() != nil || !u.conn.IsConnected()) {
			return
		}
	}
}
