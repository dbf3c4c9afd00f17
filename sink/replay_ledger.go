package sink

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// A row of the ledger that somebody deleted is made again from the chunks of its range, as a lane made it. That needs all of them: a range
// of which ROWS has lost a part stays as it is, and so does one with deletions, whose counts are in no chunk.

// rangeOf is a range of a lane, as the ledger has it, or a hole in it.
type rangeOf struct {
	lane        int
	first, last uint64
}

// ledgerRow names a row of the ledger.
type ledgerRow struct {
	rangeOf
	table         string
	day           int32
	retentionDays uint16
}

// ledgerSum is what such a row says.
type ledgerSum struct {
	rows, amount uint64
	counted      bool
	chunks       string
}

// mendLedger writes the rows that the ledger lacks, and returns how many. all are the chunks that ROWS has, with what was read of each.
func (r Replayer) mendLedger(ctx context.Context, all []keptChunk, dry bool) (missing uint64, err error) {
	info, err := r.Streams.Rows.Info(ctx)
	if err != nil {
		return 0, err
	}
	wanted := map[ledgerRow]ledgerSum{}
	for lane := range r.Streams.Lanes {
		if err := r.wantedOf(ctx, lane, info.Created, all, wanted); err != nil {
			return 0, err
		}
	}
	var have ledgerRow
	var n uint16
	err = each(ctx, r.Conn, fmt.Sprintf("SELECT lane, first, last, toString(table), toInt32(toUInt16(day)), retention_days FROM ledger WHERE "+
		"token != '%s' AND lane < %d AND inserted_at >= fromUnixTimestamp(%d)", erasedToken, dropLane, info.Created.Unix()),
		[]any{&n, &have.first, &have.last, &have.table, &have.day, &have.retentionDays}, func() {
			have.lane = int(n)
			delete(wanted, have)
		})
	if err != nil || len(wanted) == 0 || dry {
		return uint64(len(wanted)), err
	}
	keys := slices.SortedFunc(maps.Keys(wanted), func(a, b ledgerRow) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.last, b.last), strings.Compare(a.table, b.table))
	})
	rows := make([]string, len(keys))
	for i, k := range keys {
		w := wanted[k]
		counted := 0
		if w.counted {
			counted = 1
		}
		rows[i] = fmt.Sprintf("(toUInt16(%d), toUInt64(%d), toUInt64(%d), %s, toUInt64(%d), toDate(%d), toUInt16(%d), toUInt64(%d), %d, %s)",
			k.lane, k.first, k.last, table.Quote(k.table), w.rows, k.day, k.retentionDays, w.amount, counted, table.Quote(w.chunks))
	}
	// The statement looks and writes, and ClickHouse runs one of its id at a time.
	sql := fmt.Sprintf("INSERT INTO ledger (lane, first, last, table, rows, token, attempt, inserted_at, day, retention_days, amount, "+
		"counted, owner, chunks) SELECT r.1, r.2, r.3, r.4, r.5, 'replayed', 0, fromUnixTimestamp64Nano(%d, 'UTC'), r.6, r.7, r.8, r.9, '', "+
		"r.10 FROM (SELECT arrayJoin([%s]) AS r) WHERE (r.1, r.2, r.3, r.4, r.6, r.7) NOT IN (SELECT lane, first, last, toString(table), "+
		"day, retention_days FROM ledger WHERE token != '%s' AND inserted_at >= fromUnixTimestamp(%d)) SETTINGS insert_deduplicate = 0",
		time.Now().UnixNano(), strings.Join(rows, ", "), erasedToken, info.Created.Unix())
	return uint64(len(keys)), alone(ctx, r.Conn, "replay-"+r.Database+"-ledger", sql)
}

// wantedOf says what the ledger must have of those ranges of a lane of which ROWS has every chunk.
func (r Replayer) wantedOf(ctx context.Context, lane int, created time.Time, all []keptChunk, wanted map[ledgerRow]ledgerSum) error {
	var own []keptChunk
	oldest := map[int]keptChunk{}
	for _, c := range all {
		if stream.Lane(c.partition, r.Streams.Lanes) != lane {
			continue
		}
		own = append(own, c)
		if o, ok := oldest[c.partition]; !ok || c.seq < o.seq {
			oldest[c.partition] = c
		}
	}
	whole := uint64(1) // ROWS has every chunk of the lane from here on
	for _, o := range oldest {
		if o.after > 0 { // the chunk before it was at after-1, and none is between
			whole = max(whole, o.after)
		} else {
			whole = max(whole, o.seq)
		}
	}
	slices.SortFunc(own, func(a, b keptChunk) int { return cmp.Compare(a.seq, b.seq) })
	m, ok, err := markOf(ctx, r.Streams, lane)
	if err != nil || !ok || len(own) == 0 {
		return err
	}
	var ranges []rangeOf
	var first, last uint64
	at := uint64(0)
	err = each(ctx, r.Conn, fmt.Sprintf("SELECT first, last FROM ledger WHERE lane = %d AND token != '%s' AND inserted_at >= "+
		"fromUnixTimestamp(%d) AND last <= %d GROUP BY first, last ORDER BY last, first", lane, erasedToken, created.Unix(), m.Mark),
		[]any{&first, &last}, func() {
			if at+1 < first {
				ranges = append(ranges, rangeOf{lane, at + 1, first - 1})
			}
			ranges = append(ranges, rangeOf{lane, first, last})
			at = max(at, last)
		})
	if err != nil {
		return err
	}
	if at < m.Mark {
		ranges = append(ranges, rangeOf{lane, at + 1, m.Mark})
	}
	for _, g := range ranges {
		if g.first < whole {
			continue
		}
		from, _ := slices.BinarySearchFunc(own, g.first, func(c keptChunk, seq uint64) int { return cmp.Compare(c.seq, seq) })
		to := from
		sure := true
		for ; to < len(own) && own[to].seq <= g.last; to++ {
			sure = sure && !own[to].deletes && own[to].number >= m.Partitions[own[to].partition].Void
		}
		if sure && to > from {
			want(g, own[from:to], r.Schema, wanted)
		}
	}
	return nil
}

// want adds the rows of a range.
func want(g rangeOf, chunks []keptChunk, schema *table.Schema, wanted map[ledgerRow]ledgerSum) {
	s := span{}
	for i := range chunks {
		s.messages = append(s.messages, message{chunk: stream.Chunk{Partition: chunks[i].partition, Number: chunks[i].number}})
		for n := range chunks[i].tables {
			e := &chunks[i].tables[n]
			t := schema.Table(e.Table)
			if t == nil || e.Rows == 0 {
				continue
			}
			k := ledgerRow{rangeOf: g, table: e.Table, day: e.Day, retentionDays: e.RetentionDays}
			if t.Retention != table.Raw {
				k.day = table.MonthOf(e.Day)
			}
			w, ok := wanted[k]
			w.rows += uint64(e.Rows)
			w.counted = (w.counted || !ok) && e.Amount != nil
			if e.Amount != nil {
				w.amount += *e.Amount
			}
			wanted[k] = w
		}
	}
	wanted[ledgerRow{rangeOf: g}] = ledgerSum{chunks: s.chunks()}
}
