package doctor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/cmd/warpline/doctor"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// Every check finds what is broken on purpose, says what to do, and finds nothing before.
func TestExamine(t *testing.T) {
	s := tabletest.New(t, true)
	streams := brokertest.Start(t, broker.Layout{})
	clock := time.Duration(0)
	free := uint64(50 << 30)
	status := http.StatusNotFound // of a server that stands for what others can reach
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer public.Close()
	name := strings.Replace(public.URL, "127.0.0.1", "0.0.0.0", 1) // an address that is not loopback, and leads here
	p := doctor.Patient{
		Streams: streams, Conn: s.Conn, Database: s.Opts.Database, Schema: s.Schema, HTTP: s.Engine.HTTPAddr(), Dir: t.TempDir(),
		Gateway: name, Classes: tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "short", Raw: 1, Rollup: 30}},
		NATSSync: doctor.SyncAlways, Now: func() time.Time { return time.Now().Add(clock) },
		FreeBytes: func(string) (uint64, error) { return free, nil },
	}
	wrong := func() map[string]doctor.Finding {
		t.Helper()
		out := map[string]doctor.Finding{}
		for _, f := range p.Examine(t.Context()) {
			if f.OK != (f.Fix == "") || f.Found == "" {
				t.Errorf("%+v", f)
			}
			if !f.OK {
				out[f.Check] = f
			}
		}
		return out
	}
	if found := wrong(); len(found) > 0 {
		t.Fatalf("of a healthy service: %+v", found)
	}
	old := time.Now().Add(-90 * 24 * time.Hour)
	for _, c := range []struct {
		check, says string
		harm        func()
		heal        func()
	}{
		{"clocks", "NTP", func() { clock = 5 * time.Second }, func() { clock = 0 }},
		{"clocks", "NTP", func() { clock = -time.Hour }, func() { clock = 0 }},
		{"disk", "make room", func() { free = 1 << 30 }, func() { free = 50 << 30 }},
		{"keys-expiring", "key rotate", func() {
			p.Keys = []tenant.Key{{ID: "ends", Tenant: "acme", Created: old, Expires: time.Now().Add(time.Hour)}}
		}, func() { p.Keys = nil }},
		{"retention-classes", "no gateway has class gone of tenant acme: give it", func() {
			p.Tenants = []tenant.Record{{Name: "acme", Limits: tenant.Limits{RetentionClass: "gone", RetentionDays: 7, RollupDays: 395}},
				{Name: "globex", Limits: tenant.Limits{RetentionClass: "short", RetentionDays: 99, RollupDays: 999}}}
		}, func() { p.Tenants = nil }},
		{"retention-classes", "at most 8 pairs of days", func() {
			for i := range 7 {
				p.Keys = append(p.Keys, tenant.Key{ID: "own", Tenant: "acme", Limits: tenant.Limits{RetentionDays: uint16(10 + i)}},
					tenant.Key{ID: "as default", Tenant: "acme", Limits: tenant.Limits{RetentionDays: 7}})
			}
		}, func() { p.Keys = nil }},
		{"retention-classes", "start a gateway", func() { p.Classes = nil }, func() { p.Classes = tenant.Classes{{Raw: 7, Rollup: 395}} }},
		{"retention-classes", "the old ones go", func() {
			for days := range 9 {
				s.Exec(fmt.Sprintf("INSERT INTO {db}.usage_data (tenant, day, received_day, retention_days) VALUES ('acme', today(), today(), %d)",
					100+days))
			}
		}, func() { s.Exec("TRUNCATE TABLE {db}.usage_data") }},
		{"schema", "start a sink", func() { s.Exec("ALTER TABLE {db}.rejects_data DROP COLUMN stage") },
			func() { s.Exec("ALTER TABLE {db}.rejects_data ADD COLUMN stage LowCardinality(String)") }},
		{"schema", "start a sink", func() { s.Exec("RENAME TABLE {db}.insights TO {db}.hidden") },
			func() { s.Exec("RENAME TABLE {db}.hidden TO {db}.insights") }},
		{"public-metrics", "--metrics-listen", func() { status = http.StatusOK }, func() { status = http.StatusNotFound }},
		{"open-sql", "a password", func() {
			status, p.HTTP, p.Gateway = http.StatusOK, strings.TrimPrefix(name, "http://"), "http://127.0.0.1:1"
		}, func() { status, p.HTTP, p.Gateway = http.StatusNotFound, s.Engine.HTTPAddr(), name }},
		{"dedup-window", "MODIFY SETTING", func() {
			s.Exec("ALTER TABLE {db}.kernels_data MODIFY SETTING non_replicated_deduplication_window = 100")
		}, func() {
			s.Exec("ALTER TABLE {db}.kernels_data MODIFY SETTING non_replicated_deduplication_window = 10000")
		}},
		{"stores", "--bucket-max", func() { fill(t, streams, "KV_"+stream.MarksBucket, "$KV."+stream.MarksBucket+".fill.%d", 9) }, func() {
			of, err := streams.JS.Stream(t.Context(), "KV_"+stream.MarksBucket)
			if err == nil {
				err = of.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+stream.MarksBucket+".fill.*"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"replay-window", "a quarter of ROWS", func() {
			cut := broker.NewWindows(streams.Marks, stream.RowsStream, 24*time.Hour, "sink", nil)
			if err := cut.Cut(t.Context(), 1, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := streams.Marks.Purge(t.Context(), "window.ROWS.1"); err != nil {
				t.Fatal(err)
			}
		}},
		{"replay-window", "--ingest-max", func() {
			fill(t, streams, stream.IngestStream, stream.IngestSubject(0, "acme", stream.SessionToken("s")), 6)
		}, nil},
	} {
		c.harm()
		found := wrong()
		if f, ok := found[c.check]; !ok || !strings.Contains(f.Fix, c.says) || len(found) > 1 {
			t.Errorf("%s: found %+v", c.check, found)
		}
		if c.heal != nil {
			c.heal()
		}
	}
	// A key that was rotated has its successor.
	p.Keys = []tenant.Key{{ID: "ends", Tenant: "acme", Created: old, Expires: time.Now().Add(time.Hour)}, {ID: "next", Tenant: "acme",
		Created: time.Now()}}
	if f, ok := wrong()["keys-expiring"]; ok {
		t.Errorf("%+v", f)
	}
}

// fill fills so many tenths of a stream.
func fill(t *testing.T, s *broker.Streams, name, subject string, tenths int) {
	t.Helper()
	of, err := s.JS.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	const message = 64 << 10
	cfg := of.CachedInfo().Config
	cfg.MaxBytes = 20 * message
	if _, err := s.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * tenths {
		msg := &nats.Msg{Subject: strings.Replace(subject, "%d", strconv.Itoa(i), 1), Data: make([]byte, message)}
		if _, err := s.JS.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
}
