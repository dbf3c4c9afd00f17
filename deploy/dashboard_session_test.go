package deploy_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/gpuflight"
	"github.com/warpline/warpline/aggregate/telemetry"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/ingest"
	gpuflightdoor "github.com/warpline/warpline/ingest/gpuflight"
	telemetrydoor "github.com/warpline/warpline/ingest/telemetry"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// asked is a query as Grafana sends it: its variables and macros filled in.
func asked(sql, tenant, session string, from, to int64) string {
	sql = regexp.MustCompile(`\$__timeFilter\((\w[\w.]*)\)`).ReplaceAllString(sql,
		fmt.Sprintf("$1 >= toDateTime(%d) AND $1 <= toDateTime(%d)", from, to))
	sql = regexp.MustCompile(`\$__timeInterval\((\w[\w.]*)\)`).ReplaceAllString(sql, "toStartOfInterval(toDateTime($1), INTERVAL 60 second)")
	return strings.NewReplacer("$tenant", tenant, "${session:sqlstring}", "'"+strings.ReplaceAll(session, "'", "''")+"'", "${app:sqlstring}",
		"'it''s train.py'", "${kernel:sqlstring}", "'all'", "${host:sqlstring}", "'all'",
		"$__fromTime", fmt.Sprintf("toDateTime(%d)", from)).Replace(sql)
}

// Captures of days ago are sent now. Whichever session is picked in the table, each panel shows all that there is of it, in the range of
// time that the pick sets.
func TestDashboardShowsAnOldSession(t *testing.T) {
	e := enginetest.Shared(t)
	streams := brokertest.Start(t, broker.Layout{})
	const key = "dev-key-for-tests"
	gateway, err := ingest.New(streams, ingest.Config{
		Listen: "127.0.0.1:0", SpoolDir: t.TempDir(), DevKey: key,
		Sources: []ingest.Source{gpuflightdoor.Source(), telemetrydoor.Source()},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := sink.New(streams, sink.Config{Schema: tabletest.Schema(), HTTPAddr: e.HTTPAddr(), NativeAddr: e.TCPAddr(), Database: "warpline",
		User: e.User(), Password: e.Password(), MinInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{gateway.Run,
		aggregate.New(streams, aggregate.Config{Sources: []aggregate.Source{gpuflight.Source(), telemetry.Source()}}).Run, s.Run} {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range 3 {
			<-ended
		}
	})
	var sessions []replay.Session
	for _, name := range []string{"trace_default", "scoped", "monitor"} { // kernels, samples, machine
		found, err := replay.Open("../testdata/gpuflight/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, found...)
	}
	sender := &replay.Sender{URL: "http://" + gateway.Addr(), Key: key, Retry: 100 * time.Millisecond}
	if _, err := sender.Send(ctx, sessions); err != nil {
		t.Fatal(err)
	}
	// And one line of a session that no type is known for, so that there is something refused.
	bad := `{"type":"of_the_future","session_id":"` + sessions[0].ID + `"}` + "\n"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sender.URL+"/api/v1/events/stream", strings.NewReader(bad))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", res, err)
	}
	res.Body.Close()

	reader, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Database: "warpline", Username: engine.Reader, Password: e.ReaderPassword()}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	rows := func(sql string, each func(driver.Rows)) (n int) {
		t.Helper()
		r, err := reader.Query(ctx, sql)
		if err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
		defer r.Close()
		for ; r.Next(); n++ {
			if each != nil {
				each(r)
			}
		}
		if err := r.Err(); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
		return n
	}
	accepted := uint64(0)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		var complete uint64
		if reader.QueryRow(ctx, "SELECT countIf(state != 'open') FROM sessions WHERE tenant = 'dev'").Scan(&complete) == nil &&
			complete >= uint64(len(sessions)) &&
			rows("SELECT 1 FROM rejects WHERE tenant = 'dev' AND type = 'of_the_future' OR tenant = 'dev' AND reason = 'unknown_type' LIMIT 1",
				nil) > 0 {
			break
		}
		if accepted = complete; time.Now().After(deadline) {
			t.Fatalf("only %d of %d sessions are in ClickHouse", accepted, len(sessions))
		}
	}
	time.Sleep(time.Second) // rollups follow
	if err := s.MeasureStored(ctx); err != nil {
		t.Fatal(err)
	}

	d := loadDashboard(t)
	var picker string
	for _, p := range d.Panels {
		if p.ID == 9 {
			picker = p.Targets[0].RawSQL
			var whole []byte
			if whole, err = os.ReadFile("grafana/dashboards/warpline.json"); err != nil {
				t.Fatal(err)
			}
			for _, needs := range []string{"var-session=${__data.fields.session_id:percentencode}", "from=${__data.fields.from_ms}",
				"to=${__data.fields.to_ms}"} {
				if !strings.Contains(string(whole), needs) {
					t.Errorf("a click on a session does not set %s", needs)
				}
			}
		}
	}
	const never, always = 0, int64(2_000_000_000)
	type pick struct {
		session  string
		from, to int64
	}
	var picks []pick
	// The picker itself has sessions of every time, whatever the range is: that of a board that was just opened, here an hour far away.
	rows("SELECT toString(session_id), from_ms, to_ms FROM ("+asked(picker, "dev", "all", 1_000_000_000, 1_000_003_600)+")",
		func(r driver.Rows) {
			var p pick
			if err := r.Scan(&p.session, &p.from, &p.to); err != nil {
				t.Fatal(err)
			}
			picks = append(picks, p)
		})
	if len(picks) != len(sessions) {
		t.Fatalf("%d sessions to pick, want %d", len(picks), len(sessions))
	}
	full := map[string]int{}
	for _, p := range picks {
		if p.to-p.from > (2 * time.Hour).Milliseconds() {
			t.Errorf("session %s: the range is %v long", p.session, time.Duration(p.to-p.from)*time.Millisecond)
		}
		for _, panel := range d.Panels {
			for _, q := range panel.Targets {
				if q.RawSQL == "" || panel.ID == 9 {
					continue
				}
				all := rows(asked(q.RawSQL, "dev", p.session, never, always), nil)
				seen := rows(asked(q.RawSQL, "dev", p.session, p.from/1000, (p.to+999)/1000), nil)
				if full[panel.Title] += seen; seen != all {
					t.Errorf("session %s: %q shows %d rows of %d", p.session, panel.Title, seen, all)
				}
			}
		}
	}
	for _, panel := range d.Panels {
		if len(panel.Targets) > 0 && panel.Targets[0].RawSQL != "" && panel.ID != 9 && full[panel.Title] == 0 {
			t.Errorf("%q is empty for every session", panel.Title)
		}
	}
	for _, v := range d.Templating.List {
		if n := rows(asked(v.Query, "dev", "all", 1_000_000_000, 1_000_003_600), nil); n == 0 {
			t.Errorf("variable %s offers nothing", v.Name)
		}
	}
}
