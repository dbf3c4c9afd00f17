package table

import (
	"fmt"
)

// What becomes known of a session's durations only later is joined when they are read. Deep windows are joined by tenant and session, so
// that a query about one session reads only that session's windows: a set of their minutes, or a scalar, would be made of the windows of
// all tenants, for every query (BenchmarkHonestDurations). Only the sessions that have windows are such a set, see windowedSQL.

// minuteNS is the length of the buckets that statistics are kept in.
const minuteNS = 60_000_000_000

// anyMinute is the key under which a session's deep windows stand for kernels that last longer than a minute.
const anyMinute = 1<<32 - 1

func minuteSQL(at string) string {
	return fmt.Sprintf("toUInt32(intDiv(toUnixTimestamp64Nano(%s), %d))", at, minuteNS)
}

func nanosSQL(at string) string { return "toUInt64(toUnixTimestamp64Nano(" + at + "))" }

// windowMinutesSQL is the minutes of a deep window, the one before it included when before is 1: a kernel that runs into the window may
// have begun there.
func windowMinutesSQL(before int) string {
	return fmt.Sprintf("range(toUInt32(greatest(toInt64(%s) - %d, 0)), toUInt32(%s + 1))", minuteSQL("started_at"), before,
		minuteSQL("ended_at"))
}

// touchedSQL is minutes in which a deep window is (tenant, session_id, minute), the one before included when before is 1, each once;
// touched is 1.
func touchedSQL(o Options, before int) string {
	return fmt.Sprintf("(SELECT DISTINCT tenant, session_id, arrayJoin(%s) AS minute, toUInt8(1) AS touched FROM %s.deep_windows_data)",
		windowMinutesSQL(before), ident(o.database()))
}

// windowedSQL is the right side of IN for (tenant, session_id): sessions with deep windows. It is made of those of all tenants, but IN lets
// ClickHouse pass over the rows of other sessions by their key, as a join does not on every version: where nobody has windows, statistics
// do not read raw rows.
func windowedSQL(o Options) string {
	return fmt.Sprintf("(SELECT tenant, session_id FROM %s.deep_windows_data)", ident(o.database()))
}

// syntheticSQL is true for rows of sessions whose durations are gaps between launches.
func syntheticSQL(o Options, tenant, session string) string {
	return fmt.Sprintf("((%s, %s) IN (SELECT tenant, session_id FROM %s.synthetic_sessions_data))", tenant, session, ident(o.database()))
}

// intervalsSQL is deep windows by (tenant, session_id, minute), as arrays of their begins and ends in nanoseconds. A minute also has the
// windows that begin in the next one, since a kernel may run into them, and anyMinute has all windows of a session.
func intervalsSQL(o Options) string {
	return fmt.Sprintf("(SELECT tenant, session_id, minute, groupArray((f, t)) AS intervals FROM ("+
		"SELECT tenant, session_id, %s AS f, %s AS t, arrayJoin(arrayPushBack(%s, toUInt32(%d))) AS minute FROM %s.deep_windows_data) "+
		"GROUP BY tenant, session_id, minute)",
		nanosSQL("started_at"), nanosSQL("ended_at"), windowMinutesSQL(1), uint32(anyMinute), ident(o.database()))
}

// intervalKeySQL is the minute under which intervalsSQL has the deep windows that a kernel, of the table alias k, must be compared with.
// They are few, except for a kernel of more than a minute, which is compared with all windows of its session.
func intervalKeySQL(k string) string {
	return fmt.Sprintf("if(%[1]s.duration_ns > %[2]d, toUInt32(%[3]d), %[4]s)", k, minuteNS, uint32(anyMinute), minuteSQL(k+".started_at"))
}

// disturbedSQL is true for kernels, of the table alias k, that ran while a deep window of their session was open. The query joins
// intervalsSQL as w.
func disturbedSQL(k, w string) string {
	return fmt.Sprintf("arrayExists(s -> s.1 <= %[1]s + %[2]s.duration_ns AND s.2 >= %[1]s, %[3]s.intervals)", nanosSQL(k+".started_at"), k, w)
}

// SyntheticRow is a row of Synthetic.
type SyntheticRow struct {
	HeadRow
	ReceivedDay int32
}

// Synthetic holds the sessions whose kernel durations are gaps between launches on the host. It follows from Capabilities; every
// statistic asks it, so it must stay small.
var Synthetic = DefineRows(Define("synthetic_sessions_data", Fact, "tenant, session_id"), func(c *Binder[SyntheticRow], r *SyntheticRow) {
	c.Head(&r.HeadRow)
	c.FactTail(&r.ReceivedDay)
})

// DeepWindowRow is a row of DeepWindows.
type DeepWindowRow struct {
	HeadRow
	Name                 string
	CloseReason          string
	Engines              string
	StartedAt            int64
	EndedAt              int64
	DurationNS           uint64
	LaunchesCovered      uint64
	RequestedDurationMS  uint64
	RequestedMaxLaunches uint64
	TriggerRuleID        string
	TriggerMetric        string
	TriggerOp            string
	Threshold            float64
	RearmThreshold       float64
	Observed             float64
	RateWindowMS         uint64
	SustainedMS          uint64
	FirstTrueAt          int64
	FiredAt              int64
	ReceivedDay          int32
}

// DeepWindows holds the times in which sessions were profiled deeply. What runs in one is disturbed.
var DeepWindows = DefineRows(Define("deep_windows_data", Fact, "tenant, session_id, started_at"),
	func(c *Binder[DeepWindowRow], r *DeepWindowRow) {
		c.Head(&r.HeadRow)
		c.Dict("name", &r.Name)
		c.Dict("close_reason", &r.CloseReason, Note("deadline, launch_budget, manual, session_stop"))
		c.Dict("engines", &r.Engines, Note("names, one a line"))
		c.Time("started_at", &r.StartedAt)
		c.Time("ended_at", &r.EndedAt)
		c.U64("duration_ns", &r.DurationNS)
		c.U64("launches_covered", &r.LaunchesCovered)
		c.U64("requested_duration_ms", &r.RequestedDurationMS)
		c.U64("requested_max_launches", &r.RequestedMaxLaunches)
		c.Dict("trigger_rule_id", &r.TriggerRuleID, Note("'' when a person opened the window"))
		c.Dict("trigger_metric", &r.TriggerMetric)
		c.Dict("trigger_op", &r.TriggerOp)
		c.F64("threshold", &r.Threshold)
		c.F64("rearm_threshold", &r.RearmThreshold)
		c.F64("observed", &r.Observed)
		c.U64("rate_window_ms", &r.RateWindowMS)
		c.U64("sustained_ms", &r.SustainedMS)
		c.Time("first_true_at", &r.FirstTrueAt)
		c.Time("fired_at", &r.FiredAt)
		c.FactTail(&r.ReceivedDay)
	})
