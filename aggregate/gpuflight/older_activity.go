package gpuflight

import (
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// olderConfigHead keeps the hashes of configurations that came with their kernel apart from those of kernel_details.
const olderConfigHead = "kernel_event\x00"

// kernelEvent folds a kernel_event, which is its row and its detail at once.
func (f *folding) kernelEvent(s *session, p *aggregate.Part, l *gpuflight.Line, o *gpuflight.Older) {
	id, ok := f.Intern(p, gpuflight.KernelDict, o.Name)
	if !ok {
		f.noName(s, p, l)
		return
	}
	var config launchConfig
	if o.HasConfig() {
		f.older.config = o.AppendConfig(append(f.older.config[:0], olderConfigHead...))
		hash := xxh3.Hash128(f.older.config)
		var known bool
		config, known = s.configs[hash]
		if !known {
			d := o.Detail()
			config = f.newConfig(s, p, hash, &d)
		}
	}
	start := f.activityTime(s, p, o.AtNS)
	s.Delta.Kernels++
	s.Delta.SawEvent(start)
	k := activity.Kernel{
		Start: start, Duration: o.DurationNS, Stream: o.StreamID, ID: id, Corr: o.CorrID, Dyn: rows.ClampU32(o.DynSharedBytes),
		Regs:   rows.ClampU32(o.NumRegs),
		Device: o.DeviceID,
	}
	if k.Device < 0 {
		k.Device = s.Device()
	}
	emit := &f.emitter // the same session and part as the line before, nearly always
	if f.emitterSerial != f.OutSerial || !emit.IsFor(&s.kernels, p.Env.ReceivedAt) {
		*emit = s.kernels.Emitter(p.Env.ReceivedAt, p.Env.RetentionDays)
		f.emitterSerial = f.OutSerial
	}
	emit.Add(&k, config.id, config.scope)
	p.Stored(1)
}

// memcpyEvent folds a memcpy_event. Its kind is a word, whose meaning does not depend on the vendor, or the code that batches have.
func (f *folding) memcpyEvent(s *session, p *aggregate.Part, o *gpuflight.Older) {
	at := f.activityTime(s, p, o.AtNS)
	s.Delta.SawEvent(at)
	p.Stored(1)
	kind, code := "", min(o.CopyKindID, table.NamedCopy-1)
	if len(o.CopyKind) > 0 {
		kind, _ = gpuflight.CopyKindText(o.CopyKind)
		code = table.CopyKindCode(kind)
	}
	s.minutes.Copy(activity.CopyKey{Bucket: rows.BucketOf(at), Kind: code}).Add(o.Bytes, uint64(o.DurationNS))
	if s.NoRaw {
		return
	}
	if len(o.CopyKind) == 0 && (s.Vendor != "" || o.CopyKindID <= 2) {
		kind = gpuflight.CopyKind(s.Vendor, o.CopyKindID)
	}
	t := &table.Memcpys
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.StartedAt.Append(b, at)
	t.DurationNS.Append(b, uint64(o.DurationNS))
	t.Bytes.Append(b, o.Bytes)
	t.CopyKind.AppendString(b, rows.Clip(kind))
	t.CopyKindID.Append(b, o.CopyKindID)
	t.StreamID.Append(b, o.StreamID)
	t.CorrID.Append(b, o.CorrID)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	f.Out.Saw(p.Env.ReceivedAt)
}

// syncEvent folds a synchronization_event as a row of today's batch.
func (f *folding) syncEvent(s *session, p *aggregate.Part, l *gpuflight.Line, o *gpuflight.Older) {
	stack, ok := f.Intern(p, gpuflight.FunctionDict, o.StackTrace)
	if !ok {
		f.noName(s, p, l)
		return
	}
	line, batch := f.asBatch(l, gpuflight.SynchronizationEventBatch, o.AtNS)
	row := batch.Add()
	row[gpuflight.SyncDurationNS], row[gpuflight.SyncType], row[gpuflight.SyncStreamID] = o.DurationNS, int64(o.SyncType), int64(o.StreamID)
	row[gpuflight.SyncEventID], row[gpuflight.SyncContextID] = int64(o.EventID), int64(o.ContextID)
	row[gpuflight.SyncCorrID], row[gpuflight.SyncFunctionID] = int64(o.CorrID), int64(stack)
	f.batch(s, p, line, 1, f.syncs)
}

// allocEvent folds a memory_alloc_event as a row of today's batch.
func (f *folding) allocEvent(s *session, p *aggregate.Part, l *gpuflight.Line, o *gpuflight.Older) {
	line, batch := f.asBatch(l, gpuflight.MemoryAllocEventBatch, o.AtNS)
	row := batch.Add()
	row[gpuflight.AllocDurationNS], row[gpuflight.AllocMemoryOp], row[gpuflight.AllocMemoryKind] = o.DurationNS, int64(o.MemoryOp),
		int64(o.MemoryKind)
	row[gpuflight.AllocAddress], row[gpuflight.AllocBytes] = int64(o.Address), int64(o.Bytes)
	row[gpuflight.AllocDeviceID], row[gpuflight.AllocStreamID], row[gpuflight.AllocCorrID] = int64(max(o.DeviceID, 0)), int64(o.StreamID),
		int64(o.CorrID)
	f.batch(s, p, line, 1, f.allocations)
}
