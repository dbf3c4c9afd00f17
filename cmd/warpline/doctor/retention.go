package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warpline/warpline/proto/tenant"
)

// retentionClasses looks for what names a class that no gateway has, and for more numbers of days than there is room for.
func (p *Patient) retentionClasses(ctx context.Context) (found, fix string, err error) {
	if len(p.Classes) == 0 {
		return "no gateway has stored its classes", "start a gateway of this version", nil
	}
	var unknown []string
	days := map[tenant.Class]bool{}
	look := func(who string, l tenant.Limits) {
		if l.RetentionClass != "" {
			if _, ok := p.Classes.Named(l.RetentionClass); ok {
				return
			}
			unknown = append(unknown, fmt.Sprintf("%s of %s", l.RetentionClass, who))
		}
		if l.RetentionDays == 0 && l.RollupDays == 0 {
			return
		}
		d := tenant.Class{Raw: cmp.Or(l.RetentionDays, p.Classes[0].Raw), Rollup: cmp.Or(l.RollupDays, p.Classes[0].Rollup)}
		if !slices.ContainsFunc(p.Classes, d.Same) {
			days[d] = true
		}
	}
	for i := range p.Tenants {
		look("tenant "+p.Tenants[i].Name, p.Tenants[i].Limits)
	}
	for i := range p.Keys {
		if ok, _ := p.Keys[i].Valid(p.Now()); ok {
			look("key "+p.Keys[i].ID, p.Keys[i].Limits)
		}
	}
	var stored uint64
	// A ClickHouse partition is (day, days) or (month, days).
	if err := p.Conn.QueryRow(ctx, `SELECT max(n) FROM (SELECT uniqExact(extract(partition, ',(\\d+)\\)$')) AS n FROM system.parts
		WHERE active AND database = $1 AND partition LIKE '(%,%)' GROUP BY table)`, p.Database).Scan(&stored); err != nil {
		return "", "", err
	}
	found = fmt.Sprintf("%s; %d other pairs of days of keys and tenants; rows of up to %d numbers of days in a table", p.Classes, len(days),
		stored)
	switch {
	case len(unknown) > 0:
		return found, "no gateway has class " + strings.Join(unknown, ", ") + ": give it to the gateways with --retention-class, or name " +
			"another with \"warpline tenant set\" or \"key set\"", nil
	case len(days) > 0 && len(p.Classes)+len(days) > tenant.MaxClasses:
		fix = fmt.Sprintf("a service has at most %d pairs of days, so the newest keys keep rows as long as the next longer class: give them "+
			"classes with \"warpline key set ID --retention-class NAME\"", tenant.MaxClasses)
	case stored > tenant.MaxClasses:
		fix = fmt.Sprintf("more than %d ClickHouse partitions a day and table make inserts dear: nothing to do where classes were changed, the "+
			"old ones go as rows expire", tenant.MaxClasses)
	}
	return found, fix, nil
}
