package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// alertsPart is the number of the first part that an upload's alerts are; later ones count down. Those of its records count from 0, its
// summary is -1.
const alertsPart = -2

// withAlerts says that the document has alerts beside its events; open gives them once the events are read. Alerts do not name a session or
// a device. Theirs are those of the events: a tracker's file has one of each.
func (t *sorter) withAlerts(open func() *telemetry.Alerts) {
	t.alerts, t.owner = open, &alertOwner{}
}

// alertOwner is the session, rank and device that the events of a document have in common.
type alertOwner struct {
	telemetry.AlertOwner
	seen, mixed bool
}

func (o *alertOwner) saw(e *telemetry.Event) {
	if !o.seen {
		o.seen = true
		o.AlertOwner = telemetry.AlertOwner{Host: clipText(string(e.Host), maxMessageBytes),
			JobID: clipText(string(e.JobID), maxMessageBytes),
			Rank:  e.Rank, DeviceID: e.DeviceID}
	}
	o.mixed = o.mixed || o.Rank != e.Rank || o.DeviceID != e.DeviceID
}

// sendAlerts publishes the alerts. Like a summary they are not events: they are not in any sum, but they are charged like events. What is
// not an alert is refused as a record is.
func (t *sorter) sendAlerts(ctx context.Context) error {
	if t.alerts == nil {
		return nil
	}
	whose := ""
	if len(t.order) != 1 || t.owner.mixed {
		whose = fmt.Sprintf("nothing says what the alert is of: the document's events are of %d sessions", len(t.order))
		if len(t.order) == 1 {
			whose = "nothing says what the alert is of: the document's events are of several ranks or devices"
		}
	}
	head, err := json.Marshal(t.owner.AlertOwner)
	if err != nil {
		return fmt.Errorf("encode what alerts are of: %w", err)
	}
	e := t.p.Envelope
	e.Kind, e.Part = stream.KindAlerts, alertsPart
	records := int(t.Accepted + t.Rejected)
	body := append(append(t.body[:0], head...), '\n')
	start := len(body)
	publish := func() error {
		t.body = body
		if len(body) == start {
			return nil
		}
		e.Session = t.order[0].session
		err := t.p.Send(ctx, &e, body)
		e.Part--
		body = body[:start]
		return err
	}
	for in := t.alerts(); ; {
		r, a, err := in.Next()
		if err == io.EOF {
			return publish()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		r.Index += records
		switch {
		case r.Refusal != nil:
			err = t.refuse(ctx, r, string(r.Refusal.Code), r.Refusal.Field, r.Refusal.Message)
		case whose != "":
			err = t.refuse(ctx, r, string(telemetry.BadAlert), "", whose)
		default:
			t.frame = telemetry.AppendAlert(t.frame[:0], a)
			if len(body)+len(t.frame) > stream.PartBytes {
				err = publish()
			}
			body = append(body, t.frame...)
			t.alerted++
		}
		if err != nil {
			return err
		}
	}
}
