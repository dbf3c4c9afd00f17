package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Reasons of warpline_sink_retries_total.
const (
	reasonRefused     = "refused"     // because of the schema, the data, the rights or the disk: a person has to act
	reasonUnreachable = "unreachable" // no answer at all
	reasonTimeout     = "timeout"
	reasonRunning     = "running"  // an insert of the same token is still running
	reasonBusy        = "busy"     // too many data parts, no memory, too many queries
	reasonOrphan      = "orphan"   // answered OK, and the rows are not there
	reasonNATS        = "nats"     // the chunk's body could not be read or synced
	reasonInternal    = "internal" // anything else that ClickHouse says
)

// What a person can do about a refusal.
const (
	hintSchema = "start a sink of the worker's version, which repairs the schema; the table schema_history says who changed it last"
	hintRights = "give the sink's user the right to create, alter and insert (--clickhouse-user)"
	hintLogin  = "give the sink the right --clickhouse-user and WARPLINE_CLICKHOUSE_PASSWORD"
)

// refusals are ClickHouse's error codes that the same insert would get again until a person acts, each with what that person can do.
var refusals = map[int32]string{
	6:   hintSchema,                                       // CANNOT_PARSE_TEXT
	8:   hintSchema,                                       // THERE_IS_NO_COLUMN
	10:  hintSchema,                                       // NOT_FOUND_COLUMN_IN_BLOCK
	16:  hintSchema,                                       // NO_SUCH_COLUMN_IN_TABLE
	20:  hintSchema,                                       // NUMBER_OF_COLUMNS_DOESNT_MATCH
	27:  hintSchema,                                       // CANNOT_PARSE_INPUT_ASSERTION_FAILED
	36:  hintSchema,                                       // BAD_ARGUMENTS
	44:  hintSchema,                                       // ILLEGAL_COLUMN
	47:  hintSchema,                                       // UNKNOWN_IDENTIFIER
	49:  hintSchema,                                       // LOGICAL_ERROR
	50:  hintSchema,                                       // UNKNOWN_TYPE
	53:  hintSchema,                                       // TYPE_MISMATCH
	60:  hintSchema,                                       // UNKNOWN_TABLE
	62:  hintSchema,                                       // SYNTAX_ERROR
	70:  hintSchema,                                       // CANNOT_CONVERT_TYPE
	81:  hintSchema,                                       // UNKNOWN_DATABASE
	115: "upgrade the ClickHouse server to 26.3 or later", // UNKNOWN_SETTING
	117: hintSchema,                                       // INCORRECT_DATA
	164: hintRights,                                       // READONLY
	192: hintLogin,                                        // UNKNOWN_USER
	193: hintLogin,                                        // WRONG_PASSWORD
	194: hintLogin,                                        // REQUIRED_PASSWORD
	243: "make room on ClickHouse's disk",                 // NOT_ENOUGH_SPACE
	497: hintRights,                                       // ACCESS_DENIED
	516: hintLogin,                                        // AUTHENTICATION_FAILED
}

// busy are the codes of a server that has too much to do.
var busy = map[int32]bool{
	159: true, // TIMEOUT_EXCEEDED
	202: true, // TOO_MANY_SIMULTANEOUS_QUERIES
	203: true, // NO_FREE_CONNECTION
	241: true, // MEMORY_LIMIT_EXCEEDED
	252: true, // TOO_MANY_PARTS
	290: true, // LIMIT_EXCEEDED
	439: true, // CANNOT_SCHEDULE_TASK
	700: true, // USER_SESSION_LIMIT_EXCEEDED
}

// running is ClickHouse's code for a query with the id of one that is running: QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING.
const running = 216

// reasonOf sorts an error of ClickHouse or of the way to it.
func reasonOf(err error) string {
	var e *clickhouse.Exception
	if errors.As(err, &e) {
		_, refused := refusals[e.Code]
		switch {
		case refused:
			return reasonRefused
		case e.Code == running:
			return reasonRunning
		case busy[e.Code]:
			return reasonBusy
		}
		return reasonInternal
	}
	var op net.Error
	switch {
	case errors.Is(err, errStuck), errors.Is(err, errChunk), errors.Is(err, errLost):
		return reasonRefused
	case errors.Is(err, errOrphan):
		return reasonOrphan
	case errors.Is(err, errBody), errors.Is(err, errSync):
		return reasonNATS
	case errors.Is(err, errRewriting):
		return reasonBusy
	case errors.Is(err, clickhouse.ErrAcquireConnTimeout):
		return reasonBusy // on our side: all connections are in use
	case errors.As(err, &op) && op.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, errLate):
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return reasonUnreachable
		}
		return reasonTimeout
	case errors.As(err, &op), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return reasonUnreachable
	}
	return reasonInternal
}

// hint says what a person can do about a refusal, "" if the error says it itself.
func hint(err error) string {
	var e *clickhouse.Exception
	switch {
	case errors.As(err, &e):
		return refusals[e.Code]
	case errors.Is(err, errChunk):
		return "compare the versions of worker and sink: a sink must not be older"
	}
	return ""
}

var (
	errOrphan = errors.New("clickhouse answered OK and does not have the rows")
	errStuck  = errors.New("clickhouse answers OK again and again and never has the rows: stopped sending, because they would be doubled if " +
		"they appear later; look for DELETE or DROP PARTITION on this table")
	errChunk = errors.New("a chunk that this sink cannot read")
	errLost  = errors.New("chunks that were to be inserted are gone")
	errBody  = errors.New("cannot read a chunk body")
	errSync  = errors.New("the chunks are not on disk yet, so nothing of them is inserted; look at the data folder's disk")
)

// maxAttempts bounds the repairs of one block. One repair solves an orphan; if several are needed, something else removes rows.
const maxAttempts = 5

// token names one load of one span for all time: every insert of it, by any sink, sends these rows. 96 bits keep the odds of meeting
// another of the 10 000 tokens that a table remembers below 1e-24.
func token(generation string, lane int, first, last uint64, tableName, fingerprint string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "warpline 1\n%s\n%d\n%d\n%d\n%s\n%s", generation, lane, first, last, tableName, fingerprint))
	return hex.EncodeToString(sum[:12])
}

// tokenOf is the token of a block of the load. Each block has its own, so that rows that are there already are never sent together with
// rows that are missing. ClickHouse would drop them, but only while it remembers the token: its log of tokens is not synced, and a power
// cut can take the log's end and leave the data parts. A token's rows are fixed down to the record batches, because what ClickHouse
// remembers depends on the number of batches that it gathered.
func (l *load) tokenOf(p *block) string {
	if len(l.blocks) == 1 && p.attempt == 0 {
		return l.token
	}
	return fmt.Sprintf("%s.%d-%d.%d", l.token, p.partition.Day, p.partition.RetentionDays, p.attempt)
}

// oneBlock makes ClickHouse gather the whole stream before it writes, so that each ClickHouse partition gets one data part. The token is
// the query id as well: see the package comment. Rows of one key are added up by merges alone: workers have added up already, and doing so
// at the insert too compares every row with the one before it, which took more than half of an insert of pc_buckets_data.
func oneBlock(ctx context.Context, token string) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithQueryID(token), clickhouse.WithSettings(clickhouse.Settings{
		"async_insert": 0, "insert_deduplicate": 1, "insert_deduplication_token": token,
		"min_insert_block_size_rows": uint64(1) << 32, "min_insert_block_size_bytes": 0, "max_insert_block_size": uint64(1) << 32,
		"max_insert_threads": 1, "optimize_on_insert": 0, "max_partitions_per_insert_block": 0, "input_format_arrow_allow_missing_columns": 0,
	}))
}

// insert sends a block of the load as one stream. An error does not say what is in ClickHouse.
func (k *Sink) insert(ctx context.Context, l *load, p *block) error {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	began := time.Now()
	body := newSplice(l.schema, p, began.Add(insertTimeout))
	if err := k.http.InsertFormat(oneBlock(ctx, l.tokenOf(p)), "ArrowStream", l.sql, body); err != nil {
		return err // the scratch space is left to the garbage collector: the transport may still be reading it
	}
	defer body.close()
	k.met.inserts.WithLabelValues(l.name).Inc()
	k.met.insertSeconds.Observe(time.Since(began).Seconds())
	k.met.bytes.WithLabelValues(l.name).Add(float64(body.bytes))
	return nil
}

// settle returns nil when all of a load is in ClickHouse once. uncertain says that an earlier try is possible. It tries until it succeeds,
// or until asked to stop between two tries; the other errors are errFenced and errCrash.
func (l *lane) settle(ctx context.Context, what *load, uncertain bool) error {
	missing, pause := what.blocks, newPause(2*time.Second)
	for {
		err := l.try(ctx, what, &missing, uncertain)
		if err == nil {
			l.k.health.ok(l.n)
			return nil
		}
		if errors.Is(err, errFenced) || errors.Is(err, errCrash) {
			return err
		}
		uncertain = true
		reason := l.retry("insert into "+what.name, err)
		wait := pause.next()
		if reason == reasonRefused {
			wait = 30 * time.Second
			if !errors.Is(err, errStuck) && l.k.ensureOnce(ctx) == nil { // a dropped table or a missing column
				wait = pause.next()
			}
		}
		if l.stopping() || !sleep(l.ctx, wait) {
			return fmt.Errorf("insert into %s: %w", what.name, err)
		}
	}
}

// retry notes an error that is about to be tried again, and returns its reason.
func (l *lane) retry(what string, err error) string {
	if l.stopping() && errors.Is(err, context.Canceled) {
		return reasonTimeout
	}
	reason := l.k.health.failed(l.n, what, err)
	l.k.met.retries.WithLabelValues(reason).Inc()
	return reason
}

// try does one round: look, when uncertain; send what is missing; look again, when uncertain.
func (l *lane) try(ctx context.Context, what *load, missing *[]*block, uncertain bool) (err error) {
	if uncertain {
		*missing, err = l.look(ctx, what)
		if err != nil || len(*missing) == 0 {
			return err
		}
		if err := l.raise(ctx, what, *missing); err != nil {
			return err
		}
	}
	for _, p := range *missing {
		if err := l.step("insert " + what.name); err != nil {
			return err
		}
		if err := l.k.insert(ctx, what, p); err != nil {
			return err
		}
		p.answered = true
		if err := l.step("inserted " + what.name); err != nil {
			return err
		}
	}
	if !uncertain {
		return nil
	}
	left, err := l.look(ctx, what)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%w: %s, attempt %d", errOrphan, left[0].key, left[0].attempt)
	}
	return err
}

func (l *lane) look(ctx context.Context, what *load) ([]*block, error) {
	ask, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return what.verify(ask)
}

// raise gives the next attempt's token to the blocks whose present token was answered OK without leaving rows, and records that first.
func (l *lane) raise(ctx context.Context, what *load, missing []*block) error {
	next := l.marks.mark.clone()
	changed := false
	for _, p := range missing {
		if !p.answered {
			continue
		}
		if p.attempt >= maxAttempts {
			return fmt.Errorf("%w: %s, %d attempts", errStuck, p.key, p.attempt)
		}
		next.Pending.Attempts[p.key] = p.attempt + 1
		changed = true
	}
	if !changed {
		return nil
	}
	if err := l.marks.write(ctx, next); err != nil {
		return err
	}
	for _, p := range missing {
		if p.answered {
			p.attempt, p.answered = p.attempt+1, false
			l.k.met.repairs.WithLabelValues(what.name).Inc()
			l.log.Warn("clickhouse remembers an insert but has lost its rows; sending them again", "part",
				p.key, "attempt", p.attempt, "rows", p.rows)
		}
	}
	return l.step("raised " + what.name)
}
