package table_test

import (
	"fmt"
	"strings"
	"testing"
)

// A run is complete only when its last segment is known and all up to it are closed, in whatever order that is learned.
func TestRunsView(t *testing.T) {
	s := newStore(t, true)
	segment := func(run string, index int, session, extra string) string {
		return fmt.Sprintf("INSERT INTO {db}.segments_data (tenant, session_id, run_id, segment_index, started_at, ended_at%s) VALUES "+
			"('acme', '%s', '%s', %d, %s)",
			strings.Split(extra, "|")[0], session, run, index, strings.Split(extra, "|")[1])
	}
	session := func(id string, completed, crashed int, ago string) string {
		return fmt.Sprintf("INSERT INTO {db}.sessions_data (tenant, session_id, app, completed, crashed, kernels, samples, "+
			"last_received_at, last_event_at) VALUES ('acme', '%s', 'train', %d, %d, 10, 1, now64(9) - %s, '2026-11-20 10:00:09')", id,
			completed, crashed, ago)
	}
	end := func(run, session string, final int) string {
		return fmt.Sprintf("INSERT INTO {db}.run_ends_data (tenant, session_id, run_id, final_segment_index, ended_at, end_reason, "+
			"rollover_reason) VALUES ('acme', '%s', '%s', %d, '2026-11-20 11:00:00', 'rolled', 'time')", session, run, final)
	}
	const times = "|'2026-11-20 10:00:00', '2026-11-20 10:01:00'"
	for run, rows := range map[string][]string{
		"complete": {end("complete", "c1", 1), session("c0", 1, 0, "3600"), segment("complete", 1, "c1", times),
			session("c1", 1, 0, "3600"), segment("complete", 0, "c0", times), segment("complete", -1, "c1", times)},
		"lacking": {end("lacking", "l3", 3), session("l0", 1, 0, "1"), segment("lacking", 0, "l0", times), session("l3", 1, 0, "1"),
			segment("lacking", 3, "l3", times)},
		"unclosed": {end("unclosed", "u0", 0), session("u0", 0, 0, "1"), segment("unclosed", 0, "u0", times)},
		"endless":  {session("e2", 1, 0, "1"), segment("endless", 2, "e2", times)},
		"silent":   {session("i0", 1, 0, "3600"), segment("silent", 0, "i0", times)},
		"crashed": {session("x0", 1, 1, "3600"), segment("crashed", 0, "x0", times), session("x1", 1, 0, "3600"),
			segment("crashed", 1, "x1", times)},
	} {
		_ = run
		for _, sql := range rows {
			s.Exec(sql)
		}
	}
	s.Exec(session("alone", 1, 0, "1"))
	// Another tenant's run of the same name is another run.
	s.Exec("INSERT INTO {db}.segments_data (tenant, session_id, run_id, segment_index) VALUES ('other', 'c9', 'complete', 9)")
	check := func() {
		s.Helper()
		s.Want("SELECT run_id, state, segments, final_segment_index, missing_segments, sessions, kernels, end_reason FROM {db}.runs "+
			"WHERE tenant = 'acme' ORDER BY run_id", strings.Join([]string{
			"complete\tcomplete\t2\t1\t[]\t2\t20\trolled",
			"crashed\tcrashed\t2\t-1\t[]\t2\t20\tcrashed",
			"endless\topen\t1\t-1\t[0,1]\t1\t10\t",
			"lacking\topen\t2\t3\t[1,2]\t2\t20\trolled",
			"silent\tidle\t1\t-1\t[]\t1\t10\tidle",
			"unclosed\topen\t1\t0\t[]\t1\t10\trolled",
		}, "\n"))
	}
	check()
	for _, name := range []string{"segments_data", "run_ends_data", "sessions_data"} {
		s.Exec("OPTIMIZE TABLE {db}." + name + " FINAL")
	}
	check()
	// An index of a billion lists no billion gaps.
	s.Exec(segment("hostile", 1<<30, "h", times))
	s.Want("SELECT length(missing_segments), segments FROM {db}.runs WHERE run_id = 'hostile'", "65536\t1")
	// Rows from before session_ends_data keep their end.
	s.Exec("INSERT INTO {db}.sessions_data (tenant, session_id, completed, end_reason, ended_at, last_received_at) VALUES ('old', " +
		"'o', 1, 'shutdown', '2026-11-20 10:00:00', now64(9))")
	s.Want("SELECT state, end_reason, toString(ended_at) FROM {db}.sessions WHERE tenant = 'old'",
		"complete\tshutdown\t2026-11-20 10:00:00.000000000")
	s.Exec("INSERT INTO {db}.sessions_data (tenant, session_id, last_received_at, last_event_at) VALUES ('old', 'idle', now64(9) - " +
		"3600, '2026-11-20 10:00:00')")
	s.Want("SELECT state, end_reason, toString(ended_at) FROM {db}.sessions WHERE tenant = 'old' AND session_id = 'idle'",
		"idle\tidle\t2026-11-20 10:00:00.000000000")
	s.Exec("INSERT INTO {db}.sessions_data (tenant, session_id, completed, end_reason, ended_at, last_received_at, last_event_at) " +
		"VALUES ('old', 'told', 1, 'session-complete', '2026-11-21 23:00:00', now64(9), '2026-11-20 10:00:00')")
	s.Want("SELECT state, end_reason, toString(ended_at) FROM {db}.sessions WHERE tenant = 'old' AND session_id = 'told'",
		"crashed\tno_shutdown\t2026-11-20 10:00:00.000000000")
	// A telling that a newer program knows says nothing here.
	s.Exec("INSERT INTO {db}.session_ends_data (tenant, session_id, rank, at) VALUES ('old', 'idle', 99, '2026-11-21 00:00:00'), " +
		"('old', 'told', 99, '2026-11-21 00:00:00')")
	s.Want("SELECT session_id, state, end_reason, toString(ended_at) FROM {db}.sessions WHERE tenant = 'old' AND session_id != 'o' "+
		"ORDER BY session_id",
		"idle\tidle\tidle\t2026-11-20 10:00:00.000000000\ntold\tcrashed\tno_shutdown\t2026-11-20 10:00:00.000000000")
	s.Want("SELECT DISTINCT end_reason, rank FROM {db}.session_ends WHERE tenant = 'old'", "\t99")
}
