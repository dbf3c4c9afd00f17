package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// MemoryQuery says which memory telemetry to report on. The zero value is everything.
type MemoryQuery struct {
	Database string `json:"database"` // "" is warpline
	Tenant   string `json:"tenant"`   // "" is all
	Session  string `json:"session"`  // "" is all; else a session id or the beginning of one
	Job      string `json:"job"`      // "" is all; else a job id
	Ranks    Ranks  `json:"ranks"`
}

// Memory is what ReadMemory found. Sizes are bytes.
type Memory struct {
	Query    MemoryQuery     `json:"query"`
	At       time.Time       `json:"at"`
	Series   []MemorySeries  `json:"series"` // by run, rank and device
	More     uint64          `json:"more"`   // series beyond those
	Ranks    []MemoryRank    `json:"ranks"`
	Findings []MemoryFinding `json:"findings"` // worst first
	Issues   []MemoryIssue   `json:"issues"`   // worst first
	Phases   []MemoryPhase   `json:"phases"`   // longest first
}

// MemorySeries is the memory of one rank on one device, as one session saw it.
type MemorySeries struct {
	Tenant    string      `json:"tenant"`
	Session   string      `json:"session_id"`
	Job       string      `json:"job_id"`
	Run       string      `json:"run"`
	Host      string      `json:"host"`
	Device    int64       `json:"device_id"`
	Rank      int64       `json:"rank"`
	Samples   uint64      `json:"samples"`
	Started   time.Time   `json:"started_at"`
	Ended     time.Time   `json:"ended_at"`
	Total     int64       `json:"total_bytes"` // 0 while it is not known
	Allocated MemoryCurve `json:"allocated"`
	Reserved  MemoryCurve `json:"reserved"`
	Used      MemoryCurve `json:"used"`
	// Measured says that Used is, at least in part, what GPU Flight measured.
	Measured   bool `json:"measured"`
	ByMinute   bool `json:"by_minute"` // the samples have expired, these are peaks of minutes
	Allocs     Flow `json:"allocations"`
	Deallocs   Flow `json:"deallocations"`
	slices     []uint64
	maxima     [3][]int64
	afterwards [3][]int64
}

// MemoryCurve is a size over time.
type MemoryCurve struct {
	// Values are the largest of equal slices of time, oldest first. A slice without samples has the value of the one before.
	Values []int64 `json:"values"`
	Last   int64   `json:"last"`
	Peak   int64   `json:"peak"`
}

// Flow adds up changes of one direction. The rates are over the time of the series, a second at least.
type Flow struct {
	Count          uint64  `json:"count"`
	Bytes          int64   `json:"bytes"`
	BytesPerSecond float64 `json:"bytes_per_second"`
}

// MemoryRank is a rank of a run with several, present or missing.
type MemoryRank struct {
	Run            string    `json:"run"`
	Session        string    `json:"session_id"`
	Rank           int64     `json:"rank"`
	Missing        bool      `json:"missing"`
	Samples        uint64    `json:"samples"`
	AllocatedDelta *int64    `json:"allocated_delta_bytes"` // nil, like those below, if no sample says it
	ReservedDelta  *int64    `json:"reserved_delta_bytes"`
	Gap            *int64    `json:"hidden_gap_latest_bytes"`
	MaxGap         *int64    `json:"hidden_gap_peak_abs_bytes"`
	Anomalies      uint64    `json:"anomalies"`
	FirstOdd       string    `json:"first_anomaly_signal"`
	FirstOddAt     time.Time `json:"first_anomaly_at"`
}

// MemoryFinding is one thing to look at.
type MemoryFinding struct {
	Severity   string    `json:"severity"` // critical, warning, info
	Kind       string    `json:"kind"`
	Run        string    `json:"run"`
	Session    string    `json:"session_id"` // "" if it is about all sessions
	Rank       int64     `json:"rank"`       // -1 if it is about all ranks
	Device     int64     `json:"device_id"`
	At         time.Time `json:"at"`
	Times      uint64    `json:"times"`
	Confidence float64   `json:"confidence"` // 0 to 1; 1 for a fact, 0 if it does not apply
	Text       string    `json:"text"`
}

// Bounds of what is read. A fleet does not fit on a page; what is beyond is counted, or found with a narrower query.
const (
	maxMemorySeries   = 64
	maxMemoryRanks    = 4096
	maxMemoryFindings = 500 // of each view
	memoryPoints      = 64
)

// ReadMemory asks ClickHouse. conn may be a user that only reads; it stays open.
func ReadMemory(ctx context.Context, conn driver.Conn, q MemoryQuery) (*Memory, error) {
	if q.Database == "" {
		q.Database = "warpline"
	}
	m := &Memory{Query: q, At: time.Now().UTC()}
	in := &memoryReader{reader: reader{ctx: ctx, conn: conn, q: Query{Database: q.Database, Tenant: q.Tenant, Session: q.Session}}, m: m}
	for _, part := range []struct {
		name string
		read func(*memoryReader) error
	}{
		{"memory samples", readMemorySamples}, {"memory by minutes", readMemoryMinutes}, {"memory changes", readMemoryChanges},
		{"memory ranks", readMemoryRanks}, {"memory findings", readMemoryFindings},
		{"memory issues", readMemoryIssues}, {"memory phases", readMemoryPhases},
	} {
		if err := part.read(in); err != nil {
			return nil, fmt.Errorf("read %s: %w", part.name, err)
		}
		if part.name == "memory by minutes" && len(m.Series) == 0 {
			return m, nil
		}
	}
	rank := func(f MemoryFinding) int { return slices.Index(severities, f.Severity) }
	ooms := func(f MemoryFinding) int { return strings.Count(f.Kind, "out of memory") } // nothing is worse
	slices.SortStableFunc(m.Findings, func(a, b MemoryFinding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(ooms(b), ooms(a)), cmp.Compare(b.Confidence, a.Confidence), a.At.Compare(b.At),
			cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Kind, b.Kind))
	})
	return m, nil
}

// severities are in the order in which findings are shown.
var severities = []string{"critical", "warning", "info"}

type memoryReader struct {
	reader
	m    *Memory
	runs []string // of the series found
}

// asked returns "database.view WHERE …" for a view of sessions that has a job and a rank.
func (in *memoryReader) asked(view string) (string, []any) {
	var more []string
	var args []any
	if in.m.Query.Job != "" {
		more, args = append(more, "job_id = ?"), append(args, in.m.Query.Job)
	}
	if s := in.m.Query.Ranks.sql("rank"); s != "" {
		more = append(more, s)
	}
	if len(more) == 0 {
		more = append(more, "true") // so that conditions can follow
	}
	from, rest := in.from(view, more...)
	return from, append(args, rest...)
}

// together is the same for a view of whole runs: a session is asked for by the run that it is part of.
func (in *memoryReader) together(view string) (string, []any) {
	where, args := []string{"has(?, run)"}, []any{in.runs}
	if in.q.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, in.q.Tenant)
	}
	if s := in.m.Query.Ranks.sql("rank"); s != "" {
		where = append(where, s)
	}
	return "`" + in.q.Database + "`." + view + " WHERE " + strings.Join(where, " AND "), args
}

func readMemorySamples(in *memoryReader) error {
	from, args := in.asked("memory_samples")
	return in.series("SELECT tenant, session_id, job_id, run, host, device_id, rank, at, allocated_bytes, reserved_bytes, used_bytes, "+
		"total_bytes, used_source, 1 AS looks FROM "+from, args, false)
}

// readMemoryMinutes reads rollups if the samples have expired.
func readMemoryMinutes(in *memoryReader) error {
	if len(in.m.Series) == 0 {
		from, args := in.asked("memory_stats")
		if err := in.series(`SELECT toString(tenant) AS tenant, toString(session_id) AS session_id, toString(job_id) AS job_id, if(job_id = '',`+
			` session_id, job_id) AS run, toString(host) AS host, device_id, rank,
			bucket AS at, toInt64(ifNull(peak_allocated_bytes, 0)) AS allocated_bytes, toInt64(ifNull(peak_reserved_bytes, 0)) AS reserved_bytes, `+
			`toInt64(ifNull(peak_used_bytes, 0)) AS used_bytes, toInt64(total_bytes) AS total_bytes,
			'event' AS used_source, events AS looks FROM `+from, args, true); err != nil {
			return err
		}
	}
	for _, s := range in.m.Series {
		if !slices.Contains(in.runs, s.Run) {
			in.runs = append(in.runs, s.Run)
		}
	}
	return nil
}

// series reads curves from a SELECT of samples.
func (in *memoryReader) series(samples string, args []any, byMinute bool) error {
	const key = "tenant, session_id, job_id, run, device_id, rank"
	err := in.each(fmt.Sprintf(`SELECT %[1]s, any(host), sum(n), min(first_at), max(last_at), max(total), max(measured),
			arrayMap(x -> x.1, arraySort(groupArray((slice, ma, mr, mu, la, lr, lu))) AS found), arrayMap(x -> x.2, found), arrayMap(x -> x.3, `+
		`found), arrayMap(x -> x.4, found), arrayMap(x -> x.5, found), arrayMap(x -> x.6, found), arrayMap(x -> x.7, found),
			count() OVER () AS everything
		FROM (
			SELECT %[1]s, any(host) AS host, slice, sum(looks) AS n, min(at) AS first_at, max(at) AS last_at, max(total_bytes) AS total, `+
		`max(used_source = 'device_metrics') AS measured,
				max(allocated_bytes) AS ma, max(reserved_bytes) AS mr, max(used_bytes) AS mu, argMax(allocated_bytes, t) AS la, `+
		`argMax(reserved_bytes, t) AS lr, argMax(used_bytes, t) AS lu
			FROM (
				SELECT *, toUnixTimestamp64Nano(at) AS t, min(t) OVER (PARTITION BY %[1]s) AS t0, max(t) OVER (PARTITION BY %[1]s) AS t1,
					toUInt64(least(%[2]d, floor((t - t0) / greatest(t1 - t0, 1) * %[3]d))) AS slice
				FROM (%[4]s))
			GROUP BY %[1]s, slice)
		GROUP BY %[1]s ORDER BY tenant, run, rank, device_id, session_id LIMIT %[5]d`, key, memoryPoints-1, memoryPoints, samples,
		maxMemorySeries), args, func(rows driver.Rows) error {
		s := MemorySeries{ByMinute: byMinute}
		var measured uint8
		var everything uint64
		if err := rows.Scan(&s.Tenant, &s.Session, &s.Job, &s.Run, &s.Device, &s.Rank, &s.Host, &s.Samples, &s.Started, &s.Ended, &s.Total,
			&measured,
			&s.slices, &s.maxima[0], &s.maxima[1], &s.maxima[2], &s.afterwards[0], &s.afterwards[1], &s.afterwards[2], &everything); err != nil {
			return err
		}
		s.Measured = measured == 1
		s.fill()
		in.m.Series = append(in.m.Series, s)
		in.m.More = everything - uint64(len(in.m.Series))
		return nil
	})
	return err
}

// fill spreads what was found over all slices: trackers do not write while nothing changes.
func (s *MemorySeries) fill() {
	n := memoryPoints
	if s.Samples == 1 || len(s.slices) == 1 {
		n = 1
	}
	for i, c := range []*MemoryCurve{&s.Allocated, &s.Reserved, &s.Used} {
		at, before := 0, int64(0)
		for slice := range uint64(n) {
			if at < len(s.slices) && s.slices[at] == slice {
				c.Values = append(c.Values, s.maxima[i][at])
				before = s.afterwards[i][at]
				at++
				continue
			}
			c.Values = append(c.Values, before)
		}
		c.Last = before
		c.Peak = slices.Max(c.Values)
	}
}

func readMemoryChanges(in *memoryReader) error {
	from, args := in.asked("memory_events")
	return in.each(`SELECT toString(tenant), toString(session_id), device_id, rank, lower(event_type) AS kind, count(), `+
		`toUInt64(ifNull(sum(abs(allocator_change_bytes)), 0)) FROM (SELECT * FROM `+from+`)
		WHERE kind IN ('allocation', 'deallocation') GROUP BY ALL`, args, func(rows driver.Rows) error {
		var tenant, session, kind string
		var device, rank int64
		var n, size uint64
		if err := rows.Scan(&tenant, &session, &device, &rank, &kind, &n, &size); err != nil {
			return err
		}
		for i := range in.m.Series {
			s := &in.m.Series[i]
			if s.Tenant == tenant && s.Session == session && s.Device == device && s.Rank == rank {
				seconds := max(1, s.Ended.Sub(s.Started).Seconds())
				f := Flow{Count: n, Bytes: int64(size), BytesPerSecond: float64(size) / seconds}
				if kind == "allocation" {
					s.Allocs = f
				} else {
					s.Deallocs = f
				}
			}
		}
		return nil
	})
}

func readMemoryRanks(in *memoryReader) error {
	from, args := in.together("memory_ranks")
	return in.each(fmt.Sprintf(`SELECT run, session_id, rank, availability = 'missing', samples, allocated_delta_bytes, `+
		`reserved_delta_bytes, hidden_gap_latest_bytes, toInt64(hidden_gap_peak_abs_bytes), anomalies, first_anomaly_signal, first_anomaly_at
		FROM %s ORDER BY run, rank LIMIT %d`, from, maxMemoryRanks), args, func(rows driver.Rows) error {
		var r MemoryRank
		var missing uint8
		if err := rows.Scan(&r.Run, &r.Session, &r.Rank, &missing, &r.Samples, &r.AllocatedDelta, &r.ReservedDelta, &r.Gap,
			&r.MaxGap, &r.Anomalies, &r.FirstOdd, &r.FirstOddAt); err != nil {
			return err
		}
		r.Missing = missing == 1
		in.m.Ranks = append(in.m.Ranks, r)
		return nil
	})
}
