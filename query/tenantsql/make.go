package tenantsql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

// Users makes and drops the users of tenants on a ClickHouse server. Its fields must not change while it works.
type Users struct {
	// Conn is the server, as a user that may make users and give them rights. It belongs to the caller.
	Conn driver.Conn
	// Login connects to the same server as somebody else; whoever calls it closes the connection.
	Login    func(ctx context.Context, user, password string) (driver.Conn, error)
	Database string // of Warpline's tables
	Cluster  string // whose servers all get the users, "" for the one
	Schema   *table.Schema
	Bounds   Bounds
}

// ErrUsersInFile is that a server keeps its users in a file, as the embedded engine does.
var ErrUsersInFile = errors.New("this ClickHouse takes no users by SQL: it keeps them in a file, as the embedded one of \"warpline up\" " +
	"does, where tenants ask at /clickhouse/ with a key of scope read")

// Codes of ClickHouse's errors.
const (
	codeDenied     = 497 // ACCESS_DENIED
	codeNoStorage  = 514 // ACCESS_STORAGE_FOR_INSERTION_NOT_FOUND
	codeReadOnlyIn = 495 // ACCESS_STORAGE_READONLY
)

func codeOf(err error) int32 {
	var e *clickhouse.Exception
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Make gives a tenant a user with a password, and one for `warpline web` with another where that is not "". What is there already is
// brought up to date; an empty password leaves the one of before. Then it logs in and tries what must not be possible: if something is,
// everything is dropped again.
func (u Users) Make(ctx context.Context, name, password, webPassword string) error {
	if err := errors.Join(tenant.CheckName(name), u.Bounds.Check()); err != nil {
		return err
	}
	p, err := u.plan(ctx, name)
	if err != nil {
		return err
	}
	had, err := u.Has(ctx, name)
	if err != nil {
		return err
	}
	if err := u.ours(ctx, p, had); err != nil {
		return err
	}
	set := viewSet{database: UserName(name), owner: ownerName(name), from: p.database, on: p.on(),
		views: u.Schema.Views(table.Options{Database: u.Database})}
	if err := u.run(ctx, append([]string{p.makeClosed()}, p.makeOwner(rand.Text())...)); err != nil {
		return err
	}
	if err := say(ctx, u.Conn, p.database, false, []string{name}); err != nil { // whoever asks for it says that the tenant is enabled
		return denied(err)
	}
	if err := u.othersStillRead(ctx, p); err != nil {
		return errors.Join(err, u.Drop(ctx, name))
	}
	if err := u.run(ctx, p.letOwnerRead()); err != nil {
		return err
	}
	if err := set.make(ctx, u.Conn); err != nil {
		return denied(err)
	}
	users, passwords := []string{UserName(name)}, []string{password}
	if webPassword != "" {
		users, passwords = append(users, WebUserName(name)), append(passwords, webPassword)
	}
	for i, user := range users {
		if err := u.run(ctx, p.makeUser(user, passwords[i])); err != nil {
			return err
		}
	}
	if err := u.run(ctx, []string{p.makeQuota(users)}); err != nil {
		return err
	}
	for i, user := range users {
		if passwords[i] == "" {
			continue // it was tried when it was made
		}
		if err := u.try(ctx, p, user, passwords[i]); err != nil {
			return errors.Join(fmt.Errorf("tenant %s gets no user on this server, since %w", name, err), u.Drop(ctx, name))
		}
	}
	return nil
}

// Has reports whether a tenant has a user.
func (u Users) Has(ctx context.Context, name string) (bool, error) {
	var n uint64
	if err := u.Conn.QueryRow(ctx, "SELECT count() FROM system.users WHERE name = $1", UserName(name)).Scan(&n); err != nil {
		return false, denied(fmt.Errorf("look for user %s: %w", UserName(name), err))
	}
	return n > 0, nil
}

// Drop takes away what Make made. It is no error if there is nothing.
func (u Users) Drop(ctx context.Context, name string) error {
	if err := tenant.CheckName(name); err != nil {
		return err
	}
	p, err := u.plan(ctx, name)
	if err != nil {
		return err
	}
	had, err := u.Has(ctx, name)
	if err != nil {
		return err
	}
	if err := u.ours(ctx, p, had); err != nil {
		return err
	}
	policies, err := u.policies(ctx, name)
	if err != nil {
		return err
	}
	var left uint64
	if err := u.Conn.QueryRow(ctx, "SELECT (SELECT count() FROM system.users WHERE name IN ($1, $2, $3)) + (SELECT count() FROM "+
		"system.databases WHERE name = $1)", UserName(name), WebUserName(name), ownerName(name)).Scan(&left); err != nil {
		return denied(err)
	}
	if left == 0 && len(policies) == 0 {
		return nil
	}
	return u.run(ctx, p.drop(policies))
}

// plan is what the tenant has on this server.
func (u Users) plan(ctx context.Context, name string) (plan, error) {
	rows, err := u.Conn.Query(ctx, "SELECT name FROM system.settings")
	if err != nil {
		return plan{}, denied(fmt.Errorf("read the names of settings: %w", err))
	}
	defer rows.Close()
	known := map[string]bool{}
	for rows.Next() {
		var setting string
		if err := rows.Scan(&setting); err != nil {
			return plan{}, fmt.Errorf("read the names of settings: %w", err)
		}
		known[setting] = true
	}
	if err := rows.Err(); err != nil {
		return plan{}, fmt.Errorf("read the names of settings: %w", err)
	}
	return newPlan(name, u.Database, u.Cluster, u.Schema, u.Bounds, known), nil
}

// ours returns why what is there under the tenant's names is not Warpline's. had is whether there is a user of the tenant's name.
func (u Users) ours(ctx context.Context, p plan, had bool) error {
	var owners uint64
	if err := u.Conn.QueryRow(ctx, "SELECT count() FROM system.users WHERE name = $1", ownerName(p.tenant)).Scan(&owners); err != nil {
		return denied(err)
	}
	if had && owners == 0 {
		return fmt.Errorf("there is a user %s on this server, without the %s that Warpline makes before it: it is somebody else's, and is left "+
			"alone; drop it or rename it first", UserName(p.tenant), ownerName(p.tenant))
	}
	have, err := viewSet{database: UserName(p.tenant)}.have(ctx, u.Conn)
	if err != nil {
		return denied(err)
	}
	for view, comment := range have {
		if !strings.HasPrefix(comment, viewMark) {
			return fmt.Errorf("database %s has %s, which is not Warpline's, and is left alone: move it elsewhere first", UserName(p.tenant), view)
		}
	}
	return nil
}

// othersStillRead makes sure, before a table of Warpline's gets one, that a policy takes no rows from those who have none: the sink would
// take its rows for lost then.
func (u Users) othersStillRead(ctx context.Context, p plan) error {
	if err := u.run(ctx, p.tryPolicy()); err != nil {
		return err
	}
	var seen uint64
	err := u.Conn.QueryRow(ctx, "SELECT count() FROM "+quoted(UserName(p.tenant))+".probe").Scan(&seen)
	if err := errors.Join(err, u.run(ctx, p.untryPolicy())); err != nil {
		return denied(err)
	}
	if seen == 0 {
		return errors.New("on this server users without a row policy read nothing of a table that has one, and the sink is such a user: set " +
			"access_control_improvements.users_without_row_policies_can_read_rows to true in its configuration first")
	}
	return nil
}

// policies are those of a tenant, whichever tables they are on.
func (u Users) policies(ctx context.Context, name string) (out []policy, err error) {
	rows, err := u.Conn.Query(ctx, "SELECT short_name, database, table FROM system.row_policies WHERE short_name IN ($1, $2)",
		policyName(name, "permissive"), policyName(name, "restrictive"))
	if err != nil {
		return nil, denied(fmt.Errorf("look for row policies: %w", err))
	}
	defer rows.Close()
	for rows.Next() {
		var of policy
		if err := rows.Scan(&of.name, &of.database, &of.table); err != nil {
			return nil, fmt.Errorf("look for row policies: %w", err)
		}
		out = append(out, of)
	}
	return out, rows.Err()
}

func (u Users) run(ctx context.Context, statements []string) error {
	for _, sql := range statements {
		if err := u.Conn.Exec(ctx, sql); err != nil {
			words := strings.Fields(sql)
			return denied(fmt.Errorf("%s: %w", strings.Join(words[:min(3, len(words))], " "), err))
		}
	}
	return nil
}

// denied says of an error that ClickHouse's own words leave open what to do.
func denied(err error) error {
	switch codeOf(err) {
	case codeNoStorage, codeReadOnlyIn:
		return fmt.Errorf("%w (%w)", ErrUsersInFile, err)
	case codeDenied:
		return fmt.Errorf("%w: ask as a user with access_management, or with GRANT ALL ON *.* WITH GRANT OPTION (--clickhouse-user)", err)
	}
	return err
}

// TenantOf is the tenant of a user, if it is one that Make makes.
func TenantOf(user string) (string, bool) {
	name, ours := strings.CutPrefix(user, userPrefix)
	name, _ = strings.CutSuffix(strings.TrimSuffix(name, "_web"), "_rows") // names of tenants have no _
	return name, ours && tenant.CheckName(name) == nil
}
