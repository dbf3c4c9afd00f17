package table

import "fmt"

// What is known of a session's durations only later is joined when they are read. These are the pieces of SQL that do it. They stand in
// the select list or in IN, not in joins: ClickHouse leaves an expression out that nobody asks for, but never a join. Measured with three
// million kernels, a third of them in sessions with windows: 0.02 s for a query that does not ask (as without the columns), 0.24 s
// for one that does; ASOF LEFT JOIN takes 0.22 s from both. kernel_stats without windows: planning takes some 45 ms longer than without
// all this, a million rollup rows 3 to 4 % longer; no raw row is read (BenchmarkHonestDurations).

// minuteNS is the length of the buckets that statistics are kept in.
const minuteNS = 60_000_000_000

// anyMinute is the key under which a session's deep windows stand for kernels that last longer than a minute.
const anyMinute = 1<<32 - 1

func minuteSQL(at string) string {
	return fmt.Sprintf("toUInt32(intDiv(toUnixTimestamp64Nano(%s), %d))", at, minuteNS)
}

func nanosSQL(at string) string { return "toUInt64(toUnixTimestamp64Nano(" + at + "))" }

// windowMinutesSQL is the minutes of a deep window, the one before it included when before is 1: a kernel that runs into the window may have
// begun there.
func windowMinutesSQL(before int) string {
	return fmt.Sprintf("range(toUInt32(greatest(toInt64(%s) - %d, 0)), toUInt32(%s + 1))", minuteSQL("started_at"), before, minuteSQL("ended_at"))
}

// touchedSQL is the right side of IN for (tenant, session_id, minute): minutes in which a deep window is.
func touchedSQL(o Options, before int) string {
	return fmt.Sprintf("(SELECT tenant, session_id, arrayJoin(%s) AS minute FROM %s.deep_windows_data)", windowMinutesSQL(before), ident(o.database()))
}

// windowedSQL is the right side of IN for (tenant, session_id): sessions with deep windows.
func windowedSQL(o Options) string {
	return fmt.Sprintf("(SELECT tenant, session_id FROM %s.deep_windows_data)", ident(o.database()))
}

// syntheticSQL is true for rows of sessions whose durations are gaps between launches.
func syntheticSQL(o Options, tenant, session string) string {
	return fmt.Sprintf("((%s, %s) IN (SELECT tenant, session_id FROM %s.synthetic_sessions_data))", tenant, session, ident(o.database()))
}

// marksSQL is a scalar that disturbedSQL looks into: a tuple of hashes of (tenant, session, minute) and the deep windows of each. Both arrays
// begin with an element that no kernel finds, since transform takes no empty ones.
func marksSQL(o Options) string {
	return fmt.Sprintf("(SELECT (arrayPushFront(groupArray(h), toUInt64(0)), arrayPushFront(groupArray(w), [])) FROM ("+
		"SELECT sipHash64(tenant, session_id, minute) AS h, groupArray((f, t)) AS w FROM ("+
		"SELECT tenant, session_id, %s AS f, %s AS t, %s AS minute FROM %s.deep_windows_data) GROUP BY h))", nanosSQL("started_at"), nanosSQL("ended_at"), keyMinutes, ident(o.database()))
}

// keyMinutes is the minutes under which a deep window is found, one a row.
var keyMinutes = fmt.Sprintf("arrayJoin(arrayPushBack(%s, toUInt32(%d)))", windowMinutesSQL(1), uint32(anyMinute))

// disturbedSQL is true for kernels, of the table alias k, that ran while a deep window of their session was open; marks is the name that
// the query gives to marksSQL. Windows are found by session and minute, so that each kernel is compared with few; those that begin in
// the minute behind count as well. A kernel of more than a minute is compared with all windows of its session.
func disturbedSQL(o Options, k, marks string) string {
	minute := fmt.Sprintf("if(%[1]s.duration_ns > %[2]d, toUInt32(%[3]d), %[4]s)", k, minuteNS, uint32(anyMinute), minuteSQL(k+".started_at"))
	return fmt.Sprintf("((%[1]s.tenant, %[1]s.session_id, %[2]s) IN (SELECT tenant, session_id, %[3]s FROM %[4]s.deep_windows_data)"+
		" AND arrayExists(w -> w.1 <= %[5]s + %[1]s.duration_ns AND w.2 >= %[5]s, tupleElement(%[6]s, 2)[transform(sipHash64(%[1]s.tenant, %[1]s.session_id, %[2]s),"+
		" tupleElement(%[6]s, 1), arrayEnumerate(tupleElement(%[6]s, 1)), toUInt32(1))]))", k, minute, keyMinutes, ident(o.database()), nanosSQL(k+".started_at"), marks)
}
