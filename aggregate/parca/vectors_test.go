package parca

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// wireRow is a line of the vectors.
type wireRow struct {
	At         int64             `json:"timestamp_unix_ns"`
	Labels     map[string]string `json:"labels"`
	SampleType string            `json:"sample_type"`
	Period     uint64            `json:"period"`
	Value      uint64            `json:"value"`
	Stack      []struct {
		Address    uint64 `json:"address"`
		FrameType  string `json:"frame_type"`
		Mapping    string `json:"mapping_file"`
		BuildID    string `json:"mapping_build_id"`
		SystemName string `json:"system_name"`
	} `json:"stacktrace"`
}

// vectorPart makes a part of a batch of the vectors.
func vectorPart(t testing.TB, name string) *builder {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "testdata", "parca", name+".wire_rows.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := newBuilder("gpu-node-a", "", "pc_sample_toy")
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r wireRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		var frames []string
		for _, f := range r.Stack[1:] {
			frames = append(frames, fmt.Sprint(f.Mapping, "+", f.Address, f.SystemName))
		}
		stack := uint32(0)
		if len(frames) > 0 {
			stack = b.stack(xxh3.HashString(strings.Join(frames, "\n"))%1000+1, frames...)
		}
		leaf := r.Stack[0]
		switch r.SampleType {
		case "gpu_kernel_time":
			b.kernel(r.At, leaf.SystemName, r.Value, stack)
			k := &b.Kernels[len(b.Kernels)-1]
			stream, _ := strconv.Atoi(r.Labels["cuda_stream"])
			k.StreamID = uint64(stream)
		case "gpu_pcsample":
			b.pc(r.At, leaf.SystemName, leaf.Address, r.Labels["cuda_stall_reason"], r.Value, r.Period, stack)
			row := &b.PC[len(b.PC)-1]
			row.Cubin, row.BuildID = b.text(leaf.Mapping), b.text(leaf.BuildID)
			row.SASS = b.text(r.Labels["cuda_sass_instruction"])
		default:
			b.refuse(reasonNotGPU, r.SampleType, 1)
		}
	}
	return b
}

func records(t testing.TB, name string) [][]string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "testdata", "parca", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil || len(all) < 2 {
		t.Fatalf("%d lines: %v", len(all), err)
	}
	return all[1:]
}

// bucketTotals adds pc_buckets up over time, as the lines of the vectors' answer have them.
func (o *owner) bucketTotals() map[string][2]uint64 {
	sums := map[string][2]uint64{}
	for _, r := range o.rows["pc_buckets_data"] {
		key := fmt.Sprint(r["cubin"], r["build_id"], r["function"], r["pc_offset"], r["stall_reason"], r["sass"], r["period_ns"])
		was := sums[key]
		sums[key] = [2]uint64{was[0] + r["samples"].(uint64), was[1] + r["gpu_ns"].(uint64)}
	}
	return sums
}

// kernelTotals adds the rows of kernels up by name, device and stream, by what launches and dictionaries say.
func (o *owner) kernelTotals() map[string]uint64 {
	names := o.kernelNames()
	sums := map[string]uint64{}
	for _, r := range o.rows["kernels_data"] {
		sums[fmt.Sprint(names[fmt.Sprint(r["session_id"], r["launch_id"])], r["device_id"], r["stream_id"])] += r["duration_ns"].(uint64)
	}
	return sums
}

// kernelNames is the name of every launch, by session and id. An id must have one.
func (o *owner) kernelNames() map[string]string {
	o.t.Helper()
	names, launches := map[string]string{}, map[string]string{}
	for _, r := range o.rows["dictionaries"] {
		key := fmt.Sprint(r["session_id"], r["id"])
		if was, ok := names[key]; ok && was != r["value"] {
			o.t.Errorf("id %s is %q and %q", key, was, r["value"])
		}
		names[key] = r["value"].(string)
	}
	for _, r := range o.rows["launches"] {
		name, ok := names[fmt.Sprint(r["session_id"], r["kernel_id"])]
		if !ok {
			o.t.Errorf("launch %v has no name", r)
		}
		launches[fmt.Sprint(r["session_id"], r["launch_id"])] = name
	}
	return launches
}

// batch1 and batch2 in any order, each sent twice, and over deaths of the owner: the sums are the vectors' answer.
func TestVectorsAddUp(t *testing.T) {
	want := map[string][2]uint64{}
	for _, r := range records(t, "expected_sums_batch1_plus_batch2.csv") {
		samples, _ := strconv.ParseUint(r[8], 10, 64)
		ns, _ := strconv.ParseUint(r[9], 10, 64)
		want[r[0]+r[1]+r[2]+r[3]+r[4]+r[6]+r[7]] = [2]uint64{samples, ns}
	}
	stalls := uint64(0)
	for _, r := range records(t, "expected_sums_batch1_plus_batch2.csv") {
		if r[5] == "stall" {
			n, _ := strconv.ParseUint(r[8], 10, 64)
			stalls += n
		}
	}
	kernels := map[string]uint64{}
	for _, r := range records(t, "expected_kernel_time_batch1_plus_batch2.csv") {
		kernels[r[0]+r[1]+" "+r[2]], _ = strconv.ParseUint(r[3], 10, 64)
	}
	one, two := vectorPart(t, "batch1"), vectorPart(t, "batch2")
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := newOwner(t)
		log := []sent{}
		for i, b := range []*builder{one, two, one, two} {
			log = append(log, message("parca:gpu-node-a:-:pc_sample_toy", fmt.Sprint("sha256-", i%2), 0, noon+int64(i)*1e9, &b.Part))
		}
		r.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
		for at, done := 0, 0; at < len(log); {
			o.take(log[at])
			at++
			if r.IntN(2) == 0 {
				o.publish()
				done = at
			}
			if r.IntN(3) == 0 {
				o.die(r.IntN(2) == 0 && at == done)
				at = done
			}
			o.now += 1e9
		}
		o.settle()
		if have := o.bucketTotals(); !maps.Equal(have, want) {
			t.Fatalf("seed %d: pc_buckets are\n%v\nwant\n%v", seed, have, want)
		}
		have := map[string]uint64{}
		for key, ns := range o.kernelTotals() {
			have[key] = ns
		}
		if !maps.Equal(have, kernels) {
			t.Fatalf("seed %d: kernels are %v, want %v", seed, have, kernels)
		}
		n := uint64(len(one.Kernels) + len(two.Kernels))
		if o.sum("sessions_data", "samples") != stalls || o.sum("sessions_data", "kernels") != n || o.sum("kernel_stats_data", "calls") != n {
			t.Fatalf("seed %d: %d samples, %d kernels, %d calls; want %d and %d", seed, o.sum("sessions_data", "samples"),
				o.sum("sessions_data", "kernels"), o.sum("kernel_stats_data", "calls"), stalls, n)
		}
		if o.sum("pc_cubins_data", "samples") != o.sum("pc_buckets_data", "samples") || o.sum("kernel_stacks_data", "calls") != n ||
			o.sum("kernel_stacks_data", "kernel_ns") != o.sum("kernel_stats_data", "total_ns") {
			t.Fatalf("seed %d: pc_cubins and kernel_stacks do not add up to the rows", seed)
		}
		if o.sum("usage_data", "events") != 88 || o.sum("usage_data", "duplicates") != 44 {
			t.Fatalf("seed %d: %d events, %d duplicates", seed, o.sum("usage_data", "events"), o.sum("usage_data", "duplicates"))
		}
		o.linked()
	}
}

// linked looks whether every stack has frames, its session's link to them, and a mark with them.
func (o *owner) linked() {
	o.t.Helper()
	frames := map[string]string{"0 0": ""}
	marks := 0
	for _, r := range o.rows["stack_frames_data"] {
		if r["content_hi"] == uint64(0) {
			marks++
		}
		frames[fmt.Sprint(r["content_hi"], r["content_lo"])] = r["frames"].(string)
	}
	links := map[string]bool{}
	for _, r := range o.rows["session_stacks_data"] {
		links[fmt.Sprint(r["session_id"], r["content_hi"], r["content_lo"])] = true
	}
	for _, r := range slices.Concat(o.rows["pc_buckets_data"], o.rows["kernel_stacks_data"]) {
		if r["content_hi"] != uint64(0) && !links[fmt.Sprint(r["session_id"], r["content_hi"], r["content_lo"])] {
			o.t.Fatalf("%v has no link to stack %v %v", r["session_id"], r["content_hi"], r["content_lo"])
		}
		if text, ok := frames[fmt.Sprint(r["content_hi"], r["content_lo"])]; !ok || text == "" && r["content_hi"] != uint64(0) {
			o.t.Fatalf("stack %v %v has no frames; there are %v", r["content_hi"], r["content_lo"], slices.Collect(maps.Keys(frames)))
		}
	}
	if len(frames) > 1 && marks == 0 {
		o.t.Error("there is no mark")
	}
}
