// Package erase asks the service to delete sessions, or all of a tenant, and says what was deleted. Commands and the admin API share it.
package erase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Eraser stores deletions, which workers and sinks carry out. Its fields must not change while it works.
type Eraser struct {
	Streams  *broker.Streams
	Conn     driver.Conn // nil when ClickHouse cannot be asked
	Database string
	Schema   *table.Schema
}

// Found is what there is of a session or a tenant.
type Found struct {
	Rows     map[string]uint64 // by table
	Messages uint64            // in INGEST
}

// Nothing reports whether nothing is known of it.
func (f Found) Nothing() bool { return len(f.Rows) == 0 && f.Messages == 0 }

// findAtOnce sessions are counted by one query.
const findAtOnce = 64

// Find counts what there is of each session; "" is the whole tenant.
func (e Eraser) Find(ctx context.Context, tenantName string, sessions []string) ([]Found, error) {
	out := make([]Found, len(sessions))
	for i, id := range sessions {
		out[i].Rows = map[string]uint64{}
		d := stream.Deletion{Tenant: tenantName, Session: id}
		info, err := e.Streams.Ingest.Info(ctx, jetstream.WithSubjectFilter(d.Subjects("ingest.*", "")))
		if err != nil {
			return nil, Away{fmt.Errorf("look for messages: %w: nothing was deleted; once NATS is back, run the same again", err)}
		}
		for _, n := range info.State.Subjects {
			out[i].Messages += n
		}
	}
	if e.Conn == nil {
		return out, nil
	}
	for from := 0; from < len(sessions); from += findAtOnce {
		some := sessions[from:min(from+findAtOnce, len(sessions))]
		targets := make([]table.Target, len(some))
		for i, id := range some {
			targets[i] = table.Target{Tenant: tenantName, Session: id}
		}
		for _, t := range e.Schema.Tables() {
			if err := e.count(ctx, t, targets, out[from:]); err != nil {
				return nil, fmt.Errorf("count in %s: %w", t.Name, err)
			}
		}
	}
	return out, nil
}

func (e Eraser) count(ctx context.Context, t *table.Table, targets []table.Target, out []Found) error {
	sql := t.CountSQL(table.Options{Database: e.Database}, targets)
	if sql == "" {
		return nil
	}
	rows, err := e.Conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var i int64
		var n uint64
		if err := rows.Scan(&i, &n); err != nil {
			return err
		}
		out[i].Rows[t.Name] = n
	}
	return rows.Err()
}

// Away is an error of a NATS that did not answer.
type Away struct{ error }

// Unwrap returns the cause.
func (a Away) Unwrap() error { return a.error }

// storeTime is how long it may take to store one tombstone.
const storeTime = 20 * time.Second

// Order stores the tombstones of a deletion, whose id must be new: one on the session's subject, or one a partition. It returns the keys
// under which the service says what each of them removed. When it fails, some may be stored: the same can be ordered again.
func (e Eraser) Order(ctx context.Context, d *stream.Deletion) (keys []string, err error) {
	partitions := []int{}
	if d.Session != "" {
		partitions = append(partitions, stream.Partition(d.Tenant, d.Session, e.Streams.Partitions))
	} else {
		for p := range e.Streams.Partitions {
			partitions = append(partitions, p)
		}
		for bucket, last := range map[string]*uint64{stream.DictionariesBucket: &d.Dictionaries, stream.WindowsBucket: &d.Windows} {
			s, err := e.Streams.JS.Stream(ctx, "KV_"+bucket)
			if err != nil {
				return keys, Away{err}
			}
			*last = s.CachedInfo().State.LastSeq
		}
	}
	for _, p := range partitions {
		msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Tenant: d.Tenant, Session: d.Session,
			Kind: stream.KindDelete, Identity: "delete/" + d.ID, Last: true, ReceivedAt: time.Now().UnixNano(), Delete: d}, nil)
		if err != nil {
			return keys, err
		}
		key := stream.DeletionRecordKey(d.ID, p)
		try, cancel := context.WithTimeout(ctx, storeTime)
		_, err = e.Streams.JS.PublishMsg(try, &nats.Msg{Subject: stream.IngestSubject(p, d.Tenant, d.Token()), Data: msg},
			jetstream.WithMsgID("delete-"+key))
		cancel()
		if err != nil {
			return keys, Away{err}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// readTime is how long one look for a record may take: a server that is killed does not answer, and another may be there at the next try.
const readTime = 5 * time.Second

// lookEvery is how often it is looked whether tombstones are carried out.
const lookEvery = 100 * time.Millisecond

// Await waits until tombstones are carried out, or ctx ends, and returns what they removed and how many are left. tell, unless it is nil,
// is called between two looks.
func (e Eraser) Await(ctx context.Context, keys []string, tell func(left int)) (got []stream.DeletionRecord, left int, err error) {
	for {
		var waiting []string
		for i, key := range keys {
			if ctx.Err() != nil {
				waiting = append(waiting, keys[i:]...)
				break
			}
			r, done, err := e.done(ctx, key)
			switch {
			case err != nil && ctx.Err() == nil:
				return got, len(keys) - i, err
			case done:
				got = append(got, r)
			default:
				waiting = append(waiting, key)
			}
		}
		if keys = waiting; len(keys) == 0 {
			return got, 0, nil
		}
		if tell != nil {
			tell(len(keys))
		}
		select {
		case <-ctx.Done():
			return got, len(keys), nil
		case <-time.After(lookEvery):
		}
	}
}

// done returns what a tombstone removed, and false while it is not carried out.
func (e Eraser) done(ctx context.Context, key string) (r stream.DeletionRecord, done bool, err error) {
	try, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	entry, err := e.Streams.Deletions.Get(try, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), err != nil && try.Err() != nil && ctx.Err() == nil:
		return r, false, nil
	case err != nil:
		return r, false, Away{fmt.Errorf("read what was deleted: %w: the request is stored and is carried out all the same", err)}
	}
	if err := json.Unmarshal(entry.Value(), &r); err != nil {
		return r, false, fmt.Errorf("record %s of a deletion: %w", key, err)
	}
	return r, true, nil
}

// Sum adds up what tombstones removed: rows by table, and messages, keys and objects.
func Sum(all []stream.DeletionRecord) map[string]uint64 {
	sums := map[string]uint64{"messages": 0, "keys": 0, "objects": 0}
	for _, r := range all {
		for t, n := range r.Rows {
			sums[t] += n
		}
		sums["messages"], sums["keys"], sums["objects"] = sums["messages"]+r.Messages, sums["keys"]+r.Keys, sums["objects"]+r.Objects
	}
	return sums
}
