package service_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

const secretOfWeb = "a-secret-of-the-tests-that-is-long-enough"

// webEngine is an engine with the user as which a web role asks for tenant acme, whose database has a view.
func webEngine(t *testing.T) *engine.Engine {
	t.Helper()
	enginetest.Need(t)
	sum := sha256.Sum256([]byte(tenantsql.WebPassword(secretOfWeb, "acme")))
	cfg := engine.Config{Dir: t.TempDir(), Progress: os.Stderr}
	cfg.Extra.Users = fmt.Sprintf("<%s><password_sha256_hex>%s</password_sha256_hex><networks><ip>127.0.0.1</ip></networks><profile>default"+
		"</profile><quota>default</quota><grants><query>GRANT SELECT, SHOW ON tenant_acme.*</query></grants></%[1]s>",
		tenantsql.WebUserName("acme"), hex.EncodeToString(sum[:]))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first start ever fetches the library
	defer cancel()
	e, err := engine.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		_ = e.Stop(stop) // the folder goes anyway
	})
	conn, err := service.ClickHouse{Native: e.TCPAddr(), User: e.User(), Password: e.Password()}.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range []string{"CREATE DATABASE tenant_acme", "CREATE TABLE tenant_acme.sessions (tenant String) ENGINE = Memory",
		"INSERT INTO tenant_acme.sessions SELECT 'acme'"} {
		if err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// openNATS is a NATS that other processes could reach, and its address.
func openNATS(t *testing.T) (*broker.Streams, string) {
	t.Helper()
	srv, err := broker.Serve(broker.ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: srv.ClientURL(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := broker.Open(t.Context(), nc, js, smallLayout())
	if err != nil {
		t.Fatal(err)
	}
	return s, srv.ClientURL()
}

func smallLayout() broker.Layout {
	l := broker.DefaultLayout()
	l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes = 256<<20, 256<<20, 64<<20
	return l
}

// web is a web role that runs.
type web struct {
	addr, metrics string
	stop          context.CancelFunc
	ended         chan error
}

func startWeb(t *testing.T, nats, http string) *web {
	t.Helper()
	r, w := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	role := &web{stop: stop, ended: make(chan error, 1)}
	a := service.Apart{NATS: service.NATS{URL: nats}, Layout: smallLayout(), DrainTimeout: 60 * time.Second,
		Log: slog.New(slog.NewJSONHandler(w, nil))}
	go func() {
		role.ended <- a.RunWeb(ctx, context.Background(), service.WebConfig{Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0",
			PathPrefix: "/p", ClickHouse: service.ClickHouse{HTTP: http, Database: "warpline"}, Secret: secretOfWeb, AtOnce: 4})
		w.Close()
	}()
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			var line struct{ Msg, Addr, Metrics string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
				role.addr, role.metrics = line.Addr, line.Metrics
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case err := <-role.ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("it does not become ready")
	}
	t.Cleanup(stop)
	return role
}

// ask asks at a path, as user and password say.
func (w *web) ask(t *testing.T, path, user, password string) (int, string) {
	t.Helper()
	question := strings.NewReader("SELECT tenant FROM sessions")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.addr+path, question)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, strings.TrimSpace(string(body))
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

// await asks until the answer has a status.
func await(t *testing.T, what string, status int, ask func() (int, string)) {
	t.Helper()
	var got int
	var said string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got, said = ask(); got == status {
			return
		}
	}
	t.Fatalf("%s: %d %s, want %d", what, got, said, status)
}

// A web role lets in who has a read key of the tenant, as the tenant's own user; follows what becomes of keys and tenants; writes nothing
// into the bucket of keys; says whether it is ready; and ends in order.
func TestWebRole(t *testing.T) {
	e := webEngine(t)
	s, url := openNATS(t)
	keys, tenants := ingest.NewKeys(s.Keys), ingest.NewTenants(s.Keys)
	if _, err := tenants.Create(t.Context(), "acme", "", tenant.Limits{}); err != nil {
		t.Fatal(err)
	}
	secrets := map[tenant.Scope]string{}
	var read tenant.Key
	for _, scope := range []tenant.Scope{tenant.ScopeRead, tenant.ScopeIngest, tenant.ScopeAdmin} {
		secret, key, err := keys.Make(t.Context(), tenant.Key{Tenant: "acme", Scope: scope}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if secrets[scope] = secret; scope == tenant.ScopeRead {
			read = key
		}
	}
	before, err := s.Keys.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := startWeb(t, url, e.HTTPAddr())
	for _, path := range []string{"/clickhouse/", "/clickhouse", "/p/clickhouse/", "/"} {
		if status, said := w.ask(t, path, "acme", secrets[tenant.ScopeRead]); status != http.StatusOK || said != "acme" {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	for what, c := range map[string]struct {
		user, password string
		status         int
	}{
		"an ingest key":       {"acme", secrets[tenant.ScopeIngest], 403},
		"an admin key":        {"acme", secrets[tenant.ScopeAdmin], 403},
		"of another tenant":   {"globex", secrets[tenant.ScopeRead], 403},
		"a guessed key":       {"acme", "wl_guessed", 401},
		"the user itself":     {tenantsql.WebUserName("acme"), tenantsql.WebPassword(secretOfWeb, "acme"), 401},
		"its password as key": {"acme", tenantsql.WebPassword(secretOfWeb, "acme"), 401},
		"ClickHouse's writer": {e.User(), e.Password(), 401},
	} {
		if status, said := w.ask(t, "/clickhouse/", c.user, c.password); status != c.status || !strings.Contains(said, "Code: 516.") {
			t.Errorf("%s: %d %s, want %d", what, status, said, c.status)
		}
	}
	for _, path := range []string{"/metrics", "/api/v1/events/batch", "/clickhouse/play", "/clickhouse/../metrics"} {
		if status, _ := w.ask(t, path, "acme", secrets[tenant.ScopeRead]); status != http.StatusNotFound {
			t.Errorf("%s is served: %d", path, status)
		}
	}
	for _, at := range []string{"http://" + w.addr + "/readyz", "http://" + w.addr + "/healthz", "http://" + w.metrics + "/readyz"} {
		if status, said := get(t, at); status != http.StatusOK {
			t.Errorf("%s: %d %s", at, status, said)
		}
	}
	if _, said := get(t, "http://"+w.metrics+"/metrics"); !strings.Contains(said, `warpline_sql_questions_total{status="200"} 4`) {
		t.Error("the metrics do not count questions")
	}
	after, err := s.Keys.Status(t.Context())
	if err != nil || after.Values() != before.Values() {
		t.Errorf("the bucket of keys had %d values, and has %d: %v", before.Values(), after.Values(), err)
	}
	asked := func() (int, string) { return w.ask(t, "/clickhouse/", "acme", secrets[tenant.ScopeRead]) }
	disable := func(at time.Time) {
		if _, err := tenants.Change(t.Context(), "acme", func(r *tenant.Record) { r.Disabled = at }); err != nil {
			t.Fatal(err)
		}
	}
	disable(time.Now())
	await(t, "of a disabled tenant", http.StatusForbidden, asked)
	disable(time.Time{})
	await(t, "of one that is enabled again", http.StatusOK, asked)
	if _, err := keys.Revoke(t.Context(), read.ID); err != nil {
		t.Fatal(err)
	}
	await(t, "of a revoked key", http.StatusUnauthorized, asked)
	w.stop()
	select {
	case err := <-w.ended:
		if err != nil {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// While ClickHouse is away a web role is there, not ready, and says why; it is ready when ClickHouse answers.
func TestWebRoleWithoutClickHouse(t *testing.T) {
	s, url := openNATS(t)
	secret, _, err := ingest.NewKeys(s.Keys).Make(t.Context(), tenant.Key{Tenant: "acme", Scope: tenant.ScopeRead}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := startWeb(t, url, "127.0.0.1:1")
	if status, said := get(t, "http://"+w.addr+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(said, "127.0.0.1:1") {
		t.Errorf("%d %s", status, said)
	}
	status, said := w.ask(t, "/clickhouse/", "acme", secret)
	if status != http.StatusServiceUnavailable || !strings.Contains(said, "ask again") {
		t.Errorf("%d %s", status, said)
	}
}
