package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warpline/warpline/cmd/warpline/rejects"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// What goes and comes of drops has the names of fields that replays of rejects have.
type (
	dropOrder struct {
		IDs     []string  `json:"reject_ids"`
		Tenant  string    `json:"tenant"`
		Session string    `json:"session_id"`
		Reason  string    `json:"reason"`
		Type    string    `json:"type"`
		From    time.Time `json:"from"`
		To      time.Time `json:"to"`
		DryRun  bool      `json:"dry_run"`
	}
	dropDone struct {
		Picked  []rejects.Picked `json:"picked"`  // by tenant
		Dropped uint64           `json:"dropped"` // 0 after a dry run
	}
)

// finishTime is how long a drop that was cut short may take to its end.
const finishTime = 5 * time.Minute

// dropRejects drops rejects. A client that goes away ends the counting; once it is noted what is dropped, that is done to its end.
func (c *call) dropRejects() (any, error) {
	var in dropOrder
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	f := rejects.Filter{IDs: in.IDs, Tenant: in.Tenant, Session: in.Session, Reason: in.Reason, Type: in.Type, From: in.From, To: in.To}
	switch {
	case !f.Picks() && f.To.IsZero():
		return nil, bad(errors.New("which rejects? name reject_ids, or pick them with tenant, session_id, reason, type, from or to"))
	case len(in.IDs) > rejectsMost:
		return nil, bad(fmt.Errorf("reject_ids: at most %d are dropped at once", rejectsMost))
	}
	f, err := c.own(f)
	if err != nil {
		return nil, err
	}
	where, err := f.Literal()
	if err != nil {
		return nil, err
	}
	out := dropDone{Picked: []rejects.Picked{}}
	err = c.work(Repair, func(ctx context.Context) error {
		r, err := c.repair()
		if err != nil {
			return err
		}
		defer r.Conn.Close()
		d := sink.Dropper{Streams: c.api.Streams, Conn: r.Conn}
		if !in.DryRun { // what an earlier one took is gone, and not yet said
			if _, err := d.Finish(ctx); err != nil {
				return err
			}
		}
		picked, err := rejects.Count(ctx, c.api.Streams, r.Conn, f)
		if amb := (rejects.Ambiguous{}); errors.As(err, &amb) {
			return bad(amb)
		}
		if err != nil || len(picked) == 0 {
			return err
		}
		out.Picked = picked
		if in.DryRun {
			return nil
		}
		rows := uint64(0)
		for _, p := range picked {
			rows += p.Rows
		}
		return c.api.Desk.Drop(ctx, c.who, f.Tenant, rows, func() (err error) {
			if out.Dropped, err = d.Drop(ctx, table.Rejects.Table, where); err == nil {
				return nil
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
			defer cancel()
			was, late := d.Finish(last)
			switch {
			case late != nil:
				return errors.Join(err, late)
			case !was && out.Dropped == 0: // it was not noted what to drop
				return &Denied{http.StatusServiceUnavailable, "not_dropped", "nothing was dropped: ask again: " + err.Error()}
			}
			out.Dropped = cmp.Or(out.Dropped, rows)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
