package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

// Retention is how far the service is with giving the rows that a tenant has another retention class.
type Retention struct {
	ID         string            `json:"id"` // of the request
	Tenant     string            `json:"tenant"`
	Class      string            `json:"class"`
	RawDays    uint16            `json:"raw_days"`
	RollupDays uint16            `json:"rollup_days"`
	Lanes      int               `json:"lanes"` // of the sink, each of which does its part
	LanesDone  int               `json:"lanes_done"`
	Done       bool              `json:"done"`
	Moved      map[string]uint64 `json:"moved"` // rows by table
	Why        string            `json:"why,omitempty"`
	Revision   uint64            `json:"-"` // of the request
}

// ClassOf is a retention class of the service by its name.
func (d *Desk) ClassOf(ctx context.Context, name string) (tenant.Class, error) {
	classes, err := ingest.ReadClasses(ctx, d.Keys.Bucket())
	if err != nil {
		return tenant.Class{}, err
	}
	if err := classes.Give(new(tenant.Limits), name); err != nil {
		return tenant.Class{}, bad(fmt.Errorf("class: %w", err))
	}
	class, ok := classes.Named(name)
	if !ok {
		return class, bad(errors.New("class: name a retention class of the service"))
	}
	return class, nil
}

// Retain asks the service to give the rows that a tenant has a retention class, if the request before it is of a revision that is not 0.
func (d *Desk) Retain(ctx context.Context, who Who, s *broker.Streams, of, class string, revision uint64) (r Retention, err error) {
	if !who.sees(of) || tenant.CheckName(of) != nil {
		return r, NoTenant(of)
	}
	if err := who.operate("to give rows another retention class"); err != nil {
		return r, err
	}
	days, err := d.ClassOf(ctx, class)
	if err != nil {
		return r, err
	}
	was, err := d.Retained(ctx, who, s, of)
	if err != nil && !errors.Is(err, errNoRetention) {
		return r, err
	}
	if revision != anyRevision && was.Revision != revision {
		return r, changed(ingest.ErrChanged)
	}
	order := stream.Retain{ID: broker.NewID(), Tenant: of, Class: class, Raw: days.Raw, Rollup: days.Rollup}
	value, err := json.Marshal(&order)
	if err != nil {
		return r, err
	}
	c := changeOf{tenant: of, action: "tenant retain", object: of, change: map[string][2]any{"class": {was.Class, class}}}
	err = d.record(ctx, who, &c, func() (err error) {
		key := stream.RetainKey(of)
		if revision == anyRevision {
			_, err = s.Deletions.Put(ctx, key, value)
		} else if _, err = s.Deletions.Update(ctx, key, value, revision); broker.IsWrongSequence(err) {
			err = changed(ingest.ErrChanged)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	return d.Retained(ctx, who, s, of)
}

// errNoRetention is that nobody has asked for it.
var errNoRetention = &Denied{http.StatusNotFound, "no_such_request",
	"nobody has asked to give rows of this tenant another retention class: POST asks for it"}

// Retained says how far the service is with the last request for a tenant.
func (d *Desk) Retained(ctx context.Context, who Who, s *broker.Streams, of string) (r Retention, err error) {
	if !who.sees(of) || tenant.CheckName(of) != nil {
		return r, NoTenant(of)
	}
	e, err := s.Deletions.Get(ctx, stream.RetainKey(of))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return r, errNoRetention
	}
	var order stream.Retain
	if err == nil {
		err = json.Unmarshal(e.Value(), &order)
	}
	if err != nil {
		return r, fmt.Errorf("look how far it is: %w", err)
	}
	r = Retention{ID: order.ID, Tenant: of, Class: order.Class, RawDays: order.Raw, RollupDays: order.Rollup, Lanes: s.Lanes,
		Moved: map[string]uint64{}, Revision: e.Revision()}
	for lane := range s.Lanes {
		e, err := s.Deletions.Get(ctx, stream.RetainProgressKey(of, lane))
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return r, fmt.Errorf("look how far it is: %w", err)
		}
		var at stream.RetainProgress
		if err != nil || json.Unmarshal(e.Value(), &at) != nil || at.ID != r.ID {
			continue
		}
		if at.Done {
			r.LanesDone++
		}
		if at.Why != "" {
			r.Why = at.Why
		}
		for t, n := range at.Moved {
			r.Moved[t] += n
		}
	}
	r.Done = r.LanesDone == r.Lanes
	return r, nil
}

// Kept is rows of a table that came on a day (of tables kept by month: in a month), and for how many days they are kept.
type Kept struct {
	Table   string `json:"table"`
	Came    string `json:"came"`
	Rows    uint64 `json:"rows"`
	Days    uint16 `json:"days"`
	WouldBe uint16 `json:"would_be"`
}

// Retainable says which rows of a tenant another retention class would keep for longer or shorter.
func Retainable(ctx context.Context, conn driver.Conn, database string, schema *table.Schema, of string, class tenant.Class) (
	[]Kept, error) {
	out := []Kept{}
	for _, t := range schema.Tables() {
		days, moves := table.RetainedDays(t, class.Raw, class.Rollup)
		if !moves {
			continue
		}
		layout := time.DateOnly
		if t.Retention != table.Raw {
			layout = "2006-01"
		}
		rows, err := conn.Query(ctx, t.HeldSQL(table.Options{Database: database},
			fmt.Sprintf("tenant = %s AND retention_days != %d", table.Quote(of), days)))
		if err != nil {
			return nil, fmt.Errorf("count in %s: %w", t.Name, err)
		}
		for rows.Next() {
			var day int32
			var amount uint64
			k := Kept{Table: t.Name, WouldBe: days}
			if err := rows.Scan(&day, &k.Days, &k.Rows, &amount); err != nil {
				rows.Close()
				return nil, fmt.Errorf("count in %s: %w", t.Name, err)
			}
			k.Came = time.Unix(int64(day)*86400, 0).UTC().Format(layout)
			out = append(out, k)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return nil, fmt.Errorf("count in %s: %w", t.Name, err)
		}
	}
	return out, nil
}
