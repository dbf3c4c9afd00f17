package bench_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/bench"
	"github.com/warpline/warpline/proto/gpuflight"
)

func generate(t *testing.T, cfg bench.Config) *bench.Data {
	t.Helper()
	d, err := bench.Generate(context.Background(), cfg, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// raw returns a window's lines after checking file size and CRC against its headers, with the standard library's gzip.
func raw(t *testing.T, w bench.Window) []byte {
	t.Helper()
	b, err := os.ReadFile(w.Path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != w.GzBytes || crc32.ChecksumIEEE(b) != w.CRC32 {
		t.Fatalf("%s: %d bytes, CRC %d, header says %d and %d", w.Path, len(b), crc32.ChecksumIEEE(b), w.GzBytes, w.CRC32)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(out)) != w.RawBytes {
		t.Fatalf("%s: %d raw bytes, header says %d", w.Path, len(out), w.RawBytes)
	}
	return out
}

// wire is a line as encoding/json reads it.
type wire struct {
	Type      string   `json:"type"`
	SessionID string   `json:"session_id"`
	BatchID   int64    `json:"batch_id"`
	Base      int64    `json:"base_time_ns"`
	Columns   []string `json:"columns"`
	Rows      [][]int64
	CorrID    int64             `json:"corr_id"`
	UserScope string            `json:"user_scope"`
	Grid      string            `json:"grid"`
	Block     string            `json:"block"`
	Kernels   map[string]string `json:"kernel_dict"`
	Functions map[string]string `json:"function_dict"`
	Metrics   map[string]string `json:"metric_dict"`
}

func (w *wire) col(t *testing.T, name string) int {
	t.Helper()
	for i, c := range w.Columns {
		if c == name {
			return i
		}
	}
	t.Fatalf("%s has no column %s", w.Type, name)
	return -1
}

// read calls each for every line of every window, in the order of channels and sequence.
func read(t *testing.T, d *bench.Data, each func(channel string, line []byte, w *wire)) {
	t.Helper()
	for _, s := range d.Sessions {
		for c, windows := range s.Windows {
			for i, win := range windows {
				if win.Sequence != i+1 || win.Channel != bench.Channels[c] || win.Session != s.ID {
					t.Fatalf("window %d of %s %s says %+v", i, s.ID, bench.Channels[c], win)
				}
				b := raw(t, win)
				var events int64
				scan := bufio.NewScanner(bytes.NewReader(b))
				scan.Buffer(nil, 1<<20)
				for scan.Scan() {
					var w wire
					if err := json.Unmarshal(scan.Bytes(), &w); err != nil {
						t.Fatalf("%v in %.200s", err, scan.Bytes())
					}
					if w.SessionID != s.ID {
						t.Fatalf("line of session %q in a window of %q", w.SessionID, s.ID)
					}
					if w.Columns != nil {
						events += int64(len(w.Rows))
					} else {
						events++
					}
					each(bench.Channels[c], scan.Bytes(), &w)
				}
				if events != win.Events {
					t.Fatalf("%s: %d events, header says %d", win.Path, events, win.Events)
				}
			}
		}
	}
}

func TestSameSeedMakesTheSameBytes(t *testing.T) {
	cfg := bench.Config{Workload: bench.Mixed, Kernels: 20_000, Sessions: 3, Seed: 7}
	a, b := generate(t, cfg), generate(t, cfg)
	if a.Counts != b.Counts {
		t.Fatalf("counts differ:\n%+v\n%+v", a.Counts, b.Counts)
	}
	for i := range a.Sessions {
		for c := range a.Sessions[i].Windows {
			for w := range a.Sessions[i].Windows[c] {
				x, y := a.Sessions[i].Windows[c][w], b.Sessions[i].Windows[c][w]
				if x.CRC32 != y.CRC32 || x.ID != y.ID || !bytes.Equal(raw(t, x), raw(t, y)) {
					t.Fatalf("window %s differs", x.Path)
				}
			}
		}
	}
	cfg.Seed++
	if c := generate(t, cfg); c.Counts.KernelNS == a.Counts.KernelNS {
		t.Error("another seed gave the same durations")
	}
	cfg.Seed, cfg.Run = 7, "again"
	c := generate(t, cfg)
	if c.Counts.KernelNS != a.Counts.KernelNS {
		t.Error("another run changed the data")
	}
	if c.Sessions[0].ID == a.Sessions[0].ID || c.Sessions[0].Windows[0][0].ID == a.Sessions[0].Windows[0][0].ID {
		t.Error("another run kept session or window ids")
	}
}

func TestCountsAreWhatTheFilesHold(t *testing.T) {
	for _, workload := range []bench.Workload{bench.Columnar, bench.Full, bench.Mixed, bench.Hour} {
		t.Run(string(workload), func(t *testing.T) {
			d := generate(t, bench.Config{Workload: workload, Kernels: 50_001, Sessions: 2, Seed: 1})
			var got bench.Counts
			ids, begun := map[string]bool{}, map[string]int64{}
			names, corr := map[string]string{}, map[string]int64{}
			var dec gpuflight.Decoder
			read(t, d, func(channel string, line []byte, w *wire) {
				got.Lines++
				got.RawBytes += int64(len(line)) + 1
				if l, err := dec.Decode(line); err != nil || l.Type.String() != w.Type ||
					(l.Type.IsBatch() && (l.Batch.Rows() != len(w.Rows) || len(l.Batch.BadRows) > 0)) {
					t.Fatalf("decoder refuses %.300s: %v", line, err)
				}
				if w.Columns != nil {
					key := fmt.Sprint(w.SessionID, w.Type, w.BatchID)
					if ids[key] {
						t.Fatalf("batch id twice: %s", key)
					}
					ids[key] = true
					got.Events += int64(len(w.Rows))
				} else {
					got.Events++
				}
				for id, name := range w.Kernels {
					names[w.SessionID+channel+id] = name
				}
				switch w.Type {
				case "kernel_event_batch":
					got.Kernels += int64(len(w.Rows))
					last := int64(math.MinInt64)
					for _, r := range w.Rows {
						got.KernelNS += r[w.col(t, "duration_ns")]
						if n := names[fmt.Sprint(w.SessionID, channel, r[w.col(t, "kernel_id")])]; len(n) < 70 || len(n) > 90 {
							t.Fatalf("kernel %d has the name %q before its batch", r[w.col(t, "kernel_id")], n)
						}
						if r[0] < last || r[0] < 0 {
							t.Fatal("starts go back")
						}
						last = r[0]
						if c := r[w.col(t, "corr_id")]; c <= corr[w.SessionID] {
							t.Fatal("corr ids do not rise")
						} else {
							corr[w.SessionID] = c
						}
					}
				case "kernel_detail":
					got.Details++
				case "memcpy_event_batch":
					got.Memcpys += int64(len(w.Rows))
				case "scope_event_batch":
					for _, r := range w.Rows {
						key := fmt.Sprint(w.SessionID, r[1], "/", r[2])
						if at := w.Base + r[0]; r[3] == 0 {
							begun[key] = at
						} else if from, ok := begun[key]; !ok || at < from || r[7] != from {
							t.Fatalf("scope %s ends at %d, begun %d, says %d", key, at, from, r[7])
						} else {
							delete(begun, key)
							got.ScopePairs++
						}
					}
				case "profile_sample_batch":
					got.PCRows += int64(len(w.Rows))
					for _, r := range w.Rows {
						got.PCSamples += r[w.col(t, "metric_value")]
					}
				case "host_metric_batch":
					got.HostRows += int64(len(w.Rows))
				case "device_metric_batch":
					got.DeviceRows += int64(len(w.Rows))
				}
			})
			for _, s := range d.Sessions {
				for c, windows := range s.Windows {
					if len(windows) == 0 {
						t.Fatalf("channel %s has no window", bench.Channels[c])
					}
					for _, w := range windows {
						got.Windows++
						got.GzBytes += w.GzBytes
					}
				}
			}
			if len(begun) > 0 {
				t.Errorf("%d scopes never end", len(begun))
			}
			if got != d.Counts {
				t.Fatalf("files hold\n%+v, counts say\n%+v", got, d.Counts)
			}
			if workload == bench.Hour {
				if got.Kernels != 100_000 || got.HostRows != 7200 || got.DeviceRows != 7200 || got.ScopePairs != 10_000 || got.PCRows != 50_000 {
					t.Errorf("not the reference hour: %+v", got)
				}
			}
		})
	}
}

func TestDistributions(t *testing.T) {
	d := generate(t, bench.Config{Workload: bench.Columnar, Kernels: 400_000, Sessions: 1, Seed: 3})
	logs := map[string][]float64{} // of durations, by name
	names := map[string]string{}
	streams := map[int64]int{}
	var first, last, launches int64
	read(t, d, func(channel string, _ []byte, w *wire) {
		if channel != "device" {
			return
		}
		for id, n := range w.Kernels {
			names[id] = n
		}
		if w.Type != "kernel_event_batch" {
			return
		}
		if len(w.Columns) != 8 || len(w.Rows) > 512 {
			t.Fatalf("%d columns, %d rows", len(w.Columns), len(w.Rows))
		}
		for _, r := range w.Rows {
			n := names[fmt.Sprint(r[1])]
			logs[n] = append(logs[n], math.Log(float64(r[3])))
			streams[r[2]]++
			if first == 0 {
				first = w.Base
			}
			last = w.Base + r[0]
			launches++
		}
	})
	if len(logs) != bench.Names {
		t.Errorf("%d names, want %d", len(logs), bench.Names)
	}
	if len(streams) != bench.Streams {
		t.Errorf("%d streams, want %d", len(streams), bench.Streams)
	}
	// Zipf(1.1) over 500 ranks: the share of rank k is k^-1.1 / H.
	var h, most float64
	for k := 1; k <= bench.Names; k++ {
		h += math.Pow(float64(k), -1.1)
	}
	for _, l := range logs {
		most = max(most, float64(len(l)))
	}
	if got, want := most/float64(launches), 1/h; math.Abs(got-want) > 0.01 {
		t.Errorf("the commonest kernel has a share of %.3f, want %.3f", got, want)
	}
	var lowest, highest = math.Inf(1), math.Inf(-1)
	for n, l := range logs {
		if len(l) < 2000 {
			continue
		}
		var sum, sq float64
		for _, x := range l {
			sum += x
		}
		mean := sum / float64(len(l))
		for _, x := range l {
			sq += (x - mean) * (x - mean)
		}
		if sigma := math.Sqrt(sq / float64(len(l)-1)); math.Abs(sigma-bench.Sigma) > 0.04 {
			t.Errorf("%s: sigma %.3f, want %.1f", n, sigma, bench.Sigma)
		}
		lowest, highest = min(lowest, mean), max(highest, mean)
	}
	if lo, hi := math.Log(float64(bench.MinMedian)), math.Log(float64(bench.MaxMedian)); lowest < lo-0.1 || highest > hi+0.1 ||
		highest-lowest < 2 {
		t.Errorf("medians from %v to %v, want them spread between %v and %v", time.Duration(math.Exp(lowest)), time.Duration(math.Exp(highest)),
			bench.MinMedian, bench.MaxMedian)
	}
	if gap := float64(last-first) / float64(launches-1); math.Abs(gap-100_000) > 1000 {
		t.Errorf("mean gap %.0f ns, want 100000", gap)
	}
}

func TestDetailsAreAsLongAsTheClients(t *testing.T) {
	d := generate(t, bench.Config{Workload: bench.Full, Kernels: 20_000, Sessions: 1, Seed: 1})
	var bytes, lines int
	launches := map[string]bool{}
	read(t, d, func(_ string, line []byte, w *wire) {
		if w.Type == "kernel_detail" {
			bytes += len(line) + 1
			lines++
			launches[w.Grid+w.Block+w.UserScope] = true
			if i := strings.Index(string(line), `,"corr_id":`); i < 0 ||
				!strings.HasPrefix(string(line), `{"version":1,"type":"kernel_detail","session_id":"`) {
				t.Fatalf("keys are not in the client's order: %s", line)
			}
		}
	})
	if mean := float64(bytes) / float64(lines); math.Abs(mean-593) > 15 {
		t.Errorf("a kernel_detail line has %.0f bytes, the client's 593", mean)
	}
	if n := len(launches); n < 24 || n > 96 {
		t.Errorf("%d launch shapes with scopes, want some dozens", n)
	}
}

// Keys stand where the real client puts them: the same lines with values blanked.
func TestKeysAreTheClients(t *testing.T) {
	b, err := os.ReadFile("../../../testdata/gpuflight/examples_by_type.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	client := map[string]string{}
	for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
		typ, keys := shapeOf(t, line)
		if _, ok := client[typ]; !ok {
			client[typ] = keys
		}
	}
	d := generate(t, bench.Config{Workload: bench.Mixed, Kernels: 5000, Sessions: 1, Seed: 1})
	seen := map[string]bool{}
	read(t, d, func(_ string, line []byte, _ *wire) {
		typ, keys := shapeOf(t, line)
		if seen[typ] = true; typ != "dictionary_update" && keys != client[typ] {
			t.Fatalf("%s has\n%s, the client\n%s", typ, keys, client[typ])
		}
	})
	for _, typ := range []string{"job_start", "dictionary_update", "shutdown", "kernel_event_batch",
		"kernel_detail", "memcpy_event_batch", "scope_event_batch",
		"profile_sample_batch", "host_metric_batch", "device_metric_batch"} {
		if !seen[typ] {
			t.Errorf("mixed has no %s", typ)
		}
	}
}

// shapeOf returns a line's type, and its top-level keys in order with its column names.
func shapeOf(t *testing.T, line []byte) (typ, keys string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(line))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		keys += fmt.Sprint(key) + " "
		switch key {
		case "type":
			typ = strings.Trim(string(v), `"`)
		case "columns":
			keys += string(v) + " "
		}
	}
	return typ, keys
}

func TestWindowsEndAfterTheLimit(t *testing.T) {
	const limit = 1 << 20
	d := generate(t, bench.Config{Workload: bench.Columnar, Kernels: 200_000, Sessions: 2, Seed: 1, WindowBytes: limit})
	for _, s := range d.Sessions {
		windows := s.Windows[0]
		if len(windows) < 3 {
			t.Fatalf("%d device windows", len(windows))
		}
		for i, w := range windows {
			b := raw(t, w)
			longest := 0
			for _, line := range bytes.SplitAfter(b, []byte("\n")) {
				longest = max(longest, len(line))
			}
			if len(b) >= limit+longest || (i < len(windows)-1 && len(b) < limit) {
				t.Errorf("window %d has %d bytes, limit %d, longest line %d", i, len(b), limit, longest)
			}
		}
	}
	d = generate(t, bench.Config{Workload: bench.Columnar, Kernels: 20_000, Sessions: 2, Seed: 1, WindowRows: 1024})
	if n := len(d.Sessions[0].Windows[0]); n != 10 {
		t.Errorf("%d windows of at most 1024 rows in batches of 512 for 10000 rows, want 10", n)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]bench.Config{
		"no workload":      {Kernels: 10},
		"unknown workload": {Workload: "huge", Kernels: 10},
		"too few kernels":  {Workload: bench.Full, Kernels: 3, Sessions: 4},
	} {
		if _, err := bench.Generate(context.Background(), cfg, t.TempDir(), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	dir := b.TempDir()
	const rows = 200_000
	for b.Loop() {
		if _, err := bench.Generate(context.Background(), bench.Config{Workload: bench.Columnar, Kernels: rows, Sessions: 2, Seed: 1}, dir,
			nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
