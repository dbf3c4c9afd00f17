package rejects

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// Picked is what a filter picks of a tenant.
type Picked struct {
	Tenant string `json:"tenant"`
	Rows   uint64 `json:"rows"`
	Bytes  uint64 `json:"bytes"` // kept, in ClickHouse and in NATS
}

// idSQL is what the view rejects has as reject_id.
const idSQL = "substring(lower(hex(sipHash128(toString(tenant), toString(session_id), at, toString(source), toString(reason), detail, " +
	"toString(type), payload, rows_partition, chunk))), 1, 16)"

// Literal is the filter as a condition on rows of rejects_data. Limit does not belong to it.
func (f Filter) Literal() (string, error) {
	where, args := f.where()
	var out strings.Builder
	for _, part := range strings.SplitAfter(where, "?") {
		text, ends := strings.CutSuffix(part, "?")
		out.WriteString(strings.ReplaceAll(text, "reject_id", idSQL))
		if !ends {
			continue
		}
		if len(args) == 0 {
			return "", fmt.Errorf("BUG: the filter %q has more places than values", where)
		}
		switch v := args[0].(type) {
		case string:
			out.WriteString(table.Quote(v))
		case int64:
			fmt.Fprint(&out, v)
		default:
			return "", fmt.Errorf("BUG: the filter %q has a value of type %T", where, v)
		}
		args = args[1:]
	}
	return out.String(), nil
}

// Ambiguous is that an id picks several rejects.
type Ambiguous struct {
	ID string
	N  uint64 // of them
}

// Error implements error.
func (a Ambiguous) Error() string {
	return fmt.Sprintf("%d rejects begin with %q: name more of the id, as \"warpline reject list\" shows it", a.N, a.ID)
}

// Count returns what a filter picks, by tenant. The id of a reject, or how it begins, must pick no other. conn's database is Warpline's.
func Count(ctx context.Context, streams *broker.Streams, conn driver.Conn, f Filter) (all []Picked, err error) {
	for _, id := range f.IDs {
		var n uint64
		one := f
		one.IDs = []string{id}
		where, args := one.where()
		sql := "SELECT uniqExact(reject_id, tenant) FROM rejects WHERE " + where
		if err := conn.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
			return nil, fmt.Errorf("count rejects: %w", err)
		}
		if n > 1 {
			return nil, Ambiguous{id, n}
		}
	}
	where, err := f.Literal()
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT toString(tenant) AS owner, count(), sum(length(payload)) FROM rejects_data WHERE "+where+
		" GROUP BY owner ORDER BY owner")
	if err != nil {
		return nil, fmt.Errorf("count rejects: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Picked
		if err := rows.Scan(&p.Tenant, &p.Rows, &p.Bytes); err != nil {
			return nil, fmt.Errorf("count rejects: %w", err)
		}
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count rejects: %w", err)
	}
	return all, countInNATS(ctx, streams, conn, where, all)
}

// countInNATS adds the bytes that NATS has of what a condition picks.
func countInNATS(ctx context.Context, streams *broker.Streams, conn driver.Conn, where string, all []Picked) error {
	objects, err := sink.KeptObjects(ctx, streams)
	if err != nil || len(objects) == 0 || len(all) == 0 {
		return err
	}
	rows, err := conn.Query(ctx, "SELECT DISTINCT toString(tenant), payload_ref FROM rejects_data WHERE startsWith(payload_ref, '"+
		stream.ObjectRef+"') AND ("+where+")")
	if err != nil {
		return fmt.Errorf("count rejects: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var of, ref string
		if err := rows.Scan(&of, &ref); err != nil {
			return fmt.Errorf("count rejects: %w", err)
		}
		if o := objects[ref]; o != nil {
			if i := slices.IndexFunc(all, func(p Picked) bool { return p.Tenant == of }); i >= 0 { // rows may have come since
				all[i].Bytes += o.Size
			}
		}
	}
	return rows.Err()
}
