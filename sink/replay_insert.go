package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// replayTimeout is of one statement of a replay, below that of a lane's insert: a deletion looks again after that one's.
const replayTimeout = insertTimeout - 10*time.Second

// staged is the temporary table that the rows of chunks are in while it is looked which of them are missing. ClickHouse drops it with its
// session, also when this process is killed.
const staged = "warpline_replay"

// insert stages rows of chunks, which go to one ClickHouse partition, and inserts those that are missing, but for the owners that rows of
// that day were dropped of. It returns how many they were.
func (r Replayer) insert(ctx context.Context, t *table.Table, of ReplayScope, work []rowsAt, dropped []string) (missing uint64, err error) {
	for {
		if r.Step != nil {
			if err := r.Step(t.Name); err != nil {
				return 0, err
			}
		}
		missing, err = r.try(ctx, t, of, work, dropped, time.Now().Add(replayTimeout))
		if err == nil || reasonOf(err) != reasonRunning { // another replay is at this table
			return missing, err
		}
		if !sleep(ctx, 300*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}

// try does it once, until a time: a deletion that began since does not wait for longer.
func (r Replayer) try(ctx context.Context, t *table.Table, of ReplayScope, work []rowsAt, dropped []string, until time.Time) (
	missing uint64, err error) {
	p, schema, err := r.block(ctx, work)
	if err != nil || len(p.batches) == 0 {
		return 0, err
	}
	columns, err := columnNames(schema)
	if err != nil {
		return 0, fmt.Errorf("schema of %s: %w", t.Name, err)
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = name(c)
	}
	list := strings.Join(quoted, ", ")
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	s := session{r: r, id: "warpline-replay-" + broker.NewID(), until: until}
	defer s.end()
	if _, err := s.post(ctx, "", "CREATE TEMPORARY TABLE "+staged+" ("+structure(t, columns)+") ENGINE = Memory", nil); err != nil {
		return 0, err
	}
	body := newSplice(schema, p, until)
	if _, err := s.post(ctx, "", fmt.Sprintf("INSERT INTO %s (%s) FORMAT ArrowStream", staged, list), body); err != nil {
		return 0, err
	}
	body.close()
	lacking := r.lacking(t, of, columns, work, dropped)
	said, err := s.post(ctx, "", "SELECT count() FROM ("+lacking+") FORMAT TSV", nil)
	if err != nil {
		return 0, err
	}
	missing, err = strconv.ParseUint(strings.TrimSpace(said), 10, 64)
	if err != nil || missing == 0 || of.DryRun {
		return missing, err
	}
	_, err = s.post(ctx, "replay-"+r.Database+"-"+t.Name, fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %[3]s FROM (%s)", name(r.Database),
		name(t.Name), list, lacking), nil)
	return missing, err
}

// replaySettings make one block of all that a statement inserts, and the answer wait for its end.
var replaySettings = map[string]string{"async_insert": "0", "insert_deduplicate": "0", "min_insert_block_size_rows": "4294967296",
	"min_insert_block_size_bytes": "0", "max_insert_block_size": "4294967296", "max_insert_threads": "1", "optimize_on_insert": "0",
	"input_format_arrow_allow_missing_columns": "0", "join_use_nulls": "0", "wait_end_of_query": "1", "max_ast_elements": "1000000",
	"max_query_size": "16777216", "max_expanded_ast_elements": "1000000"}

// session is one of ClickHouse's HTTP sessions, which a temporary table lives in.
type session struct {
	r     Replayer
	id    string
	until time.Time
}

// post sends a statement, and what it inserts; queryID may be "". It returns the answer's first bytes.
func (s session) post(ctx context.Context, queryID, sql string, body io.Reader) (string, error) {
	// What is sent goes on when this process is killed: it must end in time as well.
	left := max(1, int(time.Until(s.until)/time.Second))
	q := url.Values{"database": {s.r.Database}, "session_id": {s.id}, "session_timeout": {"180"}, "max_execution_time": {strconv.Itoa(left)}}
	for name, value := range replaySettings {
		q.Set(name, value)
	}
	if queryID != "" {
		q.Set("query_id", queryID)
	}
	if body == nil {
		body = strings.NewReader(sql)
	} else {
		q.Set("query", sql)
		body = io.NopCloser(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.r.URL+"/?"+q.Encode(), body)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-ClickHouse-User", s.r.User)
	if s.r.Password != "" {
		req.Header.Set("X-ClickHouse-Key", s.r.Password)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err != nil {
		return "", fmt.Errorf("read ClickHouse's answer: %w", err)
	}
	if code, err := strconv.Atoi(res.Header.Get("X-ClickHouse-Exception-Code")); err == nil {
		return "", &clickhouse.Exception{Code: int32(code), Message: string(said)}
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ClickHouse answered %s: %s", res.Status, said)
	}
	return string(said), nil
}

// end drops the temporary table, whatever became of it.
func (s session) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.post(ctx, "", "DROP TEMPORARY TABLE IF EXISTS "+staged, nil)
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

// lacking selects those of the staged rows that the table lacks.
func (r Replayer) lacking(t *table.Table, of ReplayScope, columns []string, work []rowsAt, dropped []string) string {
	chunks := map[int][]string{}
	for _, w := range work {
		chunks[w.chunk.partition] = append(chunks[w.chunk.partition], fmt.Sprint(w.chunk.number))
	}
	day := work[0].of(t).day
	whose := "1" + of.tenant()
	if len(dropped) > 0 {
		quoted := make([]string, len(dropped))
		for i, owner := range dropped {
			quoted[i] = table.Quote(owner)
		}
		whose += " AND " + ownerSQL + " NOT IN (" + strings.Join(quoted, ", ") + ")"
	}
	at := name(r.Database) + "." + name(t.Name)
	where := fmt.Sprintf("%s AND %s = %d", whose, t.DaySQL(), day)
	if t.Engine != "MergeTree" {
		// Rows of one key have one largest chunk, also after they were merged.
		key := "sipHash128(rows_partition, " + strings.Join(t.OrderBy, ", ") + ")"
		return fmt.Sprintf("SELECT * FROM (SELECT *, %s AS warpline_key FROM %s WHERE %s) AS a LEFT JOIN (SELECT %[1]s AS warpline_key, "+
			"max(chunk) AS warpline_newest FROM %[4]s WHERE %[5]s AND rows_partition IN (%[6]s) GROUP BY warpline_key) AS b USING (warpline_key) "+
			"WHERE a.chunk > b.warpline_newest", key, staged, whose, at, where, joined(slices.Sorted(maps.Keys(chunks))))
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
		"WHERE %s) AS a LEFT JOIN (SELECT %[1]s AS warpline_row, count() AS warpline_have FROM %[4]s WHERE %[5]s AND (%[6]s) GROUP BY "+
		"warpline_row) AS b USING (warpline_row) WHERE a.warpline_n > b.warpline_have", hash, staged, whose, at, where, strings.Join(or, " OR "))
}

func joined(numbers []int) string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = fmt.Sprint(n)
	}
	return strings.Join(out, ", ")
}
