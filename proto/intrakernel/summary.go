package intrakernel

import (
	"cmp"
	"io"
	"slices"
	"strconv"
)

// HasSummary reports whether the options ask for a summary; HasBlocks whether they ask for the distributions of blocks.
func (o *Options) HasSummary() bool { return o.CompleteEvents && o.Summary }

// HasBlocks reports whether WriteBlocks is asked for: only beside a summary.
func (o *Options) HasBlocks() bool { return o.HasSummary() && o.BlockRegions }

// WriteSummary writes what the summary file has: each region's durations, and each warp's.
func (t *Timeline) WriteSummary(w io.Writer) error {
	p := newPrinter(w)
	o := &t.header.Options
	t.printHead(p)
	key := func(e *Event) uint64 { return uint64(e.Region) }
	var regions groups
	regions.add(t, key)
	durations := regions.durations(t, key)
	slices.SortFunc(regions.all, func(a, b group) int { return cmp.Compare(a.key, b.key) })
	p.text(`  "regions": [` + "\n")
	var h histogram
	before := "    "
	for i := range regions.all {
		g := &regions.all[i]
		h.fill(g.of(durations), o.Scale, &g.stat, o.HistBins)
		p.uint(before+`{"region": `, g.key)
		p.quoted(`, "name": `, t.header.name(uint16(g.key)))
		g.printMean(p)
		h.printPercentiles(p)
		g.printSpread(p)
		h.print(p)
		p.text("}")
		before = ",\n    "
		p.spill()
	}
	p.text("\n  ],\n")
	if o.ByBlockWarp {
		t.printWarps(p)
	} else {
		p.text(`  "by_block_warp_regions": null` + "\n")
	}
	p.text("}\n")
	return p.flush()
}

// printHead prints what is known of the launch.
func (t *Timeline) printHead(p *printer) {
	h, o := t.header, &t.header.Options
	p.quoted("{\n"+`  "trace": `, h.Path)
	p.f6(`,`+"\n"+`  "displayTimeUnit": "ns",`+"\n"+`  "scale": `, o.Scale)
	p.flag(`,`+"\n"+`  "emit_complete_events": `, o.CompleteEvents)
	p.flag(`,`+"\n"+`  "group_by_smid": `, o.GroupBySM)
	p.uint(`,`+"\n"+`  "blocks": `, uint64(h.Session.Blocks))
	p.uint(`,`+"\n"+`  "warps_per_block": `, uint64(h.Session.Warps))
	p.uint(`,`+"\n"+`  "per_warp_cap": `, uint64(h.Session.Cap))
	p.uint(`,`+"\n"+`  "summary_filters": {"summary_hist_bins": `, uint64(o.HistBins))
	p.flag(`, "summary_dump_by_block_warp": `, o.ByBlockWarp)
	p.uint(`, "summary_topk_block_warp_per_region": `, uint64(o.TopBlockWarps))
	p.flag(`, "emit_block_region_distributions": `, o.BlockRegions)
	p.text(", ")
	o.printBlockFilters(p)
	p.text(`},` + "\n" + `  "block_filter": [`)
	before := ""
	for _, b := range h.sortedFilter() {
		p.uint(before, uint64(b))
		before = ", "
		p.spill()
	}
	p.uint(`],`+"\n"+`  "unmatched_begin": `, t.UnmatchedBegin)
	p.uint(`,`+"\n"+`  "unmatched_end": `, t.UnmatchedEnd)
	p.text(",\n")
}

// printBlockFilters prints the options of the distributions.
func (o *Options) printBlockFilters(p *printer) {
	p.uint(`"block_region_hist_bins": `, uint64(o.BlockRegionBins))
	p.uint(`, "block_region_topk_blocks": `, uint64(o.TopBlocks))
	p.uint(`, "block_region_topk_regions_per_block": `, uint64(o.TopRegions))
}

// printWarps prints the regions of each warp, wherever it ran.
func (t *Timeline) printWarps(p *printer) {
	var warps groups
	warps.add(t, func(e *Event) uint64 { return uint64(e.Region)<<22 | uint64(e.Block)<<6 | uint64(e.Warp()) })
	all := warps.all
	slices.SortFunc(all, func(a, b group) int { return cmp.Compare(a.key, b.key) })
	p.text(`  "by_block_warp_regions": {` + "\n")
	used := map[string]bool{}
	before := "    "
	for len(all) > 0 {
		region := uint16(all[0].key >> 22)
		n := 0
		for n < len(all) && uint16(all[n].key>>22) == region {
			n++
		}
		name := t.header.name(region)
		key := keyOf(name)
		if used[key] {
			key += "_" + strconv.Itoa(int(region))
		}
		used[key] = true
		p.quoted(before, key)
		before = ",\n    "
		p.uint(`: {`+"\n"+`      "region": `, uint64(region))
		p.quoted(`,`+"\n"+`      "name": `, name)
		p.text(`,` + "\n" + `      "by_block_warp": [` + "\n")
		between := "        "
		top := t.header.Options.TopBlockWarps
		for _, g := range largest(all[:n], top, func(g *group) uint64 { return g.n }, func(g *group) uint64 { return g.key }) {
			p.uint(between+`{"block": `, g.key>>6&(1<<16-1))
			p.uint(`, "warp": `, g.key&63)
			g.printMean(p)
			g.printSpread(p)
			p.text("}")
			between = ",\n        "
			p.spill()
		}
		p.text("\n      ]\n    }")
		all = all[n:]
	}
	p.text("\n  }\n")
}
