package gpuflight

import (
	"fmt"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/sink/table"
)

// Scope begin and end events. Begin types are 0 and 2 (continuation after a segment cut), end types 1 and 3.
const (
	scopeBegin             = 0
	scopeEnd               = 1
	scopeContinuationOpen  = 2
	scopeContinuationClose = 3
)

type scopeAccKey struct {
	name   uint32
	bucket int64
}

// scopeAcc adds up one row of scope_stats.
type scopeAcc struct {
	calls, total, low, high, unmatchedBegin, unmatchedEnd uint64
	child                                                 uint64 // time of direct children
	hist                                                  hist.Dense
}

const scopeOverflow = "the session has %d scopes open, or 256 of this id and name: does the program end its scopes?"

// scopeBatch folds one scope_event_batch.
func (f *folding) scopeBatch(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.Delta.SawEvent(at)
		kind := row[gpuflight.ScopeEventType]
		if kind < scopeBegin || kind > scopeContinuationClose {
			f.rejectRow(s, p, line, gpuflight.ReasonBadValue, "event_type is not one of 0 to 3", nil)
			continue
		}
		f.scopeHalf(s, p, line, scopeHalf{
			key: scopeKey{uint64(row[gpuflight.ScopeInstanceID]), uint32(row[gpuflight.ScopeNameID])}, at: at,
			origin: row[gpuflight.ScopeOriginalStartNS],
			depth:  rows.ClampU32(row[gpuflight.ScopeDepth]), repeat: rows.ClampU32(row[gpuflight.ScopeRepeat]),
			warmup: rows.ClampU32(row[gpuflight.ScopeWarmup]),
			begin:  kind == scopeBegin || kind == scopeContinuationOpen, continued: kind >= scopeContinuationOpen,
		})
	}
}

// scopeHalf joins one end of a scope to the other, or lets it wait.
func (f *folding) scopeHalf(s *session, p *aggregate.Part, line *gpuflight.Line, h scopeHalf) {
	o := &s.scopes
	if i := o.halves.match(&h); i >= 0 {
		other := o.take(i)
		if h.begin {
			f.writeScope(s, p, &h, &other)
		} else {
			f.writeScope(s, p, &other, &h)
		}
		return
	}
	most := maxOpenScopes
	if n := p.Env.OpenScopes; n > 0 {
		most = min(most, n)
	}
	if !o.halves.room(&h, most) {
		f.rejectRow(s, p, line, reject.ScopeOverflow, fmt.Sprintf(scopeOverflow, most), nil)
		return
	}
	o.wait(h)
}

// writeScope emits a matched pair.
func (f *folding) writeScope(s *session, p *aggregate.Part, begin, end *scopeHalf) {
	ns := uint64(end.at - begin.at)
	f.scopeRow(s, p.Env.ReceivedAt, p.Env.RetentionDays, begin, end)
	a := f.scopeAccOf(s, begin.key.name, rows.BucketOf(begin.at))
	a.calls++
	a.total += ns
	a.low, a.high = min(a.low, ns), max(a.high, ns)
	a.child += begin.childNS
	a.hist.Add(ns)
	f.keepScope(s, p.Now, begin.key, begin.depth, begin.at, end.at)
}

// unmatched emits a lone half.
func (f *folding) unmatched(s *session, h *scopeHalf) {
	a := f.scopeAccOf(s, h.key.name, rows.BucketOf(h.at))
	if h.begin {
		f.scopeRow(s, s.LastReceived, s.RetentionDays, h, nil)
		a.unmatchedBegin++
	} else {
		f.scopeRow(s, s.LastReceived, s.RetentionDays, nil, h)
		a.unmatchedEnd++
	}
}

// scopeRow appends a raw row. One of the ends may be nil.
func (f *folding) scopeRow(s *session, receivedAt int64, days uint16, begin, end *scopeHalf) {
	f.Touch(s.Session)
	if s.NoRaw {
		return
	}
	h, until, matched := begin, int64(0), uint8(0)
	switch {
	case begin == nil:
		h, until = end, end.at
	case end == nil:
		until = begin.at
	default:
		until, matched = end.at, 1
	}
	t := &table.Scopes
	b := f.Out.Batch(t.Table, rows.RawDayPartition(receivedAt, days))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.InstanceID.Append(b, h.key.wire())
	t.Name.AppendString(b, s.Name(gpuflight.ScopeNameDict, h.key.name))
	t.NameID.Append(b, h.key.name)
	path, known := s.olderPath(h.key)
	if !known {
		path = s.scopePath(h.key.name, h.depth, h.at, until)
	}
	t.Path.AppendString(b, path)
	t.Depth.Append(b, h.depth)
	t.StartedAt.Append(b, h.at)
	t.DurationNS.Append(b, uint64(until-h.at))
	t.Matched.Append(b, matched)
	t.Repeat.Append(b, h.repeat)
	t.Warmup.Append(b, h.warmup)
	t.Continued.Append(b, rows.Flag(begin != nil && begin.continued))
	t.Cut.Append(b, rows.Flag(end != nil && end.continued))
	t.ReceivedAt.Append(b, receivedAt)
	f.Out.Saw(receivedAt)
}

func (f *folding) scopeAccOf(s *session, name uint32, bucket int64) *scopeAcc {
	key := scopeAccKey{name, bucket}
	a := s.scopeAcc[key]
	if a == nil {
		if s.scopeAcc == nil {
			s.scopeAcc = map[scopeAccKey]*scopeAcc{}
		}
		a = &scopeAcc{low: ^uint64(0)}
		s.scopeAcc[key] = a
	}
	return a
}

// closeScopes counts what can be counted and gives up on every waiting half, because the session is over.
func (f *folding) closeScopes(s *session) {
	o := &s.scopes
	f.countChildren(s, 1<<62)
	for _, h := range o.halves.sorted() {
		f.unmatched(s, &h)
	}
	o.dirty = o.dirty || o.halves.count > 0
	o.halves, o.levels = scopeHalves{}, nil
	o.kept.clear()
}

// flushScopeStats writes the session's rollup rows of scopes.
func (f *folding) flushScopeStats(s *session) {
	if len(s.scopeAcc) == 0 {
		return
	}
	t := &table.ScopeStats
	b := f.Out.Batch(t.Table, s.FactPartition())
	for key, a := range s.scopeAcc {
		name, id := s.SumName(gpuflight.ScopeNameDict, key.name)
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.Bucket.Append(b, key.bucket)
		t.BucketS.Append(b, 60)
		t.NameID.Append(b, id)
		t.Scope.AppendString(b, name)
		t.Calls.Append(b, a.calls)
		t.TotalNS.Append(b, a.total)
		t.MinNS.Append(b, a.low)
		t.MaxNS.Append(b, a.high)
		t.DurationHist.Append(b, &a.hist)
		t.UnmatchedBegin.Append(b, a.unmatchedBegin)
		t.UnmatchedEnd.Append(b, a.unmatchedEnd)
		t.ChildNS.Append(b, a.child)
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	clear(s.scopeAcc)
}
