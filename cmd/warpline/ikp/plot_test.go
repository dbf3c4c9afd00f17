package ikp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const vectors = "../../../testdata/intrakernel"

// drawn runs Plot and returns the files that it wrote, by path, and its words.
func drawn(t *testing.T, pl Plot) (map[string][]byte, string, error) {
	t.Helper()
	pl.Out, pl.OutName = filepath.Join(t.TempDir(), "out"), "--out"
	if pl.Formats == nil {
		pl.Formats = []string{"svg"}
	}
	var words bytes.Buffer
	err := pl.Run(context.Background(), &words)
	files := map[string][]byte{}
	walked := filepath.WalkDir(pl.Out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(pl.Out, path)
		files[filepath.ToSlash(rel)] = b
		return err
	})
	if walked != nil && !errors.Is(walked, fs.ErrNotExist) {
		t.Fatal(walked)
	}
	return files, words.String(), err
}

func sorted(files map[string][]byte) string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

// What is drawn, by name: the peer's script's names, and those of blocks beside them.
func TestPlotNames(t *testing.T) {
	dists := filepath.Join(vectors, "block_region_dists_topk", "out", "trace_block_region_dists")
	gemm := filepath.Join(vectors, "samples", "gemm_trace_summary.json.gz")
	for _, c := range []struct {
		name string
		plot Plot
		want []string
	}{
		{"a summary", Plot{Paths: []string{gemm}}, []string{"trace_dist_overlay.svg", "trace_dist_region1_total.svg",
			"trace_dist_region2_load_A.svg", "trace_dist_region3_load_B.svg", "trace_dist_region4_compute.svg", "trace_dist_region5_store.svg",
			"trace_mean_blocks.svg"}},
		{"some regions of it, in both formats", Plot{Paths: []string{gemm}, Regions: []int{2, 4}, Formats: []string{"svg", "png"}},
			[]string{"trace_dist_overlay.png", "trace_dist_overlay.svg", "trace_dist_region2_load_A.png", "trace_dist_region2_load_A.svg",
				"trace_dist_region4_compute.png", "trace_dist_region4_compute.svg", "trace_mean_blocks.png", "trace_mean_blocks.svg"}},
		{"a folder of blocks", Plot{Paths: []string{filepath.Join(vectors, "block_region_dists", "out", "trace_block_region_dists")},
			Regions: []int{1}}, []string{"block_0/trace_dist_overlay.svg", "block_0/trace_dist_region1_compute.svg",
			"block_1/trace_dist_overlay.svg", "block_1/trace_dist_region1_compute.svg", "block_2/trace_dist_overlay.svg",
			"block_2/trace_dist_region1_compute.svg", "block_3/trace_dist_overlay.svg", "block_3/trace_dist_region1_compute.svg",
			"trace_dist_blocks_region1_compute.svg", "trace_mean_blocks.svg"}},
		{"two summaries of one name", Plot{Paths: []string{gemm, gemm}, Regions: []int{5}}, []string{
			"gemm_trace_summary-2/trace_dist_overlay.svg", "gemm_trace_summary-2/trace_dist_region5_store.svg",
			"gemm_trace_summary-2/trace_mean_blocks.svg", "gemm_trace_summary/trace_dist_overlay.svg",
			"gemm_trace_summary/trace_dist_region5_store.svg", "gemm_trace_summary/trace_mean_blocks.svg"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, words, err := drawn(t, c.plot)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := sorted(files), strings.Join(c.want, "\n"); got != want {
				t.Errorf("wrote\n%s\nwant\n%s", got, want)
			}
			for name, b := range files {
				if !strings.Contains(words, filepath.FromSlash(name)) {
					t.Errorf("%s is not said", name)
				}
				wellFormed(t, name, b)
			}
		})
	}
	t.Run("an output folder of warpline ikp", func(t *testing.T) {
		files, _, err := drawn(t, Plot{Paths: []string{filepath.Dir(dists)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"trace_summary/trace_dist_overlay.svg", "trace_block_region_dists/trace_mean_blocks.svg"} {
			if files[name] == nil {
				t.Errorf("no %s in\n%s", name, sorted(files))
			}
		}
	})
}

// wellFormed refuses files that a viewer would refuse.
func wellFormed(t *testing.T, name string, b []byte) {
	t.Helper()
	var err error
	if strings.HasSuffix(name, ".png") {
		_, err = png.Decode(bytes.NewReader(b))
	} else {
		for dec := xml.NewDecoder(bytes.NewReader(b)); err == nil; {
			_, err = dec.Token()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// The same input gives the same bytes, so that drawings can be compared and kept in version control.
func TestPlotIsDeterministic(t *testing.T) {
	pl := Plot{Paths: []string{filepath.Join(vectors, "gemm_like", "out")}, Regions: []int{1, 2}}
	first, _, err := drawn(t, pl)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := drawn(t, pl)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range first {
		if !bytes.Equal(b, second[name]) {
			t.Errorf("%s differs the second time", name)
		}
	}
}

// one is a summary of one region.
func one(region, name string, low, high float64, prob string, rest string) string {
	const text = `{"scale":1.0,"regions":[{"region":%s,"name":%s,"count":3,"mean_dur":%v,` +
		`"hist":{"bins":%d,"min":%v,"max":%v,"prob":[%s]}}]%s}`
	return fmt.Sprintf(text, region, name, (low+high)/2, strings.Count(prob, ",")+1, low, high, prob, rest)
}

// What a drawing says: the region, the unit with its scale, and how late a block is.
func TestPlotTexts(t *testing.T) {
	dir := t.TempDir()
	var blocks []string
	for i := range 100 {
		path := filepath.Join(dir, fmt.Sprintf("block_%d.json", i))
		mean := 1000.0 + float64(i%7)
		if i == 42 {
			mean = 3000
		}
		text := strings.Replace(one("7", `"inner <K>\u0000"`, mean-10, mean+10, "0.25,0.5,0.25", fmt.Sprintf(`,"block":%d`, i)), "1.0", "2.5", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, path)
	}
	for _, logx := range []bool{false, true} {
		files, words, err := drawn(t, Plot{Paths: blocks, LogX: logx})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(words, "202 files below") {
			t.Error(words)
		}
		for name, want := range map[string][]string{
			"trace_dist_blocks_region7_inner__K.svg":   {"region 7: inner &lt;K&gt;", "100 blocks", "ns × 2.5", "block 42: 3,000", "…"},
			"block_42/trace_dist_region7_inner__K.svg": {"block 42: 3 slices, mean 3,000 ns × 2.5"},
			"trace_mean_blocks.svg":                    {"block", "mean", "+193 %"},
		} {
			wellFormed(t, name, files[name])
			for _, text := range want {
				if !bytes.Contains(files[name], []byte(text)) {
					t.Errorf("%s does not say %q", name, text)
				}
			}
		}
	}
}

// Histograms of blocks have bins of their own; over each other they are spread over the same ones, and nothing is lost.
func TestRebinKeepsAll(t *testing.T) {
	r := &region{}
	r.Hist.Bins, r.Hist.Min, r.Hist.Max, r.Hist.Prob = 4, 10, 50, []float64{0.4, 0.3, 0.2, 0.1}
	point := &region{}
	point.Hist.Bins, point.Hist.Min, point.Hist.Max, point.Hist.Prob = 4, 50, 50, []float64{1, 0, 0, 0}
	for _, c := range []struct {
		r    *region
		b    bars
		want float64
	}{
		{r, rebin(r, 10, 50, 64), 1}, {r, rebin(r, -5, 99, 7), 1}, {r, rebinLog(r, 1, 1000, 64), 1},
		{point, rebin(point, 10, 50, 64), 1}, {point, rebinLog(point, 10, 51, 64), 1},
	} {
		if got := sum(c.b.prob); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%v of %v is left", got, c.want)
		}
	}
	if b := rebin(r, 10, 50, 2); b.prob[0] < 0.699 || b.prob[0] > 0.701 {
		t.Errorf("%v in the first half, want 0.7", b.prob[0])
	}
}

// A late block among very many is seen, though it has no column of its own.
func TestManyBlocksHideNone(t *testing.T) {
	blocks := make([]uint64, 5000)
	for i := range blocks {
		blocks[i] = uint64(i)
	}
	m := newMeans([]*region{{ID: 1, Name: "a"}}, blocks)
	for i := range blocks {
		mean := 100.0
		if i == 4321 {
			mean = 900
		}
		m.add(0, i, 1, mean)
	}
	m.crowd(mostColumns)
	if c, _ := m.Dims(); c != 1000 || m.mean[0][4321/5] != 900 || m.blocks[4321/5] != 4320 {
		t.Errorf("%d columns, block %d has %v", c, m.blocks[4321/5], m.mean[0][4321/5])
	}
}

// What cannot be drawn is refused with the file, the field and what to do, and nothing is written.
func TestPlotRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := one("1", `"a"`, 1, 2, "0.5,0.5", "")
	summary := file("good_summary.json", good)
	block := file("x/block_1.json", one("1", `"a"`, 1, 2, "1", `,"block":1`))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, good)
	z.Close()
	for _, c := range []struct {
		plot   Plot
		misuse bool
		want   string
	}{
		{Plot{Paths: []string{filepath.Join(dir, "none")}}, true, "none: no such file or directory: name a _summary.json"},
		{Plot{Paths: []string{t.TempDir()}}, true, "no _summary.json and no block_N.json: make them with"},
		{Plot{Paths: []string{summary}, Regions: []int{9}}, true, "no region 9 here: there are 1"},
		{Plot{Paths: []string{block, block}}, true, "block 1 is there twice"},
		{Plot{Paths: []string{block, file("x/block_2.json", strings.Replace(one("1", `"a"`, 1, 2, "1", `,"block":2`), "1.0", "2.0", 1))}}, true,
			"block 2 is in ns × 2 and block 1 in ns: name blocks of one launch at a time"},
		{Plot{Paths: []string{file("zero.json", one("1", `"a"`, 0, 2, "1", ""))}, LogX: true}, true, "region 1: the shortest duration is 0"},
		{Plot{Paths: []string{file("trace.json", `{"traceEvents":[{"ph":"X"}]}`)}}, false, "trace.json: a trace, which has no distributions"},
		{Plot{Paths: []string{file("index.json", `{"dir":"x","blocks":[1]}`)}}, false, "index.json: an index, which only lists the blocks: name"},
		{Plot{Paths: []string{file("text.json", `no JSON`)}}, false, "give a whole _summary.json"},
		{Plot{Paths: []string{file("cut.json", good[:40])}}, false, "cut.json: unexpected EOF: give a whole _summary.json"},
		{Plot{Paths: []string{file("cut.json.gz", packed.String()[:packed.Len()-9])}}, false, "cut.json.gz: unexpected EOF: give a whole"},
		{Plot{Paths: []string{file("two.json", good+good)}}, false, "two.json: more follows behind its object"},
		{Plot{Paths: []string{file("other.json", `{"a":1}`)}}, false, "other.json: no regions: give"},
		{Plot{Paths: []string{file("id.json", one("70000", `"a"`, 1, 2, "1", ""))}}, false, "region: 70000 is outside 0 to 65535"},
		{Plot{Paths: []string{file("bins.json", strings.Replace(good, `"bins":2`, `"bins":3`, 1))}}, false,
			"region 1: hist.prob has 2 numbers, and hist.bins is 3"},
		{Plot{Paths: []string{file("prob.json", one("1", `"a"`, 1, 2, "0.5,-1", ""))}}, false, "region 1: hist.prob[1]: -1 is outside 0 to 1"},
		{Plot{Paths: []string{file("order.json", one("1", `"a"`, 3, 2, "1", ""))}}, false, "region 1: hist.min 3 is above hist.max 2"},
		{Plot{Paths: []string{file("far.json", one("1", `"a"`, 1, 1e300, "1", ""))}}, false, "region 1: durations beyond 1e+200"},
	} {
		files, _, err := drawn(t, c.plot)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(files) > 0 {
			t.Errorf("%v: %v, %d files\nwant %s", c.plot.Paths, err, len(files), c.want)
		}
		var wrong Misuse
		if errors.As(err, &wrong) != c.misuse {
			t.Errorf("%v: misuse is %v", c.plot.Paths, !c.misuse)
		}
	}
}

// Names become parts of file names as the peer's script makes them; no name leaves the folder or is too long for one.
func TestSafeNames(t *testing.T) {
	for name, want := range map[string]string{"load_A": "load_A", "a b/c": "a_b_c", "../../x": ".._.._x", "": "region", "///": "region",
		"Größe-1.5": "Größe-1.5", "..": "region", "\xff\x00": "region", strings.Repeat("é", 100): strings.Repeat("é", 60)} {
		if got := safe(name); got != want {
			t.Errorf("safe(%q) = %q, want %q", name, got, want)
		}
	}
}

// Whatever is taken can be drawn.
func FuzzDistribution(f *testing.F) {
	for _, seed := range []string{one("1", `"a"`, 1, 2, "0.5,0.5", ""), one("1", `"a"`, 5, 5, "1", `,"block":3`),
		one("0", `""`, -1e200, 1e200, "1,0,0", ""), one("1", `"a"`, 0, 0, "1",
			`,"by_block_warp_regions":{"region_a":{"region":1,"by_block_warp":[{"block":1,"count":2,"mean_dur":-3}]}}`)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decode(bytes.NewReader(b))
		if err != nil || len(d.Regions) > 20 {
			return
		}
		s := &source{name: "fuzz", summary: d}
		if d.Block != nil {
			s = &source{name: "fuzz", blocks: []*distribution{d}}
		}
		for _, logx := range []bool{false, true} {
			pl := Plot{LogX: logx}
			jobs, err := pl.jobs(s, "", map[int]bool{})
			if err != nil {
				continue
			}
			for _, j := range jobs {
				if err := j.make().write(io.Discard, "svg"); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
