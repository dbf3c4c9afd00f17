package aggregate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
)

// A deletion travels as a part among the parts: a tombstone. What came before it is already folded and in this chunk or an earlier one, so
// the chunk that carries the tombstone can say "delete all that you have". What comes after it is dropped here, for as long as the
// partition remembers the deletion: by an entry in the state for each deleted session. So nothing that was on its way brings rows back.
//
// A tenant's tombstone makes such an entry for every session of the tenant that the partition knows, and one with its own time: parts that
// the gateway received before that time are dropped whatever their session is. What sessions send that begin later is new, and is kept.

const (
	// keepDeletion is how long a deleted session is remembered after the last part of it that was dropped. A client that sends again after
	// that begins a new session of the old name.
	keepDeletion = 30 * 24 * time.Hour
	// lateDeletion is how much longer it is remembered when no part comes that says what time it is: parts can wait in INGEST for this
	// long.
	lateDeletion = 7 * 24 * time.Hour
	// maxDeletions is how many deletions a partition remembers, some 100 B each; beyond it those that end first are forgotten, and what
	// they would have dropped is taken for a new session.
	maxDeletions = 1 << 16
	// maxChunkDeletes tombstones go into one chunk: its header and the sink's mark have to hold them.
	maxChunkDeletes = 256
)

// deletionKey names what was deleted: a session by the hash of its id, so that the id itself is not kept, or the whole tenant by 0.
type deletionKey struct {
	tenant  string
	session xxh3.Uint128
}

// deletion is what is remembered of one.
type deletion struct {
	at    int64 // when NATS stored the tombstone, ns
	until int64 // parts received from then on are new, ns
	id    string
}

func keyOf(tenant, session string) deletionKey {
	return deletionKey{tenant, xxh3.HashString128(session)}
}

// deletion handles tombstones and the parts of what they deleted, and reports whether the part was one. stored is when NATS got it.
func (o *owner) deletion(p *Part, stored time.Time) bool {
	e := &p.Env
	if e.Kind == stream.KindDelete && e.Delete != nil {
		d := *e.Delete
		d.Tenant, d.At = e.Tenant, stored.UnixNano()
		o.fold.Erase(d)
		return true
	}
	if !o.fold.drops(p) {
		return false
	}
	if e.Object != "" {
		o.foldedParts = append(o.foldedParts, e.Object)
	}
	return true
}

// Erase folds a tombstone.
func (f *Fold) Erase(d stream.Deletion) {
	key := deletionKey{tenant: d.Tenant}
	if d.Session != "" {
		key = keyOf(d.Tenant, d.Session)
	}
	if old, ok := f.deletions[key]; ok && old.id == d.ID {
		return // published twice; what a tenant has sent since the first is new
	}
	mark := deletion{at: d.At, until: d.At + int64(keepDeletion), id: d.ID}
	f.remember(key, mark)
	gone := map[SessionKey]struct{}{}
	if d.Session != "" {
		gone[SessionKey{d.Tenant, d.Session}] = struct{}{}
	} else {
		for k := range f.Sessions {
			if k.Tenant == d.Tenant {
				gone[k] = struct{}{}
			}
		}
		for k := range f.tombstones {
			if k.Tenant == d.Tenant {
				gone[k] = struct{}{}
			}
		}
		for k := range gone {
			f.remember(keyOf(k.Tenant, k.ID), mark)
		}
	}
	f.drop(gone)
	f.deletes = append(f.deletes, d)
}

// remember enters a deletion and makes it part of the next state change.
func (f *Fold) remember(key deletionKey, d deletion) {
	if f.deletions == nil {
		f.deletions = map[deletionKey]deletion{}
	}
	f.deletions[key] = d
	f.freshDeletions = append(f.freshDeletions, key)
}

// drop forgets sessions with all that they hold back. Rows of theirs that are in the open chunk already stay there: the sink deletes
// them with the rest.
func (f *Fold) drop(gone map[SessionKey]struct{}) {
	for k := range gone {
		if s := f.Sessions[k]; s != nil {
			f.abandon(s)
		}
		delete(f.tombstones, k)
		f.removed = append(f.removed, k)
	}
	is := func(s *Session) bool { _, ok := gone[s.Key]; return ok }
	f.touched, f.unnamed = slices.DeleteFunc(f.touched, is), slices.DeleteFunc(f.unnamed, is)
	f.names = slices.DeleteFunc(f.names, func(b nameEntries) bool { return is(b.session) })
}

// deletesDue reports whether the open chunk should end here. It must end at the tombstone of a tenant, or of a session that may come back:
// the sink deletes rows up to and with this chunk, and what is folded next may be new.
func (f *Fold) deletesDue() bool {
	n := len(f.deletes)
	return n >= maxChunkDeletes || n > 0 && f.deletes[n-1].Bounded()
}

// drops reports whether the part belongs to what was deleted, and counts it if so. Its bytes are not kept.
func (f *Fold) drops(p *Part) bool {
	if len(f.deletions) == 0 {
		return false
	}
	received := p.Env.ReceivedAt
	if t, ok := f.deletions[deletionKey{tenant: p.Env.Tenant}]; ok && received <= t.at {
		f.countDropped(p, false)
		return true
	}
	key := keyOf(p.Env.Tenant, p.Env.Session)
	d, ok := f.deletions[key]
	if !ok || received >= d.until || received > d.at && p.Env.ComesBack() {
		return false
	}
	until := received + int64(keepDeletion)
	if until > d.until+rows.NanosPerDay { // once a day is often enough for the state
		d.until = until
		f.remember(key, d)
	}
	f.countDropped(p, true)
	return true
}

// countDropped enters a dropped part into the books: received, and rejected. books is false for parts from before a tenant's purge: only
// the metrics count them, since a row of usage would belong to the tenant again.
func (f *Fold) countDropped(p *Part, books bool) {
	n := p.Env.Events
	f.metrics.parts.WithLabelValues("deleted").Inc()
	f.metrics.rejects.WithLabelValues(p.Env.Tenant, reject.SessionDeleted).Add(float64(n))
	if !books {
		f.metrics.events.WithLabelValues(p.Env.Tenant, "rejected").Add(float64(n))
		return
	}
	if n == 0 {
		return
	}
	nobody := &Session{Key: SessionKey{Tenant: p.Env.Tenant}} // the row must not name the session
	p.Raw = rows.RawDayPartition(p.Env.ReceivedAt, p.Env.RetentionDays)
	p.Session, p.usage = nobody, f.usageOf(p)
	p.usage.Events += n
	p.usage.bytes += p.Env.Bytes
	p.usage.rejected += n
	f.writeReject(p, &Reject{Reason: reject.SessionDeleted, Detail: "a part of a session that was deleted; its bytes were not kept",
		Events: n, Bytes: p.Env.Bytes, Ref: "deleted"})
}

// forgetDeletions drops deletions whose time is over. Whether a deletion still holds follows from a part's own stamp (see drops), so owners
// that clean up at different times fold the same.
func (f *Fold) forgetDeletions(now int64) {
	for k, d := range f.deletions {
		if now > d.until+int64(lateDeletion) {
			delete(f.deletions, k)
		}
	}
	if over := len(f.deletions) - maxDeletions; over > 0 {
		keys := f.sortedDeletions()
		slices.SortStableFunc(keys, func(a, b deletionKey) int { return cmp.Compare(f.deletions[a].until, f.deletions[b].until) })
		for _, k := range keys[:over] {
			delete(f.deletions, k)
		}
	}
}

func (f *Fold) sortedDeletions() []deletionKey {
	keys := make([]deletionKey, 0, len(f.deletions))
	for k := range f.deletions {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b deletionKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.session.Hi, b.session.Hi), cmp.Compare(a.session.Lo, b.session.Lo))
	})
	return keys
}

// appendDeletions writes the deletions at the end of a state: all of them, or those that are new.
func (f *Fold) appendDeletions(w *state.Writer, full bool) {
	keys := f.freshDeletions
	if full {
		keys = f.sortedDeletions()
	}
	w.N(len(keys))
	for _, k := range keys {
		d := f.deletions[k]
		w.Str(k.tenant)
		w.Hash(k.session)
		w.I64(d.at)
		w.I64(d.until)
		w.Str(d.id)
	}
}

// readDeletions applies what appendDeletions wrote.
func (f *Fold) readDeletions(r *state.Reader) {
	for range r.N(20) {
		k := deletionKey{r.Str(), r.Hash()}
		d := deletion{r.I64(), r.I64(), r.Str()}
		if r.Err != nil {
			return
		}
		if f.deletions == nil {
			f.deletions = map[deletionKey]deletion{}
		}
		f.deletions[k] = d
	}
}

// clean removes at once what ROWS and the snapshots hold of a deleted session; otherwise it would stay until enough new chunks came. After
// the chunk with the tombstone comes an empty one, a snapshot after that, and a chunk that points to the snapshot. Then the sink purges all
// before it.
func (o *owner) clean(ctx context.Context, c *stream.Chunk) error {
	if len(c.Deletes) > 0 {
		o.traces = true
		o.opened = time.Now() // so that the next chunk is published whether or not there are rows
		return nil
	}
	if !o.traces {
		return nil
	}
	o.opened = time.Now()
	if err := o.writeSnapshot(ctx); err != nil {
		return err
	}
	o.traces = o.snapshot.Chunk != c.Number
	return nil
}
