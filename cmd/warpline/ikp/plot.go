package ikp

import (
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Plot draws distributions, as the profiler's plot_trace_summary.py does and by its names: trace_dist_region<id>_<name> and
// trace_dist_overlay, those of block N in block_N. Beside them it draws the blocks of each region over each other
// (trace_dist_blocks_region<id>_<name>), and the means of blocks and regions (trace_mean_blocks).
type Plot struct {
	// Paths are summaries, files of blocks, and folders of either. Each but the only one has a folder of its own below Out.
	Paths []string
	// Regions are the ids that are drawn; none is all.
	Regions []int
	// LogX makes the axis of durations logarithmic.
	LogX bool
	// Formats are svg and png.
	Formats []string
	// Out is the folder to write below, OutName how the user calls that setting.
	Out, OutName string
}

// maxPictures is how many are drawn in one go; a few hundred a second are made.
const maxPictures = 100_000

// job is one drawing that is to be made.
type job struct {
	name string
	make func() *picture
}

// Run reads everything before it draws anything, and says on words what it drew.
func (pl *Plot) Run(ctx context.Context, words io.Writer) error {
	sources, err := readSources(ctx, pl.Paths)
	if err != nil {
		return err
	}
	var jobs []job
	wide := false
	there := map[int]bool{}
	for _, s := range sources {
		dir := ""
		if len(sources) > 1 {
			dir = s.name
		}
		made, err := pl.jobs(s, dir, there)
		if err != nil {
			return err
		}
		jobs = append(jobs, made...)
		wide = wide || s.summary != nil && pl.wide(s.summary.Regions)
	}
	for _, id := range pl.Regions {
		if !there[id] {
			return unusable(fmt.Errorf("no region %d here: there are %s", id, idsOf(there)))
		}
	}
	formats := slices.Compact(slices.Sorted(slices.Values(pl.Formats)))
	switch n := len(jobs) * len(formats); {
	case n == 0:
		fmt.Fprintln(words, "no region has a slice: nothing is drawn")
		return nil
	case n > maxPictures:
		return unusable(fmt.Errorf("%d files would be drawn, and %d are the most: name regions, fewer blocks, or one format", n, maxPictures))
	}
	if wide && !pl.LogX {
		fmt.Fprintln(words, "some regions take more than 50 times as long as others: --logx shows them beside each other, --regions draws some")
	}
	shown, err := writeBelow(ctx, pl.Out, pl.OutName, func(files *folder) error { return draws(files, jobs, formats) })
	if err != nil {
		return err
	}
	if len(shown) > maxShown {
		fmt.Fprintf(words, "%d files below %s\n", len(shown), pl.Out)
		return nil
	}
	for _, file := range shown {
		fmt.Fprintln(words, file)
	}
	return nil
}

// maxShown is how many files are named one by one.
const maxShown = 40

func draws(files *folder, jobs []job, formats []string) error {
	for _, j := range jobs {
		p := j.make()
		for _, format := range formats {
			if err := files.write(j.name+"."+format, func(w io.Writer) error { return p.write(w, format) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// jobs are the drawings of a source; there collects its regions.
func (pl *Plot) jobs(s *source, dir string, there map[int]bool) (all []job, err error) {
	var m *means
	unit := ""
	if s.summary != nil {
		unit = s.summary.unit()
		regions, err := pl.chosen(s.summary, there, s.name)
		if err != nil {
			return nil, err
		}
		all = pl.regionJobs(dir, "", unit, regions)
		m = summaryMeans(s.summary, regions)
	} else {
		unit = s.blocks[0].unit()
		byID := map[int][]blockRegion{}
		for _, b := range s.blocks {
			regions, err := pl.chosen(b, there, fmt.Sprintf("block %d of %s", *b.Block, s.name))
			if err != nil {
				return nil, err
			}
			sub := fmt.Sprintf("block_%d", *b.Block)
			all = append(all, pl.regionJobs(path.Join(dir, sub), fmt.Sprintf(", block %d", *b.Block), unit, regions)...)
			for _, r := range regions {
				byID[r.ID] = append(byID[r.ID], blockRegion{*b.Block, r})
			}
		}
		ids := sortedKeys(byID)
		for _, id := range ids {
			of := byID[id]
			name := fmt.Sprintf("trace_dist_blocks_region%d_%s", id, safe(of[0].Name))
			all = append(all, job{path.Join(dir, name), func() *picture { return drawBlocks(of, unit, pl.LogX) }})
		}
		m = blockMeans(s.blocks, ids, byID)
	}
	if m != nil && len(m.regions) > 0 {
		all = append(all, job{path.Join(dir, "trace_mean_blocks"), func() *picture { return drawMeans(m, unit) }})
	}
	return all, nil
}

// regionJobs are a drawing for each region, and one of all.
func (pl *Plot) regionJobs(dir, of, unit string, regions []*region) (all []job) {
	for _, r := range regions {
		name := fmt.Sprintf("trace_dist_region%d_%s", r.ID, safe(r.Name))
		all = append(all, job{path.Join(dir, name), func() *picture { return drawRegion(r, of, unit, pl.LogX) }})
	}
	if len(regions) > 0 {
		all = append(all, job{path.Join(dir, "trace_dist_overlay"), func() *picture { return drawRegions(regions, of, unit, pl.LogX) }})
	}
	return all
}

// chosen are the regions of d that are drawn.
func (pl *Plot) chosen(d *distribution, there map[int]bool, where string) (all []*region, err error) {
	for i := range d.Regions {
		r := &d.Regions[i]
		there[r.ID] = true
		if len(pl.Regions) > 0 && !slices.Contains(pl.Regions, r.ID) {
			continue
		}
		if low, _ := span([]*region{r}); pl.LogX && low <= 0 {
			return nil, unusable(fmt.Errorf("%s: region %d: the shortest duration is %s, and a logarithmic axis has only what is above 0: "+
				"draw without --logx, or name other regions with --regions", where, r.ID, number(r.Hist.Min)))
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *region) int { return a.ID - b.ID })
	return all, nil
}

// summaryMeans are the means of blocks that a summary's warps have, nil if it has none.
func summaryMeans(d *distribution, regions []*region) *means {
	blocks := map[uint64]int{}
	warps := map[int]warpsOf{}
	for _, w := range d.Warps {
		warps[w.ID] = w
		for _, warp := range w.Warps {
			blocks[warp.Block] = 0
		}
	}
	if len(blocks) == 0 {
		return nil
	}
	ids := sortedKeys(blocks)
	for i, b := range ids {
		blocks[b] = i
	}
	m := newMeans(regions, ids)
	for row, r := range regions {
		for _, warp := range warps[r.ID].Warps {
			m.add(row, blocks[warp.Block], warp.Count, warp.Mean)
		}
	}
	if d.Filters.TopWarps > 0 {
		m.note = fmt.Sprintf("\nonly the %d warps of each region that the summary has", d.Filters.TopWarps)
	}
	return m
}

// blockMeans are the means that files of blocks have.
func blockMeans(files []*distribution, ids []int, byID map[int][]blockRegion) *means {
	var regions []*region
	for _, id := range ids {
		regions = append(regions, byID[id][0].region)
	}
	blocks := make([]uint64, len(files))
	column := map[uint64]int{}
	for i, d := range files {
		blocks[i], column[*d.Block] = *d.Block, i
	}
	m := newMeans(regions, blocks)
	for row, id := range ids {
		for _, r := range byID[id] {
			m.add(row, column[r.block], r.Count, r.Mean)
		}
	}
	return m
}

func sortedKeys[K int | uint64, V any](m map[K]V) []K {
	all := make([]K, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// idsOf lists ids for people.
func idsOf(there map[int]bool) string {
	ids := sortedKeys(there)
	if len(ids) == 0 {
		return "none"
	}
	text := make([]string, 0, 20)
	for _, id := range ids[:min(len(ids), 20)] {
		text = append(text, strconv.Itoa(id))
	}
	if len(ids) > 20 {
		text = append(text, fmt.Sprintf("and %d more", len(ids)-20))
	}
	return strings.Join(text, ", ")
}

// wide reports whether the regions that are drawn do not fit on one linear axis.
func (pl *Plot) wide(regions []region) bool {
	low, high := math.Inf(1), 0.0
	for _, r := range regions {
		if r.Mean > 0 && (len(pl.Regions) == 0 || slices.Contains(pl.Regions, r.ID)) {
			low, high = min(low, r.Mean), max(high, r.Mean)
		}
	}
	return high > 50*low
}
