package intrakernel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

// notInTraces are cases whose summary says what no trace does: how many begins and ends had no partner.
var notInTraces = []string{"unmatched_begin_end", "ring_overflow_odd"}

// The summaries and distributions of every vector, from the trace that the peer wrote, byte for byte.
func TestEveryVectorFromItsTrace(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			h, err := intrakernel.ParseHeader(readFile(t, filepath.Join(vectors, name, "input.json")))
			if err != nil {
				t.Fatal(err)
			}
			want := wanted(t, name)
			trace, ok := want[h.Path]
			if !ok {
				return // no records
			}
			timeline, err := intrakernel.ReadTrace(strings.NewReader(trace), h, true)
			if err != nil {
				t.Fatal(err)
			}
			delete(want, h.Path)
			for _, n := range notInTraces {
				if n == name {
					for path, text := range want {
						want[path] = unmatchedNone(text)
					}
				}
			}
			compare(t, writeAll(t, timeline, h, false), want)
		})
	}
}

// unmatchedNone is a summary with no unmatched records.
func unmatchedNone(summary string) string {
	lines := strings.Split(summary, "\n")
	for i, line := range lines {
		if key, _, ok := strings.Cut(line, ": "); ok && strings.Contains(key, "unmatched_") {
			lines[i] = key + ": 0,"
		}
	}
	return strings.Join(lines, "\n")
}

// head is what an input says, made from the head of a summary.
func head(t *testing.T, summary []byte) (h *intrakernel.Header) {
	t.Helper()
	var s struct {
		Trace   string
		Blocks  uint32
		Warps   uint32   `json:"warps_per_block"`
		Cap     uint32   `json:"per_warp_cap"`
		Filter  []uint32 `json:"block_filter"`
		Regions []struct {
			Region int
			Name   string
		}
	}
	if err := json.Unmarshal(summary, &s); err != nil {
		t.Fatal(err)
	}
	input := map[string]any{"session": map[string]any{"per_warp_cap": s.Cap, "grid_x": s.Blocks, "warps_per_block": s.Warps},
		"block_filter": s.Filter, "trace_path": s.Trace}
	names := []string{"outside"}
	for _, r := range s.Regions {
		names = append(names, r.Name)
	}
	input["region_names"] = names
	text, _ := json.Marshal(input)
	h, err := intrakernel.ParseHeader(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The real capture: with an input made of its summary's head all bytes, without one what a trace tells.
func TestGEMMSampleFromItsTrace(t *testing.T) {
	trace := readFile(t, filepath.Join(vectors, "samples", "gemm_trace.json.gz"))
	summary := readFile(t, filepath.Join(vectors, "samples", "gemm_trace_summary.json"))
	h := head(t, summary)
	timeline, err := intrakernel.ReadTrace(bytes.NewReader(trace), h, true)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"gemm_trace_summary.json": string(summary)}
	compare(t, writeAll(t, timeline, h, false), want)

	h = &intrakernel.Header{Path: "gemm_trace.json", Options: intrakernel.DefaultOptions()}
	if timeline, err = intrakernel.ReadTrace(bytes.NewReader(trace), h, false); err != nil {
		t.Fatal(err)
	}
	text := string(summary)
	for old, said := range map[string]string{`"blocks": 1024`: `"blocks": 0`, `"warps_per_block": 8`: `"warps_per_block": 0`,
		`"per_warp_cap": 8192`: `"per_warp_cap": 0`, `"block_filter": [0, 1, 2, 3]`: `"block_filter": []`} {
		text = strings.Replace(text, old, said, 1)
	}
	compare(t, writeAll(t, timeline, h, false), map[string]string{"gemm_trace_summary.json": text})
}

// Where the input has no names, regions are called by their ids, whichever share a colour.
func TestRegionsWithoutNamesKeepTheirIDs(t *testing.T) {
	var recs []rec
	for i, id := range []uint16{65535, 36, 35, 0, 72} {
		at := uint64(i) * 10
		recs = append(recs, rec{0, 0, 1, id, b, at}, rec{0, 0, 1, id, e, at + uint64(id)%7})
	}
	h := small()
	h.Session.Cap, h.Options.BlockRegions = 16, true
	_, want := run(t, h, recs...)
	h.Path = "t.json"
	timeline, err := intrakernel.ReadTrace(strings.NewReader(want["t.json"]), &h, true)
	if err != nil {
		t.Fatal(err)
	}
	delete(want, "t.json")
	compare(t, writeAll(t, timeline, &h, false), want)
}

// A legacy trace has the records themselves, so it gives the very summary of the buffers, unmatched ones too.
func TestLegacyTraceGivesItsSummary(t *testing.T) {
	for _, bySM := range []bool{true, false} {
		for _, name := range []string{"unmatched_begin_end", "gemm_like", "ring_overflow_odd", "marks", "nested_same_id"} {
			h, _ := load(t, name)
			h.Options.GroupBySM = bySM
			want := again(t, name, h)
			h.Options.CompleteEvents = false
			trace := again(t, name, h)[h.Path]
			h.Options.CompleteEvents = true
			timeline, err := intrakernel.ReadTrace(strings.NewReader(trace), h, true)
			if err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(want, func(path, _ string) bool { return path == h.Path })
			compare(t, writeAll(t, timeline, h, false), want)
		}
	}
}

// again is what a case gives with other options.
func again(t *testing.T, name string, h *intrakernel.Header) map[string]string {
	t.Helper()
	c, err := intrakernel.Collect(bytes.NewReader(readFile(t, filepath.Join(vectors, name, "events.bin"))),
		bytes.NewReader(readFile(t, filepath.Join(vectors, name, "counters.bin"))), h)
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := c.Timeline(h)
	if err != nil {
		t.Fatal(err)
	}
	return writeAll(t, timeline, h, true)
}

// Slices of a trace come in the order of their ends, as from the buffers: the sums depend on it.
func TestSlicesComeInTheOrderOfTheirEnds(t *testing.T) {
	recs := []rec{{0, 0, 1, 0, b, 0}, {0, 0, 1, 0, b, 10}, {0, 0, 1, 0, e, 20}, {0, 0, 1, 0, e, 20}, {0, 1, 1, 0, b, 1}, {0, 1, 1, 0, e, 20},
		{1, 0, 0, 2, b, 3}, {1, 0, 0, 1, b, 4}, {1, 0, 0, 2, e, 20}, {1, 0, 0, 1, e, 20}, {1, 1, 0, 1, b, 0}, {1, 1, 0, 1, e, 7}}
	h := small()
	h.Path = "t.json"
	events, counters := device(h.Session, recs)
	c, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), &h)
	if err != nil {
		t.Fatal(err)
	}
	line, err := c.Timeline(&h)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(line.Events)
	trace := writeAll(t, line, &h, true)["t.json"]
	read, err := intrakernel.ReadTrace(strings.NewReader(trace), &h, true)
	if err != nil || !slices.Equal(read.Events, want) {
		t.Errorf("%v\n got %v\nwant %v", err, read.Events, want)
	}
}

// What is no trace of write_trace is refused with the byte, the field and what to do.
func TestTracesThatAreRefused(t *testing.T) {
	event := func(change ...string) string {
		e := `{"name":"a","ph":"X","ts":1.000000,"dur":2.000000,"pid":3,"tid":65,"cname":"good","args":{"sm":3,"block":1,"warp":1}}`
		return "[" + strings.NewReplacer(change...).Replace(e) + "]"
	}
	process := func(name string) string {
		return `{"ph":"M","name":"process_name","pid":10002,"tid":0,"args":{"name":"` + name + `"}}`
	}
	var manyRegions []string // of one colour
	for i := range 2 + intrakernel.MaxNames/36 {
		manyRegions = append(manyRegions, strings.Trim(event(`"a"`, fmt.Sprintf(`"r%d"`, i)), "[]"))
	}
	for _, c := range []struct{ trace, want string }{
		{event(`"X"`, `"s"`), `event at byte 1: ph "\"s\"" is none`},
		{event(`"sm":3`, `"sm":4`), "do not follow from args"},
		{event(`"pid":3`, `"pid":{}`), "do not follow from args"},
		{event(`"warp":1`, `"warp":64`), "warp (to 63)"},
		{event(`"good"`, `"pink"`), "are no region's"},
		{event(`1.000000`, `-1.000000`), "ts -1.000000 is before the first record"},
		{event(`2.000000`, `2.500000`), "dur 2.500000 is no whole number of ns at scale 1: give the scale"},
		{event(`2.000000`, `1e999`), "is no time"},
		{event(`2.000000`, `NaN`), "is no time"},
		{`{"traceEvents":[` + strings.Trim(event(), "[]"), "byte 133: the trace ends here"},
		{`{"traceEvents":` + event() + `,"metadata":{"ikp_nsys_merge":{}}}`, "stretched_times"},
		{`{"traceEvents":` + event(`"X"`, `"C"`) + `,"metadata":{"ikp_nsys_merge":{}}}`, "stretched_times"},
		{strings.TrimSuffix(event(`"X"`, `"C"`), "]") + "," + process("[NSys] CUDA API") + "]", "stretched_times"},
		{strings.TrimSuffix(event(`2.000000`, `2.500000`), "]") + "," + process("sm 1 block 10002") + "]", "dur 2.500000 is no whole number"},
		{`{"traceEvents":[7]}`, "byte 16: no object"},
		{`{"regions":[]}`, "an object without a list traceEvents"},
		{`"text"`, "byte 0: neither an array nor an object"},
		{``, "byte 0: the trace ends here"},
		{"[" + strings.Join(manyRegions, ",") + "]", `more regions have cname "\"good\"" than there are ids`},
		{event()[:len(event())-1] + "," + strings.Trim(event(`"X"`, `"B"`), "[]") + "]", "1 slices (X) beside 1 begins"},
	} {
		h := &intrakernel.Header{Path: "t.json", Options: intrakernel.DefaultOptions()}
		_, err := intrakernel.ReadTrace(strings.NewReader(c.trace), h, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.trace, err, c.want)
		}
	}
}
