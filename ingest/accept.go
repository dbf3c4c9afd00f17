package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
)

// claim is an upload that this gateway has recorded as pending, or found recorded.
type claim struct {
	key      string
	revision uint64
	record   *record
	window   window // as recorded
	resumed  bool   // it was pending already: parts of it may be published
}

// errConflict is an upload whose id was used for other bytes.
var errConflict = errors.New("the window id was used for other bytes")

// recordTries bounds optimistic writes to one record: only another gateway with the same channel can make one lose.
const recordTries = 20

// claimWindow records w as pending under key unless it is known. Known and done is returned as it is (claim.window.state is
// windowDone), known and pending is resumed with the limits it was first cut with, the same id with other bytes is errConflict.
func claimWindow(ctx context.Context, kv jetstream.KeyValue, key string, w window) (*claim, error) {
	w.state = windowPending
	for range recordTries {
		rec, rev, err := loadRecord(ctx, kv, key)
		if err != nil {
			return nil, err
		}
		c := &claim{key: key, revision: rev, record: rec}
		switch old := rec.find(w.id); {
		case old == nil:
			rec.add(w)
			c.window = w
		case old.state == windowOpen:
			old.state, old.body, old.limits, old.sequence = windowPending, w.body, w.limits, w.sequence
			c.window = *old
		case old.body != w.body:
			return nil, errConflict
		default:
			c.window, c.resumed = *old, old.state == windowPending
			return c, nil
		}
		if c.revision, err = saveRecord(ctx, kv, key, rec, rev); err == nil {
			return c, nil
		} else if !broker.IsWrongSequence(err) {
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("window record %s: lost %d writes in a row to other gateways", key, recordTries)
}

// settle marks the claimed upload as done.
func (c *claim) settle(ctx context.Context, kv jetstream.KeyValue, accepted, rejected uint64, whole bool) error {
	rec, rev := c.record, c.revision
	for range recordTries {
		w := rec.find(c.window.id)
		switch {
		case w == nil: // pushed out by newer windows meanwhile, or expired
			rec.add(c.window)
			w = rec.find(c.window.id)
		case w.state == windowDone && w.body == c.window.body:
			return nil // another gateway was at it too
		case w.body != c.window.body || w.generation != c.window.generation:
			return errConflict
		}
		w.state, w.accepted, w.rejected, w.whole = windowDone, accepted, rejected, whole
		_, err := saveRecord(ctx, kv, c.key, rec, rev)
		if err == nil || !broker.IsWrongSequence(err) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
		if rec, rev, err = loadRecord(ctx, kv, c.key); err != nil {
			return err
		}
	}
	return fmt.Errorf("window record %s: lost %d writes in a row to other gateways", c.key, recordTries)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(1+rand.IntN(20)) * time.Millisecond):
		return nil
	}
}

func loadRecord(ctx context.Context, kv jetstream.KeyValue, key string) (*record, uint64, error) {
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return &record{}, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("window record: %w", err)
	}
	rec, err := parseRecord(e.Value())
	if err != nil {
		return nil, 0, fmt.Errorf("window record %s: %w", key, err)
	}
	return rec, e.Revision(), nil
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
		return 0, fmt.Errorf("window record: %w", err)
	}
	return rev, nil
}

// AcceptConflict forgets which bytes a window id stands for, so that the next upload under it is taken instead of being answered
// with 409 window_identity_conflict. What was stored under the id stays stored; the new bytes' parts get an identity of their own.
// It fails when no channel of the session remembers the window.
func AcceptConflict(ctx context.Context, s *broker.Streams, tenantName, session, windowID string) error {
	keys, err := s.Windows.ListKeysFiltered(ctx, windowsPrefix(tenantName, session)+"*")
	if err != nil {
		return fmt.Errorf("list window records: %w", err)
	}
	defer keys.Stop()
	id, found := digestOf(windowID), false
	for key := range keys.Keys() {
		for try := 0; ; try++ {
			rec, rev, err := loadRecord(ctx, s.Windows, key)
			if err != nil {
				return err
			}
			w := rec.find(id)
			if w == nil {
				break
			}
			w.state = windowOpen
			w.generation++
			if _, err = saveRecord(ctx, s.Windows, key, rec, rev); err == nil {
				found = true
				break
			} else if !broker.IsWrongSequence(err) || try == recordTries {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("window %q of session %q is not remembered for tenant %q: check the three names in the gateway's warning", windowID, session, tenantName)
	}
	return nil
}
