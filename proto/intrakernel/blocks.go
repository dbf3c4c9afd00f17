package intrakernel

import (
	"cmp"
	"io"
	"slices"
	"strconv"
)

// WriteBlocks writes the distributions of the blocks: a file for each block that the options leave, and index.json. create makes a file of
// that name in the folder BlocksPath; WriteBlocks closes it, and stops at the first error.
func (t *Timeline) WriteBlocks(create func(name string) (io.WriteCloser, error)) error {
	o := &t.header.Options
	key := func(e *Event) uint64 { return uint64(e.Block)<<16 | uint64(e.Region) }
	var regions groups
	regions.add(t, key)
	durations := regions.durations(t, key)
	slices.SortFunc(regions.all, func(a, b group) int { return cmp.Compare(a.key, b.key) })
	blocks := largest(blocksOf(regions.all), o.TopBlocks, func(b *block) uint64 { return b.n }, func(b *block) uint64 { return uint64(b.id) })
	slices.SortFunc(blocks, func(a, b block) int { return cmp.Compare(a.id, b.id) })
	var h histogram
	for _, b := range blocks {
		kept := largest(b.regions, o.TopRegions, func(g *group) uint64 { return g.n }, func(g *group) uint64 { return g.key })
		slices.SortFunc(kept, func(a, b group) int { return cmp.Compare(a.key, b.key) })
		err := printFile(create, "block_"+strconv.Itoa(int(b.id))+".json", func(p *printer) { t.printBlock(p, b.id, kept, durations, &h) })
		if err != nil {
			return err
		}
	}
	return printFile(create, "index.json", func(p *printer) {
		p.quoted("{\n"+`  "trace": `, t.header.Path)
		p.quoted(`,`+"\n"+`  "dir": `, BlocksPath(t.header.Path))
		p.text(`,` + "\n" + `  "filters": {`)
		o.printBlockFilters(p)
		p.text(`},` + "\n" + `  "blocks": [`)
		before := ""
		for _, b := range blocks {
			p.uint(before, uint64(b.id))
			before = ", "
			p.spill()
		}
		p.text("]\n}\n")
	})
}

// block is a block and its regions.
type block struct {
	id      uint16
	n       uint64
	regions []group
}

// blocksOf cuts groups, which are sorted by block, into blocks.
func blocksOf(all []group) (blocks []block) {
	for len(all) > 0 {
		b := block{id: uint16(all[0].key >> 16)}
		n := 0
		for ; n < len(all) && uint16(all[n].key>>16) == b.id; n++ {
			b.n += all[n].n
		}
		b.regions, all = all[:n:n], all[n:]
		blocks = append(blocks, b)
	}
	return blocks
}

func (t *Timeline) printBlock(p *printer, id uint16, regions []group, durations []uint64, h *histogram) {
	o := &t.header.Options
	p.quoted("{\n"+`  "trace": `, t.header.Path)
	p.uint(`,`+"\n"+`  "block": `, uint64(id))
	p.f6(`,`+"\n"+`  "displayTimeUnit": "ns",`+"\n"+`  "scale": `, o.Scale)
	p.text(`,` + "\n" + `  "filters": {`)
	o.printBlockFilters(p)
	p.text(`},` + "\n" + `  "regions": [` + "\n")
	before := "    "
	for i := range regions {
		g := &regions[i]
		h.fill(g.of(durations), o.Scale, &g.stat, o.BlockRegionBins)
		p.uint(before+`{"region": `, g.key&(1<<16-1))
		p.quoted(`, "name": `, t.header.name(uint16(g.key)))
		g.printMean(p)
		g.printSpread(p)
		h.print(p)
		p.text("}")
		before = ",\n    "
	}
	p.text("\n  ]\n}\n")
}

func printFile(create func(name string) (io.WriteCloser, error), name string, print func(p *printer)) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	p := newPrinter(f)
	print(p)
	if err := p.flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
