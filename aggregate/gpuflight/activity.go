package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// memset folds a memset_event line.
func (f *folding) memset(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.Memset(l.Raw)
	if err != nil {
		return err
	}
	start := f.activityTime(s, p, e.StartNS)
	s.Delta.SawEvent(start)
	t, h := &table.Memsets, &f.memsetHead
	b := f.rawHead(h, s, p, t.Table, t.Head)
	if b == nil {
		return nil
	}
	t.StartedAt.Append(b, start)
	t.DurationNS.Append(b, uint64(e.EndNS-e.StartNS))
	t.Bytes.Append(b, e.Bytes)
	h.append(0, t.Name, e.Name)
	h.append(1, t.Platform, e.Platform)
	t.DeviceID.Append(b, e.DeviceID)
	t.StreamID.Append(b, e.StreamID)
	t.CorrID.Append(b, e.CorrID)
	h.append(2, t.Scope, scopePath(e.UserScope))
	t.ScopeDepth.Append(b, e.ScopeDepth)
	t.StackTrace.AppendBytes(b, e.StackTrace)
	t.APIStartNS.Append(b, e.APIStartNS)
	t.APIExitNS.Append(b, e.APIExitNS)
	t.PID.Append(b, e.PID)
	h.append(3, t.App, e.App)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	return nil
}

// marker folds an nvtx_marker_event line.
func (f *folding) marker(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.Marker(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.StartNS)
	t, h := &table.Markers, &f.markerHead
	b := f.rawHead(h, s, p, t.Table, t.Head)
	if b == nil {
		return nil
	}
	t.StartedAt.Append(b, e.StartNS)
	t.DurationNS.Append(b, e.DurationNS)
	t.Name.AppendBytes(b, e.Name)
	h.append(0, t.Domain, e.Domain)
	t.MarkerID.Append(b, e.MarkerID)
	t.PID.Append(b, e.PID)
	h.append(1, t.App, e.App)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	return nil
}

// syncs folds one synchronization_event_batch.
func (f *folding) syncs(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.Syncs
	b := f.Out.Batch(t.Table, p.Raw)
	tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	var key activity.SyncKey
	var acc *activity.SyncAcc
	var kindAt int32
	kind := -1 // whose index kindAt is
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		at = f.activityTime(s, p, at)
		s.Delta.SawEvent(at)
		duration, code := uint64(row[gpuflight.SyncDurationNS]), uint8(row[gpuflight.SyncType])
		k := activity.SyncKey{Bucket: rows.BucketOf(at), Function: uint32(row[gpuflight.SyncFunctionID]), Kind: code}
		if acc == nil || k != key {
			key, acc = k, s.minutes.Sync(k)
		}
		acc.Add(duration)
		if s.NoRaw {
			continue
		}
		if int(code) != kind {
			kind, kindAt = int(code), t.SyncType.Index(b, gpuflight.SyncTypeName(code))
		}
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, session)
		t.StartedAt.Append(b, at)
		t.DurationNS.Append(b, duration)
		t.SyncType.Append(b, kindAt)
		t.SyncTypeID.Append(b, code)
		t.StreamID.Append(b, uint64(row[gpuflight.SyncStreamID]))
		t.EventID.Append(b, uint32(row[gpuflight.SyncEventID]))
		t.ContextID.Append(b, uint32(row[gpuflight.SyncContextID]))
		t.CorrID.Append(b, uint32(row[gpuflight.SyncCorrID]))
		t.FunctionID.Append(b, uint32(row[gpuflight.SyncFunctionID]))
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}

// allocations folds one memory_alloc_event_batch.
func (f *folding) allocations(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.Allocations
	b := f.Out.Batch(t.Table, p.Raw)
	tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	op, kind := -1, -1
	var opAt, kindAt int32
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		at = f.activityTime(s, p, at)
		s.Delta.SawEvent(at)
		if s.NoRaw {
			continue
		}
		if code := int(row[gpuflight.AllocMemoryOp]); code != op {
			op, opAt = code, t.MemoryOp.Index(b, gpuflight.MemoryOpName(uint8(code)))
		}
		if code := int(row[gpuflight.AllocMemoryKind]); code != kind {
			kind, kindAt = code, t.MemoryKind.Index(b, gpuflight.MemoryKindName(uint8(code)))
		}
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, session)
		t.StartedAt.Append(b, at)
		t.DurationNS.Append(b, uint64(row[gpuflight.AllocDurationNS]))
		t.MemoryOp.Append(b, opAt)
		t.MemoryOpID.Append(b, uint8(op))
		t.MemoryKind.Append(b, kindAt)
		t.MemoryKindID.Append(b, uint8(kind))
		t.Address.Append(b, uint64(row[gpuflight.AllocAddress]))
		t.Bytes.Append(b, uint64(row[gpuflight.AllocBytes]))
		t.DeviceID.Append(b, int32(row[gpuflight.AllocDeviceID]))
		t.StreamID.Append(b, uint64(row[gpuflight.AllocStreamID]))
		t.CorrID.Append(b, uint32(row[gpuflight.AllocCorrID]))
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}

// pmSamples folds one pm_sample_batch.
func (f *folding) pmSamples(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.PMSamples
	b := f.Out.Batch(t.Table, p.Raw)
	tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	var recent [16]struct { // rows go through a few metrics in turn
		key activity.PMKey
		acc *activity.PMAcc
	}
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.Delta.SawEvent(at)
		value := batch.Float(r, gpuflight.PMValue)
		key := activity.PMKey{Bucket: rows.BucketOf(at), Device: uint32(row[gpuflight.PMDeviceID]), Metric: uint32(row[gpuflight.PMMetricID]),
			Scope: uint32(row[gpuflight.PMScopeNameID])}
		last := &recent[key.Metric%uint32(len(recent))]
		if last.acc == nil || last.key != key {
			last.key, last.acc = key, s.minutes.PM(key)
		}
		last.acc.Add(value)
		if s.NoRaw {
			continue
		}
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, session)
		t.At.Append(b, at)
		t.DeviceID.Append(b, int32(key.Device))
		t.MetricID.Append(b, key.Metric)
		t.Value.Append(b, value)
		t.SampleIndex.Append(b, uint64(row[gpuflight.PMSampleIndex]))
		t.BatchID.Append(b, line.BatchID)
		t.ScopeNameID.Append(b, key.Scope)
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}
