package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/sink/engine"
)

// gated is a cluster whose sink reaches ClickHouse through a gate.
type gated struct {
	*cluster
	gate    *gate
	streams *broker.Streams
	write   driver.Conn
	keys    [2]string // of tenants red, which sends windows, and blue, of which all is refused
	oracle  *oracle
	sent    int // windows
	mu      sync.Mutex
}

func newGated(t *testing.T) *gated {
	t.Helper()
	c := newCluster(t, 1)
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	layout := broker.DefaultLayout()
	layout.Duplicates = time.Second
	streams, err := broker.Open(t.Context(), nc, js, layout)
	if err != nil {
		t.Fatal(err)
	}
	write, err := clickhouse.Open(&clickhouse.Options{Addr: []string{c.clickTCP},
		Auth: clickhouse.Auth{Database: "warpline", Username: engine.Writer, Password: c.secret(engine.WriterSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write.Close() })
	return &gated{cluster: c, gate: newGate(t, c.clickTCP), streams: streams, write: write, oracle: newOracle(t),
		keys: [2]string{c.makeKey("red"), c.makeKey("blue")}}
}

// window sends one that the oracle knows.
func (g *gated) window() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := loadWindow("66666666-0000-4000-8000-000000000000", "device", g.sent, g.oracle, &g.mu)
	g.sent++
	if err := w.deliver(ctx, g.gatewayAddr, g.keys[0], true); err != nil {
		g.t.Fatal(err)
	}
}

// refuse sends what is refused.
func (g *gated) refuse(session, body string) {
	g.t.Helper()
	w := window{session: session, gz: zip([]byte(body))}
	if status, said, _ := w.post(context.Background(), g.gatewayAddr, g.keys[1], false); status != 200 {
		g.t.Fatal(status, said)
	}
}

// exact wants the rows of all windows, once, and books that balance.
func (g *gated) exact(t *testing.T) {
	t.Helper()
	check(t, g.cluster, "red", g.oracle.finish(), 90*time.Second)
	eventually(t, 90*time.Second, "audit", func() (bool, string) {
		out, code := g.audit("--deep")
		return code == 0, out
	})
}

// through lets the sink's next lives go through the gate, with more flags.
func (g *gated) through(flags ...string) {
	r := g.roles["sink"]
	i := slices.Index(r.args, "--clickhouse")
	r.args = append(slices.Clone(r.args), flags...)
	r.args[i+1] = g.gate.addr
}

// killAt starts the sink and kills it at a statement: before that arrives, or, with done, when ClickHouse has done what it says but before
// the sink knows.
func (g *gated) killAt(text string, nth int, done func() (bool, string)) {
	g.t.Helper()
	h := &hold{text: text, nth: nth, through: done != nil, reached: make(chan struct{})}
	g.gate.closeAt(h)
	g.start("sink")
	select {
	case <-h.reached:
	case <-time.After(90 * time.Second):
		g.t.Fatalf("the sink never said %q:\n%s", text, g.tail("sink"))
	}
	if done != nil {
		eventually(g.t, 60*time.Second, "ClickHouse does "+text, done)
	}
	g.kill("sink")
	g.gate.closeAt(nil)
}

// exec makes a change in ClickHouse.
func (g *gated) exec(sql string) {
	g.t.Helper()
	if err := g.write.Exec(context.Background(), sql); err != nil {
		g.t.Fatalf("%s: %v", sql, err)
	}
}

// A sink is killed with kill -9 before and after each step of a drop by --rejects-max, in one life after the other, while rows come in.
// The next one goes on: what was to be dropped is gone, with what NATS had of it, and stays gone, all else is there, and the books balance.
func TestSinkIsKilledWhileItTrims(t *testing.T) {
	g := newGated(t)
	g.window()
	g.refuse("kind", "nonsense\n") // the newest of its kind stays
	for i := range 3 {             // each 1.5 MiB in NATS and 64 KiB in SQL
		g.refuse(fmt.Sprint("long ", i), `{"type":"kernel_event_batch",`+strings.Repeat(fmt.Sprintf("%08d", i), 3<<16)+"\n")
	}
	for i := range 4 { // each 60 KB in SQL
		g.refuse(fmt.Sprint("new ", i), `{"type":"memcpy_event_batch",`+strings.Repeat(fmt.Sprintf("%010d", i), 6000)+"\n")
	}
	count := func(want string) func() (bool, string) {
		return func() (bool, string) {
			got := strings.Join(g.refused(), ",")
			return got == want, got
		}
	}
	objects := func() int {
		list, err := g.streams.Parts.List(t.Context())
		if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
			t.Fatal(err)
		}
		return len(list)
	}
	const before, after = "kind,long 0,long 1,long 2,new 0,new 1,new 2,new 3", "kind,long 2,new 0,new 1,new 2,new 3"
	eventually(t, 60*time.Second, "rejects", count(before))
	g.exact(t)
	if n := objects(); n != 3 {
		t.Fatalf("NATS has %d lines", n)
	}
	g.kill("sink")
	g.through("--rejects-max", "4MiB") // of 5 MiB
	noted := func() bool {
		_, err := g.streams.Marks.Get(t.Context(), "drop")
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	ledger := func() (bool, string) {
		n := g.one("SELECT count() FROM ledger WHERE startsWith(chunks, 'drop ')")
		return n == 1, fmt.Sprint(n)
	}
	killed := func(rejects string) {
		t.Helper()
		// As time would: a turn that nobody holds ends.
		if err := g.streams.Leases.Delete(t.Context(), "admin.turn.repair"); err != nil {
			t.Fatal(err)
		}
		if ok, have := count(rejects)(); !ok || !noted() || objects() != 1 {
			t.Errorf("rejects %s, want %s; noted %v; %d lines in NATS", have, rejects, noted(), objects())
		}
		g.window()
	}
	g.killAt("`rejects_data` DELETE", 1, nil)
	killed(before)
	g.killAt("`rejects_data` DELETE", 1, count(after))
	killed(after)
	g.killAt("'drop ", 1, nil)
	killed(after)
	if out, code := g.audit(); code == 0 || !strings.Contains(out, "reject drop --resume") {
		t.Errorf("the audit says of a drop that was cut short (%d): %s", code, out)
	}
	g.killAt("'drop ", 1, ledger)
	killed(after)
	g.start("sink")
	eventually(t, 60*time.Second, "the drop is finished", func() (bool, string) { return !noted(), "it is not" })
	if ok, have := ledger(); !ok {
		t.Errorf("%s rows of the ledger say what was dropped", have)
	}
	g.exact(t)
	if out, err := exec.Command(binary, "replay", "--nats", "nats://"+g.natsAddr, "--clickhouse", g.clickTCP, "--clickhouse-http", g.clickHTTP,
		"--clickhouse-user", engine.Writer, "--clickhouse-password", g.secret(engine.WriterSecret)).CombinedOutput(); err != nil {
		t.Errorf("replay: %v\n%s", err, out)
	}
	if ok, have := count(after)(); !ok || objects() != 1 {
		t.Errorf("in the end there are rejects %s, and %d lines in NATS", have, objects())
	}
	if n := g.one("SELECT sum(rejected) FROM usage WHERE tenant = 'blue'"); n != 8 {
		t.Errorf("usage counts %d events as refused, want 8", n)
	}
	g.exact(t)
}

// refused are the sessions of which there are rejects, in order.
func (g *gated) refused() (all []string) {
	rows, err := g.tryRows("SELECT toString(session_id) AS s, count() FROM rejects WHERE tenant = 'blue' GROUP BY s")
	if err != nil {
		return []string{err.Error()}
	}
	for s := range rows {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// A folder whose columns have other codecs, as of an older build, is opened by a sink that is killed with kill -9 while it gives them
// today's: before a table, after it, and before it is noted that it is done. The next one goes on: all columns and tables are as in a new
// folder, rows are exact, also those that came in between, and another start changes nothing.
func TestSinkIsKilledWhileItRecodes(t *testing.T) {
	g := newGated(t)
	g.window()
	g.refuse("bad", "nonsense\n")
	g.exact(t)
	g.kill("sink")
	codecs := func() map[string][]uint64 {
		return g.rows("SELECT concat(table, '.', name, ' ', compression_codec), toUInt64(1) FROM system.columns WHERE database = " +
			"'warpline' AND table NOT IN (SELECT name FROM system.tables WHERE database = 'warpline' AND engine = 'View')")
	}
	settings := func() uint64 {
		return g.one("SELECT sum(cityHash64(name, engine_full)) FROM system.tables WHERE database = 'warpline' AND engine LIKE '%MergeTree'")
	}
	wantCodecs, wantSettings := codecs(), settings()
	var tables []string // in the order in which a sink comes to them
	for _, old := range []struct{ table, column string }{{"kernels_data", "duration_ns"}, {"kernel_stats_data", "duration_hist"},
		{"memcpys_data", "bytes"}, {"rejects_data", "payload"}, {"usage_data", "events"}, {"ledger", "chunks"}} {
		g.exec(fmt.Sprintf("ALTER TABLE %s MODIFY COLUMN %s CODEC(LZ4)", old.table, old.column))
		g.exec("OPTIMIZE TABLE " + old.table + " FINAL")
		tables = append(tables, old.table)
	}
	g.exec("ALTER TABLE sessions_data MODIFY SETTING compress_per_column_in_compact_parts = 1")
	g.exec("INSERT INTO schema_history (fingerprint, applied_at) SELECT 'older', now64(3) + 1")
	if len(missing(wantCodecs, codecs())) < len(tables) || settings() == wantSettings {
		t.Fatal("the folder is not like an old one")
	}
	g.through()
	left := func() int { return len(missing(wantCodecs, codecs())) }
	g.killAt("MODIFY COLUMN", 1, nil)
	all := left()
	if all != len(tables) {
		t.Errorf("%d columns have other codecs, want %d", all, len(tables))
	}
	g.window()
	g.killAt("MODIFY COLUMN", 1, func() (bool, string) { return left() == all-1, fmt.Sprint(left()) })
	g.window()
	g.killAt("MODIFY COLUMN", 3, nil) // two more are done
	if n := left(); n != all-3 {
		t.Errorf("%d columns have other codecs, want %d", n, all-3)
	}
	g.window()
	g.killAt("MODIFY SETTING", 1, nil)
	g.window()
	g.killAt("MODIFY SETTING", 1, func() (bool, string) { return settings() == wantSettings, "the settings are old" })
	g.killAt("schema_history (fingerprint)", 1, nil)
	g.window()
	g.start("sink")
	g.exact(t)
	if lost := missing(wantCodecs, codecs()); len(lost) > 0 || settings() != wantSettings {
		t.Errorf("in the end there are other codecs than %v, or other settings", lost)
	}
	if last := g.one("SELECT argMax(fingerprint, applied_at) != 'older' FROM schema_history"); last != 1 {
		t.Error("the schema is not noted")
	}
	g.kill("sink")
	g.gate.notes("MODIFY ")
	g.start("sink")
	g.window()
	g.exact(t)
	if altered := g.gate.notes("MODIFY "); len(altered) > 0 {
		t.Errorf("a sink altered tables where nothing was to be done: %q", altered)
	}
}

// missing are the names of want that got does not have.
func missing(want, got map[string][]uint64) (all []string) {
	for name := range want {
		if got[name] == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
