package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/sink/engine"
)

// killer runs commands of a cluster, and kills them amid their work.
type killer struct {
	c     *cluster
	words chan *nats.Msg // that somebody begins to change something, or has
	rng   *rand.Rand
	to    []string // flags that lead to the cluster
	runs  map[string]int
	whole map[string]int           // runs that came to their end
	took  map[string]time.Duration // from the word that one begins to its end
}

func newKiller(c *cluster) *killer {
	c.t.Helper()
	nc, _, err := broker.Connect(context.Background(), broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	k := &killer{c: c, words: make(chan *nats.Msg, 1000), rng: rand.New(rand.NewPCG(14, 8)), runs: map[string]int{}, whole: map[string]int{},
		took: map[string]time.Duration{}}
	if _, err := nc.ChanSubscribe("ingest.*._.admin", k.words); err != nil {
		c.t.Fatal(err)
	}
	k.to = []string{"--nats", "nats://" + c.natsAddr, "--clickhouse", c.clickTCP, "--clickhouse-http", c.clickHTTP, "--clickhouse-user",
		engine.Writer, "--clickhouse-password", c.secret(engine.WriterSecret)}
	return k
}

// kill runs a command, named as admin_log has it, and kills it at any moment of what it took before, at first up to so long, after it said
// that it begins.
func (k *killer) kill(within time.Duration, name string, args ...string) {
	k.c.t.Helper()
	for len(k.words) > 0 {
		<-k.words
	}
	k.runs[name]++
	cmd := exec.Command(binary, append(args, k.to...)...)
	if err := cmd.Start(); err != nil {
		k.c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if took := k.took[name]; took > 0 {
		within = took
	}
	select {
	case <-k.words:
		began := time.Now()
		select {
		case err := <-ended:
			k.took[name] = time.Since(began)
			ended <- err
		case <-time.After(time.Duration(k.rng.Int64N(int64(within)))):
		}
	case err := <-ended:
		ended <- err
	case <-time.After(2 * time.Minute):
		k.c.t.Errorf("%v did not begin", args)
	}
	_ = cmd.Process.Kill()
	if err := <-ended; err == nil {
		k.whole[name]++
	}
}

// run runs a command to its end.
func (k *killer) run(name string, args ...string) (out string, code int) {
	k.c.t.Helper()
	k.runs[name]++
	cmd := exec.Command(binary, append(args, k.to...)...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	if err == nil {
		k.whole[name]++
	} else if cmd.ProcessState == nil {
		k.c.t.Fatal(err)
	}
	return both.String(), cmd.ProcessState.ExitCode()
}

// want runs a command, which must end well.
func (k *killer) want(name string, args ...string) {
	k.c.t.Helper()
	if out, code := k.run(name, args...); code != 0 {
		k.c.t.Fatalf("%v ended with %d:\n%s", args, code, out)
	}
}

// audit runs an audit until it finds nothing: one may look while something is on its way.
func (k *killer) audit(args ...string) {
	k.c.t.Helper()
	eventually(k.c.t, 3*time.Minute, "audit", func() (bool, string) {
		out, code := k.run("audit", append([]string{"audit"}, args...)...)
		return code == 0, out
	})
}

// repairKills is how often each command is killed.
const repairKills = 6

// Commands that send rejects again, bring rows back and drop rejects are killed with kill -9 amid their work and run again: nothing is lost
// or there twice, the books balance, and admin_log says of none that it is done which was not.
func TestKilledRepairs(t *testing.T) {
	c := newCluster(t, 1)
	k := newKiller(c)
	key := c.makeKey("red")
	natsOnly := []string{"--nats", "nats://" + c.natsAddr}
	tenant := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(binary, append(append([]string{"tenant"}, args...), natsOnly...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	sees := func(what, sql string, want uint64) {
		t.Helper()
		eventually(t, 3*time.Minute, what, func() (bool, string) {
			got := c.one(sql)
			return got == want, fmt.Sprintf("%s is %d, want %d", sql, got, want)
		})
	}
	const rejected = "SELECT sum(rejected) FROM warpline.usage WHERE tenant = 'red'"

	// Lines that were too long are sent again, once they are not.
	tenant("create", "red", "--limit-line", "1KiB")
	eventually(t, 3*time.Minute, "the limit holds", func() (bool, string) {
		out, _ := exec.Command(binary, "send", "--url", "http://"+c.gatewayAddr, "--key", key, "../../../testdata/gpuflight/trace_default").
			CombinedOutput()
		return bytes.Contains(out, []byte("too_long")) || bytes.Contains(out, []byte("rejected")), string(out)
	})
	eventually(t, 3*time.Minute, "lines are refused", func() (bool, string) {
		n := c.one(rejected)
		return n > 400, fmt.Sprint(n)
	})
	tenant("set", "red", "--limit-line", "0")
	again := []string{"reject", "replay", "--tenant", "red", "--limit", "1000", "--url", "http://" + c.gatewayAddr}
	for range repairKills {
		k.kill(300*time.Millisecond, "reject replay", again...)
	}
	const notTaken = "SELECT uniqExactIf(reject_id, replayed_at < '2020-01-01') FROM warpline.rejects WHERE tenant = 'red'"
	eventually(t, 4*time.Minute, "rejects are taken", func() (bool, string) {
		out, _ := k.run("reject replay", again...)
		return c.one(notTaken) == 0, out
	})
	sees("kernels", "SELECT count() FROM warpline.kernels WHERE tenant = 'red'", 300)
	sees("kernels, each once", "SELECT uniqExact(session_id, corr_id, started_at) FROM warpline.kernels WHERE tenant = 'red'", 300)
	sees("kernels of sessions", "SELECT sum(kernels) FROM warpline.sessions WHERE tenant = 'red'", 300)
	k.audit("--deep")

	// Rows that somebody deleted come back.
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{c.clickTCP},
		Auth: clickhouse.Auth{Database: "warpline", Username: engine.Writer, Password: c.secret(engine.WriterSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lose := func(sql string) {
		t.Helper()
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	sums := c.one("SELECT sum(total_ns) FROM warpline.kernel_stats")
	for i := range repairKills {
		lose(fmt.Sprintf("ALTER TABLE kernels_data DELETE WHERE corr_id %% %d = 0 SETTINGS mutations_sync = 2", i+2))
		lose("TRUNCATE TABLE kernel_stats_data")
		lose("TRUNCATE TABLE memcpys_data")
		k.kill(time.Second, "replay", "replay", "--tenant", "red")
	}
	k.want("replay", "replay", "--tenant", "red")
	sees("kernels", "SELECT count() FROM warpline.kernels WHERE tenant = 'red'", 300)
	sees("rollups, as before", "SELECT sum(total_ns) FROM warpline.kernel_stats", sums)
	k.audit("--deep")
	refused := c.one(rejected)

	// Rejects are dropped; what they count for stays, and they do not come back.
	const rejects = "SELECT count() FROM warpline.rejects WHERE tenant = 'red'"
	bad := uint64(0)
	refuse := func(i int) {
		t.Helper()
		var body strings.Builder
		for j := range 20 {
			fmt.Fprintf(&body, "nonsense %d %d\n", i, j)
		}
		bad += 20
		eventually(t, 3*time.Minute, "lines are taken", func() (bool, string) {
			req, err := http.NewRequest(http.MethodPost, "http://"+c.gatewayAddr+"/api/v1/events/stream", strings.NewReader(body.String()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			return res.StatusCode == http.StatusOK, res.Status
		})
		eventually(t, 3*time.Minute, "lines are refused", func() (bool, string) {
			n := c.one(rejected)
			return n >= refused+bad, fmt.Sprint(n)
		})
	}
	for i := range repairKills {
		refuse(i)
		k.kill(100*time.Millisecond, "reject drop", "reject", "drop", "--yes", "--tenant", "red")
	}
	counted := c.one(rejected)
	k.want("reject drop", "reject", "drop", "--yes", "--tenant", "red") // the same again finishes what was killed
	if out, code := k.run("reject drop --resume", "reject", "drop", "--resume"); code != 0 || !strings.Contains(out, "no drop was cut short") {
		t.Errorf("the drop was not finished: %d %s", code, out)
	}
	sees("rejects", rejects, 0)
	k.audit("--deep")
	refuse(repairKills)
	counted += 20
	k.want("reject drop", "reject", "drop", "--yes", "--tenant", "red")
	sees("rejects", rejects, 0)
	k.audit("--deep")
	k.want("replay", "replay")
	sees("rejects after a replay", rejects, 0)
	sees("usage counts what was refused as before the drop", rejected, counted)
	k.audit()

	// A gateway that drops for an administrator is killed: the next that drops finishes it, of a gateway too.
	desk := freeAddr(t)
	c.addGateway("gateway2", freeAddr(t), "")
	c.roles["gateway2"].args = append(c.roles["gateway2"].args, append([]string{"--admin-listen", desk}, k.to[2:]...)...)
	operator, err := exec.Command(binary, append([]string{"key", "create", "--operator"}, natsOnly...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	drop := func() (int, error) {
		req, err := http.NewRequest(http.MethodPost, "http://"+desk+"/api/v1/admin/rejects/drop", strings.NewReader(`{"tenant":"red"}`))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(operator)))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	for i := range repairKills / 2 {
		refuse(repairKills + 1 + i)
		c.start("gateway2")
		c.waitReady("gateway2", 3*time.Minute)
		for len(k.words) > 0 {
			<-k.words
		}
		// Who was killed before holds its turn for some seconds.
		eventually(t, 3*time.Minute, "a gateway begins to drop", func() (bool, string) {
			answered := make(chan string, 1)
			go func() {
				status, err := drop()
				answered <- fmt.Sprint(status, err)
			}()
			select {
			case <-k.words:
				time.Sleep(time.Duration(k.rng.Int64N(int64(100 * time.Millisecond))))
				return true, ""
			case said := <-answered:
				return strings.HasPrefix(said, "200"), said
			}
		})
		c.kill("gateway2")
	}
	c.start("gateway2")
	c.waitReady("gateway2", 3*time.Minute)
	eventually(t, 3*time.Minute, "a gateway drops", func() (bool, string) {
		status, err := drop()
		return status == http.StatusOK, fmt.Sprint(status, err)
	})
	sees("rejects", rejects, 0)
	k.audit("--deep")

	var log map[string][]uint64
	actions := []string{"replay", "reject drop", "reject replay"}
	eventually(t, 3*time.Minute, "admin_log", func() (bool, string) {
		var err error
		log, err = c.tryRows("SELECT toString(action), toUInt64(count()), toUInt64(countIf(outcome = 'done')) FROM warpline.admin_log WHERE " +
			"action IN ('replay', 'reject drop', 'reject replay') GROUP BY action")
		for _, action := range actions {
			n := log[action]
			if len(n) == 0 || int(n[0]) > k.runs[action]+repairKills || n[1] == 0 || n[1] > n[0] {
				return false, fmt.Sprintf("%s: %d runs, %d of them to their end, and in the log %v rows, of them done", action, k.runs[action],
					k.whole[action], n)
			}
		}
		return err == nil, fmt.Sprint(err)
	})
	killed := 0
	for _, action := range actions {
		killed += k.runs[action] - k.whole[action]
	}
	if killed < repairKills/2 {
		t.Errorf("only %d runs were killed amid their work", killed)
	}
	t.Logf("runs %v, of them to their end %v; in the log %v", k.runs, k.whole, log)
}
