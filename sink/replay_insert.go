package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// replayTimeout is of one statement of a replay, below that of a lane's insert: a deletion looks again after that one's.
const replayTimeout = insertTimeout - 10*time.Second

// insert gives rows of chunks, which go to one ClickHouse partition, to a statement that inserts those that are missing.
func (r Replayer) insert(ctx context.Context, t *table.Table, of ReplayScope, work []rowsAt) error {
	for {
		if r.Step != nil {
			if err := r.Step(t.Name); err != nil {
				return err
			}
		}
		begun := time.Now()
		p, schema, err := r.block(ctx, work)
		if err != nil || len(p.batches) == 0 {
			return err
		}
		columns, err := columnNames(schema)
		if err != nil {
			return fmt.Errorf("schema of %s: %w", t.Name, err)
		}
		limit, cancel := context.WithDeadline(ctx, begun.Add(replayTimeout))
		body := newSplice(schema, p, begun.Add(replayTimeout))
		err = r.HTTP.InsertFormat(clickhouse.Context(limit, clickhouse.WithQueryID("replay-"+r.Database+"-"+t.Name),
			clickhouse.WithSettings(replaySettings())), "ArrowStream", r.statement(t, of, columns, work), body)
		cancel()
		if err == nil {
			body.close()
			return nil
		}
		if reasonOf(err) != reasonRunning { // another replay is at this table
			return err
		}
		if !sleep(ctx, 300*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// replaySettings make one block of all that a statement inserts.
func replaySettings() clickhouse.Settings {
	return clickhouse.Settings{"async_insert": 0, "insert_deduplicate": 0, "min_insert_block_size_rows": uint64(1) << 32,
		"min_insert_block_size_bytes": 0, "max_insert_block_size": uint64(1) << 32, "max_insert_threads": 1, "optimize_on_insert": 0,
		"input_format_arrow_allow_missing_columns": 0, "max_execution_time": int(replayTimeout / time.Second), "join_use_nulls": 0,
		"max_query_size": 16 << 20, "max_ast_elements": 1 << 20, "max_expanded_ast_elements": 1 << 20}
}

// block reads the rows of chunks from ROWS, less those that a deletion has reached by now.
func (r Replayer) block(ctx context.Context, work []rowsAt) (*block, []byte, error) {
	inserted, err := Inserted(ctx, r.Streams)
	if err != nil {
		return nil, nil, err
	}
	p := &block{}
	var schema []byte
	for _, w := range work {
		if w.chunk.seq <= inserted[w.chunk.partition].Erased {
			continue
		}
		get, cancel := context.WithTimeout(ctx, natsTimeout)
		msg, err := r.Streams.Rows.GetMsg(get, w.chunk.seq)
		cancel()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // purged meanwhile
		}
		if err != nil {
			return nil, nil, fmt.Errorf("ROWS message %d: %w", w.chunk.seq, err)
		}
		c, _, body, err := stream.ParseChunk(msg.Data)
		if err != nil || c.Number != w.chunk.number {
			continue // the stream is another by now
		}
		batches, err := c.Split(body)
		if err != nil {
			return nil, nil, fmt.Errorf("ROWS message %d: %w", w.chunk.seq, err)
		}
		e := &c.Tables[w.entry]
		if schema == nil {
			plain, err := e.Unpack(nil, batches[w.entry])
			if err != nil {
				return nil, nil, fmt.Errorf("ROWS message %d: %w", w.chunk.seq, err)
			}
			schema = slices.Clone(plain[:e.SchemaLen])
		}
		p.batches = append(p.batches, batch{packed: batches[w.entry], rows: *e})
		p.rows += uint64(e.Rows)
	}
	return p, schema, nil
}

// statement is what inserts those of the rows that are missing.
func (r Replayer) statement(t *table.Table, of ReplayScope, columns []string, work []rowsAt) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = name(c)
	}
	list := strings.Join(quoted, ", ")
	return fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %[3]s FROM (%s)", name(r.Database), name(t.Name), list,
		r.lacking(t, of, columns, work, fmt.Sprintf("input(%s)", table.Quote(structure(t, columns)))))
}

// structure says what types the columns of a stream have.
func structure(t *table.Table, columns []string) string {
	out := make([]string, 0, len(columns))
	for _, c := range columns {
		if col := t.Column(c); col != nil {
			out = append(out, name(c)+" "+col.Plain())
		}
	}
	return strings.Join(out, ", ")
}

// lacking selects those rows of from that the table lacks.
func (r Replayer) lacking(t *table.Table, of ReplayScope, columns []string, work []rowsAt, from string) string {
	chunks := map[int][]string{}
	for _, w := range work {
		chunks[w.chunk.partition] = append(chunks[w.chunk.partition], fmt.Sprint(w.chunk.number))
	}
	day := work[0].of(t).day
	whose := "1" + of.tenant()
	at := name(r.Database) + "." + name(t.Name)
	where := fmt.Sprintf("%s AND %s = %d", whose, t.DaySQL(), day)
	if t.Engine != "MergeTree" {
		// Rows of one key have one largest chunk, also after they were merged.
		key := "sipHash128(rows_partition, " + strings.Join(t.OrderBy, ", ") + ")"
		return fmt.Sprintf("SELECT * FROM (SELECT *, %s AS warpline_key FROM %s WHERE %s) AS a LEFT JOIN (SELECT %[1]s AS warpline_key, "+
			"max(chunk) AS warpline_newest FROM %s WHERE %s AND rows_partition IN (%s) GROUP BY warpline_key) AS b USING (warpline_key) "+
			"WHERE a.chunk > b.warpline_newest", key, from, whose, at, where, joined(slices.Sorted(maps.Keys(chunks))))
	}
	var or []string
	for _, p := range slices.Sorted(maps.Keys(chunks)) {
		or = append(or, fmt.Sprintf("rows_partition = %d AND chunk IN (%s)", p, strings.Join(slices.Compact(chunks[p]), ", ")))
	}
	// A retention class may have been changed since; all else is as it was inserted.
	var same []string
	for _, c := range columns {
		if c != "retention_days" {
			same = append(same, name(c))
		}
	}
	hash := "sipHash128(" + strings.Join(same, ", ") + ")"
	return fmt.Sprintf("SELECT * FROM (SELECT *, %s AS warpline_row, row_number() OVER (PARTITION BY warpline_row) AS warpline_n FROM %s "+
		"WHERE %s) AS a LEFT JOIN (SELECT %[1]s AS warpline_row, count() AS warpline_have FROM %s WHERE %s AND (%s) GROUP BY warpline_row) "+
		"AS b USING (warpline_row) WHERE a.warpline_n > b.warpline_have", hash, from, whose, at, where, strings.Join(or, " OR "))
}

func joined(numbers []int) string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = fmt.Sprint(n)
	}
	return strings.Join(out, ", ")
}
