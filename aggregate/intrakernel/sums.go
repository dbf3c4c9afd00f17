package intrakernel

import (
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/proto/intrakernel"
	regiontable "github.com/warpline/warpline/sink/table/intrakernel"
)

// sums adds up the regions of an open chunk. A session is one capture, in which the id of a region says its kernel too.
type sums struct {
	regions map[uint16]*regionSum
	blocks  map[uint64]*blockSum // by region and block
	last    *blockSum            // that of the visit before
	lastKey uint64
}

type regionSum struct {
	kernel, name      string
	startedAt         int64
	slices, total     uint64
	shortest, longest uint64
	hist              hist.Dense
}

type blockSum struct {
	of            *regionSum
	slices, total uint64
}

// add adds up the slices of a part.
func (s *sums) add(in *intrakernel.Part) {
	for i := range in.Visits {
		e := &in.Visits[i]
		if e.Instant {
			continue
		}
		key := uint64(e.Region)<<32 | uint64(e.Block)
		block := s.last
		if block == nil || key != s.lastKey {
			if block = s.blocks[key]; block == nil {
				block = s.block(in, key)
			}
			s.last, s.lastKey = block, key
		}
		took := min(e.Dur, regiontable.MostAdded)
		block.slices++
		block.total += took
		r := block.of
		if r.slices == 0 {
			r.shortest, r.startedAt = e.Dur, timeOf(in, e.TS)
		}
		r.slices++
		r.total += took
		r.shortest, r.longest = min(r.shortest, e.Dur), max(r.longest, e.Dur)
		r.startedAt = min(r.startedAt, timeOf(in, e.TS))
		r.hist.Add(e.Dur)
	}
}

// block makes the sum of a block that is new.
func (s *sums) block(in *intrakernel.Part, key uint64) *blockSum {
	if s.blocks == nil {
		s.blocks, s.regions = map[uint64]*blockSum{}, map[uint16]*regionSum{}
	}
	region := uint16(key >> 32)
	r := s.regions[region]
	if r == nil {
		called := in.Region(region)
		r = &regionSum{kernel: called.Kernel, name: called.Name}
		s.regions[region] = r
	}
	b := &blockSum{of: r}
	s.blocks[key] = b
	return b
}

// Flush writes the sums.
func (s *session) Flush(bool) {
	if len(s.sums.blocks) == 0 {
		return
	}
	t := &regiontable.RegionTrends
	b := s.f.Out.Batch(t.Table, s.FactPartition())
	for region, r := range s.sums.regions {
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.Kernel.AppendString(b, r.kernel)
		t.Region.Append(b, uint32(region))
		t.Name.AppendString(b, r.name)
		t.StartedAt.Append(b, r.startedAt)
		t.Slices.Append(b, r.slices)
		t.TotalNS.Append(b, r.total)
		t.MinNS.Append(b, r.shortest)
		t.MaxNS.Append(b, r.longest)
		t.DurationHist.Append(b, &r.hist)
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	u := &regiontable.RegionBlocks
	b = s.f.Out.Batch(u.Table, s.FactPartition())
	for key, sum := range s.sums.blocks {
		u.Tenant.AppendString(b, s.Key.Tenant)
		u.SessionID.AppendString(b, s.Key.ID)
		u.Kernel.AppendString(b, sum.of.kernel)
		u.Region.Append(b, uint32(key>>32))
		u.Block.Append(b, uint32(key))
		u.Slices.Append(b, sum.slices)
		u.TotalNS.Append(b, sum.total)
		u.ReceivedDay.Append(b, s.ReceivedDay())
	}
	s.sums = sums{}
}
