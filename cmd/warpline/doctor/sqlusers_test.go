package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/engine"
)

// A tenant's own user that can still read when its tenant is disabled or gone is named, with what to do; so is one that an older build
// made, which a disabled tenant would keep.
func TestUsersOfDisabledTenants(t *testing.T) {
	cfg := engine.Config{}
	for name, filter := range map[string]string{"acme": "tenant = 'acme' AND 'acme' NOT IN (SELECT tenant FROM warpline.closed_tenants)",
		"globex": "tenant = 'globex' AND 'globex' NOT IN (SELECT tenant FROM warpline.closed_tenants)", "older": "tenant = 'older'"} {
		for _, user := range []string{"tenant_" + name, "tenant_" + name + "_web", "tenant_" + name + "_rows"} {
			rows := ""
			if strings.HasSuffix(user, "_rows") {
				rows = "<databases><warpline><sessions_data><filter>" + filter + "</filter></sessions_data></warpline></databases>"
			}
			cfg.Extra.Users += fmt.Sprintf("<%s><password>x</password><networks/><profile>default</profile><quota>default</quota>%s</%[1]s>",
				user, rows)
		}
	}
	p := patientOf(t, withUsers(t, cfg))
	off := func(name string, ago time.Duration) tenant.Record {
		return tenant.Record{Name: name, Disabled: time.Now().Add(-ago)}
	}
	closes := func(names ...string) {
		t.Helper()
		for _, sql := range []string{"CREATE TABLE IF NOT EXISTS warpline." + tenantsql.ClosedTable +
			" (tenant String, closed UInt8, at DateTime64(9)) ENGINE = MergeTree ORDER BY tenant", "TRUNCATE TABLE warpline." +
			tenantsql.ClosedTable, "INSERT INTO warpline." + tenantsql.ClosedTable + " SELECT arrayJoin(['nobody', '" +
			strings.Join(names, "', '") + "']), 1, now64(9)"} {
			if err := p.Writer.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	on := tenant.Record{Name: "acme"}
	keys := []tenant.Key{{ID: "k1", Tenant: "globex"}, {ID: "k2", Tenant: "older"}} // a key is enough to be there
	for _, c := range []struct {
		what        string
		tenants     []tenant.Record
		keys        []tenant.Key
		closed      []string
		found, does string
	}{
		{"an older build's", []tenant.Record{on}, keys, nil, "tenants older are not looked at", "sql-user NAME\""},
		{"disabled", []tenant.Record{off("acme", time.Hour)}, keys, nil, "tenants acme are disabled", "start a sink"},
		{"just disabled", []tenant.Record{off("acme", time.Second)}, keys, nil, "tenants older are", "sql-user NAME\""},
		{"disabled and closed", []tenant.Record{off("acme", time.Hour)}, keys, []string{"acme"}, "tenants older are", "sql-user NAME\""},
		{"gone", nil, keys, nil, "tenants acme are not there", "--drop"},
		{"gone, two", nil, keys[1:], nil, "tenants acme, globex are not there", "--drop"},
		{"gone and closed", nil, keys, []string{"acme"}, "tenants older are", "sql-user NAME\""},
		{"without a valid key", []tenant.Record{on}, []tenant.Key{{ID: "k1", Tenant: "globex", Expires: time.Now().Add(-time.Hour)}, keys[1]},
			nil, "tenants globex are not there", "--drop"},
	} {
		p.Tenants, p.Keys = c.tenants, c.keys
		closes(c.closed...)
		if f := only(t, p, "sql-users"); f.OK || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Fix, c.does) ||
			strings.HasPrefix(c.found, "tenants older") && strings.Contains(f.Found, "acme") {
			t.Errorf("%s: %+v", c.what, f)
		}
	}
}

// Where no tenant has a user of its own, there is nothing to find.
func TestNoSQLUsers(t *testing.T) {
	if f := only(t, patientOf(t, withSlots(t, nil)), "sql-users"); !f.OK || !strings.HasPrefix(f.Found, "0 tenants have users") {
		t.Errorf("%+v", f)
	}
}
