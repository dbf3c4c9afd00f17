package table_test

import (
	"fmt"
	"testing"
)

// pcSeeds fills a table of samples or counters with rows that fall into few keys, of data parts that are not merged, two months and two
// retention classes, minutes and hours, of sessions whose names come before the rows (s0, s1), after them (s2, s3) or partly never.
const pcSeeds = "INSERT INTO {db}.%s (tenant, session_id, bucket, bucket_s, function, function_id, pc_offset, scope, scope_id, " +
	"device_id, file, file_id, line, hits, received_day, retention_days, rows_partition, chunk, %s) WITH sipHash64(number, %d) AS h " +
	"SELECT ['acme', 'other'][1 + h %% 2], concat('s', toString(intDiv(h, 2) %% 4)) AS session, " +
	"toDateTime64('2026-11-20 10:00:00', 9, 'UTC') + 60 * (intDiv(h, 8) %% 3), if(intDiv(h, 24) %% 5 = 0, 3600, 60), " +
	"if(intDiv(h, 128) %% 3 = 0, '', concat('f', toString(function_id))), 1 + intDiv(h, 512) %% 3 AS function_id, " +
	"16 * (intDiv(h, 2048) %% 2), if(intDiv(h, 4096) %% 3 = 0, '', concat('scope', toString(scope_id))), " +
	"intDiv(h, 16384) %% 3 AS scope_id, intDiv(h, 65536) %% 2, if(intDiv(h, 131072) %% 3 = 0, '', concat('file', toString(file_id))), " +
	"intDiv(h, 524288) %% 3 AS file_id, intDiv(h, 2097152) %% 3, 1, " +
	"if(intDiv(h, 8388608) %% 2 = 0, today(), toStartOfMonth(today()) - 1), if(intDiv(h, 16777216) %% 4 = 0, 300, 30), 1, number, %s " +
	"FROM numbers(400)"

// belatedNames gives s2 and s3 names after the rows that need them, of every kind but not of every id, and s0 names that came in time,
// which rows without a name do not get.
const belatedNames = "INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, late, received_day, retention_days) " +
	"SELECT tenant, session, dict, id, if(dict = 'function_dict' AND id = 2, 'f2@late.cu', concat(value, toString(id))), " +
	"session != 's0', today(), 30 FROM (SELECT arrayJoin(['acme', 'other']) AS tenant, arrayJoin(['s0', 's2', 's3']) AS session, " +
	"arrayJoin([('function_dict', 'f'), ('scope_name_dict', 'scope'), ('source_file_dict', 'late'), ('metric_dict', 'reason')]) AS d, " +
	"d.1 AS dict, d.2 AS value, arrayJoin(range(1, 3)) AS id) WHERE session != 's3' OR dict IN ('scope_name_dict', 'metric_dict')"

// resolved is a column as a client's late names make it, of the table r that is joined to each kind of name.
const (
	resolvedFunction = "if(r.function = '', splitByChar('@', f.value)[1], r.function)"
	resolvedFile     = "multiIf(s.value != '', s.value, r.file != '', toString(r.file), position(f.value, '@') = 0, '', " +
		"splitByChar('@', f.value)[2])"
	joinedNames = " AS r %s JOIN (SELECT * FROM {db}.dictionaries WHERE late AND dict = 'function_dict') AS f ON r.tenant = f.tenant AND " +
		"r.session_id = f.session_id AND r.function_id = f.id " +
		"ANY LEFT JOIN (SELECT * FROM {db}.dictionaries WHERE late AND dict = 'scope_name_dict') AS p ON r.tenant = p.tenant AND " +
		"r.session_id = p.session_id AND r.scope_id = p.id ANY LEFT JOIN (SELECT * FROM {db}.dictionaries WHERE late AND dict = " +
		"'source_file_dict') AS s ON r.tenant = s.tenant AND r.session_id = s.session_id AND r.file_id = s.id " +
		"ANY LEFT JOIN (SELECT * FROM {db}.dictionaries WHERE late AND dict = 'metric_dict') AS m ON r.tenant = m.tenant AND " +
		"r.session_id = m.session_id AND r.metric_id = m.id "
)

// alike fails the test unless two queries have the same rows, each as often.
func (s *store) alike(what, got, want string) {
	s.Helper()
	for _, q := range []string{"SELECT count() FROM (" + got + " EXCEPT ALL " + want + ")", "SELECT count() FROM (" + want + " EXCEPT ALL " +
		got + ")", "SELECT (SELECT count() FROM (" + got + ")) - (SELECT count() FROM (" + want + "))"} {
		if n := s.Query(q); n != "0" {
			s.Errorf("%s: %s: %s", what, q, n)
		}
	}
}

// However rows lie in data parts, and whatever names come late, a row of pc_samples is what rows of one key add up to once they have their
// names.
func TestSamplesAddUp(t *testing.T) {
	s := newStore(t, true)
	s.Exec("SYSTEM STOP TTL MERGES {db}.pc_samples_data")
	defer s.Exec("SYSTEM START TTL MERGES {db}.pc_samples_data")
	for seed := range 5 {
		s.Exec(fmt.Sprintf(pcSeeds, "pc_samples_data", "stall_reason, metric_id, period_ns, samples, gpu_ns", seed,
			"if(metric_id = 0, ['smsp__pcsamp_warps_issue_stalled_wait', 'smsp__pcsamp_sample_count'][1 + intDiv(h, 67108864) % 2], ''), "+
				"intDiv(h, 134217728) % 3 AS metric_id, intDiv(h, 536870912) % 2, 1 + number, 2 * number"))
	}
	s.Exec(belatedNames)
	const columns = "tenant, session_id, bucket, bucket_s, function, function_id, pc_offset, stall_reason, metric_id, scope, scope_id, " +
		"device_id, period_ns, file, line, samples, gpu_ns, hits"
	rows := "SELECT tenant, session_id, bucket, toUInt32(max(q.bucket_s)) AS bucket_s, function, function_id, pc_offset, stall_reason, " +
		"metric_id, scope, scope_id, device_id, toUInt64(max(q.period_ns)) AS period_ns, max(q.file) AS file, toUInt32(max(q.line)) AS line, " +
		"sum(q.samples) AS samples, sum(q.gpu_ns) AS gpu_ns, sum(q.hits) AS hits FROM (SELECT r.tenant AS tenant, r.session_id AS " +
		"session_id, r.bucket AS bucket, toUInt32(r.bucket_s) AS bucket_s, " + resolvedFunction + " AS function, r.function_id AS " +
		"function_id, r.pc_offset AS pc_offset, if(r.stall_reason = '', m.value, r.stall_reason) AS stall_reason, r.metric_id AS metric_id, " +
		"if(r.scope = '', p.value, r.scope) AS scope, r.scope_id AS scope_id, r.device_id AS device_id, toUInt64(r.period_ns) AS period_ns, " +
		resolvedFile + " AS file, toUInt32(r.line) AS line, toUInt64(r.samples) AS samples, toUInt64(r.gpu_ns) AS gpu_ns, toUInt64(r.hits) " +
		"AS hits FROM {db}.pc_samples_data" + fmt.Sprintf(joinedNames, "ANY LEFT") + ") AS q GROUP BY tenant, session_id, bucket, " +
		"function, function_id, pc_offset, stall_reason, metric_id, scope, scope_id, device_id"
	want := "SELECT " + columns + " FROM (" + rows + ")"
	for _, state := range []string{"in many data parts", "merged"} {
		s.alike(state, "SELECT "+columns+" FROM {db}.pc_samples", want)
		s.alike(state+", lines", "SELECT session_id, file, line, sum(samples) AS n FROM {db}.pc_lines WHERE tenant = 'acme' GROUP BY ALL",
			"SELECT session_id, file, line, sum(samples) AS n FROM ("+rows+") WHERE tenant = 'acme' GROUP BY ALL")
		s.alike(state+", one session", "SELECT "+columns+" FROM {db}.pc_samples WHERE session_id = 's2' AND bucket >= '2026-11-20 10:01:00'",
			want+" WHERE session_id = 's2' AND bucket >= '2026-11-20 10:01:00'")
		s.Exec("OPTIMIZE TABLE {db}.pc_samples_data FINAL")
	}
	s.Want("SELECT session_id, countIf(function = '') > 0 FROM {db}.pc_samples WHERE function_id = 2 GROUP BY session_id ORDER BY session_id",
		"s0\t1\ns1\t1\ns2\t0\ns3\t1")
}

// Samples, counters and places of instructions, of reasons that are explained and of others, add up to their lines.
func TestLinesAddUp(t *testing.T) {
	s := newStore(t, true)
	tables := []string{"pc_samples_data", "profile_metrics_data", "source_map_data"}
	for _, name := range tables[:2] {
		s.Exec("SYSTEM STOP TTL MERGES {db}." + name)
		defer s.Exec("SYSTEM START TTL MERGES {db}." + name)
	}
	const reason = "smsp__pcsamp_warps_issue_stalled_"
	for seed := range 3 {
		s.Exec(fmt.Sprintf(pcSeeds, tables[0], "stall_reason, metric_id, samples", seed,
			"if(metric_id = 0, ['"+reason+"wait', '"+reason+"new_hardware', '"+reason+"wait_not_issued', '"+reason+
				"new_not_issued', 'SYNC', 'smsp__pcsamp_sample_count', 'AAA', '"+reason+"barrier'][1 + intDiv(h, 67108864) % 8], ''), "+
				"intDiv(h, 536870912) % 3 AS metric_id, if(intDiv(h, 1073741824) % 9 = 0, 0, 1 + number)"))
		s.Exec(fmt.Sprintf(pcSeeds, tables[1], "metric_name, metric_id, metric_value", 10+seed,
			"if(metric_id = 0, ['smsp__sass_inst_executed', 'issued'][1 + intDiv(h, 67108864) % 2], ''), "+
				"intDiv(h, 134217728) % 3 AS metric_id, 1 + number"))
		s.Exec("INSERT INTO {db}.source_map_data (tenant, session_id, function, function_id, pc_offset, file, file_id, line, hits, " +
			"received_day, retention_days) SELECT tenant, session_id, function, function_id, pc_offset, file, file_id, 5 + line, 1, today(), 30 " +
			"FROM {db}.pc_samples_data WHERE samples % 7 = 0")
	}
	s.Exec(belatedNames)
	s.Exec("INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, late, received_day, retention_days) VALUES " +
		"('acme', 's1', 'metric_dict', 1, '" + reason + "barrier', 1, today(), 30)")
	row := "SELECT r.tenant AS tenant, r.session_id AS session_id, " + resolvedFunction + " AS function, r.function_id AS function_id, " +
		"r.pc_offset AS pc_offset, " + resolvedFile + " AS file, toUInt32(r.line) AS line, "
	joined := fmt.Sprintf(joinedNames, "ANY LEFT")
	samples := row + "3 AS rank, if(r.stall_reason = '', m.value, r.stall_reason) AS name, multiIf(name = 'SYNC', 'stall', NOT " +
		"startsWith(name, '" + reason + "'), '', endsWith(name, '_not_issued'), 'not issued', 'stall') AS part, " +
		"toUInt64(r.samples) AS value FROM {db}."
	counters := row + "2 AS rank, multiIf(r.metric_name != '', r.metric_name, m.value != '', m.value, concat('metric_', " +
		"toString(r.metric_id))) AS name, 'metric' AS part, toUInt64(r.metric_value) AS value FROM {db}."
	places := "SELECT tenant, session_id, function, function_id, pc_offset, file, line, 1 AS rank, '' AS name, '' AS part, " +
		"toUInt64(0) AS value FROM {db}.source_map"
	rows := "(" + samples + tables[0] + joined + " UNION ALL " + counters + tables[1] + joined + " UNION ALL " + places + ")"
	key := "tenant, session_id, function, function_id, pc_offset"
	want := "SELECT tenant, session_id, place.4 AS file, place.3 AS line, sumIf(value, part = 'stall') AS samples, " +
		"sumMapIf(map(name, value), part = 'stall') AS stalls, sumMapIf(map(name, value), part = 'not issued') AS stalls_not_issued, " +
		"sumMapIf(map(name, value), part = 'metric') AS metrics, arraySort(groupUniqArray(function)) AS functions FROM (SELECT *, " +
		"max((line > 0, rank, line, file)) OVER (PARTITION BY " + key + ") AS place FROM (SELECT tenant, session_id, toString(function) AS " +
		"function, function_id, pc_offset, toString(file) AS file, line, rank, toString(name) AS name, part, value FROM " + rows + ")) " +
		"WHERE place.3 > 0 GROUP BY tenant, session_id, file, line"
	for range 2 {
		s.alike("lines", "SELECT tenant, session_id, file, line, samples, stalls, stalls_not_issued, metrics, arraySort(functions) AS functions "+
			"FROM {db}.line_metrics", want)
		for _, name := range tables {
			s.Exec("OPTIMIZE TABLE {db}." + name + " FINAL")
		}
	}
	s.Want("SELECT count() > 20, sum(samples) > 0, uniqExactArray(mapKeys(stalls)), uniqExactArray(mapKeys(stalls_not_issued)) "+
		"FROM {db}.line_metrics", "1\t1\t4\t2")
}
