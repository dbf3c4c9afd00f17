package intrakernel_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/sink/table"
	regiontable "github.com/warpline/warpline/sink/table/intrakernel"
	"github.com/warpline/warpline/sink/table/tabletest"
)

const vectors = "../../../testdata/intrakernel"

// open reads a file of a case, which may be there as gzip alone; nil if there is none.
func open(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		return b
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return b
}

// shape is what a region or block entry of the peer's files says.
type shape struct {
	Region      int
	Name        string
	Block       int
	Warp        int
	Count       uint64
	Mean        float64            `json:"mean_dur"`
	CV          *float64           `json:"cv_dur"`
	VarPop      float64            `json:"var_dur_pop"`
	VarSample   float64            `json:"var_dur_sample"`
	Min         float64            `json:"min_dur"`
	Max         float64            `json:"max_dur"`
	Percentiles map[string]float64 `json:"percentiles"`
	Hist        struct{ Prob []float64 }
}

// row is the same from SQL.
type row struct {
	Region, Block, Warp int
	Name                string
	Count               uint64
	Mean                float64  `json:"mean_dur"`
	CV                  *float64 `json:"cv_dur"`
	VarPop              float64  `json:"var_dur_pop"`
	VarSample           float64  `json:"var_dur_sample"`
	Min                 float64  `json:"min_dur"`
	Max                 float64  `json:"max_dur"`
	Percentiles         map[string]float64
	Hist                []float64
}

// printed is a name without the bytes that the peer's files leave out.
func printed(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && !strings.ContainsRune("\b\f\n\r\t", r) {
			return -1
		}
		return r
	}, name)
}

// near is 1e-9 relative, or what the six decimals of a file leave open.
func near(got, want float64) bool {
	return math.Abs(got-want) <= 0.51e-6+math.Abs(want)*1e-9
}

func same(t *testing.T, what string, got *row, want *shape) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: no row", what)
		return
	}
	cv := got.CV == nil == (want.CV == nil) && (got.CV == nil || near(*got.CV, *want.CV))
	if printed(got.Name) != want.Name || got.Count != want.Count || !cv || !near(got.Mean, want.Mean) || !near(got.VarPop, want.VarPop) ||
		!near(got.VarSample, want.VarSample) || !near(got.Min, want.Min) || !near(got.Max, want.Max) {
		t.Errorf("%s: SQL says %+v, the peer %+v", what, got, want)
	}
	if len(got.Percentiles) != len(want.Percentiles) {
		t.Errorf("%s: %d percentiles, the peer has %d", what, len(got.Percentiles), len(want.Percentiles))
	}
	for level, p := range want.Percentiles {
		if v, ok := got.Percentiles[level]; !ok || !near(v, p) {
			t.Errorf("%s: %s is %v, the peer says %v", what, level, v, p)
		}
	}
	if len(got.Hist) != len(want.Hist.Prob) {
		t.Errorf("%s: %d bins, the peer has %d", what, len(got.Hist), len(want.Hist.Prob))
		return
	}
	for i, p := range want.Hist.Prob {
		if !near(got.Hist[i], p) {
			t.Errorf("%s: bin %d is %v, the peer says %v", what, i, got.Hist[i], p)
		}
	}
}

// seed stores the slices of a case as a session of its name. It returns nil for a case of which the peer makes no summary.
func seed(t *testing.T, s *tabletest.Store, name string) *intrakernel.Header {
	dir := filepath.Join(vectors, name)
	h, err := intrakernel.ParseHeader(open(t, filepath.Join(dir, "input.json")))
	if err != nil {
		t.Fatal(err)
	}
	if !h.Options.CompleteEvents {
		return nil
	}
	c, err := intrakernel.Collect(bytes.NewReader(open(t, filepath.Join(dir, "events.bin"))),
		bytes.NewReader(open(t, filepath.Join(dir, "counters.bin"))), h)
	if err != nil {
		t.Fatal(err)
	}
	line, err := c.Timeline(h)
	if err != nil {
		t.Fatal(err)
	}
	var events []intrakernel.Event
	for _, e := range line.Events {
		if !e.Instant {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	tab := &regiontable.Regions
	s.Seed(*tab, len(events), func(b *table.Batch, i int) {
		e := &events[i]
		tab.Tenant.AppendString(b, "acme")
		tab.SessionID.AppendString(b, name)
		tab.Kernel.AppendString(b, "k")
		tab.Region.Append(b, uint32(e.Region))
		label := strconv.Itoa(int(e.Region))
		if int(e.Region) < len(h.Names) {
			label = h.Names[e.Region]
		}
		tab.Name.AppendString(b, label)
		tab.Block.Append(b, uint32(e.Block))
		tab.Warp.Append(b, e.Warp())
		tab.SM.Append(b, e.SM())
		tab.StartedAt.Append(b, int64(min(e.TS, 1<<62)))
		tab.DurationNS.Append(b, e.Dur)
	})
	b := table.NewBatch(regiontable.RegionCaptures.Table)
	bins := func(n uint32) uint32 {
		if n == 0 {
			return 128
		}
		return n
	}
	regiontable.RegionCaptures.Append(b, &regiontable.RegionCaptureRow{HeadRow: table.HeadRow{Tenant: "acme", SessionID: name}, Kernel: "k",
		Scale: h.Options.Scale, Bins: bins(h.Options.HistBins), BlockBins: bins(h.Options.BlockRegionBins),
		ReceivedDay: table.DayOf(tabletest.Received.UnixNano())})
	tabletest.FillRest(b, 1, tabletest.Received, 30)
	s.Insert(b)
	return h
}

// rows asks a view for one session.
func rows(t *testing.T, s *tabletest.Store, view, columns, session string) []*row {
	t.Helper()
	text := s.Query(fmt.Sprintf("SELECT region, %s, name, count, mean_dur, cv_dur, var_dur_pop, var_dur_sample, min_dur, max_dur "+
		"FROM {db}.%s "+
		"WHERE tenant = 'acme' AND session_id = '%s' FORMAT JSONEachRow", columns, view, session), "output_format_json_quote_64bit_integers=0")
	var list []*row
	for line := range strings.Lines(text) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, &r)
	}
	return list
}

// The views say what the peer's summary and files of blocks say, of every vector.
func TestViewsSayWhatThePeerSays(t *testing.T) {
	s := tabletest.New(t, true)
	found, err := filepath.Glob(filepath.Join(vectors, "*", "counters.bin"))
	if err != nil || len(found) < 40 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	checked := 0
	for _, path := range found {
		name := filepath.Base(filepath.Dir(path))
		h := seed(t, s, name)
		if h == nil {
			continue
		}
		out := filepath.Join(vectors, name, "out")
		var summary struct {
			Regions []shape
			Warps   map[string]struct {
				Region int
				List   []shape `json:"by_block_warp"`
			} `json:"by_block_warp_regions"`
		}
		text := open(t, filepath.Join(out, intrakernel.SummaryPath(h.Path)))
		if text == nil {
			continue
		}
		if err := json.Unmarshal(text, &summary); err != nil {
			t.Fatal(err)
		}
		got := rows(t, s, "region_stats", "percentiles, hist", name)
		if len(got) != len(summary.Regions) {
			t.Errorf("%s: %d regions, the peer has %d", name, len(got), len(summary.Regions))
		}
		for i := range summary.Regions {
			want := &summary.Regions[i]
			same(t, fmt.Sprintf("%s: region %d", name, want.Region), find(got, want.Region, 0, 0), want)
			checked++
		}
		warps := rows(t, s, "region_warp_stats", "block, warp", name)
		for _, of := range summary.Warps {
			for i := range of.List {
				want := &of.List[i]
				want.Name = printed(nameOf(h, of.Region))
				same(t, fmt.Sprintf("%s: region %d of block %d warp %d", name, of.Region, want.Block, want.Warp),
					find(warps, of.Region, want.Block, want.Warp), want)
				checked++
			}
		}
		blocks := rows(t, s, "region_block_stats", "block, hist", name)
		files, _ := filepath.Glob(filepath.Join(out, intrakernel.BlocksPath(h.Path), "block_*"))
		for _, file := range files {
			var block struct {
				Block   int
				Regions []shape
			}
			if err := json.Unmarshal(open(t, strings.TrimSuffix(file, ".gz")), &block); err != nil {
				t.Fatal(err)
			}
			for i := range block.Regions {
				want := &block.Regions[i]
				same(t, fmt.Sprintf("%s: region %d of block %d", name, want.Region, block.Block), find(blocks, want.Region, block.Block, 0), want)
				checked++
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d entries were compared", checked)
	}
}

func nameOf(h *intrakernel.Header, region int) string {
	if region < len(h.Names) {
		return h.Names[region]
	}
	return strconv.Itoa(region)
}

func find(list []*row, region, block, warp int) *row {
	for _, r := range list {
		if r.Region == region && r.Block == block && r.Warp == warp {
			return r
		}
	}
	return nil
}
