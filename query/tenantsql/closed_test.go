package tenantsql_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
)

// ends is what a tenant's user loses its rows within.
const ends = 10 * time.Second

// records are the tenants of a service.
type records struct {
	mu  sync.Mutex
	all []tenant.Record
	err error
}

func (r *records) set(err error, all ...tenant.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.err = all, err
}

func (r *records) list(context.Context) ([]tenant.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all), r.err
}

// A tenant that is disabled, or whose record goes, sees no row with its own users within 10 s, in no view; one that is enabled again sees
// them again. Others see theirs meanwhile, also while the tenants cannot be read.
func TestDisabledTenantsSeeNoRow(t *testing.T) {
	s := serve(t)
	on := func(name string) tenant.Record { return tenant.Record{Name: name} }
	off := func(name string) tenant.Record { return tenant.Record{Name: name, Disabled: time.Now()} }
	var now records
	now.set(nil, on(mine), on(theirs))
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		c := &tenantsql.Closer{Open: func(context.Context) (driver.Conn, error) {
			return s.users.Login(ctx, s.engine.User(), s.engine.Password())
		},
			Tenants: now.list, Failed: func(err error) { t.Logf("%v", err) }}
		go func() { defer close(ended); c.Run(ctx) }()
		return func() { cancel(); <-ended }
	}
	stop := run()
	defer func() { stop() }()
	rows := func(who string) string {
		t.Helper()
		a := s.askOwn(t, who, "SELECT (SELECT count() FROM kernels) + (SELECT count() FROM sessions) + (SELECT count() FROM usage)")
		if a.status != http.StatusOK {
			t.Errorf("%s: %d %s", who, a.status, a.body)
		}
		return a.body
	}
	seesNone := func(who, when string) {
		t.Helper()
		for began := time.Now(); rows(who) != "0"; time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > 3*ends { // a busy machine
				t.Fatalf("%s: %s sees %s rows after %v", when, who, rows(who), time.Since(began))
			}
		}
	}
	all := rows(mine)
	if all == "0" {
		t.Fatal("no rows to lose")
	}
	sees := func(who, when string) {
		t.Helper()
		eventually(t, when+" "+who+" sees its rows", func() bool { return rows(who) != "0" })
	}
	now.set(nil, off(mine), on(theirs))
	seesNone(mine, "disabled")
	for _, sql := range []string{"SELECT count() FROM kernels WHERE tenant = 'globex'", "SELECT count() FROM usage FINAL",
		"SELECT count() FROM kernel_stats SETTINGS final = 1", "SELECT count() FROM memory_events"} {
		if a := s.askOwn(t, mine, sql); a.body != "0" {
			t.Errorf("disabled: %s: %s", sql, a.body)
		}
	}
	if rows(theirs) != all {
		t.Errorf("another tenant sees %s rows of %s", rows(theirs), all)
	}
	stop() // a process that begins later knows what was closed
	now.set(nil, on(theirs))
	stop = run()
	now.set(errors.New("NATS is away"))
	if rows(mine) != "0" {
		t.Error("its record went while it was disabled, and it sees rows again")
	}
	now.set(nil, on(mine), on(theirs))
	sees(mine, "enabled")
	now.set(nil, on(mine))
	seesNone(theirs, "without a record")
	if rows(mine) != all {
		t.Errorf("the other sees %s rows of %s", rows(mine), all)
	}
	now.set(nil, on(mine), on(theirs))
	sees(theirs, "with a record again")
}

// Which users are a tenant's, and whose.
func TestTenantOf(t *testing.T) {
	for user, want := range map[string]string{"tenant_acme": "acme", "tenant_acme_web": "acme", "tenant_acme_rows": "acme", "acme": "",
		"tenant_": "", "tenant_a_b": "", "tenants": "", "reader": "", "Tenant_acme": ""} {
		if got, ours := tenantsql.TenantOf(user); ours != (want != "") || ours && got != want {
			t.Errorf("%s: %q, %v", user, got, ours)
		}
	}
}
