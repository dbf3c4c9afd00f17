package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/tenant"
)

// stranger is one attempt of tenant acme, or of somebody without a key, on what is tenant globex's. A name in braces is filled in: a key's
// secret or id, a reject, a receipt, a slot. who is whose key is sent, "" for none. Beside the status, no answer may say a word of
// globex's.
type stranger struct {
	who, method, path, body string
	header                  string // "Name: value", more of them divided by |
	want                    []int
}

const (
	theirSession = "5e550000-0000-4000-8000-00000000910b"
	ourSession   = "5e550000-0000-4000-8000-00000000ac3e"
	// theirWord is in every text that globex sends, and in no attempt.
	theirWord = "canary"
)

// Statuses of those who are refused, and of what goes to acme itself.
var (
	noKey     = []int{401}
	wrongDoor = []int{403}
	notThere  = []int{404}
	notYours  = []int{403, 404}
	turnedOff = []int{400, 401, 403, 404, 405, 408, 411, 413, 415, 422}
	asOurs    = []int{200}
	whatever  = []int{200, 202, 400, 403, 404, 405, 409, 411, 413, 415, 422, 503} // what counts is that nothing is said and nothing done
)

// doors are what a key opens, with the one scope of a tenant that does.
var doors = []struct{ method, path, body, scope string }{
	{"POST", "/api/v1/events/stream", "{}\n", "ingest"}, {"POST", "/api/v1/events/session-complete", "{}", "ingest"},
	{"POST", "/api/v1/events/kernel_event_batch", "{}", "ingest"}, {"POST", "/api/v1/telemetry", "[]", "ingest"},
	{"POST", "/api/v1/parca", "x", "ingest"}, {"POST", "/api/v1/cubins", "x", "ingest"}, {"POST", "/api/v1/intrakernel", "[]", "ingest"},
	{"POST", "/api/v1/traces", "[]", "ingest"}, {"POST", "/api/v1/events/import/torch-profiler", "[]", "ingest"},
	{"GET", "/api/v1/uploads/{their-receipt}", "", "ingest"}, {"POST", "/clickhouse/", "SELECT count() FROM kernels", "read"},
	{"GET", "/clickhouse/?query=SELECT+1", "", "read"}, {"GET", admin.Path + "status", "", "admin"},
	{"GET", admin.Path + "tenants/acme", "", "admin"}, {"GET", admin.Path + "keys", "", "admin"},
	{"POST", admin.Path + "keys", `{"note":"stolen"}`, "admin"}, {"GET", admin.Path + "rejects", "", "admin"},
	{"POST", admin.Path + "rejects/replay", `{}`, "admin"}, {"POST", admin.Path + "rejects/drop", `{}`, "admin"},
	{"GET", admin.Path + "audit?tenant=acme", "", "admin"}, {"POST", admin.Path + "replay", `{"tenant":"acme"}`, "admin"},
	{"DELETE", admin.Path + "tenants/acme/sessions/" + ourSession, "", "admin"},
}

// strangers are the attempts, in one table.
func strangers() (all []stranger) {
	// Each scope on each door, guessed keys, ids for secrets, and keys in the place of others.
	for _, d := range doors {
		sql := strings.HasPrefix(d.path, "/clickhouse/")
		for _, who := range []string{"", "guessed", "{their-ingest-id}", "acme ingest", "acme read", "acme admin"} {
			want := noKey
			if strings.HasPrefix(who, "acme") {
				want = wrongDoor
			}
			if who == "acme "+d.scope || who != "" && d.path == "/api/v1/uploads/{their-receipt}" && strings.HasPrefix(who, "acme") {
				continue
			}
			s := stranger{who, d.method, d.path, d.body, "", want}
			if sql {
				s.header = "X-ClickHouse-User: acme"
			}
			all = append(all, s)
		}
	}
	as := func(who string, want []int, method string, paths ...string) {
		for _, p := range paths {
			path, body, _ := strings.Cut(p, " ")
			all = append(all, stranger{who, method, path, body, "", want})
		}
	}
	// Receipts of their uploads, as they are and spoiled.
	as("acme ingest", notThere, "GET", "/api/v1/uploads/{their-receipt}", "/api/v1/uploads/{their-receipt}x",
		"/api/v1/uploads/ours.{their-seal}",
		"/api/v1/uploads/x")
	// What the administrator of acme asks for of globex's, by names, ids, beginnings of ids.
	p := admin.Path
	as("acme admin", notYours, "GET", p+"tenants/globex", p+"tenants/globex/keys", p+"tenants/globex/usage", p+"tenants/globex/retain",
		p+"keys/{their-ingest-id}", p+"keys/{their-admin-id}", p+"keys/{operator-id}", p+"rejects?tenant=globex",
		p+"rejects/{their-reject}",
		p+"audit?tenant=globex", p+"audit?deep=true",
		p+"audit?tenant=globex&from=2020-01-01")
	as("acme admin", turnedOff, "GET", p+"rejects?after={their-reject}", p+"tenants/acme/../globex", p+"tenants/acme%2F..%2Fglobex",
		p+"tenants/globex%00", p+"tenants/GLOBEX",
		p+"tenants/*", p+"keys/*", p+"rejects/{half-of-their-reject}", p+"rejects/%25", p+"rejects?session_id=x&tenant=*",
		"/x"+p+"tenants/globex")
	as("acme admin", turnedOff, "GET", p+"audit?tenant=acme'%20OR%20'1'='1", p+"audit?tenant=%25", p+"audit?tenant=acme%00globex",
		p+"audit?tenant=acme&from=2026-01-01'%20OR%201", p+"audit?tenant=acme&to=globex",
		p+"audit/globex", p+"audit?tenant=ACME")
	as("acme admin", []int{405}, "POST", p+`audit {"tenant":"globex"}`)
	as("acme admin", turnedOff, "GET", p+"audit?tenant=acme&tenant=globex&deep=true", p+"audit?of=globex",
		p+"rejects?tenant=acme&tenant=globex")
	as("acme admin", asOurs, "GET", p+"tenants", p+"keys", p+"status", p+"audit", p+"rejects", p+"rejects?tenant=",
		p+"rejects?limit=200",
		p+"rejects?session_id="+theirSession, p+"rejects?reason=%25&type=%25")
	as("acme admin", notYours, "POST", p+`tenants {"name":"mine"}`, p+`tenants/globex/keys {}`, p+`keys {"tenant":"globex"}`,
		p+`keys {"scope":"operator"}`, p+`keys/{their-ingest-id}/rotate`, p+`keys/{operator-id}/rotate`, p+"tenants/globex/disable",
		p+"tenants/globex/enable", p+`tenants/globex/purge {"force":true}`, p+`tenants/globex/retain {"class":"default"}`,
		p+`rejects/replay {"tenant":"globex"}`, p+`rejects/drop {"tenant":"globex"}`, p+`replay {"tenant":"globex"}`,
		p+`tenants/acme/purge {}`, p+"tenants/acme/disable")
	as("acme admin", whatever, "POST", p+`replay {}`, p+`rejects/replay {}`, p+`rejects/replay {"reject_ids":["{their-reject}"]}`,
		p+`rejects/drop {"reject_ids":["{their-reject}"]}`,
		p+`rejects/drop {"reject_ids":["{half-of-their-reject}"]}`, p+`rejects/drop {"reject_ids":["%","_",""]}`,
		p+`rejects/drop {"session_id":"`+theirSession+`"}`, p+`rejects/replay {"session_id":"`+theirSession+`"}`,
		p+`rejects/drop {"tenant":"acme","session_id":"' OR tenant = 'globex"}`,
		p+`replay {"tenant":"acme","table":"kernels_data' OR '1'='1"}`, p+`keys {"tenant":"acme","Tenant":"globex"}`,
		p+`keys {"tenant":"acme","tenant":"globex"}`)
	as("acme admin", notYours, "PATCH", p+`tenants/globex {"note":"x"}`, p+`keys/{their-ingest-id} {"note":"x"}`,
		p+`keys/{operator-id} {"note":"x"}`, p+`tenants/acme {"limit-events-per-second":1e9}`)
	as("acme admin", notYours, "DELETE", p+"tenants/globex", p+"keys/{their-ingest-id}", p+"keys/{their-read-id}", p+"keys/{operator-id}",
		p+"tenants/globex/sessions/"+theirSession, p+"tenants/globex/sessions/"+theirSession+"?force=true")
	// Uploads that name them: by their session, in headers, in the address, in the body. They are acme's, or nobody's.
	line := gpuLines(theirSession, "acme")
	for _, header := range []string{"", "X-Tenant: globex", "X-Scope-OrgID: globex", "X-Warpline-Tenant: globex",
		"X-ClickHouse-User: globex",
		"X-Forwarded-User: globex", "X-GpuFlight-Tenant: globex", "X-GpuFlight-Session-Id: " + theirSession,
		"Warpline-Upload: {their-receipt}",
		"X-HTTP-Method-Override: DELETE|X-Original-URL: " + p + "tenants/globex", "X-Rewrite-URL: " + p + "tenants/globex",
		"Cookie: key={their-ingest-id}", "Authorization: Basic Z2xvYmV4Ong=", "X-Forwarded-For: 127.0.0.1|X-Real-IP: 127.0.0.1"} {
		all = append(all, stranger{"acme ingest", "POST", "/api/v1/events/stream", line, header, asOurs})
	}
	as("acme ingest", asOurs, "POST", "/api/v1/events/stream?tenant=globex "+line, "/api/v1/events/stream?key={their-ingest-id} "+line,
		"/api/v1/events/stream "+strings.ReplaceAll(line, `"version":1`, `"version":1,"tenant":"globex","tenant_id":"globex"`))
	as("acme ingest", whatever, "POST", "/api/v1/events/session-complete {\"session_id\":\""+theirSession+"\"}",
		"/api/v1/intrakernel?session="+theirSession+"&tenant=globex []", "/api/v1/traces?session="+theirSession+"&tenant=globex []",
		"/api/v1/telemetry?session=mem:"+theirSession+"&tenant=globex []", "/globex/api/v1/events/stream {}",
		"/api/v1/events/stream/../../admin/tenants/globex/disable {}", "//api/v1/admin/tenants/globex/disable {}",
		"/api/v1/events/%2e%2e/admin/tenants/globex/disable {}", "/clickhouse/../api/v1/admin/tenants/globex/disable {}")
	// Keys of acme at the door of SQL as somebody else, in each of its ways to say who asks.
	for _, who := range []string{"globex", "default", "reader", "warpline", "slot1", "slot1_rows", "tenant_globex", "ACME",
		"acme' OR '1'='1"} {
		all = append(all, stranger{"acme read", "POST", "/clickhouse/", "SELECT * FROM kernels", "X-ClickHouse-User: " + who, []int{401,
			403}})
	}
	as("acme read", []int{401, 403}, "POST", "/clickhouse/?user=globex SELECT * FROM kernels")
	all = append(all, stranger{"{their-read-id}", "POST", "/clickhouse/", "SELECT 1", "X-ClickHouse-User: globex", noKey})
	// SQL: tables behind the views, functions that go around, oracles, the service's own, files and hosts.
	for _, sql := range []string{"SELECT * FROM warpline.kernels", "SELECT * FROM warpline.kernels_data", "SELECT * FROM kernels_data",
		"SELECT * FROM {their-slot}.kernels", "SELECT * FROM warpline.slots", "SELECT * FROM warpline.ledger",
		"SELECT * FROM warpline.books_data",
		"SELECT * FROM merge('warpline', '.*')", "SELECT * FROM merge(REGEXP('.*'), 'kernels')",
		"SELECT * FROM merge('slot.*', 'sessions')",
		"SELECT * FROM loop(warpline, kernels_data) LIMIT 9", "SELECT * FROM loop(warpline.sessions) LIMIT 9",
		"SELECT * FROM dictionary('warpline.kernels_data')", "SELECT dictGet('warpline.dictionaries_data', 'value', 1)",
		"CREATE DICTIONARY d (a UInt8) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 'kernels_data' DB 'warpline')) LAYOUT(FLAT()) LIFETIME(1)",
		"SELECT joinGet('warpline.kernels_data', 'tenant', 1)", "SELECT * FROM mergeTreeIndex(warpline, kernels_data)",
		"SELECT * FROM mergeTreeProjection(warpline, kernels_data, p)", "SELECT * FROM remote('127.0.0.1', warpline, kernels_data)",
		"SELECT * FROM cluster('default', warpline, kernels_data)", "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)",
		"SELECT * FROM file('/etc/passwd', LineAsString)", "SELECT file('/etc/passwd')",
		"SELECT * FROM view(SELECT * FROM warpline.kernels)",
		"SELECT * FROM viewIfPermitted(SELECT tenant FROM warpline.kernels_data ELSE null('tenant String'))",
		"SELECT * FROM system.query_log", "SELECT * FROM system.processes WHERE user != currentUser()", "SELECT * FROM system.users",
		"SELECT * FROM system.parts", "SELECT * FROM system.row_policies", "SHOW TABLES FROM warpline",
		"SHOW CREATE TABLE warpline.kernels",
		"EXPLAIN ESTIMATE SELECT * FROM warpline.kernels_data", "USE warpline", "SET ROLE ALL", "EXECUTE AS warpline SELECT 1",
		"INSERT INTO warpline.slots VALUES ('{our-slot}', 'globex')", "ALTER TABLE warpline.kernels_data DELETE WHERE 1",
		"DROP VIEW kernels",
		"CREATE VIEW v DEFINER = warpline SQL SECURITY DEFINER AS SELECT * FROM warpline.kernels_data", "GRANT ALL ON *.* TO {our-slot}",
		"KILL QUERY WHERE 1", "SYSTEM SHUTDOWN", "BACKUP DATABASE warpline TO Null", "SELECT 1 SETTINGS max_memory_usage = 0",
		"SELECT 1 INTO OUTFILE '/tmp/x'"} {
		all = append(all, stranger{"acme read", "POST", "/clickhouse/", sql, "X-ClickHouse-User: acme", whatever})
	}
	for _, sql := range []string{"SELECT * FROM kernels WHERE tenant = 'globex'", "SELECT * FROM sessions WHERE session_id = '" +
		theirSession +
		"' AND tenant != 'acme'", "SELECT * FROM kernels WHERE throwIf(tenant = 'globex')",
		"SELECT * FROM insights WHERE tenant = 'globex'",
		"SELECT * FROM sessions WHERE intDiv(1, tenant != 'globex') = 9", "SELECT * FROM rejects WHERE tenant != 'acme'",
		"SELECT * FROM usage WHERE tenant != 'acme'", "SELECT * FROM admin_log WHERE tenant != 'acme'",
		"SELECT * FROM kernels AS a FULL JOIN sessions AS b USING (session_id) WHERE b.tenant = 'globex' OR a.tenant = 'globex'",
		"SELECT * FROM (SELECT * FROM kernels SETTINGS readonly = 0) WHERE tenant = 'globex'",
		"SELECT name FROM system.databases WHERE name LIKE 'slot%' AND name != currentDatabase()",
		"SELECT name FROM system.tables WHERE database = 'warpline'", "SELECT 'x' WHERE currentUser() LIKE '%rows'"} {
		all = append(all, stranger{"acme read", "POST", "/clickhouse/", sql, "X-ClickHouse-User: acme", []int{200}})
	}
	for _, params := range []string{"role=warpline", "quota_key=globex", "session_id=globex", "database={their-slot}",
		"default_format=JSON&role=x",
		"additional_table_filters=x", "profile=writer", "query_id=x&replace_running_query=1", "param_x=1&max_memory_usage=0"} {
		all = append(all, stranger{"acme read", "POST", "/clickhouse/?" + params, "SELECT * FROM kernels WHERE tenant != 'acme'",
			"X-ClickHouse-User: acme", whatever})
	}
	all = append(all, stranger{"acme read", "POST", "/clickhouse/",
		"--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nwarpline\r\n--b\r\n" +
			"Content-Disposition: form-data; name=\"query\"\r\n\r\nSELECT * FROM warpline.kernels\r\n--b--\r\n",
		"X-ClickHouse-User: acme|Content-Type: multipart/form-data; boundary=b", whatever},
		stranger{"acme read", "POST", "/clickhouse/?query=SELECT+*+FROM+t&t_structure=a+String&t_format=Values", "('x')",
			"X-ClickHouse-User: acme|X-ClickHouse-Quota: globex|X-ClickHouse-Database: {their-slot}", whatever})
	// Deletions, of what acme has by now under their session's id too.
	as("acme admin", whatever, "DELETE", p+"tenants/acme/sessions/"+theirSession+"?wait_seconds=0",
		p+"tenants/acme/sessions/..%2F..%2Fglobex%2Fsessions%2F"+theirSession+"?force=true&wait_seconds=0",
		p+"tenants/acme/sessions/%25?force=true&wait_seconds=0")
	return all
}

// gpuLines are a session with a kernel, and a line that is refused, whose texts begin with a word.
func gpuLines(session, word string) string {
	return fmt.Sprintf(`{"version":1,"type":"job_start","pid":7,"app":"%[2]s-app","session_id":"%[1]s","ts_ns":1795175929972803352,`+
		`"hostname":"%[2]s-host","ip_addr":"192.0.2.1","devices":[],"gpu_static_devices":[]}`+"\n"+
		`{"version":1,"type":"dictionary_update","session_id":"%[1]s","kernel_dict":{"1":"%[2]s_kernel"}}`+"\n"+
		`{"version":1,"type":"kernel_event_batch","session_id":"%[1]s","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
		`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details","external_kind","external_id"],"rows":[`+
		`[1,1,7,1000,1,0,32,0,0,0]]}`+"\n"+`{"version":1,"type":"%[2]s_type","session_id":"%[1]s"}`+"\n", session, word)
}

// More than a hundred attempts across tenants, on every door of a service: nothing that is globex's is said, changed, sent again or
// deleted. What each of these would do is done to see that it can be: by globex itself, in the end.
func TestStrangers(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	reader := asReader(t, dir, r.ClickHouseHTTP)
	secrets, fill := map[string]string{"": "", "guessed": "gpfl_0123456789abcdef0123456789abcdef"}, []string{}
	add := func(name, value string) {
		if value == "" {
			t.Fatalf("there is no %s", name)
		}
		fill = append(fill, "{"+name+"}", value)
	}
	for _, who := range []string{"acme", "globex"} {
		if got := runIn(t, nil, "tenant", "create", who, "--data", dir); got.code != exitOK {
			t.Fatalf("%+v", got)
		}
		for _, scope := range []string{"ingest", "read", "admin"} {
			secrets[who+" "+scope] = strings.TrimSpace(runIn(t, nil, "key", "create", who, "--scope", scope, "--data", dir).stdout)
		}
	}
	secrets["operator"] = strings.TrimSpace(runIn(t, nil, "key", "create", "--operator", "--data", dir).stdout)
	ask := func(s stranger) (int, string, http.Header) {
		t.Helper()
		replace := strings.NewReplacer(fill...)
		req, err := http.NewRequest(s.method, "http://"+r.Gateway, strings.NewReader(replace.Replace(s.body)))
		if err != nil {
			t.Fatal(err)
		}
		path, q, _ := strings.Cut(replace.Replace(s.path), "?")
		req.URL.Opaque, req.URL.RawQuery = "//"+r.Gateway+path, q // as it stands
		secret, named := secrets[s.who]
		if !named {
			secret = replace.Replace(s.who)
		}
		if secret != "" && strings.HasPrefix(s.path, "/clickhouse/") {
			req.Header.Set("X-ClickHouse-Key", secret)
			if strings.Contains(s.path, "user=") {
				req.Header.Del("X-ClickHouse-Key")
				req.URL.RawQuery += "&password=" + secret
			}
		} else if secret != "" {
			req.Header.Set("Authorization", "Bearer "+secret)
		}
		for h := range strings.SplitSeq(replace.Replace(s.header), "|") {
			if name, value, ok := strings.Cut(h, ": "); ok {
				req.Header.Add(name, value)
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body) // what breaks off is what was said
		return res.StatusCode, string(body), res.Header
	}
	patient := func(s stranger) (int, string, http.Header) { // too many a second is no answer
		t.Helper()
		for {
			status, body, header := ask(s)
			if status != http.StatusTooManyRequests {
				return status, body, header
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for who, session := range map[string]string{"acme": ourSession, "globex": theirSession} {
		word := map[string]string{"acme": "acme", "globex": theirWord}[who]
		status, body, header := ask(stranger{who + " ingest", "POST", "/api/v1/events/stream", gpuLines(session, word),
			"Warpline-Upload: ours", nil})
		if status != 200 || header.Get("Warpline-Upload") == "" {
			t.Fatalf("%d %s %v", status, body, header)
		}
		if who == "globex" {
			add("their-receipt", header.Get("Warpline-Upload"))
			_, seal, _ := strings.Cut(header.Get("Warpline-Upload"), ".")
			add("their-seal", seal)
		}
		eventually(t, reader,
			"SELECT (SELECT count() FROM warpline.kernels WHERE tenant = '"+who+"'), (SELECT count() FROM warpline.rejects WHERE "+
				"tenant = '"+who+"') FORMAT CSV", "1,1")
	}
	reject := query(t, reader, "SELECT reject_id FROM warpline.rejects WHERE tenant = 'globex'")
	add("their-reject", reject)
	add("half-of-their-reject", reject[:len(reject)/2])
	ids := map[string]string{}
	for name, secret := range secrets {
		if name != "" && name != "guessed" {
			ids[name] = tenant.ID(secret)
		}
	}
	add("their-ingest-id", ids["globex ingest"])
	add("their-read-id", ids["globex read"])
	add("their-admin-id", ids["globex admin"])
	add("operator-id", ids["operator"])
	for of, who := range map[string]string{"our-slot": "acme", "their-slot": "globex"} {
		_, slot, _ := patient(stranger{who + " read", "POST", "/clickhouse/", "SELECT currentDatabase()", "X-ClickHouse-User: " + who, nil})
		add(of, strings.TrimSpace(slot))
	}
	state := func() string {
		t.Helper()
		var s strings.Builder
		for _, of := range []string{"kernels", "kernel_stats", "dictionaries", "devices",
			"(SELECT tenant, session_id, app, host, kernels FROM warpline.sessions)",
			"(SELECT tenant, day, source, events, bytes FROM warpline.usage)",
			"(SELECT tenant, reject_id, stage, attempts, replayed_at FROM warpline.rejects)", "admin_log"} {
			if !strings.HasPrefix(of, "(") {
				of = "warpline." + of
			}
			s.WriteString(query(t, reader,
				"SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM "+of+" WHERE tenant = 'globex' FORMAT CSV") + "\n")
		}
		for _, path := range []string{"tenants/globex", "keys/" + ids["globex ingest"], "keys/" + ids["globex read"], "keys/" +
			ids["globex admin"],
			"keys/" + ids["operator"]} {
			_, body, _ := patient(stranger{"operator", "GET", admin.Path + path, "", "", nil})
			s.WriteString(body)
		}
		return s.String()
	}
	eventually(t, reader, "SELECT countIf(action = 'key create'), countIf(action = 'tenant create'), countIf(outcome != 'done') FROM "+
		"warpline.admin_log WHERE tenant = 'globex' FORMAT CSV", "3,1,0")
	settled(t, dir)
	before := state()

	theirs := []string{theirWord, secrets["globex ingest"], secrets["globex read"], secrets["globex admin"], secrets["operator"],
		"root:x:0"}
	names := []string{reject, ids["globex ingest"], ids["globex read"], ids["globex admin"], ids["operator"]}
	all := strangers()
	replace := strings.NewReplacer(fill...)
	for _, s := range all {
		status, body, header := patient(s)
		what := fmt.Sprintf("%s %s as %q (%s) %.200s", s.method, s.path, s.who, s.header, s.body)
		if !slices.Contains(s.want, status) {
			t.Errorf("%s: %d %.300s, want %v", what, status, body, s.want)
		}
		said, asked := body+fmt.Sprint(header), replace.Replace(s.path+s.body+s.header)
		for _, secret := range theirs {
			if strings.Contains(said, secret) {
				t.Errorf("%s: shows %s: %.600s", what, secret, said)
			}
		}
		for _, name := range names {
			if strings.Contains(said, name) && !strings.Contains(asked, name) {
				t.Errorf("%s: names %s: %.600s", what, name, said)
			}
		}
		if status == 200 && strings.Contains(body, "globex") {
			t.Errorf("%s: shows something of globex's: %.600s", what, body)
		}
	}
	tried := len(all) + rpcStrangers(t, r.GatewayGRPC, secrets, strings.NewReplacer(fill...))
	t.Logf("%d attempts", tried)
	if tried < 100 {
		t.Errorf("only %d attempts", tried)
	}
	// What acme sent under their names was acme's, and so was what it deleted. When all is settled, nothing of theirs is another.
	settled(t, dir)
	if after := state(); after != before {
		t.Errorf("what is globex's has changed from\n%s\nto\n%s", before, after)
	}
	// The other side: for whom it is, each of it is there.
	for _, s := range []stranger{{"globex ingest", "GET", "/api/v1/uploads/{their-receipt}", "", "", asOurs},
		{"globex admin", "GET", admin.Path + "tenants/globex", "", "", asOurs}, {"globex admin", "GET", admin.Path +
			"rejects/{their-reject}", "", "", asOurs},
		{"globex admin", "GET", admin.Path + "audit?tenant=globex", "", "", asOurs},
		{"globex read", "POST", "/clickhouse/", "SELECT * FROM kernels", "X-ClickHouse-User: globex", asOurs},
		{"globex admin", "PATCH", admin.Path + "keys/{their-ingest-id}", `{"note":"x"}`, "", asOurs},
		{"globex admin", "POST", admin.Path + "rejects/drop", `{"reject_ids":["{their-reject}"]}`, "", asOurs},
		{"globex admin", "DELETE", admin.Path + "tenants/globex/sessions/" + theirSession + "?wait_seconds=60", "", "", asOurs},
		{"globex admin", "DELETE", admin.Path + "keys/{their-ingest-id}", "", "", asOurs}} {
		if status, body, _ := patient(s); status != 200 {
			t.Errorf("%s %s by its own tenant: %d %s", s.method, s.path, status, body)
		}
	}
}

// rpcStrangers calls each gRPC method without a key, with a guessed one and with keys of the other scopes.
func rpcStrangers(t *testing.T, addr string, secrets map[string]string, fill *strings.Replacer) (tried int) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, method := range []string{wire.Write, wire.ShouldInitiateUpload, wire.InitiateUpload, wire.MarkUploadFinished, wire.ReportPanic,
		wire.ExportProfiles} {
		for _, who := range []string{"", "guessed", "acme read", "acme admin", "operator", "{their-ingest-id}"} {
			secret, named := secrets[who]
			if !named {
				secret = fill.Replace(who)
			}
			ctx := t.Context()
			if secret != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret, "x-tenant", "globex")
			}
			err := conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
			if code := status.Code(err); code != codes.Unauthenticated && code != codes.PermissionDenied {
				t.Errorf("%s as %q: %v", method, who, err)
			}
			tried++
		}
	}
	return tried
}
