// Package report reads back what Warpline knows of some sessions and prints it for a person: what arrived, where the time went, why
// warps stalled, what was copied, how the machine did, and what was refused. It reads the views and columns of the SQL contract; rows are
// counted in the tables behind them.
//
// Start with Read, which asks ClickHouse, and Report.Print. A Report is plain data: encoding/json prints it for programs.
package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"
)

// Query says what to report on. The zero value is everything.
type Query struct {
	Database string // "" is warpline
	Tenant   string // "" is all
	Session  string // "" is all; else a session id or the beginning of one
	Top      int    // rows of each list (0: 10)
}

// Report is what Read found. Durations are nanoseconds, sizes bytes.
type Report struct {
	Query    Query     `json:"query"`
	At       time.Time `json:"at"`
	Sessions []Session `json:"sessions"` // by start; of more than mostSessions the latest
	// Earlier is how many sessions, and cubins, began before those.
	Earlier Earlier `json:"earlier,omitzero"`
	// Skipped names the parts that would have taken more memory or time than one question may.
	Skipped []string `json:"skipped,omitempty"`
	Rows    []Count  `json:"rows"` // of each table, in the order of the contract
	Kernels []Timing `json:"kernels"`
	// KernelCalls and KernelNS add up all kernels, not only those that are listed.
	KernelCalls uint64 `json:"kernel_calls"`
	KernelNS    uint64 `json:"kernel_ns"`
	KernelNames uint64 `json:"kernel_names"`
	// Calls that are not in any of the above, since their durations are not true: gaps between launches on the host, and kernels that ran
	// while the client profiled deeply. DoubtfulCalls are in: they are of hours in which some kernels ran like that, and cannot be
	// separated any more.
	SyntheticCalls uint64   `json:"synthetic_calls,omitempty"`
	DisturbedCalls uint64   `json:"disturbed_calls,omitempty"`
	DoubtfulCalls  uint64   `json:"doubtful_calls,omitempty"`
	Scopes         []Timing `json:"scopes"`
	Hot            []Hot    `json:"hot"`
	Samples        uint64   `json:"samples"` // PC samples in all functions
	// Unresolved are samples for reasons whose names never came. They are in none of the other figures: they may be counted there already.
	Unresolved uint64  `json:"unresolved,omitempty"`
	Stalls     []Stall `json:"stalls"`
	Lines      []Line  `json:"lines"`
	// Unsymbolized are samples of cubins that have no line, by cause; nil without Cubins, which says that samples of cubins are here.
	Unsymbolized []Unsymbolized `json:"unsymbolized,omitempty"`
	Cubins       bool           `json:"cubin_samples,omitempty"`
	// Spots are the hottest instructions of functions whose code was sent.
	Spots    []Spot    `json:"spots,omitempty"`
	Insights []Insight `json:"insights,omitempty"`
	// InsightsOf is in how many sessions insights were looked for, those that began last; 0 means in all.
	InsightsOf int      `json:"insights_of,omitempty"`
	Copies     []Copy   `json:"copies"`
	Devices    []Device `json:"devices"`
	Hosts      []Host   `json:"hosts"`
	Rejects    []Reject `json:"rejects"`
	Books      Books    `json:"books"`
	Disk       Disk     `json:"disk"`
}

// Earlier counts sessions that a report does not list.
type Earlier struct {
	Runs   uint64 `json:"sessions"` // of programs
	Cubins uint64 `json:"cubins"`
}

// Session is one row of the view sessions.
type Session struct {
	Tenant  string    `json:"tenant"`
	ID      string    `json:"session_id"`
	Source  string    `json:"source"`
	App     string    `json:"app"`
	Host    string    `json:"host"`
	State   string    `json:"state"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at"`
	Kernels uint64    `json:"kernels"`
	Samples uint64    `json:"samples"`
}

// Count is the number of rows of a table.
type Count struct {
	Table string `json:"table"`
	Rows  uint64 `json:"rows"`
}

// Timing adds up the calls of a kernel or the runs of a scope.
type Timing struct {
	Name      string `json:"name"`
	Calls     uint64 `json:"calls"`
	TotalNS   uint64 `json:"total_ns"`
	P50NS     uint64 `json:"p50_ns"`
	P90NS     uint64 `json:"p90_ns"`
	P99NS     uint64 `json:"p99_ns"`
	MaxNS     uint64 `json:"max_ns"`
	Unmatched uint64 `json:"unmatched,omitempty"` // scopes of which one end is missing
}

// Hot is a function by its PC samples.
type Hot struct {
	Function  string  `json:"function"`            // as on the wire
	Demangled string  `json:"demangled,omitempty"` // "" where the client sends no mangled names
	Samples   uint64  `json:"samples"`
	Reasons   []Share `json:"reasons"` // largest first
}

// Share is a part of something.
type Share struct {
	Name    string `json:"name"`
	Samples uint64 `json:"samples"`
}

// Stall is a reason for which warps did not run.
type Stall struct {
	Reason  string `json:"reason"`
	Kind    string `json:"kind"`
	Samples uint64 `json:"samples"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

// Line is a source line by its PC samples.
type Line struct {
	File    string `json:"file"`
	Line    uint32 `json:"line"`
	Samples uint64 `json:"samples"`
	Source  string `json:"source,omitempty"` // its text, if it was sent
}

// Copy adds up memory copies of one kind.
type Copy struct {
	Kind       string `json:"copy_kind"`
	Calls      uint64 `json:"calls"`
	Bytes      uint64 `json:"bytes"`
	DurationNS uint64 `json:"duration_ns"`
}

// Device has the metrics of one GPU: means over equal slices of its time, and the extremes.
type Device struct {
	Session  string  `json:"session_id"`
	ID       int32   `json:"device_id"`
	Name     string  `json:"name"`
	Points   uint64  `json:"points"`
	Util     Curve   `json:"gpu_util_pct"`
	Power    Curve   `json:"power_w"`
	Used     Curve   `json:"used_bytes"`
	Temp     Curve   `json:"temp_c"`
	Total    float64 `json:"total_bytes"`
	Duration uint64  `json:"duration_ns"`
}

// Host has the metrics of one host.
type Host struct {
	Session  string  `json:"session_id"`
	Hostname string  `json:"hostname"`
	Points   uint64  `json:"points"`
	CPU      Curve   `json:"cpu_pct"`
	RAM      Curve   `json:"ram_used_bytes"`
	Total    float64 `json:"ram_total_bytes"`
}

// Curve is a metric over time.
type Curve struct {
	Values []float64 `json:"values"` // means of equal slices of time, oldest first
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Mean   float64   `json:"mean"`
}

// Reject adds up what was refused for one reason.
type Reject struct {
	Reason string `json:"reason"`
	Type   string `json:"type"`
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
}

// Books is what was received and what became of it. Only whole tenants have books: with Query.Session set it is zero.
type Books struct {
	Events     uint64 `json:"events"`
	Bytes      uint64 `json:"bytes"`
	Rejected   uint64 `json:"rejected"`
	Duplicates uint64 `json:"duplicates"`
}

// Disk is what the database takes on disk, all tenants together.
type Disk struct {
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"`
	Parts uint64 `json:"parts"`
}

// reader asks one question at a time.
type reader struct {
	ctx  context.Context
	conn driver.Conn
	q    Query
}

// section reads a part of a report into fields of its own. Those in one list need what the ones before have read.
type section struct {
	name string
	read func(*reader, *Report) error
}

// atOnce is how many questions are asked at once: of one session they take longer to plan than to answer; of all, each may need most of the
// memory that a reader may have.
func (in *reader) atOnce() int {
	if in.q.Session != "" {
		return 4
	}
	return 1
}

// Read asks ClickHouse. conn may be a user that only reads; it stays open.
func Read(ctx context.Context, conn driver.Conn, q Query) (*Report, error) {
	if q.Database == "" {
		q.Database = "warpline"
	}
	if q.Top == 0 {
		q.Top = 10
	}
	r := &Report{Query: q, At: time.Now().UTC()}
	in := &reader{ctx, conn, q}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(in.atOnce())
	parts := [][]section{
		{{"sessions", readSessions}, {"insights", readInsights}}, {{"row counts", readCounts}}, {{"kernels", readKernels}},
		{{"scopes", readScopes}}, {{"PC samples", readSamples}, {"instructions", readSpots}, {"source lines", readTexts}},
		{{"copies", readCopies}}, {{"device metrics", readDevices}}, {{"host metrics", readHosts}}, {{"rejects", readRejects}},
		{{"usage", readBooks}}, {{"disk use", readDisk}},
	}
	skipped := make([][]string, len(parts))
	for i, part := range parts {
		g.Go(func() error {
			for _, s := range part {
				switch err := s.read(&reader{inner, conn, q}, r); {
				case TooLarge(err):
					skipped[i] = append(skipped[i], s.name)
				case err != nil:
					return fmt.Errorf("read %s: %w", s.name, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r.Skipped = slices.Concat(skipped...)
	return r, nil
}

// from returns "database.view WHERE …" for a view that has tenant and session_id, with the arguments of its conditions.
func (in *reader) from(view string, more ...string) (string, []any) {
	where, args := more, []any(nil)
	if in.q.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, in.q.Tenant)
	}
	if in.q.Session != "" {
		begins, asked := SessionBegins("session_id", in.q.Session)
		where, args = append(where, begins), append(args, asked...)
	}
	s := "`" + in.q.Database + "`." + view
	if len(where) > 0 {
		s += " WHERE " + strings.Join(where, " AND ")
	}
	return s, args
}

// each runs a query and calls scan for each row.
func (in *reader) each(sql string, args []any, scan func(driver.Rows) error) error {
	rows, err := in.conn.Query(in.ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
