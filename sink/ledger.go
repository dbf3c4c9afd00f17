package sink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// ledgerKey is the ledger's own key among the attempts.
const ledgerKey = "ledger"

// ledgerOf makes the ledger's load of a span: one row for each table and ClickHouse partition that has rows, and one row without a table,
// which says what chunks the span has. So the ranges in the ledger follow each other without a gap.
func (l *lane) ledgerOf(s *span, p *pending) (*load, error) {
	t := table.Ledger
	b := table.NewBatch(t.Table)
	now := time.Now().UnixNano()
	chunks := ""
	row := func(name, token string, attempt int, of removal, counted bool) {
		known := uint8(0)
		if counted {
			known = 1
		}
		t.Append(b, &table.LedgerRow{
			Lane:          uint16(l.n),
			First:         p.First,
			Last:          p.Last,
			TableName:     name,
			Rows:          of.Rows,
			Token:         token,
			Attempt:       uint16(attempt),
			InsertedAt:    now,
			Day:           of.Day,
			RetentionDays: of.RetentionDays,
			Amount:        of.Amount,
			Counted:       known,
			Owner:         ownerOf(of.Tenant),
			Chunks:        chunks,
		})
	}
	for _, d := range s.tables {
		for _, p := range d.blocks {
			row(d.name, d.token, p.attempt, removal{Day: p.partition.Day, RetentionDays: p.partition.RetentionDays, Rows: p.rows, Amount: p.amount},
				!p.uncounted)
		}
	}
	for _, r := range p.Removed {
		row(r.Table, erasedToken, 0, r, true)
	}
	if p.Removed == nil { // recorded by an older sink
		gone := map[string]uint64{}
		for _, e := range p.Erased {
			gone[e.Table] += e.Rows
		}
		for _, name := range slices.Sorted(maps.Keys(gone)) {
			row(name, erasedToken, 0, removal{Rows: gone[name]}, false)
		}
	}
	chunks = s.chunks()
	row("", "", 0, removal{}, false)
	schema, body, err := b.Encode(nil)
	if err != nil {
		return nil, fmt.Errorf("encode ledger: %w", err)
	}
	sql, err := insertSQL(l.k.cfg.Database, t.Name, schema)
	if err != nil {
		return nil, err
	}
	rows := uint64(b.Rows())
	out := &load{table: t.Table, name: t.Name, fingerprint: t.Fingerprint(), schema: schema, rows: rows, sql: sql,
		token:  token(l.marks.mark.Generation, l.n, p.First, p.Last, t.Name, t.Fingerprint()),
		blocks: []*block{{key: ledgerKey, batches: []batch{{plain: body}}, rows: rows, attempt: p.Attempts[ledgerKey]}}}
	out.verify = func(ctx context.Context) ([]*block, error) {
		if l.k.cfg.Replicated {
			if err := l.k.native.Exec(ctx, "SYSTEM SYNC REPLICA "+name(l.k.cfg.Database)+".ledger"); err != nil {
				return nil, fmt.Errorf("wait for the replica: %w", err)
			}
		}
		// The ages of stream and generation distinguish these ranges from ranges of other messages.
		var n uint64
		sql := fmt.Sprintf("SELECT count() FROM %s.ledger WHERE lane = %d AND first = %d AND last = %d AND inserted_at >= "+
			"fromUnixTimestamp64Nano(%d)",
			name(l.k.cfg.Database), l.n, p.First, p.Last, l.marks.mark.since())
		if err := l.k.native.QueryRow(ctx, sql).Scan(&n); err != nil {
			return nil, fmt.Errorf("verify ledger: %w", err)
		}
		if n > 0 {
			return nil, nil
		}
		return out.blocks, nil
	}
	return out, nil
}

// ownerOf is what the ledger has for a tenant whose rows were deleted: after a purge nothing may name the tenant.
func ownerOf(tenant string) string {
	if tenant == "" {
		return ""
	}
	return stream.SessionToken(tenant)
}

// ownerSQL is ownerOf of a row's tenant.
const ownerSQL = "substring(lower(hex(SHA256(toString(tenant)))), 1, 32)"

// chunks names the chunks of a span as the ledger has them: "3:100-102 7:55-55", by partition of ROWS. Numbers of a partition rise within a
// span. Those in between that the span does not have are nowhere else.
func (s *span) chunks() string {
	var b strings.Builder
	first, last := map[int]uint64{}, map[int]uint64{}
	for i := range s.messages {
		c := &s.messages[i].chunk
		if s.messages[i].skip {
			continue
		}
		if first[c.Partition] == 0 {
			first[c.Partition] = c.Number
		}
		last[c.Partition] = c.Number
	}
	for _, p := range slices.Sorted(maps.Keys(first)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:%d-%d", p, first[p], last[p])
	}
	return b.String()
}

// ledgered returns the last sequence that the ledger has of this lane in the present stream: there a mark that was lost begins anew.
func (l *lane) ledgered(ctx context.Context, created int64, lastSeq uint64) (last uint64, err error) {
	ask, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	sql := fmt.Sprintf("SELECT max(last) FROM %s.ledger WHERE lane = %d AND last <= %d AND inserted_at >= fromUnixTimestamp(%d)",
		name(l.k.cfg.Database), l.n, lastSeq, created)
	if err := l.k.native.QueryRow(ask, sql).Scan(&last); err != nil {
		l.retry("read the ledger", err)
		return 0, fmt.Errorf("read the ledger: %w", err)
	}
	l.k.health.ok(l.n)
	return last, nil
}
