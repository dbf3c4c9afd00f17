package admin

import (
	"net/http"

	"github.com/warpline/warpline/proto/tenant"
)

type (
	retainOrder struct {
		Class  string `json:"class"`
		DryRun bool   `json:"dry_run"`
	}
	// retained is a request, or what it would change.
	retained struct {
		Request *Retention `json:"request,omitempty"`
		Would   []Kept     `json:"would_change,omitempty"`
	}
)

func (c *call) showRetention() (any, error) {
	r, err := c.api.Desk.Retained(c.ctx, c.who, c.api.Streams, c.vars["tenant"])
	c.at(r.Revision)
	return r, err
}

func (c *call) retain() (any, error) {
	of := c.vars["tenant"]
	if !c.who.sees(of) || tenant.CheckName(of) != nil {
		return nil, NoTenant(of)
	}
	if err := c.who.operate("to give rows another retention class"); err != nil {
		return nil, err
	}
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	var in retainOrder
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	if !in.DryRun {
		r, err := c.api.Desk.Retain(c.ctx, c.who, c.api.Streams, of, in.Class, at)
		if err != nil {
			return nil, err
		}
		if c.at(r.Revision); !r.Done {
			c.status = http.StatusAccepted
		}
		return retained{Request: &r}, nil
	}
	class, err := c.api.Desk.ClassOf(c.ctx, in.Class)
	if err != nil {
		return nil, err
	}
	conn, err := c.ask()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all, err := Retainable(c.ctx, conn, c.api.Database, c.api.Schema, of, class)
	return retained{Would: all}, err
}
