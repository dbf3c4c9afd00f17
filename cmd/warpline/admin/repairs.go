package admin

import (
	"context"

	"github.com/warpline/warpline/proto/stream"
)

// Replay records that rejects are sent again, of one tenant or, with "", of any.
func (d *Desk) Replay(ctx context.Context, who Who, of string, count int, replay func() error) error {
	c := changeOf{tenant: of, action: "reject replay", object: of, change: map[string]any{"rejects": count}}
	return d.record(ctx, who, &c, replay)
}

// Drop records that rejects are dropped, of one tenant or, with "", of any.
func (d *Desk) Drop(ctx context.Context, who Who, of string, count uint64, drop func() error) error {
	c := changeOf{tenant: of, action: "reject drop", object: of, change: map[string]any{"rejects": count}}
	return d.record(ctx, who, &c, drop)
}

// Restore records that rows which ClickHouse lost are brought back, of one tenant or, with "", of any; of one table or, with "", of all.
func (d *Desk) Restore(ctx context.Context, who Who, of, table string, restore func() error) error {
	return d.record(ctx, who, &changeOf{tenant: of, action: "replay", object: table}, restore)
}

// Purge records that all that a tenant has sent is deleted. That leaves the record.
func (d *Desk) Purge(ctx context.Context, who Who, of string, purge func() error) error {
	return d.record(ctx, who, &changeOf{tenant: of, action: "tenant purge", object: of}, purge)
}

// DeleteSessions records that sessions of a tenant are deleted: of one its token, since its id is to be forgotten, of several how many.
func (d *Desk) DeleteSessions(ctx context.Context, who Who, of string, sessions []string, order func() error) error {
	c := changeOf{tenant: of, action: "session delete", change: map[string]any{"sessions": len(sessions)}}
	if len(sessions) == 1 {
		c.object = stream.SessionToken(sessions[0])
	}
	return d.record(ctx, who, &c, order)
}
