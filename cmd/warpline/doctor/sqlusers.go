package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
)

// closedWithin is how long a sink may take to close the users of a tenant that was disabled.
const closedWithin = 15 * time.Second

// accessDenied is ClickHouse's error of a user who may not ask.
const accessDenied = 497

// sqlUsers looks for users of ClickHouse whose tenants are disabled or gone, and that still read.
func (p *Patient) sqlUsers(ctx context.Context) (found, fix string, err error) {
	conn := p.sees()
	var users []string
	filters := map[string]string{}
	err = conn.QueryRow(ctx, "SELECT groupArray(name) FROM system.users WHERE startsWith(name, 'tenant_')").Scan(&users)
	if err == nil {
		err = p.filtersOf(ctx, filters)
	}
	var no *clickhouse.Exception
	if errors.As(err, &no) && no.Code == accessDenied {
		return "users of tenants cannot be seen as this user of ClickHouse: ask as one who may SHOW ACCESS (--clickhouse-user)", "", nil
	}
	if err != nil {
		return "", "", err
	}
	closed, _, err := tenantsql.Closed(ctx, conn, p.Database)
	if err != nil {
		return "", "", err
	}
	whose := map[string]bool{}
	for _, user := range users {
		if name, ours := tenantsql.TenantOf(user); ours && user != tenantsql.UserName(name)+"_rows" { // with which nobody can log in
			whose[name] = true
		}
	}
	var open, gone, older []string
	for name := range whose {
		record, known := p.record(name)
		switch {
		case !known && !closed[name]:
			gone = append(gone, name)
		case !strings.Contains(filters[name], tenantsql.ClosedTable):
			older = append(older, name)
		case known && !record.Disabled.IsZero() && p.Now().Sub(record.Disabled) > closedWithin && !closed[name]:
			open = append(open, name)
		}
	}
	for _, c := range []struct {
		tenants    []string
		what, does string
	}{
		{open, "disabled, and their users of ClickHouse read on", "start a sink of this version, and see in its log whether it may write table " +
			tenantsql.ClosedTable},
		{gone, "not there, and their users of ClickHouse read on", "\"warpline tenant sql-user NAME --drop\""},
		{older, "not looked at before their users of ClickHouse read: a build of before made these", "\"warpline tenant sql-user NAME\""},
	} {
		if len(c.tenants) > 0 {
			slices.Sort(c.tenants)
			found += fmt.Sprintf("; tenants %s are %s", strings.Join(c.tenants[:min(len(c.tenants), mostNamed)], ", "), c.what)
			if more := len(c.tenants) - mostNamed; more > 0 {
				found += fmt.Sprintf(", and %d more", more)
			}
			fix += "; " + c.does
		}
	}
	if found == "" {
		return fmt.Sprintf("%d tenants have users of their own, none of them without being there and enabled", len(whose)), "", nil
	}
	return strings.TrimPrefix(found, "; "), strings.TrimPrefix(fix, "; "), nil
}

// sees is whoever may see what others may.
func (p *Patient) sees() driver.Conn {
	if p.Writer != nil {
		return p.Writer
	}
	return p.Conn
}

// record is that of a tenant. One that has none but has a key is there too.
func (p *Patient) record(name string) (tenant.Record, bool) {
	for _, r := range p.Tenants {
		if r.Name == name {
			return r, true
		}
	}
	return tenant.Record{}, slices.ContainsFunc(p.Keys, func(k tenant.Key) bool {
		valid, _ := k.Valid(p.Now())
		return valid && k.Tenant == name
	})
}

// filtersOf reads which rows the owners of tenants' views see, by tenant.
func (p *Patient) filtersOf(ctx context.Context, filters map[string]string) error {
	rows, err := p.sees().Query(ctx, "SELECT arrayJoin(apply_to_list) AS user, min(select_filter) FROM system.row_policies WHERE "+
		"database = $1 GROUP BY user", p.Database)
	if err != nil {
		return err
	}
	return each(rows, func(scan func(...any) error) error {
		var user, filter string
		err := scan(&user, &filter)
		if name, ours := tenantsql.TenantOf(user); ours {
			filters[name] = filter
		}
		return err
	})
}
