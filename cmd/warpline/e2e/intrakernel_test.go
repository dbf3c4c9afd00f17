package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/intrakernel"
)

// launch is the capture of one launch, and what is to be in SQL of it.
type launch struct {
	name, contentType, query string
	body                     []byte
	trace                    string // the peer's trace of it, "" without
	records                  uint64
	want                     []uint64 // slices, their ns, marks, survivors, lost, begins and ends without partner
}

// launches are the vectors as they are sent: the buffers of each.
func launches(t *testing.T) (all []launch) {
	found, err := filepath.Glob("../../../testdata/intrakernel/*/counters.bin")
	if err != nil || len(found) < 40 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		l := launch{name: filepath.Base(dir)}
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		files := map[string][]byte{}
		for _, name := range []string{"counters.bin", "events.bin", "input.json"} { // the order of fields does not matter
			files[name] = maybePacked(t, filepath.Join(dir, name))
			part, _ := form.CreateFormFile(strings.TrimSuffix(strings.TrimSuffix(name, ".bin"), ".json"), name)
			part.Write(files[name])
		}
		form.Close()
		l.contentType, l.body, l.query = form.FormDataContentType(), body.Bytes(), "session="+l.name
		h, err := intrakernel.ParseHeader(files["input.json"])
		if err != nil {
			t.Fatal(err)
		}
		// A trace has names as they can be printed, and times as floats.
		exact := !strings.HasPrefix(l.name, "names_") && !strings.HasPrefix(l.name, "ts_")
		if exact && h.Options.CompleteEvents && h.Options.Scale == 1 && len(h.Filter) == 0 {
			if trace, err := os.ReadFile(filepath.Join(dir, "out", h.Path)); err == nil {
				l.trace = string(trace)
			}
		}
		h.Options.CompleteEvents = true
		c, err := intrakernel.Collect(bytes.NewReader(files["events.bin"]), bytes.NewReader(files["counters.bin"]), h)
		if err != nil {
			t.Fatal(err)
		}
		lost := c.Recorded - c.Survived
		line, err := c.Timeline(h)
		if err != nil {
			t.Fatal(err)
		}
		l.records = uint64(line.Survivors)
		l.want = []uint64{0, 0, 0, l.records, lost, line.UnmatchedBegin, line.UnmatchedEnd}
		for _, e := range line.Events {
			if e.Instant {
				l.want[2]++
				continue
			}
			l.want[0]++
			l.want[1] += min(e.Dur, 1<<48)
		}
		all = append(all, l)
	}
	return append(all, protonLaunch(t))
}

// protonLaunch is a trace of Triton's Proton, of two kernels.
func protonLaunch(t *testing.T) launch {
	text, err := os.ReadFile("../../../testdata/proton/two_kernels.chrome_trace")
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Cat string
			Dur float64
		}
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatal(err)
	}
	n, ns := uint64(0), uint64(0)
	for _, e := range trace.TraceEvents {
		if e.Cat != "call_path" {
			n, ns = n+1, ns+uint64(math.Round(e.Dur*1000))
		}
	}
	return launch{name: "proton", contentType: "application/json", query: "session=proton", body: text,
		records: uint64(len(trace.TraceEvents)), want: []uint64{n, ns, 0, n, 0, 0, 0}}
}

// maybePacked reads a file that may be there as gzip alone.
func maybePacked(t *testing.T, path string) []byte {
	t.Helper()
	if b, err := os.ReadFile(path); err == nil {
		return b
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// deliver sends a capture until it is answered.
func (l *launch) deliver(t *testing.T, addr, key string) {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/api/v1/intrakernel?"+l.query, bytes.NewReader(l.body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", l.contentType)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				return
			case resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
				t.Errorf("%s: %d %s", l.name, resp.StatusCode, text)
				return
			}
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: never answered: %v", l.name, err)
			return
		}
	}
}

// checkLaunches waits until SQL says of every capture of a tenant what was sent.
func (c *cluster) checkLaunches(t *testing.T, tenant string, all []launch) {
	t.Helper()
	want := map[string]string{}
	for _, l := range all {
		want["ikp:"+l.name] = fmt.Sprint(l.want)
	}
	eventually(t, 3*time.Minute, "the captures of "+tenant, func() (bool, string) {
		got, err := c.tryRows(`SELECT c.session_id AS session, toUInt64(r.n), toUInt64(t.ns), toUInt64(m.n), toUInt64(c.survived),
    toUInt64(c.lost), toUInt64(c.unmatched_begin), toUInt64(c.unmatched_end)
FROM region_captures AS c
LEFT JOIN (SELECT session_id, count() AS n FROM regions WHERE tenant = $1 GROUP BY session_id) AS r ON c.session_id = r.session_id
LEFT JOIN (SELECT session_id, sum(total_ns) AS ns FROM region_trends WHERE tenant = $1 GROUP BY session_id) AS t
    ON c.session_id = t.session_id
LEFT JOIN (SELECT session_id, count() AS n FROM region_marks WHERE tenant = $1 GROUP BY session_id) AS m ON c.session_id = m.session_id
WHERE c.tenant = $1`, tenant)
		if err != nil {
			return false, err.Error()
		}
		for session, w := range want {
			if fmt.Sprint(got[session]) != w {
				return false, fmt.Sprintf("%s has %v, want %s", session, got[session], w)
			}
		}
		return len(got) == len(want), fmt.Sprintf("%d captures, want %d", len(got), len(want))
	})
}

// Captures in any order, each sent twice and to two gateways, while every role is killed: rows, rollups and books are exact. Then one is
// deleted and sent again, and another tenant's equal capture does not notice.
func TestIntraKernel(t *testing.T) {
	c := newCluster(t, 1)
	addr2 := freeAddr(t)
	c.addGateway("gateway2", addr2, "")
	c.start("gateway2")
	c.waitReady("gateway2", 3*time.Minute)
	red, blue := c.makeKey("red"), c.makeKey("blue")
	all := launches(t)
	twice := append(append([]launch{}, all...), all...)
	rand.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
	var senders sync.WaitGroup
	for part := range 3 {
		senders.Go(func() {
			for i := part; i < len(twice); i += 3 {
				twice[i].deliver(t, []string{c.gatewayAddr, addr2}[i%2], red)
				time.Sleep(30 * time.Millisecond)
			}
		})
	}
	for _, victim := range []string{"gateway", "worker0", "sink", "gateway2", "worker0", "sink"} {
		time.Sleep(150 * time.Millisecond)
		c.kill(victim)
		c.start(victim)
	}
	senders.Wait()
	c.checkLaunches(t, "red", all)
	records, traces := uint64(0), []launch(nil)
	for _, l := range all {
		records += l.records
		l.deliver(t, c.gatewayAddr, blue)
		if l.trace != "" {
			traces = append(traces, launch{name: l.name, contentType: "application/json", query: "session=" + l.name, body: []byte(l.trace)})
		}
	}
	c.checkLaunches(t, "blue", all)
	eventually(t, 3*time.Minute, "usage", func() (bool, string) {
		got, _ := c.tryRows("SELECT '', toUInt64(sum(events)), toUInt64(sum(rejected)), toUInt64(sum(duplicates)) FROM usage WHERE " +
			"tenant = 'red' AND source = 'intra-kernel'")
		b := got[""]
		return len(b) == 3 && b[0]-b[2] == records && b[1] == 0, fmt.Sprintf("%v, want %d records", b, records)
	})

	t.Run("the peer's traces say the same", func(t *testing.T) {
		key := c.makeKey("traces")
		for _, l := range traces {
			l.deliver(t, c.gatewayAddr, key)
		}
		const ask = "SELECT session_id || ' ' || name || ' ' || toString(count), toUInt64(total_ns), toUInt64(min_ns), toUInt64(max_ns), " +
			"toUInt64(p50_ns), toUInt64(p99_ns) FROM region_trends WHERE tenant = ? AND session_id IN (SELECT session_id FROM region_captures " +
			"WHERE tenant = 'traces')"
		eventually(t, 3*time.Minute, "the traces", func() (bool, string) {
			have, want := c.rows(ask, "traces"), c.rows(ask, "red")
			return len(traces) > 15 && len(want) > 15 && fmt.Sprint(have) == fmt.Sprint(want), fmt.Sprintf("%v, want %v", have, want)
		})
	})

	t.Run("deletion", func(t *testing.T) {
		const gone = "gemm_like"
		out, err := exec.Command(binary, append([]string{"session", "delete", "red", "ikp:" + gone, "--yes", "--wait", "150s"}, c.reach()...)...).
			CombinedOutput()
		if err != nil || !strings.Contains(string(out), "regions_data") {
			t.Fatalf("%v\n%s", err, out)
		}
		if left := c.stored("red", "ikp:"+gone); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		c.checkLaunches(t, "blue", all)
		for _, l := range all {
			if l.name == gone {
				l.deliver(t, c.gatewayAddr, red)
			}
		}
		c.checkLaunches(t, "red", all)
	})

	// Percentiles of rollups are within 1 % of nearest rank over the slices, or half a ns.
	t.Run("percentiles", func(t *testing.T) {
		off := func(column, share string) string {
			return fmt.Sprintf("toUInt64(countIf(abs(toFloat64(t.%s) - toFloat64(s.sorted[toUInt64(ceil(%s * s.n))] AS exact_%[1]s)) > "+
				"0.01 * exact_%[1]s + 0.5))", column, share)
		}
		got := c.rows("SELECT '', count(), "+off("p50_ns", "0.5")+", "+off("p90_ns", "0.9")+", "+off("p99_ns", "0.99")+
			" FROM region_trends AS t INNER JOIN (SELECT session_id, region, arraySort(groupArray(duration_ns)) AS sorted, count() AS n "+
			"FROM regions WHERE tenant = $1 "+
			"GROUP BY session_id, region) AS s ON t.session_id = s.session_id AND t.region = s.region WHERE t.tenant = $1", "red")[""]
		if len(got) != 4 || got[0] < 70 || got[1]+got[2]+got[3] != 0 {
			t.Errorf("of %v regions so many are off", got)
		}
	})

	t.Run("send", func(t *testing.T) {
		const trace = 12388 // elements of the sample's list
		key, dir := c.makeKey("files"), "../../../testdata/intrakernel"
		if s := c.send(t, key, dir, "../../../testdata/proton"); s.code != 0 || s.Stored == nil || *s.Stored != int64(records)+trace ||
			s.Rejected != 0 {
			t.Errorf("all files: %v, want %d stored\n%s", s, records+trace, s.stderr)
		}
		if s := c.send(t, key, dir+"/marks/events.bin.gz", dir+"/samples"); s.code != 0 || s.Stored == nil || *s.Stored != 0 ||
			*s.Duplicates != 7+trace {
			t.Errorf("some of them again: %v\n%s", s, s.stderr)
		}
	})

	t.Run("Proton", func(t *testing.T) {
		got := c.rows("SELECT kernel || ' ' || name, toUInt64(count), toUInt64(total_ns), toUInt64(max_ns) FROM region_trends WHERE "+
			"tenant = ? AND session_id = 'ikp:proton'", "red")
		want := map[string][]uint64{"matmul kernel load": {12, 3190, 501}, "matmul kernel compute": {6, 5400, 900},
			"add_kernel load":    {2, 131, 131},
			"add_kernel scope_1": {1, 400, 400}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
		blocks := c.rows("SELECT toString(block), count(), toUInt64(any(sm)) FROM regions WHERE tenant = ? AND session_id = 'ikp:proton' AND "+
			"kernel = 'matmul kernel' GROUP BY block", "red")
		if fmt.Sprint(blocks) != "map[0:[6 3] 1:[6 17] 70000:[6 131]]" {
			t.Error(blocks)
		}
		out, err := exec.Command(binary, append([]string{"report", "regions", "--tenant", "red", "--kernel", "add_kernel"}, c.asking()...)...).
			CombinedOutput()
		if err != nil || !strings.Contains(string(out), "scope_1") || !strings.Contains(string(out), "count cycles") {
			t.Errorf("%v\n%s", err, out)
		}
	})

	t.Run("report", func(t *testing.T) {
		out, err := exec.Command(binary, append([]string{"report", "regions", "--tenant", "red", "--session", "ring_overflow_odd", "--against",
			"gemm_like"}, c.asking()...)...).CombinedOutput()
		for _, want := range []string{"overwrote 11 of 15 records", "per_warp_cap 8 in place of 4", "What changed", "The latest warps"} {
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("report without %q: %v\n%s", want, err, out)
			}
		}
		out, err = exec.Command(binary, append([]string{"report", "regions", "--json", "--tenant", "red", "--session", "gemm_like"},
			c.asking()...)...).Output()
		var r struct {
			Regions []struct {
				Name    string
				Count   uint64
				TotalNS uint64 `json:"total_ns"`
				Blocks  []float64
			}
		}
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		slices, ns := uint64(0), uint64(0)
		for _, x := range r.Regions {
			slices, ns = slices+x.Count, ns+x.TotalNS
			if len(x.Blocks) != 8 {
				t.Errorf("%s: %d blocks, the launch has 8", x.Name, len(x.Blocks))
			}
		}
		if err != nil || slices != 640 || ns != 518079 {
			t.Errorf("%d slices of %d ns, want 640 of 518079: %v\n%s", slices, ns, err, out)
		}
		out, err = exec.Command(binary, append([]string{"report", "regions", "--session", "nobody"}, c.asking()...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no captures of session") {
			t.Errorf("a session that is not there: %v\n%s", err, out)
		}
	})

	out, err := exec.Command(binary, append([]string{"session", "export", "red", "ikp:marks"}, c.asking()...)...).Output()
	for _, table := range []string{"regions", "region_marks", "region_captures", "region_trends", "region_stats"} {
		if err != nil || !strings.Contains(string(out), `"table":"`+table+`"`) {
			t.Errorf("export without %s: %v\n%.2000s", table, err, out)
		}
	}
	c.auditClean(t)
}
