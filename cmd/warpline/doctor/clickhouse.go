package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/warpline/warpline/sink/table"
)

// oldest is the first version of ClickHouse that knows every setting of the tables.
const oldestMajor, oldestMinor = 25, 11

func (p *Patient) version(ctx context.Context) (found, fix string, err error) {
	if err := p.Conn.QueryRow(ctx, "SELECT version()").Scan(&found); err != nil {
		return "", "", err
	}
	var major, minor int
	if _, err := fmt.Sscanf(found, "%d.%d", &major, &minor); err != nil {
		return "", "", fmt.Errorf("version %q: %w", found, err)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		fix = fmt.Sprintf("use %d.%d or newer: older ones do not know all settings of the tables, which take more room there", oldestMajor,
			oldestMinor)
	}
	return found, fix, nil
}

// schema compares the tables with those of this program.
func (p *Patient) schema(ctx context.Context) (found, fix string, err error) {
	want := map[string]bool{}
	o := table.Options{Database: p.Database}
	for _, t := range p.Schema.Tables() {
		for i := range t.Columns {
			want[t.Name+"."+t.Columns[i].Name] = true
		}
	}
	views := p.Schema.Views(o)
	for _, v := range views {
		want[v.Name] = true
	}
	rows, err := p.Conn.Query(ctx, "SELECT concat(table, '.', name) FROM system.columns WHERE database = $1 UNION ALL SELECT name FROM "+
		"system.tables WHERE database = $1", p.Database)
	if err != nil {
		return "", "", err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return "", "", err
		}
		delete(want, name)
	}
	if err := rows.Err(); err != nil {
		return "", "", err
	}
	found = fmt.Sprintf("%d tables and %d views", len(p.Schema.Tables()), len(views))
	if len(want) > 0 {
		one := ""
		for name := range want {
			if one == "" || name < one {
				one = name
			}
		}
		found += fmt.Sprintf("; %d columns or views of this version are not there, such as %s", len(want), one)
		fix = "start a sink of this version: it adds them"
	}
	return found, fix, nil
}

// dedupWindow looks for tables that forget the tokens of inserts too early: an insert that is made again would count twice.
func (p *Patient) dedupWindow(ctx context.Context) (found, fix string, err error) {
	rows, err := p.Conn.Query(ctx, "SELECT name FROM system.tables WHERE database = $1 AND engine LIKE '%MergeTree' AND "+
		"(NOT match(engine_full, 'non_replicated_deduplication_window = 10000\\\\b') OR "+
		"NOT match(engine_full, '[^_]replicated_deduplication_window = 10000\\\\b')) AND name NOT IN "+
		"('schema_history', 'slots', 'closed_tenants') ORDER BY name", p.Database)
	if err != nil {
		return "", "", err
	}
	defer rows.Close()
	var short []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return "", "", err
		}
		short = append(short, name)
	}
	if err := rows.Err(); err != nil {
		return "", "", err
	}
	if len(short) == 0 {
		return "10000 inserts for each table", "", nil
	}
	return "another one: " + strings.Join(short, ", "), "ALTER TABLE … MODIFY SETTING non_replicated_deduplication_window = 10000, " +
		"replicated_deduplication_window = 10000", nil
}

// openSQL tries to read as ClickHouse's user default, without a password.
func (p *Patient) openSQL(ctx context.Context) (found, fix string, err error) {
	if p.HTTP == "" {
		return "the HTTP address of ClickHouse is not known", "", nil
	}
	q := url.Values{"query": {"SELECT count() FROM `" + p.Database + "`.sessions_data"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP+"/?"+q.Encode(), nil)
	if err != nil {
		return "", "", err
	}
	req.Header.Set("X-ClickHouse-User", "default")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", fmt.Errorf("%w: is that ClickHouse's HTTP address (--clickhouse-http)?", err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "without a password nobody reads", "", nil
	}
	found = "user default reads all tenants' rows without a password"
	host, _, _ := net.SplitHostPort(p.HTTP)
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return found + ", on loopback", "", nil
	}
	return found, "give it a password, or listen on loopback", nil
}
