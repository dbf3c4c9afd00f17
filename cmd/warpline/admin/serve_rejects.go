package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warpline/warpline/cmd/warpline/rejects"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
)

// Reject is a reject without its bytes, as lists have it.
type Reject struct {
	ID         string    `json:"reject_id"`
	At         time.Time `json:"at"`
	Tenant     string    `json:"tenant"`
	Session    string    `json:"session_id"`
	Source     string    `json:"source"`
	Stage      string    `json:"stage"`
	Reason     string    `json:"reason"`
	Detail     string    `json:"detail"`
	Type       string    `json:"type"`
	Events     uint64    `json:"events"`
	Bytes      uint64    `json:"bytes"`
	Attempts   uint64    `json:"attempts"`
	ReplayedAt time.Time `json:"replayed_at,omitzero"`
}

type (
	rejectList struct {
		Rejects []Reject `json:"rejects"`
		Next    string   `json:"next,omitempty"`
	}
	replayOrder struct {
		IDs         []string  `json:"reject_ids"`
		Tenant      string    `json:"tenant"`
		Session     string    `json:"session_id"`
		Reason      string    `json:"reason"`
		Type        string    `json:"type"`
		From        time.Time `json:"from"`
		To          time.Time `json:"to"`
		Limit       int       `json:"limit"`
		WaitSeconds int       `json:"wait_seconds"`
	}
	replayOutcome struct {
		Reject
		Taken bool   `json:"taken"`
		Left  bool   `json:"left"`
		Why   string `json:"why,omitempty"`
	}
	replayDone struct {
		Outcomes []replayOutcome `json:"outcomes"`
		More     bool            `json:"more"` // there are others that were picked
	}
)

// Bounds of what is read of rejects at once: each may have 64 KiB of bytes.
const (
	rejectsDefault = 50
	rejectsMost    = 200
	waitDefault    = 30
	waitMost       = 60
)

// own narrows a filter to what is there for who asks.
func (c *call) own(f rejects.Filter) (rejects.Filter, error) {
	if f.Tenant == "" && !c.who.all {
		f.Tenant = c.who.key.Tenant
	}
	if f.Tenant != "" && !c.who.sees(f.Tenant) {
		return f, NoTenant(f.Tenant)
	}
	if err := f.Check(); err != nil {
		return f, bad(err)
	}
	return f, nil
}

// read reads rejects.
func (c *call) read(f rejects.Filter) ([]rejects.Reject, bool, error) {
	conn, err := c.ask()
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	return rejects.Read(c.ctx, conn, c.api.Database, f)
}

func (c *call) listRejects() (any, error) {
	f := rejects.Filter{Tenant: c.param("tenant"), Session: c.param("session_id"), Reason: c.param("reason"), Type: c.param("type")}
	var errs [4]error
	f.From, errs[0] = c.moment("from")
	f.To, errs[1] = c.moment("to")
	f.Limit, errs[2] = c.number("limit", rejectsDefault, rejectsMost)
	f.After, errs[3] = markOf(c.param("after"))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, bad(err)
	}
	f, err := c.own(f)
	if err != nil {
		return nil, err
	}
	all, more, err := c.read(f)
	if err != nil {
		return nil, err
	}
	out := rejectList{Rejects: make([]Reject, len(all))}
	for i := range all {
		out.Rejects[i] = without(&all[i])
	}
	if more {
		last := &all[len(all)-1]
		out.Next = fmt.Sprintf("%d.%s", last.At.UnixNano(), last.ID)
	}
	return out, nil
}

// markOf is where a list goes on, as next says it.
func markOf(text string) (m rejects.Mark, err error) {
	if text == "" {
		return m, nil
	}
	at, id, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || (rejects.Filter{IDs: []string{id}}).Check() != nil {
		return m, errors.New("after: use what next says of the list before")
	}
	return rejects.Mark{At: time.Unix(0, n), ID: id}, nil
}

// without is a reject without its bytes.
func without(r *rejects.Reject) Reject {
	return Reject{r.ID, r.At, r.Tenant, r.Session, r.Source, r.Stage, r.Reason, r.Detail, r.Type, r.Events, r.Bytes, r.Attempts, r.ReplayedAt}
}

func (c *call) showReject() (any, error) {
	none := &Denied{http.StatusNotFound, "no_such_reject", "there is no reject of this id here: ask for the rejects that there are"}
	id := c.vars["id"]
	f, err := c.own(rejects.Filter{IDs: []string{id}, Limit: 1})
	if err != nil || len(id) != stream.RejectIDBytes {
		return nil, none
	}
	all, _, err := c.read(f)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, none
	}
	return all[0], nil
}

// replay sends rejects again, one request of this gateway at a time.
func (c *call) replay() (any, error) {
	in := replayOrder{Limit: rejectsDefault, WaitSeconds: waitDefault}
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	f := rejects.Filter{IDs: in.IDs, Tenant: in.Tenant, Session: in.Session, Reason: in.Reason, Type: in.Type, From: in.From, To: in.To,
		Limit: in.Limit}
	switch {
	case !f.Picks():
		return nil, bad(errors.New("which rejects? name reject_ids, or pick them with tenant, session_id, reason, type or from"))
	case in.Limit < 1 || in.Limit > rejectsMost || len(in.IDs) > rejectsMost:
		return nil, bad(fmt.Errorf("limit, reject_ids: at most %d are sent again at once", rejectsMost))
	case in.WaitSeconds < 0 || in.WaitSeconds > waitMost:
		return nil, bad(fmt.Errorf("wait_seconds: use a number from 0 to %d", waitMost))
	}
	f, err := c.own(f)
	if err != nil {
		return nil, err
	}
	select {
	case c.api.replaying <- struct{}{}:
		defer func() { <-c.api.replaying }()
	default:
		return nil, &ingest.Refusal{Status: http.StatusTooManyRequests, Code: "replay_under_way", RetryAfter: retry,
			Detail: "another replay is under way here: ask again when it is over"}
	}
	conn, err := c.ask()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all, more, err := rejects.Read(c.ctx, conn, c.api.Database, f)
	if err != nil {
		return nil, err
	}
	r := rejects.Replayer{URL: "http://gateway", HTTP: &http.Client{Transport: inside{c.api.Gateway}}, Keys: c.api.Desk.Keys, Conn: conn,
		Database: c.api.Database, Wait: time.Duration(in.WaitSeconds) * time.Second}
	var outcomes []rejects.Outcome
	err = c.api.Desk.Replay(c.ctx, c.who, f.Tenant, len(all), func() error {
		outcomes, err = r.Replay(c.ctx, all)
		return err
	})
	if denied := (*Denied)(nil); errors.As(err, &denied) {
		return nil, denied
	}
	if err != nil {
		return nil, &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "replay_broken_off", RetryAfter: retry, Cause: err,
			Detail: "not all were sent again: ask for the same again, what was taken does not count twice"}
	}
	done := replayDone{Outcomes: make([]replayOutcome, len(outcomes)), More: more}
	for i := range outcomes {
		o := &outcomes[i]
		done.Outcomes[i] = replayOutcome{without(&o.Reject), o.Taken, o.Left, o.Why}
	}
	return done, nil
}
