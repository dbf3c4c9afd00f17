package service

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// GatewayConfig is what a gateway needs that runs alone. Fields without a comment are as in Config.
type GatewayConfig struct {
	Listen, PathPrefix       string
	UIURL                    string // where people see sessions, "" is nowhere
	GRPCListen, GRPCClientCA string
	TLSCert, TLSKey          string
	TLSClientCA              string
	DevKey                   string
	Limits                   tenant.Limits
	Classes                  tenant.Classes
	// SpoolDir is the folder for bodies that are being received; "" is one below the system's temporary folder, which is removed at the
	// end.
	SpoolDir string
	// SpoolMax is the most that they may take together, in bytes.
	SpoolMax int64
	Tenants  TenantFile
	// MetricsListen is where /metrics, /healthz and /readyz are beside Listen, as host:port; "" for nowhere.
	MetricsListen string
	// AdminListen is where the admin API is, as host:port; "" for nowhere. It reads usage and rejects from ClickHouse, if that has a Native
	// address.
	AdminListen string
	ClickHouse  ClickHouse
	// MetricsTenants is how many tenants have series of their own there.
	MetricsTenants int
}

// RunGateway serves until ctx ends, then lets requests under way finish; hard ends the waiting for them.
func (a Apart) RunGateway(ctx, hard context.Context, c GatewayConfig) error {
	if c.SpoolDir == "" {
		dir, err := os.MkdirTemp("", "warpline-spool-")
		if err != nil {
			return fmt.Errorf("spool folder: %w: name one with --spool-dir, or a folder for temporary files with TMPDIR", err)
		}
		defer os.RemoveAll(dir)
		c.SpoolDir = dir
	}
	ShareProcessors()
	streams, closeNATS, err := a.open(ctx, "gateway")
	if err != nil {
		return err
	}
	defer closeNATS()
	nc, js, err := a.connect(ctx, "gateway, uploads")
	if err != nil {
		return err
	}
	defer nc.Close()
	large, err := streams.Over(ctx, nc, js)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("open the streams: %w", err)
	}
	reg := newRegistry()
	w := newWatcher(a.Log, reg)
	var g *ingest.Gateway
	var desk http.Handler
	if c.AdminListen != "" {
		desk = administration{gateway: func() *ingest.Gateway { return g }, streams: streams, reads: c.ClickHouse, writes: c.ClickHouse,
			schema: a.Sources.Schema, defaults: c.Limits,
			version: a.Version, log: a.Log, reg: reg}.api()
	}
	g, err = ingest.New(streams, ingest.Config{
		Listen: c.Listen, GRPCListen: c.GRPCListen, GRPCClientCA: c.GRPCClientCA, TLSClientCA: c.TLSClientCA,
		TLSCert: c.TLSCert, TLSKey: c.TLSKey, PathPrefix: c.PathPrefix, UIURL: c.UIURL, SpoolDir: c.SpoolDir, SpoolMaxBytes: c.SpoolMax,
		Defaults: c.Limits, Classes: c.Classes, MinFreeDiskBytes: minFreeDisk, DevKey: c.DevKey, Version: a.Version, Sources: a.Sources.Doors,
		Logger: a.Log, Registerer: reg, Ready: w.blocked, HideMetrics: public(c.Listen), MetricsTenants: c.MetricsTenants,
		Admin: desk, AdminListen: c.AdminListen, Large: large, Processors: Processors(),
	})
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	metrics, err := serveMetrics(hard, c.MetricsListen, reg, g.Ready)
	if err != nil {
		g.Close()
		return err
	}
	watch, unwatch := context.WithCancel(ctx)
	kept, err := keepTenants(watch, c.Tenants, newDesk(streams, c.Limits, a.Log), a.Log, reg)
	if err != nil {
		unwatch()
		g.Close()
		return err
	}
	defer kept()
	defer unwatch()
	flow := newFlow(streams)
	defer a.keep(streams, reg, w, apartTroubles(streams, func(ctx context.Context, t map[string]string) {
		flow.look(ctx, t)
		streamsFull(ctx, t, streams)
		gatewayTakesNothing(ctx, t, g)
	}))()
	if err := awaitGateway(ctx, g, nil, a.Log, aWhile); err != nil {
		g.Close()
		return err
	}
	a.Log.Info("ready", "addr", g.Addr(), "grpc", g.GRPCAddr(), "metrics", metrics, "admin", g.AdminAddr(), "role", "gateway")
	return a.serve(ctx, hard, "gateway", g.Run)
}
