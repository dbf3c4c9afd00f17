package intrakernel

import (
	"fmt"
	"math"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of a header. Ids have 16 bits, so no more names can be used.
const (
	MaxNames  = 1 << 16
	MaxBins   = 1 << 20
	MaxHeader = 64 << 20 // bytes of a header's JSON
)

// defaultBins is how many bins 0 means.
const defaultBins = 128

// Header is what is known of a launch beside its buffers: what was given to the profiler at its start, and what is to be written.
type Header struct {
	Session Session
	// Names are those of the regions, by id. A region beyond them is called by its number. They need not be UTF-8.
	Names []string
	// Filter keeps only these blocks; empty keeps all.
	Filter []uint32
	// Path is the trace's, as write_trace was given it. What else is written is named after it.
	Path    string
	Options Options
	// Most is how many records are kept at most, 0 for as many as can be; more are an ErrTooMany.
	Most int
}

// Session is the size of the device's buffers.
type Session struct {
	// Cap is how many records the ring of a warp holds, a power of two.
	Cap uint32
	// Blocks is gridDim.x.
	Blocks uint32
	// Warps is how many warps a block has.
	Warps uint32
}

// Options are those of the peer's TraceWriteOptions, in its order. DefaultOptions has its defaults; a zero Options writes an empty legacy
// trace.
type Options struct {
	// Scale multiplies every time, in ns.
	Scale float64
	// CompleteEvents pairs begins and ends. Without it the trace has them apart, and nothing else is written.
	CompleteEvents bool
	// GroupBySM makes SMs the processes of the trace and part of what pairs; without it blocks are.
	GroupBySM bool
	Summary   bool
	// HistBins is how many bins the summary's histograms have; 0 is 128, and is shown as 0.
	HistBins uint32
	// ByBlockWarp adds the regions of each warp to the summary.
	ByBlockWarp bool
	// BlockRegions writes a file for each block.
	BlockRegions bool
	// BlockRegionBins is HistBins of those files.
	BlockRegionBins uint32
	// TopBlockWarps, TopBlocks and TopRegions cut to the largest: warps of a region in the summary, blocks, regions of a block. 0 keeps all.
	TopBlockWarps, TopBlocks, TopRegions uint32
}

// DefaultOptions are those of a caller that sets none.
func DefaultOptions() Options {
	return Options{Scale: 1, CompleteEvents: true, GroupBySM: true, Summary: true, HistBins: defaultBins, ByBlockWarp: true,
		BlockRegionBins: defaultBins}
}

// Slots is how many rings the device has, and so how many counters. It is below 2^63.
func (s Session) Slots() uint64 { return uint64(s.Blocks) * uint64(s.Warps) }

// EventBytes is the length of the events buffer.
func (s Session) EventBytes() (uint64, error) {
	ring := uint64(s.Cap) * RecordSize // below 2^36
	over, n := bits.Mul64(s.Slots(), ring)
	if over != 0 || n > math.MaxInt64 {
		return 0, wrong(InHeader, "session: grid_x %d × warps %d × per_warp_cap %d × %d bytes is more than a file can have: give the numbers "+
			"that init was given", s.Blocks, s.Warps, s.Cap, RecordSize)
	}
	return n, nil
}

// checkSession says whether buffers can be read by s.
func (s Session) check() error {
	switch {
	case s.Cap == 0 || s.Cap&(s.Cap-1) != 0:
		return wrong(InHeader, "session.per_warp_cap: %d is no power of two, and a ring has as many records: give the number that init was given",
			s.Cap)
	case s.Blocks == 0:
		return wrong(InHeader, "session.grid_x: 0 blocks: give gridDim.x of the launch")
	case s.Warps == 0:
		return wrong(InHeader, "session.threads_per_block: 0 threads: give blockDim.x of the launch")
	}
	_, err := s.EventBytes()
	return err
}

// checkOptions says whether files can be written by h.
func (h *Header) checkOptions() error {
	switch o := &h.Options; {
	case len(h.Names) > MaxNames:
		return wrong(InHeader, "region_names: %d names, and at most %d can be used, because ids have 16 bits: leave the others out", len(h.Names),
			MaxNames)
	case math.IsNaN(o.Scale) || math.IsInf(o.Scale, 0):
		return wrong(InHeader, "options.scale: %v is no number that times can be multiplied with: give a finite one", o.Scale)
	case o.HistBins > MaxBins:
		return wrong(InHeader, "options.summary_hist_bins: %d, and at most %d are made: give fewer", o.HistBins, MaxBins)
	case o.BlockRegionBins > MaxBins:
		return wrong(InHeader, "options.block_region_hist_bins: %d, and at most %d are made: give fewer", o.BlockRegionBins, MaxBins)
	}
	return CheckPath(h.Path)
}

// CheckPath says whether a trace of that path stays in the folder that it is written to.
func CheckPath(path string) error {
	last := path[strings.LastIndexByte(path, '/')+1:]
	if !filepath.IsLocal(path) || strings.ContainsRune(path, 0) || last == "" || last == "." || last == ".." {
		return wrong(InHeader, "trace_path: %s leaves the output folder or names no file: give a path below it", Shortened(path))
	}
	return nil
}

// SummaryPath is where the summary of a trace is.
func SummaryPath(trace string) string { return strings.TrimSuffix(trace, ".json") + "_summary.json" }

// BlocksPath is the folder of the distributions of a trace's blocks.
func BlocksPath(trace string) string {
	return strings.TrimSuffix(trace, ".json") + "_block_region_dists"
}

// Shortened quotes text of a file for an error; what is long is cut.
func Shortened(text string) string {
	if len(text) > 100 {
		return fmt.Sprintf("%q… (%d bytes)", text[:100], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// filter is the header's as a set of the block numbers that records have, nil for all.
func (h *Header) filter() []uint64 {
	if len(h.Filter) == 0 {
		return nil
	}
	set := make([]uint64, 1<<16/64)
	for _, b := range h.Filter {
		if b < 1<<16 {
			set[b/64] |= 1 << (b % 64)
		}
	}
	return set
}

// sortedFilter is the header's, ascending, each block once.
func (h *Header) sortedFilter() []uint32 {
	f := slices.Clone(h.Filter)
	slices.Sort(f)
	return slices.Compact(f)
}
