package tenantsql_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/warpline/warpline/query/tenantsql"
)

// limits are questions that meet a bound, are wrong, or ask for what a tenant may not, each with its answer.
var limits = []struct {
	name, sql, params string
	status, code      int
	says              string // what to do
}{
	{"memory", "SELECT length(groupArray(toString(number))) FROM numbers(100000000)", "", 422, 241, "bound of memory"},
	{"memory of the answer", "SELECT repeat('x', 1000000) FROM numbers(50000) FORMAT JSONCompact", "max_block_size=65536", 422, 241,
		"bound of memory"},
	{"time", "SELECT sum(sipHash64(cityHash64(sipHash64(number)))) FROM numbers(1999999999)", "max_execution_time=1", 408, 159,
		"bound of time"},
	{"rows to read", "SELECT count() FROM (SELECT number FROM numbers(100000000000))", "", 422, 158, "bound of rows to read"},
	{"rows of the answer", "SELECT number FROM numbers(20000000) FORMAT Null", "", 422, 396, "add a LIMIT"},
	{"bytes of the answer", "SELECT repeat(toString(number), 300) FROM numbers(200000) FORMAT Null", "max_result_bytes=1000000", 422, 396,
		"add a LIMIT"},
	{"a sort", "SELECT number, repeat(toString(sipHash64(number)), 8) AS s FROM numbers(10000000) ORDER BY s DESC " +
		"LIMIT 9999999 FORMAT Null", "max_block_size=8192", 422, 241, "bound of memory"},
	{"syntax", "SELEC 1", "", 400, 62, "Syntax error"},
	{"two questions", "SELECT 1; SELECT 2", "", 400, 62, "not allowed"},
	{"unknown view", "SELECT 1 FROM nothing", "", 404, 60, "SHOW TABLES"},
	{"unknown column", "SELECT nothing FROM kernels", "", 404, 47, "DESCRIBE"},
	{"unknown function", "SELECT thereIsNone(1)", "", 404, 46, "system.functions"},
	{"unknown format", "SELECT 1 FORMAT Nothing", "", 404, 73, "Unknown format"},
	{"unknown setting", "SELECT 1 SETTINGS nothing = 1", "", 404, 115, "nothing"},
	{"types", "SELECT 1 + 'a'", "", 400, 43, "make the types fit"},
	{"conversion", "SELECT CAST('x' AS Nothing)", "", 400, 70, "Nothing"},
	{"number", "SELECT toUInt8('x')", "", 400, 6, "Cannot parse"},
	{"division by zero", "SELECT intDiv(1, 0)", "", 400, 153, "intDivOrZero"},
	{"division by zero in a row", "SELECT intDiv(1, number - 100) FROM numbers(200)", "", 400, 153, "intDivOrZero"},
	{"an exception of its own", "SELECT throwIf(number = 3, 'as I said') FROM numbers(10)", "", 400, 395, "as I said"},
	{"no value of a parameter", "SELECT {x:String}", "", 400, 456, "?param_name="},
	{"a huge array", "SELECT range(1000000000)", "", 400, 69, "range"},
	{"another database", "SELECT * FROM warpline.kernels", "", 403, 497, "named without a database"},
	{"a setting that is a bound", "SELECT 1 SETTINGS max_memory_usage = 0", "", 403, 164, "neither rows nor settings"},
	{"a setting beyond its bound", "SELECT 1 SETTINGS max_result_rows = 99999999999", "", 403, 452, "no setting lifts a bound"},
	{"writing", "DROP VIEW kernels", "", 403, 497, "reads the views alone"},
}

// Whatever bound a question meets and whatever is wrong with it, the answer says that it is the question's, names the bound and says what
// to do. It is never one that says that the service is broken, or one that tools take for "ask again".
func TestEachLimitHasItsAnswer(t *testing.T) {
	s := serve(t)
	for _, c := range limits {
		t.Run(c.name, func(t *testing.T) {
			for door, address := range map[string]string{"slots": s.door.URL, "web": s.web.URL} {
				a := sendTo(t, address+"/clickhouse/", c.sql, c.params, asPlain)
				if a.status != c.status || a.header.Get("X-ClickHouse-Exception-Code") != fmt.Sprint(c.code) || !strings.Contains(a.body, c.says) {
					t.Errorf("%s: %d %q, want %d (%d) with %q", door, a.status, a.body, c.status, c.code, c.says)
				}
			}
		})
	}
}

func asPlain(r *http.Request) {
	r.SetBasicAuth(mine, "key-of-"+mine)
	r.Header.Set("Accept-Encoding", "identity")
}

// Clients that take compressed answers can read an error and what to do, whatever they take.
func TestErrorsCanBeRead(t *testing.T) {
	s := serve(t)
	for _, accept := range []string{"gzip", "deflate", "zstd", "lz4", "br", "gzip;q=1.0, deflate, br, zstd", "snappy", "*", ""} {
		for _, native := range []string{"", "1", "true"} {
			for _, wait := range []string{"0", "1"} {
				for _, sql := range []string{"SELECT 1 FROM nothing", "SELECT number, throwIf(number = 3, 'SHOW TABLES') FROM numbers(10)"} {
					params := url.Values{"wait_end_of_query": {wait}}
					if native != "" {
						params.Set("compress", native)
					}
					a := s.send(t, sql, params.Encode(), func(r *http.Request) {
						asPlain(r)
						r.Header.Set("Accept-Encoding", accept)
					})
					said := a.body
					if native != "" {
						raw, err := io.ReadAll(compress.NewReader(strings.NewReader(a.raw)))
						if !errors.Is(err, io.EOF) { // as this reader says it
							t.Errorf("%q, compress=%s: %v", accept, native, err)
						}
						said = string(raw)
					}
					if a.status == 200 || a.status >= 500 || a.header.Get("Content-Encoding") != "" || !strings.Contains(said, "SHOW TABLES") ||
						!strings.Contains(said, "DB::Exception") {
						t.Errorf("%q, compress=%q, wait_end_of_query=%s: %d %v %q", accept, native, wait, a.status, a.header, said)
					}
				}
			}
		}
	}
	for _, accept := range []string{"gzip", "deflate", "zstd", "lz4", "br"} {
		for _, params := range []string{"query=SELECT+1+FROM+nothing", "query=SELECT+1+FROM+nothing&compress=1"} {
			a := s.send(t, "", params, func(r *http.Request) {
				asPlain(r)
				r.Method, r.Body = http.MethodHead, nil
				r.Header.Set("Accept-Encoding", accept)
			})
			if a.status != 404 || a.header.Get("X-ClickHouse-Exception-Code") != "60" {
				t.Errorf("HEAD, %s, %s: %d %v", accept, params, a.status, a.header)
			}
		}
	}
	// What is no error stays as ClickHouse packed it.
	for _, accept := range []string{"gzip", "deflate", "zstd", "lz4"} {
		a := s.send(t, "SELECT 1", "", func(r *http.Request) {
			asPlain(r)
			r.Header.Set("Accept-Encoding", accept)
		})
		if a.status != 200 || a.header.Get("Content-Encoding") != accept {
			t.Errorf("%s: %d %v", accept, a.status, a.header)
		}
	}
}

// An exception in the middle of an answer, whose status has gone out, says what it is at the answer's end, and the answer does not look
// whole.
func TestExceptionsAmidAnAnswer(t *testing.T) {
	s := serve(t)
	for sql, says := range map[string]string{
		"SELECT number, throwIf(number = 1000000, 'it came late') FROM numbers(2000000)": "it came late",
		"SELECT number FROM numbers(20000000)":                                           "TOO_MANY_ROWS_OR_BYTES",
	} {
		a := s.send(t, sql, "", asPlain)
		if a.status != 200 || !errors.Is(a.err, io.ErrUnexpectedEOF) || !strings.Contains(a.raw[max(0, len(a.raw)-1000):], says) {
			t.Errorf("%s: %d, %v, ends with %.1000q", sql, a.status, a.err, a.raw[max(0, len(a.raw)-1000):])
		}
	}
}

// slow is a question that ClickHouse works on until its time is over.
const slow = "SELECT sum(sipHash64(cityHash64(sipHash64(number)))) FROM numbers(1999999999)"

// A question whose client leaves ends in ClickHouse, and the tenant has its turn and its slot back.
func TestLeavingEndsTheQuestion(t *testing.T) {
	s := serve(t)
	running := func() string {
		return s.write(t, "SELECT count() FROM system.processes WHERE query LIKE '%left-"+"behind%' AND user != '"+s.engine.User()+"'", "")
	}
	for range 3 { // as often as would take all turns
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.door.URL+"/clickhouse/", strings.NewReader(slow+" -- left-behind"))
			asPlain(req)
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				res.Body.Close()
			}
			gone <- err
		}()
		eventually(t, "the question runs", func() bool { return running() == "1" })
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the client did not leave: %v", err)
		}
		eventually(t, "the question ends", func() bool { return running() == "0" })
	}
	if a := s.ask(t, mine, "SELECT 1", ""); a.body != "1" {
		t.Errorf("afterwards: %+v", a)
	}
}

// eventually waits for what must come about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// A tenant that asks its heaviest without end, more at once than it may, is told so; another's questions are answered meanwhile, every one.
func TestHeavyTenantDisturbsNobody(t *testing.T) {
	s := serve(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	heavy := make(chan answer)
	const ways = 20
	for i := range ways {
		go func() {
			for ctx.Err() == nil {
				c := limits[i%5]
				heavy <- sendTo(t, s.door.URL+"/clickhouse/", c.sql, c.params, func(r *http.Request) { r.SetBasicAuth("heavy", "key-of-heavy") })
			}
			heavy <- answer{}
		}()
	}
	quiet := make(chan answer)
	go func() {
		defer close(quiet)
		for range 20 {
			quiet <- s.ask(t, mine, "SELECT DISTINCT tenant FROM kernels", "")
		}
	}()
	seen := map[int]int{}
	for left := ways; left > 0; {
		select {
		case a := <-heavy:
			switch {
			case a.status == 0 && a.body == "":
				left--
			case a.status != 408 && a.status != 422 && a.status != 429:
				t.Errorf("the heavy one: %d %.300s", a.status, a.body)
			default:
				seen[a.status]++
			}
		case a, more := <-quiet:
			if !more {
				quiet = nil
				stop()
			} else if a.status != 200 || a.body != mine {
				t.Errorf("the quiet one: %d %.300s", a.status, a.body)
			}
		}
	}
	if seen[429] == 0 || seen[422] == 0 {
		t.Errorf("the heavy one's answers: %v", seen)
	}
}

// What a tenant may ask in a minute is its own: when it is used up the answer says how much it was and when to ask again, and whoever gets
// its slot has all of a minute.
func TestMinute(t *testing.T) {
	s := serve(t)
	s.slots.Minute(tenantsql.Bounds{Queries: 8, BusySeconds: 1, Seconds: 30})
	defer s.slots.Minute(tenantsql.Bounds{})
	for name, c := range map[string]struct{ who, sql, says string }{
		"questions": {"asks-often", "SELECT 1", "8 questions of tenant asks-often in a minute"},
		"work":      {"asks-much", "SELECT sleep(0.6)", "1s of work in a minute"},
	} {
		asked := 0
		a := answer{}
		for ; a.status != http.StatusTooManyRequests && asked < 100; asked++ {
			a = s.ask(t, c.who, c.sql, "")
		}
		if a.status != 429 || !strings.Contains(a.body, c.says) || !strings.Contains(a.body, "ask again in ") ||
			a.header.Get("X-ClickHouse-Exception-Code") != "201" || a.header.Get("Retry-After") == "" || asked > 9 {
			t.Errorf("%s: after %d: %d %v %s", name, asked, a.status, a.header, a.body)
		}
		for i := range slotCount + 1 { // so that the slot changes hands
			if a := s.ask(t, fmt.Sprint("next-", name, i), "SELECT 1", ""); a.status != 200 {
				t.Errorf("%s: the next tenant: %d %s", name, a.status, a.body)
			}
		}
	}
}

// A minute is over after a minute, and is forgotten.
func TestMinutesEnd(t *testing.T) {
	m, now := tenantsql.NewMinutes(tenantsql.Bounds{Queries: 2, BusySeconds: 10, Seconds: 6}), time.Now()
	for i := range 2 {
		if err := m.Ask("a", now); err != nil {
			t.Fatal(i, err)
		}
	}
	if m.Ask("a", now.Add(59*time.Second)) == nil || m.Ask("b", now) != nil {
		t.Error("the third question of a, or the first of b")
	}
	later := now.Add(time.Minute)
	if err := m.Ask("a", later); err != nil {
		t.Error(err)
	}
	m.Worked("a", time.Hour, later) // counts for 6 s: its client read slowly
	if err := m.Ask("a", later); err != nil {
		t.Error(err)
	}
	m.Worked("c", 6*time.Second, later)
	m.Worked("c", 6*time.Second, later)
	if err := m.Ask("c", later); err == nil || !strings.Contains(err.Error(), "10s of work") {
		t.Error(err)
	}
	if m.Ask("d", later.Add(time.Hour)) != nil || m.Kept() != 1 {
		t.Errorf("%d tenants are remembered", m.Kept())
	}
}

// The last turn that is free goes to whoever has none: tenants that have one wait.
func TestLastTurnIsForOthers(t *testing.T) {
	turns := tenantsql.NewTurns(4, 2)
	ctx := t.Context()
	take := func(who string) func() {
		t.Helper()
		end, err := turns.Take(ctx, who)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	a1, a2, b1 := take("a"), take("a"), take("b")
	second := make(chan func())
	go func() { second <- take("b") }()
	c := take("c") // at once
	select {
	case <-second:
		t.Error("b has two while nothing is left for others")
	default:
	}
	a1()
	select {
	case <-second:
		t.Error("b has the last turn")
	default:
	}
	a2()
	b2 := <-second
	for _, end := range []func(){b1, b2, c} {
		end()
	}
	for _, who := range []string{"a", "b", "c", "d"} {
		defer take(who)()
	}
	late, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := turns.Take(late, "e"); err == nil || !strings.Contains(err.Error(), "ask again") {
		t.Errorf("a fifth: %v", err)
	}
}

// A door that ClickHouse does not answer says so, as long as that is.
func TestClickHouseAway(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	door := httptest.NewServer(tenantsql.New(tenantsql.Config{HTTP: strings.TrimPrefix(gone.URL, "http://"), WebSecret: webSecret,
		Authorize: func(context.Context, string, string) error { return nil }}))
	defer door.Close()
	a := sendTo(t, door.URL+"/", "SELECT 1", "", func(r *http.Request) { r.SetBasicAuth(mine, "key") })
	if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "ask again") {
		t.Errorf("%+v", a)
	}
}
