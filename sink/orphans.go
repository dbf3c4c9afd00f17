package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # Contents
//
// Source lines, instructions and PTX are stored once for all sessions of a tenant, and sessions have links to them. When a deletion has
// taken links, the contents to which no link of the tenant refers any more are deleted.
//
//   - The links of a span are inserted before its contents (order), so every content that is there has its link, whichever session sent it,
//     and one without a link is not needed: what another lane inserts at this moment is safe, see [table.Table.DeleteOrphansSQL].
//   - Only the tenants concerned are remembered, and they follow from the counts in the mark: after a crash the orphans are still there and
//     are found again. If two lanes delete the last two sessions of a content at the same time, each may first see the other's link; then
//     the lane whose links go last finds the orphan.
//   - Marks of contents (content 0) do not have links. A session's deletion leaves them, a purge takes them like rows of other tables.
//   - A zombie can bring contents back without their links. Looking again finds them too.

// unlinked returns the tenants of deletions that took links, according to the counts that were written before.
func (k *Sink) unlinked(deletes []stream.Deletion, gone []erasure) (tenants []string) {
	for i := range deletes {
		d := &deletes[i]
		links := d.Session == "" // a purge of a tenant also finds what others left
		for _, e := range gone {
			links = links || e.Deletion == i && k.isLinks(e.Table)
		}
		if links && !slices.Contains(tenants, d.Tenant) {
			tenants = append(tenants, d.Tenant)
		}
	}
	return tenants
}

func (k *Sink) isLinks(name string) bool {
	return slices.ContainsFunc(k.cfg.Schema.Tables(), func(t *table.Table) bool { return t.LinkedBy == name })
}

// deleteOrphans deletes the contents of a tenant to which no session has a link, and adds how many rows there were to gone, by table.
func (k *Sink) deleteOrphans(ctx context.Context, tenant string, gone map[string]uint64) error {
	deadline := time.Now().Add(queryTimeout)
	for _, t := range k.cfg.Schema.Tables() {
		if t.LinkedBy == "" {
			continue
		}
		least, stuck := uint64(0), 0
		for round := 0; ; round++ {
			// Rewrites that are running may be of links, or of these orphans.
			if err := k.awaitMutations(ctx, deadline); err != nil {
				return err
			}
			rows, sql, err := k.orphansIn(ctx, t, tenant, k.cfg.Cluster != "" && round == 0)
			if err != nil {
				return err
			}
			if round == 0 && rows > 0 {
				gone[t.Name] += rows
			}
			if sql == "" {
				break
			}
			if round == 0 || rows < least {
				least, stuck = rows, 0
			} else if stuck++; stuck > 3 {
				return fmt.Errorf("clickhouse says that it has deleted the orphans in %s, and still has them: was the mutation killed? see "+
					"system.mutations", t.Name)
			}
			try, cancel := context.WithTimeout(ctx, queryTimeout)
			err = k.native.Exec(longSQL(try), sql)
			cancel()
			if err != nil {
				return fmt.Errorf("delete from %s: %w", t.Name, err)
			}
		}
	}
	return nil
}

// orphansIn returns how many rows of orphans a table has and what deletes them, "" when there are none.
func (k *Sink) orphansIn(ctx context.Context, t *table.Table, tenant string, anyway bool) (rows uint64, sql string, err error) {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout) // it may read all that the tenant has
	defer cancel()
	o := k.options()
	wait := func(of string) error {
		if err := k.native.Exec(ctx, "SYSTEM SYNC REPLICA "+name(k.cfg.Database)+"."+name(of)); err != nil {
			return fmt.Errorf("wait for the replica: %w", err)
		}
		return nil
	}
	if k.cfg.Replicated {
		if err := errors.Join(wait(t.Name), wait(t.LinkedBy)); err != nil {
			return 0, "", err
		}
	}
	if err := k.native.QueryRow(ctx, t.OrphanRowsSQL(o, tenant)).Scan(&rows); err != nil {
		return 0, "", fmt.Errorf("count orphans in %s: %w", t.Name, err)
	}
	if rows == 0 && !anyway {
		return 0, "", nil
	}
	if !k.cfg.Replicated {
		return rows, t.DeleteOrphansSQL(o, tenant, nil), nil
	}
	// Contents are read first, then this replica waits for all links that are older than that, and only then it reads the links.
	orphans, err := k.contents(ctx, t.OrphansSQL(o, tenant))
	if err != nil || len(orphans) == 0 {
		return rows, "", err
	}
	if err := wait(t.LinkedBy); err != nil {
		return 0, "", err
	}
	linked, err := k.contents(ctx, t.LinkedSQL(o, tenant, orphans))
	if err != nil {
		return 0, "", err
	}
	has := make(map[table.Content]bool, len(linked))
	for _, c := range linked {
		has[c] = true
	}
	orphans = slices.DeleteFunc(orphans, func(c table.Content) bool { return has[c] })
	if len(orphans) == 0 {
		return rows, "", nil
	}
	return rows, t.DeleteOrphansSQL(o, tenant, orphans), nil
}

func (k *Sink) contents(ctx context.Context, sql string) (out []table.Content, err error) {
	rows, err := k.native.Query(longSQL(ctx), sql)
	if err != nil {
		return nil, fmt.Errorf("look for contents: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var c table.Content
		if err := rows.Scan(&c.Hi, &c.Lo); err != nil {
			return nil, fmt.Errorf("look for contents: %w", err)
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for contents: %w", err)
	}
	return out, nil
}
