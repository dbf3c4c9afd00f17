package sink

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// # Every row's chunk against the ledger
//
// Each row has the number of its chunk, and each range of the ledger says which chunks it inserted and how many rows of each table. So the
// rows of a table, counted by chunk, must come to what each range says: none missing, none twice, and none of a chunk that no range has.
// Tables that merge rows cannot be looked at in this way.

// DeepReport is a range of the ledger of which a table has too few rows or too many.
type DeepReport struct {
	Table       string
	Day         string // of arrival; of tables that are kept by month, the month
	Lane        int
	First, Last uint64 // of ROWS, as the ledger has them; 0: rows of chunks that no range has
	Chunks      string
	Missing     int64  // below 0: so many are too many
	Tenants     string // whom the books say it is, "" when they do not
}

// String says what is wrong.
func (d DeepReport) String() string {
	where := fmt.Sprintf("range %d to %d of lane %d (chunks %s)", d.First, d.Last, d.Lane, d.Chunks)
	if d.First == 0 {
		where = "chunks " + d.Chunks + ", which no range of the ledger has"
	}
	what := fmt.Sprintf("%d rows are missing", d.Missing)
	if d.Missing < 0 {
		what = fmt.Sprintf("%d rows too many", -d.Missing)
	}
	who := ""
	if d.Tenants != "" {
		who = "; by the books of " + d.Tenants
	}
	return fmt.Sprintf("table %s, received in %s, %s: %s%s", d.Table, d.Day, where, what, who)
}

// Deep is what AuditDeep found.
type Deep struct {
	Ranges   int    // of the ledger that were compared
	Rows     uint64 // that were looked at
	Unproven uint64 // rows of ranges that older sinks inserted, whose chunks the ledger does not have
	Wrong    []DeepReport
	Chunks   []string // chunks that are in two ranges
}

// maxSpans bounds the ranges that AuditDeep holds in memory, some 200 bytes each.
const maxSpans = 4 << 20

// maxDeepReports bounds the ranges that are named of one table.
const maxDeepReports = 20

// spanOf is one range of chunks of one ROWS partition, and which span inserted it.
type spanOf struct {
	first, last uint64
	span        int
}

// spans are the ranges of the ledger, and their chunks by partition of ROWS.
type spans struct {
	lane        []uint16
	first, last []uint64
	chunkText   []string
	chunks      map[uint16][]spanOf
}

// What find says of a chunk that no range has.
const (
	beforeAll = -1 - iota // older than the first range whose chunks the ledger has
	afterAll              // its range was not in the ledger yet
	between
)

// find returns the span that inserted a chunk, or why there is none.
func (s *spans) find(partition uint16, chunk uint64) int {
	of := s.chunks[partition]
	switch {
	case len(of) == 0 || chunk < of[0].first:
		return beforeAll
	case chunk > of[len(of)-1].last:
		return afterAll
	}
	i, _ := slices.BinarySearchFunc(of, chunk, func(r spanOf, c uint64) int { return cmp.Compare(r.last, c) })
	if of[i].first > chunk {
		return between
	}
	return of[i].span
}

// AuditDeep compares every row of the tables that keep rows one by one with the ledger. conn's database is Warpline's. books is what
// AuditBooks found, which knows the tenants.
func AuditDeep(ctx context.Context, conn driver.Conn, schema *table.Schema, of Scope, books []BookReport) (Deep, error) {
	var d Deep
	s, err := readSpans(ctx, conn, of, &d)
	if err != nil {
		return d, fmt.Errorf("read the ledger: %w", err)
	}
	d.Ranges = len(s.first)
	for _, t := range schema.Tables() {
		if t.Engine != "MergeTree" || t.Retention == table.Static || t.Column("rows_partition") == nil {
			continue
		}
		var wrong []DeepReport
		for try := 1; ; try++ {
			before := wrong
			wrong, err = s.lookAt(ctx, conn, t, of, &d, try == 1)
			if err != nil {
				return d, fmt.Errorf("rows of %s: %w", t.Name, err)
			}
			wrong = slices.DeleteFunc(wrong, func(r DeepReport) bool { return try > 1 && !slices.Contains(before, r) })
			if len(wrong) == 0 || try >= settleTries {
				break
			}
			if !sleep(ctx, 400*time.Millisecond) {
				return d, ctx.Err()
			}
		}
		for i := range wrong {
			wrong[i].Tenants = whoseBooks(books, &wrong[i])
		}
		d.Wrong = append(d.Wrong, wrong...)
	}
	return d, nil
}

// whoseBooks names the tenants whose books of that table and day are wrong.
func whoseBooks(books []BookReport, d *DeepReport) string {
	var names []string
	for _, b := range books {
		if b.Problem != "" && b.Table == d.Table && b.Day == d.Day {
			names = append(names, b.Tenant+" ("+b.Problem+")")
		}
	}
	if len(names) > 5 {
		names = append(names[:5], fmt.Sprintf("%d more", len(names)-5))
	}
	return strings.Join(names, ", ")
}

// readSpans reads the ranges that were inserted since the scope's first day, in the order of their lanes.
func readSpans(ctx context.Context, conn driver.Conn, of Scope, d *Deep) (*spans, error) {
	s := &spans{chunks: map[uint16][]spanOf{}}
	var lane uint16
	var first, last uint64
	var chunks string
	var bad error
	sql := fmt.Sprintf("SELECT lane, first, last, chunks FROM ledger WHERE table = '' AND chunks != '' AND toInt32(toUInt16(toDate("+
		"inserted_at))) >= %d ORDER BY lane, inserted_at, last LIMIT %d", of.From, maxSpans+1)
	err := each(ctx, conn, sql, []any{&lane, &first, &last, &chunks}, func() {
		n := len(s.first)
		s.lane, s.first, s.last = append(s.lane, lane), append(s.first, first), append(s.last, last)
		s.chunkText = append(s.chunkText, chunks)
		for _, c := range strings.Fields(chunks) {
			p, r, err := parseChunks(c)
			if err != nil {
				bad = fmt.Errorf("lane %d, range %d to %d: %w", lane, first, last, err)
			}
			r.span = n
			s.chunks[p] = append(s.chunks[p], r)
		}
	})
	if err == nil && len(s.first) > maxSpans {
		err = fmt.Errorf("more than %d ranges: look at fewer days, with --from", maxSpans)
	}
	if err == nil {
		err = bad
	}
	for p, of := range s.chunks {
		slices.SortFunc(of, func(a, b spanOf) int { return cmp.Compare(a.first, b.first) })
		for i := 1; i < len(of); i++ {
			if of[i].first <= of[i-1].last && len(d.Chunks) < maxDeepReports {
				d.Chunks = append(d.Chunks, fmt.Sprintf("chunks %d to %d of partition %d are in two ranges of the ledger", of[i].first,
					min(of[i].last, of[i-1].last), p))
			}
		}
	}
	return s, err
}

// parseChunks reads "3:100-102".
func parseChunks(text string) (partition uint16, r spanOf, err error) {
	p, rest, ok := strings.Cut(text, ":")
	from, to, also := strings.Cut(rest, "-")
	n, err1 := strconv.ParseUint(p, 10, 16)
	first, err2 := strconv.ParseUint(from, 10, 64)
	last, err3 := strconv.ParseUint(to, 10, 64)
	if !ok || !also || err1 != nil || err2 != nil || err3 != nil || last < first {
		return 0, r, fmt.Errorf("%q names no chunks: was the ledger changed by hand?", text)
	}
	return uint16(n), spanOf{first: first, last: last}, nil
}

// spanDay is what one span brought of one day.
type spanDay struct {
	span int
	day  int32
}

// lookAt counts the rows of a table by chunk and compares.
func (s *spans) lookAt(ctx context.Context, conn driver.Conn, t *table.Table, of Scope, d *Deep, count bool) (out []DeepReport, err error) {
	today := table.DayOf(time.Now().UnixNano())
	missing := map[spanDay]int64{}
	shortest, deleted := map[int32]uint16{}, map[int32]int64{}
	var lane, class uint16
	var first, last, rows uint64
	var day int32
	const dayOf = "toInt32(toUInt16(day))"
	sql := fmt.Sprintf("SELECT %s AS d, toUInt16(min(retention_days)), sumIf(rows, token = '%s' AND lane != %d) FROM ledger WHERE "+
		"table = '%s'%s GROUP BY d", dayOf, erasedToken, renewalLane, t.Name, of.days(t, dayOf))
	if err := each(ctx, conn, sql, []any{&day, &class, &rows}, func() {
		shortest[day], deleted[day] = class, int64(rows)
	}); err != nil {
		return nil, err
	}
	gone := func(day int32) bool { // rows of it may have expired
		return day <= today-(ledgerDays-2) || day+max(int32(shortest[day])-1, 1) <= today
	}
	type key struct {
		lane        uint16
		first, last uint64
	}
	index := make(map[key]int, len(s.first))
	for i := range s.first {
		index[key{s.lane[i], s.first[i], s.last[i]}] = i
	}
	sql = fmt.Sprintf("SELECT lane, first, last, %s AS d, sum(rows) FROM ledger WHERE table = '%s' AND token != '%s' AND lane != %d%s GROUP "+
		"BY lane, first, last, d", dayOf, t.Name, erasedToken, renewalLane, of.days(t, dayOf))
	if err := each(ctx, conn, sql, []any{&lane, &first, &last, &day, &rows}, func() {
		if i, ok := index[key{lane, first, last}]; ok && !gone(day) {
			missing[spanDay{i, day}] += int64(rows)
		}
	}); err != nil {
		return nil, err
	}
	var partition uint16
	var chunk uint64
	stray := map[int32]*DeepReport{}
	sql = fmt.Sprintf("SELECT rows_partition, chunk, %s AS d, count() FROM %s WHERE 1%s GROUP BY rows_partition, chunk, d", t.DaySQL(),
		t.Name, of.days(t, t.DaySQL()))
	if err := each(ctx, conn, sql, []any{&partition, &chunk, &day, &rows}, func() {
		if count {
			d.Rows += rows
		}
		if gone(day) {
			return
		}
		switch i := s.find(partition, chunk); i {
		case afterAll:
		case beforeAll:
			if count {
				d.Unproven += rows
			}
		case between:
			r := stray[day]
			if r == nil {
				r = &DeepReport{Table: t.Name, Day: dayName(t, day), Chunks: fmt.Sprintf("%d:%d-%d", partition, chunk, chunk)}
				stray[day] = r
			}
			r.Missing -= int64(rows)
		default:
			at := spanDay{i, day}
			if missing[at] -= int64(rows); missing[at] == 0 {
				delete(missing, at)
			}
		}
	}); err != nil {
		return nil, err
	}
	short := map[int32]int64{}
	for at, n := range missing {
		short[at.day] += max(n, 0)
	}
	for at, n := range missing {
		if n < 0 || short[at.day] > deleted[at.day] { // else deletions took as many of that day
			out = append(out, DeepReport{Table: t.Name, Day: dayName(t, at.day), Lane: int(s.lane[at.span]), First: s.first[at.span],
				Last: s.last[at.span], Missing: n, Chunks: s.chunkText[at.span]})
		}
	}
	for _, r := range stray {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b DeepReport) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.First, b.First))
	})
	return out[:min(len(out), maxDeepReports)], nil
}

// dayName is a day of arrival as reports have it.
func dayName(t *table.Table, day int32) string {
	name := time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)
	if t.Retention != table.Raw {
		return name[:7]
	}
	return name
}
