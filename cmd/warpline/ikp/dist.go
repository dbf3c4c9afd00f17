package ikp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/warpline/warpline/proto/intrakernel"
)

// maxDistribution is how long a file of distributions may be unpacked: that of 65,536 regions with 128 bins has less.
const maxDistribution = 256 << 20

// distribution is a summary, or the distributions of one block.
type distribution struct {
	Trace   string    `json:"trace"`
	Dir     *string   `json:"dir"`   // of an index alone
	Block   *uint64   `json:"block"` // of a block's file alone
	Scale   *float64  `json:"scale"`
	Regions []region  `json:"regions"`
	Events  []nothing `json:"traceEvents"` // of a trace alone

	Warps   map[string]warpsOf `json:"by_block_warp_regions"`
	Filters struct {
		TopWarps uint64 `json:"summary_topk_block_warp_per_region"`
	} `json:"summary_filters"`
}

// nothing is passed over.
type nothing struct{}

func (*nothing) UnmarshalJSON([]byte) error { return nil }

// region is how long one region took.
type region struct {
	ID    int     `json:"region"`
	Name  string  `json:"name"`
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean_dur"`
	Hist  struct {
		Bins int       `json:"bins"`
		Min  float64   `json:"min"`
		Max  float64   `json:"max"`
		Prob []float64 `json:"prob"`
	} `json:"hist"`
}

// warpsOf are the warps of one region.
type warpsOf struct {
	ID    int    `json:"region"`
	Name  string `json:"name"`
	Warps []struct {
		Block uint64  `json:"block"`
		Count uint64  `json:"count"`
		Mean  float64 `json:"mean_dur"`
	} `json:"by_block_warp"`
}

// readDistribution reads a summary or a block's file.
func readDistribution(ctx context.Context, name string) (*distribution, error) {
	in, err := openInput(ctx, name, nil, -1)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	d, err := decode(in)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// decode reads one object, and refuses what cannot be drawn.
func decode(in io.Reader) (*distribution, error) {
	bounded := &io.LimitedReader{R: in, N: maxDistribution + 1}
	d := &distribution{}
	dec := json.NewDecoder(bounded)
	err := dec.Decode(d)
	if err == nil {
		if _, more := dec.Token(); more == nil {
			err = errors.New("more follows behind its object")
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
	switch {
	case bounded.N <= 0:
		return nil, fmt.Errorf("longer than %d bytes: write it with fewer bins or regions", maxDistribution)
	case err != nil:
		return nil, fmt.Errorf("%w: give a whole _summary.json or block_N.json, as \"warpline ikp\" writes them", err)
	case d.Events != nil:
		return nil, errors.New("a trace, which has no distributions: make them with \"warpline ikp --trace\", and draw those")
	case d.Dir != nil:
		return nil, errors.New("an index, which only lists the blocks: name the folder that it is in")
	case d.Regions == nil:
		return nil, errors.New("no regions: give a _summary.json or block_N.json, as \"warpline ikp\" writes them")
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w: write the file again with \"warpline ikp\"", err)
	}
	return d, nil
}

// largest that is drawn: what is beyond leaves no room for an axis.
const largest = 1e200

// check refuses what cannot be drawn, so that nothing behind it has to.
func (d *distribution) check() error {
	if d.Scale != nil && !(math.Abs(*d.Scale) <= largest) {
		return fmt.Errorf("scale: %v cannot be drawn", *d.Scale)
	}
	if d.Block != nil && *d.Block > math.MaxUint32 {
		return fmt.Errorf("block: %d is no number of a block", *d.Block)
	}
	seen := map[int]bool{}
	for i := range d.Regions {
		r := &d.Regions[i]
		h := &r.Hist
		switch {
		case r.ID < 0 || r.ID >= intrakernel.MaxNames:
			return fmt.Errorf("region: %d is outside 0 to %d", r.ID, intrakernel.MaxNames-1)
		case seen[r.ID]:
			return fmt.Errorf("region %d stands twice", r.ID)
		case r.Count == 0:
			return fmt.Errorf("region %d: count: 0: a region that did not run has no entry", r.ID)
		case h.Bins < 1 || h.Bins > intrakernel.MaxBins:
			return fmt.Errorf("region %d: hist.bins: %d is outside 1 to %d", r.ID, h.Bins, intrakernel.MaxBins)
		case len(h.Prob) != h.Bins:
			return fmt.Errorf("region %d: hist.prob has %d numbers, and hist.bins is %d", r.ID, len(h.Prob), h.Bins)
		case h.Min > h.Max:
			return fmt.Errorf("region %d: hist.min %v is above hist.max %v", r.ID, h.Min, h.Max)
		case max(math.Abs(h.Min), math.Abs(h.Max), math.Abs(r.Mean)) > largest:
			return fmt.Errorf("region %d: durations beyond %v cannot be drawn", r.ID, largest)
		}
		seen[r.ID] = true
		if bad := slices.IndexFunc(h.Prob, func(p float64) bool { return !(p >= 0 && p <= 1) }); bad >= 0 {
			return fmt.Errorf("region %d: hist.prob[%d]: %v is outside 0 to 1", r.ID, bad, h.Prob[bad])
		}
	}
	for _, w := range d.Warps {
		for _, warp := range w.Warps {
			if math.Abs(warp.Mean) > largest {
				return fmt.Errorf("by_block_warp_regions: region %d: durations beyond %v cannot be drawn", w.ID, largest)
			}
		}
	}
	return nil
}

// unit is what durations of the file are in.
func (d *distribution) unit() string {
	if d.Scale == nil || *d.Scale == 1 {
		return "ns"
	}
	return "ns × " + number(*d.Scale)
}
