package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

type windowCmd struct {
	Accept windowAcceptCmd `cmd:"" help:"Accept the other bytes that a window came with again (409 window_identity_conflict)."`
}

type windowAcceptCmd struct {
	reachFlags
	Tenant  string `arg:"" help:"Tenant of the window."`
	Session string `arg:"" help:"Session id."`
	Window  string `arg:"" help:"Window id, as the alert shows it."`
}

func (c *windowAcceptCmd) check(*program) error {
	if c.Session == "" || c.Window == "" {
		return errors.New("session and window cannot be empty: copy them from the alert")
	}
	return tenant.CheckName(c.Tenant)
}

// Run lets the next upload of the window in; what was stored of the first one stays.
func (c *windowAcceptCmd) Run(ctx context.Context, p *program) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	streams, err := conn.Streams(ctx)
	if err != nil {
		return err
	}
	if err := ingest.AcceptConflict(ctx, streams, c.Tenant, c.Session, c.Window); err != nil {
		return fmt.Errorf("accept window %s: %w", c.Window, err)
	}
	fmt.Fprintf(p.Stderr, "window %s: the next upload is accepted; the agent retries by itself\n", c.Window)
	return nil
}
