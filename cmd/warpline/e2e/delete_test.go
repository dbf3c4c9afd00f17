package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
)

// click is how commands reach the cluster's ClickHouse as a reader.
func (c *cluster) reach() []string {
	return append(c.asking(), "--nats", "nats://"+c.natsAddr)
}

// stored counts a tenant's rows in every base table, or those of one of its sessions. What the operator did is no part of them.
func (c *cluster) stored(tenant, session string) map[string]uint64 {
	c.t.Helper()
	column := "session_id"
	if session == "" {
		column = "tenant"
	}
	tables := c.rows("SELECT table, toUInt64(1) FROM system.columns WHERE database = 'warpline' AND name = ? AND table IN (SELECT name FROM "+
		"system.tables WHERE database = 'warpline' AND engine LIKE '%MergeTree' AND name != 'admin_log_data')", column)
	if len(tables) < 10 {
		c.t.Fatalf("only %d tables have %s", len(tables), column)
	}
	var counts []string
	var args []any
	for t := range tables {
		where := "tenant = ?"
		args = append(args, tenant)
		if session != "" {
			where, args = where+" AND session_id = ?", append(args, session)
		}
		counts = append(counts, "SELECT '"+t+"' AS name, count() AS n FROM `"+t+"` WHERE "+where)
	}
	out := map[string]uint64{}
	for t, n := range c.rows("SELECT name, n FROM ("+strings.Join(counts, " UNION ALL ")+") WHERE n > 0", args...) {
		out[t] = n[0]
	}
	return out
}

// Deleting a session while its agent still sends and worker and sink are killed: nothing of it is left, also not after every window is sent
// again; the same session of another tenant and the other sessions of the tenant do not notice. Then the tenant goes.
func TestDeletion(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	red, blue := c.makeKey("red"), c.makeKey("blue")
	const gone, stays = "44444444-0000-4000-8000-000000000000", "55555555-0000-4000-8000-000000000000"
	o := newOracle(t)
	var mu sync.Mutex
	windows := func(session string, from, to int) (out []*window) {
		for n := from; n < to; n++ {
			for _, channel := range []string{"device", "scope", "system"} {
				out = append(out, loadWindow(session, channel, n, o, &mu))
			}
		}
		return out
	}
	send := func(key string, ws []*window, headers bool) {
		t.Helper()
		for _, w := range ws {
			if err := w.deliver(ctx, c.gatewayAddr, key, headers); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	at := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(100*time.Millisecond)) }
	first := windows(gone, 0, 4)
	send(red, first, true)
	send(blue, first, true)
	send(red, windows(stays, 0, 2), true)
	kernels := func(tenant, session string) uint64 {
		return c.one(fmt.Sprintf("SELECT sum(kernels) FROM sessions WHERE tenant = '%s' AND session_id = '%s'", tenant, session))
	}
	eventually(t, 3*time.Minute, "all is stored", func() (bool, string) {
		have := fmt.Sprint(kernels("red", gone), kernels("blue", gone), kernels("red", stays))
		return have == "800 800 400", have
	})
	at("all was stored")
	checkExport(t, c, "red", gone)
	at("export")
	for _, q := range []struct {
		args []string
		code int
		want string
	}{
		{append([]string{"session", "list", "--tenant", "red"}, c.asking()...), 0, stays},
		{append([]string{"tenant", "list", "--json"}, c.reach()...), 0, `"tenant":"blue","sessions":1`},
		{append([]string{"session", "export", "red", gone, "--tables", "kernels,nope"}, c.asking()...), 2, "nope"},
		{append([]string{"session", "export", "red", "nobody"}, c.asking()...), 1, "nothing is stored"},
		{append([]string{"session", "delete", "red", gone, "nobody", "--yes"}, c.reach()...), 1, "nothing was deleted"},
	} {
		cmd := exec.Command(binary, q.args...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != q.code || !strings.Contains(string(out), q.want) {
			t.Errorf("%q: exit %d, want %d and %q:\n%s", q.args, cmd.ProcessState.ExitCode(), q.code, q.want, out)
		}
	}

	c.settled(t) // rollups may come behind what was waited for
	blueBefore, staysBefore := c.stored("blue", gone), c.stored("red", stays)
	agents := startParcaLoad(ctx, t, c, "agents") // of another tenant: they send on meanwhile
	done := make(chan string, 1)
	go func() {
		out, err := exec.Command(binary, append([]string{"session", "delete", "red", gone, "--yes", "--wait", "8m"}, c.reach()...)...).
			CombinedOutput()
		if err != nil {
			out = append(out, ("FAILED " + err.Error())...)
		}
		done <- string(out)
	}()
	later := windows(gone, 4, 7)
	for i, victim := range []string{"worker0", "sink", "worker0", "sink"} {
		send(red, later[2*i:2*i+2], true)
		time.Sleep(time.Duration(50+70*i) * time.Millisecond)
		c.kill(victim)
		c.start(victim)
	}
	said := <-done
	if strings.Contains(said, "FAILED") || !strings.Contains(said, "kernels_data") {
		t.Fatalf("session delete:\n%s", said)
	}
	at("deleted")
	if left := c.stored("red", gone); len(left) > 0 {
		t.Errorf("after the deletion: %v\n%s", left, said)
	}
	rowsForget(ctx, t, c)
	rejected := func() uint64 {
		return c.one("SELECT sum(events) FROM rejects WHERE tenant = 'red' AND reason = 'session_deleted'")
	}
	before := rejected()
	send(red, first, true)
	send(red, later, false)
	eventually(t, 3*time.Minute, "what is sent again is counted as dropped", func() (bool, string) {
		return rejected() >= before+7*200, fmt.Sprint(before, " then ", rejected())
	})
	time.Sleep(time.Second)
	if left := c.stored("red", gone); len(left) > 0 {
		t.Errorf("what was sent again is back: %v", left)
	}
	at("sent again")
	same := func(when string) {
		t.Helper()
		if have := c.stored("blue", gone); fmt.Sprint(sortedTables(have)) != fmt.Sprint(sortedTables(blueBefore)) ||
			have["kernels_data"] != blueBefore["kernels_data"] || kernels("blue", gone) != 800 {
			t.Errorf("%s the other tenant has %v, had %v", when, have, blueBefore)
		}
	}
	same("after the deletion")
	if have := c.stored("red", stays); have["kernels_data"] != staysBefore["kernels_data"] || kernels("red", stays) != 400 {
		t.Errorf("the neighbour has %v, had %v", have, staysBefore)
	}

	out, err := exec.Command(binary, append([]string{"tenant", "purge", "red", "--yes", "--revoke-keys"}, c.reach()...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("tenant purge: %v\n%s", err, out)
	}
	at("purged")
	if left := c.stored("red", ""); len(left) > 0 {
		t.Errorf("after the purge: %v\n%s", left, out)
	}
	same("after the purge")
	agents.stop()
	agents.check(t, c)
	c.auditClean(t)
	if out, err := exec.Command(binary, append([]string{"session", "delete", "red", gone, "--yes"}, c.reach()...)...).
		CombinedOutput(); err == nil || !strings.Contains(string(out), "nothing is known") {
		t.Errorf("deleting what is gone: %v\n%s", err, out)
	}
}

// rowsForget waits until no chunk in ROWS carries the deletion any more: with it has gone all before it.
func rowsForget(ctx context.Context, t *testing.T, c *cluster) {
	t.Helper()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	rows, err := js.Stream(ctx, "ROWS")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "the chunk with the deletion leaves ROWS", func() (bool, string) {
		info, err := rows.Info(ctx)
		if err != nil {
			return false, err.Error()
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
			if msg, err := rows.GetMsg(ctx, seq); err == nil && bytes.Contains(msg.Data, []byte(`"deletes":[`)) {
				return false, fmt.Sprintf("message %d of %d to %d", seq, info.State.FirstSeq, info.State.LastSeq)
			}
		}
		return true, ""
	})
}

func sortedTables(m map[string]uint64) (out []string) {
	for t := range m {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// checkExport waits until an export is what SQL counts, table by table.
func checkExport(t *testing.T, c *cluster, tenant, session string) {
	t.Helper()
	eventually(t, 3*time.Minute, "the export", func() (bool, string) {
		got, order := exported(t, c, tenant, session)
		for _, name := range []string{"kernels", "kernel_stats", "scopes", "memcpys", "sessions", "dictionaries", "host_metrics",
			"device_metrics_1m", "pc_samples"} {
			want, err := c.tryRows("SELECT '', count() FROM `"+name+"` WHERE tenant = ? AND session_id = ?", tenant, session)
			if err != nil {
				return false, err.Error()
			}
			if n := want[""][0]; got[name] != n || n == 0 {
				return false, fmt.Sprintf("%s: %d rows exported, %d stored", name, got[name], n)
			}
		}
		return slices.IsSorted(order), fmt.Sprintf("tables come as %v", order)
	})
}

// exported counts the rows of an export by table, and names the tables as they come.
func exported(t *testing.T, c *cluster, tenant, session string) (got map[string]uint64, order []string) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"session", "export", tenant, session}, c.asking()...)...)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("session export: %v\n%s", err, words.String())
	}
	got = map[string]uint64{}
	for line := range bytes.Lines(out) {
		var row struct {
			Table string         `json:"table"`
			Row   map[string]any `json:"row"`
		}
		if err := json.Unmarshal(line, &row); err != nil || row.Row["tenant"] != tenant || row.Row["session_id"] != session {
			t.Fatalf("line %s: %v", line, err)
		}
		if got[row.Table]++; got[row.Table] == 1 {
			order = append(order, row.Table)
		}
		if row.Table == "kernels" {
			if _, ok := row.Row["duration_ns"].(string); !ok || !strings.HasPrefix(row.Row["started_at"].(string), "2026-") {
				t.Fatalf("a kernel: %s; want 64 bits as text, and time as text", line)
			}
		}
	}
	return got, order
}
