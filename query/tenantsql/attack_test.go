package tenantsql_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/query/tenantsql"
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

// more are those that came later: ways in which a question can be more than one, or go elsewhere.
var more = []string{
	"INSERT INTO FUNCTION url('http://127.0.0.1:{http}/', 'TSV', 'a String') SELECT tenant FROM kernels",
	"INSERT INTO FUNCTION remote('127.0.0.1:{tcp}', warpline, kernels_data, 'warpline', '') SELECT * FROM kernels",
	"INSERT INTO FUNCTION file('/tmp/out', 'TSV', 'a String') SELECT tenant FROM kernels",
	"INSERT INTO TABLE FUNCTION null('a String') SELECT 'x'", "INSERT INTO sessions FORMAT Values ('x')",
	"SELECT * FROM kernels UNION ALL SELECT * FROM warpline.kernels", "SELECT tenant FROM usage UNION DISTINCT SELECT tenant FROM " +
		"warpline.usage_data",
	"SELECT tenant FROM usage EXCEPT SELECT tenant FROM warpline.usage_data",
	"SELECT tenant FROM usage INTERSECT SELECT tenant FROM {theirs}.usage",
	"SELECT /* */ * /* FROM kernels */ FROM /**/ warpline . kernels_data -- FROM kernels", "SELECT * FROM kernels -- \n; SELECT 1",
	"SELECT 1; SELECT * FROM warpline.kernels_data", "SELECT 1;; DROP VIEW kernels", "-- nothing",
	"/* nothing */ SELECT tenant FROM warpline.usage",
	"WITH t AS (SELECT * FROM warpline.kernels_data) SELECT count() FROM t", "SELECT (SELECT count() FROM warpline.kernels_data)",
	"SELECT * FROM kernels WHERE tenant IN warpline.slots", "SELECT tenant IN (warpline.usage_data) FROM usage",
	"SELECT * FROM numbers(1) ARRAY JOIN (SELECT groupArray(tenant) FROM warpline.usage_data) AS t",
	"SELECT * FROM kernels JOIN warpline.kernels_data AS d USING (tenant)",
	"SELECT * FROM VALUES('a String', (SELECT tenant FROM warpline.usage))",
	"SELECT * FROM generateRandom('a String') WHERE a IN (SELECT tenant FROM warpline.usage) LIMIT 1",
	"SELECT 1 FORMAT TSV SETTINGS readonly = 0", "SELECT 1 SETTINGS readonly = 0 FORMAT TSV", "SELECT 1 FORMAT Null; SELECT 2",
	"SELECT * FROM kernels FORMAT Template SETTINGS format_template_resultset = '/etc/passwd'",
	"SELECT 1 FORMAT CapnProto SETTINGS format_schema = '/etc/passwd:a'", "SELECT 1 INTO OUTFILE '/tmp/out' TRUNCATE",
	"SELECT 1 INTO OUTFILE 'out' AND STDOUT FORMAT TSV", "SELECT * FROM kernels INTO OUTFILE '/proc/self/fd/1'",
	"EXPLAIN PLAN actions = 1 SELECT * FROM warpline.kernels_data", "EXPLAIN QUERY TREE SELECT * FROM warpline.kernels",
	"EXPLAIN PIPELINE SELECT * FROM mergeTreeIndex(warpline, usage_data)", "EXPLAIN AST SELECT * FROM warpline.sessions",
	"EXPLAIN SYNTAX SELECT * FROM warpline.kernels", "EXPLAIN indexes = 1 SELECT * FROM {theirs}.kernels",
	"DESCRIBE TABLE (SELECT * FROM warpline.kernels_data)", "DESCRIBE remote('127.0.0.1:{tcp}', warpline, kernels_data)",
	"DESCRIBE merge('warpline', '.*')", "SHOW COLUMNS FROM kernels_data FROM warpline", "SHOW INDEX FROM kernels_data FROM warpline",
	"SHOW CREATE DATABASE warpline", "SHOW ACCESS", "SHOW PROFILES", "SHOW POLICIES", "SHOW QUOTA", "SHOW ROLES", "SHOW SETTINGS LIKE 'x'",
	"SHOW CREATE PROFILE", "SHOW CREATE ROW POLICY ON warpline.usage_data", "SHOW FUNCTIONS LIKE 'nothing'", "SHOW FILESYSTEM CACHES",
	"SELECT * FROM system.settings_profiles", "SELECT * FROM system.role_grants", "SELECT * FROM system.asynchronous_metrics",
	"SELECT * FROM system.detached_parts", "SELECT * FROM system.dropped_tables", "SELECT * FROM system.asynchronous_inserts",
	"SELECT * FROM system.view_refreshes", "SELECT * FROM system.dictionaries", "SELECT * FROM system.tables WHERE total_rows > 0",
	"SELECT create_table_query FROM system.tables WHERE database = 'warpline'", "SELECT as_select FROM system.tables WHERE name = 'kernels'",
	"SELECT * FROM system.databases WHERE name != currentDatabase() AND name NOT IN ('system', 'default') AND lower(name) != " +
		"'information_schema'",
	"SELECT * FROM system.query_condition_cache", "SELECT * FROM system.user_processes", "SELECT * FROM system.remote_data_paths",
	"SELECT * FROM system.macros", "SELECT * FROM system.named_collections", "SELECT * FROM system.workloads",
	"SELECT * FROM system.crash_log",
	"SELECT query FROM system.processes WHERE user != currentUser()", "KILL QUERY WHERE user = '{theirs}' SYNC",
	"KILL MUTATION WHERE database = 'warpline'", "SELECT * FROM dictionary('warpline.kernels_data')",
	"SELECT dictGetOrNull('{theirs}.d', 'a', 1)", "SELECT * FROM cluster('{theirs}', view(SELECT 1))",
	"SELECT * FROM remoteSecure('127.0.0.1:{tcp}', warpline, usage_data)",
	"SELECT * FROM urlCluster('default', 'http://127.0.0.1:{http}/', TSV)",
	"SELECT * FROM fileCluster('default', '/etc/passwd', LineAsString)", "SELECT * FROM sqlite('/tmp/x', 'y')",
	"SELECT * FROM postgresql('127.0.0.1:{tcp}', 'a', 'b', 'c', 'd')",
	"SELECT * FROM mongodb('127.0.0.1:{tcp}', 'a', 'b', 'c', 'd', 'e String')",
	"SELECT * FROM timeSeriesData('warpline.kernels_data')", "SELECT * FROM redis('127.0.0.1:{tcp}', 'k', 'k String')",
	"SELECT * FROM hdfs('hdfs://127.0.0.1:1/a', 'TSV', 'a String')", "SELECT * FROM deltaLake('/etc')", "SELECT * FROM iceberg('/etc')",
	"SELECT catboostEvaluate('/etc/passwd', 1)", "SELECT getServerSetting('users_config')", "SELECT getMacro('shard')",
	"SELECT getMergeTreeSetting('x')", "SELECT getClientHTTPHeader('Authorization')", "SELECT hostName() = 'x' OR fqdn() = 'x'",
	"SELECT tcpPort() = 1", "SELECT filesystemAvailable() = 1", "SELECT initialQueryID() = 'x' OR serverUUID() = toUUID('x')",
	"SELECT addressToLine(1)", "SELECT structureToCapnProtoSchema('a String')", "PARALLEL WITH SELECT 1", "BEGIN TRANSACTION",
	"DETACH VIEW kernels", "ATTACH TABLE warpline.x", "RENAME TABLE kernels TO k", "EXCHANGE TABLES kernels AND sessions",
	"OPTIMIZE TABLE warpline.kernels_data FINAL", "UNDROP TABLE warpline.kernels_data", "MOVE USER {mine} TO users_xml",
	"UNFREEZE WITH NAME 'x'",
	"CREATE WORKLOAD w", "CREATE NAMED COLLECTION c AS a = 1", "SYSTEM RELOAD CONFIG", "SYSTEM START LISTEN HTTPS", "SYSTEM STOP MERGES",
	"SYSTEM UNFREEZE WITH NAME 'x'", "RESTORE DATABASE warpline FROM Null", "DELETE FROM warpline.usage_data WHERE 1",
	"UPDATE warpline.usage_data SET tenant = 'acme' WHERE 1", "SET max_threads = 1; SELECT 1", "SET param_x = 1",
	"SET DEFAULT ROLE ALL TO {mine}",
	"REVOKE ALL ON *.* FROM {theirs}", "DROP ROW POLICY x ON warpline.usage_data", "CREATE ROW POLICY x ON warpline.usage_data USING 1 TO ALL",
	"ALTER VIEW kernels MODIFY SQL SECURITY NONE", "CREATE OR REPLACE VIEW v SQL SECURITY NONE AS SELECT * FROM warpline.usage_data",
	"CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT * FROM warpline.usage", "CREATE LIVE VIEW v AS SELECT 1",
	"CREATE WINDOW VIEW v AS SELECT 1", "CREATE TABLE t AS remote('127.0.0.1:{tcp}', warpline, usage_data)",
	"CREATE TEMPORARY TABLE t ENGINE = Merge('warpline', '.*')", "CREATE TABLE t (a String) ENGINE = File(TSV, '/etc/passwd')",
	"CREATE DATABASE d ENGINE = Overlay('warpline')", "CREATE DATABASE d", "USE {theirs}", "SELECT tenant FROM `{theirs}`.`usage`",
}

// way is a way in for a tenant: it asks as the tenant, and has names for what the attempts are filled with.
type way struct {
	ask          func(t *testing.T, who, sql, params string) answer
	mine, theirs string // users and databases of both
	attempts     []string
	databases    []string // what is added to the address
}

// ways are how a tenant can ask: at the door of an embedded engine, at that of a server, and as its own user of one.
func (s *service) ways(t *testing.T) map[string]way {
	own := s.ask(t, mine, "SELECT currentDatabase()", "").body
	other := s.ask(t, theirs, "SELECT currentDatabase()", "").body
	if own == other || own == "" {
		t.Fatalf("both ask in %s", own)
	}
	as := func(address, secret string, user func(string) string) func(*testing.T, string, string, string) answer {
		return func(t *testing.T, who, sql, params string) answer {
			t.Helper()
			return sendTo(t, address, sql, params, func(r *http.Request) { r.SetBasicAuth(user(who), secret+who) })
		}
	}
	self := func(who string) string { return who }
	mineOn, theirsOn := tenantsql.UserName(mine), tenantsql.UserName(theirs)
	return map[string]way{
		"slots": {as(s.door.URL+"/clickhouse/", "key-of-", self), own, other, slices.Concat(attempts, more), []string{"", "database=" + other}},
		"web":   {as(s.web.URL+"/clickhouse/", "key-of-", self), mineOn, theirsOn, slices.Concat(attempts, more), []string{""}},
		"own user": {as("http://"+s.engine.HTTPAddr()+"/", ownPassword, tenantsql.UserName), mineOn, theirsOn, slices.Concat(attempts, more),
			[]string{"database=" + mineOn}},
	}
}

// No question of one tenant shows a row, a name or a number of another's, or what is the service's own, whichever way it comes.
func TestAttempts(t *testing.T) {
	s := serve(t)
	if a := s.ask(t, theirs, "SELECT count() FROM kernels", ""); a.body == "0" || a.status != 200 { // slots are lent to both
		t.Fatalf("%+v", a)
	}
	for name, w := range s.ways(t) {
		t.Run(name, func(t *testing.T) { s.attack(t, w) })
	}
}

func (s *service) attack(t *testing.T, w way) {
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	fill := strings.NewReplacer("{tcp}", port(s.engine.TCPAddr()), "{http}", port(s.engine.HTTPAddr()), "{mine}", w.mine, "{theirs}", w.theirs)
	passwords := []string{canary, "root:x:0", s.engine.Password(), s.engine.ReaderPassword(), tenantsql.WebPassword(webSecret, mine),
		tenantsql.WebPassword(webSecret, theirs), webSecret}
	for slot := range slotCount {
		passwords = append(passwords, s.engine.SlotPassword(slot+1))
	}
	tried, refused := 0, 0
	for _, sql := range w.attempts {
		ways := map[string]string{"": fill.Replace(sql)}
		if strings.Contains(sql, " SETTINGS ") && !strings.Contains(sql, "FORMAT") {
			ways[" as a sub-query"] = "SELECT * FROM (" + fill.Replace(sql) + ")"
		}
		for way, sql := range ways {
			for _, params := range w.databases {
				a := w.ask(t, mine, sql, params)
				tried++
				if a.status != 200 {
					refused++
				}
				if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable && !strings.Contains(a.body, "/etc/") {
					t.Errorf("%s%s (%s) was not tried: %d %.200s", sql, way, params, a.status, a.body)
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
				if a.status == 200 && (strings.Contains(said, theirs) || strings.Contains(said, "_data") || strings.Contains(said, w.theirs)) {
					t.Errorf("%s%s (%s) shows another tenant or a table:\n%.500s", sql, way, params, said)
				}
				if params == w.databases[0] && way == "" {
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
	if a := w.ask(t, mine, "SELECT DISTINCT tenant FROM kernels", "database="+w.mine); a.body != mine {
		t.Errorf("afterwards the tenant sees %q", a.body)
	}
}
