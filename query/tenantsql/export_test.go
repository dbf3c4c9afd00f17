package tenantsql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// Forbidden are the questions that Users.Make tries.
var Forbidden = forbidden

// OwnerName is the user that owns the views of a tenant.
func OwnerName(tenant string) string { return ownerName(tenant) }

// FileProfile is a profile with the bounds of a tenant's own user, in the words of a users file. Its name is tenant.
func FileProfile(b Bounds) string {
	var s, constraints strings.Builder
	for _, of := range b.settings() {
		if of.value != "" {
			fmt.Fprintf(&s, "<%s>%s</%[1]s>", of.name, of.value)
		}
		switch {
		case of.most != "":
			fmt.Fprintf(&constraints, "<%s><min>1</min><max>%s</max><changeable_in_readonly/></%[1]s>", of.name, of.most)
		case of.change:
			fmt.Fprintf(&constraints, "<%s><changeable_in_readonly/></%[1]s>", of.name)
		default:
			fmt.Fprintf(&constraints, "<%s><readonly/></%[1]s>", of.name)
		}
	}
	return "<tenant><profile>default</profile>" + s.String() + "<constraints>" + constraints.String() + "</constraints></tenant>\n"
}

// FileUsers are the users of a tenant as the statements of Users.Make make them, in the words of a users file. Rows are filtered if
// filtered; more are further grants of the user.
func FileUsers(schema *table.Schema, tenant, password, web string, filtered bool, more ...string) string {
	p := newPlan(tenant, "", "", schema, DefaultBounds(), nil)
	var s, grants, filters strings.Builder
	for _, name := range slices.Concat(p.filtered, p.open, []string{ClosedTable}) {
		fmt.Fprintf(&grants, "<query>GRANT SELECT ON %s.`%s`</query>", p.database, name)
	}
	for _, name := range p.filtered {
		fmt.Fprintf(&filters, "<%s><filter>%s</filter></%[1]s>", name, p.filter())
	}
	if !filtered {
		filters.Reset()
	}
	fmt.Fprintf(&s, "<%s><password_sha256_hex>%s</password_sha256_hex><networks/><profile>tenant</profile><quota>default</quota>"+
		"<grants>%s</grants><databases><%s>%s</%[4]s></databases></%[1]s>\n", ownerName(tenant), sha256Hex("nobody"), grants.String(), p.database,
		filters.String())
	for _, u := range [][2]string{{UserName(tenant), password}, {WebUserName(tenant), web}} {
		fmt.Fprintf(&s, "<%s><password_sha256_hex>%s</password_sha256_hex><networks><ip>127.0.0.1</ip></networks><profile>tenant</profile>"+
			"<quota>default</quota><grants><query>GRANT SELECT, SHOW ON `%s`.*</query>%s</grants></%[1]s>\n", u[0], sha256Hex(u[1]),
			UserName(tenant), strings.Join(more, ""))
	}
	return s.String()
}

// MakeViews makes the views of a tenant, and Try tries what its user must not do, as Make does.
func (u Users) MakeViews(ctx context.Context, tenant string) error {
	return viewSet{database: UserName(tenant), owner: ownerName(tenant), from: databaseOf(u.Database),
		views: u.Schema.Views(table.Options{Database: u.Database})}.make(ctx, u.Conn)
}

// Try is what Make does with a user that it has made.
func (u Users) Try(ctx context.Context, tenant, password string) error {
	p, err := u.plan(ctx, tenant)
	if err != nil {
		return err
	}
	return u.try(ctx, p, UserName(tenant), password)
}

// Statements are all that Make and Drop run for a tenant.
func (u Users) Statements(ctx context.Context, tenant string) ([]string, error) {
	p, err := u.plan(ctx, tenant)
	if err != nil {
		return nil, err
	}
	set := viewSet{database: UserName(tenant), owner: ownerName(tenant), from: p.database, on: p.on()}
	return slices.Concat([]string{p.makeClosed()}, p.makeOwner("x"), p.tryPolicy(), p.untryPolicy(), p.letOwnerRead(),
		p.makeUser(UserName(tenant), "secret"), p.makeUser(UserName(tenant), ""),
		[]string{p.makeQuota([]string{UserName(tenant), WebUserName(tenant)}),
			"CREATE DATABASE IF NOT EXISTS " + quoted(set.database) + set.on},
		p.drop([]policy{{policyName(tenant, "permissive"), p.database, p.filtered[0]}})), nil
}

// Minute sets what each tenant may ask at a door in a minute; the zero value: as much as it likes.
func (d *Door) Minute(b Bounds) *Door {
	d.minute = nil
	if b != (Bounds{}) {
		d.minute = newMinutes(b)
	}
	return d
}

// Turns and Minutes are what a door bounds questions with.
type (
	Turns   = turns
	Minutes = minutes
)

// NewTurns and NewMinutes return them.
var (
	NewTurns   = newTurns
	NewMinutes = newMinutes
)

// Take waits for a turn.
func (t *turns) Take(ctx context.Context, who string) (func(), error) { return t.take(ctx, who) }

// Ask counts a question, Worked what it took, Kept are the tenants that are remembered.
func (m *minutes) Ask(who string, now time.Time) error                  { return m.ask(who, now) }
func (m *minutes) Worked(who string, took time.Duration, now time.Time) { m.worked(who, took, now) }
func (m *minutes) Kept() int                                            { return len(m.of) }

// MakeClosed makes the table of closed tenants, as Make does.
func (u Users) MakeClosed(ctx context.Context) error {
	p, err := u.plan(ctx, "any")
	if err != nil {
		return err
	}
	return u.Conn.Exec(ctx, p.makeClosed())
}
