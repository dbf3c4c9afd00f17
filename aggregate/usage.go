package aggregate

import (
	"cmp"
	"slices"

	"github.com/warpline/warpline/sink/table"
)

// The books: every event of a part is counted as received once, and then as exactly one of stored, rejected or duplicate.

func (f *folder) usageOf(p *part) *usageAcc {
	key := usageKey{tenant: p.env.Tenant, source: p.env.Source, day: dayOf(p.env.ReceivedAt), days: p.env.RollupDays}
	u := f.usage[key]
	if u == nil {
		u = &usageAcc{}
		f.usage[key] = u
	}
	return u
}

// received counts n events as received.
func (p *part) received(n uint64) {
	p.s.delta.events += n
	p.usage.events += n
}

// stored counts n events as stored.
func (p *part) stored(n uint64) {
	p.usage.stored += n
}

// duplicate counts n events as seen before.
func (p *part) duplicate(n uint64) {
	p.s.delta.duplicates += n
	p.s.delta.events -= min(n, p.s.delta.events)
	p.usage.duplicates += n
}

// repeats counts what the gateway recognised as sent again.
func (f *folder) repeats(p *part) {
	u := f.usageOf(p)
	u.events += p.env.Events
	u.duplicates += p.env.Events
}

func dayOf(ns int64) int32 { return table.DayOf(ns) }

func (s *session) receivedDay() int32 { return dayOf(s.lastReceived) }

// factPartition is the partition of the session's rollups and facts in the open chunk.
func (s *session) factPartition() table.Partition {
	return factPartition(s.lastReceived, s.rollupDays)
}

// flushUsage writes the chunk's usage rows. rawBytes is the size of all rows of the chunk; tenants share it by their events.
func (f *folder) flushUsage(rawBytes int) {
	if len(f.usage) == 0 {
		return
	}
	keys := make([]usageKey, 0, len(f.usage))
	var total uint64
	for k, u := range f.usage {
		keys = append(keys, k)
		total += u.events
	}
	slices.SortFunc(keys, func(a, b usageKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.source, b.source), cmp.Compare(a.day, b.day), cmp.Compare(a.days, b.days))
	})
	t := &table.Usage
	for _, key := range keys {
		u := f.usage[key]
		b := f.out.batch(t.Table, table.Partition{Day: table.MonthOf(key.day), RetentionDays: key.days})
		t.Tenant.AppendString(b, key.tenant)
		t.Day.Append(b, key.day)
		t.Source.AppendString(b, key.source)
		t.Events.Append(b, u.events)
		t.Bytes.Append(b, u.bytes)
		t.StoredBytes.Append(b, uint64(float64(rawBytes)*float64(u.events)/float64(max(total, 1))))
		t.Rejected.Append(b, u.rejected)
		t.Duplicates.Append(b, u.duplicates)
		t.ReceivedDay.Append(b, key.day)
		f.metrics.events.WithLabelValues(key.tenant, "stored").Add(float64(u.stored))
		f.metrics.events.WithLabelValues(key.tenant, "rejected").Add(float64(u.rejected))
		f.metrics.events.WithLabelValues(key.tenant, "duplicate").Add(float64(u.duplicates))
	}
	clear(f.usage)
}
