package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Log is where changes are recorded: parts of INGEST, which become rows of admin_log as everything else becomes rows. It is safe for
// concurrent use; the connection belongs to the caller.
type Log struct {
	js         jetstream.JetStream
	partitions int
}

// NewLog returns the log of a service with so many partitions.
func NewLog(js jetstream.JetStream, partitions int) *Log { return &Log{js, partitions} }

// OpenLog opens the log of the service that a NATS is of.
func OpenLog(ctx context.Context, js jetstream.JetStream) (*Log, error) {
	s, err := js.Stream(ctx, stream.IngestStream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream.IngestStream, err)
	}
	n, err := strconv.Atoi(s.CachedInfo().Config.Metadata[stream.MetaPartitions])
	if err != nil || n < 1 {
		return nil, fmt.Errorf("stream %s does not say its partitions: start the service once", stream.IngestStream)
	}
	return &Log{js, n}, nil
}

// logTries is how often a word is sent, each time under the same id, and logTime how long one may take.
const (
	logTries = 3
	logTime  = 5 * time.Second
)

// write stores one word of a change of a tenant, "" of none.
func (l *Log) write(ctx context.Context, of string, c stream.AdminChange) error {
	id := "admin/" + c.ID + "/" + c.Outcome
	data, err := stream.AppendEnvelope(nil, &stream.Envelope{
		Tenant: of, Kind: stream.KindAdmin, Source: "admin", Identity: id, Last: true, ReceivedAt: time.Now().UnixNano(),
		RollupDays: tenant.DefaultLimits().RollupDays, Admin: &c,
	}, nil)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(stream.IngestSubject(stream.Partition(of, "", l.partitions), stream.NoTenantToken, stream.AdminToken))
	msg.Data = data
	msg.Header.Set(jetstream.MsgIDHeader, id)
	for range logTries {
		try, cancel := context.WithTimeout(ctx, logTime)
		_, err = l.js.PublishMsg(try, msg, jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// changeOf is a change that is about to be made.
type changeOf struct {
	tenant, action, object string
	change                 any // becomes JSON, see difference
	urgent                 bool
}

// record says in the log that a change begins, makes it, and says what became of it. do may add to c what is known only then. A change that
// cannot be recorded is not made, unless it is urgent: what is to be closed is closed though INGEST is full.
func (d *Desk) record(ctx context.Context, who Who, c *changeOf, do func() error) error {
	if d.Log == nil {
		return do()
	}
	word := stream.AdminChange{ID: broker.NewID(), At: time.Now().UnixNano(), Who: who.Name()}
	say := func(outcome string) error {
		word.Action, word.Object, word.Change, word.Outcome = c.action, c.object, "", outcome
		if c.change != nil {
			text, err := json.Marshal(c.change)
			if err != nil {
				return err
			}
			word.Change = string(text)
		}
		return d.Log.write(context.WithoutCancel(ctx), c.tenant, word) // it bounds itself, and is said also of who went away meanwhile
	}
	if err := say(stream.AdminBegun); err != nil {
		if !c.urgent {
			return &Denied{http.StatusServiceUnavailable, "not_recorded",
				"the change cannot be recorded in admin_log, and was not made: look whether INGEST is full, and try again: " + err.Error()}
		}
		d.warn(fmt.Errorf("%s is not in admin_log: %w", c.action, err))
	}
	err := do()
	outcome := stream.AdminDone
	if err != nil {
		outcome = stream.AdminFailed
		var denied *Denied
		if !errors.As(changed(err), &denied) {
			return err // who knows whether it was made
		}
	}
	if lost := say(outcome); lost != nil {
		d.warn(fmt.Errorf("admin_log does not say what became of this: %s: %w", c.action, lost))
	}
	return err
}

func (d *Desk) warn(err error) {
	if d.Warn != nil {
		d.Warn(err)
	}
}

// difference is by field what was and what is, of what differs. was and is are both keys or both records of tenants; nil is nothing.
func difference(was, is any) map[string][2]any {
	before, after := fieldsOf(was), fieldsOf(is)
	out := map[string][2]any{}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for name := range all {
		if !reflect.DeepEqual(before[name], after[name]) {
			out[name] = [2]any{before[name], after[name]}
		}
	}
	return out
}

// fieldsOf is what a key or a record has as JSON shows it.
func fieldsOf(v any) map[string]any {
	switch of := v.(type) {
	case tenant.Key:
		v = ShowKey(of)
	case tenant.Record:
		v = ShowRecord(of)
	}
	text, err := json.Marshal(v)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(text, &fields) != nil || fields == nil {
		return map[string]any{}
	}
	return fields
}
