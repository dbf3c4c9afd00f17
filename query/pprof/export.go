// Package pprof writes PC samples and kernels as profiles that go tool pprof and other viewers of its format read, or as folded stacks, of
// which flame graphs are drawn. It reads the views of the SQL contract, and what it writes adds up to what they say.
//
// Start with Write.
package pprof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/query/report"
)

// Type says what a profile is of.
type Type string

// PC is samples of program counters, of kind stall alone: values are samples (count) and gpu_ns (nanoseconds, an estimate). Kernels is
// kernels that ran: values are calls (count) and duration (nanoseconds, measured).
const (
	PC      Type = "pc"
	Kernels Type = "kernels"
)

// Query says what to write. The zero value is not valid: Type has to be set.
type Query struct {
	Database string // "" is warpline
	Type     Type
	report.Selection
	Folded bool // text instead of a profile: a stack a line with its samples, or its nanoseconds for kernels
}

// Totals are what was written.
type Totals struct {
	Stacks uint64 // rows of the profile, lines of the text
	Count  uint64 // samples or calls
	NS     uint64 // gpu_ns or duration
}

// ErrTooMany is that a profile would not fit in memory. Folded stacks are written as they are read and do not have this limit.
var ErrTooMany = errors.New("too many different stacks")

// maxSamples bounds the rows of a profile, which is held in memory until it is written: about 300 bytes each.
const maxSamples = 500_000

// readTime is how long ClickHouse may take to answer.
const readTime = 10 * time.Minute

// Write reads what q selects and writes it to w: a profile, compressed, once everything is read; folded stacks one by one. When nothing is
// selected nothing is written. conn may be a user that only reads; it stays open.
func Write(ctx context.Context, conn driver.Conn, w io.Writer, q Query) (Totals, error) {
	if q.Database == "" {
		q.Database = "warpline"
	}
	var sql string
	var args []any
	switch q.Type {
	case PC:
		sql, args = samplesSQL(q)
	case Kernels:
		sql, args = kernelsSQL(q)
	default:
		return Totals{}, fmt.Errorf("profile type %q: pc and kernels are known", q.Type)
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_execution_time": int(readTime / time.Second)}))
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return Totals{}, fmt.Errorf("read %s: %w", q.Type, err)
	}
	defer rows.Close()
	var to sink = newBuilder(q.Type)
	if q.Folded {
		to = newFolder(w, q.Type)
	}
	s := &splitter{to: to}
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.place.Tenant, &r.place.BuildID, &r.place.Cubin, &r.place.Function, &r.place.Offset, &r.place.SASS,
			&r.place.Reason, &r.Line.File, &r.Line.Number, &r.Line.Chain, &r.Line.Demangled, &r.Stack, &r.HasStack, &r.Count, &r.NS,
			&r.First, &r.Last); err != nil {
			return Totals{}, fmt.Errorf("read %s: %w", q.Type, err)
		}
		if err := s.add(&r); err != nil {
			return Totals{}, err
		}
	}
	if err := rows.Err(); err != nil {
		return Totals{}, fmt.Errorf("read %s: %w", q.Type, err)
	}
	if err := s.flush(); err != nil || s.totals.Stacks == 0 {
		return s.totals, err
	}
	return s.totals, to.finish(w, s.first, s.last)
}

// number is n as a profile has it.
func number(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
