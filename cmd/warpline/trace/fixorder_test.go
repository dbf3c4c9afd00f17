package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/trace"
)

// Whatever lies beside them, all slices are there, and each arrow is on the slices that it was meant for, also where all begins of many
// threads fall on few times: it is turned only where the slice at its end begins earlier.
func TestFixRandomTraces(t *testing.T) {
	for seed := range uint64(150) {
		text, want, arrows := randomTrace(rand.New(rand.NewPCG(seed, 1)))
		path := write(t, "t.json", text)
		got, done := fix(t, path)
		var have, drawn []string
		for _, s := range got.slices {
			have = append(have, fmt.Sprint(s.name, " ", s.ts, " ", s.dur))
		}
		for _, a := range got.arrows {
			drawn = append(drawn, a[0].name+" "+a[1].name)
		}
		sort.Strings(have)
		sort.Strings(drawn)
		differ(t, fmt.Sprint("slices of ", seed), have, want)
		differ(t, fmt.Sprint("arrows of ", seed), drawn, arrows)
		if done.Unknown > 0 || done.Ambiguous > 0 {
			t.Errorf("%d: %+v", seed, done)
		}
		out := filepath.Join(t.TempDir(), "out.json")
		chrome, err := (&trace.Fix{Paths: []string{path}, Out: out}).Run(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		l := trace.Lint{Path: out, Flows: true}
		var rows bytes.Buffer
		if _, err := l.Run(t.Context(), nil, &rows); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(rows.Bytes(), []byte("\n")) - 1; n != int(chrome.Arrows) || int(chrome.Arrows+chrome.Unsaid) != len(arrows) {
			t.Errorf("%d: %d rows, %d arrows, %d unsaid of %d", seed, n, chrome.Arrows, chrome.Unsaid, len(arrows))
		}
		if t.Failed() {
			t.Fatal(text)
		}
	}
}

// randomTrace is a trace of operators, calls and kernels whose times are few, and what is to be drawn of it.
func randomTrace(r *rand.Rand) (text string, slices, arrows []string) {
	var list []string
	type slice struct {
		name    string
		ts, tid int
	}
	scale := []int{1000, 1}[r.IntN(2)] // us, or ns
	put := func(name, category string, pid, tid, correlation int) slice {
		s := slice{name, 5_000_000 + scale*r.IntN(12), pid*100 + tid}
		dur := scale * r.IntN(6)
		us := func(ns int) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }
		list = append(list, fmt.Sprintf(`{"ph":"X","cat":"%s","name":"%s","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"correlation":%d}}`,
			category, name, pid, tid, us(s.ts), us(dur), correlation))
		slices = append(slices, fmt.Sprint(name, " ", s.ts, " ", dur))
		return s
	}
	arrow := func(from, to slice) {
		if to.ts < from.ts {
			from, to = to, from
		}
		arrows = append(arrows, from.name+" "+to.name)
	}
	flow := func(s slice, phase string, id int) {
		list = append(list, fmt.Sprintf(`{"ph":"%s","bp":"e","cat":"fwdbwd","name":"fwdbwd","id":%d,"pid":%d,"tid":%d,"ts":%d.%03d}`,
			phase, id, s.tid/100, s.tid%100, s.ts/1000, s.ts%1000))
	}
	for i := 1 + r.IntN(10); i > 0; i-- { // calls, each with up to three kernels
		call := put(fmt.Sprint("call", i), "cuda_runtime", 7, 5+r.IntN(2), i)
		for k := r.IntN(4); k > 0; k-- {
			arrow(call, put(fmt.Sprint("kernel", i, ".", k), "kernel", 0, r.IntN(3), i))
		}
	}
	for i := r.IntN(10); i > 0; i-- { // operators, forward and backward
		forward := put(fmt.Sprint("forward", i), "cpu_op", 7, 1+r.IntN(2), 0)
		flow(forward, "s", i)
		backward := put(fmt.Sprint("backward", i), "cpu_op", 7, 3+r.IntN(2), 0)
		flow(backward, "f", i)
		arrow(forward, backward)
	}
	sort.Strings(slices)
	sort.Strings(arrows)
	return "[" + strings.Join(list, ",\n") + "]", slices, arrows
}

// Begins and ends belong together by their times, in whatever order a file has them.
func TestFixPairsByTime(t *testing.T) {
	for name, text := range map[string]string{
		"in order": `{"ph":"B","name":"out","ts":10},{"ph":"B","name":"in","ts":10},{"ph":"E","ts":12},{"ph":"E","ts":20},
			{"ph":"B","name":"next","ts":20},{"ph":"E","ts":20}`,
		"turned": `{"ph":"E","ts":25},{"ph":"B","name":"next","ts":20},{"ph":"E","ts":20},{"ph":"E","ts":12},
			{"ph":"B","name":"out","ts":10},{"ph":"B","name":"in","ts":10}`,
	} {
		got, done := fix(t, write(t, "t.json", "["+text+"]"))
		have := map[string]int64{}
		for _, s := range got.slices {
			have[s.name] = s.dur
		}
		want := map[string]int64{"out": 10000, "in": 2000, "next": map[string]int64{"turned": 5000}[name]}
		if fmt.Sprint(have) != fmt.Sprint(want) || len(done.LeftOut) > 0 {
			t.Errorf("%s: %v, want %v, %+v", name, have, want, done)
		}
	}
}

// What is no number, counters of several ids, and arrows whose meaning cannot be told.
func TestFixSaysWhatItLeavesOut(t *testing.T) {
	got, done := fix(t, write(t, "t.json", `[
{"ph":"C","name":"m","id":"1","pid":1,"ts":10,"args":{"value":1}},{"ph":"C","name":"m","id":"2","pid":1,"ts":10,"args":{"value":2}},
{"ph":"C","name":"m","pid":1,"ts":10,"args":{"value":"abc"}},
{"ph":"X","name":"p","pid":1,"tid":1,"ts":100,"dur":10,"args":{"a":[NaN,1],"d":{"x":-Infinity}}},
{"ph":"X","name":"q","pid":1,"tid":2,"ts":200,"dur":20},
{"ph":"s","id":1,"cat":"x","name":"x","pid":1,"tid":1,"ts":105},{"ph":"f","bp":"e","id":1,"cat":"x","name":"x","pid":1,"tid":2,"ts":205}]`))
	if got.counts["m 1"] != 1 || got.counts["m 2"] != 1 || done.LeftOut["C with a value that is no number"] != 1 || done.Unknown != 1 {
		t.Errorf("%v, %+v", got.counts, done)
	}
	if got.slices[0].args != `{"a":["NaN",1],"d":{"x":"-Infinity"}}` {
		t.Errorf("arguments %s", got.slices[0].args)
	}
}

// In Chrome's JSON ids and processes of several files are kept apart and say their file; what one file says of itself is kept.
func TestFixChromeOfSeveral(t *testing.T) {
	async := `{"ph":"b","cat":"a","name":"one","id":"1","pid":1,"tid":1,"ts":10},` +
		`{"ph":"e","cat":"a","name":"one","id":"1","pid":1,"tid":1,"ts":30}`
	a := write(t, `ra"nk.json`, `[{"ph":"M","name":"process_name","pid":1,"args":{"name"  :"python"}},`+async+`]`)
	b := write(t, `rank1.json`, `{"distributedInfo":{"rank":1,"x":NaN},"traceEvents":[`+async+`],"traceName":"t"}`)
	for _, name := range []string{"o.json", "o.json.gz"} {
		out := filepath.Join(t.TempDir(), name)
		fixed := func(paths ...string) (events []plainEvent, members map[string]any) {
			if _, err := (&trace.Fix{Paths: paths, Out: out}).Run(t.Context(), io.Discard); err != nil {
				t.Fatal(err)
			}
			var file struct{ TraceEvents []plainEvent }
			for _, to := range []any{&file, &members} {
				if err := json.Unmarshal(readAll(t, out), to); err != nil {
					t.Fatal(err)
				}
			}
			return file.TraceEvents, members
		}
		events, _ := fixed(a, b)
		ids, names := map[any]bool{}, []string{}
		for _, e := range events {
			if e.Ph == "M" {
				names = append(names, fmt.Sprint(e.PID, " ", e.Args["name"]))
			} else {
				ids[e.ID] = true
			}
		}
		if len(ids) != 2 || fmt.Sprintf("%q", names) != `["1 ra\"nk: python" "1:1 rank1: process 1"]` {
			t.Errorf("ids %v, processes %q", ids, names)
		}
		_, members := fixed(b)
		if fmt.Sprint(members["distributedInfo"], " ", members["traceName"]) != "map[rank:1 x:NaN] t" {
			t.Errorf("members %v", members)
		}
	}
}

// A packed trace for Perfetto is packed.
func TestFixPacks(t *testing.T) {
	path := write(t, "t.json", "["+call+","+work+"]")
	out := filepath.Join(t.TempDir(), "o.pftrace.gz")
	if _, err := (&trace.Fix{Paths: []string{path}, Out: out}).Run(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := readPerfetto(t, readAll(t, out)); len(got.arrows) != 1 {
		t.Errorf("%d arrows", len(got.arrows))
	}
}
