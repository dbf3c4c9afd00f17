package tenantsql_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// A tenant sees in every view what is its own, all of that, and nothing else.
func TestEveryViewShowsTheTenantsRowsAlone(t *testing.T) {
	s := serve(t)
	for _, v := range tabletest.Schema().Views(table.Options{}) {
		from := v.From()
		got := s.ask(t, mine, "SELECT * FROM "+from+" FORMAT JSONEachRow", "")
		if got.status != http.StatusOK {
			t.Errorf("%s: %d %s", v.Name, got.status, got.body)
			continue
		}
		if strings.Contains(got.all(), canary) || strings.Contains(got.all(), theirs) {
			t.Errorf("%s shows rows of another tenant:\n%.600s", v.Name, got.body)
		}
		if strings.Contains(from, "(") {
			continue
		}
		sql := "SELECT count() FROM warpline." + from
		if v.Name != "stall_reasons" { // which says the same to everybody
			sql += " WHERE tenant = '" + mine + "'"
		}
		wanted := s.write(t, sql, "")
		if rows := fmt.Sprint(len(strings.FieldsFunc(got.body, func(r rune) bool { return r == '\n' }))); rows != wanted {
			t.Errorf("%s: the tenant sees %s rows, and has %s", v.Name, rows, wanted)
		}
	}
}

// Tools ask in many ways, and each works.
func TestWaysToAsk(t *testing.T) {
	s := serve(t)
	key := "key-of-" + mine
	for name, change := range map[string]func(*http.Request){
		"Basic": func(r *http.Request) { r.SetBasicAuth(mine, key) },
		"headers": func(r *http.Request) {
			r.Header.Set("X-ClickHouse-User", mine)
			r.Header.Set("X-ClickHouse-Key", key)
		},
		"address": func(r *http.Request) { r.URL.RawQuery += "&user=" + mine + "&password=" + key },
		"database of the service": func(r *http.Request) {
			r.SetBasicAuth(mine, key)
			r.URL.RawQuery += "&database=warpline"
		},
		"database as a header": func(r *http.Request) {
			r.SetBasicAuth(mine, key)
			r.Header.Set("X-ClickHouse-Database", "default")
		},
		"JDBC": func(r *http.Request) { // as its driver 0.8.6 sends it
			r.SetBasicAuth(mine, key)
			r.Header.Set("X-ClickHouse-Query-Id", "a4b4b8d7")
			r.URL.RawQuery += "&query_id=a4b4b8d7&compress=0&wait_end_of_query=0&async_insert=0"
		},
		"session": func(r *http.Request) {
			r.SetBasicAuth(mine, key)
			r.URL.RawQuery += "&session_id=x&session_timeout=60"
		},
	} {
		if a := s.send(t, "SELECT DISTINCT tenant FROM kernels", "", change); a.body != mine {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for sql, wanted := range map[string]string{
		"SELECT DISTINCT tenant FROM sessions FORMAT JSONEachRow":                                      `{"tenant":"acme"}`,
		"SELECT count() > 0 FROM kernels WHERE tenant = {t:String}":                                    "1",
		"WITH k AS (SELECT * FROM kernels) SELECT uniqExact(tenant) FROM k JOIN sessions USING tenant": "1",
		"SHOW TABLES LIKE 'kernel_stats'":                                                              "kernel_stats",
		"SELECT name FROM system.tables WHERE database = currentDatabase() AND name = 'kernels'":       "kernels",
		"SELECT count() > 5 FROM system.columns WHERE table = 'kernels'":                               "1",
		"SELECT timezone() != '', version() != ''":                                                     "1\t1",
		"EXISTS TABLE kernels": "1",
	} {
		if a := s.ask(t, mine, sql, "param_t="+mine); a.status != 200 || a.body != wanted {
			t.Errorf("%s: %d %q, want %q", sql, a.status, a.body, wanted)
		}
	}
	for format, starts := range map[string]string{"Parquet": "PAR1", "CSV": "1", "Arrow": "ARROW1", "JSONCompact": "{", "Pretty": ""} {
		if a := s.ask(t, mine, "SELECT 1 FORMAT "+format, ""); a.status != 200 || !strings.HasPrefix(a.body, starts) {
			t.Errorf("%s: %d %q", format, a.status, a.body)
		}
	}
	if a := s.send(t, "", "", func(r *http.Request) { r.URL.Path = "/clickhouse/ping" }); a.status != 200 || a.body != "Ok." {
		t.Errorf("ping: %+v", a)
	}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{strings.TrimPrefix(s.door.URL, "http://")}, Protocol: clickhouse.HTTP,
		HttpUrlPath: "/clickhouse/", Auth: clickhouse.Auth{Database: "warpline", Username: mine, Password: key},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // which the driver sends as a setting
	defer cancel()
	var who string
	if err := conn.QueryRow(ctx, "SELECT DISTINCT tenant FROM kernels WHERE tenant = ?", mine).Scan(&who); err != nil || who != mine {
		t.Errorf("clickhouse-go: %q, %v", who, err)
	}
}

// Who may not ask is told so, in ClickHouse's words, whatever there is to ask.
func TestWhoMayNotAsk(t *testing.T) {
	s := serve(t)
	for _, c := range []struct {
		user, key string
		status    int
	}{
		{mine, "key-of-" + theirs, 403}, {theirs, "key-of-" + mine, 403}, {mine, "wrong", 401}, {mine, "", 401}, {"", "key-of-" + mine, 401},
		{"default", "", 401}, {"reader", s.engine.ReaderPassword(), 401}, {"warpline", s.engine.Password(), 401},
		{"slot1", s.engine.SlotPassword(1), 401}, {"slot1_rows", "", 401}, {"../" + mine, "key-of-" + mine, 401},
		{"acme' OR '1'='1", "key-of-" + mine, 401}, {strings.Repeat("a", 70), "key-of-" + mine, 401},
	} {
		a := s.send(t, "SELECT 1", "", func(r *http.Request) { r.SetBasicAuth(c.user, c.key) })
		if a.status != c.status || !strings.Contains(a.body, "Code: 516.") || a.header.Get("X-ClickHouse-Exception-Code") != "516" {
			t.Errorf("user %q: %d %s, want %d", c.user, a.status, a.body, c.status)
		}
		if c.status == 401 && !strings.Contains(a.body, "the user is the tenant, the password a key of scope read") {
			t.Errorf("user %q is not told how to ask: %s", c.user, a.body)
		}
	}
	// A second way of saying who asks does not change who asks.
	for _, params := range []string{"user=warpline&password=" + s.engine.Password(), "user=slot2&password=" + s.engine.SlotPassword(2),
		"role=warpline", "quota_key=x", "user=" + theirs} {
		if a := s.ask(t, mine, "SELECT DISTINCT tenant FROM kernels", params); a.body != mine {
			t.Errorf("%s: %d %s", params, a.status, a.body)
		}
	}
	for path, status := range map[string]int{"/clickhouse/play": 404, "/clickhouse/replicas_status": 404, "/clickhouse/dashboard": 404,
		"/clickhouse/metrics": 404} {
		if a := s.send(t, "SELECT 1", "", func(r *http.Request) { r.URL.Path = path }); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.send(t, "SELECT 1", "", func(r *http.Request) { r.Method = http.MethodPut }); a.status != 405 {
		t.Errorf("PUT: %d", a.status)
	}
	if a := s.ask(t, mine, "SELECT 1 -- "+strings.Repeat("x", 2<<20), ""); a.status != 413 {
		t.Errorf("a question of 2 MiB: %d %.200s", a.status, a.body)
	}
	if a := s.send(t, "SELECT * FROM warpline.kernels", "", func(r *http.Request) {
		r.SetBasicAuth(mine, "key-of-"+mine)
		r.Header.Set("Accept-Encoding", "identity") // as curl does
	}); a.status == 200 || !strings.Contains(a.body, "named without a database") {
		t.Errorf("the service's database: %d %s", a.status, a.body)
	}
	if a := s.ask(t, mine, "SELECT '<script>' FORMAT TSV", ""); a.header.Get("X-ClickHouse-Server-Display-Name") != "" ||
		a.header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(a.header.Get("Content-Type"), "html") {
		t.Errorf("the server's name is told, or a browser may guess what it is: %v", a.header)
	}
}

// More tenants ask than there are slots, one after the other and at once: each sees its own rows, always.
func TestSlotsChangeHands(t *testing.T) {
	s := serve(t)
	for i := range 8 { // each in a data part of its own: what ClickHouse may remember of parts is of one tenant
		s.write(t, fmt.Sprintf("INSERT INTO warpline.usage_data (tenant, day, source, events, received_day, retention_days) VALUES ('t%d', "+
			"today(), 'x', 1, today(), 30)", i), "")
	}
	before := s.ask(t, mine, "SELECT count() FROM usage", "").body
	type seen struct{ who, got string }
	answers := make(chan seen)
	const rounds = 30
	for g := range 4 {
		go func() {
			for i := range rounds {
				who := fmt.Sprint("t", (g*3+i)%8)
				a := s.ask(t, who, "SELECT groupUniqArray(tenant) FROM usage", "query_id=same")
				for try := 0; a.status == http.StatusServiceUnavailable && try < 100; try++ { // all slots are in use
					time.Sleep(20 * time.Millisecond)
					a = s.ask(t, who, "SELECT groupUniqArray(tenant) FROM usage", "query_id=same"+fmt.Sprint(g))
				}
				answers <- seen{who, a.body}
			}
		}()
	}
	for range 4 * rounds {
		if a := <-answers; a.got != "['"+a.who+"']" && !strings.Contains(a.got, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING") {
			t.Errorf("%s sees %s", a.who, a.got)
		}
	}
	if after := s.ask(t, mine, "SELECT count() FROM usage", "").body; after != before {
		t.Errorf("after the others: %s rows, before %s", after, before)
	}
}

// A table that a later version adds is closed until somebody opens it.
func TestNewTablesAreClosed(t *testing.T) {
	s := serve(t)
	s.write(t, "CREATE TABLE warpline.later (tenant String, s String) ENGINE = MergeTree ORDER BY tenant", "")
	s.write(t, "INSERT INTO warpline.later VALUES ('acme', 'a'), ('globex', '"+canary+"')", "")
	s.write(t, "CREATE VIEW warpline.later_view AS SELECT * FROM warpline.later", "")
	defer s.write(t, "DROP TABLE warpline.later", "")
	defer s.write(t, "DROP TABLE warpline.later_view", "")
	for _, sql := range []string{"SELECT * FROM warpline.later", "SELECT * FROM later", "SELECT * FROM warpline.later_view",
		"SELECT * FROM slot1.later", "DESCRIBE warpline.later"} {
		if a := s.ask(t, mine, sql, ""); a.status == http.StatusOK {
			t.Errorf("%s: %s", sql, a.body)
		}
	}
	if a := s.ask(t, mine, "SELECT count() FROM system.tables WHERE name LIKE 'later%'", ""); a.body != "0" {
		t.Errorf("it is listed: %s", a.body)
	}
}

// What a question may take is not the tenant's to choose.
func TestBoundsHold(t *testing.T) {
	s := serve(t)
	for _, set := range []string{"max_memory_usage = 0", "max_execution_time = 0", "max_threads = 64", "readonly = 0", "max_rows_to_read = 0",
		"max_concurrent_queries_for_user = 0", "max_memory_usage_for_user = 0", "max_result_rows = 0", "use_query_cache = 1",
		"use_query_condition_cache = 1", "max_temporary_data_on_disk_size_for_user = 0", "os_threads_nice_value_query = 0"} {
		for way, a := range map[string]answer{
			"SETTINGS": s.ask(t, mine, "SELECT 1 SETTINGS "+set, ""),
			"address":  s.ask(t, mine, "SELECT 1", strings.ReplaceAll(set, " ", "")),
			"SET":      s.ask(t, mine, "SET "+set, ""),
		} {
			if a.status == http.StatusOK {
				t.Errorf("%s: %s is taken", way, set)
			}
		}
	}
	if a := s.ask(t, mine, "SELECT 1", "profile=writer"); a.status == http.StatusOK {
		t.Error("another profile is taken")
	}
	// ClickHouse takes settings of a sub-query without a look at who may set them; they lift nothing.
	for _, within := range []string{"", " SETTINGS readonly = 0, max_memory_usage = 0, max_rows_to_read = 0, max_execution_time = 0, " +
		"max_memory_usage_for_user = 0, max_result_rows = 0, timeout_overflow_mode = 'break'"} {
		for sql, code := range map[string]string{
			"SELECT length(groupArray(toString(number))) FROM (SELECT number FROM numbers(100000000)%s)":           "MEMORY_LIMIT_EXCEEDED",
			"SELECT length(g) FROM (SELECT groupArray(toString(number)) AS g FROM numbers(100000000)%s)":           "MEMORY_LIMIT_EXCEEDED",
			"SELECT count() FROM (SELECT number FROM numbers(100000000000)%s)":                                     "TOO_MANY_ROWS",
			"SELECT number FROM (SELECT number FROM numbers(20000000)%s) FORMAT Null":                              "TOO_MANY_ROWS_OR_BYTES",
			"SELECT sum(n) FROM (SELECT sipHash64(cityHash64(sipHash64(number))) AS n FROM numbers(1999999999)%s)": "TIMEOUT_EXCEEDED",
		} {
			seconds := 30 // a busy machine may take long until the other bounds are reached
			if code == "TIMEOUT_EXCEEDED" {
				seconds = 1
			}
			began := time.Now()
			a := s.ask(t, mine, fmt.Sprintf(sql, within), fmt.Sprintf("max_execution_time=%d&wait_end_of_query=1", seconds))
			if !strings.Contains(a.body, code) || time.Since(began) > time.Minute {
				t.Errorf(sql+": %d after %v: %.300s; want %s", within, a.status, time.Since(began), a.body, code)
			}
		}
	}
}
