package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// Source lines, instructions and PTX are stored once per content, for all sessions of a tenant that sent it. With a session go those that no
// other session has. What follows from the tables alone can be asked and done again, so a lane that is killed here begins anew.
//
// A content that a session in another lane brought as well, within the last two days, may stay until the tenant's next deletion: its
// row may be that session's, whose link is on its way.

// maxOrphans contents go with one statement.
const maxOrphans = 1000

// linked returns which of doomed are sessions that had artifacts, by what was counted before they were deleted.
func linked(doomed []table.Doomed, erased []erasure) (out []table.Doomed) {
	had := map[int]bool{}
	for _, e := range erased {
		had[e.Deletion] = had[e.Deletion] || e.Table == table.SessionSources.Name || e.Table == table.SessionFunctions.Name
	}
	for i, d := range doomed {
		if had[i] && d.Session != "" { // a purge takes the contents with the rest
			out = append(out, d)
		}
	}
	return out
}

// deleteOrphans returns nil when the tenants of sessions have no contents any more that nobody links to.
func (k *Sink) deleteOrphans(ctx context.Context, sessions []table.Doomed) error {
	deadline := time.Now().Add(queryTimeout)
	done := map[string]bool{}
	for _, d := range sessions {
		if done[d.Tenant] {
			continue
		}
		done[d.Tenant] = true
		for _, t := range table.All() {
			if t.Links() == nil {
				continue
			}
			for last := ([][2]uint64)(nil); ; {
				found, err := k.orphans(ctx, t, d)
				if err != nil {
					return err
				}
				if len(found) == 0 {
					break
				}
				if len(last) > 0 && found[0] == last[0] {
					return errors.New("clickhouse says that it has deleted contents, and still has them: was the mutation killed? see system.mutations")
				}
				last = found
				try, cancel := context.WithTimeout(ctx, queryTimeout)
				err = k.native.Exec(longSQL(try), t.DeleteOrphansSQL(k.options(), d, found))
				cancel()
				if err != nil {
					return fmt.Errorf("delete from %s: %w", t.Name, err)
				}
				if err := k.awaitMutations(ctx, deadline); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (k *Sink) orphans(ctx context.Context, t *table.Table, d table.Doomed) (out [][2]uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := k.native.Query(ctx, t.OrphansSQL(k.options(), d, maxOrphans))
	if err != nil {
		return nil, fmt.Errorf("look for contents in %s: %w", t.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var c [2]uint64
		if err := rows.Scan(&c[0], &c[1]); err != nil {
			return nil, fmt.Errorf("look for contents in %s: %w", t.Name, err)
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for contents in %s: %w", t.Name, err)
	}
	return out, nil
}
