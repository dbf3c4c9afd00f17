package tenantsql_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// The tenants of the tests. Every text of the second's rows is its canary.
const (
	mine, theirs = "acme", "globex"
	canary       = "canary-of-globex"
	slotCount    = 3
)

// service is an engine with the rows of two tenants and a door to it.
type service struct {
	engine *engine.Engine
	conn   driver.Conn // as the writer
	slots  *tenantsql.Door
	door   *httptest.Server // of slots
	web    *httptest.Server // the same, that asks as the tenants' own users
	users  tenantsql.Users
}

// Secrets of the tenants' own users.
const (
	ownPassword = "password-of-"
	webSecret   = "a-secret-of-the-tests-that-is-long-enough"
)

// leaky are tenants whose users were made badly, each in a way of its own: rows that are not filtered, and rights too many.
var leaky = map[string]string{"leaky-rows": "", "leaky-tables": "<query>GRANT SELECT ON warpline.*</query>",
	"leaky-system": "<query>GRANT SELECT ON system.*</query>", "leaky-users": "<query>GRANT SHOW USERS ON *.*</query>",
	"leaky-closed": "<query>GRANT SELECT ON `tenant_leaky-closed`.*</query>"}

// whileClosed is what keeps rows from the user of a closed tenant; that of leaky-closed lacks it.
var whileClosed = regexp.MustCompile(` AND 'leaky-closed' NOT IN \(.*? = 1\)`)

var (
	once   sync.Once
	shared *service
)

// serve returns the service that all tests of this package share: its engine has slots, which others have not.
func serve(t *testing.T) *service {
	t.Helper()
	enginetest.Need(t)
	once.Do(func() {
		dir, err := os.MkdirTemp("", "warpline-tenantsql-*")
		if err != nil {
			t.Fatal(err)
		}
		shared = begin(t, dir)
	})
	if shared == nil {
		t.Fatal("the service did not start; the first test says why")
	}
	return shared
}

func begin(t *testing.T, dir string) *service {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first start ever fetches the library
	defer cancel()
	cfg := engine.Config{Dir: dir, Temporary: true, Progress: os.Stderr, Slots: tenantsql.Names(tabletest.Schema(), "", slotCount)}
	cfg.Extra.Profiles = tenantsql.FileProfile(tenantsql.DefaultBounds())
	for _, who := range []string{mine, theirs} {
		cfg.Extra.Users += tenantsql.FileUsers(tabletest.Schema(), who, ownPassword+who, tenantsql.WebPassword(webSecret, who), true)
	}
	for who, more := range leaky {
		cfg.Extra.Users += tenantsql.FileUsers(tabletest.Schema(), who, ownPassword+who, "none", more != "", more)
	}
	cfg.Extra.Users = whileClosed.ReplaceAllString(cfg.Extra.Users, "")
	e, err := engine.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{engine: e}
	open := func(context.Context) (driver.Conn, error) {
		return clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
			Auth: clickhouse.Auth{Username: e.User(), Password: e.Password()}})
	}
	s.conn, err = open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tabletest.Schema().Ensure(ctx, s.conn, table.Options{}); err != nil {
		t.Fatal(err)
	}
	s.fill(t)
	authorize := func(_ context.Context, secret, tenant string) error {
		switch {
		case !strings.HasPrefix(secret, "key-of-"):
			return &tenantsql.Denied{Status: http.StatusUnauthorized, Why: "no such key"}
		case secret != "key-of-"+tenant:
			return &tenantsql.Denied{Status: http.StatusForbidden, Why: "the key does not open this"}
		}
		return nil
	}
	s.slots = tenantsql.New(tenantsql.Config{Open: open, HTTP: e.HTTPAddr(), Password: e.SlotPassword, Slots: slotCount,
		Schema: tabletest.Schema(), Authorize: authorize})
	s.slots.Minute(tenantsql.Bounds{}) // tests ask more than a tenant may
	s.door = httptest.NewServer(http.StripPrefix("/clickhouse", s.slots))
	s.web = httptest.NewServer(http.StripPrefix("/clickhouse", tenantsql.New(tenantsql.Config{
		HTTP: e.HTTPAddr(), WebSecret: webSecret, Authorize: authorize,
	})))
	s.users = tenantsql.Users{Conn: s.conn, Schema: tabletest.Schema(), Bounds: tenantsql.DefaultBounds(),
		Login: func(_ context.Context, user, password string) (driver.Conn, error) {
			return clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()}, Auth: clickhouse.Auth{Username: user, Password: password}})
		}}
	if err := s.users.MakeClosed(ctx); err != nil {
		t.Fatal(err)
	}
	for _, who := range slices.Concat([]string{mine, theirs}, slices.Collect(maps.Keys(leaky))) {
		if err := s.users.MakeViews(ctx, who); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// fill gives both tenants rows in every table: of the first in its words, of the second with the canary for every text.
func (s *service) fill(t *testing.T) {
	t.Helper()
	for _, of := range tabletest.Schema().Tables() {
		if of.Column("tenant") == nil {
			continue
		}
		rows := table.NewBatch(of)
		tabletest.FillRest(rows, 3, time.Now(), 30)
		_, stream, err := rows.Encode(append([]byte(nil), of.SchemaMessage()...))
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, of.InsertSQL(table.DefaultDatabase), string(append(stream, table.EOS()...)))
		for _, who := range []string{mine, theirs} {
			replace := []string{"'" + who + "' AS tenant"}
			if who == theirs {
				for _, column := range s.column(t, "SELECT name FROM system.columns WHERE database = 'warpline' AND table = '"+of.Name+
					"' AND type IN ('String', 'LowCardinality(String)') AND name != 'tenant'") {
					replace = append(replace, fmt.Sprintf("'%s' AS `%s`", canary, column))
				}
			}
			s.write(t, fmt.Sprintf("INSERT INTO warpline.`%s` SELECT * REPLACE (%s) FROM (SELECT * FROM warpline.`%[1]s` "+
				"WHERE tenant NOT IN ('%[3]s', '%[4]s'))",
				of.Name, strings.Join(replace, ", "), mine, theirs), "")
		}
	}
}

// write runs a statement as the writer.
func (s *service) write(t *testing.T, sql, body string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+s.engine.HTTPAddr()+"/?query="+url.QueryEscape(sql), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(s.engine.User(), s.engine.Password())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", sql, res.Status, said, err)
	}
	return strings.TrimSpace(string(said))
}

func (s *service) column(t *testing.T, sql string) []string {
	t.Helper()
	return strings.Fields(s.write(t, sql, ""))
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string // without space at its ends, or why there is none
	raw    string // as far as it came
	err    error  // why it came no farther
}

func (a answer) all() string { return fmt.Sprint(a.header, a.body) }

// ask asks as a tenant; params are added to the address.
func (s *service) ask(t *testing.T, who, sql, params string) answer {
	t.Helper()
	return s.send(t, sql, params, func(r *http.Request) { r.SetBasicAuth(who, "key-of-"+who) })
}

// send asks at the door as change says.
func (s *service) send(t *testing.T, sql, params string, change func(*http.Request)) answer {
	t.Helper()
	return sendTo(t, s.door.URL+"/clickhouse/", sql, params, change)
}

func sendTo(t *testing.T, address, sql, params string, change func(*http.Request)) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"?"+params, strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	change(req)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{body: err.Error(), err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{res.StatusCode, res.Header, err.Error(), string(body), err}
	}
	return answer{res.StatusCode, res.Header, strings.TrimSpace(string(body)), string(body), nil}
}
