package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// claim is an upload that this gateway has recorded as pending, or found recorded.
type claim struct {
	tenant   string
	key      string // "": there was no room to record it, and it is taken all the same
	revision uint64 // 0: there is no entry of its own
	window   window // as recorded
	resumed  bool   // it was pending already: parts of it may be published
	lost     bool   // it was done, and its parts are gone: see again
	// only are the parts that are gone, in order, when a worker has found out which; found is the revision of what says so.
	only  []int
	found uint64
}

// again makes a claim of one that was found done, because its parts are gone from INGEST: settle records it anew.
func (c *claim) again(w window) {
	c.window.state, c.window.limits, c.window.body = windowPending, w.limits, w.body
	c.lost = true
}

// errConflict is an upload whose id was used for other bytes.
var errConflict = errors.New("the window id was used for other bytes")

// recordTries bounds optimistic writes to one record. A write loses only when another gateway has the same upload.
const recordTries = 20

// place is where an upload is recorded: its key, and for a window the key of its channel in older builds.
type place struct {
	tenant, key, channel string
	comesBack            bool // the same upload is new after the deletion of its session
}

// claim records w as pending unless it is known. An upload that is known and done is returned as it is (claim.window.state is windowDone).
// One that is known and pending is resumed with the limits with which it was first cut. The same id with other bytes is errConflict.
func (u *uploads) claim(ctx context.Context, at place, w window) (*claim, error) {
	w.state = windowPending
	c := &claim{tenant: at.tenant, key: at.key}
	known, err := u.known(ctx, at, w)
	if err != nil {
		return nil, err
	}
	for try := range recordTries {
		var old *window
		var rev uint64
		if known != nil || try > 0 {
			old, rev, err = u.load(ctx, at.key)
			if err != nil {
				return nil, err
			}
		}
		if old == nil {
			old = known
		}
		switch {
		case old == nil:
			c.window = w
			if at.comesBack {
				c.window.generation, err = u.afterDeletion(ctx, at)
				if err != nil {
					return nil, err
				}
			}
		case old.state == windowOpen:
			c.window = *old
			c.window.state, c.window.body, c.window.limits, c.window.sequence = windowPending, w.body, w.limits, w.sequence
		case !sameBody(old, &w):
			return nil, errConflict
		case old.state == windowPending && rev == 0: // of an older build: goes on with an entry of its own
			c.window, c.resumed = *old, true
		default:
			c.window, c.revision, c.resumed = *old, rev, old.state == windowPending
			return c, nil
		}
		c.revision, err = u.save(ctx, at.key, &c.window, rev)
		switch {
		case err == nil:
			return c, nil
		case broker.IsFull(err): // there is no room, and none could be made: better taken and not recognised than not taken
			u.metrics.forgotten.WithLabelValues(at.tenant).Inc()
			c.key = ""
			return c, nil
		case !broker.IsWrongSequence(err):
			return nil, err
		}
		if try > 0 {
			if err := pause(ctx); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("upload record %s: lost %d writes in a row to other gateways", at.key, recordTries)
}

// claim looks an upload up and records it as pending when it is new, or when INGEST has lost what was accepted. name gives the identity of
// its parts, reached is as history.has has it.
func (g *Gateway) claim(ctx context.Context, at place, want window, name func(*claim) string, reached uint64) (*claim, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.PublishTimeout)
	defer cancel()
	c, err := g.uploads.claim(ctx, at, want)
	if err != nil || c.window.state != windowDone {
		return c, err
	}
	if err := g.uploads.reopen(ctx, c, want); err != nil || c.lost {
		return c, err
	}
	stored, err := g.history.has(ctx, g.js, at.key, name(c), &c.window, reached)
	if err == nil && !stored {
		c.again(want)
	}
	return c, err
}

// unclaim forgets an upload that was recorded as pending just now and of which nothing was published: made-up sessions that may not begin
// must not fill the record.
func (u *uploads) unclaim(ctx context.Context, c *claim) {
	if c == nil || c.key == "" || c.revision == 0 || c.resumed || c.lost {
		return
	}
	s, err := u.js.Stream(ctx, "KV_"+stream.WindowsBucket)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+stream.WindowsBucket+"."+c.key), jetstream.WithPurgeSequence(c.revision+1))
	}
	if err != nil {
		u.log.Debug("the record of an upload that was refused stays until it expires", "tenant", c.tenant, "err", err)
	}
}

// done reports whether an upload was stored before.
func (u *uploads) done(ctx context.Context, at place, w window) (bool, error) {
	old, err := u.known(ctx, at, w)
	if err == nil && old == nil {
		old, _, err = u.load(ctx, at.key)
	}
	return old != nil && old.state == windowDone, err
}

// settle records a claimed upload as done. first is false when another request had done so before.
func (g *Gateway) settle(ctx context.Context, c *claim, t *Tally, last uint64) (first bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.PublishTimeout)
	defer cancel()
	if c.found > 0 && last > 0 {
		if err := g.uploads.mended(ctx, c); err != nil {
			return false, err
		}
	}
	if c.found > 0 && last == 0 {
		last = c.window.last // cut in another way today, it has none of the parts that were lost
	}
	first, err = g.uploads.settle(ctx, c, t.Accepted, t.Rejected, t.Whole, last)
	if !first {
		c.window.accepted, c.window.rejected = t.Accepted, t.Rejected
	}
	return first, err
}

// outcome is what an upload that is about to be published is called in the metrics.
func (c *claim) outcome() string {
	switch {
	case c.lost:
		return "lost_and_resent"
	case c.resumed:
		return "resumed"
	}
	return "new"
}

// sameBody reports whether an upload has the bytes that its id stands for. Only the beginning of the hash is known of a sealed upload.
func sameBody(old, w *window) bool {
	if old.sealed {
		return w.id == w.body || bodyCheck(old.body[:len(bodyCheck{})]) == bodyCheck(w.body[:len(bodyCheck{})])
	}
	return old.body == w.body
}

// known looks for the upload in blocks, and in records of older builds while there are any.
func (u *uploads) known(ctx context.Context, at place, w window) (*window, error) {
	e, err := u.find(ctx, at.tenant, at.key)
	if err != nil {
		return nil, fmt.Errorf("upload record: %w", err)
	}
	if e != nil {
		old := &window{id: w.id, state: windowDone, whole: e.whole, generation: e.generation, accepted: e.accepted, rejected: e.rejected,
			last: e.last, at: e.at, sealed: true, limits: w.limits}
		copy(old.body[:], e.body[:])
		return u.undeleted(ctx, at, old)
	}
	if at.channel == "" || !u.older.Load() {
		return nil, nil
	}
	rec, _, err := u.loadRecord(ctx, at.channel)
	if err != nil {
		return nil, err
	}
	return rec.find(w.id), nil
}

// afterDeletion is the generation of an upload that is new: where in INGEST its session was deleted, 0 if it was not. JetStream remembers
// parts for minutes, also deleted ones, so parts that come back need another name.
func (u *uploads) afterDeletion(ctx context.Context, at place) (uint64, error) {
	tenant, rest, _ := strings.Cut(at.key, ".")
	token, _, _ := strings.Cut(rest, ".")
	upTo, _, err := u.deleted(ctx, tenant, token)
	return upTo, err
}

// undeleted returns w, or nil when what it stands for was deleted since. A deletion removes the session's own keys. Keys that are sealed
// with others stay: for those it records up to which sequence of INGEST it took everything.
func (u *uploads) undeleted(ctx context.Context, at place, w *window) (*window, error) {
	tenant, rest, _ := strings.Cut(at.key, ".")
	token, _, _ := strings.Cut(rest, ".")
	if token == "t" { // it has many sessions an upload; only a purge forgets it
		token = stream.PurgeToken
	}
	upTo, found, err := u.deleted(ctx, tenant, token)
	if err != nil || found && w.last <= upTo {
		return nil, err
	}
	return w, nil
}

// deleted returns up to which sequence of INGEST a session or its tenant was deleted within the last days.
func (u *uploads) deleted(ctx context.Context, tenant, token string) (upTo uint64, found bool, err error) {
	keys := []string{tenant + "." + token + ".d", tenant + "." + stream.PurgeToken + ".d"}
	for _, key := range slices.Compact(keys) {
		e, err := u.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return 0, false, fmt.Errorf("upload record: %w", err)
		}
		if at, n := binary.Uvarint(e.Value()); n > 0 {
			upTo, found = max(upTo, at), true
		}
	}
	return upTo, found, nil
}

// Deleted returns up to which sequence of INGEST a session was deleted within the last days, by itself or with its tenant; 0 is never.
// Parts of a session that is named by its content need it in their identity: JetStream would take what comes back after a deletion for
// what was deleted.
func (u *Upload) Deleted(ctx context.Context, session string) (uint64, error) {
	upTo, _, err := u.gateway.uploads.deleted(ctx, u.Tenant, stream.SessionToken(session))
	if err != nil {
		err = u.gateway.failed("recognising the upload", atWindows(err))
	}
	return upTo, err
}

// settle marks the claimed upload as done. last is where its last part is in INGEST. first is false when another gateway or request had
// done so before.
func (u *uploads) settle(ctx context.Context, c *claim, accepted, rejected uint64, whole bool, last uint64) (first bool, err error) {
	if c.key == "" {
		return true, nil
	}
	w := c.window
	w.state, w.accepted, w.rejected, w.whole, w.last, w.sealed = windowDone, accepted, rejected, whole, last, false
	w.at = time.Now().Unix() + 1
	rev := c.revision
	for range recordTries {
		rev, err = u.save(ctx, c.key, &w, rev)
		if err == nil {
			u.remember(c.tenant, c.key, rev, &w)
			return true, nil
		}
		if broker.IsFull(err) {
			u.metrics.forgotten.WithLabelValues(c.tenant).Inc()
			return true, nil // it stays pending: if it comes again its parts are published again
		}
		if !broker.IsWrongSequence(err) {
			return false, err
		}
		if err := pause(ctx); err != nil {
			return false, err
		}
		var old *window
		old, rev, err = u.load(ctx, c.key)
		if err != nil {
			return false, err
		}
		switch {
		case old == nil: // expired, forgotten, or sealed by another gateway
		case old.body != w.body || old.generation != w.generation:
			return false, errConflict
		case old.state == windowDone && !(c.lost && old.last == c.window.last):
			return false, nil // another request or gateway did it
		}
	}
	return false, fmt.Errorf("upload record %s: lost %d writes in a row to other gateways", c.key, recordTries)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(1+rand.IntN(20)) * time.Millisecond):
		return nil
	}
}

// load reads the entry of one upload; nil and 0 when there is none.
func (u *uploads) load(ctx context.Context, key string) (*window, uint64, error) {
	rec, rev, err := u.loadRecord(ctx, key)
	if err != nil || len(rec.windows) == 0 {
		return nil, rev, err
	}
	return &rec.windows[0], rev, nil
}

func (u *uploads) loadRecord(ctx context.Context, key string) (*record, uint64, error) {
	return loadRecord(ctx, u.kv, key)
}

func loadRecord(ctx context.Context, kv jetstream.KeyValue, key string) (*record, uint64, error) {
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return &record{}, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("upload record: %w", err)
	}
	rec, err := parseRecord(e.Value())
	if err != nil {
		return nil, 0, fmt.Errorf("upload record %s: %w", key, err)
	}
	return rec, e.Revision(), nil
}

// save writes the entry of one upload if the key is still at rev (0: absent). If there is no room it makes some.
func (u *uploads) save(ctx context.Context, key string, w *window, rev uint64) (uint64, error) {
	now, err := saveRecord(ctx, u.kv, key, &record{windows: []window{*w}}, rev)
	for try := 0; err != nil && broker.IsFull(err) && try < 3; try++ {
		u.makeRoom(ctx)
		now, err = saveRecord(ctx, u.kv, key, &record{windows: []window{*w}}, rev)
	}
	return now, err
}

// saveRecord writes rec if the key is still at rev (0: absent).
func saveRecord(ctx context.Context, kv jetstream.KeyValue, key string, rec *record, rev uint64) (uint64, error) {
	value := appendRecord(nil, rec)
	var err error
	if rev == 0 {
		rev, err = kv.Create(ctx, key, value)
	} else {
		rev, err = kv.Update(ctx, key, value, rev)
	}
	if err != nil {
		return 0, fmt.Errorf("upload record: %w", err)
	}
	return rev, nil
}

// noteConflict records which entry AcceptConflict is to open. An upload in a block gets an entry of its own then.
func (u *uploads) noteConflict(ctx context.Context, key string, at place) {
	generation := uint64(0)
	if e, err := u.find(ctx, at.tenant, at.key); err == nil && e != nil {
		generation = e.generation
	}
	// It may be there already. If there is no room, AcceptConflict says that there was no conflict.
	u.kv.Create(ctx, key, append(binary.AppendUvarint(nil, generation), at.key...))
}

// AcceptConflict forgets which bytes a window id stands for, so that the next upload under it is taken instead of being answered
// with 409 window_identity_conflict. What was stored under the id stays stored; the new bytes' parts get an identity of their own.
// It fails when no upload under this id was refused within the last 7 days.
func AcceptConflict(ctx context.Context, s *broker.Streams, tenantName, session, windowID string) error {
	keys, err := s.ScanKeys(ctx, s.Windows, sessionPrefix(tenantName, session)+"*.*")
	if err != nil {
		return fmt.Errorf("list upload records: %w", err)
	}
	id, found := DigestOf(windowID), false
	conflict, channels := conflictPrefix(tenantName, session, windowID), sessionPrefix(tenantName, session)+"w."
	for _, key := range keys {
		var ok bool
		switch {
		case strings.HasPrefix(key, channels): // of an older build
			ok, err = openWindow(ctx, s.Windows, key, id, nil)
		case strings.HasPrefix(key, conflict):
			ok, err = openConflict(ctx, s.Windows, key, id)
		}
		if err != nil {
			return err
		}
		found = found || ok
	}
	if !found {
		return fmt.Errorf("no upload of window %q of session %q was refused for tenant %q: check the three names in the gateway's warning",
			windowID, session, tenantName)
	}
	return nil
}

// openConflict opens the entry that a note of a conflict names.
func openConflict(ctx context.Context, kv jetstream.KeyValue, key string, id Digest) (bool, error) {
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("upload record: %w", err)
	}
	generation, n := binary.Uvarint(e.Value())
	if n <= 0 {
		return false, fmt.Errorf("upload record %s: %w", key, errRecord)
	}
	ok, err := openWindow(ctx, kv, string(e.Value()[n:]), id, &window{id: id, generation: generation})
	if ok {
		err = kv.Delete(ctx, key)
	}
	return ok, err
}

// openWindow opens a window in the record of a key. Where it is not there, missing takes its place, unless that is nil.
func openWindow(ctx context.Context, kv jetstream.KeyValue, key string, id Digest, missing *window) (bool, error) {
	for try := 0; ; try++ {
		rec, rev, err := loadRecord(ctx, kv, key)
		if err != nil {
			return false, err
		}
		w := rec.find(id)
		if w == nil {
			if missing == nil {
				return false, nil
			}
			rec.add(*missing)
			w = rec.find(id)
		}
		w.state = windowOpen
		w.generation++
		_, err = saveRecord(ctx, kv, key, rec, rev)
		if err == nil {
			return true, nil
		} else if !broker.IsWrongSequence(err) || try == recordTries {
			return false, err
		}
	}
}
