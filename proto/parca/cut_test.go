package parca

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// pieces cuts a batch and decodes every piece.
func pieces(t testing.TB, b *Batch) (sessions []string, parts []*Part) {
	t.Helper()
	events := uint64(0)
	err := b.Cut(func(p Piece) error {
		part := new(Part)
		if err := part.Decode(p.Body); err != nil {
			t.Fatal(err)
		}
		if len(p.Body) > stream.PartBytes {
			t.Fatalf("a part of %d bytes", len(p.Body))
		}
		if len(p.Session) > stream.MaxSessionBytes {
			t.Fatalf("a session id of %d bytes", len(p.Session))
		}
		rows := uint64(len(part.PC) + len(part.Kernels))
		for _, r := range part.Refused {
			rows += r.Rows
		}
		if rows != p.Events || rows == 0 {
			t.Fatalf("a part of %d rows says %d", rows, p.Events)
		}
		events += rows
		sessions, parts = append(sessions, p.Session), append(parts, part)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if events != uint64(b.Len()) {
		t.Fatalf("%d of %d rows were cut", events, b.Len())
	}
	return sessions, parts
}

// sums adds up what parts say, by everything but time.
func sums(parts []*Part) map[string]uint64 {
	m := map[string]uint64{}
	for _, p := range parts {
		s := p.Strings
		for _, r := range p.PC {
			st := p.Stacks[r.Stack]
			m[fmt.Sprint("pc", s[r.Cubin], s[r.BuildID], s[r.Function], r.Offset, s[r.Reason], s[r.SASS], r.PeriodNS, r.Device, st.Hi, st.Lo,
				st.Frames)] += r.Samples
		}
		for _, r := range p.Kernels {
			st := p.Stacks[r.Stack]
			m[fmt.Sprint("kernel", s[r.Function], r.Device, r.StreamID, r.GraphID, r.CorrID, st.Hi, st.Lo, st.Frames)] += r.DurationNS
		}
		for _, r := range p.Refused {
			m[fmt.Sprint("refused", r.Reason, r.Detail, r.Type)] += r.Rows
		}
	}
	return m
}

func table(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(vector(t, name))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range all[1:] {
		row := map[string]string{}
		for i, c := range line {
			row[all[0][i]] = c
		}
		rows = append(rows, row)
	}
	return rows
}

// Batch 1 and batch 2 together add up to the tables beside them, and every encoding gives the same parts in meaning.
func TestSumsOfVectors(t *testing.T) {
	var b Batch
	var parts []*Part
	for _, f := range []string{"batch1.v2.lz4.arrows", "batch2.v2.lz4.arrows"} {
		if err := b.DecodeArrow(vector(t, f)); err != nil {
			t.Fatal(err)
		}
		ids, p := pieces(t, &b)
		for _, id := range ids {
			if !strings.HasPrefix(id, "parca:gpu-node-a:-:pc_sample_toy:") || len(id) != len("parca:gpu-node-a:-:pc_sample_toy:")+3 {
				t.Fatal(id)
			}
		}
		parts = append(parts, p...)
	}
	got := map[string]uint64{}
	for _, p := range parts {
		if p.Process.Node != "gpu-node-a" || p.Process.PID != "" || p.Process.Comm != "pc_sample_toy" ||
			!reflect.DeepEqual(p.Process.Labels, []Label{{"cluster", "fixture"}}) {
			t.Fatalf("%+v", p.Process)
		}
		for _, r := range p.PC {
			s := p.Strings
			got[fmt.Sprint(s[r.Cubin], " ", s[r.BuildID], " ", s[r.Function], " ", r.Offset, " ", s[r.Reason], " ", s[r.SASS], " ", r.PeriodNS)] +=
				r.Samples
		}
		for _, r := range p.Kernels {
			got[fmt.Sprint(p.Strings[r.Function], " ", r.Device, " ", r.StreamID)] += r.DurationNS
		}
	}
	want := map[string]uint64{}
	for _, r := range table(t, "expected_sums_batch1_plus_batch2.csv") {
		n, _ := strconv.ParseUint(r["samples"], 10, 64)
		key := []string{r["mapping_file"], r["build_id"], r["function"], r["pc_offset"], r["stall_reason"], r["sass"], r["period_ns"]}
		want[strings.Join(key, " ")] = n
	}
	for _, r := range table(t, "expected_kernel_time_batch1_plus_batch2.csv") {
		n, _ := strconv.ParseUint(r["kernel_time_ns"], 10, 64)
		want[strings.Join([]string{r["function"], r["cuda_device"], r["cuda_stream"]}, " ")] = n
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v\nwant %v", got, want)
	}
	frames := parts[0].Stacks[1].Frames
	for _, f := range []string{"/app/train.py:41 train_step", "libcuda.so.580.65.06+0x2f4c10 [aa11bb22cc33dd44ee55ff6677889900aabbccdd]"} {
		if !slices.Contains(frames, f) {
			t.Fatalf("%q is not among %q", f, frames)
		}
	}
}

func TestEncodingsGiveTheSame(t *testing.T) {
	var b Batch
	if err := b.DecodeArrow(vector(t, "batch1.v2.lz4.arrows")); err != nil {
		t.Fatal(err)
	}
	ids, parts := pieces(t, &b)
	want := sums(parts)
	if err := b.DecodeArrowV1(vector(t, "batch1.v1.samples.arrows"), vector(t, "batch1.v1.locations.arrows")); err != nil {
		t.Fatal(err)
	}
	v1, parts := pieces(t, &b)
	if got := sums(parts); !reflect.DeepEqual(got, want) || !slices.Equal(ids, v1) {
		t.Fatalf("v1 gives %v\nv2 %v", got, want)
	}
	if err := b.DecodeOTLP(otlpOf(wantRows(t, "batch1"), 0)); err != nil {
		t.Fatal(err)
	}
	byOTLP, parts := pieces(t, &b)
	if got := sums(parts); !reflect.DeepEqual(got, want) || !slices.Equal(ids, byOTLP) {
		t.Fatalf("OTLP gives %v %v\nv2 %v %v", byOTLP, got, ids, want)
	}
}

// A message of 1.9 decodes as 1.10 without an error of protobuf, to nonsense: it is refused, with and without attributes.
func TestOldOTLPIsRefused(t *testing.T) {
	var b Batch
	rows := wantRows(t, "batch1")
	for _, without := range []bool{false, true} {
		for i := range rows {
			if without {
				rows[i].Labels = nil
			}
		}
		err := b.DecodeOTLP(otlpOf(rows, 9))
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeOldOTLP || b.Len() != 0 {
			t.Fatal(err)
		}
	}
}

// What the agent's weak stack ids mix up stays as it was sent: two kernels at one offset were sent with the first's frames.
func TestHashCollision(t *testing.T) {
	var b Batch
	if err := b.DecodeArrow(vector(t, "hash_collision.v2.lz4.arrows")); err != nil {
		t.Fatal(err)
	}
	_, parts := pieces(t, &b)
	if len(parts) != 1 || len(parts[0].PC) != 2 || parts[0].PC[0].Samples+parts[0].PC[1].Samples != 16 || len(parts[0].Stacks) != 1 {
		t.Fatalf("%+v", parts)
	}
}

// How a batch is cut depends on its bytes alone: not on what the Batch decoded before, nor on which Batch it is.
func TestCutDependsOnBytesAlone(t *testing.T) {
	cutOf := func(b *Batch) (all []string) {
		if err := b.Cut(func(p Piece) error {
			all = append(all, p.Session, string(p.Body))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	rows := manyRows(40_000)
	msg := otlpOf(rows, 0)
	var fresh, used Batch
	if err := fresh.DecodeOTLP(msg); err != nil {
		t.Fatal(err)
	}
	want := cutOf(&fresh)
	if len(want) < 8 {
		t.Fatal("too few parts to say anything: ", len(want))
	}
	if err := used.DecodeArrow(vector(t, "batch1.v2.lz4.arrows")); err != nil {
		t.Fatal(err)
	}
	cutOf(&used)
	for range 2 {
		if err := used.DecodeOTLP(msg); err != nil {
			t.Fatal(err)
		}
		if got := cutOf(&used); !slices.Equal(got, want) {
			t.Fatal("another cut")
		}
	}
}

// manyRows is rows of two processes with many instructions and labels.
func manyRows(n int) []WireRow {
	rows := make([]WireRow, n)
	for i := range rows {
		rows[i] = WireRow{
			TimestampUnixNS: 1795168800000000000 + int64(i), SampleType: "gpu_pcsample", SampleUnit: "count", Period: 433654,
			Duration: 1e9, Value: int64(i%7 + 1),
			Labels: map[string]string{
				"node": "gpu-node-a", "pid": strconv.Itoa(4000 + i%2), "comm": "python3", "cpu": strconv.Itoa(i % 8), "thread_id": "4242",
				"cuda_stall_reason":     "smsp__pcsamp_warps_issue_stalled_" + strconv.Itoa(i%18),
				"cuda_sass_instruction": []string{"LDG", "IMAD", "FFMA", "BAR"}[i/3%4],
			},
			Stacktrace: []WireFrame{
				{Address: uint64(i%500) * 16, FrameType: "cuda-pc", MappingFile: "cubin-00000000a11ce121", MappingBuildID: "f997d878",
					SystemName: "_Z10hash_churnPjiy", HasLines: true},
				{Address: 0x1000, FrameType: "native", MappingFile: "libcuda.so.580.65.06", MappingBuildID: "aa11"},
				{Address: uint64(i % 20), FrameType: "cpython", Line: uint64(i % 20), SystemName: "train_step",
					Filename: "/app/train.py", HasLines: true},
			},
		}
	}
	return rows
}

// Values of a label that changes by the row make at most LabelBuckets sessions, and every row is counted.
func TestManyLabelValues(t *testing.T) {
	rows := manyRows(100_000)
	for i := range rows {
		rows[i].Labels = map[string]string{"node": "n", "comm": "c", "request_id": strconv.Itoa(i), "cuda_stall_reason": "r"}
	}
	var b Batch
	if err := b.DecodeOTLP(otlpOf(rows, 0)); err != nil {
		t.Fatal(err)
	}
	ids, parts := pieces(t, &b)
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > LabelBuckets {
		t.Fatalf("%d sessions", len(ids))
	}
	values, samples := 0, uint64(0)
	for _, p := range parts {
		values += len(p.Process.Labels)
		for _, r := range p.PC {
			samples += r.Samples
		}
	}
	want := uint64(0)
	for _, r := range rows {
		want += uint64(r.Value)
	}
	if values != len(rows) || samples != want {
		t.Fatalf("%d values, %d samples of %d", values, samples, want)
	}
}

// Rows that cannot be are counted with what is wrong with them, and their neighbours kept.
func TestRefusedRows(t *testing.T) {
	good := manyRows(1)[0]
	for want, change := range map[string]func(*WireRow){
		"not_gpu ":                        func(w *WireRow) { w.SampleType = "samples" },
		"merged_counts gpu_time of":       func(w *WireRow) { w.SampleType = "gpu_time"; w.Labels["gpu_view"] = "pc_sample" },
		"bad_value gpu_time without":      func(w *WireRow) { w.SampleType = "gpu_time" },
		"bad_value the value is below 0":  func(w *WireRow) { w.Value = -1 },
		"bad_value samples times period":  func(w *WireRow) { w.Value, w.Period = 1<<62, 1<<10 },
		"bad_value the period is below 0": func(w *WireRow) { w.Period = -5 },
		"bad_value the time":              func(w *WireRow) { w.TimestampUnixNS = 0 },
		"bad_value the time is":           func(w *WireRow) { w.TimestampUnixNS = 1<<63 - 1 },
		"bad_value the stack is missing":  func(w *WireRow) { w.Stacktrace = nil },
		"bad_value the innermost frame":   func(w *WireRow) { w.Stacktrace = w.Stacktrace[1:] },
		"bad_value the kernel has no":     func(w *WireRow) { w.Stacktrace[0].SystemName = "" },
	} {
		bad := manyRows(1)[0]
		change(&bad)
		var b Batch
		if err := b.DecodeOTLP(otlpOf([]WireRow{good, bad, good}, 0)); err != nil {
			t.Fatal(want, err)
		}
		_, parts := pieces(t, &b)
		kept, refused := 0, []Refused(nil)
		for _, p := range parts {
			kept += len(p.PC)
			refused = append(refused, p.Refused...)
		}
		if kept != 2 || len(refused) != 1 || !strings.HasPrefix(refused[0].Reason+" "+refused[0].Detail, want) ||
			refused[0].Type != bad.SampleType || refused[0].Minute%6e10 != 0 {
			t.Fatalf("%s: %d kept, refused %+v", want, kept, refused)
		}
	}
}

// Merged times are kernels, period 0 and unresolved reasons are kept.
func TestKeptRows(t *testing.T) {
	zero, unresolved, merged := manyRows(1)[0], manyRows(1)[0], manyRows(1)[0]
	zero.Period = 0
	unresolved.Labels["cuda_stall_reason"] = "stall_reason_17"
	merged.SampleType, merged.Value = "gpu_time", 1500
	merged.Labels = map[string]string{"gpu_view": "kernel_time", "cuda_device": "3", "cuda_stream": "7", "cuda_graph": "9", "cuda_id": "11"}
	merged.Stacktrace[0] = WireFrame{FrameType: "cuda", SystemName: "k", Filename: "UNKNOWN", HasLines: true}
	var b Batch
	if err := b.DecodeOTLP(otlpOf([]WireRow{zero, unresolved, merged}, 0)); err != nil {
		t.Fatal(err)
	}
	ids, parts := pieces(t, &b)
	if len(ids) != 2 || ids[0] != "parca:gpu-node-a:4000:python3" || ids[1] != "parca:-:-:-" {
		t.Fatal(ids)
	}
	p, k := parts[0], parts[1].Kernels[0]
	if len(p.PC) != 2 || p.PC[0].PeriodNS != 0 || p.Strings[p.PC[1].Reason] != "stall_reason_17" || p.PC[0].Device != -1 {
		t.Fatalf("%+v", p)
	}
	if k.DurationNS != 1500 || k.Device != 3 || k.StreamID != 7 || k.GraphID != 9 || k.CorrID != 11 {
		t.Fatalf("%+v", k)
	}
	if p.Stacks[p.PC[0].Stack].Hi != parts[1].Stacks[k.Stack].Hi {
		t.Fatal("one launch stack has two hashes")
	}
}

func TestPartComesBack(t *testing.T) {
	want := &Part{
		Process: Process{"n", "1", "c", []Label{{"a", "b"}, {"a", "c"}}}, Strings: []string{"", "f", "r"},
		Stacks:  []Stack{{}, {1, 2, []string{"x", "y", "x"}}, {3, 4, []string{"y"}}},
		PC:      []PCRow{{5, 6, 7, 8, 1, 0, 0, 2, 0, 2, -1}, {4, 1 << 63, 1, 8, 1, 0, 0, 2, 0, 1, 3}},
		Kernels: []KernelRow{{9, 10, 11, 12, 13, 1, 1, 0}},
		Refused: []Refused{{"r", "d", "t", -60, 3}},
	}
	body := AppendPart(nil, want)
	got := new(Part)
	for range 2 {
		if err := got.Decode(body); err != nil {
			t.Fatal(err)
		}
		got.Stacks[0].Frames = nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
	for i := range body {
		if err := got.Decode(body[:i]); err == nil {
			t.Fatalf("%d bytes of %d are a part", i, len(body))
		}
	}
}
