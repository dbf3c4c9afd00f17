package ingest_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
)

// One address floods a gateway with connections that say nothing, or never end their header. Another one's idle connection, older than all
// of them, stays; so does the one whose request is being answered; newcomers are let in.
func TestTooManyConnectionsEndTheFloodsOwn(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	reg := prometheus.NewRegistry()
	g, err := ingest.New(s, ingest.Config{Listen: "127.0.0.1:0", SpoolDir: t.TempDir(), DevKey: devKey, Registerer: reg, MaxConnections: 40,
		Sources: sources()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	defer func() { cancel(); <-done }()
	waitReady(t, g)
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{Timeout: 60 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", g.Addr())
		if err != nil {
			t.Skipf("this machine has no loopback address %s: %v", from, err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ask := func(c net.Conn) error {
		c.SetDeadline(time.Now().Add(60 * time.Second))
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	quiet, uploading := dial("127.0.0.2"), dial("127.0.0.1")
	if err := ask(quiet); err != nil {
		t.Fatal(err)
	}
	body := `{"type":"job_start","session_id":"s","app":"a","ts_ns":1795175929972476039}`
	uploading.Write([]byte("POST /api/v1/events/job_start HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + devKey +
		"\r\nContent-Length: 75\r\n\r\n" + body[:10]))
	time.Sleep(200 * time.Millisecond) // its header is read
	for i := range 300 {
		c := dial("127.0.0.1")
		if i%2 == 0 {
			c.Write([]byte("GET /healthz HTTP/1.1\r\nHost"))
		}
	}
	if err := ask(dial("127.0.0.3")); err != nil {
		t.Errorf("a newcomer: %v", err)
	}
	if err := ask(quiet); err != nil {
		t.Errorf("the idle connection of another address: %v", err)
	}
	uploading.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := uploading.Write([]byte(body[10:])); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(uploading), nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the upload that was under way: %+v, %v", resp, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]float64{}
	for _, f := range families {
		if m := f.GetMetric()[0]; m.GetGauge() != nil {
			have[f.GetName()] = m.GetGauge().GetValue()
		} else if m.GetCounter() != nil {
			have[f.GetName()] = m.GetCounter().GetValue()
		}
	}
	if n := have["warpline_gateway_connections"]; n > 40 || n < 20 {
		t.Errorf("%v connections are open, at most 40 may be", n)
	}
	if have["warpline_gateway_connections_closed_total"] < 200 || have["warpline_gateway_connections_max"] != 40 {
		t.Errorf("%v were ended, the bound is %v", have["warpline_gateway_connections_closed_total"],
			have["warpline_gateway_connections_max"])
	}
}
