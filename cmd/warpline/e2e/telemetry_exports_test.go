package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// formsOf writes the records of a session in each form that trackers write, into a folder each, and returns the paths.
func formsOf(t *testing.T, name string, records []map[string]any) []string {
	t.Helper()
	dir := t.TempDir()
	var lines [][]byte
	columns := append([]string{"schema_version", "session_id"}, telemetryKeys...)
	var table bytes.Buffer
	cells := csv.NewWriter(&table)
	cells.Write(columns)
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		var row []string
		for _, key := range columns {
			cell := ""
			switch v := r[key].(type) {
			case nil:
			case map[string]any:
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				cell = string(b)
			default:
				cell = fmt.Sprint(v)
			}
			row = append(row, cell)
		}
		cells.Write(row)
	}
	cells.Flush()
	half := len(lines) / 2
	body := func(lines [][]byte) []byte { return append(bytes.Join(lines, []byte("\n")), '\n') }
	for file, text := range map[string][]byte{
		"events.json":               append(append([]byte("["), bytes.Join(lines, []byte(", "))...), ']'),
		"tracked.json":              append(append([]byte(`{"samples": [], "telemetry_events": [`), bytes.Join(lines, []byte(","))...), "]}"...),
		"events.ndjson":             body(lines),
		"events.csv":                table.Bytes(),
		"sink/segment-000001.jsonl": body(lines[:half]),
		"sink/segment-000002.jsonl": append(body(lines[half:]), `{"allocator_act`...),
	} {
		path := filepath.Join(dir, name, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir = filepath.Join(dir, name)
	return []string{filepath.Join(dir, "events.json"), filepath.Join(dir, "tracked.json"), filepath.Join(dir, "events.ndjson"),
		filepath.Join(dir, "events.csv"), filepath.Join(dir, "sink")}
}

// exportedRecords reads the records of an export: a JSON array, a document with events, or lines.
func exportedRecords(t *testing.T, path string) (records []map[string]any) {
	t.Helper()
	names := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		names, _ = filepath.Glob(filepath.Join(path, "segment-*.jsonl"))
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch text = bytes.TrimSpace(text); {
		case text[0] == '[':
			decodeJSON(t, text, &records)
		case filepath.Ext(name) == ".json":
			var d struct{ Events []map[string]any }
			decodeJSON(t, text, &d)
			records = append(records, d.Events...)
		default:
			for line := range bytes.Lines(text) {
				if !json.Valid(line) {
					continue // the torn end
				}
				var r map[string]any
				decodeJSON(t, line, &r)
				records = append(records, r)
			}
		}
	}
	return records
}

var exportSeed = flag.Uint64("export-seed", 0, "the order in which TestTelemetryExports sends; 0: another one every time")

// Real exports of stormlog 0.4.3, each session in every form (JSON array, document, NDJSON, CSV, sink folder, bundle, track file), in a
// random order, each twice, with worker, gateway and sink killed between: each event counts once, in its session, and the sums are
// those that stormlog itself finds. A sink that grows is sent again and again.
func TestTelemetryExports(t *testing.T) {
	c := newCluster(t, 1)
	root, err := filepath.Abs(filepath.Join("..", "..", "..", "testdata", "telemetry", "v4", "exports"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string][]struct {
		ID           string `json:"session_id"`
		Events       uint64
		Types        map[string]uint64 `json:"event_types"`
		Allocation   int64             `json:"allocation_bytes"`
		Deallocation int64             `json:"deallocation_bytes"`
		Peak         uint64            `json:"peak_allocated"`
	}
	text = regexp.MustCompile(`(?s)\{\s*"error": \{.*?\}\s*\}`).ReplaceAll(text, []byte("null")) // its loader cannot read those
	decodeJSON(t, text, &expected)
	want, types := map[string][]uint64{}, map[string][]uint64{}
	for _, list := range expected {
		for _, s := range list {
			id := "mem:" + s.ID
			want[id] = []uint64{s.Events, uint64(s.Allocation), uint64(-s.Deallocation), s.Peak}
			for kind, n := range s.Types {
				types[id+" "+kind] = []uint64{n}
			}
		}
	}
	if len(want) != 5 || len(types) < 20 {
		t.Fatalf("%d sessions are expected, %d kinds", len(want), len(types))
	}
	// A sink that is torn in the middle of a line, at each of ten moments of its growth.
	sink := filepath.Join(root, "cpu_sink_killed")
	growing := t.TempDir()
	grow := func(part, of int) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(sink, "segment-*.jsonl"))
		if err != nil || len(names) != 4 {
			t.Fatal(names, err)
		}
		var whole [][]byte
		total := 0
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, b)
			total += len(b)
		}
		left := total * part / of
		for i, b := range whole {
			b = b[:min(len(b), left)]
			left -= len(b)
			if err := os.WriteFile(filepath.Join(growing, filepath.Base(names[i])), bytes.Clone(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Everything there is, and each session in each of the other forms.
	var paths []string
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "expected.json" && e.Name() != "cpu_tracker_timeline_stats.json" {
			paths = append(paths, filepath.Join(root, e.Name()))
		}
	}
	if len(paths) != 10 {
		t.Fatalf("%q are not the exports there were", paths)
	}
	for name, n := range map[string]int{"cpu_tracker_events.json": 50, "cpu_sink_killed": 69, "cpu_tracker_events_v3_0.3.9.json": 49,
		"tf_track.json": 28} {
		records := exportedRecords(t, filepath.Join(root, name))
		if len(records) != n {
			t.Fatalf("%s: %d records, want %d", name, len(records), n)
		}
		paths = append(paths, formsOf(t, name, records)...)
	}
	paths = append(paths, paths...)
	seed := cmp.Or(*exportSeed, rand.Uint64N(1e6)+1)
	t.Logf("-export-seed %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })

	key, other := c.makeKey("exports"), c.makeKey("growing")
	killed := []string{"worker0", "gateway", "sink", "worker0"}
	for i := range 10 {
		c.sendTelemetry(t, key, paths[i*len(paths)/10:(i+1)*len(paths)/10]...)
		grow(i+1, 10)
		c.sendTelemetry(t, other, growing)
		if i%2 == 0 && i/2 < len(killed) {
			c.kill(killed[i/2])
			c.start(killed[i/2])
		}
	}
	for tenant, of := range map[string]string{"exports": "mem:", "growing": "mem:29df3a28-8005-4d5b-8b0d-b8a1e85577f7"} {
		only := func(all map[string][]uint64) map[string][]uint64 {
			m := maps.Clone(all)
			maps.DeleteFunc(m, func(id string, _ []uint64) bool { return !strings.HasPrefix(id, of) })
			return m
		}
		// The monitor's file names no session.
		for query, expect := range map[string]map[string][]uint64{
			"SELECT session_id, count(), toUInt64(ifNull(sumIf(allocator_change_bytes, event_type = 'allocation'), 0)), " +
				"toUInt64(ifNull(-sumIf(allocator_change_bytes, event_type = 'deallocation'), 0)), " +
				"toUInt64(ifNull(max(allocator_allocated_bytes), 0)) FROM memory_events WHERE tenant = ? AND session_id NOT LIKE 'mem:unknown:%' " +
				"GROUP BY session_id": only(want),
			"SELECT session_id, sum(events), sum(allocation_bytes), sum(deallocation_bytes), toUInt64(max(assumeNotNull(peak_allocated_bytes))) " +
				"FROM memory_stats WHERE tenant = ? AND session_id NOT LIKE 'mem:unknown:%' GROUP BY session_id": only(want),
			"SELECT concat(session_id, ' ', event_type), count() FROM memory_events WHERE tenant = ? AND session_id NOT LIKE 'mem:unknown:%' " +
				"GROUP BY 1": only(types),
		} {
			var got map[string][]uint64
			eventually(t, 3*time.Minute, tenant, func() (bool, string) {
				var err error
				if got, err = c.tryRows(query, tenant); err != nil { // the tables may not be there yet
					return false, err.Error()
				}
				return reflect.DeepEqual(got, expect), fmt.Sprintf("%v, want %v; %s", got, expect, query)
			})
		}
		// What came again is known as that, and nothing else is amiss.
		eventually(t, 3*time.Minute, tenant+"'s books", func() (bool, string) {
			stored := c.one("SELECT count() FROM memory_events WHERE tenant = '" + tenant + "'")
			got, err := c.tryRows("SELECT '', sum(events), sum(rejected), sum(duplicates) FROM usage WHERE tenant = ? AND source = 'telemetry'",
				tenant)
			books := got[""]
			return err == nil && len(books) == 3 && books[1] == 0 && books[0] == stored+books[2] && books[2] >= stored,
				fmt.Sprintf("of %d stored, events, rejected and duplicates are %v (%v)", stored, books, err)
		})
	}
	for what, q := range map[string]struct {
		sql  string
		want uint64
	}{
		"events of version 3": {"SELECT countIf(sent_schema_version = 3) FROM memory_events WHERE tenant = 'exports' AND supports_device_used " +
			"IS NOT NULL", 49},
		// They are at its samples, and no events.
		"alerts of the track file": {"SELECT count() FROM memory_alerts WHERE tenant = 'exports' AND source = 'track_file' AND threshold = " +
			"300 * 1048576 AND context LIKE 'Memory usage 585.%' AND (session_id, timestamp_ns, device_id, rank, toInt64(value)) IN " +
			"(SELECT session_id, timestamp_ns, device_id, rank, device_used_bytes FROM memory_events WHERE tenant = 'exports' AND " +
			"event_type = 'sample')", 26},
		"alerts of track files": {"SELECT count() FROM memory_alerts WHERE source = 'track_file'", 26},
		"events of the monitor": {"SELECT count() FROM memory_events WHERE tenant = 'exports' AND session_id LIKE 'mem:unknown:%'", 12},
	} {
		eventually(t, 3*time.Minute, what, func() (bool, string) {
			n := c.one(q.sql)
			return n == q.want, fmt.Sprintf("%d, want %d", n, q.want)
		})
	}
}
