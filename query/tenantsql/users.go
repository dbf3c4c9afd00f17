package tenantsql

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/warpline/warpline/sink/table"
)

// userPrefix begins the names of what a server has for a tenant. Names of tenants have no _, so no two tenants' are the same.
const userPrefix = "tenant_"

// UserName is the user of a tenant on a ClickHouse server, and the database of views that it may read.
func UserName(tenant string) string { return userPrefix + tenant }

// ownerName is the user that owns these views: nobody can log in with it, and it sees the rows of the tenant alone.
func ownerName(tenant string) string { return UserName(tenant) + "_rows" }

// WebUserName is the user as which `warpline web` asks for a tenant.
func WebUserName(tenant string) string { return UserName(tenant) + "_web" }

// leastSecret is how long a secret must be that passwords are made from.
const leastSecret = 16

// CheckWebSecret returns what is wrong with a secret that WebPassword is given.
func CheckWebSecret(secret string) error {
	if len(secret) < leastSecret {
		return fmt.Errorf("it has %d characters: use %d at least, as `openssl rand -hex 32` makes them", len(secret), leastSecret)
	}
	return nil
}

// WebPassword is the password of WebUserName: whoever has the secret can make it, and nobody has to store it.
func WebPassword(secret, tenant string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("warpline web\n" + WebUserName(tenant)))
	return hex.EncodeToString(mac.Sum(nil))
}

// plan is what a tenant has on a server: the statements are made of it.
type plan struct {
	tenant, database string // database is Warpline's
	filtered, open   []string
	settings         string
	cluster          string
	bounds           Bounds
}

func newPlan(tenant, database, cluster string, schema *table.Schema, b Bounds, known map[string]bool) plan {
	names := Names(schema, databaseOf(database), 0)
	return plan{tenant: tenant, database: names.Database, filtered: names.Filtered, open: names.Open,
		settings: settingsSQL(b.settings(), known), cluster: cluster, bounds: b}
}

func quoted(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

func (p plan) on() string {
	if p.cluster == "" {
		return ""
	}
	return " ON CLUSTER " + quoted(p.cluster)
}

func (p plan) tables() string {
	var all []string
	for _, name := range p.filtered {
		all = append(all, quoted(p.database)+"."+quoted(name))
	}
	return strings.Join(all, ", ")
}

// makeOwner makes the user that owns the views, with which nobody can log in.
func (p plan) makeOwner(unknown string) []string {
	owner := quoted(ownerName(p.tenant))
	return []string{
		fmt.Sprintf("CREATE USER IF NOT EXISTS %s%s IDENTIFIED WITH sha256_hash BY '%s' HOST NONE", owner, p.on(), sha256Hex(unknown)),
		fmt.Sprintf("ALTER USER %s%s HOST NONE %s", owner, p.on(), p.settings),
	}
}

// letOwnerRead filters the rows of the owner, and after that lets it read. Of a policy of each kind, the restrictive one holds beside any
// that others make for everybody, and the permissive one shows rows where a server shows none without one.
func (p plan) letOwnerRead() (sql []string) {
	owner := quoted(ownerName(p.tenant))
	for _, kind := range []string{"permissive", "restrictive"} {
		sql = append(sql, fmt.Sprintf("CREATE ROW POLICY OR REPLACE %s%s ON %s FOR SELECT USING %s AS %s TO %s",
			quoted(policyName(p.tenant, kind)), p.on(), p.tables(), p.filter(), kind, owner))
	}
	for _, name := range slices.Concat(p.filtered, p.open, []string{ClosedTable}) {
		sql = append(sql, fmt.Sprintf("GRANT%s SELECT ON %s.%s TO %s", p.on(), quoted(p.database), quoted(name), owner))
	}
	return sql
}

// tryPolicy gives a table of one row a policy for the owner; whoever has none must see the row all the same. See untryPolicy.
func (p plan) tryPolicy() []string {
	table := quoted(UserName(p.tenant)) + ".probe"
	return []string{
		fmt.Sprintf("CREATE DATABASE IF NOT EXISTS %s%s", quoted(UserName(p.tenant)), p.on()),
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (a UInt8) ENGINE = MergeTree ORDER BY a COMMENT '%sprobe'", table, viewMark),
		fmt.Sprintf("INSERT INTO %s SELECT 1", table),
		fmt.Sprintf("CREATE ROW POLICY OR REPLACE %s ON %s FOR SELECT USING a = 1 TO %s", quoted(policyName(p.tenant, "permissive")), table,
			quoted(ownerName(p.tenant))),
	}
}

func (p plan) untryPolicy() []string {
	table := quoted(UserName(p.tenant)) + ".probe"
	return []string{fmt.Sprintf("DROP ROW POLICY IF EXISTS %s ON %s", quoted(policyName(p.tenant, "permissive")), table),
		fmt.Sprintf("DROP TABLE IF EXISTS %s", table)}
}

func policyName(tenant, kind string) string { return UserName(tenant) + "_" + kind }

// makeUser makes a user that can log in, or gives it another password, "" for the one that it has.
func (p plan) makeUser(name, password string) []string {
	user := quoted(name)
	alter := fmt.Sprintf("ALTER USER %s%s HOST ANY DEFAULT ROLE NONE %s", user, p.on(), p.settings)
	if password == "" {
		return []string{alter}
	}
	identified := fmt.Sprintf("IDENTIFIED WITH sha256_hash BY '%s'", sha256Hex(password))
	return []string{
		fmt.Sprintf("CREATE USER IF NOT EXISTS %s%s %s HOST ANY DEFAULT ROLE NONE %s", user, p.on(), identified, p.settings),
		fmt.Sprintf("ALTER USER %s%s %s HOST ANY DEFAULT ROLE NONE %s", user, p.on(), identified, p.settings),
		fmt.Sprintf("GRANT%s SELECT, SHOW ON %s.* TO %s", p.on(), quoted(UserName(p.tenant)), user),
	}
}

// makeQuota bounds what the users ask in a minute.
func (p plan) makeQuota(users []string) string {
	var to []string
	for _, name := range users {
		to = append(to, quoted(name))
	}
	return fmt.Sprintf("CREATE QUOTA OR REPLACE %s%s KEYED BY user_name FOR INTERVAL 60 second MAX queries = %d, execution_time = %d TO %s",
		quoted(UserName(p.tenant)), p.on(), p.bounds.Queries, p.bounds.BusySeconds, strings.Join(to, ", "))
}

// drop takes everything away again. Whoever can log in goes first, and the filters of the owner after the owner.
func (p plan) drop(policies []policy) []string {
	name := quoted(UserName(p.tenant))
	sql := []string{
		fmt.Sprintf("DROP USER IF EXISTS %s%s", name, p.on()),
		fmt.Sprintf("DROP USER IF EXISTS %s%s", quoted(WebUserName(p.tenant)), p.on()),
		fmt.Sprintf("KILL QUERY%s WHERE user IN ('%s', '%s') ASYNC", p.on(), UserName(p.tenant), WebUserName(p.tenant)),
		fmt.Sprintf("DROP USER IF EXISTS %s%s", quoted(ownerName(p.tenant)), p.on()),
		fmt.Sprintf("DROP QUOTA IF EXISTS %s%s", name, p.on()),
	}
	for _, of := range policies {
		sql = append(sql, fmt.Sprintf("DROP ROW POLICY IF EXISTS %s%s ON %s.%s", quoted(of.name), p.on(), quoted(of.database), quoted(of.table)))
	}
	return append(sql, fmt.Sprintf("DROP DATABASE IF EXISTS %s%s", name, p.on()))
}

// policy is a row policy that a server has.
type policy struct{ name, database, table string }

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// databaseOf is the database of Warpline's tables.
func databaseOf(name string) string { return cmp.Or(name, table.DefaultDatabase) }
