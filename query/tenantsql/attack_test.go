package tenantsql_test

import (
	"strings"
	"testing"
)

// attempts are ways to another tenant's rows, names and counts, to the service's own, and out of ClickHouse. Where an attempt has SETTINGS
// it is also made as a sub-query, whose settings ClickHouse does not check.
var attempts = []string{
	// the tables behind the views, and other databases
	"SELECT * FROM warpline.kernels_data", "SELECT * FROM warpline.kernels", "SELECT * FROM warpline.sessions",
	"SELECT * FROM kernels_data",
	"SELECT count() FROM warpline.kernels_data", "SELECT tenant FROM warpline.slots", "SELECT * FROM slots",
	"SELECT * FROM {theirs}.kernels",
	"SELECT * FROM slot9.sessions", "SELECT * FROM warpline.ledger", "SELECT * FROM `warpline`.`schema_history`",
	"DESCRIBE warpline.kernels_data", "SHOW CREATE TABLE warpline.kernels", "SHOW TABLES FROM warpline", "SHOW TABLES FROM {theirs}",
	"EXISTS TABLE warpline.slots", "USE warpline", "CHECK TABLE warpline.kernels_data",
	"EXPLAIN SELECT * FROM warpline.kernels_data", "EXPLAIN ESTIMATE SELECT * FROM warpline.kernels_data",
	"EXPLAIN TABLE OVERRIDE mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
	// functions that go around a filter of rows
	"SELECT * FROM mergeTreeIndex(warpline, kernels_data)", "SELECT * FROM mergeTreeIndex({theirs}, kernels)",
	"SELECT * FROM mergeTreeProjection(warpline, kernels_data, p)", "SELECT * FROM mergeTreeAnalyzeIndexes(warpline, kernels_data)",
	"SELECT * FROM merge('warpline', '.*_data')", "SELECT * FROM merge(REGEXP('.*'), 'kernels')",
	"SELECT * FROM merge('slot.*', 'kernels')",
	"SELECT * FROM loop(warpline, kernels_data)", "SELECT * FROM loop(warpline.kernels) LIMIT 5", "SELECT * FROM dictionary('warpline.d')",
	"SELECT * FROM viewIfPermitted(SELECT tenant FROM warpline.kernels_data ELSE null('tenant String'))",
	"SELECT * FROM view(SELECT * FROM warpline.kernels_data)", "SELECT * FROM remote('127.0.0.1:{tcp}', warpline, kernels_data)",
	"SELECT * FROM remote('127.0.0.1:{tcp}', warpline, kernels_data, 'default', '')",
	"SELECT * FROM remote('127.0.0.1:{tcp}', warpline, kernels_data, 'warpline', '')",
	"SELECT * FROM cluster('default', warpline, kernels_data)",
	"SELECT * FROM clusterAllReplicas('default', system.one)",
	"SELECT * FROM url('http://127.0.0.1:{http}/?query=SELECT+1', LineAsString)",
	"SELECT * FROM mysql('127.0.0.1:{tcp}', 'a', 'b', 'c', 'd')", "SELECT * FROM executable('id', 'TSV', 'a String')",
	"SELECT joinGet('warpline.kernels_data', 'tenant', 1)", "SELECT dictGet('warpline.d', 'tenant', 1)",
	"SELECT hasColumnInTable('warpline', 'kernels_data', 'tenant')", "SELECT * FROM fuzzQuery('SELECT * FROM warpline.kernels_data')",
	"SELECT * FROM s3('http://127.0.0.1:{http}/', 'TSV')", "SELECT * FROM input('a String')",
	// what one's own expressions can see: whether another tenant's rows pass through them
	"SELECT * FROM kernels WHERE throwIf(tenant = 'globex', 'globex is here')",
	"SELECT * FROM sessions WHERE throwIf(session_id LIKE 'canary%', 'canary-of-globex')",
	"SELECT * FROM sessions PREWHERE throwIf(session_id LIKE 'canary%', 'canary-of-globex')",
	"SELECT * FROM kernels WHERE intDiv(1, tenant != 'globex') = 5", "SELECT * FROM kernels WHERE tenant = 'globex'",
	"SELECT * FROM kernels WHERE tenant = 'acme' OR 1 = 1 OR throwIf(tenant != 'acme')",
	"SELECT * FROM sessions HAVING throwIf(tenant = 'globex')",
	"SELECT countIf(throwIf(tenant = 'globex', 'globex') = 0) FROM usage",
	"SELECT * FROM kernels ORDER BY throwIf(tenant = 'globex', 'globex')",
	"SELECT tenant, groupArray(session_id) FROM sessions GROUP BY throwIf(tenant = 'globex', 'globex'), tenant",
	"SELECT arrayJoin(groupArray(tenant)) FROM sessions", "SELECT * FROM sessions AS a FULL JOIN sessions AS b ON a.tenant != b.tenant",
	"SELECT * FROM kernels WHERE tenant IN (SELECT 'globex')", "SELECT * FROM kernels LIMIT 1 BY tenant",
	"SELECT DISTINCT tenant FROM kernels FINAL",
	"SELECT * FROM kernels SAMPLE 1", "SELECT *, _part, _table, _database FROM kernels", "SELECT _row_exists, * FROM kernels",
	"WITH RECURSIVE t AS (SELECT tenant FROM sessions UNION ALL SELECT 'globexx' FROM t WHERE throwIf(tenant='globex', 'globex')) SELECT 1",
	"SELECT * FROM memory_correlate(tenant = 'globex', session_id = '', job_id = '', rank = 0, scope = '', at_ns = 1, window_ns = 9)",
	"SELECT * FROM kernels SETTINGS additional_table_filters = {'warpline.kernels_data': '1'}",
	"SELECT * FROM kernels SETTINGS additional_result_filter = 'throwIf(tenant = \\'globex\\')'",
	"SELECT * FROM kernels SETTINGS use_query_cache = 1, query_cache_share_between_users = 1, query_cache_tag = 'x'",
	"SELECT * FROM kernels SETTINGS query_plan_filter_push_down = 1, optimize_move_to_prewhere = 1, enable_analyzer = 0",
	"SELECT throwIf(tenant = 'globex', 'globex') FROM kernels SETTINGS allow_experimental_analyzer = 0, query_plan_enable_optimizations = 1",
	"SELECT * FROM kernels SETTINGS row_policy = 0, implicit_select = 1", "SELECT * FROM kernels SETTINGS apply_row_level_security = 0",
	"SELECT 1 FROM kernels SETTINGS max_parallel_replicas = 3, cluster_for_parallel_replicas = 'x'",
	// the service's own, and other people's questions
	"SELECT * FROM system.users", "SELECT * FROM system.processes", "SELECT * FROM system.query_log", "SELECT * FROM system.parts",
	"SELECT * FROM system.row_policies", "SELECT * FROM system.quotas_usage", "SELECT * FROM system.grants", "SELECT * FROM system.disks",
	"SELECT * FROM system.parts_columns", "SELECT * FROM system.replicas", "SELECT * FROM system.mutations",
	"SELECT * FROM system.clusters",
	"SELECT * FROM system.server_settings", "SELECT * FROM system.query_cache", "SELECT * FROM system.errors",
	"SELECT * FROM system.metrics",
	"SELECT * FROM system.events", "SELECT * FROM system.session_log", "SELECT * FROM system.stack_trace", "SELECT * FROM system.merges",
	"SELECT name, total_rows FROM system.tables WHERE database = 'warpline'", "SELECT * FROM system.tables WHERE name LIKE '%_data'",
	"SELECT * FROM system.columns WHERE database = 'warpline'", "SELECT name FROM system.databases WHERE name LIKE '{theirs}'",
	"SELECT * FROM information_schema.tables WHERE table_schema = 'warpline'", "SHOW DATABASES LIKE 'warpline'", "SHOW PROCESSLIST",
	"SHOW USERS", "SHOW GRANTS FOR warpline", "SHOW CREATE USER warpline", "SHOW ROW POLICIES", "SHOW CREATE VIEW kernels",
	"SELECT * FROM system.quota_usage WHERE quota_key = 'x'", "SELECT file('/etc/passwd')",
	"SELECT * FROM file('/etc/passwd', LineAsString)",
	"SELECT * FROM filesystem('/')", "SELECT 1 FORMAT Template SETTINGS format_template_row = '/etc/passwd'",
	"SELECT * FROM format(Protobuf, 'x') SETTINGS format_schema = '/etc/passwd:m'", "SELECT 1 INTO OUTFILE '/tmp/out'",
	// writing, and more rights
	"INSERT INTO kernels SELECT * FROM kernels", "INSERT INTO warpline.slots VALUES ('{mine}', 'globex')", "DROP VIEW kernels",
	"ALTER TABLE warpline.slots DELETE WHERE 1", "CREATE VIEW v AS SELECT 1",
	"CREATE TEMPORARY TABLE t (a UInt8)", "DROP DATABASE warpline",
	"CREATE OR REPLACE VIEW kernels DEFINER = warpline SQL SECURITY DEFINER AS SELECT * FROM warpline.kernels",
	"TRUNCATE TABLE warpline.slots",
	"CREATE TABLE t ENGINE = Memory AS SELECT 1", "CREATE DICTIONARY d (a UInt8) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 'kernels_data' DB " +
		"'warpline')) LAYOUT(FLAT()) LIFETIME(1)", "CREATE FUNCTION f AS x -> x", "SET ROLE ALL", "EXECUTE AS warpline SELECT 1",
	"EXECUTE AS {theirs} SELECT * FROM {theirs}.kernels", "GRANT ALL ON *.* TO {mine}", "CREATE USER u",
	"ALTER USER {mine} IDENTIFIED BY 'x'",
	"KILL QUERY WHERE 1", "SYSTEM SHUTDOWN", "SYSTEM DROP QUERY CACHE", "SYSTEM FLUSH LOGS", "BACKUP DATABASE warpline TO Null",
	"SELECT currentUser() FROM kernels WHERE currentUser() = '{mine}_rows'", "SELECT * FROM kernels; SELECT * FROM warpline.kernels_data",
}

// No question of one tenant shows a row, a name or a number of another's, or what is the service's own.
func TestAttempts(t *testing.T) {
	s := serve(t)
	if a := s.ask(t, theirs, "SELECT count() FROM kernels", ""); a.body == "0" || a.status != 200 { // slots are lent to both
		t.Fatalf("%+v", a)
	}
	own, other := s.ask(t, mine, "SELECT currentDatabase()", "").body, s.ask(t, theirs, "SELECT currentDatabase()", "").body
	if own == other {
		t.Fatalf("both ask in %s", own)
	}
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	fill := strings.NewReplacer("{tcp}", port(s.engine.TCPAddr()), "{http}", port(s.engine.HTTPAddr()),
		"{mine}", own, "{theirs}", other)
	passwords := []string{canary, "root:x:0", s.engine.Password(), s.engine.ReaderPassword()}
	for slot := range slotCount {
		passwords = append(passwords, s.engine.SlotPassword(slot+1))
	}
	tried, refused := 0, 0
	for _, sql := range attempts {
		ways := map[string]string{"": fill.Replace(sql)}
		if strings.Contains(sql, " SETTINGS ") && !strings.Contains(sql, "FORMAT") {
			ways[" as a sub-query"] = "SELECT * FROM (" + fill.Replace(sql) + ")"
		}
		for way, sql := range ways {
			for _, params := range []string{"", "database=" + other} {
				a := s.ask(t, mine, sql, params)
				tried++
				if a.status != 200 {
					refused++
				}
				said := a.body
				if a.status != 200 {
					said = strings.ReplaceAll(said, sql, "") // an error says the question again
				}
				for _, secret := range passwords {
					if strings.Contains(said, secret) && (a.status == 200 || !strings.Contains(sql, secret)) {
						t.Errorf("%s%s (%s) shows %s:\n%.500s", sql, way, params, secret, said)
					}
				}
				if a.status == 200 && (strings.Contains(said, theirs) || strings.Contains(said, "_data") || strings.Contains(said, other)) {
					t.Errorf("%s%s (%s) shows another tenant or a table:\n%.500s", sql, way, params, said)
				}
				if params == "" && way == "" {
					t.Logf("%d %-90.90s %.120s", a.status, sql, strings.ReplaceAll(said, "\n", " "))
				}
			}
		}
	}
	if refused < tried*3/4 {
		t.Errorf("%d of %d attempts were refused", refused, tried)
	}
	t.Logf("%d attempts, %d refused", tried, refused)
	// Nothing was changed.
	if a := s.ask(t, mine, "SELECT DISTINCT tenant FROM kernels", ""); a.body != mine {
		t.Errorf("afterwards the tenant sees %q", a.body)
	}
}
