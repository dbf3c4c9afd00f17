package intrakernel

import (
	"cmp"
	"math"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/sink/table"
	regiontable "github.com/warpline/warpline/sink/table/intrakernel"
)

// regions writes the events of a part and adds them up. The first part has the capture's own row, the last ends the session.
func (f *folding) regions(s *session, p *aggregate.Part, in *intrakernel.Part) {
	n := in.Records()
	p.Received(n)
	f.describe(s, in)
	if in.Index == 0 {
		f.capture(s, p, in)
	}
	if !s.NoRaw {
		f.slices(s, p, in)
		f.marks(s, p, in)
	}
	s.sums.add(in)
	if in.Index == in.Parts-1 {
		ended := int64(0)
		if k := len(in.Events); k > 0 && in.StartedAt > 0 {
			ended = timeOf(in, in.Events[k-1].TS+in.Events[k-1].Dur)
		}
		f.Tell(p, aggregate.SessionEnd{Rank: table.EndCompleted, At: ended})
	}
	p.Stored(n)
	f.Out.Saw(p.Env.ReceivedAt)
}

// describe keeps what the session's row says of the launch. It is known by its job, else by its kernel.
func (f *folding) describe(s *session, in *intrakernel.Part) {
	set := func(to *string, v string) {
		if v != "" && *to != v {
			*to = rows.Clip(v)
		}
	}
	set(&s.App, cmp.Or(in.Job, in.Kernel))
	set(&s.Host, in.Host)
	s.Vendor = "NVIDIA"
	if in.StartedAt > 0 {
		s.Delta.Began(in.StartedAt)
		s.Delta.SawEvent(in.StartedAt)
		if k := len(in.Events); k > 0 {
			s.Delta.SawEvent(timeOf(in, in.Events[k-1].TS+in.Events[k-1].Dur))
		}
	}
}

// timeOf is when something happened, so many ns after the first record: from 1970 on where nobody says when that was, and the latest
// possible time where it does not fit.
func timeOf(in *intrakernel.Part, ns uint64) int64 {
	if ns > math.MaxInt64 || in.StartedAt > math.MaxInt64-int64(ns) {
		return math.MaxInt64
	}
	return in.StartedAt + int64(ns)
}

func (f *folding) capture(s *session, p *aggregate.Part, in *intrakernel.Part) {
	or := func(v *int64, none int64) int64 {
		if v == nil {
			return none
		}
		return *v
	}
	regiontable.RegionCaptures.Append(f.Facts(p, regiontable.RegionCaptures.Table), &regiontable.RegionCaptureRow{
		HeadRow:        s.Head(),
		Kernel:         in.Kernel,
		Device:         in.Device,
		Host:           in.Host,
		Job:            in.Job,
		Rank:           or(in.Rank, -1),
		Launch:         or(in.Number, -1),
		StartedAt:      in.StartedAt,
		Clock:          in.Clock,
		Scale:          in.Scale,
		Blocks:         in.Blocks,
		WarpsPerBlock:  in.Warps,
		PerWarpCap:     in.Cap,
		GroupBySM:      rows.Flag(in.GroupBySM),
		Bins:           in.HistBins,
		BlockBins:      in.BlockBins,
		Recorded:       in.Recorded,
		Survived:       in.Survived,
		Lost:           in.Lost,
		UnmatchedBegin: in.UnmatchedBegin,
		UnmatchedEnd:   in.UnmatchedEnd,
		ReceivedDay:    rows.DayOf(p.Env.ReceivedAt),
	})
}

// slices writes the slices of a part, column by column.
func (f *folding) slices(s *session, p *aggregate.Part, in *intrakernel.Part) {
	t := &regiontable.Regions
	b := f.Out.Batch(t.Table, p.Raw)
	n := 0
	names := f.names(b, t.Name, in)
	region, name, block, warp, sm := t.Region.Slice(b), t.Name.Slice(b), t.Block.Slice(b), t.Warp.Slice(b), t.SM.Slice(b)
	at, took := t.StartedAt.Slice(b), t.DurationNS.Slice(b)
	for i := range in.Events {
		e := &in.Events[i]
		if e.Instant {
			continue
		}
		n++
		*region, *name = append(*region, uint32(e.Region)), append(*name, names(e.Region))
		*block, *warp, *sm = append(*block, uint32(e.Block)), append(*warp, e.Warp()), append(*sm, e.SM())
		*at, *took = append(*at, timeOf(in, e.TS)), append(*took, e.Dur)
	}
	t.Tenant.AppendN(b, t.Tenant.Index(b, s.Key.Tenant), n)
	t.SessionID.AppendN(b, t.SessionID.Index(b, s.Key.ID), n)
	t.Kernel.AppendN(b, t.Kernel.Index(b, in.Kernel), n)
	t.ReceivedAt.AppendN(b, p.Env.ReceivedAt, n)
}

// marks writes the marks of a part.
func (f *folding) marks(s *session, p *aggregate.Part, in *intrakernel.Part) {
	t := &regiontable.RegionMarks
	var b *table.Batch
	var names func(uint16) int32
	var kernel int32
	for i := range in.Events {
		e := &in.Events[i]
		if !e.Instant {
			continue
		}
		if b == nil {
			b = f.Out.Batch(t.Table, p.Raw)
			names, kernel = f.names(b, t.Name, in), t.Kernel.Index(b, in.Kernel)
		}
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.Kernel.Append(b, kernel)
		t.Region.Append(b, uint32(e.Region))
		t.Name.Append(b, names(e.Region))
		t.Block.Append(b, uint32(e.Block))
		t.Warp.Append(b, e.Warp())
		t.SM.Append(b, e.SM())
		t.At.Append(b, timeOf(in, e.TS))
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
}

// names returns what gives the index of a region's name in a batch.
func (f *folding) names(b *table.Batch, col table.DictCol, in *intrakernel.Part) func(region uint16) int32 {
	f.indices = f.indices[:0]
	if k := len(in.Names); k > 0 {
		f.indices = append(f.indices, make([]int32, int(in.Names[k-1].Region)+1)...)
	}
	unnamed := col.Index(b, "")
	for i := range f.indices {
		f.indices[i] = unnamed
	}
	for _, n := range in.Names {
		f.indices[n.Region] = col.Index(b, n.Name)
	}
	indices := f.indices
	return func(region uint16) int32 {
		if int(region) < len(indices) {
			return indices[region]
		}
		return unnamed
	}
}
