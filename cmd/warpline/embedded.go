package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/sink/engine"
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

// engineCmd runs the embedded ClickHouse as a process of its own, so that it can be killed alone.
type engineCmd struct {
	Data               string `required:"" placeholder:"DIR" help:"The engine's folder."`
	ClickHouseHTTPPort int    `name:"clickhouse-http-port" default:"8123" placeholder:"N" help:"HTTP port on 127.0.0.1; 0 for any free one."`
	ClickHouseTCPPort  int    `name:"clickhouse-tcp-port" default:"9000" placeholder:"N" help:"Native port on 127.0.0.1; 0 for any free one."`
	ClickHouseMemory   size   `name:"clickhouse-memory" default:"2GiB" help:"Most memory that it may take."`
}

func (c *engineCmd) check(p *program) error {
	return errors.Join(checkPort(p.Settings, "clickhouse-http-port", c.ClickHouseHTTPPort),
		checkPort(p.Settings, "clickhouse-tcp-port", c.ClickHouseTCPPort))
}

// Run serves until a signal, the end of stdin, or the engine's own end, which is an error.
func (c *engineCmd) Run(ctx context.Context, p *program) error {
	e, err := engine.Start(ctx, engine.Config{
		Dir: c.Data, HTTPPort: c.ClickHouseHTTPPort, TCPPort: c.ClickHouseTCPPort, MemoryLimitBytes: int64(c.ClickHouseMemory),
		Progress: p.Stderr, Logger: p.Log,
	})
	if err != nil {
		return err
	}
	// The passwords stay in the engine's folder, for this user alone.
	p.Log.Info("ready", "addr", e.TCPAddr(), "http", e.HTTPAddr(), "user", e.User(), "password_file",
		filepath.Join(e.Dir(), engine.WriterSecret),
		"reader_password_file", filepath.Join(e.Dir(), engine.ReaderSecret), "pid", e.Pid(), "role", "engine")
	closed := make(chan struct{})
	go func() { io.Copy(io.Discard, p.Stdin); close(closed) }()
	select {
	case <-ctx.Done():
	case <-closed:
	case <-e.Done():
		if err := e.Err(); err != nil {
			return err
		}
		return errors.New("the engine ended by itself: see its logs folder")
	}
	stop, cancel := context.WithTimeout(p.Hard, 15*time.Second)
	defer cancel()
	return e.Stop(stop)
}
