package intrakernel_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

// rec is a record as a kernel makes it, with the whole numbers of block, warp and SM.
type rec struct {
	block, warp, sm uint32
	id              uint16
	kind            intrakernel.Type
	ts              uint64
}

const (
	b = intrakernel.Begin
	e = intrakernel.End
	m = intrakernel.Mark
)

// device keeps records as the device does: rings of the slots, fields that wrap.
func device(s intrakernel.Session, recs []rec) (events, counters []byte) {
	events = bytes.Repeat([]byte{0xcd}, int(s.Slots())*int(s.Cap)*intrakernel.RecordSize)
	counts := make([]uint32, s.Slots())
	for _, r := range recs {
		slot := r.block*s.Warps + r.warp
		at := (int(slot)*int(s.Cap) + int(counts[slot]&(s.Cap-1))) * intrakernel.RecordSize
		place := uint32(r.warp&63|r.sm<<6) | r.block>>16
		copy(events[at:], intrakernel.AppendRecord(nil, intrakernel.Record{TS: r.ts, Region: r.id, Type: r.kind, Block: uint16(r.block),
			Place: uint16(place)}))
		counts[slot]++
	}
	for _, n := range counts {
		counters = binary.LittleEndian.AppendUint32(counters, n)
	}
	return events, counters
}

// run is what the records make, by path.
func run(t *testing.T, h intrakernel.Header, recs ...rec) (*intrakernel.Timeline, map[string]string) {
	t.Helper()
	h.Path = "t.json"
	events, counters := device(h.Session, recs)
	c, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), &h)
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := c.Timeline(&h)
	if err != nil {
		t.Fatal(err)
	}
	return timeline, writeAll(t, timeline, &h, true)
}

func small() intrakernel.Header {
	return intrakernel.Header{Session: intrakernel.Session{Cap: 8, Blocks: 2, Warps: 2}, Options: intrakernel.DefaultOptions()}
}

// durations of the slices, in the order of the trace.
func durations(t *intrakernel.Timeline) string {
	var all []uint64
	for _, e := range t.Events {
		if !e.Instant {
			all = append(all, e.Dur)
		}
	}
	return fmt.Sprint(all)
}

// contains says which of the texts a file lacks.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
}

func TestTrapEqualTicksBeginBeforeEnd(t *testing.T) {
	// Recorded end first: sorted, the begin of the next iteration takes the end of this one.
	line, _ := run(t, small(), rec{0, 0, 1, 0, b, 0}, rec{0, 0, 1, 0, e, 50}, rec{0, 0, 1, 0, b, 50}, rec{0, 0, 1, 0, e, 100})
	if got := durations(line); got != "[100 0]" {
		t.Error(got)
	}
	// A mark stands between them.
	_, out := run(t, small(), rec{0, 0, 1, 0, e, 5}, rec{0, 0, 1, 0, m, 5}, rec{0, 0, 1, 0, b, 5})
	mark, slice := strings.Index(out["t.json"], `"ph":"i"`), strings.Index(out["t.json"], `"ph":"X"`)
	if mark < 0 || slice < mark {
		t.Error(out["t.json"])
	}
}

func TestTrapNestedInItself(t *testing.T) {
	line, _ := run(t, small(), rec{0, 0, 1, 0, b, 0}, rec{0, 0, 1, 0, b, 10}, rec{0, 0, 1, 0, e, 30}, rec{0, 0, 1, 0, e, 100})
	if got := durations(line); got != "[100 20]" {
		t.Error(got)
	}
}

func TestTrapSMMigration(t *testing.T) {
	recs := []rec{{1, 1, 4, 0, b, 10}, {1, 1, 9, 0, e, 30}}
	h := small()
	line, out := run(t, h, recs...)
	if len(line.Events) != 0 || line.UnmatchedBegin != 1 || line.UnmatchedEnd != 1 {
		t.Errorf("by SM: %+v", line)
	}
	contains(t, out["t.json"], `"sm 4"`, `"sm 9"`, `"pid":9,"tid":65,"args":{"name":"block 1 warp 1"}`)
	contains(t, out["t_summary.json"], "\"regions\": [\n\n  ],\n  \"by_block_warp_regions\": {\n\n  }\n}\n", `"unmatched_end": 1`)
	h.Options.GroupBySM = false
	line, out = run(t, h, recs...)
	if durations(line) != "[20]" || line.UnmatchedBegin != 0 {
		t.Errorf("by block: %+v", line)
	}
	contains(t, out["t.json"], `"name":"sm 4 block 1"`, `"pid":1,"tid":32,"args":{"name":"warp 1"}`, `"args":{"sm":9,"block":1,"warp":1}`)
}

func TestTrapBlockAbove65535Wraps(t *testing.T) {
	h := small()
	h.Session = intrakernel.Session{Cap: 2, Blocks: 3<<16 + 2, Warps: 1}
	_, out := run(t, h, rec{3<<16 + 1, 0, 2, 0, b, 0}, rec{3<<16 + 1, 0, 2, 0, e, 7})
	contains(t, out["t.json"], `"args":{"sm":2,"block":1,"warp":3}`) // 3 of the block's upper bits is in the warp
	contains(t, out["t_summary.json"], `"blocks": 196610`)
	h.Filter = []uint32{3<<16 + 1} // no record has that block
	if line, out := run(t, h, rec{3<<16 + 1, 0, 2, 0, b, 0}); line.Survivors != 0 || len(out) != 0 {
		t.Errorf("%+v", out)
	}
}

func TestTrapWarpAndSMWrap(t *testing.T) {
	h := small()
	h.Session.Warps = 70
	_, out := run(t, h, rec{0, 65, 1029, 0, b, 0}, rec{0, 65, 1029, 0, e, 7})
	contains(t, out["t.json"], `"args":{"sm":5,"block":0,"warp":1}`, `"name":"sm 5"`)
}

func TestTrapRingOverflow(t *testing.T) {
	for _, n := range []int{7, 8, 9, 16, 17, 30, 31} {
		var recs []rec
		for i := range n { // of one warp only
			recs = append(recs, rec{1, 0, 1, 0, intrakernel.Type(i % 2), uint64(100*i + i*i)})
		}
		line, _ := run(t, small(), append(recs, rec{0, 1, 1, 3, m, 5000}, rec{1, 1, 1, 3, m, 5000})...)
		kept := min(n, 8)
		ends := n % 2 * min(1, n/9) // the oldest survivor of an odd overflow is an end
		if line.Survivors != kept+2 || line.UnmatchedEnd != uint64(ends) || line.UnmatchedBegin != uint64(n%2) {
			t.Errorf("%d records: %d survive, %d ends and %d begins alone", n, line.Survivors, line.UnmatchedEnd, line.UnmatchedBegin)
		}
		if got := len(line.Events); got != (kept-n%2-ends)/2+2 {
			t.Errorf("%d records: %d events", n, got)
		}
	}
}

// Records of a ring come oldest first, those of the slots one after the other, filtered or not.
func TestRingsAreReadOldestFirst(t *testing.T) {
	h := small()
	var recs []rec
	for i := range uint64(21) { // the device's clock may stand
		recs = append(recs, rec{1, 0, 1, uint16(i), m, 5})
	}
	recs = append(recs, rec{0, 1, 1, 90, m, 5}, rec{1, 1, 1, 91, m, 5})
	for _, filter := range [][]uint32{nil, {1}} {
		h.Filter = filter
		events, counters := device(h.Session, recs)
		c, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), &h)
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint16
		for _, r := range c.Records {
			ids = append(ids, r.Region)
		}
		want := "[13 14 15 16 17 18 19 20 91]"
		if filter == nil {
			want = "[90 " + want[1:]
		}
		if fmt.Sprint(ids) != want || c.Recorded != 23 || c.Survived != 10 {
			t.Errorf("%v, want %s; %d recorded, %d survived", ids, want, c.Recorded, c.Survived)
		}
	}
}

func TestTrapSpansAbove2To53(t *testing.T) {
	_, out := run(t, small(), rec{0, 0, 1, 0, b, 1<<60 + 1}, rec{0, 0, 1, 0, e, 1<<61 + 3})
	contains(t, out["t.json"], `"ts":0.000000,"dur":1152921504606846976.000000`)
}

func TestTrapScales(t *testing.T) {
	for _, c := range []struct {
		scale float64
		want  []string
	}{
		{0, []string{`"scale": 0.000000`, `"mean_dur": 0.000000, "cv_dur": null`}},
		{-1, []string{`"mean_dur": -15.000000, "cv_dur": 0.471405`, `"min_dur": -20.000000, "max_dur": -10.000000`, `"p5": -19.992188`}},
		{1e-9, []string{`"scale": 0.000000`, `"mean_dur": 0.000000, "cv_dur": 0.471405`}},
	} {
		h := small()
		h.Options.Scale = c.scale
		_, out := run(t, h, rec{0, 0, 1, 0, b, 5}, rec{0, 0, 1, 0, e, 15}, rec{0, 0, 1, 0, b, 20}, rec{0, 0, 1, 0, e, 40})
		contains(t, out["t_summary.json"], c.want...)
	}
	h := small()
	h.Options.Scale = -1
	_, out := run(t, h, rec{0, 0, 1, 0, b, 5}, rec{0, 0, 1, 0, e, 5}) // the sign of zero is printed, as C does
	contains(t, out["t.json"], `"ts":-0.000000,"dur":-0.000000`)
	contains(t, out["t_summary.json"], `"mean_dur": -0.000000, "cv_dur": null`)
}

// Ten samples whose cumulative share is 0.7999999999999999 after eight: p80 is in the next bin that has any.
func TestTrapPercentilesOfFloatSums(t *testing.T) {
	var recs []rec
	at := uint64(0)
	for _, d := range []uint64{10, 20, 30, 40, 50, 60, 70, 80, 1000, 1000} {
		recs = append(recs, rec{0, 0, 1, 0, b, at}, rec{0, 0, 1, 0, e, at + d})
		at += d + 1
	}
	h := small()
	h.Session.Cap = 32
	h.Options.HistBins = 99
	_, out := run(t, h, recs...)
	contains(t, out["t_summary.json"], `"p75": `, `"p80": 990.000000`)
}

// No sum is fused with a product: the compiler is asked for machines on which it would.
func TestTrapNoFMA(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for other machines")
	}
	for _, machine := range [][]string{{"GOARCH=arm64", "FMADD", "FMSUB"}, {"GOARCH=amd64", "VFMADD", "VFMSUB", "VFNMADD", "VFNMSUB"}} {
		cmd := exec.Command("go", "build", "-gcflags=-S", ".")
		cmd.Env = append(cmd.Environ(), machine[0], "GOAMD64=v3", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil || len(out) < 10_000 {
			t.Fatalf("%s: %v: %.2000s", machine[0], err, out)
		}
		for line := range strings.Lines(string(out)) {
			for _, fused := range machine[1:] {
				if strings.Contains(line, fused) {
					t.Errorf("%s: fused: %s", machine[0], line)
				}
			}
		}
	}
}

func TestTrapNamesThatAreNoUTF8(t *testing.T) {
	h, err := intrakernel.ParseHeader([]byte(`{"session":{"per_warp_cap":8,"grid_x":2,"threads_per_block":33},"region_names":["a` +
		"\xff\xc3" + `","\udcff\u00e9\ud83d\ude00"]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, out := run(t, *h, rec{0, 0, 1, 0, b, 0}, rec{0, 0, 1, 0, e, 1}, rec{0, 0, 1, 1, b, 0}, rec{0, 0, 1, 1, e, 1})
	contains(t, out["t.json"], "{\"name\":\"a\xff\xc3\",", "{\"name\":\"\xffé😀\",")
	contains(t, out["t_summary.json"], "\"region_a\": {\n", "\"region_region\": {\n", "\"name\": \"a\xff\xc3\",\n")
}

// Of a member that stands twice the last counts, whole, as for the peer's json: nothing of the first is left.
func TestTrapMembersTwice(t *testing.T) {
	h, err := intrakernel.ParseHeader([]byte(`{"session":{"per_warp_cap":8,"grid_x":2,"warps_per_block":9},"options":{"scale":2,"scale":3},` +
		`"region_names":["a","b"],"block_filter":[1,2],"options":{"summary_hist_bins":4},"region_names":["c"],"block_filter":null,` +
		`"session":{"grid_x":3,"threads_per_block":33}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := intrakernel.DefaultOptions()
	want.HistBins = 4
	if h.Options != want || h.Session != (intrakernel.Session{Blocks: 3, Warps: 2}) || fmt.Sprint(h.Names, h.Filter) != "[c] []" {
		t.Errorf("%+v", h)
	}
}

func TestTrapDuplicateKeys(t *testing.T) {
	h := small()
	h.Session.Cap = 64
	h.Names = []string{"a", "a", "a 1", "a", "", "??", "a__3", "_a_"}
	var recs []rec
	for id := range uint16(9) {
		recs = append(recs, rec{0, 0, 1, id, b, uint64(id) * 10}, rec{0, 0, 1, id, e, uint64(id)*10 + 1})
	}
	_, out := run(t, h, recs...)
	contains(t, out["t_summary.json"], `"region_a": {`, `"region_a_1": {`, `"region_a_1_2": {`, `"region_a_3": {`, `"region_region": {`,
		`"region_region_5": {`, `"region_a_3_6": {`, `"region_a_7": {`, `"region_8": {`)
}

// The peer's line for a mark is no JSON here; for other instants it has no scope, as written.
func TestTrapLegacyMarks(t *testing.T) {
	h := small()
	h.Options.CompleteEvents = false
	for _, bySM := range []bool{true, false} {
		h.Options.GroupBySM = bySM
		_, out := run(t, h, rec{0, 0, 1, 0, m, 5}, rec{0, 0, 1, 0, 7, 6}, rec{1, 0, 0, 0, b, 7})
		contains(t, out["t.json"], `{"name":"0","ph":"i","s":"t","ts":0.000000,`, `{"name":"0","ph":"i","ts":1.000000,`)
		if first := strings.Index(out["t.json"], `"ph":"B"`) < strings.Index(out["t.json"], `"ph":"i"`); first != bySM {
			t.Errorf("by SM %v: %s", bySM, out["t.json"])
		}
		if len(out) != 1 {
			t.Errorf("%d files", len(out))
		}
	}
}

func TestTrapColoursComeAgain(t *testing.T) {
	h := small()
	_, out := run(t, h, rec{0, 0, 1, 35, m, 0}, rec{0, 0, 1, 36, m, 1}, rec{0, 0, 1, 65535, m, 2})
	contains(t, out["t.json"], `"cname":"cq_build_attempt_running"`, `"name":"36","ph":"i","s":"t","ts":1.000000,"pid":1,"tid":0,`+
		`"cname":"thread_state_uninterruptible"`, `"name":"65535"`)
}
