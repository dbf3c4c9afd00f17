package table_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/hist"
)

// truth is a session of known kernels; facts about it can be told before or after.
type truth struct {
	*store
	kernels []kernelAt
}

type kernelAt struct {
	session  string
	at       string // of 2026-11-20
	duration uint64
	kernel   uint32
	scope    string // '' or train
}

const ms = uint64(1e6)

// kernelRows are around the windows of the tests, which are in minutes 01 to 03 and at the edge of 06 and 07.
var kernelRows = []kernelAt{
	{"w", "10:00:10", 2 * ms, 1, ""},          // a minute without windows, beside one with
	{"w", "10:00:59.999", 2 * ms, 1, ""},      // runs into the next minute, but into no window
	{"w", "10:01:10", 3 * ms, 1, ""},          // before the window
	{"w", "10:01:29.999", 2 * ms, 1, ""},      // runs into the window
	{"w", "10:01:30", 0, 1, ""},               // empty, at the window's first instant
	{"w", "10:02:10", 5 * ms, 1, ""},          // inside, in a minute that is all window
	{"w", "10:03:10", 7 * ms, 2, "train"},     // starts at the window's last instant
	{"w", "10:03:10.001", 9 * ms, 2, "train"}, // behind it
	{"w", "10:03:50", 11 * ms, 1, "train"},
	{"w", "10:06:59.990", 15 * ms, 1, ""}, // begins in the minute before a window and runs into it
	{"w", "10:06:59.980", 5 * ms, 1, ""},
	{"w", "10:07:30", 1 * ms, 1, ""},
	{"w", "10:20:00", 4 * ms, 3, ""}, // far from any
	{"v", "10:02:10", 5 * ms, 1, ""}, // another session at the same time
}

// windows of session w; the two long ones overlap, the second inside the first, so that the later start has the earlier end.
const windowRows = "INSERT INTO {db}.deep_windows_data (tenant, session_id, started_at, ended_at) VALUES " +
	"('acme', 'w', '2026-11-20 10:01:30', '2026-11-20 10:03:10'), ('acme', 'w', '2026-11-20 10:01:40', '2026-11-20 10:01:50'), " +
	"('acme', 'w', '2026-11-20 10:07:00', '2026-11-20 10:07:10')"

func newTruth(t *testing.T) *truth {
	s := &truth{store: newStore(t, true), kernels: kernelRows}
	return s
}

// facts tells what launches are, as the worker does before it writes kernels.
func (s *truth) facts() {
	s.Exec(`INSERT INTO {db}.launches (tenant, session_id, launch_id, kernel_id, config_id) SELECT 'acme', session, n, kernel, config FROM
		(SELECT arrayJoin(['w', 'v']) AS session, c.1 AS n, c.2 AS kernel, c.3 AS config
    FROM (SELECT arrayJoin([(10, 1, 0), (11, 1, 1), (20, 2, 0), (21, 2, 1), (30, 3, 0)]) AS c))`)
	s.Exec("INSERT INTO {db}.launch_configs (tenant, session_id, config_id, user_scope) VALUES ('acme', 'w', 1, 'train'), ('acme', " +
		"'v', 1, 'train')")
	s.Exec("INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, late) VALUES ('acme', 'w', 'kernel_dict', 1, 'gemm', " +
		"0), ('acme', 'v', 'kernel_dict', 1, 'gemm', 0), ('acme', 'w', 'kernel_dict', 2, 'late', 1)")
}

func (s *truth) raw() {
	var rows []string
	for i, k := range s.kernels {
		launch := k.kernel * 10
		if k.scope != "" {
			launch++
		}
		rows = append(rows, fmt.Sprintf("('acme', '%s', '2026-11-20 %s', %d, %d, %d, now(), 30)", k.session, k.at, k.duration, launch, i))
	}
	s.Exec("INSERT INTO {db}.kernels_data (tenant, session_id, started_at, duration_ns, launch_id, corr_id, received_at, " +
		"retention_days) VALUES " + strings.Join(rows, ", "))
}

// rollup writes a row a kernel; views add them up. Kernel 2 has no name yet when it is counted.
func (s *truth) rollup(bucketS int) {
	var rows []string
	for _, k := range s.kernels {
		name := map[uint32]string{1: "gemm"}[k.kernel]
		bucket := k.at[:5]
		if bucketS == 3600 {
			bucket = k.at[:2] + ":00"
		}
		rows = append(rows, fmt.Sprintf("('acme', '%s', '2026-11-20 %s:00', %d, %d, '%s', '%s', 1, %[7]d, %[7]d, %[7]d, map(%d, 1), "+
			"today(), 365)", k.session, bucket, bucketS, k.kernel, name, k.scope, k.duration, hist.Index(k.duration)))
	}
	s.Exec("INSERT INTO {db}.kernel_stats_data (tenant, session_id, bucket, bucket_s, kernel_id, kernel, scope, calls, total_ns, " +
		"min_ns, max_ns, duration_hist, received_day, retention_days) VALUES " + strings.Join(rows, ", "))
}

// statsQuery leaves nothing of a row out.
const statsQuery = "SELECT session_id, formatDateTime(bucket, '%H:%i'), kernel, scope, kernel_id, calls, total_ns, min_ns, max_ns, " +
	"disturbed_calls, synthetic_calls, disturbed, arraySum(mapValues(duration_hist)) = calls FROM {db}.kernel_stats ORDER BY " +
	"session_id, bucket, kernel, scope, kernel_id"

// exactStats is what honest kernels add up to: minutes with windows from the raw rows.
var exactStats = strings.Join([]string{
	"v\t10:02\tgemm\t\t1\t1\t5000000\t5000000\t5000000\t0\t0\t0\t1",
	"w\t10:00\tgemm\t\t1\t2\t4000000\t2000000\t2000000\t0\t0\t0\t1",
	"w\t10:01\tgemm\t\t1\t1\t3000000\t3000000\t3000000\t2\t0\t1\t1",
	"w\t10:02\tgemm\t\t1\t0\t0\t0\t0\t1\t0\t1\t1",
	"w\t10:03\tgemm\ttrain\t1\t1\t11000000\t11000000\t11000000\t0\t0\t0\t1",
	"w\t10:03\tlate\ttrain\t2\t1\t9000000\t9000000\t9000000\t1\t0\t1\t1",
	"w\t10:06\tgemm\t\t1\t1\t5000000\t5000000\t5000000\t1\t0\t1\t1",
	"w\t10:07\tgemm\t\t1\t1\t1000000\t1000000\t1000000\t0\t0\t0\t1",
	"w\t10:20\t\t\t3\t1\t4000000\t4000000\t4000000\t0\t0\t0\t1",
}, "\n")

// sumsAgree compares kernel_sums and scope_sums, added up, with the views that have each minute once.
func (s *truth) sumsAgree(t *testing.T) {
	t.Helper()
	const kernels = "tenant, session_id, bucket, toString(kernel) AS name, toString(scope) AS path, if(name = '', kernel_id, 0) AS id"
	const scopes = "tenant, session_id, bucket, toString(scope) AS name, if(name = '', name_id, 0) AS id"
	for view, q := range map[string][2]string{
		"kernel_stats": {
			"SELECT " + kernels + ", calls, total_ns, min_ns, max_ns, duration_hist, bucket_s, synthetic_calls, disturbed_calls, disturbed " +
				"FROM {db}.kernel_stats",
			"SELECT " + kernels + ", sum(calls) AS n, sum(total_ns), minIf(min_ns, calls > 0), max(max_ns), sumMap(duration_hist), " +
				"max(bucket_s), sum(synthetic_calls), sum(disturbed_calls), max(disturbed) FROM {db}.kernel_sums GROUP BY " +
				"tenant, session_id, bucket, name, path, id"},
		"scope_stats": {
			"SELECT " + scopes + ", calls, total_ns, min_ns, max_ns, duration_hist, unmatched_begin, unmatched_end, child_ns FROM " +
				"{db}.scope_stats WHERE calls + unmatched_begin + unmatched_end > 0", // others are minutes of kernels alone
			"SELECT " + scopes + ", sum(calls) AS n, sum(total_ns), minIf(min_ns, calls > 0), max(max_ns), sumMap(duration_hist), " +
				"sum(unmatched_begin), sum(unmatched_end), sum(child_ns) FROM {db}.scope_sums GROUP BY tenant, session_id, bucket, name, id"},
	} {
		for _, both := range [][2]string{{q[0], q[1]}, {q[1], q[0]}} {
			if n := s.Query("SELECT count() FROM (" + both[0] + " EXCEPT " + both[1] + ")"); n != "0" {
				t.Errorf("%s: %s rows are in one way to add up alone: %s", view, n, s.Query(both[0]+" EXCEPT "+both[1]+" LIMIT 3"))
			}
		}
	}
}

// Windows are told before, between and after the data: the answer is the same.
func TestDisturbedKernelsAreLeftOut(t *testing.T) {
	for name, order := range map[string][]func(*truth){
		"windows first": {func(s *truth) { s.Exec(windowRows) }, (*truth).facts, (*truth).raw, func(s *truth) { s.rollup(60) }},
		"windows last":  {func(s *truth) { s.rollup(60) }, (*truth).facts, (*truth).raw, func(s *truth) { s.Exec(windowRows) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTruth(t)
			for _, step := range order {
				step(s)
			}
			s.Want("SELECT groupArray(corr_id) FROM (SELECT corr_id FROM {db}.kernels WHERE disturbed = 1 ORDER BY corr_id)", "[3,4,5,6,9]")
			s.Want("SELECT sum(synthetic), count() FROM {db}.kernels", fmt.Sprintf("0\t%d", len(kernelRows)))
			s.Want(statsQuery, exactStats)
			s.Want("SELECT sum(calls + disturbed_calls) FROM {db}.kernel_stats", fmt.Sprint(len(kernelRows)))
			s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
			s.Want(statsQuery, exactStats)
			s.Want(strings.Replace(statsQuery, "ORDER", "WHERE tenant = 'acme' AND session_id = 'v' ORDER", 1),
				strings.Split(exactStats, "\n")[0])
		})
	}
}

// Without raw rows a minute with a window is labelled, and its neighbour is as it was counted.
func TestDisturbedMinutesWithoutRawRows(t *testing.T) {
	s := newTruth(t)
	s.facts()
	s.rollup(60)
	s.Exec(windowRows)
	want := strings.Join([]string{
		"v\t10:02\tgemm\t\t1\t1\t5000000\t5000000\t5000000\t0\t0\t0\t1",
		"w\t10:00\tgemm\t\t1\t2\t4000000\t2000000\t2000000\t0\t0\t0\t1",
		"w\t10:01\tgemm\t\t1\t0\t0\t0\t0\t3\t0\t1\t1",
		"w\t10:02\tgemm\t\t1\t0\t0\t0\t0\t1\t0\t1\t1",
		"w\t10:03\tgemm\ttrain\t1\t0\t0\t0\t0\t1\t0\t1\t1",
		"w\t10:03\tlate\ttrain\t2\t0\t0\t0\t0\t2\t0\t1\t1",
		"w\t10:06\tgemm\t\t1\t2\t20000000\t5000000\t15000000\t0\t0\t0\t1",
		"w\t10:07\tgemm\t\t1\t0\t0\t0\t0\t1\t0\t1\t1",
		"w\t10:20\t\t\t3\t1\t4000000\t4000000\t4000000\t0\t0\t0\t1",
	}, "\n")
	s.Want(statsQuery, want)
	s.sumsAgree(t)
	// Some raw rows of a minute are gone: what is left of it says nothing.
	s.kernels = append([]kernelAt(nil), kernelRows[3:5]...)
	s.raw()
	s.Want(statsQuery, want)
	// The rest comes (another part of the table was late).
	s.kernels = append(append([]kernelAt(nil), kernelRows[:3]...), kernelRows[5:]...)
	s.raw()
	s.Want(statsQuery, exactStats)
}

// An hour cannot be taken apart: it stays in and is marked.
func TestDisturbedHours(t *testing.T) {
	s := newTruth(t)
	s.facts()
	s.raw()
	s.rollup(3600)
	s.Exec(windowRows)
	s.Want("SELECT session_id, kernel, scope, calls, total_ns, disturbed_calls, disturbed FROM {db}.kernel_stats ORDER BY session_id, "+
		"kernel, scope", strings.Join([]string{
		"v\tgemm\t\t1\t5000000\t0\t0",
		"w\t\t\t1\t4000000\t0\t1",
		"w\tgemm\t\t9\t35000000\t0\t1",
		"w\tgemm\ttrain\t1\t11000000\t0\t1",
		"w\tlate\ttrain\t2\t16000000\t0\t1",
	}, "\n"))
	s.sumsAgree(t)
}

// A kernel of more than a minute is compared with every window of its session.
func TestLongKernelsAreDisturbedFromAfar(t *testing.T) {
	s := newTruth(t)
	s.kernels = []kernelAt{{"w", "09:00:00", 3_690_000 * ms, 1, ""}, {"w", "09:00:01", 3_600_000 * ms, 1, ""},
		{"w", "10:20:00", 3_600_000 * ms, 1, ""}, {"w", "10:00:00", 1<<63 - 1, 1, ""}, {"v", "09:00:00", 3_690_000 * ms, 1, ""}}
	s.facts()
	s.raw()
	s.Exec(windowRows)
	s.Want("SELECT groupArray(corr_id) FROM (SELECT corr_id FROM {db}.kernels WHERE disturbed = 1 ORDER BY corr_id)", "[0,3]")
}

// Durations of a synthetic session are shown, and are in no statistic, whenever that is learned.
func TestSyntheticSessions(t *testing.T) {
	s := newTruth(t)
	s.facts()
	s.raw()
	s.rollup(60)
	s.Exec(windowRows)
	before := s.Query(statsQuery)
	s.Exec("INSERT INTO {db}.synthetic_sessions_data (tenant, session_id) VALUES ('other', 'w'), ('acme', 'nosuch')")
	s.Want(statsQuery, before)
	s.Exec("INSERT INTO {db}.synthetic_sessions_data (tenant, session_id) VALUES ('acme', 'w'), ('acme', 'w')")
	s.Want("SELECT session_id, sum(synthetic), count() FROM {db}.kernels GROUP BY session_id ORDER BY session_id", "v\t0\t1\nw\t13\t13")
	s.Want("SELECT session_id, sum(calls), sum(total_ns), sum(min_ns), sum(max_ns), sum(p50_ns), sum(p99_ns), sum(synthetic_calls), "+
		"sum(disturbed_calls), sum(disturbed), sum(length(duration_hist)) FROM {db}.kernel_stats GROUP BY session_id ORDER BY session_id",
		fmt.Sprintf("v\t1\t%[1]d\t%[1]d\t%[1]d\t%[1]d\t%[1]d\t0\t0\t0\t1\nw\t0\t0\t0\t0\t0\t0\t13\t0\t0\t0", 5*ms))
	s.sumsAgree(t)
}

// A question about one session reads that session alone, whether or not others have deep windows. What these are is looked at for that
// session alone too; statistics look through the sessions of all.
func TestTruthViewsReadOneSession(t *testing.T) {
	s := newStore(t, true)
	const sessions, rows = 20, 400_000 // more than a granule a session
	for name, columns := range map[string]string{
		"kernels_data": "started_at, received_at", "launches": "launch_id, received_day", "launch_configs": "config_id, received_day",
		"kernel_stats_data": "kernel_id, received_day",
		"sessions_data":     "chunk, received_day", "session_ends_data": "chunk, received_day", "segments_data": "chunk, received_day",
	} {
		number := "number"
		if columns == "started_at, received_at" {
			number = "toDateTime64('2026-11-20 10:00:00', 9, 'UTC') + toIntervalMillisecond(number)"
		}
		partition := ""
		if strings.HasPrefix(columns, "chunk") { // rows of one key would become one
			partition = ", rows_partition"
		}
		sql := fmt.Sprintf("INSERT INTO {db}.%s (tenant, session_id, %s, retention_days%s) SELECT 'acme', toString(number %% %d), %s, "+
			"now(), 30", name, columns, partition, sessions, number)
		if partition != "" {
			sql += fmt.Sprintf(", number / %d", sessions)
		}
		s.Exec(sql + fmt.Sprintf(" FROM numbers(%d)", rows))
	}
	// Without deep windows no raw row is looked at for statistics, of all sessions together neither.
	s.Want("SELECT DISTINCT table FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}.kernel_stats)) WHERE rows > 0",
		"kernel_stats_data")
	s.Exec("INSERT INTO {db}.deep_windows_data (tenant, session_id, started_at, ended_at) SELECT 'acme', toString(arrayJoin([7, 8])), " +
		"'2026-11-20 10:02:00', '2026-11-20 10:02:01'")
	s.Exec(fmt.Sprintf("INSERT INTO {db}.deep_windows_data (tenant, session_id, started_at, ended_at) SELECT 'rival', toString(number "+
		"%% %d), toDateTime64('2026-11-20 00:00:00', 9, 'UTC') + toIntervalSecond(number) AS at, at FROM numbers(%d)", sessions, rows))
	for _, view := range []string{"kernel_stats", "kernels", "sessions", "segments", "touched_minutes"} {
		out := s.Query("SELECT table, sum(rows) FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}." + view +
			" WHERE tenant = 'acme' AND session_id = '7')) GROUP BY table ORDER BY table")
		read := strings.Fields(out)
		if len(read) == 0 {
			t.Errorf("%s reads nothing", view)
		}
		for i := 0; i < len(read); i += 2 {
			most := rows / 4
			if read[i] == "deep_windows_data" && view != "kernels" {
				most = 2*rows + most // to know which sessions have some, of the kernels and of the names
			}
			if n, err := strconv.Atoi(read[i+1]); err != nil || n > most {
				t.Errorf("%s: %s of %d rows of %s are read, %v", view, read[i+1], rows, read[i], err)
			}
		}
		t.Logf("%s: %q", view, out)
	}
}
