package sink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// ledgerKey is the ledger's own key among the attempts.
const ledgerKey = "ledger"

// ledgerOf makes the ledger's load of a span: one row for each table that has rows, or one row without a table, so that the ranges in the
// ledger follow each other without a gap.
func (l *lane) ledgerOf(s *span, p *pending) (*load, error) {
	t := table.Ledger
	b := table.NewBatch(t.Table)
	now := time.Now().UnixNano()
	row := func(name string, rows uint64, token string, attempt int) {
		t.Lane.Append(b, uint16(l.n))
		t.First.Append(b, p.First)
		t.Last.Append(b, p.Last)
		t.TableName.AppendString(b, name)
		t.Rows.Append(b, rows)
		t.Token.Append(b, token)
		t.Attempt.Append(b, uint16(attempt))
		t.InsertedAt.Append(b, now)
	}
	for _, d := range s.tables {
		attempt := 0
		for _, p := range d.parts {
			attempt = max(attempt, p.attempt)
		}
		row(d.name, d.rows, d.token, attempt)
	}
	gone := map[string]uint64{}
	for _, e := range p.Erased {
		gone[e.Table] += e.Rows
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		row(name, gone[name], erasedToken, 0)
	}
	if len(s.tables) == 0 {
		row("", 0, "", 0)
	}
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
		token: token(l.marks.mark.Generation, l.n, p.First, p.Last, t.Name, t.Fingerprint()),
		parts: []*part{{key: ledgerKey, pieces: []piece{{plain: body}}, rows: rows, attempt: p.Attempts[ledgerKey]}}}
	out.verify = func(ctx context.Context) ([]*part, error) {
		if l.k.cfg.Replicated {
			if err := l.k.native.Exec(ctx, "SYSTEM SYNC REPLICA "+name(l.k.cfg.Database)+".ledger"); err != nil {
				return nil, fmt.Errorf("wait for the replica: %w", err)
			}
		}
		// The age of stream and generation tells these ranges from those of other messages.
		var n uint64
		sql := fmt.Sprintf("SELECT count() FROM %s.ledger WHERE lane = %d AND first = %d AND last = %d AND inserted_at >= fromUnixTimestamp64Nano(%d)",
			name(l.k.cfg.Database), l.n, p.First, p.Last, l.marks.mark.since())
		if err := l.k.native.QueryRow(ctx, sql).Scan(&n); err != nil {
			return nil, fmt.Errorf("verify ledger: %w", err)
		}
		if n > 0 {
			return nil, nil
		}
		return out.parts, nil
	}
	return out, nil
}

// ledgered returns the last sequence that the ledger knows of this lane in the present stream: where a mark that was lost begins.
func (l *lane) ledgered(ctx context.Context, created int64, lastSeq uint64) (last uint64, err error) {
	ask, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	sql := fmt.Sprintf("SELECT max(last) FROM %s.ledger WHERE lane = %d AND last <= %d AND inserted_at >= fromUnixTimestamp(%d)", name(l.k.cfg.Database), l.n, lastSeq, created)
	if err := l.k.native.QueryRow(ask, sql).Scan(&last); err != nil {
		l.retry("read the ledger", err)
		return 0, fmt.Errorf("read the ledger: %w", err)
	}
	l.k.health.ok(l.n)
	return last, nil
}
