package table_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSessionProfile asks for one of twenty sessions, each with 50 000 rows of samples in 500 functions: one session has no code, one
// has it by mangled symbols, one by demangled ones.
func BenchmarkSessionProfile(b *testing.B) {
	s := newStore(b, true)
	const sessions, functions, instructions = 20, 500, 100
	const perSession = functions * instructions
	s.Exec(fmt.Sprintf(`INSERT INTO {db}.pc_samples_data (tenant, session_id, function, function_id, pc_offset, stall_reason,
    samples, received_day, retention_days)
		SELECT 'acme', toString(intDiv(number, %[1]d)), concat('f', toString(f), '(int)'), f, 16 * (number %% %[2]d),
    'smsp__pcsamp_warps_issue_stalled_wait', 1, today(), 30
		FROM (SELECT number, intDiv(number %% %[1]d, %[2]d) AS f FROM numbers(%[3]d))`, perSession, instructions, sessions*perSession))
	for session := 1; session < sessions; session++ { // 0 has none
		mangled := "concat('_Z4f', leftPad(toString(number), 3, '0'), 'i')"
		symbol, demangled := mangled, "concat('f', toString(number), '(int)')"
		if session == 2 {
			symbol = demangled
		}
		s.Exec(fmt.Sprintf(`INSERT INTO {db}.session_functions_data (tenant, session_id, kind, cubin_crc, function_name,
    demangled, content_hi, content_lo, received_day, retention_days)
			SELECT 'acme', '%d', 'sass', 7, %s, %s, 1, number, today(), 30 FROM numbers(%d)`, session, mangled, demangled, functions))
		s.Exec(fmt.Sprintf(`INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, received_day, retention_days)
			SELECT 'acme', '%d', 'func_symbol_dict', number, %s, today(), 30 FROM numbers(%d)`, session, symbol, functions))
	}
	s.Exec(fmt.Sprintf(`INSERT INTO {db}.sass_lines_data (tenant, content_hi, content_lo, pc, sass, received_day, retention_days)
		SELECT 'acme', 1, intDiv(number, %d), 16 * (number %% %[1]d), 'FFMA', today(), 30 FROM numbers(%d)`, instructions, perSession))
	for session, name := range []string{"none", "mangled", "demangled"} {
		for _, view := range []string{"pc_samples", "source_profile"} {
			sql := fmt.Sprintf("SELECT sum(samples), countIf(sass != '') > 0 FROM {db}.%s WHERE tenant = 'acme' AND session_id = '%d'",
				view, session)
			b.Run(name+"/"+view, func(b *testing.B) {
				for b.Loop() {
					if got := s.Query(sql); got[:5] != "50000" || strings.HasSuffix(got, "1") != (session > 0) {
						b.Fatal(got)
					}
				}
			})
		}
	}
}
