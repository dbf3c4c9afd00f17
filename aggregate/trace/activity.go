package trace

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/sink/table"
)

// activity writes GPU Flight's rows for what a part has of them.
func (f *folding) activity(s *session, p *aggregate.Part, in *kineto.Part) {
	var emit activity.KernelEmitter
	begun := false
	for i := range in.Events {
		e := &in.Events[i]
		switch e.Kind {
		case kineto.Kernel:
			if !begun {
				emit, begun = s.kernels.Emitter(p.Env.ReceivedAt, p.Env.RetentionDays), true
			}
			f.kernel(s, p, in, e, &emit)
		case kineto.Memcpy:
			f.memcpy(s, p, in, e)
		case kineto.Memset:
			f.memset(s, p, in, e)
		case kineto.Sync:
			f.sync(s, p, e)
		case kineto.Memory:
			f.allocation(s, p, e)
		case kineto.Annotation:
			f.marker(s, p, in, e)
		}
	}
}

// corrID is a correlation as GPU Flight's tables hold it: 0 for one that is too large for them.
func corrID(e *kineto.Event) uint32 {
	if e.Correlation > 1<<32-1 {
		return 0
	}
	return uint32(e.Correlation)
}

// streamID is a stream as GPU Flight's tables hold it: 0 for one that is not known.
func streamID(e *kineto.Event) uint64 { return uint64(max(e.Stream, 0)) }

// namesOf is where the ids of a trace's kernels begin. They follow from the trace, so that whoever folds a part uses the same; another
// trace in a session of the same name has others.
func namesOf(p *aggregate.Part) uint32 {
	return uint32(xxh3.HashString(p.Env.Identity)) &^ (2*kineto.MaxNames - 1)
}

func (f *folding) kernel(s *session, p *aggregate.Part, in *kineto.Part, e *kineto.Event, emit *activity.KernelEmitter) {
	id, name := namesOf(p)+e.NameID, in.Texts[e.Name]
	if e.NameID == 0 {
		id, name = namesOf(p)+kineto.MaxNames+1, moreNames
	}
	if _, ok := s.kernelNames[id]; !ok {
		if s.kernelNames == nil {
			s.kernelNames = map[uint32]string{}
		}
		s.kernelNames[id] = p.CutName(string(bytes.ToValidUTF8(name, []byte("\uFFFD"))))
		if e.NewName || e.NameID == 0 {
			f.WriteName(p, aggregate.NameRef{Dict: gpuflight.KernelDict, ID: id}, s.kernelNames[id])
		}
	} else if e.NewName {
		f.WriteName(p, aggregate.NameRef{Dict: gpuflight.KernelDict, ID: id}, s.kernelNames[id])
	}
	f.details.Read(e.Args)
	emit.Add(&activity.Kernel{
		ID: id, Start: e.Start, Duration: e.Duration, Stream: streamID(e), ExternalID: e.External, Corr: corrID(e), Device: e.Device,
		Regs: f.details.Registers,
	}, f.config(s, p), 0)
	s.Delta.Kernels++
}

// maxConfigs is how many launch configurations of a session are remembered; beyond it they are written again.
const maxConfigs = 1 << 16

// config returns the id of the launch configuration of the details, 0 if they have none.
func (f *folding) config(s *session, p *aggregate.Part) uint32 {
	d := &f.details
	f.key = kineto.AppendDim3(f.key[:0], d.Grid)
	grid := len(f.key)
	f.key = kineto.AppendDim3(f.key, d.Block)
	if len(f.key) == 0 {
		return 0
	}
	if id, ok := s.configs[string(f.key)]; ok {
		return id
	}
	if s.configs == nil || len(s.configs) >= maxConfigs {
		s.configs = map[string]uint32{}
	}
	if s.NextConfig == 0 {
		s.NextConfig = activity.FirstID(p.Env.ReceivedAt)
	}
	s.NextConfig++
	s.configs[string(f.key)] = s.NextConfig
	t := &table.LaunchConfigs
	b := f.Out.Batch(t.Table, rows.FactDayPartition(p.Env.ReceivedAt, rows.FactDays(p.Env.RetentionDays, p.Env.RollupDays)))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.ConfigID.Append(b, s.NextConfig)
	t.Grid.AppendString(b, string(f.key[:grid]))
	t.Block.AppendString(b, string(f.key[grid:]))
	for _, c := range []table.U32Col{t.StaticSharedBytes, t.LocalBytes, t.ConstBytes, t.MaxActiveBlocks, t.LocalMemPerThreadBytes,
		t.SharedMemExecutedBytes} {
		c.Append(b, 0)
	}
	for _, c := range []table.F32Col{t.Occupancy, t.RegOccupancy, t.SmemOccupancy, t.WarpOccupancy, t.BlockOccupancy} {
		c.Append(b, 0)
	}
	t.LimitingResource.AppendString(b, "")
	t.LocalMemTotalBytes.Append(b, 0)
	t.CacheConfigRequested.Append(b, 0)
	t.CacheConfigExecuted.Append(b, 0)
	t.UserScope.Append(b, "")
	t.StackTrace.Append(b, "")
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return s.NextConfig
}

// memcpy writes a copy. Its kind is a word of its name: Memcpy HtoD (Pageable -> Device).
func (f *folding) memcpy(s *session, p *aggregate.Part, in *kineto.Part, e *kineto.Event) {
	f.details.Read(e.Args)
	word := bytes.TrimPrefix(in.Texts[e.Name], []byte("Memcpy "))
	word, _, _ = bytes.Cut(word, []byte(" "))
	kind, _ := gpuflight.CopyKindText(word)
	code, size := table.CopyKindCode(kind), rows.NotNegative(f.details.Bytes)
	s.minutes.Copy(activity.CopyKey{Bucket: bucketOf(e.Start), Kind: code}).Add(size, uint64(e.Duration))
	if s.NoRaw {
		return
	}
	t := &table.Memcpys
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.StartedAt.Append(b, e.Start)
	t.DurationNS.Append(b, uint64(e.Duration))
	t.Bytes.Append(b, size)
	t.CopyKind.AppendString(b, rows.Clip(kind))
	t.CopyKindID.Append(b, code)
	t.StreamID.Append(b, streamID(e))
	t.CorrID.Append(b, corrID(e))
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

func (f *folding) memset(s *session, p *aggregate.Part, in *kineto.Part, e *kineto.Event) {
	if s.NoRaw {
		return
	}
	f.details.Read(e.Args)
	t := &table.Memsets
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.StartedAt.Append(b, e.Start)
	t.DurationNS.Append(b, uint64(e.Duration))
	t.Bytes.Append(b, rows.NotNegative(f.details.Bytes))
	t.Name.AppendString(b, string(rows.ClipBytes(in.Texts[e.Name])))
	t.Platform.AppendString(b, "")
	t.DeviceID.Append(b, e.Device)
	t.StreamID.Append(b, streamID(e))
	t.CorrID.Append(b, corrID(e))
	t.Scope.AppendString(b, "")
	t.ScopeDepth.Append(b, 0)
	t.StackTrace.Append(b, "")
	t.APIStartNS.Append(b, 0)
	t.APIExitNS.Append(b, 0)
	t.PID.Append(b, 0)
	t.App.AppendString(b, "")
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

// syncCode is GPU Flight's code of a wait; 0 is unknown.
func syncCode(kind []byte) uint8 {
	switch string(kind) {
	case "Event Sync":
		return 1
	case "Stream Wait Event":
		return 2
	case "Stream Sync":
		return 3
	case "Context Sync":
		return 4
	}
	return 0
}

func (f *folding) sync(s *session, p *aggregate.Part, e *kineto.Event) {
	f.details.Read(e.Args)
	code := syncCode(f.details.SyncKind)
	s.minutes.Sync(activity.SyncKey{Bucket: bucketOf(e.Start), Kind: code}).Add(uint64(e.Duration))
	if s.NoRaw {
		return
	}
	t := &table.Syncs
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.StartedAt.Append(b, e.Start)
	t.DurationNS.Append(b, uint64(e.Duration))
	t.SyncType.AppendString(b, gpuflight.SyncTypeName(code))
	t.SyncTypeID.Append(b, code)
	t.StreamID.Append(b, streamID(e))
	t.EventID.Append(b, f.details.WaitsForEvent)
	t.ContextID.Append(b, f.details.Context)
	t.CorrID.Append(b, corrID(e))
	t.FunctionID.Append(b, 0)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

// allocation writes what a [memory] instant says: bytes below 0 are given back. Device type 0 is the host.
func (f *folding) allocation(s *session, p *aggregate.Part, e *kineto.Event) {
	if s.NoRaw {
		return
	}
	f.details.Read(e.Args)
	d := &f.details
	op, kind, size := uint8(1), uint8(0), d.Bytes
	if size < 0 {
		op, size = 2, -size
	}
	if d.DeviceType > 0 {
		kind = 3
	}
	t := &table.Allocations
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.StartedAt.Append(b, e.Start)
	t.DurationNS.Append(b, 0)
	t.MemoryOp.AppendString(b, gpuflight.MemoryOpName(op))
	t.MemoryOpID.Append(b, op)
	t.MemoryKind.AppendString(b, gpuflight.MemoryKindName(kind))
	t.MemoryKindID.Append(b, kind)
	t.Address.Append(b, uint64(d.Address))
	t.Bytes.Append(b, rows.NotNegative(size))
	t.DeviceID.Append(b, d.Device)
	t.StreamID.Append(b, 0)
	t.CorrID.Append(b, 0)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

// marker writes an annotation of the host as a marker.
func (f *folding) marker(s *session, p *aggregate.Part, in *kineto.Part, e *kineto.Event) {
	if s.NoRaw {
		return
	}
	pid, _ := kineto.Integer(in.Texts[e.PID])
	t := &table.Markers
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.StartedAt.Append(b, e.Start)
	t.DurationNS.Append(b, uint64(e.Duration))
	t.Name.AppendBytes(b, in.Texts[e.Name])
	t.Domain.AppendString(b, "user_annotation")
	t.MarkerID.Append(b, e.External)
	t.PID.Append(b, rows.ClampU32(pid))
	t.App.AppendString(b, "")
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}
