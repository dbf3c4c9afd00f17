package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/ingest"
	gpuflightdoor "github.com/warpline/warpline/ingest/gpuflight"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// devKey is a key of scope ingest, of tenant dev.
const devKey = "dev-key-for-tests"

// rig is an admin API beside a gateway, on a real NATS server and, with rows, a real ClickHouse.
type rig struct {
	t       *testing.T
	streams *broker.Streams
	desk    *admin.Desk
	gateway *ingest.Gateway
	server  *httptest.Server
	rows    *tabletest.Store // nil: there is no ClickHouse
	secrets map[string]string
	ids     map[string]string
	warned  chan error
	before  int // words of the log that start wrote
	told    told
}

// told is what the API told its log.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) has(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), words)
}

// start makes tenants acme and globex, each with a key of each scope, and an operator's key.
func start(t *testing.T, rows *tabletest.Store) *rig {
	t.Helper()
	r := &rig{t: t, streams: brokertest.Start(t, broker.Layout{}), rows: rows,
		secrets: map[string]string{"dev": devKey}, ids: map[string]string{}, warned: make(chan error, 100)}
	keys := ingest.NewKeys(r.streams.Keys)
	r.desk = admin.NewDesk(keys, tenant.Limits{Names: 1000})
	r.desk.Log = admin.NewLog(r.streams.JS, r.streams.Partitions)
	r.desk.Warn = func(err error) { r.warned <- err }
	classes, err := tenant.ParseClasses([]string{"short=1d/30d"}, tenant.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if r.gateway, err = ingest.New(r.streams, ingest.Config{SpoolDir: t.TempDir(), DevKey: devKey, Classes: classes,
		Sources: []ingest.Source{gpuflightdoor.Source()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.gateway.Close)
	cfg := admin.Config{Desk: r.desk, Version: "test", Gateway: r.gateway.Handler(), Ready: r.gateway.Ready,
		Stores: r.streams.Full, TenantRate: 1000,
		Authorize: r.authorize, Streams: r.streams, Schema: tabletest.Schema(),
		Logger: slog.New(slog.NewTextHandler(&r.told, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if rows != nil {
		cfg.Database = rows.Opts.Database
		open := func() driver.Conn {
			conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{rows.Engine.TCPAddr()},
				Auth: clickhouse.Auth{Database: rows.Opts.Database, Username: rows.Engine.User(), Password: rows.Engine.Password()}})
			if err != nil {
				t.Error(err)
			}
			return conn
		}
		cfg.Open = func(context.Context) (driver.Conn, error) { return open(), nil }
		cfg.Repair = func(context.Context) (sink.Replayer, error) {
			return sink.Replayer{Streams: r.streams, Conn: open(), URL: "http://" + rows.Engine.HTTPAddr(), User: rows.Engine.User(),
				Password: rows.Engine.Password(), Schema: cfg.Schema, Database: cfg.Database}, nil
		}
	}
	cfg.Shares = r.gateway.Shares
	cfg.Windows = func(ctx context.Context) ([]broker.Window, error) { return broker.ReadWindows(ctx, r.streams.Marks) }
	r.server = httptest.NewServer(admin.NewAPI(cfg))
	t.Cleanup(r.server.Close)
	for _, of := range []string{"acme", "globex"} {
		if _, err := r.desk.Create(t.Context(), admin.CLI(), of, "note of "+of, tenant.Limits{EventsPerSecond: 1000}); err != nil {
			t.Fatal(err)
		}
		for _, scope := range []tenant.Scope{tenant.ScopeIngest, tenant.ScopeRead, tenant.ScopeAdmin} {
			r.make(of+" "+scope.String(), tenant.Key{Tenant: of, Scope: scope})
		}
	}
	r.make("operator", tenant.Key{Scope: tenant.ScopeOperator})
	begun, _ := r.words()
	r.before = len(begun)
	r.await(func() bool {
		_, err := ingest.ReadClasses(t.Context(), r.streams.Keys)
		return err == nil && r.gateway.Ready() == nil
	})
	return r
}

func (r *rig) authorize(ctx context.Context, secret string) (tenant.Key, *ingest.Refusal) {
	return r.gateway.Authorize(ctx, secret, tenant.ScopeAdmin, "")
}

func (r *rig) make(who string, like tenant.Key) {
	r.t.Helper()
	secret, made, err := r.desk.MakeKey(r.t.Context(), admin.CLI(), like)
	if err != nil {
		r.t.Fatal(err)
	}
	r.secrets[who], r.ids[who] = secret, made.ID
}

// await waits until something is so.
func (r *rig) await(so func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("it never came to be so")
		}
	}
}

// answer is what the API said.
type answer struct {
	status int
	header http.Header
	raw    string
	fields map[string]any
}

// code is that of a problem.
func (a answer) code() string { return a.text("error") }

func (a answer) text(name string) string { s, _ := a.fields[name].(string); return s }

// list is a field that is a list of objects.
func (a answer) list(name string) (out []map[string]any) {
	all, _ := a.fields[name].([]any)
	for _, one := range all {
		m, _ := one.(map[string]any)
		out = append(out, m)
	}
	return out
}

// ask sends a request as somebody; {acme read} in path and body is the id of that key.
func (r *rig) ask(who, method, path, body string, headers ...string) answer {
	r.t.Helper()
	for name, id := range r.ids {
		path, body = strings.ReplaceAll(path, "{"+name+"}", id), strings.ReplaceAll(body, "{"+name+"}", id)
	}
	req, err := http.NewRequest(method, r.server.URL+admin.Path+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if who != "" {
		secret, ok := r.secrets[who]
		if !ok {
			secret = who
		}
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, raw: fmt.Sprintf("%d %s", res.StatusCode, text)}
	if len(text) > 0 && json.Unmarshal(text, &a.fields) != nil {
		r.t.Fatalf("%s %s: no JSON: %s", method, path, a.raw)
	}
	return a
}

// want asks, and fails the test where the status is another.
func (r *rig) want(status int, who, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := r.ask(who, method, path, body, headers...)
	if a.status != status {
		r.t.Errorf("%s: %s %s %s: %s, want %d", who, method, path, body, a.raw, status)
	}
	return a
}
