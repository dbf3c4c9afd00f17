package service_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// A sink of a ClickHouse server closes the users of a tenant that somebody disables, by whatever way, and opens them when it is enabled.
func TestSinkClosesUsers(t *testing.T) {
	e := webEngine(t)
	streams, nats := openNATS(t)
	on := service.ClickHouse{Native: e.TCPAddr(), HTTP: e.HTTPAddr(), User: e.User(), Password: e.Password(), Database: "warpline"}
	conn, err := on.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range []string{"CREATE DATABASE IF NOT EXISTS warpline", "CREATE TABLE warpline." + tenantsql.ClosedTable +
		" (tenant String, closed UInt8, at DateTime64(9, 'UTC')) ENGINE = MergeTree ORDER BY (tenant, at)"} {
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	a := service.Apart{NATS: service.NATS{URL: nats}, Layout: smallLayout(), DrainTimeout: 20 * time.Second,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Sources: service.Sources{Schema: tabletest.Schema()}}
	go func() {
		ended <- a.RunSink(ctx, context.Background(), service.SinkConfig{ClickHouse: on, Interval: time.Second})
	}()
	tenants := ingest.NewTenants(streams.Keys)
	if _, err := tenants.Create(t.Context(), "acme", "", tenant.Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{true, false, true} {
		if _, err := tenants.Change(t.Context(), "acme", func(r *tenant.Record) {
			if r.Disabled = (time.Time{}); off {
				r.Disabled = time.Now().UTC()
			}
		}); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			closed, _, err := tenantsql.Closed(t.Context(), conn, "warpline")
			if err == nil && closed["acme"] == off {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("disabled %v: closed %v, %v", off, closed, err)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the sink: %v", err)
	}
}
