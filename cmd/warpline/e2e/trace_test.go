package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// deliver sends the trace until it is answered: as it is, as gzip, or as the form of GPU Flight's Python client.
func (tr *trace) deliver(t *testing.T, addr, key string, how int) {
	path, contentType, body := "/api/v1/traces", "application/json", tr.body
	switch how % 3 {
	case 1:
		contentType, body = "application/gzip", tr.packed
	case 2:
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, _ := w.CreateFormFile("trace", "trace.json.gz")
		part.Write(tr.packed)
		w.Close()
		path, contentType, body = "/api/v1/events/import/torch-profiler", w.FormDataContentType(), form.Bytes()
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPost, "http://"+addr+path+"?job=night&session="+tr.name, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", contentType)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				return
			case resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
				t.Errorf("%s: %d %s", tr.name, resp.StatusCode, text)
				return
			}
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: never answered: %v", tr.name, err)
			return
		}
	}
}

// checkTraces waits until SQL has exactly the rows of the traces of a tenant.
func (c *cluster) checkTraces(t *testing.T, tenant string, all []*trace) {
	t.Helper()
	want := map[string]map[string]uint64{}
	for _, tr := range all {
		tr.rows(t, want)
	}
	c.checkLines(t, tenant, traceRows, want)
	eventually(t, 3*time.Minute, "trace_stats of "+tenant, func() (bool, string) {
		off, err := c.tryRows("SELECT s.k, s.n, s.ns, r.n, r.ns FROM (SELECT session_id || category || name AS k, sum(calls) AS n, "+
			"sum(total_ns) AS ns FROM trace_stats WHERE tenant = $1 GROUP BY k) AS s FULL OUTER JOIN "+
			"(SELECT session_id || category || name AS k, count() AS n, sum(duration_ns) AS ns FROM trace_slices WHERE tenant = $1 AND "+
			"phase = 'X' GROUP BY k) AS r ON s.k = r.k WHERE s.n != r.n OR s.ns != r.ns", tenant)
		return err == nil && len(off) == 0, fmt.Sprint(off, err)
	})
	eventually(t, 3*time.Minute, "sessions of "+tenant, func() (bool, string) {
		sessions, err := c.tryRows("SELECT session_id || state || run_id, toUInt64(rank + 1), toUInt64(source = 'trace') FROM sessions "+
			"WHERE tenant = ?", tenant)
		if err != nil {
			return false, err.Error()
		}
		for _, tr := range all {
			if got := sessions["trace:"+tr.name+"completenight"]; fmt.Sprint(got) != fmt.Sprint([]uint64{uint64(tr.rank + 1), 1}) {
				return false, fmt.Sprintf("%s: session %v, want rank %d; there are %v", tr.name, got, tr.rank, sessions)
			}
		}
		return true, ""
	})
}

// checkLines waits until the columns of each table are, as lines, exactly what is wanted of a tenant.
func (c *cluster) checkLines(t *testing.T, tenant string, columnsOf map[string]string, want map[string]map[string]uint64) {
	t.Helper()
	for table, columns := range columnsOf {
		line := "session_id"
		for column := range strings.SplitSeq(columns, ", ") {
			line += " || '|' || toString(" + column + ")"
		}
		eventually(t, 3*time.Minute, table+" of "+tenant, func() (bool, string) {
			got, err := c.tryRows("SELECT "+line+" AS line, count() FROM "+table+" WHERE tenant = $1 GROUP BY line", tenant)
			if err != nil {
				return false, err.Error()
			}
			for line, n := range want[table] {
				if have := got[line]; len(have) != 1 || have[0] != n {
					return false, fmt.Sprintf("%.600s is there %v times, want %d; %s", line, have, n, like(got, line))
				}
			}
			return len(got) == len(want[table]), fmt.Sprintf("%d rows, want %d", len(got), len(want[table]))
		})
	}
}

// like is a line that begins as another does, for a message.
func like(got map[string][]uint64, line string) string {
	for n := len(line); n > 20; n -= 5 {
		for have := range got {
			if strings.HasPrefix(have, line[:n]) {
				return "there is " + have[:min(len(have), 600)]
			}
		}
	}
	return "there is none like it"
}

// Traces in any order and every form, each sent twice and to two gateways, while every role is killed: rows, rollups, arrows and books are
// exact. Then one is deleted and sent again, and another tenant's equal trace does not notice.
func TestTrace(t *testing.T) {
	c := newCluster(t, 1)
	addr2 := freeAddr(t)
	c.addGateway("gateway2", addr2, "")
	c.start("gateway2")
	c.waitReady("gateway2", 3*time.Minute)
	red, blue := c.makeKey("red"), c.makeKey("blue")
	all := traces(t)
	twice := slices.Concat(all, all, all)
	rand.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
	var senders sync.WaitGroup
	for part := range 3 {
		senders.Go(func() {
			for i := part; i < len(twice); i += 3 {
				twice[i].deliver(t, []string{c.gatewayAddr, addr2}[i%2], red, rand.IntN(3))
				time.Sleep(30 * time.Millisecond)
			}
		})
	}
	for _, victim := range []string{"gateway", "worker0", "sink", "gateway2", "worker0", "sink"} {
		time.Sleep(100 * time.Millisecond)
		c.kill(victim)
		c.start(victim)
	}
	senders.Wait()
	c.checkTraces(t, "red", all)
	c.checkViews(t, "red", all)
	elements := uint64(0)
	for _, tr := range all {
		elements += uint64(len(tr.elements))
		tr.deliver(t, c.gatewayAddr, blue, 1)
	}
	eventually(t, 3*time.Minute, "usage", func() (bool, string) {
		got, _ := c.tryRows("SELECT '', toUInt64(sum(events)), toUInt64(sum(rejected)), toUInt64(sum(duplicates)) FROM usage WHERE " +
			"tenant = 'red' AND source = 'trace'")
		b := got[""]
		return len(b) == 3 && b[0]-b[2] == elements && b[1] == 0, fmt.Sprintf("%v, want %d elements", b, elements)
	})

	t.Run("synthetic", func(t *testing.T) { c.syntheticTraces(t) })

	t.Run("export", func(t *testing.T) { c.exportTraces(t, "red", all) })

	t.Run("deletion", func(t *testing.T) {
		gone := all[0]
		out, err := exec.Command(binary, append([]string{"session", "delete", "red", "trace:" + gone.name, "--yes", "--wait", "150s"},
			c.reach()...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "trace_slices_data") {
			t.Fatalf("%v\n%s", err, out)
		}
		if left := c.stored("red", "trace:"+gone.name); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		c.checkTraces(t, "blue", all)
		gone.deliver(t, c.gatewayAddr, red, 0)
		c.checkTraces(t, "red", all)
	})

	out, err := exec.Command(binary, append([]string{"session", "export", "red", "trace:" + all[0].name}, c.asking()...)...).Output()
	for _, table := range []string{"trace_slices", "trace_flows", "trace_stats"} {
		if err != nil || !strings.Contains(string(out), `"table":"`+table+`"`) {
			t.Errorf("export without %s: %v\n%.2000s", table, err, out)
		}
	}
	c.auditClean(t)
}

// exportTraces wants of each session the trace that trace fix makes of the file it came from: as many slices, arrows and counter values in
// Perfetto's format, and in Chrome's JSON the same slices.
func (c *cluster) exportTraces(t *testing.T, tenant string, all []*trace) {
	dir := t.TempDir()
	run := func(args ...string) string {
		out, err := exec.Command(binary, append([]string{"trace"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("trace %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	counts := regexp.MustCompile(`: ([0-9,]+ slices, [0-9,]+ arrows, [0-9,]+ counter values)`)
	for i, tr := range all {
		file, fixed, exported := filepath.Join(dir, fmt.Sprint(i, ".json.gz")), filepath.Join(dir, "fixed"), filepath.Join(dir, "exported")
		if err := os.WriteFile(file, tr.packed, 0o600); err != nil {
			t.Fatal(err)
		}
		session := append([]string{"export", "--session", "trace:" + tr.name, "--tenant", tenant}, c.asking()...)
		said := run("fix", file, "-o", fixed+".pftrace")
		want := counts.FindStringSubmatch(said)
		eventually(t, 3*time.Minute, "the export of "+tr.name, func() (bool, string) { // counters may come behind what was waited for
			said := run(append(session, "-o", exported+".pftrace")...)
			got := counts.FindStringSubmatch(said)
			return want != nil && got != nil && got[1] == want[1], fmt.Sprintf("exported %v, and fix makes %v of the file:\n%s", got, want, said)
		})
		run("fix", file, "-o", fixed+".json")
		run(append(session, "-o", exported+".json")...)
		if a, b := slicesIn(t, fixed+".json"), slicesIn(t, exported+".json"); !slices.Equal(a, b) {
			t.Errorf("%s: %d slices are exported, and fix leaves %d of the file, or they differ", tr.name, len(b), len(a))
			for j := range min(len(a), len(b)) {
				if a[j] != b[j] {
					t.Logf("of the file %.500s\nexported    %.500s", a[j], b[j])
					break
				}
			}
		}
	}
}

// slicesIn are the slices of a trace, in one order, each with its time in nanoseconds.
func slicesIn(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Base   json.Number `json:"baseTimeNanoseconds"`
		Events []struct {
			Name, Cat string
			PH        string      `json:"ph"`
			TS        json.Number `json:"ts"`
			Dur       json.Number `json:"dur"`
			Args      any         `json:"args"`
		} `json:"traceEvents"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		t.Fatal(err)
	}
	base, _ := new(big.Rat).SetString(cmp.Or(whole.Base.String(), "0"))
	ns := func(us json.Number) *big.Rat {
		n, _ := new(big.Rat).SetString(cmp.Or(us.String(), "0"))
		return n.Mul(n, big.NewRat(1000, 1))
	}
	for _, e := range whole.Events {
		if e.PH == "X" {
			args, _ := json.Marshal(e.Args)
			if string(args) == "{}" { // SQL has none for both
				args = []byte("null")
			}
			at := ns(e.TS)
			all = append(all, fmt.Sprint(at.Add(at, base).RatString(), " ", ns(e.Dur).RatString(), " ", e.Name, " ", e.Cat, " ", string(args)))
		}
	}
	slices.Sort(all)
	return all
}
