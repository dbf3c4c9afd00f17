package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/rejects"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/stream"
)

// trimRig is a service to which lines are sent that are refused, and what drops of them.
type trimRig struct {
	t       *testing.T
	dir     string
	gateway string
	sql     string
	keys    map[string]string // by tenant
	streams *broker.Streams
	conn    driver.Conn
}

func newTrimRig(t *testing.T) *trimRig {
	t.Helper()
	dir := dataFolder(t)
	up := launch(t, upArgs(dir, "--bucket-max", "256MiB")...) // or long lines that were refused make room for the next
	up.await(t, "msg=ready")
	running, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Fields(runIn(t, nil, "key", "create", "other", "--data", dir).stdout)[0]
	nc, err := reachFlags{Data: dir}.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	streams, err := nc.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	srv, err := writeServer(clickhouseFlags{ClickHouseDatabase: "warpline"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := srv.OpenIn(t.Context(), srv.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &trimRig{t: t, dir: dir, gateway: running.Gateway, sql: asReader(t, dir, running.ClickHouseHTTP), streams: streams, conn: conn,
		keys: map[string]string{"default": strings.TrimSpace(string(own)), "other": other}}
}

func (r *trimRig) send(tenant, session, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.gateway+"/api/v1/events/stream",
		strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.keys[tenant])
	req.Header.Set("X-GpuFlight-Session-Id", session)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode >= 300 {
		r.t.Fatalf("session %s: %s", session, res.Status)
	}
}

func (r *trimRig) trim(most int64) []rejects.Trimmed {
	r.t.Helper()
	done, err := rejects.Trimmer{Streams: r.streams, Conn: r.conn, Most: most}.Trim(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// objects counts the lines over 1 MiB that NATS has of a tenant.
func (r *trimRig) objects(tenant string) (n int) {
	r.t.Helper()
	list, err := r.streams.Parts.List(r.t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		r.t.Fatal(err)
	}
	for _, o := range list {
		if strings.HasPrefix(o.Name, tenant+".") {
			n++
		}
	}
	return n
}

// Whoever has more bytes of rejects than one may loses the oldest, save the newest of each kind; others lose none, usage goes on counting
// all, and the audit balances.
func TestRejectsMax(t *testing.T) {
	r := newTrimRig(t)
	r.send("default", "old", `{"type":"from_the_future","session_id":"old"}`+"\n")
	for i := range 10 { // each of 20 lines of 10 KB
		line := "{" + strings.Repeat(fmt.Sprintf("%09d ", i), 1000) + "\n"
		r.send("default", fmt.Sprint("s", i), strings.Repeat(line, 20))
		r.send("other", "mine", line)
	}
	const all = "SELECT countIf(tenant = 'default'), countIf(tenant = 'other') FROM warpline.rejects_data FORMAT CSV"
	eventually(t, r.sql, all, "201,10")

	balanced(t, "--data", r.dir) // the lanes have passed all of it

	if done := r.trim(100 << 20); len(done) != 0 {
		t.Errorf("within the limit: %+v", done)
	}
	// Of 2 MB there may be 1 MB: half of that is kept, two uploads, and the one line of another kind, which is the oldest.
	done := r.trim(1_000_000)
	if len(done) != 1 || done[0].Tenant != "default" || done[0].Rows != 160 || done[0].Kept > 500_000 || done[0].Kept < 400_000 {
		t.Errorf("%+v", done)
	}
	eventually(t, r.sql, all, "41,10")
	eventually(t, r.sql, "SELECT groupUniqArray(session_id) FROM (SELECT DISTINCT toString(session_id) AS session_id FROM "+
		"warpline.rejects_data WHERE tenant = 'default' ORDER BY session_id)", "['old','s8','s9']")
	if done := r.trim(1_000_000); len(done) != 0 {
		t.Errorf("once more: %+v", done)
	}
	eventually(t, r.sql, "SELECT sum(rejected) FROM warpline.usage WHERE tenant = 'default'", "201")
	balanced(t, "--deep", "--data", r.dir)
}

// What NATS has of long lines that were refused counts, and goes with the reject: by the limit, by hand, and where rejects expired.
func TestRejectsMaxCountsLongLines(t *testing.T) {
	r := newTrimRig(t)
	const line = 2 << 20
	long := func(i int) string {
		return `{"type":"kernel_event_batch","n":` + strings.Repeat(fmt.Sprintf("%07d ", i), line/8) + "\n"
	}
	r.send("default", "kind", "nonsense\n") // of another kind, and the oldest
	for i := range 6 {
		r.send("default", fmt.Sprint("s", i), long(i))
	}
	r.send("other", "mine", long(7))
	r.send("other", "mine too", long(8))
	const all = "SELECT countIf(tenant = 'default'), countIf(tenant = 'other') FROM warpline.rejects_data FORMAT CSV"
	eventually(t, r.sql, all, "7,2")
	balanced(t, "--data", r.dir)
	if d, o := r.objects("default"), r.objects("other"); d != 6 || o != 2 {
		t.Fatalf("NATS has %d and %d lines", d, o)
	}
	if rows := query(t, r.sql, "SELECT max(length(payload)) FROM warpline.rejects_data"); rows != fmt.Sprint(stream.RejectBytes) {
		t.Errorf("the table has %s bytes of a line", rows)
	}

	// Of 12.4 MiB in NATS and SQL there may be 9 MiB: half of that is two lines.
	done := r.trim(9 << 20)
	if len(done) != 1 || done[0].Tenant != "default" || done[0].Rows != 4 || done[0].Bytes < 6*line || done[0].Kept < 2*line ||
		done[0].Kept > 3*line {
		t.Errorf("%+v", done)
	}
	eventually(t, r.sql, all, "3,2")
	eventually(t, r.sql, "SELECT arraySort(groupArray(toString(session_id))) FROM warpline.rejects_data WHERE tenant = 'default'",
		"['kind','s4','s5']")
	if d, o := r.objects("default"), r.objects("other"); d != 2 || o != 2 {
		t.Errorf("after a drop by the limit NATS has %d and %d lines", d, o)
	}
	if done := r.trim(9 << 20); len(done) != 0 {
		t.Errorf("once more: %+v", done)
	}
	balanced(t, "--deep", "--data", r.dir)

	var one struct {
		Rows, Bytes int
	}
	got := runAt(t, r.dir)(exitOK, "reject", "drop", "--yes", "--json", "--tenant", "other", "--session", "mine too")
	if err := json.Unmarshal([]byte(got.stdout), &one); err != nil || one.Rows != 1 || one.Bytes < line+stream.RejectBytes {
		t.Errorf("%+v: %v", got, err)
	}
	if n := r.objects("other"); n != 1 {
		t.Errorf("after a drop by hand NATS has %d lines", n)
	}
	balanced(t, "--deep", "--data", r.dir)

	// Of one that expired earlier than its bytes in NATS nothing is left either, the next time that all have more than one may.
	if err := r.conn.Exec(t.Context(), "ALTER TABLE rejects_data DELETE WHERE tenant = 'other' SETTINGS mutations_sync = 2"); err != nil {
		t.Fatal(err)
	}
	r.trim(5 << 20)
	if d, o := r.objects("default"), r.objects("other"); d != 2 || o != 0 {
		t.Errorf("after rejects expired NATS has %d and %d lines", d, o)
	}
}
