package intrakernel

import "math"

// stat adds durations up by Welford's method: in one order, without keeping them.
type stat struct {
	n              uint64
	mean, m2       float64
	least, longest float64
}

func (s *stat) add(x float64) {
	s.n++
	if s.n == 1 {
		s.mean, s.least, s.longest = x, x, x
		return
	}
	d := x - s.mean
	s.mean += d / float64(s.n)
	s.m2 += float64(d * (x - s.mean)) // the conversion keeps the compiler from fusing the two
	if x < s.least {
		s.least = x
	}
	if x > s.longest {
		s.longest = x
	}
}

// varSample is the variance of a sample; of one value it is 0.
func (s *stat) varSample() float64 {
	if s.n < 2 {
		return 0
	}
	return s.m2 / float64(s.n-1)
}

// printMean prints count, mean and variation, printSpread what follows them, with the percentiles between in a summary.
func (s *stat) printMean(p *printer) {
	p.uint(`, "count": `, s.n)
	p.f6(`, "mean_dur": `, s.mean)
	p.text(`, "cv_dur": `)
	if mean := math.Abs(s.mean); mean > 0 {
		p.f6("", math.Sqrt(max(0, s.varSample()))/mean)
	} else {
		p.text("null")
	}
}

func (s *stat) printSpread(p *printer) {
	p.f6(`, "var_dur_pop": `, s.m2/float64(s.n))
	p.f6(`, "var_dur_sample": `, s.varSample())
	p.f6(`, "min_dur": `, s.least)
	p.f6(`, "max_dur": `, s.longest)
}

// histogram counts the durations of one stat in bins of equal width from the shortest to the longest.
type histogram struct {
	counts []uint64
	of     *stat
}

// fill counts durations, whose stat is of, in so many bins. It can be called again.
func (h *histogram) fill(durations []uint64, scale float64, of *stat, bins uint32) {
	if bins == 0 {
		bins = defaultBins
	}
	if h.of = of; cap(h.counts) < int(bins) {
		h.counts = make([]uint64, bins)
	}
	h.counts = h.counts[:bins]
	clear(h.counts)
	if !(of.longest > of.least) {
		h.counts[0] = of.n
		return
	}
	width := of.longest - of.least
	for _, d := range durations {
		part := min(max((float64(float64(d)*scale)-of.least)/width, 0), 1)
		h.counts[min(uint32(part*float64(bins)), bins-1)]++
	}
}

// percentile is the duration that the share q of all does not exceed, as far as the bins tell. The cumulative share is added up bin by bin,
// because the peer's rounding errors are part of its answer.
func (h *histogram) percentile(q float64) float64 {
	s, width, sum := h.of, 0.0, 0.0
	if s.longest > s.least {
		width = (s.longest - s.least) / float64(len(h.counts))
	}
	for i, n := range h.counts {
		share, before := float64(n)/float64(s.n), sum
		if sum += share; sum >= q {
			left := s.least + float64(width*float64(i))
			if share <= 0 {
				return left
			}
			part := min(max((q-before)/share, 0), 1)
			return left + float64(part*((left+width)-left))
		}
	}
	return s.longest
}

// levels are the percentiles of a summary.
var levels = [...]int{5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99}

func (h *histogram) printPercentiles(p *printer) {
	before := `, "percentiles": {"p`
	for _, level := range levels {
		p.uint(before, uint64(level))
		p.f6(`": `, h.percentile(float64(level)/100))
		before = `, "p`
	}
	p.text("}")
}

func (h *histogram) print(p *printer) {
	p.uint(`, "hist": {"bins": `, uint64(len(h.counts)))
	p.f6(`, "min": `, h.of.least)
	p.f6(`, "max": `, h.of.longest)
	before := `, "prob": [`
	for _, n := range h.counts {
		p.f6(before, float64(n)/float64(h.of.n))
		before = ", "
		p.spill()
	}
	p.text("]}")
}
