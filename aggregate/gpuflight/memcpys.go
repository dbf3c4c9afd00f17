package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// memcpys folds one memcpy_event_batch.
func (f *folding) memcpys(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.Memcpys
	b := f.Out.Batch(t.Table, p.Raw)
	tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	kind, kindAt := uint32(1<<32-1), int32(0)
	var key activity.CopyKey
	var acc *activity.CopyAcc
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		at = f.activityTime(s, p, at)
		s.Delta.SawEvent(at)
		minute := activity.CopyKey{Bucket: rows.BucketOf(at), Kind: min(uint32(row[gpuflight.MemcpyCopyKind]), table.NamedCopy-1)}
		if acc == nil || minute != key {
			key, acc = minute, s.minutes.Copy(minute)
		}
		acc.Add(uint64(row[gpuflight.MemcpyBytes]), uint64(row[gpuflight.MemcpyDurationNS]))
		if s.NoRaw {
			continue
		}
		if k := uint32(row[gpuflight.MemcpyCopyKind]); k != kind || r == 0 {
			kind = k
			// What a code means depends on the vendor, and job_start may come later: '' is resolved by the view.
			text := ""
			if s.Vendor != "" || k <= 2 {
				text = gpuflight.CopyKind(s.Vendor, k)
			}
			kindAt = t.CopyKind.Index(b, text)
		}
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, session)
		t.StartedAt.Append(b, at)
		t.DurationNS.Append(b, uint64(row[gpuflight.MemcpyDurationNS]))
		t.Bytes.Append(b, uint64(row[gpuflight.MemcpyBytes]))
		t.CopyKind.Append(b, kindAt)
		t.CopyKindID.Append(b, kind)
		t.StreamID.Append(b, uint64(row[gpuflight.MemcpyStreamID]))
		t.CorrID.Append(b, uint32(row[gpuflight.MemcpyCorrID]))
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}
