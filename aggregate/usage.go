package aggregate

import (
	"cmp"
	"slices"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// The books: every event of a part is counted as received once, and then as exactly one of stored, rejected or duplicate.

// Counted is what the part has added to the usage of its tenant so far.
func (p *Part) Counted() Counts {
	return Counts{
		Events: p.usage.Events - p.before.Events, bytes: p.usage.bytes - p.before.bytes, Stored: p.usage.Stored - p.before.Stored,
		rejected: p.usage.rejected - p.before.rejected, Duplicates: p.usage.Duplicates - p.before.Duplicates,
	}
}

func (f *Fold) usageOf(p *Part) *Counts {
	key := usageKey{tenant: p.Env.Tenant, source: p.Env.Source, day: rows.DayOf(p.Env.ReceivedAt), days: p.Env.RollupDays}
	u := f.usage[key]
	if u == nil {
		u = &Counts{}
		f.usage[key] = u
	}
	return u
}

// Received counts n events as received.
func (p *Part) Received(n uint64) {
	p.Session.Delta.events += n
	p.usage.Events += n
}

// Stored counts n events as stored.
func (p *Part) Stored(n uint64) {
	p.usage.Stored += n
}

// Duplicate counts n events as seen before.
func (p *Part) Duplicate(n uint64) {
	p.Session.Delta.duplicates += n
	p.Session.Delta.events -= min(n, p.Session.Delta.events)
	p.usage.Duplicates += n
}

// repeats counts what the gateway recognised as sent again.
func (f *Fold) repeats(p *Part) {
	u := f.usageOf(p)
	u.Events += p.Env.Events
	u.Duplicates += p.Env.Events
}

// stored counts what a gateway says that it stored, and lost what of an upload is lost of that. What was received before a tenant's purge
// is counted nowhere: a row of usage would belong to the tenant again.
func (f *Fold) stored(d *stream.Door) {
	for i := range d.Counts {
		if c := &d.Counts[i]; c.Events > 0 || c.Bytes > 0 {
			if u := f.usageAt(d, c); u != nil {
				u.doorEvents += c.Events
				u.doorBytes += c.Bytes
			}
		}
	}
}

func (f *Fold) lost(d *stream.Door, c *stream.DoorCount, events uint64) {
	if u := f.usageAt(d, c); u != nil {
		u.lost += events
	}
}

// usageAt returns the usage that a gateway's count is of, nil when it may be from before a purge.
func (f *Fold) usageAt(d *stream.Door, c *stream.DoorCount) *Counts {
	if t, ok := f.deletions[deletionKey{tenant: c.Tenant}]; ok && d.Since <= t.at {
		return nil
	}
	return f.usageOf(&Part{Env: stream.Envelope{Tenant: c.Tenant, Source: c.Source, ReceivedAt: int64(c.Day) * rows.NanosPerDay,
		RollupDays: c.RollupDays}})
}

// administered writes the row of a change that an administrator made. A row that comes twice is one in the view.
func (f *Fold) administered(p *Part) {
	e, a := &p.Env, p.Env.Admin
	table.AdminLog.Append(f.Out.Batch(table.AdminLog.Table, rows.FactDayPartition(e.ReceivedAt, e.RollupDays)), &table.AdminLogRow{
		Tenant: e.Tenant, At: a.At, EntryID: a.ID, Who: a.Who, Action: a.Action, Object: a.Object, Change: a.Change, Outcome: a.Outcome,
		ReceivedDay: rows.DayOf(e.ReceivedAt),
	})
}

// ReceivedDay is the day on which the newest part of the session was received.
func (s *Session) ReceivedDay() int32 { return rows.DayOf(s.LastReceived) }

// FactPartition is the partition of the session's rollups and facts in the open chunk.
func (s *Session) FactPartition() table.DayPartition {
	return rows.FactDayPartition(s.LastReceived, s.RollupDays)
}

// flushUsage writes the chunk's usage rows. rawBytes is the size of all rows of the chunk; tenants share it by their events.
func (f *Fold) flushUsage(rawBytes int) {
	if len(f.usage) == 0 {
		return
	}
	keys := make([]usageKey, 0, len(f.usage))
	var total uint64
	for k, u := range f.usage {
		keys = append(keys, k)
		total += u.Events
	}
	slices.SortFunc(keys, func(a, b usageKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.source, b.source), cmp.Compare(a.day, b.day), cmp.Compare(a.days, b.days))
	})
	for _, key := range keys {
		u := f.usage[key]
		b := f.Out.Batch(table.Usage.Table, table.DayPartition{Day: table.MonthOf(key.day), RetentionDays: key.days})
		table.Usage.Append(b, &table.UsageRow{
			Tenant:      key.tenant,
			Day:         key.day,
			Source:      key.source,
			Events:      u.Events,
			Bytes:       u.bytes,
			StoredBytes: uint64(float64(rawBytes) * float64(u.Events) / float64(max(total, 1))),
			Rejected:    u.rejected,
			Duplicates:  u.Duplicates,
			DoorEvents:  u.doorEvents,
			DoorBytes:   u.doorBytes,
			LostEvents:  u.lost,
			ReceivedDay: key.day,
		})
		f.metrics.events.WithLabelValues(key.tenant, "stored").Add(float64(u.Stored))
		f.metrics.events.WithLabelValues(key.tenant, "rejected").Add(float64(u.rejected))
		f.metrics.events.WithLabelValues(key.tenant, "duplicate").Add(float64(u.Duplicates))
	}
	clear(f.usage)
}

// CountUnknown counts columns and keys that this version does not know, CountBad fields whose value did not fit.
func (f *Fold) CountUnknown(n int) { f.metrics.unknownColumns.Add(float64(n)) }

// CountBad is described at CountUnknown.
func (f *Fold) CountBad(n int) { f.metrics.badFields.Add(float64(n)) }

// Rejected is how many events were refused.
func (c Counts) Rejected() uint64 { return c.rejected }
