package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # The record of cubins is no better than the tables
//
// Gateways answer from WL_CUBINS, and an agent that is told that a cubin is stored never offers it again. The record can be wrong: after a
// power cut it may remember what INGEST forgot, or what was deleted; rows may be lost with a data folder, or have expired. So the sink that
// holds lane 0 compares it with the tables now and then, and forgets what has no rows.
//
// A cubin that was just accepted has no rows yet. A record is judged only when everything that its partition had got by then is inserted:
// its lane's mark says how far that is, and INGEST has no part above it that is as old as the record. What is read comes in that order:
// records, marks, INGEST, rows. A record has to be found wrong twice, so that a deletion that is being carried out can end.

const (
	// forgetEvery is how often the record is compared. After a start, and after NATS was away, it is compared every forgetSoon for
	// forgetLong: that is when something may be lost.
	forgetEvery, forgetSoon, forgetLong = 10 * time.Minute, 10 * time.Second, 2 * time.Minute
	// forgetAgain is after how long what is suspect is looked at again.
	forgetAgain = time.Minute
	// clocksDiffer is how far the clocks of the servers of a NATS cluster may be apart.
	clocksDiffer = 5 * time.Second
)

// recorded is one key of the record of cubins.
type recorded struct {
	revision uint64
	at       time.Time // when it was written
}

// forgetCubins compares the record of cubins with the tables until ctx ends.
func (k *Sink) forgetCubins(ctx context.Context) {
	var suspects map[string]recorded
	began, reconnects, due := time.Now(), k.s.Conn.Stats().Reconnects, time.Now()
	for sleep(ctx, forgetSoon) {
		if n := k.s.Conn.Stats().Reconnects; n != reconnects {
			began, reconnects = time.Now(), n
		}
		k.mu.Lock()
		mine := k.lanes[0] != nil
		k.mu.Unlock()
		if !mine || time.Now().Before(due) && time.Since(began) > forgetLong {
			continue
		}
		next, n, err := k.forgetOnce(ctx, suspects)
		if n > 0 {
			k.log.Warn("cubins were recorded as stored and have no rows: agents are asked for them again", "cubins", n)
		}
		if err != nil {
			if ctx.Err() == nil {
				k.log.Debug("compare the record of cubins with the tables", "err", err)
			}
			continue
		}
		suspects, due = next, time.Now().Add(forgetEvery)
		if len(suspects) > 0 {
			due = time.Now().Add(forgetAgain)
		}
	}
}

// forgetOnce compares the record of cubins with the tables. It returns the records whose cubins should have rows and have none, or may
// still get them, and forgets those that were among suspects already, which an earlier call returned. It may be called by any number of
// sinks.
func (k *Sink) forgetOnce(ctx context.Context, suspects map[string]recorded) (next map[string]recorded, forgotten int, err error) {
	if !k.has(table.Cubins.Table) {
		return nil, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	records, err := k.recordedCubins(ctx)
	if err != nil || len(records) == 0 {
		return nil, 0, err
	}
	passed, err := k.passed(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := k.dropStored(ctx, records); err != nil {
		return nil, 0, err
	}
	next = map[string]recorded{}
	for key, r := range records {
		if suspects[key] != r || !passed(key, r.at) {
			next[key] = r
			continue
		}
		err := k.s.Cubins.Purge(ctx, key, jetstream.LastRevision(r.revision))
		if err != nil {
			return next, forgotten, fmt.Errorf("forget a cubin: %w", err)
		}
		forgotten++
	}
	return next, forgotten, nil
}

// recordedCubins reads which cubins are recorded as stored, and since when.
func (k *Sink) recordedCubins(ctx context.Context) (map[string]recorded, error) {
	out := map[string]recorded{}
	err := k.s.Scan(ctx, k.s.Cubins, ">", func(e broker.Entry) error {
		var r stream.CubinRecord
		if r.Parse(e.Value) == nil && !r.Declined {
			out[e.Key] = recorded{e.Revision, e.Created}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the record of cubins: %w", err)
	}
	return out, nil
}

// passed returns a function that reports whether all that INGEST had got by a time for the partition of a record is inserted.
func (k *Sink) passed(ctx context.Context) (func(key string, at time.Time) bool, error) {
	oldest := make([]time.Time, k.s.Partitions) // of what waits; zero: nothing does
	for n := range k.s.Lanes {
		m := marks{kv: k.s.Marks, key: markKey(n)}
		mark, _, _, err := m.get(ctx)
		if err != nil {
			return nil, err
		}
		for p := n; p < k.s.Partitions; p += k.s.Lanes {
			if oldest[p], err = k.waits(ctx, p, mark.Partitions[p].Position.Seq); err != nil {
				return nil, err
			}
		}
	}
	return func(key string, at time.Time) bool {
		tenant, buildID, _ := strings.Cut(key, ".")
		for p, waits := range oldest {
			// A key may hold a hash in place of the build id: then it may be of any partition.
			its := key != stream.CubinKey(tenant, buildID) || p == stream.Partition(tenant, stream.CubinSession+buildID, len(oldest))
			if its && !waits.IsZero() && waits.Before(at.Add(clocksDiffer)) {
				return false
			}
		}
		return true
	}, nil
}

// doorsMost is how many messages of gateways are passed over in a partition.
const doorsMost = 100

// waits returns how old the oldest part of a partition is in INGEST above a sequence, zero when there is none. What gateways tell is no
// part; behind doorsMost of that any part is younger than the last of them.
func (k *Sink) waits(ctx context.Context, partition int, above uint64) (since time.Time, err error) {
	for range doorsMost {
		msg, err := k.s.Ingest.GetMsg(ctx, above+1, jetstream.WithGetMsgSubject(stream.IngestFilter(partition)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("look what waits in INGEST: %w", err)
		}
		since, above = msg.Time, msg.Sequence
		if !stream.OfDoor(partition, msg.Subject) {
			break
		}
	}
	return since, nil
}

// dropStored leaves those records whose cubins have no row.
func (k *Sink) dropStored(ctx context.Context, records map[string]recorded) error {
	at := name(k.cfg.Database) + "." + name(table.Cubins.Name)
	if k.cfg.Replicated {
		if err := k.native.Exec(ctx, "SYSTEM SYNC REPLICA "+at); err != nil {
			return fmt.Errorf("wait for the replica: %w", err)
		}
	}
	rows, err := k.native.Query(ctx, "SELECT DISTINCT toString(tenant), toString(build_id) FROM "+at)
	if err != nil {
		return fmt.Errorf("look which cubins are stored: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var tenant, buildID string
		if err := rows.Scan(&tenant, &buildID); err != nil {
			return fmt.Errorf("look which cubins are stored: %w", err)
		}
		delete(records, stream.CubinKey(tenant, buildID))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look which cubins are stored: %w", err)
	}
	return nil
}
