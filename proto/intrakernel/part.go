package intrakernel

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Launch is what the sender says of a capture, in addition to what is in its buffers. All of it may be empty.
type Launch struct {
	Kernel string `json:"kernel,omitempty"`
	Host   string `json:"host,omitempty"`
	Device string `json:"device,omitempty"`
	Job    string `json:"job,omitempty"`
	Rank   *int64 `json:"rank,omitempty"`
	// Number is which launch of the kernel it is.
	Number *int64 `json:"launch,omitempty"`
	// StartedAt is when the first record was made, in ns since 1970; 0 is not known.
	StartedAt int64 `json:"started_at,omitempty"`
}

// The clocks that a profiler reads.
const (
	// ClockGlobalTimer counts ns.
	ClockGlobalTimer = "globaltimer"
	// ClockCycles counts cycles of a multiprocessor, which are shown as ns: as if it ran at 1 GHz.
	ClockCycles = "cycles"
)

// PartHead is what every part of a capture says of the whole.
type PartHead struct {
	Launch
	// Clock is what times were counted with: ClockGlobalTimer or ClockCycles.
	Clock     string  `json:"clock"`
	Scale     float64 `json:"scale"`
	GroupBySM bool    `json:"group_by_smid"`
	HistBins  uint32  `json:"bins"`
	// BlockBins is how many bins the distributions of a block have.
	BlockBins uint32 `json:"block_bins"`
	Blocks    uint32 `json:"blocks"`
	Warps     uint32 `json:"warps_per_block"`
	Cap       uint32 `json:"per_warp_cap"`
	// Recorded is how many records the device made, Lost how many of them its rings overwrote, Survived how many came through rings and
	// filter. UnmatchedBegin and UnmatchedEnd are those of them that have no partner.
	Recorded       uint64 `json:"recorded"`
	Lost           uint64 `json:"lost"`
	Survived       uint64 `json:"survived"`
	UnmatchedBegin uint64 `json:"unmatched_begin"`
	UnmatchedEnd   uint64 `json:"unmatched_end"`
	// SliceRecords is how many records a slice was made of: two, or one of a trace that has slices.
	SliceRecords uint64 `json:"slice_records"`
	// Besides is how many records are in no event.
	Besides uint64 `json:"besides"`
	// Span is how long after the first record the last one was made, in ns; 0 where the last visit of the last part tells.
	Span uint64 `json:"span_ns,omitempty"`
	// Index of the part, from 0, and how many there are.
	Index int `json:"index"`
	Parts int `json:"parts"`
}

// RegionName is what a region is called, and the kernel that it is in: a trace of Proton can have several.
type RegionName struct {
	Region       uint16
	Kernel, Name string
}

// Visit is one time that a warp was in a region, or passed a mark.
type Visit struct {
	// TS is when it began, in ns since the first record of the capture; Dur is how long it took, 0 of a mark.
	TS, Dur          uint64
	Block            uint32
	Region, Warp, SM uint16
	Instant          bool // it is a mark
}

// Part is a piece of a capture, as it travels from the gateway to the worker.
type Part struct {
	PartHead
	// Names has an entry for each region of Visits, by id.
	Names []RegionName
	// Visits are in the order in which they ended, those of large captures warp by warp.
	Visits []Visit
}

// Region is what a region of the part is called, and its kernel.
func (p *Part) Region(region uint16) RegionName {
	i, ok := slices.BinarySearchFunc(p.Names, region, func(n RegionName, r uint16) int { return cmp.Compare(n.Region, r) })
	if !ok {
		return RegionName{Region: region, Kernel: p.Kernel}
	}
	return p.Names[i]
}

// Ended is how long after the first record the latest known one was made, in ns: of the capture if it says so, else of the part.
func (p *Part) Ended() uint64 {
	if k := len(p.Visits); p.Span == 0 && k > 0 {
		return p.Visits[k-1].TS + p.Visits[k-1].Dur
	}
	return p.Span
}

// Records is how many records the part's visits were made of. Those that are in none are in the first part.
func (p *Part) Records() uint64 {
	n := uint64(0)
	for i := range p.Visits {
		if p.Visits[i].Instant {
			n++
		} else {
			n += p.SliceRecords
		}
	}
	if p.Index == 0 {
		n += p.Besides
	}
	return n
}

// The first byte of a part. Version 1 had one kernel, and warp and multiprocessor in one number; parts of it may still be in INGEST.
const (
	partVersion1 = 1
	partVersion  = 2
)

// MaxHeadBytes bounds what a PartHead takes, so that parts have room for events.
const MaxHeadBytes = 64 << 10

// maxNameBytes bounds the name of a region that is stored.
const maxNameBytes = 1 << 10

// mostVisitBytes is the longest that a visit can be: six numbers.
const mostVisitBytes = 2*binary.MaxVarintLen64 + 4*binary.MaxVarintLen32

// AppendPart appends the encoded part to dst. It fails when the head is longer than MaxHeadBytes.
func AppendPart(dst []byte, p *Part) ([]byte, error) {
	head, err := json.Marshal(&p.PartHead)
	if err != nil {
		return nil, fmt.Errorf("intrakernel: encode part: %w", err)
	}
	if len(head) > MaxHeadBytes {
		return nil, fmt.Errorf("intrakernel: what is said of the launch takes %d bytes, more than %d", len(head), MaxHeadBytes)
	}
	dst = append(dst, partVersion)
	dst = append(binary.AppendUvarint(dst, uint64(len(head))), head...)
	kernels, at := p.kernels()
	dst = binary.AppendUvarint(dst, uint64(len(kernels)))
	for _, k := range kernels {
		dst = append(binary.AppendUvarint(dst, uint64(len(k))), k...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Names)))
	for _, n := range p.Names {
		dst = binary.AppendUvarint(dst, uint64(n.Region))
		dst = binary.AppendUvarint(dst, at[n.Kernel])
		dst = append(binary.AppendUvarint(dst, uint64(len(n.Name))), n.Name...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Visits)))
	before := uint64(0)
	for i := range p.Visits {
		dst = appendVisit(dst, &p.Visits[i], before)
		before = p.Visits[i].TS + p.Visits[i].Dur
	}
	return dst, nil
}

// kernels are those of the names, each once, and where they are.
func (p *Part) kernels() (all []string, at map[string]uint64) {
	at = map[string]uint64{}
	for _, n := range p.Names {
		if _, ok := at[n.Kernel]; !ok {
			at[n.Kernel] = uint64(len(all))
			all = append(all, n.Kernel)
		}
	}
	return all, at
}

// appendVisit appends a visit that follows one that ended at before. Ends rise, in a capture or in a warp, so the step is small; one back
// wraps around.
func appendVisit(dst []byte, v *Visit, before uint64) []byte {
	dst = binary.AppendUvarint(dst, v.TS+v.Dur-before)
	dst = binary.AppendUvarint(dst, v.Dur)
	region := uint64(v.Region) << 1
	if v.Instant {
		region |= 1
	}
	dst = binary.AppendUvarint(dst, region)
	dst = binary.AppendUvarint(dst, uint64(v.Block))
	dst = binary.AppendUvarint(dst, uint64(v.Warp))
	return binary.AppendUvarint(dst, uint64(v.SM))
}

var errPart = errors.New("intrakernel: the part is damaged")

// Decode reads what AppendPart wrote, or a build before it, into p, which may have been used before: its slices are used again. It takes
// some ten times the memory of b at most.
func (p *Part) Decode(b []byte) error {
	names, visits := p.Names[:0], p.Visits[:0]
	*p = Part{}
	if len(b) == 0 || b[0] != partVersion && b[0] != partVersion1 {
		return fmt.Errorf("%w: it is not of version %d", errPart, partVersion)
	}
	r := partReader{first: b[0] == partVersion1, b: b[1:]}
	if err := json.Unmarshal(r.bytes(MaxHeadBytes), &p.PartHead); err != nil {
		return fmt.Errorf("%w: head: %w", errPart, err)
	}
	if p.Index < 0 || p.Index >= p.Parts || math.IsNaN(p.Scale) || math.IsInf(p.Scale, 0) || p.HistBins > MaxBins || p.BlockBins > MaxBins ||
		p.SliceRecords > 2 {
		return fmt.Errorf("%w: head: numbers out of range", errPart)
	}
	kernels := []string{clipName(p.Kernel)}
	if !r.first {
		kernels = kernels[:0]
		for n := r.count(1); n > 0 && !r.bad; n-- {
			kernels = append(kernels, string(r.bytes(maxNameBytes)))
		}
	}
	for n := r.count(2); n > 0 && !r.bad; n-- {
		name := RegionName{Region: uint16(r.number(math.MaxUint16))}
		k := uint64(0)
		if !r.first {
			k = r.number(math.MaxInt32)
		}
		if k >= uint64(len(kernels)) {
			return fmt.Errorf("%w: a name of kernel %d of %d", errPart, k, len(kernels))
		}
		name.Kernel = kernels[k]
		name.Name = string(r.bytes(maxNameBytes))
		if k := len(names); k > 0 && names[k-1].Region >= name.Region {
			return fmt.Errorf("%w: names out of order", errPart)
		}
		names = append(names, name)
	}
	n := r.count(5)
	if !r.bad && cap(visits) < n {
		visits = make([]Visit, 0, n)
	}
	before := uint64(0)
	for ; n > 0 && !r.bad; n-- {
		v := r.visit(before)
		before = v.TS + v.Dur
		visits = append(visits, v)
	}
	if r.bad || len(r.b) != 0 {
		return fmt.Errorf("%w: %d bytes from its end", errPart, len(r.b))
	}
	p.Names, p.Visits = names, visits
	return nil
}

// partReader reads numbers and texts; after the first that cannot be read, bad is set.
type partReader struct {
	first bool // of version 1
	b     []byte
	bad   bool
}

// visit reads one that follows one that ended at before.
func (r *partReader) visit(before uint64) Visit {
	end := before + r.number(math.MaxUint64)
	v := Visit{Dur: r.number(math.MaxUint64)}
	region := r.number(1<<17 - 1)
	v.TS, v.Region, v.Instant = end-v.Dur, uint16(region>>1), region&1 == 1
	if r.first {
		v.Block = uint32(r.number(math.MaxUint16))
		place := r.number(math.MaxUint16)
		v.Warp, v.SM = uint16(place&63), uint16(place>>6)
		return v
	}
	v.Block = uint32(r.number(math.MaxUint32))
	v.Warp, v.SM = uint16(r.number(math.MaxUint16)), uint16(r.number(math.MaxUint16))
	return v
}

func (r *partReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is how many items of at least so many bytes follow.
func (r *partReader) count(least int) int {
	n := r.number(math.MaxInt32)
	if n > uint64(len(r.b)/least) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *partReader) bytes(most uint64) []byte {
	n := r.number(most)
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
