package e2e_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

var away = flag.Duration("away", 6*time.Second, "how long TestClickHouseAway keeps ClickHouse away")

// ClickHouse goes away while a load runs: the gateway goes on accepting, and everything is there once after it is back.
func TestClickHouseAway(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	l := startLoad(ctx, t, c, *loadPause)
	agents := startParcaLoad(ctx, t, c, "agents")
	time.Sleep(time.Second)
	c.kill("engine")
	before := l.posted.Load()
	time.Sleep(*away)
	eventually(t, 3*time.Minute, "the gateway accepts while ClickHouse is away", func() (bool, string) { return l.posted.Load() > before, "" })
	c.start("engine")
	c.waitReady("engine", 3*time.Minute)
	time.Sleep(500 * time.Millisecond)
	agents.stop()
	check(t, c, "dev", l.stop(), 3*time.Minute)
	agents.check(t, c)
}

// The streams are full because nobody folds, then because nobody inserts: the gateway answers what the agent retries on, nothing is
// lost, and all goes on by itself.
func TestStorageFull(t *testing.T) {
	for _, idle := range []string{"worker0", "sink"} {
		t.Run(idle+" is away", func(t *testing.T) {
			c := newCluster(t, 1, "--ingest-max", "1MiB", "--rows-max", "16MiB", "--partitions", "2")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			probeKey := c.makeKey("probe") // its lines are rejects, which dev must not have
			c.kill(idle)
			l := startLoad(ctx, t, c, 50*time.Millisecond) // which fills a stream
			agents := startParcaLoad(ctx, t, c, "agents")
			probe := &window{session: "11111111-0000-4000-8000-000000000000", channel: "device", id: "probe", sequence: 1, gz: zip([]byte(""))}
			var status int
			var body string
			var header http.Header
			refused := false
			for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline) && !refused; {
				probe.id = fmt.Sprint("probe-", time.Now().UnixNano())
				probe.gz = zip([]byte(fmt.Sprintf(`{"type":"nobody_knows","session_id":"%s","n":"%s"}`+"\n", probe.session, probe.id)))
				status, body, header = probe.post(ctx, c.gatewayAddr, probeKey, true)
				refused = status == 503 || status == 429
				time.Sleep(20 * time.Millisecond)
			}
			if !refused {
				t.Fatalf("the gateway never refused; last answer %d %s", status, body)
			}
			if header.Get("Retry-After") == "" {
				t.Errorf("%d without Retry-After", status)
			}
			if strings.Contains(header.Get("Content-Type"), "problem+json") == false || !strings.Contains(body, "nothing is lost") {
				t.Errorf("answer is no problem document that says what happens to the data: %s %s", header.Get("Content-Type"), body)
			}
			c.start(idle)
			time.Sleep(time.Second)
			agents.stop()
			want := l.stop()
			check(t, c, "dev", want, 3*time.Minute)
			agents.check(t, c)
		})
	}
}

// An owner that dies without a word is replaced within seconds.
func TestLeaseOfTheDeadIsTaken(t *testing.T) {
	c := newCluster(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	l := startLoad(ctx, t, c, *loadPause)
	time.Sleep(time.Second)
	c.kill("worker0") // and it stays dead
	began := time.Now()
	want := l.stop()
	check(t, c, "dev", want, 3*time.Minute)
	t.Logf("everything was in SQL %v after the kill", time.Since(began).Round(100*time.Millisecond))
}

// No key, a wrong key, a revoked key: refused. The same session id under two tenants: kept apart.
func TestKeys(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w := &window{session: "22222222-0000-4000-8000-000000000000", channel: "device", id: "w1", sequence: 1}
	rows := func(n int) []byte {
		return zip([]byte(`{"version":1,"type":"kernel_event_batch","session_id":"` + w.session + `","batch_id":1,` +
			`"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs",` +
			`"has_details"],"rows":[[0,1,7,` + fmt.Sprint(n) + `,1,0,32,0]]}` + "\n"))
	}
	w.gz = rows(1)
	for name, key := range map[string]string{"no key": "", "a wrong key": "gpfl_wrong", "half a key": devKey[:5]} {
		if status, body, header := w.post(ctx, c.gatewayAddr, key, true); status != 401 || header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s, want 401 with WWW-Authenticate", name, status, body)
		}
	}
	red, blue := c.makeKey("red"), c.makeKey("blue")
	if err := w.deliver(ctx, c.gatewayAddr, red, true); err != nil {
		t.Fatal(err)
	}
	w.gz = rows(1000) // another tenant, the same session and window id, other bytes: no conflict
	if err := w.deliver(ctx, c.gatewayAddr, blue, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "both tenants' rows", func() (bool, string) {
		got, err := c.tryRows("SELECT tenant, count(), sum(duration_ns) FROM kernels GROUP BY tenant")
		ok := err == nil && len(got["red"]) == 2 && len(got["blue"]) == 2 && got["red"][1] == 1 && got["blue"][1] == 1000
		return ok, fmt.Sprint(got, err)
	})
	w.gz = rows(1)
	if status, body, _ := w.post(ctx, c.gatewayAddr, red, true); status != 200 {
		t.Errorf("the same window again: %d %s", status, body)
	}
	w.gz = rows(3)
	if status, body, _ := w.post(ctx, c.gatewayAddr, red, true); status != 409 || !strings.Contains(body, "window_identity_conflict") {
		t.Errorf("the same window id with other bytes: %d %s, want 409 window_identity_conflict", status, body)
	}
	if out, err := exec.Command(binary, "window", "accept", "--help").CombinedOutput(); err != nil {
		t.Errorf("the command that settles a conflict: %v %s", err, out)
	}
	if out, err := exec.Command(binary, "key", "revoke", red, "--nats", "nats://"+c.natsAddr).CombinedOutput(); err != nil {
		t.Fatalf("revoke: %v %s", err, out)
	}
	eventually(t, 3*time.Minute, "the revoked key is refused", func() (bool, string) {
		status, body, _ := w.post(ctx, c.gatewayAddr, red, true)
		return status == 401, fmt.Sprint(status, body)
	})
	w.gz = rows(1000)
	if status, _, _ := w.post(ctx, c.gatewayAddr, blue, true); status != 200 {
		t.Error("revoking one key hurt another")
	}
}

// The gateway dies in the middle of publishing a window, and the agent sends the window again only after JetStream has forgotten the
// parts that went out: every event is counted once.
func TestHalfPublishedWindow(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	const lines, perLine = 12000, 50
	w := &window{channel: "device", id: "half", sequence: 1}
	fresh := func(number int) { // a window of a session of its own
		w.session = fmt.Sprintf("33333333-0000-4000-8000-%012d", number)
		w.gz = zip(halfWindow(w.session, lines, perLine))
	}
	fresh(0)
	half, least, most := 0, time.Duration(0), time.Duration(0) // too early, too late
	for try := range 30 {                                      // until a kill hits the middle
		wait := time.Duration(30+15*try) * time.Millisecond
		if most > 0 {
			wait = (least + most) / 2
		}
		go w.post(ctx, c.gatewayAddr, devKey, true)
		time.Sleep(wait)
		c.kill("gateway")
		c.start("gateway")
		c.waitReady("gateway", 3*time.Minute)
		time.Sleep(1200 * time.Millisecond) // past the duplicate window
		c.settled(t)
		half = int(c.one("SELECT count() FROM kernels WHERE session_id = '" + w.session + "'"))
		if half > 0 && half < lines*perLine {
			break
		}
		if half == 0 {
			least = wait
			continue
		}
		most = wait
		fresh(try + 1)
	}
	if half == 0 || half == lines*perLine {
		t.Fatalf("no kill hit the middle: %d of %d rows", half, lines*perLine)
	}
	t.Logf("%d of %d rows were out when the gateway died", half, lines*perLine)
	if err := w.deliver(ctx, c.gatewayAddr, devKey, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "every row once", func() (bool, string) {
		got, err := c.tryRows("SELECT '', count(), uniqExact(corr_id), (SELECT toUInt64(sum(calls)) FROM kernel_stats WHERE session_id = $1) "+
			"FROM kernels WHERE session_id = $1", w.session)
		ok := err == nil && len(got[""]) == 3 && got[""][0] == lines*perLine && got[""][1] == lines*perLine && got[""][2] == lines*perLine
		return ok, fmt.Sprint(got, err)
	})
}

// halfWindow is the text of a window of so many lines.
func halfWindow(session string, lines, perLine int) []byte {
	var raw bytes.Buffer
	for n := range lines {
		fmt.Fprintf(&raw, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, session, n+1,
			1795175929972803352+n*1e6)
		for i := range perLine {
			if i > 0 {
				raw.WriteByte(',')
			}
			fmt.Fprintf(&raw, "[%d,1,7,%d,%d,0,32,0]", i*100, 1000+i, n*perLine+i+1)
		}
		raw.WriteString("]}\n")
	}
	return raw.Bytes()
}
