package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/table"
)

// mostNamed is how many things one check names; it counts the rest.
const mostNamed = 5

// access is what ClickHouse says of who may read what.
type access struct {
	users    []string
	grants   []grant
	policies map[[2]string]string // filters, by user and table
	objects  []object
	tables   map[string]bool // of the database that have a column tenant, views left out
}

type grant struct{ user, right, database, table string }

func (g grant) String() string {
	on := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	return fmt.Sprintf("%s may %s on %s.%s", g.user, g.right, on(g.database), on(g.table))
}

// object is a table or view, and whose rights a view uses.
type object struct{ database, name, definer string }

var slotNames = regexp.MustCompile(`^slot(\d+)(_rows)?$`)

// policies compares what users of ClickHouse may read with what the engine gives them: a slot its own database of views, the owner of these
// views the tables filtered by tenant, the reader the database, and nobody else anything.
func (p *Patient) policies(ctx context.Context) (found, fix string, err error) {
	if p.Writer == nil {
		return "who may read what is not looked at on a server of yours, whose users are yours", "", nil
	}
	a, err := p.access(ctx)
	if err != nil {
		return "", "", err
	}
	wrong := p.missingViews(a)
	missing := len(wrong)
	wrong = append(wrong, p.openGrants(a)...)
	wrong = append(wrong, openViews(a)...)
	slots := 0
	for _, name := range a.users {
		if m := slotNames.FindStringSubmatch(name); m != nil && m[2] == "" {
			slots++
		}
	}
	found = fmt.Sprintf("%d slots for tenants, each sees its own rows of %d tables alone", slots, len(a.tables))
	if len(wrong) == 0 {
		return found, "", nil
	}
	found = strings.Join(wrong[:min(len(wrong), mostNamed)], "; ")
	if more := len(wrong) - mostNamed; more > 0 {
		found += fmt.Sprintf("; and %d more", more)
	}
	if len(wrong) == missing {
		return found, "start a sink of this version: it makes the views", nil
	}
	return found, "start \"warpline up\" of this version, which writes its users anew, and drop what it did not make; until then " +
		"--sql-tenants 0 keeps tenants from asking", nil
}

// missingViews are the views of the contract that are not there.
func (p *Patient) missingViews(a *access) (wrong []string) {
	for _, v := range p.Schema.Views(table.Options{Database: p.Database}) {
		if !slices.ContainsFunc(a.objects, func(o object) bool { return o.database == p.Database && o.name == v.Name }) {
			wrong = append(wrong, "view "+v.Name+" of the contract is not there")
		}
	}
	return wrong
}

// openGrants are the rights that nobody should have, and tables that the owner of a slot's views reads without a filter.
func (p *Patient) openGrants(a *access) (wrong []string) {
	names := tenantsql.Names(p.Schema, p.Database, 0)
	for _, g := range a.grants {
		m := slotNames.FindStringSubmatch(g.user)
		reads := g.right == "SELECT" || g.right == "SHOW"
		switch {
		case g.user == engine.Writer:
		case g.user == "default":
			if strings.HasPrefix(g.right, "SYSTEM") { // the engine's own session, which can ask nothing
				continue
			}
			wrong = append(wrong, g.String())
		case g.user == engine.Reader:
			if g.database == p.Database && (reads || g.right == "dictGet") ||
				g.right == "SELECT" && g.database == "system" && (g.table == "parts" || g.table == "parts_columns") {
				continue
			}
			wrong = append(wrong, g.String())
		case m != nil && m[2] == "":
			if !reads || g.database != g.user {
				wrong = append(wrong, g.String())
			}
		case m != nil:
			filtered := slices.Contains(names.Filtered, g.table) || g.table == names.Table
			if g.right != "SELECT" || g.database != p.Database || !filtered && !slices.Contains(names.Open, g.table) {
				wrong = append(wrong, g.String())
				continue
			}
			slot, _ := strconv.Atoi(m[1])
			mine := fmt.Sprintf("slot = '%s'", engine.SlotName(slot))
			if (filtered || a.tables[g.table]) && !strings.Contains(a.policies[[2]string{g.user, g.table}], mine) {
				wrong = append(wrong, fmt.Sprintf("%s reads the rows of all tenants in %s.%s", g.user, g.database, g.table))
			}
		default:
			wrong = append(wrong, g.String()+", and is no user of Warpline's")
		}
	}
	return wrong
}

// openViews are what a slot's database has beside views of its owner.
func openViews(a *access) (wrong []string) {
	for _, o := range a.objects {
		m := slotNames.FindStringSubmatch(o.database)
		if m == nil || m[2] != "" {
			continue
		}
		slot, _ := strconv.Atoi(m[1])
		if o.definer != engine.SlotOwner(slot) {
			wrong = append(wrong, fmt.Sprintf("%s.%s is read with the rights of %q, not of %s", o.database, o.name, o.definer,
				engine.SlotOwner(slot)))
		}
	}
	return wrong
}

// access reads who may read what.
func (p *Patient) access(ctx context.Context) (*access, error) {
	a := &access{policies: map[[2]string]string{}, tables: map[string]bool{}}
	for _, q := range []struct {
		sql  string
		each func(scan func(...any) error) error
	}{
		{"SELECT name FROM system.users ORDER BY name", func(scan func(...any) error) error {
			a.users = append(a.users, "")
			return scan(&a.users[len(a.users)-1])
		}},
		{"SELECT ifNull(user_name, role_name), toString(access_type), ifNull(database, ''), ifNull(table, '') FROM system.grants " +
			"WHERE NOT is_partial_revoke ORDER BY ALL", func(scan func(...any) error) error {
			g := grant{}
			err := scan(&g.user, &g.right, &g.database, &g.table)
			a.grants = append(a.grants, g)
			return err
		}},
		{"SELECT arrayJoin(apply_to_list), table, select_filter FROM system.row_policies WHERE database = $1",
			func(scan func(...any) error) error {
				var user, of, filter string
				err := scan(&user, &of, &filter)
				a.policies[[2]string{user, of}] = filter
				return err
			}},
		{"SELECT database, name, toString(definer) FROM system.tables WHERE database = $1 OR match(database, '^slot[0-9]+$') " +
			"ORDER BY ALL", func(scan func(...any) error) error {
			o := object{}
			err := scan(&o.database, &o.name, &o.definer)
			a.objects = append(a.objects, o)
			return err
		}},
		{"SELECT c.table FROM system.columns AS c JOIN system.tables AS t ON t.database = c.database AND t.name = c.table WHERE c.database = " +
			"$1 AND c.name = 'tenant' AND t.engine NOT LIKE '%View'", func(scan func(...any) error) error {
			var of string
			err := scan(&of)
			a.tables[of] = true
			return err
		}},
	} {
		var args []any
		if strings.Contains(q.sql, "$1") {
			args = append(args, p.Database)
		}
		rows, err := p.Writer.Query(ctx, q.sql, args...)
		if err != nil {
			return nil, fmt.Errorf("read who may read what: %w", err)
		}
		if err := each(rows, q.each); err != nil {
			return nil, fmt.Errorf("read who may read what: %w", err)
		}
	}
	return a, nil
}

func each(rows driver.Rows, do func(scan func(...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
