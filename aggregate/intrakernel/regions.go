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
		if len(in.Visits) > 0 && in.StartedAt > 0 {
			ended = timeOf(in, in.Ended())
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
		if len(in.Visits) > 0 {
			s.Delta.SawEvent(timeOf(in, in.Ended()))
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
	names := f.names(b, t.Kernel, t.Name, in)
	kernel := t.Kernel.Slice(b)
	region, name, block, warp, sm := t.Region.Slice(b), t.Name.Slice(b), t.Block.Slice(b), t.Warp.Slice(b), t.SM.Slice(b)
	at, took := t.StartedAt.Slice(b), t.DurationNS.Slice(b)
	for i := range in.Visits {
		e := &in.Visits[i]
		if e.Instant {
			continue
		}
		n++
		called := names(e.Region)
		*kernel, *region, *name = append(*kernel, called.kernel), append(*region, uint32(e.Region)), append(*name, called.name)
		*block, *warp, *sm = append(*block, e.Block), append(*warp, e.Warp), append(*sm, e.SM)
		*at, *took = append(*at, timeOf(in, e.TS)), append(*took, e.Dur)
	}
	t.Tenant.AppendN(b, t.Tenant.Index(b, s.Key.Tenant), n)
	t.SessionID.AppendN(b, t.SessionID.Index(b, s.Key.ID), n)
	t.ReceivedAt.AppendN(b, p.Env.ReceivedAt, n)
}

// marks writes the marks of a part.
func (f *folding) marks(s *session, p *aggregate.Part, in *intrakernel.Part) {
	t := &regiontable.RegionMarks
	var b *table.Batch
	var names func(uint16) called
	for i := range in.Visits {
		e := &in.Visits[i]
		if !e.Instant {
			continue
		}
		if b == nil {
			b = f.Out.Batch(t.Table, p.Raw)
			names = f.names(b, t.Kernel, t.Name, in)
		}
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		called := names(e.Region)
		t.Kernel.Append(b, called.kernel)
		t.Region.Append(b, uint32(e.Region))
		t.Name.Append(b, called.name)
		t.Block.Append(b, e.Block)
		t.Warp.Append(b, e.Warp)
		t.SM.Append(b, e.SM)
		t.At.Append(b, timeOf(in, e.TS))
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
}

// called is what a region is called in a batch: the indices of its kernel and its name.
type called struct{ kernel, name int32 }

// names returns what gives a region's names in a batch.
func (f *folding) names(b *table.Batch, kernels, names table.DictCol, in *intrakernel.Part) func(region uint16) called {
	f.called = f.called[:0]
	if k := len(in.Names); k > 0 {
		f.called = append(f.called, make([]called, int(in.Names[k-1].Region)+1)...)
	}
	unnamed := called{kernels.Index(b, in.Kernel), names.Index(b, "")}
	for i := range f.called {
		f.called[i] = unnamed
	}
	for _, n := range in.Names {
		f.called[n.Region] = called{kernels.Index(b, n.Kernel), names.Index(b, n.Name)}
	}
	all := f.called
	return func(region uint16) called {
		if int(region) < len(all) {
			return all[region]
		}
		return unnamed
	}
}
