package gpuflight_test

import (
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

const vectors = "../../testdata/gpuflight"

// sessionLines returns the lines of every window below testdata.
func sessionLines(t *testing.T) (lines [][]byte) {
	t.Helper()
	err := filepath.WalkDir(vectors, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log.gz") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		lines = append(lines, readLines(t, z)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func exampleLines(t testing.TB) (lines [][]byte) {
	t.Helper()
	for _, name := range []string{"examples_by_type.ndjson", "examples_handbuilt.ndjson"} {
		f, err := os.Open(filepath.Join(vectors, name))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, readLines(t, f)...)
		f.Close()
	}
	return lines
}

// What a script outside this repository counted in the 49 windows: lines and, for batches, rows.
var vectorCounts = map[string][2]int{
	"job_start": {32, 0}, "memset_event": {250, 0}, "dictionary_update": {60, 0}, "kernel_event_batch": {51, 2500}, "kernel_detail": {2500, 0},
	"memcpy_event_batch": {51, 625}, "sass_config": {3, 0}, "capture_capabilities": {12, 0}, "kernel_perf_metric_event": {3, 0},
	"profile_sample_batch": {49, 1306}, "shutdown": {32, 0}, "system_start": {4, 0}, "device_metric_batch": {72, 514},
	"host_metric_batch": {72, 257}, "system_stop": {4, 0}, "pm_sampling_config": {5, 0}, "nvtx_marker_event": {125, 0},
	"graph_launch_event": {125, 0}, "graph_node_definition": {125, 0}, "synchronization_event_batch": {51, 500},
	"memory_alloc_event_batch": {51, 250}, "scope_event_batch": {53, 512}, "pm_sample_batch": {37, 712}, "deep_window_event": {3, 0},
	"perf_metric_event": {3, 0}, "execution_signature": {8, 0}, "source_file_content": {3, 0}, "cubin_disassembly": {3, 0},
	"segment_start": {16, 0}, "segment_end": {16, 0}, "run_end": {4, 0},
}

func TestVectors(t *testing.T) {
	var dec gpuflight.Decoder
	got := map[string][2]int{}
	for _, raw := range sessionLines(t) {
		line := compare(t, &dec, raw)
		if line.Type == gpuflight.TypeUnknown || len(line.SessionID) != 36 {
			t.Fatalf("type %q session %q", line.TypeName, line.SessionID)
		}
		c := got[line.Type.String()]
		c[0]++
		if line.Batch != nil {
			if len(line.Batch.BadRows) > 0 || !line.HasBatchID || line.BatchID == 0 {
				t.Fatalf("bad rows %v, batch %d in %s", line.Batch.BadRows, line.BatchID, raw)
			}
			c[1] += line.Batch.Rows()
		}
		got[line.Type.String()] = c
		checkSingle(t, line)
	}
	for name, want := range vectorCounts {
		if got[name] != want {
			t.Errorf("%s: %v lines and rows, want %v", name, got[name], want)
		}
	}
	if len(got) != len(vectorCounts) {
		t.Errorf("%d types, want %d", len(got), len(vectorCounts))
	}
}

func TestExamples(t *testing.T) {
	var dec gpuflight.Decoder
	types := map[gpuflight.Type]bool{}
	for _, raw := range exampleLines(t) {
		line := compare(t, &dec, raw)
		if line.Type == gpuflight.TypeUnknown || line.Batch != nil && len(line.Batch.BadRows) > 0 {
			t.Errorf("%s: bad rows or unknown", line.TypeName)
		}
		types[line.Type] = true
		checkSingle(t, line)
	}
	for typ := gpuflight.KernelEventBatch; typ < gpuflight.Init; typ++ {
		if !types[typ] {
			t.Errorf("no example of %v", typ)
		}
	}
}

// checkSingle decodes lines that are not a batch with their own decoders and compares with encoding/json.
func checkSingle(t *testing.T, line *gpuflight.Line) {
	t.Helper()
	var keys map[string]any
	if err := json.Unmarshal(line.Raw, &keys); err != nil {
		t.Fatal(err)
	}
	switch line.Type {
	case gpuflight.JobStart:
		j, err := gpuflight.DecodeJobStart(line)
		if err != nil || j.Partial || j.SessionID != string(line.SessionID) || j.App != keys["app"] ||
			j.Vendor() != "NVIDIA" || len(j.Devices) != 2 || j.Devices[1].UUID == "" {
			t.Fatalf("job %+v, %v", j, err)
		}
	case gpuflight.Shutdown:
		e, err := gpuflight.DecodeShutdown(line)
		if err != nil || e.Partial || e.TimeNS < 1_795_000_000_000_000_000 || e.SessionID != string(line.SessionID) {
			t.Fatalf("shutdown %+v, %v", e, err)
		}
	case gpuflight.KernelDetail:
		d, err := gpuflight.DecodeDetail(line.Raw)
		if err != nil || d.Grid != keys["grid"] || d.Block != keys["block"] || float64(d.CorrID) != keys["corr_id"] ||
			d.Occupancy != keys["occupancy"] ||
			d.UserScope != keys["user_scope"] || d.LimitingResource != keys["limiting_resource"] ||
			float64(d.SharedMemExecuted) != keys["shared_mem_executed_bytes"] {
			t.Fatalf("detail %+v, %v", d, err)
		}
		id, tail, ok := gpuflight.DetailKey(line.Raw)
		if !ok || id != d.CorrID || !strings.HasPrefix(string(tail), `"grid":`) || !strings.HasSuffix(string(line.Raw), string(tail)) {
			t.Fatalf("DetailKey %d %v %q", id, ok, tail)
		}
	case gpuflight.DictionaryUpdate:
		want := 0
		for k, v := range keys {
			if _, known := gpuflight.DictOf(k); known {
				want += len(v.(map[string]any))
			}
		}
		seen := 0
		skipped, err := gpuflight.DecodeDictionary(line, func(dict gpuflight.Dict, id uint32, value []byte) {
			seen++
			entries := keys[dict.String()].(map[string]any)
			if entries[itoa(id)] != string(value) {
				t.Fatalf("%v %d: %q, want %q", dict, id, value, entries[itoa(id)])
			}
		})
		if err != nil || skipped != 0 || seen != want || want == 0 {
			t.Fatalf("%d entries, want %d; skipped %d, %v", seen, want, skipped, err)
		}
	}
}
