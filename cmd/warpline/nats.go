package main

import (
	"context"
	"fmt"

	"github.com/warpline/warpline/broker"
)

// natsCmd runs the embedded NATS server as a process of its own, so that it can be killed alone.
type natsCmd struct {
	Data     string `required:"" placeholder:"DIR" help:"Folder for JetStream's files."`
	Listen   string `default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Where clients connect, loopback only: it has no users."`
	Fsync    bool   `help:"Wait for the disk before every acknowledgement."`
	StoreMax size   `default:"0" help:"Most that it may write; 0 for 75 % of the free space."`
}

func (c *natsCmd) check(p *program) error {
	if err := checkAddr(p.Settings, "listen", c.Listen); err != nil {
		return err
	}
	if !loopback(c.Listen) {
		return fmt.Errorf("%s: %q: this NATS has no users: listen on 127.0.0.1", p.Settings.name("listen"), c.Listen)
	}
	return nil
}

// Run serves until a signal.
func (c *natsCmd) Run(ctx context.Context, p *program) error {
	srv, err := broker.Supervise(broker.ServerConfig{Dir: c.Data, Listen: c.Listen, MaxStoreBytes: int64(c.StoreMax), Fsync: c.Fsync,
		Logger: p.Log})
	if err != nil {
		return err
	}
	p.Log.Info("ready", "addr", srv.Addr().String(), "role", "nats")
	<-ctx.Done()
	srv.Stop()
	return nil
}
