package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sent is what `warpline send --json` printed, and how it ended.
type sent struct {
	code   int
	stderr string

	Verdict    string
	Events     int64
	Stored     *int64
	Rejected   int64
	Duplicates *int64
	Reasons    []struct {
		Reason string
		Events int64
	}
	Refused []struct {
		Path, Reason string
		Status       int
	}
	ExitCode int `json:"exit_code"`
	Windows  int64
	Files    int64
}

func (s sent) String() string {
	n := func(p *int64) string {
		if p == nil {
			return "null"
		}
		return fmt.Sprint(*p)
	}
	return fmt.Sprintf("exit %d, %s: %d events, %s stored, %d rejected %v, %s duplicates, refused whole %v", s.code, s.Verdict, s.Events,
		n(s.Stored), s.Rejected, s.Reasons, n(s.Duplicates), s.Refused)
}

// reason is how many events the document counts under a reason.
func (s sent) reason(name string) int64 {
	for _, r := range s.Reasons {
		if r.Reason == name {
			return r.Events
		}
	}
	return 0
}

// send runs `warpline send --json` against the cluster.
func (c *cluster) send(t *testing.T, key string, args ...string) (s sent) {
	t.Helper()
	if !slices.Contains(args, "--wait") && !slices.Contains(args, "--no-wait") {
		args = append([]string{"--wait", "5m"}, args...)
	}
	cmd := exec.Command(binary, append([]string{"send", "--json", "--url", "http://" + c.gatewayAddr,
		"--key", key, "--host", "node-b", "--retry", "200ms"}, args...)...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if json.Unmarshal(out.Bytes(), &s) != nil {
		t.Fatalf("send %v printed no document: %q\n%s", args, out.String(), words.String())
	}
	s.code, s.stderr = cmd.ProcessState.ExitCode(), words.String()
	if s.code != s.ExitCode {
		t.Errorf("send %v ended with %d and its document says %d", args, s.code, s.ExitCode)
	}
	if s.Stored != nil && s.Verdict == "done" && s.Events != *s.Stored+s.Rejected+*s.Duplicates {
		t.Errorf("send %v: the counts do not add up: %v", args, s)
	}
	return s
}

// refusedRecords are n records that the peer refuses, by its own vectors.
func refusedRecords(t *testing.T, n int) (records []string) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "testdata", "telemetry", "v4", "v4_cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(records) < n; {
		var c struct {
			Input  json.RawMessage
			Strict struct{ Error *json.RawMessage } `json:"from_record_strict"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Strict.Error != nil {
			records = append(records, string(c.Input))
		}
	}
	if len(records) != n {
		t.Fatalf("%d refused records in the vectors, want %d", len(records), n)
	}
	return records
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// gpuflightLog is a log of a session with good lines and lines of a type that nobody knows, which only a worker refuses.
func gpuflightLog(session string, good, unknown int) string {
	var b strings.Builder
	for i := range good {
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_detail","session_id":%q,"corr_id":%d,"kernel_name":"k"}`+"\n", session, i+1)
	}
	for i := range unknown {
		fmt.Fprintf(&b, `{"version":1,"type":"of_the_future","session_id":%q,"n":%d}`+"\n", session, i)
	}
	return b.String()
}

// What `warpline send` says and how it ends is the truth, whoever refused, with the worker killed between and with several workers.
func TestSendTellsTheTruth(t *testing.T) {
	c := newCluster(t, 2)
	key := c.makeKey("truth")
	dir := t.TempDir()
	exports := filepath.Join("..", "..", "..", "testdata", "telemetry")
	record := `{"timestamp":1700000000,"memory_mb":2}`
	refused := refusedRecords(t, 98)

	t.Run("98 records refused at the door", func(t *testing.T) {
		for name, text := range map[string]string{"98.json": "[" + strings.Join(refused, ",") + "]",
			"98.ndjson": strings.Join(refused, "\n") + "\n"} {
			path := writeFile(t, filepath.Join(dir, name), text)
			s := c.send(t, key, path)
			sum := int64(0)
			for _, r := range s.Reasons {
				sum += r.Events
			}
			if s.code != 1 || s.Verdict != "done" || s.Events != 98 || s.Rejected != 98 || *s.Stored != 0 || sum != 98 || len(s.Reasons) < 5 {
				t.Errorf("%s: %v\n%s", name, s, s.stderr)
			}
			if !strings.Contains(s.stderr, "98 events: 0 stored, 98 refused, 0 sent before\n") ||
				!strings.Contains(s.stderr, "warpline: 98 of 98 events refused: ") {
				t.Errorf("%s: it says %s", name, s.stderr)
			}
			for _, r := range s.Reasons {
				if !strings.Contains(s.stderr, fmt.Sprintf("  %2d  %s\n", r.Events, r.Reason)) {
					t.Errorf("%s: %d %s is not told in a line: %s", name, r.Events, r.Reason, s.stderr)
				}
			}
			// They are refused again.
			if s := c.send(t, key, path); s.code != 1 || s.Rejected != 98 || s.reason("refused_before") != 98 || *s.Duplicates != 0 {
				t.Errorf("%s, again: %v", name, s)
			}
		}
	})
	t.Run("98 lines refused by the worker", func(t *testing.T) {
		folder := filepath.Join(dir, "worker-98")
		writeFile(t, filepath.Join(folder, "device.1.log"), gpuflightLog("worker-98", 0, 98))
		if s := c.send(t, key, folder); s.code != 1 || s.Rejected != 98 || s.reason("unknown_type") != 98 || *s.Stored != 0 ||
			!strings.Contains(s.stderr, "warpline: 98 of 98 events refused: 98 unknown_type") {
			t.Errorf("%v\n%s", s, s.stderr)
		}
		// What was sent before is no refusal.
		if s := c.send(t, key, folder); s.code != 0 || s.Events != 98 || *s.Duplicates != 98 || s.Rejected != 0 {
			t.Errorf("again: %v\n%s", s, s.stderr)
		}
	})
	t.Run("all is fine", func(t *testing.T) {
		for _, args := range [][]string{
			{filepath.Join("..", "..", "..", "testdata", "gpuflight", "segmented")}, {filepath.Join(exports, "exports")},
			{filepath.Join(exports, "v4", "exports", "cpu_sink_killed")},
			{writeFile(t, filepath.Join(dir, "a.csv"), "timestamp,memory_mb\n1,2\n2,3\n")},
			{writeFile(t, filepath.Join(dir, "track.json"), `{"memory_usage":[1,2],"timestamps":[1,2]}`)},
		} {
			s := c.send(t, key, args...)
			if s.code != 0 || s.Verdict != "done" || s.Rejected != 0 || *s.Stored == 0 || s.Events == 0 {
				t.Errorf("%v: %v\n%s", args, s, s.stderr)
			}
			if again := c.send(t, key, args...); again.code != 0 || *again.Stored != 0 || again.Rejected != 0 || again.Events != s.Events ||
				*again.Duplicates != s.Events {
				t.Errorf("%v again: %v, after %v", args, again, s)
			}
		}
	})
	t.Run("mixed", func(t *testing.T) {
		folder := filepath.Join(dir, "mixed")
		writeFile(t, filepath.Join(folder, "m1", "device.1.log"), gpuflightLog("m1", 30, 5))
		writeFile(t, filepath.Join(folder, "m1", "scope.1.log"), gpuflightLog("m1", 0, 2))
		writeFile(t, filepath.Join(folder, "m2", "device.1.log"), gpuflightLog("m2", 10, 0))
		writeFile(t, filepath.Join(folder, "t.json"), "["+record+","+refused[0]+","+refused[1]+"]")
		bad := writeFile(t, filepath.Join(dir, "no events.json"), "nonsense")
		// Two lines of the second log are those of the first: the same bytes in another channel are still two.
		s := c.send(t, key, folder, bad)
		if s.code != 1 || s.reason("unknown_type") != 7 || s.Rejected != 9 || s.Events != 50 ||
			len(s.Refused) != 1 || s.Refused[0].Status != 400 || s.Windows != 3 || s.Files != 1 {
			t.Errorf("%v\n%s", s, s.stderr)
		}
	})
	t.Run("who does not wait hears of the door alone", func(t *testing.T) {
		folder := filepath.Join(dir, "hurry")
		writeFile(t, filepath.Join(folder, "device.1.log"), gpuflightLog("hurry", 1, 98))
		if s := c.send(t, key, "--no-wait", folder); s.code != 0 || s.Verdict != "not_asked" || s.Stored != nil || s.Events != 99 ||
			s.Rejected != 0 {
			t.Errorf("%v\n%s", s, s.stderr)
		}
		path := writeFile(t, filepath.Join(dir, "hurry.json"), "["+record+","+strings.Join(refused[:40], ",")+"]")
		if s := c.send(t, key, "--no-wait", path); s.code != 1 || s.Verdict != "not_asked" || s.Rejected != 40 || len(s.Reasons) < 2 {
			t.Errorf("%v\n%s", s, s.stderr)
		}
	})
	t.Run("keys, conflicts and nobody", func(t *testing.T) {
		path := writeFile(t, filepath.Join(dir, "key.json"), "["+record+"]")
		if s := c.send(t, "gpfl_wrong", path); s.code != 4 || s.Events != 0 {
			t.Errorf("a wrong key: %v\n%s", s, s.stderr)
		}
		if s := c.send(t, key, "--url", "http://127.0.0.1:1", "--attempts", "1", path); s.code != 3 {
			t.Errorf("nobody there: %v\n%s", s, s.stderr)
		}
	})
	t.Run("a question of somebody else", func(t *testing.T) { c.questions(t, key, c.makeKey("truth"), c.makeKey("other")) })
	t.Run("kills", func(t *testing.T) { c.verdictsUnderKills(t, key, dir) })

	// The books say the same: what was refused is in rejects, by reason.
	eventually(t, 3*time.Minute, "the rejects", func() (bool, string) {
		n, err := c.tryRows("SELECT reason, sum(events) FROM rejects WHERE tenant = 'truth' AND session_id = 'worker-98' GROUP BY reason")
		return err == nil && len(n["unknown_type"]) == 1 && n["unknown_type"][0] == 98, fmt.Sprint(n, err)
	})
}

// ask puts a question to the gateway by hand.
func (c *cluster) ask(t *testing.T, key, receipt string) (int, map[string]any) {
	t.Helper()
	status, _, body := c.call(t, http.MethodGet, key, "/api/v1/uploads/"+receipt, "", "")
	return status, body
}

// call makes a request with an upload header, and returns the answer's.
func (c *cluster) call(t *testing.T, method, key, path, upload, text string) (int, string, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+c.gatewayAddr+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if upload != "" {
		req.Header.Set("Warpline-Upload", upload)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	json.Unmarshal(body, &v)
	return resp.StatusCode, resp.Header.Get("Warpline-Upload"), v
}

// awaitVerdict asks until the verdict is not pending.
func (c *cluster) awaitVerdict(t *testing.T, key, receipt string) (v map[string]any) {
	t.Helper()
	eventually(t, 3*time.Minute, "a verdict", func() (bool, string) {
		var status int
		status, v = c.ask(t, key, receipt)
		return status == 200 && v["state"] != "pending", fmt.Sprint(status, v)
	})
	return v
}

// questions: the key that sent is told, and nobody else, whatever is asked.
func (c *cluster) questions(t *testing.T, key, sibling, other string) {
	post := func(upload, session string) string {
		t.Helper()
		status, receipt, v := c.call(t, http.MethodPost, key, "/api/v1/events/stream", upload, gpuflightLog(session, 2, 3))
		if status != 200 || v["accepted"] != 5.0 {
			t.Fatal(status, v)
		}
		return receipt
	}
	if receipt := post("", "nobody-asks"); receipt != "" {
		t.Errorf("a receipt that nobody asked for: %q", receipt)
	}
	for _, odd := range []string{"with space", "ü", strings.Repeat("n", 65), ".", "a/b", ","} {
		if receipt := post(odd, "odd-name-"+fmt.Sprintf("%x", odd[:1])); receipt != "" {
			t.Errorf("a receipt under the name %q: %q", odd, receipt)
		}
	}
	first := post("mine", "q1")
	if v := c.awaitVerdict(t, key, first); v["state"] != "done" || v["events"] != 5.0 || v["stored"] != 2.0 || v["rejected"] != 3.0 {
		t.Errorf("%v", v)
	}
	// A receipt that goes on speaks for both, two that are joined too.
	second, third := post(first, "q2"), post("mine", "q3")
	for receipt, parts := range map[string]float64{second: 2, second + "," + third: 3, third + "," + second: 3} {
		if v := c.awaitVerdict(t, key, receipt); v["state"] != "done" || v["parts"] != parts || v["rejected"].(float64) < 3*parts {
			t.Errorf("%v parts: %v", parts, v)
		}
	}
	alien := "yours" + strings.TrimPrefix(first, "mine")
	for _, a := range []struct {
		what, key, receipt string
		status             int
	}{
		{"another key of the tenant", sibling, first, 404}, {"another tenant", other, first, 404}, {"no key", "", first, 401},
		{"a key that is none", "gpfl_none", first, 401},
		{"a name alone", key, "mine", 404}, {"another name", key, alien, 404}, {"a bit flipped", key, first[:len(first)-2] + "AA", 404},
		{"half of it", key, first[:len(first)/2], 404},
		{"mixed names", key, first + "," + alien, 404}, {"nothing", key, "", 404}, {"a path", key, first + "/x", 404}, {"dots", key, "..", 404},
		{"junk", key, "%00%ff.%zz"[:6], 404},
		{"very long", key, "mine." + strings.Repeat("A", 30<<10), 404},
		{"many", key, strings.TrimSuffix(strings.Repeat(first+",", 65), ","), 404},
	} {
		if status, v := c.ask(t, a.key, a.receipt); status != a.status || v["stored"] != nil {
			t.Errorf("%s: %d, want %d: %v", a.what, status, a.status, v)
		}
	}
	if status, _, _ := c.call(t, http.MethodPost, key, "/api/v1/uploads/"+first, "", ""); status != 405 {
		t.Errorf("POST: %d", status)
	}
	// What cannot be read goes with the upload all the same, which is taken, and the verdict is honest about what is missing.
	_, receipt, _ := c.call(t, http.MethodPost, other, "/api/v1/events/stream", first, gpuflightLog("q4", 1, 1))
	if v := c.awaitVerdict(t, other, receipt); v["state"] != "unknown" || v["events"] != 2.0 || v["rejected"] != 1.0 {
		t.Errorf("with somebody else's receipt: %v", v)
	}
}

// verdictsUnderKills: workers that die cost time, never the truth.
func (c *cluster) verdictsUnderKills(t *testing.T, key, dir string) {
	// What was told before a kill is told after it, and what was not folded yet is folded again and told then.
	_, before, _ := c.call(t, http.MethodPost, key, "/api/v1/events/stream", "kills", gpuflightLog("k1", 20, 4))
	c.awaitVerdict(t, key, before)
	for _, name := range []string{"worker0", "worker1"} {
		c.kill(name)
	}
	folder := filepath.Join(dir, "killed")
	writeFile(t, filepath.Join(folder, "device.1.log"), gpuflightLog("killed", 7, 11))
	late := filepath.Join(dir, "late")
	writeFile(t, filepath.Join(late, "device.1.log"), gpuflightLog("late", 1, 1))
	if s := c.send(t, key, "--wait", "1s", late); s.code != 3 || s.Verdict != "pending" || s.Rejected != 0 ||
		!strings.Contains(s.stderr, "have not said within 1s") {
		t.Errorf("with no worker: %v\n%s", s, s.stderr)
	}
	_, after, _ := c.call(t, http.MethodPost, key, "/api/v1/events/stream", before, gpuflightLog("k2", 20, 5))
	if status, v := c.ask(t, key, after); status != 200 || v["state"] != "pending" {
		t.Errorf("%d %v", status, v)
	}
	done := make(chan sent)
	go func() { done <- c.send(t, key, folder) }()
	time.Sleep(300 * time.Millisecond)
	for range 3 { // die while it is folded
		c.start("worker0")
		c.waitReady("worker0", 3*time.Minute)
		time.Sleep(50 * time.Millisecond)
		c.kill("worker0")
	}
	c.start("worker0")
	if s := <-done; s.code != 1 || s.Verdict != "done" || s.reason("unknown_type") != 11 || *s.Stored != 7 {
		t.Errorf("%v\n%s", s, s.stderr)
	}
	if v := c.awaitVerdict(t, key, after); v["state"] != "done" || v["parts"] != 2.0 || v["stored"] != 40.0 || v["rejected"] != 9.0 {
		t.Errorf("before and after the kill: %v", v)
	}
	c.start("worker1")
	c.waitReady("worker1", 3*time.Minute)
	if v := c.awaitVerdict(t, key, after); v["state"] != "done" || v["rejected"] != 9.0 {
		t.Errorf("after the partitions moved: %v", v)
	}
	// The gateway remembers nothing either.
	c.kill("gateway")
	c.start("gateway")
	c.waitReady("gateway", 3*time.Minute)
	if v := c.awaitVerdict(t, key, after); v["state"] != "done" || v["rejected"] != 9.0 {
		t.Errorf("of another gateway: %v", v)
	}
}
