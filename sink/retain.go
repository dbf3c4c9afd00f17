package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

// # Old rows get another retention class
//
// Retention days are part of the ClickHouse partition, so rows are copied into another one and deleted from the old one. Each lane does it
// for the rows that came by its partitions of ROWS, between two spans, one unit (table and ClickHouse partition) at a time. Why each row is
// there once in the end:
//
//   - The lane alone brings and deletes rows of its partitions, and merges do not mix them with others. A unit that is recorded is finished
//     before the next span, by this owner or by the next, before it does anything else. So the rows stay what they were, up to merges.
//   - No insert of an earlier owner can be running: a lane moves nothing before lookAgainAfter has passed since it was taken.
//   - Moved rows keep partition and chunk number, which are those of spans that the mark has passed. So neither those that leave nor those
//     that come change what the lane finds when it looks whether a later chunk has arrived.
//   - The copy is made in a table of its own, which no query reads, and is attached as one data part by one statement. Before that, the
//     unit is recorded, with what the new ClickHouse partition has of these rows; the record is on disk before the statement is sent.
//     A successor sees by that whether it was carried out. In tables that keep one of equal rows, it may be attached again.
//   - A zombie may still be about to send that statement. The successor first drops the table of the copy, which waits for statements
//     that read it; a later one does not find it. Each copy has a table with a name of its own.
//   - Rows are deleted after they are attached, by a condition that selects the same rows however often, and no others.
//   - The ledger says both, once: its rows of the unit have the unit's number.
//
// A reader sees the rows of one unit twice from the moment they are attached until they are deleted, some seconds. Sinks of before there
// was this must not take over meanwhile.

const (
	// retainEvery is how often a lane looks whether there is something to move.
	retainEvery = 2 * time.Second
	// copyTimeout is the most that the copy of a unit may take. The lane inserts nothing meanwhile.
	copyTimeout = 10 * time.Minute
)

// watchRetain keeps the requests up to date until ctx ends.
func (k *Sink) watchRetain(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.followRetain(ctx); err != nil && ctx.Err() == nil {
			k.log.Debug("watch requests to retain", "err", err)
		}
		sleep(ctx, time.Second)
	}
}

func (k *Sink) followRetain(ctx context.Context) error {
	w, err := k.s.Deletions.Watch(ctx, stream.RetainKeys)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			if !ok {
				return errors.New("the connection was closed")
			}
			if e == nil {
				continue
			}
			var r stream.Retain
			err := json.Unmarshal(e.Value(), &r)
			k.mu.Lock()
			if e.Operation() == jetstream.KeyValuePut && err == nil && e.Key() == stream.RetainKey(r.Tenant) && tenant.CheckName(r.Tenant) == nil &&
				r.Raw > 0 && r.Rollup > 0 {
				k.retains[e.Key()] = r
			} else {
				delete(k.retains, e.Key())
			}
			k.mu.Unlock()
		}
	}
}

// retain does one step of one request, between two spans. An error ends the lane.
func (l *lane) retain(ctx context.Context) error {
	if time.Now().Before(l.retainAt) || l.marks.mark.Pending != nil {
		return nil
	}
	l.retainAt = time.Now().Add(retainEvery)
	l.k.mu.Lock()
	var todo []stream.Retain
	for _, r := range l.k.retains {
		if l.retained[r.Tenant] != r.ID {
			todo = append(todo, r)
		}
	}
	l.k.mu.Unlock()
	slices.SortFunc(todo, func(a, b stream.Retain) int { return strings.Compare(a.Tenant, b.Tenant) })
	for i := range todo {
		m := &mover{l: l, r: &todo[i]}
		waits, err := m.step(ctx)
		switch {
		case errors.Is(err, errCrash):
			return err
		case err != nil && m.recorded:
			// It is known what is half moved only as long as nothing else comes or goes.
			if err := l.resumeRetain(ctx); err != nil {
				return err
			}
		case err != nil:
			l.log.Warn("rows of a tenant could not be given another retention class, it is tried again", "tenant", m.r.Tenant, "err", err)
			m.explain(ctx, err)
		case !waits:
			l.retainAt = time.Now().Add(min(retainEvery, 50*time.Millisecond))
			return nil // spans first
		}
	}
	return nil
}

// resumeRetain finishes what is half moved, before anything else is done.
func (l *lane) resumeRetain(ctx context.Context) error {
	return l.persist(ctx, "finish giving rows another retention class", func(ctx context.Context) error {
		ask, cancel := context.WithTimeout(ctx, natsTimeout)
		defer cancel()
		keys, err := l.k.s.ScanKeys(ask, l.k.s.Deletions, stream.RetainProgressKey("*", l.n))
		if err != nil {
			return fmt.Errorf("list what is being moved: %w", err)
		}
		for _, key := range keys {
			of := strings.TrimSuffix(strings.TrimPrefix(key, stream.RetainKey("")), fmt.Sprintf(".%d", l.n))
			m := &mover{l: l, r: &stream.Retain{Tenant: of}}
			if err := m.load(ctx); err != nil {
				return err
			}
			if m.progress.Unit == nil {
				continue
			}
			err := m.resume(ctx)
			if errors.Is(err, errChanged) {
				l.log.Error("what was half moved to another retention class was changed by others: run the audit", "tenant", of, "err", err)
				m.progress.Unit, m.r.ID = nil, m.progress.ID
				err = m.end(ctx, err.Error())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// errChanged is that rows which were half moved were changed meanwhile, as a sink of an older version does.
var errChanged = errors.New("half moved rows were changed")

// mover carries out one request in one lane. All that it must know after a crash is in progress.
type mover struct {
	l        *lane
	r        *stream.Retain
	progress stream.RetainProgress
	revision uint64
	recorded bool // a unit is, so it must be finished
}

func (m *mover) key() string { return stream.RetainProgressKey(m.r.Tenant, m.l.n) }

// step moves one unit, or finds out that there is none. waits says that nothing can be done now.
func (m *mover) step(ctx context.Context) (waits bool, err error) {
	if err := m.load(ctx); err != nil {
		return false, err
	}
	if m.progress.ID == m.r.ID && m.progress.Done {
		m.l.retained[m.r.Tenant] = m.r.ID
		return true, nil
	}
	k := m.l.k
	if k.cfg.Replicated || k.cfg.Cluster != "" {
		return true, m.end(ctx, "rows of replicated tables cannot be given another class")
	}
	if m.progress.ID != m.r.ID {
		m.progress = stream.RetainProgress{ID: m.r.ID, Begun: time.Now().UnixNano(), Moved: map[string]uint64{}}
		if err := m.write(ctx); err != nil {
			return false, err
		}
	}
	if time.Since(time.Unix(0, m.progress.Begun)) < k.again || time.Since(m.l.taken) < k.again {
		return true, nil
	}
	if m.progress.Bounds == nil {
		m.progress.Bounds = map[int]uint64{}
		for p, s := range m.l.marks.mark.Partitions {
			m.progress.Bounds[p] = s.Chunk
		}
	}
	if err := m.dropCopies(ctx); err != nil {
		return false, err
	}
	for _, t := range k.cfg.Schema.Tables() {
		to, moves := table.RetainedDays(t, m.r.Raw, m.r.Rollup)
		if !moves {
			continue
		}
		u, err := m.next(ctx, t, to)
		if err != nil {
			return false, err
		}
		if u != nil {
			m.progress.Unit = u
			return false, m.move(ctx, t)
		}
	}
	return true, m.end(ctx, "")
}

// load reads how far the lane is.
func (m *mover) load(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	e, err := m.l.k.s.Deletions.Get(ask, m.key())
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read how far the lane is: %w", err)
	}
	m.revision = e.Revision()
	if err := json.Unmarshal(e.Value(), &m.progress); err != nil {
		return fmt.Errorf("key %s of %s holds something else (%w): delete it", m.key(), stream.DeletionsBucket, err)
	}
	return nil
}

// write records progress, unless somebody else did since it was read.
func (m *mover) write(ctx context.Context) error {
	value, err := json.Marshal(&m.progress)
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	if m.revision == 0 {
		m.revision, err = m.l.k.s.Deletions.Create(ask, m.key(), value)
	} else {
		m.revision, err = m.l.k.s.Deletions.Update(ask, m.key(), value, m.revision)
	}
	if err != nil {
		return fmt.Errorf("record how far the lane is: %w", err)
	}
	return nil
}

func (m *mover) end(ctx context.Context, why string) error {
	m.progress.Done, m.progress.Why, m.progress.ID = true, why, m.r.ID
	if err := m.write(ctx); err != nil {
		return err
	}
	m.l.retained[m.r.Tenant] = m.r.ID
	m.l.log.Info("rows of a tenant have their retention class", "tenant", m.r.Tenant, "class", m.r.Class, "moved", m.progress.Moved, "why",
		why)
	return nil
}

// explain tells who waits what is wrong.
func (m *mover) explain(ctx context.Context, of error) {
	again := &mover{l: m.l, r: m.r}
	if errors.Is(of, errCrash) || again.load(ctx) != nil || again.revision == 0 || again.progress.Why == of.Error() {
		return
	}
	again.progress.Why = of.Error()
	if err := again.write(ctx); err != nil {
		m.l.log.Debug("record why", "err", err)
	}
}
