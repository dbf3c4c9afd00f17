package intrakernel_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

// A header that cannot be used is refused with the field, the number and what to do.
func TestHeadersThatAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "no JSON from byte 0"},
		{`[1]`, "no JSON object: it begins with"},
		{`{}x`, "more text behind the object at byte 2"},
		{`{"session":7}`, `session: "7" is no object: write one`},
		{`{"session":{"grid_x":"4"}}`, `session.grid_x: "\"4\"" is no whole number: write one`},
		{`{"session":{"grid_x":4.0}}`, `session.grid_x: "4.0" is no whole number`},
		{`{"session":{"grid_x":-1}}`, `session.grid_x: -1 is outside 0 to 4294967295`},
		{`{"session":{"per_warp_cap":4294967296}}`, "session.per_warp_cap: 4294967296 is outside"},
		{`{"session":{"per_warp_cap":` + strings.Repeat("9", 1e5) + `}}`, `session.per_warp_cap: "9999999999`},
		{`{"session":{"threads_per_block":64,"warps_per_block":3}}`, "session.warps_per_block: 3, and 64 threads_per_block are 2 warps"},
		{`{"region_names":["a",5]}`, `region_names[1]: "5" is no text`},
		{`{"region_names":[` + strings.Repeat(`"",`, 1e6) + `""]}`, "region_names[65536]: more than 65536 names"},
		{`{"block_filter":[1,"x"]}`, `block_filter[1]: "\"x\"" is no whole number`},
		{`{"options":{"scale":"1"}}`, `options.scale: "\"1\"" is no number`},
		{`{"options":{"scale":1e999}}`, `options.scale: "1e999" is too large`},
		{`{"options":{"group_by_smid":1}}`, `options.group_by_smid: "1" is no true or false`},
		{`{"options":{"summary_hist_bins":4294967295}}`, "options.summary_hist_bins: 4294967295, and at most 1048576"},
		{`{"options":{"block_region_hist_bins":1048577}}`, "options.block_region_hist_bins: 1048577"},
		{`{"trace_path":"../t.json"}`, `trace_path: "../t.json" leaves the output folder`},
		{`{"trace_path":"/etc/passwd"}`, "trace_path"},
		{`{"trace_path":"a/../../t"}`, "trace_path"},
		{`{"trace_path":""}`, "trace_path"},
		{`{"trace_path":"a/"}`, "trace_path"},
		{`{"trace_path":"a/."}`, "trace_path"},
		{`{"trace_path":"a/b/.."}`, "trace_path"},
		{`{"trace_path":"a\u0000b"}`, "trace_path"},
		{`{"trace_path":` + strings.Repeat("[", 1e6), "no JSON from byte"},
		{`{"trace_path":` + strings.Repeat(" ", 64<<20) + `1}`, "67108880 bytes, and at most 67108864 are read"},
	} {
		_, err := intrakernel.ParseHeader([]byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), "input: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v, want %s", c.text, err, c.want)
		}
	}
}

// Buffers that are not what the header says are refused before they cost anything.
func TestBuffersThatAreRefused(t *testing.T) {
	full := bytes.Repeat([]byte{0xff}, 1<<12)
	for _, c := range []struct {
		session          intrakernel.Session
		events, counters int
		want             string
	}{
		{intrakernel.Session{Cap: 0, Blocks: 1, Warps: 1}, 0, 4, "session.per_warp_cap: 0 is no power of two"},
		{intrakernel.Session{Cap: 12, Blocks: 1, Warps: 1}, 192, 4, "session.per_warp_cap: 12 is no power of two"},
		{intrakernel.Session{Cap: 4, Blocks: 0, Warps: 1}, 0, 0, "session.grid_x: 0"},
		{intrakernel.Session{Cap: 4, Blocks: 1, Warps: 0}, 0, 0, "session.threads_per_block: 0"},
		{intrakernel.Session{Cap: 1 << 31, Blocks: math.MaxUint32, Warps: 1 << 27}, 0, 0, "is more than a file can have"},
		{intrakernel.Session{Cap: 1, Blocks: 1 << 31, Warps: 1}, 16, 4, "counters: ends after 4 bytes, and grid_x × warps × 4 is 8589934592"},
		{intrakernel.Session{Cap: 1 << 31, Blocks: 1, Warps: 1}, 64, 4, "events: ends after 64 bytes, and grid_x × warps × per_warp_cap × " +
			"16 is 34359738368"},
		{intrakernel.Session{Cap: 4, Blocks: 2, Warps: 1}, 100, 8, "events: ends after 100 bytes, inside a record, and"},
		{intrakernel.Session{Cap: 4, Blocks: 2, Warps: 1}, 129, 8, "events: longer than grid_x × warps × per_warp_cap × 16, which is 128 bytes"},
		{intrakernel.Session{Cap: 4, Blocks: 2, Warps: 1}, 128, 9, "counters: longer than grid_x × warps × 4, which is 8 bytes"},
		{intrakernel.Session{Cap: 4, Blocks: 2, Warps: 1}, 128, 6, "counters: ends after 6 bytes"},
	} {
		h := &intrakernel.Header{Session: c.session, Path: "t.json", Options: intrakernel.DefaultOptions()}
		_, err := intrakernel.Collect(bytes.NewReader(full[:c.events]), bytes.NewReader(full[:c.counters]), h)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.session, err, c.want)
		}
	}
	h := small()
	h.Options.Scale = math.MaxFloat64
	c := &intrakernel.Capture{Records: []intrakernel.Record{{TS: 0}, {TS: 9, Type: e}}}
	if _, err := c.Timeline(&h); err == nil || !strings.Contains(err.Error(), "options.scale: ") {
		t.Errorf("%v", err)
	}
}

// Ends without begins and begins without ends by the million, all at one time: nothing but counts.
func TestMillionsWithoutPartner(t *testing.T) {
	for _, kind := range []intrakernel.Type{b, e} {
		c := &intrakernel.Capture{Records: make([]intrakernel.Record, 4_000_000)}
		for i := range c.Records {
			c.Records[i] = intrakernel.Record{TS: 7, Type: kind, Region: uint16(i), Block: uint16(i >> 16), Place: uint16(i)}
		}
		h := small()
		line, err := c.Timeline(&h)
		if err != nil || line.UnmatchedBegin+line.UnmatchedEnd != 4_000_000 || len(line.Events) != 0 {
			t.Errorf("%v, %d, %d", err, line.UnmatchedBegin, line.UnmatchedEnd)
		}
	}
}

// Numbers are those of strconv, which are C's, whatever their size.
func TestNumbersHaveSixDecimals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(x float64) {
		t.Helper()
		if math.IsInf(x, 0) {
			return
		}
		if got, want := string(intrakernel.AppendF6(nil, x)), strconv.FormatFloat(x, 'f', 6, 64); got != want {
			t.Errorf("%v (%x): %s, want %s", x, math.Float64bits(x), got, want)
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 0.5, 0.0000005, 0.0000015, 0.0000025, 1e-300, 5e-324, 1<<53 - 1, 1 << 53, 1 << 62,
		1 << 63, 1 << 64, 1e300, 0.9999995, 0.99999949999, 2.5, 1.0 / 128, 1.0 / (1 << 20), 0x1p-21, 0x1p-74, 0x1p-75, 0x1p-76, math.MaxFloat64} {
		check(x)
		check(-x)
	}
	for range 300_000 {
		check(math.Float64frombits(rng.Uint64() &^ (1 << 62 * (rng.Uint64() & 1)))) // below 2 or any
		check(float64(rng.IntN(1e9)) / 1e6)
		check((float64(rng.IntN(1e7)) + 0.5) / 1e6)
		check(rng.Float64() * math.Pow(2, float64(rng.IntN(140)-76)))
		check(float64(rng.IntN(1<<40)) / 128 / 1024 / 1024)
		if t.Failed() {
			return
		}
	}
	if got := string(intrakernel.AppendF6(nil, math.Inf(1))); got != "inf" { // as C's
		t.Errorf("infinity: %s", got)
	}
}

// gemm makes the buffers of a launch like the sample: warps that run loops of regions inside one outer region.
func gemm(blocks, warps, loops int) (h *intrakernel.Header, events, counters []byte) {
	h = &intrakernel.Header{Session: intrakernel.Session{Cap: 8, Blocks: uint32(blocks), Warps: uint32(warps)}, Path: "t.json",
		Names: []string{"outside", "total", "load_A", "load_B", "compute"}, Options: intrakernel.DefaultOptions()}
	for int(h.Session.Cap) < 6*loops+2 {
		h.Session.Cap *= 2
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var recs []rec
	for block := range uint32(blocks) {
		for warp := range uint32(warps) {
			at := 1_700_000_000_000_000_000 + uint64(rng.IntN(1<<12))*32
			add := func(id uint16, kind intrakernel.Type) {
				recs = append(recs, rec{block, warp, block % 132, id, kind, at})
				at += uint64(1+rng.IntN(30)) * 32
			}
			add(1, b)
			for range loops {
				for id := uint16(2); id <= 4; id++ {
					add(id, b)
					add(id, e)
				}
			}
			add(1, e)
		}
	}
	events, counters = device(h.Session, recs)
	return h, events, counters
}

// Benchmarks from buffers to files; a record is the unit.
func BenchmarkCapture(b *testing.B) {
	const blocks, warps, loops = 1024, 8, 42
	records := blocks * warps * (6*loops + 2)
	h, events, counters := gemm(blocks, warps, loops)
	for _, c := range []struct {
		name          string
		trace, blocks bool
	}{{"summary", false, false}, {"trace", true, false}, {"blocks", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(records * intrakernel.RecordSize))
			b.ReportAllocs()
			for b.Loop() {
				capture, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), h)
				if err != nil {
					b.Fatal(err)
				}
				line, err := capture.Timeline(h)
				if err != nil || line.Survivors != records {
					b.Fatal(err, line.Survivors)
				}
				if err := line.WriteSummary(io.Discard); err != nil {
					b.Fatal(err)
				}
				if c.blocks {
					err = line.WriteBlocks(func(string) (io.WriteCloser, error) { return &discard{}, nil })
				}
				if c.trace {
					err = line.WriteTrace(io.Discard)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

type discard struct{}

func (*discard) Write(b []byte) (int, error) { return len(b), nil }
func (*discard) Close() error                { return nil }

// What is alive at any step is at most four times the records kept.
func TestMemoryIsFourTimesTheRecords(t *testing.T) {
	h, events, counters := gemm(256, 8, 42)
	records := 256 * 8 * (6*42 + 2)
	live := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, most := live(), 0
	// A writer is called in the middle of things.
	watch := writer(func() { most = max(most, live()-before) })
	capture, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), h)
	if err != nil {
		t.Fatal(err)
	}
	watch()
	line, err := capture.Timeline(h)
	if err != nil {
		t.Fatal(err)
	}
	watch()
	if err := line.WriteSummary(watch); err != nil {
		t.Fatal(err)
	}
	if err := line.WriteTrace(&once{watch: watch}); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(line)
	runtime.KeepAlive(events)
	if kept := records * intrakernel.RecordSize; most > 4*kept {
		t.Errorf("%d bytes alive for %d bytes of records", most, kept)
	} else {
		t.Logf("%.2f times the records", float64(most)/float64(kept))
	}
}

type writer func()

func (w writer) Write(b []byte) (int, error) { w(); return len(b), nil }

// once looks at every hundredth write.
type once struct {
	watch writer
	n     int
}

func (o *once) Write(b []byte) (int, error) {
	if o.n++; o.n%100 == 1 {
		o.watch()
	}
	return len(b), nil
}

// FuzzRecords: whatever the buffers hold, all files are written, the same from one pass and from records in another order of slots, and the
// trace gives the summary back.
func FuzzRecords(f *testing.F) {
	_, events, counters := gemm(2, 2, 1)
	f.Add(events, counters, uint8(3), true, 1.0)
	f.Add(bytes.Repeat([]byte{0xff}, 256), bytes.Repeat([]byte{0xff}, 16), uint8(2), false, -2.5)
	f.Fuzz(func(t *testing.T, events, counters []byte, size uint8, bySM bool, scale float64) {
		h := &intrakernel.Header{Session: intrakernel.Session{Cap: 1 << (size % 6), Blocks: uint32(len(counters) / 4), Warps: 1}, Path: "t.json",
			Options: intrakernel.DefaultOptions()}
		h.Options.GroupBySM, h.Options.Scale, h.Options.HistBins, h.Options.BlockRegions = bySM, scale, 3, true
		sameRings(t, events, counters, h)
		c, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), h)
		if err != nil {
			return
		}
		if c.Survived > uint64(len(events)/intrakernel.RecordSize) || uint64(len(c.Records)) != c.Survived || c.Recorded < c.Survived {
			t.Fatalf("%d records of %d, %d counted", len(c.Records), c.Survived, c.Recorded)
		}
		span := uint64(0)
		for _, r := range c.Records {
			span = max(span, r.TS)
		}
		line, err := c.Timeline(h)
		if err != nil {
			return
		}
		files := writeAll(t, line, h, true)
		trace, ok := files["t.json"]
		if !ok || scale != 1 || span >= 1<<52 {
			return
		}
		read, err := intrakernel.ReadTrace(strings.NewReader(trace), h, true)
		if err != nil {
			t.Fatalf("%v\n%s", err, trace)
		}
		delete(files, "t.json")
		files["t_summary.json"] = unmatchedNone(files["t_summary.json"])
		compare(t, writeAll(t, read, h, false), files)
	})
}

// FuzzHeader: no text breaks the parser, and what it takes can be used.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(`{"session":{"per_warp_cap":8,"grid_x":2,"threads_per_block":64},"region_names":["a\ud83d\ude00",""],"block_filter":[1,2],` +
		`"options":{"scale":1.5e-3,"group_by_smid":false},"trace_path":"a/b.json"}`))
	f.Add([]byte(`{"session":null,"region_names":null,"block_filter":null,"records":[[0,1,2]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := intrakernel.ParseHeader(text)
		if err != nil {
			return
		}
		if err := intrakernel.CheckPath(h.Path); err != nil || len(h.Names) > intrakernel.MaxNames {
			t.Fatalf("%+v: %v", h, err)
		}
		c := &intrakernel.Capture{Records: []intrakernel.Record{{Region: 1}, {TS: 5, Region: 1, Type: e}}}
		if line, err := c.Timeline(h); err == nil {
			writeAll(t, line, h, true)
		}
	})
}

// FuzzTrace: no text breaks the reader of traces, and what it takes has its summary.
func FuzzTrace(f *testing.F) {
	const event = `{"name":"a","ph":"X","ts":1.000000,"dur":2.000000,"pid":3,"tid":65,"cname":"good","args":{"sm":3,"block":1,"warp":1}}`
	f.Add("["+event+"]", true)
	f.Add(`{"traceEvents":[`+strings.Replace(event, `"X"`, `"B"`, 1)+`,`+strings.Replace(event, `"X"`, `"E"`, 1)+`]}`, false)
	f.Fuzz(func(t *testing.T, text string, known bool) {
		h := &intrakernel.Header{Path: "t.json", Options: intrakernel.DefaultOptions(), Names: []string{"a"}}
		line, err := intrakernel.ReadTrace(strings.NewReader(text), h, known)
		if err != nil {
			return
		}
		files := writeAll(t, line, h, false)
		if line.Survivors > 0 && !strings.HasSuffix(files["t_summary.json"], "}\n") {
			t.Fatal(fmt.Sprint(files))
		}
	})
}
