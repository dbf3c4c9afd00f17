package parca

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// maxDeclined is how many files of one tenant are remembered that are no cubins. Others are declined each time they come.
const maxDeclined = 16 << 10

// registry knows which cubins are stored: a copy of the bucket stream.CubinsBucket, kept up to date by a watch, so that the agents'
// question costs no look-up. What it does not know yet is asked for once more, which does no harm. It is safe for concurrent use.
type registry struct {
	streams *broker.Streams
	kv      jetstream.KeyValue
	log     *slog.Logger

	mu       sync.RWMutex
	loaded   bool
	known    map[string]stream.CubinRecord // by KV key
	declined map[string]int                // by tenant
}

func newRegistry(s *broker.Streams, log *slog.Logger) *registry {
	return &registry{streams: s, kv: s.Cubins, log: log, known: map[string]stream.CubinRecord{}, declined: map[string]int{}}
}

const notLoaded = "the cubins are not loaded yet"

// run holds the watch until ctx ends. It is begun anew on every reconnect, when the bucket was made anew, and now and then.
func (r *registry) run(ctx context.Context) {
	status := r.streams.Conn.StatusChanged(nats.CONNECTED)
	defer r.streams.Conn.RemoveStatusListener(status)
	anew, end := r.streams.RemadeChanged()
	defer end()
	for ctx.Err() == nil {
		if err := r.watch(ctx, status, anew); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot watch the cubins, trying again", "err", err)
			select {
			case <-ctx.Done():
			case <-status:
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}

func (r *registry) watch(ctx context.Context, status <-chan nats.Status, anew <-chan struct{}) error {
	r.kv.PurgeDeletes(ctx) // marks of deletions that are older than half an hour; another time will do as well
	w, err := r.kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	again := time.NewTimer(15 * time.Minute)
	defer again.Stop()
	seen := map[string]bool{} // until the first state is complete
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-status:
			return nil
		case <-anew:
			return nil
		case <-again.C:
			return nil
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return nats.ErrConnectionClosed
			case e == nil:
				r.retain(seen)
				seen = nil
			default:
				if seen != nil && e.Operation() == jetstream.KeyValuePut {
					seen[e.Key()] = true
				}
				r.learn(e)
			}
		}
	}
}

// learn takes what the watch brought.
func (r *registry) learn(e jetstream.KeyValueEntry) {
	var rec stream.CubinRecord
	err := rec.Parse(e.Value())
	put := e.Operation() == jetstream.KeyValuePut
	if put && err != nil {
		r.log.Warn("a record of a cubin cannot be read: agents are asked for it again", "key", e.Key(), "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(e.Key())
	if put && err == nil {
		r.put(e.Key(), rec)
	}
}

// put and forget need the lock.
func (r *registry) put(key string, rec stream.CubinRecord) {
	r.forget(key)
	r.known[key] = rec
	if rec.Declined {
		r.declined[tenantOf(key)]++
	}
}

func (r *registry) forget(key string) {
	if r.known[key].Declined {
		r.declined[tenantOf(key)]--
	}
	delete(r.known, key)
}

func tenantOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// retain forgets what went while nobody watched.
func (r *registry) retain(seen map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.known {
		if !seen[key] {
			r.forget(key)
		}
	}
	r.loaded = true
}

// missing says that nothing is known yet, or "".
func (r *registry) missing() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.loaded {
		return notLoaded
	}
	return ""
}

// find returns what is known of a cubin. A refusal says that nothing is known yet.
func (r *registry) find(tenantName, buildID string) (rec stream.CubinRecord, found bool, err error) {
	key := stream.CubinKey(tenantName, buildID)
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.loaded {
		return rec, false, ingest.Unavailable("starting", notLoaded, nil)
	}
	rec, found = r.known[key]
	return rec, found, nil
}

// look asks the bucket itself.
func look(ctx context.Context, kv jetstream.KeyValue, tenantName, buildID string) (rec stream.CubinRecord, revision uint64, err error) {
	e, err := kv.Get(ctx, stream.CubinKey(tenantName, buildID))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return rec, 0, nil
	}
	if err != nil {
		return rec, 0, ingest.Unavailable("not_stored", "JetStream does not answer", fmt.Errorf("look for a cubin: %w", err))
	}
	if rec.Parse(e.Value()) != nil {
		rec.Declined = true // as good as not there
	}
	return rec, e.Revision(), nil
}

// decline remembers that a file is no cubin.
func (r *registry) decline(ctx context.Context, tenantName, buildID string) {
	key, rec := stream.CubinKey(tenantName, buildID), stream.CubinRecord{Declined: true}
	r.mu.Lock()
	room := r.declined[tenantName] < maxDeclined
	if _, found := r.known[key]; found || !room {
		r.mu.Unlock()
		return
	}
	r.put(key, rec)
	r.mu.Unlock()
	if _, err := r.kv.Create(ctx, key, rec.Append(nil)); err != nil { // it is declined again then
		r.log.Debug("remember a declined file", "err", err)
	}
}

// suffices reports whether a stored cubin makes another upload of it needless: it is there, and its lines stay for long enough. An agent
// that is told so never offers it again; until they expire, lines are renewed while samples refer to them.
func suffices(rec *stream.CubinRecord, l tenant.Limits, now time.Time) bool {
	spare := min(30, int64(l.RollupDays)/2)
	return !rec.Declined && int64(rec.KeptUntilDay) >= dayOf(now)+spare
}

// dayOf is the number of days since the epoch.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// refuse is a refusal of a question or an upload.
func refuse(status int, code, detail string) *ingest.Refusal {
	return &ingest.Refusal{Status: status, Code: code, Detail: detail}
}

// notACubin is the answer to what is no cubin.
func notACubin(what string) *ingest.Refusal {
	return refuse(http.StatusBadRequest, "not_a_cubin",
		what+" is not a cubin; nothing was stored: Warpline keeps the cubins of GPU kernels only")
}
