package report

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// Print writes the report as text.
func (r *Regions) Print(w io.Writer, st Style) error {
	if st.Width == 0 {
		st.Width = 100
	}
	p := &printer{&errWriter{w: w}, style{st.Colour}, st}
	if len(r.Captures) == 0 {
		p.section("No captures", "")
		p.paragraph("Send the buffers of a launch, or a trace of write_trace or of Triton's Proton, to /api/v1/intrakernel: docs/send.md has " +
			"the lines.")
		return p.w.err
	}
	p.regions(r)
	p.blocks(r)
	p.late(r)
	p.changed(r)
	p.captures(r)
	return p.w.err
}

func (p *printer) regions(r *Regions) {
	p.section("Regions", plural(r.All, "capture")+"; shares are of the time in all regions of a kernel, which may lie in each other")
	g := &grid{columns: []column{{head: "region", stretch: true}, {head: "kernel", drop: 4}, {head: "count", right: true, drop: 3},
		{head: "share", right: true}, {head: "min", right: true, drop: 6}, {head: "p50", right: true}, {head: "p90", right: true, drop: 5},
		{head: "p99", right: true}, {head: "max", right: true, drop: 2}, {head: "imbalance", right: true, drop: 1}}}
	for _, x := range r.Regions {
		g.add(x.Name, p.kernelOf(x.Kernel), count(x.Count), share(x.Share), duration(x.MinNS), duration(x.P50NS),
			duration(x.P90NS), duration(x.P99NS), duration(x.MaxNS), digits(x.Imbalance))
	}
	g.write(p.w, p.Width, p.st)
}

// blocks draws the means of the blocks of each region, in the order of their numbers, from the least to the largest.
func (p *printer) blocks(r *Regions) {
	p.section("Blocks", "means in the order of block numbers: a tall cell is a late block")
	g := &grid{columns: []column{{head: "region", stretch: true}, {head: "kernel", drop: 3}, {head: "blocks"},
		{head: "from", right: true, drop: 2}, {head: "to", right: true, drop: 1}}}
	drawn := false
	for _, x := range r.Regions {
		if len(x.Blocks) < 2 {
			continue
		}
		drawn = true
		means := fold(x.Blocks, max(p.Width/2, 8))
		low, high := slices.Min(means), slices.Max(means)
		g.add(x.Name, p.kernelOf(x.Kernel), spark(means, low, high), duration(uint64(math.Round(low))), duration(uint64(math.Round(high))))
	}
	if !drawn {
		p.paragraph("There are no slices of several blocks, or they have expired.")
		return
	}
	g.write(p.w, p.Width, p.st)
}

// fold makes at most so many values of more, each the mean of neighbours.
func fold(values []float64, most int) (out []float64) {
	each := (len(values) + most - 1) / most
	for part := range slices.Chunk(values, each) {
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		out = append(out, sum/float64(len(part)))
	}
	return out
}

func (p *printer) late(r *Regions) {
	if len(r.Late) == 0 {
		return
	}
	p.section("The latest warps", "after the first slice of their capture")
	g := &grid{columns: []column{{head: "region", stretch: true}, {head: "block", right: true}, {head: "warp", right: true},
		{head: "SM", right: true, drop: 2}, {head: "ends at", right: true}, {head: "session", drop: 1}}}
	for _, l := range r.Late {
		g.add(l.Region, fmt.Sprint(l.Block), fmt.Sprint(l.Warp), fmt.Sprint(l.SM), duration(l.EndsNS), cut(l.Session, p.Width/3))
	}
	g.write(p.w, p.Width, p.st)
}

func (p *printer) changed(r *Regions) {
	if r.Query.Against == "" {
		return
	}
	p.section("What changed", "means, now and in the base; ± is in standard deviations of the base")
	if len(r.Changed) == 0 {
		p.paragraph("No region is in both: name a capture of the same kernel.")
		return
	}
	g := &grid{columns: []column{{head: "region", stretch: true}, {head: "kernel", drop: 2}, {head: "now", right: true},
		{head: "base", right: true}, {head: "change", right: true}, {head: "±", right: true, drop: 1}}}
	for _, c := range r.Changed {
		change, spreads := "–", "–"
		if c.BaseMeanNS > 0 {
			change = fmt.Sprintf("%+.1f %%", 100*(c.MeanNS/c.BaseMeanNS-1))
		}
		if c.Spreads != 0 {
			spreads = fmt.Sprintf("%+.2f", c.Spreads)
		}
		g.add(c.Name, p.kernelOf(c.Kernel), duration(uint64(math.Round(c.MeanNS))), duration(uint64(math.Round(c.BaseMeanNS))),
			change, spreads)
	}
	g.write(p.w, p.Width, p.st)
}

func (p *printer) captures(r *Regions) {
	shown := ""
	if uint64(len(r.Captures)) < r.All {
		shown = fmt.Sprintf("the latest %d of %s", len(r.Captures), count(r.All))
	}
	p.section("Captures", shown)
	g := &grid{columns: []column{{head: "session", stretch: true}, {head: "kernel", drop: 2}, {head: "records", right: true, drop: 1},
		{head: "lost", right: true}, {head: "no partner", right: true}}}
	for _, c := range r.Captures {
		g.add(c.Session, p.kernelOf(c.Kernel), count(c.Recorded), count(c.Lost), count(c.UnmatchedBegin+c.UnmatchedEnd))
	}
	g.write(p.w, p.Width, p.st)
	if slices.ContainsFunc(r.Captures, func(c RegionCapture) bool { return c.Clock == "cycles" }) {
		p.paragraph("Captures of Triton's Proton count cycles, and each is shown as a ns: compare them with each other, not with times.")
	}
	for _, c := range r.Captures {
		if c.EnoughCap > 0 {
			p.paragraph(fmt.Sprintf("%s: the rings overwrote %s of %s records. Give per_warp_cap %d in place of %d, or record fewer regions.",
				cut(c.Session, p.Width/3), count(c.Lost), count(c.Recorded), c.EnoughCap, c.PerWarpCap))
		}
	}
}

// kernelOf is the name of a kernel as its sender gave it.
func (p *printer) kernelOf(name string) string {
	if name == "" {
		return "–"
	}
	return cut(name, p.Width/4)
}
