package e2e_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

var telemetryKeys = strings.Split("timestamp_ns event_type collector sampling_interval_ms pid host job_id rank local_rank world_size "+
	"device_id allocator_allocated_bytes "+
	"allocator_reserved_bytes allocator_active_bytes allocator_inactive_bytes allocator_change_bytes device_used_bytes device_free_bytes "+
	"device_total_bytes context metadata", " ")

// memoryRow is an event as encoding/json reads it: numbers as their text, null as "null".
type memoryRow map[string]string

func rowOf(t testing.TB, m map[string]any) memoryRow {
	t.Helper()
	row := memoryRow{}
	fallback := map[string]any{"rank": json.Number("0"), "world_size": json.Number("1")}
	for _, key := range telemetryKeys {
		v := m[key]
		if v == nil {
			v = fallback[key]
		}
		if v == nil && key == "local_rank" {
			v = json.Number(row["rank"])
		}
		switch v := v.(type) {
		case nil:
			row[key] = "null"
		case json.Number:
			row[key] = v.String()
		case string:
			row[key] = v
		default:
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			row[key] = string(b)
		}
	}
	return row
}

func decodeJSON(t testing.TB, text []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
}

func (r memoryRow) int(t testing.TB, key string) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(r[key], 10)
	if !ok {
		t.Fatalf("%s is %q", key, r[key])
	}
	return n
}

// memoryRows asks for a tenant's events of one kind of file, by their place in it.
func (c *cluster) memoryRows(tenant string) map[uint64]memoryRow {
	c.t.Helper()
	conn := c.open()
	defer conn.Close()
	var list []string
	for _, key := range telemetryKeys {
		list = append(list, "ifNull(toString("+key+"), 'null')")
	}
	rs, err := conn.Query(c.t.Context(), "SELECT upload_index, toUInt8(toUnixTimestamp64Nano(at) = timestamp_ns), ["+strings.Join(list, ",")+
		"] FROM memory_events WHERE tenant = ?", tenant)
	if err != nil {
		c.t.Fatal(err)
	}
	defer rs.Close()
	out := map[uint64]memoryRow{}
	for rs.Next() {
		var index uint32
		var at uint8
		var values []string
		if err := rs.Scan(&index, &at, &values); err != nil {
			c.t.Fatal(err)
		}
		if at != 1 {
			c.t.Errorf("%s, event %d: at is not timestamp_ns", tenant, index)
		}
		row := memoryRow{}
		for i, v := range values {
			row[telemetryKeys[i]] = strings.ToValidUTF8(v, "\uFFFD")
		}
		if out[uint64(index)] != nil {
			c.t.Errorf("%s: event %d is there twice", tenant, index)
		}
		out[uint64(index)] = row
	}
	if err := rs.Err(); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// sameRow compares; metadata by what it says.
func sameRow(t testing.TB, got, want memoryRow) string {
	var d []string
	for _, key := range telemetryKeys {
		a, b := got[key], want[key]
		if key == "metadata" && a != b {
			// NaN and Infinity are beyond encoding/json.
			r := strings.NewReplacer("NaN", `"NaN"`, "-Infinity", `"-Infinity"`, "Infinity", `"Infinity"`)
			var x, y any
			decodeJSON(t, []byte(r.Replace(a)), &x)
			decodeJSON(t, []byte(r.Replace(b)), &y)
			if reflect.DeepEqual(x, y) {
				continue
			}
		}
		if a != b {
			d = append(d, fmt.Sprintf("%s is %q, want %q", key, a, b))
		}
	}
	return strings.Join(d, "; ")
}

// memorySums are what a tenant's minutes hold, by session, device, rank and minute, and what they should.
var memorySumColumns = []string{"events", "allocated_sum", "reserved_sum", "used_sum", "active_events", "active_sum", "allocations",
	"allocation_bytes", "deallocations", "deallocation_bytes", "warnings", "criticals",
	"fragmented_events", "utilization_events"}
var memoryPeakColumns = []string{"allocated_peak", "reserved_peak", "used_peak", "active_peak", "total_peak", "world_size"}

func (c *cluster) memorySums(tenant string) (map[string][]uint64, error) {
	var list []string
	for _, col := range memorySumColumns {
		list = append(list, "sum("+col+")")
	}
	for _, col := range memoryPeakColumns {
		list = append(list, "toUInt64(max("+col+"))")
	}
	return c.tryRows("SELECT concat(toString(device_id), ' ', toString(rank), ' ', toString(toUnixTimestamp64Nano(bucket))), "+
		strings.Join(list, ", ")+
		" FROM memory_stats_data WHERE tenant = ? GROUP BY device_id, rank, bucket", tenant)
}

func wantSums(t testing.TB, rows map[uint64]memoryRow) map[string][]uint64 {
	sums := map[string]map[string]*big.Int{}
	for _, r := range rows {
		bucket := r.int(t, "timestamp_ns")
		bucket.Sub(bucket, new(big.Int).Mod(bucket, big.NewInt(60e9)))
		key := r["device_id"] + " " + r["rank"] + " " + bucket.String()
		if sums[key] == nil {
			sums[key] = map[string]*big.Int{}
		}
		at := func(column string) *big.Int {
			if sums[key][column] == nil {
				sums[key][column] = new(big.Int)
			}
			return sums[key][column]
		}
		one := big.NewInt(1)
		level := func(name, of string) {
			n := r.int(t, of)
			at(name+"_sum").Add(at(name+"_sum"), n)
			if at(name+"_peak").Cmp(n) < 0 {
				at(name + "_peak").Set(n)
			}
		}
		at("events").Add(at("events"), one)
		level("allocated", "allocator_allocated_bytes")
		level("reserved", "allocator_reserved_bytes")
		level("used", "device_used_bytes")
		if r["allocator_active_bytes"] != "null" {
			at("active_events").Add(at("active_events"), one)
			level("active", "allocator_active_bytes")
		}
		if r["allocator_reserved_bytes"] != "0" {
			at("fragmented_events").Add(at("fragmented_events"), one)
		}
		if v := r["device_total_bytes"]; v != "null" && v != "0" {
			at("utilization_events").Add(at("utilization_events"), one)
			if n := r.int(t, "device_total_bytes"); at("total_peak").Cmp(n) < 0 {
				at("total_peak").Set(n)
			}
		}
		if n := r.int(t, "world_size"); at("world_size").Cmp(n) < 0 {
			at("world_size").Set(n)
		}
		change := new(big.Int).Abs(r.int(t, "allocator_change_bytes"))
		switch kind := r["event_type"]; kind {
		case "allocation", "deallocation":
			at(kind+"s").Add(at(kind+"s"), one)
			at(kind+"_bytes").Add(at(kind+"_bytes"), change)
		case "warning":
			at("warnings").Add(at("warnings"), one)
		case "critical", "error":
			at("criticals").Add(at("criticals"), one)
		}
	}
	out := map[string][]uint64{}
	for key, columns := range sums {
		for _, c := range append(append([]string(nil), memorySumColumns...), memoryPeakColumns...) {
			n := columns[c]
			if n == nil {
				n = new(big.Int)
			}
			if strings.HasSuffix(c, "_sum") || strings.HasSuffix(c, "_bytes") {
				if most := new(big.Int).SetUint64(1<<63 - 1); n.Cmp(most) > 0 {
					n = most
				}
			}
			out[key] = append(out[key], n.Uint64())
		}
	}
	return out
}

// checkMemory waits until SQL has what is wanted of a tenant and compares every field and every sum.
func (c *cluster) checkMemory(t *testing.T, tenant string, want map[uint64]memoryRow, rejected uint64) {
	t.Helper()
	eventually(t, 3*time.Minute, tenant, func() (bool, string) {
		n := c.one("SELECT count() FROM memory_events WHERE tenant = '" + tenant + "'")
		m := c.one("SELECT sum(events) FROM memory_stats WHERE tenant = '" + tenant + "'")
		r := c.one("SELECT sum(rejected) FROM usage WHERE tenant = '" + tenant + "'")
		return n >= uint64(len(want)) && m >= uint64(len(want)) && r >= rejected,
			fmt.Sprintf("%d events, %d in minutes, %d rejects; want %d and %d", n, m, r, len(want), rejected)
	})
	got := c.memoryRows(tenant)
	if len(got) != len(want) {
		t.Errorf("%s: %d events, want %d", tenant, len(got), len(want))
	}
	for i, w := range want {
		if d := sameRow(t, got[i], w); d != "" {
			t.Errorf("%s, event %d: %s", tenant, i, d)
		}
	}
	minutes := wantSums(t, want)
	eventually(t, 3*time.Minute, "memory_stats of "+tenant, func() (bool, string) {
		sums, err := c.memorySums(tenant)
		return err == nil && reflect.DeepEqual(sums, minutes), fmt.Sprintf("%v (%v)\nwant %v", sums, err, minutes)
	})
	eventually(t, 3*time.Minute, "usage of "+tenant, func() (bool, string) {
		got, err := c.tryRows("SELECT '', sum(events), sum(rejected), sum(duplicates) FROM usage WHERE tenant = ? AND source = 'telemetry'",
			tenant)
		books := got[""]
		// What is sent again is received again, and a duplicate.
		return err == nil && len(books) == 3 && books[0]-books[2] == uint64(len(want))+rejected && books[1] == rejected &&
				books[2]%(uint64(len(want))+rejected) == 0,
			fmt.Sprintf("%v (%v), want %d events and %d rejected, and whole repeats", books, err, len(want), rejected)
	})
}

// sendTelemetry runs `warpline send` and returns what it said. Some records may be refused, and no worker may be there.
func (c *cluster) sendTelemetry(t *testing.T, key string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"send", "--no-wait", "--url", "http://" + c.gatewayAddr, "--key", key, "--host",
		"node-b"}, args...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("send %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Every export and every case of the peer's vectors is in SQL with all its fields, and adds up, each sent twice.
func TestTelemetry(t *testing.T) {
	c := newCluster(t, 1)
	exports, err := filepath.Abs(filepath.Join("..", "..", "..", "testdata", "telemetry"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(exports, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	number := func(events []map[string]any) map[uint64]memoryRow {
		out := map[uint64]memoryRow{}
		for i, e := range events {
			out[uint64(i)] = rowOf(t, e)
		}
		return out
	}
	want, rejected, paths := map[string]map[uint64]memoryRow{}, map[string]uint64{}, map[string]string{}

	for tenant, name := range map[string]string{"cpu-json": "exports/cpu_tracker_events.json",
		"gpu-json": "exports/gpu_tracker_rank1_events.json"} {
		var events []map[string]any
		decodeJSON(t, read(name), &events)
		want[tenant], paths[tenant] = number(events), filepath.Join(exports, name)
	}
	var track struct{ Events []map[string]any }
	decodeJSON(t, read("exports/tf_track_output.json"), &track)
	want["tf"], paths["tf"] = number(track.Events), filepath.Join(exports, "exports/tf_track_output.json")

	cells, err := csv.NewReader(bytes.NewReader(read("exports/cpu_tracker_events.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want["cpu-csv"], paths["cpu-csv"] = map[uint64]memoryRow{}, filepath.Join(exports, "exports/cpu_tracker_events.csv")
	for i, line := range cells[1:] {
		row := memoryRow{}
		for j, key := range cells[0] {
			if row[key] = line[j]; line[j] == "" {
				row[key] = "null"
			}
		}
		delete(row, "schema_version")
		want["cpu-csv"][uint64(i)] = row
	}

	// The bundle: the peer's conversion, with what it loses put back.
	var oom, converted []map[string]any
	decodeJSON(t, read("exports/oom_bundle/events.json"), &oom)
	decodeJSON(t, read("exports/oom_bundle_events_as_v2.json"), &converted)
	for i, e := range converted {
		for to, from := range map[string]string{"allocator_active_bytes": "active_memory", "allocator_inactive_bytes": "inactive_memory",
			"device_used_bytes": "device_used", "device_free_bytes": "device_free"} {
			e[to] = oom[i][from]
		}
		e["pid"], e["host"], e["sampling_interval_ms"] = json.Number("3975"), "node-b", json.Number("50")
	}
	want["oom"], paths["oom"] = number(converted), filepath.Join(exports, "exports", "oom_bundle")
	var told map[string]any
	decodeJSON(t, read("exports/oom_bundle/metadata.json"), &told)
	told["created_at_utc"] = "2026-11-20T11:54:33Z"
	for i, e := range converted {
		m, _ := e["metadata"].(map[string]any)
		m["oom_bundle"] = "oom_dump_20261120T115433Z_3975_cuda_1"
		if e["event_type"] == "error" {
			m["oom"] = told
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		want["oom"][uint64(i)]["metadata"] = string(b)
	}

	// The peer's cases, a line each.
	for tenant, name := range map[string]string{"v2-cases": "v2_cases.jsonl", "legacy-cases": "legacy_cases.jsonl"} {
		want[tenant] = map[uint64]memoryRow{}
		var body bytes.Buffer
		lines := bufio.NewScanner(bytes.NewReader(read(name)))
		lines.Buffer(nil, 1<<20)
		index := uint64(0)
		for lines.Scan() {
			var one struct {
				Name       string
				Input      json.RawMessage
				Permissive *bool          `json:"permissive_legacy"`
				Output     map[string]any `json:"output"`
				Strict     struct {
					Output map[string]any `json:"output"`
				} `json:"from_record_strict"`
				Collector *string `json:"default_collector"`
				Interval  *int    `json:"default_sampling_interval_ms"`
			}
			text := lines.Bytes()
			if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Infinity")) {
				continue // beyond this oracle; proto/telemetry's tests have them
			}
			decodeJSON(t, text, &one)
			if one.Permissive != nil && !*one.Permissive || one.Collector != nil || one.Interval != nil {
				continue
			}
			output := one.Strict.Output
			if output == nil {
				output = one.Output
			}
			// Most cases are one event with something changed: each is a session of its own, or they would count once.
			own := fmt.Sprintf("case %d", index)
			if output != nil {
				var input map[string]any
				decodeJSON(t, one.Input, &input)
				if metadata, ok := input["metadata"].(map[string]any); ok && input["schema_version"] != nil {
					metadata["session_id"] = own
					output["metadata"].(map[string]any)["session_id"] = own
				} else {
					input["session_id"] = own
				}
				text, err := json.Marshal(input)
				if err != nil {
					t.Fatal(err)
				}
				one.Input = text
			}
			body.Write(one.Input)
			body.WriteByte('\n')
			if output != nil && !beyond64(output) {
				want[tenant][index] = rowOf(t, output)
			} else {
				rejected[tenant]++
			}
			index++
		}
		paths[tenant] = filepath.Join(t.TempDir(), tenant+".ndjson")
		if err := os.WriteFile(paths[tenant], body.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for tenant, path := range paths {
		key := c.makeKey(tenant)
		args := []string{path}
		if tenant == "v2-cases" { // some of them lack the version, and would be converted
			args = append(args, "--permissive-legacy=false")
		}
		first, again := c.sendTelemetry(t, key, args...), c.sendTelemetry(t, key, args...)
		if !strings.Contains(first, fmt.Sprintf("%d record", len(want[tenant]))) || strings.Contains(first, "before") ||
			!strings.Contains(again, "stored before") {
			t.Errorf("%s: first %s, again %s", tenant, first, again)
		}
	}
	for tenant := range paths {
		t.Run(tenant, func(t *testing.T) {
			c.checkMemory(t, tenant, want[tenant], rejected[tenant])
			distinct := c.one("SELECT uniqExact((host, pid, ifNull(job_id, '-'), rank, record_session_id)) FROM memory_events WHERE tenant = '" +
				tenant + "'")
			eventually(t, 3*time.Minute, "sessions", func() (bool, string) {
				sessions := c.one("SELECT count() FROM sessions WHERE tenant = '" + tenant + "' AND source = 'telemetry' AND samples > 0")
				samples := c.one("SELECT sum(samples) FROM sessions WHERE tenant = '" + tenant + "'")
				return samples == uint64(len(want[tenant])) && sessions == distinct,
					fmt.Sprintf("%d sessions with %d samples, want %d with %d", sessions, samples, distinct, len(want[tenant]))
			})
		})
	}
	for tenant, origin := range map[string]string{"cpu-csv": "csv", "cpu-json": "json", "tf": "tf", "oom": "oom"} {
		if n := c.one("SELECT count() FROM memory_events WHERE tenant = '" + tenant + "' AND origin = '" + origin + "' AND legacy = " +
			strconv.Itoa(map[bool]int{true: 1}[tenant == "oom"])); n != uint64(len(want[tenant])) {
			t.Errorf("%s: %d events of origin %s", tenant, n, origin)
		}
	}
	// A folder of all of them, a diagnose bundle among them, which is none.
	key := c.makeKey("folder")
	said := c.sendTelemetry(t, key, filepath.Join(exports, "exports"))
	if n := strings.Count(said, " stored, 0 refused"); n != 6 {
		t.Errorf("%d files of the folder were sent: %s", n, said)
	}
}

// beyond64 reports an integer that no column holds: a listed divergence.
func beyond64(m map[string]any) bool {
	for _, v := range m {
		if n, ok := v.(json.Number); ok {
			if _, err := strconv.ParseInt(n.String(), 10, 64); err != nil {
				return true
			}
		}
	}
	return false
}

// A long export goes in within bounded memory, and once however often it is sent.
func TestTelemetryLongExport(t *testing.T) {
	const records, ranks = 200_000, 8
	path := filepath.Join(t.TempDir(), "export.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var allocated uint64
	for i := range records {
		lead := ",\n"
		if i == 0 {
			lead = "[\n"
		}
		a := uint64(1e9 + i*4096)
		allocated += a
		fmt.Fprintf(w, lead+`  {
    "schema_version": 2,
    "timestamp_ns": %d,
    "event_type": %q,
    "collector": "stormlog.cuda_tracker",
    "sampling_interval_ms": 100,
    "pid": %d,
    "host": "node-a",
    "job_id": "train-7",
    "rank": %d,
    "local_rank": %d,
    "world_size": %d,
    "device_id": %d,
    "allocator_allocated_bytes": %d,
    "allocator_reserved_bytes": 17179869184,
    "allocator_active_bytes": %d,
    "allocator_inactive_bytes": 52428800,
    "allocator_change_bytes": 4096,
    "device_used_bytes": 17179869184,
    "device_free_bytes": 0,
    "device_total_bytes": 17179869184,
    "context": "Memory allocated: 4.00 KB",
    "metadata": {
      "backend": "cuda",
      "supports_device_total": true,
      "supports_device_free": true,
      "sampling_source": "torch.cuda.memory_allocated/reserved"
    }
  }`, 1700000000000000000+int64(i)*1e8, []string{"allocation", "peak"}[i%2], 100+i%ranks, i%ranks, i%ranks, ranks, i%ranks, a, a)
	}
	fmt.Fprintln(w, "\n]")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	info, _ := f.Stat()
	f.Close()
	c := newCluster(t, 1)
	key := c.makeKey("long")
	pid := c.roles["gateway"].cmd.Process.Pid
	idle := memoryOf(t, pid, "VmRSS:")
	pack(t, path)
	for i, name := range []string{path, path, path + ".gz"} {
		began, want := time.Now(), "of 8 sessions stored, 0 refused\n"
		if i > 0 {
			want = "stored before"
		}
		if said := c.sendTelemetry(t, key, name); !strings.Contains(said, want) {
			t.Errorf("it says %s", said)
		}
		peak := memoryOf(t, pid, "VmHWM:")
		t.Logf("%d records, %d MB, in %v: the gateway is at %.1f MiB, at most %.1f MiB over %.1f MiB idle", records, info.Size()/1e6,
			time.Since(began).Round(time.Millisecond),
			mebi(memoryOf(t, pid, "VmRSS:")), mebi(peak-idle), mebi(idle))
		if over := peak - idle; over > 32<<20 {
			t.Errorf("the gateway needs %.1f MiB over idle for it, want at most 32", mebi(over))
		}
		if i < 2 {
			c.kill("worker0") // in the middle of folding it
			c.start("worker0")
		}
	}
	// Nor does it need more for what is made to hurt.
	good := `{"timestamp":1700000000,"memory_mb":2}`
	var many bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&many, `{"timestamp":1700000000,"memory_mb":2,"pid":%d,"message":"%s"}`+"\n", i, strings.Repeat("m", 500))
	}
	for name, hostile := range map[string]struct{ text, want string }{
		"string.json": {"[" + good + `,{"timestamp":1,"message":"` + strings.Repeat("x", 150<<20) + `"},` + good + "]",
			"2 records of 1 session stored, 1 refused\n  record 1: record is longer than"},
		"depth.json": {strings.Repeat("[", 100<<20), "refused: 400"},
		"quote.csv": {"timestamp,memory_mb,type\n1700000000,2,a\n1700000000,2,\"" + strings.Repeat("x", 100<<20) + "\n1700000000,2,a\n",
			"2 records of 1 session stored, 1 refused\n  record 1: record is longer than"},
		"processes.ndjson": {many.String(), "4096 records of 4096 sessions stored, 15904 refused\n  record 4096: the upload holds records of " +
			"more than 4096 processes"},
		"keys.json": {"[{" + strings.Repeat(`"a":1,`, 160_000) + `"b":2},` + good + "]", "1 record of 1 session stored, 1 refused"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(hostile.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(binary, "send", "--wait", "5m", "--url", "http://"+c.gatewayAddr, "--key", c.makeKey("hostile"), path).
			CombinedOutput()
		if !strings.Contains(string(out), hostile.want) {
			t.Errorf("%s: it says %s", name, out)
		}
		over := memoryOf(t, pid, "VmHWM:") - idle
		if t.Logf("%s: at most %.1f MiB over idle", name, mebi(over)); over > 32<<20 {
			t.Errorf("the gateway needs %.1f MiB over idle for %s, want at most 32", mebi(over), name)
		}
		os.Remove(path)
	}
	eventually(t, 3*time.Minute, "all of it", func() (bool, string) {
		n := c.one("SELECT sum(events) FROM memory_stats WHERE tenant = 'long'")
		m := c.one("SELECT count() FROM memory_events WHERE tenant = 'long'")
		return n == records && m == records, fmt.Sprintf("%d in minutes, %d events", n, m)
	})
	sums := c.rows("SELECT '', sum(allocated_sum), sum(allocations), sum(allocation_bytes), uniqExact(session_id) FROM memory_stats_data " +
		"WHERE tenant = 'long'")[""]
	if sums[0] != allocated || sums[1] != records/2 || sums[2] != records/2*4096 || sums[3] != ranks {
		t.Errorf("sums %v, want %d, %d, %d in %d sessions", sums, allocated, records/2, records/2*4096, ranks)
	}
	eventually(t, 3*time.Minute, "usage", func() (bool, string) {
		n := c.one("SELECT sum(events) - sum(duplicates) FROM usage WHERE tenant = 'long'")
		return n == records, fmt.Sprint(n)
	})
}

// pack writes path.gz.
func pack(t testing.TB, path string) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if _, err := io.Copy(z, in); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// memoryOf reads a line of /proc/<pid>/status, in bytes.
func memoryOf(t testing.TB, pid int, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("no /proc to read the gateway's memory from")
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s in %s", name, b)
	return 0
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }
