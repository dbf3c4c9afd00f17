package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

// counts is what an independent reader finds in the captures: encoding/json and nothing of ours.
type counts struct {
	ran, deep                                               map[string][][2]int64 // by session: kernels and deep windows, from and to
	disturbed                                               int64                 // kernels that ran in a deep window
	sessions                                                int
	kernels, memcpys, device, host, pc, sass, events, twice int64
	kernelNS, copyBytes, samples, slices, traced            int64
	bySession                                               map[string]int64
}

func readCaptures(t *testing.T) counts {
	t.Helper()
	c := counts{bySession: map[string]int64{}, ran: map[string][][2]int64{}, deep: map[string][][2]int64{}}
	folders, err := filepath.Glob("../../testdata/gpuflight/*/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, folder := range folders {
		c.sessions++
		seen := map[string]bool{}
		files, err := filepath.Glob(filepath.Join(folder, "*.log.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(z)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				c.line(t, filepath.Base(folder), lines.Bytes(), seen)
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	for session, ran := range c.ran {
		for _, k := range ran {
			if slices.ContainsFunc(c.deep[session], func(w [2]int64) bool { return w[0] <= k[1] && k[0] <= w[1] }) {
				c.disturbed++
			}
		}
	}
	c.parca(t)
	c.regions(t)
	c.trace(t)
	return c
}

// unpacked opens a gzip file below testdata.
func unpacked(t *testing.T, name string) io.Reader {
	t.Helper()
	f, err := os.Open("../../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// trace adds the trace of PyTorch's profiler.
func (c *counts) trace(t *testing.T) {
	t.Helper()
	var trace struct {
		Events []struct {
			Phase string `json:"ph"`
			Cat   string `json:"cat"`
			Args  struct {
				Bytes int64 `json:"bytes"`
			} `json:"args"`
		} `json:"traceEvents"`
	}
	if err := json.NewDecoder(unpacked(t, demoTrace)).Decode(&trace); err != nil {
		t.Fatal(err)
	}
	c.sessions++
	c.events += int64(len(trace.Events))
	for _, e := range trace.Events {
		switch {
		case e.Cat == "kernel":
			c.kernels++
		case e.Cat == "gpu_memcpy":
			c.memcpys++
			c.copyBytes += e.Args.Bytes
		}
		if e.Phase == "X" || e.Phase == "i" {
			c.traced++
		}
	}
}

// regions adds the trace of an intra-kernel profiler.
func (c *counts) regions(t *testing.T) {
	t.Helper()
	var trace struct {
		Events []struct {
			Phase string  `json:"ph"`
			Dur   float64 `json:"dur"`
		} `json:"traceEvents"`
	}
	if err := json.NewDecoder(unpacked(t, "intrakernel/samples/gemm_trace.json.gz")).Decode(&trace); err != nil {
		t.Fatal(err)
	}
	c.sessions++
	c.events += int64(len(trace.Events))
	for _, e := range trace.Events {
		if e.Phase == "X" {
			c.slices++
		}
	}
}

// parca adds the two batches of PC samples, from their rows as the agent's own library reads them, and the cubin.
func (c *counts) parca(t *testing.T) {
	t.Helper()
	c.sessions++ // one process
	c.events++   // the cubin
	for _, name := range []string{"batch1", "batch2"} {
		text, err := os.ReadFile("../../testdata/parca/" + name + ".wire_rows.ndjson")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var row struct {
				SampleType string            `json:"sample_type"`
				Value      int64             `json:"value"`
				Labels     map[string]string `json:"labels"`
			}
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			c.events++
			reason := row.Labels["cuda_stall_reason"]
			switch {
			case row.SampleType == "gpu_kernel_time":
				c.kernels++
			case strings.Contains(reason, "warps_issue_stalled") && !strings.HasSuffix(reason, "_not_issued"):
				c.samples += row.Value
				fallthrough
			default:
				c.pc++
			}
		}
	}
}

func (c *counts) line(t *testing.T, session string, raw []byte, seen map[string]bool) {
	var l struct {
		Type    string          `json:"type"`
		Base    int64           `json:"base_time_ns"`
		Start   int64           `json:"start_ns"`
		End     int64           `json:"end_ns"`
		BatchID int64           `json:"batch_id"`
		Columns []string        `json:"columns"`
		Rows    [][]json.Number `json:"rows"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		t.Fatal(err)
	}
	n := int64(1)
	if l.Columns != nil {
		n = int64(len(l.Rows))
	}
	c.events += n
	// The client writes lines about the session, and the source map, to each of its four channels: they count once by their content,
	// the rest are duplicates.
	switch {
	case l.Type == "profile_sample_batch" && l.BatchID > 1_000_000, slices.Contains(toAllChannels, l.Type):
		if seen[string(raw)] {
			c.twice += n
			return
		}
		seen[string(raw)] = true
	}
	at := func(row []json.Number, column string) int64 {
		v, err := strconv.ParseInt(row[slices.Index(l.Columns, column)].String(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if l.Type == "deep_window_event" {
		c.deep[session] = append(c.deep[session], [2]int64{l.Start, l.End})
	}
	for _, row := range l.Rows {
		switch l.Type {
		case "kernel_event_batch":
			c.kernels++
			c.bySession[session]++
			c.kernelNS += at(row, "duration_ns")
			start := l.Base + at(row, "dt_ns")
			c.ran[session] = append(c.ran[session], [2]int64{start, start + at(row, "duration_ns")})
		case "memcpy_event_batch":
			c.memcpys++
			c.copyBytes += at(row, "bytes")
		case "device_metric_batch":
			c.device++
		case "host_metric_batch":
			c.host++
		case "profile_sample_batch":
			switch at(row, "sample_kind") {
			case 0:
				c.pc++
				c.samples += at(row, "metric_value")
			case 1:
				c.sass++
			}
		}
	}
}

var toAllChannels = []string{"job_start", "shutdown", "segment_start", "segment_end", "run_end",
	"capture_capabilities", "dictionary_update"}

// The demo ends by itself, in time, with a report whose numbers an independent reading of the same files gives.
func TestDemoReportsWhatTheCapturesHold(t *testing.T) {
	want := readCaptures(t)
	if want.kernels == 0 || want.memcpys == 0 || want.pc == 0 || want.twice == 0 {
		t.Fatalf("the captures hold too little to test with: %+v", want)
	}
	enginetest.Need(t)
	t.Setenv("TMPDIR", t.TempDir())       // where nobody else leaves anything
	runIn(t, nil, "demo", "--wait", "5m") // the first one on a machine may fetch the engine
	left := leftovers(t)
	began := time.Now()
	r := runIn(t, map[string]string{"COLUMNS": "140"}, "demo", "--wait", "5m")
	took := time.Since(began)
	if r.code != exitOK {
		t.Fatalf("exit %d:\n%s", r.code, r.stderr)
	}
	t.Logf("took %v", took) // the aim is 15 s on two idle cores
	comma := humanize.Comma
	flat := strings.Join(strings.Fields(r.stdout), " ") // the counts are a paragraph, which wraps anywhere
	for _, w := range []string{
		fmt.Sprintf("What arrived  %d sessions", want.sessions),
		"kernels " + comma(want.kernels) + " ·", "memcpys " + comma(want.memcpys) + " ·", "device_metrics " + comma(want.device) + " ·",
		"host_metrics " + comma(want.host),
		"pc_samples " + comma(want.pc) + " ·", "profile_metrics " + comma(want.sass) + " ·",
		comma(want.kernels-want.disturbed) + " calls of", comma(want.disturbed) + " calls left out: a deep window",
		comma(want.samples) + " PC samples", "Hottest instructions", "v_fma_f32 v0, v1, 42, v0       vec.cu:3",
		humanize.IBytes(uint64(want.copyBytes)) + " moved",
		comma(want.events) + " events received", comma(want.twice) + " duplicates",
		"at rest", "regions " + comma(want.slices), "The latest warps",
		"trace_slices " + comma(want.traced), "warpline trace open",
	} {
		if !strings.Contains(r.stdout, w) && !strings.Contains(flat, w) {
			t.Errorf("the report lacks %q", w)
		}
	}
	for id, n := range want.bySession {
		if !regexp.MustCompile(`(?m)^  ` + id[:8] + ` .*complete .* ` + comma(n) + ` +[0-9,]+$`).MatchString(r.stdout) {
			t.Errorf("session %s does not show %d kernels and complete", id, n)
		}
	}
	// The service is gone with the demo: a command to ask it would fail.
	for _, w := range []string{"curl", "SELECT", "Ask on"} {
		if strings.Contains(r.stdout, w) {
			t.Errorf("the report says %q, and nobody is there to ask", w)
		}
	}
	if !strings.Contains(r.stderr, "demo --keep") {
		t.Error("it does not say how to ask")
	}
	if strings.Contains(r.stdout+r.stderr, "gpfl_") {
		t.Error("a key shows")
	}
	if t.Failed() {
		t.Logf("%s\n%s", r.stderr, r.stdout)
	}
	if now := leftovers(t); len(now) > len(left) {
		t.Errorf("the demo left %v", now)
	}
}

func leftovers(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "warpline-demo-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDemoKeepsServing(t *testing.T) {
	dir := t.TempDir()
	s := launch(t, "demo", "--keep", "--wait", "5m", "--data", dir)
	s.await(t, "Serving until Ctrl-C")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	settled(t, dir)
	// The proposals of the report must be SQL that works.
	parts := strings.Split(s.out.String(), "<<'SQL'\n")
	if len(parts) != 4 {
		t.Fatalf("%d proposals in\n%s", len(parts)-1, s.out.String())
	}
	for _, p := range parts[1:] {
		sql, _, _ := strings.Cut(p, "\n    SQL\n")
		if got := query(t, asReader(t, dir, r.ClickHouseHTTP), sql); strings.Count(got, "\n") < 3 {
			t.Errorf("%s\ngives %s", sql, got)
		}
	}
	exports(t, dir)
	if code := s.stop(t); code != exitOK {
		t.Errorf("exit %d:\n%s", code, s.words.String())
	}
}

// exports writes sessions of the demo as traces: that of PyTorch has each slice that the file has, and each pair an arrow.
func exports(t *testing.T, dir string) {
	t.Helper()
	type event map[string]any
	read := func(r io.Reader) (events []event, base string) {
		var all struct {
			Base   json.Number `json:"baseTimeNanoseconds"`
			Events []event     `json:"traceEvents"`
		}
		d := json.NewDecoder(r)
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			t.Fatal(err)
		}
		return all.Events, all.Base.String()
	}
	out := filepath.Join(t.TempDir(), "out.json")
	export := func(out string, sessions ...string) ran {
		args := []string{"trace", "export", "--data", dir, "-o", out}
		for _, id := range sessions {
			args = append(args, "--session", id)
		}
		return runIn(t, nil, args...)
	}
	load := func(session string) ([]event, string) {
		if r := export(out, session); r.code != exitOK {
			t.Fatalf("%s: exit %d: %s", session, r.code, r.stderr)
		}
		f, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return read(f)
	}
	ns := func(e event, member, base string) int64 { // decimal text of us
		text, _ := e[member].(json.Number)
		whole, part, _ := strings.Cut(text.String(), ".")
		n, err := strconv.ParseInt(whole+(part + "000")[:3], 10, 64)
		if err != nil {
			t.Fatalf("%v: %v", e, err)
		}
		from, _ := strconv.ParseInt(base, 10, 64)
		return n + from
	}
	slicesOf := func(events []event, base string) (of []string) {
		for _, e := range events {
			if e["ph"] == "X" {
				args, _ := json.Marshal(e["args"])
				of = append(of, fmt.Sprint(e["name"], e["cat"], ns(e, "ts", base), ns(e, "dur", "0"), e["pid"], e["tid"], string(args)))
			}
		}
		slices.Sort(of)
		return of
	}
	want, _ := read(unpacked(t, demoTrace))
	got, base := load("alexnet")
	if !slices.Equal(slicesOf(got, base), slicesOf(want, "0")) {
		t.Error("the slices of the exported trace are not those of the file")
	}
	if r := export(strings.TrimSuffix(out, ".json")+".pftrace", "trace:alexnet", "df646183"); r.code != exitOK ||
		!strings.Contains(r.stderr, ": 1,736 slices, 139 arrows, ") { // 139 pairs of a call and its work: facts of this file
		t.Errorf("two sessions in one: exit %d: %s", r.code, r.stderr)
	}
	for session, kinds := range map[string]map[string]int{
		"df646183":  {"kernel": 480, "gpu_memcpy": 120, "scope": 50, "": 255},
		"ikp:gemm":  {"gemm": 12_352},
		"parca:gpu": {"kernel": 6},
	} {
		events, _ := load(session)
		for kind, n := range kinds {
			found := 0
			for _, e := range events {
				if e["cat"] == kind && e["ph"] != "M" {
					found++
				}
			}
			if found != n {
				t.Errorf("%s: %d events of %q, want %d", session, found, kind, n)
			}
		}
	}
	for _, c := range []struct{ session, want string }{
		{"nothing-like-it", "no session is"}, {"d", "beginning of several sessions"},
	} {
		if r := export(out, c.session); r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
			t.Errorf("session %q: exit %d: %s", c.session, r.code, r.stderr)
		}
	}
}
