package table_test

import (
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gpuElement is what these tests read of an event of a trace.
type gpuElement struct {
	Ph, Cat, Name string
	TS, Dur       json.Number
	Args          map[string]any
}

var gpuKinds = map[string]string{"kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
	"gpu_memset": "memset", "Memset": "memset",
	"cuda_runtime": "runtime", "Runtime": "runtime", "cuda_driver": "driver"}

// nanoseconds of a decimal number of us.
func nanoseconds(t *testing.T, us json.Number) int64 {
	t.Helper()
	whole, part, _ := strings.Cut(us.String(), ".")
	n, err := strconv.ParseInt(whole+(part + "000")[:3], 10, 64)
	if us != "" && err != nil {
		t.Fatal(err)
	}
	return n
}

func sqlText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

// insertSlices stores rows of (started_at ns, duration_ns, kind, name, device, correlation, args).
func insertSlices(s *store, session string, rows [][7]any) {
	var text []string
	for _, r := range rows {
		text = append(text, fmt.Sprintf("('red', %s, fromUnixTimestamp64Nano(toInt64(%d)), %d, 'X', '%s', %s, '1', '1', %d, 7, %d, %s)",
			sqlText(session), r[0], r[1], r[2], sqlText(r[3].(string)), r[4], r[5], sqlText(r[6].(string))))
	}
	for part := range slices.Chunk(text, 500) {
		s.Exec("INSERT INTO {db}.trace_slices_data (tenant, session_id, started_at, duration_ns, phase, kind, name, pid, tid, device_id, " +
			"stream_id, correlation, args) VALUES " + strings.Join(part, ", "))
	}
}

// trace_bandwidth says of every real trace, and of one in which many copies overlap, what encoding/json and adding up say: how fast copies
// of each name move memory together.
func TestTraceBandwidth(t *testing.T) {
	s := newStore(t, true)
	found, err := filepath.Glob("../../testdata/traces/real/*.json.gz")
	if err != nil || len(found) < 7 {
		t.Fatalf("%d traces, %v", len(found), err)
	}
	points := 0
	for _, path := range append(found, "") {
		session := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		type edge struct {
			at    int64
			speed float64
		}
		edges, calls := map[[2]string][]edge{}, map[uint64]int64{}
		var rows [][7]any
		elements := manyCopies()
		if path != "" {
			elements = gpuElements(t, path)
		}
		for _, e := range elements {
			correlation, _ := e.Args["correlation"].(json.Number)
			c, _ := strconv.ParseUint(correlation.String(), 10, 64)
			kind, at := gpuKinds[e.Cat], nanoseconds(t, e.TS)
			device, _ := e.Args["device"].(json.Number)
			d, err := strconv.Atoi(device.String())
			if err != nil {
				d = -1
			}
			args, err := json.Marshal(e.Args)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, [7]any{at, nanoseconds(t, e.Dur), kind, e.Name, d, c, string(args)})
			if was, ok := calls[c]; (kind == "runtime" || kind == "driver") && c != 0 && (!ok || at < was) {
				calls[c] = at
			}
		}
		insertSlices(s, session, rows)
		for i, e := range elements {
			r := rows[i]
			bytes, _ := e.Args["bytes"].(json.Number)
			n, _ := bytes.Float64()
			took := r[1].(int64)
			call, launched := calls[r[5].(uint64)]
			if (r[2] != "memcpy" && r[2] != "memset") || n == 0 || took == 0 || launched && call-r[0].(int64) > 1e9 {
				continue
			}
			key := [2]string{fmt.Sprint(r[4]), e.Name}
			edges[key] = append(edges[key], edge{r[0].(int64), n / float64(took)}, edge{r[0].(int64) + took, -n / float64(took)})
		}
		want := map[string]float64{}
		for key, of := range edges {
			slices.SortFunc(of, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
			speed := 0.0
			for i, e := range of {
				if speed += e.speed; i == len(of)-1 || of[i+1].at != e.at {
					want[fmt.Sprintf("%s|%s|%d", key[0], key[1], e.at)] = speed
				}
			}
		}
		lines := strings.Fields(s.Query("SELECT base64Encode(concat(toString(device_id), '|', name, '|', " +
			"toString(toUnixTimestamp64Nano(at)), '|', toString(gb_per_s))) FROM {db}.trace_bandwidth " +
			"WHERE tenant = 'red' AND session_id = " + sqlText(session)))
		points += len(lines)
		if len(lines) != len(want) {
			t.Errorf("%s: %d rows, want %d", session, len(lines), len(want))
		}
		for _, line := range lines {
			raw, _ := base64.StdEncoding.DecodeString(line)
			text := string(raw)
			cut := strings.LastIndex(text, "|")
			got, err := strconv.ParseFloat(text[cut+1:], 64)
			if w, ok := want[text[:cut]]; err != nil || !ok || math.Abs(got-w) > 1e-6+1e-9*w {
				t.Errorf("%s: %s, want %v", session, text, w)
			}
		}
	}
	if points < 400 {
		t.Errorf("only %d changes in all traces: nothing was compared", points)
	}
}

// manyCopies overlap, begin and end together, have no length or no bytes, and one is a minute before its call.
func manyCopies() (all []gpuElement) {
	random := rand.New(rand.NewPCG(5, 13))
	us := func(n int64) json.Number { return json.Number(fmt.Sprintf("1700000000%06d.%03d", n/1000, n%1000)) }
	for i := range 300 {
		at := random.Int64N(400) * 500
		args := map[string]any{"bytes": json.Number(fmt.Sprint(1 + random.Int64N(1<<30))), "device": json.Number(fmt.Sprint(i % 2)),
			"correlation": json.Number(fmt.Sprint(i + 1))}
		if i%20 == 3 {
			delete(args, "bytes")
		}
		all = append(all, gpuElement{"X", "gpu_memcpy", []string{"Memcpy HtoD", "Memcpy DtoH"}[i%3%2], us(at),
			json.Number(fmt.Sprintf("%d.5", random.Int64N(40))), args})
		if i%30 == 7 {
			all[len(all)-1].Dur = "0"
		}
		call := us(max(at-100, 0))
		if i == 11 {
			call = "1700000060000000"
		}
		all = append(all, gpuElement{"X", "cuda_runtime", "cudaMemcpyAsync", call, "3",
			map[string]any{"correlation": args["correlation"]}})
	}
	return all
}

func gpuElements(t *testing.T, path string) (all []gpuElement) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ TraceEvents []gpuElement }
	d := json.NewDecoder(z)
	d.UseNumber()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(file.TraceEvents, func(e gpuElement) bool { return e.Ph != "X" || gpuKinds[e.Cat] == "" })
}

// trace_collectives of a job of four ranks: with Seq, in any order, and without, where the first of a name in each rank belong together.
// A rank lacks one operation, process groups have the same Seq, a fifth rank belongs to another job, and a sixth to none.
func TestTraceCollectives(t *testing.T) {
	s := newStore(t, true)
	type part struct {
		at, till int64
		rank     int
	}
	want := map[string][]part{}
	random := rand.New(rand.NewPCG(13, 7))
	for rank := range 6 {
		job, session := "night", fmt.Sprintf("rank-%d", rank)
		place := rank + 1
		switch rank {
		case 4:
			job = "day"
		case 5:
			job, place = "", 0
		}
		s.Exec(fmt.Sprintf("INSERT INTO {db}.sessions_data (tenant, session_id, source, run_id, place, world_size, last_received_at) VALUES "+
			"('red', '%s', 'trace', '%s', %d, 6, now64())", session, job, place))
		if job == "" {
			job = session
		}
		var rows [][7]any
		add := func(key, name, args string, at int64) {
			took := 1 + random.Int64N(5000)
			rows = append(rows, [7]any{at, took, "kernel", name, 0, 0, args})
			want[job+"|"+key] = append(want[job+"|"+key], part{at, at + took, place - 1})
		}
		for n := range 40 {
			at := int64(1e18) + int64(n)*10_000 + random.Int64N(8000)
			if rank != 2 || n != 17 {
				add(fmt.Sprintf("dp|%d|0", n), "ncclDevKernel_AllReduce", fmt.Sprintf(`{"Seq":%d,"Process Group Name":"dp"}`, n), at)
			}
			add(fmt.Sprintf("tp|%d|0", n), "ncclKernel_Broadcast", fmt.Sprintf(`{"Seq":%d,"Process Group Name":"tp"}`, n), at+1)
			add(fmt.Sprintf("|-1|%d AllGather", n+1), "ncclKernel_AllGather", `{}`, at+2)
			add(fmt.Sprintf("|-1|%d Reduce", n+1), "rcclReduce", ``, at+3)
			rows = append(rows, [7]any{at, 9, "kernel", "gemm", 0, 0, `{"Seq":1}`})
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		insertSlices(s, session, rows)
	}
	expected := map[string]bool{}
	for key, parts := range want {
		first, last, end, late := int64(math.MaxInt64), int64(0), int64(math.MaxInt64), 0
		for _, p := range parts {
			first, end = min(first, p.at), min(end, p.till)
			if p.at > last {
				last, late = p.at, p.rank
			}
		}
		key, _, _ = strings.Cut(key, " ")
		expected[fmt.Sprintf("%s|%d|%d|%d|%d|%d", key, len(parts), first, last-first, max(end-last, 0), late)] = true
	}
	lines := strings.Fields(s.Query("SELECT concat(run_id, '|', process_group, '|', toString(seq), '|', toString(ordinal), '|', " +
		"toString(ranks), '|', toString(toUnixTimestamp64Nano(started_at)), '|', toString(skew_ns), '|', toString(transfer_ns), '|', " +
		"toString(late_rank)) FROM {db}.trace_collectives"))
	if len(lines) != 4*40*3 || len(lines) != len(expected) {
		t.Errorf("%d operations, want %d", len(lines), len(expected))
	}
	for _, line := range lines {
		if !expected[line] {
			t.Errorf("%s is not what the ranks did", line)
		}
	}
}
