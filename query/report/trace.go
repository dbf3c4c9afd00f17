package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"
)

// TraceQuery says which Chrome traces to report on. The zero value lists them all.
type TraceQuery struct {
	Database string // "" is warpline
	Tenant   string // "" is all
	Session  string // "" is all; else a session id or the beginning of one, with or without trace:
	Job      string // "" is all; else a job, whose ranks are shown side by side
	Against  string // "" compares nothing; else what Session is, of the traces to compare with
	Top      int    // rows of each list (0: 10)
}

// Trace is what ReadTrace found. Durations are ns. Without Session and Job in the query it has Traces alone.
type Trace struct {
	Traces []TraceSession `json:"traces"` // by rank and start; in a mere list the latest first
	All    uint64         `json:"all"`    // traces that were asked for; the report is on the first 16 by rank, a list is of the latest
	// Expired says that the slices of all these traces are gone: then it has Kernels, Names and Changed alone, which are from rollups.
	Expired     bool              `json:"expired"`
	Breakdown   []TraceBreakdown  `json:"breakdown"` // by rank and device
	Waits       []TraceWait       `json:"waits"`     // longest first
	Kernels     []TraceName       `json:"kernels"`   // kernels, copies and memsets, most time first
	Names       []TraceName       `json:"names"`     // what ran on the host, most time first
	Ops         []TraceOp         `json:"ops"`       // most time on GPUs first
	Launched    TraceLaunched     `json:"launched"`
	Slow        []TraceLaunch     `json:"slow"`     // longest delay first
	Inverted    []TraceLaunch     `json:"inverted"` // those that began earliest before their call first
	Steps       []TraceStep       `json:"steps"`    // by rank, device and start, 4,096 at most
	Queues      []TraceQueue      `json:"queues"`   // longest first
	Collectives []TraceCollective `json:"collectives"`
	Late        []TraceLate       `json:"late"` // ranks, that which is last most often first
	// KernelNS is the time of all kernels, copies and memsets, not only of those that are listed.
	KernelNS uint64        `json:"kernel_ns"`
	Skipped  []string      `json:"skipped"` // sections that would have needed more memory or time than a reader may have
	Base     []string      `json:"base"`    // ids that Against names
	Changed  []TraceChange `json:"changed"` // the largest change of total_ns first

	Query TraceQuery `json:"-"`
	base  []TraceSession
}

// TraceSession is a trace.
type TraceSession struct {
	Tenant    string    `json:"tenant"`
	Session   string    `json:"session_id"`
	Job       string    `json:"job"` // "" none
	App       string    `json:"app"`
	Host      string    `json:"host"`
	State     string    `json:"state"`
	Rank      int64     `json:"rank"`       // -1 unknown
	WorldSize uint32    `json:"world_size"` // 0 unknown
	StartedAt time.Time `json:"started_at"`
	Slices    uint64    `json:"slices"` // that have not expired; of a mere list 0
}

// maxTraces is how many traces one report is on: a view over a million slices takes up to a second.
const maxTraces = 16

// ReadTrace asks ClickHouse. conn may be a user that only reads; it stays open. A trace that is not there is an *UnknownTraceError.
func ReadTrace(ctx context.Context, conn driver.Conn, q TraceQuery) (*Trace, error) {
	q.Database, q.Top = cmp.Or(q.Database, "warpline"), cmp.Or(q.Top, 10)
	r := &Trace{Query: q, Traces: []TraceSession{}, Breakdown: []TraceBreakdown{}, Waits: []TraceWait{}, Kernels: []TraceName{},
		Names: []TraceName{}, Ops: []TraceOp{}, Slow: []TraceLaunch{}, Inverted: []TraceLaunch{}, Steps: []TraceStep{}, Queues: []TraceQueue{},
		Collectives: []TraceCollective{}, Late: []TraceLate{}, Base: []string{}, Skipped: []string{}, Changed: []TraceChange{}}
	in := &traceReader{reader{ctx: ctx, conn: conn}, r, nil}
	if err := in.find(); err != nil || q.Session == "" && q.Job == "" {
		return r, err
	}
	parts := []traceSection{{"kernels", readTraceKernels}, {"names", readTraceNames}, {"changes", readTraceChanged}}
	if !r.Expired {
		parts = append(parts, traceSection{"breakdowns", readTraceBreakdown}, traceSection{"waits", readTraceWaits},
			traceSection{"ops", readTraceOps}, traceSection{"launches", readTraceLaunches}, traceSection{"steps", readTraceSteps},
			traceSection{"queues", readTraceQueues}, traceSection{"collectives", readTraceCollectives})
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(2) // each may need much of the memory that a reader may have
	skipped := make([]bool, len(parts))
	for i, part := range parts {
		g.Go(func() error {
			err := part.read(&traceReader{reader{ctx: inner, conn: conn}, r, r.Traces})
			if skipped[i] = TooLarge(err); err != nil && !skipped[i] {
				return fmt.Errorf("read %s: %w", part.name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, part := range parts {
		if skipped[i] {
			r.Skipped = append(r.Skipped, part.name)
		}
	}
	return r, nil
}

// TooLarge reports whether a question needs more memory or time than a reader may have: the other sections are worth having without it.
func TooLarge(err error) bool {
	var refused *clickhouse.Exception
	return errors.As(err, &refused) && slices.Contains([]int32{241, 159, 160}, refused.Code)
}

type traceReader struct {
	reader
	r  *Trace
	at []TraceSession // that are asked for
}

// alone calls read for each trace: a view over the traces of a job at once needs as much memory as all of them.
func (in *traceReader) alone(read func(*traceReader) error) error {
	for i := range in.at {
		if err := read(&traceReader{in.reader, in.r, in.at[i : i+1]}); err != nil {
			return err
		}
	}
	return nil
}

type traceSection struct {
	name string
	read func(*traceReader) error
}

// find reads which traces are meant.
func (in *traceReader) find() error {
	q, list := in.r.Query, in.r.Query.Session == "" && in.r.Query.Job == ""
	order, most := "rank, started_at, id", maxTraces
	if list {
		order, most = "started_at DESC, id", q.Top
	}
	found, err := in.sessions(q.Session, q.Job, order, most, &in.r.All)
	if err != nil {
		return fmt.Errorf("read traces: %w", err)
	}
	in.r.Traces = append(in.r.Traces, found...)
	if list {
		return nil
	}
	if len(found) == 0 {
		return in.unknown(q.Session, q.Job)
	}
	if q.Against != "" {
		if in.r.base, err = in.sessions(q.Against, "", "rank, started_at, id", maxTraces, nil); err == nil && len(in.r.base) == 0 {
			err = in.unknown(q.Against, "")
		}
		if err != nil {
			return err
		}
		for _, s := range in.r.base {
			in.r.Base = append(in.r.Base, s.Session)
		}
	}
	in.r.Expired, in.at = true, in.r.Traces
	from, args := in.of("trace_slices")
	return in.each("SELECT toString(tenant) AS t, toString(session_id) AS id, count() FROM "+from+" GROUP BY t, id", args,
		func(rows driver.Rows) error {
			var tenant, id string
			var n uint64
			err := rows.Scan(&tenant, &id, &n)
			for i := range in.r.Traces {
				if s := &in.r.Traces[i]; s.Tenant == tenant && s.Session == id {
					s.Slices = n
				}
			}
			in.r.Expired = false
			return err
		})
}

// sessions finds traces; all is how many there are without the limit. One whose id is just what is asked is found alone.
func (in *traceReader) sessions(session, job, order string, most int, all *uint64) (found []TraceSession, err error) {
	where, args := []string{"source = 'trace'"}, []any{session, tracePrefix + session}
	if in.r.Query.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, in.r.Query.Tenant)
	}
	if session != "" {
		begins, asked := SessionBegins("session_id", session)
		where, args = append(where, begins), append(args, asked...)
	}
	if job != "" {
		where, args = append(where, "run_id = ?"), append(args, job)
	}
	exact := 0
	err = in.each(fmt.Sprintf("SELECT toString(session_id) IN (?, ?) AS whole, toString(tenant), toString(session_id) AS id, "+
		"toString(run_id), toString(app), toString(host), toString(state), toInt64(rank), toUInt32(world_size), started_at, "+
		"count() OVER () FROM `%s`.sessions WHERE %s ORDER BY whole DESC, %s LIMIT %d", in.r.Query.Database, strings.Join(where, " AND "),
		order, most), args, func(rows driver.Rows) error {
		var s TraceSession
		var whole uint8
		var n uint64
		err := rows.Scan(&whole, &s.Tenant, &s.Session, &s.Job, &s.App, &s.Host, &s.State, &s.Rank, &s.WorldSize, &s.StartedAt, &n)
		exact += int(whole)
		found = append(found, s)
		if all != nil {
			*all = n
		}
		return err
	})
	if exact > 0 {
		found = found[:exact]
		if all != nil {
			*all = uint64(exact)
		}
	}
	return found, err
}

// of returns "database.view WHERE …" with its arguments, for the traces that are asked for.
func (in *traceReader) of(view string, more ...string) (from string, args []any) {
	return in.only(view, in.at, more...)
}

// only is of for other sessions. Views are asked for ids, since with anything else they would read all sessions.
func (in *traceReader) only(view string, sessions []TraceSession, more ...string) (from string, args []any) {
	ids, tenants := []any{}, []any{}
	for _, s := range sessions {
		ids = append(ids, s.Session)
		if !slices.Contains(tenants, any(s.Tenant)) {
			tenants = append(tenants, s.Tenant)
		}
	}
	marks := func(values []any) string { return "IN (" + strings.Repeat("?, ", len(values)-1) + "?)" }
	where := append([]string{"tenant " + marks(tenants), "session_id " + marks(ids)}, more...)
	return "`" + in.r.Query.Database + "`." + view + " WHERE " + strings.Join(where, " AND "), append(tenants, ids...)
}
