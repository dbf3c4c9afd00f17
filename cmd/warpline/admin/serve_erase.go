package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/erase"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

type (
	// erased is a deletion, and what it removed of it by now: rows by table, and messages, keys and objects.
	erased struct {
		ID      string            `json:"deletion_id"`
		Tenant  string            `json:"tenant"`
		Session string            `json:"session_id,omitempty"`
		Done    bool              `json:"done"`
		Removed map[string]uint64 `json:"removed"`
		Revoked int               `json:"revoked_keys,omitempty"`
	}
	purgeOrder struct {
		RevokeKeys  bool `json:"revoke_keys"`
		Force       bool `json:"force"`
		WaitSeconds int  `json:"wait_seconds"`
	}
)

// deleteSession deletes a session, and waits for it.
func (c *call) deleteSession() (any, error) {
	of, id := c.vars["tenant"], c.vars["session"]
	if !c.who.sees(of) || tenant.CheckName(of) != nil {
		return nil, NoTenant(of)
	}
	if at, err := c.revision(); err != nil || at != anyRevision {
		return nil, &Denied{http.StatusPreconditionFailed, "changed", "sessions have no ETag: leave If-Match out"}
	}
	force, err := c.truth("force")
	if err != nil {
		return nil, err
	}
	wait := waitDefault
	if text := c.param("wait_seconds"); text != "" {
		if wait, err = strconv.Atoi(text); err != nil {
			wait = -1
		}
	}
	if err := checkWait(wait); err != nil {
		return nil, err
	}
	none := &Denied{http.StatusNotFound, "no_such_session",
		"nothing is known of this session here: ask for sessions in SQL; force=true deletes what may be on its way"}
	if stream.CheckSession(id) != nil {
		return nil, none
	}
	d := stream.Deletion{ID: broker.NewID(), Tenant: of, Session: id}
	keys, err := c.order(&d, func(e erase.Eraser) error {
		have, err := e.Find(c.ctx, of, []string{id})
		if err == nil && have[0].Nothing() && !force {
			err = none
		}
		return err
	}, force, func(order func() error) error {
		return c.api.Desk.DeleteSessions(c.ctx, c.who, of, []string{id}, order)
	})
	if err != nil {
		return nil, err
	}
	return c.erased(&d, keys, wait)
}

// purge deletes all of a tenant, and waits for it.
func (c *call) purge() (any, error) {
	of := c.vars["tenant"]
	if !c.who.sees(of) || tenant.CheckName(of) != nil {
		return nil, NoTenant(of)
	}
	if err := c.who.operate("to purge a tenant"); err != nil {
		return nil, err
	}
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	in := purgeOrder{WaitSeconds: waitDefault}
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	if err := checkWait(in.WaitSeconds); err != nil {
		return nil, err
	}
	if at != anyRevision {
		if _, now, err := c.api.Desk.Tenants.Stored(c.ctx, of); err != nil && !errors.Is(err, ingest.ErrNoTenant) {
			return nil, err
		} else if now != at {
			return nil, changed(ingest.ErrChanged)
		}
	}
	valid, err := c.api.Desk.ValidKeys(c.ctx, c.who, of)
	if err != nil {
		return nil, err
	}
	d := stream.Deletion{ID: broker.NewID(), Tenant: of}
	revoked := 0
	keys, err := c.order(&d, func(e erase.Eraser) error {
		have, err := e.Find(c.ctx, of, []string{""})
		if err == nil && have[0].Nothing() && !in.Force && !(in.RevokeKeys && len(valid) > 0) {
			err = &Denied{http.StatusNotFound, "nothing_stored", "nothing is stored of this tenant: revoke_keys ends its keys, force deletes what " +
				"may be on its way"}
		}
		if err != nil || !in.RevokeKeys {
			return err
		}
		return c.api.Desk.RevokeAll(c.ctx, c.who, valid, func(tenant.Key) { revoked++ })
	}, in.Force, func(order func() error) error { return c.api.Desk.Purge(c.ctx, c.who, of, order) })
	if err != nil {
		return nil, err
	}
	out, err := c.erased(&d, keys, in.WaitSeconds)
	out.Revoked = revoked
	return out, err
}

func checkWait(seconds int) error {
	if seconds < 0 || seconds > waitMost {
		return bad(fmt.Errorf("wait_seconds: use a number from 0 to %d", waitMost))
	}
	return nil
}

// order stores a deletion, in one of the turns, if look finds nothing against it. With force it does so while ClickHouse is away too.
func (c *call) order(d *stream.Deletion, look func(erase.Eraser) error, force bool, record func(order func() error) error) (
	keys []string, err error) {
	end, err := c.enter()
	if err != nil {
		return nil, err
	}
	defer end()
	e := c.eraser()
	if e.Conn, err = c.ask(); err == nil {
		defer e.Conn.Close()
	} else if e.Conn = nil; !force {
		return nil, err
	}
	if err := look(e); err != nil {
		return nil, err
	}
	err = record(func() (err error) {
		keys, err = e.Order(c.ctx, d)
		return err
	})
	return keys, err
}

func (c *call) eraser() erase.Eraser {
	return erase.Eraser{Streams: c.api.Streams, Database: c.api.Database, Schema: c.api.Schema}
}

// erased waits until a deletion is carried out, or so many seconds.
func (c *call) erased(d *stream.Deletion, keys []string, seconds int) (erased, error) {
	wait, cancel := context.WithTimeout(c.ctx, max(time.Duration(seconds)*time.Second, time.Millisecond))
	defer cancel()
	stop := context.AfterFunc(c.r.Context(), cancel) // nobody waits any more
	defer stop()
	got, left, err := c.eraser().Await(wait, keys, nil)
	out := erased{ID: d.ID, Tenant: d.Tenant, Session: d.Session, Done: left == 0, Removed: erase.Sum(got)}
	if left > 0 {
		c.status = http.StatusAccepted
	}
	return out, err
}
