package doctor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/cmd/warpline/doctor"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// monitored starts a real NATS server with a monitoring address, and returns that.
func monitored(t *testing.T, opts server.Options) string {
	t.Helper()
	opts.JetStream, opts.StoreDir, opts.NoSigs, opts.DontListen = true, t.TempDir(), true, true
	opts.HTTPHost, opts.HTTPPort = "127.0.0.1", server.RANDOM_PORT
	srv, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if a := srv.MonitorAddr(); a != nil && srv.JetStreamEnabled() {
			return "http://" + a.String()
		}
		if time.Now().After(deadline) {
			t.Fatal("NATS does not start")
		}
	}
}

// What a power cut may take of what NATS has acknowledged is found where that can be known, and a NATS that cannot be known and has one
// copy is not taken for a good one.
func TestNATSSync(t *testing.T) {
	s := tabletest.New(t, true)
	streams := brokertest.Start(t, broker.Layout{})
	always, often, seldom := monitored(t, server.Options{SyncAlways: true}), monitored(t, server.Options{SyncInterval: 5 * time.Second}),
		monitored(t, server.Options{})
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"x":%q}`, strings.Repeat("x", 2<<20))
	}))
	defer huge.Close()
	for _, c := range []struct {
		what, embedded, monitor string
		ok                      bool
		found, fix              string
	}{
		{"up --durability fsync", doctor.SyncAlways, "", true, "before it acknowledges", ""},
		{"up --durability os", (broker.ServerConfig{}).Sync(), "", true, "a power cut takes what was accepted since", ""},
		{"up that syncs seldom", "2m0s", "", false, "every 2m0s", "--durability fsync"},
		{"a data folder with nonsense", "often", "", false, "cannot tell", "again"},
		{"a server that tells nothing", "", "", false, "one copy", "sync_interval: always"},
		{"a server that syncs always", "", always, true, "before it acknowledges", ""},
		{"a server that syncs often", "", often, true, "every 5s: a power cut takes", ""},
		{"a server as it comes", "", seldom, false, "every 2m0s, and has one copy", "sync_interval: always"},
		{"its address with a slash", "", seldom + "/", false, "every 2m0s", "--replicas 3"},
		{"an address where nobody is", "", "http://127.0.0.1:1", false, "cannot tell", "again"},
		{"another server's address", "", "http://" + s.Engine.HTTPAddr(), false, "cannot tell", "again"},
		{"an address that answers much", "", huge.URL, false, "cannot tell", "again"},
	} {
		p := &doctor.Patient{Streams: streams, Conn: s.Conn, Database: s.Opts.Database, Schema: s.Schema, NATSSync: c.embedded,
			Monitor: c.monitor}
		if f := only(t, p, "nats-sync"); f.OK != c.ok || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Fix, c.fix) {
			t.Errorf("%s: %+v", c.what, f)
		}
	}
}
