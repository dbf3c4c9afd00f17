package aggregate

import (
	"cmp"
	"slices"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
)

// Scope begin and end events. Begin types are 0 and 2 (continuation after a segment cut), end types 1 and 3.
const (
	scopeBegin             = 0
	scopeEnd               = 1
	scopeContinuationOpen  = 2
	scopeContinuationClose = 3
)

// scopeKey pairs a begin with its end. The instance id alone collides: user scopes and injected scopes count separately.
type scopeKey struct {
	instance uint64
	name     uint32
}

// scopeEvent is one half of a pair that waits for the other.
type scopeEvent struct {
	at             int64
	depth          uint32
	repeat, warmup uint32
	path           string // of a begin, as far as its parents were open when it came
}

// openScopes are the halves that wait. Ends wait too: windows of a session may be folded in any order.
type openScopes struct {
	begins map[scopeKey][]scopeEvent
	ends   map[scopeKey][]scopeEvent
	count  int
	// byDepth is the latest begin at each depth, for paths.
	byDepth []scopeKey
	dirty   bool
}

type scopeAccKey struct {
	name   uint32
	bucket int64
}

// scopeAcc adds up one row of scope_stats.
type scopeAcc struct {
	calls, total, low, high, unmatchedBegin, unmatchedEnd uint64
	hist                                                  hist.Dense
}

const scopeOverflow = "the session has 8192 scopes open: does the program end its scopes?"

// scopeBatch folds one scope_event_batch.
func (f *folder) scopeBatch(s *session, p *part, line *gpuflight.Line) {
	batch := line.Batch
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.delta.sawEvent(at)
		key := scopeKey{uint64(row[gpuflight.ScopeInstanceID]), uint32(row[gpuflight.ScopeNameID])}
		e := scopeEvent{at: at, depth: clampU32(row[gpuflight.ScopeDepth]), repeat: clampU32(row[gpuflight.ScopeRepeat]), warmup: clampU32(row[gpuflight.ScopeWarmup])}
		switch row[gpuflight.ScopeEventType] {
		case scopeBegin, scopeContinuationOpen:
			f.beginScope(s, p, line, key, e)
		case scopeEnd, scopeContinuationClose:
			f.endScope(s, p, line, key, e)
		default:
			f.rejectRow(s, p, line, gpuflight.ReasonBadValue, "event_type is none of 0 to 3", nil)
		}
	}
}

func (f *folder) beginScope(s *session, p *part, line *gpuflight.Line, key scopeKey, begin scopeEvent) {
	o := &s.scopes
	begin.path = s.scopePath(key.name, begin.depth, begin.at)
	if ends := o.ends[key]; len(ends) > 0 { // the end was folded first
		end := ends[0]
		o.pop(o.ends, key)
		f.writeScope(s, p.env.ReceivedAt, p.env.RetentionDays, key, &begin, &end)
		return
	}
	if o.count >= maxOpenScopes {
		f.rejectRow(s, p, line, gpuflight.ReasonScopeOverflow, scopeOverflow, nil)
		return
	}
	if o.begins == nil {
		o.begins = map[scopeKey][]scopeEvent{}
	}
	o.push(o.begins, key, begin)
	if d := int(begin.depth); d < maxPathDepth {
		for len(o.byDepth) <= d {
			o.byDepth = append(o.byDepth, scopeKey{})
		}
		o.byDepth[d] = key
	}
}

func (f *folder) endScope(s *session, p *part, line *gpuflight.Line, key scopeKey, end scopeEvent) {
	o := &s.scopes
	if begins := o.begins[key]; len(begins) > 0 {
		begin := begins[0]
		o.pop(o.begins, key)
		f.writeScope(s, p.env.ReceivedAt, p.env.RetentionDays, key, &begin, &end)
		return
	}
	if o.count >= maxOpenScopes {
		f.rejectRow(s, p, line, gpuflight.ReasonScopeOverflow, scopeOverflow, nil)
		return
	}
	if o.ends == nil {
		o.ends = map[scopeKey][]scopeEvent{}
	}
	o.push(o.ends, key, end)
}

func (o *openScopes) push(m map[scopeKey][]scopeEvent, key scopeKey, e scopeEvent) {
	m[key] = append(m[key], e)
	o.count++
	o.dirty = true
}

func (o *openScopes) pop(m map[scopeKey][]scopeEvent, key scopeKey) {
	if rest := m[key][1:]; len(rest) > 0 {
		m[key] = rest
	} else {
		delete(m, key)
	}
	o.count--
	o.dirty = true
}

// maxPathDepth bounds how deep paths are followed; a scope below it is named by its leaf alone.
const maxPathDepth = 64

// scopePath joins the names of the open scopes above with the leaf's. A parent that is not open yet (its window comes later) or has
// no name yet is left out: the path is for people, rollups go by the leaf.
func (s *session) scopePath(name, depth uint32, at int64) string {
	leaf := clip(s.name(gpuflight.ScopeNameDict, name))
	if depth == 0 || depth >= maxPathDepth || int(depth) > len(s.scopes.byDepth) {
		return leaf
	}
	parent := s.scopes.byDepth[depth-1]
	open := s.scopes.begins[parent]
	if len(open) == 0 || open[len(open)-1].at > at {
		return leaf
	}
	if up := open[len(open)-1].path; up != "" && len(up)+len(leaf) < maxTextBytes {
		return up + "|" + leaf
	}
	return leaf
}

// writeScope emits a matched pair.
func (f *folder) writeScope(s *session, receivedAt int64, days uint16, key scopeKey, begin, end *scopeEvent) {
	if end.at < begin.at {
		// Clocks of one process do not run backwards: the ids collided. Two lone halves say so better than a negative duration.
		f.unmatched(s, receivedAt, days, key, begin, nil)
		f.unmatched(s, receivedAt, days, key, nil, end)
		return
	}
	ns := uint64(end.at - begin.at)
	f.scopeRow(s, receivedAt, days, key, begin, begin.at, ns, 1)
	a := f.scopeAccOf(s, key.name, bucketOf(begin.at))
	a.calls++
	a.total += ns
	a.low, a.high = min(a.low, ns), max(a.high, ns)
	a.hist.Add(ns)
}

// unmatched emits a lone half; exactly one of begin and end is set.
func (f *folder) unmatched(s *session, receivedAt int64, days uint16, key scopeKey, begin, end *scopeEvent) {
	e := cmp.Or(begin, end)
	f.scopeRow(s, receivedAt, days, key, e, e.at, 0, 0)
	a := f.scopeAccOf(s, key.name, bucketOf(e.at))
	if begin != nil {
		a.unmatchedBegin++
	} else {
		a.unmatchedEnd++
	}
}

func (f *folder) scopeRow(s *session, receivedAt int64, days uint16, key scopeKey, e *scopeEvent, from int64, ns uint64, matched uint8) {
	f.touch(s)
	if s.noRaw {
		return
	}
	t := &table.Scopes
	b := f.out.batch(t.Table, rawPartition(receivedAt, days))
	name := s.name(gpuflight.ScopeNameDict, key.name)
	path := e.path
	if path == "" {
		path = name
	}
	t.Tenant.AppendString(b, s.key.tenant)
	t.SessionID.AppendString(b, s.key.id)
	t.InstanceID.Append(b, key.wire())
	t.Name.AppendString(b, name)
	t.NameID.Append(b, key.name)
	t.Path.AppendString(b, path)
	t.Depth.Append(b, e.depth)
	t.StartedAt.Append(b, from)
	t.DurationNS.Append(b, ns)
	t.Matched.Append(b, matched)
	t.Repeat.Append(b, e.repeat)
	t.Warmup.Append(b, e.warmup)
	t.ReceivedAt.Append(b, receivedAt)
	f.out.saw(receivedAt)
}

func (f *folder) scopeAccOf(s *session, name uint32, bucket int64) *scopeAcc {
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

// closeScopes gives up on every waiting half: the session is over.
func (f *folder) closeScopes(s *session) {
	o := &s.scopes
	for _, key := range sortedScopes(o.begins) {
		for _, e := range o.begins[key] {
			f.unmatched(s, s.lastReceived, s.retentionDays, key, &e, nil)
		}
	}
	for _, key := range sortedScopes(o.ends) {
		for _, e := range o.ends[key] {
			f.unmatched(s, s.lastReceived, s.retentionDays, key, nil, &e)
		}
	}
	o.dirty = o.dirty || o.count > 0
	o.begins, o.ends, o.byDepth, o.count = nil, nil, nil, 0
}

func sortedScopes(m map[scopeKey][]scopeEvent) []scopeKey {
	keys := make([]scopeKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b scopeKey) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.name, b.name))
	})
	return keys
}

// flushScopeStats writes the session's rollup rows of scopes.
func (f *folder) flushScopeStats(s *session) {
	if len(s.scopeAcc) == 0 {
		return
	}
	t := &table.ScopeStats
	b := f.out.batch(t.Table, f.factPartition(s))
	for key, a := range s.scopeAcc {
		t.Tenant.AppendString(b, s.key.tenant)
		t.SessionID.AppendString(b, s.key.id)
		t.Bucket.Append(b, key.bucket)
		t.BucketS.Append(b, 60)
		t.NameID.Append(b, key.name)
		t.Scope.AppendString(b, s.name(gpuflight.ScopeNameDict, key.name))
		t.Calls.Append(b, a.calls)
		t.TotalNS.Append(b, a.total)
		t.MinNS.Append(b, a.low)
		t.MaxNS.Append(b, a.high)
		t.DurationHist.Append(b, &a.hist)
		t.UnmatchedBegin.Append(b, a.unmatchedBegin)
		t.UnmatchedEnd.Append(b, a.unmatchedEnd)
		t.ReceivedDay.Append(b, s.receivedDay())
	}
	clear(s.scopeAcc)
}
